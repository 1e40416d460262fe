//! A map on disk: safetensors with `from`, `matrix` and `to` in f64, and what is known about it as metadata.
//!
//! `map_id` names the content; [`veridical_inspect::align::map_id`] says how.

use std::collections::BTreeMap;
use std::path::Path;

use veridical_inspect::align::{Fitted, MAP_FORMAT, MapKind, map_id};
use veridical_io::models::{Affine, affine, onnx};
use veridical_learn::LinearMap;

use super::dates::Dates;
use crate::{Error, Result};

/// A map and what is known about it.
#[derive(Clone, Debug, PartialEq)]
pub struct MapFile {
    /// The map.
    pub map: LinearMap,
    /// What kind of map.
    pub kind: MapKind,
    /// The content of the table it leads to.
    pub reference: String,
    /// Anchors of the fit.
    pub anchors: u64,
    /// Anchors that were kept back.
    pub held_out: u64,
    /// |A - map(B)| / |A| of those kept back.
    pub residual: f64,
    /// When reference and table were made, if the user said so.
    pub dates: Option<Dates>,
}

impl MapFile {
    /// The file of a map that was fitted.
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
        }
    }

    /// The name of this map.
    pub fn map_id(&self) -> String {
        map_id(&self.map, self.kind, &self.reference)
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// [`Error::Io`] if the disk refuses.
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
        Ok(affine::write(&self.affine(), &metadata, path)?)
    }

    /// Writes it as a model: `vector` (batch x inputs) to `aligned` (batch x outputs).
    ///
    /// # Errors
    /// [`Error::Io`] if the disk refuses.
    pub fn save_onnx(&self, path: &Path) -> Result<()> {
        Ok(onnx::write_affine(&self.affine(), &self.map_id(), path)?)
    }

    /// Reads and checks it.
    ///
    /// # Errors
    /// [`Error::Io`] for damage and for files that cannot be read; [`veridical_core::Error::Damaged`] for files that are
    /// no maps, and for one whose id is not that of its content.
    pub fn load(path: &Path) -> Result<Self> {
        let (Affine { from, matrix, to }, metadata) = affine::read(path)?;
        let refused = |what: String, hint: &str| {
            Error::Core(veridical_core::Error::damaged(format!("{}: {what}", path.display()), hint))
        };
        let get = |key: &str| {
            metadata.get(key).map(String::as_str).ok_or_else(|| {
                let what =
                    format!("is not a map of `veridical align`: its metadata has no `{key}`");
                refused(what, "")
            })
        };
        if get("format")? != MAP_FORMAT {
            let what = format!("is a map of format `{}`", get("format")?);
            return Err(refused(what, &format!("this version reads {MAP_FORMAT}")));
        }
        let number = |key: &str| -> Result<f64> {
            let text = get(key)?;
            let value = text.parse().ok().filter(|x: &f64| x.is_finite() && *x >= 0.0);
            value.ok_or_else(|| {
                let what = format!("`{key}` is `{text}`, which is no such number");
                refused(what, "fit the map again")
            })
        };
        let kind = get("kind")?;
        let kind =
            MapKind::ALL.into_iter().find(|known| known.name() == kind).ok_or_else(|| {
                refused(format!("is a map of the unknown kind `{kind}`"), "fit it again")
            })?;
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
        };
        if file.map_id() != get("map_id")? {
            let what = "its values are not those that its map_id names: it was changed or damaged";
            return Err(refused(what.into(), "fit it again"));
        }
        Ok(file)
    }

    pub(crate) fn affine(&self) -> Affine {
        let LinearMap { from, matrix, to } = self.map.clone();
        Affine { from, matrix, to }
    }
}
