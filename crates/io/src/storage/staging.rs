//! The local folder of an output to a store until it is published: objects can be neither appended to nor renamed.

use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Returns the path in `folder` (or in the user's cache) for the output `url`: the end of its name for
/// recognition, and a hash for uniqueness.
///
/// # Errors
/// [`Error::Content`] if there is no cache.
pub fn staging_path(url: &Path, folder: Option<&Path>) -> Result<PathBuf> {
    let folder = match folder {
        Some(folder) => folder.to_owned(),
        None => cache(|name| std::env::var_os(name).map(PathBuf::from)).ok_or_else(|| {
            let what =
                "there is no home folder for the unfinished output; name a folder with ⟨staging⟩";
            Error::content(url, what)
        })?,
    };
    let text = url.to_string_lossy();
    let text = text.trim_end_matches('/');
    let hash = blake3::hash(text.as_bytes()).to_hex();
    let name = text.rsplit('/').next().unwrap_or_default();
    Ok(folder.join(format!("{}-{name}", &hash[..16])))
}

/// `$XDG_CACHE_HOME/veridical/staging`, or below `~/.cache`.
fn cache(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let given = |name: &str| variable(name).filter(|path| path.is_absolute());
    let cache = given("XDG_CACHE_HOME").or_else(|| Some(given("HOME")?.join(".cache")))?;
    Some(cache.join("veridical/staging"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_output_has_a_place_of_its_own_that_can_be_recognized() {
        let at = |url: &str| staging_path(Path::new(url), Some(Path::new("/s"))).unwrap();
        let place = at("s3://b/k/phi.parquet");
        assert!(place.starts_with("/s") && place.to_string_lossy().ends_with("-phi.parquet"));
        assert_ne!(place, at("s3://b/j/phi.parquet"));
        assert_eq!(at("gs://b/phi/"), at("gs://b/phi"));
    }

    #[test]
    fn the_cache_of_the_user_is_the_default() {
        let with = |xdg: &str, home: &str| {
            let value = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
            cache(|name| value(if name == "HOME" { home } else { xdg }))
        };
        assert_eq!(with("/x", "/h"), Some(PathBuf::from("/x/veridical/staging")));
        assert_eq!(with("", "/h"), Some(PathBuf::from("/h/.cache/veridical/staging")));
        assert_eq!(with("not/absolute", ""), None);
    }
}
