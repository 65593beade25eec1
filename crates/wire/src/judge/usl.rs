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
    if points.len() < POINTS_MIN {
        return UslResult::Refused(format!("{} busy slices; {POINTS_MIN} needed", points.len()));
    }
    let (low, high) =
        points.iter().fold((f64::MAX, 0.0_f64), |(low, high), (n, _)| (low.min(*n), high.max(*n)));
    if high < SPAN_MIN * low {
        return UslResult::Refused(format!(
            "concurrency ranged from {low:.1} to {high:.1} only; a factor of {SPAN_MIN:.0} is needed"
        ));
    }
    let mut levels: Vec<i32> = points.iter().map(|(n, _)| level(*n)).collect();
    levels.sort_unstable();
    levels.dedup();
    if levels.len() < LEVELS_MIN {
        return UslResult::Refused(format!("{} load levels; {LEVELS_MIN} needed", levels.len()));
    }
    let mut coefficients = solve(&points, 3);
    if coefficients.is_none_or(|[_, _, c]| c < 0.0) {
        coefficients = solve(&points, 2);
    }
    let Some([a, b, c]) = coefficients.filter(|[a, _, _]| *a > 0.0) else {
        return UslResult::Refused("the points fit no such curve".to_owned());
    };
    let (lambda, sigma, kappa) = (1.0 / a, b / a, c / a);
    if sigma < 0.01 && kappa * high * high < 0.1 {
        return UslResult::Refused(format!(
            "no knee in the observed range: throughput grows up to a concurrency of {high:.0}"
        ));
    }
    let sigma = sigma.max(0.0);
    let peak = (kappa > 0.0).then(|| ((1.0 - sigma.min(1.0)) / kappa).sqrt().max(1.0));
    let mut usl = Usl { lambda, sigma, kappa, capacity: lambda / sigma.max(1e-9), peak };
    if let Some(peak) = peak {
        usl.capacity = usl.throughput(peak);
    }
    UslResult::Fit(usl)
}

impl Usl {
    /// Throughput at a concurrency of `n`.
    fn throughput(&self, n: f64) -> f64 {
        self.lambda * n / (1.0 + self.sigma * (n - 1.0) + self.kappa * n * (n - 1.0))
    }
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
    Some([0, 1, 2].map(|term: usize| if term < terms { matrix[term][3] } else { 0.0 }))
}

#[cfg(test)]
mod tests {
    use super::{Usl, UslResult, fit};

    fn curve([lambda, sigma, kappa]: [f64; 3], highest: u32) -> Vec<(f64, f64)> {
        let usl = Usl { lambda, sigma, kappa, capacity: 0.0, peak: None };
        (1..=highest).map(f64::from).map(|n| (n, usl.throughput(n))).collect()
    }

    #[test]
    fn coefficients_come_back_from_their_own_curve() {
        let UslResult::Fit(found) = fit(&curve([100.0, 0.1, 0.001], 64)) else { panic!("a fit") };
        assert!((found.lambda - 100.0).abs() < 1e-6 && (found.sigma - 0.1).abs() < 1e-9);
        assert!((found.kappa - 0.001).abs() < 1e-9);
        assert!((found.peak.expect("it declines") - 30.0).abs() < 0.01);
        let UslResult::Fit(level) = fit(&curve([78.0, 0.12, 0.0], 64)) else { panic!("a fit") };
        assert!((level.capacity - 650.0).abs() < 1.0, "{level:?}");
    }

    #[test]
    fn what_proves_nothing_is_refused() {
        for (points, reason) in [
            (curve([100.0, 0.1, 0.0], 4), "busy slices"),
            (curve([100.0, 0.1, 0.0], 64).split_off(40), "a factor of 8"),
            (curve([100.0, 0.0, 0.0], 64), "no knee"),
        ] {
            match fit(&points) {
                UslResult::Refused(why) => assert!(why.contains(reason), "{why}"),
                UslResult::Fit(found) => panic!("{found:?}"),
            }
        }
    }
}
