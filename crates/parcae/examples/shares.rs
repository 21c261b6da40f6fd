//! Shares: three tenants compute on the same workers, and get time by weight. One of them has ten
//! times the tasks of the others, which gains it nothing.

use parcae::policy::Weight;
use parcae::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn main() -> parcae::Result<()> {
    let rt = Runtime::builder().workers(1).build()?;
    let done = AtomicBool::new(false);
    rt.run(|cx| {
        cx.nursery(|tenants| {
            for (name, weight, tasks) in
                [("free", 1024, 100), ("paid", 2048, 10), ("gold", 4096, 10)]
            {
                let done = &done;
                tenants.spawn(move |cx| {
                    let share = Weight::new(weight).expect("a weight");
                    let opts = NurseryOpts::new().name(name).share(share);
                    cx.nursery_with(opts, |n| {
                        for _ in 0..tasks {
                            n.spawn(move |cx| {
                                while !done.load(Ordering::Relaxed) {
                                    cx.checkpoint()?;
                                }
                                Ok(())
                            })?;
                        }
                        Ok(())
                    })
                })?;
            }
            println!("tenant  weight   wanted  feasible  got     ran      turns");
            for _ in 0..4 {
                cx.sleep(Duration::from_millis(250))?;
                for tenant in rt.stats().tenants.iter().filter(|tenant| tenant.name.is_some()) {
                    println!(
                        "{:<7} {:<8} {:<7.2} {:<9.2} {:<7.3} {:<8} {}",
                        tenant.name.as_deref().unwrap_or_default(),
                        tenant.weight,
                        tenant.wanted,
                        tenant.feasible,
                        tenant.got,
                        format!("{} ms", tenant.ran.as_millis()),
                        tenant.turns,
                    );
                }
                println!();
            }
            done.store(true, Ordering::Relaxed);
            Ok(())
        })
    })
}
