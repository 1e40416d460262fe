use std::fs;
use std::path::{Path, PathBuf};

use veridical_data::Ids;
use veridical_data::Interactions;

use super::*;
use crate::{ColumnMap, Error, RecordFormat, RecordOptions, Result};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// The message without the name of the folder.
    fn message(&self, error: &Error) -> String {
        error.to_string().replace(&format!("{}/", self.0.path().display()), "")
    }

    fn read(&self, name: &str, content: impl AsRef<[u8]>) -> Read {
        read(&self.put(name, content), &InteractionOptions::default()).unwrap()
    }

    fn refused(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        self.refused_with(name, content, &InteractionOptions::default())
    }

    fn refused_with(
        &self,
        name: &str,
        content: impl AsRef<[u8]>,
        options: &InteractionOptions,
    ) -> String {
        self.message(&read(&self.put(name, content), options).unwrap_err())
    }
}

fn with(records: RecordOptions) -> InteractionOptions {
    InteractionOptions { records, ..InteractionOptions::default() }
}

fn with_columns(columns: &str) -> InteractionOptions {
    with(RecordOptions { columns: columns.parse().unwrap(), ..RecordOptions::default() })
}

/// User, item, rating, time of every row, as text.
fn rows(data: &Interactions) -> Vec<String> {
    let row = |r: usize| {
        let rating = data.rating.as_ref().map_or(String::new(), |x| format!(" {}", x[r]));
        let time = data.time.as_ref().map_or(String::new(), |x| format!(" @{}", x[r]));
        format!("{} {}{rating}{time}", data.users.id(data.user[r]), data.items.id(data.item[r]))
    };
    (0..data.len()).map(row).collect()
}

const WANT: [&str; 3] = ["7 30 4.5 @100", "2 10 3 @90", "7 10 1 @110"];

#[test]
fn every_format_returns_the_same_rows() {
    let folder = Folder::new();
    let files = [
        ("a.dat", "7::30::4.5::100\n2::10::3::90\n7::10::1::110\n"),
        ("a.csv", "userId,movieId,rating,timestamp\n7,30,4.5,100\n2,10,3,90\n7,10,1,110\n"),
        ("bom.csv", "\u{feff}user,item,stars,ts\r\n7,30,4.5,100\r\n\r\n2,10,3,90\r\n7,10,1,110"),
        ("plain.csv", "7,30,4.5,100\n2,10,3,90\n7,10,1,110\n"),
        ("semicolon.csv", "item;user;rating;time\n30;7;4.5;100\n10;2;3;90\n10;7;1;110\n"),
        ("u.data", "7\t30\t4.5\t100\n2\t10\t3\t90\n7\t10\t1\t110\n"),
        ("spaces.txt", "7 30 4.5 100\n2  10 3 90\n7 10 1 110\n"),
        (
            "a.inter",
            "user_id:token\titem_id:token\trating:float\ttimestamp:float\n\
             7\t30\t4.5\t100.0\n2\t10\t3\t90.5\n7\t10\t1\t110\n",
        ),
    ];
    let first = folder.read(files[0].0, files[0].1).data;
    assert_eq!(rows(&first), WANT);
    assert_eq!((first.users.len(), first.items.len()), (2, 2));
    for (name, content) in files {
        assert_eq!(folder.read(name, content).data, first, "{name}");
    }
    for extension in ["parquet", "arrow", "csv", "tsv"] {
        let path = folder.0.path().join(format!("ours.{extension}"));
        write(&path, &first, &[0, 1, 2], &ColumnNames::default()).unwrap();
        assert_eq!(read(&path, &InteractionOptions::default()).unwrap().data, first, "{extension}");
    }
}

#[test]
fn notes_say_which_columns_were_taken() {
    let folder = Folder::new();
    let got = folder.read("a.csv", "uid,sku,when\na,x,1\n");
    assert_eq!(got.notes, ["user from column `uid`, item from column `sku`"]);
    assert_eq!(rows(&got.data), ["a x"]);
    let options = with_columns("user=uid,item=SKU,time=when");
    let got = read(&got.files[0], &options).unwrap();
    assert!(got.notes.is_empty(), "{:?}", got.notes);
    assert_eq!(rows(&got.data), ["a x @1"]);
    let by_number = folder.put("b.csv", "5,1,x,a\n");
    let options = with_columns("user=3,item=2,rating=0");
    assert_eq!(rows(&read(&by_number, &options).unwrap().data), ["a x 5"]);
}

#[test]
fn a_folder_is_read_in_the_order_of_its_files() {
    let folder = Folder::new();
    folder.put("parts/b.csv", "user,item\n1,2\n");
    folder.put("parts/a.dat", "3::4\n");
    folder.put("parts/c.csv", "");
    folder.put("parts/_SUCCESS", "");
    let got = read(&folder.0.path().join("parts"), &InteractionOptions::default()).unwrap();
    assert_eq!(rows(&got.data), ["3 4", "1 2"]);
    assert_eq!(got.files.len(), 3);
    folder.put("parts/d.csv", "user,item,rating\n1,2,3\n");
    let error = read(&folder.0.path().join("parts"), &InteractionOptions::default());
    let message = folder.message(&error.unwrap_err());
    assert!(
        message.contains("d.csv: the files of a folder must have the same columns"),
        "{message}"
    );
}

#[test]
fn latin_1_and_compression_are_detected() {
    let folder = Folder::new();
    let got = folder.read("a.dat", b"caf\xe9::1\nb::2\n");
    assert_eq!(rows(&got.data), ["caf\u{e9} 1", "b 2"]);
    assert!(got.notes.iter().any(|n| n.contains("1 line is not UTF-8 and read as latin-1")));
    let message = folder.refused("a.csv", b"user,item\ncaf\xe9,1\n");
    assert_eq!(
        message,
        "a.csv: line 2 is not UTF-8; name its encoding with ⟨encoding⟩, for example latin-1"
    );
    let options =
        with(RecordOptions { encoding: Some("latin-1".into()), ..RecordOptions::default() });
    let got = read(&folder.0.path().join("a.csv"), &options).unwrap();
    assert_eq!(rows(&got.data), ["caf\u{e9} 1"]);
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gz, b"1::2\n").unwrap();
    assert_eq!(rows(&folder.read("a.dat.gz", gz.finish().unwrap()).data), ["1 2"]);
}

#[test]
fn rows_below_the_minimum_rating_are_dropped() {
    let folder = Folder::new();
    let path = folder.put("a.csv", "user,item,rating\n1,2,3\n4,5,4\n1,5,4.5\n");
    let least = |least| InteractionOptions { min_rating: Some(least), ..Default::default() };
    let got = read(&path, &least(4.0)).unwrap();
    assert_eq!(rows(&got.data), ["4 5 4", "1 5 4.5"]);
    assert_eq!(got.data.items.len(), 1);
    assert_eq!(got.notes[1], "1 row rated below 4 left out");
    let message = folder.message(&read(&path, &least(9.0)).unwrap_err());
    assert_eq!(message, "a.csv: all 3 rows are rated below ⟨min-rating⟩ 9");
    let message = folder.refused_with("b.csv", "user,item\n1,2\n", &least(1.0));
    assert!(message.contains("⟨min-rating⟩ needs ratings, but no column holds them"), "{message}");
}

#[test]
fn bad_values_are_named_with_file_line_and_text() {
    let folder = Folder::new();
    let rating = "repair the row, or choose another column with ⟨columns⟩ rating=COLUMN";
    for (value, what) in [
        ("abc", "is not a number"),
        ("", "is not a number"),
        ("-1", "is negative"),
        ("NaN", "is not finite"),
        ("inf", "is not finite"),
    ] {
        let content = format!("user,item,rating\n1,2,3\n1,3,{value}\n");
        let want = format!("a.csv: line 3: the rating `{value}` {what}; {rating}");
        assert_eq!(folder.refused("a.csv", content), want);
    }
    let want = "a.dat: line 2: the time `today` is not a number of seconds; convert it, or choose another \
                column with ⟨columns⟩ time=COLUMN";
    assert_eq!(folder.refused("a.dat", "1::2::3::4\n1::2::3::today\n"), want);
    for time in ["NaN", "1e300"] {
        let message = folder.refused("a.dat", format!("1::2::3::{time}\n"));
        assert!(message.contains("is not a number of seconds"), "{message}");
    }
    let want = "a.csv: line 2: item: the id is missing; fill it in or drop the row";
    assert_eq!(folder.refused("a.csv", "user,item\n1, \n"), want);
    let want = "a.csv: line 3: user: the ids `a ` and `a` differ only in the spaces around them; \
                use one spelling";
    assert_eq!(folder.refused("a.csv", "user,item\na,1\na ,2\n"), want);
    let want = "a.dat: line 2 has 3 fields where 2 are expected; repair the line";
    assert_eq!(folder.refused("a.dat", "1::2\n1::2::3\n"), want);
}

#[test]
fn bad_columns_are_reported_with_the_existing_ones() {
    let folder = Folder::new();
    let content = "who,what\na,b\n";
    assert_eq!(
        folder.refused("a.csv", content),
        "a.csv: no column is recognized as the user; the columns are `who`, `what`; name it with \
         ⟨columns⟩ user=COLUMN, or pass ⟨no-header⟩ if the first line is data"
    );
    assert_eq!(
        folder.refused_with("a.csv", content, &with_columns("user=whom,item=what")),
        "a.csv: ⟨columns⟩: there is no column `whom`; the columns are `who`, `what`, or pass ⟨no-header⟩ \
         if the first line is data"
    );
    assert_eq!(
        folder.refused_with("a.csv", content, &with_columns("buyer=who")),
        "⟨columns⟩: there is no part `buyer`; the parts are user, item, rating, time"
    );
    assert!(
        folder
            .refused_with("a.csv", "1,2\n", &with_columns("user=a"))
            .contains("columns have numbers")
    );
    assert!(
        folder
            .refused_with("a.csv", "1,2\n", &with_columns("user=1"))
            .contains("none is left for the item")
    );
    assert!("user".parse::<ColumnMap>().unwrap_err().to_string().contains("PART=COLUMN"));
    assert!("user=a,user=b".parse::<ColumnMap>().unwrap_err().to_string().contains("twice"));
    let no_header = with(RecordOptions { has_header: Some(false), ..RecordOptions::default() });
    let path = folder.put("b.csv", content);
    assert_eq!(rows(&read(&path, &no_header).unwrap().data), ["who what", "a b"]);
}

#[test]
fn files_without_rows_are_refused() {
    let folder = Folder::new();
    for (name, content) in [("a.csv", ""), ("b.csv", "user,item\n"), ("c.dat", "\n\n"), ("d", "")] {
        let want = format!("{name}: the table is empty: it has no rows");
        assert_eq!(folder.refused(name, content), want);
    }
    let missing = read(Path::new("no/such.csv"), &InteractionOptions::default()).unwrap_err();
    assert!(missing.to_string().starts_with("no/such.csv: cannot open"), "{missing}");
}

#[test]
fn the_format_can_be_named() {
    let folder = Folder::new();
    let path = folder.put("ratings.bak", "user,item\n1,2\n");
    let of = |format| with(RecordOptions { format: Some(format), ..RecordOptions::default() });
    let options = of(RecordFormat::Csv);
    assert_eq!(rows(&read(&path, &options).unwrap().data), ["1 2"]);
    let options = of(RecordFormat::Parquet);
    assert!(read(&path, &options).unwrap_err().to_string().contains("not a readable Parquet file"));
}

#[test]
fn ids_of_every_file_are_of_one_kind() {
    let folder = Folder::new();
    folder.put("parts/a.csv", "user,item\n10,1\n9,2\n");
    folder.put("parts/b.csv", "user,item\nx,1\n10,3\n");
    let data = read(&folder.0.path().join("parts"), &InteractionOptions::default()).unwrap().data;
    assert_eq!(rows(&data), ["10 1", "9 2", "x 1", "10 3"]);
    assert_eq!(data.user, [0, 1, 2, 0]); // "10" < "9" < "x" by bytes
    assert!(matches!(data.items.ids(), Ids::Int(_)));
}

/// Files that scipy wrote (`fuzz/make_corpus.py`).
#[test]
fn sparse_matrices_of_scipy_are_read() {
    let folder = Folder::new();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/interactions_npz");
    for name in ["csr", "csc", "coo", "csr-deflated", "csc-deflated", "coo-deflated"] {
        let got = folder.read("m.npz", fs::read(corpus.join(name)).unwrap());
        let mut entries = rows(&got.data);
        entries.sort();
        assert_eq!(entries, ["2 1 3", "5 9 2", "7 1 1", "7 3 4.5"], "{name}");
        assert_eq!(got.notes, ["a 10 x 10 matrix: its rows are the users, its columns the items"]);
    }
    let message = folder.refused("d.npz", fs::read(corpus.join("damaged-dia")).unwrap());
    let want = "d.npz: the matrix is stored as `dia`; save it with scipy.sparse.save_npz(path, matrix.tocsr())";
    assert_eq!(message, want);
}

/// MovieLens-1M as its authors describe it: 6,040 users, 3,706 movies with a rating, 1,000,209 ratings.
#[test]
fn movielens_is_read() -> Result<()> {
    let Some(path) = crate::testing::shared("ml-1m/ratings.dat.xz") else { return Ok(()) };
    let got = read(&path, &InteractionOptions::default())?;
    let (users, items) = (got.data.users.len(), got.data.items.len());
    assert_eq!((users, items, got.data.len()), (6040, 3706, 1_000_209));
    assert_eq!(rows(&got.data)[0], "1 1193 5 @978300760");
    let Some(path) = crate::testing::shared("ml-1m-sse/mf_train_ratings.csv.xz") else {
        return Ok(());
    };
    let got = read(&path, &InteractionOptions::default())?;
    assert_eq!(rows(&got.data)[0], "1 2 5");
    Ok(())
}
