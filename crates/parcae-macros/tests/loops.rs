//! Every form of loop is charged once for each turn, however it is left.

#![allow(clippy::never_loop)] // a loop of one turn is the shortest one that pays

mod mock;

use mock::count;
use parcae_macros::budgeted;

#[test]
fn for_pays_for_each_element() {
    #[budgeted(crate = crate::mock)]
    fn sum(n: u64) -> u64 {
        let mut sum = 0;
        for i in 0..n {
            sum += i;
        }
        sum
    }
    assert_eq!(count(|| sum(5)), (1, 5, 10));
    assert_eq!(count(|| sum(0)), (1, 0, 0));
}

#[test]
fn while_pays_for_each_turn_and_not_for_the_last_test() {
    #[budgeted(crate = crate::mock)]
    fn halvings(mut n: u64) -> u64 {
        let mut halvings = 0;
        while n > 1 {
            n /= 2;
            halvings += 1;
        }
        halvings
    }
    assert_eq!(count(|| halvings(16)), (1, 4, 4));
}

#[test]
fn while_with_an_empty_body_pays() {
    #[budgeted(crate = crate::mock)]
    fn spin(mut next: impl Iterator<Item = bool>) {
        while !next.next().unwrap_or(true) {}
    }
    assert_eq!(count(|| spin([false, false, true].into_iter())), (1, 2, ()));
}

#[test]
fn while_let_pays_for_each_match() {
    #[budgeted(crate = crate::mock)]
    fn drain(mut stack: Vec<u64>) -> u64 {
        let mut sum = 0;
        while let Some(top) = stack.pop() {
            sum += top;
        }
        sum
    }
    assert_eq!(count(|| drain(vec![1, 2, 3])), (1, 3, 6));
}

#[test]
fn while_with_a_chain_of_lets_pays_for_each_match() {
    #[budgeted(crate = crate::mock)]
    fn drain_until(mut stack: Vec<u64>, end: u64) -> usize {
        while let Some(top) = stack.pop()
            && top != end
        {}
        stack.len()
    }
    assert_eq!(count(|| drain_until(vec![1, 2, 3, 4], 2)), (1, 2, 1));
}

#[test]
fn loop_breaks_with_its_value() {
    #[budgeted(crate = crate::mock)]
    fn first_power_above(limit: u64) -> u64 {
        let mut power = 1;
        loop {
            if power > limit {
                break power;
            }
            power *= 2;
        }
    }
    assert_eq!(count(|| first_power_above(5)), (1, 4, 8));
}

#[test]
fn loops_nest() {
    #[budgeted(crate = crate::mock)]
    fn triangle(n: u64) -> u64 {
        let mut cells = 0;
        for row in 0..n {
            let mut column = 0;
            while column < row {
                loop {
                    cells += 1;
                    break;
                }
                column += 1;
            }
        }
        cells
    }
    // 4 rows, 6 cells, and the loop in each cell.
    assert_eq!(count(|| triangle(4)), (1, 4 + 6 + 6, 6));
}

#[test]
fn labels_lead_where_they_did() {
    #[budgeted(crate = crate::mock)]
    fn search(rows: &[&[i32]], wanted: i32) -> Option<(usize, usize)> {
        'search: loop {
            'row: for (y, row) in rows.iter().enumerate() {
                for (x, &cell) in row.iter().enumerate() {
                    if cell < 0 {
                        continue 'row;
                    }
                    if cell == wanted {
                        break 'search Some((x, y));
                    }
                }
            }
            break None;
        }
    }
    let rows: &[&[i32]] = &[&[1, -1, 7], &[2, 7, 3], &[4]];
    // The loop; 2 rows; 2 cells of the first, 2 of the second.
    assert_eq!(count(|| search(rows, 7)), (1, 1 + 2 + 4, Some((1, 1))));
    // The loop; 3 rows; 2, 3 and 1 cells.
    assert_eq!(count(|| search(rows, 9)), (1, 1 + 3 + 6, None));
}

#[test]
fn continue_pays_for_the_next_turn() {
    #[budgeted(crate = crate::mock)]
    fn odd(n: u64) -> u64 {
        let mut odd = 0;
        for i in 0..n {
            if i % 2 == 0 {
                continue;
            }
            odd += 1;
        }
        odd
    }
    assert_eq!(count(|| odd(6)), (1, 6, 3));
}

#[test]
fn a_question_mark_leaves_the_loop() {
    #[budgeted(crate = crate::mock)]
    fn total(words: &[&str]) -> Result<i32, std::num::ParseIntError> {
        let mut total = 0;
        for word in words {
            total += word.parse::<i32>()?;
        }
        Ok(total)
    }
    assert_eq!(count(|| total(&["1", "2"]).unwrap()), (1, 2, 3));
    assert_eq!(count(|| total(&["1", "x", "2"]).is_err()), (1, 2, true));
}

#[test]
fn return_leaves_the_loop() {
    #[budgeted(crate = crate::mock)]
    fn position(values: &[i32], wanted: i32) -> Option<usize> {
        for (index, &value) in values.iter().enumerate() {
            if value == wanted {
                return Some(index);
            }
        }
        None
    }
    assert_eq!(count(|| position(&[5, 6, 7], 6)), (1, 2, Some(1)));
}

#[test]
fn loops_are_found_wherever_an_expression_can_be() {
    #[budgeted(crate = crate::mock)]
    fn everywhere(n: u64) -> u64 {
        let once = |value| value;
        let Some(a) = Some(loop {
            break n;
        }) else {
            loop {}
        };
        let b = match a {
            0 => 0,
            _ if loop {
                break true;
            } =>
            {
                let mut turns = 0;
                for _ in {
                    for _ in 0..1 {}
                    0..2
                } {
                    turns += 1;
                }
                turns
            }
            _ => unreachable!(),
        };
        let c = once(loop {
            break 1;
        });
        // SAFETY: nothing in it needs any.
        #[allow(unused_unsafe)]
        let d = unsafe {
            'block: {
                loop {
                    break 'block 1;
                }
            }
        };
        a + b
            + c
            + d
            + [loop {
                break 1;
            }; 3][2]
    }
    // The closure is called once. Loops: let, guard, iterator, 2 turns, argument, block, array.
    assert_eq!(count(|| everywhere(1)), (2, 8, 6));
}

#[test]
fn inner_attributes_of_a_body_stay_first() {
    #[budgeted(crate = crate::mock)]
    fn quiet() {
        #![allow(unused_variables)]
        let unused = 1;
        for _ in 0..2 {
            let unused = 2;
        }
    }
    assert_eq!(count(quiet), (1, 2, ()));
}

#[test]
fn a_function_that_never_returns_is_stopped() {
    #[budgeted(crate = crate::mock)]
    fn forever() -> ! {
        loop {}
    }
    let (entered, ticked, result) = count(|| mock::limited(100, || forever()));
    assert_eq!((entered, ticked), (1, 100));
    assert!(result.is_none());
}
