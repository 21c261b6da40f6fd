//! A place is taken, not made.

use parcae::cap::TaskPermit;

fn main() {
    let _ = TaskPermit;
    //~ error[E0423]: expected value, found struct `TaskPermit`
    //~ label: constructor is not visible here due to private fields
}
