//! Lines per second of each pass of the front-end, over the examples repeated:
//! `cargo run --release -p parcae-lang --example speed`. Best of several rounds.

use parcae_lang::{Profile, Source, check, format, lower};
use std::path::Path;
use std::time::{Duration, Instant};

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/jan");
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .expect("the examples")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jan"))
        .collect();
    names.sort();
    let sources: Vec<Source> = names
        .iter()
        .map(|path| Source::new("speed.jan", std::fs::read_to_string(path).expect("a program")))
        .collect();
    let lines: usize = sources.iter().map(|source| source.text().lines().count()).sum();
    measure("parse and print", lines, || {
        sources.iter().for_each(|source| drop(format(source).expect("correct")));
    });
    measure("parse and check", lines, || {
        sources.iter().for_each(|source| check(source, Profile::Core).expect("correct"));
    });
    measure("parse, check and lower", lines, || {
        sources.iter().for_each(|source| drop(lower(source, Profile::Core).expect("correct")));
    });
}

fn measure(name: &str, lines: usize, pass: impl Fn()) {
    const REPEATED: u32 = 40;
    let best = (0..15)
        .map(|_| {
            let start = Instant::now();
            (0..REPEATED).for_each(|_| pass());
            start.elapsed()
        })
        .min()
        .unwrap_or(Duration::MAX);
    let rate = lines as f64 * f64::from(REPEATED) / best.as_secs_f64();
    println!("{name:24} {:.2} million lines per second", rate / 1e6);
}
