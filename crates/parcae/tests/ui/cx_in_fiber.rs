//! A fiber may outlive the task, and cannot have its context.

use parcae::fiber::Fiber;
use parcae::prelude::*;
use parcae::stack::{StackPool, StackSize};

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        let pool = StackPool::new()?;
        let mut fiber = Fiber::new(pool.acquire(StackSize::CORE)?, "fiber")?;
        let _ = fiber.start(|_| drop(cx.checkpoint()));
        //~ error[E0521]: borrowed data escapes outside of closure
        //~ label: `cx` escapes the closure body here
        Ok(())
    });
}
