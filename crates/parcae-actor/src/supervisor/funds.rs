//! Children that have run out of budget: the supervisor's part of [`crate::recharge`].

use super::Supervisor;
use crate::life::caught;
use crate::overrun::Plea;
use crate::recharge::{Answer, Exhausted, Shortage};
use parcae::budget::{Account, Resource, UNLIMITED};
use parcae::{Budget, Error, Result, time};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// An account that the supervisor recharges.
pub(super) struct Funds {
    account: Account,
    recharges: u64,
    last: Option<Instant>,
}

impl Funds {
    pub(super) fn new(account: Account) -> Funds {
        Funds { account, recharges: 0, last: None }
    }
}

/// A child that waits for a decision.
pub(super) enum Lack {
    /// Its account is empty.
    Account(Shortage),
    /// Its handler has used the ops of its message; with the number of the actor.
    Message(u64, Plea),
}

impl Supervisor<'_, '_, '_> {
    /// When a shortage that was put off is to be decided about.
    pub(super) fn next_decision(&self) -> Option<Instant> {
        self.later.iter().map(|&(at, _)| at).min()
    }

    /// Decides about children that have run out of budget, and those that were put off.
    pub(super) fn decide_lacks(
        &mut self,
        shortages: VecDeque<Shortage>,
        pleas: Vec<(u64, Plea)>,
    ) -> Result<()> {
        let mut lacks: Vec<Lack> = Vec::new();
        if !self.later.is_empty() {
            let now = time::now();
            lacks.extend(self.later.extract_if(.., |(at, _)| *at <= now).map(|(_, lack)| lack));
        }
        lacks.extend(shortages.into_iter().map(Lack::Account));
        lacks.extend(pleas.into_iter().map(|(order, plea)| Lack::Message(order, plea)));
        for lack in lacks {
            match lack {
                Lack::Account(shortage) => self.decide(shortage)?,
                Lack::Message(order, plea) => self.decide_plea(order, plea),
            }
        }
        Ok(())
    }

    /// Decides about a handler that has used the ops of its message.
    fn decide_plea(&mut self, order: u64, plea: Plea) {
        let Some(station) = self.stations.get_mut(&order) else { return };
        if !plea.is_awaited() {
            return; // the handler was cancelled
        }
        let Some(recharge) = self.work.recharge else {
            let why = "its supervisor has no policy for that (`Supervise::recharge`)";
            return plea.answer(Err(why.to_owned()));
        };
        let account = &station.funds.as_ref().unwrap_or(&self.shared).account;
        let child = Exhausted {
            task: plea.task.clone(),
            resource: Resource::Ops,
            message_ops: Some(plea.had.ops),
            standing: account.standing(),
            recharges: plea.had.extensions,
            last: plea.had.last,
        };
        let answer = match caught(|| Ok(recharge.decide(&child))).unwrap_or(Answer::End) {
            Answer::Leave => return self.left.push((order, plea)),
            Answer::Later(at) => return self.later.push((at, Lack::Message(order, plea))),
            Answer::End => Err("the policy of its supervisor is to end it".to_owned()),
            Answer::Add(Budget { ops: 0, .. }) => Err("the policy adds no ops".to_owned()),
            Answer::Add(amount) if child.standing.granted.ops == UNLIMITED => Ok(amount.ops),
            Answer::Add(amount) => match account.recharge(&recharge.cap, amount) {
                Ok(Budget { ops: 0, .. }) => Err("the capability has no ops left".to_owned()),
                Ok(added) => Ok(added.ops),
                Err(error) => Err(error.to_string()),
            },
        };
        plea.answer(answer);
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
            message_ops: None,
            standing: funds.account.standing(),
            recharges: funds.recharges,
            last: funds.last,
        };
        let refused = match caught(|| Ok(recharge.decide(&child))).unwrap_or(Answer::End) {
            Answer::Leave => return Ok(()),
            Answer::Later(at) => {
                self.later.push((at, Lack::Account(shortage)));
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
