//! Methods that compute their model in one step.

use veridical_core::Progress;

use crate::{Model, Result, Trainer};

/// A trainer with one epoch: `solve` returns the model, with the shapes of the initial one.
pub(super) struct ClosedForm<F> {
    pub samples: u64,
    pub model: Model,
    pub solve: F,
}

impl<F: FnMut(&Progress) -> Result<Model> + Send> Trainer for ClosedForm<F> {
    fn samples(&self) -> u64 {
        self.samples
    }

    fn epochs(&self) -> u32 {
        1
    }

    fn epoch(&mut self, _epoch: u32, progress: &Progress) -> Result<Option<f64>> {
        self.model = (self.solve)(progress)?;
        Ok(None)
    }

    fn model(&self) -> &Model {
        &self.model
    }

    fn restore(&mut self, model: Model) -> Result<()> {
        self.model.check_replacement(&model)?;
        self.model = model;
        Ok(())
    }

    fn into_model(self: Box<Self>) -> Model {
        self.model
    }
}
