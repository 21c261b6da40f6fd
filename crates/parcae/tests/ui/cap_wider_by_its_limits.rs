//! Limits are a copy: changing them changes nothing, and there is no way to put them back.

use parcae::cap::CapSpawn;

fn widen(cap: &mut CapSpawn) {
    cap.limits().max_tasks = 1_000;
    cap.set_limits(cap.limits());
    //~ error[E0599]: no method named `set_limits` found for mutable reference `&mut CapSpawn` in
    //~    the current scope
}

fn main() {}
