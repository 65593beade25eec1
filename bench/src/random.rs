//! Random numbers that are the same on every machine: SplitMix64 with Zipf, normal and lognormal
//! distributions.
//!
//! Not for secrets. A crate may draw other numbers from the same seed in its next version.

/// A generator, on that of the drills.
#[derive(Clone)]
pub(crate) struct Random(weir_drill::Random);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(weir_drill::Random::new(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.draw()
    }

    /// Draws from [0, 1).
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Draws an integer below `limit`. The modulo bias is negligible here.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// True in `count` of `of` cases.
    pub(crate) fn chance(&mut self, [count, of]: [u64; 2]) -> bool {
        self.below(of) < count
    }

    pub(crate) fn choose<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[index(self.below(from.len() as u64))]
    }

    /// Draws from the normal distribution (Box-Muller transform).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.share()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.share()).cos()
    }

    /// Draws from a lognormal distribution with this median and sigma.
    pub(crate) fn lognormal(&mut self, [median, sigma]: [f64; 2]) -> f64 {
        median * (sigma * self.normal()).exp()
    }
}

/// Converts a drawn number to an index.
pub(crate) fn index(drawn: u64) -> usize {
    usize::try_from(drawn).expect("this runs on 64-bit machines")
}

/// Draws ranks, of which 0 is the most frequent: rank k has weight 1 / (k + 1)^exponent.
pub(crate) struct Zipf {
    /// Cumulative weights; the last is 1.
    sums: Vec<f64>,
}

impl Zipf {
    pub(crate) fn new(ranks: u32, exponent: f64) -> Self {
        let weights = (1..=ranks).map(|rank| f64::from(rank).powf(-exponent));
        let sums: Vec<f64> = weights
            .scan(0.0, |sum, weight| {
                *sum += weight;
                Some(*sum)
            })
            .collect();
        let total = sums.last().copied().unwrap_or(1.0);
        Self { sums: sums.into_iter().map(|sum| sum / total).collect() }
    }

    pub(crate) fn draw(&self, random: &mut Random) -> usize {
        let share = random.share();
        self.sums.partition_point(|sum| *sum <= share).min(self.sums.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::{Random, Zipf};

    #[test]
    fn first_numbers_of_a_seed_never_change() {
        let mut random = Random::new(42);
        assert_eq!(
            [random.next(), random.next()],
            [13_679_457_532_755_275_413, 2_949_826_092_126_892_291]
        );
    }

    #[test]
    fn zipf_prefers_low_ranks_as_its_exponent_says() {
        let (zipf, mut random) = (Zipf::new(1000, 1.0), Random::new(1));
        let mut counts = [0_u32; 1000];
        (0..200_000).for_each(|_| counts[zipf.draw(&mut random)] += 1);
        let ratio = f64::from(counts[0]) / f64::from(counts[9]);
        assert!((8.5..11.5).contains(&ratio), "rank 1 to rank 10 is {ratio}, should be 10");
    }
}
