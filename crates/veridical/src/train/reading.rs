//! Files as the flags of a training describe them.

use std::path::Path;

use veridical_data::interactions::{self, InteractionOptions};
use veridical_data::{
    ColumnMap, Corpus, EdgeOptions, Graph, IdMap, Interactions, LabelOptions, Labels, TextOptions,
};
use veridical_embed::Method;

use super::options::Options;
use crate::{Error, Observer, Result};

/// Who did what.
pub(crate) fn interactions(
    path: &Path,
    options: &Options,
    observer: &dyn Observer,
) -> Result<Interactions> {
    let columns = options.columns.as_deref().map(str::parse).transpose()?;
    let read = interactions::read(
        path,
        &InteractionOptions {
            columns: columns.unwrap_or_default(),
            min_rating: options.min_rating,
            has_header: has_header(options),
            encoding: options.encoding.clone(),
            format: None,
            text_ids: options.text_ids.unwrap_or(false),
        },
    )?;
    read.notes.iter().for_each(|note| observer.note(note));
    Ok(read.data)
}

/// Documents.
pub(crate) fn text(method: Method, options: &Options, observer: &dyn Observer) -> Result<Corpus> {
    let Some(path) = &options.text else {
        let what = "learns from documents; name them with --text FILE";
        return Err(Error::Usage(format!("{} {what}", method.name())));
    };
    let (corpus, notes) = Corpus::read(path, &text_options(options))?;
    notes.iter().for_each(|note| observer.note(note));
    Ok(corpus)
}

/// How documents are read.
pub(crate) fn text_options(options: &Options) -> TextOptions {
    let defaults = TextOptions::default();
    TextOptions {
        column: options.column.clone(),
        id_column: options.id_column.clone(),
        min_count: options.min_count.unwrap_or(defaults.min_count),
        encoding: options.encoding.clone(),
        has_header: has_header(options),
        ..defaults
    }
}

/// A graph from a list of edges.
pub(crate) fn edges(
    path: &Path,
    options: &Options,
    ids: &IdMap,
    observer: &dyn Observer,
) -> Result<Graph> {
    let encoding = options.encoding.clone();
    let edges = EdgeOptions { encoding, ..EdgeOptions::default() };
    let (graph, notes) = Graph::read_edges(path, &edges, ids)?;
    notes.iter().for_each(|note| observer.note(note));
    Ok(graph)
}

/// A graph of those who share a label.
pub(crate) fn groups(
    path: &Path,
    options: &Options,
    ids: &IdMap,
    observer: &dyn Observer,
) -> Result<Graph> {
    let (labels, notes) = Labels::read(path, &label_options(options), ids)?;
    notes.iter().for_each(|note| observer.note(note));
    Ok(Graph::from_labels(&labels))
}

/// How labels are read.
pub(crate) fn label_options(options: &Options) -> LabelOptions {
    let mut columns = ColumnMap::default();
    if let Some(column) = &options.groups_column {
        columns.set("class", column);
    }
    let defaults = LabelOptions::default();
    LabelOptions {
        columns,
        separator: options.groups_separator.clone().unwrap_or(defaults.separator),
        relation: options.groups_relation.clone(),
        encoding: options.encoding.clone(),
        has_header: None,
        format: None,
    }
}

/// The first line is data if the user says so, otherwise it is looked at.
fn has_header(options: &Options) -> Option<bool> {
    options.no_header.filter(|&no| no).map(|_| false)
}
