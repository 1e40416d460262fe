//! Fitting a map from one table to another on the ids they share.
//!
//! A tenth of the anchors is kept back (by seed); the map is fitted on the rest, and the certificate says how well
//! it does on those it has not seen: |A - map(B)| / |A|, and the mean cosine of a row and its image.
//!
//! The strength of a ridge that is not given is the one of [`RIDGES`] with the smallest residual on a fifth of the
//! anchors of the fit, after a fit on the other four; then all of them are used.

use serde::Serialize;
use veridical_core::{Order, Seed};
use veridical_data::{Table, fingerprint};
use veridical_learn::{
    LinearMap, PairMoments, Procrustes, generalised_procrustes, low_rank_map, residual, ridge_map,
};

use super::anchors::{self, Anchors, Pairs};
use super::file::{MapFile, MapKind};
use crate::{Error, Result};

/// Most anchors of a fit unless the user says otherwise.
pub const DEFAULT_SAMPLE: usize = 200_000;
/// One anchor in so many is kept back.
const HELD_OUT: usize = 10;
/// One anchor in so many decides the ridge.
const VALIDATION: usize = 5;
/// Strengths that are tried, relative to the mean variance of a column.
const RIDGES: [f64; 8] = [1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0];

/// What kind of map is fitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// A rotation for equal widths, else a ridge regression.
    #[default]
    Auto,
    /// A rotation or reflection, with [`FitSettings::scale`] and [`FitSettings::center`].
    Procrustes,
    /// Any linear map.
    Ridge,
    /// A linear map of rank [`FitSettings::rank`].
    LowRank,
}

/// How a map is fitted.
#[derive(Clone, Debug, PartialEq)]
pub struct FitSettings {
    /// What kind of map.
    pub method: Method,
    /// Procrustes may multiply lengths by a number.
    pub scale: bool,
    /// Procrustes takes rows less their means.
    pub center: bool,
    /// Strength of the ridge; otherwise chosen by anchors that are kept back.
    pub ridge: Option<f64>,
    /// Rank of a low-rank map.
    pub rank: Option<usize>,
    /// Which ids.
    pub anchors: Anchors,
    /// Most anchors of the fit.
    pub sample: usize,
    /// Decides which anchors are kept back, and the sample.
    pub seed: u64,
    /// What messages call the reference and the table.
    pub names: [String; 2],
}

impl Default for FitSettings {
    fn default() -> Self {
        Self {
            method: Method::default(),
            scale: false,
            center: false,
            ridge: None,
            rank: None,
            anchors: Anchors::default(),
            sample: DEFAULT_SAMPLE,
            seed: 0,
            names: ["the reference".into(), "the table".into()],
        }
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
/// [`Error::Usage`] for tables that share too few ids or whose rows are all equal, widths that the method cannot
/// join, settings that contradict each other, and values that are no numbers.
pub fn fit(reference: &Table, new: &Table, settings: &FitSettings) -> Result<Fitted> {
    let method = settings.resolve(reference.dim, new.dim)?;
    let names = [settings.names[0].as_str(), settings.names[1].as_str()];
    let pairs = anchors::pairs(reference, new, &settings.anchors, names)?;
    enough(pairs.len(), new.dim.max(reference.dim), settings)?;
    let split = Split::of(pairs.len(), settings)?;
    let held_out = Rows::gather(reference, new, &pairs, &split.held_out);
    let fitted = Rows::gather(reference, new, &pairs, &split.fit);
    fitted.check(&held_out, names)?;

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
    let fit_residual = residual(&moments, &map);
    let certificate = held_out.certificate(&map, pairs.len(), fitted.len(), fit_residual);
    let kind = match method {
        Method::Ridge => MapKind::Ridge,
        Method::LowRank => MapKind::LowRank,
        _ if map.is_rotation() => MapKind::Rotation,
        _ => MapKind::Similarity,
    };
    let reference = fingerprint::of_table(reference);
    let map_id = MapFile::id_of(&map, kind, &reference);
    Ok(Fitted { map, kind, certificate, map_id, reference, ridge, rank })
}

impl FitSettings {
    /// The method, once settings and widths go together.
    fn resolve(&self, reference_dim: usize, new_dim: usize) -> Result<Method> {
        let refused = |what: String| Err(Error::Usage(what));
        let method = match self.method {
            Method::Auto if self.rank.is_some() => Method::LowRank,
            Method::Auto if self.ridge.is_some() => Method::Ridge,
            Method::Auto if reference_dim == new_dim => Method::Procrustes,
            Method::Auto if self.scale || self.center => Method::Procrustes,
            Method::Auto => Method::Ridge,
            method => method,
        };
        if method == Method::Procrustes && reference_dim != new_dim {
            let [a, b] = &self.names;
            return refused(format!(
                "{b} has vectors of {new_dim} values and {a} of {reference_dim}; a rotation needs equal widths: \
                 use --method ridge (any linear map) or --method low-rank --rank K, without --scale and --center"
            ));
        }
        let linear = matches!(method, Method::Ridge | Method::LowRank);
        if linear && (self.scale || self.center) {
            return refused(
                "--scale and --center go with --method procrustes; linear maps have both".into(),
            );
        }
        if !linear && self.ridge.is_some() {
            return refused("--ridge goes with --method ridge or low-rank".into());
        }
        match (method, self.rank) {
            (Method::LowRank, None) => return refused("--method low-rank needs --rank K".into()),
            (Method::LowRank, Some(rank)) => {
                let most = reference_dim.min(new_dim);
                if rank == 0 || rank > most {
                    return refused(format!(
                        "--rank must be between 1 and {most}, the smaller width, got {rank}"
                    ));
                }
            }
            (_, Some(_)) => return refused("--rank goes with --method low-rank".into()),
            (_, None) => {}
        }
        if let Some(ridge) = self.ridge.filter(|ridge| !(ridge.is_finite() && *ridge >= 0.0)) {
            return refused(format!("--ridge must be a number that is not negative, got {ridge}"));
        }
        if self.sample == 0 {
            return refused("--sample must be at least 1, got 0".into());
        }
        Ok(method)
    }
}

/// Refuses anchors that do not determine a map.
fn enough(anchors: usize, dim: usize, settings: &FitSettings) -> Result<()> {
    let (need, [a, b]) = (2 * dim, &settings.names);
    if anchors.min(settings.sample) >= need {
        return Ok(());
    }
    if anchors >= need {
        let sample = settings.sample;
        return Err(Error::Usage(format!(
            "--sample {sample} is too small for vectors of {dim} values: at least {need} anchors (2 x width) are \
             needed; use a larger sample or leave it out"
        )));
    }
    let what = match settings.anchors {
        Anchors::Shared => format!("{a} and {b} share only {anchors} ids"),
        _ => format!("only {anchors} anchors are shared by {a} and {b}"),
    };
    Err(Error::Usage(format!(
        "{what}, and a map between vectors of {dim} values needs at least {need} (2 x width); check that both tables \
         name things in the same way, use more anchors, or train with fewer dimensions"
    )))
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
                return Err(Error::Usage(format!(
                    "{name} holds the value {bad}; repair it, or pass --on-nan skip"
                )));
            }
            if rows.chunks_exact(dim).all(|row| row == &rows[..dim]) {
                return Err(Error::Usage(format!(
                    "{name}: the vectors of all anchors are equal, which no map can tell apart; look at the \
                     table with `veridical vectors stats`"
                )));
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
/// # Errors
/// As [`fit`], and for tables of unequal widths.
pub fn fit_common(tables: Vec<Table>, names: &[String], settings: &FitSettings) -> Result<Common> {
    let dim = tables.first().map_or(0, |table| table.dim);
    let plain = FitSettings { anchors: Anchors::Shared, ..settings.clone() };
    let rotation = matches!(settings.method, Method::Auto | Method::Procrustes);
    if !rotation
        || settings.scale
        || settings.center
        || settings.ridge.is_some()
        || settings.rank.is_some()
    {
        let what = "--generalized fits rotations: leave out --method, --scale, --center, --ridge and --rank";
        return Err(Error::Usage(what.into()));
    }
    if settings.anchors != Anchors::Shared {
        let what = "--generalized uses all ids that the tables share: leave out --anchors and --anchor-weights";
        return Err(Error::Usage(what.into()));
    }
    for (table, name) in tables.iter().zip(names) {
        if table.dim != dim {
            return Err(Error::Usage(format!(
                "{name} has vectors of {} values and {} of {dim}; --generalized needs equal widths, align it alone \
                 with --method ridge",
                table.dim, names[0]
            )));
        }
    }
    // For their messages about ids that stand twice or are not shared.
    for (table, name) in tables.iter().zip(names).skip(1) {
        anchors::pairs(&tables[0], table, &plain.anchors, [&names[0], name])?;
    }
    let joined = veridical_data::join(tables)?.tables;
    let shared = joined[0].n_rows();
    let called = FitSettings { names: [names[0].clone(), "the other tables".into()], ..plain };
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
    let slices: Vec<&[f32]> = fitting.iter().map(Vec::as_slice).collect();
    let (maps, fit_mean) = generalised_procrustes(&slices, dim);
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
            map_id: MapFile::id_of(map, MapKind::Rotation, &reference),
            reference: reference.clone(),
            ridge: None,
            rank: None,
            map: map.clone(),
        }
    };
    let fitted = maps.iter().zip(&fitting).zip(&held_out).map(one).collect();
    Ok(Common { fitted, mean })
}
