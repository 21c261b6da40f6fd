//! Renders the book of Parcae, `docs/book`, to a static site, and checks it.
//!
//! ```sh
//! cargo run -p parcae-book -- build [OUT]     # the site, into OUT or target/book
//! cargo run -p parcae-book -- check           # problems of the pages, if there are any
//! cargo test -p parcae-book                   # the same, and every snippet
//! ```
//!
//! # How claims are checked
//!
//! | claim of a page | checked by |
//! |---|---|
//! | a snippet compiles and runs | it is a doctest of this crate: [`DOCTESTED`], and the README |
//! | a program prints this | `src/bin/program.rs` runs it and compares |
//! | a page, section or source file exists | [`check()`], [`check_document`] |
//! | a snippet cannot run | [`check()`]: the snippet has to say why |
//!
//! # Parts
//!
//! `fences` finds blocks of code, [`summary`] reads the table of contents, [`page`] one page,
//! [`Book`] all of them. [`check()`] finds problems, [`site`] renders.

pub mod check;
pub mod fences;
pub mod highlight;
pub mod page;
pub mod site;
pub mod summary;

pub use check::{Problem, check, check_document};

use page::Page;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};
use summary::Summary;

/// Pages as doctests.
macro_rules! doctests {
    ($($name:ident $path:literal)*) => {
        /// The pages whose snippets run as doctests. A test compares it with the table of contents.
        pub const DOCTESTED: &[&str] = &[$($path),*];
        $(
            #[cfg(doctest)]
            #[doc = include_str!(concat!("../../../docs/book/", $path))]
            mod $name {}
        )*
    };
}

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

doctests! {
    index "index.md"
    tutorial_1 "tutorial/1-hello.md"
    tutorial_2 "tutorial/2-nursery.md"
    tutorial_3 "tutorial/3-errors.md"
    tutorial_4 "tutorial/4-budget.md"
    tutorial_5 "tutorial/5-misbehaving.md"
    tutorial_6 "tutorial/6-recharge.md"
    tutorial_7 "tutorial/7-channels.md"
    tutorial_8 "tutorial/8-shutdown.md"
    tutorial_9 "tutorial/9-seeds.md"
    from_tokio "coming-from/tokio.md"
    from_go "coming-from/go.md"
    from_rayon "coming-from/rayon.md"
    from_erlang "coming-from/erlang.md"
    from_manual "coming-from/manual-page.md"
    concepts_fiber "concepts/fiber.md"
    concepts_nursery "concepts/nursery.md"
    concepts_budget "concepts/budget.md"
    concepts_share "concepts/share.md"
    concepts_context "concepts/context.md"
    concepts_lease "concepts/lease.md"
    concepts_island "concepts/island.md"
    concepts_capability "concepts/capability.md"
    concepts_profile "concepts/profile.md"
    concepts_determinism "concepts/determinism.md"
    concepts_cancellation "concepts/cancellation.md"
    concepts_waiting "concepts/waiting.md"
    howto_tenant "howto/bound-a-tenant.md"
    howto_shares "howto/give-shares.md"
    howto_policy "howto/write-a-policy.md"
    howto_pipeline "howto/pipeline-with-a-deadline.md"
    howto_server "howto/a-server.md"
    howto_files "howto/files.md"
    howto_http "howto/http.md"
    howto_actors "howto/actors.md"
    howto_supervise "howto/supervise.md"
    howto_fund_a_tree "howto/fund-a-tree.md"
    howto_test_actors "howto/test-actors.md"
    howto_ctrl_c "howto/ctrl-c.md"
    howto_blocking "howto/blocking-calls.md"
    howto_async "howto/async-crates.md"
    howto_tls "howto/tls.md"
    howto_lab "howto/test-concurrent-code.md"
    howto_timeline "howto/read-a-timeline.md"
    howto_lab_limits "howto/limits-of-the-lab.md"
    howto_seed "howto/replay-a-seed.md"
    howto_stacks "howto/size-stacks.md"
    howto_channel "howto/choose-a-channel.md"
    howto_state "howto/share-state.md"
    howto_compile_errors "howto/compile-errors.md"
    howto_see "howto/see-what-runs.md"
    howto_deadlock "howto/find-a-deadlock.md"
    howto_measure "howto/measure.md"
    howto_trace "howto/record-a-trace.md"
    howto_c "howto/call-it-from-c.md"
    howto_embed "howto/embed-the-language.md"
    internals_overview "internals/overview.md"
    internals_switch "internals/switch-and-stacks.md"
    internals_state "internals/state-word.md"
    internals_deque "internals/deque.md"
    internals_queues "internals/queues.md"
    internals_idle "internals/idle.md"
    internals_group "internals/group-counter.md"
    internals_cancel "internals/cancel-tree.md"
    internals_pool "internals/budget-pool.md"
    internals_channel "internals/channel.md"
    internals_select "internals/select.md"
    internals_locks "internals/locks.md"
    internals_timers "internals/timers.md"
    internals_end "internals/end-of-a-task.md"
    internals_monitor "internals/monitor.md"
    internals_shutdown "internals/shutdown.md"
    internals_inspect "internals/inspect.md"
    internals_deadlocks "internals/deadlocks.md"
    internals_traces "internals/traces.md"
    internals_foreign "internals/foreign-nurseries.md"
    internals_checks "internals/check-placement.md"
    reference_status "reference/status.md"
    reference_limits "reference/limits.md"
    reference_settings "reference/settings.md"
    reference_language "reference/language.md"
    reference_measured "reference/measured.md"
    reference_comparison "reference/comparison.md"
    reference_lab_corpus "reference/lab-corpus.md"
    reference_faq "reference/faq.md"
}

/// All pages.
#[derive(Debug)]
pub struct Book {
    /// The folder of the repository. Links may go anywhere in it.
    pub repository: PathBuf,
    /// The book's own folder, from there.
    pub folder: String,
    /// The table of contents.
    pub summary: Summary,
    /// By their path in the book.
    pub pages: BTreeMap<String, Page>,
}

impl Book {
    /// Reads the book in `folder` of the repository.
    ///
    /// # Errors
    ///
    /// If a file cannot be read.
    pub fn load(repository: &Path, folder: &str) -> io::Result<Book> {
        let root = repository.join(folder);
        let summary = Summary::parse(&fs::read_to_string(root.join("SUMMARY.md"))?);
        let mut pages = BTreeMap::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                let name = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
                if path.is_dir() {
                    folders.push(path);
                } else if name.ends_with(".md") && name != "SUMMARY.md" {
                    pages.insert(name.clone(), Page::parse(&name, fs::read_to_string(&path)?));
                }
            }
        }
        Ok(Book { repository: repository.into(), folder: folder.into(), summary, pages })
    }

    /// The book of this repository.
    ///
    /// # Errors
    ///
    /// If a file cannot be read.
    pub fn of_this_repository() -> io::Result<Book> {
        let repository = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        Book::load(&repository.canonicalize()?, "docs/book")
    }
}
