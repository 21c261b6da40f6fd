//! The heads of requests and responses (RFC 9112).
//!
//! Strict: a line ends with CR LF and nothing else; no line is folded; there is no space before a
//! colon; a value has no control characters. A peer in front of this server may read a lenient head
//! in another way, and so take a part of one request for another request.

use super::scan;
use std::ops::Range;

/// The most header fields of a head.
const MOST_FIELDS: usize = 128;

/// The reason for which a head or a body is refused, as a status of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refused(pub(super) u16, pub(super) &'static str);

/// Fields that the server and the client look at themselves. Each is a bit of `Fields::seen`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    Host = 1,
    Connection = 2,
    ContentLength = 4,
    TransferEncoding = 8,
    Expect = 16,
}

impl Known {
    fn of(name: &[u8]) -> Option<Known> {
        let (known, text) = match name.len() {
            4 => (Known::Host, "host"),
            6 => (Known::Expect, "expect"),
            10 => (Known::Connection, "connection"),
            14 => (Known::ContentLength, "content-length"),
            17 => (Known::TransferEncoding, "transfer-encoding"),
            _ => return None,
        };
        name.eq_ignore_ascii_case(text.as_bytes()).then_some(known)
    }
}

/// A field, as places in the text.
#[derive(Debug, Clone, Copy)]
struct Field {
    name: (u32, u32),
    value: (u32, u32),
    known: Option<Known>,
}

/// The text of a head, and its fields as places in it.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields {
    text: Vec<u8>,
    fields: Vec<Field>,
    /// The bits of the known fields that are there.
    seen: u8,
}

impl Fields {
    fn part(&self, (start, end): (u32, u32)) -> &[u8] {
        &self.text[start as usize..end as usize]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.fields.iter().map(|field| {
            // Names are tokens, which are ASCII.
            let name = std::str::from_utf8(self.part(field.name)).unwrap_or_default();
            (name, self.part(field.value))
        })
    }

    /// All values of a field.
    pub(super) fn all<'f>(&'f self, name: &str) -> impl Iterator<Item = &'f [u8]> {
        let same =
            move |field: &&Field| self.part(field.name).eq_ignore_ascii_case(name.as_bytes());
        self.fields.iter().filter(same).map(move |field| self.part(field.value))
    }

    /// All values of a known field.
    fn known(&self, known: Known) -> impl Iterator<Item = &[u8]> {
        let fields = if self.seen & known as u8 == 0 { &[] } else { &self.fields[..] };
        let same = move |field: &&Field| field.known == Some(known);
        fields.iter().filter(same).map(move |field| self.part(field.value))
    }

    /// Whether a list of tokens in a field has this one.
    pub(super) fn has_token(&self, known: Known, token: &str) -> bool {
        if self.seen & known as u8 == 0 {
            return false;
        }
        let same = |part: &[u8]| part.trim_ascii().eq_ignore_ascii_case(token.as_bytes());
        self.known(known).any(|value| value.split(|byte| *byte == b',').any(same))
    }

    /// The length of the body that the fields declare.
    pub(super) fn framing(&self) -> Result<Framing, Refused> {
        if self.seen & (Known::ContentLength as u8 | Known::TransferEncoding as u8) == 0 {
            return Ok(Framing::None);
        }
        let mut length: Option<u64> = None;
        for value in self.known(Known::ContentLength) {
            let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
            let parsed = std::str::from_utf8(value).ok().filter(|_| digits);
            let parsed = parsed.and_then(|text| text.parse().ok());
            let Some(parsed) = parsed else { return Err(Refused(400, "bad content-length")) };
            if length.replace(parsed).is_some_and(|other| other != parsed) {
                return Err(Refused(400, "two lengths"));
            }
        }
        let mut codings = self.known(Known::TransferEncoding).peekable();
        if codings.peek().is_none() {
            return Ok(length.map_or(Framing::None, Framing::Length));
        }
        if length.is_some() {
            return Err(Refused(400, "a length and an encoding"));
        }
        let chunked = |value: &[u8]| value.eq_ignore_ascii_case(b"chunked");
        if codings.next().is_some_and(chunked) && codings.next().is_none() {
            return Ok(Framing::Chunked);
        }
        Err(Refused(501, "a transfer-encoding that is not supported"))
    }
}

/// The framing of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    None,
    Length(u64),
    Chunked,
}

/// The head of a request. The memory of its text is used again for the next one.
#[derive(Debug, Clone)]
pub(super) struct RequestHead {
    method: Range<usize>,
    target: Range<usize>,
    /// The minor version: 0 or 1.
    pub(super) minor: u8,
    pub(super) fields: Fields,
}

impl RequestHead {
    pub(super) fn method(&self) -> &str {
        // A token, which is ASCII, and so is the target.
        std::str::from_utf8(&self.fields.text[self.method.clone()]).unwrap_or_default()
    }

    pub(super) fn target(&self) -> &str {
        std::str::from_utf8(&self.fields.text[self.target.clone()]).unwrap_or_default()
    }

    /// Whether there is to be no body in the answer.
    pub(super) fn is_head(&self) -> bool {
        self.fields.text[self.method.clone()] == *b"HEAD"
    }
}

/// The head of a response.
#[derive(Debug, Clone)]
pub(super) struct ResponseHead {
    pub(super) status: u16,
    pub(super) minor: u8,
    pub(super) fields: Fields,
}

/// The end of a head in the bytes, its empty line included. `from` is the number of bytes in which
/// an earlier search has found none.
pub(super) fn end_of_head(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from.saturating_sub(3);
    loop {
        at += scan::find(&bytes[at..], b'\n')? + 1;
        if bytes[..at].ends_with(b"\r\n\r\n") {
            return Some(at);
        }
    }
}

/// The length of the first line, and the fields of a head. `spare` gives its memory.
fn lines(head: &[u8], spare: Fields) -> Result<(usize, Fields), Refused> {
    let bad = Refused(400, "a head that is no HTTP");
    if u32::try_from(head.len()).is_err() {
        return Err(Refused(431, "the head is too large"));
    }
    let first = scan::find(head, b'\r').filter(|at| head[*at..].starts_with(b"\r\n")).ok_or(bad)?;
    let Fields { mut text, mut fields, .. } = spare;
    text.clear();
    text.extend_from_slice(head);
    fields.clear();
    let (mut at, mut seen) = (first + 2, 0);
    loop {
        if head[at..].starts_with(b"\r\n") {
            return Ok((first, Fields { text, fields, seen }));
        }
        if fields.len() == MOST_FIELDS {
            return Err(Refused(431, "too many fields"));
        }
        // A folded line begins with a space: its name is no token.
        let colon = at + scan::token(&head[at..]);
        if colon == at || head.get(colon) != Some(&b':') {
            return Err(bad);
        }
        let start = colon + 1;
        let end = start + scan::text(&head[start..]);
        if !head[end..].starts_with(b"\r\n") {
            return Err(bad);
        }
        let value = &head[start..end];
        let start = start + (value.len() - value.trim_ascii_start().len());
        let length = value.trim_ascii().len();
        let known = Known::of(&head[at..colon]);
        seen |= known.map_or(0, |known| known as u8);
        let name = (at as u32, colon as u32);
        fields.push(Field { name, value: (start as u32, (start + length) as u32), known });
        at = end + 2;
    }
}

fn minor(version: &[u8]) -> Option<u8> {
    match version {
        b"HTTP/1.1" => Some(1),
        b"HTTP/1.0" => Some(0),
        _ => None,
    }
}

/// `spare`: fields of an earlier request, whose memory is used again.
pub(super) fn request(head: &[u8], spare: Fields) -> Result<RequestHead, Refused> {
    let bad = Refused(400, "a first line that is no request");
    let (length, fields) = lines(head, spare)?;
    let first = &head[..length];
    let method = 0..scan::token(first);
    let rest = &first[method.end..];
    let target = rest.get(1..).unwrap_or_default();
    let target = target.iter().position(|byte| !byte.is_ascii_graphic()).unwrap_or(target.len());
    let target = method.end + 1..method.end + 1 + target;
    if method.is_empty() || target.is_empty() || rest.first() != Some(&b' ') {
        return Err(bad);
    }
    let Some((b' ', version)) = first[target.end..].split_first() else { return Err(bad) };
    let Some(minor) = minor(version) else {
        let is_http = version.starts_with(b"HTTP/") && !version.contains(&b' ');
        return Err(if is_http { Refused(505, "a version that is not 1.0 or 1.1") } else { bad });
    };
    let hosts = fields.known(Known::Host).count();
    if hosts > 1 || (hosts == 0 && minor == 1) {
        return Err(Refused(400, "there must be one host"));
    }
    Ok(RequestHead { method, target, minor, fields })
}

pub(super) fn response(head: &[u8]) -> Result<ResponseHead, Refused> {
    let bad = Refused(502, "a first line that is no response");
    let (length, fields) = lines(head, Fields::default())?;
    let mut parts = head[..length].splitn(3, |byte| *byte == b' ');
    let (version, status) = (parts.next().unwrap_or(b""), parts.next().unwrap_or(b""));
    let minor = minor(version).ok_or(bad)?;
    let digits = status.len() == 3 && status.iter().all(u8::is_ascii_digit);
    let status = std::str::from_utf8(status).ok().filter(|_| digits).and_then(|s| s.parse().ok());
    let status = status.filter(|status: &u16| (100..600).contains(status)).ok_or(bad)?;
    Ok(ResponseHead { status, minor, fields })
}

#[cfg(all(test, not(loom)))]
mod tests;
