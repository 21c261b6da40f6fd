//! `cockroach#13755`: a watcher that waits for a cancellation which never comes.
//!
//! Each query starts a task that waits for the query's token, to abort the query when the token is
//! cancelled. Closing the rows cancels the token. Rows that are dropped without being closed leave
//! the watcher behind.
//!
//! Order that shows it: any. Kind: leak. Tasks: 1 and the root.

use parcae::prelude::*;
use parcae::{Result, Runtime};

/// The rows of a query. They must be closed.
struct Rows {
    query: CancelToken,
    left: u32,
}

impl Rows {
    fn of_query(rt: &Handle) -> Result<Rows> {
        let query = CancelToken::new();
        let watched = query.clone();
        rt.spawn(move |_| watched.wait().map(drop))?;
        Ok(Rows { query, left: 3 })
    }

    fn next(&mut self) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        Some(self.left)
    }

    fn close(self) {
        self.query.cancel();
    }
}

fn run(rt: &Runtime, end: fn(Rows)) -> Result<()> {
    let handle = rt.handle();
    rt.run(|_| {
        let mut rows = Rows::of_query(&handle)?;
        let first = rows.next();
        end(rows);
        assert_eq!(first, Some(2));
        Ok(())
    })
}

/// With the bug: one row is enough, and the others are forgotten.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, drop)
}

/// The rows are closed.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, Rows::close)
}
