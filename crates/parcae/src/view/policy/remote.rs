//! The other end of the socket: a policy service in a process of its own.

use super::record::LONGEST_RECORD;
use super::{PolicyDecision, PolicyService, PolicyView};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// The longest line of an answer.
const LONGEST_LINE: u64 = 1 << 16;

/// A policy service in a process of its own: the seat of a runtime's policy, through the socket of
/// the runtime, which has to allow it: [`allow_policy`](crate::attach::AttachOpts::allow_policy).
///
/// ```no_run
/// use parcae::policy::{PolicyDecision, PolicyService, PolicyView, RemoteSeat, Weight};
/// use std::time::Duration;
///
/// struct Fixed;
///
/// impl PolicyService for Fixed {
///     fn look(&mut self, view: &PolicyView) -> Option<PolicyDecision> {
///         Some(PolicyDecision::on(view).weight("web", Weight::NORMAL))
///     }
/// }
///
/// // Not run: it needs a program with a socket.
/// let seat = RemoteSeat::take("/run/user/1000/parcae/4711-0.sock", "fixed", None)?;
/// seat.serve(Fixed, Duration::from_millis(20))?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct RemoteSeat {
    stream: BufReader<UnixStream>,
}

impl RemoteSeat {
    /// Connects, and takes the seat. `takes_over`: the last epoch, if another service has it.
    ///
    /// # Errors
    ///
    /// There is no such socket, the program does not allow it, or the seat is taken.
    pub fn take(
        socket: impl AsRef<Path>,
        name: &str,
        takes_over: Option<u64>,
    ) -> io::Result<RemoteSeat> {
        let stream = BufReader::new(UnixStream::connect(socket)?);
        let mut seat = RemoteSeat { stream };
        let takes_over = takes_over.map_or_else(String::new, |epoch| format!("epoch={epoch} "));
        seat.ask(format!("policy serve {takes_over}-- {name}").as_bytes(), &[])?;
        Ok(seat)
    }

    /// As [`ServiceSeat::view`](super::ServiceSeat::view).
    ///
    /// # Errors
    ///
    /// The connection has ended, or the answer is no view.
    pub fn view(&mut self) -> io::Result<PolicyView> {
        let answer = self.ask(b"policy view", &[])?;
        let length = answer.strip_prefix("{\"bytes\":").and_then(|rest| rest.strip_suffix('}'));
        let length = length.and_then(|digits| digits.parse::<usize>().ok());
        let length = length.filter(|&length| length <= LONGEST_RECORD);
        let length = length.ok_or_else(|| io::Error::other(format!("no view: {answer}")))?;
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes)?;
        PolicyView::from_bytes(&bytes).map_err(io::Error::other)
    }

    /// As [`ServiceSeat::decide`](super::ServiceSeat::decide).
    ///
    /// # Errors
    ///
    /// The decision was refused, or the connection has ended.
    pub fn decide(&mut self, decision: &PolicyDecision) -> io::Result<()> {
        self.decide_bytes(&decision.to_bytes())
    }

    /// As [`decide`](RemoteSeat::decide), for bytes that were made elsewhere.
    ///
    /// # Errors
    ///
    /// As for [`decide`](RemoteSeat::decide).
    pub fn decide_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.ask(format!("policy decide {}", bytes.len()).as_bytes(), bytes).map(drop)
    }

    /// As [`ServiceSeat::alive`](super::ServiceSeat::alive).
    ///
    /// # Errors
    ///
    /// As for [`decide`](RemoteSeat::decide).
    pub fn alive(&mut self, epoch: u64) -> io::Result<()> {
        self.ask(format!("policy alive {epoch}").as_bytes(), &[]).map(drop)
    }

    /// Lets a service look every `interval`, until the connection ends. Refused decisions are in
    /// the history of the policy; the service goes on.
    ///
    /// # Errors
    ///
    /// The connection has ended, or another service has taken the seat.
    pub fn serve(mut self, mut service: impl PolicyService, interval: Duration) -> io::Result<()> {
        let mut last: Option<PolicyDecision> = None;
        loop {
            let view = self.view()?;
            let told = match service.look(&view) {
                Some(decision) if !last.as_ref().is_some_and(|last| last.is_like(&decision)) => {
                    let told = self.decide(&decision);
                    last = told.is_ok().then_some(decision);
                    told
                }
                _ if view.epoch == 0 => Ok(()),
                _ => self.alive(view.epoch),
            };
            match told {
                Err(error) if error.kind() != io::ErrorKind::Other => return Err(error),
                Err(_) => last = None, // refused
                Ok(()) => {}
            }
            thread::sleep(interval);
        }
    }

    /// Sends a request with the bytes that follow it, and returns the line of the answer.
    fn ask(&mut self, request: &[u8], more: &[u8]) -> io::Result<String> {
        let mut text = request.to_vec();
        text.push(b'\n');
        text.extend(more);
        self.stream.get_mut().write_all(&text)?;
        let mut line = String::new();
        let read = (&mut self.stream).take(LONGEST_LINE).read_line(&mut line)?;
        if read == 0 || !line.ends_with('\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        match line.strip_prefix("{\"error\":\"") {
            Some(error) => Err(io::Error::other(error.trim_end_matches("\"}").to_owned())),
            None => Ok(line.to_owned()),
        }
    }
}
