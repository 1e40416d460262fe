//! Fitting a linear map from one table to another on their shared ids.
//!
//! A tenth of the anchors is held out (by random seed); the map is fitted on the rest, and the certificate states its
//! quality on the held-out anchors: |A - map(B)| / |A|, and the mean cosine of a row and its image.
//!
//! If the ridge penalty is not given, it is the one of [`RIDGES`] with the smallest residual on a fifth of the anchors of
//! the fit, after a fit on the other four fifths; the final fit uses all of them.

use serde::Serialize;
use veridical_core::{Error, Job, Order, Result, Seed, choices, settings};
use veridical_data::{Passes, VectorTable, Window, fingerprint};
use veridical_learn::{
    LinearMap, PairMoments, Procrustes, generalized_procrustes, low_rank_map, residual, ridge_map,
};

use super::anchors::{self, Anchors};
use super::map::{MapKind, map_id};
use crate::stability::SharedTables;

/// One anchor in this many is held out.
const HELD_OUT: usize = 10;
/// One anchor in this many validates the ridge penalty.
const VALIDATION: usize = 5;
/// The ridge penalties to try, relative to the mean variance of a column.
const RIDGES: [f64; 8] = [1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0];

choices! {
    /// The kind of map to fit.
    pub enum Method {
        /// procrustes for equal dimensions, else ridge
        Auto = "auto",
        /// A rotation or reflection
        Procrustes = "procrustes",
        /// Any linear map
        Ridge = "ridge",
        /// A linear map of rank K
        LowRank = "low-rank",
    }
}

settings! {
    /// The kind of map to fit, and on how many anchors.
    pub struct MapChoice in "Fitting" {
        /// Kind of map
        pub method: Method = Method::Auto => [value("KIND")],
        /// Procrustes: allow a scale factor
        pub scale: bool = false => [switch()],
        /// Procrustes: center the columns
        pub center: bool = false => [switch()],
        /// Ridge penalty, relative to the mean variance of a column
        pub ridge: Option<f64> = None => [value("L"), otherwise("by held-out anchors")],
        /// Rank of a low-rank map
        pub rank: Option<usize> = None => [value("K")],
        /// Maximum number of anchors of a fit
        pub sample: usize = 200_000,
    }
}

settings! {
    /// The settings of a fit.
    pub struct FitSettings in "Fitting" {
        /// Random seed of the held-out anchors
        pub seed: u64 = 0 => [value("SEED")],
    } with {
        /// The kind of map.
        pub map: MapChoice,
    } besides {
        /// Which shared ids are anchors.
        pub which: Anchors,
        /// The names of the reference and the table in messages.
        pub names: Names,
    }
}

/// The names of the reference and the table in messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(pub [String; 2]);

impl Default for Names {
    fn default() -> Self {
        Self(["the reference".into(), "the table".into()])
    }
}

/// The quality of a map on held-out anchors.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Certificate {
    /// The number of shared ids that were allowed as anchors.
    pub shared: u64,
    /// The number of anchors of the fit.
    pub anchors: u64,
    /// The number of held-out anchors.
    pub held_out: u64,
    /// The residual |A - map(B)| / |A| on the held-out anchors.
    pub residual: f64,
    /// The residual without a map; `None` for unequal dimensions.
    pub residual_before: Option<f64>,
    /// The residual on the anchors of the fit.
    pub fit_residual: f64,
    /// The mean cosine of a row and its image on the held-out anchors.
    pub mean_cosine: f64,
    /// The mean cosine without a map; `None` for unequal dimensions.
    pub mean_cosine_before: Option<f64>,
}

/// A fitted map with its certificate.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The map, from the table to the reference.
    pub map: LinearMap,
    /// The kind of the map.
    pub kind: MapKind,
    /// The quality on held-out anchors.
    pub certificate: Certificate,
    /// The id of the map: equal ids mean equal maps to equal references.
    pub map_id: String,
    /// The fingerprint of the reference.
    pub reference: String,
    /// The ridge penalty that was used.
    pub ridge: Option<f64>,
    /// The rank of a low-rank map.
    pub rank: Option<usize>,
}

/// Fits the map that takes `new` to `reference`.
///
/// # Errors
/// [`Error::Unfit`] for tables that share too few ids, have only equal rows or contain values that are not finite,
/// [`Error::Shape`] for dimensions that the method cannot join, [`Error::Request`] and [`Error::Setting`] for settings that
/// contradict each other or are out of range, [`Error::Interrupted`] if the user interrupts.
///
/// ```
/// use veridical_core::Job;
/// use veridical_data::{Ids, VectorTable};
/// use veridical_inspect::align::{FitSettings, fit};
///
/// let vectors: Vec<f32> = (0..40u16).map(|i| f32::from(i * i % 17)).collect();
/// let rotated: Vec<f32> = vectors.chunks(2).flat_map(|row| [-row[1], row[0]]).collect();
/// let table = |vectors| VectorTable { ids: Ids::numbered(0, 20), dim: 2, vectors };
/// let fitted = fit(&table(vectors), &table(rotated), &FitSettings::default(), &Job::silent())?;
/// assert!(fitted.certificate.residual < 1e-6);
/// # Ok::<(), veridical_core::Error>(())
/// ```
pub fn fit(
    reference: &VectorTable,
    new: &VectorTable,
    settings: &FitSettings,
    job: &Job<'_>,
) -> Result<Fitted> {
    let Names(names) = &settings.names;
    usable(reference, &names[0])?;
    usable(new, &names[1])?;
    let shared = veridical_data::join_named(vec![reference.clone(), new.clone()], names);
    let shared = shared.map_err(|error| match error {
        Error::Unfit { what, .. } if what.contains("no id in common") => {
            nothing_shared(names, [reference, new].map(|table| table.ids.get(0)))
        }
        other => other,
    })?;
    let shared = SharedTables::new(shared.tables, names.to_vec())
        .ok_or_else(|| Error::Internal("a join returned no tables".into()))?;
    let mut fitting = Fitting::new(&shared, settings)?;
    shared.pass(&mut |window| {
        fitting.add(window);
        Ok(())
    })?;
    fitting.finish(&fingerprint::of_table(reference), job)
}

/// The error of tables without a shared id; `examples` are ids of each.
pub fn nothing_shared([a, b]: &[String; 2], [x, y]: [String; 2]) -> Error {
    Error::unfit(
        format!(
            "{a} and {b} share no id: ids of the first look like {x}, ids of the second like {y}"
        ),
        "align tables with the same ids (⟨id-column⟩ chooses the column)",
    )
}

/// A fit of the second of two tables to the first, whose rows arrive in a pass.
pub struct Fitting {
    settings: FitSettings,
    method: Method,
    /// The number of shared ids that are anchors.
    anchors: usize,
    /// The held-out anchors and those of the fit.
    parts: [Rows; 2],
    /// The rows of the pass to keep, rising: the number, the part and the place there.
    wanted: Vec<(u32, bool, u32)>,
    next: usize,
}

impl Fitting {
    /// Chooses the anchors among the rows that two tables share.
    ///
    /// # Errors
    /// Those of [`fit`] that do not depend on the vectors.
    pub fn new(shared: &dyn Passes, settings: &FitSettings) -> Result<Self> {
        let [reference, new] = shared.dims()[..] else {
            return Err(Error::request("a map takes one table to another", ""));
        };
        let method = settings.resolve(reference, new)?;
        let Names([reference_name, table_name]) = &settings.names;
        let rows = anchors::rows(shared, &settings.which, [reference_name, table_name])?;
        let anchors = rows.as_ref().map_or(shared.n(), Vec::len);
        enough(anchors, new.max(reference), settings)?;
        let Split { held_out, fit } = Split::of(anchors, settings)?;
        let mut wanted = Vec::with_capacity(held_out.len() + fit.len());
        for (part, chosen) in [(false, &held_out), (true, &fit)] {
            for (place, &anchor) in (0..).zip(chosen) {
                let row = rows.as_ref().map_or(anchor as u32, |rows| rows[anchor]);
                wanted.push((row, part, place));
            }
        }
        wanted.sort_unstable();
        let empty = |n: usize| Rows {
            dims: [reference, new],
            a: vec![0.0; n * reference],
            b: vec![0.0; n * new],
        };
        let parts = [empty(held_out.len()), empty(fit.len())];
        Ok(Self { settings: settings.clone(), method, anchors, parts, wanted, next: 0 })
    }

    /// Takes its rows from the next window of the pass.
    pub fn add(&mut self, window: Window<'_>) {
        let last = (window.first + window.len()) as u32;
        while let Some(&(row, part, place)) = self.wanted.get(self.next).filter(|w| w.0 < last) {
            let (at, place) = (row as usize - window.first, place as usize);
            let Rows { dims: [da, db], a, b } = &mut self.parts[usize::from(part)];
            a[place * *da..][..*da].copy_from_slice(&window.tables[0][at * *da..][..*da]);
            b[place * *db..][..*db].copy_from_slice(&window.tables[1][at * *db..][..*db]);
            self.next += 1;
        }
    }

    /// Fits the map to the reference with this fingerprint.
    ///
    /// # Errors
    /// Those of [`fit`].
    pub fn finish(self, reference: &str, job: &Job<'_>) -> Result<Fitted> {
        let Self { settings, method, anchors, parts: [held_out, fitted], .. } = self;
        let Names([reference_name, table_name]) = &settings.names;
        fitted.check(&held_out, [reference_name, table_name])?;
        job.check()?;
        let moments = fitted.moments(0..fitted.len());
        let (mut ridge, mut rank) = (None, None);
        let map = match method {
            Method::Procrustes | Method::Auto => {
                Procrustes { scale: settings.map.scale, center: settings.map.center }.fit(&moments)
            }
            Method::Ridge | Method::LowRank => {
                rank = settings.map.rank.filter(|_| method == Method::LowRank);
                let of = |moments: &PairMoments, lambda: f64| match rank {
                    Some(rank) => low_rank_map(moments, rank, lambda),
                    None => ridge_map(moments, lambda),
                };
                let lambda =
                    settings.map.ridge.unwrap_or_else(|| best_ridge(&fitted, &moments, of));
                ridge = Some(lambda);
                of(&moments, lambda)
            }
        };
        job.check()?;
        let fit_residual = residual(&moments, &map);
        let certificate = held_out.certificate(&map, anchors, fitted.len(), fit_residual);
        let kind = match method {
            Method::Ridge => MapKind::Ridge,
            Method::LowRank => MapKind::LowRank,
            _ if map.is_rotation() => MapKind::Rotation,
            _ => MapKind::Similarity,
        };
        let reference = reference.to_owned();
        let map_id = map_id(&map, kind, &reference);
        Ok(Fitted { map, kind, certificate, map_id, reference, ridge, rank })
    }
}

/// Checks that a table has rows and columns, and the right number of values.
fn usable(table: &VectorTable, name: &str) -> Result<()> {
    let (rows, dim, values) = (table.n_rows(), table.dim, table.vectors.len());
    if rows == 0 || dim == 0 {
        return Err(Error::unfit(format!("{name} has {rows} rows of {dim} values"), ""));
    }
    if values != rows * dim {
        let what = format!("{name} has {values} values for {rows} rows of {dim}");
        return Err(Error::shape(what, ""));
    }
    Ok(())
}

impl FitSettings {
    /// Resolves the method and checks it against settings and dimensions.
    fn resolve(&self, reference_dim: usize, new_dim: usize) -> Result<Method> {
        let refused = |what: &str, hint: &str| Err(Error::request(what, hint));
        let method = match self.map.method {
            Method::Auto if self.map.rank.is_some() => Method::LowRank,
            Method::Auto if self.map.ridge.is_some() => Method::Ridge,
            Method::Auto if reference_dim == new_dim => Method::Procrustes,
            Method::Auto if self.map.scale || self.map.center => Method::Procrustes,
            Method::Auto => Method::Ridge,
            method => method,
        };
        if method == Method::Procrustes && reference_dim != new_dim {
            let Names([a, b]) = &self.names;
            return Err(Error::shape(
                format!(
                    "{b} has vectors of dimension {new_dim} and {a} of dimension {reference_dim}"
                ),
                "a rotation needs equal dimensions: use ⟨method⟩ ridge (any linear map) or ⟨method⟩ low-rank ⟨rank⟩ K, \
                 without ⟨scale⟩ and ⟨center⟩",
            ));
        }
        let linear = matches!(method, Method::Ridge | Method::LowRank);
        if linear && (self.map.scale || self.map.center) {
            let what = "⟨scale⟩ and ⟨center⟩ require ⟨method⟩ procrustes";
            return refused(what, "linear maps include both");
        }
        if !linear && self.map.ridge.is_some() {
            return refused("⟨ridge⟩ requires ⟨method⟩ ridge or low-rank", "");
        }
        match (method, self.map.rank) {
            (Method::LowRank, None) => return refused("⟨method⟩ low-rank needs ⟨rank⟩ K", ""),
            (Method::LowRank, Some(rank)) => {
                let most = reference_dim.min(new_dim);
                if rank == 0 || rank > most {
                    let must_be = format!("between 1 and {most}, the smaller dimension");
                    return Err(Error::setting("rank", must_be, rank));
                }
            }
            (_, Some(_)) => return refused("⟨rank⟩ requires ⟨method⟩ low-rank", ""),
            (_, None) => {}
        }
        if let Some(ridge) = self.map.ridge.filter(|ridge| !(ridge.is_finite() && *ridge >= 0.0)) {
            return Err(Error::setting("ridge", "a number that is not negative", ridge));
        }
        if self.map.sample == 0 {
            return Err(Error::setting("sample", "at least 1", 0));
        }
        Ok(method)
    }
}

/// Checks that there are enough anchors to determine a map.
fn enough(anchors: usize, dim: usize, settings: &FitSettings) -> Result<()> {
    let (need, [a, b]) = (2 * dim, &settings.names.0);
    if anchors.min(settings.map.sample) >= need {
        return Ok(());
    }
    if anchors >= need {
        let sample = settings.map.sample;
        let what = format!(
            "⟨sample⟩ {sample} is too small for vectors of dimension {dim}: at least {need} anchors (2 x dimension) are needed"
        );
        return Err(Error::request(what, "use a larger sample or leave it out"));
    }
    let what = match settings.which {
        Anchors::Shared => format!("{a} and {b} share only {anchors} ids"),
        _ => format!("only {anchors} anchors are shared by {a} and {b}"),
    };
    Err(Error::unfit(
        format!(
            "{what}, and a map between vectors of dimension {dim} needs at least {need} (2 x dimension)"
        ),
        "check that both tables use the same ids, use more anchors, or train with fewer dimensions",
    ))
}

/// The held-out anchors and those of the fit.
struct Split {
    held_out: Vec<usize>,
    fit: Vec<usize>,
}

impl Split {
    fn of(anchors: usize, settings: &FitSettings) -> Result<Self> {
        let order = Order::new(anchors as u64, Seed::new(settings.seed)?, "align/anchors", 0);
        let at = |t: usize| order.at(t as u64) as usize;
        let n_held_out = (anchors / HELD_OUT).max(1);
        let n_fit = (anchors - n_held_out).min(settings.map.sample);
        // Hold out no more than the sample size: that is enough to estimate the residual.
        let held_out = (0..n_held_out.min(settings.map.sample)).map(at).collect();
        Ok(Self { held_out, fit: (n_held_out..n_held_out + n_fit).map(at).collect() })
    }
}

/// The rows of some anchors in both tables.
struct Rows {
    dims: [usize; 2],
    a: Vec<f32>,
    b: Vec<f32>,
}

impl Rows {
    fn len(&self) -> usize {
        self.a.len() / self.dims[0]
    }

    fn moments(&self, rows: std::ops::Range<usize>) -> PairMoments {
        let [da, db] = self.dims;
        let slice =
            |values: &'_ [f32], dim: usize| rows.start * dim..(rows.end * dim).min(values.len());
        PairMoments::of(&self.a[slice(&self.a, da)], da, &self.b[slice(&self.b, db)], db)
    }

    fn side(&self, side: usize) -> &[f32] {
        if side == 0 { &self.a } else { &self.b }
    }

    /// Checks that all values are finite, and that not all rows are equal.
    fn check(&self, held_out: &Self, names: [&str; 2]) -> Result<()> {
        for (side, name) in names.into_iter().enumerate() {
            let (rows, dim) = (self.side(side), self.dims[side]);
            if let Some(bad) = rows.iter().chain(held_out.side(side)).find(|x| !x.is_finite()) {
                let what = format!("{name} contains the value {bad}");
                return Err(Error::unfit(what, "repair it, or pass ⟨on-nan⟩ skip"));
            }
            if rows.chunks_exact(dim).all(|row| row == &rows[..dim]) {
                let what = "the vectors of all anchors are equal, so no map can be fitted";
                let hint = "inspect the table with `veridical vectors stats`";
                return Err(Error::unfit(format!("{name}: {what}"), hint));
            }
        }
        Ok(())
    }

    fn certificate(
        &self,
        map: &LinearMap,
        shared: usize,
        anchors: usize,
        fit_residual: f64,
    ) -> Certificate {
        let equal = self.dims[0] == self.dims[1];
        let (residual, mean_cosine) = agreement(&self.a, &map.apply(&self.b), self.dims[0]);
        let before = equal.then(|| agreement(&self.a, &self.b, self.dims[0]));
        Certificate {
            shared: shared as u64,
            anchors: anchors as u64,
            held_out: self.len() as u64,
            residual,
            residual_before: before.map(|before| before.0),
            fit_residual,
            mean_cosine,
            mean_cosine_before: before.map(|before| before.1),
        }
    }
}

/// |A - B| / |A| and the mean cosine of rows, without rows of zeros.
fn agreement(a: &[f32], b: &[f32], dim: usize) -> (f64, f64) {
    let (mut gap, mut size, mut cosines, mut n) = (0.0, 0.0, 0.0, 0u64);
    for (a, b) in a.chunks_exact(dim).zip(b.chunks_exact(dim)) {
        let (mut aa, mut ab, mut bb) = (0.0, 0.0, 0.0);
        for (&a, &b) in a.iter().zip(b) {
            let (a, b) = (f64::from(a), f64::from(b));
            gap += (a - b) * (a - b);
            aa += a * a;
            ab += a * b;
            bb += b * b;
        }
        size += aa;
        if aa > 0.0 && bb > 0.0 {
            cosines += ab / (aa * bb).sqrt();
            n += 1;
        }
    }
    let residual = if gap == 0.0 { 0.0 } else { (gap / size).sqrt() };
    (residual, cosines / n.max(1) as f64)
}

/// The penalty with the smallest residual on a fifth of the rows; the weakest one for ties.
fn best_ridge(rows: &Rows, all: &PairMoments, of: impl Fn(&PairMoments, f64) -> LinearMap) -> f64 {
    let validation = rows.moments(0..rows.len() / VALIDATION);
    let mut rest = all.clone();
    rest.remove(&validation);
    let tried = RIDGES.map(|ridge| (residual(&validation, &of(&rest, ridge)), ridge));
    tried
        .into_iter()
        .fold((f64::INFINITY, RIDGES[0]), |best, tried| if tried.0 < best.0 { tried } else { best })
        .1
}

/// Maps of several tables to their common mean, and the mean.
#[derive(Clone, Debug)]
pub struct Common {
    /// The maps, one per table in their order; the first is the identity.
    pub fitted: Vec<Fitted>,
    /// The mean of all aligned tables, on the ids that all share.
    pub mean: VectorTable,
}

/// Aligns all tables to their common mean (generalized Procrustes) in the coordinates of the first.
///
/// ```
/// use veridical_core::Job;
/// use veridical_data::{Ids, VectorTable};
/// use veridical_inspect::align::{FitSettings, fit_common};
///
/// let vectors: Vec<f32> = (0..40u16).map(|i| f32::from(i * i % 17)).collect();
/// let rotated: Vec<f32> = vectors.chunks(2).flat_map(|row| [-row[1], row[0]]).collect();
/// let table = |vectors| VectorTable { ids: Ids::numbered(0, 20), dim: 2, vectors };
/// let (tables, names) = (vec![table(vectors), table(rotated)], ["one".into(), "other".into()]);
/// let common = fit_common(tables, &names, &FitSettings::default(), &Job::silent())?;
/// assert!(common.fitted.iter().all(|fitted| fitted.certificate.residual < 1e-5));
/// assert_eq!(common.mean.n_rows(), 20);
/// # Ok::<(), veridical_core::Error>(())
/// ```
///
/// # Errors
/// Those of [`fit`], and tables of unequal dimensions.
pub fn fit_common(
    tables: Vec<VectorTable>,
    names: &[String],
    settings: &FitSettings,
    job: &Job<'_>,
) -> Result<Common> {
    if tables.len() < 2 || names.len() != tables.len() {
        let what = format!(
            "{} tables with {} names cannot be aligned to a common mean",
            tables.len(),
            names.len()
        );
        return Err(Error::request(what, "pass at least two tables, each with its name"));
    }
    for (table, name) in tables.iter().zip(names) {
        usable(table, name)?;
    }
    let dim = tables.first().map_or(0, |table| table.dim);
    let plain = FitSettings { which: Anchors::Shared, ..settings.clone() };
    let rotation = matches!(settings.map.method, Method::Auto | Method::Procrustes);
    if !rotation
        || settings.map.scale
        || settings.map.center
        || settings.map.ridge.is_some()
        || settings.map.rank.is_some()
    {
        let what = "⟨generalized⟩ fits rotations: leave out ⟨method⟩, ⟨scale⟩, ⟨center⟩, ⟨ridge⟩ and ⟨rank⟩";
        return Err(Error::request(what, ""));
    }
    if settings.which != Anchors::Shared {
        let what = "⟨generalized⟩ uses all ids that the tables share: leave out ⟨anchors⟩ and ⟨anchor-weights⟩";
        return Err(Error::request(what, ""));
    }
    for (table, name) in tables.iter().zip(names) {
        if table.dim != dim {
            return Err(Error::shape(
                format!(
                    "{name} has vectors of dimension {} and {} of dimension {dim}",
                    table.dim, names[0]
                ),
                "⟨generalized⟩ needs equal dimensions; align this table separately with ⟨method⟩ ridge",
            ));
        }
    }
    for (table, name) in tables.iter().zip(names).skip(1) {
        let none_shared =
            veridical_data::places(&tables[0].ids, &table.ids).iter().all(Option::is_none);
        if none_shared {
            let examples = [&tables[0], table].map(|table| table.ids.get(0));
            return Err(nothing_shared(&[names[0].clone(), name.clone()], examples));
        }
    }
    let joined = veridical_data::join_named(tables, names)?.tables;
    let shared = joined[0].n_rows();
    let called =
        FitSettings { names: Names([names[0].clone(), "the other tables".into()]), ..plain };
    enough(shared, dim, &called)?;
    let split = Split::of(shared, settings)?;
    let rows = |table: &VectorTable, chosen: &[usize]| -> Vec<f32> {
        chosen.iter().flat_map(|&r| table.row(r)).copied().collect()
    };
    let fitting: Vec<Vec<f32>> = joined.iter().map(|table| rows(table, &split.fit)).collect();
    let held_out: Vec<Vec<f32>> = joined.iter().map(|table| rows(table, &split.held_out)).collect();
    for ((fit, held_out), name) in fitting.iter().zip(&held_out).zip(names) {
        let of = |b: &[f32]| Rows { dims: [dim, dim], a: fitting[0].clone(), b: b.to_vec() };
        of(fit).check(&of(held_out), [&names[0], name])?;
    }
    job.check()?;
    let slices: Vec<&[f32]> = fitting.iter().map(Vec::as_slice).collect();
    let (maps, fit_mean) = generalized_procrustes(&slices, dim)?;
    job.check()?;
    let mean_of = |tables: &[&[f32]]| -> Vec<f32> {
        let mut sum = vec![0.0f64; tables[0].len()];
        for (table, map) in tables.iter().zip(&maps) {
            sum.iter_mut().zip(map.apply(table)).for_each(|(s, x)| *s += f64::from(x));
        }
        sum.iter().map(|s| (s / tables.len() as f64) as f32).collect()
    };
    let whole: Vec<&[f32]> = joined.iter().map(|table| table.vectors.as_slice()).collect();
    let mean = VectorTable { ids: joined[0].ids.clone(), dim, vectors: mean_of(&whole) };
    let held_out_mean = mean_of(&held_out.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let reference = fingerprint::of_table(&mean);
    let one = |((map, fit), held_out): ((&LinearMap, &Vec<f32>), &Vec<f32>)| {
        let moments = PairMoments::of(&fit_mean, dim, fit, dim);
        let unseen = Rows { dims: [dim, dim], a: held_out_mean.clone(), b: held_out.clone() };
        let fit_residual = residual(&moments, map);
        Fitted {
            certificate: unseen.certificate(map, shared, split.fit.len(), fit_residual),
            kind: MapKind::Rotation,
            map_id: map_id(map, MapKind::Rotation, &reference),
            reference: reference.clone(),
            ridge: None,
            rank: None,
            map: map.clone(),
        }
    };
    let fitted = maps.iter().zip(&fitting).zip(&held_out).map(one).collect();
    Ok(Common { fitted, mean })
}
