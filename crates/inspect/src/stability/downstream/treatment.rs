//! Treatments: transformations of the vectors before consumers use them.

use veridical_core::stats::Moments;
use veridical_features::{Directions, FeatureMap, FeatureSpec};
use veridical_learn::{LinearMap, generalized_procrustes};

use crate::stability::SharedTables;

/// A transformation of the vectors before consumers use them.
#[derive(Clone, Debug, PartialEq)]
pub enum Treatment {
    /// The raw vectors.
    Raw,
    /// Columns of mean 0 and sd 1, fitted on each run.
    Standardized,
    /// Vectors rotated to the first run.
    Aligned,
    /// The mean over runs, coordinate by coordinate.
    Averaged,
    /// The mean over runs after generalized Procrustes.
    AlignedAverage,
    /// Random Fourier features of the raw vectors.
    Features(FeatureSpec),
    /// Random Fourier features of the vectors rotated to the first run.
    AlignedFeatures(FeatureSpec),
}

impl Treatment {
    /// Returns the name of the treatment.
    pub fn name(&self) -> String {
        let phi =
            |spec: &FeatureSpec| format!("{} D={}", spec.directions().name(), spec.output_dim());
        match self {
            Self::Raw => "raw".into(),
            Self::Standardized => "standardized".into(),
            Self::Aligned => "aligned".into(),
            Self::Averaged => "average".into(),
            Self::AlignedAverage => "aligned average".into(),
            Self::Features(spec) => format!("phi {}", phi(spec)),
            Self::AlignedFeatures(spec) => format!("align-then-phi {}", phi(spec)),
        }
    }

    /// Whether it combines all runs into one table.
    pub fn is_average(&self) -> bool {
        matches!(self, Self::Averaged | Self::AlignedAverage)
    }
}

/// Returns the treatments for vectors of dimension `dim`: feature maps at equal dimension with each family of directions,
/// and at each multiple of it. `base` provides kernel, length scale, normalization and random seed.
pub fn treatments(
    base: &FeatureSpec,
    multiples: &[usize],
    can_align: bool,
) -> Result<Vec<Treatment>, veridical_features::Error> {
    let equal = base.input_dim().next_multiple_of(2);
    let at = |dim: usize| base.redrawn(base.seed().get(), dim);
    let mut all = vec![Treatment::Raw, Treatment::Standardized];
    if can_align {
        all.extend([Treatment::Aligned, Treatment::Averaged, Treatment::AlignedAverage]);
    }
    // Families that the kernel does not support are skipped.
    let of_family =
        Directions::ALL.iter().filter_map(|&family| at(equal).ok()?.with_directions(family).ok());
    all.extend(of_family.map(Treatment::Features));
    if can_align {
        all.push(Treatment::AlignedFeatures(at(equal)?));
    }
    for &multiple in multiples {
        let spec = at(multiple * equal)?;
        all.push(Treatment::Features(spec.clone()));
        if can_align {
            all.push(Treatment::AlignedFeatures(spec));
        }
    }
    Ok(all)
}

/// The vectors of the ids `rows` under every treatment.
pub struct Treated<'a> {
    runs: &'a SharedTables,
    maps: &'a [LinearMap],
    rows: &'a [u32],
}

impl<'a> Treated<'a> {
    /// Prepares the treatments; `maps` take each run to the first and are empty if dimensions differ.
    pub fn new(runs: &'a SharedTables, maps: &'a [LinearMap], rows: &'a [u32]) -> Self {
        Self { runs, maps, rows }
    }

    /// Returns the vectors of a run under a treatment, and their dimension. Averages are the same for every run.
    ///
    /// # Errors
    /// Those of the feature map.
    pub fn of(
        &self,
        treatment: &Treatment,
        run: usize,
    ) -> Result<(Vec<f32>, usize), veridical_features::Error> {
        let dim = self.runs.runs[run].dim;
        let raw = |run: usize| self.runs.runs[run].gather(self.rows);
        let all = || (0..self.runs.runs.len()).map(raw).collect::<Vec<_>>();
        let features = |spec: &FeatureSpec, rows: &[f32]| {
            Ok::<_, veridical_features::Error>((
                FeatureMap::new(spec)?
                    .transform(veridical_core::Rows::new(rows, spec.input_dim())?)?,
                spec.output_dim(),
            ))
        };
        Ok(match treatment {
            Treatment::Raw => (raw(run), dim),
            Treatment::Standardized => (standardized(raw(run), dim), dim),
            Treatment::Aligned => (self.maps[run].apply(&raw(run)), dim),
            Treatment::Averaged => (mean(&all()), dim),
            Treatment::AlignedAverage => {
                let tables = all();
                let tables: Vec<&[f32]> = tables.iter().map(Vec::as_slice).collect();
                (generalized_procrustes(&tables, dim)?.1, dim)
            }
            Treatment::Features(spec) => features(spec, &raw(run))?,
            Treatment::AlignedFeatures(spec) => features(spec, &self.maps[run].apply(&raw(run)))?,
        })
    }
}

fn standardized(mut rows: Vec<f32>, dim: usize) -> Vec<f32> {
    let mut columns = vec![Moments::default(); dim];
    for row in rows.chunks_exact(dim) {
        columns.iter_mut().zip(row).for_each(|(column, &x)| column.push(f64::from(x)));
    }
    for row in rows.chunks_exact_mut(dim) {
        for (column, x) in columns.iter().zip(row) {
            let sd = column.variance().sqrt();
            *x = ((f64::from(*x) - column.mean()) / if sd > 0.0 { sd } else { 1.0 }) as f32;
        }
    }
    rows
}

fn mean(tables: &[Vec<f32>]) -> Vec<f32> {
    let n = tables.len() as f64;
    let of = |i: usize| (tables.iter().map(|t| f64::from(t[i])).sum::<f64>() / n) as f32;
    (0..tables[0].len()).map(of).collect()
}
