//! MovieLens-1M as the papers cut it.

use std::path::{Path, PathBuf};

use veridical::{Error, Result};
use veridical_data::{Graph, IdMap, Interactions, Labels, Split};
use veridical_embed::Graphs;
use veridical_io::interactions::{self, InteractionOptions};
use veridical_io::{LabelOptions, LabeledOptions, RecordOptions, read_labeled, read_labels};

/// Where the data sets are unless the user says so.
const USUAL: &str = "../shared/data";
/// Users are cold below and warm from so many ratings on (section 6.1).
const WARM: usize = 60;
/// A warm user that the authors' files do not have.
const LEFT_OUT: &str = "3598";
/// Of so many users `--quick` takes one.
const QUICK: u32 = 12;

/// The files of MovieLens-1M, whose encoding they do not name.
fn latin(columns: &str) -> Result<RecordOptions> {
    let encoding = Some("latin1".into());
    Ok(RecordOptions { columns: columns.parse()?, encoding, ..RecordOptions::default() })
}

/// The folder of the data sets.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(given: Option<&Path>) -> Self {
        Self(given.map_or_else(|| USUAL.into(), Into::into))
    }

    /// A file or folder in it.
    pub fn file(&self, name: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        if path.exists() {
            return Ok(path);
        }
        let hint = "name the folder of the data sets with ⟨data⟩ or VERIDICAL_DATA";
        Err(Error::missing(format!("{} does not exist", path.display()), hint))
    }

    /// Paper 000, task 1: the movies of every user in published order, rated 3 and above.
    pub fn sequences(&self) -> Result<Interactions> {
        Ok(interactions::read_sequences(&self.file("ml-1m/sequences_ge3.txt.xz")?)?)
    }

    /// The genres of movies, in the alphabetical order in which `movies.dat` lists them.
    pub fn genres(&self, movies: &IdMap) -> Result<Labels> {
        let options = LabelOptions { records: latin("id=0,class=2")?, ..LabelOptions::default() };
        Ok(read_labels(&self.file("ml-1m/movies.dat.gz")?, &options, movies)?.0)
    }

    /// Title and genres of every movie.
    pub fn texts(&self, movies: &IdMap) -> Result<Vec<String>> {
        let options = LabeledOptions {
            records: RecordOptions { has_header: Some(false), ..latin("text=1,id=0,label=2")? },
            ..LabeledOptions::default()
        };
        let path = self.file("ml-1m/movies.dat.gz")?;
        let (read, _) = read_labeled(&path, &options)?;
        let mut texts = vec![String::new(); movies.len()];
        for ((id, title), genres) in read.ids.iter().zip(&read.texts).zip(&read.labels) {
            if let Some(movie) = movies.number(id) {
                texts[movie as usize] = format!("{title} {genres}");
            }
        }
        match texts.iter().position(String::is_empty) {
            None => Ok(texts),
            Some(movie) => {
                let what = format!("has no movie `{}`", movies.id(movie as u32));
                Err(Error::request(format!("{} {what}", path.display()), ""))
            }
        }
    }

    fn ratings(&self) -> Result<Interactions> {
        let path = self.file("ml-1m/ratings.dat.xz")?;
        Ok(interactions::read(&path, &InteractionOptions::default())?.data)
    }

    /// Figure 5: all ratings.
    pub fn everyone(&self, quick: bool) -> Result<Interactions> {
        let data = self.ratings()?;
        let users = kept(&data.users, quick, |_| true);
        let items = kept(&data.items, false, |_| true);
        Ok(if quick { only(&data, &users, &items) } else { data })
    }

    /// Table 3: movies with a rating of at least 4; users with at least 60 ratings.
    pub fn warm(&self, quick: bool) -> Result<Interactions> {
        let data = self.ratings()?;
        let left_out = data.users.number(LEFT_OUT);
        let count = counts(&data);
        let users = kept(&data.users, quick, |u| count[u as usize] >= WARM && Some(u) != left_out);
        let mut liked = vec![false; data.items.len()];
        for (&item, &rating) in data.item.iter().zip(data.rating.iter().flatten()) {
            liked[item as usize] |= rating >= 4.0;
        }
        let items = kept(&data.items, false, |i| liked[i as usize]);
        Ok(only(&data, &users, &items))
    }

    /// Table 1: users with fewer than 60 ratings, and the movies they rated.
    pub fn cold(&self, quick: bool) -> Result<Interactions> {
        let data = self.ratings()?;
        let count = counts(&data);
        let users = kept(&data.users, quick, |u| count[u as usize] < WARM);
        let mut rated = vec![false; data.items.len()];
        for (u, i) in data.user.iter().zip(&data.item) {
            rated[*i as usize] |= users.binary_search(u).is_ok();
        }
        let items = kept(&data.items, false, |i| rated[i as usize]);
        Ok(only(&data, &users, &items))
    }

    /// What is known about the nodes of `data`: `cast` (movies that share an actor, users of one age group)
    /// and `genre` (movies that share a genre, the same users).
    pub fn graphs(&self, data: &Interactions) -> Result<Vec<(String, Graphs)>> {
        let read = |name: &str, columns: &str, relation: Option<&str>, ids: &IdMap| {
            let options = LabelOptions {
                records: latin(columns)?,
                relation: relation.map(str::to_owned),
                ..LabelOptions::default()
            };
            let labels = read_labels(&self.file(name)?, &options, ids)?.0;
            Ok::<_, Error>(Graph::from_labels(&labels))
        };
        let users = read("ml-1m/users.dat.gz", "id=0,class=2", None, &data.users)?;
        let triples = "movie-kg-ml1m/triples.tsv.xz";
        let cast = read(triples, "id=0,relation=1,class=2", Some("actor"), &data.items)?;
        let genre = Graph::from_labels(&self.genres(&data.items)?);
        let both =
            |item| Graphs { user: Some(users.clone()), item: Some(item), ..Graphs::default() };
        Ok(vec![("cast".into(), both(cast)), ("genre".into(), both(genre))])
    }

    /// Table 2: the authors' ratings and their split, 200 ratings of every user to learn from.
    pub fn authors(&self, quick: bool) -> Result<(Interactions, Split)> {
        let read = |name| {
            let records = RecordOptions { has_header: Some(false), ..RecordOptions::default() };
            let options = InteractionOptions { records, ..InteractionOptions::default() };
            Ok::<_, Error>(interactions::read(&self.file(name)?, &options)?.data)
        };
        let train = read("ml-1m-sse/mf_train_ratings.csv.xz")?;
        let test = read("ml-1m-sse/mf_test_ratings.csv.xz")?;
        let ids = |of: fn(&Interactions) -> &IdMap, numbers: fn(&Interactions) -> &[u32]| {
            let id = |data: &Interactions| -> Result<Vec<i64>> {
                let id = |&n: &u32| {
                    let id = of(data).id(n);
                    id.parse().map_err(|_| {
                        Error::request(format!("ml-1m-sse: the id `{id}` is no integer"), "")
                    })
                };
                numbers(data).iter().map(id).collect()
            };
            Ok::<_, Error>(IdMap::of_integers(&[id(&train)?, id(&test)?].concat()))
        };
        let (users, user) = ids(|data| &data.users, |data| &data.user)?;
        let (items, item) = ids(|data| &data.items, |data| &data.item)?;
        let both =
            [&train, &test].into_iter().flat_map(|data| data.rating.iter().flatten().copied());
        let (rating, time) = (Some(both.collect()), None);
        let data = Interactions { users, items, user, item, rating, time };
        let n = train.len() as u32;
        let of = |rows: std::ops::Range<u32>| {
            rows.filter(|&r| !quick || data.user[r as usize].is_multiple_of(QUICK)).collect()
        };
        let split =
            Split { train: of(0..n), validation: Vec::new(), test: of(n..data.len() as u32) };
        Ok((data, split))
    }
}

/// The rows of one user of `of`, and the items they hold.
pub fn part(data: &Interactions, of: u32) -> Interactions {
    let users: Vec<u32> = (0..data.users.len() as u32).filter(|u| u.is_multiple_of(of)).collect();
    let mut held = vec![false; data.items.len()];
    for (user, item) in data.user.iter().zip(&data.item) {
        held[*item as usize] |= user.is_multiple_of(of);
    }
    let items: Vec<u32> = (0..data.items.len() as u32).filter(|i| held[*i as usize]).collect();
    only(data, &users, &items)
}

/// Rows of every user.
fn counts(data: &Interactions) -> Vec<usize> {
    let mut counts = vec![0; data.users.len()];
    data.user.iter().for_each(|&u| counts[u as usize] += 1);
    counts
}

/// The numbers that are wanted, ascending; `quick` takes one of a dozen.
fn kept(ids: &IdMap, quick: bool, wanted: impl Fn(u32) -> bool) -> Vec<u32> {
    let step = if quick { QUICK } else { 1 };
    (0..ids.len() as u32).filter(|&n| wanted(n) && n.is_multiple_of(step)).collect()
}

/// The rows of these users and items, which ascend, under new numbers.
fn only(data: &Interactions, users: &[u32], items: &[u32]) -> Interactions {
    let number = |list: &[u32], n: u32| list.binary_search(&n).ok().map(|at| at as u32);
    let rows: Vec<usize> = (0..data.len())
        .filter(|&r| number(users, data.user[r]).is_some() && number(items, data.item[r]).is_some())
        .collect();
    let renumber =
        |list: &[u32], of: &[u32]| rows.iter().filter_map(|&r| number(list, of[r])).collect();
    Interactions {
        users: data.users.only(users),
        items: data.items.only(items),
        user: renumber(users, &data.user),
        item: renumber(items, &data.item),
        rating: data.rating.as_ref().map(|of| rows.iter().map(|&r| of[r]).collect()),
        time: data.time.as_ref().map(|of| rows.iter().map(|&r| of[r]).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_items_left_out_take_their_rows_along() {
        let data = Interactions {
            users: IdMap::numbered(3),
            items: IdMap::numbered(4),
            user: vec![0, 1, 2, 2, 0],
            item: vec![3, 1, 1, 0, 1],
            rating: Some(vec![1.0, 2.0, 3.0, 4.0, 5.0]),
            time: None,
        };
        let some = only(&data, &[0, 2], &[1, 3]);
        assert_eq!((some.users.id(1), some.items.id(1)), ("2".into(), "3".into()));
        assert_eq!((some.user, some.item), (vec![0, 1, 0], vec![1, 0, 0]));
        assert_eq!(some.rating, Some(vec![1.0, 3.0, 5.0]));
    }

    #[test]
    fn a_missing_file_says_how_to_name_the_folder() {
        let message = Folder::new(Some(Path::new("nowhere"))).ratings().unwrap_err().to_string();
        assert!(
            message.starts_with("nowhere") && message.contains("⟨data⟩ or VERIDICAL_DATA"),
            "{message}"
        );
    }
}
