//! A closure enters for itself, once for each call.

mod mock;

use mock::count;
use parcae_macros::budgeted;

#[test]
fn each_call_enters() {
    #[budgeted(crate = crate::mock)]
    fn calls(n: u64) -> u64 {
        let double = |x| x * 2;
        let mut sum = 0;
        for i in 0..n {
            sum += double(i);
        }
        sum
    }
    assert_eq!(count(|| calls(3)), (1 + 3, 3, 6));
    assert_eq!(count(|| calls(0)), (1, 0, 0));
}

#[test]
fn fn_mut_and_its_loop_pay() {
    #[budgeted(crate = crate::mock)]
    fn fill(target: &mut Vec<u64>) {
        let mut add = |times| {
            for i in 0..times {
                target.push(i);
            }
        };
        add(2);
        add(3);
    }
    let mut target = Vec::new();
    assert_eq!(count(|| fill(&mut target)), (1 + 2, 5, ()));
    assert_eq!(target, [0, 1, 0, 1, 2]);
}

#[test]
fn fn_once_and_move_pay_where_they_run() {
    #[budgeted(crate = crate::mock)]
    fn make(values: Vec<u64>) -> impl FnOnce() -> u64 + Send {
        move || {
            let mut sum = 0;
            for value in values {
                sum += value;
            }
            sum
        }
    }
    let (entered, ticked, sum) = count(|| make(vec![1, 2, 3]));
    assert_eq!((entered, ticked), (1, 0));
    let there = std::thread::spawn(move || count(sum)).join().unwrap();
    assert_eq!(there, (1, 3, 6));
}

#[test]
fn closures_nest() {
    #[budgeted(crate = crate::mock)]
    fn nested() -> u64 {
        let outer = |n: u64| {
            let inner = |m: u64| {
                let mut turns = 0;
                while turns < m {
                    turns += 1;
                }
                turns
            };
            let mut sum = 0;
            for i in 0..n {
                sum += inner(i);
            }
            sum
        };
        outer(4)
    }
    // outer and 4 times inner; 4 turns of the one, 0 + 1 + 2 + 3 of the other.
    assert_eq!(count(nested), (1 + 1 + 4, 4 + 6, 6));
}

#[test]
fn a_loop_around_a_closure_uses_its_own_meter() {
    #[budgeted(crate = crate::mock)]
    fn around() -> Vec<Box<dyn Fn() -> u64 + Send>> {
        let mut made: Vec<Box<dyn Fn() -> u64 + Send>> = Vec::new();
        for i in 0..2 {
            made.push(Box::new(move || {
                let mut left = i;
                loop {
                    if left == 0 {
                        return i;
                    }
                    left -= 1;
                }
            }));
        }
        made
    }
    let (entered, ticked, made) = count(around);
    assert_eq!((entered, ticked), (1, 2));
    assert_eq!(count(|| made[1]()), (1, 2, 1));
}

#[test]
fn iterators_pay_for_each_closure_that_they_call() {
    #[budgeted(crate = crate::mock)]
    fn chain(values: &[u64]) -> u64 {
        values.iter().map(|value| value + 1).filter(|value| value % 2 == 0).sum()
    }
    assert_eq!(count(|| chain(&[1, 2, 3])), (1 + 3 + 3, 0, 6));
}

#[test]
fn an_endless_iterator_with_a_closure_is_stopped() {
    #[budgeted(crate = crate::mock)]
    fn endless() -> Option<u64> {
        (0_u64..).find(|_| false)
    }
    assert!(mock::limited(50, endless).is_none());
}

#[test]
fn expression_bodies_mean_what_they_did() {
    struct Point {
        x: i32,
    }
    #[budgeted(crate = crate::mock)]
    #[allow(clippy::redundant_closure_call)]
    #[rustfmt::skip]
    fn bodies() -> [i32; 8] {
        let pointer: fn(i32) -> i32 = |x| x + 1;
        let typed = |x: i32| -> i32 { x };
        let two_terms = |x: i32| match x { 0 => 5, _ => 6 } - 1;
        let braces_first = |x: i32| { x } + 1;
        let labelled = |x: i32| 'value: { if x > 0 { break 'value 1 } 2 };
        let literal = |x: i32| Point { x };
        let returns = |x: i32| return x;
        let curried = |x: i32| move |y: i32| x * y;
        [
            pointer(1),
            typed(2),
            two_terms(0),
            braces_first(3),
            labelled(1),
            literal(7).x,
            returns(8),
            curried(3)(3),
        ]
    }
    assert_eq!(count(bodies), (1 + 9, 0, [2, 2, 4, 4, 1, 7, 8, 9]));
}

#[test]
fn references_pass_through() {
    #[budgeted(crate = crate::mock)]
    fn longest<'a>(words: &[&'a str]) -> Option<&'a str> {
        let length = |word: &&str| word.len();
        words.iter().copied().max_by_key(|word| length(word))
    }
    assert_eq!(count(|| longest(&["a", "abc", "ab"])), (1 + 3 + 3, 0, Some("abc")));
}
