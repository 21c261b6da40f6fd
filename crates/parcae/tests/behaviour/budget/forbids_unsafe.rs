//! `#[budgeted]` in a module that forbids unsafe code.

#![forbid(unsafe_code)]

use parcae::prelude::*;

#[budgeted]
fn sum(numbers: &[u64]) -> u64 {
    let mut sum = 0;
    for number in numbers {
        sum += (|| *number)();
    }
    sum
}

#[test]
fn budgeted_functions_are_allowed() {
    assert_eq!(sum(&[1, 2, 3]), 6);
}
