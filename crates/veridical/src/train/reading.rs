//! Reading training data as the flags describe it.

use std::path::Path;

use veridical_core::Job;
use veridical_data::{Corpus, Graph, IdMap, Interactions};
use veridical_embed::Method;
use veridical_io::interactions::{self, ColumnNames, InteractionOptions};
use veridical_io::{ColumnMap, EdgeOptions, LabelOptions, RecordOptions, TextOptions};

use super::options::Options;
use crate::settings::{DocumentColumns, GroupReading, InteractionReading, TextFiles, Vocabulary};
use crate::{Error, Result};

/// Reads user-item interactions.
pub(crate) fn interactions(
    path: &Path,
    options: &InteractionReading,
    job: &Job<'_>,
) -> Result<Interactions> {
    Ok(named_interactions(path, options, job)?.0)
}

/// Reads user-item interactions and the names of their columns.
pub(crate) fn named_interactions(
    path: &Path,
    options: &InteractionReading,
    job: &Job<'_>,
) -> Result<(Interactions, ColumnNames)> {
    let columns = options.columns.as_deref().map(str::parse).transpose()?;
    let read = interactions::read(
        path,
        &InteractionOptions {
            records: options.files.records(columns.unwrap_or_default()),
            min_rating: options.min_rating,
            text_ids: options.text_ids,
        },
    )?;
    read.notes.iter().for_each(|note| job.note(note));
    Ok((read.data, read.names))
}

/// Reads the documents of a training.
pub(crate) fn text(method: Method, options: &Options, job: &Job<'_>) -> Result<Corpus> {
    let Some(path) = &options.text else {
        let what = "needs documents; pass them with ⟨text⟩ FILE";
        return Err(Error::request(format!("{} {what}", method.name()), ""));
    };
    let files = &options.reading.files;
    corpus(path, &text_options(&options.documents, &options.vocabulary, files), job)
}

/// Reads the documents of a file.
pub(crate) fn corpus(path: &Path, options: &TextOptions, job: &Job<'_>) -> Result<Corpus> {
    let (corpus, notes) = veridical_io::read_corpus(path, options)?;
    notes.iter().for_each(|note| job.note(note));
    Ok(corpus)
}

/// Returns the options for reading documents.
pub(crate) fn text_options(
    documents: &DocumentColumns,
    vocabulary: &Vocabulary,
    files: &TextFiles,
) -> TextOptions {
    let columns = ColumnMap::default()
        .with("text", documents.column.as_ref())
        .with("id", documents.id_column.as_ref());
    let defaults = TextOptions::default();
    TextOptions {
        records: files.records(columns),
        min_count: vocabulary.min_count.unwrap_or(defaults.min_count),
        ..defaults
    }
}

/// Reads a graph from a list of edges.
pub(crate) fn edges(path: &Path, files: &TextFiles, ids: &IdMap, job: &Job<'_>) -> Result<Graph> {
    let edges = EdgeOptions { records: files.encoded(), ..EdgeOptions::default() };
    let (graph, notes) = veridical_io::read_edges(path, &edges, ids)?;
    notes.iter().for_each(|note| job.note(note));
    Ok(graph)
}

/// Reads a graph that connects ids that share a label.
pub(crate) fn groups(
    path: &Path,
    (groups, files): (&GroupReading, &TextFiles),
    ids: &IdMap,
    job: &Job<'_>,
) -> Result<Graph> {
    let (labels, notes) = veridical_io::read_labels(path, &label_options(groups, files), ids)?;
    notes.iter().for_each(|note| job.note(note));
    Ok(Graph::from_labels(&labels))
}

/// Returns the options for reading labels.
fn label_options(groups: &GroupReading, files: &TextFiles) -> LabelOptions {
    let columns = ColumnMap::default().with("class", groups.groups_column.as_ref());
    let defaults = LabelOptions::default();
    LabelOptions {
        records: RecordOptions { columns, ..files.encoded() },
        separator: groups.groups_separator.clone().unwrap_or(defaults.separator),
        relation: groups.groups_relation.clone(),
        ..defaults
    }
}
