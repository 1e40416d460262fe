//! Reads user-item interactions.

use std::path::{Path, PathBuf};

use veridical_data::{Interactions, Interner};

use crate::records::{self, Cell, RecordOptions, Role, Row};
use crate::{Error, Result};

/// Options for reading interactions.
#[derive(Clone, Debug, Default)]
pub struct InteractionOptions {
    /// How the files are read; their columns are `user`, `item`, `rating` and `time`.
    pub records: RecordOptions,
    /// The minimum rating; rows with a lower rating are dropped.
    pub min_rating: Option<f32>,
    /// Whether ids are text even if they look like integers.
    pub text_ids: bool,
}

/// Interactions and notes on how they were read.
#[derive(Clone, Debug)]
pub struct Read {
    /// The interactions.
    pub data: Interactions,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// The files, in the order in which they were read.
    pub files: Vec<PathBuf>,
    /// The names of the columns; the usual ones where the files have no names.
    pub names: ColumnNames,
}

/// Names of the columns of interactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnNames {
    /// Of users.
    pub user: String,
    /// Of items.
    pub item: String,
    /// Of ratings.
    pub rating: String,
    /// Of times.
    pub time: String,
}

impl Default for ColumnNames {
    fn default() -> Self {
        let [user, item, rating, time] = ["user", "item", "rating", "timestamp"].map(str::to_owned);
        Self { user, item, rating, time }
    }
}

const USER: usize = 0;
const ITEM: usize = 1;
const RATING: usize = 2;
const TIME: usize = 3;

const ROLES: [Role; 4] = [
    Role {
        name: "user",
        flag: "⟨columns⟩ user=",
        known: &[
            "user",
            "user_id",
            "userid",
            "uid",
            "customer",
            "customer_id",
            "session",
            "session_id",
            "visitorid",
        ],
        required: true,
        place: USER,
    },
    Role {
        name: "item",
        flag: "⟨columns⟩ item=",
        known: &[
            "item",
            "item_id",
            "itemid",
            "iid",
            "movie",
            "movie_id",
            "movieid",
            "product",
            "product_id",
            "productid",
            "sku",
            "asin",
            "parent_asin",
            "article_id",
            "track_id",
            "song_id",
            "book_id",
            "isbn",
            "business_id",
            "artist_id",
            "artistid",
        ],
        required: true,
        place: ITEM,
    },
    Role {
        name: "rating",
        flag: "⟨columns⟩ rating=",
        known: &[
            "rating", "ratings", "score", "stars", "overall", "label", "weight", "value", "plays",
            "count",
        ],
        required: false,
        place: RATING,
    },
    Role {
        name: "time",
        flag: "⟨columns⟩ time=",
        known: &["time", "timestamp", "ts", "unixreviewtime", "unix_time"],
        required: false,
        place: TIME,
    },
];

/// Reads interactions from a file or folder: MovieLens `::`, CSV, TSV, RecBole `.inter`, Parquet, Arrow, or a
/// sparse matrix saved by scipy with users as rows; text may be compressed.
///
/// ```
/// use veridical_io::RecordOptions;
/// use veridical_io::interactions::{InteractionOptions, read};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("ratings.csv");
/// std::fs::write(&path, "who,what,stars\nana,tea,5\nben,tea,2\nben,mate,4\n")?;
/// let columns = "user=who,item=what,rating=stars".parse()?;
/// let records = RecordOptions { columns, ..RecordOptions::default() };
/// let options = InteractionOptions { records, min_rating: Some(3.0), ..InteractionOptions::default() };
///
/// let found = read(&path, &options)?;
/// assert_eq!((found.data.len(), found.data.users.len()), (2, 2));
/// assert_eq!(found.notes, ["1 row rated below 3 left out"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Content`] names file, position, value and remedy for input that cannot be read.
pub fn read(path: &Path, options: &InteractionOptions) -> Result<Read> {
    let mut rows = Rows::new(options.text_ids);
    let mut left_out = 0u64;
    let seen = records::read(path, &ROLES, &options.records, &mut |row| {
        let rating = row.cell(RATING).map(|cell| rating(row, cell)).transpose()?;
        let time = row.cell(TIME).map(|cell| time(row, cell)).transpose()?;
        if options.min_rating.is_some_and(|least| rating.is_some_and(|rating| rating < least)) {
            left_out += 1;
            return Ok(());
        }
        rows.push(row, rating, time)
    })?;
    let mut notes = seen.notes;
    if let Some(least) = options.min_rating {
        if !seen.roles[RATING] {
            let what = "⟨min-rating⟩ needs ratings, but no column holds them; name it with ⟨columns⟩ rating=COLUMN";
            return Err(Error::content(path, what));
        }
        if rows.user.is_empty() {
            let what = format!("all {left_out} rows are rated below ⟨min-rating⟩ {least}");
            return Err(Error::content(path, what));
        }
        let rows = if left_out == 1 { "1 row" } else { &format!("{left_out} rows") };
        notes.push(format!("{rows} rated below {least} left out"));
    }
    let usual = ColumnNames::default();
    let mut names = seen.names;
    let mut name = |role: usize, usual: String| names[role].take().unwrap_or(usual);
    let names = ColumnNames {
        user: name(USER, usual.user),
        item: name(ITEM, usual.item),
        rating: name(RATING, usual.rating),
        time: name(TIME, usual.time),
    };
    let data = rows.finish(seen.roles[RATING], seen.roles[TIME]);
    Ok(Read { data, notes, files: seen.files, names })
}

/// The rows read so far.
struct Rows {
    users: Interner,
    items: Interner,
    user: Vec<u32>,
    item: Vec<u32>,
    rating: Vec<f32>,
    time: Vec<i64>,
}

impl Rows {
    fn new(text_ids: bool) -> Self {
        let ids = || Interner::new(text_ids);
        let (user, item) = (Vec::new(), Vec::new());
        Self { users: ids(), items: ids(), user, item, rating: Vec::new(), time: Vec::new() }
    }

    fn push(&mut self, row: &Row<'_>, rating: Option<f32>, time: Option<i64>) -> Result<()> {
        if self.user.len() >= u32::MAX as usize {
            return Err(row.refused("there are more than 2^32 - 1 rows; take a part of them"));
        }
        let number = |ids: &mut Interner, role: usize| {
            let cell = row.cell(role).unwrap_or(Cell::Missing);
            ids.number(cell).map_err(|what| row.refused(format!("{}: {what}", ROLES[role].name)))
        };
        self.user.push(number(&mut self.users, USER)?);
        self.item.push(number(&mut self.items, ITEM)?);
        self.rating.extend(rating);
        self.time.extend(time);
        Ok(())
    }

    fn finish(mut self, has_ratings: bool, has_times: bool) -> Interactions {
        let (users, places) = self.users.finish();
        self.user.iter_mut().for_each(|n| *n = places[*n as usize]);
        let (items, places) = self.items.finish();
        self.item.iter_mut().for_each(|n| *n = places[*n as usize]);
        Interactions {
            users,
            items,
            user: self.user,
            item: self.item,
            rating: has_ratings.then_some(self.rating),
            time: has_times.then_some(self.time),
        }
    }
}

fn rating(row: &Row<'_>, cell: Cell<'_>) -> Result<f32> {
    let value = match cell {
        Cell::Text(text) => text.trim().parse().ok(),
        Cell::Int(value) => Some(value as f32),
        Cell::Float(value) => Some(value as f32),
        Cell::Missing => None,
    };
    match value {
        Some(value) if value.is_finite() && value >= 0.0 => Ok(value),
        other => {
            let what = match other {
                None => "is not a number",
                Some(value) if value < 0.0 => "is negative",
                Some(_) => "is not finite",
            };
            let shown = cell.shown();
            let remedy = "repair the row, or choose another column with ⟨columns⟩ rating=COLUMN";
            Err(row.refused(format!("the rating `{shown}` {what}; {remedy}")))
        }
    }
}

/// Whole seconds; fractions are rounded down.
fn time(row: &Row<'_>, cell: Cell<'_>) -> Result<i64> {
    let whole = |value: f64| (value.abs() < 9.2e18).then(|| value.floor() as i64); // false for NaN
    let value = match cell {
        Cell::Text(text) => {
            let text = text.trim();
            text.parse().ok().or_else(|| text.parse().ok().and_then(whole))
        }
        Cell::Int(value) => Some(value),
        Cell::Float(value) => whole(value),
        Cell::Missing => None,
    };
    value.ok_or_else(|| {
        let what = format!("the time `{}` is not a number of seconds", cell.shown());
        row.refused(format!(
            "{what}; convert it, or choose another column with ⟨columns⟩ time=COLUMN"
        ))
    })
}
