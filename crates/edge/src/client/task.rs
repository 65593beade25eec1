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
use std::time::Duration;

use hyper::server::conn::http1::UpgradeableConnection;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::acme::challenge::ALPN;
use crate::client::listener::Listener;
use crate::client::proxy_header::{self, HEADER_BYTES_MAX, ParsedHeader};
use crate::client::service::handle;
use crate::client::session::{AdmissionGuard, ClientSession};
use crate::client::state::{ClientState, ConnectionPhase, SweepVerdict};
use crate::client::stream::{ClientIo, ClientStream};
use crate::live::LiveConfig;
use crate::local_executor::LocalExecutor;
use crate::record::ConnectionRefusal;
use crate::settings::Limits;
use crate::time::{MonoTime, Nanos};
use crate::worker::Worker;

/// Concurrent HTTP/2 streams of one connection.
const STREAMS_MAX: u32 = 128;
/// hyper's default limit of header fields. Setting it explicitly, even to this value, makes hyper
/// allocate its table of fields before each request.
const HYPER_DEFAULT_HEADERS: usize = 100;
/// Pause before a partial PROXY header is read again.
const HEADER_RETRY_PAUSE: Duration = Duration::from_millis(5);

/// Serves a connection that the kernel has accepted.
pub(crate) fn accept(
    worker: &Rc<Worker>,
    listener: &Arc<Listener>,
    stream: TcpStream,
    peer: SocketAddr,
) {
    listener.totals.accepted.fetch_add(1, Relaxed);
    let live = worker.live();
    let address = peer.ip();
    if let Err(reason) = worker.shared.admit(address, &live.settings) {
        refuse_early(worker, listener, peer, reason, None);
        // Reset it: the attacker gets no FIN to wait for, and this host keeps no TIME_WAIT.
        let _ = stream.set_zero_linger();
        return;
    }
    listener.totals.open.fetch_add(1, Relaxed);
    let admission = AdmissionGuard {
        shared: Arc::clone(&worker.shared),
        listener: Arc::clone(listener),
        address,
    };
    let (worker, listener) = (Rc::clone(worker), Arc::clone(listener));
    let settings = &listener.settings;
    if settings.is_tls || settings.is_h2c || settings.expects_proxy_header(peer.ip()) {
        tokio::task::spawn_local(open(worker, listener, stream, peer, live, admission));
    } else {
        let conn = Arc::new(ClientState::new(listener, peer, false));
        let session = Rc::new(ClientSession::new(Arc::clone(&conn), worker, None, admission));
        let io = ClientIo { stream: ClientStream::Plain(stream), conn };
        tokio::task::spawn_local(serve_h1(session, io));
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

/// Reads the PROXY header and completes the TLS handshake, then serves HTTP.
async fn open(
    worker: Rc<Worker>,
    listener: Arc<Listener>,
    mut stream: TcpStream,
    mut peer: SocketAddr,
    live: Rc<LiveConfig>,
    admission: AdmissionGuard,
) {
    let timeout = live.settings.limits.handshake;
    if listener.settings.expects_proxy_header(peer.ip()) {
        let header = tokio::time::timeout(timeout, read_proxy_header(&mut stream)).await;
        match header.unwrap_or_else(|_| Err(std::io::Error::other("not received in time"))) {
            Ok(client) => peer = client.unwrap_or(peer),
            Err(error) => {
                let detail = Some(error.to_string());
                return refuse_early(&worker, &listener, peer, "proxy_header", detail);
            }
        }
    }
    let Some(acceptor) = live.tls.as_ref().filter(|_| listener.settings.is_tls) else {
        let is_h2 = listener.settings.is_h2c;
        let conn = Arc::new(ClientState::new(listener, peer, is_h2));
        let session = Rc::new(ClientSession::new(Arc::clone(&conn), worker, None, admission));
        let io = ClientIo { stream: ClientStream::Plain(stream), conn };
        return serve(session, io, &live.settings.limits).await;
    };
    let started = MonoTime::now();
    let accepted = tokio::time::timeout(timeout, acceptor.accept(stream)).await;
    let accepted = accepted.unwrap_or_else(|_| Err(std::io::Error::other("not completed in time")));
    let stream = match accepted {
        Ok(stream) => stream,
        Err(error) => {
            let detail = Some(error.to_string());
            return refuse_early(&worker, &listener, peer, "tls_handshake", detail);
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

async fn serve(session: Rc<ClientSession>, io: ClientIo, limits: &Limits) {
    if io.conn.is_h2 { serve_h2(session, io, limits).await } else { serve_h1(session, io).await }
}

/// Reads exactly the header; the bytes after it belong to TLS or HTTP.
async fn read_proxy_header(stream: &mut TcpStream) -> std::io::Result<Option<SocketAddr>> {
    let mut bytes = [0; HEADER_BYTES_MAX];
    loop {
        let count = stream.peek(&mut bytes).await?;
        match proxy_header::parse(&bytes[..count]) {
            ParsedHeader::Whole { length, client } => {
                stream.read_exact(&mut bytes[..length]).await?;
                return Ok(client);
            }
            ParsedHeader::Invalid => return Err(std::io::Error::other("not a PROXY header")),
            ParsedHeader::Partial if count == 0 => {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            // A peeked socket stays readable, so readiness cannot signal more bytes.
            ParsedHeader::Partial => tokio::time::sleep(HEADER_RETRY_PAUSE).await,
        }
    }
}

/// Why hyper stopped serving a connection.
enum ServeOutcome {
    Closed(Result<(), hyper::Error>),
    Parked,
    Judged,
}

/// Serves a connection to its end, parking it between requests.
async fn serve_h1(session: Rc<ClientSession>, mut io: ClientIo) {
    let conn = Arc::clone(&session.conn);
    loop {
        let parked = serve_until_parked(&session, io).await;
        session.settle();
        let Some(left) = parked else { break };
        io = left;
        conn.clear_verdict();
        if !wait_parked(&conn, &io).await {
            break;
        }
    }
    session.end();
}

/// Serves with hyper; returns the socket if the connection is to be parked, `None` if it is over.
async fn serve_until_parked(session: &Rc<ClientSession>, io: ClientIo) -> Option<ClientIo> {
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
    let service = service_fn(move |request| handle(&for_service, request));
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
    match outcome {
        ServeOutcome::Parked => {
            let parts = Pin::into_inner(connection).into_parts()?;
            // Parking would lose a byte that hyper has already read.
            parts.read_buf.is_empty().then(|| parts.io.into_inner())
        }
        ServeOutcome::Closed(result) => {
            record_error(session, result.err());
            None
        }
        ServeOutcome::Judged => {
            record_verdict(session);
            None
        }
    }
}

fn poll_connection<S>(
    session: &ClientSession,
    connection: Pin<&mut UpgradeableConnection<TokioIo<ClientIo>, S>>,
    cx: &mut Context<'_>,
) -> Poll<ServeOutcome>
where
    UpgradeableConnection<TokioIo<ClientIo>, S>: Future<Output = Result<(), hyper::Error>>,
    S: hyper::service::HttpService<hyper::body::Incoming>,
{
    let verdict = session.conn.verdict();
    if !matches!(verdict, SweepVerdict::None | SweepVerdict::Park) {
        return Poll::Ready(ServeOutcome::Judged);
    }
    if let Poll::Ready(result) = connection.poll(cx) {
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

/// Records a connection that ended before or within a request head, or with an invalid one.
fn record_error(session: &ClientSession, error: Option<hyper::Error>) {
    let Some(error) = error else { return };
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
    let mut builder = http2::Builder::new(LocalExecutor);
    builder
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX));
    let for_service = Rc::clone(&session);
    let service = service_fn(move |request| handle(&for_service, request));
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
