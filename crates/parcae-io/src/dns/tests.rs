//! Questions that are shared, left behind and abandoned, with a name server of the test's own.

use super::*;
use parcae::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// A name server that answers when the test says so, and counts its questions.
#[derive(Clone)]
struct Server {
    asked: Arc<AtomicUsize>,
    gate: Arc<Mutex<mpsc::Receiver<()>>>,
}

fn server() -> (Server, mpsc::Sender<()>) {
    let (open, gate) = mpsc::channel();
    (Server { asked: Arc::default(), gate: Arc::new(Mutex::new(gate)) }, open)
}

impl Server {
    fn ask(&self) -> impl Fn(&str) -> io::Result<Vec<IpAddr>> + Clone + Send + 'static {
        let server = self.clone();
        move |_| {
            server.asked.fetch_add(1, Ordering::Relaxed); // a count
            let gate = server.gate.lock().unwrap();
            gate.recv().map_err(|_| io::Error::other("the server is down"))?;
            Ok(vec![IpAddr::from([10, 0, 0, 7])])
        }
    }

    /// Waits, in a task, until so many questions were asked.
    fn wait_for(&self, questions: usize) -> parcae::Result<()> {
        while self.asked.load(Ordering::Relaxed) < questions {
            parcae::time::sleep(Duration::from_millis(1))?; // Relaxed: as above
        }
        Ok(())
    }
}

#[test]
fn equal_questions_share_a_call() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let (server, open) = server();
    rt.run(|cx| {
        cx.nursery(|n| {
            let tasks: Vec<_> = (0..10)
                .map(|_| n.spawn(|_| Ok(lookup("shared.example", server.ask())?)))
                .collect::<parcae::Result<_>>()?;
            server.wait_for(1)?;
            cx.sleep(Duration::from_millis(5))?; // the others join
            open.send(()).unwrap();
            // A task that was late asks again.
            (0..10).for_each(|_| open.send(()).unwrap());
            for task in tasks {
                assert_eq!(task.join()?, [IpAddr::from([10, 0, 0, 7])]);
            }
            Ok(())
        })
    })
    .unwrap();
    assert!(server.asked.load(Ordering::Relaxed) < 10, "Relaxed: a count");
    assert!(!flights().contains_key("shared.example"));
}

/// The task that made the call is cancelled: it leaves at once, and the others get the answer.
#[test]
fn a_cancelled_task_leaves_its_call_to_the_others() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let (server, open) = server();
    rt.run(|cx| {
        cx.nursery(|n| {
            let (first, second) = (server.clone(), server.clone());
            let first = n.spawn(move |_| Ok(lookup("left.example", first.ask())?))?;
            server.wait_for(1)?;
            let second = n.spawn(move |_| Ok(lookup("left.example", second.ask())?))?;
            // Table, call and both tasks: after the answer the second one would ask again.
            while flights().get("left.example").map(Arc::strong_count) != Some(4) {
                cx.sleep(Duration::from_millis(1))?;
            }
            first.cancel();
            assert!(first.join().unwrap_err().is_cancelled());
            open.send(()).unwrap();
            assert_eq!(second.join()?, [IpAddr::from([10, 0, 0, 7])]);
            Ok(())
        })
    })
    .unwrap();
    assert_eq!(server.asked.load(Ordering::Relaxed), 1, "Relaxed: a count");
}

/// All threads for blocking calls are busy, and the call is withdrawn with its task: the other one
/// makes it.
#[test]
fn a_call_that_is_not_made_is_made_by_another() {
    let rt = Runtime::builder().workers(2).blocking_threads(1).build().unwrap();
    let (server, open) = server();
    let (busy, until) = mpsc::channel::<()>();
    rt.run(|cx| {
        cx.nursery(|n| {
            n.spawn(move |_| parcae::blocking_static(move || until.recv().is_ok()))?;
            cx.sleep(Duration::from_millis(5))?;
            let (first, second) = (server.clone(), server.clone());
            let first = n.spawn(move |_| Ok(lookup("none.example", first.ask())?))?;
            while !flights().contains_key("none.example") {
                cx.sleep(Duration::from_millis(1))?;
            }
            let second = n.spawn(move |_| Ok(lookup("none.example", second.ask())?))?;
            cx.sleep(Duration::from_millis(5))?;
            first.cancel();
            assert!(first.join().unwrap_err().is_cancelled());
            drop(busy);
            open.send(()).unwrap();
            assert_eq!(second.join()?.len(), 1);
            Ok(())
        })
    })
    .unwrap();
    assert_eq!(server.asked.load(Ordering::Relaxed), 1, "Relaxed: a count");
}

/// A slow name server does not keep the only worker from other tasks.
#[test]
fn a_slow_server_blocks_no_worker() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let (server, open) = server();
    rt.run(|cx| {
        cx.nursery(|n| {
            let asking = server.clone();
            let asks = n.spawn(move |_| Ok(lookup("slow.example", asking.ask()).unwrap_err()))?;
            server.wait_for(1)?; // this task runs, on the same worker
            drop(open);
            let error = asks.join()?;
            assert!(error.to_string().contains("the server is down"), "{error}");
            Ok(())
        })
    })
    .unwrap();
}
