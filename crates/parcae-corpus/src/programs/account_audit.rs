//! `account-audit`: an audit sees money in flight.
//!
//! A transfer takes from one account and adds to another, each under its own lock. An audit that
//! locks one account after the other may find the sum too small.
//!
//! Order that shows it: the audit comes between the two halves of a transfer. Kind: atomicity.
//! Tasks: 3.

use parcae::sync::Mutex;
use parcae::{Result, Runtime};

struct Bank {
    accounts: [Mutex<i64>; 2],
    /// For operations on several accounts.
    whole: Mutex<()>,
}

impl Bank {
    fn transfer(&self, from: usize, to: usize, amount: i64) -> Result<()> {
        *self.accounts[from].lock()? -= amount;
        *self.accounts[to].lock()? += amount;
        Ok(())
    }

    fn transfer_as_a_whole(&self, from: usize, to: usize, amount: i64) -> Result<()> {
        let _whole = self.whole.lock()?;
        self.transfer(from, to, amount)
    }

    fn audit(&self) -> Result<()> {
        let _whole = self.whole.lock()?;
        let sum = *self.accounts[0].lock()? + *self.accounts[1].lock()?;
        assert_eq!(sum, 200, "money is missing");
        Ok(())
    }
}

type Transfer = fn(&Bank, usize, usize, i64) -> Result<()>;

fn run(rt: &Runtime, transfer: Transfer) -> Result<()> {
    rt.run(|cx| {
        let accounts = [Mutex::new(100), Mutex::new(100)];
        let bank = Bank { accounts, whole: Mutex::new(()) };
        cx.nursery(|n| {
            n.spawn(|_| transfer(&bank, 0, 1, 30))?;
            n.spawn(|_| transfer(&bank, 1, 0, 10))?;
            n.spawn(|_| bank.audit())?;
            Ok(())
        })
    })
}

/// With the bug.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, Bank::transfer)
}

/// Transfers and audits exclude each other.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, Bank::transfer_as_a_whole)
}
