//! Deterministic pseudorandom numbers.

use std::time::Duration;

/// Generator of pseudorandom numbers: `SplitMix64` (Steele, Lea and Flood, 2014).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a random duration that is shorter than `most`.
    pub(super) fn time_below(&mut self, most: Duration) -> Duration {
        let parts = u32::try_from(self.next() >> 48).unwrap();
        most * parts / (1 << 16)
    }
}
