//! Code that is left alone: other items, code that the compiler evaluates, macros, calls, and async
//! blocks.

#![allow(clippy::never_loop, clippy::useless_vec)] // no more code than is to be left alone

mod mock;

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use mock::count;
use parcae_macros::budgeted;

#[test]
fn items_in_the_body_are_functions_of_their_own() {
    #[budgeted(crate = crate::mock)]
    fn outer() -> u64 {
        fn free(n: u64) -> u64 {
            for _ in 0..n {}
            n
        }
        struct Local;
        impl Local {
            fn method(&self, n: u64) -> u64 {
                for _ in 0..n {}
                n
            }
        }
        #[budgeted(crate = crate::mock)]
        fn annotated(n: u64) -> u64 {
            for _ in 0..n {}
            n
        }
        free(3) + Local.method(4) + annotated(5)
    }
    assert_eq!(count(outer), (2, 5, 12));
}

#[test]
fn what_the_compiler_runs_is_not_charged() {
    const fn identity<const N: usize>(array: [u8; N]) -> usize {
        array.len()
    }
    #[budgeted(crate = crate::mock)]
    fn constants() -> usize {
        const ITEM: usize = {
            let mut i = 0;
            while i < 3 {
                i += 1;
            }
            i
        };
        static STATIC: usize = loop {
            break 1;
        };
        let block = const {
            let mut i = 0;
            while i < 4 {
                i += 1;
            }
            i
        };
        let typed: [u8; loop {
            break 2;
        }] = [0; 2];
        let repeated = [0_u8; {
            let mut i = 0;
            while i < 5 {
                i += 1;
            }
            i
        }];
        let argument = identity::<
            {
                loop {
                    break 1;
                }
            },
        >([0]);
        ITEM + STATIC + block + typed.len() + repeated.len() + argument
    }
    assert_eq!(count(constants), (1, 0, 3 + 1 + 4 + 2 + 5 + 1));
}

#[test]
fn macros_are_not_seen() {
    macro_rules! repeat {
        ($times:expr, $body:expr) => {
            for _ in 0..$times {
                $body;
            }
        };
    }
    #[budgeted(crate = crate::mock)]
    fn with_macros() -> usize {
        let mut turns = 0;
        repeat!(3, turns += 1);
        let values = vec![
            loop {
                break 1;
            };
            2
        ];
        turns + values.len()
    }
    assert_eq!(count(with_macros), (1, 0, 5));
}

#[test]
fn loops_of_functions_that_are_called_are_not_seen() {
    #[budgeted(crate = crate::mock)]
    fn calls(n: u64) -> u64 {
        let mut values: Vec<u64> = (0..n).rev().collect();
        values.sort_unstable();
        values.iter().sum()
    }
    assert_eq!(count(|| calls(10)), (1, 0, 45));
}

#[test]
fn async_code_without_loops_is_left_alone() {
    #[budgeted(crate = crate::mock)]
    fn future(n: u64) -> impl Future<Output = u64> {
        let double = async |x: u64| x * 2;
        for _ in 0..2 {}
        let future = async move {
            let add = |x: u64| x + 1;
            add(double(n).await)
        };
        for _ in 0..2 {}
        future
    }
    // The loops between and after async code are plain code.
    let (entered, ticked, future) = count(|| future(3));
    assert_eq!((entered, ticked), (1, 4));
    let mut future = pin!(future);
    let poll = || future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(count(poll), (0, 0, Poll::Ready(7)));
}
