//! The meter of instrumented code stays on its task.

fn main() {
    let meter = unsafe { parcae::__private::enter() };
    std::thread::spawn(move || meter.tick());
    //~ error[E0277]: `NonNull<parcae::scope::cx::frame::Frame>` cannot be sent between threads
    //~    safely
}
