//! A crawler and a flaky server in the simulated network; a bug that some seeds find.
//!
//! The crawler fetches pages, follows their links and tries again when a connection breaks. It
//! counts a page when it has sent the request instead of when it has read the answer, so a page
//! whose connection breaks is counted twice. Tests on a good network never show that.
//!
//! ```text
//! cargo run -p parcae-io --example crawl_sim              # looks for a seed that shows the bug
//! cargo run -p parcae-io --example crawl_sim -- 17        # runs one seed again
//! cargo run -p parcae-io --example crawl_sim -- mended    # the crawler without the bug
//! ```

use parcae::prelude::*;
use parcae_io::http::{Response, Server};
use parcae_io::net::{TcpListener, TcpStream};
use parcae_io::sim::{self, Faults, Host};
use std::collections::BTreeSet;
use std::io::{self, Read, Write};

/// Pages of the site. Page `n` has links to `2n + 1` and `2n + 2`.
const PAGES: usize = 31;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Crawler {
    Buggy,
    Mended,
}

/// Fetches a page: its text.
fn fetch(page: usize, counted: &mut usize, crawler: Crawler) -> io::Result<String> {
    let mut stream = TcpStream::connect("site.example:80")?;
    write!(stream, "GET /{page} HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n\r\n")?;
    if crawler == Crawler::Buggy {
        *counted += 1; // too early: the answer may never come
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, text) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    if crawler == Crawler::Mended {
        *counted += 1;
    }
    Ok(text.into())
}

/// Crawls the whole site; the number of pages that it has counted.
fn crawl(crawler: Crawler) -> parcae::Result<usize> {
    let (mut counted, mut known) = (0, BTreeSet::from([0]));
    let mut waiting = vec![0];
    while let Some(page) = waiting.pop() {
        match fetch(page, &mut counted, crawler) {
            Ok(text) => {
                for link in text.split_whitespace().filter_map(|word| word.parse().ok()) {
                    if known.insert(link) {
                        waiting.push(link);
                    }
                }
            }
            Err(error) if parcae_io::is_cancelled(&error) => return Err(error.into()),
            Err(_) => waiting.push(page), // try again
        }
    }
    Ok(counted)
}

/// One run: a server, a crawler, and a network that breaks a connection now and then.
fn run(seed: u64, crawler: Crawler) -> parcae::Result<usize> {
    let rt = Runtime::builder().workers(2).deterministic(seed).build()?;
    rt.run(|cx| {
        let (site, visitor) = (Host::new("10.0.0.1"), Host::new("10.0.0.2"));
        sim::set_name("site.example", &["10.0.0.1"])?;
        let mut faults = Faults::default();
        (faults.loss, faults.resets) = (20, 3);
        sim::set_faults(faults)?;
        let listener = site.enter(|| TcpListener::bind("0.0.0.0:80"))?;
        let stop = CancelToken::new();
        cx.nursery(|n| {
            n.spawn(|cx| {
                Server::new().serve(cx, &listener, &stop, |_, request| {
                    let page: usize = request.path()[1..].parse().unwrap_or(0);
                    let links = [2 * page + 1, 2 * page + 2].into_iter().filter(|to| *to < PAGES);
                    let links: Vec<String> = links.map(|link| link.to_string()).collect();
                    Ok(Response::text(links.join(" ")))
                })
            })?;
            let counted = visitor.enter(|| crawl(crawler));
            stop.cancel();
            counted
        })
    })
}

fn main() -> parcae::Result<()> {
    let word = std::env::args().nth(1);
    if let Some(seed) = word.as_ref().and_then(|word| word.parse().ok()) {
        println!("seed {seed}: {} of {PAGES} pages counted", run(seed, Crawler::Buggy)?);
        return Ok(());
    }
    let crawler = if word.is_some() { Crawler::Mended } else { Crawler::Buggy };
    for seed in 0..200 {
        let counted = run(seed, crawler)?;
        if counted != PAGES {
            println!("seed {seed}: {counted} pages counted, and the site has {PAGES}");
            println!("again: cargo run -p parcae-io --example crawl_sim -- {seed}");
            return Ok(());
        }
    }
    println!("200 seeds: {PAGES} pages counted in each");
    Ok(())
}
