//! A connection to a backend. It is not a task of its own: whoever uses it polls it, and at rest nobody does.
//!
//! That saves two wake-ups a request. Whether the backend has closed a connection at rest is found by polling it once,
//! which costs no system call: the reactor knows already.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

use crate::backend::Backend;
use crate::body::RequestBody;
use crate::conn::write_pieces;
use crate::record::Failure;
use crate::settings::{Limits, UpstreamSettings};
use crate::time::now_ns;

/// A connection that can carry one request at a time.
pub(crate) struct Upstream {
    pub(crate) sender: SendRequest<RequestBody>,
    connection: Connection<TokioIo<UpstreamIo>, RequestBody>,
    pub(crate) backend: Arc<Backend>,
    pub(crate) requests: u32,
    pub(crate) idle_since: u64,
    is_over: bool,
}

impl Upstream {
    /// Connects; `preface` is sent first.
    pub(crate) async fn connect(
        backend: &Arc<Backend>,
        settings: &UpstreamSettings,
        limits: &Limits,
        preface: Vec<u8>,
    ) -> Result<Box<Self>, (Failure, String)> {
        let connecting =
            tokio::time::timeout(settings.connect, TcpStream::connect(backend.address));
        let failed = |error: std::io::Error| (Failure::ConnectRefused, error.to_string());
        let mut stream = match connecting.await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(failed(error)),
            Err(_) => return Err((Failure::ConnectTimeout, "no answer to the handshake".into())),
        };
        stream.set_nodelay(true).map_err(failed)?;
        if !preface.is_empty() {
            stream.write_all(&preface).await.map_err(failed)?;
        }
        let io = TokioIo::new(UpstreamIo { stream, backend: Arc::clone(backend) });
        let mut builder = Builder::new();
        // No allowance for what servers should not send: an answer that two clients read differently is refused.
        builder.max_buf_size(limits.head_bytes.max(64 << 10));
        let (sender, connection) = builder
            .handshake(io)
            .await
            .map_err(|error| (Failure::ConnectRefused, error.to_string()))?;
        Ok(Box::new(Self {
            sender,
            connection,
            backend: Arc::clone(backend),
            requests: 0,
            idle_since: now_ns(),
            is_over: false,
        }))
    }

    /// Moves bytes; true when the connection is over.
    pub(crate) fn drive(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.is_over {
            self.is_over = self.connection.poll_without_shutdown(cx).is_ready();
        }
        self.is_over
    }

    /// Whether another request can be sent: nothing is under way, and the backend has not closed it.
    pub(crate) fn is_usable(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        !self.drive(&mut cx) && matches!(self.sender.poll_ready(&mut cx), Poll::Ready(Ok(())))
    }

    /// The stream below, and what was read too far, after the backend has switched to another protocol.
    pub(crate) fn into_stream(self) -> (TcpStream, bytes::Bytes) {
        let parts = self.connection.into_parts();
        (parts.io.into_inner().stream, parts.read_buf)
    }
}

/// The stream with the backend's count of bytes.
pub(crate) struct UpstreamIo {
    stream: TcpStream,
    backend: Arc<Backend>,
}

fn count(total: &AtomicU64, poll: &Poll<std::io::Result<usize>>) {
    if let Poll::Ready(Ok(bytes)) = poll {
        total.fetch_add(*bytes as u64, Relaxed);
    }
}

impl AsyncRead for UpstreamIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let poll = Pin::new(&mut self.stream).poll_read(cx, buf);
        let read = buf.filled().len() - before;
        self.backend.totals.received_bytes.fetch_add(read as u64, Relaxed);
        poll
    }
}

impl AsyncWrite for UpstreamIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, buf);
        count(&self.backend.totals.sent_bytes, &poll);
        poll
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let poll = write_pieces(&mut self.stream, cx, bufs);
        count(&self.backend.totals.sent_bytes, &poll);
        poll
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
