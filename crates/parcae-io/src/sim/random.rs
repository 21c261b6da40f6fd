//! Random numbers of one link, split from the seed.

/// A generator of random numbers (SplitMix64).
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    /// The generator of a link.
    pub(super) fn of(seed: u64, link: &str) -> Random {
        // FNV-1a: the same in each run.
        let hash = link.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut random = Random(seed ^ hash);
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// How much an operation takes of so many bytes: all of them, a part, or one.
    pub(super) fn portion(&mut self, bytes: usize) -> usize {
        match self.below(8) {
            _ if bytes <= 1 => bytes,
            0 => 1,
            1 | 2 => 1 + self.below(bytes as u64) as usize,
            _ => bytes,
        }
    }
}
