//! `parcae trace record`: records a trace of a running program into a file.
//!
//! The header of `parcae::attach` has the requests: `trace start`, and `trace stop`, whose answer
//! is followed by the trace. A recording belongs to the connection that started it, so it ends with
//! this program in any case.

use crate::args::RecordArgs;
use crate::stage::{Format, Stage, bytes, grouped};
use crate::target::{Client, Trouble};
use serde_json::json;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

pub(crate) fn run(args: &RecordArgs, format: Format) -> Result<(), Trouble> {
    let mut client = Client::find(args.target.target.as_deref())?;
    // Open the file first: a recording that cannot be stored is useless.
    let failed = |error| Trouble::Output(args.out.clone(), error);
    let file = File::create(&args.out).map_err(failed)?;
    let recorded = record(&mut client, args, &mut BufWriter::new(file));
    if recorded.is_err() {
        remove_if_empty(&args.out);
    }
    let (length, lost) = recorded?;
    let stage = Stage::new(format);
    stage.say(format_args!("{}: {} in {}", client.hello, bytes(length), args.out.display()));
    if lost > 0 {
        stage.say(format_args!(
            "{} events were overwritten by later ones; --events, now {}, keeps more",
            grouped(lost),
            args.events
        ));
    }
    stage.say(format_args!(
        "Open it in https://ui.perfetto.dev, or: parcae trace summary {}",
        args.out.display()
    ));
    stage.document(&json!({
        "program": client.hello.json,
        "file": args.out.to_string_lossy(),
        "bytes": length,
        "lost": lost,
        "seconds": args.seconds.as_secs_f64(),
    }));
    Ok(())
}

/// Returns the length of the trace, and the number of lost events.
fn record(
    client: &mut Client,
    args: &RecordArgs,
    out: &mut impl Write,
) -> Result<(u64, u64), Trouble> {
    client.ask(&format!("trace start events={}", args.events))?;
    client.watch(args.seconds)?;
    let answer = client.ask("trace stop")?;
    let length = answer["bytes"].as_u64().unwrap_or(0);
    client.copy(length, out)?;
    out.flush().map_err(|error| Trouble::Output(args.out.clone(), error))?;
    Ok((length, answer["lost"].as_u64().unwrap_or(0)))
}

/// Leaves no empty file behind; a part of a trace may still be of use.
fn remove_if_empty(path: &Path) {
    if fs::metadata(path).is_ok_and(|it| it.is_file() && it.len() == 0) {
        let _ = fs::remove_file(path); // created above
    }
}
