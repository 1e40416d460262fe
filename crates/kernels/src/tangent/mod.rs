//! Tangent kernels of a network from the taps of its layers.
