//! Machines that learn from a Gram matrix.
