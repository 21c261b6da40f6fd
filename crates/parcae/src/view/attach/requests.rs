//! Requests and their answers.

use super::policy::{ClientSeat, PolicyAccess};
use super::recording::ClientRecording;
use crate::base::error::TaskId;
use crate::base::json::{JsonObject, string};
use crate::sched::Shared;
use crate::scope::budget::Budget;
use crate::scope::cap::CapBudget;
use crate::view::inspect::{Detector, Dump, PAUSE};
use std::sync::Weak;

/// The runtime that a socket gives access to, and the allowed requests.
pub(super) struct Server {
    shared: Weak<Shared>,
    cancel: bool,
    recharge: Option<CapBudget>,
    policy: PolicyAccess,
}

/// The state of a connection between two requests. It ends with the connection.
#[derive(Default)]
pub(super) struct ClientState {
    recorder: ClientRecording,
    seat: ClientSeat,
}

impl Server {
    pub(super) fn new(
        shared: Weak<Shared>,
        cancel: bool,
        recharge: Option<CapBudget>,
        policy: PolicyAccess,
    ) -> Server {
        Server { shared, cancel, recharge, policy }
    }

    /// The answer to a request on a connection, which may be followed by a record: one line, and a
    /// trace or a record after it if one was requested.
    pub(super) fn answer(&self, request: &str, record: &[u8], client: &mut ClientState) -> Vec<u8> {
        let mut words = request.split_whitespace();
        let words = (words.next(), words.collect::<Vec<_>>());
        let mut answer = match (self.shared.upgrade(), words) {
            (None, _) => error("the runtime has ended"),
            (Some(shared), (Some("trace"), rest)) => return client.recorder.answer(shared, &rest),
            (Some(_), (Some("policy"), _)) => {
                return self.policy.answer(request, record, &mut client.seat);
            }
            (Some(shared), (first, rest)) => self.line(&shared, request, first, &rest),
        };
        answer.push('\n');
        answer.into_bytes()
    }

    /// The answer to a request that is one line, without its end.
    fn line(&self, shared: &Shared, request: &str, first: Option<&str>, rest: &[&str]) -> String {
        let answer = match (first, rest) {
            (Some("hello"), []) => Ok(self.hello(shared)),
            (Some("dump"), []) => Ok(Dump::of(shared).to_json()),
            (Some("dump"), ["full"]) => Ok(Dump::of(shared).full().to_json()),
            (Some("tasks"), []) => Ok(Dump::without_stacks(shared).to_json()),
            (Some("task"), [task]) => one_task(shared, task),
            (Some("text"), []) => Ok(text(&Dump::of(shared).to_string())),
            (Some("text"), ["full"]) => Ok(text(&Dump::of(shared).full().to_string())),
            (Some("stats"), []) => Ok(stats(shared)),
            (Some("deadlock"), []) => Ok(deadlock(shared)),
            (Some("cancel"), [task]) => self.cancel(shared, task),
            (Some("recharge"), [nursery, amounts @ ..]) => self.recharge(shared, nursery, amounts),
            _ => Err(format!(
                "unknown request `{request}`; the requests are hello, dump, dump full, tasks, task\
                  TASK, text, text full, stats, deadlock, cancel TASK, recharge NURSERY ops=N …, \
                 trace start, trace stop, policy …"
            )),
        };
        answer.unwrap_or_else(|text| error(&text))
    }

    fn hello(&self, shared: &Shared) -> String {
        let program = std::env::args().next().unwrap_or_default();
        let may = [
            ("cancel", self.cancel),
            ("recharge", self.recharge.is_some()),
            ("policy", self.policy.is_allowed()),
        ];
        let mut out = String::new();
        let mut object = JsonObject::begin(&mut out);
        object.text("parcae", env!("CARGO_PKG_VERSION")).plain("pid", std::process::id());
        object.text("program", &program).plain("workers", shared.config.workers);
        let allowed = may.iter().filter(|(_, allowed)| *allowed);
        object.list("may", allowed, |out, (what, _)| string(out, what)).end();
        out
    }

    fn cancel(&self, shared: &Shared, task: &str) -> Result<String, String> {
        if !self.cancel {
            return Err("the program does not allow it: `AttachOpts::allow_cancel`".into());
        }
        let id = task_number(task)?;
        let found = Dump::tasks_of(shared).into_iter().find(|seen| seen.id.as_u64() == id);
        found.ok_or_else(|| no_task(task))?.cancel(shared);
        Ok(ok())
    }

    fn recharge(&self, shared: &Shared, nursery: &str, amounts: &[&str]) -> Result<String, String> {
        let Some(cap) = &self.recharge else {
            return Err("the program does not allow it: `AttachOpts::allow_recharge`".into());
        };
        let id = number(nursery)?;
        let amount = amounts.iter().try_fold(Budget::ZERO, |sum, amount| add(sum, amount))?;
        if amount == Budget::ZERO {
            return Err("no amount to recharge; write for example ops=1000".into());
        }
        let tasks = Dump::tasks_of(shared);
        let mut open = tasks.iter().flat_map(|task| &task.children);
        let found = open.find(|children| children.nursery == id);
        let nursery = found.ok_or_else(|| {
            format!(
                "there is no nursery {nursery} with a waiting owner; it may have ended, or its owner \
                 is running"
            )
        })?;
        nursery.account().recharge(cap, amount).map_err(|error| error.to_string())?;
        Ok(ok())
    }
}

/// One task with its backtrace. The stacks of other tasks are not walked for it.
fn one_task(shared: &Shared, task: &str) -> Result<String, String> {
    let found = Dump::task_of(shared, task_number(task)?).ok_or_else(|| no_task(task))?;
    Ok(found.to_json())
}

fn no_task(task: &str) -> String {
    format!("there is no task {task}; it may have ended")
}

fn text(text: &str) -> String {
    let mut out = String::new();
    JsonObject::begin(&mut out).text("text", text).end();
    out
}

/// The id of a task, as a number or as it is printed: `0.7`, `root.3`.
fn task_number(text: &str) -> Result<u64, String> {
    let Some((origin, nth)) = text.split_once('.') else { return number(text) };
    let first = match origin {
        "root" => Some(TaskId::OUTSIDE),
        worker => worker.parse::<u64>().ok().and_then(|w| w.checked_mul(TaskId::PER_WORKER)),
    };
    let id =
        first.zip(nth.parse().ok()).and_then(|(first, nth): (u64, u64)| first.checked_add(nth));
    // Not every pair of numbers is an id.
    let printed = id.filter(|id| TaskId(*id).to_string() == text);
    printed.ok_or_else(|| format!("`{text}` is not the number of a task, such as 0.7 or root.3"))
}

/// A number, in decimal or with `0x`.
pub(super) fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("`{text}` is not a number, such as 42 or 0x2a"))
}

/// Adds an amount like `ops=1000`.
fn add(mut sum: Budget, amount: &str) -> Result<Budget, String> {
    let (name, value) = amount
        .split_once('=')
        .ok_or_else(|| format!("`{amount}` is not an amount, such as ops=1000"))?;
    let value = number(value)?;
    let component = match name {
        "ops" => &mut sum.ops,
        "memory" => &mut sum.memory,
        "spawn_count" => &mut sum.spawn_count,
        "channel_ops" => &mut sum.channel_ops,
        "syscalls" => &mut sum.syscalls,
        _ => {
            return Err(format!(
                "unknown resource `{name}`; a budget has ops, memory, spawn_count, channel_ops, \
                 syscalls"
            ));
        }
    };
    *component = component.saturating_add(value);
    Ok(sum)
}

fn stats(shared: &Shared) -> String {
    let mut out = String::new();
    let mut object = JsonObject::begin(&mut out);
    object.plain("live", shared.live());
    object.list("workers", shared.worker_stats(), |out, worker| {
        JsonObject::begin(out).numbers(worker.named()).end();
    });
    object.end();
    out
}

fn deadlock(shared: &Shared) -> String {
    let found = Detector::scan_twice(shared, PAUSE);
    let mut out = String::new();
    let mut object = JsonObject::begin(&mut out);
    match found {
        Some(found) => object.plain("deadlock", found.to_json()),
        None => object.plain("deadlock", "null"),
    };
    object.end();
    out
}

pub(super) fn ok() -> String {
    r#"{"ok":true}"#.into()
}

pub(super) fn error(text: &str) -> String {
    let mut out = String::new();
    JsonObject::begin(&mut out).text("error", text).end();
    out
}
