//! Random numbers that are the same everywhere and for ever: xoshiro256**, seeded by
//! splitmix64. Written out here because a replay depends on every bit of it.
//!
//! D. Blackman, S. Vigna: Scrambled linear pseudorandom number generators (2018).

use std::cell::Cell;

/// One stream of numbers. Interior mutability, because its users are single-threaded.
#[derive(Debug)]
pub(crate) struct Rng {
    state: Cell<[u64; 4]>,
}

/// The step of splitmix64: 2⁶⁴ divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer of splitmix64.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// The stream number `stream` of a seed: different streams do not overlap in practice.
    pub(crate) fn new(seed: u64, stream: u64) -> Rng {
        // The number of the stream is mixed before it meets the seed: the states of one
        // stream are then no shifted copy of those of the next.
        let mut x = seed ^ mix(stream.wrapping_add(GOLDEN));
        let mut split = || {
            x = x.wrapping_add(GOLDEN);
            mix(x)
        };
        Rng { state: Cell::new([split(), split(), split(), split()]) }
    }

    pub(crate) fn next(&self) -> u64 {
        let mut s = self.state.get();
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        self.state.set(s);
        result
    }

    /// A number below `n`, which is not 0. The bias of less than n / 2⁶⁴ does not matter.
    pub(crate) fn below(&self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    // rule: S0-DETERM-2, S0-WORKER-7
    #[test]
    fn the_generator_is_the_published_one() {
        // The first outputs of xoshiro256** from the state 1, 2, 3, 4, computed by hand from
        // its definition: rotl(2 * 5, 7) * 9, and so on.
        let rng = Rng { state: Cell::new([1, 2, 3, 4]) };
        assert_eq!(rng.next(), 11_520);
        assert_eq!(rng.next(), 0);
        assert_eq!(rng.next(), 1_509_978_240);
    }

    // rule: S0-DETERM-3
    #[test]
    fn streams_of_a_seed_differ_and_repeat() {
        let numbers = |seed, stream| {
            let rng = Rng::new(seed, stream);
            (0..8).map(|_| rng.next()).collect::<Vec<_>>()
        };
        assert_eq!(numbers(1, 2), numbers(1, 2));
        assert_ne!(numbers(1, 2), numbers(1, 3));
        assert_ne!(numbers(1, 2), numbers(2, 2));
    }

    #[test]
    fn states_of_streams_share_nothing() {
        // A stream that starts from the shifted words of another would be close to it.
        for seed in [0, 1, u64::MAX] {
            let mut words: Vec<u64> =
                (0..1_000).flat_map(|stream| Rng::new(seed, stream).state.get()).collect();
            words.sort_unstable();
            words.dedup();
            assert_eq!(words.len(), 4_000, "seed {seed}");
        }
    }

    #[test]
    fn below_is_in_range_and_reaches_everything() {
        let rng = Rng::new(7, 0);
        let mut seen = [0; 5];
        for _ in 0..1_000 {
            seen[rng.below(5)] += 1;
        }
        assert!(seen.iter().all(|&n| n > 120), "{seen:?}");
    }
}
