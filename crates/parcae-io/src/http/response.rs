//! Responses that are written.

use super::scan;
use std::borrow::Cow;
use std::fmt;
use std::io::{self, Read, Write};

/// A response of a server.
///
/// ```
/// use parcae_io::http::Response;
///
/// let page = Response::new(200).header("Content-Type", "text/html").body("<h1>hello</h1>");
/// assert_eq!(page.status(), 200);
/// ```
pub struct Response {
    status: u16,
    /// The fields as they are sent, each with the end of its line.
    fields: Cow<'static, str>,
    content: Content,
}

enum Content {
    Bytes(Vec<u8>),
    Stream(Box<dyn Read + Send>),
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response").field("status", &self.status).finish_non_exhaustive()
    }
}

impl Response {
    /// A response without a body.
    pub fn new(status: u16) -> Response {
        Response { status, fields: Cow::Borrowed(""), content: Content::Bytes(Vec::new()) }
    }

    /// A response with a text, status 200.
    pub fn text(text: impl Into<String>) -> Response {
        let fields = Cow::Borrowed("Content-Type: text/plain; charset=utf-8\r\n");
        Response { status: 200, fields, content: Content::Bytes(text.into().into()) }
    }

    /// Adds a header field. `Content-Length`, `Transfer-Encoding` and `Connection` are set by the
    /// server.
    ///
    /// # Panics
    ///
    /// If the name is no token, or the value has a line break: it could be taken for other fields.
    pub fn header(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Response {
        let (name, value) = (name.as_ref(), value.as_ref());
        check_field(name, value);
        let fields = self.fields.to_mut();
        [name, ": ", value, "\r\n"].into_iter().for_each(|part| fields.push_str(part));
        self
    }

    /// Sets the body.
    pub fn body(mut self, bytes: impl Into<Vec<u8>>) -> Response {
        self.content = Content::Bytes(bytes.into());
        self
    }

    /// Sets a body that is read while it is sent, in chunks.
    pub fn stream(mut self, body: impl Read + Send + 'static) -> Response {
        self.content = Content::Stream(Box::new(body));
        self
    }

    /// The status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Appends the response to `out`. A body that is a stream is written through.
    pub(super) fn write(
        self,
        out: &mut Vec<u8>,
        mut through: impl Write,
        asked: Asked,
    ) -> io::Result<()> {
        let Asked { head_only, closes, minor } = asked;
        let has_body = self.status >= 200 && self.status != 204 && self.status != 304;
        if self.status == 200 {
            out.extend_from_slice(b"HTTP/1.1 200 OK\r\n"); // the usual one
        } else {
            write!(out, "HTTP/1.1 {} {}\r\n", self.status, reason(self.status))?;
        }
        out.extend_from_slice(self.fields.as_bytes());
        if closes {
            out.extend_from_slice(b"Connection: close\r\n");
        } else if minor == 0 {
            out.extend_from_slice(b"Connection: keep-alive\r\n");
        }
        match self.content {
            _ if !has_body => out.extend_from_slice(b"\r\n"),
            Content::Bytes(bytes) => {
                out.extend_from_slice(b"Content-Length: ");
                push_number(out, bytes.len());
                out.extend_from_slice(b"\r\n\r\n");
                if !head_only {
                    out.extend_from_slice(&bytes);
                }
            }
            // A client of version 1.0 knows no chunks: its body ends with the connection.
            Content::Stream(_) if head_only => out.extend_from_slice(b"\r\n"),
            Content::Stream(mut body) => {
                let chunked = minor > 0;
                let coding = if chunked { "Transfer-Encoding: chunked\r\n\r\n" } else { "\r\n" };
                out.extend_from_slice(coding.as_bytes());
                let mut buffer = vec![0; 16 << 10];
                loop {
                    let count = body.read(&mut buffer)?;
                    if chunked {
                        write!(out, "{count:x}\r\n")?;
                        out.extend_from_slice(&buffer[..count]);
                        out.extend_from_slice(b"\r\n");
                    } else {
                        out.extend_from_slice(&buffer[..count]);
                    }
                    if count == 0 {
                        return Ok(());
                    }
                    through.write_all(out)?;
                    out.clear();
                }
            }
        }
        Ok(())
    }

    /// Whether only the end of the connection can end the body.
    pub(super) fn ends_with_connection(&self, minor: u8) -> bool {
        minor == 0 && matches!(self.content, Content::Stream(_))
    }
}

/// The request's influence on the form of its response.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) head_only: bool,
    pub(super) closes: bool,
    pub(super) minor: u8,
}

/// Appends a number in decimal: without the machinery of `write!`, once for each response.
fn push_number(out: &mut Vec<u8>, number: usize) {
    let (mut digits, mut first, mut rest) = ([0; 20], 20, number);
    loop {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return out.extend_from_slice(&digits[first..]);
        }
    }
}

/// Ensures that a field is one field.
pub(super) fn check_field(name: &str, value: &str) {
    let is_token = !name.is_empty() && scan::token(name.as_bytes()) == name.len();
    assert!(is_token, "`{name}` is no name of a field");
    let is_text = scan::text(value.as_bytes()) == value.len();
    assert!(is_text, "the value of `{name}` has a control character");
}

/// The phrase of a status.
fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(response: Response) -> String {
        let (mut out, asked) = (Vec::new(), Asked { head_only: false, closes: false, minor: 1 });
        response.write(&mut out, io::sink(), asked).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lengths_are_written_in_decimal() {
        for length in [0, 1, 9, 10, 99, 100, 65_535, 1_000_000] {
            let text = written(Response::new(404).body(vec![b'x'; length]));
            let expected = format!("HTTP/1.1 404 Not Found\r\nContent-Length: {length}\r\n\r\n");
            assert_eq!(text.split_at(expected.len()), (&*expected, &*"x".repeat(length)));
        }
        let mut out = Vec::new();
        push_number(&mut out, usize::MAX);
        assert_eq!(out, usize::MAX.to_string().into_bytes());
    }

    #[test]
    fn fields_are_written_in_their_order() {
        let text = written(
            Response::text("hi").header("X-One", "1").header("X-Two", format!("{}", 1 + 1)),
        );
        let fields = "Content-Type: text/plain; charset=utf-8\r\nX-One: 1\r\nX-Two: 2\r\n";
        assert_eq!(text, format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 2\r\n\r\nhi"));
    }
}
