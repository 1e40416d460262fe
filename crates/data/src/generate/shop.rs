//! A synthetic shop: user-item interactions with planted tastes.
//!
//! Items i and users u belong to clusters c(i) = i mod K, c(u) = u mod K. Within a cluster, item popularity follows
//! Zipf's law, p(i) proportional to (1 + i / K)^-s. A user's next item is drawn from
//!
//! q(u, i) = (1 - e) [c(i) = c(u)] p(i | c(i)) + e p(i | c(i)) / K
//!
//! and drawn again if the user has it already: given the history, the next item is i with probability proportional
//! to q(u, i), so ranking unseen items by q is Bayes-optimal for every ranking metric. Ratings 1 to 5 have one
//! distribution if user and item share a cluster and another if not, so its mean is the best prediction and its standard
//! deviation the best RMSE. Times grow with every item of a user.
//!
//! In a shop with order, the next item is with probability f one of the three that follow the user's last one in the circle
//! of its cluster, each as likely; q then says nothing about the next item.

use veridical_core::elementary::ln;
use veridical_core::{Alias, Place, Seed, Stream, threshold};

use crate::{Error, IdMap, Interactions, Labels, Lists, Result};

/// Settings of a synthetic shop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShopSettings {
    /// The number of users.
    pub users: usize,
    /// The number of items.
    pub items: usize,
    /// The number of clusters, K in the header.
    pub clusters: usize,
    /// The number of items per user, all different.
    pub per_user: usize,
    /// The Zipf exponent s of item popularity; 0 makes all items of a cluster equally popular.
    pub skew: f64,
    /// The share e of draws that ignore the user's taste.
    pub noise: f64,
    /// The random seed.
    pub seed: Seed,
}

/// Synthetic interactions with their ground truth.
#[derive(Clone, Debug)]
pub struct Shop {
    /// The rows in chronological order, with ratings and times.
    pub data: Interactions,
    /// The cluster of every item.
    pub item_cluster: Vec<u32>,
    /// The cluster of every user.
    pub user_cluster: Vec<u32>,
    /// p(i | c(i)).
    popularity: Vec<f64>,
    noise: f64,
    clusters: usize,
}

/// P(rating = 1 .. 5) if user and item share a cluster, and if they do not.
const RATINGS: [[f64; 5]; 2] = [[0.02, 0.05, 0.13, 0.35, 0.45], [0.30, 0.30, 0.25, 0.10, 0.05]];
/// Users arrive within this many seconds, and wait up to an hour between two items.
const DAYS: u32 = 86_400 * 365;
const GAP: u32 = 3_600;
const FIRST_SECOND: i64 = 1_700_000_000;
/// Draws per item before the remaining items are drawn at once.
const TRIES: usize = 16;
/// Items that may follow an item in a shop with order.
const FOLLOWERS: u32 = 3;

/// Generates a shop.
///
/// # Errors
/// [`Error`] for invalid settings.
pub fn shop(settings: ShopSettings) -> Result<Shop> {
    shop_in_order(settings, 0.0)
}

/// Generates a shop in which the last item says something about the next; `follow` is f in the header.
///
/// # Errors
/// [`Error`] for invalid settings.
pub fn shop_in_order(settings: ShopSettings, follow: f64) -> Result<Shop> {
    let ShopSettings { users, items, clusters, per_user, skew, noise, seed } = settings;
    let refused = |what: String| Err(Error::request(what, ""));
    if users == 0 || items == 0 || clusters == 0 || per_user == 0 {
        return refused("users, items, clusters and items per user must be at least 1".into());
    }
    if clusters > items || clusters > users {
        return refused(format!(
            "{clusters} clusters are more than {users} users or {items} items"
        ));
    }
    let own = if noise == 0.0 { items / clusters } else { items };
    if per_user > own {
        return refused(format!("{per_user} items per user are more than the {own} available"));
    }
    if !(0.0..=1.0).contains(&noise) || !(0.0..=8.0).contains(&skew) {
        return refused(format!(
            "noise must be from 0 to 1 and skew from 0 to 8, got {noise} and {skew}"
        ));
    }
    if !(0.0..=1.0).contains(&follow) {
        return refused(format!(
            "the share of draws that follow must be from 0 to 1, got {follow}"
        ));
    }
    if users.checked_mul(per_user).is_none_or(|rows| rows >= u32::MAX as usize) {
        return refused("a shop has at most 2^32 - 1 interactions".into());
    }
    let popularity = popularity(items, clusters, skew);
    let tables = tables(&popularity, clusters)?;
    let stream = |name: &str| Stream::new(seed, name);
    let (taste, ratings) = (stream("generate/shop"), stream("generate/ratings"));
    let races = stream("generate/races");
    let law = RATINGS.map(|law| Alias::new(&law));
    let mut rows: Vec<(i64, u32, u32, f32)> = Vec::with_capacity(users * per_user);
    for user in 0..users as u32 {
        let own = user as usize % clusters;
        let mut draws = taste.at(0, u64::from(user)).draws();
        let mut time = FIRST_SECOND + i64::from(draws.below(DAYS));
        let mut mine: Vec<u32> = Vec::with_capacity(per_user);
        for _ in 0..TRIES * per_user {
            let before = mine.last().filter(|_| follow > 0.0 && draws.happens(threshold(follow)));
            let item = if let Some(&last) = before {
                follower(last, 1 + draws.below(FOLLOWERS), items, clusters)
            } else {
                let cluster = match draws.happens(threshold(noise)) {
                    true => draws.below(clusters as u32) as usize,
                    false => own,
                };
                tables[cluster].draw(&mut draws) * clusters as u32 + cluster as u32
            };
            if !mine.contains(&item) {
                mine.push(item);
            }
            if mine.len() == per_user {
                break;
            }
        }
        if mine.len() < per_user {
            let score = |item: usize| score(&popularity, noise, clusters, own, item);
            race(&mut mine, per_user, items, score, races.at(0, u64::from(user)));
        }
        for (n, item) in mine.into_iter().enumerate() {
            let mut draws = ratings.at(n as u32, u64::from(user)).draws();
            time += 1 + i64::from(draws.below(GAP));
            let law = &law[usize::from(item as usize % clusters != own)];
            let rating = law.as_ref().map_or(0, |law| law.draw(&mut draws));
            rows.push((time, user, item, (rating + 1) as f32));
        }
    }
    rows.sort_by_key(|&(time, user, ..)| (time, user));
    Ok(Shop {
        data: Interactions {
            users: IdMap::numbered(users),
            items: IdMap::numbered(items),
            user: rows.iter().map(|row| row.1).collect(),
            item: rows.iter().map(|row| row.2).collect(),
            rating: Some(rows.iter().map(|row| row.3).collect()),
            time: Some(rows.iter().map(|row| row.0).collect()),
        },
        item_cluster: (0..items).map(|item| (item % clusters) as u32).collect(),
        user_cluster: (0..users).map(|user| (user % clusters) as u32).collect(),
        popularity,
        noise,
        clusters,
    })
}

/// The item so many places after another one in the circle of its cluster.
fn follower(last: u32, places: u32, items: usize, clusters: usize) -> u32 {
    let (clusters, items) = (clusters as u32, items as u32);
    let cluster = last % clusters;
    let len = (items - cluster).div_ceil(clusters);
    (last / clusters + places) % len * clusters + cluster
}

/// Draws the missing items all at once: unseen items arrive after exponentially distributed times of rate q,
/// and the first ones are taken. This has the same distribution as drawing one after the other.
fn race(mine: &mut Vec<u32>, n: usize, items: usize, score: impl Fn(usize) -> f64, at: Place) {
    let mut arrivals: Vec<(f64, u32)> = (0..items as u32)
        .filter(|item| !mine.contains(item) && score(*item as usize) > 0.0)
        .map(|item| (-ln(1.0 - at.uniform(item)) / score(item as usize), item))
        .collect();
    arrivals.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    mine.extend(arrivals.iter().map(|arrival| arrival.1).take(n - mine.len()));
}

/// q(u, i) for a user of a cluster.
fn score(popularity: &[f64], noise: f64, clusters: usize, cluster: usize, item: usize) -> f64 {
    let own = if item % clusters == cluster { 1.0 - noise } else { 0.0 };
    popularity[item] * (own + noise / clusters as f64)
}

/// p(i | c(i)) of every item.
fn popularity(items: usize, clusters: usize, skew: f64) -> Vec<f64> {
    let mut weight: Vec<f64> =
        (0..items).map(|item| (1.0 + (item / clusters) as f64).powf(-skew)).collect();
    for cluster in 0..clusters {
        let total: f64 = weight.iter().skip(cluster).step_by(clusters).sum();
        weight.iter_mut().skip(cluster).step_by(clusters).for_each(|w| *w /= total);
    }
    weight
}

fn tables(popularity: &[f64], clusters: usize) -> Result<Vec<Alias>> {
    let of = |cluster: usize| {
        let weights: Vec<f64> =
            popularity.iter().skip(cluster).step_by(clusters).copied().collect();
        Alias::new(&weights)
            .ok_or_else(|| Error::request("the popularity of items is not a distribution", ""))
    };
    (0..clusters).map(of).collect()
}

impl Shop {
    /// Returns q(u, i): ranking a user's unseen items by it is optimal.
    pub fn ideal_score(&self, user: usize, item: usize) -> f64 {
        score(&self.popularity, self.noise, self.clusters, user % self.clusters, item)
    }

    /// Returns the mean of the rating's distribution: no prediction has a lower RMSE.
    pub fn ideal_rating(&self, user: usize, item: usize) -> f64 {
        mean(&RATINGS[usize::from(!self.is_common(user, item))])
    }

    /// Returns the variance of the rating's distribution.
    pub fn rating_variance(&self, user: usize, item: usize) -> f64 {
        let law = &RATINGS[usize::from(!self.is_common(user, item))];
        let center = mean(law);
        law.iter().zip(1..).map(|(p, r)| p * (f64::from(r) - center).powi(2)).sum()
    }

    fn is_common(&self, user: usize, item: usize) -> bool {
        self.user_cluster[user] == self.item_cluster[item]
    }

    /// Returns the clusters of the items as labels.
    pub fn item_labels(&self) -> Labels {
        labels(&self.item_cluster, self.clusters)
    }

    /// Returns the clusters of the users as labels.
    pub fn user_labels(&self) -> Labels {
        labels(&self.user_cluster, self.clusters)
    }
}

fn labels(cluster: &[u32], clusters: usize) -> Labels {
    let pairs = cluster.iter().enumerate().map(|(node, &cluster)| (node as u32, cluster));
    Labels { classes: IdMap::numbered(clusters), of: Lists::collect(cluster.len(), pairs) }
}

fn mean(law: &[f64; 5]) -> f64 {
    law.iter().zip(1..).map(|(p, r)| p * f64::from(r)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> ShopSettings {
        let seed = Seed::new(5).unwrap();
        ShopSettings {
            users: 2000,
            items: 60,
            clusters: 3,
            per_user: 5,
            skew: 0.7,
            noise: 0.2,
            seed,
        }
    }

    #[test]
    fn every_user_has_the_same_number_of_items_in_chronological_order() {
        let shop = shop(settings()).unwrap();
        let rows: Vec<u32> = (0..shop.data.len() as u32).collect();
        assert!(shop.data.by_user(&rows).iter().all(|list| list.len() == 5));
        let time = shop.data.time.as_ref().unwrap();
        assert!(time.is_sorted());
        let mut last = vec![0; 2000];
        for (&user, &time) in shop.data.user.iter().zip(time) {
            assert!(time > std::mem::replace(&mut last[user as usize], time));
        }
        assert_eq!(super::shop(settings()).unwrap().data, shop.data);
    }

    /// The first item of every user of a cluster is drawn from q: Pearson's statistic over 60 items has mean 59
    /// and variance 118; five standard deviations allowed.
    #[test]
    fn first_items_follow_the_ideal_score() {
        let shop = shop(settings()).unwrap();
        let rows: Vec<u32> = (0..shop.data.len() as u32).collect();
        let sequences = shop.data.sequences(&rows);
        for cluster in 0..3 {
            let users: Vec<usize> = (cluster..2000).step_by(3).collect();
            let mut counts = [0.0f64; 60];
            users.iter().for_each(|&user| counts[sequences.get(user)[0] as usize] += 1.0);
            let total: f64 = (0..60).map(|item| shop.ideal_score(cluster, item)).sum();
            assert!((total - 1.0).abs() < 1e-12);
            let term = |item: usize| {
                let want = shop.ideal_score(cluster, item) * users.len() as f64;
                (counts[item] - want).powi(2) / want
            };
            let statistic: f64 = (0..60).map(term).sum();
            assert!(statistic < 59.0 + 5.0 * 118f64.sqrt(), "{statistic}");
        }
    }

    /// 10,000 squared errors around the distribution's own mean, of variance below 4^4: five standard errors.
    #[test]
    fn the_ideal_rating_has_the_planted_rmse() {
        let shop = shop(settings()).unwrap();
        let rating = shop.data.rating.as_ref().unwrap();
        let pairs =
            shop.data.user.iter().zip(&shop.data.item).map(|(&u, &i)| (u as usize, i as usize));
        let (mut got, mut want) = (0.0, 0.0);
        for ((user, item), &rating) in pairs.zip(rating) {
            assert!((1.0..=5.0).contains(&rating));
            got += (f64::from(rating) - shop.ideal_rating(user, item)).powi(2);
            want += shop.rating_variance(user, item);
        }
        let n = rating.len() as f64;
        assert!((got / n - want / n).abs() < 5.0 * 16.0 / n.sqrt(), "{got} {want}");
        assert!(shop.ideal_rating(0, 0) > 4.0 && shop.ideal_rating(0, 1) < 2.5);
    }

    /// 2,000 users of four steps; a step follows with probability 1/2, and by chance within three of at most 20 items: five
    /// standard deviations of 8,000 draws are 0.028.
    #[test]
    fn half_of_the_steps_of_a_shop_with_order_follow() {
        let share = |follow: f64| {
            let shop = shop_in_order(settings(), follow).unwrap();
            let rows: Vec<u32> = (0..shop.data.len() as u32).collect();
            let sequences = shop.data.sequences(&rows);
            let steps = sequences.iter().flat_map(|list| list.windows(2));
            let follows = |step: &&[u32]| (1..=3).any(|n| follower(step[0], n, 60, 3) == step[1]);
            steps.filter(follows).count() as f64 / 8000.0
        };
        let (without, with) = (share(0.0), share(0.5));
        assert!(without < 0.2 && (0.47..0.47 + 0.2).contains(&with), "{without} {with}");
        assert_eq!(shop_in_order(settings(), 0.0).unwrap().data, shop(settings()).unwrap().data);
        assert!(shop_in_order(settings(), 1.5).is_err());
    }

    /// Everything a user can have is drawn, however rare, and popular items mostly first.
    #[test]
    fn rare_items_are_drawn_in_the_end() {
        let settings = ShopSettings { per_user: 20, noise: 0.0, skew: 8.0, ..settings() };
        let shop = shop(settings).unwrap();
        let rows: Vec<u32> = (0..shop.data.len() as u32).collect();
        let sequences = shop.data.sequences(&rows);
        assert!(sequences.iter().enumerate().all(|(user, list)| list[0] as usize % 3 == user % 3));
        assert!(shop.data.by_user(&rows).iter().all(|list| list.len() == 20));
        let first = sequences.iter().filter(|list| list[0] < 3).count();
        assert!(first > 1900, "{first}"); // p = 0.996 each
    }

    #[test]
    fn invalid_shop_settings_are_refused() {
        let with = |set: fn(&mut ShopSettings)| {
            let mut settings = settings();
            set(&mut settings);
            shop(settings).unwrap_err().to_string()
        };
        assert!(with(|s| s.users = 0).contains("must be at least 1"));
        assert!(with(|s| s.clusters = 61).contains("61 clusters are more than"));
        assert!(with(|s| s.per_user = 61).contains("more than the 60 available"));
        assert!(with(|s| (s.noise, s.per_user) = (0.0, 21)).contains("more than the 20 available"));
        assert!(with(|s| s.noise = f64::NAN).contains("noise must be from 0 to 1"));
    }
}
