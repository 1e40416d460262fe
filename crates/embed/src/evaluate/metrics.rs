//! Metrics of one ranking, with ties at their expected value over all orders of equal scores.
//!
//! Candidates form groups of equal score. A group of t candidates, r of them relevant, below g others
//! with h relevant ones, has ranks g+1 .. g+t. With R relevant in all, N candidates, and H_n = 1 + .. + 1/n:
//!
//! hits@k       sum over groups of r min(max(k - g, 0), t) / t
//! precision@k  hits@k / k                 recall@k  hits@k / R
//! hit@k        1 - P(none relevant in the first k) = 1 - C(t-r, m) / C(t, m), m = k - g, in the group that
//!              contains rank k, if none above it is relevant
//! NDCG@k       sum over groups of r/t sum_{p=g+1}^{min(g+t, k)} 1/log2(p+1), over the same for the ideal
//!              ranking, which has min(k, R) relevant ones in front
//! MAP          1/R sum over groups of r/t sum_{i=1}^t (h + 1 + (i-1)(r-1)/(t-1)) / (g+i)
//!              = 1/R r/t ((h + 1) (H_{g+t} - H_g) + (r-1)/(t-1) (t - (g+1) (H_{g+t} - H_g)))
//! MRR          in the first group with r > 0: sum_i q_i / (g+i), q_i = P(the first relevant one is the i-th)
//! AUC          fraction of pairs (relevant, other) in the right order, ties half
//!
//! All but hit@k and MRR are linear in the ranks, so their expectations need only P(relevant at rank) = r/t
//! (McSherry & Najork 2008). Constant scores therefore get exactly the expected metrics of a random order.

/// Returns the names of the metrics that [`measure`] writes, in its order.
pub fn names(ks: &[usize]) -> Vec<String> {
    let at = |name: &'static str| ks.iter().map(move |k| format!("{name}@{k}"));
    let lists = ["ndcg", "recall", "precision", "hit"].into_iter().flat_map(at);
    lists.chain(["map", "mrr", "auc"].map(String::from)).collect()
}

/// Precomputed sums for all rankings.
#[derive(Debug)]
pub struct Tables {
    /// 1/log2(2) + .. + 1/log2(p + 1), for p = 0, 1, 2, ...
    discounts: Vec<f64>,
    /// H_p.
    harmonic: Vec<f64>,
}

impl Tables {
    /// Computes the sums for up to `n` candidates.
    pub fn new(n: usize) -> Self {
        let sums = |term: fn(f64) -> f64| {
            let grow = move |sum: &mut f64, p: usize| {
                let before = *sum;
                *sum += term(p as f64);
                Some(before)
            };
            (1..=n + 1).scan(0.0, grow).collect()
        };
        Self { discounts: sums(|p| 1.0 / (p + 1.0).log2()), harmonic: sums(|p| 1.0 / p) }
    }
}

/// A group of equal scores that contains a relevant candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The number of candidates with higher scores, g.
    pub above: usize,
    /// The number of candidates in the group, t.
    pub size: usize,
    /// The number of relevant candidates in the group, r.
    pub relevant: usize,
}

/// The groups of equal scores with a relevant candidate, from the highest score down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ties(pub Vec<Group>);

impl Ties {
    /// Counts the groups of the relevant items among the scores of all items; items that are not candidates have the
    /// score minus infinity.
    ///
    /// One pass: a binary search for every score among the distinct scores of relevant items.
    pub fn count(scores: &[f32], relevant: &[u32]) -> Self {
        let mut thresholds: Vec<f32> = relevant.iter().map(|&i| scores[i as usize]).collect();
        thresholds.sort_unstable_by(|a, b| b.total_cmp(a));
        let mut groups: Vec<(f32, Group)> = Vec::with_capacity(thresholds.len());
        for score in thresholds {
            match groups.last_mut() {
                Some((same, group)) if *same == score => group.relevant += 1,
                _ => groups.push((score, Group { above: 0, size: 0, relevant: 1 })),
            }
        }
        if groups.len() <= 4 {
            for (score, group) in &mut groups {
                group.above = scores.iter().map(|s| usize::from(s > score)).sum();
                group.size = scores.iter().map(|s| usize::from(s == score)).sum();
            }
        } else {
            // Scores strictly between two thresholds, by the lower one.
            let distinct: Vec<f32> = groups.iter().map(|(score, _)| *score).collect();
            let mut between = vec![0; distinct.len() + 1];
            for &s in scores {
                let at = distinct.partition_point(|t| *t > s);
                if distinct.get(at) == Some(&s) {
                    groups[at].1.size += 1;
                } else {
                    between[at] += 1;
                }
            }
            let mut above = 0;
            for ((_, group), between) in groups.iter_mut().zip(between) {
                above += between;
                group.above = above;
                above += group.size;
            }
        }
        Self(groups.into_iter().map(|(_, group)| group).collect())
    }

    /// Returns the group of one relevant item among others.
    pub fn of_one(score: f32, others: impl Iterator<Item = f32>) -> Self {
        let (mut above, mut size) = (0, 1);
        for other in others {
            above += usize::from(other > score);
            size += usize::from(other == score);
        }
        Self(vec![Group { above, size, relevant: 1 }])
    }
}

/// Writes the metrics of a ranking of `n` candidates, in the order of [`names`]; AUC is NaN when all
/// candidates are relevant.
pub fn measure(ties: &Ties, n: usize, ks: &[usize], tables: &Tables, out: &mut Vec<f64>) {
    let groups = &ties.0;
    let total: usize = groups.iter().map(|g| g.relevant).sum();
    let total_f = total as f64;
    out.clear();
    out.extend(ks.iter().map(|&k| {
        let until = |place: usize| tables.discounts[place.min(k).min(n)];
        let gain = |g: &Group| {
            let share = g.relevant as f64 / g.size as f64;
            share * (until(g.above + g.size) - until(g.above))
        };
        groups.iter().map(gain).sum::<f64>() / until(total)
    }));
    let hits = |k: usize| -> f64 {
        let inside = |g: &Group| k.saturating_sub(g.above).min(g.size);
        groups.iter().map(|g| g.relevant as f64 * inside(g) as f64 / g.size as f64).sum()
    };
    out.extend(ks.iter().map(|&k| hits(k) / total_f));
    out.extend(ks.iter().map(|&k| hits(k) / k as f64));
    out.extend(ks.iter().map(|&k| hit(groups, k)));
    out.extend([
        average_precision(groups, tables) / total_f,
        reciprocal_rank(groups),
        auc(groups, total, n),
    ]);
}

fn hit(groups: &[Group], k: usize) -> f64 {
    let Some(first) = groups.first() else { return 0.0 };
    let Group { above, size, relevant } = *first;
    if k >= above + size {
        return 1.0;
    }
    // C(t-r, m) / C(t, m): none of the first m places of the group is relevant.
    let places = k.saturating_sub(above);
    let none = |i: usize| (size - places).saturating_sub(i) as f64 / (size - i) as f64;
    1.0 - (0..relevant).map(none).product::<f64>()
}

fn average_precision(groups: &[Group], tables: &Tables) -> f64 {
    let mut before = 0.0;
    let mut sum = 0.0;
    for g in groups {
        let (above, size, relevant) = (g.above as f64, g.size as f64, g.relevant as f64);
        let harmonic = tables.harmonic[g.above + g.size] - tables.harmonic[g.above];
        let slope = if g.size > 1 { (relevant - 1.0) / (size - 1.0) } else { 0.0 };
        let precisions = (before + 1.0) * harmonic + slope * (size - (above + 1.0) * harmonic);
        sum += relevant / size * precisions;
        before += relevant;
    }
    sum
}

fn reciprocal_rank(groups: &[Group]) -> f64 {
    let Some(&Group { above, size, relevant }) = groups.first() else { return 0.0 };
    let mut first_here = relevant as f64 / size as f64;
    let mut sum = 0.0;
    for i in 1..=size - relevant + 1 {
        sum += first_here / (above + i) as f64;
        if i < size {
            first_here *= (size - i + 1).saturating_sub(relevant) as f64 / (size - i) as f64;
        }
    }
    sum
}

fn auc(groups: &[Group], total: usize, n: usize) -> f64 {
    let others = n - total;
    if others == 0 {
        return f64::NAN;
    }
    let mut before = 0;
    let mut pairs = 0.0;
    for g in groups {
        let above = g.above - before;
        let tied = g.size - g.relevant;
        let below = others - above - tied;
        pairs += g.relevant as f64 * (below as f64 + 0.5 * tied as f64);
        before += g.relevant;
    }
    pairs / (total as f64 * others as f64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The metrics of one order, from their definitions.
    fn of_order(relevant: &[bool], ks: &[usize]) -> Vec<f64> {
        let total = relevant.iter().filter(|r| **r).count();
        let places: Vec<usize> = (0..relevant.len()).filter(|&p| relevant[p]).collect();
        let hits = |k: usize| places.iter().filter(|p| **p < k).count() as f64;
        let dcg = |places: &[usize], k: usize| -> f64 {
            places.iter().filter(|p| **p < k).map(|&p| 1.0 / (p as f64 + 2.0).log2()).sum()
        };
        let ideal: Vec<usize> = (0..total).collect();
        let mut out: Vec<f64> = ks.iter().map(|&k| dcg(&places, k) / dcg(&ideal, k)).collect();
        out.extend(ks.iter().map(|&k| hits(k) / total as f64));
        out.extend(ks.iter().map(|&k| hits(k) / k as f64));
        out.extend(ks.iter().map(|&k| f64::from(hits(k) > 0.0)));
        let precisions = places.iter().enumerate().map(|(i, p)| (i + 1) as f64 / (p + 1) as f64);
        out.push(precisions.sum::<f64>() / total as f64);
        out.push(1.0 / (places[0] + 1) as f64);
        let right: usize =
            places.iter().map(|&p| relevant[p..].iter().filter(|r| !**r).count()).sum();
        out.push(right as f64 / (total * (relevant.len() - total)) as f64);
        out
    }

    /// The mean over all orders of 0..n in which scores do not rise.
    fn slow(scores: &[f32], relevant: &[bool], ks: &[usize]) -> Vec<f64> {
        let n = scores.len();
        let mut sums = vec![0.0; names(ks).len()];
        let mut orders = 0.0;
        let mut order: Vec<usize> = (0..n).collect();
        permutations(&mut order, 0, &mut |order| {
            if order.windows(2).all(|w| scores[w[0]] >= scores[w[1]]) {
                let row: Vec<bool> = order.iter().map(|&i| relevant[i]).collect();
                sums.iter_mut().zip(of_order(&row, ks)).for_each(|(s, v)| *s += v);
                orders += 1.0;
            }
        });
        sums.iter().map(|s| s / orders).collect()
    }

    fn permutations(order: &mut Vec<usize>, from: usize, take: &mut impl FnMut(&[usize])) {
        if from == order.len() {
            return take(order);
        }
        for i in from..order.len() {
            order.swap(from, i);
            permutations(order, from + 1, take);
            order.swap(from, i);
        }
    }

    fn fast(scores: &[f32], relevant: &[bool], ks: &[usize]) -> Vec<f64> {
        let items: Vec<u32> = (0..scores.len() as u32).filter(|&i| relevant[i as usize]).collect();
        let mut out = Vec::new();
        let tables = Tables::new(scores.len());
        measure(&Ties::count(scores, &items), scores.len(), ks, &tables, &mut out);
        out
    }

    proptest! {
        /// Sums of at most 7! terms of size 1: 1e-12 is a thousand roundings.
        #[test]
        fn ties_have_the_mean_over_all_orders(
            items in prop::collection::vec((0u8..4, any::<bool>()), 2..8),
        ) {
            let scores: Vec<f32> = items.iter().map(|(s, _)| f32::from(*s)).collect();
            let relevant: Vec<bool> = items.iter().map(|(_, r)| *r).collect();
            prop_assume!(relevant.iter().any(|r| *r) && relevant.iter().any(|r| !*r));
            let ks = [1, 2, 3, 5, 10];
            for (got, want) in fast(&scores, &relevant, &ks).iter().zip(slow(&scores, &relevant, &ks)) {
                prop_assert!((got - want).abs() < 1e-12, "{got} {want}");
            }
        }

        /// Many groups are counted by binary search, few by comparing all.
        #[test]
        fn groups_are_those_of_a_sorted_list(
            scores in prop::collection::vec((0u8..12).prop_map(f32::from), 1..60), every in 1usize..5,
        ) {
            let relevant: Vec<u32> = (0..scores.len() as u32).step_by(every).collect();
            let mut distinct: Vec<f32> = relevant.iter().map(|&i| scores[i as usize]).collect();
            distinct.sort_by(|a, b| b.total_cmp(a));
            distinct.dedup();
            let group = |&score: &f32| Group {
                above: scores.iter().filter(|s| **s > score).count(),
                size: scores.iter().filter(|s| **s == score).count(),
                relevant: relevant.iter().filter(|i| scores[**i as usize] == score).count(),
            };
            let want: Vec<Group> = distinct.iter().map(group).collect();
            prop_assert_eq!(Ties::count(&scores, &relevant), Ties(want));
        }
    }

    /// Chance level in closed form: hits are hypergeometric, and all ranks are equally likely.
    #[test]
    fn constant_scores_score_as_chance() {
        let (n, total, k) = (1000, 30, 10);
        let relevant: Vec<bool> = (0..n).map(|i| i < total).collect();
        let got = fast(&vec![0.7; n], &relevant, &[k]);
        let share = total as f64 / n as f64;
        let none: f64 = (0..k).map(|i| (n - total - i) as f64 / (n - i) as f64).product();
        assert!((got[0] - share).abs() < 1e-14, "ndcg {}", got[0]);
        assert!((got[1] - k as f64 / n as f64).abs() < 1e-15);
        assert!((got[2] - share).abs() < 1e-15);
        assert!((got[3] - (1.0 - none)).abs() < 1e-14);
        assert_eq!(got[6], 0.5);
    }
}
