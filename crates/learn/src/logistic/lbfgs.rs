//! L-BFGS: minimizing a smooth function with limited memory (Liu & Nocedal 1989; Nocedal & Wright, algorithms 7.4 and 7.5).
//!
//! direction   p = -H g with H from the last [`MEMORY`] pairs s = x' - x, y = g' - g around H_0 = c P, P the
//!             preconditioner of the function and c = s'y / y'Py
//! step        the first t with f(x + t p) <= f + 1e-4 t g'p and g(x + t p)'p >= 0.9 g'p, by doubling and bisection
//!             from t = 1 (Lewis & Overton 2013, algorithm 2.6)
//! stopping    largest |g_i| <= tolerance, or no step that changes the function by more than rounding

/// Number of (s, y) pairs in memory.
const MEMORY: usize = 10;
/// Maximum number of trial steps in one line search.
const TRIALS: usize = 40;

/// A smooth function with its gradient and a preconditioner.
pub(super) trait Smooth {
    /// Returns f(x) and writes its gradient to `gradient`.
    fn evaluate(&self, x: &[f64], gradient: &mut [f64]) -> f64;

    /// Replaces g by P g, where P is positive definite and approximates the inverse Hessian.
    fn precondition(&self, g: &mut [f64]);
}

/// Outcome of a minimization.
pub(super) struct Ended {
    pub value: f64,
    pub iterations: usize,
    pub converged: bool,
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

fn add(x: &mut [f64], factor: f64, y: &[f64]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += factor * y);
}

/// One pair s, y with 1 / s'y and s'y / y'Py.
struct Pair {
    s: Vec<f64>,
    y: Vec<f64>,
    inverse: f64,
    scale: f64,
}

/// The search direction -H g, by the two-loop recursion.
fn direction(f: &impl Smooth, pairs: &[Pair], g: &[f64]) -> Vec<f64> {
    let mut p: Vec<f64> = g.iter().map(|g| -g).collect();
    let mut shares = Vec::with_capacity(pairs.len());
    for pair in pairs.iter().rev() {
        let share = pair.inverse * dot(&pair.s, &p);
        add(&mut p, -share, &pair.y);
        shares.push(share);
    }
    f.precondition(&mut p);
    if let Some(last) = pairs.last() {
        p.iter_mut().for_each(|p| *p *= last.scale);
    }
    for (pair, share) in pairs.iter().zip(shares.iter().rev()) {
        let back = pair.inverse * dot(&pair.y, &p);
        add(&mut p, share - back, &pair.s);
    }
    p
}

/// Minimizes f starting from `x`, which is overwritten with the minimizer.
pub(super) fn minimize(
    f: &impl Smooth,
    x: &mut Vec<f64>,
    tolerance: f64,
    max_iterations: usize,
) -> Ended {
    let n = x.len();
    let (mut g, mut g_new, mut x_new) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
    let mut value = f.evaluate(x, &mut g);
    let mut pairs: Vec<Pair> = Vec::new();
    let small = |g: &[f64]| g.iter().all(|g| g.abs() <= tolerance);
    let mut iterations = 0;
    while !small(&g) && iterations < max_iterations {
        let mut p = direction(f, &pairs, &g);
        let mut slope = dot(&g, &p);
        if slope >= 0.0 {
            pairs.clear();
            p = direction(f, &pairs, &g);
            slope = dot(&g, &p);
        }
        let (mut low, mut high, mut t) = (0.0, f64::INFINITY, 1.0);
        let mut step = |t: f64| {
            x_new.copy_from_slice(x);
            add(&mut x_new, t, &p);
            let new = f.evaluate(&x_new, &mut g_new);
            // Near the minimum, function values differ by less than rounding, so the slope alone decides.
            let room = 4.0 * f64::EPSILON * value.abs();
            let lower = new <= value + 1e-4 * t * slope + room;
            (lower, dot(&g_new, &p) >= 0.9 * slope, new)
        };
        let accepted = (0..TRIALS).find_map(|_| {
            let (lower, flatter, new) = step(t);
            match (lower, flatter) {
                (true, true) => return Some(new),
                (false, _) => high = t,
                (true, false) => low = t,
            }
            t = if high < f64::INFINITY { 0.5 * (low + high) } else { 2.0 * low };
            None
        });
        let Some(new) = accepted else { break };
        iterations += 1;
        let s: Vec<f64> = x_new.iter().zip(&*x).map(|(new, old)| new - old).collect();
        let y: Vec<f64> = g_new.iter().zip(&g).map(|(new, old)| new - old).collect();
        let curvature = dot(&s, &y);
        if curvature > 0.0 {
            let mut preconditioned = y.clone();
            f.precondition(&mut preconditioned);
            let scale = curvature / dot(&y, &preconditioned);
            if pairs.len() == MEMORY {
                pairs.remove(0);
            }
            pairs.push(Pair { s, y, inverse: 1.0 / curvature, scale });
        }
        value = new;
        std::mem::swap(x, &mut x_new);
        std::mem::swap(&mut g, &mut g_new);
    }
    Ended { value, iterations, converged: small(&g) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rosenbrock's function in pairs of coordinates; the minimum is 0 at (1, .., 1).
    struct Valley;

    impl Smooth for Valley {
        fn evaluate(&self, x: &[f64], gradient: &mut [f64]) -> f64 {
            let mut value = 0.0;
            for (x, g) in x.chunks_exact(2).zip(gradient.chunks_exact_mut(2)) {
                let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
                value += a * a + 100.0 * b * b;
                g[0] = -2.0 * a - 400.0 * b * x[0];
                g[1] = 200.0 * b;
            }
            value
        }

        fn precondition(&self, _: &mut [f64]) {}
    }

    /// The second derivatives at the minimum are above 0.39, so |x - 1| < 1e-8 / 0.39 in each pair.
    #[test]
    fn the_bottom_of_the_valley_is_found() {
        let mut x = [-1.2, 1.0, 0.3, -4.0].repeat(5);
        let ended = minimize(&Valley, &mut x, 1e-8, 1000);
        assert!(ended.converged && ended.iterations < 200, "{}", ended.iterations);
        assert!(ended.value < 1e-14);
        assert!(x.iter().all(|x| (x - 1.0).abs() < 1e-7), "{x:?}");
    }

    #[test]
    fn a_limit_of_iterations_is_kept() {
        let mut x = vec![-1.2, 1.0];
        let ended = minimize(&Valley, &mut x, 1e-8, 3);
        assert!(!ended.converged && ended.iterations == 3);
    }
}
