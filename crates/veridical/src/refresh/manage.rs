//! What is done with publications besides making them: check, list, go back.

use serde::Serialize;
use serde_json::json;
use veridical_core::settings::Settings as _;
use veridical_core::{Error as Refused, Job, settings};
use veridical_io::publications::{self, MANIFEST, Manifest, Publications, SUCCESS};
use veridical_io::{Input, Output, storage};

use super::place;
use crate::Result;
use crate::train::now;

settings! {
    /// Settings of [`verify`].
    pub struct VerifyVersion {
        /// A version, or a folder of publications for its current one
        pub folder: Input = Input::default() => [positional(), required(), value("FOLDER")],
    }
}

settings! {
    /// Settings of [`list`].
    pub struct ListVersions {
        /// Folder of publications
        pub out: Input = Input::default() => [positional(), required(), value("FOLDER"), root()],
    }
}

settings! {
    /// Settings of [`rollback`].
    pub struct RollBack {
        /// Folder of publications
        pub out: Output = Output::default() => [positional(), required(), value("FOLDER")],
        /// Version to make current
        pub to: Option<String> = None => [value("VERSION"), otherwise("the one published before")],
    }
}

/// Result of [`verify`].
#[derive(Clone, Debug, Serialize)]
pub struct Verified {
    /// The version.
    pub version: String,
    /// Its folder.
    pub folder: String,
    /// Number of files that are as the manifest says.
    pub files: usize,
    /// Their size.
    pub bytes: u64,
    /// Number of rows of the published vectors.
    pub rows: u64,
}

/// Reads every file of a version and compares it with the manifest.
///
/// # Errors
/// [`veridical_core::Error::Damaged`] names the first file that is missing, truncated, changed or unknown.
pub fn verify(settings: &VerifyVersion) -> Result<Verified> {
    settings.check()?;
    let resolved = publications::resolve(&settings.folder)?;
    let folder = resolved.as_deref().unwrap_or(&settings.folder);
    let manifest = publications::verify(folder)?;
    if manifest.published
        && Publications::of_version(folder)
            .is_some_and(|p| p.is_pending(&manifest.version).unwrap_or(false))
    {
        let what =
            format!("{}: is not the manifest that was recorded", folder.join(MANIFEST).display());
        return Err(Refused::damaged(what, "publish this version again with ⟨force⟩").into());
    }
    if manifest.published && !storage::exists(&folder.join(SUCCESS))? {
        let what = format!("{}: is missing", folder.join(SUCCESS).display());
        return Err(Refused::damaged(what, "the version is not complete; publish it again").into());
    }
    Ok(Verified {
        version: manifest.version.clone(),
        folder: folder.display().to_string(),
        files: manifest.files.len(),
        bytes: manifest.files.iter().map(|file| file.bytes).sum(),
        rows: manifest.rows,
    })
}

/// Result of [`list`].
#[derive(Clone, Debug, Serialize)]
pub struct Versions {
    /// Folder of publications.
    pub out: String,
    /// The current version.
    pub current: Option<String>,
    /// All versions that are remembered, oldest first.
    pub versions: Vec<Listed>,
}

/// A version in a list.
#[derive(Clone, Debug, Serialize)]
pub struct Listed {
    /// The version.
    pub version: String,
    /// `current`, `published`, `removed` or `rejected`.
    pub state: &'static str,
    /// Number of rows.
    pub rows: u64,
    /// Number of limits that were met, and of all limits.
    pub limits: [usize; 2],
    /// Id of the alignment map.
    pub map_id: Option<String>,
}

/// Lists the versions of a folder of publications.
///
/// # Errors
/// [`veridical_core::Error::Missing`] if there are none.
pub fn list(settings: &ListVersions) -> Result<Versions> {
    settings.check()?;
    let publications = opened(&settings.out)?;
    let (manifests, current) = (publications.manifests()?, publications.current()?);
    let complete = publications.complete(&manifests)?;
    let state = |manifest: &Manifest| match manifest {
        m if !m.published => "rejected",
        m if Some(&m.version) == current.as_ref() => "current",
        m if complete.iter().any(|there| there.version == m.version) => "published",
        _ => "removed",
    };
    let listed = |manifest: &Manifest| {
        let gates = manifest.gates.as_array().map_or(&[][..], Vec::as_slice);
        let met = gates.iter().filter(|gate| gate["outcome"] == "passed").count();
        Listed {
            version: manifest.version.clone(),
            state: state(manifest),
            rows: manifest.rows,
            limits: [met, gates.len()],
            map_id: manifest.map_id.clone(),
        }
    };
    let versions = manifests.iter().map(listed).collect();
    Ok(Versions { out: settings.out.to_string(), current, versions })
}

/// Opens a folder of publications that is there.
pub(super) fn opened(out: &std::path::Path) -> Result<Publications> {
    if publications::is_root(out)? {
        return Ok(Publications::new(out));
    }
    let what = format!("{} is not a folder of publications", out.display());
    Err(Refused::missing(what, "name the folder that `veridical refresh` publishes to").into())
}

/// Result of [`rollback`].
#[derive(Clone, Debug, Serialize)]
pub struct RolledBack {
    /// Folder of publications.
    pub out: String,
    /// The version that was current.
    pub from: Option<String>,
    /// The version that is current now.
    pub version: String,
}

/// Makes an earlier version current again. Nothing is removed: the later version can be made current again by name.
///
/// # Errors
/// [`veridical_core::Error::Missing`] if there is nothing to go back to, and errors of [`verify`] if it is damaged.
pub fn rollback(settings: &RollBack, job: &Job<'_>) -> Result<RolledBack> {
    settings.check()?;
    let publications = opened(&settings.out)?;
    let _lock = place::lock(&publications, job)?;
    publications.heal()?;
    let (seen, manifests) = (publications.seen()?, publications.manifests()?);
    let complete = publications.complete(&manifests)?;
    let names = || {
        let names: Vec<&str> = complete.iter().map(|m| m.version.as_str()).collect();
        format!("the versions are {}", names.join(", "))
    };
    let out = settings.out.display();
    let target = match (&settings.to, &seen.version) {
        (Some(to), _) => complete
            .iter()
            .find(|m| m.version == *to)
            .ok_or_else(|| Refused::missing(format!("{out}: there is no version {to}"), names()))?,
        (None, Some(current)) => {
            let at = manifests.iter().find(|m| m.published && m.version == *current);
            let previous = at.and_then(|manifest| manifest.previous.as_ref());
            let before = complete.iter().find(|m| Some(&m.version) == previous);
            let at = at.map_or(u64::MAX, |manifest| manifest.sequence);
            let earlier =
                || complete.iter().rev().find(|m| m.sequence < at && m.version != *current);
            before.or_else(earlier).ok_or_else(|| {
                let what = format!("{out}: there is no version before {current} to go back to");
                Refused::missing(what, "publish a good table instead")
            })?
        }
        (None, None) => complete
            .last()
            .ok_or_else(|| Refused::missing(format!("{out}: nothing is published here"), ""))?,
    };
    // Consumers must not be sent to damaged files.
    publications::verify(&publications.folder(&target.version))?;
    publications.switch(&target.version, &seen)?;
    publications.log(&json!({
        "event": "rollback", "version": target.version, "from": seen.version, "time": now(),
    }))?;
    Ok(RolledBack {
        out: settings.out.to_string(),
        from: seen.version,
        version: target.version.clone(),
    })
}
