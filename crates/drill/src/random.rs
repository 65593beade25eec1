//! Random numbers that are the same on every machine and in every version: SplitMix64 (Steele, Lea, Flood 2014). Not for secrets.

/// One addition and a mix per number.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A whole number from `from` up to and with `to`; the bias of the modulus is far below what a fault shows.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.draw() % (to - from + 1)
    }
}
