//! The state of the screen, changed by keys and answers. Independent of the terminal.

use super::model::{Picture, Task};
use super::rows::{self, Direction, Key, Layout, Order, Row};
use crate::target::{Hello, Trouble};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::Value;
use std::time::{Duration, Instant};

/// The input mode.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Mode {
    List,
    /// A filter is being typed.
    Filter,
    /// One task, and how far its stack is scrolled.
    Task {
        id: u64,
        scroll: usize,
    },
    /// Confirms a cancellation.
    Cancel {
        label: String,
        title: String,
    },
    /// Amounts are being typed.
    Recharge {
        nursery: u64,
        amounts: String,
    },
}

/// The action after a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Todo {
    Nothing,
    Quit,
    Ask(String),
}

pub(crate) struct App {
    pub(crate) hello: Hello,
    pub(crate) picture: Picture,
    /// When the picture was taken.
    taken: Option<Instant>,
    pub(crate) order: Order,
    pub(crate) mode: Mode,
    /// The selected row, and its position in case the row disappears.
    chosen: Option<Key>,
    position: usize,
    /// The opened task, with its stack.
    pub(crate) task: Option<Task>,
    /// The result of the last request.
    pub(crate) message: String,
    pub(crate) interval: Duration,
}

impl App {
    pub(crate) fn new(hello: Hello, interval: Duration) -> App {
        App {
            hello,
            picture: Picture::default(),
            taken: None,
            order: Order::default(),
            mode: Mode::List,
            chosen: None,
            position: 0,
            task: None,
            message: String::new(),
            interval,
        }
    }

    /// Processes an answer. An error ends `top`.
    pub(crate) fn answered(
        &mut self,
        request: &str,
        answer: Result<Value, Trouble>,
        now: Instant,
    ) -> Result<(), Trouble> {
        let verb = request.split(' ').next().unwrap_or_default();
        match (verb, answer) {
            ("tasks", Ok(json)) => {
                let passed = self.taken.map_or(Duration::ZERO, |then| now - then);
                let before = self.taken.map(|_| std::mem::take(&mut self.picture));
                self.picture = Picture::read(&json, before, passed)
                    .ok_or_else(|| Trouble::Refused("an unexpected answer to `tasks`".into()))?;
                self.taken = Some(now);
            }
            ("task", Ok(json)) => self.task = Task::read(&json),
            // The task has ended; the screen shows that.
            ("task", Err(Trouble::Refused(_))) => self.task = None,
            ("cancel" | "recharge", Ok(_)) => self.message = format!("done: {request}"),
            ("cancel" | "recharge", Err(Trouble::Refused(text))) => self.message = text,
            (_, Ok(_)) => {}
            (_, Err(trouble)) => return Err(trouble),
        }
        Ok(())
    }

    /// How old the picture is.
    pub(crate) fn age(&self, now: Instant) -> Option<Duration> {
        Some(now - self.taken?)
    }

    /// The rows, and the index of the selected one.
    pub(crate) fn rows(&self) -> (Vec<Row<'_>>, usize) {
        let rows = rows::rows(&self.picture, &self.order);
        let same = rows.iter().position(|row| Some(row.key()) == self.chosen);
        let at = same.unwrap_or(self.position).min(rows.len().saturating_sub(1));
        (rows, at)
    }

    /// The requests of every interval.
    pub(crate) fn questions(&self) -> Vec<String> {
        let mut questions = vec!["tasks".to_owned()];
        if let Mode::Task { id, .. } = self.mode {
            questions.push(format!("task {id}"));
        }
        questions
    }

    pub(crate) fn key(&mut self, key: KeyEvent) -> Todo {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Todo::Quit } else { Todo::Nothing };
        }
        match self.mode.clone() {
            Mode::List => self.key_in_list(key.code),
            Mode::Filter => self.key_in_filter(key.code),
            Mode::Task { id, scroll } => self.key_in_task(key.code, id, scroll),
            Mode::Cancel { label, .. } => {
                self.mode = Mode::List;
                match key.code {
                    KeyCode::Char('y' | 'Y') => Todo::Ask(format!("cancel {label}")),
                    _ => self.say("not cancelled"),
                }
            }
            Mode::Recharge { nursery, amounts } => self.key_in_recharge(key.code, nursery, amounts),
        }
    }

    fn key_in_list(&mut self, code: KeyCode) -> Todo {
        self.message.clear();
        match code {
            KeyCode::Char('q') => return Todo::Quit,
            KeyCode::Up | KeyCode::Char('k') => self.choose(|at, _| at.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.choose(|at, _| at + 1),
            KeyCode::PageUp => self.choose(|at, _| at.saturating_sub(10)),
            KeyCode::PageDown => self.choose(|at, _| at + 10),
            KeyCode::Home => self.choose(|_, _| 0),
            KeyCode::End => self.choose(|_, last| last),
            KeyCode::Char('s') => self.order.sort = self.order.sort.next(),
            KeyCode::Char('o') => {
                self.order.direction = match self.order.direction {
                    Direction::Forward => Direction::Backward,
                    Direction::Backward => Direction::Forward,
                }
            }
            KeyCode::Char('t') => {
                self.order.layout = match self.order.layout {
                    Layout::Tree => Layout::Flat,
                    Layout::Flat => Layout::Tree,
                }
            }
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Esc => self.order.filter.clear(),
            KeyCode::Char('+') => self.interval = (self.interval * 2).min(Duration::from_secs(60)),
            KeyCode::Char('-') => {
                self.interval = (self.interval / 2).max(Duration::from_millis(50));
            }
            KeyCode::Enter => return self.look_closer(),
            KeyCode::Char('c') => return self.ask_to_cancel(),
            KeyCode::Char('r') => return self.ask_to_recharge(),
            _ => {}
        }
        Todo::Nothing
    }

    fn key_in_filter(&mut self, code: KeyCode) -> Todo {
        match code {
            KeyCode::Enter => self.mode = Mode::List,
            KeyCode::Esc => {
                self.order.filter.clear();
                self.mode = Mode::List;
            }
            KeyCode::Backspace => drop(self.order.filter.pop()),
            KeyCode::Char(letter) => self.order.filter.push(letter),
            _ => {}
        }
        Todo::Nothing
    }

    fn key_in_task(&mut self, code: KeyCode, id: u64, scroll: usize) -> Todo {
        self.message.clear();
        // The screen limits scrolling to the length of the stack.
        let scroll = match code {
            KeyCode::Up => scroll.saturating_sub(1),
            KeyCode::Down => scroll + 1,
            KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace => {
                self.mode = Mode::List;
                return Todo::Nothing;
            }
            KeyCode::Char('q') => return Todo::Quit,
            KeyCode::Char('c') => return self.ask_to_cancel(),
            KeyCode::Char('r') => return self.ask_to_recharge(),
            _ => scroll,
        };
        let last = self.task.as_ref().map_or(0, |task| task.frames.len().saturating_sub(1));
        self.mode = Mode::Task { id, scroll: scroll.min(last) };
        Todo::Nothing
    }

    fn key_in_recharge(&mut self, code: KeyCode, nursery: u64, mut amounts: String) -> Todo {
        match code {
            KeyCode::Esc => {
                self.mode = Mode::List;
                return self.say("not recharged");
            }
            KeyCode::Enter => {
                self.mode = Mode::List;
                return Todo::Ask(format!("recharge {nursery:#x} {amounts}"));
            }
            KeyCode::Backspace => drop(amounts.pop()),
            KeyCode::Char(letter) => amounts.push(letter),
            _ => {}
        }
        self.mode = Mode::Recharge { nursery, amounts };
        Todo::Nothing
    }

    /// Selects another row, by the current index and the last one.
    fn choose(&mut self, to: impl FnOnce(usize, usize) -> usize) {
        let (rows, at) = self.rows();
        let last = rows.len().saturating_sub(1);
        let position = to(at, last).min(last);
        let chosen = rows.get(position).map(Row::key);
        (self.position, self.chosen) = (position, chosen);
    }

    /// The selected row, which stays selected.
    fn take_chosen(&mut self) -> Option<Key> {
        self.choose(|at, _| at);
        self.chosen
    }

    fn look_closer(&mut self) -> Todo {
        match self.take_chosen() {
            Some(Key::Task(id)) => {
                self.mode = Mode::Task { id, scroll: 0 };
                self.task = self.picture.task(id).cloned();
                Todo::Ask(format!("task {id}"))
            }
            Some(Key::Nursery(_)) => self.say("a nursery has no stack: choose a task"),
            None => Todo::Nothing,
        }
    }

    fn ask_to_cancel(&mut self) -> Todo {
        let chosen = self.take_chosen();
        if !self.hello.allows("cancel") {
            return self.say("the program does not allow it: `AttachOpts::allow_cancel`");
        }
        match chosen {
            Some(Key::Task(id)) => {
                if let Some(task) = self.picture.task(id) {
                    let (label, title) = (task.label.clone(), task.title());
                    self.mode = Mode::Cancel { label, title };
                }
                Todo::Nothing
            }
            Some(Key::Nursery(_)) => self.say("choose the task that opened the nursery"),
            None => Todo::Nothing,
        }
    }

    fn ask_to_recharge(&mut self) -> Todo {
        let chosen = self.take_chosen();
        if !self.hello.allows("recharge") {
            return self.say("the program does not allow it: `AttachOpts::allow_recharge`");
        }
        let nursery = match chosen {
            Some(Key::Nursery(nursery)) => Some(nursery),
            Some(Key::Task(id)) => self.picture.task(id).and_then(|task| task.nursery),
            None => return Todo::Nothing,
        };
        match nursery.filter(|nursery| *nursery != 0) {
            Some(nursery) => {
                self.mode = Mode::Recharge { nursery, amounts: "ops=1000".into() };
                Todo::Nothing
            }
            None => self.say("its nursery is unknown: choose a nursery"),
        }
    }

    fn say(&mut self, message: &str) -> Todo {
        message.clone_into(&mut self.message);
        Todo::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::answer;
    use super::*;

    fn app(may: &[&str]) -> App {
        let json = serde_json::json!({"parcae": "0.1.0", "pid": 7, "program": "shop", "workers": 2, "may": may});
        let mut app = App::new(Hello::read(&json).unwrap(), Duration::from_secs(1));
        app.answered("tasks", Ok(answer()), Instant::now()).unwrap();
        app
    }

    /// Presses keys; what is to be done after the last.
    fn press(app: &mut App, keys: &[KeyCode]) -> Todo {
        keys.iter().fold(Todo::Nothing, |_, code| app.key(KeyEvent::from(*code)))
    }

    fn chosen(app: &App) -> Key {
        let (rows, at) = app.rows();
        rows[at].key()
    }

    use KeyCode::{Backspace, Char, Down, End, Enter, Esc, Home, Up};

    #[test]
    fn the_chosen_row_stays_chosen_when_rows_move() {
        let mut app = app(&[]);
        press(&mut app, &[Down, Down]);
        assert_eq!(chosen(&app), Key::Task(2));
        press(&mut app, &[Char('o')]);
        assert_eq!(chosen(&app), Key::Task(2));
        let mut less = answer();
        less["tasks"].as_array_mut().unwrap().remove(1);
        app.answered("tasks", Ok(less), Instant::now()).unwrap();
        assert!(chosen(&app) != Key::Task(2), "another one, as it is gone");
        press(&mut app, &[Char('o'), Home, Up]);
        assert_eq!(chosen(&app), Key::Task(1));
        press(&mut app, &[End, Down, Down]);
        assert_eq!(chosen(&app), Key::Task(3));
    }

    #[test]
    fn what_is_not_allowed_is_not_asked_for() {
        let mut app = app(&[]);
        for (key, why) in [('c', "allow_cancel"), ('r', "allow_recharge")] {
            assert_eq!(press(&mut app, &[Char(key)]), Todo::Nothing);
            assert!(app.mode == Mode::List && app.message.contains(why), "{}", app.message);
        }
    }

    #[test]
    fn nothing_is_cancelled_without_a_yes() {
        let mut app = app(&["cancel"]);
        for key in [Esc, Enter, Char('n'), Char('q')] {
            assert_eq!(press(&mut app, &[Char('c'), key]), Todo::Nothing, "{key:?}");
        }
        assert_eq!(press(&mut app, &[Char('c'), Char('y')]), Todo::Ask("cancel root.1".into()));
        let refused = Err(Trouble::Refused("there is no task root.1".into()));
        app.answered("cancel root.1", refused, Instant::now()).unwrap();
        assert_eq!(app.message, "there is no task root.1");
        press(&mut app, &[Down, Char('c')]);
        assert!(app.mode == Mode::List, "a nursery is no task: {}", app.message);
    }

    #[test]
    fn a_recharge_goes_to_the_nursery_with_what_was_typed() {
        let mut app = app(&["recharge"]);
        assert_eq!(press(&mut app, &[Char('r')]), Todo::Nothing);
        assert!(app.message.contains("its nursery is unknown"), "a root task: {}", app.message);
        let keys = [Down, Char('r'), Backspace, Char('7'), Enter];
        assert_eq!(press(&mut app, &keys), Todo::Ask("recharge 0x9 ops=1007".into()));
        let keys = [Down, Char('r'), Char(' '), Char('x'), Esc];
        assert_eq!(press(&mut app, &keys), Todo::Nothing);
        assert_eq!(press(&mut app, &[Char('r'), Enter]), Todo::Ask("recharge 0x9 ops=1000".into()));
    }

    #[test]
    fn one_task_is_asked_for_as_long_as_it_is_looked_at() {
        let mut app = app(&[]);
        assert_eq!(app.questions(), ["tasks"]);
        assert_eq!(press(&mut app, &[Enter]), Todo::Ask("task 1".into()));
        assert_eq!(app.questions(), ["tasks", "task 1"]);
        let mut main = answer()["tasks"][0].clone();
        main["frames"] =
            serde_json::json!([{"name": "a", "file": "b.rs", "line": 3}, {"name": "c"}]);
        app.answered("task 1", Ok(main), Instant::now()).unwrap();
        assert_eq!(app.task.as_ref().unwrap().frames, ["a at b.rs:3", "c"]);
        press(&mut app, &[Down, Down, Down]);
        assert_eq!(app.mode, Mode::Task { id: 1, scroll: 1 }, "no further than its stack");
        app.answered("task 1", Err(Trouble::Refused("gone".into())), Instant::now()).unwrap();
        assert_eq!(app.task, None);
        press(&mut app, &[Esc]);
        assert_eq!(app.questions(), ["tasks"]);
    }

    #[test]
    fn a_filter_is_typed_kept_and_taken_back() {
        let mut app = app(&[]);
        press(&mut app, &[Char('/'), Char('q'), Char('m'), Backspace, Backspace, Char('m'), Enter]);
        assert_eq!((app.order.filter.as_str(), &app.mode), ("m", &Mode::List));
        press(&mut app, &[Char('/'), Char('x'), Esc]);
        assert_eq!((app.order.filter.as_str(), &app.mode), ("", &Mode::List));
    }

    #[test]
    fn intervals_have_bounds_and_there_is_always_a_way_out() {
        let mut app = app(&[]);
        press(&mut app, &[Char('-'); 20]);
        assert_eq!(app.interval, Duration::from_millis(50));
        press(&mut app, &[Char('+'); 20]);
        assert_eq!(app.interval, Duration::from_secs(60));
        assert_eq!(press(&mut app, &[Char('q')]), Todo::Quit);
        press(&mut app, &[Char('/')]);
        assert_eq!(press(&mut app, &[Char('q')]), Todo::Nothing, "a letter, there");
        let out = KeyEvent::new(Char('c'), KeyModifiers::CONTROL);
        assert_eq!(app.key(out), Todo::Quit);
    }

    #[test]
    fn a_program_that_is_gone_ends_it() {
        let mut app = app(&[]);
        let gone = Err(Trouble::Gone("shop".into()));
        assert!(app.answered("tasks", gone, Instant::now()).is_err());
        assert!(app.answered("tasks", Ok(Value::Null), Instant::now()).is_err());
    }
}
