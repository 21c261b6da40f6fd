//! `stringbuffer`: the length of another buffer is read, and used after that buffer was truncated.
//!
//! Every method of the buffer locks it. Appending another buffer takes two of them: one for its
//! length, one for that many bytes.
//!
//! Order that shows it: the truncation comes between the two calls. Kind: atomicity. Tasks: 2.

use parcae::sync::Mutex;
use parcae::{Result, Runtime};

#[derive(Default)]
struct Buffer {
    text: Mutex<String>,
}

impl Buffer {
    fn len(&self) -> Result<usize> {
        Ok(self.text.lock()?.len())
    }

    fn first(&self, bytes: usize) -> Result<String> {
        Ok(self.text.lock()?[..bytes].to_string())
    }

    fn all(&self) -> Result<String> {
        Ok(self.text.lock()?.clone())
    }

    fn clear(&self) -> Result<()> {
        self.text.lock()?.clear();
        Ok(())
    }

    fn append_in_two_steps(&self, other: &Buffer) -> Result<()> {
        let bytes = other.len()?;
        let text = other.first(bytes)?;
        self.text.lock()?.push_str(&text);
        Ok(())
    }

    fn append(&self, other: &Buffer) -> Result<()> {
        let text = other.all()?;
        self.text.lock()?.push_str(&text);
        Ok(())
    }
}

fn run(rt: &Runtime, append: fn(&Buffer, &Buffer) -> Result<()>) -> Result<()> {
    rt.run(|cx| {
        let (mine, other) = (Buffer::default(), Buffer::default());
        other.text.lock()?.push_str("abc");
        cx.nursery(|n| {
            n.spawn(|_| append(&mine, &other))?;
            n.spawn(|_| other.clear())?;
            Ok(())
        })?;
        assert!(["", "abc"].contains(&mine.all()?.as_str()));
        Ok(())
    })
}

/// With the bug.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, Buffer::append_in_two_steps)
}

/// Length and bytes are read under one lock.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, Buffer::append)
}
