//! Select: a list of cases, of which one happens.

use crate::decl::{Int, c_api};
use crate::fault::Fault;
use crate::global;
use crate::global::ROOT;
use crate::objects::{Channel, Pointer, Thing, ThingKind, TokenRef, find};
use crate::types::*;
use parcae::select::Select;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The cases of a select, and what its last wait came to.
#[derive(Default)]
pub(crate) struct Cases {
    cases: Vec<Case>,
    /// A wait is in progress, and has taken the cases.
    busy: bool,
    /// The value that the winner received.
    winner: Option<(usize, Won)>,
}

#[derive(Clone)]
enum Case {
    Recv(Arc<Channel<i64>>),
    Send(Arc<Channel<i64>>, i64),
    RecvPtr(Arc<Channel<Pointer>>),
    SendPtr(Arc<Channel<Pointer>>, Pointer),
    Timeout(Duration),
    Token(Arc<TokenRef>),
    Default,
}

/// How a case came to win.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Won {
    Number(i64),
    Pointer(Pointer),
    Done,
    /// Its channel is closed.
    Closed,
}

fn lock(cases: &Mutex<Cases>) -> MutexGuard<'_, Cases> {
    cases.lock().unwrap_or_else(PoisonError::into_inner)
}

fn busy() -> Fault {
    Fault::argument("another task or thread waits with this select: each needs its own")
}

fn add(select: *mut c_void, case: Case) -> Result<Int, Fault> {
    let cases = find!(select, Select);
    let mut cases = lock(&cases);
    if cases.busy {
        return Err(busy());
    }
    cases.cases.push(case);
    Ok(Int(cases.cases.len() as i32 - 1))
}

fn wait(cases: &[Case]) -> parcae::Result<(usize, Won)> {
    let mut select = Select::new();
    for (index, case) in cases.iter().enumerate() {
        match case {
            Case::Recv(channel) => select.recv(&channel.receiver, move |value| {
                (index, value.map_or(Won::Closed, Won::Number))
            }),
            Case::RecvPtr(channel) => select.recv(&channel.receiver, move |value| {
                (index, value.map_or(Won::Closed, Won::Pointer))
            }),
            Case::Send(channel, value) => select.send(&channel.sender, *value, move |sent| {
                (index, sent.map_or(Won::Closed, |()| Won::Done))
            }),
            Case::SendPtr(channel, value) => select.send(&channel.sender, *value, move |sent| {
                (index, sent.map_or(Won::Closed, |()| Won::Done))
            }),
            Case::Timeout(time) => select.timeout(*time, move |()| (index, Won::Done)),
            Case::Token(token) => select.cancelled(&token.token, move |_| (index, Won::Done)),
            Case::Default => select.default(move |()| (index, Won::Done)),
        };
    }
    select.wait()
}

/// The value that the case with this index received, if it won.
fn won(select: *mut c_void, case: i32) -> Result<Won, Fault> {
    let cases = find!(select, Select);
    let winner = lock(&cases).winner;
    match winner {
        Some((index, won)) if index as i64 == i64::from(case) => Ok(won),
        _ => Err(Fault::argument(format!("case {case} did not win the last wait"))),
    }
}

c_api! {
    /// Creates a select without cases. It can be used for any number of waits, by one task or
    /// thread at a time.
    fn janus_select_create() -> *mut c_void {
        ROOT.objects.insert(Thing::Select(Arc::default()))
    }

    /// Ends the handle.
    fn janus_select_destroy(select: *mut c_void) -> () {
        drop(ROOT.objects.remove(select, ThingKind::Select)?);
        Ok(())
    }

    /// Adds a case: receive from a channel of int64_t. Its index, or -1.
    fn janus_select_add_recv(select: *mut c_void, channel: *mut c_void) -> Int {
        add(select, Case::Recv(find!(channel, Numbers)))
    }

    /// Adds a case: send to a channel of int64_t.
    fn janus_select_add_send(select: *mut c_void, channel: *mut c_void, value: i64) -> Int {
        add(select, Case::Send(find!(channel, Numbers), value))
    }

    /// Adds a case: receive from a channel of pointers.
    fn janus_select_add_recv_ptr(select: *mut c_void, channel: *mut c_void) -> Int {
        add(select, Case::RecvPtr(find!(channel, Pointers)))
    }

    /// Adds a case: send to a channel of pointers.
    fn janus_select_add_send_ptr(select: *mut c_void, channel: *mut c_void, value: *mut c_void) -> Int {
        add(select, Case::SendPtr(find!(channel, Pointers), Pointer(value)))
    }

    /// Adds a case: the given time has passed.
    fn janus_select_add_timeout(select: *mut c_void, milliseconds: i64) -> Int {
        add(select, Case::Timeout(Duration::from_millis(milliseconds.max(0) as u64)))
    }

    /// Adds a case: a token was cancelled.
    fn parcae_select_add_token(select: *mut c_void, token: *mut Token) -> Int {
        add(select, Case::Token(find!(token, Token)))
    }

    /// Adds a case that is taken if no other case is possible immediately.
    fn janus_select_add_default(select: *mut c_void) -> Int {
        add(select, Case::Default)
    }

    /// Waits until one case has happened, and returns its index; -1 if the task was cancelled, or
    /// there are no cases. Among several possible cases one is chosen at random.
    fn janus_select_wait(select: *mut c_void) -> Int {
        let shared = find!(select, Select);
        let cases = {
            let mut cases = lock(&shared);
            if cases.busy {
                return Err(busy());
            }
            if cases.cases.is_empty() {
                return Err(Fault::argument("a select without cases would wait forever"));
            }
            cases.busy = true;
            cases.winner = None;
            std::mem::take(&mut cases.cases)
        };
        let outcome = match global::driven() {
            Some(global) => global.wait(|| wait(&cases)),
            None => Ok(wait(&cases)),
        };
        let mut state = lock(&shared);
        state.cases = cases;
        state.busy = false;
        let (index, won) = outcome??;
        state.winner = Some((index, won));
        Ok(Int(index as i32))
    }

    /// The value that the winning case has received; INT64_MIN if its channel is closed, or another
    /// case won.
    fn janus_select_get_recv_value(select: *mut c_void, case_index: i32) -> i64 {
        match won(select, case_index)? {
            Won::Number(value) => Ok(value),
            _ => Err(Fault::new(E_CLOSED, "the case has received no number")),
        }
    }

    /// The same for a channel of pointers, with NULL for INT64_MIN.
    fn janus_select_get_recv_ptr(select: *mut c_void, case_index: i32) -> *mut c_void {
        match won(select, case_index)? {
            Won::Pointer(value) => Ok(value.0),
            _ => Err(Fault::new(E_CLOSED, "the case has received no pointer")),
        }
    }

    /// Whether the case won because its channel is closed: 1 or 0; -1 if another case won.
    fn parcae_select_is_closed(select: *mut c_void, case_index: i32) -> Int {
        Ok(Int((won(select, case_index)? == Won::Closed).into()))
    }
}
