//! `veridical demo`: a generated shop whose embeddings are trained twice.
//!
//! Tuesday's table stands for a second training run: Monday's rows turned by a random rotation, with
//! a little noise. Coordinates change completely, the Gram matrix hardly, and the features of both
//! days show what that means for a model that is retrained and for one that is not.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use veridical_core::Seed;
use veridical_data::{Dtype, Ids, IfExists, ReadOptions, Source, Table, generate, join};
use veridical_features::{FeatureMap, FeatureSpec};

use crate::featurize::{self, Apply, LengthScale, NewSpec};
use crate::{Error, JobOptions, Observer, Result};

const ITEMS: usize = 5000;
const DIM: usize = 32;
const GENRES: usize = 8;
const NOISE: f64 = 0.02;
/// Rows that are compared pair by pair.
const COMPARED: usize = 400;
const OUTPUT_DIMS: [usize; 4] = [32, 64, 128, 256];

/// What the demo measured.
#[derive(Clone, Debug, Serialize)]
pub struct Demo {
    /// The files it wrote.
    pub files: Vec<String>,
    /// Root mean square change of a coordinate from Monday to Tuesday, and the size of one.
    pub coordinate_change: f64,
    /// See `coordinate_change`.
    pub coordinate_size: f64,
    /// Root mean square change of an inner product, and its spread over pairs.
    pub gram_change: f64,
    /// See `gram_change`.
    pub gram_spread: f64,
    /// Root mean square error of <phi, phi> against the kernel, by output dim.
    pub kernel_error: Vec<KernelError>,
    /// Accuracy of nearest genre centres in phi, fitted on half of the items and tested on the rest.
    pub accuracy_monday: f64,
    /// The same after retraining on Tuesday's phi.
    pub accuracy_tuesday_retrained: f64,
    /// Monday's centres on Tuesday's phi, not retrained.
    pub accuracy_tuesday_not_retrained: f64,
    /// One over the number of genres.
    pub chance: f64,
}

/// One row of the error table.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct KernelError {
    /// D.
    pub output_dim: usize,
    /// Measured over pairs.
    pub measured: f64,
    /// sqrt of the mean variance that iid directions would have.
    pub iid_theory: f64,
}

/// Generates, featurises and measures into `folder`.
///
/// # Errors
/// [`Error::Usage`] if the folder is there and not empty, unless `force` is set.
pub fn run(folder: &Path, force: bool, observer: &dyn Observer) -> Result<Demo> {
    let occupied = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    if occupied && !force {
        let what = "is not empty; choose another folder with --out, or write into it with --force";
        return Err(Error::Usage(format!("{} {what}", folder.display())));
    }
    fs::create_dir_all(folder).map_err(|e| {
        Error::Usage(format!("{}: cannot create the folder: {e}", folder.display()))
    })?;
    let monday_path = folder.join("monday.parquet");
    let tuesday_path = folder.join("tuesday.parquet");
    let monday = generate::clusters(ITEMS, DIM, GENRES, Seed::new(1)?);
    let turned = generate::rotated(&monday, Seed::new(2)?);
    let tuesday = generate::noisy(&turned, NOISE, Seed::new(3)?);
    monday.save(&monday_path)?;
    tuesday.save(&tuesday_path)?;

    let spec_path = folder.join("spec.json");
    let spec = featurize::new_spec(&NewSpec {
        length_scale: LengthScale::Median,
        data: Some(Source::Path(monday_path.clone())),
        ..NewSpec::default()
    })?;
    featurize::save_spec(&spec, &spec_path, force)?;
    let phi_monday =
        featurize_to(&monday_path, &folder.join("phi-monday.parquet"), &spec, force, observer)?;
    let phi_tuesday =
        featurize_to(&tuesday_path, &folder.join("phi-tuesday.parquet"), &spec, force, observer)?;

    let both = join(vec![monday, tuesday])?;
    let [monday, tuesday] = &both.tables[..] else {
        // INVARIANT: a join gives back as many tables as it took.
        unreachable!("two tables were joined");
    };
    let (coordinate_change, coordinate_size) = coordinates(monday, tuesday);
    let (gram_change, gram_spread) = gram(monday, tuesday);
    let centres = Centres::fit(&phi_monday);
    Ok(Demo {
        files: [&monday_path, &tuesday_path, &spec_path]
            .into_iter()
            .cloned()
            .chain(["phi-monday.parquet", "phi-tuesday.parquet"].map(|name| folder.join(name)))
            .map(|path: PathBuf| path.display().to_string())
            .collect(),
        coordinate_change,
        coordinate_size,
        gram_change,
        gram_spread,
        kernel_error: kernel_errors(monday, &spec)?,
        accuracy_monday: centres.accuracy(&phi_monday),
        accuracy_tuesday_retrained: Centres::fit(&phi_tuesday).accuracy(&phi_tuesday),
        accuracy_tuesday_not_retrained: centres.accuracy(&phi_tuesday),
        chance: 1.0 / GENRES as f64,
    })
}

fn featurize_to(
    input: &Path,
    output: &Path,
    spec: &FeatureSpec,
    force: bool,
    observer: &dyn Observer,
) -> Result<Table> {
    let output = Source::Path(output.to_owned());
    let mut options = JobOptions::default();
    options.write.if_exists = if force { IfExists::Force } else { IfExists::Refuse };
    options.read.id_column = Some("id".into());
    options.read.vector_column = Some("vector".into());
    let settings = Apply {
        input: Source::Path(input.to_owned()),
        output: output.clone(),
        spec: Some(spec.clone()),
        output_dim: None,
        dtype: Dtype::F32,
        options,
    };
    featurize::apply(&settings, observer)?;
    Ok(Table::load(&output, &ReadOptions::default())?)
}

fn root_mean_square(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0.0), |(sum, n), x| (sum + x * x, n + 1.0));
    (sum / n).sqrt()
}

fn coordinates(a: &Table, b: &Table) -> (f64, f64) {
    let change = a.vectors.iter().zip(&b.vectors).map(|(a, b)| f64::from(a - b));
    (root_mean_square(change), root_mean_square(a.vectors.iter().map(|&x| f64::from(x))))
}

fn inner(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..COMPARED).flat_map(|i| (i + 1..COMPARED).map(move |j| (i, j)))
}

fn gram(a: &Table, b: &Table) -> (f64, f64) {
    let of = |t: &Table, (i, j)| inner(t.row(i), t.row(j));
    let mean = pairs().map(|p| of(a, p)).sum::<f64>() / pairs().count() as f64;
    let change = root_mean_square(pairs().map(|p| of(a, p) - of(b, p)));
    (change, root_mean_square(pairs().map(|p| of(a, p) - mean)))
}

fn kernel_errors(table: &Table, spec: &FeatureSpec) -> Result<Vec<KernelError>> {
    let rows = spec.normalize().rows(&table.vectors[..COMPARED * table.dim], table.dim);
    let exact = spec.kernel().pairs(&rows, table.dim, spec.length_scale());
    let error = |output_dim| {
        let prefix = FeatureSpec::params(table.dim, output_dim)
            .seed(spec.seed().get())
            .length_scale(spec.length_scale())
            .build()?;
        let phi = FeatureMap::new(&prefix)?.transform(&rows)?;
        let row = |i: usize| &phi[i * output_dim..][..output_dim];
        let errors = pairs().zip(&exact).map(|((i, j), k)| inner(row(i), row(j)) - k);
        // (1 + k(2 delta) - 2 k^2) / (2m), with k(2 delta) = k^4 for the gaussian kernel.
        let variance = |k: &f64| (1.0 + k.powi(4) - 2.0 * k * k) / output_dim as f64;
        Ok(KernelError {
            output_dim,
            measured: root_mean_square(errors),
            iid_theory: (exact.iter().map(variance).sum::<f64>() / exact.len() as f64).sqrt(),
        })
    };
    OUTPUT_DIMS.into_iter().map(error).collect()
}

/// Mean features of every genre over the first half of the items. Item r is of genre r mod 8, as
/// [`generate::clusters`] plants it.
struct Centres(Vec<Vec<f64>>);

impl Centres {
    fn fit(phi: &Table) -> Self {
        let mut centres = vec![vec![0.0; phi.dim]; GENRES];
        for r in 0..phi.n_rows() / 2 {
            let centre = &mut centres[genre(&phi.ids, r)];
            centre.iter_mut().zip(phi.row(r)).for_each(|(c, &x)| *c += f64::from(x));
        }
        Self(centres)
    }

    /// Share of the second half whose nearest centre (by cosine; genres are of equal size) is right.
    fn accuracy(&self, phi: &Table) -> f64 {
        let test = phi.n_rows() / 2..phi.n_rows();
        let score = |r: usize, g: usize| -> f64 {
            self.0[g].iter().zip(phi.row(r)).map(|(c, &x)| c * f64::from(x)).sum()
        };
        let best = |r: usize| (0..GENRES).max_by(|&a, &b| score(r, a).total_cmp(&score(r, b)));
        let right = test.clone().filter(|&r| best(r) == Some(genre(&phi.ids, r))).count();
        right as f64 / test.len() as f64
    }
}

fn genre(ids: &Ids, row: usize) -> usize {
    let number = ids.get(row).trim_start_matches("item-").parse::<usize>();
    number.unwrap_or(0) % GENRES // ids are ours: `item-<number>`
}
