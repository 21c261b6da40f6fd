//! Backtraces on fibers and of fibers.

use super::*;
use std::backtrace::Backtrace;

#[inline(never)]
fn recognisable_inner(f: &Suspender<'_>) {
    f.suspend().unwrap();
    std::hint::black_box(f);
}

#[inline(never)]
fn recognisable_outer(f: &Suspender<'_>) {
    recognisable_inner(f);
    std::hint::black_box(f);
}

fn last_frame(text: &str) -> &str {
    text.lines().rfind(|line| line.contains(": ")).unwrap_or_default()
}

#[test]
fn of_a_suspended_fiber_shows_its_frames_only() {
    let pool = pool();
    let mut fiber = fiber(&pool);
    fiber.start(recognisable_outer).unwrap();
    let text = fiber.backtrace().expect("suspended").to_string();
    let inner = text.find("recognisable_inner").unwrap_or_else(|| panic!("{text}"));
    let outer = text.find("recognisable_outer").unwrap_or_else(|| panic!("{text}"));
    assert!(inner < outer, "innermost first:\n{text}");
    assert!(last_frame(&text).contains("janus_fiber_entry"), "ends at the base:\n{text}");
    assert!(!text.contains("capture"), "the observer is not shown:\n{text}");
    assert!(!text.contains("janus_context_observe"), "nor where it looks in:\n{text}");
    // Observing changed nothing.
    assert!(matches!(fiber.resume(), Ok(Step::Finished)));
    assert!(fiber.backtrace().is_none());
}

#[test]
fn from_inside_a_fiber_end_at_its_base() {
    #[inline(never)]
    fn caller_of_the_fiber(fiber: &mut Fiber, out: Rc<RefCell<String>>) {
        let step = fiber.start(move |_| {
            *out.borrow_mut() = Backtrace::force_capture().to_string();
        });
        assert!(matches!(step, Ok(Step::Finished)));
    }
    let pool = pool();
    let out = Rc::default();
    caller_of_the_fiber(&mut fiber(&pool), Rc::clone(&out));
    let text = out.borrow();
    assert!(text.contains("fiber_main"), "{text}");
    assert!(last_frame(&text).contains("janus_fiber_entry"), "{text}");
}

#[test]
fn of_a_fiber_that_does_not_wait_is_none() {
    let pool = pool();
    let mut fiber = fiber(&pool);
    assert!(fiber.backtrace().is_none());
    fiber.start(|_| {}).unwrap();
    assert!(fiber.backtrace().is_none());
}

#[test]
fn can_be_taken_from_another_fiber() {
    let pool = pool();
    let mut watched = fiber(&pool);
    watched.start(recognisable_outer).unwrap();
    let out = Rc::new(RefCell::new(String::new()));
    let text = Rc::clone(&out);
    let mut watcher = fiber(&pool);
    watcher.start(move |_| *text.borrow_mut() = watched.backtrace().unwrap().to_string()).unwrap();
    assert!(out.borrow().contains("recognisable_inner"), "{}", out.borrow());
}

/// A deep stack is shown to its base.
#[test]
fn of_a_deep_stack_is_whole() {
    #[inline(never)]
    fn descend(f: &Suspender<'_>, levels: u32) {
        match levels {
            0 => f.suspend().unwrap(),
            _ => descend(f, levels - 1),
        }
        std::hint::black_box(f);
    }
    let pool = pool();
    let mut fiber = fiber(&pool);
    fiber.start(|f| descend(f, 200)).unwrap();
    let text = fiber.backtrace().expect("suspended").to_string();
    let levels = text.lines().filter(|line| line.contains("descend")).count();
    assert_eq!(levels, 201, "{text}");
    assert!(last_frame(&text).contains("janus_fiber_entry"), "ends at the base:\n{text}");
}
