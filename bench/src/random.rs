//! Random numbers that are the same on every machine: SplitMix64, and Zipf, normal and lognormal draws from it.
//!
//! Not for secrets. A generator crate would do as well, but its next version may draw other numbers for the same seed.

/// Whole numbers are the fault lab's.
#[derive(Clone)]
pub(crate) struct Random(weir_drill::Random);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(weir_drill::Random::new(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.draw()
    }

    /// From 0 up to and without 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From 0 up to and without `limit`; the bias of the modulus is far below what a log line shows.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// True in `count` of `of` cases.
    pub(crate) fn chance(&mut self, count: u64, of: u64) -> bool {
        self.below(of) < count
    }

    pub(crate) fn choose<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[index(self.below(from.len() as u64))]
    }

    /// Box and Muller's transform, the second value thrown away.
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.share()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.share()).cos()
    }

    /// Half of the draws lie below `median`.
    pub(crate) fn lognormal(&mut self, median: f64, sigma: f64) -> f64 {
        median * (sigma * self.normal()).exp()
    }
}

/// A drawn number as an index; all draws here are far below 2^32.
pub(crate) fn index(drawn: u64) -> usize {
    usize::try_from(drawn).expect("this runs on 64-bit machines")
}

/// Draws a rank, 0 being the most frequent: rank k comes with weight 1 / (k + 1)^exponent.
pub(crate) struct Zipf {
    /// Sums of the weights up to each rank, the last being 1.
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
