//! No thread counts for another.

fn main() {
    let meter = unsafe { parcae::__private::enter() };
    std::thread::scope(|s| {
        s.spawn(|| meter.tick());
        //~ error[E0277]: `NonNull<parcae::scope::cx::frame::Frame>` cannot be shared between
        //~    threads safely
        //~ help: within `parcae::__private::Meter`, the trait `Sync` is not implemented for
        //~    `NonNull<parcae::scope::cx::frame::Frame>`
    });
}
