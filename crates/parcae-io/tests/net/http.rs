//! HTTP/1.1: split input, pipelining, bodies, limits, refusals, draining; and
//! against curl and wrk.

use crate::support::{
    deterministic_seeded, everywhere, everywhere_seeded, on_workers_seeded, runtime, tools, watched,
};
use crate::{listener, pattern};
use parcae::prelude::*;
use parcae::runtime::SocketBackend;
use parcae_io::http::{Client, Limits, Outgoing, Request, Response, Server};
use parcae_io::net::TcpStream;
use std::io::{Cursor, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Answers with method, target and body.
fn mirror(_: &Cx, request: &mut Request<'_, '_>) -> parcae::Result<Response> {
    let body = match request.bytes() {
        Ok(body) => body,
        Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
            return Ok(Response::new(413));
        }
        Err(error) => return Err(error.into()),
    };
    match request.path() {
        "/fail" => Err(std::io::Error::other("no").into()),
        "/panic" => panic!("a handler of this test panics"),
        "/stream" => Ok(Response::new(200).stream(Cursor::new(body))),
        _ => {
            let mut text = format!("{} {} ", request.method(), request.target()).into_bytes();
            text.extend_from_slice(&body);
            Ok(Response::new(200).body(text))
        }
    }
}

/// Runs a server and a client of it; then drains the server.
fn serving<R: Send>(
    cx: &Cx,
    limits: Limits,
    client: impl FnOnce(SocketAddr) -> parcae::Result<R>,
) -> parcae::Result<R> {
    let (listener, address) = listener()?;
    let stop = CancelToken::new();
    cx.nursery(|n| {
        n.spawn(|cx| Server::new().limits(limits).serve(cx, &listener, &stop, mirror))?;
        let outcome = client(address);
        stop.cancel();
        outcome
    })
}

/// The body of an answer is read in parts. One that was read to its end leaves its connection to
/// the client; one that was not ends it. The server has room for one connection.
#[test]
fn an_answer_is_read_as_it_comes() {
    everywhere(|cx| {
        let mut limits = Limits::default();
        limits.connections = 1;
        serving(cx, limits, |address| {
            let client = Client::new().time(Duration::from_secs(20));
            let get = Outgoing::new("GET", &format!("http://{address}/get"));
            let sent = pattern(60_000, 1);
            let post = Outgoing::new("POST", &format!("http://{address}/stream")).body(&sent[..]);
            {
                let (mut reply, mut got) = (client.open(&post)?, Vec::new());
                assert_eq!(
                    (reply.status(), reply.header("transfer-encoding")),
                    (200, Some("chunked"))
                );
                let mut part = [0; 1_000];
                loop {
                    match reply.read(&mut part)? {
                        0 => break,
                        length => got.extend_from_slice(&part[..length]),
                    }
                }
                assert!(got == sent);
                assert_eq!(reply.read(&mut part)?, 0);
            }
            let mut reply = client.open(&get)?; // over the same connection
            let mut text = String::new();
            reply.read_to_string(&mut text)?;
            assert_eq!(text, "GET /get ");
            drop(client); // and its connection
            let client = Client::new().time(Duration::from_secs(20));
            let mut reply = client.open(&post)?;
            reply.read_exact(&mut [0; 10])?;
            drop(reply);
            assert_eq!(client.send(&get)?.body(), b"GET /get ");
            Ok(())
        })
    });
}

/// Sends bytes in pieces, ends the output, and reads everything that comes back.
fn exchange(address: SocketAddr, bytes: &[u8], piece: usize) -> parcae::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    for part in bytes.chunks(piece.max(1)) {
        if stream.write_all(part).is_err() {
            break; // refused before the end
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer); // a reset may follow the answer
    Ok(String::from_utf8_lossy(&answer).into())
}

fn statuses(answer: &str) -> Vec<&str> {
    answer.split("HTTP/1.1 ").skip(1).map(|part| &part[..3]).collect()
}

#[test]
fn requests_over_kept_connections() {
    everywhere_seeded(|cx, number| {
        serving(cx, Limits::default(), |address| {
            let client = Client::new();
            let base = format!("http://{address}");
            for round in 0..3 {
                let answer = client.get(&format!("{base}/{round}?q"))?;
                assert_eq!(answer.text(), Some(format!("GET /{round}?q ").as_str()));
            }
            let size = [0, 1, 5000, 70_000][(number % 4) as usize];
            let body = pattern(size, number as usize);
            let post = Outgoing::new("POST", &format!("{base}/p")).body(body.clone());
            let answer = client.send(&post)?;
            assert_eq!(&answer.body()[..8], b"POST /p ");
            assert!(answer.body()[8..] == body);
            let stream = Outgoing::new("PUT", &format!("{base}/stream")).body(body.clone());
            let answer = client.send(&stream)?;
            assert_eq!(answer.header("transfer-encoding"), Some("chunked"));
            assert!(answer.body() == body);
            let head = client.send(&Outgoing::new("HEAD", &base))?;
            assert_eq!((head.body(), head.header("content-length")), (&b""[..], Some("7")));
            assert_eq!(client.get(&format!("{base}/fail"))?.status(), 500);
            Ok(())
        })
    });
}

/// Pipelined requests, with and without bodies, in pieces of every size: the answers are whole and
/// in order.
#[test]
fn pipelined_requests_are_answered_in_order_however_they_are_split() {
    let batch = b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n\
                  POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc\
                  POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                  3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nX: 1\r\n\r\n\
                  \r\nGET /4 HTTP/1.0\r\n\r\n";
    everywhere_seeded(|cx, number| {
        serving(cx, Limits::default(), |address| {
            let piece = 1 + (number as usize * 7) % batch.len();
            let answer = exchange(address, batch, piece)?;
            let bodies = ["GET /1 ", "POST /2 abc", "POST /3 abcde", "GET /4 "];
            let mut rest = answer.as_str();
            for body in bodies {
                let at = rest.find(body).unwrap_or_else(|| panic!("{body} in {rest}"));
                rest = &rest[at + body.len()..];
            }
            assert_eq!(statuses(&answer), ["200"; 4]);
            assert!(answer.contains("Connection: close"), "the last one is of version 1.0");
            Ok(())
        })
    });
}

#[test]
fn bad_requests_are_refused_and_the_server_goes_on() {
    let cases: [(&[u8], &str); 9] = [
        (b"nonsense\r\n\r\n", "400"),
        (b"GET / HTTP/1.1\r\n\r\n", "400"),
        (b"GET / HTTP/3.0\r\nHost: a\r\n\r\n", "505"),
        (
            b"P / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "400",
        ),
        (b"P / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", "501"),
        (b"P / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n", "413"),
        (b"P / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "500"),
        (
            b"P / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
            "500",
        ),
        (b"GET /panic HTTP/1.1\r\nHost: a\r\n\r\n", ""),
    ];
    everywhere(|cx| {
        serving(cx, Limits::default(), |address| {
            for (bytes, status) in cases {
                let answer = exchange(address, bytes, usize::MAX)?;
                let expected: Vec<&str> =
                    Some(status).filter(|s| !s.is_empty()).into_iter().collect();
                assert_eq!(statuses(&answer), expected, "{}", bytes.escape_ascii());
            }
            assert_eq!(Client::new().get(&format!("http://{address}/"))?.status(), 200);
            Ok(())
        })
    });
}

#[test]
fn limits_are_on() {
    deterministic_seeded(60, |cx, _| {
        let mut limits = Limits::default();
        limits.body_bytes = 1000;
        serving(cx, limits, |address| {
            let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(20_000));
            assert_eq!(statuses(&exchange(address, long.as_bytes(), 4096)?), ["431"]);
            let endless = "X: y\r\n".repeat(10_000);
            let endless = format!("GET / HTTP/1.1\r\n{endless}");
            assert_eq!(statuses(&exchange(address, endless.as_bytes(), 4096)?), ["431"]);
            let large = "400\r\n".to_owned() + &"x".repeat(0x400) + "\r\n0\r\n\r\n";
            let large =
                format!("P / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{large}");
            assert_eq!(statuses(&exchange(address, large.as_bytes(), 4096)?), ["413"]);

            // A slow head, a byte each second of virtual time.
            let (mut slow, began) = (TcpStream::connect(address)?, parcae::time::now());
            let mut answer = String::new();
            for byte in b"GET / HTTP/1.1\r\nHost: a\r\nX: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy" {
                if slow.write_all(&[*byte]).is_err() {
                    break;
                }
                cx.sleep(Duration::from_secs(1))?;
                if parcae::time::now() - began > Duration::from_secs(10) {
                    break;
                }
            }
            let _ = slow.read_to_string(&mut answer);
            assert_eq!(statuses(&answer), ["408"]);

            // A connection without a request.
            let (mut idle, began) = (TcpStream::connect(address)?, parcae::time::now());
            assert_eq!(idle.read(&mut [0; 8])?, 0);
            let waited = parcae::time::now() - began;
            assert!(waited > Duration::from_secs(59) && waited < Duration::from_secs(61));

            // A body that does not come.
            let mut stuck = TcpStream::connect(address)?;
            stuck.write_all(b"P / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab")?;
            let mut answer = String::new();
            let _ = stuck.read_to_string(&mut answer);
            assert_eq!(statuses(&answer), ["500"]);
            Ok(())
        })
    });
}

#[test]
fn a_client_that_waits_for_a_word_gets_it() {
    everywhere(|cx| {
        serving(cx, Limits::default(), |address| {
            let mut stream = TcpStream::connect(address)?;
            let head =
                "POST /e HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";
            stream.write_all(head.as_bytes())?;
            let mut word = [0; 25];
            stream.read_exact(&mut word)?;
            assert_eq!(&word, b"HTTP/1.1 100 Continue\r\n\r\n");
            stream.write_all(b"body")?;
            stream.shutdown(Shutdown::Write)?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            assert!(answer.ends_with("POST /e body"), "{answer}");
            Ok(())
        })
    });
}

/// Idle connections end at once; a request that has begun is answered; no answer is cut.
#[test]
fn draining_loses_no_request() {
    everywhere_seeded(|cx, number| {
        let (listener, address) = listener()?;
        let (stop, answered) = (CancelToken::new(), AtomicUsize::new(0));
        cx.nursery(|n| {
            let (stop, answered) = (&stop, &answered);
            let server = n.spawn(move |cx| {
                Server::new().serve(cx, &listener, stop, |cx, _| {
                    cx.sleep(Duration::from_millis(1))?;
                    answered.fetch_add(1, Ordering::Relaxed); // a count
                    Ok(Response::text("done"))
                })
            })?;
            let mut idle = TcpStream::connect(address)?; // says nothing
            let clients: Vec<_> = (0..4)
                .map(|_| {
                    n.spawn(move |_| {
                        let (client, mut got) = (Client::new(), 0);
                        // Until the server is gone; an answer that came is whole.
                        while let Ok(answer) = client.get(&format!("http://{address}/")) {
                            assert_eq!(answer.text(), Some("done"));
                            got += 1;
                        }
                        Ok(got)
                    })
                })
                .collect::<parcae::Result<_>>()?;
            cx.sleep(Duration::from_millis(3 + number % 7))?;
            stop.cancel();
            server.join()?;
            let mut got = 0;
            for client in clients {
                got += client.join()?;
            }
            assert_eq!(got, answered.load(Ordering::Relaxed), "Relaxed: all have ended");
            assert_eq!(idle.read(&mut [0; 8]).unwrap_or(0), 0);
            Ok(())
        })
    });
}

#[test]
fn draining_cuts_a_request_that_takes_too_long() {
    deterministic_seeded(30, |cx, _| {
        let (listener, address) = listener()?;
        let stop = CancelToken::new();
        cx.nursery(|n| {
            let server = n.spawn(|cx| {
                Server::new().serve(cx, &listener, &stop, |cx, _| {
                    cx.sleep(Duration::from_secs(3600))?;
                    Ok(Response::new(200))
                })
            })?;
            let client =
                n.spawn(move |_| Ok(Client::new().get(&format!("http://{address}/")).is_err()))?;
            cx.sleep(Duration::from_secs(1))?;
            let began = parcae::time::now();
            stop.cancel();
            server.join()?;
            let took = parcae::time::now() - began;
            assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(11), "{took:?}");
            assert!(client.join()?);
            Ok(())
        })
    });
}

#[test]
fn curl_understands_it() {
    let Some(curl) = tools::find("curl") else {
        return tools::skip("curl_understands_it", "curl", "Debian: apt-get install curl");
    };
    let rt = runtime(2);
    rt.run(|cx| {
        serving(cx, Limits::default(), |address| {
            let run = |arguments: &[&str]| -> parcae::Result<String> {
                let mut command = parcae_io::process::Command::new(&curl);
                let output = command.args(["-sS", "--max-time", "20"]).args(arguments).output()?;
                assert!(output.status.success(), "{output:?}");
                Ok(String::from_utf8_lossy(&output.stdout).into_owned())
            };
            let url = format!("http://{address}");
            // Two requests over one connection.
            let both =
                run(&["-v", "-w", "%{num_connects} ", &format!("{url}/a"), &format!("{url}/b")])?;
            assert_eq!(both, "GET /a 1 GET /b 0 ");
            assert_eq!(run(&["-d", "x=1", &format!("{url}/p")])?, "POST /p x=1");
            let chunked =
                ["-H", "Transfer-Encoding: chunked", "-d", "abc", &format!("{url}/stream")];
            assert_eq!(run(&chunked)?, "abc");
            let large = "y".repeat(100_000);
            let folder = std::env::temp_dir().join(format!("parcae-curl-{}", std::process::id()));
            parcae_io::fs::write(&folder, &large)?;
            let data = format!("@{}", folder.display());
            let echoed = run(&["--data-binary", &data, &format!("{url}/stream")])?;
            parcae_io::fs::remove_file(&folder)?;
            assert!(echoed == large); // with a word from the server before the body
            assert!(run(&["-I", &url])?.starts_with("HTTP/1.1 200 OK"));
            assert_eq!(run(&["-0", &format!("{url}/old")])?, "GET /old ");
            Ok(())
        })
    })
    .unwrap();
}

/// Random numbers (SplitMix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Requests with random damage: bytes changed, cut out, doubled, put in between.
fn damaged(random: &mut u64) -> Vec<u8> {
    let good: [&[u8]; 6] = [
        b"GET /a?b=c HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n",
        b"POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
        b"POST /q HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;e=1\r\nhello\r\n0\r\nT: 1\r\n\r\n",
        b"HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        b"PUT /stream HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
        b"\r\nOPTIONS * HTTP/1.1\r\nHost: x\r\nX: \t y \r\nx: \xff\r\n\r\n",
    ];
    let bits: [&[u8]; 8] =
        [b"\r\n", b"\n", b"\0", b": ", b" ", b"4294967296", b"chunked", b"Content-Length: 7\r\n"];
    let mut bytes = Vec::new();
    for _ in 0..1 + next(random) % 3 {
        bytes.extend_from_slice(good[(next(random) % 6) as usize]);
    }
    for _ in 0..next(random) % 6 {
        let at = (next(random) % bytes.len() as u64) as usize;
        let end = (at + 1 + (next(random) % 9) as usize).min(bytes.len());
        match next(random) % 5 {
            0 => bytes[at] = next(random) as u8,
            1 if end - at < bytes.len() => drop(bytes.drain(at..end)),
            2 => {
                let part = bytes[at..end].repeat(1 + (next(random) % 40) as usize);
                bytes.splice(at..at, part);
            }
            3 => drop(bytes.splice(at..at, bits[(next(random) % 8) as usize].iter().copied())),
            _ => bytes.truncate(end),
        }
    }
    bytes
}

/// Whatever comes, the server answers or closes, each answer has a known status, and it goes on.
#[test]
fn damaged_requests_do_no_harm() {
    on_workers_seeded(|cx, number| {
        let mut limits = Limits::default();
        limits.head_bytes = 2_000;
        limits.body_bytes = 1_000;
        limits.head_time = Duration::from_millis(200);
        limits.body_time = Duration::from_millis(200);
        limits.idle_time = Duration::from_millis(200);
        serving(cx, limits, |address| {
            let mut random = number;
            for _ in 0..8 {
                let bytes = damaged(&mut random);
                let piece = 1 + (next(&mut random) % 80) as usize;
                let answer = exchange(address, &bytes, piece)?;
                if answer.is_empty() {
                    continue; // closed: the request was cut short
                }
                // Later ones cannot be told from bodies, which the server sends back.
                let code = answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
                let known = [
                    "100", "200", "400", "408", "411", "413", "414", "417", "431", "500", "501",
                    "505",
                ];
                assert!(
                    code.is_some_and(|code| known.contains(&code)),
                    "{answer} to {:?}",
                    String::from_utf8_lossy(&bytes)
                );
            }
            let answer = exchange(address, b"GET /still HTTP/1.1\r\nHost: x\r\n\r\n", 9)?;
            assert!(answer.ends_with("GET /still "), "{answer}");
            Ok(())
        })
    });
}

/// The deadline of an idle connection moves on with each request, and comes when there is none.
/// In real time, where a timer stays armed from one request to the next.
#[test]
fn an_idle_connection_ends_and_one_that_is_used_stays() {
    let each = [SocketBackend::Epoll, SocketBackend::Ring].map(|sockets| {
        std::thread::spawn(move || {
            let rt = watched(Runtime::builder().workers(1).sockets(sockets));
            let mut limits = Limits::default();
            limits.idle_time = Duration::from_millis(1_500);
            rt.run(|cx| {
                serving(cx, limits, |address| {
                    let mut used = TcpStream::connect(address)?;
                    let mut silent = TcpStream::connect(address)?;
                    // Longer than it may be idle, all in all.
                    for _ in 0..6 {
                        cx.sleep(Duration::from_millis(300))?;
                        used.write_all(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")?;
                        let mut answer = Vec::new();
                        while !answer.ends_with(b"GET /x ") {
                            let mut buffer = [0; 256];
                            let length = used.read(&mut buffer)?;
                            assert!(length > 0, "the connection was closed between two requests");
                            answer.extend_from_slice(&buffer[..length]);
                        }
                    }
                    assert_eq!(silent.read(&mut [0; 8])?, 0);
                    assert_eq!(used.read(&mut [0; 8])?, 0);
                    Ok(())
                })
            })
        })
    });
    for outcome in each {
        outcome.join().unwrap().unwrap();
    }
}

/// A load by another program, on both backends.
#[test]
fn wrk_finds_no_error() {
    let Some(wrk) = tools::find("wrk") else {
        return tools::skip("wrk_finds_no_error", "wrk", "Debian: apt-get install wrk");
    };
    for sockets in [SocketBackend::Epoll, SocketBackend::Ring] {
        let rt = watched(Runtime::builder().workers(2).sockets(sockets));
        rt.run(|cx| {
            serving(cx, Limits::default(), |address| {
                let mut command = parcae_io::process::Command::new(&wrk);
                let arguments = ["-t", "1", "-c", "16", "-d", "1s", "--timeout", "30s"];
                let output = command.args(arguments).arg(format!("http://{address}/")).output()?;
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                assert!(output.status.success(), "{output:?}");
                assert!(text.contains("requests in") && !text.contains(" 0 requests in"), "{text}");
                let errors = ["Non-2xx", "Socket errors"];
                assert!(errors.iter().all(|error| !text.contains(error)), "{text}");
                Ok(())
            })
        })
        .unwrap();
    }
}
