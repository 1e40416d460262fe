//! What changed between representations of the same things, and whether it matters.
