//! The end of a connection whose client still sends: closing a socket with unread bytes resets it,
//! and a reset can discard a response that the client has not read (RFC 9112 §9.6).
//!
//! The edge therefore closes its own side only, reads on for a while, and drops what it reads.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::stream::{ClientIo, ClientStream};

/// Longest pause of the client.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long to read in all.
const TIME_MAX: Duration = Duration::from_secs(10);
/// How much to read.
const BYTES_MAX: u64 = 64 << 20;
const BUFFER_BYTES: usize = 16 << 10;

/// Closes the edge's side and reads until the client closes its own, within limits.
pub(crate) async fn close(io: ClientIo) {
    let _ = tokio::time::timeout(TIME_MAX, drain(io)).await;
}

async fn drain(mut io: ClientIo) {
    let closed = match &mut io.stream {
        ClientStream::Plain(stream) => stream.shutdown().await,
        ClientStream::Tls(stream) => stream.shutdown().await,
    };
    let stream = match &mut io.stream {
        _ if closed.is_err() => return,
        ClientStream::Plain(stream) => stream,
        // What follows is dropped, so it is read from the socket without decryption.
        ClientStream::Tls(stream) => stream.get_mut().0,
    };
    let (mut buffer, mut left) = (vec![0; BUFFER_BYTES], BYTES_MAX);
    while left > 0 {
        let Ok(Ok(count)) = tokio::time::timeout(PAUSE_MAX, stream.read(&mut buffer)).await else {
            return;
        };
        if count == 0 {
            return;
        }
        left = left.saturating_sub(count as u64);
    }
}
