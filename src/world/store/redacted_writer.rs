//! A writer that redacts secrets in what passes through it, even if a secret is split between two
//! writes.

use std::io::{Result, Write};

use crate::world::store::redact::{RedactedStream, Redactor};

/// A writer of text without secrets. What may be the beginning of a secret is held back until more
/// arrives, or the writer is dropped.
#[derive(Debug)]
pub struct RedactedWriter<W: Write> {
    inner: W,
    redactor: Redactor,
    stream: RedactedStream,
}

impl<W: Write> RedactedWriter<W> {
    /// Creates a writer to `inner`.
    pub fn new(inner: W, redactor: Redactor) -> Self {
        Self {
            inner,
            redactor,
            stream: RedactedStream::default(),
        }
    }
}

impl<W: Write> Write for RedactedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let redacted = self.stream.push(&self.redactor, &text);
        self.inner.write_all(redacted.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        self.inner.flush()
    }
}

impl<W: Write> Drop for RedactedWriter<W> {
    fn drop(&mut self) {
        let rest = self.stream.finish(&self.redactor);
        // `drop` cannot report an error.
        self.inner.write_all(rest.as_bytes()).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::*;

    #[test]
    fn a_secret_in_two_writes_is_redacted() {
        let mut written = Vec::new();
        let redactor = Redactor::new(vec![SecretString::from("sk-0123456789abcdef")]);
        let mut writer = RedactedWriter::new(&mut written, redactor);
        writer.write_all(b"the key is sk-01234").unwrap();
        writer.write_all(b"56789abcdef, and sk-0").unwrap();
        drop(writer);
        let text = String::from_utf8(written).unwrap();
        assert!(!text.contains("sk-0123456789abcdef"), "{text}");
        assert!(
            text.starts_with("the key is ") && text.ends_with(", and sk-0"),
            "{text}"
        );
    }
}
