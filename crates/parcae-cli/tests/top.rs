//! `parcae top` on a terminal: what its screen shows, what keys do, and that the terminal is what
//! it was when it is left.

mod attached;

use attached::{Program, unnumbered};
use std::fs::File;
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const ROWS: u16 = 24;
const COLUMNS: u16 = 110;

/// `parcae top` on a pseudo-terminal.
struct Terminal {
    top: Child,
    keys: File,
    screen: Arc<Mutex<vt100::Parser>>,
    before: libc::termios,
}

impl Terminal {
    fn start(program: &Program, args: &[&str]) -> Terminal {
        let (ours, theirs) = open();
        let before = settings(&ours);
        let mut command = program.folder.parcae();
        command.arg("top").args(args).env("TERM", "xterm-256color");
        let end = || theirs.try_clone().unwrap();
        command.stdin(end()).stdout(end()).stderr(end());
        // SAFETY: two system calls, which a forked child may do: the terminal becomes its own.
        unsafe {
            command.pre_exec(|| {
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let top = command.spawn().unwrap();
        let keys = File::from(ours);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(ROWS, COLUMNS, 0)));
        let (mut output, shown) = (keys.try_clone().unwrap(), Arc::clone(&screen));
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            // An error when the other end is closed, as terminals do it.
            while let Ok(length @ 1..) = output.read(&mut buffer) {
                shown.lock().unwrap().process(&buffer[..length]);
            }
        });
        // `theirs` stays open as long as the command, so that its settings can be asked for until
        // then.
        Terminal { top, keys, screen, before }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn contents(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// Waits until the screen is as it should be.
    fn wait(&self, what: &str, ready: impl Fn(&str) -> bool) -> String {
        for _ in 0..6_000 {
            let contents = self.contents();
            if ready(&contents) {
                return contents;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("no {what} on\n{}", self.contents());
    }

    /// Waits for a text, which has `#` in the place of numbers.
    fn see(&self, text: &str) -> String {
        self.wait(text, |screen| unnumbered(screen).contains(text))
    }

    /// Waits for its end, and checks that the terminal is what it was.
    fn end(mut self) -> (ExitStatus, String) {
        let status = self.top.wait().unwrap();
        let left = |this: &Terminal| {
            let parser = this.screen.lock().unwrap();
            !parser.screen().alternate_screen() && !parser.screen().hide_cursor()
        };
        for _ in 0..6_000 {
            if left(&self) {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        assert!(left(&self), "the screen or the cursor is gone:\n{}", self.contents());
        let after = settings(&self.keys);
        let flags = |it: &libc::termios| (it.c_iflag, it.c_oflag, it.c_lflag);
        assert_eq!(flags(&after), flags(&self.before), "as it was");
        (status, self.contents())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.top.kill(); // it may have ended
        let _ = self.top.wait();
    }
}

/// The two ends of a pseudo-terminal.
fn open() -> (OwnedFd, OwnedFd) {
    let (mut ours, mut theirs) = (-1, -1);
    let size = libc::winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
    let none = std::ptr::null_mut();
    // SAFETY: both numbers are written to; a name and settings are not asked for.
    let opened = unsafe { libc::openpty(&mut ours, &mut theirs, none, none.cast(), &size) };
    assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: just opened, and owned here. Only the copies for the child are to be inherited.
    unsafe {
        libc::fcntl(ours, libc::F_SETFD, libc::FD_CLOEXEC);
        libc::fcntl(theirs, libc::F_SETFD, libc::FD_CLOEXEC);
        (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs))
    }
}

fn settings(terminal: &impl AsRawFd) -> libc::termios {
    let mut settings = MaybeUninit::uninit();
    // SAFETY: a terminal that is open; settings are written if it says so.
    unsafe {
        assert_eq!(libc::tcgetattr(terminal.as_raw_fd(), settings.as_mut_ptr()), 0);
        settings.assume_init()
    }
}

/// The first column of the rows of tasks and nurseries.
fn first_column(screen: &str) -> Vec<String> {
    let rows = screen.lines().skip_while(|line| !line.starts_with("TASK")).skip(1);
    let rows = rows.take_while(|line| !line.trim().is_empty() && !line.contains("filter: "));
    rows.map(|line| unnumbered(line.get(..28).unwrap_or(line).trim_end())).collect()
}

const ESC: &str = "\x1b";

#[test]
fn a_screen_shows_the_program_and_keys_change_it() {
    if attached::played() {
        return;
    }
    let program = Program::start("a_screen_shows_the_program_and_keys_change_it");
    let mut terminal = Terminal::start(&program, &["--interval", "0.1"]);
    // The clock has its turn now and then, and is not known by name before it has been seen to
    // wait.
    let tree = [
        "#",
        "  nursery shop #",
        "    # cashier",
        "    # clock",
        "    # hotel",
        "      nursery guests #",
        "        # guest-1",
        "        # guest-2",
        "        # guest-3",
        "    # landlord",
        "      nursery tenant-7 #",
        "        # miner",
    ];
    let screen = terminal.wait("tree", |screen| first_column(screen) == tree);
    let pid = format!("(pid {})  2 workers  9 tasks  executed ", program.pid());
    assert!(screen.lines().next().unwrap().contains(&pid), "{screen}");
    assert!(screen.contains("worker   executed/s  spawned/s"), "{screen}");
    assert!(screen.contains("nurseries and tasks by number, every 100ms"), "{screen}");
    terminal.wait("rate", |screen| !screen.contains("executed –/s"));

    terminal.press("ts");
    terminal.see("tasks by name, every");
    let begins = |screen: &str, rows: [&str; 3]| first_column(screen).iter().take(3).eq(rows);
    terminal.wait("names", |screen| begins(screen, ["# cashier", "# clock", "# guest-1"]));
    terminal.press("o");
    terminal.see("tasks by name, reversed");
    terminal.wait("last names", |screen| begins(screen, ["#", "# miner", "# landlord"]));

    terminal.press("/GUEST-2");
    terminal.see("filter: GUEST-2_");
    let screen = terminal.wait("one row", |screen| first_column(screen).len() == 1);
    assert_eq!(first_column(&screen), ["# guest-2"]);
    terminal.press("\r\r");
    let screen = terminal.see("sleep_late at ");
    assert!(unnumbered(&screen).contains("task # guest-2: waiting"), "{screen}");
    assert!(screen.contains("waiting: sleeping, for "), "{screen}");
    assert!(screen.contains("attached.rs:"), "{screen}");
    terminal.press(ESC);
    terminal.see("q quit");
    terminal.press("c");
    terminal.see("cancel task # guest-2? y/n");
    terminal.press("n");
    terminal.see("not cancelled");
    terminal.press("c");
    terminal.see("cancel task # guest-2? y/n");
    terminal.press("y");
    terminal.see("done: cancel #");
    terminal.wait("guest-2 gone", |screen| first_column(screen).is_empty());
    assert!(!program.ask("tasks").unwrap().contains("guest-2"), "it has ended in truth");

    terminal.press(ESC);
    terminal.see("guest-3");
    terminal.press("/miner\r");
    terminal.wait("one row", |screen| first_column(screen) == ["# miner"]);
    terminal.press("r");
    terminal.see("recharge nursery # with: ops=1000_");
    terminal.press("\x7f\x7f\x7f\x7fmany\r");
    terminal.see("`many` is not a number");
    terminal.press("r");
    terminal.see("with: ops=1000_");
    terminal.press("\r");
    terminal.see("done: recharge # ops=1000");

    terminal.press("q");
    let (status, rest) = terminal.end();
    assert_eq!(status.code(), Some(0));
    assert_eq!(rest, "", "nothing stays behind");
}

#[test]
fn when_the_program_is_gone_it_says_so_and_leaves() {
    if attached::played() {
        return;
    }
    let mut program = Program::start("when_the_program_is_gone_it_says_so_and_leaves");
    let terminal = Terminal::start(&program, &["--interval", "0.1"]);
    terminal.see("miner");
    program.kill();
    // Written after the screen was left.
    terminal.see(&format!("(pid {}) has ended, or has closed its socket", program.pid()));
    let (status, _) = terminal.end();
    assert_eq!(status.code(), Some(4));
}

#[test]
fn a_program_that_is_stopped_does_not_stop_the_screen() {
    if attached::played() {
        return;
    }
    let program = Program::start("a_program_that_is_stopped_does_not_stop_the_screen");
    let mut terminal = Terminal::start(&program, &["--interval", "0.1"]);
    terminal.see("miner");
    let signal = |signal| {
        // SAFETY: a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(program.pid() as i32, signal) }, 0);
    };
    signal(libc::SIGSTOP);
    terminal.see("no answer for ");
    terminal.press("t");
    terminal.see("tasks by number, every");
    signal(libc::SIGCONT);
    terminal.wait("an answer", |screen| !screen.contains("no answer for "));
    terminal.press("\x03"); // Ctrl-C
    assert_eq!(terminal.end().0.code(), Some(0));
}
