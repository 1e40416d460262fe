//! What every trainer guarantees, tested for every method in [`Method::ALL`], so a new method is tested too.

use serde_json::{Map, Value, json};
use veridical_core::stopping::Better;
use veridical_core::threads::with_threads;
use veridical_core::{Job, Progress};
use veridical_data::generate::{CorpusSettings, ShopSettings, corpus, shop};
use veridical_data::{
    Checkpoint, Checkpoints, Corpus, Ids, Interactions, NamedTensor, Split, TensorMap,
};
use veridical_embed::fit::{FitSettings, Measures, Nowhere, Validate, Validation, fit};
use veridical_embed::{Error, Graphs, Input, Method, Model, Purpose, Result, Trainer};

use super::common::{all_rows, seed};

const EPOCHS: u32 = 4;
/// Closed forms without random draws.
const WITHOUT_DRAWS: [Method; 3] = [Method::Pop, Method::ItemKnn, Method::Ease];

/// Data for every method.
struct World {
    data: Interactions,
    rows: Vec<u32>,
    corpus: Corpus,
    graphs: Graphs,
}

impl World {
    fn new() -> Self {
        let shape = ShopSettings {
            users: 60,
            items: 30,
            clusters: 3,
            per_user: 10,
            skew: 0.5,
            noise: 0.1,
            seed: seed(5),
        };
        let texts = CorpusSettings {
            docs: 30,
            topics: 3,
            words: 12,
            length: 20,
            noise: 0.2,
            seed: seed(5),
        };
        let data = shop(shape).unwrap().data;
        let rows = all_rows(&data);
        Self { data, rows, corpus: corpus(texts).unwrap().corpus, graphs: Graphs::default() }
    }

    fn input(&self, method: Method) -> Input<'_> {
        match method.purpose() {
            Purpose::Text => Input::Text(&self.corpus),
            Purpose::Rating | Purpose::Ranking => Input::of(&self.data, &self.rows),
        }
    }

    fn trainer(&self, method: Method, with_seed: u64) -> Result<Box<dyn Trainer + '_>> {
        method.trainer(&small(method), self.input(method), &self.graphs, seed(with_seed))
    }

    /// The state after the last epoch.
    fn learned(&self, method: Method, with_seed: u64) -> TensorMap {
        let mut trainer = self.trainer(method, with_seed).unwrap();
        run(&mut *trainer, 0).unwrap();
        trainer.model().tensors().unwrap()
    }
}

/// The method's own settings, made small where it has them, with SSE at every table.
fn small(method: Method) -> Map<String, Value> {
    let value = |name: &str| match name {
        "dim" => Some(json!(8)),
        "epochs" => Some(json!(EPOCHS)),
        "length" | "hidden" => Some(json!(6)),
        "batch" => Some(json!(16)),
        "neighbors" => Some(json!(5)),
        "settle" => Some(json!(0.0)),
        _ => None,
    };
    let fields = method.fields().into_iter().filter_map(|flag| {
        let is_sse = flag.name.starts_with("sse-") && flag.default.is_f64();
        Some((flag.name.clone(), if is_sse { json!(0.1) } else { value(&flag.name)? }))
    });
    fields.collect()
}

fn run(trainer: &mut dyn Trainer, from: u32) -> Result<()> {
    (from..trainer.epochs())
        .try_for_each(|epoch| trainer.epoch(epoch, &Progress::hidden()).map(|_| ()))
}

fn is_finite(tensors: &TensorMap) -> bool {
    tensors.values().flat_map(|(_, values)| values).all(|x| x.is_finite())
}

#[test]
fn a_seed_gives_the_same_bytes_and_another_seed_others() {
    let world = World::new();
    for method in Method::ALL {
        let first = world.learned(method, 1);
        assert!(is_finite(&first), "{}", method.name());
        assert!(first == world.learned(method, 1), "{}: not repeated", method.name());
        let is_same = first == world.learned(method, 2);
        assert_eq!(is_same, WITHOUT_DRAWS.contains(&method), "{}: other seed", method.name());
    }
}

#[test]
fn threads_change_no_byte() {
    let world = World::new();
    for method in Method::ALL {
        let with = |threads| with_threads(Some(threads), || world.learned(method, 1)).unwrap();
        assert!(with(1) == with(3), "{}", method.name());
    }
}

#[test]
fn the_model_after_an_epoch_is_all_that_the_next_one_depends_on() {
    let world = World::new();
    for method in Method::ALL {
        let whole = world.learned(method, 1);
        let epochs = world.trainer(method, 1).unwrap().epochs();
        for done in 1..epochs {
            let mut first = world.trainer(method, 1).unwrap();
            for epoch in 0..done {
                first.epoch(epoch, &Progress::hidden()).unwrap();
            }
            let kept = first.model().tensors().unwrap();
            let mut second = world.trainer(method, 1).unwrap();
            second.restore(Model::from_parts(kept).unwrap()).unwrap();
            run(&mut *second, done).unwrap();
            let resumed = second.model().tensors().unwrap();
            assert!(resumed == whole, "{} after {done}", method.name());
        }
    }
}

/// The same for the methods that have another optimizer: its moments are a part of the model.
#[test]
fn adam_resumes_with_its_moments() {
    let world = World::new();
    for more in [json!({}), json!({ "cbow": true, "dropout": 0.2, "subsample": 0.01 })] {
        let mut settings = small(Method::Item2vec);
        settings.insert("optimizer".into(), "adam".into());
        settings.extend(more.as_object().unwrap().clone());
        let input = world.input(Method::Item2vec);
        let trainer = |with_seed| {
            Method::Item2vec.trainer(&settings, input, &world.graphs, seed(with_seed)).unwrap()
        };
        let learned = |with_seed, stop: u32| {
            let mut first = trainer(with_seed);
            for epoch in 0..stop {
                first.epoch(epoch, &Progress::hidden()).unwrap();
            }
            let kept = first.model().tensors().unwrap();
            let mut second = trainer(with_seed);
            second.restore(Model::from_parts(kept).unwrap()).unwrap();
            run(&mut *second, stop).unwrap();
            second.model().tensors().unwrap()
        };
        let whole = learned(1, 0);
        assert!(is_finite(&whole) && whole.contains_key("state.item.exp_avg"));
        assert!(whole == with_threads(Some(3), || learned(1, 0)).unwrap(), "{more}: threads");
        assert!(whole == learned(1, 2), "{more}: resumed");
        assert!(whole != learned(2, 0), "{more}: another seed");
        let finished = Model::from_parts(whole).and_then(|model| {
            let mut last = trainer(1);
            last.restore(model)?;
            Ok(last.into_model())
        });
        assert_eq!(finished.unwrap().tensors().unwrap().len(), 1, "{more}: vectors alone");
    }
}

#[test]
fn a_model_comes_back_from_its_tensors_with_its_scores() {
    let world = World::new();
    let history = world.data.sequences(&world.rows);
    let users: Vec<u32> = (0..world.data.users.len() as u32).collect();
    let scores = |model: &Model| {
        let scorer = model.scorer().ok()?;
        let mut out = vec![0.0; users.len() * scorer.n_items()];
        scorer.score(&users, &history, &mut out);
        Some(out)
    };
    for method in Method::ALL {
        let mut trainer = world.trainer(method, 1).unwrap();
        run(&mut *trainer, 0).unwrap();
        let model = trainer.into_model();
        let back = Model::from_parts(model.tensors().unwrap()).unwrap();
        assert!(back == model, "{}", method.name());
        assert!(scores(&back) == scores(&model), "{}", method.name());
        let is_text = method.purpose() == Purpose::Text;
        assert_eq!(scores(&model).is_none(), is_text, "{}", method.name());
    }
}

#[test]
fn other_shapes_and_other_methods_are_refused() {
    let world = World::new();
    for method in Method::ALL {
        let tensors = world.trainer(method, 1).unwrap().model().tensors().unwrap();
        let mut trainer = world.trainer(method, 1).unwrap();
        for name in tensors.keys() {
            let mut other = tensors.clone();
            let (shape, values) = other.get_mut(name).unwrap();
            shape[0] += 1;
            let row = values.len() / (shape[0] - 1).max(1);
            values.extend(vec![0.0; row]);
            let restored = Model::from_parts(other).and_then(|model| trainer.restore(model));
            assert!(restored.is_err(), "{}: one more row of {name}", method.name());
            let mut fewer = tensors.clone();
            fewer.remove(name);
            let restored = Model::from_parts(fewer).and_then(|model| trainer.restore(model));
            assert!(restored.is_err(), "{} without {name}", method.name());
        }
        let foreign = if method == Method::Pop { Method::Bpr } else { Method::Pop };
        let foreign = world.trainer(foreign, 1).unwrap().model().clone();
        assert!(trainer.restore(foreign).is_err(), "{}: another method", method.name());
        assert!(trainer.model().tensors().unwrap() == tensors, "{}: touched", method.name());
    }
}

#[test]
fn no_data_is_refused() {
    let world = World::new();
    let none: Vec<&str> = Vec::new();
    let empty = Corpus::of_texts(Ids::Int(Vec::<i64>::new().into()), none.into_iter(), true, 1);
    for method in Method::ALL {
        for input in [Input::of(&world.data, &[]), Input::Text(&empty)] {
            let refused = method.trainer(&small(method), input, &world.graphs, seed(1)).is_err();
            assert!(refused, "{}", method.name());
        }
    }
}

#[test]
fn ratings_that_are_not_finite_do_not_become_a_model() {
    let mut world = World::new();
    world.data.rating.as_mut().unwrap()[7] = f32::NAN;
    for method in Method::ALL {
        let learned = world.trainer(method, 1).and_then(|mut trainer| {
            run(&mut *trainer, 0)?;
            trainer.model().tensors()
        });
        assert!(learned.is_err() || is_finite(&learned.unwrap()), "{}", method.name());
    }
}

/// Stores the checkpoints and fails after a given number.
#[derive(Default)]
struct Memory {
    saved: std::sync::Mutex<Vec<(Checkpoint, Option<TensorMap>)>>,
    lines: std::sync::Mutex<Vec<Value>>,
}

fn owned(tensors: &[NamedTensor<'_>]) -> TensorMap {
    let one = |t: &NamedTensor<'_>| (t.name.to_owned(), (t.shape.to_vec(), t.values.to_vec()));
    tensors.iter().map(one).collect()
}

impl Checkpoints for Memory {
    type Error = Error;

    fn add_metrics(&self, line: &Value) -> Result<u64> {
        let mut lines = self.lines.lock().unwrap();
        lines.push(line.clone());
        Ok(lines.len() as u64)
    }

    fn save(
        &self,
        at: &Checkpoint,
        state: &[NamedTensor<'_>],
        best: Option<&[NamedTensor<'_>]>,
    ) -> Result<()> {
        let best = best.map(owned);
        let kept = Checkpoint { state: owned(state), best: best.clone(), ..at.clone() };
        self.saved.lock().unwrap().push((kept, best));
        Ok(())
    }
}

/// A validation with given values by epoch, whatever the model.
struct Scripted(Vec<f64>, std::cell::Cell<usize>);

impl Validate for Scripted {
    fn measures(&self, _model: &Model, _job: &Job<'_>) -> Result<Measures> {
        let at = self.1.replace(self.1.get() + 1);
        Ok(Measures::from([("value".to_owned(), self.0[at])]))
    }

    fn decisive(&self) -> &str {
        "value"
    }

    fn better(&self) -> Better {
        Better::Higher
    }
}

/// Interrupted after any epoch and resumed, every method ends as if it had not been interrupted.
#[test]
fn a_fit_that_was_interrupted_ends_as_one_that_was_not() {
    let world = World::new();
    for method in Method::ALL {
        let mut whole = world.trainer(method, 1).unwrap();
        let uninterrupted = Memory::default();
        let settings = FitSettings::default();
        let each = |_, _: Option<f64>, _: &dyn Trainer| Ok::<(), Error>(());
        let job = Job::silent();
        let fitted =
            fit(&mut *whole, settings, None, Some(&uninterrupted), None, &job, each).unwrap();

        let stopped = Memory::default();
        let mut first = world.trainer(method, 1).unwrap();
        let cancel = job.cancel.clone();
        let stop = |_, _: Option<f64>, _: &dyn Trainer| {
            cancel.cancel();
            Ok::<(), Error>(())
        };
        let error = fit(&mut *first, settings, None, Some(&stopped), None, &job, stop).unwrap_err();
        assert!(error.is_interrupted(), "{}", method.name());
        job.cancel.reset();
        let (from, _) = stopped.saved.lock().unwrap().pop().unwrap();
        assert_eq!((from.done, from.metrics_bytes), (1, 1), "{}", method.name());
        let mut second = world.trainer(method, 1).unwrap();
        let again = fit(&mut *second, settings, None, Some(&stopped), Some(from), &job, each);
        assert_eq!(again.unwrap(), fitted, "{}", method.name());
        assert_eq!(*stopped.lines.lock().unwrap(), *uninterrupted.lines.lock().unwrap());
        let (one, other) = (second.model().tensors().unwrap(), whole.model().tensors().unwrap());
        assert!(one == other, "{}", method.name());
    }
}

#[test]
fn patience_ends_a_fit_and_leaves_the_best_model() {
    let world = World::new();
    let mut trainer = world.trainer(Method::Bpr, 1).unwrap();
    let validation = Scripted(vec![0.1, 0.3, 0.2, 0.3], Default::default());
    let settings = FitSettings { eval_every: 1, patience: Some(1) };
    let mut models = Vec::new();
    let each = |_, _: Option<f64>, trainer: &dyn Trainer| {
        models.push(trainer.model().tensors()?);
        Ok::<(), Error>(())
    };
    let keep = None::<&Nowhere>;
    let fitted =
        fit(&mut *trainer, settings, Some(&validation), keep, None, &Job::silent(), each).unwrap();
    assert_eq!((fitted.epochs, fitted.best.unwrap().epoch), (3, 2));
    assert!(trainer.model().tensors().unwrap() == models[1]);
}

#[test]
fn with_validation_every_method_leaves_its_best_epoch() {
    let world = World::new();
    for method in Method::ALL {
        let mut trainer = world.trainer(method, 1).unwrap();
        let validation = Scripted(vec![0.1, 0.3, 0.2, 0.1], Default::default());
        let mut models = Vec::new();
        let each = |_, _: Option<f64>, trainer: &dyn Trainer| {
            models.push(trainer.model().tensors()?);
            Ok::<(), Error>(())
        };
        let (settings, keep) = (FitSettings::default(), None::<&Nowhere>);
        let fitted =
            fit(&mut *trainer, settings, Some(&validation), keep, None, &Job::silent(), each)
                .unwrap();
        let best = fitted.best.unwrap().epoch;
        assert_eq!(best, fitted.epochs.min(2), "{}", method.name());
        assert_eq!(fitted.validation.unwrap()[validation.decisive()], fitted.best.unwrap().value);
        let kept = trainer.model().tensors().unwrap();
        assert!(kept == models[best as usize - 1], "{}", method.name());
        let last = models.last().unwrap();
        assert!(fitted.epochs == best || kept != *last, "{}: nothing moved", method.name());
    }
}

#[test]
fn every_method_with_held_out_rows_is_validated() {
    let world = World::new();
    let (validation, train): (Vec<u32>, Vec<u32>) = world.rows.iter().partition(|&&r| r % 9 == 0);
    let split = Split { train, validation, test: Vec::new() };
    for method in Method::ALL.into_iter().filter(|method| method.purpose() != Purpose::Text) {
        let input = Input::of(&world.data, &split.train);
        let mut trainer = method.trainer(&small(method), input, &world.graphs, seed(1)).unwrap();
        let validation = Validation::new(&world.data, &split, method.purpose()).unwrap();
        let each = |_, _: Option<f64>, _: &dyn Trainer| Ok::<(), Error>(());
        let (settings, keep) = (FitSettings::default(), None::<&Nowhere>);
        let fitted =
            fit(&mut *trainer, settings, Some(&validation), keep, None, &Job::silent(), each)
                .unwrap();
        let value = fitted.best.unwrap().value;
        assert!(value.is_finite() && value > 0.0, "{}: {value}", method.name());
        assert_eq!(fitted.measure.as_deref(), Some(validation.decisive()));
    }
}
