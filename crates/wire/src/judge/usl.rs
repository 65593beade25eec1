//! The Universal Scalability Law (Gunther): how throughput X follows concurrency N, and when a fit
//! is refused.
//!
//! `N/X = (1/λ)(1 + σ(N−1) + κN(N−1))` is linear in its coefficients; slices are weighted by
//! `(X/N)²`, since the uncertainty of N/X grows with its value. One load level proves nothing, so a
//! fit is refused unless N spans a factor of eight.
//!
//! Example: with λ = 100, σ = 0.05 and κ = 0.001, throughput is 100/s at N = 1, 649/s at N = 10 and
//! peaks at N = √((1 − σ)/κ) ≈ 31 with 904/s.

/// A fit, or why there is none.
#[derive(Debug, Clone, PartialEq)]
pub enum UslResult {
    /// A curve with a knee.
    Fit(Usl),
    /// Why no capacity is given.
    Refused(String),
}

/// Coefficients of the law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usl {
    /// Requests per second at a concurrency of one.
    pub lambda: f64,
    /// Contention: the serial share of the work.
    pub sigma: f64,
    /// Coherency cost; 0 when throughput never declines.
    pub kappa: f64,
    /// Maximum requests per second, reached or approached.
    pub capacity: f64,
    /// Concurrency of the peak; `None` when throughput only levels off.
    pub peak: Option<f64>,
}

/// Minimum number of slices.
const POINTS_MIN: usize = 8;
const SPAN_MIN: f64 = 8.0;
const LEVELS_MIN: usize = 3;

/// Fits points of concurrency and throughput.
pub(super) fn fit(points: &[(f64, f64)]) -> UslResult {
    let points: Vec<(f64, f64)> =
        points.iter().copied().filter(|(n, x)| *n > 0.0 && *x > 0.0).collect();
    let refuse = |why: String| UslResult::Refused(why);
    if points.len() < POINTS_MIN {
        return refuse(format!("{} busy slices, {POINTS_MIN} are needed", points.len()));
    }
    let (low, high) =
        points.iter().fold((f64::MAX, 0.0_f64), |(low, high), (n, _)| (low.min(*n), high.max(*n)));
    if high < SPAN_MIN * low {
        return refuse(format!(
            "concurrency went from {low:.1} to {high:.1} only, a factor of {SPAN_MIN:.0} is needed"
        ));
    }
    let mut levels: Vec<i32> = points.iter().map(|(n, _)| level(*n)).collect();
    levels.sort_unstable();
    levels.dedup();
    if levels.len() < LEVELS_MIN {
        return refuse(format!("{} levels of load, {LEVELS_MIN} are needed", levels.len()));
    }
    let mut coefficients = solve(&points, 3);
    if coefficients.is_none_or(|[_, _, c]| c < 0.0) {
        coefficients = solve(&points, 2);
    }
    let Some([a, b, c]) = coefficients.filter(|[a, _, _]| *a > 0.0) else {
        return refuse("the points lie on no such curve".to_owned());
    };
    let (lambda, sigma, kappa) = (1.0 / a, b / a, c / a);
    if sigma < 0.01 && kappa * high * high < 0.1 {
        return refuse(format!(
            "no knee in the observed range: up to a concurrency of {high:.0} throughput grows with it"
        ));
    }
    let sigma = sigma.max(0.0);
    let peak = (kappa > 0.0).then(|| ((1.0 - sigma.min(1.0)) / kappa).sqrt().max(1.0));
    let throughput = |n: f64| lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0));
    let capacity = peak.map_or(lambda / sigma.max(1e-9), throughput);
    UslResult::Fit(Usl { lambda, sigma, kappa, capacity, peak })
}

#[expect(clippy::cast_possible_truncation, reason = "logarithms of counts are small")]
fn level(n: f64) -> i32 {
    n.log2().round() as i32
}

/// Weighted least squares for `N/X = a + b(N−1) + cN(N−1)`, with or without the last term.
fn solve(points: &[(f64, f64)], terms: usize) -> Option<[f64; 3]> {
    let mut matrix = [[0.0_f64; 4]; 3];
    for (n, x) in points {
        let (weight, y) = ((x / n).powi(2), n / x);
        let row = [1.0, n - 1.0, n * (n - 1.0)];
        for i in 0..terms {
            for j in 0..terms {
                matrix[i][j] += weight * row[i] * row[j];
            }
            matrix[i][3] += weight * row[i] * y;
        }
    }
    for pivot in 0..terms {
        let best = (pivot..terms)
            .max_by(|a, b| matrix[*a][pivot].abs().total_cmp(&matrix[*b][pivot].abs()))?;
        matrix.swap(pivot, best);
        let divisor = matrix[pivot][pivot];
        if divisor.abs() < 1e-12 {
            return None;
        }
        matrix[pivot].iter_mut().for_each(|cell| *cell /= divisor);
        for row in (0..terms).filter(|row| *row != pivot) {
            let factor = matrix[row][pivot];
            let by = matrix[pivot];
            matrix[row].iter_mut().zip(by).for_each(|(cell, by)| *cell -= factor * by);
        }
    }
    let at = |term: usize| if term < terms { matrix[term][3] } else { 0.0 };
    Some([at(0), at(1), at(2)])
}

#[cfg(test)]
mod tests {
    use super::{UslResult, fit};

    fn curve(lambda: f64, sigma: f64, kappa: f64, highest: u32) -> Vec<(f64, f64)> {
        let x = |n: f64| lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0));
        (1..=highest).map(f64::from).map(|n| (n, x(n))).collect()
    }

    #[test]
    fn coefficients_come_back_from_their_own_curve() {
        let UslResult::Fit(found) = fit(&curve(100.0, 0.1, 0.001, 64)) else { panic!("a fit") };
        assert!((found.lambda - 100.0).abs() < 1e-6 && (found.sigma - 0.1).abs() < 1e-9);
        assert!((found.kappa - 0.001).abs() < 1e-9);
        assert!((found.peak.expect("it declines") - 30.0).abs() < 0.01);
        let UslResult::Fit(level) = fit(&curve(78.0, 0.12, 0.0, 64)) else { panic!("a fit") };
        assert!((level.capacity - 650.0).abs() < 1.0, "{level:?}");
    }

    #[test]
    fn what_proves_nothing_is_refused() {
        for (points, reason) in [
            (curve(100.0, 0.1, 0.0, 4), "busy slices"),
            (curve(100.0, 0.1, 0.0, 64).split_off(40), "a factor of 8"),
            (curve(100.0, 0.0, 0.0, 64), "no knee"),
        ] {
            match fit(&points) {
                UslResult::Refused(why) => assert!(why.contains(reason), "{why}"),
                UslResult::Fit(found) => panic!("{found:?}"),
            }
        }
    }
}
