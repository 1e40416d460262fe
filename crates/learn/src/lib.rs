//! The small estimators everybody needs, on matrices of f32 in row-major order.
