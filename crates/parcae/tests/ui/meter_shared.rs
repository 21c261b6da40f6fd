//! No thread counts for another.

fn main() {
    let meter = unsafe { parcae::__private::enter() };
    std::thread::scope(|s| {
        s.spawn(|| meter.tick());
    });
}
