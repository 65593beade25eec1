//! A connection of which nothing is read ahead before TLS begins.
//!
//! Replies that an attacker on the network injects after the reply to STARTTLS would otherwise stay in a buffer,
//! and count as replies of the encrypted server ("Why TLS is better without STARTTLS", Poddebniak and others, 2021;
//! CVE-2021-22947 of curl). Here TLS reads them, and its handshake fails.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// First byte of a TLS handshake; no command begins with it.
const HANDSHAKE: u8 = 22;

#[derive(Debug)]
pub(super) struct NoReadAhead {
    stream: TcpStream,
    is_tls: bool,
}

impl NoReadAhead {
    /// Connects to the first address that answers; `wait` is the limit for each.
    ///
    /// # Errors
    /// The name is unknown, or no address answers.
    pub(super) async fn connect(server: (&str, u16), wait: Duration) -> io::Result<Self> {
        let mut error = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in tokio::net::lookup_host(server).await? {
            match tokio::time::timeout(wait, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(Self { stream, is_tls: false }),
                Ok(Err(refused)) => error = refused,
                Err(_) => error = io::Error::new(io::ErrorKind::TimedOut, "connection timed out"),
            }
        }
        Err(error)
    }
}

impl AsyncTokioStream for NoReadAhead {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }
}

impl AsyncRead for NoReadAhead {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_tls {
            return Pin::new(&mut self.stream).poll_read(context, into);
        }
        let mut byte = [0];
        let mut one = ReadBuf::new(&mut byte);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut one))?;
        into.put_slice(one.filled());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for NoReadAhead {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.is_tls |= bytes.first() == Some(&HANDSHAKE);
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
