//! Buffers messages to a client and writes them in large pieces.

use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::error::PgError;
use crate::settings::Setting;

/// Buffered bytes that trigger a write.
const PIECE_BYTES: usize = 64 << 10;
/// Timeout of a write to a client that does not read.
const STALL: Duration = Duration::from_secs(60);

/// Buffered messages to one client.
pub(crate) struct MessageWriter<W> {
    to: W,
    buffer: Vec<u8>,
}

impl<W: AsyncWrite + Unpin> MessageWriter<W> {
    pub(crate) fn new(to: W) -> Self {
        Self { to, buffer: Vec::new() }
    }

    /// Adds a message; `fill` appends its body.
    pub(crate) fn message(&mut self, kind: u8, fill: impl FnOnce(&mut Vec<u8>)) {
        self.buffer.push(kind);
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; 4]);
        fill(&mut self.buffer);
        let length = i32::try_from(self.buffer.len() - start).unwrap_or(i32::MAX);
        self.buffer[start..start + 4].copy_from_slice(&length.to_be_bytes());
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
        if self.buffer.len() >= PIECE_BYTES { self.flush().await } else { Ok(()) }
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
        tokio::time::timeout(STALL, self.to.flush()).await.unwrap_or(Ok(()))
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
