//! Requests about the policy of the runtime.
//!
//! Two kinds of clients: the operator, whose requests are words, and a policy service, which takes
//! the seat and sends records. Records follow a line that has their length: they are copied from
//! the socket before anything in them is looked at, and longer ones than any record end the
//! connection. The seat belongs to the connection that has taken it, and ends with it.

use super::requests::{error, number, ok};
use crate::base::error::PolicyRefused;
use crate::base::json::JsonObject;
use crate::view::policy::{Desk, LONGEST_RECORD, PolicyDecision, ServiceSeat, json};
use parcae_core::fair::{Latency, Weight};
use std::io::{self, Read};
use std::sync::{Arc, Weak};

const UNKNOWN: &str = "the requests about policy are show, explain TENANT, history, set weight=N \
                       latency=L -- TENANT, unset TENANT, load BYTES, check BYTES, fallback, lift, \
                       serve epoch=N -- NAME, view, decide BYTES, alive EPOCH";

/// The policy, for the clients of a socket.
#[derive(Debug, Clone, Default)]
pub(super) struct PolicyAccess(Option<Weak<Desk>>);

/// The seat of a client.
#[derive(Default)]
pub(super) struct ClientSeat(Option<ServiceSeat>);

/// Number of bytes that follow a request; `None` if there are none, or there is no such request.
pub(super) fn bytes_after(request: &str) -> Option<u64> {
    let mut words = request.split_whitespace();
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some("policy"), Some("load" | "check" | "decide"), Some(length), None) => {
            length.parse().ok()
        }
        _ => None,
    }
}

/// Reads the bytes that follow a request. An error ends the connection: the rest of the record
/// would be taken for requests.
pub(super) fn read_record(from: &mut impl Read, length: u64) -> io::Result<Vec<u8>> {
    if length > LONGEST_RECORD as u64 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    // Grows with the bytes that come, not with the number that was promised.
    from.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

impl PolicyAccess {
    pub(super) fn to(desk: Weak<Desk>) -> PolicyAccess {
        PolicyAccess(Some(desk))
    }

    pub(super) fn is_allowed(&self) -> bool {
        self.0.is_some()
    }

    /// The answer to a request: a line, and a record after it if one was asked for.
    pub(super) fn answer(&self, request: &str, record: &[u8], seat: &mut ClientSeat) -> Vec<u8> {
        let answer = match &self.0 {
            None => Err("the program does not allow it: `AttachOpts::allow_policy`".to_owned()),
            Some(desk) => match desk.upgrade() {
                None => Err("the runtime has no policy any more".to_owned()),
                Some(desk) => answer(&desk, request, record, seat),
            },
        };
        answer.unwrap_or_else(|text| line(error(&text)))
    }
}

fn answer(
    desk: &Arc<Desk>,
    request: &str,
    record: &[u8],
    seat: &mut ClientSeat,
) -> Result<Vec<u8>, String> {
    let rest = request.strip_prefix("policy").unwrap_or_default().trim();
    let (verb, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let rest = rest.trim();
    let done = |done: Result<(), PolicyRefused>| match done {
        Ok(()) => Ok(line(ok())),
        Err(why) => Err(why.to_string()),
    };
    let read = || PolicyDecision::from_bytes(record).inspect_err(|why| desk.refuse_record(*why));
    match verb {
        "show" => Ok(line(json::shown(&desk.status(), &desk.picture()))),
        "history" => Ok(line(json::history(&desk.history()))),
        "explain" => {
            let view = desk.picture();
            let found = view.tenants.iter().find(|tenant| tenant.path.as_deref() == Some(rest));
            let found = found.ok_or_else(|| format!("there is no tenant {rest}"))?;
            let mut out = String::new();
            json::tenant(&mut out, found);
            Ok(line(out))
        }
        "set" => {
            let (changes, path) = rest.split_once("--").ok_or(UNKNOWN)?;
            let (weight, latency) = parameters(changes)?;
            done(desk.set(path.trim(), weight, latency))
        }
        "unset" if desk.unset(rest) => Ok(line(ok())),
        "unset" => Err(format!("the operator has no rule for {rest}")),
        "load" => done(read().and_then(|rules| desk.load(&rules))),
        "check" => done(read().and_then(|rules| desk.would_load(&rules))),
        "fallback" | "lift" => {
            desk.hold(verb == "fallback");
            done(Ok(()))
        }
        "serve" => {
            let (opts, name) = rest.split_once("--").ok_or(UNKNOWN)?;
            let epoch = opts.trim().strip_prefix("epoch=").map(number).transpose()?;
            seat.0 = None; // a client has one
            seat.0 = Some(ServiceSeat::take(desk, name.trim(), epoch).map_err(|e| e.to_string())?);
            Ok(line(ok()))
        }
        "view" => {
            let view = match &seat.0 {
                Some(seat) => seat.view().map_err(|why| why.to_string())?,
                None => desk.picture(),
            };
            let mut bytes = view.to_bytes();
            let mut head = String::new();
            JsonObject::begin(&mut head).plain("bytes", bytes.len()).end();
            let mut answer = line(head);
            answer.append(&mut bytes);
            Ok(answer)
        }
        "decide" => {
            let seat = seat.0.as_ref().ok_or_else(|| PolicyRefused::NotSeated.to_string())?;
            done(read().and_then(|decision| seat.decide(decision)))
        }
        "alive" => {
            let seat = seat.0.as_ref().ok_or_else(|| PolicyRefused::NotSeated.to_string())?;
            done(seat.alive(number(rest)?))
        }
        _ => Err(UNKNOWN.to_owned()),
    }
}

/// Parameters like `weight=512 latency=batch`; a latency may be a number.
fn parameters(text: &str) -> Result<(Option<Weight>, Option<Latency>), String> {
    let (mut weight, mut latency) = (None, None);
    for word in text.split_whitespace() {
        match word.split_once('=') {
            Some(("weight", value)) => {
                let value = u32::try_from(number(value)?).ok().and_then(Weight::new);
                weight = Some(value.ok_or_else(|| format!("{word}: a weight is from 1 to 2^20"))?);
            }
            Some(("latency", value)) => {
                latency = Some(match value {
                    "sensitive" => Latency::Sensitive,
                    "normal" => Latency::Normal,
                    "batch" => Latency::Batch,
                    slice => Latency::Slice(number(slice)?),
                });
            }
            _ => {
                return Err(format!("`{word}` is not understood: write weight=N or latency=batch"));
            }
        }
    }
    if weight.is_none() && latency.is_none() {
        return Err("no change: write for example weight=512".to_owned());
    }
    Ok((weight, latency))
}

fn line(mut text: String) -> Vec<u8> {
    text.push('\n');
    text.into_bytes()
}
