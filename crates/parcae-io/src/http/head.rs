//! The heads of requests and responses (RFC 9112).
//!
//! Strict: a line ends with CR LF and nothing else; no line is folded; there is no space before a
//! colon; a value has no control characters. A peer in front of this server may read a lenient head
//! in another way, and so take a part of one request for another request.

use std::ops::Range;

/// The most header fields of a head.
const MOST_FIELDS: usize = 128;

/// The reason for which a head or a body is refused, as a status of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refused(pub(super) u16, pub(super) &'static str);

/// Header fields, as places in the text of the head.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields {
    text: Vec<u8>,
    fields: Vec<(Range<usize>, Range<usize>)>,
}

impl Fields {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.fields.iter().map(|(name, value)| {
            // Names are tokens, which are ASCII.
            let name = std::str::from_utf8(&self.text[name.clone()]).unwrap_or_default();
            (name, &self.text[value.clone()])
        })
    }

    /// All values of a field.
    pub(super) fn all<'f>(&'f self, name: &str) -> impl Iterator<Item = &'f [u8]> {
        let same = move |(other, _): &(&str, &[u8])| other.eq_ignore_ascii_case(name);
        self.iter().filter(same).map(|(_, value)| value)
    }

    /// Whether a list of tokens in a field has this one.
    pub(super) fn has_token(&self, name: &str, token: &str) -> bool {
        let same = |part: &[u8]| part.trim_ascii().eq_ignore_ascii_case(token.as_bytes());
        self.all(name).any(|value| value.split(|byte| *byte == b',').any(same))
    }

    /// The length of the body that the fields declare.
    pub(super) fn framing(&self) -> Result<Framing, Refused> {
        let mut length: Option<u64> = None;
        for value in self.all("content-length") {
            let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
            let parsed = std::str::from_utf8(value).ok().filter(|_| digits);
            let parsed = parsed.and_then(|text| text.parse().ok());
            let Some(parsed) = parsed else { return Err(Refused(400, "bad content-length")) };
            if length.replace(parsed).is_some_and(|other| other != parsed) {
                return Err(Refused(400, "two lengths"));
            }
        }
        let mut codings = self.all("transfer-encoding").peekable();
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

/// The head of a request.
#[derive(Debug, Clone)]
pub(super) struct RequestHead {
    pub(super) method: String,
    pub(super) target: String,
    /// The minor version: 0 or 1.
    pub(super) minor: u8,
    pub(super) fields: Fields,
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
    let start = from.saturating_sub(3);
    let found = bytes[start..].windows(4).position(|four| four == b"\r\n\r\n");
    found.map(|at| start + at + 4)
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The first line and the fields of a head.
fn lines(head: &[u8]) -> Result<(&[u8], Fields), Refused> {
    let bad = Refused(400, "a head that is no HTTP");
    let mut at = head.windows(2).position(|two| two == b"\r\n").ok_or(bad)?;
    let first = &head[..at];
    at += 2;
    let mut fields = Fields { text: head.to_vec(), fields: Vec::new() };
    loop {
        let length = head[at..].windows(2).position(|two| two == b"\r\n").ok_or(bad)?;
        if length == 0 {
            return Ok((first, fields));
        }
        if fields.fields.len() == MOST_FIELDS {
            return Err(Refused(431, "too many fields"));
        }
        let line = &head[at..at + length];
        let colon = line.iter().position(|byte| *byte == b':').ok_or(bad)?;
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        // A folded line begins with a space: its name is no token.
        if name.is_empty() || !name.iter().copied().all(is_token) {
            return Err(bad);
        }
        let is_text = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
        if !value.iter().all(is_text) {
            return Err(bad);
        }
        let blanks = value.len() - value.trim_ascii_start().len();
        let start = at + colon + 1 + blanks;
        let value = start..start + value.trim_ascii().len();
        fields.fields.push((at..at + colon, value));
        at += length + 2;
    }
}

fn minor(version: &[u8]) -> Option<u8> {
    match version {
        b"HTTP/1.1" => Some(1),
        b"HTTP/1.0" => Some(0),
        _ => None,
    }
}

pub(super) fn request(head: &[u8]) -> Result<RequestHead, Refused> {
    let bad = Refused(400, "a first line that is no request");
    let (first, fields) = lines(head)?;
    let mut parts = first.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(bad);
    };
    if method.is_empty() || !method.iter().copied().all(is_token) {
        return Err(bad);
    }
    if target.is_empty() || !target.iter().all(u8::is_ascii_graphic) {
        return Err(bad);
    }
    let Some(minor) = minor(version) else {
        let is_http = version.starts_with(b"HTTP/");
        return Err(if is_http { Refused(505, "a version that is not 1.0 or 1.1") } else { bad });
    };
    let hosts = fields.all("host").count();
    if hosts > 1 || (hosts == 0 && minor == 1) {
        return Err(Refused(400, "there must be one host"));
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(RequestHead { method: text(method), target: text(target), minor, fields })
}

pub(super) fn response(head: &[u8]) -> Result<ResponseHead, Refused> {
    let bad = Refused(502, "a first line that is no response");
    let (first, fields) = lines(head)?;
    let mut parts = first.splitn(3, |byte| *byte == b' ');
    let (version, status) = (parts.next().unwrap_or(b""), parts.next().unwrap_or(b""));
    let minor = minor(version).ok_or(bad)?;
    let digits = status.len() == 3 && status.iter().all(u8::is_ascii_digit);
    let status = std::str::from_utf8(status).ok().filter(|_| digits).and_then(|s| s.parse().ok());
    let status = status.filter(|status: &u16| (100..600).contains(status)).ok_or(bad)?;
    Ok(ResponseHead { status, minor, fields })
}

#[cfg(all(test, not(loom)))]
mod tests;
