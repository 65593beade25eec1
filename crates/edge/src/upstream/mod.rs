//! A connection to a backend. It has no task: the request that uses it polls it.
//!
//! That saves two wake-ups per request. Polling an idle connection once shows whether the backend
//! has closed it, without a system call, because the reactor already knows. An HTTP/2 connection
//! carries several requests, none of which could poll it for all; it has a task, and an
//! [`Upstream`] is one request's stream on it.

pub(crate) mod idle;
pub(crate) mod io;
pub(crate) mod response_deadlines;

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::local_executor::LocalExecutor;
use crate::pool::Pool;
use crate::pool::backend::{Backend, ConnectionGuard};
use crate::proxy::request_body::RequestBody;
use crate::record::RequestFailure;
use crate::settings::Limits;
use crate::time::{MonoTime, Nanos};
use crate::upstream::io::{FailedWrites, UpstreamIo, UpstreamStream};

/// Concurrent requests on one HTTP/2 connection, unless the backend allows fewer.
const STREAMS_MAX: u32 = 100;

/// What h2 has as the limit of streams until the backend's settings have arrived; no 32-bit setting has
/// this value.
const LIMIT_UNKNOWN: usize = usize::MAX - 1;

/// Cancelled streams of one connection whose late frames are ignored without a sign, for a second each.
const CANCELLED_MAX: usize = 1024;

/// Flow-control window of a stream on a shared connection, in bytes.
const STREAM_WINDOW: u32 = 512 << 10;
/// Window of the whole connection, in bytes: a client that reads slowly fills only its streams'
/// windows.
const CONNECTION_WINDOW: u32 = STREAMS_MAX * STREAM_WINDOW;

/// Servers close idle connections after seconds, some with an unsolicited response. Checking
/// connections in constant use would cost a system call per request.
const SUSPECT_AFTER: Nanos = Nanos(500_000_000);

/// Fields of a response from pools that have sent more than hyper expects, which is 100.
const FIELDS_MAX: usize = 1000;

/// A connection that carries one request at a time, or a stream of one that carries many.
pub(crate) struct Upstream {
    http: HttpSender,
    pub(crate) backend: Arc<Backend>,
    pub(crate) requests: u32,
    pub(crate) idle_since: MonoTime,
    is_over: bool,
    /// Makes the next read check the socket, see [`UpstreamIo`].
    is_suspect: Rc<Cell<bool>>,
    /// Whether it reads heads of any number of fields.
    pub(crate) takes_many_fields: bool,
    _connected: Option<ConnectionGuard>,
}

type UpstreamTransport = TokioIo<UpstreamIo>;
type SharedTask = http2::Connection<UpstreamTransport, RequestBody, LocalExecutor>;

#[expect(clippy::large_enum_variant, reason = "an upstream is boxed as a whole")]
enum HttpSender {
    One(http1::SendRequest<RequestBody>, http1::Connection<UpstreamTransport, RequestBody>),
    Two(http2::SendRequest<RequestBody>, StreamGuard),
}

/// An HTTP/2 connection; it closes when the last reference is dropped.
pub(crate) struct SharedConnection {
    sender: http2::SendRequest<RequestBody>,
    pub(crate) backend: Arc<Backend>,
    streams: Cell<usize>,
    /// Streams that the backend allows at the moment.
    allowed: Rc<Cell<usize>>,
    /// When its last stream ended.
    idle_since: Cell<MonoTime>,
    /// Whether the backend has refused a stream: others take no new one.
    is_draining: Cell<bool>,
    _connected: ConnectionGuard,
}

/// Counts one stream of a shared connection until dropped.
struct StreamGuard(Rc<SharedConnection>);

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.0.streams.set(self.0.streams.get() - 1);
        self.0.idle_since.set(MonoTime::now());
    }
}

impl SharedConnection {
    /// A stream for one more request, if the connection has room.
    pub(crate) fn upstream(self: &Rc<Self>) -> Option<Box<Upstream>> {
        let streams = self.streams.get();
        if self.is_closed()
            || self.is_draining()
            || streams >= self.allowed.get().min(STREAMS_MAX as usize)
        {
            return None;
        }
        self.streams.set(streams + 1);
        Some(Box::new(Upstream {
            http: HttpSender::Two(self.sender.clone(), StreamGuard(Rc::clone(self))),
            backend: Arc::clone(&self.backend),
            requests: 0,
            idle_since: MonoTime::NEVER,
            is_over: false,
            is_suspect: Rc::default(),
            takes_many_fields: true,
            _connected: None,
        }))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Opens no more streams.
    pub(crate) fn drain(&self) {
        self.is_draining.set(true);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.get()
    }

    /// How long the connection has been idle; `None` while it carries a request.
    pub(crate) fn idle_time(&self, now: MonoTime) -> Option<Nanos> {
        (self.streams.get() == 0).then(|| now.since(self.idle_since.get()))
    }
}

/// The response head; or the error, with the request if it was not sent.
pub(crate) type SendResult = Result<Response<Incoming>, TrySendError<Request<RequestBody>>>;

impl Upstream {
    /// Connects and sends `preface` before anything else.
    pub(crate) async fn connect(
        backend: &Arc<Backend>,
        pool: &Pool,
        limits: &Limits,
        preface: Vec<u8>,
    ) -> Result<Box<Self>, (RequestFailure, String)> {
        let opening = Self::open(backend, pool, limits, preface);
        tokio::time::timeout(pool.settings.connect, opening).await.unwrap_or_else(|_| {
            Err((
                RequestFailure::ConnectTimeout,
                "the TCP, TLS or HTTP/2 handshake timed out".into(),
            ))
        })
    }

    async fn open(
        backend: &Arc<Backend>,
        pool: &Pool,
        limits: &Limits,
        preface: Vec<u8>,
    ) -> Result<Box<Self>, (RequestFailure, String)> {
        let stream = open(backend, pool, preface).await?;
        let is_h2 = backend.protocol.is_h2();
        let failed_writes = if is_h2 { FailedWrites::Discard } else { FailedWrites::Wait };
        let is_suspect = Rc::<Cell<bool>>::default();
        let suspicion = Rc::clone(&is_suspect);
        let io = UpstreamIo::new(stream, Arc::clone(backend), failed_writes, suspicion);
        let io = TokioIo::new(io);
        if is_h2 {
            let shared = Rc::new(share(backend, io, limits).await?);
            return shared
                .upstream()
                .ok_or_else(|| refused("the backend allows no HTTP/2 streams"));
        }
        let mut builder = http1::Builder::new();
        builder.max_buf_size(response_head_bytes(limits));
        // Two old forms of response fields have one meaning, and hyper writes them in the new form:
        // a space before the colon (RFC 9112 §5.1) and folded lines (§5.2). In all else it stays
        // strict: a response that two clients would read differently is rejected.
        builder.allow_spaces_after_header_name_in_responses(true);
        builder.allow_obsolete_multiline_headers_in_responses(true);
        let takes_many_fields = pool.has_many_fields();
        if takes_many_fields {
            // Costs an allocation for each head.
            builder.max_headers(FIELDS_MAX);
        }
        let (sender, connection) = builder.handshake(io).await.map_err(refused)?;
        Ok(Box::new(Self {
            http: HttpSender::One(sender, connection),
            backend: Arc::clone(backend),
            requests: 0,
            idle_since: MonoTime::now(),
            is_over: false,
            is_suspect,
            takes_many_fields,
            _connected: Some(ConnectionGuard::new(backend)),
        }))
    }

    /// The connection behind this stream, if other requests can use it too.
    pub(crate) fn shared(&self) -> Option<&Rc<SharedConnection>> {
        match &self.http {
            HttpSender::One(..) => None,
            HttpSender::Two(_, stream) => Some(&stream.0),
        }
    }

    /// Opens no more streams on the connection: it was silent for too long and may be dead, which no
    /// packet shows.
    pub(crate) fn retire(&self) {
        if let Some(shared) = self.shared() {
            shared.drain();
        }
    }

    /// Sends a request; the caller must [`Upstream::drive`] the connection while it waits.
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
                (None, None) => unreachable!("one of the two is sent"),
            }
        }
    }

    /// Moves bytes; true when the connection is over. HTTP/2 connections are driven by their task.
    pub(crate) fn drive(&mut self, cx: &mut Context<'_>) -> bool {
        if let HttpSender::One(_, connection) = &mut self.http
            && !self.is_over
        {
            self.is_over = connection.poll_without_shutdown(cx).is_ready();
        }
        self.is_over
    }

    /// Whether [`Upstream::drive`] has found the connection closed.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Like [`Upstream::is_usable`], but a connection that was idle for `age` may have received
    /// something that the reactor has not reported yet.
    pub(crate) fn is_usable_after(&mut self, age: Nanos) -> bool {
        self.is_suspect.set(age >= SUSPECT_AFTER);
        self.is_usable()
    }

    /// Whether another request can be sent: none is in progress and the backend has not closed.
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

    /// The byte stream and what hyper has read beyond the response head, after a protocol switch.
    /// `None` for HTTP/2, which does not switch.
    pub(crate) fn into_stream(self) -> Option<(UpstreamIo, bytes::Bytes)> {
        let HttpSender::One(_, connection) = self.http else { return None };
        let parts = connection.into_parts();
        Some((parts.io.into_inner().for_tunnel(), parts.read_buf))
    }
}

/// Longest head of a response, in either version of HTTP.
fn response_head_bytes(limits: &Limits) -> usize {
    limits.head_bytes.max(64 << 10)
}

/// Starts HTTP/2 and the task that drives the connection.
async fn share(
    backend: &Arc<Backend>,
    io: UpstreamTransport,
    limits: &Limits,
) -> Result<SharedConnection, (RequestFailure, String)> {
    let mut builder = http2::Builder::new(LocalExecutor);
    builder.initial_stream_window_size(STREAM_WINDOW);
    builder.initial_connection_window_size(CONNECTION_WINDOW);
    builder.initial_max_send_streams(LIMIT_UNKNOWN);
    // h2 resets a stream again for each late frame of it, and ends a connection with many such resets in
    // its whole life: to it they are an attack. Here they come from clients that give up.
    builder.max_concurrent_reset_streams(CANCELLED_MAX);
    builder.max_local_error_reset_streams(None);
    let head_bytes = u32::try_from(response_head_bytes(limits)).unwrap_or(u32::MAX);
    builder.max_header_list_size(head_bytes);
    let (sender, connection) = builder.handshake(io).await.map_err(refused)?;
    let mut connection = Box::pin(connection);
    let allowed = Rc::new(Cell::new(learn_limit(&mut connection).await?));
    let reported = Rc::clone(&allowed);
    tokio::task::spawn_local(std::future::poll_fn(move |cx| {
        let poll = connection.as_mut().poll(cx);
        reported.set(connection.current_max_send_streams());
        // The requests on the connection receive the error themselves.
        poll.map(|_| ())
    }));
    Ok(SharedConnection {
        sender,
        backend: Arc::clone(backend),
        streams: Cell::new(0),
        allowed,
        idle_since: Cell::new(MonoTime::now()),
        is_draining: Cell::new(false),
        _connected: ConnectionGuard::new(backend),
    })
}

/// Waits for the backend's settings, which are its first frame (RFC 9113 §3.4); returns its limit of
/// streams. A burst that is sent before would be refused but for the streams within the limit, at each
/// new connection.
async fn learn_limit(
    connection: &mut Pin<Box<SharedTask>>,
) -> Result<usize, (RequestFailure, String)> {
    std::future::poll_fn(|cx| {
        let poll = connection.as_mut().poll(cx);
        let limit = connection.current_max_send_streams();
        match poll {
            Poll::Ready(Err(error)) => Poll::Ready(Err(refused(error))),
            Poll::Ready(Ok(())) => Poll::Ready(Err(refused("the backend sent no HTTP/2 settings"))),
            Poll::Pending if limit == LIMIT_UNKNOWN => Poll::Pending,
            Poll::Pending => Poll::Ready(Ok(limit)),
        }
    })
    .await
}

fn refused(error: impl std::fmt::Display) -> (RequestFailure, String) {
    (RequestFailure::ConnectRefused, error.to_string())
}

/// Connects to the first address of the backend that accepts. One that does not answer leaves
/// equal shares of the time to the others.
async fn connect(backend: &Backend, within: Duration) -> std::io::Result<TcpStream> {
    let share = within / u32::try_from(backend.addresses().count()).unwrap_or(u32::MAX);
    let mut addresses = backend.addresses().peekable();
    loop {
        let (at, address) = addresses.next().expect("a backend has an address");
        let connecting = TcpStream::connect(address);
        let result = match addresses.peek() {
            None => connecting.await,
            Some(_) => tokio::time::timeout(share, connecting)
                .await
                .unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into())),
        };
        match result {
            Ok(stream) => {
                backend.prefer(at);
                return Ok(stream);
            }
            Err(error) if addresses.peek().is_none() => return Err(error),
            Err(_) => {}
        }
    }
}

/// Opens TCP, sends the preface, and completes the TLS handshake.
async fn open(
    backend: &Backend,
    pool: &Pool,
    preface: Vec<u8>,
) -> Result<UpstreamStream, (RequestFailure, String)> {
    let mut stream = connect(backend, pool.settings.connect).await.map_err(refused)?;
    stream.set_nodelay(true).map_err(refused)?;
    if !preface.is_empty() {
        stream.write_all(&preface).await.map_err(refused)?;
    }
    if !backend.protocol.is_tls() {
        return Ok(UpstreamStream::Plain(stream));
    }
    let tls = pool.tls.as_ref().expect("a pool has TLS if one of its backends uses it");
    let secured = tls.connect(backend.protocol, &backend.host, stream).await;
    let secured = secured.map_err(|error| (RequestFailure::ConnectTls, error.to_string()))?;
    Ok(UpstreamStream::Tls(Box::new(secured)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::destination::BackendSettings;

    #[tokio::test]
    async fn the_address_of_the_other_family_is_tried_and_preferred_once_it_accepts() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let settings = BackendSettings::parse(&gone.to_string()).unwrap();
        let backend = Backend::new(&BackendSettings { alternates: vec![there], ..settings });
        for first in [gone, there] {
            assert_eq!(backend.addresses().next().unwrap().1, first);
            let stream = connect(&backend, Duration::from_secs(5)).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), there);
        }
        drop(listener);
        assert!(connect(&backend, Duration::from_secs(5)).await.is_err());
    }
}
