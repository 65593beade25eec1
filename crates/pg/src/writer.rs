//! Messages to clients, gathered and written in large pieces.

use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::refusal::Refusal;

/// Written when so much is gathered.
const PIECE_BYTES: usize = 64 << 10;
/// A client that takes nothing for so long is cut off.
const STALL: Duration = Duration::from_secs(60);

/// The way to one client.
pub(crate) struct Out<W> {
    to: W,
    gathered: Vec<u8>,
}

impl<W: AsyncWrite + Unpin> Out<W> {
    pub(crate) fn new(to: W) -> Self {
        Self { to, gathered: Vec::new() }
    }

    /// Adds a message whose body `fill` writes.
    pub(crate) fn message(&mut self, kind: u8, fill: impl FnOnce(&mut Vec<u8>)) {
        self.gathered.push(kind);
        let start = self.gathered.len();
        self.gathered.extend_from_slice(&[0; 4]);
        fill(&mut self.gathered);
        let length = i32::try_from(self.gathered.len() - start).unwrap_or(i32::MAX);
        self.gathered[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// An error; `severity` is `ERROR`, or `FATAL` before the connection ends.
    pub(crate) fn error(&mut self, severity: &str, refusal: &Refusal) {
        let hint = refusal.hint.as_deref().map(|hint| (b'H', hint));
        let fields =
            [(b'S', severity), (b'V', severity), (b'C', refusal.state), (b'M', &refusal.message)];
        self.message(b'E', |body| {
            for (field, text) in fields.into_iter().chain(hint) {
                body.push(field);
                push_text(body, text);
            }
            body.push(0);
        });
    }

    /// A parameter of the session as it is now.
    pub(crate) fn parameter(&mut self, name: &str, value: &str) {
        self.message(b'S', |body| {
            push_text(body, name);
            push_text(body, value);
        });
    }

    /// That a statement is done.
    pub(crate) fn complete(&mut self, tag: &str) {
        self.message(b'C', |body| push_text(body, tag));
    }

    /// Writes when enough is gathered.
    pub(crate) async fn relieve(&mut self) -> io::Result<()> {
        if self.gathered.len() >= PIECE_BYTES { self.flush().await } else { Ok(()) }
    }

    /// Writes all that is gathered.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        let mut left = &self.gathered[..];
        while !left.is_empty() {
            let written = tokio::time::timeout(STALL, self.to.write(left)).await;
            let written = written.map_err(|_| io::Error::from(ErrorKind::TimedOut))??;
            if written == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
            left = &left[written..];
        }
        self.gathered.clear();
        self.gathered.shrink_to(PIECE_BYTES);
        tokio::time::timeout(STALL, self.to.flush()).await.unwrap_or(Ok(()))
    }

    /// Says good-bye; errors do not matter any more.
    pub(crate) async fn shut(&mut self) {
        let _ = self.flush().await;
        let _ = tokio::time::timeout(STALL, self.to.shutdown()).await;
    }
}

/// Text with a zero byte at its end; one within it would end it early and becomes a space.
pub(crate) fn push_text(body: &mut Vec<u8>, text: &str) {
    body.extend(text.bytes().map(|byte| if byte == 0 { b' ' } else { byte }));
    body.push(0);
}
