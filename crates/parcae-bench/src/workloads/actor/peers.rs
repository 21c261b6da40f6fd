//! Actor libraries on tokio: the same messages, calls, starts and stops.
//!
//! ractor and kameo run on tokio's scheduler with one worker, actix on its own thread, as each of
//! them is meant to. Mailboxes: kameo's holds 64 messages; ractor's has no bound; that of actix is
//! never full for `do_send`.

use super::super::nanos_per;
use super::super::runtimes::{Futures, Tokio};
use super::{CALLS, LONG, MESSAGES, STARTS};
use crate::case::{Failure, Scale};
use std::time::Instant;

pub(super) mod of_ractor {
    use super::*;
    use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

    struct Sum;

    enum Msg {
        Add(usize),
        Get(RpcReplyPort<usize>),
    }

    impl Actor for Sum {
        type Msg = Msg;
        type State = usize;
        type Arguments = usize;

        async fn pre_start(
            &self,
            _: ActorRef<Msg>,
            sum: usize,
        ) -> Result<usize, ActorProcessingErr> {
            Ok(sum)
        }

        async fn handle(
            &self,
            _: ActorRef<Msg>,
            msg: Msg,
            sum: &mut usize,
        ) -> Result<(), ActorProcessingErr> {
            match msg {
                Msg::Add(n) => *sum += n,
                Msg::Get(reply) => drop(reply.send(*sum)),
            }
            Ok(())
        }
    }

    pub(in super::super) fn tell(scale: &Scale) -> Result<f64, Failure> {
        let count = scale.of(MESSAGES);
        Ok(Tokio::with_timers(1)?.run(async move {
            let (sum, ended) = Actor::spawn(None, Sum, 0).await.expect("it starts");
            let start = Instant::now();
            for _ in 0..count {
                sum.cast(Msg::Add(1)).expect("the actor runs");
            }
            let answer = sum.call(Msg::Get, Some(LONG)).await.expect("the actor runs");
            assert_eq!(answer.expect("the actor answers"), count);
            let nanos = nanos_per(start, count);
            sum.stop(None);
            ended.await.expect("no panic");
            nanos
        }))
    }

    pub(in super::super) fn call(scale: &Scale) -> Result<f64, Failure> {
        let count = scale.of(CALLS);
        Ok(Tokio::with_timers(1)?.run(async move {
            let (sum, ended) = Actor::spawn(None, Sum, 1).await.expect("it starts");
            let start = Instant::now();
            for _ in 0..count {
                let answer = sum.call(Msg::Get, Some(LONG)).await.expect("the actor runs");
                assert_eq!(answer.expect("the actor answers"), 1);
            }
            let nanos = nanos_per(start, count);
            sum.stop(None);
            ended.await.expect("no panic");
            nanos
        }))
    }

    pub(in super::super) fn start(scale: &Scale) -> Result<f64, Failure> {
        let count = scale.of(STARTS);
        Ok(Tokio::with_timers(1)?.run(async move {
            let start = Instant::now();
            for _ in 0..count {
                let (sum, ended) = Actor::spawn(None, Sum, 0).await.expect("it starts");
                sum.stop(None);
                ended.await.expect("no panic");
            }
            nanos_per(start, count)
        }))
    }
}

pub(super) mod of_kameo {
    use super::*;
    use kameo::actor::{Actor, ActorRef, Spawn};
    use kameo::error::Infallible;
    use kameo::message::{Context, Message};

    struct Sum(usize);

    impl Actor for Sum {
        type Args = Sum;
        type Error = Infallible;

        async fn on_start(sum: Sum, _: ActorRef<Sum>) -> Result<Sum, Infallible> {
            Ok(sum)
        }
    }

    struct Add(usize);

    impl Message<Add> for Sum {
        type Reply = ();

        async fn handle(&mut self, Add(n): Add, _: &mut Context<Sum, ()>) {
            self.0 += n;
        }
    }

    struct Get;

    impl Message<Get> for Sum {
        type Reply = usize;

        async fn handle(&mut self, Get: Get, _: &mut Context<Sum, usize>) -> usize {
            self.0
        }
    }

    pub(in super::super) fn tell(scale: &Scale) -> Result<f64, Failure> {
        let count = scale.of(MESSAGES);
        Ok(Tokio::with_timers(1)?.run(async move {
            let sum = Sum::spawn(Sum(0));
            let start = Instant::now();
            for _ in 0..count {
                sum.tell(Add(1)).await.expect("the actor runs");
            }
            assert_eq!(sum.ask(Get).await.expect("the actor answers"), count);
            nanos_per(start, count)
        }))
    }

    pub(in super::super) fn call(scale: &Scale) -> Result<f64, Failure> {
        let count = scale.of(CALLS);
        Ok(Tokio::with_timers(1)?.run(async move {
            let sum = Sum::spawn(Sum(1));
            let start = Instant::now();
            for _ in 0..count {
                let answer = sum.ask(Get).reply_timeout(LONG).await;
                assert_eq!(answer.expect("the actor answers"), 1);
            }
            nanos_per(start, count)
        }))
    }

    pub(in super::super) fn start(scale: &Scale) -> Result<f64, Failure> {
        let count = scale.of(STARTS);
        Ok(Tokio::with_timers(1)?.run(async move {
            let start = Instant::now();
            for _ in 0..count {
                let sum = Sum::spawn(Sum(0));
                sum.wait_for_startup().await;
                sum.stop_gracefully().await.expect("the actor runs");
                sum.wait_for_shutdown().await;
            }
            nanos_per(start, count)
        }))
    }
}

pub(super) mod of_actix {
    use super::*;
    use actix::{Actor, ActorContext, Context, Handler, Message, System};
    use tokio::sync::oneshot;

    struct Sum(usize, Option<oneshot::Sender<()>>);

    impl Actor for Sum {
        type Context = Context<Sum>;
    }

    impl Drop for Sum {
        fn drop(&mut self) {
            if let Some(ended) = self.1.take() {
                let _ = ended.send(());
            }
        }
    }

    struct Add(usize);

    impl Message for Add {
        type Result = ();
    }

    impl Handler<Add> for Sum {
        type Result = ();

        fn handle(&mut self, Add(n): Add, _: &mut Context<Sum>) {
            self.0 += n;
        }
    }

    struct Get;

    impl Message for Get {
        type Result = usize;
    }

    impl Handler<Get> for Sum {
        type Result = usize;

        fn handle(&mut self, Get: Get, _: &mut Context<Sum>) -> usize {
            self.0
        }
    }

    struct Stop;

    impl Message for Stop {
        type Result = ();
    }

    impl Handler<Stop> for Sum {
        type Result = ();

        fn handle(&mut self, Stop: Stop, context: &mut Context<Sum>) {
            context.stop();
        }
    }

    /// In batches of a mailbox: the sender has the thread, and the actor would never run.
    pub(in super::super) fn tell(scale: &Scale) -> Result<f64, Failure> {
        let count = scale.of(MESSAGES);
        Ok(System::new().block_on(async move {
            let sum = Sum(0, None).start();
            let start = Instant::now();
            for at in 0..count {
                sum.do_send(Add(1));
                if at % super::super::CAPACITY == 0 {
                    tokio::task::yield_now().await;
                }
            }
            assert_eq!(sum.send(Get).await.expect("the actor answers"), count);
            nanos_per(start, count)
        }))
    }

    pub(in super::super) fn call(scale: &Scale) -> Result<f64, Failure> {
        let count = scale.of(CALLS);
        Ok(System::new().block_on(async move {
            let sum = Sum(1, None).start();
            let start = Instant::now();
            for _ in 0..count {
                let answer = sum.send(Get).timeout(LONG).await;
                assert_eq!(answer.expect("the actor answers"), 1);
            }
            nanos_per(start, count)
        }))
    }

    pub(in super::super) fn start(scale: &Scale) -> Result<f64, Failure> {
        let count = scale.of(STARTS);
        Ok(System::new().block_on(async move {
            let start = Instant::now();
            for _ in 0..count {
                let (ended, has_ended) = oneshot::channel();
                let sum = Sum(0, Some(ended)).start();
                sum.do_send(Stop);
                has_ended.await.expect("it was dropped");
            }
            nanos_per(start, count)
        }))
    }
}
