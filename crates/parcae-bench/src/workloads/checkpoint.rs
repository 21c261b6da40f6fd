//! `checkpoint`: the cost of checkpoints in loops.
//!
//! `not_taken` is one checkpoint on its fast path: a loop with one in each round minus the same
//! loop without. The others are loops of real programs as ratios to the plain loop, which runs in
//! the same call: cut into chunks, with a checkpoint in each round, and under `#[budgeted]`. All
//! run on a task, alone on one worker.

use super::runtimes;
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae::prelude::*;
use parcae::profile::Service;
use std::hint::black_box;
use std::time::{Duration, Instant};

macro_rules! side {
    ($program:ident, $form:ident) => {
        Side::new(Peer::Parcae, |scale| compare(scale, &$program, $program.$form))
    };
}

pub(super) static CHECKPOINT: Workload = Workload {
    name: "checkpoint",
    rounds: Rounds { full: 15, quick: 3 },
    variants: &[
        Variant {
            name: "not_taken",
            about: "one checkpoint on its fast path",
            unit: "ns/checkpoint",
            better: Better::Lower,
            sides: &[Side::new(Peer::Parcae, not_taken)],
        },
        ratio("sum_strips", "adding up numbers, in chunks", &[side!(SUM, chunks)]),
        ratio("sum_naive", "adding up numbers, a checkpoint for each", &[side!(SUM, naive)]),
        ratio("sum_budgeted", "adding up numbers, #[budgeted]", &[side!(SUM, budgeted)]),
        ratio("hash_strips", "hashing bytes one by one, in chunks", &[side!(HASH, chunks)]),
        ratio("hash_naive", "hashing bytes, a checkpoint for each", &[side!(HASH, naive)]),
        ratio("hash_budgeted", "hashing bytes, #[budgeted]", &[side!(HASH, budgeted)]),
        ratio("matrix_strips", "a product of matrices, chunks of rows", &[side!(MATRIX, chunks)]),
        ratio("matrix_naive", "a product of matrices, a checkpoint for each multiplication", {
            &[side!(MATRIX, naive)]
        }),
        ratio("matrix_budgeted", "a product of matrices, #[budgeted]", &[side!(MATRIX, budgeted)]),
    ],
};

const fn ratio(name: &'static str, about: &'static str, sides: &'static [Side]) -> Variant {
    Variant { name, about, unit: "/plain", better: Better::Lower, sides }
}

/// A loop over some data, in four forms with the same result.
struct Program {
    plain: Form,
    chunks: Form,
    naive: Form,
    budgeted: Form,
}

type Form = fn(&Cx, &Data) -> parcae::Result<u64>;

struct Data {
    numbers: Vec<u64>,
    bytes: Vec<u8>,
    matrices: [Vec<f32>; 2],
}

/// Small enough for the caches: memory would hide the checkpoints.
const NUMBERS: usize = 16 << 10;
const BYTES: usize = 32 << 10;
const SIDE: usize = 64;

fn data() -> Data {
    let numbers = (0..NUMBERS as u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
    let bytes = (0..BYTES).map(|n| ((n * 31) >> 3) as u8).collect();
    let matrix = |salt| (0..SIDE * SIDE).map(|n| ((n * salt) % 17) as f32).collect();
    Data { numbers, bytes, matrices: [matrix(3), matrix(5)] }
}

fn on_task<R: Send>(body: impl FnOnce(&Cx) -> parcae::Result<R> + Send) -> Result<R, Failure> {
    let rt = runtimes::runtime::<Service>(1)?;
    Ok(rt.run(|cx| cx.nursery(|n| n.spawn(body)?.join()))?)
}

/// How much longer a form takes than the plain one. Both alternate every few microseconds, and the
/// medians count, so that other load on the machine does not.
fn compare(scale: &Scale, program: &'static Program, form: Form) -> Result<f64, Failure> {
    let data = data();
    let times = on_task(|cx| {
        let time = |form: Form| -> parcae::Result<(Duration, u64)> {
            let start = Instant::now();
            let result = black_box(form(cx, black_box(&data))?);
            Ok((start.elapsed(), result))
        };
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..scale.of(1000) {
            let [plain, other] = [time(program.plain)?, time(form)?];
            if plain.1 != other.1 {
                return Err(parcae::Error::msg("the forms do not agree"));
            }
            times[0].push(plain.0);
            times[1].push(other.0);
        }
        Ok(times)
    })?;
    let [plain, other] = times.map(median);
    Ok(other / plain)
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64()
}

fn not_taken(scale: &Scale) -> Result<f64, Failure> {
    const ROUNDS: usize = 10_000;
    let times = on_task(|cx| {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..scale.of(2000) {
            let start = Instant::now();
            for n in 0..ROUNDS {
                black_box(n);
            }
            times[0].push(start.elapsed());
            let start = Instant::now();
            for n in 0..ROUNDS {
                cx.checkpoint()?;
                black_box(n);
            }
            times[1].push(start.elapsed());
        }
        Ok(times)
    })?;
    let [without, with] = times.map(median);
    Ok((with - without) * 1e9 / ROUNDS as f64)
}

static SUM: Program = Program {
    plain: |_, data| Ok(sum_plain(&data.numbers)),
    chunks: |cx, data| {
        let mut sum = 0_u64;
        for chunk in cx.chunks(0..data.numbers.len()) {
            sum = sum.wrapping_add(sum_plain(&data.numbers[chunk?]));
        }
        Ok(sum)
    },
    naive: |cx, data| {
        let mut sum = 0_u64;
        for &n in &data.numbers {
            cx.checkpoint()?;
            sum = sum.wrapping_add(n);
        }
        Ok(sum)
    },
    budgeted: |_, data| Ok(sum_budgeted(&data.numbers)),
};

/// Never inlined: the plain form and the one in chunks run the same loop at the same address. Two
/// copies of it differ by a factor of two on some processors, depending on their alignment.
#[inline(never)]
fn sum_plain(numbers: &[u64]) -> u64 {
    let mut sum = 0_u64;
    for &n in numbers {
        sum = sum.wrapping_add(n);
    }
    sum
}

#[budgeted]
fn sum_budgeted(numbers: &[u64]) -> u64 {
    let mut sum = 0_u64;
    for &n in numbers {
        sum = sum.wrapping_add(n);
    }
    sum
}

/// FNV-1a: each step depends on the one before.
#[inline(always)]
fn mix(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
}

static HASH: Program = Program {
    plain: |_, data| Ok(hash_plain(&data.bytes)),
    chunks: |cx, data| {
        let mut hash = 0;
        for chunk in cx.chunks(0..data.bytes.len()) {
            hash = data.bytes[chunk?].iter().fold(hash, |hash, &byte| mix(hash, byte));
        }
        Ok(hash)
    },
    naive: |cx, data| {
        let mut hash = 0;
        for &byte in &data.bytes {
            cx.checkpoint()?;
            hash = mix(hash, byte);
        }
        Ok(hash)
    },
    budgeted: |_, data| Ok(hash_budgeted(&data.bytes)),
};

#[inline(never)]
fn hash_plain(bytes: &[u8]) -> u64 {
    let mut hash = 0;
    for &byte in bytes {
        hash = mix(hash, byte);
    }
    hash
}

#[budgeted]
fn hash_budgeted(bytes: &[u8]) -> u64 {
    let mut hash = 0;
    for &byte in bytes {
        hash = mix(hash, byte);
    }
    hash
}

static MATRIX: Program = Program {
    plain: |_, data| {
        let mut product = vec![0.0; SIDE * SIDE];
        matrix_plain(&data.matrices, &mut product);
        Ok(digest(&product))
    },
    // A row of the product for each step: the inner loops are as they were.
    chunks: |cx, data| {
        let mut product = vec![0.0; SIDE * SIDE];
        for chunk in cx.chunks(0..SIDE) {
            for row in chunk? {
                matrix_row(&data.matrices, row, &mut product[row * SIDE..][..SIDE]);
            }
        }
        Ok(digest(&product))
    },
    naive: |cx, data| {
        let mut product = vec![0.0; SIDE * SIDE];
        let [left, right] = &data.matrices;
        for row in 0..SIDE {
            let product = &mut product[row * SIDE..][..SIDE];
            for k in 0..SIDE {
                let factor = left[row * SIDE + k];
                for (sum, &other) in product.iter_mut().zip(&right[k * SIDE..][..SIDE]) {
                    cx.checkpoint()?;
                    *sum += factor * other;
                }
            }
        }
        Ok(digest(&product))
    },
    budgeted: |_, data| {
        let mut product = vec![0.0; SIDE * SIDE];
        matrix_budgeted(&data.matrices, &mut product);
        Ok(digest(&product))
    },
};

fn digest(product: &[f32]) -> u64 {
    product.iter().map(|&n| n as u64).sum()
}

#[inline(always)]
fn matrix_row([left, right]: &[Vec<f32>; 2], row: usize, product: &mut [f32]) {
    for k in 0..SIDE {
        let factor = left[row * SIDE + k];
        for (sum, &other) in product.iter_mut().zip(&right[k * SIDE..][..SIDE]) {
            *sum += factor * other;
        }
    }
}

#[inline(never)]
fn matrix_plain(matrices: &[Vec<f32>; 2], product: &mut [f32]) {
    for (row, product) in product.chunks_exact_mut(SIDE).enumerate() {
        matrix_row(matrices, row, product);
    }
}

#[budgeted]
fn matrix_budgeted([left, right]: &[Vec<f32>; 2], product: &mut [f32]) {
    for (row, product) in product.chunks_exact_mut(SIDE).enumerate() {
        for k in 0..SIDE {
            let factor = left[row * SIDE + k];
            for (sum, &other) in product.iter_mut().zip(&right[k * SIDE..][..SIDE]) {
                *sum += factor * other;
            }
        }
    }
}
