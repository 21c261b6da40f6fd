//! Limits are a copy: changing them changes nothing, and there is no way to put them back.

use parcae::cap::CapSpawn;

fn widen(cap: &mut CapSpawn) {
    cap.limits().max_tasks = 1_000;
    cap.set_limits(cap.limits());
}

fn main() {}
