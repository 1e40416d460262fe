/// What can go wrong between a spec and its features.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is outside its range: the caller changes the setting.
    #[error("{name} must be {must_be}, got {got}")]
    Param {
        /// The setting as the user knows it.
        name: &'static str,
        /// The rule it broke.
        must_be: String,
        /// The value that was given.
        got: String,
    },
    /// The document is not a feature spec of a format we know.
    #[error("not a feature spec: {0}")]
    Document(String),
    /// The document was edited: its fields no longer give its id.
    #[error(
        "the {which} does not match the fields: the document says {stated}, its fields give {computed}; \
         the spec was edited or damaged, make a new one with `veridical featurize new`"
    )]
    Id {
        /// `spec_id` or `directions_id`.
        which: &'static str,
        /// What the document says.
        stated: String,
        /// What its fields give.
        computed: String,
    },
    /// The rows are not as wide as the spec says.
    #[error(
        "rows have {got} columns but the spec's input_dim is {expected}; use the table the spec \
         was made for, or make a spec with ⟨input-dim⟩ {got}"
    )]
    Width {
        /// `input_dim` of the spec.
        expected: usize,
        /// Width of the rows.
        got: usize,
    },
    /// A slice is not made of whole rows.
    #[error(transparent)]
    Rows(#[from] veridical_core::Error),
    /// A value is not a finite number.
    #[error("row {row} has a value that is not finite")]
    NotFinite {
        /// Number of the row inside the slice.
        row: usize,
    },
    /// The projection would leave the range of f32.
    #[error(
        "row {row} has a value of size {value:e}: its projection overflows; \
         rescale the rows, for example with ⟨normalize⟩ standardize"
    )]
    TooLarge {
        /// Number of the row inside the slice.
        row: usize,
        /// The largest absolute value in it.
        value: f32,
    },
    /// The row could be projected, and the spec's normalization carries it too far.
    #[error(
        "the spec's normalization takes row {row} to a value of size {value:e}, which overflows: its \
         means or deviations are too extreme for this table; make a spec from the table itself"
    )]
    Normalization {
        /// Number of the row inside the slice.
        row: usize,
        /// The largest absolute value of the normalized row.
        value: f32,
    },
    /// The data gives no length scale.
    #[error("cannot choose a length scale: {why}; pass a number with ⟨length-scale⟩")]
    LengthScale {
        /// What is wrong with the data.
        why: String,
    },
}

impl Error {
    pub(crate) fn param(
        name: &'static str,
        must_be: impl Into<String>,
        got: impl ToString,
    ) -> Self {
        Self::Param { name, must_be: must_be.into(), got: got.to_string() }
    }
}
