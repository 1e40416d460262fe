use std::cell::RefCell;

use serde_json::Value;
use veridical_core::Cancel;
use veridical_data::examples::Examples;
use veridical_data::generate;

use super::*;
use crate::{Curve, Feed, Loss, NetConfig, OptimizerKind, OptimizerSettings, Schedule, Trainer};

/// Keeps the last state in memory and stops the job after a number of them.
#[derive(Default)]
struct Memory {
    lines: RefCell<Vec<Value>>,
    last: RefCell<Option<Checkpoint>>,
    stop_after: Option<(u32, Cancel)>,
}

impl Checkpoints for Memory {
    type Error = Error;

    fn add_metrics(&self, line: &Value) -> Result<u64> {
        self.lines.borrow_mut().push(line.clone());
        Ok(self.lines.borrow().len() as u64)
    }

    fn save(
        &self,
        at: &Checkpoint,
        state: &[NamedTensor<'_>],
        best: Option<&[NamedTensor<'_>]>,
    ) -> Result<()> {
        let map = |tensors: &[NamedTensor<'_>]| -> TensorMap {
            let tensor = |t: &NamedTensor<'_>| (t.name.into(), (t.shape.into(), t.values.into()));
            tensors.iter().map(tensor).collect()
        };
        let kept = Checkpoint { state: map(state), best: best.map(map), ..at.clone() };
        *self.last.borrow_mut() = Some(kept);
        if let Some((step, cancel)) = &self.stop_after
            && at.done == *step
        {
            cancel.cancel();
        }
        Ok(())
    }
}

fn parts() -> (Examples, Examples) {
    let all = generate::images(90, 6, 1, 3, Seed::new(0).unwrap());
    let rows: Vec<usize> = (0..90).collect();
    (all.subset(&rows[..60]), all.subset(&rows[60..]))
}

fn learner<'a>(train: &'a Examples, held_out: &'a Examples, lr: f64) -> ExampleLearner<'a> {
    let seed = Seed::new(1).unwrap();
    let settings = TrainerSettings {
        loss: Loss::CrossEntropy { smoothing: 0.0 },
        optimizer: OptimizerSettings::of(OptimizerKind::Adam),
        lr,
        schedule: Schedule { curve: Curve::Constant, warmup: 0, total: 0 },
        clip: None,
        batch: 16,
    };
    let feed = |examples| Feed::of(examples, &[0.5], &[0.25], seed);
    let model = NetConfig::new("mlp:8".parse().unwrap(), train.shape.into(), 3);
    let trainer = Trainer::new(model.build(seed).unwrap(), settings, |_| true).unwrap();
    ExampleLearner::new(trainer, (feed(train), train), Some((feed(held_out), held_out)), 3)
}

fn course() -> Course {
    let seed = Seed::new(2).unwrap();
    Course { has_classes: true, checkpoint_every: Some(3), ..Course::new(60, 4, seed) }
}

/// 60 examples in batches of 16 are four steps per epoch, so step 6 is in the middle of the second.
#[test]
fn training_resumes_inside_an_epoch_to_the_same_bytes() {
    let (train, held_out) = parts();
    let whole = Memory::default();
    let mut straight = learner(&train, &held_out, 1e-2);
    let expected = fit(&course(), &mut straight, Some(&whole), None, &Job::silent()).unwrap();

    let job = Job::silent();
    let halves = Memory { stop_after: Some((6, job.cancel.clone())), ..Memory::default() };
    let mut first = learner(&train, &held_out, 1e-2);
    let error = fit(&course(), &mut first, Some(&halves), None, &job).unwrap_err();
    assert!(error.is_interrupted());
    job.cancel.reset();
    let from = halves.last.borrow_mut().take();
    // The job is stopped while step 6 is saved and notices after step 7, which is saved too.
    assert_eq!(from.as_ref().map(|at| at.done), Some(7));
    let mut second = learner(&train, &held_out, 1e-2);
    let halves = Memory { stop_after: None, ..halves };
    let learned = fit(&course(), &mut second, Some(&halves), from, &job).unwrap();
    assert_eq!(learned, expected);
    assert_eq!(halves.lines, whole.lines);
    assert_eq!(*halves.last.borrow(), *whole.last.borrow());
    assert_eq!(second.into_net().params, straight.into_net().params);
}

#[test]
fn the_best_epoch_by_accuracy_is_kept() {
    let (train, held_out) = parts();
    let course = Course {
        epochs: 40,
        watched: Watched::Accuracy,
        patience: Some(3),
        keeps_best: true,
        ..course()
    };
    let memory = Memory::default();
    let mut learner = learner(&train, &held_out, 3e-2);
    let learned = fit(&course, &mut learner, Some(&memory), None, &Job::silent()).unwrap();
    let accuracies: Vec<f64> = memory
        .lines
        .borrow()
        .iter()
        .map(|line| line["validation"]["accuracy"].as_f64().unwrap())
        .collect();
    let most = accuracies.iter().copied().fold(0.0, f64::max);
    let first = accuracies.iter().position(|&a| a == most).unwrap() as u32 + 1;
    assert_eq!(learned.best, Some(Best { epoch: first, value: most }));
    assert_eq!((learned.stopped_early, learned.epochs), (true, first + 3));
    assert_eq!(learner.evaluate(&Job::silent()).unwrap().unwrap().accuracy, Some(most));
}

#[test]
fn the_error_for_diverged_training_suggests_a_fix() {
    let (train, held_out) = parts();
    let mut learner = learner(&train, &held_out, 1e30);
    let error = fit::<Error>(&course(), &mut learner, None, None, &Job::silent()).unwrap_err();
    assert!(matches!(error, Error::TrainingDiverged { .. }), "{error}");
    let text = error.to_string();
    assert!(text.starts_with("training diverged in epoch 1: "), "{text}");
    let hint = "; ⟨lr⟩ 1000000000000000000000000000000 is too large for this model, try ⟨lr⟩ \
        300000000000000000000000000000 or ⟨clip⟩ 1";
    assert!(text.ends_with(hint), "{text}");
}
