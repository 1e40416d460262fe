//! Histories of users in the item numbers of a model, and how each user can be scored.
//!
//! Users with a vector in the model keep it; users with only a history are folded in ([`crate::fold_in`]), unless the
//! model scores from histories anyway.

use veridical_data::{Cell, IdMap, Ids, Interactions, Lists, Split};

use crate::Model;

/// The known items of users, in the item numbers of the model.
#[derive(Clone, Debug)]
pub struct Histories {
    /// The users.
    pub users: IdMap,
    /// The model's items.
    pub items: IdMap,
    /// One ascending list of items per user, and an empty one at the end.
    pub lists: Lists,
    /// The same lists in chronological order, repeats included.
    pub sequences: Lists,
    /// One rating per entry, if the data has ratings.
    ratings: Option<Vec<f32>>,
    /// The rows of users in the model, if it has user vectors.
    learned: Learned,
}

/// How the row of a user in the user table is found.
#[derive(Clone, Debug)]
enum Learned {
    /// By the number of the user among the histories.
    Numbered(Vec<Option<u32>>),
    /// By id.
    Named(UserRows),
}

/// The rows of some users in the user table of a model, found while its ids pass by.
#[derive(Clone, Debug)]
pub struct UserRows {
    wanted: IdMap,
    rows: Vec<Option<u32>>,
}

impl UserRows {
    /// Starts to look for the `wanted` users in a table with ids of the type of `like`.
    pub fn new(wanted: &Ids, like: &Ids) -> Self {
        let texts: Vec<String> = (0..wanted.len()).map(|at| wanted.get(at)).collect();
        let (wanted, _) = match like {
            Ids::Int(_) => {
                let integers: Vec<i64> = texts.iter().filter_map(|id| id.parse().ok()).collect();
                IdMap::of_integers(&integers)
            }
            Ids::Text(_) => IdMap::of_texts(texts.iter().map(String::as_str)),
        };
        Self { rows: vec![None; wanted.len()], wanted }
    }

    /// Adds the ids of the table from row `first` on.
    pub fn add(&mut self, first: u32, ids: &Ids) {
        let number = |at: usize| match ids {
            Ids::Int(ids) => self.wanted.find(Cell::Int(ids.value(at))),
            Ids::Text(ids) => self.wanted.number(ids.value(at)),
        };
        for (row, at) in (first..).zip(0..ids.len()) {
            if let Some(number) = number(at) {
                self.rows[number as usize] = Some(row);
            }
        }
    }

    fn row(&self, id: &str) -> Option<u32> {
        self.wanted.number(id).and_then(|number| self.rows[number as usize])
    }
}

impl Histories {
    /// Makes histories of all rows except the test set, which may be recommended. The vectors of users without
    /// training rows, such as those with too few rows for the split, were never trained, so these users are folded in.
    pub fn of_split(data: Interactions, split: &Split) -> Self {
        let mut is_test = vec![false; data.len()];
        split.test.iter().for_each(|&row| is_test[row as usize] = true);
        let rows: Vec<u32> = (0..data.len() as u32).filter(|&r| !is_test[r as usize]).collect();
        let mut in_model = vec![None; data.users.len()];
        for &row in &split.train {
            let user = data.user[row as usize];
            in_model[user as usize] = Some(user);
        }
        let same = (0..data.items.len() as u32).map(Some).collect::<Vec<_>>();
        Self::new(data, &rows, &same, Learned::Numbered(in_model), None)
    }

    /// Makes histories of all rows of other data whose items the model knows, and counts the remaining rows; `None` if the
    /// model knows none of the items. `users` are the rows of users with a vector in the model: at least those that are asked for.
    pub fn of_others(
        data: Interactions,
        items: IdMap,
        users: Option<UserRows>,
    ) -> Option<(Self, usize)> {
        let number = |map: &IdMap, id: String| map.number(&id);
        let item_of: Vec<Option<u32>> =
            (0..data.items.len() as u32).map(|i| number(&items, data.items.id(i))).collect();
        let known = |r: &u32| item_of[data.item[*r as usize] as usize].is_some();
        let rows: Vec<u32> = (0..data.len() as u32).filter(known).collect();
        if rows.is_empty() {
            return None;
        }
        let missing = data.len() - rows.len();
        let learned = users.map_or(Learned::Numbered(vec![None; data.users.len()]), Learned::Named);
        Some((Self::new(data, &rows, &item_of, learned, Some(items)), missing))
    }

    fn new(
        data: Interactions,
        rows: &[u32],
        item_of: &[Option<u32>],
        learned: Learned,
        items: Option<IdMap>,
    ) -> Self {
        let entry = |&r: &u32| {
            let item = item_of[data.item[r as usize] as usize]?;
            Some((data.user[r as usize], item, r))
        };
        let mut entries: Vec<(u32, u32, u32)> = rows.iter().filter_map(entry).collect();
        entries.sort_unstable();
        entries.dedup_by_key(|(user, item, _)| (*user, *item)); // the first rating of a pair counts
        let lists = Lists::collect(
            data.users.len() + 1,
            entries.iter().map(|&(user, item, _)| (user, item)),
        );
        let mut in_time = rows.to_vec();
        if let Some(time) = &data.time {
            in_time.sort_by_key(|&r| (time[r as usize], r));
        }
        let in_time: Vec<(u32, u32)> =
            in_time.iter().filter_map(entry).map(|(user, item, _)| (user, item)).collect();
        let sequences = Lists::collect(data.users.len() + 1, in_time.into_iter());
        let ratings = data.rating.as_ref();
        let ratings = ratings.map(|of| entries.iter().map(|&(.., r)| of[r as usize]).collect());
        let items = items.unwrap_or(data.items);
        Self { users: data.users, items, lists, sequences, ratings, learned }
    }

    /// The number of a user among the histories, and the row trained for the user.
    fn find(&self, id: &str) -> (Option<u32>, Option<u32>) {
        let number = self.users.number(id);
        let learned = match &self.learned {
            Learned::Named(users) => users.row(id),
            Learned::Numbered(rows) => number.and_then(|u| rows[u as usize]),
        };
        (number, learned)
    }

    /// Returns the lists and ratings of some users by their numbers among the histories, numbered from 0.
    pub fn of(&self, users: &[u32]) -> (Lists, Option<Vec<f32>>) {
        let pairs = (0u32..).zip(users).flat_map(|(number, &user)| {
            self.lists.get(user as usize).iter().map(move |&item| (number, item))
        });
        let lists = Lists::collect(users.len(), pairs);
        let ratings = self.ratings.as_ref().map(|ratings| {
            let of_user = |&user: &u32| &ratings[self.lists.range(user as usize)];
            users.iter().flat_map(of_user).copied().collect()
        });
        (lists, ratings)
    }
}

/// What a model knows users by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsersBy {
    /// A vector each; others are folded in.
    Vector,
    /// The items of the history.
    History,
    /// Nothing: all are given the same items.
    Nothing,
}

impl Model {
    /// Returns what it knows users by.
    pub const fn users_by(&self) -> UsersBy {
        match self {
            Self::Factors(_) => UsersBy::Vector,
            Self::Popularity(_) => UsersBy::Nothing,
            _ => UsersBy::History,
        }
    }
}

/// How each requested user is scored; users are given by their place in the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// Users that the model knows.
    pub known: Vec<Known>,
    /// Users to fold in, with their number among the histories.
    pub new: Vec<(usize, u32)>,
    /// Users with neither a vector nor a history.
    pub unknown: Vec<usize>,
}

/// A user that the model knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The place in the request.
    pub at: usize,
    /// The row in the user table of the model, if it knows users by vectors.
    pub row: Option<u32>,
    /// The number among the histories; that of an empty one for a user without any.
    pub history: u32,
}

impl Groups {
    /// Groups the requested users by what the model and the histories know of them.
    pub fn of(histories: &Histories, users: UsersBy, asked: &Ids) -> Self {
        let mut groups = Self::default();
        let nobody = histories.users.len() as u32;
        for at in 0..asked.len() {
            let (number, learned) = histories.find(&asked.get(at));
            let has_history = number.is_some_and(|u| !histories.lists.get(u as usize).is_empty());
            let history = number.unwrap_or(nobody);
            let row = learned.filter(|_| users == UsersBy::Vector);
            match users {
                UsersBy::Vector if row.is_some() => groups.known.push(Known { at, row, history }),
                UsersBy::Vector if has_history => groups.new.push((at, history)),
                UsersBy::History if has_history => groups.known.push(Known { at, row, history }),
                UsersBy::Nothing => groups.known.push(Known { at, row, history }),
                _ => groups.unknown.push(at),
            }
        }
        groups
    }

    /// Returns the number of users that can be scored.
    pub fn len(&self) -> usize {
        self.known.len() + self.new.len()
    }

    /// Whether no user can be scored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Users 7, 8, 9 and items 1, 2, 3: rows (7, 1), (7, 2), (8, 3), (9, 1), of which the last is held out.
    fn shop() -> (Interactions, Split) {
        let (users, user) = IdMap::of_integers(&[7, 7, 8, 9]);
        let (items, item) = IdMap::of_integers(&[1, 2, 3, 1]);
        let rating = Some(vec![5.0, 4.0, 3.0, 2.0]);
        let data = Interactions { users, items, user, item, rating, time: Some(vec![9, 1, 2, 3]) };
        (data, Split { train: vec![0, 1, 2], validation: Vec::new(), test: vec![3] })
    }

    #[test]
    fn rows_that_are_held_out_are_no_history() {
        let (data, split) = shop();
        let histories = Histories::of_split(data, &split);
        assert_eq!(
            [0, 1, 2].map(|u| histories.lists.get(u).to_vec()),
            [vec![0, 1], vec![2], vec![]]
        );
        assert_eq!(histories.sequences.get(0), [1, 0]); // chronological order
        let asked = Ids::Int(vec![9, 8, 7, 5].into());
        let groups = Groups::of(&histories, UsersBy::Vector, &asked);
        let known = |at, user| Known { at, row: Some(user), history: user };
        assert_eq!((groups.known, groups.unknown), (vec![known(1, 1), known(2, 0)], vec![0, 3]));
        let (lists, ratings) = histories.of(&[1, 0]);
        assert_eq!((lists.get(0), lists.get(1)), (&[2][..], &[0, 1][..]));
        assert_eq!(ratings, Some(vec![3.0, 5.0, 4.0]));
    }

    #[test]
    fn users_with_a_history_alone_are_folded_in() {
        let (data, _) = shop();
        let items = IdMap::of_integers(&[1, 3]).0;
        let asked = Ids::of_texts(["7", "8", "100", "5", "ann"].map(String::from).to_vec());
        let mut users = UserRows::new(&asked, &Ids::Int(vec![0].into()));
        users.add(0, &Ids::Int(vec![6].into()));
        users.add(1, &Ids::Int(vec![8, 100].into()));
        let (histories, missing) = Histories::of_others(data, items, Some(users)).unwrap();
        assert_eq!(missing, 1); // item 2
        let groups = Groups::of(&histories, UsersBy::Vector, &asked);
        let known = |at, row, history| Known { at, row: Some(row), history };
        assert_eq!(groups.known, [known(1, 1, 1), known(2, 2, 3)]); // 100 has a vector and no history
        assert_eq!((groups.new, groups.unknown), (vec![(0, 0)], vec![3, 4]));
        let strangers = IdMap::of_integers(&[40]).0;
        assert!(Histories::of_others(shop().0, strangers, None).is_none());
    }
}
