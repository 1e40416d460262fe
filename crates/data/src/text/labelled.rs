//! Documents with labels, and maybe the part they belong to.

/// Documents of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabelledTexts {
    /// As they stand in the table.
    pub texts: Vec<String>,
    /// What each is called: its id, or its number from 0.
    pub ids: Vec<String>,
    /// One per document; none if they are not asked for.
    pub labels: Vec<String>,
    /// One per document, if there is a column for it.
    pub parts: Vec<Part>,
}

/// What a document is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// To learn from.
    Train,
    /// To decide when to stop.
    Validation,
    /// To judge on.
    Test,
}
