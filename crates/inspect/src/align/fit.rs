//! Fitting a map from one table to another on the ids they share.
//!
//! A tenth of the anchors is kept back (by seed); the map is fitted on the rest, and the certificate says how well
//! it does on those it has not seen: |A - map(B)| / |A|, and the mean cosine of a row and its image.
//!
//! The strength of a ridge that is not given is the one of [`RIDGES`] with the smallest residual on a fifth of the
//! anchors of the fit, after a fit on the other four; then all of them are used.

use serde::Serialize;
use veridical_core::{Error, Job, Order, Result, Seed, choices, settings};
use veridical_data::{Table, fingerprint};
use veridical_learn::{
    LinearMap, PairMoments, Procrustes, generalised_procrustes, low_rank_map, residual, ridge_map,
};

use super::anchors::{self, Anchors, Pairs};
use super::map::{MapKind, map_id};

/// One anchor in so many is kept back.
const HELD_OUT: usize = 10;
/// One anchor in so many decides the ridge.
const VALIDATION: usize = 5;
/// Strengths that are tried, relative to the mean variance of a column.
const RIDGES: [f64; 8] = [1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0];

choices! {
    /// What kind of map is fitted.
    pub enum Method {
        /// procrustes for equal widths, else ridge
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
    /// How a map is fitted.
    pub struct FitSettings in "Fitting" {
        /// Kind of map
        pub method: Method = Method::Auto => [value("KIND")],
        /// Procrustes: lengths may be multiplied by a number
        pub scale: bool = false => [switch()],
        /// Procrustes: rows are taken less their means
        pub center: bool = false => [switch()],
        /// Strength of the ridge, relative to the mean variance of a column
        pub ridge: Option<f64> = None => [value("L"), otherwise("by held-out anchors")],
        /// Rank of a low-rank map
        pub rank: Option<usize> = None => [value("K")],
        /// Most anchors of a fit
        pub sample: usize = 200_000,
        /// Seed of the anchors that are held out
        pub seed: u64 = 0 => [value("SEED")],
    } besides {
        /// Which ids.
        pub which: Anchors,
        /// What messages call the reference and the table.
        pub names: Names,
    }
}

/// What messages call the reference and the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(pub [String; 2]);

impl Default for Names {
    fn default() -> Self {
        Self(["the reference".into(), "the table".into()])
    }
}

/// How good a map is on anchors that the fit has not seen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Certificate {
    /// Ids that both tables have and that were allowed as anchors.
    pub shared: u64,
    /// Anchors of the fit.
    pub anchors: u64,
    /// Anchors that were kept back.
    pub held_out: u64,
    /// |A - map(B)| / |A| of those kept back.
    pub residual: f64,
    /// The same without a map; none for unequal widths.
    pub residual_before: Option<f64>,
    /// The same of the anchors of the fit.
    pub fit_residual: f64,
    /// Mean cosine of a row and its image, of those kept back.
    pub mean_cosine: f64,
    /// The same without a map; none for unequal widths.
    pub mean_cosine_before: Option<f64>,
}

/// A map and what is known about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The map, from the table to the reference.
    pub map: LinearMap,
    /// What kind of map it is.
    pub kind: MapKind,
    /// How good it is.
    pub certificate: Certificate,
    /// Names the map: equal ids are equal maps to equal references.
    pub map_id: String,
    /// The content of the reference.
    pub reference: String,
    /// The strength of the ridge that was used.
    pub ridge: Option<f64>,
    /// The rank of a low-rank map.
    pub rank: Option<usize>,
}

/// Fits the map that takes `new` to `reference`.
///
/// # Errors
/// [`Error::Unfit`] for tables that share too few ids, whose rows are all equal or that hold values that are no numbers,
/// [`Error::Shape`] for widths that the method cannot join, [`Error::Request`] and [`Error::Setting`] for settings that
/// contradict each other or are out of range, [`Error::Interrupted`] once the job is asked to stop.
///
/// ```
/// use veridical_core::Job;
/// use veridical_data::{Ids, Table};
/// use veridical_inspect::align::{FitSettings, fit};
///
/// let vectors: Vec<f32> = (0..40u16).map(|i| f32::from(i * i % 17)).collect();
/// let turned: Vec<f32> = vectors.chunks(2).flat_map(|row| [-row[1], row[0]]).collect();
/// let table = |vectors| Table { ids: Ids::numbered(0, 20), dim: 2, vectors };
/// let fitted = fit(&table(vectors), &table(turned), &FitSettings::default(), &Job::silent())?;
/// assert!(fitted.certificate.residual < 1e-6);
/// # Ok::<(), veridical_core::Error>(())
/// ```
pub fn fit(
    reference: &Table,
    new: &Table,
    settings: &FitSettings,
    job: &Job<'_>,
) -> Result<Fitted> {
    usable(reference, &settings.names.0[0])?;
    usable(new, &settings.names.0[1])?;
    let method = settings.resolve(reference.dim, new.dim)?;
    let Names([reference_name, table_name]) = &settings.names;
    let names = [reference_name.as_str(), table_name.as_str()];
    let pairs = anchors::pairs(reference, new, &settings.which, names)?;
    enough(pairs.len(), new.dim.max(reference.dim), settings)?;
    let split = Split::of(pairs.len(), settings)?;
    let held_out = Rows::gather(reference, new, &pairs, &split.held_out);
    let fitted = Rows::gather(reference, new, &pairs, &split.fit);
    fitted.check(&held_out, names)?;
    job.check()?;
    let moments = fitted.moments(0..fitted.len());
    let (mut ridge, mut rank) = (None, None);
    let map = match method {
        Method::Procrustes | Method::Auto => {
            Procrustes { scale: settings.scale, center: settings.center }.fit(&moments)
        }
        Method::Ridge | Method::LowRank => {
            rank = settings.rank.filter(|_| method == Method::LowRank);
            let of = |moments: &PairMoments, lambda: f64| match rank {
                Some(rank) => low_rank_map(moments, rank, lambda),
                None => ridge_map(moments, lambda),
            };
            let lambda = settings.ridge.unwrap_or_else(|| best_ridge(&fitted, &moments, of));
            ridge = Some(lambda);
            of(&moments, lambda)
        }
    };
    job.check()?;
    let fit_residual = residual(&moments, &map);
    let certificate = held_out.certificate(&map, pairs.len(), fitted.len(), fit_residual);
    let kind = match method {
        Method::Ridge => MapKind::Ridge,
        Method::LowRank => MapKind::LowRank,
        _ if map.is_rotation() => MapKind::Rotation,
        _ => MapKind::Similarity,
    };
    let reference = fingerprint::of_table(reference);
    let map_id = map_id(&map, kind, &reference);
    Ok(Fitted { map, kind, certificate, map_id, reference, ridge, rank })
}

/// Refuses tables without rows or columns, or with another number of values than those say.
fn usable(table: &Table, name: &str) -> Result<()> {
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
    /// The method, once settings and widths go together.
    fn resolve(&self, reference_dim: usize, new_dim: usize) -> Result<Method> {
        let refused = |what: &str, hint: &str| Err(Error::request(what, hint));
        let method = match self.method {
            Method::Auto if self.rank.is_some() => Method::LowRank,
            Method::Auto if self.ridge.is_some() => Method::Ridge,
            Method::Auto if reference_dim == new_dim => Method::Procrustes,
            Method::Auto if self.scale || self.center => Method::Procrustes,
            Method::Auto => Method::Ridge,
            method => method,
        };
        if method == Method::Procrustes && reference_dim != new_dim {
            let Names([a, b]) = &self.names;
            return Err(Error::shape(
                format!("{b} has vectors of {new_dim} values and {a} of {reference_dim}"),
                "a rotation needs equal widths: use ⟨method⟩ ridge (any linear map) or ⟨method⟩ low-rank ⟨rank⟩ K, \
                 without ⟨scale⟩ and ⟨center⟩",
            ));
        }
        let linear = matches!(method, Method::Ridge | Method::LowRank);
        if linear && (self.scale || self.center) {
            let what = "⟨scale⟩ and ⟨center⟩ go with ⟨method⟩ procrustes";
            return refused(what, "linear maps have both");
        }
        if !linear && self.ridge.is_some() {
            return refused("⟨ridge⟩ goes with ⟨method⟩ ridge or low-rank", "");
        }
        match (method, self.rank) {
            (Method::LowRank, None) => return refused("⟨method⟩ low-rank needs ⟨rank⟩ K", ""),
            (Method::LowRank, Some(rank)) => {
                let most = reference_dim.min(new_dim);
                if rank == 0 || rank > most {
                    let must_be = format!("between 1 and {most}, the smaller width");
                    return Err(Error::setting("rank", must_be, rank));
                }
            }
            (_, Some(_)) => return refused("⟨rank⟩ goes with ⟨method⟩ low-rank", ""),
            (_, None) => {}
        }
        if let Some(ridge) = self.ridge.filter(|ridge| !(ridge.is_finite() && *ridge >= 0.0)) {
            return Err(Error::setting("ridge", "a number that is not negative", ridge));
        }
        if self.sample == 0 {
            return Err(Error::setting("sample", "at least 1", 0));
        }
        Ok(method)
    }
}

/// Refuses anchors that do not determine a map.
fn enough(anchors: usize, dim: usize, settings: &FitSettings) -> Result<()> {
    let (need, [a, b]) = (2 * dim, &settings.names.0);
    if anchors.min(settings.sample) >= need {
        return Ok(());
    }
    if anchors >= need {
        let sample = settings.sample;
        let what = format!(
            "⟨sample⟩ {sample} is too small for vectors of {dim} values: at least {need} anchors (2 x width) are needed"
        );
        return Err(Error::request(what, "use a larger sample or leave it out"));
    }
    let what = match settings.which {
        Anchors::Shared => format!("{a} and {b} share only {anchors} ids"),
        _ => format!("only {anchors} anchors are shared by {a} and {b}"),
    };
    Err(Error::unfit(
        format!(
            "{what}, and a map between vectors of {dim} values needs at least {need} (2 x width)"
        ),
        "check that both tables name things in the same way, use more anchors, or train with fewer dimensions",
    ))
}

/// Anchors by what they are used for.
struct Split {
    held_out: Vec<usize>,
    fit: Vec<usize>,
}

impl Split {
    fn of(anchors: usize, settings: &FitSettings) -> Result<Self> {
        let order = Order::new(anchors as u64, Seed::new(settings.seed)?, "align/anchors", 0);
        let at = |t: usize| order.at(t as u64) as usize;
        let n_held_out = (anchors / HELD_OUT).max(1);
        let n_fit = (anchors - n_held_out).min(settings.sample);
        // No more are judged than are fitted: the residual of so many is known well enough.
        let held_out = (0..n_held_out.min(settings.sample)).map(at).collect();
        Ok(Self { held_out, fit: (n_held_out..n_held_out + n_fit).map(at).collect() })
    }
}

/// Rows of anchors, side by side.
struct Rows {
    dims: [usize; 2],
    a: Vec<f32>,
    b: Vec<f32>,
}

impl Rows {
    fn gather(reference: &Table, new: &Table, pairs: &Pairs, chosen: &[usize]) -> Self {
        let rows = |table: &Table, side: fn(&(usize, usize)) -> usize| -> Vec<f32> {
            chosen.iter().flat_map(|&i| table.row(side(&pairs[i]))).copied().collect()
        };
        Self {
            dims: [reference.dim, new.dim],
            a: rows(reference, |pair| pair.0),
            b: rows(new, |pair| pair.1),
        }
    }

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

    /// Refuses values that are no numbers, and rows that are all the same.
    fn check(&self, held_out: &Self, names: [&str; 2]) -> Result<()> {
        for (side, name) in names.into_iter().enumerate() {
            let (rows, dim) = (self.side(side), self.dims[side]);
            if let Some(bad) = rows.iter().chain(held_out.side(side)).find(|x| !x.is_finite()) {
                let what = format!("{name} holds the value {bad}");
                return Err(Error::unfit(what, "repair it, or pass ⟨on-nan⟩ skip"));
            }
            if rows.chunks_exact(dim).all(|row| row == &rows[..dim]) {
                let what = "the vectors of all anchors are equal, which no map can tell apart";
                let hint = "look at the table with `veridical vectors stats`";
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

/// |A - B| / |A| and the mean cosine of rows, those of zeros left out.
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

/// The strength with the smallest residual on a fifth of the rows; the weakest of equal ones.
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
    /// One per table, in their order; the first is the identity.
    pub fitted: Vec<Fitted>,
    /// The mean of all turned tables, on the ids that all share.
    pub mean: Table,
}

/// Turns all tables to their common mean (generalised Procrustes); the first keeps its frame.
///
/// ```
/// use veridical_core::Job;
/// use veridical_data::{Ids, Table};
/// use veridical_inspect::align::{FitSettings, fit_common};
///
/// let vectors: Vec<f32> = (0..40u16).map(|i| f32::from(i * i % 17)).collect();
/// let turned: Vec<f32> = vectors.chunks(2).flat_map(|row| [-row[1], row[0]]).collect();
/// let table = |vectors| Table { ids: Ids::numbered(0, 20), dim: 2, vectors };
/// let (tables, names) = (vec![table(vectors), table(turned)], ["one".into(), "other".into()]);
/// let common = fit_common(tables, &names, &FitSettings::default(), &Job::silent())?;
/// assert!(common.fitted.iter().all(|fitted| fitted.certificate.residual < 1e-5));
/// assert_eq!(common.mean.n_rows(), 20);
/// # Ok::<(), veridical_core::Error>(())
/// ```
///
/// # Errors
/// As [`fit`], and for tables of unequal widths.
pub fn fit_common(
    tables: Vec<Table>,
    names: &[String],
    settings: &FitSettings,
    job: &Job<'_>,
) -> Result<Common> {
    if tables.len() < 2 || names.len() != tables.len() {
        let what =
            format!("{} tables with {} names have no common mean", tables.len(), names.len());
        return Err(Error::request(what, "give at least two tables, each with its name"));
    }
    for (table, name) in tables.iter().zip(names) {
        usable(table, name)?;
    }
    let dim = tables.first().map_or(0, |table| table.dim);
    let plain = FitSettings { which: Anchors::Shared, ..settings.clone() };
    let rotation = matches!(settings.method, Method::Auto | Method::Procrustes);
    if !rotation
        || settings.scale
        || settings.center
        || settings.ridge.is_some()
        || settings.rank.is_some()
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
                format!("{name} has vectors of {} values and {} of {dim}", table.dim, names[0]),
                "⟨generalized⟩ needs equal widths, align it alone with ⟨method⟩ ridge",
            ));
        }
    }
    // For their messages about ids that stand twice or are not shared.
    for (table, name) in tables.iter().zip(names).skip(1) {
        anchors::pairs(&tables[0], table, &plain.which, [&names[0], name])?;
    }
    let joined = veridical_data::join(tables)?.tables;
    let shared = joined[0].n_rows();
    let called =
        FitSettings { names: Names([names[0].clone(), "the other tables".into()]), ..plain };
    enough(shared, dim, &called)?;
    let split = Split::of(shared, settings)?;
    let rows = |table: &Table, chosen: &[usize]| -> Vec<f32> {
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
    let (maps, fit_mean) = generalised_procrustes(&slices, dim)?;
    job.check()?;
    let mean_of = |tables: &[&[f32]]| -> Vec<f32> {
        let mut sum = vec![0.0f64; tables[0].len()];
        for (table, map) in tables.iter().zip(&maps) {
            sum.iter_mut().zip(map.apply(table)).for_each(|(s, x)| *s += f64::from(x));
        }
        sum.iter().map(|s| (s / tables.len() as f64) as f32).collect()
    };
    let whole: Vec<&[f32]> = joined.iter().map(|table| table.vectors.as_slice()).collect();
    let mean = Table { ids: joined[0].ids.clone(), dim, vectors: mean_of(&whole) };
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
