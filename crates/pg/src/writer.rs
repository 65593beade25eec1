//! Buffers messages to a client and writes them in large pieces.

use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::error::PgError;
use crate::settings::Setting;

/// Buffered bytes that trigger a write.
const PIECE_BYTES: usize = 64 << 10;
/// Largest message, as PostgreSQL's largest value. The protocol's length has 31 bits: a client would
/// take what is beyond it for further messages.
const MESSAGE_BYTES_MAX: usize = 1 << 30;
/// Timeout of a write to a client that does not read.
const STALL: Duration = Duration::from_secs(60);

/// Buffered messages to one client.
pub(crate) struct MessageWriter<W> {
    to: W,
    buffer: Vec<u8>,
    message_bytes_max: usize,
    /// Whether a message could not be expressed: the connection ends with an error.
    is_broken: bool,
}

impl<W: AsyncWrite + Unpin> MessageWriter<W> {
    pub(crate) fn new(to: W) -> Self {
        let message_bytes_max = MESSAGE_BYTES_MAX;
        Self { to, buffer: Vec::new(), message_bytes_max, is_broken: false }
    }

    /// Adds a message; `fill` appends its body.
    pub(crate) fn message(&mut self, kind: u8, fill: impl FnOnce(&mut Vec<u8>)) {
        if self.is_broken {
            return;
        }
        self.buffer.push(kind);
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; 4]);
        fill(&mut self.buffer);
        let length = self.buffer.len() - start;
        match i32::try_from(length) {
            Ok(length32) if length <= self.message_bytes_max => {
                self.buffer[start..start + 4].copy_from_slice(&length32.to_be_bytes());
            }
            _ => {
                self.buffer.truncate(start - 1);
                self.break_off(&format!("a row or value exceeds {} bytes", self.message_bytes_max));
            }
        }
    }

    /// Ends the connection with an error, since its protocol cannot express what follows.
    pub(crate) fn break_off(&mut self, why: &str) {
        if !self.is_broken {
            self.error("FATAL", &PgError::new("54000", why));
            self.is_broken = true;
        }
    }

    /// Adds an error; `severity` is `ERROR`, or `FATAL` before the connection ends.
    pub(crate) fn error(&mut self, severity: &str, error: &PgError) {
        let hint = error.hint.as_deref().map(|hint| (b'H', hint));
        let fields =
            [(b'S', severity), (b'V', severity), (b'C', error.state), (b'M', &error.message)];
        self.message(b'E', |body| {
            for (field, text) in fields.into_iter().chain(hint) {
                body.push(field);
                push_text(body, text);
            }
            body.push(0);
        });
    }

    /// Adds the current value of a session parameter.
    pub(crate) fn parameter(&mut self, setting: &Setting<'_>) {
        self.message(b'S', |body| {
            push_text(body, setting.name);
            push_text(body, setting.value);
        });
    }

    /// Adds the completion of a statement.
    pub(crate) fn complete(&mut self, tag: &str) {
        self.message(b'C', |body| push_text(body, tag));
    }

    /// Writes if enough is buffered.
    pub(crate) async fn flush_if_full(&mut self) -> io::Result<()> {
        if self.is_broken || self.buffer.len() >= PIECE_BYTES { self.flush().await } else { Ok(()) }
    }

    /// Writes everything that is buffered.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        let mut left = &self.buffer[..];
        while !left.is_empty() {
            let written = tokio::time::timeout(STALL, self.to.write(left)).await;
            let written = written.map_err(|_| io::Error::from(ErrorKind::TimedOut))??;
            if written == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
            left = &left[written..];
        }
        self.buffer.clear();
        self.buffer.shrink_to(PIECE_BYTES);
        let flushed = tokio::time::timeout(STALL, self.to.flush()).await.unwrap_or(Ok(()));
        match self.is_broken {
            true => Err(io::Error::new(ErrorKind::InvalidData, "a message is too long")),
            false => flushed,
        }
    }

    /// Writes the rest and closes, ignoring errors.
    pub(crate) async fn shut(&mut self) {
        let _ = self.flush().await;
        let _ = tokio::time::timeout(STALL, self.to.shutdown()).await;
    }
}

/// Appends a zero-terminated text. Zero bytes within it become spaces.
pub(crate) fn push_text(body: &mut Vec<u8>, text: &str) {
    body.extend(text.bytes().map(|byte| if byte == 0 { b' ' } else { byte }));
    body.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A length that does not fit lets the other side read a value as messages: CVE-2024-27304,
    /// elixir-ecto/postgrex#711, lib/pq#1209, yandex/odyssey#995.
    #[tokio::test]
    async fn a_message_that_is_too_long_ends_the_connection_and_leaves_nothing_of_itself() {
        let mut writer = MessageWriter { message_bytes_max: 200, ..MessageWriter::new(Vec::new()) };
        writer.message(b'D', |body| body.extend_from_slice(&[1; 196]));
        writer.flush().await.unwrap();
        assert_eq!(writer.to[..5], [b'D', 0, 0, 0, 200]);
        writer.to.clear();
        writer.message(b'D', |body| body.extend_from_slice(&[2; 197]));
        writer.complete("SELECT 1");
        let ended = writer.flush_if_full().await.unwrap_err();
        assert_eq!(ended.kind(), ErrorKind::InvalidData);
        let text = String::from_utf8_lossy(&writer.to).into_owned();
        assert!(text.starts_with('E') && text.contains("54000"), "{text}");
        assert!(!text.contains('\u{2}') && !text.contains("SELECT"), "{text}");
    }
}
