//! Tasks as spans of the `tracing` crate.
//!
//! With the feature `tracing`, each task of a nursery or a runtime is a span named `task`, of level
//! DEBUG and target `parcae`, with its id, its name and its spawn location. The span is entered
//! while the task runs and left while it waits, so events that the task emits belong to it. Events
//! of the span itself: cancelled, out of budget, recharged, and how the task ended. An event of the
//! spawning task's span: spawned.
//!
//! A subscriber is code of the program, and is called in the middle of waits, where a panic would
//! unwind an operation that has happened: its panics end there.
//!
//! Without the feature, the twin below is empty.

#[cfg(feature = "tracing")]
pub(crate) use on::{Span, spawned};

#[cfg(not(feature = "tracing"))]
pub(crate) use off::{Span, spawned};

#[cfg(feature = "tracing")]
mod on {
    use crate::base::error::{Error, ErrorKind, discard};
    use crate::sched::events::EventKind;
    use std::cell::OnceCell;
    use std::panic::{AssertUnwindSafe, Location, catch_unwind};
    use tracing::{Level, event, span};

    /// Calls a subscriber, whose panic ends here.
    fn contained(call: impl FnOnce()) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(call)) {
            discard(payload);
        }
    }

    /// The span of a task. Part of the task's frame.
    #[derive(Debug, Clone)]
    pub(crate) struct Span(OnceCell<tracing::Span>);

    /// A task was spawned, by the running task if there is one.
    pub(crate) fn spawned(task: u64) {
        event!(target: "parcae", Level::TRACE, task, "spawned");
    }

    impl Span {
        pub(crate) const fn new() -> Span {
            Span(OnceCell::new())
        }

        /// The task begins.
        pub(crate) fn begin(
            &self,
            task: u64,
            name: Option<&str>,
            nursery: Option<&str>,
            spawned_at: &Location<'_>,
        ) {
            let new = || {
                span!(target: "parcae", parent: None, Level::DEBUG, "task", task, name, nursery,
                      spawned_at = %spawned_at)
            };
            self.0.get_or_init(new);
            self.enter();
        }

        /// The task runs on this thread from now on.
        pub(crate) fn enter(&self) {
            if let Some(span) = self.0.get() {
                contained(|| {
                    span.with_subscriber(|(id, dispatch)| dispatch.enter(id));
                });
            }
        }

        /// The task runs in a new frame from now on, with the span that the last one had.
        pub(crate) fn resume(&self, kept: &Span) {
            if let Some(span) = kept.0.get() {
                self.0.get_or_init(|| span.clone());
            }
            self.enter();
        }

        /// The task leaves this thread, for now.
        pub(crate) fn exit(&self) {
            if let Some(span) = self.0.get() {
                contained(|| {
                    span.with_subscriber(|(id, dispatch)| dispatch.exit(id));
                });
            }
        }

        /// An event of the running task.
        pub(crate) fn note(
            &self,
            kind: EventKind,
            resource: Option<parcae_core::budget::Resource>,
        ) {
            let Some(span) = self.0.get() else { return };
            let resource = resource.map(tracing::field::display);
            contained(|| match kind {
                EventKind::Cancel => {
                    event!(target: "parcae", parent: span, Level::DEBUG, "cancelled");
                }
                EventKind::Exhausted => {
                    event!(target: "parcae", parent: span, Level::DEBUG, resource, "out of budget");
                }
                EventKind::Recharged => {
                    event!(target: "parcae", parent: span, Level::DEBUG, resource, "recharged");
                }
                _ => {}
            });
        }

        /// The task ends.
        pub(crate) fn end(&self, error: Option<&Error>) {
            let Some(span) = self.0.get() else { return };
            match error {
                None => event!(target: "parcae", parent: span, Level::DEBUG, "finished"),
                Some(error) if matches!(error.kind(), ErrorKind::Panicked(_)) => {
                    event!(target: "parcae", parent: span, Level::ERROR, %error, "panicked");
                }
                Some(error) if error.is_cancelled() => {
                    event!(target: "parcae", parent: span, Level::DEBUG, "ended because it was cancelled");
                }
                Some(error) => {
                    event!(target: "parcae", parent: span, Level::WARN, %error, "failed");
                }
            }
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod off {
    use crate::base::error::Error;
    use crate::sched::events::EventKind;
    use std::panic::Location;

    /// The empty twin.
    #[derive(Debug, Clone)]
    pub(crate) struct Span;

    #[inline(always)]
    pub(crate) fn spawned(_: u64) {}

    impl Span {
        #[inline(always)]
        pub(crate) const fn new() -> Span {
            Span
        }

        #[inline(always)]
        pub(crate) fn begin(&self, _: u64, _: Option<&str>, _: Option<&str>, _: &Location<'_>) {}

        #[inline(always)]
        pub(crate) fn enter(&self) {}

        #[inline(always)]
        pub(crate) fn resume(&self, _: &Span) {}

        #[inline(always)]
        pub(crate) fn exit(&self) {}

        #[inline(always)]
        pub(crate) fn note(&self, _: EventKind, _: Option<parcae_core::budget::Resource>) {}

        #[inline(always)]
        pub(crate) fn end(&self, _: Option<&Error>) {}
    }
}

#[cfg(all(test, not(loom), feature = "tracing"))]
mod tests {
    use crate::prelude::*;
    use std::fmt::Write;
    use std::sync::{Arc, Mutex};
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    /// Collects spans and events as lines.
    #[derive(Default, Clone)]
    struct Lines(Arc<Mutex<(u64, Vec<String>)>>);

    struct Fields(String);

    impl Visit for Fields {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            let _ = write!(self.0, " {}={value:?}", field.name()); // into a String: cannot fail
        }
    }

    impl Lines {
        fn add(&self, line: String) {
            self.0.lock().unwrap().1.push(line);
        }

        fn has(&self, wanted: &[&str]) -> bool {
            let lines = &self.0.lock().unwrap().1;
            lines.iter().any(|line| wanted.iter().all(|part| line.contains(part)))
        }
    }

    impl Subscriber for Lines {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "parcae" || metadata.target() == "test"
        }
        fn new_span(&self, span: &Attributes<'_>) -> Id {
            let mut fields = Fields(String::new());
            span.record(&mut fields);
            let mut state = self.0.lock().unwrap();
            state.0 += 1;
            let id = state.0;
            state.1.push(format!("span {id}:{}", fields.0));
            Id::from_u64(id)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            let mut fields = Fields(String::new());
            event.record(&mut fields);
            self.add(format!("event in {:?}:{}", event.parent().map(Id::into_u64), fields.0));
        }
        fn enter(&self, span: &Id) {
            self.add(format!("enter {}", span.into_u64()));
        }
        fn exit(&self, span: &Id) {
            self.add(format!("exit {}", span.into_u64()));
        }
    }

    #[test]
    fn tasks_are_spans_that_are_entered_while_they_run() {
        let lines = Lines::default();
        tracing::subscriber::with_default(lines.clone(), || {
            for seed in 0..5 {
                let rt = Runtime::builder().deterministic(seed).workers(2).build().unwrap();
                let outcome = rt.run(|cx| {
                    let opts = NurseryOpts::new()
                        .name("plant")
                        .on_failure(OnFailure::Isolate)
                        .on_exhausted(OnExhausted::Fail);
                    cx.nursery_with(opts, |n| {
                        n.spawn_with(SpawnOpts::new().name("good"), |cx| {
                            (0..3).try_for_each(|_| cx.yield_now())
                        })?;
                        let bad = n.spawn(|_| -> crate::Result<()> { panic!("on purpose") })?;
                        let poor = SpawnOpts::new().budget(Budget { ops: 3, ..Budget::UNLIMITED });
                        let poor = n.spawn_with(
                            poor,
                            |cx| loop {
                                cx.checkpoint()?;
                            } as crate::Result<()>,
                        )?;
                        let _ = (bad.join(), poor.join());
                        n.spawn(|cx| cx.sleep(std::time::Duration::from_secs(60)))?;
                        cx.yield_now()?;
                        n.cancel();
                        Ok(())
                    })
                });
                assert!(outcome.is_err());
            }
        });
        assert!(lines.has(&["span", "name=\"good\"", "nursery=\"plant\"", "spans.rs:"]));
        assert!(lines.has(&["event in Some", "finished"]));
        assert!(lines.has(&["event in Some", "panicked", "on purpose"]));
        assert!(lines.has(&["event in Some", "out of budget", "ops"]));
        assert!(lines.has(&["event in Some", "cancelled"]));
        assert!(lines.has(&["spawned", "task="]));
        // Each span is entered and left in turn, and one at a time: there is one thread.
        let mut inside = Vec::new();
        for line in &lines.0.lock().unwrap().1 {
            match line.split_once(' ') {
                Some(("enter", id)) => inside.push(id.to_owned()),
                Some(("exit", id)) => assert_eq!(inside.pop().as_deref(), Some(id)),
                _ => {}
            }
            assert!(inside.len() <= 1, "{line}");
        }
        assert!(inside.is_empty());
    }
}
