//! Fibers without the scheduler: two of them take turns, and a backtrace shows where one waits.

use parcae::fiber::{Fiber, Step, Suspender};
use parcae::stack::{StackPool, StackSize};
use std::error::Error;

#[inline(never)]
fn count(name: &str, here: &Suspender<'_>) {
    for n in 1..=2 {
        println!("{name} {n}");
        here.suspend().expect("not called by a destructor");
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let pool = StackPool::new()?;
    let mut spin = Fiber::new(pool.acquire(StackSize::SERVICE)?, "spin")?;
    let mut measure = Fiber::new(pool.acquire(StackSize::SERVICE)?, "measure")?;

    spin.start(|here| count("spin", here))?.propagate();
    measure.start(|here| count("measure", here))?.propagate();
    spin.resume()?.propagate();

    let frames = spin.backtrace().expect("it is suspended").to_string();
    let place = frames.lines().find(|line| line.contains("first.rs")).unwrap_or("?");
    println!("spin waits at {}", place.rsplit('/').next().unwrap_or("?"));

    // A panic stays in its fiber. (This way of raising one prints no message.)
    let mut cut = Fiber::new(pool.acquire(StackSize::SERVICE)?, "cut")?;
    if let Step::Panicked(why) = cut.start(|_| std::panic::resume_unwind(Box::new("snip")))? {
        println!("cut panicked: {}", why.downcast_ref::<&str>().unwrap_or(&"?"));
    }

    // Dropping suspended fibers unwinds them: their values are dropped.
    drop((spin, measure, cut));
    println!("{} stacks in use, guards: {}", pool.stats().in_use, pool.guard());
    Ok(())
}
