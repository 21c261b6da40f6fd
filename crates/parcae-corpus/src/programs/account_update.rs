//! `account-update`: a balance is read and written in two critical sections.
//!
//! Deposit and withdrawal read the balance by one call and set it by another; each call locks. A
//! checker compares when both are done.
//!
//! Order that shows it: one update comes between the two calls of the other. Kind: atomicity.
//! Tasks: 3.

use parcae::sync::{Barrier, Mutex};
use parcae::{Result, Runtime};

struct Account {
    balance: Mutex<i64>,
}

impl Account {
    fn balance(&self) -> Result<i64> {
        Ok(*self.balance.lock()?)
    }

    fn set_balance(&self, balance: i64) -> Result<()> {
        *self.balance.lock()? = balance;
        Ok(())
    }

    fn change_in_two_steps(&self, by: i64) -> Result<()> {
        let balance = self.balance()?;
        self.set_balance(balance + by)
    }

    fn change(&self, by: i64) -> Result<()> {
        *self.balance.lock()? += by;
        Ok(())
    }
}

fn run(rt: &Runtime, change: fn(&Account, i64) -> Result<()>) -> Result<()> {
    rt.run(|cx| {
        let account = Account { balance: Mutex::new(100) };
        let done = Barrier::new(3);
        cx.nursery(|n| {
            for by in [20, -50] {
                let (account, done) = (&account, &done);
                n.spawn(move |_| {
                    change(account, by)?;
                    done.wait()
                })?;
            }
            n.spawn(|_| {
                done.wait()?;
                assert_eq!(account.balance()?, 70, "an update was lost");
                Ok(())
            })?;
            Ok(())
        })
    })
}

/// With the bug.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, Account::change_in_two_steps)
}

/// One critical section for both.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, Account::change)
}
