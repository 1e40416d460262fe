//! `veridical demo`: a generated shop whose embeddings are trained twice.
//!
//! Monday's and Tuesday's tables are item2vec runs on the same interactions with two seeds. Coordinates
//! change completely, the Gram matrix hardly, and the features of both days show what that means for a model
//! that is retrained and for one that is not.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;
use veridical_core::Seed;
use veridical_data::generate::ShopSettings;
use veridical_data::run::seed_folder;
use veridical_data::{Dtype, Ids, IfExists, ReadOptions, Source, Table, join};
use veridical_embed::Method;
use veridical_features::{FeatureMap, FeatureSpec};

use crate::featurize::{self, Apply, LengthScale, NewSpec};
use crate::prepare::{self, GenerateShop};
use crate::train::{self, Layer, Request, Train};
use crate::{Error, JobOptions, Observer, Result};

const USERS: usize = 3000;
const ITEMS: usize = 400;
const PER_USER: usize = 20;
const DIM: usize = 16;
const GENRES: usize = 8;
const EPOCHS: u32 = 5;
/// Monday's seed and the one after it.
const SEEDS: [u64; 2] = [1, 2];
/// Rows that are compared pair by pair.
const COMPARED: usize = ITEMS;
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
    let interactions = make_shop(&folder.join("shop"), force)?;
    let runs = folder.join("runs");
    train_twice(&interactions, &runs, force, observer)?;
    let day = |seed: u64, name: &str| {
        let table = seed_folder(&runs, seed).join("vectors/item.parquet");
        let table = Table::load(&Source::Path(table), &ReadOptions::default())?;
        let table = unit_rows(table);
        let path = folder.join(name);
        table.save(&path)?;
        Ok::<_, Error>((path, table))
    };
    let (monday_path, monday) = day(SEEDS[0], "monday.parquet")?;
    let (tuesday_path, tuesday) = day(SEEDS[1], "tuesday.parquet")?;

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
        files: [&interactions, &runs, &monday_path, &tuesday_path, &spec_path]
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

/// Who bought what, with eight genres behind it.
fn make_shop(out: &Path, force: bool) -> Result<PathBuf> {
    let settings = ShopSettings {
        users: USERS,
        items: ITEMS,
        clusters: GENRES,
        per_user: PER_USER,
        skew: 0.3,
        noise: 0.05,
        seed: Seed::new(0)?,
    };
    let out = out.to_owned();
    let made = prepare::shop(&GenerateShop { settings, out, format: "csv".into(), force })?;
    Ok(PathBuf::from(&made.files[0]))
}

/// `runs/seed-1` and `runs/seed-2`.
fn train_twice(data: &Path, out: &Path, force: bool, observer: &dyn Observer) -> Result<()> {
    let given = json!({
        "interactions": data, "seed": SEEDS[0], "dim": DIM, "epochs": EPOCHS,
    });
    let given = Layer::given(given.as_object().cloned().unwrap_or_default());
    let request = Request::new(Method::Item2vec, &[given])?;
    let if_exists = if force { IfExists::Force } else { IfExists::Refuse };
    let (out, seeds) = (out.to_owned(), Some(SEEDS.len() as u64));
    train::train(&Train { request, out, seeds, if_exists }, observer)?;
    Ok(())
}

/// Rows of length 1: what item2vec means is in the angles.
fn unit_rows(mut table: Table) -> Table {
    for row in table.vectors.chunks_exact_mut(table.dim) {
        let norm =
            row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
        row.iter_mut().for_each(|x| *x = (f64::from(*x) / norm) as f32);
    }
    table
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

/// Mean features of every genre over half of the items: item r of the shop is of genre r mod 8, and every
/// other round of genres is learnt from.
struct Centres(Vec<Vec<f64>>);

impl Centres {
    fn fit(phi: &Table) -> Self {
        let mut centres = vec![vec![0.0; phi.dim]; GENRES];
        for r in (0..phi.n_rows()).filter(|&r| !is_test(&phi.ids, r)) {
            let centre = &mut centres[number(&phi.ids, r) % GENRES];
            centre.iter_mut().zip(phi.row(r)).for_each(|(c, &x)| *c += f64::from(x));
        }
        Self(centres)
    }

    /// Share of the other half whose nearest centre (by cosine; genres are of equal size) is right.
    fn accuracy(&self, phi: &Table) -> f64 {
        let score = |r: usize, g: usize| -> f64 {
            self.0[g].iter().zip(phi.row(r)).map(|(c, &x)| c * f64::from(x)).sum()
        };
        let best = |r: usize| (0..GENRES).max_by(|&a, &b| score(r, a).total_cmp(&score(r, b)));
        let test: Vec<usize> = (0..phi.n_rows()).filter(|&r| is_test(&phi.ids, r)).collect();
        let is_right = |r: &&usize| best(**r) == Some(number(&phi.ids, **r) % GENRES);
        test.iter().filter(is_right).count() as f64 / test.len() as f64
    }
}

fn is_test(ids: &Ids, row: usize) -> bool {
    (number(ids, row) / GENRES) % 2 == 1
}

/// The number of an item in the shop, which is its id.
fn number(ids: &Ids, row: usize) -> usize {
    ids.get(row).parse().unwrap_or(0)
}
