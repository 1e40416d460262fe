//! What a kernel is of: the rows of a network, or of a vector table.

use std::path::Path;

use serde_json::{Value, json};
use veridical_core::{Error as Refusal, Job, Rows, Seed, settings};
use veridical_data::{Ids, VectorTable, fingerprint};
use veridical_features::Kernel as ShiftKernel;
use veridical_features::length_scale::from_median;
use veridical_io::{Input, ReadOptions, read_table};
use veridical_kernels::gram::{Tiles, VectorKernel, VectorPairs, gram_into};
use veridical_kernels::tangent::{
    Factors, Kind, Normalization, Plan, Settings as KernelSettings, Summary, kernel, kernel_into,
};

use super::Store;
use crate::explain::{RowLimit, Samples, Subject, SubjectSettings, kernel_settings, matrix};
use crate::{Error, Result};

/// Training rows of a run unless there are fewer.
const MOST_ROWS: usize = 5000;
/// Rows of which the median distance is taken.
const MEDIAN_ROWS: usize = 1000;
/// Columns of a table that are not vectors.
const OF_VECTORS: &str = "linear, rbf, laplace, cauchy, matern-1/2, matern-3/2, matern-5/2, arc-cosine-0 or arc-cosine-1";

settings! {
    /// What a kernel is of.
    pub struct KernelRows in "Run and data" {
        /// Run of `train net`
        pub run: Option<Input> = None => [value("RUN")],
        /// The data that it was trained on
        pub data: Option<Input> = None => [value("FILE_OR_FOLDER"), otherwise("the path in the run"), excludes(&["vectors"])],
        /// Vector table, instead of a run
        pub vectors: Option<Input> = None => [value("TABLE"), excludes(&["run"])],
        /// Inputs, or another table: they are the rows of the matrix, and training rows its columns
        pub queries: Option<Input> = None => [value("FILE_OR_FOLDER")],
        /// Training rows to use, stratified by class: a number, or `all`
        pub rows: Option<RowLimit> = None => [value("N"), otherwise("5000; all of a table")],
        /// Layers of the kernel, by name or pattern
        pub layers: Option<String> = None => [value("NAME,PATTERN*"), otherwise("all"), excludes(&["vectors"])],
        /// Length scale of a kernel of vectors: a number, or `median` of the distances
        pub length_scale: String = "median".into() => [value("L")],
        /// Memory for factors and sums, in MB
        pub memory: u64 = 2000 => [value("MB"), at_least(64.0)],
        /// Random seed of the rows, of random cotangents and of sketches
        pub seed: u64 = 0 => [value("S")],
    }
}

impl KernelRows {
    /// The same as settings of `explain`.
    pub(super) fn subject(&self, store: Option<&Path>) -> SubjectSettings {
        SubjectSettings {
            run: self.run.clone().unwrap_or_default(),
            data: self.data.clone(),
            rows: self.rows.unwrap_or(RowLimit::Most(MOST_ROWS)),
            layers: self.layers.clone(),
            memory: self.memory,
            seed: self.seed,
            store: store.map(Input::from),
        }
    }

    /// Refuses rows of nothing.
    pub(super) fn check_source(&self) -> Result<()> {
        if self.run.is_none() && self.vectors.is_none() {
            let what = "a kernel is of a network or of vectors";
            return Err(Error::request(what, "pass ⟨run⟩ RUN or ⟨vectors⟩ TABLE"));
        }
        Ok(())
    }
}

/// Pairs that were computed anew, and what makes cosines of them: a factor for each row, and for each column.
pub(super) struct Exact {
    pub values: Vec<f32>,
    pub scales: [Vec<f64>; 2],
}

/// Ids with their labels.
pub(super) type Named = (Ids, Vec<Option<String>>);

/// The rows and columns of a kernel.
pub(super) enum Source {
    Net(Box<NetSource>),
    Table(Box<TableSource>),
}

/// Training rows of a network, and inputs that are compared with them.
pub(super) struct NetSource {
    pub subject: Subject,
    pub settings: KernelSettings,
    pub of: SubjectSettings,
    pub asked: bool,
}

/// Vectors, and others that are compared with them.
pub(super) struct TableSource {
    pub kernel: VectorKernel,
    pub length_scale: Option<f64>,
    pub rows: VectorTable,
    pub queries: Option<VectorTable>,
    path: String,
}

impl NetSource {
    pub fn open(
        rows: &KernelRows,
        store: Option<&Path>,
        kind: Kind,
        job: &Job<'_>,
    ) -> Result<Self> {
        let of = rows.subject(store);
        let subject = Subject::open(&of.run, &of, rows.queries.as_deref(), job)?;
        let asked = rows.queries.is_some();
        let subject = match asked {
            true => subject,
            false => subject.without_queries(of.rows, Seed::new(of.seed)?),
        };
        let settings = kernel_settings(kind, &of)?;
        Ok(Self { subject, settings, of, asked })
    }

    /// The inputs that are the rows of the matrix.
    pub fn rows(&self) -> &Samples {
        if self.asked { &self.subject.queries } else { &self.subject.train }
    }

    pub fn plan(&self) -> Result<Plan> {
        let (rows, train) =
            (self.subject.feed(self.rows())?, self.subject.feed(&self.subject.train)?);
        let (rows, train) = (rows.examples(), train.examples());
        let columns = self.asked.then_some(&train);
        Ok(Plan::new(self.subject.network.net(), &rows, columns, &self.settings)?)
    }

    /// Ids and labels of the rows of the matrix, and of its columns where they differ, each so many times.
    pub fn names(&self, copies: usize) -> Vec<Named> {
        let subject = &self.subject;
        let label = |labels: &[u32], i: usize| {
            labels.get(i / copies).map(|&label| subject.classes[label as usize].clone())
        };
        let rows = subject.rows.iter().flat_map(|&row| std::iter::repeat_n(row, copies));
        let ids = Ids::Int(rows.map(|row| Some(row as i64)).collect());
        let train = (0..ids.len()).map(|i| label(subject.labels(), i)).collect();
        let train = (ids, train);
        if !self.asked {
            return vec![train];
        }
        let asked = 0..subject.query_ids.len() as u32;
        let places: Vec<u32> = asked.flat_map(|i| std::iter::repeat_n(i, copies)).collect();
        let labels = (0..places.len()).map(|i| label(subject.query_labels(), i)).collect();
        vec![(subject.query_ids.take(&places), labels), train]
    }

    /// What identifies the network and its rows.
    pub fn identity(&self) -> Result<Value> {
        let Subject { network, classes, train, rows, queries, query_ids, .. } = &self.subject;
        let queries = self.asked.then(|| {
            json!({
                "n": query_ids.len(),
                "fingerprint": queries.fingerprint(classes),
            })
        });
        Ok(json!({
            "run": self.of.run,
            "weights": network.fingerprint()?,
            "data": {
                "path": self.of.data,
                "rows": rows.len(),
                "row_numbers": fingerprint::of_numbers(rows),
                "fingerprint": train.fingerprint(classes),
            },
            "queries": queries,
        }))
    }
}

impl TableSource {
    pub fn open(settings: &KernelRows, path: &Input, name: &str, job: &Job<'_>) -> Result<Self> {
        let read = |path: &Input| -> Result<VectorTable> {
            Ok(read_table(&path.source(), &ReadOptions::default())?)
        };
        let unknown = || Refusal::setting("kernel", format!("{OF_VECTORS} of vectors"), name);
        let shift = match name {
            "rbf" => Some(ShiftKernel::Gaussian),
            "mixture" => None,
            name => ShiftKernel::from_name(name),
        };
        let is_known = ["linear", "arc-cosine-0", "arc-cosine-1"].contains(&name);
        if shift.is_none() && !is_known {
            return Err(unknown().into());
        }
        let given = match settings.length_scale.as_str() {
            "median" => None,
            text => {
                Some(text.parse::<f64>().ok().filter(|l| l.is_finite() && *l > 0.0).ok_or_else(
                    || Refusal::setting("length-scale", "a number above 0, or `median`", text),
                )?)
            }
        };
        let mut rows = read(path)?;
        let queries = settings.queries.as_ref().map(read).transpose()?;
        if let Some(queries) = queries.as_ref().filter(|queries| queries.dim != rows.dim) {
            let what = format!(
                "{} has vectors of {} values and {path} of {}",
                settings.queries.as_ref().map_or(String::new(), ToString::to_string),
                queries.dim,
                rows.dim
            );
            return Err(Error::shape(what, "compare vectors of one space"));
        }
        let seed = Seed::new(settings.seed)?;
        if let Some(RowLimit::Most(most)) = settings.rows
            && rows.n_rows() > most
        {
            let order = veridical_core::Order::new(rows.n_rows() as u64, seed, "kernel/rows", 0);
            let mut kept: Vec<u32> = (0..most as u64).map(|t| order.at(t) as u32).collect();
            kept.sort_unstable();
            job.note(&format!("{most} of {} rows of {path}, drawn at random", rows.n_rows()));
            rows = VectorTable {
                ids: rows.ids.take(&kept),
                vectors: kept
                    .iter()
                    .flat_map(|&row| &rows.vectors[row as usize * rows.dim..][..rows.dim])
                    .copied()
                    .collect(),
                ..rows
            };
        }
        let mut length_scale = None;
        let kernel = match (name, shift) {
            (_, Some(kernel)) => {
                let scale = match given {
                    Some(scale) => scale,
                    None => {
                        let step = rows.n_rows().div_ceil(MEDIAN_ROWS);
                        let some: Vec<f32> = rows
                            .vectors
                            .chunks_exact(rows.dim)
                            .step_by(step)
                            .flatten()
                            .copied()
                            .collect();
                        from_median(Rows::new(&some, rows.dim)?, &kernel)?
                    }
                };
                length_scale = Some(scale);
                VectorKernel::Shift(kernel, scale)
            }
            ("linear", _) => VectorKernel::Linear,
            ("arc-cosine-0", _) => VectorKernel::ArcCosine0,
            _ => VectorKernel::ArcCosine1,
        };
        Ok(Self { kernel, length_scale, rows, queries, path: path.to_string() })
    }

    fn pairs(&self) -> Result<VectorPairs<'_>> {
        let (dim, of) = (self.rows.dim, &self.rows.vectors);
        Ok(match &self.queries {
            None => VectorPairs::new(&self.kernel, matrix(of, dim)?, None),
            Some(asked) => {
                VectorPairs::new(&self.kernel, matrix(&asked.vectors, dim)?, Some(matrix(of, dim)?))
            }
        })
    }
}

impl Source {
    pub fn open(
        settings: &KernelRows,
        store: Option<&Path>,
        kernel: &str,
        job: &Job<'_>,
    ) -> Result<Self> {
        settings.check_source()?;
        match &settings.vectors {
            Some(path) => {
                Ok(Self::Table(Box::new(TableSource::open(settings, path, kernel, job)?)))
            }
            None => {
                let kind = kernel.parse().map_err(|e| match OF_VECTORS.contains(kernel) {
                    true => Error::request(
                        format!("⟨kernel {kernel}⟩ is of vectors, not of a network"),
                        "pass ⟨vectors⟩ TABLE instead of ⟨run⟩",
                    ),
                    false => Error::from(e),
                })?;
                Ok(Self::Net(Box::new(NetSource::open(settings, store, kind, job)?)))
            }
        }
    }

    /// The numbers of rows and columns.
    pub fn size(&self) -> (usize, usize) {
        match self {
            Self::Net(net) => {
                let copies = match net.settings.kind {
                    Kind::Entk => net.subject.network.net().outputs(),
                    _ => 1,
                };
                (net.rows().n() * copies, net.subject.train.n() * copies)
            }
            Self::Table(table) => {
                let n = table.rows.n_rows();
                (table.queries.as_ref().map_or(n, VectorTable::n_rows), n)
            }
        }
    }

    /// Whether rows and columns are the same.
    pub fn is_symmetric(&self) -> bool {
        match self {
            Self::Net(net) => !net.asked,
            Self::Table(table) => table.queries.is_none(),
        }
    }

    /// Which rows, in words.
    pub fn says_rows(&self) -> String {
        match self {
            Self::Net(net) => {
                let of = net.subject.says_rows();
                match net.asked {
                    true => format!("{} queries and {of}", net.subject.query_ids.len()),
                    false => of,
                }
            }
            Self::Table(table) => {
                let n = table.rows.n_rows();
                match &table.queries {
                    Some(queries) => format!("{} queries and {n} rows", queries.n_rows()),
                    None => format!("{n} rows of {}", table.path),
                }
            }
        }
    }

    /// What a kernel is resumed by.
    pub fn identity(&self) -> Result<Value> {
        Ok(match self {
            Self::Net(net) => net.identity()?,
            Self::Table(table) => json!({
                "vectors": table.path,
                "length_scale": table.length_scale,
                "data": { "rows": table.rows.n_rows(), "fingerprint": fingerprint::of_table(&table.rows) },
                "queries": table.queries.as_ref().map(|queries| json!({
                    "n": queries.n_rows(), "fingerprint": fingerprint::of_table(queries),
                })),
            }),
        })
    }

    /// Computes the tiles that are needed; returns what is known of the kernel besides, and its normalization.
    pub fn kernel_into<S: Tiles<Error = Error>>(
        &self,
        tiles: &mut S,
        job: &Job<'_>,
    ) -> Result<Option<Summary>> {
        match self {
            Self::Net(net) => {
                let subject = &net.subject;
                let (rows, train) = (subject.feed(net.rows())?, subject.feed(&subject.train)?);
                let (rows, train) = (rows.examples(), train.examples());
                let network = subject.network.net();
                if let Some(path) = net.of.store.as_deref() {
                    let store = Store::open(path, subject)?;
                    let queries = net.asked.then_some(&rows);
                    let (plan, train) =
                        store.factors(subject, queries, None, &net.settings, job)?;
                    if !net.asked {
                        train.gram_into(None, tiles, job)?;
                        return Ok(Some(train.summary(None, plan)));
                    }
                    let own = Factors::take(network, &rows, &plan, job)?;
                    own.gram_into(Some(&train), tiles, job)?;
                    return Ok(Some(own.summary(Some(&train), plan)));
                }
                let columns = net.asked.then_some(&train);
                Ok(Some(kernel_into(network, &rows, columns, &net.settings, tiles, job)?))
            }
            Self::Table(table) => {
                gram_into(&table.pairs()?, tiles, job)?;
                Ok(None)
            }
        }
    }

    /// The numbers of samples of rows and of columns.
    pub fn samples(&self) -> (usize, usize) {
        match self {
            Self::Net(net) => (net.rows().n(), net.subject.train.n()),
            Self::Table(_) => self.size(),
        }
    }

    /// Computes some pairs anew, without a sketch.
    pub fn exact(&self, rows: &[usize], columns: &[usize], job: &Job<'_>) -> Result<Exact> {
        match self {
            Self::Net(net) => {
                let subject = &net.subject;
                let (own, train) = (subject.feed(net.rows())?, subject.feed(&subject.train)?);
                let (own, train) = (own.examples(), train.examples());
                let (own, train) = (own.select(rows), train.select(columns));
                let settings = KernelSettings { sketch: None, ..net.settings.clone() };
                let found = kernel(subject.network.net(), &own, Some(&train), &settings, job)?;
                let is_plain = net.settings.normalization == Normalization::None;
                let scale = |d: &f64| if is_plain && *d > 0.0 { 1.0 / d.sqrt() } else { 1.0 };
                let scales = found.summary.diagonals.map(|d| d.iter().map(scale).collect());
                Ok(Exact { values: found.gram.values, scales })
            }
            Self::Table(table) => {
                let dim = table.rows.dim;
                let part = |of: &VectorTable, rows: &[usize]| -> Vec<f32> {
                    rows.iter().flat_map(|&i| &of.vectors[i * dim..][..dim]).copied().collect()
                };
                let own = part(table.queries.as_ref().unwrap_or(&table.rows), rows);
                let others = part(&table.rows, columns);
                let scales = [&own, &others].map(|rows| {
                    let scale = |x: &[f32]| {
                        let d = table.kernel.value(x, x);
                        if d > 0.0 { 1.0 / d.sqrt() } else { 1.0 }
                    };
                    rows.chunks_exact(dim).map(scale).collect()
                });
                let others: Vec<&[f32]> = others.chunks_exact(dim).collect();
                let value = |x: &[f32], y: &[f32]| table.kernel.value(x, y) as f32;
                let values = own
                    .chunks_exact(dim)
                    .flat_map(|x| others.iter().map(move |y| value(x, y)))
                    .collect();
                Ok(Exact { values, scales })
            }
        }
    }

    /// The normalization; none of vectors.
    pub fn normalization(&self) -> Option<Normalization> {
        match self {
            Self::Net(net) => Some(net.settings.normalization),
            Self::Table(_) => None,
        }
    }

    /// Ids and labels of the rows of the matrix, and of its columns where they differ.
    pub fn names(&self) -> Vec<Named> {
        match self {
            Self::Net(net) => net.names(self.size().1 / net.subject.train.n()),
            Self::Table(table) => {
                let of = |t: &VectorTable| (t.ids.clone(), vec![None; t.n_rows()]);
                table.queries.iter().chain([&table.rows]).map(of).collect()
            }
        }
    }
}
