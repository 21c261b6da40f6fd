//! A place is taken, not made.

use parcae::cap::TaskPermit;

fn main() {
    let _ = TaskPermit;
}
