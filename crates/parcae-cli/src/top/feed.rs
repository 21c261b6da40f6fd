//! A thread that sends requests, so that the screen responds to keys while the program does not.

use crate::target::{Client, Trouble};
use serde_json::Value;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

/// A request and its answer.
pub(crate) type Answer = (String, Result<Value, Trouble>);

/// Requests in, answers out, in the same order.
pub(crate) struct Feed {
    requests: Sender<String>,
    answers: Receiver<Answer>,
}

impl Feed {
    /// The thread ends with the feed, or with this program: it may be waiting for an answer.
    pub(crate) fn start(mut client: Client) -> Feed {
        let (requests, asked) = mpsc::channel::<String>();
        let (answered, answers) = mpsc::channel();
        thread::spawn(move || {
            for request in asked {
                let answer = client.ask(&request);
                if answered.send((request, answer)).is_err() {
                    return;
                }
            }
        });
        Feed { requests, answers }
    }

    pub(crate) fn ask(&self, request: String) {
        let _ = self.requests.send(request); // the thread listens as long as there is a feed
    }

    /// The next answer, if there is one.
    pub(crate) fn answer(&self) -> Option<Answer> {
        self.answers.try_recv().ok()
    }
}
