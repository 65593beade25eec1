//! Random numbers that are the same on every machine and in every version: SplitMix64 (Steele, Lea,
//! Flood 2014). Not for secrets.

use std::ops::RangeInclusive;

/// A generator: one addition and a mix per number.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts the sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns an integer in `range`. The modulo bias is negligible here.
    pub fn between(&mut self, range: &RangeInclusive<u64>) -> u64 {
        let (from, to) = (range.start(), range.end());
        from + self.draw() % (to - from + 1)
    }
}
