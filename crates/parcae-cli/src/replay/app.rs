//! The state of the screen, changed by keys. Independent of the terminal.

use super::recording::Recording;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The input mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mode {
    Steps,
    /// The number of a step is being typed.
    Jump(String),
    /// All tasks at a step with their backtraces, and how far they are scrolled.
    Dump {
        scroll: usize,
    },
}

/// The action after a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Todo {
    Nothing,
    Quit,
    /// Run the program again, and dump all tasks before this step.
    Dump(usize),
}

pub(crate) struct App {
    pub(crate) run: Recording,
    /// The step that comes next; after the last one, the number of steps.
    pub(crate) at: usize,
    /// The selected task.
    pub(crate) task: usize,
    pub(crate) mode: Mode,
    /// The last dump, and its step.
    pub(crate) dump: Option<(usize, String)>,
    pub(crate) message: String,
}

/// Steps of a page.
const PAGE: usize = 10;

impl App {
    /// Begins at a step, or at the one that decides, or at the end.
    pub(crate) fn new(mut run: Recording, until: Option<usize>) -> App {
        let end = run.steps.len();
        let at = until.or(run.lost_after).unwrap_or(end).min(end);
        let task = run.steps.get(at).or(run.steps.last()).map_or(0, |step| step.task);
        let dump = run.dump.take();
        App { run, at, task, mode: Mode::Steps, dump, message: String::new() }
    }

    pub(crate) fn key(&mut self, key: KeyEvent) -> Todo {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Todo::Quit;
        }
        self.message.clear();
        match &mut self.mode {
            Mode::Steps => self.key_of_steps(key.code),
            Mode::Jump(_) => {
                self.key_of_jump(key.code);
                Todo::Nothing
            }
            Mode::Dump { scroll } => {
                match key.code {
                    KeyCode::Down | KeyCode::Char('j') => *scroll += 1,
                    KeyCode::Up | KeyCode::Char('k') => *scroll = scroll.saturating_sub(1),
                    KeyCode::PageDown | KeyCode::Char(' ') => *scroll += PAGE,
                    KeyCode::PageUp => *scroll = scroll.saturating_sub(PAGE),
                    KeyCode::Esc | KeyCode::Char('d') => self.mode = Mode::Steps,
                    KeyCode::Char('q') => return Todo::Quit,
                    _ => {}
                }
                Todo::Nothing
            }
        }
    }

    fn key_of_steps(&mut self, key: KeyCode) -> Todo {
        let end = self.run.steps.len();
        let (task, at) = (self.task, self.at);
        let steps = &self.run.steps;
        let next = |wanted: &dyn Fn(usize) -> bool| (at + 1..end).find(|&step| wanted(step));
        let before = |wanted: &dyn Fn(usize) -> bool| (0..at.min(end)).rfind(|&step| wanted(step));
        let of_task = |step: usize| steps[step].task == task;
        let forced = |step: usize| steps[step].forced;
        let to = match key {
            KeyCode::Char('q') | KeyCode::Esc => return Todo::Quit,
            KeyCode::Right | KeyCode::Down | KeyCode::Char('n' | 'j' | 'l' | ' ') => Some(at + 1),
            KeyCode::Left | KeyCode::Up | KeyCode::Char('p' | 'k' | 'h') => at.checked_sub(1),
            KeyCode::PageDown => Some(at + PAGE),
            KeyCode::PageUp => Some(at.saturating_sub(PAGE)),
            KeyCode::Home => Some(0),
            KeyCode::End => Some(end),
            KeyCode::Char('t') => next(&of_task),
            KeyCode::Char('T') => before(&of_task),
            KeyCode::Char('f') => next(&forced),
            KeyCode::Char('F') => before(&forced),
            KeyCode::Char('!') => self.run.lost_after,
            KeyCode::Char('g') => return self.enters(Mode::Jump(String::new())),
            KeyCode::Char(digit) if digit.is_ascii_digit() => {
                return self.enters(Mode::Jump(digit.to_string()));
            }
            KeyCode::Char('d') if self.dump.as_ref().is_some_and(|dump| dump.0 == at) => {
                return self.enters(Mode::Dump { scroll: 0 });
            }
            KeyCode::Char('d') => return Todo::Dump(at),
            KeyCode::Tab | KeyCode::Char(']') => return self.selects(task + 1),
            KeyCode::BackTab | KeyCode::Char('[') => {
                return self.selects(task + self.run.tasks.len().saturating_sub(1));
            }
            _ => return Todo::Nothing,
        };
        match to {
            Some(to) => self.at = to.min(end),
            None => self.message = "there is no such step".into(),
        }
        Todo::Nothing
    }

    fn key_of_jump(&mut self, key: KeyCode) {
        let Mode::Jump(text) = &mut self.mode else { return };
        match key {
            KeyCode::Char(digit) if digit.is_ascii_digit() => text.push(digit),
            KeyCode::Backspace => {
                text.pop();
            }
            KeyCode::Enter => {
                match text.parse::<usize>() {
                    Ok(step) if step <= self.run.steps.len() => self.at = step,
                    _ => self.message = format!("steps are 0 to {}", self.run.steps.len()),
                }
                self.mode = Mode::Steps;
            }
            KeyCode::Esc => self.mode = Mode::Steps,
            _ => {}
        }
    }

    fn enters(&mut self, mode: Mode) -> Todo {
        self.mode = mode;
        Todo::Nothing
    }

    fn selects(&mut self, task: usize) -> Todo {
        self.task = task % self.run.tasks.len().max(1);
        Todo::Nothing
    }

    /// A dump has arrived, or the reason that there is none.
    pub(crate) fn dumped(&mut self, step: usize, dump: Result<String, String>) {
        match dump {
            Ok(text) => {
                self.dump = Some((step, text));
                self.mode = Mode::Dump { scroll: 0 };
            }
            Err(reason) => self.message = reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::recording::tests::deadlock;
    use super::*;

    /// Presses keys, one per character; `>` and `<` are the arrows, `^` is Enter, `\t` is Tab.
    fn press(app: &mut App, keys: &str) -> Todo {
        let code = |key| match key {
            '>' => KeyCode::Right,
            '<' => KeyCode::Left,
            '^' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            key => KeyCode::Char(key),
        };
        let pressed = keys.chars().map(|key| app.key(KeyEvent::from(code(key))));
        pressed.last().expect("a key")
    }

    fn app() -> App {
        App::new(deadlock(), None)
    }

    #[test]
    fn it_begins_at_the_step_that_decides_and_steps_both_ways() {
        let mut app = app();
        assert_eq!((app.at, app.task), (1, 2));
        press(&mut app, ">");
        assert_eq!(app.at, 2);
        press(&mut app, ">>>>");
        assert_eq!(app.at, 4, "the end");
        press(&mut app, "<<<<<<");
        assert_eq!(app.at, 0);
        assert_eq!(App::new(deadlock(), Some(9)).at, 4);
    }

    #[test]
    fn steps_of_a_task_forced_switches_and_the_decisive_one_are_found() {
        let mut app = App::new(deadlock(), Some(0));
        assert_eq!(app.task, 1);
        press(&mut app, "t");
        assert_eq!(app.at, 3, "the next one of the same task");
        press(&mut app, "T");
        assert_eq!(app.at, 0);
        press(&mut app, "\tt");
        assert_eq!((app.task, app.at), (2, 1));
        press(&mut app, "<f");
        assert_eq!(app.at, 1);
        press(&mut app, "f");
        assert_eq!((app.at, &*app.message), (1, "there is no such step"));
        press(&mut app, ">>>!");
        assert_eq!(app.at, 1);
        press(&mut app, "[[");
        assert_eq!(app.task, 0);
    }

    #[test]
    fn a_number_jumps_and_a_wrong_one_says_so() {
        let mut app = app();
        press(&mut app, "3^");
        assert_eq!((app.at, &app.mode), (3, &Mode::Steps));
        press(&mut app, "g77^");
        assert_eq!((app.at, &*app.message), (3, "steps are 0 to 4"));
    }

    #[test]
    fn a_dump_is_asked_for_once_per_step() {
        let mut app = app();
        assert_eq!(press(&mut app, "d"), Todo::Dump(1));
        app.dumped(1, Ok("all tasks".into()));
        assert_eq!(app.mode, Mode::Dump { scroll: 0 });
        assert_eq!(press(&mut app, "jjk"), Todo::Nothing);
        assert_eq!(app.mode, Mode::Dump { scroll: 1 });
        assert_eq!(press(&mut app, "dd"), Todo::Nothing, "it is still there");
        assert_eq!(press(&mut app, "d>d"), Todo::Dump(2));
        app.dumped(2, Err("the program has changed".into()));
        assert_eq!((&app.mode, &*app.message), (&Mode::Steps, "the program has changed"));
        assert_eq!(press(&mut app, "q"), Todo::Quit);
    }
}
