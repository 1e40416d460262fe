//! Sketches of gradients, where exact factors are too large.
