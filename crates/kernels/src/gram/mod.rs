//! Inner products and kernels of all pairs, by tiles of a fixed size and order.
