//! `par`: loops over slices, by the parallel helpers of each library.
//!
//! `sum` adds up a million numbers in chunks of 4096: little work for each byte. `map` hashes each
//! of 200,000 numbers a hundred times and collects the results: much work. `sort` sorts a million
//! numbers with a stable sort. `std` is the plain loop on one thread.

use super::runtimes;
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae::prelude::*;
use parcae::profile::Service;
use rayon::prelude::*;
use std::hint::black_box;
use std::time::Instant;

pub(super) static PAR: Workload = Workload {
    name: "par",
    rounds: Rounds { full: 9, quick: 2 },
    variants: &[
        variant("sum_w1", "1,000,000 numbers added up in chunks; one worker", &sum::<1>()),
        variant("sum_w2", "1,000,000 numbers added up in chunks; two workers", &sum::<2>()),
        variant("map_w1", "200,000 numbers hashed and collected; one worker", &map::<1>()),
        variant("map_w2", "200,000 numbers hashed and collected; two workers", &map::<2>()),
        variant("sort_w1", "1,000,000 numbers sorted, stable; one worker", &sort::<1>()),
        variant("sort_w2", "1,000,000 numbers sorted, stable; two workers", &sort::<2>()),
    ],
};

const fn variant(name: &'static str, about: &'static str, sides: &'static [Side]) -> Variant {
    Variant { name, about, unit: "us", better: Better::Lower, sides }
}

const fn sum<const WORKERS: usize>() -> [Side; 3] {
    [
        Side::new(Peer::Parcae, |scale| parcae(WORKERS, || numbers(scale, 1_000_000), parcae_sum)),
        Side::new(Peer::Rayon, |scale| rayon(WORKERS, || numbers(scale, 1_000_000), rayon_sum)),
        Side::new(Peer::Std, |scale| plain(|| numbers(scale, 1_000_000), plain_sum)),
    ]
}

const fn map<const WORKERS: usize>() -> [Side; 3] {
    [
        Side::new(Peer::Parcae, |scale| parcae(WORKERS, || numbers(scale, 200_000), parcae_map)),
        Side::new(Peer::Rayon, |scale| rayon(WORKERS, || numbers(scale, 200_000), rayon_map)),
        Side::new(Peer::Std, |scale| plain(|| numbers(scale, 200_000), plain_map)),
    ]
}

const fn sort<const WORKERS: usize>() -> [Side; 3] {
    [
        Side::new(Peer::Parcae, |scale| parcae(WORKERS, || numbers(scale, 1_000_000), parcae_sort)),
        Side::new(Peer::Rayon, |scale| rayon(WORKERS, || numbers(scale, 1_000_000), rayon_sort)),
        Side::new(Peer::Std, |scale| plain(|| numbers(scale, 1_000_000), plain_sort)),
    ]
}

const CHUNK: usize = 4_096;
/// Repetitions of one measurement, after one that wakes the workers.
const TIMES: u32 = 5;

/// Numbers in no order.
fn numbers(scale: &Scale, count: usize) -> Vec<u64> {
    (0..scale.of(count) as u64).map(hash).collect()
}

fn hash(number: u64) -> u64 {
    let mixed = (number ^ (number >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ (mixed >> 29)
}

fn hash_often(&number: &u64) -> u64 {
    (0..100).fold(number, |mixed, round| hash(mixed ^ round))
}

/// Microseconds of a call, each with data of its own.
fn timed<R>(
    make: impl Fn() -> Vec<u64>,
    mut call: impl FnMut(&mut [u64]) -> Result<R, Failure>,
) -> Result<f64, Failure> {
    let mut total = 0.0;
    for time in 0..=TIMES {
        let mut data = make();
        let start = Instant::now();
        black_box(call(&mut data)?);
        if time > 0 {
            total += start.elapsed().as_nanos() as f64;
        }
    }
    Ok(total / f64::from(TIMES) / 1_000.0)
}

fn parcae<R: Send>(
    workers: usize,
    make: impl Fn() -> Vec<u64>,
    call: fn(&Cx, &mut [u64]) -> parcae::Result<R>,
) -> Result<f64, Failure> {
    let rt = runtimes::runtime::<Service>(workers)?;
    timed(make, |data| Ok(rt.run(|cx| call(cx, data))?))
}

fn rayon<R: Send>(
    workers: usize,
    make: impl Fn() -> Vec<u64>,
    call: fn(&mut [u64]) -> R,
) -> Result<f64, Failure> {
    let pool = runtimes::rayon(workers)?;
    timed(make, |data| Ok(pool.install(|| call(data))))
}

fn plain<R>(make: impl Fn() -> Vec<u64>, call: fn(&mut [u64]) -> R) -> Result<f64, Failure> {
    timed(make, |data| Ok(call(data)))
}

/// Numbers added up, without an overflow.
fn add(chunk: &[u64]) -> u64 {
    chunk.iter().fold(0, |sum, &number| sum.wrapping_add(number))
}

fn parcae_sum(cx: &Cx, data: &mut [u64]) -> parcae::Result<u64> {
    let sums = cx.par_chunks(data, CHUNK, |_, chunk| Ok(add(chunk)))?;
    Ok(add(&sums))
}

fn rayon_sum(data: &mut [u64]) -> u64 {
    data.par_chunks(CHUNK).map(add).reduce(|| 0, u64::wrapping_add)
}

fn plain_sum(data: &mut [u64]) -> u64 {
    data.chunks(CHUNK).map(add).fold(0, u64::wrapping_add)
}

fn parcae_map(cx: &Cx, data: &mut [u64]) -> parcae::Result<Vec<u64>> {
    cx.par_map(data, |number| Ok(hash_often(number)))
}

fn rayon_map(data: &mut [u64]) -> Vec<u64> {
    data.par_iter().map(hash_often).collect()
}

fn plain_map(data: &mut [u64]) -> Vec<u64> {
    data.iter().map(hash_often).collect()
}

fn parcae_sort(cx: &Cx, data: &mut [u64]) -> parcae::Result<()> {
    cx.par_sort(data)
}

fn rayon_sort(data: &mut [u64]) {
    data.par_sort();
}

fn plain_sort(data: &mut [u64]) {
    data.sort();
}
