//! Heads that are refused, and random ones that must not end in a panic.

use super::*;

fn status(head: &str) -> u16 {
    match request(head.as_bytes(), Fields::default()) {
        Ok(head) => head.fields.framing().map_or_else(|refused| refused.0, |_| 200),
        Err(refused) => refused.0,
    }
}

#[test]
fn heads_with_two_meanings_are_refused() {
    let cases = [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 200),
        ("GET / HTTP/1.0\r\n\r\n", 200),
        ("GET / HTTP/1.1\r\n\r\n", 400), // no host
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400), // two hosts
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505), // a version to come
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400), // two spaces
        ("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400), // a space in the target
        ("GET / HTTP/1.1\nHost: a\r\n\r\n", 400), // a bare LF
        ("GET / HTTP/1.1\r\nHost: a\r\nX : 1\r\n\r\n", 400), // a space before the colon
        ("GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n\r\n", 400), // a folded line
        ("GET / HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n", 400), // a control character
        ("GET / HTTP/1.1\r\nHost: a\r\nX: 1\rY: 2\r\n\r\n", 400), // a bare CR
        ("GET / HTTP/1.1\r\nHost: a\r\n: 1\r\n\r\n", 400), // no name
        ("P / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", 200),
        ("P / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n", 400),
        ("P / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\n", 400),
        ("P / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400),
        ("P / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", 400),
        ("P / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 200),
        ("P / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        ("P / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", 501),
        ("P / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", 400),
        (
            "P / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            501,
        ),
    ];
    for (head, expected) in cases {
        assert_eq!(status(head), expected, "{head:?}");
    }
    let many = "X: 1\r\n".repeat(MOST_FIELDS + 1);
    assert_eq!(status(&format!("GET / HTTP/1.1\r\n{many}\r\n")), 431);
}

#[test]
fn the_end_of_a_head_is_found_wherever_it_is_split() {
    let head = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nrest";
    for split in 0..head.len() {
        let first = end_of_head(&head[..split], 0);
        let found = first.or_else(|| end_of_head(head, split));
        assert_eq!(found, Some(head.len() - 4), "split at {split}");
    }
}

/// Pieces of heads in random order: none makes the parser panic, and each that it takes has one
/// host and one framing.
#[test]
fn random_heads_are_taken_or_refused() {
    let pieces: [&[u8]; 16] = [
        b"GET ",
        b"/ ",
        b"HTTP/1.1",
        b"\r\n",
        b"\r",
        b"\n",
        b"Host: a",
        b"Content-Length: 1",
        b":",
        b"Transfer-Encoding: chunked",
        b" ",
        b"\t",
        b"\x00",
        b"\xff",
        b"x",
        b"\r\n\r\n",
    ];
    let mut state = 7_u64;
    let mut taken = 0;
    for _ in 0..20_000 {
        let mut head = b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec();
        for _ in 0..state % 8 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            head.extend_from_slice(pieces[(state >> 60) as usize]);
        }
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        head.extend_from_slice(b"\r\n\r\n");
        let end = end_of_head(&head, 0).unwrap();
        if let Ok(parsed) = request(&head[..end], Fields::default()) {
            taken += 1;
            assert_eq!(parsed.fields.all("host").count(), 1);
            assert!(parsed.fields.iter().all(|(_, value)| !value.contains(&b'\n')));
            let _ = parsed.fields.framing();
        }
    }
    assert!(taken > 1000, "{taken}");
}
