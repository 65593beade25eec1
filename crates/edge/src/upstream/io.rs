//! The byte stream to a backend: counts bytes, and keeps an answer readable after a write has failed.
//!
//! A backend that refuses an upload may answer, close, and leave the body unread. Its host then resets
//! the connection, and the edge's next write fails. What was received before the reset is still there
//! to read, the answer with it, but HTTP libraries give up a connection whose write fails. So only reads
//! end this stream:
//!
//! ```text
//!   edge ─► head, body, body …            fails ─► waits, or is discarded
//!   edge ◄─ 413, its body, reset                   read: 413, its body, then the end
//! ```
//! A reset wakes the reader, so nothing waits forever.
//!
//! The reactor reports what has arrived once per turn. Before a connection is reused after a long idle
//! time, its socket is checked directly: a response that is already there, such as a 408, belongs to no
//! request, and a closed connection would lose the request.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};

use rustix::net::RecvFlags;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::client::stream::write_pieces;
use crate::pool::backend::Backend;

pub(crate) enum UpstreamStream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl UpstreamStream {
    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }
}

/// What becomes of writes once one has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailedWrites {
    /// They stay pending. HTTP/1.1 reads meanwhile, and the client keeps the rest of the request's body.
    Wait,
    /// They are discarded. HTTP/2 writes before it reads: acknowledgements, for instance.
    Discard,
    /// They fail: a tunnel has two directions, and each has its end.
    Fail,
}

/// A byte stream that adds to the backend's totals.
pub(crate) struct UpstreamIo {
    stream: UpstreamStream,
    backend: Arc<Backend>,
    failed_writes: FailedWrites,
    /// Why a write has failed.
    write_error: Option<io::ErrorKind>,
    /// Whether the next read first checks the socket for data that arrived while the connection was idle.
    is_suspect: Rc<Cell<bool>>,
}

impl UpstreamIo {
    pub(crate) fn new(
        stream: UpstreamStream,
        backend: Arc<Backend>,
        failed_writes: FailedWrites,
        is_suspect: Rc<Cell<bool>>,
    ) -> Self {
        Self { stream, backend, failed_writes, write_error: None, is_suspect }
    }

    /// Whether the kernel has bytes, the end of the stream, or an error.
    fn has_arrival(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let peeked = rustix::net::recv(self.stream.socket(), &mut [0_u8; 1][..], flags);
        !matches!(peeked, Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR))
    }

    /// The same stream after a switch of protocols.
    pub(crate) fn for_tunnel(self) -> Self {
        Self { failed_writes: FailedWrites::Fail, ..self }
    }

    /// Notes that a write has failed; `instead` is its result where failed writes are discarded.
    fn settle<T>(&mut self, poll: Poll<io::Result<T>>, instead: T) -> Poll<io::Result<T>> {
        match poll {
            Poll::Ready(Err(error)) if self.failed_writes != FailedWrites::Fail => {
                self.write_error = Some(error.kind());
                self.after_failure(instead)
            }
            other => other,
        }
    }

    fn after_failure<T>(&self, instead: T) -> Poll<io::Result<T>> {
        match self.failed_writes {
            FailedWrites::Discard => Poll::Ready(Ok(instead)),
            _ => Poll::Pending,
        }
    }
}

fn count(total: &AtomicU64, poll: &Poll<io::Result<usize>>) {
    if let Poll::Ready(Ok(bytes)) = poll {
        total.fetch_add(*bytes as u64, Relaxed);
    }
}

impl AsyncRead for UpstreamIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_suspect.take() && self.has_arrival() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let before = buf.filled().len();
        let poll = match &mut self.stream {
            UpstreamStream::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            UpstreamStream::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        };
        let read = buf.filled().len() - before;
        self.backend.totals.received_bytes.fetch_add(read as u64, Relaxed);
        // The kernel reports a reset once, and then the end of the stream: what ends by a reset must not
        // look complete because the write was first to learn of it.
        if read == 0
            && self.write_error == Some(io::ErrorKind::ConnectionReset)
            && matches!(poll, Poll::Ready(Ok(())))
        {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        poll
    }
}

impl AsyncWrite for UpstreamIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.write_error.is_some() {
            return self.after_failure(buf.len());
        }
        let poll = match &mut self.stream {
            UpstreamStream::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            UpstreamStream::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        };
        count(&self.backend.totals.sent_bytes, &poll);
        self.settle(poll, buf.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = || bufs.iter().map(|piece| piece.len()).sum();
        if self.write_error.is_some() {
            return self.after_failure(length());
        }
        let poll = match &mut self.stream {
            UpstreamStream::Plain(stream) => write_pieces(stream, cx, bufs),
            UpstreamStream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        };
        count(&self.backend.totals.sent_bytes, &poll);
        self.settle(poll, length())
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.write_error.is_some() {
            return self.after_failure(());
        }
        let poll = match &mut self.stream {
            UpstreamStream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            UpstreamStream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        };
        self.settle(poll, ())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            UpstreamStream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            UpstreamStream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::task::Waker;

    use super::*;
    use crate::settings::destination::BackendSettings;

    /// h2o/h2o PR 679, aio-libs/aiohttp#13656, projectdiscovery/nuclei PR 7671: what the reactor has not
    /// reported yet is known before the next request is sent.
    #[tokio::test]
    async fn a_suspect_connection_is_read_without_the_reactor() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let backend = Backend::new(&BackendSettings::parse(&address.to_string()).unwrap());
        let stream = UpstreamStream::Plain(TcpStream::connect(address).await.unwrap());
        let (mut peer, _) = listener.accept().unwrap();
        let is_suspect = Rc::<Cell<bool>>::default();
        let suspicion = Rc::clone(&is_suspect);
        let mut io = UpstreamIo::new(stream, Arc::new(backend), FailedWrites::Wait, suspicion);
        let mut cx = Context::from_waker(Waker::noop());
        let mut read = |io: &mut UpstreamIo| {
            let mut bytes = [0; 9];
            Pin::new(io).poll_read(&mut cx, &mut ReadBuf::new(&mut bytes)).map_err(|e| e.kind())
        };
        is_suspect.set(true);
        assert!(read(&mut io).is_pending(), "nothing has arrived");
        peer.write_all(b"HTTP/1.0 408").unwrap();
        // Loopback delivers before the call returns, and no turn of the reactor has followed.
        assert!(read(&mut io).is_pending(), "the reactor has not reported it");
        is_suspect.set(true);
        assert_eq!(read(&mut io), Poll::Ready(Err(io::ErrorKind::ConnectionAborted)));
    }
}
