//! Children that have run out of budget: the supervisor's part of [`crate::recharge`].

use super::Supervisor;
use crate::life::caught;
use crate::recharge::{Answer, Exhausted, Shortage};
use parcae::budget::Account;
use parcae::{Error, Result, time};
use std::sync::Arc;
use std::time::Instant;

/// An account that the supervisor recharges.
pub(super) struct Funds {
    account: Account,
    recharges: u64,
    last: Option<Instant>,
    /// Shortages to decide about later.
    later: Vec<(Instant, Shortage)>,
}

impl Funds {
    pub(super) fn new(account: Account) -> Funds {
        Funds { account, recharges: 0, last: None, later: Vec::new() }
    }
}

impl Supervisor<'_, '_, '_> {
    /// When a shortage that was put off is to be decided about.
    pub(super) fn next_decision(&self) -> Option<Instant> {
        self.work.recharge?;
        let own = self.stations.values().filter_map(|station| station.funds.as_ref());
        let later = own.chain([&self.shared]).flat_map(|funds| &funds.later);
        later.map(|&(at, _)| at).min()
    }

    /// Decides about children that have run out of budget.
    pub(super) fn decide_shortages(&mut self) -> Result<()> {
        if self.work.recharge.is_none() {
            return Ok(());
        }
        let now = time::now();
        let mut shortages = self.work.inbox.desk.take_shortages();
        let own = self.stations.values_mut().filter_map(|station| station.funds.as_mut());
        for funds in own.chain([&mut self.shared]) {
            shortages.extend(
                funds.later.extract_if(.., |(at, _)| *at <= now).map(|(_, shortage)| shortage),
            );
        }
        shortages.into_iter().try_for_each(|shortage| self.decide(shortage))
    }

    fn decide(&mut self, shortage: Shortage) -> Result<()> {
        let Some(recharge) = self.work.recharge else { return Ok(()) };
        let task = shortage.task.id();
        let waits = |account: &Account| account.suspended().iter().any(|one| one.task.id() == task);
        // The actor's own task, or a helper that draws on the same account.
        let mut stations = self.stations.values_mut();
        let station = stations.find(|station| {
            station.task == Some(task)
                || station.funds.as_ref().is_some_and(|funds| waits(&funds.account))
        });
        let core = station.as_ref().map(|station| Arc::clone(&station.core));
        let (funds, starved) = match station {
            None => (&mut self.shared, None),
            Some(station) => {
                (station.funds.as_mut().unwrap_or(&mut self.shared), Some(&mut station.starved))
            }
        };
        if !waits(&funds.account) {
            return Ok(()); // another holder has recharged it, or it has ended
        }
        let child = Exhausted {
            task: shortage.task.clone(),
            resource: shortage.resource,
            standing: funds.account.standing(),
            recharges: funds.recharges,
            last: funds.last,
        };
        let refused = match caught(|| Ok(recharge.decide(&child))).unwrap_or(Answer::End) {
            Answer::Leave => return Ok(()),
            Answer::Later(at) => {
                funds.later.push((at, shortage));
                return Ok(());
            }
            Answer::Add(amount) => match funds.account.recharge(&recharge.cap, amount) {
                Ok(added) if added.get(shortage.resource) > 0 => {
                    funds.recharges += 1;
                    funds.last = Some(time::now());
                    return Ok(());
                }
                Ok(_) => "the policy adds nothing of it".to_owned(),
                Err(error) => error.to_string(),
            },
            Answer::End => "the policy of its supervisor is to end it".to_owned(),
        };
        let error = Error::msg(format!(
            "{} is out of {}, and was not recharged: {refused}",
            shortage.task, shortage.resource
        ));
        match (core, starved) {
            (Some(core), Some(starved)) => {
                *starved = Some(error);
                core.kill();
                Ok(())
            }
            _ => Err(error.context("the budget of a supervisor's children is used up")),
        }
    }
}
