//! Generated code gives no warnings, however strict the user is: this file must compile, and
//! pass clippy, with everything denied that could look at it.

mod mock;

mod strict {
    #![deny(warnings, unused, unused_qualifications)]
    #![deny(clippy::all, clippy::pedantic, clippy::nursery, clippy::absolute_paths)]
    #![deny(clippy::shadow_unrelated, clippy::shadow_reuse, clippy::shadow_same)]
    #![allow(unreachable_pub, reason = "clippy wants the opposite")]

    use super::mock;
    use parcae_macros::budgeted;

    #[budgeted(crate = mock)]
    pub fn nothing() {}

    #[budgeted(crate = mock)]
    pub fn item_first(value: i32) -> i32 {
        const TWO: i32 = 2;
        value * TWO
    }

    #[budgeted(crate = mock)]
    pub fn loops(values: &[i32]) -> i32 {
        let mut sum = 0;
        for value in values {
            for _ in 0..*value {
                sum += 1;
            }
        }
        while sum > 100 {
            sum -= 1;
        }
        loop {
            if sum < 10 {
                return sum;
            }
            sum /= 2;
        }
    }

    #[budgeted(crate = mock)]
    pub fn closures(values: &[i32]) -> usize {
        let unit = |_: i32| ();
        unit(1);
        let calls_for_unit = || unit(2);
        calls_for_unit();
        if values.iter().any(|value| *value > 3) {
            return 1;
        }
        let block = |value: &i32| {
            let mut left = *value;
            while left > 0 {
                left -= 1;
            }
            left
        };
        values.iter().map(block).map(|left| left + 1).count()
    }

    #[budgeted(crate = mock)]
    pub fn never() -> ! {
        loop {
            nothing();
        }
    }
}

#[test]
fn strict_code_runs() {
    strict::nothing();
    assert_eq!(strict::item_first(2), 4);
    assert_eq!(strict::loops(&[2, 3]), 5);
    assert_eq!(strict::closures(&[1, 2]), 2);
    assert!(mock::limited(3, || strict::never()).is_none());
}
