//! Training steps on packed sequences.
//!
//! SASRec: items of a table, 2 blocks of width 64, binary cross entropy with one negative per position, Adam on everything.
//! GRU and LSTM: one layer from width 32 to 32, length 50, on given rows, loss <c, y>, Adam.
//! The embedding: a table of a million rows of width 64, loss <c, y> on the rows of a batch of ids, Adam on these rows alone.
//! The encoder: 6 blocks of width 384 with 12 heads and gelu on given rows, loss <c, y>, Adam.

use serde_json::{Value, json};
use veridical_core::{Seed, Stream};
use veridical_nets::layers::{Direction, Gru, Lstm};
use veridical_nets::models::{Bert, Sasrec};
use veridical_nets::ranking::{Pairwise, Positions};
use veridical_nets::{
    Addend, Builder, EmbeddingTable, Mode, Net, Optimizer, OptimizerKind, OptimizerSettings, Plan,
    Shape, Workspace,
};

use super::{BATCHES, Outcome, rate};

/// Number of items of MovieLens-1M.
const ITEMS: usize = 3416;
const LR: f64 = 1e-3;

/// A network with its optimizer.
struct Training {
    net: Net<f32>,
    plan: Plan,
    work: Workspace<f32>,
    optimizer: Optimizer<f32>,
    starts: Vec<usize>,
}

impl Training {
    fn new(net: Net<f32>, plan: Plan, batch: usize, length: usize) -> Self {
        let work = Workspace::new(&net, batch * length, Some(&plan));
        let optimizer = Optimizer::new(&adam(), net.params.len());
        let starts = (0..=batch).map(|i| i * length).collect();
        Self { net, plan, work, optimizer, starts }
    }

    fn forward(&mut self, step: usize, fill: impl FnOnce(&mut [f32])) {
        self.net.forward_sequences(&mut self.work, &self.starts, Mode::Training, step as u32, fill);
    }

    fn backward(&mut self) {
        self.net.backward(&mut self.work, &self.plan);
        let ranges = self.plan.ranges(&self.net);
        self.optimizer.step(LR, &mut self.net.params, &self.work.grads, &ranges);
    }
}

fn adam() -> OptimizerSettings {
    OptimizerSettings::of(OptimizerKind::Adam)
}

/// Normal numbers times `scale`.
fn normals(name: &str, count: usize, scale: f64) -> Outcome<Vec<f32>> {
    let mut drawn = vec![0.0; count];
    Stream::new(Seed::new(0)?, name).at(0, 0).fill_normals(&mut drawn);
    Ok(drawn.into_iter().map(|z| (z * scale) as f32).collect())
}

pub fn train(case: &str, batch: usize, seconds: f64) -> Outcome<Option<Value>> {
    let (case, dropped) = match case.strip_suffix("-dropout") {
        Some(case) => (case, true),
        None => (case, false),
    };
    match case {
        "sasrec" => sasrec(batch, if dropped { 0.2 } else { 0.0 }, seconds).map(Some),
        "gru" | "lstm" => recurrent(case, batch, seconds).map(Some),
        "embedding" => embedding(batch, seconds).map(Some),
        "encoder" => encoder(batch, if dropped { 0.1 } else { 0.0 }, seconds).map(Some),
        _ => Ok(None),
    }
}

/// Measures sequences per second of SASRec.
fn sasrec(batch: usize, dropout: f64, seconds: f64) -> Outcome<Value> {
    let (width, length) = (64, 200);
    let body = Sasrec { width, heads: 1, blocks: 2, length, dropout };
    let net = body.build(Seed::new(0)?)?;
    let plan = Plan::new(&net, |_| true).with_input(&net);
    let mut training = Training::new(net, plan, batch, length);
    let values = normals("items", ITEMS * width, 0.02)?;
    let mut table = EmbeddingTable::new(width, values, &adam())?;
    let rows = batch * length;
    let place = Stream::new(Seed::new(0)?, "ids").at(0, 0);
    let id = |k: usize| (place.integer(k as u32) % ITEMS as u64) as u32;
    let ids: Vec<[Vec<u32>; 3]> = (0..BATCHES)
        .map(|b| [0, 1, 2].map(|part| (0..rows).map(|k| id((3 * b + part) * rows + k)).collect()))
        .collect();
    let mut addends: Vec<Addend<f32>> = Vec::new();
    let mut last = f64::NAN;
    let mut step = |i: usize| {
        let [items, targets, negatives] = &ids[i % BATCHES];
        training.forward(i, |slot| table.gather(items, slot));
        let Training { net, work, .. } = &mut training;
        let (hidden, dhidden) = work.output_gradient(net);
        let positions = Positions { dim: width, hidden, table: table.values(), targets };
        let bce = Pairwise::Binary { beta: 1.0 };
        last = bce.evaluate(positions, negatives, dhidden, &mut addends, 1);
        training.backward();
        let Training { net, work, .. } = &training;
        addends.extend(items.iter().zip(0..).map(|(&row, from)| Addend {
            row,
            source: 0,
            from,
            weight: 1.0,
        }));
        table.step(LR, &addends, &[work.input_gradient(net), work.outputs(net)]);
        Ok(())
    };
    rate(seconds / 4.0, &mut step)?;
    let rate = rate(seconds, &mut step)? * batch as f64;
    Ok(json!({"rate": rate, "loss": last}))
}

/// Measures sequences per second of an encoder.
fn encoder(batch: usize, dropout: f64, seconds: f64) -> Outcome<Value> {
    let length = 128;
    let config = Bert {
        vocabulary: 0,
        width: 384,
        layers: 6,
        heads: 12,
        intermediate: 1536,
        positions: length,
        types: 0,
        eps: 1e-12,
        activation: veridical_nets::layers::Kind::Gelu,
        dropout,
    };
    given(config.build(Seed::new(0)?)?, batch, length, seconds)
}

/// Measures sequences per second of a GRU or LSTM.
fn recurrent(case: &str, batch: usize, seconds: f64) -> Outcome<Value> {
    let (width, length) = (32, 50);
    let mut b = Builder::new(Shape::row(width), Seed::new(0)?);
    match case {
        "gru" => b.push("rnn", Gru::new(width, width, Direction::Forward))?,
        _ => b.push("rnn", Lstm::new(width, width, Direction::Forward))?,
    };
    given(b.finish()?, batch, length, seconds)
}

/// Measures sequences per second of a network on given rows, as wide as its outputs, with the loss <c, y>.
fn given(net: Net<f32>, batch: usize, length: usize, seconds: f64) -> Outcome<Value> {
    let count = batch * length * net.outputs();
    let plan = Plan::new(&net, |_| true);
    let mut training = Training::new(net, plan, batch, length);
    let (x, c) = (normals("rows", count, 1.0)?, normals("loss", count, 1e-4)?);
    let mut last = f64::NAN;
    let mut step = |i: usize| {
        training.forward(i, |slot| slot.copy_from_slice(&x));
        let Training { net, work, .. } = &mut training;
        let (outputs, gradient) = work.output_gradient(net);
        last = outputs.iter().zip(&c).map(|(y, c)| f64::from(y * c)).sum();
        gradient.copy_from_slice(&c);
        training.backward();
        Ok(())
    };
    rate(seconds / 4.0, &mut step)?;
    let rate = rate(seconds, &mut step)? * batch as f64;
    Ok(json!({"rate": rate, "loss": last}))
}

/// Measures ids per second of a table of a million rows: gathered, with the loss <c, y>, and updated by Adam.
fn embedding(batch: usize, seconds: f64) -> Outcome<Value> {
    let (rows, width) = (1_000_000, 64);
    let mut table = EmbeddingTable::new(width, vec![0.01; rows * width], &adam())?;
    let place = Stream::new(Seed::new(0)?, "ids").at(0, 0);
    let id = |k: usize| (place.integer(k as u32) % rows as u64) as u32;
    let ids: Vec<Vec<u32>> =
        (0..BATCHES).map(|b| (0..batch).map(|k| id(b * batch + k)).collect()).collect();
    let c = normals("loss", batch * width, 1e-4)?;
    let mut gathered = vec![0.0; batch * width];
    let mut addends: Vec<Addend<f32>> = Vec::new();
    let mut last = f64::NAN;
    let mut step = |i: usize| {
        let ids = &ids[i % BATCHES];
        table.gather(ids, &mut gathered);
        last = gathered.iter().zip(&c).map(|(y, c)| f64::from(y * c)).sum();
        addends.clear();
        let addend = |(&row, from)| Addend { row, source: 0, from, weight: 1.0 };
        addends.extend(ids.iter().zip(0..).map(addend));
        table.step(LR, &addends, &[&c]);
        Ok(())
    };
    rate(seconds / 4.0, &mut step)?;
    let rate = rate(seconds, &mut step)? * batch as f64;
    Ok(json!({"rate": rate, "loss": last}))
}
