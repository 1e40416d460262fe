//! One file per method: its objective with its source, its settings, its trainer.
