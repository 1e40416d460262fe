//! The linear datamodeling score (Park et al. 2023): train on random halves S of the rows, and ask whether the sum of the attributions of
//! the rows in S orders what the retrained networks answer.
//!
//!   LDS(x) = Spearman over S of ( sum_(i in S) effect_i(x),  mean over seeds of output_S(x) ),  LDS = mean over queries x
//!
//! Outputs differ from seed to seed too. With r the mean Spearman correlation of the outputs of two seeds over S, the mean of s seeds has
//! reliability R = s r / (1 + (s - 1) r) (Spearman 1910, Brown 1910), and perfect effects correlate with it by about sqrt(R), the ceiling.

use serde::Serialize;
use veridical_core::ranks::spearman;
use veridical_core::{Error, Estimate, Result, Rows, Seed, Stream};

/// How well attributions predict retrainings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DatamodelScore {
    /// The mean over queries, with an interval over queries.
    pub score: Option<Estimate>,
    /// The score that the seeds of the retrainings leave possible; none for one seed.
    pub ceiling: Option<f64>,
    /// The score of every query; null where the outputs do not vary.
    pub queries: Vec<Option<f64>>,
    /// The number of subsets.
    pub subsets: u64,
    /// The number of seeds per subset.
    pub seeds: u64,
}

/// Draws `subsets` random halves of n training rows, rows in order.
///
/// # Errors
/// [`Error::Unfit`] for fewer than two rows.
pub fn half_subsets(n: usize, subsets: usize, seed: Seed) -> Result<Vec<Vec<u32>>> {
    if n < 2 {
        return Err(Error::unfit(format!("{n} training rows have no halves"), ""));
    }
    let stream = Stream::new(seed, "validate/subsets");
    let one = |subset: usize| {
        let place = stream.at(0, subset as u64);
        let mut order: Vec<(u64, u32)> = (0..n as u32).map(|i| (place.integer(i), i)).collect();
        order.sort_unstable();
        let mut rows: Vec<u32> = order.into_iter().take(n / 2).map(|(_, i)| i).collect();
        rows.sort_unstable();
        rows
    };
    Ok((0..subsets).map(one).collect())
}

/// Scores attributions (a row of one effect per training row for every query) by retrainings: `outputs[seed]` has a row per subset and a
/// column per query.
///
/// # Errors
/// [`Error::Shape`] if sizes differ, [`Error::Unfit`] for fewer than three subsets, no seed, or a row of a subset that does not exist.
pub fn datamodel_score(
    effects: Rows<'_, f64>,
    subsets: &[Vec<u32>],
    outputs: &[Rows<'_, f64>],
) -> Result<DatamodelScore> {
    let (q, n, m, s) = (effects.n(), effects.dim(), subsets.len(), outputs.len());
    if m < 3 || s == 0 {
        let what = format!("{m} subsets with {s} seeds order nothing");
        return Err(Error::unfit(what, "retrain on at least three subsets, better on 50"));
    }
    if let Some(bad) = outputs.iter().find(|rows| rows.n() != m || rows.dim() != q) {
        let (a, b) = (bad.n(), bad.dim());
        let what = format!("outputs {a} x {b} do not fit {m} subsets and {q} queries");
        return Err(Error::shape(what, ""));
    }
    if let Some(row) = subsets.iter().flatten().find(|&&row| row as usize >= n) {
        let what = format!("a subset has row {row}, attributions are of {n} training rows");
        return Err(Error::unfit(what, ""));
    }
    let is_finite = |rows: &Rows<'_, f64>| rows.values().iter().all(|x| x.is_finite());
    if !is_finite(&effects) || !outputs.iter().all(is_finite) {
        return Err(Error::unfit("an attribution or an output is not finite", ""));
    }
    let column =
        |rows: &Rows<'_, f64>, x: usize| -> Vec<f64> { rows.iter().map(|row| row[x]).collect() };
    let (mut queries, mut between) = (Vec::with_capacity(q), Vec::new());
    for (x, effects) in effects.iter().enumerate() {
        let predicted: Vec<f64> =
            subsets.iter().map(|rows| rows.iter().map(|&i| effects[i as usize]).sum()).collect();
        let of_seeds: Vec<Vec<f64>> = outputs.iter().map(|rows| column(rows, x)).collect();
        let mean: Vec<f64> = (0..m)
            .map(|subset| of_seeds.iter().map(|of| of[subset]).sum::<f64>() / s as f64)
            .collect();
        let score = spearman(&predicted, &mean);
        queries.push(score.is_finite().then_some(score));
        for a in 0..s {
            between.extend((0..a).map(|b| spearman(&of_seeds[a], &of_seeds[b])));
        }
    }
    let between: Vec<f64> = between.into_iter().filter(|r| r.is_finite()).collect();
    let r = between.iter().sum::<f64>() / between.len() as f64;
    // A negative reliability is noise around 0.
    let ceiling = (s as f64 * r / (1.0 + (s as f64 - 1.0) * r)).max(0.0).sqrt();
    let ceiling = (!between.is_empty()).then_some(ceiling);
    Ok(DatamodelScore {
        score: Estimate::mean(queries.iter().flatten().copied())
            .map(|e| e.within(-1.0, 1.0).with_seeds(s as u64)),
        ceiling,
        queries,
        subsets: m as u64,
        seeds: s as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normals(n: usize, at: u64) -> Vec<f64> {
        let mut values = vec![0.0; n];
        let stream = Stream::new(Seed::new(4).unwrap(), "test/lds");
        stream.at(0, at).fill_normals(&mut values);
        values
    }

    /// A model whose output is the sum of fixed effects of its rows: the score of the true effects is 1, that of shuffled ones 0 within
    /// four standard errors.
    #[test]
    fn an_additive_model_scores_its_effects_with_one() {
        let (n, q, m) = (60, 12, 50);
        let subsets = half_subsets(n, m, Seed::new(1).unwrap()).unwrap();
        assert!(subsets.iter().all(|s| s.len() == 30 && s.windows(2).all(|w| w[0] < w[1])));
        let effects = normals(n * q, 0);
        let outputs: Vec<f64> = subsets
            .iter()
            .flat_map(|rows| {
                effects.chunks(n).map(|e| rows.iter().map(|&i| e[i as usize]).sum::<f64>() + 3.0)
            })
            .collect();
        let outputs = Rows::new(&outputs, q).unwrap();
        let of = |effects: &[f64]| {
            datamodel_score(Rows::new(effects, n).unwrap(), &subsets, &[outputs, outputs]).unwrap()
        };
        let exact = of(&effects);
        assert!(exact.queries.iter().all(|score| (score.unwrap() - 1.0).abs() < 1e-12));
        assert!((exact.ceiling.unwrap() - 1.0).abs() < 1e-12);
        let scaled: Vec<f64> = effects.iter().map(|e| 0.5 * e - 1.0).collect();
        assert!((of(&scaled).score.unwrap().value - 1.0).abs() < 1e-12);
        let mut shuffled = effects.clone();
        shuffled.chunks_mut(n).for_each(|e| e.rotate_left(17));
        let random = of(&shuffled).score.unwrap();
        assert!(random.value.abs() < 4.0 * random.error, "{random:?}");
        assert_eq!((random.n, random.seeds), (12, 2));
    }

    /// Outputs with noise of their own size: the correlation of two seeds is 1/2, of the mean of two with the truth sqrt(2/3) = 0.816; in
    /// ranks a little less. Effects cannot score higher than the ceiling, up to the standard error.
    #[test]
    fn the_ceiling_is_what_the_truth_scores_under_noise() {
        let (n, q, m) = (40, 60, 100);
        let subsets = half_subsets(n, m, Seed::new(2).unwrap()).unwrap();
        let effects = normals(n * q, 1);
        let truth: Vec<f64> = subsets
            .iter()
            .flat_map(|rows| {
                effects.chunks(n).map(|e| rows.iter().map(|&i| e[i as usize]).sum::<f64>())
            })
            .collect();
        // The variance of a sum over a random half: n / 4 for unit effects.
        let noisy = |at: u64| -> Vec<f64> {
            truth
                .iter()
                .zip(normals(m * q, at))
                .map(|(t, z)| t + z * (n as f64 / 4.0).sqrt())
                .collect()
        };
        let (a, b) = (noisy(2), noisy(3));
        let outputs = [Rows::new(&a, q).unwrap(), Rows::new(&b, q).unwrap()];
        let got = datamodel_score(Rows::new(&effects, n).unwrap(), &subsets, &outputs).unwrap();
        let (score, ceiling) = (got.score.unwrap(), got.ceiling.unwrap());
        assert!((ceiling - 0.816).abs() < 0.04, "{ceiling}");
        assert!((score.value - ceiling).abs() < 4.0 * score.error + 0.02, "{score:?} {ceiling}");
    }

    #[test]
    fn retrainings_that_do_not_fit_are_refused() {
        let (effects, outputs) = ([0.0; 4], [0.0; 6]);
        let effects = Rows::new(&effects, 2).unwrap();
        let message = |subsets: &[Vec<u32>], dim| {
            let outputs = Rows::new(&outputs, dim).unwrap();
            datamodel_score(effects, subsets, &[outputs]).unwrap_err().to_string()
        };
        let subsets = [vec![0], vec![1], vec![0]];
        assert!(message(&subsets[..2], 2).starts_with("2 subsets with 1 seeds"));
        assert_eq!(message(&subsets, 3), "outputs 2 x 3 do not fit 3 subsets and 2 queries");
        assert!(message(&[vec![0], vec![1], vec![2]], 2).starts_with("a subset has row 2"));
        let flat = datamodel_score(effects, &subsets, &[Rows::new(&outputs, 2).unwrap()]).unwrap();
        assert!(flat.score.is_none() && flat.ceiling.is_none() && flat.queries == [None, None]);
    }
}
