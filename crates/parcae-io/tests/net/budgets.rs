//! Charges: by logical operation, the same on all backends, and none without an effect.

use crate::support::everywhere;
use crate::{connected, listener};
use parcae::prelude::*;
use parcae_io::net::TcpStream;
use std::io::{Read, Write};
use std::time::Duration;

/// The ops and syscalls that a closure is charged.
fn charged(
    cx: &Cx,
    body: impl FnOnce() -> parcae::Result<()> + Send,
) -> parcae::Result<(u64, u64)> {
    let budget = Budget::UNLIMITED.with_ops(10_000).with_syscalls(10_000);
    let pool = budget.with_ops(20_000);
    let opts = NurseryOpts::new().budget(pool).on_exhausted(OnExhausted::Fail);
    cx.nursery_with(opts, |n| {
        let task = n.spawn_with(SpawnOpts::new().budget(budget), move |cx| {
            let before = cx.budget();
            body()?;
            let after = cx.budget();
            Ok((before.ops - after.ops, before.syscalls - after.syscalls))
        })?;
        task.join()
    })
}

#[test]
fn operations_cost_the_same_on_all_backends() {
    everywhere(|cx| {
        let (listener, address) = listener()?;
        let (client, server) = connected()?;
        let connect = charged(cx, || Ok(TcpStream::connect(address).map(drop)?))?;
        assert_eq!(connect.1, 2, "a connect");
        assert_eq!(charged(cx, || Ok(listener.accept().map(drop)?))?, (1, 1), "an accept");
        assert_eq!(charged(cx, || Ok((&client).write(b"a").map(drop)?))?, (1, 1), "a write");
        assert_eq!(charged(cx, || Ok((&server).read(&mut [0; 64]).map(drop)?))?, (1, 1), "a read");
        let large = charged(cx, || Ok((&client).write(&[1; 65 << 10]).map(drop)?))?;
        assert_eq!(large, (2, 2), "a write of more than 64 KiB");
        Ok(())
    });
}

#[test]
fn an_operation_without_effect_costs_nothing() {
    everywhere(|cx| {
        let (_client, server) = connected()?;
        server.set_read_timeout(Some(Duration::from_millis(2)))?;
        let waited = charged(cx, || {
            assert!((&server).read(&mut [0; 64]).is_err());
            Ok(())
        })?;
        assert_eq!(waited.1, 0, "no syscall");
        Ok(())
    });
}

#[test]
fn an_operation_without_budget_does_nothing() {
    everywhere(|cx| {
        let (client, mut server) = connected()?;
        let budget = Budget::UNLIMITED.with_syscalls(3);
        let opts = NurseryOpts::new().budget(budget).on_exhausted(OnExhausted::Fail);
        let outcome = cx.nursery_with(opts, |n| {
            let task = n.spawn_with(SpawnOpts::new().budget(budget), |_| {
                loop {
                    (&client).write_all(b"x")?;
                }
                #[allow(unreachable_code)]
                Ok(())
            })?;
            task.join()
        });
        let kind = outcome.unwrap_err().kind().clone();
        assert!(matches!(kind, ErrorKind::BudgetExceeded(_)), "{kind:?}");
        drop(client);
        let mut text = String::new();
        server.read_to_string(&mut text)?;
        assert_eq!(text, "xxx");
        Ok(())
    });
}
