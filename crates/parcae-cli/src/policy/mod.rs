//! `parcae policy`: the policy of a running program, for its operator.
//!
//! All commands but `check` talk to a program that has opened a socket and allows it
//! (`AttachOpts::allow_policy`). Files are read here and sent as a record, which the program checks
//! again: it does not trust this one.

mod file;

use crate::Exit;
use crate::args::{PolicyArgs, PolicyCommand};
use crate::complain;
use crate::stage::{BAD, BOLD, DIM, Format, GOOD, Stage, paint};
use crate::target::{Client, Trouble};
use file::PolicyFile;
use parcae::policy::{ContextOpts, PolicyOpts};
use parcae::prelude::*;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Time between two looks at the history, or at the file that is followed.
const PAUSE: Duration = Duration::from_millis(500);

/// Why a command has failed.
enum Failed {
    Target(Trouble),
    /// It was reported.
    Told(Exit),
}

impl From<Trouble> for Failed {
    fn from(trouble: Trouble) -> Failed {
        Failed::Target(trouble)
    }
}

pub(crate) fn run(args: &PolicyArgs, format: Format) -> Result<(), Exit> {
    let stage = Stage::new(format);
    command(args, &stage).map_err(|failed| match failed {
        Failed::Told(exit) => exit,
        Failed::Target(trouble) => {
            complain(&trouble);
            trouble.exit()
        }
    })
}

fn command(args: &PolicyArgs, stage: &Stage) -> Result<(), Failed> {
    let on = args.on.as_deref();
    match &args.command {
        PolicyCommand::Show => show(&Client::find(on)?.ask("policy show")?, stage),
        PolicyCommand::Check { file, workers } => check(file, usize::from(*workers), on, stage)?,
        PolicyCommand::Load { file, follow } => load(file, *follow, on, stage)?,
        PolicyCommand::Set { tenant, changes } => {
            let changes = changes.iter().map(|change| change_for_request(change));
            let changes = changes.collect::<Result<Vec<_>, _>>()?;
            done(on, &format!("policy set {} -- {tenant}", changes.join(" ")), stage)?;
        }
        PolicyCommand::Unset { tenant } => done(on, &format!("policy unset {tenant}"), stage)?,
        PolicyCommand::Explain { tenant } => {
            explain(&Client::find(on)?.ask(&format!("policy explain {tenant}"))?, stage);
        }
        PolicyCommand::History => {
            let answer = Client::find(on)?.ask("policy history")?;
            stage.document(&answer);
            events(&answer).for_each(|event| stage.say(event_line(event)));
        }
        PolicyCommand::Fallback => done(on, "policy fallback", stage)?,
        PolicyCommand::Lift => done(on, "policy lift", stage)?,
        PolicyCommand::Watch => watch(&mut Client::find(on)?, stage)?,
    }
    Ok(())
}

/// Sends a request that changes something.
fn done(on: Option<&OsStr>, request: &str, stage: &Stage) -> Result<(), Failed> {
    if request.contains('\n') {
        complain("an address has no line breaks");
        return Err(Failed::Told(Exit::Usage));
    }
    let answer = Client::find(on)?.ask(request)?;
    stage.document(&answer);
    stage.say(paint(GOOD, "done"));
    Ok(())
}

/// `weight=N` or `latency=L` with a unit, as the socket takes it.
fn change_for_request(change: &str) -> Result<String, Failed> {
    use parcae::policy::Latency;
    let latency = |text: &str| {
        Some(match file::latency(text)? {
            Latency::Slice(nanos) => nanos.to_string(),
            _ => text.to_owned(),
        })
    };
    let request = match change.split_once('=') {
        Some(("weight", weight)) if weight.parse::<u32>().is_ok() => Some(change.to_owned()),
        Some(("latency", text)) => latency(text).map(|latency| format!("latency={latency}")),
        _ => None,
    };
    request.ok_or_else(|| {
        complain(format_args!(
            "`{change}` is no change: write weight=2048, or latency=sensitive, normal, batch or 2ms"
        ));
        Failed::Told(Exit::Usage)
    })
}

// ----- files ---------------------------------------------------------------------------

fn read(path: &Path) -> Result<PolicyFile, Failed> {
    let told = |message: String| {
        complain(message);
        Failed::Told(Exit::Failed)
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| told(format!("{}: {error}", path.display())))?;
    file::read(&text).map_err(|error| told(format!("{}:{error}", path.display())))
}

/// Checks a file: its rules as a runtime with default bounds does, its contexts by admission.
fn check(path: &Path, workers: usize, on: Option<&OsStr>, stage: &Stage) -> Result<(), Failed> {
    let read = read(path)?;
    let told = |message: String| {
        complain(format_args!("{}: {message}", path.display()));
        Failed::Told(Exit::Failed)
    };
    if on.is_some() {
        send(&mut Client::find(on)?, "check", &read)?;
    }
    let rt = Runtime::builder().workers(workers).build().map_err(|e| told(e.to_string()))?;
    let policy = rt.policy(PolicyOpts::new()).map_err(|error| told(error.to_string()))?;
    policy.load(&read.rules).map_err(|refused| told(refused.to_string()))?;
    let mut admitted = Vec::new();
    let mut list = Vec::new();
    for (name, terms) in &read.contexts {
        // The terms of the file go before these.
        let opts = ContextOpts::new(terms.budget, terms.period);
        let cap =
            rt.admit_as(name, opts).map_err(|error| told(format!("context.{name}: {error}")))?;
        stage.say(format_args!("context {}: worker {}", paint(BOLD, name), cap.worker()));
        list.push(json!({"context": name, "worker": cap.worker()}));
        admitted.push(cap); // it counts for the next ones
    }
    stage.say(format_args!(
        "{}: {} tenants, {} contexts on {workers} workers",
        paint(GOOD, "correct"),
        read.tenants,
        read.contexts.len()
    ));
    stage.document(&json!({"tenants": read.tenants, "contexts": list, "workers": workers}));
    Ok(())
}

fn send(client: &mut Client, verb: &str, file: &PolicyFile) -> Result<Value, Failed> {
    let record = file.rules.to_bytes();
    Ok(client.ask_with(&format!("policy {verb} {}", record.len()), &record)?)
}

fn load(path: &Path, follow: bool, on: Option<&OsStr>, stage: &Stage) -> Result<(), Failed> {
    let mut client = Client::find(on)?;
    let changed = || std::fs::metadata(path).and_then(|found| found.modified()).ok();
    let mut seen = changed();
    let first = read(path)?;
    let mut tell = |file: &PolicyFile| -> Result<(), Failed> {
        let answer = send(&mut client, "load", file)?;
        if !follow {
            stage.document(&answer);
        }
        let (tenants, contexts) = (file.tenants, file.contexts.len());
        stage
            .say(format_args!("{}: {tenants} tenants, {contexts} contexts", paint(GOOD, "loaded")));
        Ok(())
    };
    tell(&first)?;
    if !follow {
        return Ok(());
    }
    loop {
        std::thread::sleep(PAUSE);
        let now: Option<SystemTime> = changed();
        if now.is_none() || now == seen {
            continue;
        }
        seen = now;
        // A wrong file was reported; the rules before it stay.
        let Ok(file) = read(path) else { continue };
        match tell(&file) {
            Err(Failed::Target(trouble @ Trouble::Refused(_))) => complain(&trouble),
            told => told?,
        }
    }
}

// ----- views ---------------------------------------------------------------------------

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or("–")
}

fn percent(value: &Value, field: &str) -> String {
    format!("{:.1} %", 100.0 * value[field].as_f64().unwrap_or(0.0))
}

fn show(answer: &Value, stage: &Stage) {
    stage.document(answer);
    let held = if answer["held"] == true { ", held by the operator" } else { "" };
    stage.say(format_args!(
        "policy in force: {}{held}, epoch {}",
        paint(BOLD, text(answer, "source")),
        answer["epoch"]
    ));
    let silent = match answer["silent_ms"].as_u64() {
        Some(ms) => format!(", heard {ms} ms ago"),
        None => String::new(),
    };
    stage.say(format_args!("service: {}{silent}", text(answer, "service")));
    stage.say(format_args!(
        "rules: {} of the operator, {} of the service; weights {} to {}; refused: {} decisions, {} contexts",
        answer["operator_rules"],
        answer["service_rules"],
        answer["least_weight"],
        answer["greatest_weight"],
        answer["refused"],
        answer["refused_contexts"]
    ));
    stage.say(format_args!(
        "floor: {} ‰ for `{}`; contexts are promised {} ‰",
        answer["floor_permille"],
        text(answer, "operator"),
        answer["promised_permille"]
    ));
    let Some(tenants) = answer["tenants"].as_array().filter(|tenants| !tenants.is_empty()) else {
        return;
    };
    let head = format!(
        "{:<28} {:>8} {:<9} {:>8} {:>8} {:>8}",
        "TENANT", "WEIGHT", "BY", "WANTED", "FEASIBLE", "GOT"
    );
    stage.say(paint(DIM, head));
    for tenant in tenants {
        let number = format!("#{}", tenant["number"]);
        stage.say(format_args!(
            "{:<28} {:>8} {:<9} {:>8} {:>8} {:>8}",
            tenant["tenant"].as_str().unwrap_or(&number),
            tenant["weight"],
            text(tenant, "by"),
            percent(tenant, "wanted"),
            percent(tenant, "feasible"),
            percent(tenant, "got")
        ));
    }
}

fn explain(tenant: &Value, stage: &Stage) {
    stage.document(tenant);
    stage.say(paint(BOLD, text(tenant, "tenant")));
    let why = match text(tenant, "by") {
        "program" => "the program asks for it, or for nothing",
        "profile" => "the profile of its hint",
        "service" => "a rule of the policy service",
        "operator" => "a rule of the operator",
        "floor" => "the floor of the operator's tenant",
        other => other,
    };
    stage.say(format_args!("  weight {}: {why}", tenant["weight"]));
    if let Some(asked) = tenant["asked_weight"].as_u64() {
        stage.say(format_args!("  the program asks for {asked}"));
    }
    if let Some(hint) = tenant["hint"].as_str() {
        stage.say(format_args!("  kind of work: {hint}"));
    }
    if let Some(priority) = tenant["suggested_priority"].as_u64() {
        stage.say(format_args!("  its coordinator suggests priority {priority}"));
    }
    stage.say(format_args!("  turns of {}", tenant["slice"]));
    let (wanted, feasible) = (percent(tenant, "wanted"), percent(tenant, "feasible"));
    let got = percent(tenant, "got");
    stage.say(format_args!("  wanted {wanted}, feasible {feasible}, got {got}"));
    let share = |field: &str| tenant[field].as_f64().unwrap_or(0.0);
    if share("feasible") + 0.005 < share("wanted") {
        let limit = "its ready tasks are on too few workers to use its share";
        stage.say(paint(BAD, format_args!("  {limit}")));
    }
    stage.say(format_args!(
        "  open nurseries {}, tasks in line {}",
        tenant["open"], tenant["queued"]
    ));
}

fn events(answer: &Value) -> impl Iterator<Item = &Value> {
    answer["history"].as_array().into_iter().flatten()
}

fn event_line(event: &Value) -> String {
    let at = event["at_ms"].as_u64().unwrap_or(0) as f64 / 1e3;
    let times = match event["times"].as_u64() {
        Some(times) if times > 1 => format!(" ({times} times)"),
        _ => String::new(),
    };
    let service = match event["service"].as_str() {
        Some(name) => format!(" [{name}]"),
        None => String::new(),
    };
    format!("{at:>10.3} s  {}{times}{service}", text(event, "change"))
}

/// Prints changes as they happen, until the program ends.
fn watch(client: &mut Client, stage: &Stage) -> Result<(), Failed> {
    let mut last: Option<(u64, u64)> = None;
    loop {
        let answer = client.ask("policy history")?;
        for event in events(&answer) {
            let number = |field: &str| event[field].as_u64().unwrap_or(0);
            let this = (number("number"), number("times"));
            if last.is_none_or(|last| this > last) {
                stage.say(event_line(event));
                stage.document(event);
                last = Some(this);
            }
        }
        client.watch(PAUSE)?;
    }
}
