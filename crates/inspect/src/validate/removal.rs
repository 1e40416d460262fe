//! The removal test: take the top rows of every query away, retrain, and see how far the decision moves.
//!
//! drop      margin of the network with all rows less that of the network without the removed ones, per query; mean with interval
//! excess    the same less the drop after removing as many random rows: what the attribution knew
//! flipped   the share of queries whose margin was positive and is no longer
//!
//! Margins of several seeds are averaged before: single retrainings differ by more than a few rows do.

use serde::Serialize;
use veridical_core::{Error, Estimate, Result};

/// The margins of the queries after retraining without a share of the rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retrained<'a> {
    /// The share of the training rows that was removed.
    pub share: f64,
    /// Margins after removing the top rows of every query.
    pub top: &'a [f64],
    /// Margins after removing as many random rows.
    pub random: &'a [f64],
}

/// A share of rows with what removing it does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CurvePoint {
    /// The share of the training rows that was removed.
    pub share: f64,
    /// The mean drop of the margin.
    pub drop: Option<Estimate>,
    /// The mean drop after removing random rows.
    pub random_drop: Option<Estimate>,
    /// The mean of the differences of both.
    pub excess: Option<Estimate>,
    /// The share of right decisions that are no longer.
    pub flipped: Estimate,
}

/// The drop of the margin by the share of rows removed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RemovalCurve {
    /// Points, smallest share first.
    pub points: Vec<CurvePoint>,
}

/// Summarizes retrainings against the margins with all rows.
///
/// # Errors
/// [`Error::Shape`] if a retraining does not have one margin per query, [`Error::Unfit`] if a margin is not finite.
///
/// ```
/// use veridical_inspect::validate::{Retrained, removal_curve};
///
/// let retrained = Retrained { share: 0.01, top: &[0.0, -1.0], random: &[2.0, 1.0] };
/// let curve = removal_curve(&[2.0, 1.0], &[retrained])?;
/// assert_eq!(curve.points[0].excess.expect("two queries").value, 2.0);
/// assert_eq!(curve.points[0].flipped.value, 1.0);
/// # Ok::<(), veridical_core::Error>(())
/// ```
pub fn removal_curve(margins: &[f64], retrained: &[Retrained<'_>]) -> Result<RemovalCurve> {
    let n = margins.len();
    let one = |at: &Retrained<'_>| {
        if at.top.len() != n || at.random.len() != n {
            let (a, b) = (at.top.len(), at.random.len());
            let what = format!("{n} queries were given with margins of {a} and {b} after removal");
            return Err(Error::shape(what, ""));
        }
        if margins.iter().chain(at.top).chain(at.random).any(|m| !m.is_finite()) {
            return Err(Error::unfit("a margin is not finite", ""));
        }
        let drops = |after: &[f64]| -> Vec<f64> {
            margins.iter().zip(after).map(|(before, after)| before - after).collect()
        };
        let (drop, random) = (drops(at.top), drops(at.random));
        let excess: Vec<f64> = drop.iter().zip(&random).map(|(d, r)| d - r).collect();
        let right = margins.iter().filter(|m| **m > 0.0).count() as u64;
        let flipped = margins.iter().zip(at.top).filter(|(m, after)| **m > 0.0 && **after <= 0.0);
        Ok(CurvePoint {
            share: at.share,
            drop: Estimate::mean(drop),
            random_drop: Estimate::mean(random),
            excess: Estimate::mean(excess),
            flipped: Estimate::share(flipped.count() as u64, right),
        })
    };
    let mut points = retrained.iter().map(one).collect::<Result<Vec<_>>>()?;
    points.sort_by(|a, b| a.share.total_cmp(&b.share));
    Ok(RemovalCurve { points })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_in_order_and_sizes_are_checked() {
        let margins = [1.0, -1.0, 2.0];
        let of = |share, top| Retrained { share, top, random: &margins };
        let curve = removal_curve(&margins, &[of(0.05, &[-1.0, -2.0, 0.5]), of(0.01, &margins)]);
        let points = curve.unwrap().points;
        assert_eq!([points[0].share, points[1].share], [0.01, 0.05]);
        let drop = points[1].drop.unwrap();
        assert!((drop.value - (2.0 + 1.0 + 1.5) / 3.0).abs() < 1e-12);
        // The wrong decision is not counted.
        assert_eq!((points[1].flipped.value, points[1].flipped.n), (0.5, 2));
        let short = removal_curve(&margins, &[of(0.1, &margins[..2])]).unwrap_err().to_string();
        assert_eq!(short, "3 queries were given with margins of 2 and 3 after removal");
        let nan = removal_curve(&[f64::NAN; 3], &[of(0.1, &margins)]).unwrap_err().to_string();
        assert_eq!(nan, "a margin is not finite");
    }
}
