//! A minimal JSON writer for reports.

use std::fmt::{self, Write};

/// Writes a text as a JSON string.
pub(crate) fn string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32); // into a String: cannot fail
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// An object that is being written.
pub(crate) struct JsonObject<'o> {
    out: &'o mut String,
    begun: bool,
}

impl<'o> JsonObject<'o> {
    /// Begins an object; [`end`](JsonObject::end) ends it.
    pub(crate) fn begin(out: &'o mut String) -> JsonObject<'o> {
        out.push('{');
        JsonObject { out, begun: false }
    }

    /// Where the value of a field goes.
    pub(crate) fn field(&mut self, name: &str) -> &mut String {
        if std::mem::replace(&mut self.begun, true) {
            self.out.push(',');
        }
        string(self.out, name);
        self.out.push(':');
        self.out
    }

    pub(crate) fn text(&mut self, name: &str, value: &str) -> &mut JsonObject<'o> {
        string(self.field(name), value);
        self
    }

    /// A number, or anything else that is written the same in JSON.
    pub(crate) fn plain(&mut self, name: &str, value: impl fmt::Display) -> &mut JsonObject<'o> {
        let _ = write!(self.field(name), "{value}"); // into a String: cannot fail
        self
    }

    /// Numbers with their names.
    pub(crate) fn numbers<'n>(
        &mut self,
        numbers: impl IntoIterator<Item = (&'n str, u64)>,
    ) -> &mut JsonObject<'o> {
        for (name, number) in numbers {
            self.plain(name, number);
        }
        self
    }

    /// Left out if there is none.
    pub(crate) fn text_if(&mut self, name: &str, value: Option<&str>) -> &mut JsonObject<'o> {
        if let Some(value) = value {
            self.text(name, value);
        }
        self
    }

    pub(crate) fn list<T>(
        &mut self,
        name: &str,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut String, T),
    ) -> &mut JsonObject<'o> {
        let out = self.field(name);
        out.push('[');
        for (at, item) in items.into_iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            write(out, item);
        }
        out.push(']');
        self
    }

    pub(crate) fn end(&mut self) {
        self.out.push('}');
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_fields_separated() {
        let mut out = String::new();
        let mut object = JsonObject::begin(&mut out);
        object.text("a\"b", "c\\d\n\u{1}é").plain("n", 7).text_if("none", None);
        object.list("l", [1, 2], |out, n| string(out, &n.to_string())).end();
        assert_eq!(out, r#"{"a\"b":"c\\d\n\u0001é","n":7,"l":["1","2"]}"#);
    }
}
