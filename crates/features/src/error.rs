/// Errors of building a feature spec and of computing its features.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is outside its range: the caller changes the setting.
    #[error("{name} must be {must_be}, got {got}")]
    Param {
        /// Name of the setting, as the user knows it.
        name: &'static str,
        /// Rule that the value violates.
        must_be: String,
        /// Value that was given.
        got: String,
    },
    /// The document is not a feature spec of a supported format.
    #[error("not a feature spec: {0}")]
    Document(String),
    /// The document was edited: its fields do not match its id.
    #[error(
        "the {which} does not match the fields: the document says {stated}, its fields give {computed}; \
         the spec was edited or damaged, make a new one with `veridical featurize new`"
    )]
    Id {
        /// Name of the field with the mismatch, `spec_id` or `directions_id`.
        which: &'static str,
        /// Id stated in the document.
        stated: String,
        /// Id computed from the fields of the document.
        computed: String,
    },
    /// The rows do not have the width of the spec.
    #[error(
        "rows have {got} columns but the spec's input_dim is {expected}; use the table the spec \
         was made for, or make a spec with ⟨input-dim⟩ {got}"
    )]
    Width {
        /// Input dimension of the spec, `input_dim`.
        expected: usize,
        /// Width of the rows that were given.
        got: usize,
    },
    /// A slice does not consist of whole rows.
    #[error(transparent)]
    Rows(#[from] veridical_core::Error),
    /// A value is NaN or infinite.
    #[error("row {row} has a value that is not finite")]
    NotFinite {
        /// Index of the row inside the slice.
        row: usize,
    },
    /// The projection of a row would overflow f32.
    #[error(
        "row {row} has a value of size {value:e}: its projection overflows; \
         rescale the rows, for example with ⟨normalize⟩ standardize"
    )]
    TooLarge {
        /// Index of the row inside the slice.
        row: usize,
        /// Largest absolute value in the row.
        value: f32,
    },
    /// The row itself could be projected, but the spec's normalization makes it overflow.
    #[error(
        "the spec's normalization takes row {row} to a value of size {value:e}, which overflows: its \
         means or standard deviations are too extreme for this table; make a spec from the table itself"
    )]
    Normalization {
        /// Index of the row inside the slice.
        row: usize,
        /// Largest absolute value in the normalized row.
        value: f32,
    },
    /// The data does not determine a length scale.
    #[error("cannot choose a length scale: {why}; pass a number with ⟨length-scale⟩")]
    LengthScale {
        /// Reason why the data does not determine it.
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
