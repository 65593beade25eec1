//! A connection to a backend. It is not a task of its own: whoever uses it polls it, and at rest nobody does.
//!
//! That saves two wake-ups a request. Whether the backend has closed a connection at rest is found by polling it once,
//! which costs no system call: the reactor knows already. A connection with HTTP/2 carries many requests at a time, so nobody
//! could poll it for all: it is a task, and what is called an upstream here is one request's share of it.

pub(crate) mod idle;
pub(crate) mod response_deadlines;

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::client::state::write_pieces;
use crate::client::task::LocalExecutor;
use crate::pool::Pool;
use crate::pool::backend::{Backend, ConnectionGuard};
use crate::proxy::body::RequestBody;
use crate::record::RequestFailure;
use crate::settings::Limits;
use crate::time::now_ns;

/// Requests that one connection of HTTP/2 carries at a time, unless the backend allows fewer; for more there is another one.
const STREAMS_MAX: usize = 100;

/// A connection that can carry one request at a time, or a place on one that carries many.
pub(crate) struct Upstream {
    http: HttpSender,
    pub(crate) backend: Arc<Backend>,
    pub(crate) requests: u32,
    pub(crate) idle_since: u64,
    is_over: bool,
    _connected: Option<ConnectionGuard>,
}

type UpstreamTransport = TokioIo<UpstreamIo>;

/// What is spoken on it.
#[expect(clippy::large_enum_variant, reason = "an upstream is boxed as a whole")]
enum HttpSender {
    One(http1::SendRequest<RequestBody>, http1::Connection<UpstreamTransport, RequestBody>),
    Two(http2::SendRequest<RequestBody>, StreamGuard),
}

/// A connection with HTTP/2. It ends when nobody holds it any more.
pub(crate) struct SharedConnection {
    sender: http2::SendRequest<RequestBody>,
    pub(crate) backend: Arc<Backend>,
    streams: Cell<usize>,
    /// How many the backend allows, as far as it has said.
    allowed: Rc<Cell<usize>>,
    /// When its last stream ended.
    idle_since: Cell<u64>,
    _connected: ConnectionGuard,
}

/// One stream of it; dropping it ends that.
struct StreamGuard(Rc<SharedConnection>);

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.0.streams.set(self.0.streams.get() - 1);
        self.0.idle_since.set(now_ns());
    }
}

impl SharedConnection {
    /// A place for one more request, if there is one.
    pub(crate) fn upstream(self: &Rc<Self>) -> Option<Box<Upstream>> {
        let streams = self.streams.get();
        if self.sender.is_closed() || streams >= self.allowed.get().min(STREAMS_MAX) {
            return None;
        }
        self.streams.set(streams + 1);
        Some(Box::new(Upstream {
            http: HttpSender::Two(self.sender.clone(), StreamGuard(Rc::clone(self))),
            backend: Arc::clone(&self.backend),
            requests: 0,
            idle_since: 0,
            is_over: false,
            _connected: None,
        }))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// For how long it has carried nothing; `None` while it carries something.
    pub(crate) fn idle_ns(&self, now: u64) -> Option<u64> {
        (self.streams.get() == 0).then(|| now.saturating_sub(self.idle_since.get()))
    }
}

/// What a backend said, or the request when it was not sent.
pub(crate) type SendResult = Result<Response<Incoming>, TrySendError<Request<RequestBody>>>;

impl Upstream {
    /// Connects; `preface` is sent first.
    pub(crate) async fn connect(
        backend: &Arc<Backend>,
        pool: &Pool,
        limits: &Limits,
        preface: Vec<u8>,
    ) -> Result<Box<Self>, (RequestFailure, String)> {
        let opening = tokio::time::timeout(pool.settings.connect, open(backend, pool, preface));
        let stream = opening.await.unwrap_or_else(|_| {
            Err((RequestFailure::ConnectTimeout, "no answer to the handshake".into()))
        })?;
        let io = TokioIo::new(UpstreamIo { stream, backend: Arc::clone(backend) });
        if backend.protocol.is_h2() {
            let shared = Rc::new(share(backend, io).await.map_err(refused)?);
            return shared.upstream().ok_or_else(|| refused("the backend allows no stream"));
        }
        let mut builder = http1::Builder::new();
        // No allowance for what servers should not send: an answer that two clients read differently is refused.
        builder.max_buf_size(limits.head_bytes.max(64 << 10));
        let (sender, connection) = builder.handshake(io).await.map_err(refused)?;
        Ok(Box::new(Self {
            http: HttpSender::One(sender, connection),
            backend: Arc::clone(backend),
            requests: 0,
            idle_since: now_ns(),
            is_over: false,
            _connected: Some(ConnectionGuard::new(backend)),
        }))
    }

    /// The connection that others may use beside.
    pub(crate) fn shared(&self) -> Option<&Rc<SharedConnection>> {
        match &self.http {
            HttpSender::One(..) => None,
            HttpSender::Two(_, stream) => Some(&stream.0),
        }
    }

    /// Sends a request; whoever waits for the answer has to [`Upstream::drive`].
    pub(crate) fn send(
        &mut self,
        request: Request<RequestBody>,
    ) -> impl Future<Output = SendResult> + use<> {
        let sending = match &mut self.http {
            HttpSender::One(sender, _) => (Some(sender.try_send_request(request)), None),
            HttpSender::Two(sender, _) => (None, Some(sender.try_send_request(request))),
        };
        async move {
            match sending {
                (Some(one), _) => one.await,
                (_, Some(two)) => two.await,
                (None, None) => unreachable!("one of them is sent"),
            }
        }
    }

    /// Moves bytes; true when the connection is over. Those of HTTP/2 are moved by its own task.
    pub(crate) fn drive(&mut self, cx: &mut Context<'_>) -> bool {
        if let HttpSender::One(_, connection) = &mut self.http
            && !self.is_over
        {
            self.is_over = connection.poll_without_shutdown(cx).is_ready();
        }
        self.is_over
    }

    /// Whether it was seen to be over.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether another request can be sent: nothing is under way, and the backend has not closed it.
    pub(crate) fn is_usable(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        if self.drive(&mut cx) {
            return false;
        }
        let ready = match &mut self.http {
            HttpSender::One(sender, _) => sender.poll_ready(&mut cx),
            HttpSender::Two(sender, _) => sender.poll_ready(&mut cx),
        };
        matches!(ready, Poll::Ready(Ok(())))
    }

    /// The stream below, and what was read too far, after the backend has switched to another protocol; HTTP/2 does not.
    pub(crate) fn into_stream(self) -> Option<(UpstreamIo, bytes::Bytes)> {
        let HttpSender::One(_, connection) = self.http else { return None };
        let parts = connection.into_parts();
        Some((parts.io.into_inner(), parts.read_buf))
    }
}

/// Begins HTTP/2, and the task that moves its bytes.
async fn share(
    backend: &Arc<Backend>,
    io: UpstreamTransport,
) -> Result<SharedConnection, hyper::Error> {
    let (sender, connection) = http2::Builder::new(LocalExecutor).handshake(io).await?;
    let allowed = Rc::new(Cell::new(connection.current_max_send_streams()));
    let told = Rc::clone(&allowed);
    let mut connection = Box::pin(connection);
    tokio::task::spawn_local(std::future::poll_fn(move |cx| {
        let poll = connection.as_mut().poll(cx);
        told.set(connection.current_max_send_streams());
        // Why it ended is told to the requests that it carried.
        poll.map(|_| ())
    }));
    Ok(SharedConnection {
        sender,
        backend: Arc::clone(backend),
        streams: Cell::new(0),
        allowed,
        idle_since: Cell::new(now_ns()),
        _connected: ConnectionGuard::new(backend),
    })
}

fn refused(error: impl std::fmt::Display) -> (RequestFailure, String) {
    (RequestFailure::ConnectRefused, error.to_string())
}

/// TCP, what comes first, and TLS.
async fn open(
    backend: &Backend,
    pool: &Pool,
    preface: Vec<u8>,
) -> Result<UpstreamStream, (RequestFailure, String)> {
    let mut stream = TcpStream::connect(backend.address).await.map_err(refused)?;
    stream.set_nodelay(true).map_err(refused)?;
    if !preface.is_empty() {
        stream.write_all(&preface).await.map_err(refused)?;
    }
    if !backend.protocol.is_tls() {
        return Ok(UpstreamStream::Plain(stream));
    }
    let tls = pool.tls.as_ref().expect("a pool is made with TLS when a backend speaks it");
    let secured = tls.connect(backend.protocol, &backend.host, stream).await;
    let failed = |error: std::io::Error| (RequestFailure::ConnectTls, error.to_string());
    Ok(UpstreamStream::Tls(Box::new(secured.map_err(failed)?)))
}

enum UpstreamStream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// The stream with the backend's count of bytes.
pub(crate) struct UpstreamIo {
    stream: UpstreamStream,
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
        let poll = match &mut self.stream {
            UpstreamStream::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            UpstreamStream::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        };
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
        let poll = match &mut self.stream {
            UpstreamStream::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            UpstreamStream::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        };
        count(&self.backend.totals.sent_bytes, &poll);
        poll
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let poll = match &mut self.stream {
            UpstreamStream::Plain(stream) => write_pieces(stream, cx, bufs),
            UpstreamStream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        };
        count(&self.backend.totals.sent_bytes, &poll);
        poll
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match &mut self.stream {
            UpstreamStream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            UpstreamStream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match &mut self.stream {
            UpstreamStream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            UpstreamStream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
