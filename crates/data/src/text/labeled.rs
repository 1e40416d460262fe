//! Documents with labels, and optionally the part (training, validation or test set) they belong to.

/// The labeled documents of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabeledTexts {
    /// The text of every document, unchanged.
    pub texts: Vec<String>,
    /// The id of every document: its id column, or its row number from 0.
    pub ids: Vec<String>,
    /// One label per document; empty if labels were not requested.
    pub labels: Vec<String>,
    /// One part per document, if the table has a column for it.
    pub parts: Vec<Part>,
}

/// The part of a dataset that a document belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The training set.
    Train,
    /// The validation set, which decides when to stop.
    Validation,
    /// The test set, which the model is evaluated on.
    Test,
}
