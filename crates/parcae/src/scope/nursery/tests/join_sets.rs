//! Sets of children: what is left of them.

use super::*;
use crate::nursery::JoinSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Of a set that is dropped nothing remains, whatever its children do: they have ended, end
/// meanwhile, or run on; their handles had waiters before or not.
#[test]
fn nothing_of_a_set_remains_after_it() {
    everywhere(|cx| {
        for turns in 0..6 {
            let values = Arc::new(());
            let mut left = Weak::new();
            cx.nursery(|n| {
                let mut set = JoinSet::new();
                for i in 0..6_u64 {
                    let value = Arc::clone(&values);
                    let child = n.spawn(move |cx| {
                        (0..i).try_for_each(|_| cx.yield_now())?;
                        Ok(value)
                    })?;
                    // Every other handle has an end of its own.
                    let child =
                        if i % 2 == 0 { Err(child) } else { child.join_timeout(Duration::ZERO) };
                    match child {
                        Ok(result) => drop(result?),
                        Err(child) => set.insert(child),
                    }
                }
                (0..turns).try_for_each(|_| cx.yield_now())?;
                drop(set.try_join_next().transpose()?);
                left = set.weak();
                drop(set);
                Ok(())
            })?;
            assert_eq!(left.strong_count(), 0, "a child was counted before it told its set");
            assert_eq!(Arc::strong_count(&values), 1, "a result was kept");
        }
        Ok(())
    });
}
