//! Futures as children, on seeds and on threads.

mod budgets;
mod cancelling;
mod polling;
mod waiting;

use crate::prelude::*;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Poll, Waker};

/// A future that wakes itself this often before it is ready.
fn countdown(mut left: u32) -> impl Future<Output = crate::Result<&'static str>> + Send {
    poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(Ok("done"));
        }
        left -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

/// A one-place mailbox whose receiver is a future.
#[derive(Default)]
struct Mailbox(StdMutex<(Option<u32>, Option<Waker>)>);

impl Mailbox {
    fn send(&self, value: u32) {
        let mut state = self.0.lock().unwrap();
        state.0 = Some(value);
        let waker = state.1.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    fn receive(&self) -> impl Future<Output = u32> + Send {
        poll_fn(|context| {
            let mut state = self.0.lock().unwrap();
            match state.0.take() {
                Some(value) => Poll::Ready(value),
                None => {
                    state.1 = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
    }
}

/// Counts how often it is dropped.
#[derive(Clone, Default)]
struct Dropped(Arc<AtomicUsize>);

struct Counting(Dropped);

impl Dropped {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    fn guard(&self) -> Counting {
        Counting(self.clone())
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Both futures, polled by one task, as a `join!` does it.
async fn both<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (Box::pin(a), Box::pin(b));
    let (mut left, mut right) = (None, None);
    poll_fn(move |context| {
        fn step<F: Future>(
            future: &mut Pin<Box<F>>,
            done: &mut Option<F::Output>,
            context: &mut std::task::Context<'_>,
        ) {
            if done.is_none()
                && let Poll::Ready(output) = future.as_mut().poll(context)
            {
                *done = Some(output);
            }
        }
        step(&mut a, &mut left, context);
        step(&mut b, &mut right, context);
        match (left.take(), right.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (a, b) => {
                (left, right) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}

fn on_seeds(seeds: u64, test: impl Fn(&Runtime) -> crate::Result<()>) {
    crate::explore(0..seeds, test).unwrap();
}
