//! A client's byte stream, plain or TLS, which counts the bytes that pass.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::client::state::{ClientState, ConnectionPhase};

/// Pieces of 4 KiB that are read before a connection closes.
const UNREAD_PIECES_MAX: u32 = 16;

#[derive(Debug)]
pub(crate) enum ClientStream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl ClientStream {
    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }
}

#[derive(Debug)]
pub(crate) struct ClientIo {
    pub(crate) stream: ClientStream,
    pub(crate) conn: Arc<ClientState>,
}

impl ClientIo {
    /// Checks whether the client has closed its side. The reactor knows, so no system call is made.
    fn probe(&self) {
        let ready = pin!(self.stream.socket().ready(Interest::READABLE));
        let poll = ready.poll(&mut Context::from_waker(Waker::noop()));
        self.conn.finish_probe(matches!(poll, Poll::Ready(Ok(ready)) if ready.is_read_closed()));
    }

    /// Writes the interim responses that wait, if this is the place for them.
    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        while self.conn.is_interim_due() {
            let bytes = self.conn.interim.bytes();
            let poll = match &mut self.stream {
                ClientStream::Plain(stream) => Pin::new(stream).poll_write(cx, &bytes),
                ClientStream::Tls(stream) => Pin::new(stream).poll_write(cx, &bytes),
            };
            self.conn.note_interim_write(&poll);
            self.conn.interim.consume(ready!(poll)?);
        }
        Poll::Ready(Ok(()))
    }

    /// Waits until there is something to read, or the end of the stream.
    pub(crate) async fn readable(&self) -> std::io::Result<()> {
        self.stream.socket().readable().await
    }
}

/// Closing a socket with unread bytes resets it, and the client of HTTP/2 might lose the GOAWAY that has
/// the reason. HTTP/1.1 has [`linger`](crate::client::linger).
impl Drop for ClientIo {
    fn drop(&mut self) {
        let (socket, mut bytes) = (self.stream.socket(), [0; 4096]);
        let mut left = if self.conn.is_h2 { UNREAD_PIECES_MAX } else { 0 };
        while left > 0 && socket.try_read(&mut bytes).is_ok_and(|count| count > 0) {
            left -= 1;
        }
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let poll = match &mut self.stream {
            ClientStream::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            ClientStream::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        };
        let read = &buf.filled()[before..];
        if !read.is_empty() {
            self.conn.note_read(read);
        }
        poll
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        ready!(self.poll_interim(cx))?;
        let poll = match &mut self.stream {
            ClientStream::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            ClientStream::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        };
        self.conn.note_write(&poll);
        poll
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        ready!(self.poll_interim(cx))?;
        let poll = match &mut self.stream {
            ClientStream::Plain(stream) => write_pieces(stream, cx, bufs),
            ClientStream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        };
        self.conn.note_write(&poll);
        poll
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        ready!(self.poll_interim(cx))?;
        let poll = match &mut self.stream {
            ClientStream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            ClientStream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        };
        if matches!(poll, Poll::Ready(Ok(()))) {
            self.conn.note_flush();
        }
        // hyper flushes whenever it is polled; during a request it does not read.
        if self.conn.is_probe_wanted() {
            self.probe();
        }
        poll
    }

    /// hyper closes the socket right after this, which tells the client the same with one system
    /// call less. A tunnel needs the real shutdown: its other direction stays open.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let is_tunnel = self.conn.phase() == ConnectionPhase::Tunnel;
        match &mut self.stream {
            ClientStream::Plain(_) if !is_tunnel => Poll::Ready(Ok(())),
            ClientStream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            ClientStream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// Up to this size, pieces are copied into one: the kernel takes one piece faster than several.
const COPIED_BYTES_MAX: usize = 2048;

/// Writes a head and its body with one system call.
pub(crate) fn write_pieces(
    stream: &mut TcpStream,
    cx: &mut Context<'_>,
    bufs: &[std::io::IoSlice<'_>],
) -> Poll<std::io::Result<usize>> {
    if let [piece] = bufs {
        return Pin::new(stream).poll_write(cx, piece);
    }
    let length: usize = bufs.iter().map(|piece| piece.len()).sum();
    if length > COPIED_BYTES_MAX {
        return Pin::new(stream).poll_write_vectored(cx, bufs);
    }
    let mut copy = [0; COPIED_BYTES_MAX];
    let mut at = 0;
    for piece in bufs {
        copy[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
    Pin::new(stream).poll_write(cx, &copy[..length])
}
