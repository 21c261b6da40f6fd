//! Recordings of clients.
//!
//! A recording belongs to the connection that has started it, and ends with it: a client that is
//! gone leaves no cost behind. While it is on, it keeps the scheduler's records alive, but not its
//! workers: a runtime ends as usual.

use super::requests::{error, number, ok};
use crate::base::json::JsonObject;
use crate::sched::Shared;
use crate::view::trace::{self, Recording, TraceOpts};
use std::sync::Arc;

/// Limit of events per worker for a client: 32 MiB in rings, some hundred MiB as JSON.
const MOST: u64 = 1 << 20;

/// The recording of a connection.
#[derive(Default)]
pub(super) struct ClientRecording {
    recording: Option<Recording>,
}

impl ClientRecording {
    /// The answer to `trace …`: a line, and the trace after it.
    pub(super) fn answer(&mut self, shared: Arc<Shared>, words: &[&str]) -> Vec<u8> {
        let answer = match words {
            ["start", opts @ ..] => self.start(shared, opts),
            ["stop"] => self.stop(),
            _ => Err("the requests are `trace start events=N` and `trace stop`".to_owned()),
        };
        answer.unwrap_or_else(|text| line(error(&text)))
    }

    fn start(&mut self, shared: Arc<Shared>, words: &[&str]) -> Result<Vec<u8>, String> {
        let mut opts = TraceOpts::new();
        for word in words {
            let events = word
                .strip_prefix("events=")
                .ok_or(format!("`{word}` is not understood: write events=N"))?;
            let events = number(events)?;
            if events > MOST {
                return Err(format!("{events} events are too many: {MOST} at most"));
            }
            opts = opts.events(events as usize); // not more than `MOST`
        }
        self.recording = Some(trace::start(shared, &opts).map_err(|error| error.to_string())?);
        Ok(line(ok()))
    }

    fn stop(&mut self) -> Result<Vec<u8>, String> {
        let recording =
            self.recording.take().ok_or("no recording is running: start one with `trace start`")?;
        let trace = recording.stop();
        let mut file = Vec::new();
        trace.write_chrome(&mut file).map_err(|error| error.to_string())?;
        let mut head = String::new();
        JsonObject::begin(&mut head).plain("bytes", file.len()).plain("lost", trace.lost()).end();
        let mut answer = line(head);
        answer.append(&mut file);
        Ok(answer)
    }
}

fn line(mut text: String) -> Vec<u8> {
    text.push('\n');
    text.into_bytes()
}
