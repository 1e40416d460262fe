use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::Int64Array;
use arrow_schema::{DataType, Field};
use veridical_data::{Graph, IdMap, Labels};

use super::*;
use crate::RecordOptions;

fn put(folder: &tempfile::TempDir, name: &str, content: &str) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    path
}

fn columns(text: &str) -> RecordOptions {
    RecordOptions { columns: text.parse().unwrap(), ..RecordOptions::default() }
}

fn message(folder: &tempfile::TempDir, error: &crate::Error) -> String {
    error.to_string().replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn edges_are_read_merged_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let ids = IdMap::of_integers(&[10, 20, 30, 40]).0;
    let path = put(
        &folder,
        "e.csv",
        "source,target,weight\n10,20,0.5\n20,10,1\n30,30,1\n10,30,2\n10,99,1\n",
    );
    let (graph, notes) = read_edges(&path, &EdgeOptions::default(), &ids).unwrap();
    let Graph::Edges { neighbors, weights } = &graph else { panic!("edges") };
    assert_eq!(neighbors.iter().collect::<Vec<_>>(), [&[1, 2][..], &[0], &[0], &[]]);
    assert_eq!(weights.as_deref().unwrap(), [1.5, 2.0, 1.5, 2.0]);
    assert_eq!(
        notes[1..],
        [
            "1 of 5 edges have ids that are not in the table, such as `99`; they were dropped",
            "1 self-loops dropped",
            "1 duplicate edges merged",
        ]
    );
    let summary = graph.describe();
    assert_eq!((summary.nodes, summary.edges, summary.isolated), (4, 2, 1));
    assert_eq!((summary.mean_degree, summary.weighted, summary.groups), (1.0, true, None));
    for name in ["again.csv", "again.parquet"] {
        let again = folder.path().join(name);
        write_graph(&graph, &again, &ids).unwrap();
        assert_eq!(read_edges(&again, &EdgeOptions::default(), &ids).unwrap().0, graph);
    }
}

#[test]
fn bad_edges_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let ids = IdMap::of_integers(&[1, 2, 3]).0;
    let refused = |content: &str, options: &EdgeOptions| {
        let path = put(&folder, "e.csv", content);
        message(&folder, &read_edges(&path, options, &ids).unwrap_err())
    };
    let plain = EdgeOptions::default();
    for weight in ["0", "-1", "NaN", "inf", "x", ""] {
        let want = format!(
            "e.csv: line 3: the weight `{weight}` is not a positive number; repair it, or remove the edge"
        );
        assert_eq!(refused(&format!("source,target,weight\n1,2,1\n1,3,{weight}\n"), &plain), want);
    }
    let want =
        "e.csv: no edge is left: 2 of 2 edges have ids that are not in the table, such as `7`";
    assert_eq!(refused("1,7\n8,9\n", &plain), want);
    assert_eq!(refused("1,1\n", &plain), "e.csv: no edge is left");
    let strict = EdgeOptions { strict: true, ..EdgeOptions::default() };
    let want = "e.csv: line 2: the id `x` is not in the table; remove the edge";
    assert_eq!(refused("1,2\n2,x\n", &strict), want);
}

#[test]
fn labels_are_read_from_three_layouts() {
    let folder = tempfile::tempdir().unwrap();
    let ids = IdMap::of_integers(&[1, 2, 3]).0;
    let read = |name: &str, content: &str, options: &LabelOptions| {
        read_labels(&put(&folder, name, content), options, &ids).unwrap()
    };
    let classes = |labels: &Labels, node: usize| {
        labels.of.get(node).iter().map(|&c| labels.classes.id(c)).collect::<Vec<_>>().join("+")
    };
    let plain = LabelOptions::default();
    let (lists, notes) = read("m.dat", "1::Toy::B|A\n2::Heat::C| A \n9::None::A\n", &plain);
    assert_eq!([classes(&lists, 0), classes(&lists, 1), classes(&lists, 2)], ["A+B", "A+C", ""]);
    assert_eq!(
        notes,
        [
            "id from column `0`, class from column `2`",
            "1 of 3 rows have ids that are not in the table, such as `9`; they were dropped",
            "1 of 3 ids have no class",
        ]
    );
    let (pairs, _) = read("m.csv", "movieId,genre\n1,B\n1,A\n2,A\n2,C\n2,C\n", &plain);
    assert_eq!(pairs, lists);
    let triples = "1\tgenre\tA\n1\tactor\tX\n1\tgenre\tB\n2\tgenre\tA\n2\tgenre\tC\n";
    let genre = LabelOptions { relation: Some("genre".into()), ..LabelOptions::default() };
    assert_eq!(read("t.tsv", triples, &genre).0, lists);
    let whole = LabelOptions { separator: String::new(), ..LabelOptions::default() };
    assert_eq!(classes(&read("w.csv", "id,class\n1,A|B\n", &whole).0, 0), "A|B");
    let age = LabelOptions { records: columns("class=2"), ..LabelOptions::default() };
    assert_eq!(classes(&read("users.dat", "1::F::18::10::48067\n", &age).0, 0), "18");
    let refused = |content: &str, options: &LabelOptions| {
        let path = put(&folder, "bad.tsv", content);
        message(&folder, &read_labels(&path, options, &ids).unwrap_err())
    };
    let other = LabelOptions { relation: Some("director".into()), ..LabelOptions::default() };
    let want = "bad.tsv: no row has the relation `director`; the relations are `genre`, `actor`";
    assert_eq!(refused(triples, &other), want);
    assert!(refused("7\tA\n", &plain).contains("the ids must be those of the data"));
    for none in ["|", "(no genres listed)"] {
        assert_eq!(refused(&format!("1\t{none}\n"), &plain), "bad.tsv: no row has a class");
    }
}

#[test]
fn classes_of_a_parquet_list_are_read() {
    use arrow_array::{ArrayRef, ListArray, RecordBatch, StringArray};
    use arrow_buffer::OffsetBuffer;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.parquet");
    let values: ArrayRef = Arc::new(StringArray::from(vec!["B", "A", "C"]));
    let item = Arc::new(Field::new("item", DataType::Utf8, true));
    let lists = ListArray::new(item, OffsetBuffer::from_lengths([2, 0, 1]), values, None);
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let batch = RecordBatch::try_from_iter([("id", ids), ("genres", Arc::new(lists))]).unwrap();
    let file = fs::File::create(&path).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let ids = IdMap::of_integers(&[1, 2, 3]).0;
    let (labels, _) = read_labels(&path, &LabelOptions::default(), &ids).unwrap();
    assert_eq!(labels.of.iter().collect::<Vec<_>>(), [&[0, 1][..], &[], &[2]]);
}

#[test]
fn names_are_found_by_id() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("movies.dat");
    fs::write(&path, b"1::Toy Story (1995)::A\n2::Les Mis\xe9rables::B\n").unwrap();
    let names = read_names(&path, &Default::default()).unwrap();
    assert_eq!(
        (names["1"].as_str(), names["2"].as_str()),
        ("Toy Story (1995)", "Les Mis\u{e9}rables")
    );
}

/// The cast of MovieLens-1M's movies, from the triples of a knowledge graph; its genres, from its own file.
#[test]
fn attributes_of_movielens_are_read() {
    let Some(ratings) = crate::testing::shared("ml-1m/ratings.dat.xz") else { return };
    let data = crate::interactions::read(&ratings, &Default::default()).unwrap().data;
    if let Some(path) = crate::testing::shared("movie-kg-ml1m/triples.tsv.xz") {
        let actors = LabelOptions { relation: Some("actor".into()), ..LabelOptions::default() };
        let (labels, _) = read_labels(&path, &actors, &data.items).unwrap();
        let graph = Graph::from_labels(&labels).describe();
        assert!(graph.groups.unwrap() > 1000 && graph.isolated < 1000, "{graph:?}");
    }
    if let Some(path) = crate::testing::shared("ml-1m/movies.dat.gz") {
        let (labels, notes) = read_labels(&path, &LabelOptions::default(), &data.items).unwrap();
        assert_eq!(labels.classes.len(), 18, "{notes:?}"); // README.grouplens.txt lists 18 genres
        let names = read_names(&path, &Default::default()).unwrap();
        assert_eq!(names["1193"], "One Flew Over the Cuckoo's Nest (1975)");
    }
}
