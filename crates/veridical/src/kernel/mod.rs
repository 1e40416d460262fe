//! `veridical kernel`: Gram matrices of networks and of vectors as files.
//!
//! [`compute()`] writes a kernel tile by tile, so that it can be larger than the memory and be resumed after any tile; [`store()`] writes the
//! factors that any later kernel of the same rows follows from, without the network's inputs.
//!
//! [`check()`] compares a written kernel with the exact one and looks at its spectrum. [`regress`] and [`classify`] learn from kernels of
//! examples.
//!
//! A kernel folder has `k.npy`, rows x columns of f32; `k.json`, what it is and what is known of it; `rows.csv` and, for a kernel of
//! queries, `columns.csv`: ids and labels. Nothing in it depends on the time, the number of threads or the memory.

mod check;
mod compute;
mod folder;
mod learn;
mod page;
mod source;
mod store;

pub use self::check::{CheckSettings, Checked, Spectrum, check};
pub use self::compute::{
    Compute, Computed, Facts, LayerShare, NormalizationName, Planned, SketchError, compute,
};
pub use self::learn::{
    Learn, Learned, Score, Solved, SolverName, Tried, WeightRule, classify, regress,
};
pub use self::source::KernelRows;
pub(crate) use self::store::Store;
pub use self::store::{StoreSettings, Stored, store};
