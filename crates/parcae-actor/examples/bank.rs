//! A bank in which transfers crash in the middle, and no cent is lost.
//!
//! Each account is an actor. A transfer is an actor too: it takes the money out of one account and
//! puts it into another. Some transfers panic between the two steps. The supervisor starts such a
//! transfer again; the value that it handed over says how far it had come, so no step is made
//! twice. (Calls within one process do not lose replies. Where a reply can be lost, a deposit needs
//! a number by which the account recognises it.)
//!
//! ```sh
//! cargo run -p parcae-actor --example bank          # on threads
//! cargo run -p parcae-actor --example bank 42       # from a seed: the same run every time
//! ```

use parcae::prelude::*;
use parcae::profile::Cluster;
use parcae_actor::{
    Actor, ActorCx, ActorOpts, Actors, ActorsOpts, Address, Birth, Child, Exit, Next, Reply,
    Supervise,
};
use std::time::Duration;

const ACCOUNTS: usize = 10;
const TRANSFERS: usize = 200;
const OPENING: u64 = 1_000;
const SOON: Duration = Duration::from_secs(10);

enum Order {
    /// Takes cents out, if they are there.
    Withdraw(u64, Reply<bool>),
    Deposit(u64, Reply<()>),
    Balance(Reply<u64>),
}

struct Account {
    cents: u64,
}

impl Actor for Account {
    type Msg = Order;

    fn handle(&mut self, _: &mut ActorCx<'_, Order>, order: Order) -> parcae::Result<Next> {
        match order {
            Order::Withdraw(cents, reply) => {
                let covered = self.cents >= cents;
                self.cents -= if covered { cents } else { 0 };
                reply.send(covered);
            }
            Order::Deposit(cents, reply) => {
                self.cents += cents;
                reply.send(());
            }
            Order::Balance(reply) => reply.send(self.cents),
        }
        Ok(Next::Continue)
    }
}

/// How far a transfer has come.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Begun,
    /// The money has left one account and has not reached the other.
    Underway,
}

struct Transfer {
    from: Address<Order>,
    to: Address<Order>,
    cents: u64,
    stage: Stage,
    crashes: bool,
}

impl Actor for Transfer {
    type Msg = ();

    fn started(&mut self, cx: &mut ActorCx<'_, ()>) -> parcae::Result<()> {
        cx.address().tell(())?; // goes on by itself
        Ok(())
    }

    fn handle(&mut self, _: &mut ActorCx<'_, ()>, (): ()) -> parcae::Result<Next> {
        if self.stage == Stage::Begun {
            if !self.from.call(SOON, |reply| Order::Withdraw(self.cents, reply))? {
                return Ok(Next::Stop); // not covered
            }
            self.stage = Stage::Underway;
        }
        if self.crashes {
            return Err(parcae::Error::msg("crashed between two accounts"));
        }
        self.to.call(SOON, |reply| Order::Deposit(self.cents, reply))?;
        Ok(Next::Stop)
    }

    fn stopping(&mut self, cx: &mut ActorCx<'_, ()>, exit: &Exit) {
        if exit.is_abnormal() {
            cx.hand_over(self.stage);
        }
    }
}

fn main() -> parcae::Result<()> {
    let builder = Runtime::builder().workers(2).profile::<Cluster>();
    let seed = std::env::args().nth(1).and_then(|seed| seed.parse().ok());
    let rt = match seed {
        Some(seed) => builder.deterministic(seed).build()?,
        None => builder.build()?,
    };
    let root = Supervise::one_for_one().restarts(u32::MAX, SOON);
    let (restarts, total) = rt.run(|cx| {
        cx.actors(ActorsOpts::new().supervise(root), |system| {
            let mut accounts = Vec::new();
            for number in 0..ACCOUNTS {
                let opts = ActorOpts::new(format!("account {number}"));
                accounts.push(system.start(opts, |_| Ok(Account { cents: OPENING }))?);
            }
            let mut transfers = Vec::new();
            for number in 0..TRANSFERS {
                let from = accounts[number % ACCOUNTS].clone();
                let to = accounts[(number * 7 + 1) % ACCOUNTS].clone();
                let opts = ActorOpts::new(format!("transfer {number}")).child(Child::transient());
                let transfer = system.start(opts, move |birth: &mut Birth| {
                    let (from, to, cents) = (from.clone(), to.clone(), number as u64 % 90 + 10);
                    let crashes = birth.incarnation() == 1 && number % 5 == 0;
                    let stage = birth.take_state().unwrap_or(Stage::Begun);
                    Ok(Transfer { from, to, cents, stage, crashes })
                })?;
                transfers.push(transfer);
            }
            while transfers.iter().any(|transfer| !transfer.is_gone()) {
                cx.sleep(Duration::from_millis(1))?;
            }
            let mut total = 0;
            for account in &accounts {
                total += account.call(SOON, Order::Balance)?;
            }
            Ok((1000 - system.restarts_left(), total))
        })
    })?;
    println!("{TRANSFERS} transfers, {restarts} crashed in the middle and were started again");
    println!("{total} cents in {ACCOUNTS} accounts");
    assert_eq!(total, OPENING * ACCOUNTS as u64, "money was lost or made");
    assert!(restarts > 0, "no transfer has crashed");
    Ok(())
}
