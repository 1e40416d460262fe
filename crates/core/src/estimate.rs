//! A value with its 95 % confidence interval: one type and one JSON shape for every measured number.
//!
//! | made by | value | interval |
//! |---|---|---|
//! | [`mean`](Estimate::mean), [`of_moments`](Estimate::of_moments), [`of_runs`](Estimate::of_runs) | mean m of n independent values | m +- t e, standard error e = s / sqrt(n) with their standard deviation s, t the 97.5 % quantile of Student's t with n - 1 degrees of freedom |
//! | [`new`](Estimate::new) | any v | v +- t e with the given standard error e and degrees of freedom |
//! | [`jackknife`](Estimate::jackknife) | any statistic | delete-a-group: e^2 = (G - 1)/G sum_g (t_(g) - mean t)^2, Student with G - 1 (Efron & Tibshirani 1993, 11) |
//! | [`share`](Estimate::share) | p = k / n | Wilson's: (p + z^2/2n +- z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n), z = 1.96 (Wilson 1927) |
//! | [`sd`](Estimate::sd) | standard deviation s of normal values | chi-square with f degrees: s sqrt(f / chi2_0.975) to s sqrt(f / chi2_0.025) |
//! | [`over_seeds`](Estimate::over_seeds) | mean over S runs of a mean over n units | see below |
//! | [`exact`](Estimate::exact) | a count, not a sample | the value itself |
//! | [`point`](Estimate::point) | a single value | none |
//!
//! Seeds: e^2 = a + b, a the mean of the runs' e^2, b = v / S with the variance v between their values; degrees of freedom
//! (a + b)^2 / (a^2 / f + b^2 / (S - 1)) with the fewest degrees f of a run (Satterthwaite 1946). The units (users, say) are the
//! same in every run, so a does not shrink with S: the interval covers other units and other seeds. The interaction of unit and
//! seed is counted in both parts, so the interval errs on the wide side.
//!
//! In JSON `{"value", "low", "high", "n", "seeds"}`, all five always present; `low` and `high` are null without an interval.
//!
//! ```
//! use veridical_core::Estimate;
//!
//! let right = Estimate::share(45, 60);
//! assert_eq!(right.percent(), "75.00 % [62.77, 84.22]");
//! let json = serde_json::to_value(Estimate::point(0.5, 60))?;
//! let want = serde_json::json!({"value": 0.5, "low": null, "high": null, "n": 60, "seeds": 1});
//! assert_eq!(json, want);
//! # Ok::<(), serde_json::Error>(())
//! ```

use serde::{Deserialize, Deserializer, Serialize};

use crate::stats::{Moments, jackknife_error, sd_interval, student_975};

/// The normal quantile of 0.975.
const Z: f64 = 1.959_963_984_540_054;

/// A value, its uncertainty, and the number of units it was measured on; formulas in the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The value; NaN (`null` in JSON) where it is undefined.
    #[serde(deserialize_with = "undefined")]
    pub value: f64,
    /// The lower end of the 95 % interval; minus infinity (`null` in JSON) without an interval.
    #[serde(deserialize_with = "below")]
    pub low: f64,
    /// The upper end of the interval; infinity (`null` in JSON) without an interval.
    #[serde(deserialize_with = "above")]
    pub high: f64,
    /// The number of independent units the value is an average over: users, probes, examples, pairs, ids.
    pub n: u64,
    /// The number of runs in the average; 1 for one run.
    pub seeds: u64,
    /// The standard error; infinite where it is unknown, as for an estimate that was deserialized.
    #[serde(skip, default = "unknown")]
    pub error: f64,
    /// The degrees of freedom of the standard error; 0 where unknown.
    #[serde(skip)]
    pub freedom: f64,
}

fn undefined<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

fn below<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NEG_INFINITY))
}

fn above<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
}

const fn unknown() -> f64 {
    f64::INFINITY
}

impl Estimate {
    /// Creates an estimate from a value and its standard error; the degrees of freedom need not be an integer.
    pub fn new(value: f64, error: f64, freedom: f64, n: u64) -> Self {
        // A standard error of 0 means the value is certain, however few the degrees of freedom.
        let half = if error == 0.0 { 0.0 } else { student_975(freedom) * error };
        Self { value, low: value - half, high: value + half, n, seeds: 1, error, freedom }
    }

    /// Creates an estimate of something counted, not sampled: both ends are the value.
    pub fn exact(value: f64, n: u64) -> Self {
        Self::new(value, 0.0, f64::INFINITY, n)
    }

    /// Creates an estimate without an interval.
    pub fn point(value: f64, n: u64) -> Self {
        Self::new(value, f64::INFINITY, 0.0, n)
    }

    /// Creates an estimate with an interval computed elsewhere; its standard error is unknown.
    pub const fn with_interval(value: f64, [low, high]: [f64; 2], n: u64) -> Self {
        Self { value, low, high, n, seeds: 1, error: f64::INFINITY, freedom: 0.0 }
    }

    /// Estimates the mean of independent values; a single value has no interval.
    pub fn of_moments(moments: &Moments) -> Self {
        let n = moments.count();
        // The unbiased variance over n; a single value says nothing about the spread.
        let error =
            if n > 1 { (moments.variance() / (n - 1) as f64).sqrt() } else { f64::INFINITY };
        Self::new(moments.mean(), error, n.saturating_sub(1) as f64, n)
    }

    /// Estimates the mean of independent values; `None` for fewer than two.
    ///
    /// ```
    /// use veridical_core::Estimate;
    ///
    /// let mean = Estimate::mean([1.0, 2.0, 3.0, 4.0, 5.0]).expect("two or more values");
    /// assert_eq!((mean.value, mean.n), (3.0, 5));
    /// assert!(mean.low < 2.0 && mean.high > 4.0); // 3 +- 2.776 sqrt(0.5)
    /// ```
    pub fn mean(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut moments = Moments::default();
        values.into_iter().for_each(|x| moments.push(x));
        (moments.count() >= 2).then(|| Self::of_moments(&moments))
    }

    /// Estimates the mean over runs with one value each; a single run has no interval. Computed with the textbook two-pass formula.
    pub fn of_runs(values: &[f64]) -> Self {
        let (runs, n) = (values.len() as u64, values.len() as f64);
        let mean = values.iter().sum::<f64>() / n;
        if values.len() < 2 {
            return Self::point(mean, runs).with_seeds(runs);
        }
        let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
        Self::new(mean, (squares / (n - 1.0) / n).sqrt(), n - 1.0, runs).with_seeds(runs)
    }

    /// Estimates `value` with the standard error from its leave-one-group-out values. `None` if one of them is undefined.
    pub fn jackknife(value: f64, without: &[f64], n: u64) -> Option<Self> {
        let groups = without.len() as f64;
        if groups < 2.0 || without.iter().any(|t| !t.is_finite()) || !value.is_finite() {
            return None;
        }
        Some(Self::new(value, jackknife_error(without), groups - 1.0, n))
    }

    /// Estimates the share `count` / `n` of independent units; for `n` = 0 it is NaN in [0, 1]. Its standard error is
    /// half the width of Wilson's interval over 1.96, which is not 0 where all units agree.
    pub fn share(count: u64, n: u64) -> Self {
        let of = |value: f64, low: f64, high: f64| {
            let error = (high - low) / (2.0 * Z);
            Self { error, freedom: f64::INFINITY, ..Self::with_interval(value, [low, high], n) }
        };
        if n == 0 {
            return of(f64::NAN, 0.0, 1.0);
        }
        let (k, n) = (count as f64, n as f64);
        let p = k / n;
        let middle = p + Z * Z / (2.0 * n);
        let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
        let scale = 1.0 + Z * Z / n;
        // At both ends the interval closes exactly; rounding must not carry it past them.
        let low = if count == 0 { 0.0 } else { (middle - half) / scale };
        let high = if k == n { 1.0 } else { (middle + half) / scale };
        of(p, low, high)
    }

    /// Estimates the standard deviation of `n` normal values with `freedom` degrees of freedom. Its standard error is the
    /// large-sample one, s / sqrt(2 f).
    pub fn sd(sd: f64, freedom: f64, n: u64) -> Self {
        let error = sd / (2.0 * freedom).sqrt();
        Self { error, freedom, ..Self::with_interval(sd, sd_interval(sd, freedom), n) }
    }

    /// Estimates the mean over runs that differ in their random seeds and were evaluated on the same units; one run is returned unchanged.
    pub fn over_seeds(runs: &[Self]) -> Option<Self> {
        let first = runs.first()?;
        if runs.len() == 1 {
            return Some(*first);
        }
        let n = runs.len() as f64;
        let mean = |of: &dyn Fn(&Self) -> f64| runs.iter().map(of).sum::<f64>() / n;
        let value = mean(&|run| run.value);
        let between = mean(&|run| (run.value - value).powi(2)) / (n - 1.0);
        let within = mean(&|run| run.error * run.error);
        let fewest = runs.iter().map(|run| run.freedom).fold(f64::INFINITY, f64::min);
        let parts = within * within / fewest + between * between / (n - 1.0);
        let freedom = if within.is_finite() { (within + between).powi(2) / parts } else { 0.0 };
        let things = runs.iter().map(|run| run.n).min().unwrap_or(0);
        let joint = Self::new(value, (within + between).sqrt(), freedom, things);
        Some(joint.with_seeds(runs.iter().map(|run| run.seeds).sum()))
    }

    /// Returns the same estimate with `seeds` as its number of runs.
    pub const fn with_seeds(self, seeds: u64) -> Self {
        Self { seeds, ..self }
    }

    /// Clips the interval to the range of the quantity.
    pub fn within(self, low: f64, high: f64) -> Self {
        Self { low: self.low.clamp(low, high), high: self.high.clamp(low, high), ..self }
    }

    /// Returns both ends of the interval.
    pub const fn interval(&self) -> [f64; 2] {
        [self.low, self.high]
    }

    /// Returns whether both ends of the interval are finite.
    pub const fn has_interval(&self) -> bool {
        self.low.is_finite() && self.high.is_finite()
    }

    /// Returns half the width of the interval; infinite without one.
    pub const fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Formats a share for people: `97.20 % [96.86, 97.51]`.
    pub fn percent(&self) -> String {
        let [value, low, high] = [self.value, self.low, self.high].map(|x| 100.0 * x);
        if self.has_interval() {
            format!("{value:.2} % [{low:.2}, {high:.2}]")
        } else {
            format!("{value:.2} %")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json, to_value};

    #[test]
    fn all_five_fields_are_always_there() {
        let exact = Estimate::exact(0.25, 8);
        let want = json!({"value": 0.25, "low": 0.25, "high": 0.25, "n": 8, "seeds": 1});
        assert_eq!(to_value(exact).unwrap(), want);
        let single = Estimate::of_runs(&[3.0]);
        let want = json!({"value": 3.0, "low": null, "high": null, "n": 1, "seeds": 1});
        assert_eq!(to_value(single).unwrap(), want);
        for missing in ["value", "low", "high", "n", "seeds"] {
            let mut short = want.clone();
            short.as_object_mut().unwrap().remove(missing);
            assert!(from_value::<Estimate>(short).is_err(), "{missing}");
        }
    }

    #[test]
    fn a_null_bound_is_read_as_infinite() {
        let single = Estimate::point(3.0, 4).with_seeds(2);
        assert_eq!(from_value::<Estimate>(to_value(single).unwrap()).unwrap(), single);
        assert_eq!(single.interval(), [f64::NEG_INFINITY, f64::INFINITY]);
        let mean = Estimate::mean([1.0, 2.0, 4.0]).unwrap();
        let read: Estimate = from_value(to_value(mean).unwrap()).unwrap();
        // What is not written is not known.
        assert_eq!(read, Estimate { error: f64::INFINITY, freedom: 0.0, ..mean });
        let undefined = Estimate::share(0, 0);
        assert!(from_value::<Estimate>(to_value(undefined).unwrap()).unwrap().value.is_nan());
    }

    /// Worked out on paper: mean 3, s^2 = 2.5, e = sqrt(0.5), `scipy.stats.t.ppf(0.975, 4)` = 2.7764451051977934.
    #[test]
    fn means_follow_student() {
        let values = [1.0, 2.0, 3.0, 4.0, 5.0];
        let half = 2.776_445_105_197_793_4 * 0.5f64.sqrt();
        for estimate in [Estimate::mean(values).unwrap(), Estimate::of_runs(&values)] {
            assert_eq!((estimate.value, estimate.n, estimate.freedom), (3.0, 5, 4.0));
            assert!((estimate.half_width() - half).abs() < 1e-12, "{estimate:?}");
        }
        assert_eq!((Estimate::of_runs(&values).seeds, Estimate::mean([1.0])), (5, None));
        assert!(!Estimate::of_moments(&Moments::default()).has_interval());
    }

    /// The jackknife of a mean is its standard error: no approximation.
    #[test]
    fn jackknife_of_a_mean_is_the_standard_error() {
        let values = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0];
        let mean = Estimate::mean(values).unwrap();
        let total: f64 = values.iter().sum();
        let without: Vec<f64> = values.iter().map(|x| (total - x) / 6.0).collect();
        let jackknife = Estimate::jackknife(mean.value, &without, 7).unwrap();
        assert!((jackknife.error - mean.error).abs() < 1e-14);
        assert_eq!(Estimate::jackknife(f64::NAN, &without, 7), None);
        assert_eq!(Estimate::jackknife(1.0, &[1.0, f64::INFINITY], 7), None);
    }

    /// An end p of Wilson's interval is where the share is z standard errors of p away: |k/n - p| = z sqrt(p (1 - p) / n). Both
    /// sides are sums of a few terms below 1, so they agree to 1e-14.
    #[test]
    fn ends_of_intervals_solve_wilsons_equation() {
        for (right, n) in [(8, 10), (1, 7), (950, 1000), (0, 5), (5, 5)] {
            let Estimate { value, low, high, error, .. } = Estimate::share(right, n);
            for end in [low, high] {
                let apart = (value - end).abs();
                let errors = Z * (end * (1.0 - end) / n as f64).sqrt();
                let is_closed = (right == 0 && end == 0.0) || (right == n && end == 1.0);
                assert!(is_closed || (apart - errors).abs() < 1e-14, "{right} of {n}: {end}");
            }
            assert!(low <= value && value <= high && low < high && error > 0.0);
        }
    }

    /// Worked out on paper for two runs: a = 0.04, v = 0.02, b = 0.01; e^2 = 0.05 with 0.0025 / (0.0016 / 9 + 0.0001 / 1) = 9 degrees.
    #[test]
    fn seeds_add_their_variance_to_that_of_a_run() {
        let run = |value| Estimate::new(value, 0.2, 9.0, 10);
        let both = Estimate::over_seeds(&[run(0.4), run(0.6)]).unwrap();
        assert_eq!((both.n, both.seeds), (10, 2));
        assert!((both.value - 0.5).abs() < 1e-15 && (both.error - 0.05f64.sqrt()).abs() < 1e-15);
        assert!((both.freedom - 9.0).abs() < 1e-12, "{both:?}");
        assert_eq!(Estimate::over_seeds(&[run(0.4)]), Some(run(0.4)));
        assert_eq!(Estimate::over_seeds(&[]), None);
        let unknown = [0.4, 0.6].map(|value| Estimate::point(value, 10));
        assert!(!Estimate::over_seeds(&unknown).unwrap().has_interval());
    }

    #[test]
    fn an_interval_is_cut_to_what_is_possible() {
        let cut = Estimate::new(0.9, 0.1, f64::INFINITY, 4).within(0.0, 1.0);
        assert_eq!((cut.high, cut.error), (1.0, 0.1));
        assert!((cut.low - (0.9 - 0.1 * Z)).abs() < 1e-12);
    }
}
