//! Helpers shared by the tests of several modules.

use std::path::PathBuf;

/// A real dataset, from `$VERIDICAL_DATA`, else from `../shared/data` beside the checkout.
pub(crate) fn shared(name: &str) -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let folder = std::env::var_os("VERIDICAL_DATA").map_or_else(|| beside.into(), PathBuf::from);
    let path = folder.join(name);
    if path.exists() {
        return Some(path);
    }
    eprintln!(
        "skipped: {} is absent; set VERIDICAL_DATA to the folder of data sets",
        path.display()
    );
    None
}
