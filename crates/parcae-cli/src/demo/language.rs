//! Hostile programs of the language beside one that behaves: each runs in a nursery of its own with
//! a budget, and is started again whenever it was ended.

use super::{Demo, Size, check, cores};
use crate::stage::{BOLD, DIM, Stage, grouped, paint};
use parcae::prelude::*;
use parcae_interp::{Functions, Host, Program};
use parcae_lang::{Profile, Source};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(super) const DEMO: Demo = Demo {
    name: "language",
    about: "hostile programs of the language beside one that behaves",
    look: "The program that behaves sleeps for a millisecond, again and again: first alone, then beside programs that \
           loop, recurse, spawn, allocate, print and send without end. Each of these runs in a budget, is ended by it, \
           and is started again. `late` is how much later than a millisecond the next round began.",
    run,
};

/// Names and texts; each would go on for ever.
const HOSTILE: [(&str, &str); 7] = [
    ("endless loop", "func main() do\n    while true do\n    end\nend\n"),
    (
        "recursion",
        "func deep(n: i64) -> i64 do\n    deep(n + 1) + 1\nend\n\nfunc main() do\n    print(deep(0))\nend\n",
    ),
    (
        "spawn bomb",
        "func bomb() do\n    nursery do\n        spawn bomb()\n        spawn bomb()\n    end\nend\n\n\
         func main() do\n    bomb()\nend\n",
    ),
    (
        "texts",
        "func main() do\n    var t = \"x\"\n    while true do\n        t = t + t\n    end\nend\n",
    ),
    (
        "arrays",
        "func main() do\n    let a = [0]\n    while true do\n        a.push(1)\n    end\nend\n",
    ),
    ("printing", "func main() do\n    while true do\n        println(\"me\")\n    end\nend\n"),
    (
        "messages",
        "func main() do\n    let c = channel(1000)\n    while true do\n        let sent = c.try_send(1)\n    end\nend\n",
    ),
];

/// The budget of each hostile program.
const BUDGET: Budget = Budget::ZERO
    .with_ops(200_000)
    .with_memory(1 << 20)
    .with_spawn_count(100)
    .with_channel_ops(1_000)
    .with_syscalls(100);

/// A program that calls `tick` after each millisecond.
const CALM: &str = "{.profile: service.}\nfunc main() -> i64 do\n    for i in 0..<rounds() do\n        \
                    sleep(1)\n        tick()\n    end\n    rounds()\nend\n";

fn compiled(name: &str, text: &str, functions: &Functions) -> parcae::Result<Program> {
    let source = Source::new(format!("{name}.jan"), text);
    Program::compile(&source, Profile::Service, functions)
        .map_err(|faults| parcae::Error::msg(faults[0].render(&source)))
}

/// How late rounds of the program began, in microseconds, sorted.
struct Lateness(Vec<u64>);

impl Lateness {
    fn of(ticks: &[Instant]) -> Lateness {
        let since = |pair: &[Instant]| pair[1] - pair[0];
        let late =
            |time: Duration| time.saturating_sub(Duration::from_millis(1)).as_micros() as u64;
        let mut late: Vec<u64> = ticks.windows(2).map(|pair| late(since(pair))).collect();
        late.sort_unstable();
        Lateness(late)
    }

    fn part(&self, percent: usize) -> u64 {
        let last = self.0.len().saturating_sub(1);
        self.0.get(last * percent / 100).copied().unwrap_or(0)
    }

    fn line(&self) -> String {
        let (p50, p99) = (grouped(self.part(50)), grouped(self.part(99)));
        format!("late by {p50} us in the median, {p99} us at p99")
    }
}

/// Runs the calm program: its value, and when its rounds began.
fn calm(cx: &Cx, handle: &Handle, rounds: i64) -> parcae::Result<(i64, Lateness)> {
    let ticks = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&ticks);
    let functions = Functions::new().add("rounds", Budget::ZERO, move || rounds).add(
        "tick",
        Budget::ZERO,
        move || seen.lock().unwrap().push(Instant::now()),
    );
    let program = compiled("calm", CALM, &functions)?;
    let host = Host::new(|_| ()).functions(&functions);
    let value = program.run_in(cx, handle, Budget::UNLIMITED, host);
    let value = value.map_err(|failure| parcae::Error::msg(failure.to_string()))?;
    let ticks = ticks.lock().unwrap();
    Ok((value, Lateness::of(&ticks)))
}

fn run(stage: &Stage, size: Size) -> parcae::Result<()> {
    let rounds = size.pick(1_000, 60);
    let rt = Runtime::builder().workers(cores()).build()?;
    let handle = rt.handle();
    let programs: parcae::Result<Vec<(&str, Program)>> = HOSTILE
        .iter()
        .map(|(name, text)| Ok((*name, compiled(name, text, &Functions::new())?)))
        .collect();
    let programs = programs?;
    let outer = handle.clone();
    let alone = rt.run(move |cx| calm(cx, &outer, rounds))?;
    let over = Arc::new(AtomicBool::new(false));
    let (beside, ended) = rt.run(move |cx| {
        cx.nursery(|n| {
            let mut tenants = Vec::new();
            for (name, program) in programs {
                let (handle, over) = (handle.clone(), Arc::clone(&over));
                tenants.push(n.spawn(move |cx| {
                    let mut causes: Vec<(String, u64)> = Vec::new();
                    let mut runs = 0;
                    while runs == 0 || !over.load(Ordering::Relaxed) {
                        let host = Host::new(|_| ());
                        let cause = match program.run_in(cx, &handle, BUDGET, host) {
                            Ok(value) => format!("it returned {value}"),
                            Err(failure) => failure.to_string(),
                        };
                        runs += 1;
                        match causes.iter_mut().find(|(known, _)| *known == cause) {
                            Some((_, count)) => *count += 1,
                            None => causes.push((cause, 1)),
                        }
                        cx.checkpoint()?;
                    }
                    Ok((name, runs, causes))
                })?);
            }
            let beside = calm(cx, &handle, rounds);
            over.store(true, Ordering::Relaxed);
            let ended: parcae::Result<Vec<_>> =
                tenants.into_iter().map(|tenant| tenant.join()).collect();
            Ok((beside?, ended?))
        })
    })?;
    stage.say(format_args!("{} {}", paint(BOLD, "alone       "), alone.1.line()));
    stage.say(format_args!("{} {}", paint(BOLD, "beside them "), beside.1.line()));
    for (name, runs, causes) in &ended {
        let mut causes: Vec<String> = causes.iter().map(|(cause, _)| cause.clone()).collect();
        causes.sort();
        stage.say(format_args!(
            "{} ended {} times by its budget: {}",
            paint(BOLD, format!("{name:12}")),
            grouped(*runs),
            paint(DIM, causes.join(", ")),
        ));
    }
    let figures = |late: &Lateness| json!({ "p50_us": late.part(50), "p99_us": late.part(99) });
    stage.figure("alone", figures(&alone.1));
    stage.figure("beside_them", figures(&beside.1));
    let programs = ended
        .iter()
        .map(|(name, runs, causes)| json!({ "name": name, "runs": runs, "causes": causes }));
    stage.figure("programs", programs.collect::<Vec<_>>());
    check(alone.0 == rounds && beside.0 == rounds, "the calm program does all of its rounds")?;
    let contained = ended
        .iter()
        .all(|(_, _, causes)| causes.iter().all(|(cause, _)| !cause.starts_with("it returned")));
    check(contained, "every hostile program is ended by its budget")?;
    check(rt.live_tasks() == 0, "no task of a hostile program is left")
}
