//! What instrumented code counts with stays on its task.

fn main() {
    let meter = unsafe { parcae::__private::enter() };
    std::thread::spawn(move || meter.tick());
}
