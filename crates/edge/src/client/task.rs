//! The task of a client's connection: PROXY header, TLS, then HTTP/1.1 or HTTP/2.
//!
//! hyper holds 8 KiB of buffers per connection. A connection that has been idle for a second is
//! parked: taken out of hyper and kept as a bare socket until its next byte arrives.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use http::{Method, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1::UpgradeableConnection;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::acme::challenge::ALPN;
use crate::client::forwarded;
use crate::client::h2_executor::{StreamExecutor, StreamResponse};
use crate::client::h2_stream::StreamState;
use crate::client::linger;
use crate::client::listener::Listener;
use crate::client::proxy_header::{self, ProxiedAddresses};
use crate::client::service::handle;
use crate::client::session::{AdmissionGuard, ClientSession};
use crate::client::state::{ClientState, ConnectionPeer, ConnectionPhase, SweepVerdict};
use crate::client::stream::{ClientIo, ClientStream};
use crate::live::LiveConfig;
use crate::proxy::response_body::ResponseBody;
use crate::record::ConnectionRefusal;
use crate::settings::{Limits, ProxyHeader};
use crate::time::{MonoTime, Nanos};
use crate::worker::Worker;

/// Concurrent HTTP/2 streams of one connection.
const STREAMS_MAX: u32 = 128;
/// Flow-control window of a stream, in bytes.
const STREAM_WINDOW: u32 = 512 << 10;
/// Window of the whole connection, in bytes: several uploads that backends do not read leave space
/// for others. A larger one would let one client occupy more memory.
const CONNECTION_WINDOW: u32 = 16 * STREAM_WINDOW;
/// hyper's default limit of header fields. Setting it explicitly, even to this value, makes hyper
/// allocate its table of fields before each request.
const HYPER_DEFAULT_HEADERS: usize = 100;

/// Serves a connection that the kernel has accepted.
pub(crate) fn accept(
    worker: &Rc<Worker>,
    listener: &Arc<Listener>,
    stream: TcpStream,
    peer: SocketAddr,
) {
    listener.totals.accepted.fetch_add(1, Relaxed);
    let live = worker.live();
    if let Err(reason) = worker.shared.admit(&live.settings) {
        return reset(worker, listener, &stream, peer, reason);
    }
    listener.totals.open.fetch_add(1, Relaxed);
    let (shared, own) = (Arc::clone(&worker.shared), Arc::clone(listener));
    let mut admission = AdmissionGuard { shared, listener: own, address: None };
    let has_proxy_header = listener.settings.expects_proxy_header(peer.ip());
    // Behind a balancer, the client is known only after the header.
    if !has_proxy_header && let Err(reason) = admission.admit_address(peer.ip(), &live.settings) {
        return reset(worker, listener, &stream, peer, reason);
    }
    let (worker, listener) = (Rc::clone(worker), Arc::clone(listener));
    let settings = &listener.settings;
    if settings.is_tls || settings.is_h2c || has_proxy_header {
        let arrival = Arrival { worker, listener, stream, peer, live, has_proxy_header };
        tokio::task::spawn_local(open(arrival, admission));
    } else {
        let peer = connection_peer(&live, &listener, &stream, ProxiedAddresses::direct(peer));
        let conn = Arc::new(ClientState::new(listener, peer, false));
        let session = Rc::new(ClientSession::new(Arc::clone(&conn), worker, None, admission));
        let io = ClientIo { stream: ClientStream::Plain(stream), conn };
        tokio::task::spawn_local(serve_h1(session, io));
    }
}

/// Resets a connection over a limit: the attacker gets no FIN to wait for, and this host keeps no
/// TIME_WAIT.
fn reset(
    worker: &Worker,
    listener: &Arc<Listener>,
    stream: &TcpStream,
    client: SocketAddr,
    reason: &'static str,
) {
    refuse_early(worker, listener, client, reason, None);
    let _ = stream.set_zero_linger();
}

/// The ends of a connection, and whether the client is a trusted proxy.
fn connection_peer(
    live: &LiveConfig,
    listener: &Listener,
    stream: &TcpStream,
    addresses: ProxiedAddresses,
) -> ConnectionPeer {
    let sends_header = live.settings.upstream.proxy_header != ProxyHeader::Off;
    let own = match listener.address.ip().is_unspecified() && sends_header {
        // The listener has all addresses of the host; the connection has one of them.
        true => stream.local_addr().unwrap_or(listener.address),
        false => listener.address,
    };
    ConnectionPeer {
        client: addresses.client,
        server: addresses.server.unwrap_or(own),
        is_trusted: forwarded::is_in(&live.settings.trusted_proxies, addresses.client.ip()),
    }
}

/// Records a connection that ended before HTTP began.
fn refuse_early(
    worker: &Worker,
    listener: &Arc<Listener>,
    client: SocketAddr,
    reason: &'static str,
    detail: Option<String>,
) {
    let client = &client.ip().to_canonical().to_string();
    let refusal = ConnectionRefusal { client, reason, received: 0, sent: 0, detail };
    worker.recorder.borrow_mut().record_refusal(listener, refusal);
}

/// An accepted connection before HTTP.
struct Arrival {
    worker: Rc<Worker>,
    listener: Arc<Listener>,
    stream: TcpStream,
    peer: SocketAddr,
    live: Rc<LiveConfig>,
    has_proxy_header: bool,
}

impl Arrival {
    /// Reads the PROXY header and counts the client that it names; `None` if the connection is
    /// refused.
    async fn read_header(&mut self, admission: &mut AdmissionGuard) -> Option<ProxiedAddresses> {
        let timeout = self.live.settings.limits.handshake;
        let header = tokio::time::timeout(timeout, proxy_header::read(&mut self.stream)).await;
        let addresses =
            match header.unwrap_or_else(|_| Err(std::io::Error::other("not received in time"))) {
                Ok(named) => named.unwrap_or(ProxiedAddresses::direct(self.peer)),
                // A balancer checks whether something listens here.
                Err(error) if error.kind() == proxy_header::NOTHING_SENT => return None,
                Err(error) => {
                    let detail = Some(error.to_string());
                    refuse_early(&self.worker, &self.listener, self.peer, "proxy_header", detail);
                    return None;
                }
            };
        if let Err(reason) = admission.admit_address(addresses.client.ip(), &self.live.settings) {
            reset(&self.worker, &self.listener, &self.stream, addresses.client, reason);
            return None;
        }
        Some(addresses)
    }
}

/// Reads the PROXY header and completes the TLS handshake, then serves HTTP.
async fn open(mut arrival: Arrival, mut admission: AdmissionGuard) {
    let mut addresses = ProxiedAddresses::direct(arrival.peer);
    if arrival.has_proxy_header {
        let Some(named) = arrival.read_header(&mut admission).await else { return };
        addresses = named;
    }
    let Arrival { worker, listener, stream, live, .. } = arrival;
    let peer = connection_peer(&live, &listener, &stream, addresses);
    let Some(acceptor) = live.tls.as_ref().filter(|_| listener.settings.is_tls) else {
        let is_h2 = listener.settings.is_h2c;
        let conn = Arc::new(ClientState::new(listener, peer, is_h2));
        let session = Rc::new(ClientSession::new(Arc::clone(&conn), worker, None, admission));
        let io = ClientIo { stream: ClientStream::Plain(stream), conn };
        return serve(session, io, &live.settings.limits).await;
    };
    let timeout = live.settings.limits.handshake;
    let started = MonoTime::now();
    let accepted = tokio::time::timeout(timeout, accept_tls(acceptor, stream)).await;
    let accepted = accepted.unwrap_or_else(|_| Err(std::io::Error::other("not completed in time")));
    let stream = match accepted {
        Ok(Some(stream)) => stream,
        Ok(None) => return,
        Err(error) => {
            let detail = Some(error.to_string());
            return refuse_early(&worker, &listener, peer.client, "tls_handshake", detail);
        }
    };
    let handshake: Nanos = MonoTime::now().since(started);
    if stream.get_ref().1.alpn_protocol() == Some(ALPN) {
        // The handshake itself was the proof of an ACME challenge.
        return;
    }
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let conn = Arc::new(ClientState::new(listener, peer, is_h2));
    let session =
        Rc::new(ClientSession::new(Arc::clone(&conn), worker, Some(handshake), admission));
    let io = ClientIo { stream: ClientStream::Tls(Box::new(stream)), conn };
    serve(session, io, &live.settings.limits).await;
}

/// Completes a TLS handshake; `None` if the client closes or resets without a byte, as checks do.
async fn accept_tls(
    acceptor: &TlsAcceptor,
    stream: TcpStream,
) -> std::io::Result<Option<TlsStream<TcpStream>>> {
    match stream.peek(&mut [0]).await {
        Ok(0) | Err(_) => Ok(None),
        Ok(_) => acceptor.accept(stream).await.map(Some),
    }
}

async fn serve(session: Rc<ClientSession>, io: ClientIo, limits: &Limits) {
    if io.conn.is_h2 { serve_h2(session, io, limits).await } else { serve_h1(session, io).await }
}

/// Why hyper stopped serving a connection.
enum ServeOutcome {
    Closed(Result<(), hyper::Error>),
    Parked,
    Judged,
}

/// What becomes of a connection that hyper no longer serves.
enum ServedConnection {
    Parked(ClientIo),
    /// Its client may still send, so closing it now could reset it.
    Lingering(ClientIo),
    Over,
}

/// Serves a connection to its end, parking it between requests.
async fn serve_h1(session: Rc<ClientSession>, mut io: ClientIo) {
    let conn = Arc::clone(&session.conn);
    loop {
        let served = serve_until_parked(&session, io).await;
        session.settle();
        io = match served {
            ServedConnection::Parked(left) => left,
            ServedConnection::Lingering(left) => {
                session.end();
                conn.set_phase(ConnectionPhase::Closed);
                return linger::close(left).await;
            }
            ServedConnection::Over => break,
        };
        conn.clear_verdict();
        if !wait_parked(&conn, &io).await {
            break;
        }
    }
    session.end();
}

/// Serves with hyper.
async fn serve_until_parked(session: &Rc<ClientSession>, io: ClientIo) -> ServedConnection {
    session.worker.mark_awake(&session.conn);
    let limits = session.worker.live().settings.limits.clone();
    let mut builder = http1::Builder::new();
    builder.max_buf_size(limits.head_bytes.max(8 << 10));
    // A client that closes its side may still read; the sweep limits how long it is waited for.
    builder.half_close(true);
    if limits.headers != HYPER_DEFAULT_HEADERS {
        builder.max_headers(limits.headers);
    }
    builder.max_header_size(limits.head_bytes);
    let for_service = Rc::clone(session);
    let service = service_fn(move |request| handle(&for_service, request, None));
    let connection = builder.serve_connection(TokioIo::new(io), service).with_upgrades();
    let mut connection = Box::pin(connection);
    let mut has_waker = false;
    let outcome = std::future::poll_fn(|cx| {
        if !std::mem::replace(&mut has_waker, true) {
            session.conn.set_waker(cx.waker());
        }
        poll_connection(session, connection.as_mut(), cx)
    })
    .await;
    let is_parked = matches!(outcome, ServeOutcome::Parked);
    let lingers = match outcome {
        ServeOutcome::Parked => false,
        ServeOutcome::Closed(result) => {
            let error = result.err();
            let is_answered = error.as_ref().is_some_and(hyper::Error::is_parse);
            record_error(session, error);
            let conn = &session.conn;
            let has_more = is_answered || conn.is_body_left() || conn.is_last();
            has_more && !session.worker.shared.is_ending.load(Relaxed)
        }
        ServeOutcome::Judged => {
            record_verdict(session);
            return ServedConnection::Over;
        }
    };
    if !is_parked && !lingers {
        return ServedConnection::Over;
    }
    match Pin::into_inner(connection).into_parts() {
        Some(parts) if lingers => ServedConnection::Lingering(parts.io.into_inner()),
        // Parking would lose a byte that hyper has already read.
        Some(parts) if parts.read_buf.is_empty() => ServedConnection::Parked(parts.io.into_inner()),
        // A tunnel has taken the socket.
        _ => ServedConnection::Over,
    }
}

fn poll_connection<S>(
    session: &ClientSession,
    mut connection: Pin<&mut UpgradeableConnection<TokioIo<ClientIo>, S>>,
    cx: &mut Context<'_>,
) -> Poll<ServeOutcome>
where
    UpgradeableConnection<TokioIo<ClientIo>, S>: Future<Output = Result<(), hyper::Error>>,
    S: hyper::service::HttpService<Incoming, ResBody = ResponseBody>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let verdict = session.conn.verdict();
    if !matches!(verdict, SweepVerdict::None | SweepVerdict::Park) {
        return Poll::Ready(ServeOutcome::Judged);
    }
    let mut poll = connection.as_mut().poll(cx);
    if poll.is_pending() && session.conn.is_last() {
        connection.as_mut().graceful_shutdown();
        poll = connection.poll(cx);
    }
    if let Poll::Ready(result) = poll {
        return Poll::Ready(ServeOutcome::Closed(result));
    }
    session.settle();
    if verdict == SweepVerdict::Park {
        session.conn.clear_verdict();
        if session.conn.phase() == ConnectionPhase::Idle && session.is_idle() {
            return Poll::Ready(ServeOutcome::Parked);
        }
    }
    Poll::Pending
}

/// Waits for the next byte; false if the sweep closes the connection first.
async fn wait_parked(conn: &ClientState, io: &ClientIo) -> bool {
    let mut readable = std::pin::pin!(io.readable());
    let mut has_waker = false;
    conn.set_parked(true);
    let is_readable = std::future::poll_fn(|cx| {
        if !std::mem::replace(&mut has_waker, true) {
            conn.set_waker(cx.waker());
        }
        if conn.verdict() != SweepVerdict::None {
            return Poll::Ready(false);
        }
        readable.as_mut().poll(cx).map(|result| result.is_ok())
    })
    .await;
    conn.set_parked(false);
    is_readable
}

/// Records a connection that ended before or within a request head, or with an invalid one. A
/// client that sends nothing checks whether something listens here.
fn record_error(session: &ClientSession, error: Option<hyper::Error>) {
    let Some(error) = error.filter(|_| session.conn.received.load(Relaxed) > 0) else { return };
    let reason = if error.is_parse_too_large() {
        "head_too_large"
    } else if error.is_parse() {
        "malformed"
    } else if session.conn.phase() == ConnectionPhase::Head || session.requests() == 0 {
        "reset"
    } else {
        return;
    };
    refuse(session, reason, Some(error.to_string()));
}

fn record_verdict(session: &ClientSession) {
    if session.conn.verdict() == SweepVerdict::SlowHead {
        refuse(session, "slow_head", None);
    }
}

fn refuse(session: &ClientSession, reason: &'static str, detail: Option<String>) {
    let conn = &session.conn;
    let (received, sent) = (conn.received.load(Relaxed), conn.sent.load(Relaxed));
    let client = conn.client_text();
    let refusal = ConnectionRefusal { client, reason, received, sent, detail };
    session.worker.recorder.borrow_mut().record_refusal(&conn.listener, refusal);
}

async fn serve_h2(session: Rc<ClientSession>, io: ClientIo, limits: &Limits) {
    let (worker, opening) = (Rc::clone(&session.worker), Rc::default());
    let executor = StreamExecutor { worker, opening: Rc::clone(&opening) };
    let mut builder = http2::Builder::new(executor);
    builder
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
        .enable_connect_protocol();
    let for_service = Rc::clone(&session);
    let service = service_fn(move |request: Request<Incoming>| {
        let state = Rc::<StreamState>::default();
        opening.replace(Some(Rc::clone(&state)));
        let is_head = request.method() == Method::HEAD;
        let response = handle(&for_service, request, Some(Rc::clone(&state)));
        StreamResponse { response, state, is_head }
    });
    let mut connection = Box::pin(builder.serve_connection(TokioIo::new(io), service));
    let conn = Arc::clone(&session.conn);
    let mut has_waker = false;
    let mut is_shutting_down = false;
    let result = std::future::poll_fn(|cx| {
        if !std::mem::replace(&mut has_waker, true) {
            conn.set_waker(cx.waker());
        }
        match conn.verdict() {
            SweepVerdict::Close if !is_shutting_down => {
                is_shutting_down = true;
                connection.as_mut().graceful_shutdown();
            }
            SweepVerdict::SlowHead | SweepVerdict::SlowClient => return Poll::Ready(None),
            _ => {}
        }
        connection.as_mut().poll(cx).map(Some)
    })
    .await;
    match result {
        Some(result) => record_error(&session, result.err()),
        None => record_verdict(&session),
    }
}
