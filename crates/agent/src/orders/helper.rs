//! One conversation with weir-act: the order's bytes, the first line, the last line.
//!
//! The caller has the first line before the steps have ended, and reads the last one when it is ready to keep it.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Take};
use tokio::net::UnixStream;
use weir_act::{LINE_BYTES_MAX, OrderReply, RunReport};

/// How long the first line may take: the helper waits for its journal's disk.
const FIRST_LINE: Duration = Duration::from_secs(20);
/// How long the steps may take: more than an action file allows.
const LAST_LINE: Duration = Duration::from_secs(900);

/// Where weir-act is reached.
pub(super) struct ActSocket(PathBuf);

/// An order with its first line; its steps may still run.
pub(super) struct AnsweredOrder {
    pub(super) reply: OrderReply,
    lines: BufReader<Take<UnixStream>>,
}

/// Why it said nothing.
pub(super) enum HelperError {
    /// It got nothing, so nothing runs.
    Absent(String),
    /// It may have the order.
    Silent,
}

impl fmt::Display for ActSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl ActSocket {
    pub(super) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Sends an order, and returns with the first line.
    pub(super) async fn present(&self, order: &[u8]) -> Result<AnsweredOrder, HelperError> {
        let mut stream = UnixStream::connect(&self.0).await.map_err(|why| self.absent(&why))?;
        let sent = async {
            stream.write_all(order).await?;
            stream.shutdown().await
        };
        // A helper that refuses the peer may close before it has read all: its line is there.
        let _ = tokio::time::timeout(FIRST_LINE, sent).await;
        let limit = 3 * LINE_BYTES_MAX as u64;
        let mut lines = BufReader::new(stream.take(limit));
        let reply = line(&mut lines, FIRST_LINE).await?;
        Ok(AnsweredOrder { reply, lines })
    }

    fn absent(&self, why: &std::io::Error) -> HelperError {
        let cure = match why.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                "install weir-act and run `systemctl enable --now weir-act.socket` on the host"
            }
            ErrorKind::PermissionDenied => {
                "set SocketGroup= of weir-act.socket to the group of the agent's account"
            }
            _ => "see `systemctl status weir-act.socket` on the host",
        };
        HelperError::Absent(format!("cannot reach weir-act at `{self}`: {why}; {cure}"))
    }
}

impl AnsweredOrder {
    /// The last line; `None` if the connection ends before it.
    pub(super) async fn report(mut self) -> Option<RunReport> {
        line(&mut self.lines, LAST_LINE).await.ok()
    }
}

/// The next line, if it is whole and of this form.
async fn line<T: serde::de::DeserializeOwned>(
    lines: &mut (impl AsyncBufReadExt + Unpin),
    patience: Duration,
) -> Result<T, HelperError> {
    let mut line = Vec::new();
    let read = tokio::time::timeout(patience, lines.read_until(b'\n', &mut line)).await;
    let is_whole = matches!(read, Ok(Ok(_))) && line.ends_with(b"\n");
    let parsed = serde_json::from_slice(&line).ok().filter(|_| is_whole);
    parsed.ok_or(HelperError::Silent)
}
