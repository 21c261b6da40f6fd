//! `serving#2137`: a token holder waits for a lock whose owner waits for the token.
//!
//! A breaker lets one request through at a time. Each request, once inside, waits for a lock that
//! its client holds until it wants the request to finish. The client finishes them one by one, and
//! waits for each: the first one waits for the token, which the second one may have.
//!
//! Order that shows it: the second request enters the breaker first. Kind: semaphore and lock.
//! Tasks: 3.

use parcae::sync::{Event, Mutex, MutexGuard, Semaphore};
use parcae::{Result, Runtime};

#[derive(Default)]
struct Request {
    /// Held by the client until the request shall finish.
    gate: Mutex<()>,
    finished: Event,
}

impl Request {
    fn serve(&self, breaker: &Semaphore) -> Result<()> {
        let _token = breaker.acquire()?;
        let _open = self.gate.lock()?;
        self.finished.set();
        Ok(())
    }
}

/// Requests with the guards of their gates.
type Held<'r> = Vec<(&'r Request, MutexGuard<'r, ()>)>;

fn finish_one_by_one(held: Held<'_>) -> Result<()> {
    for (request, gate) in held {
        drop(gate);
        request.finished.wait()?;
    }
    Ok(())
}

fn open_all_and_finish(held: Held<'_>) -> Result<()> {
    let requests: Vec<&Request> = held.into_iter().map(|(request, _)| request).collect();
    requests.into_iter().try_for_each(|request| request.finished.wait())
}

fn run(rt: &Runtime, finish: fn(Held<'_>) -> Result<()>) -> Result<()> {
    rt.run(|cx| {
        let breaker = Semaphore::new(1);
        let requests = [Request::default(), Request::default()];
        cx.nursery(|n| {
            let mut held = Held::new();
            for request in &requests {
                held.push((request, request.gate.lock()?));
                n.spawn(|_| request.serve(&breaker))?;
            }
            finish(held)
        })
    })
}

/// With the bug.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, finish_one_by_one)
}

/// All gates are opened before the first request is waited for.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, open_all_and_finish)
}
