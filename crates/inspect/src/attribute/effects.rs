//! Effects of training rows on v·f(x) for every query x with its direction v, rows of one value per training row.
//!
//! | effect | value for row i | says |
//! |---|---|---|
//! | mass | v·alpha_i k(x, x_i) + v·b / n (paper 004, equation 3) | how v·f(x) adds up: the sum is v·f(x) |
//! | removal | v·(f(x) - f_-i(x)) of kernel ridge, exact | what leaving row i out changes |
//! | influence | d v·f(x) / d w_i of the kernel GLM, exact | the same to first order: removal is about its negative at w_i = 1 |
//! | trak | `[k_m(x, X) (K_m + lambda I)^-1]_i` (1 - p_i), margin cotangents | TRAK without projection (Park et al. 2023) |
//! | fisher | `[k_l(x, X) (K_l + lambda I)^-1]_i`, loss cotangents | influence with the empirical Fisher matrix (Koh & Liang 2017) |
//! | similarity | k(x, x_i) | look-alikes |
//!
//! The last three are in the form of training rows: for gradients G (n x P), g'(G'G + lambda I)^-1 g_i = `[g'G' (GG' + lambda I)^-1]_i`
//! needs products of gradients alone, however large P is.
//!
//! The influence of a row with weight w_i is positive when more of the row raises v·f(x); all effects here have this sign, so a
//! positive row supports. Removal is [`Ridge::removal`](veridical_kernels::machine::Ridge::removal), influence
//! [`Glm::influence`](veridical_kernels::machine::Glm::influence).

use serde::Serialize;
use veridical_core::{Error, Result, Rows};
use veridical_kernels::machine::product;
use veridical_learn::invert_spd;

use crate::surrogate::log_odds;

/// What an attribution means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// The terms of the surrogate's logit.
    Mass,
    /// Leaving the row out of kernel ridge.
    Removal,
    /// The derivative of the kernel GLM by the row's weight.
    Influence,
    /// TRAK from the exact kernel of margins.
    Trak,
    /// Influence with the empirical Fisher matrix.
    Fisher,
    /// The kernel value.
    Similarity,
}

impl Effect {
    /// All effects.
    pub const ALL: [Self; 6] =
        [Self::Mass, Self::Removal, Self::Influence, Self::Trak, Self::Fisher, Self::Similarity];

    /// Returns the name, as in settings and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mass => "mass",
            Self::Removal => "removal",
            Self::Influence => "influence",
            Self::Trak => "trak",
            Self::Fisher => "fisher",
            Self::Similarity => "similarity",
        }
    }

    /// Returns the effect called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|effect| effect.name() == name)
    }
}

/// Returns the direction of the margin of a class at every query: e_y - softmax over the other classes, the gradient of
/// s_y - ln sum_(c != y) exp s_c by the logits.
///
/// # Panics
/// If there is not one class per query.
pub fn margins(logits: Rows<'_, f64>, classes: &[u32]) -> Vec<f64> {
    assert_eq!(logits.n(), classes.len(), "one class per query");
    let mut v = Vec::with_capacity(logits.values().len());
    for (s, &y) in logits.iter().zip(classes) {
        // ln sum_(c != y) exp s_c = s_y - m_y.
        let others = s[y as usize] - log_odds(s, y);
        let cell = |(c, s): (usize, &f64)| if c == y as usize { 1.0 } else { -(s - others).exp() };
        v.extend(s.iter().enumerate().map(cell));
    }
    v
}

/// Returns the terms of v·f(x) of any machine f(x) = sum_i alpha_i k(x, x_i) + b.
///
/// # Errors
/// [`Error::Shape`] if the sizes of alpha, b, the kernel values and the directions differ.
pub fn mass(
    alpha: Rows<'_, f64>,
    intercepts: &[f64],
    queries: Rows<'_, f32>,
    v: Rows<'_, f64>,
) -> Result<Vec<f64>> {
    let (n, classes) = (alpha.n(), alpha.dim());
    check_directions(queries, v, n, classes)?;
    let mut effects = Vec::with_capacity(queries.n() * n);
    for (k, v) in queries.iter().zip(v) {
        let dot = |a: &[f64]| a.iter().zip(v).map(|(a, v)| a * v).sum::<f64>();
        let share = dot(intercepts) / n as f64;
        effects.extend(k.iter().zip(alpha).map(|(&k, alpha)| dot(alpha) * f64::from(k) + share));
    }
    Ok(effects)
}

/// Returns `[k(x, X) (K + lambda I)^-1]_i` times `scale[i]`: TRAK with margin cotangents and scale 1 - p_i, influence with the empirical
/// Fisher matrix with loss cotangents and no scale.
///
/// # Errors
/// [`Error::Setting`] if lambda is not above 0, [`Error::Shape`] if sizes differ, [`Error::Unfit`] if K + lambda I is not positive definite.
pub fn dual(
    k: Rows<'_, f32>,
    queries: Rows<'_, f32>,
    scale: Option<&[f64]>,
    lambda: f64,
) -> Result<Vec<f64>> {
    let n = k.n();
    if !(lambda > 0.0 && lambda.is_finite()) {
        return Err(Error::setting("lambda", "a finite number above 0", lambda));
    }
    if k.dim() != n || queries.dim() != n || scale.is_some_and(|scale| scale.len() != n) {
        let (m, q) = (k.dim(), queries.dim());
        let what = format!("a Gram matrix {n} x {m} does not fit kernel values of {q} rows");
        return Err(Error::shape(what, ""));
    }
    let mut regular: Vec<f64> = k.values().iter().map(|&k| f64::from(k)).collect();
    (0..n).for_each(|i| regular[i * n + i] += lambda);
    let Some(inverse) = invert_spd(regular, n)? else {
        let what = format!("K + {lambda} I is not positive definite");
        return Err(Error::unfit(what, "set a larger ⟨lambda⟩"));
    };
    let mut effects = product(queries, &inverse, n);
    if let Some(scale) = scale {
        for row in effects.chunks_exact_mut(n) {
            row.iter_mut().zip(scale).for_each(|(e, s)| *e *= s);
        }
    }
    Ok(effects)
}

fn check_directions(
    queries: Rows<'_, f32>,
    v: Rows<'_, f64>,
    n: usize,
    classes: usize,
) -> Result<()> {
    if queries.dim() != n || v.n() != queries.n() || v.dim() != classes {
        let (q, m, d, c) = (queries.n(), queries.dim(), v.n(), v.dim());
        let what = format!(
            "queries {q} x {m} with directions {d} x {c} do not fit a machine of {n} rows and {classes} classes"
        );
        return Err(Error::shape(what, ""));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use veridical_core::{Job, Seed, Stream};
    use veridical_kernels::machine::{Glm, GlmSettings, Ridge};
    use veridical_learn::solve_spd;

    fn normals(n: usize, at: u64) -> Vec<f64> {
        let mut values = vec![0.0; n];
        let stream = Stream::new(Seed::new(9).unwrap(), "test/effects");
        stream.at(0, at).fill_normals(&mut values);
        values
    }

    fn gram(a: &[f64], b: &[f64], dim: usize) -> Vec<f32> {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() as f32;
        a.chunks(dim).flat_map(|a| b.chunks(dim).map(move |b| dot(a, b))).collect()
    }

    fn rows<T>(values: &[T], dim: usize) -> Rows<'_, T> {
        Rows::new(values, dim).unwrap()
    }

    #[test]
    fn mass_adds_up_to_the_logit() {
        let (n, q, dim, classes) = (30, 7, 4, 3);
        let (x, z) = (normals(n * dim, 0), normals(q * dim, 1));
        let (k, queries) = (gram(&x, &x, dim), gram(&z, &x, dim));
        let labels: Vec<u32> = (0..n as u32).map(|i| i * i % 3 % 2 + u32::from(i == 5)).collect();
        let settings = GlmSettings::new(0.1);
        let job = Job::silent();
        let fit = Glm::fit(rows(&k, n), &labels, classes, None, None, &settings, &job).unwrap();
        let logits = fit.predict(rows(&queries, n)).unwrap();
        let v = normals(q * classes, 2);
        let alpha = rows(fit.alpha(), classes);
        let effects = mass(alpha, fit.intercepts(), rows(&queries, n), rows(&v, classes)).unwrap();
        for ((effects, f), v) in effects.chunks(n).zip(logits.chunks(3)).zip(v.chunks(3)) {
            let want: f64 = f.iter().zip(v).map(|(f, v)| f * v).sum();
            assert!((effects.iter().sum::<f64>() - want).abs() < 1e-10);
        }
        // Kernel ridge adds up in the same way.
        let targets = normals(n * classes, 3);
        let ridge = Ridge::fit(rows(&k, n), rows(&targets, classes), 0.5, None).unwrap();
        let f = ridge.predict(rows(&queries, n)).unwrap();
        let alpha = rows(ridge.alpha(), classes);
        let effects =
            mass(alpha, ridge.intercepts(), rows(&queries, n), rows(&v, classes)).unwrap();
        for ((effects, f), v) in effects.chunks(n).zip(f.chunks(3)).zip(v.chunks(3)) {
            let want: f64 = f.iter().zip(v).map(|(f, v)| f * v).sum();
            assert!((effects.iter().sum::<f64>() - want).abs() < 1e-10);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]

        /// The definition with explicit gradients, fewer and more of them than rows. f32 rounding of K, 1e-7 of entries of size
        /// `dim`, over lambda = 1.
        #[test]
        fn the_dual_form_equals_gradients(n in 3usize..20, dim in 1usize..40, at in 0u64..100) {
            let (g, z) = (normals(n * dim, 3 * at), normals(2 * dim, 3 * at + 1));
            let scale: Vec<f64> = normals(n, 3 * at + 2).iter().map(|s| s.abs().min(1.0)).collect();
            let (k, queries) = (gram(&g, &g, dim), gram(&z, &g, dim));
            let got = dual(rows(&k, n), rows(&queries, n), Some(&scale), 1.0).unwrap();
            let mut fisher = vec![0.0; dim * dim];
            for g in g.chunks(dim) {
                for a in 0..dim {
                    (0..dim).for_each(|b| fisher[a * dim + b] += g[a] * g[b]);
                }
            }
            (0..dim).for_each(|a| fisher[a * dim + a] += 1.0);
            for (z, got) in z.chunks(dim).zip(got.chunks(n)) {
                let solved = solve_spd(&mut fisher.clone(), z);
                for ((g, scale), got) in g.chunks(dim).zip(&scale).zip(got) {
                    let want: f64 = scale * g.iter().zip(&solved).map(|(g, s)| g * s).sum::<f64>();
                    prop_assert!((got - want).abs() < 1e-5 * dim as f64, "{} {}", got, want);
                }
            }
        }

        /// Central differences of s_y - ln sum of the others: error h^2.
        #[test]
        fn margins_are_gradients_of_log_odds(s in prop::collection::vec(-3.0..3.0f64, 2..6)) {
            for y in 0..s.len() as u32 {
                let v = margins(rows(&s, s.len()), &[y]);
                for c in 0..s.len() {
                    let at = |h: f64| {
                        let mut s = s.clone();
                        s[c] += h;
                        log_odds(&s, y)
                    };
                    prop_assert!((v[c] - (at(1e-5) - at(-1e-5)) / 2e-5).abs() < 1e-9);
                }
                prop_assert!(v.iter().sum::<f64>().abs() < 1e-12);
            }
        }
    }

    #[test]
    fn effects_have_their_names() {
        for effect in Effect::ALL {
            assert_eq!(Effect::from_name(effect.name()), Some(effect));
            assert_eq!(serde_json::to_value(effect).unwrap(), effect.name());
        }
        assert_eq!(Effect::from_name("shapley"), None);
    }
}
