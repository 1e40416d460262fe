//! Stochastic shared embeddings: the row of an embedding table that replaces row j during one step
//! (Wu, Li, Hsieh & Sharpnack 2019, paper 001).
//!
//! SSE-SE     p(j,k) = p0 / (N - 1) for k != j,  p(j,j) = 1 - p0                          (eq. 5)
//! SSE-Graph  p(j,k) / p(j,l) = rho for neighbors k and others l, p(j,j) = 1 - p0        (eq. 3)
//!            so p(j,k) = rho w_jk c and p(j,l) = c with c = p0 / (rho W_j + N - 1 - n_j),
//!            n_j neighbors of total weight W_j (w = 1 unless edges have weights)
//!
//! A step looks up the rows of its samples in sequence. The number of rows that stay between two rows that move
//! is geometric, so the cost is that of the moves: zero at p0 = 0, negligible at 0.01. A move goes to a
//! neighbor or to another row. A neighbor is drawn from an alias table of the edges; in a graph of shared
//! groups, from a group of size s with probability proportional to s - 1, as one of its other members, accepted
//! with probability 1 / (groups the two share), which makes every neighbor equally likely without a list of
//! edges. Another row is the r-th that is missing among the sorted neighbors, or, with groups, a uniform row
//! that is redrawn while it is a neighbor.
//!
//! Isolated rows follow SSE-SE; rows adjacent to all others always move to a neighbor; where no other row is
//! allowed (N = 1, or rho = 0 and adjacent to all others) the row stays.
//!
//! Tables move independently of each other (eq. 4): one `Transition` each.

use std::collections::HashMap;

use veridical_core::elementary::ln;
use veridical_core::{AliasLists, Draws, Place, Seed, Stream, threshold};
use veridical_data::{Graph, Lists};

use crate::{Error, Result};

/// The random replacement (SSE) of the rows of one table.
///
/// ```
/// use veridical_embed::Transition;
///
/// // SSE-SE: one of the 4 other rows replaces row 2 with probability 0.2.
/// let transition = Transition::new("item", 5, 0.2, 1.0, None)?;
/// assert!((transition.probability(2, 2) - 0.8).abs() < 1e-9);
/// assert!((transition.probability(2, 0) - 0.05).abs() < 1e-9);
/// # Ok::<(), veridical_embed::Error>(())
/// ```
#[derive(Debug)]
pub struct Transition<'a> {
    n: u32,
    p0: f64,
    rho: f64,
    graph: Option<Neighbors<'a>>,
}

#[derive(Debug)]
enum Neighbors<'a> {
    Edges {
        lists: &'a Lists,
        /// The weighted draw and the total weight of every row, if edges have weights.
        weighted: Option<(AliasLists, Vec<f64>)>,
    },
    Groups {
        of: &'a Lists,
        members: &'a Lists,
        /// n_j.
        counts: Vec<u32>,
    },
}

impl<'a> Transition<'a> {
    /// Makes the transition of a table of `n` rows. `table` names the flags in errors: `--sse-TABLE`, `--rho-TABLE`.
    ///
    /// # Errors
    /// [`veridical_core::Error::Unfit`] for p0 outside [0, 1], a negative rho, or a graph with another number of nodes.
    pub fn new(table: &str, n: usize, p0: f64, rho: f64, graph: Option<&'a Graph>) -> Result<Self> {
        if !(0.0..=1.0).contains(&p0) {
            return Err(Error::setting(format!("sse-{table}"), "from 0 to 1", p0));
        }
        if !(rho >= 0.0 && rho.is_finite()) {
            return Err(Error::setting(format!("rho-{table}"), "0 or above", rho));
        }
        let n = u32::try_from(n)
            .map_err(|_| Error::unfit(format!("table `{table}` has {n} rows; at most 2^32 - 1")))?;
        let wrong = |rows: usize| {
            let what = format!("the graph of table `{table}` has {rows} nodes for {n} rows");
            Err(Error::unfit(what))
        };
        // A transition that never happens needs no graph.
        let graph = match graph.filter(|_| p0 > 0.0) {
            None => None,
            Some(Graph::Edges { neighbors, .. }) if neighbors.len() != n as usize => {
                return wrong(neighbors.len());
            }
            Some(Graph::Groups { of, .. }) if of.len() != n as usize => return wrong(of.len()),
            Some(Graph::Edges { neighbors, weights }) => {
                let ranges = || (0..neighbors.len()).map(|j| neighbors.range(j));
                let total = |weights: &[f32]| {
                    let sum = |list: std::ops::Range<usize>| {
                        weights[list].iter().map(|&w| f64::from(w)).sum()
                    };
                    ranges().map(sum).collect::<Vec<f64>>()
                };
                let weighted = match weights {
                    None => None,
                    Some(weights) => match AliasLists::new(weights, ranges()) {
                        Some(lists) => Some((lists, total(weights))),
                        None => {
                            let what = "edge weights must be positive numbers";
                            return Err(Error::unfit(what));
                        }
                    },
                };
                Some(Neighbors::Edges { lists: neighbors, weighted })
            }
            Some(Graph::Groups { of, members }) => {
                Some(Neighbors::Groups { of, members, counts: union_sizes(of, members) })
            }
        };
        Ok(Self { n, p0, rho, graph })
    }

    /// Returns a mover that replaces a sequence of rows, with the random words of one place.
    pub fn mover(&self, place: Place) -> Mover<'_> {
        let mut mover = Mover { transition: self, draws: place.draws(), staying: 0 };
        mover.staying = mover.gap();
        mover
    }

    fn moved(&self, j: u32, draws: &mut Draws) -> u32 {
        let Some(graph) = &self.graph else {
            return if self.n == 1 { j } else { skip(draws.below(self.n - 1), j) };
        };
        let (neighbors, weight) = graph.degree(j);
        let others = self.n - 1 - neighbors;
        let near = self.rho * weight;
        let mass = near + f64::from(others);
        if mass <= 0.0 {
            return j;
        }
        let is_near = others == 0 || draws.happens(threshold(near / mass));
        if is_near { graph.neighbor(j, draws) } else { graph.other(j, others, self.n, draws) }
    }

    /// Returns p(j, k), for tests and plots, in O(degree).
    pub fn probability(&self, j: u32, k: u32) -> f64 {
        let p0 = self.p0;
        let (degree, weight) = self.graph.as_ref().map_or((0, 0.0), |graph| graph.degree(j));
        let mass = self.rho * weight + f64::from(self.n - 1 - degree);
        match (j == k, mass > 0.0) {
            (true, false) => 1.0,
            (true, true) => 1.0 - p0,
            (false, false) => 0.0,
            (false, true) => {
                let near = self.graph.as_ref().and_then(|graph| graph.weight(j, k));
                p0 * near.map_or(1.0, |w| self.rho * w) / mass
            }
        }
    }
}

/// The transitions of a method's tables, each with its own random stream (eq. 4).
#[derive(Debug)]
pub(crate) struct Moves<'a, const N: usize> {
    transitions: [Transition<'a>; N],
    streams: [Stream; N],
}

impl<'a, const N: usize> Moves<'a, N> {
    pub fn new(seed: Seed, transitions: [Transition<'a>; N]) -> Self {
        let streams = std::array::from_fn(|table| Stream::new(seed, &format!("sse/{table}")));
        Self { transitions, streams }
    }

    /// The movers for the block of samples of an epoch that begins at `start`.
    pub fn movers(&self, epoch: u32, start: u64) -> [Mover<'_>; N] {
        std::array::from_fn(|t| self.transitions[t].mover(self.streams[t].at(epoch, start)))
    }
}

/// The replacements of a sequence of rows, as one thread looks them up.
#[derive(Debug)]
pub struct Mover<'a> {
    transition: &'a Transition<'a>,
    draws: Draws,
    /// The number of rows that stay before the next one moves.
    staying: u64,
}

impl Mover<'_> {
    /// Returns the row that replaces row `j`.
    #[inline(always)]
    pub fn draw(&mut self, j: u32) -> u32 {
        if self.staying > 0 {
            self.staying -= 1;
            j
        } else {
            self.next_move(j)
        }
    }

    #[cold]
    #[inline(never)]
    fn next_move(&mut self, j: u32) -> u32 {
        self.staying = self.gap();
        self.transition.moved(j, &mut self.draws)
    }

    /// The number of rows that stay before one moves: floor(ln u / ln(1 - p0)) is geometric.
    fn gap(&mut self) -> u64 {
        let p0 = self.transition.p0;
        if p0 == 0.0 {
            return u64::MAX;
        }
        let [high, low] = [self.draws.word(), self.draws.word()];
        let u = ((u64::from(high) << 21 | u64::from(low >> 11)) + 1) as f64 / (1u64 << 53) as f64;
        (ln(u) / (-p0).ln_1p()) as u64
    }
}

/// The `r`-th row other than `j`.
#[inline]
const fn skip(r: u32, j: u32) -> u32 {
    if r < j { r } else { r + 1 }
}

impl Neighbors<'_> {
    /// n_j and W_j.
    fn degree(&self, j: u32) -> (u32, f64) {
        match self {
            Self::Edges { lists, weighted } => {
                let n = lists.range(j as usize).len();
                let weight = weighted.as_ref().map_or(n as f64, |(_, total)| total[j as usize]);
                (n as u32, weight)
            }
            Self::Groups { counts, .. } => (counts[j as usize], f64::from(counts[j as usize])),
        }
    }

    /// w_jk if the two are neighbors.
    fn weight(&self, j: u32, k: u32) -> Option<f64> {
        match self {
            Self::Edges { lists, weighted } => {
                let at = lists.get(j as usize).binary_search(&k).ok()?;
                // Recovered from the alias table only in tests: the share of one draw times W_j.
                Some(weighted.as_ref().map_or(1.0, |(alias, total)| {
                    alias.share(lists.range(j as usize), at) * total[j as usize]
                }))
            }
            Self::Groups { of, .. } => (shared(of, j, k) > 0).then_some(1.0),
        }
    }

    fn neighbor(&self, j: u32, draws: &mut Draws) -> u32 {
        match self {
            Self::Edges { lists, weighted } => {
                let list = lists.get(j as usize);
                let at = match weighted {
                    None => draws.below(list.len() as u32) as usize,
                    Some((alias, _)) => alias.draw(lists.range(j as usize), draws),
                };
                list[at]
            }
            Self::Groups { of, members, .. } => loop {
                let groups = of.get(j as usize);
                let others = |g: &u32| members.get(*g as usize).len() as u32 - 1;
                let mut r = draws.below(groups.iter().map(others).sum());
                let mut chosen = groups[0];
                for g in groups {
                    chosen = *g;
                    if r < others(g) {
                        break;
                    }
                    r -= others(g);
                }
                let members = members.get(chosen as usize);
                let own = members.partition_point(|&k| k < j) as u32;
                let k = members[skip(r, own) as usize];
                let count = shared(of, j, k);
                if count == 1 || draws.below(count) == 0 {
                    return k;
                }
            },
        }
    }

    fn other(&self, j: u32, others: u32, n: u32, draws: &mut Draws) -> u32 {
        match self {
            Self::Edges { lists, .. } => missing(lists.get(j as usize), j, draws.below(others)),
            Self::Groups { of, .. } => loop {
                let k = skip(draws.below(n - 1), j);
                if shared(of, j, k) == 0 {
                    return k;
                }
            },
        }
    }
}

/// The `r`-th number that is neither `j` nor in the ascending `list`.
fn missing(list: &[u32], j: u32, r: u32) -> u32 {
    let before_j = list.partition_point(|&k| k < j);
    // Element i of the list with j inserted.
    let taken = |i: usize| match i.cmp(&before_j) {
        std::cmp::Ordering::Less => list[i],
        std::cmp::Ordering::Equal => j,
        std::cmp::Ordering::Greater => list[i - 1],
    };
    // The first place with more than r missing below it.
    let (mut low, mut high) = (0, list.len() + 1);
    while low < high {
        let middle = low.midpoint(high);
        if taken(middle) - middle as u32 > r { high = middle } else { low = middle + 1 }
    }
    r + low as u32
}

/// The number of groups that two rows share.
fn shared(of: &Lists, j: u32, k: u32) -> u32 {
    let (mut a, mut b) = (of.get(j as usize), of.get(k as usize));
    let mut count = 0;
    while let (Some(&x), Some(&y)) = (a.first(), b.first()) {
        count += u32::from(x == y);
        if x <= y {
            a = &a[1..];
        }
        if y <= x {
            b = &b[1..];
        }
    }
    count
}

/// The number of other rows that share a group with each row; computed once per distinct set of groups.
fn union_sizes(of: &Lists, members: &Lists) -> Vec<u32> {
    let mut seen: HashMap<&[u32], u32> = HashMap::new();
    let mut mark = vec![u32::MAX; of.len()];
    let mut sizes = Vec::with_capacity(of.len());
    for (j, groups) in of.iter().enumerate() {
        let size = match groups {
            [] => 1,
            [only] => members.get(*only as usize).len() as u32,
            several => *seen.entry(several).or_insert_with(|| {
                let mut count = 0;
                for &k in several.iter().flat_map(|&g| members.get(g as usize)) {
                    count += u32::from(mark[k as usize] != j as u32);
                    mark[k as usize] = j as u32;
                }
                count
            }),
        };
        sizes.push(size - 1);
    }
    sizes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edges(n: usize, pairs: &[(u32, u32, f32)], weighted: bool) -> Graph {
        let mut both: Vec<(u32, u32, f32)> =
            pairs.iter().flat_map(|&(a, b, w)| [(a, b, w), (b, a, w)]).collect();
        both.sort_by_key(|&(a, b, _)| (a, b));
        let neighbors = Lists::collect(n, both.iter().map(|&(a, b, _)| (a, b)));
        let weights = weighted.then(|| both.iter().map(|&(_, _, w)| w).collect());
        Graph::Edges { neighbors, weights }
    }

    fn groups(n: usize, of: &[&[u32]], n_groups: usize) -> Graph {
        let pairs =
            || of.iter().enumerate().flat_map(|(j, g)| g.iter().map(move |&g| (j as u32, g)));
        let of = Lists::collect(n, pairs().collect::<Vec<_>>().into_iter());
        let swapped = pairs().map(|(j, g)| (g, j)).collect::<Vec<_>>();
        Graph::Groups { of, members: Lists::collect(n_groups, swapped.into_iter()) }
    }

    /// Draws from row j against p(j, .): Pearson's statistic below its mean plus five standard deviations.
    fn assert_follows(transition: &Transition<'_>, j: u32, want: impl Fn(u32) -> f64) {
        let n = transition.n;
        let rounds = 200_000u32;
        let stream = Stream::new(Seed::new(11).unwrap(), "test/sse");
        let mut counts = vec![0u32; n as usize];
        let mut mover = transition.mover(stream.at(0, u64::from(j)));
        for _ in 0..rounds {
            counts[mover.draw(j) as usize] += 1;
        }
        let (mut statistic, mut cells) = (0.0, 0);
        for (k, &count) in counts.iter().enumerate() {
            let p = want(k as u32);
            assert!((transition.probability(j, k as u32) - p).abs() < 1e-6, "p({j}, {k})");
            let expected = p * f64::from(rounds);
            if expected == 0.0 {
                assert_eq!(count, 0, "p({j}, {k}) is 0");
            } else {
                statistic += (f64::from(count) - expected).powi(2) / expected;
                cells += 1;
            }
        }
        let freedom = f64::from(cells - 1);
        assert!(
            statistic <= freedom + 5.0 * (2.0 * freedom).sqrt() + 1e-9,
            "chi-square {statistic}"
        );
    }

    #[test]
    fn sse_se_follows_equation_5() {
        let transition = Transition::new("item", 8, 0.3, 1.0, None).unwrap();
        assert_follows(&transition, 2, |k| if k == 2 { 0.7 } else { 0.3 / 7.0 });
    }

    #[test]
    fn sse_graph_follows_equation_3() {
        let graph = edges(8, &[(2, 5, 1.0), (2, 7, 1.0), (0, 1, 1.0)], false);
        let transition = Transition::new("item", 8, 0.4, 20.0, Some(&graph)).unwrap();
        let c = 0.4 / (20.0 * 2.0 + 5.0);
        assert_follows(&transition, 2, |k| match k {
            2 => 0.6,
            5 | 7 => 20.0 * c,
            _ => c,
        });
        // An isolated row follows SSE-SE.
        assert_follows(&transition, 3, |k| if k == 3 { 0.6 } else { 0.4 / 7.0 });
    }

    #[test]
    fn weights_of_edges_multiply_rho() {
        let graph = edges(6, &[(0, 1, 0.5), (0, 4, 2.0)], true);
        let transition = Transition::new("item", 6, 0.5, 10.0, Some(&graph)).unwrap();
        let c = 0.5 / (10.0 * 2.5 + 3.0);
        assert_follows(&transition, 0, |k| match k {
            0 => 0.5,
            1 => 5.0 * c,
            4 => 20.0 * c,
            _ => c,
        });
    }

    #[test]
    fn shared_groups_count_once() {
        // Row 0 shares two groups with row 1, one with row 2, none with 3 and 4.
        let graph = groups(5, &[&[0, 1], &[0, 1], &[1], &[2], &[]], 3);
        let transition = Transition::new("item", 5, 0.5, 8.0, Some(&graph)).unwrap();
        let c = 0.5 / (8.0 * 2.0 + 2.0);
        assert_follows(&transition, 0, |k| match k {
            0 => 0.5,
            1 | 2 => 8.0 * c,
            _ => c,
        });
    }

    #[test]
    fn the_ends_are_defined() {
        // rho = 0 never moves to a neighbor.
        let graph = edges(4, &[(0, 1, 1.0)], false);
        let transition = Transition::new("item", 4, 0.5, 0.0, Some(&graph)).unwrap();
        assert_follows(&transition, 0, |k| [0.5, 0.0, 0.25, 0.25][k as usize]);
        // Adjacent to all others: moves to a neighbor; with rho = 0 the row stays.
        let graph = edges(3, &[(0, 1, 1.0), (0, 2, 1.0)], false);
        let transition = Transition::new("item", 3, 0.5, 7.0, Some(&graph)).unwrap();
        assert_follows(&transition, 0, |k| [0.5, 0.25, 0.25][k as usize]);
        let transition = Transition::new("item", 3, 0.5, 0.0, Some(&graph)).unwrap();
        assert_follows(&transition, 0, |k| [1.0, 0.0, 0.0][k as usize]);
        let transition = Transition::new("item", 1, 1.0, 1.0, None).unwrap();
        assert_eq!(transition.mover(place()).draw(0), 0);
    }

    #[test]
    fn rho_of_one_is_sse_se_in_distribution() {
        let graph = edges(7, &[(0, 1, 1.0), (0, 3, 1.0), (2, 4, 1.0)], false);
        let transition = Transition::new("item", 7, 0.2, 1.0, Some(&graph)).unwrap();
        (0..7)
            .for_each(|j| assert_follows(&transition, j, |k| if k == j { 0.8 } else { 0.2 / 6.0 }));
        let graph = groups(7, &[&[0], &[0], &[1], &[0, 1], &[], &[1], &[]], 2);
        let transition = Transition::new("item", 7, 0.2, 1.0, Some(&graph)).unwrap();
        (0..7)
            .for_each(|j| assert_follows(&transition, j, |k| if k == j { 0.8 } else { 0.2 / 6.0 }));
    }

    fn place() -> Place {
        Stream::new(Seed::new(5).unwrap(), "test").at(0, 0)
    }

    #[test]
    fn p0_of_zero_draws_nothing_and_of_one_always_moves() {
        let graph = edges(4, &[(0, 1, 1.0)], false);
        let transition = Transition::new("item", 4, 0.0, 9.0, Some(&graph)).unwrap();
        assert!(transition.graph.is_none());
        let mut mover = transition.mover(place());
        assert!((0..1000).all(|_| mover.draw(3) == 3));
        assert_eq!(mover.draws.word(), place().draws().word(), "no word was used up");
        let transition = Transition::new("item", 4, 1.0, 9.0, Some(&graph)).unwrap();
        let mut mover = transition.mover(place());
        assert!((0..1000).all(|_| mover.draw(3) != 3));
    }

    /// Moves of neighboring rows are independent: pairs of (moved, moved) out of n at p = 0.3, within five
    /// standard errors of p^2.
    #[test]
    fn rows_move_independently() {
        let transition = Transition::new("item", 9, 0.3, 1.0, None).unwrap();
        let mut mover = transition.mover(place());
        let n = 100_000;
        let both = (0..n).filter(|_| (mover.draw(1) != 1) & (mover.draw(2) != 2)).count();
        let share = both as f64 / f64::from(n);
        assert!((share - 0.09).abs() < 5.0 * (0.09 * 0.91 / f64::from(n)).sqrt(), "{share}");
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let message = |p0, rho| Transition::new("user", 4, p0, rho, None).unwrap_err().to_string();
        assert_eq!(message(1.5, 1.0), "⟨sse-user⟩ must be from 0 to 1, got 1.5");
        assert_eq!(message(f64::NAN, 1.0), "⟨sse-user⟩ must be from 0 to 1, got NaN");
        assert_eq!(message(0.1, -1.0), "⟨rho-user⟩ must be 0 or above, got -1");
        let graph = edges(4, &[(0, 1, 1.0)], false);
        let message = Transition::new("item", 5, 0.1, 1.0, Some(&graph)).unwrap_err().to_string();
        assert_eq!(message, "the graph of table `item` has 4 nodes for 5 rows");
    }

    proptest! {
        /// Each of up to 12 probabilities is rounded to 2^-32.
        #[test]
        fn rows_sum_to_one(
            n in 1u32..12, p0 in 0.0..=1.0f64, rho in 0.0..50.0f64,
            pairs in prop::collection::vec((0u32..12, 0u32..12, 0.1f32..5.0), 0..20), weighted: bool
        ) {
            let mut pairs: Vec<_> = pairs.into_iter().filter(|&(a, b, _)| a < b && b < n).collect();
            pairs.sort_by_key(|&(a, b, _)| (a, b));
            pairs.dedup_by_key(|&mut (a, b, _)| (a, b));
            let graph = edges(n as usize, &pairs, weighted);
            let transition = Transition::new("item", n as usize, p0, rho, Some(&graph)).unwrap();
            for j in 0..n {
                let total: f64 = (0..n).map(|k| transition.probability(j, k)).sum();
                prop_assert!((total - 1.0).abs() < 1e-6, "row {} sums to {}", j, total);
            }
        }

        #[test]
        fn missing_numbers_are_counted_right(mut list in prop::collection::btree_set(0u32..40, 0..30), j in 0u32..40) {
            list.remove(&j);
            let taken: Vec<u32> = list.iter().copied().collect();
            let want: Vec<u32> = (0..50).filter(|k| *k != j && !list.contains(k)).collect();
            for (r, &k) in want.iter().enumerate() {
                prop_assert_eq!(missing(&taken, j, r as u32), k);
            }
        }
    }
}
