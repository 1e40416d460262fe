//! An alignment map on disk: safetensors with `from`, `matrix` and `to` in f64, and provenance as metadata.
//!
//! `map_id` identifies the content; see [`veridical_inspect::align::map_id`]. `certificate_id` covers everything else that the file
//! says of the map: SHA-256 of one line `key value` each for `map_id`, `anchors`, `held_out`, `residual` and, if there are dates,
//! `reference_date` and `date`. Files from before it are read with a note.

use std::collections::BTreeMap;
use std::path::Path;

use sha2::{Digest, Sha256};
use veridical_core::Job;
use veridical_inspect::align::{Fitted, MAP_FORMAT, MapKind, map_id};
use veridical_io::models::{Affine, affine, onnx};
use veridical_learn::LinearMap;

use super::dates::Dates;
use crate::{Error, Result};

/// An alignment map with its provenance.
#[derive(Clone, Debug, PartialEq)]
pub struct MapFile {
    /// The linear map.
    pub map: LinearMap,
    /// Kind of map: rotation, ridge or low rank.
    pub kind: MapKind,
    /// Fingerprint of the reference table that the map leads to.
    pub reference: String,
    /// Number of anchors the map was fitted on.
    pub anchors: u64,
    /// Number of held-out anchors.
    pub held_out: u64,
    /// Relative residual |A - map(B)| / |A| on the held-out anchors.
    pub residual: f64,
    /// Dates of reference and table, if the user supplied them.
    pub dates: Option<Dates>,
    /// Whether these numbers are those that were written with the map; files without a `certificate_id` leave it open.
    pub is_verified: bool,
}

impl MapFile {
    /// Creates the file contents for a fitted map.
    pub fn new(fitted: &Fitted, dates: Option<Dates>) -> Self {
        let Fitted { map, kind, reference, certificate, .. } = fitted;
        Self {
            map: map.clone(),
            kind: *kind,
            reference: reference.clone(),
            anchors: certificate.anchors,
            held_out: certificate.held_out,
            residual: certificate.residual,
            dates,
            is_verified: true,
        }
    }

    /// Returns the digest of what the file says of the map: its certificate and its dates.
    pub fn certificate_id(&self) -> String {
        let mut lines = vec![
            ("map_id", self.map_id()),
            ("anchors", self.anchors.to_string()),
            ("held_out", self.held_out.to_string()),
            ("residual", self.residual.to_string()),
        ];
        if let Some(dates) = &self.dates {
            lines.extend([
                ("reference_date", dates.reference.clone()),
                ("date", dates.date.clone()),
            ]);
        }
        let lines: String = lines.iter().map(|(key, value)| format!("{key} {value}\n")).collect();
        Sha256::digest(lines).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the id of this map.
    pub fn map_id(&self) -> String {
        map_id(&self.map, self.kind, &self.reference)
    }

    /// Writes the map atomically.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let mut metadata: BTreeMap<String, String> = [
            ("format", MAP_FORMAT.to_owned()),
            ("kind", self.kind.name().to_owned()),
            ("reference", self.reference.clone()),
            ("anchors", self.anchors.to_string()),
            ("held_out", self.held_out.to_string()),
            ("residual", self.residual.to_string()),
            ("map_id", self.map_id()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into();
        if let Some(dates) = &self.dates {
            metadata.insert("reference_date".into(), dates.reference.clone());
            metadata.insert("date".into(), dates.date.clone());
            metadata.insert("age_days".into(), dates.age_days().to_string());
        }
        if self.is_verified {
            metadata.insert("certificate_id".into(), self.certificate_id());
        }
        Ok(affine::write(&self.affine(), &metadata, path)?)
    }

    /// Writes the map as an ONNX model: `vector` (batch x inputs) to `aligned` (batch x outputs).
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be written.
    pub fn save_onnx(&self, path: &Path) -> Result<()> {
        Ok(onnx::write_affine(&self.affine(), &self.map_id(), path)?)
    }

    /// Reads and validates a map file, and notes if nothing vouches for its certificate.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_noted(path: &Path, job: &Job<'_>) -> Result<Self> {
        let file = Self::load(path)?;
        if !file.is_verified {
            let what =
                "the map is from before certificates had a digest: its certificate is unverified";
            job.note(&format!("{}: {what}", path.display()));
        }
        Ok(file)
    }

    /// Reads and validates a map file.
    ///
    /// # Errors
    /// [`Error::Io`] for files that are damaged or cannot be read; [`veridical_core::Error::Damaged`] for files that are
    /// not maps, for a map whose id does not match its content, and for a certificate or dates that were changed.
    pub fn load(path: &Path) -> Result<Self> {
        let (Affine { from, matrix, to }, metadata) = affine::read(path)?;
        let refused = |what: String, hint: &str| {
            Error::Core(veridical_core::Error::damaged(format!("{}: {what}", path.display()), hint))
        };
        let get = |key: &str| {
            metadata.get(key).map(String::as_str).ok_or_else(|| {
                let what = format!(
                    "is not a map written by `veridical align`: its metadata has no `{key}`"
                );
                refused(what, "")
            })
        };
        if get("format")? != MAP_FORMAT {
            let what = format!("is a map in format `{}`", get("format")?);
            return Err(refused(what, &format!("this version reads {MAP_FORMAT}")));
        }
        let number = |key: &str| -> Result<f64> {
            let text = get(key)?;
            let value = text.parse().ok().filter(|x: &f64| x.is_finite() && *x >= 0.0);
            value.ok_or_else(|| {
                let what = format!("`{key}` is `{text}`, not a valid number");
                refused(what, "fit the map again")
            })
        };
        let kind = get("kind")?;
        let kind = MapKind::ALL
            .into_iter()
            .find(|known| known.name() == kind)
            .ok_or_else(|| refused(format!("is a map of unknown kind `{kind}`"), "fit it again"))?;
        let dates = match (metadata.get("reference_date"), metadata.get("date")) {
            (Some(reference), Some(date)) => Some(Dates::new(reference, date)?),
            _ => None,
        };
        let file = Self {
            map: LinearMap { from, matrix, to },
            kind,
            reference: get("reference")?.to_owned(),
            anchors: number("anchors")? as u64,
            held_out: number("held_out")? as u64,
            residual: number("residual")?,
            dates,
            is_verified: metadata.contains_key("certificate_id"),
        };
        if file.map_id() != get("map_id")? {
            let what = "its values do not match its map_id: the file was changed or damaged";
            return Err(refused(what.into(), "fit it again"));
        }
        if metadata.get("certificate_id").is_some_and(|id| *id != file.certificate_id()) {
            let what = "its certificate or its dates do not match its certificate_id: the file was changed or damaged";
            return Err(refused(what.into(), "fit it again"));
        }
        Ok(file)
    }

    /// Whether two files are equal, be they verified or not.
    pub(super) fn says_the_same_as(&self, other: &Self) -> bool {
        let other = Self { is_verified: self.is_verified, ..other.clone() };
        *self == other
    }

    pub(crate) fn affine(&self) -> Affine {
        let LinearMap { from, matrix, to } = self.map.clone();
        Affine { from, matrix, to }
    }
}
