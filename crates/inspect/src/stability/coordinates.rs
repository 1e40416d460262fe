//! The variance of each coordinate between runs, before and after alignment.
//!
//! v_k = mean_i var_r(h_r(i)_k) over sampled ids (paper 000, figure 1a for single items, 1c for the distribution over
//! items). Aligned: every run is rotated to the first one by orthogonal Procrustes, fitted on all shared ids.

use rayon::prelude::*;
use serde::Serialize;
use veridical_core::Estimate;
use veridical_learn::LinearMap;

use crate::stability::SharedTables;

/// The number of ids whose coordinates are compared.
pub const SAMPLED: usize = 16_384;
const GROUPS: usize = 20;

/// The change of coordinates between runs.
#[derive(Clone, Debug, Serialize)]
pub struct Coordinates {
    /// The number of ids compared.
    pub ids: usize,
    /// The root mean square of a coordinate.
    pub size: f64,
    /// The variance over runs of every dimension, mean over ids.
    pub variance: Vec<f64>,
    /// The variance of every dimension after alignment to the first run.
    pub aligned_variance: Vec<f64>,
    /// The root of the mean variance, relative to `size`.
    pub relative_sd: Option<Estimate>,
    /// The root of the mean variance after alignment, relative to `size`.
    pub aligned_relative_sd: Option<Estimate>,
    /// The variance of single ids, mean over dimensions, for a chart: raw and aligned.
    #[serde(skip)]
    pub by_id: [Vec<f64>; 2],
}

/// The variance of every dimension and of every id of a block, and the sum of squares.
struct Block {
    by_dimension: Vec<f64>,
    by_id: Vec<f64>,
    squares: f64,
    rows: usize,
}

/// Compares the ids `sample`, in random order, of runs of equal dimension; `maps` take each run to the first.
pub fn coordinates(runs: &SharedTables, sample: &[u32], maps: &[LinearMap]) -> Coordinates {
    let blocks = |aligned: bool| -> Vec<Block> {
        let group = |g: usize| {
            let rows: Vec<u32> = sample.iter().skip(g).step_by(GROUPS).copied().collect();
            let tables: Vec<Vec<f32>> = runs
                .runs
                .iter()
                .zip(maps)
                .map(|(run, map)| {
                    let rows = run.gather(&rows);
                    if aligned { map.apply(&rows) } else { rows }
                })
                .collect();
            variances(&tables, runs.runs[0].dim)
        };
        (0..GROUPS).into_par_iter().map(group).collect()
    };
    let (raw, aligned) = (Summary::of(blocks(false)), Summary::of(blocks(true)));
    let relative_sd = |summary: &Summary| {
        let found = Estimate::jackknife(summary.ratio, &summary.without, sample.len() as u64);
        found.map(|e| e.with_seeds(runs.runs.len() as u64))
    };
    Coordinates {
        ids: sample.len(),
        size: raw.size,
        relative_sd: relative_sd(&raw),
        aligned_relative_sd: relative_sd(&aligned),
        variance: raw.by_dimension,
        aligned_variance: aligned.by_dimension,
        by_id: [raw.by_id, aligned.by_id],
    }
}

fn variances(tables: &[Vec<f32>], dim: usize) -> Block {
    let runs = tables.len() as f64;
    let rows = tables[0].len() / dim;
    let mut block =
        Block { by_dimension: vec![0.0; dim], by_id: vec![0.0; rows], squares: 0.0, rows };
    for i in 0..rows {
        for k in 0..dim {
            let values = tables.iter().map(|t| f64::from(t[i * dim + k]));
            let mean = values.clone().sum::<f64>() / runs;
            let variance = values.clone().map(|x| (x - mean).powi(2)).sum::<f64>() / (runs - 1.0);
            block.by_dimension[k] += variance;
            block.by_id[i] += variance / dim as f64;
            block.squares += values.map(|x| x * x).sum::<f64>() / runs;
        }
    }
    block
}

struct Summary {
    by_dimension: Vec<f64>,
    by_id: Vec<f64>,
    size: f64,
    ratio: f64,
    without: Vec<f64>,
}

impl Summary {
    fn of(blocks: Vec<Block>) -> Self {
        let dim = blocks[0].by_dimension.len();
        let total = |without: Option<usize>| {
            let kept = || blocks.iter().enumerate().filter(|&(g, _)| Some(g) != without);
            let variance: f64 = kept().flat_map(|(_, b)| &b.by_dimension).sum();
            let squares: f64 = kept().map(|(_, b)| b.squares).sum();
            (variance / squares).sqrt()
        };
        let rows: usize = blocks.iter().map(|b| b.rows).sum();
        let squares: f64 = blocks.iter().map(|b| b.squares).sum();
        let of = |k| blocks.iter().map(|b: &Block| b.by_dimension[k]).sum::<f64>() / rows as f64;
        Self {
            by_dimension: (0..dim).map(of).collect(),
            size: (squares / (rows * dim) as f64).sqrt(),
            ratio: total(None),
            without: (0..blocks.len()).map(|g| total(Some(g))).collect(),
            by_id: blocks.into_iter().flat_map(|b| b.by_id).collect(),
        }
    }
}
