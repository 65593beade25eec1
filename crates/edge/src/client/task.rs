//! A client's connection from accept to end: PROXY header, TLS, HTTP/1.1 or 2, and rest in between.
//!
//! hyper holds 8 KiB of buffers for each connection. One that is idle for a second is taken out of hyper and waits as a
//! socket only; hyper begins anew with its next byte.

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
use crate::client::proxy_header::{self, HEADER_BYTES_MAX, ParsedHeader};
use crate::client::service::handle;
use crate::client::session::{AdmissionGuard, ClientSession};
use crate::client::state::{
    ClientIo, ClientState, ClientStream, ConnectionPhase, Listener, SweepVerdict,
};
use crate::settings::Limits;
use crate::time::now_ns;
use crate::worker::{LiveConfig, Worker};

/// HTTP/2 streams of one connection at a time.
const STREAMS_MAX: u32 = 128;
/// hyper's own limit of header fields: when it is said again, hyper fills its table of them before each request.
const HYPERS_HEADERS: usize = 100;
/// A PROXY header that is there in part only is looked at again after that.
const HEADER_PAUSE: Duration = Duration::from_millis(5);

/// Takes a connection that the kernel has accepted.
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
        let client = address.to_canonical().to_string();
        worker.recorder.borrow_mut().refused(listener, &client, reason, (0, 0), None);
        // A reset: the attacker gets no FIN to wait for, and no TIME_WAIT is left here.
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
    if settings.is_tls || settings.is_h2c || settings.has_proxy_header {
        tokio::task::spawn_local(open(worker, listener, stream, peer, live, admission));
    } else {
        let conn = Arc::new(ClientState::new(listener, peer, false));
        let serving = Rc::new(ClientSession::new(Arc::clone(&conn), worker, None, admission));
        tokio::task::spawn_local(serve_h1(
            serving,
            ClientIo { stream: ClientStream::Plain(stream), conn },
        ));
    }
}

/// What comes before HTTP.
async fn open(
    worker: Rc<Worker>,
    listener: Arc<Listener>,
    mut stream: TcpStream,
    mut peer: SocketAddr,
    live: Rc<LiveConfig>,
    admission: AdmissionGuard,
) {
    let within = live.settings.limits.handshake;
    let refuse = |client: SocketAddr, reason, text: String| {
        let client = client.ip().to_canonical().to_string();
        let mut recorder = worker.recorder.borrow_mut();
        recorder.refused(&listener, &client, reason, (0, 0), Some(text));
    };
    if listener.settings.has_proxy_header {
        match tokio::time::timeout(within, read_proxy_header(&mut stream)).await {
            Ok(Ok(client)) => peer = client.unwrap_or(peer),
            Ok(Err(error)) => return refuse(peer, "proxy_header", error.to_string()),
            Err(_) => return refuse(peer, "proxy_header", "it did not come in time".into()),
        }
    }
    let Some(acceptor) = live.tls.as_ref().filter(|_| listener.settings.is_tls) else {
        let is_h2 = listener.settings.is_h2c;
        let conn = Arc::new(ClientState::new(listener, peer, is_h2));
        let serving = Rc::new(ClientSession::new(Arc::clone(&conn), worker, None, admission));
        let io = ClientIo { stream: ClientStream::Plain(stream), conn };
        return serve(serving, io, &live.settings.limits).await;
    };
    let began = now_ns();
    let stream = match tokio::time::timeout(within, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return refuse(peer, "tls_handshake", error.to_string()),
        Err(_) => return refuse(peer, "tls_handshake", "it did not end in time".into()),
    };
    let took = now_ns() - began;
    if stream.get_ref().1.alpn_protocol() == Some(ALPN) {
        // The handshake was the proof; nothing follows.
        return;
    }
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let conn = Arc::new(ClientState::new(listener, peer, is_h2));
    let serving = Rc::new(ClientSession::new(Arc::clone(&conn), worker, Some(took), admission));
    let io = ClientIo { stream: ClientStream::Tls(Box::new(stream)), conn };
    serve(serving, io, &live.settings.limits).await;
}

async fn serve(serving: Rc<ClientSession>, io: ClientIo, limits: &Limits) {
    if io.conn.is_h2 { serve_h2(serving, io, limits).await } else { serve_h1(serving, io).await }
}

/// Reads the header and not a byte more.
async fn read_proxy_header(stream: &mut TcpStream) -> std::io::Result<Option<SocketAddr>> {
    let mut bytes = [0; HEADER_BYTES_MAX];
    loop {
        let count = stream.peek(&mut bytes).await?;
        match proxy_header::parse(&bytes[..count]) {
            ParsedHeader::Whole { length, client } => {
                stream.read_exact(&mut bytes[..length]).await?;
                return Ok(client);
            }
            ParsedHeader::Wrong => return Err(std::io::Error::other("not a PROXY header")),
            ParsedHeader::Partial if count == 0 => {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            // The socket stays readable while it is only looked at, so that cannot be waited for.
            ParsedHeader::Partial => tokio::time::sleep(HEADER_PAUSE).await,
        }
    }
}

/// How a stretch of a connection ended.
enum ServeOutcome {
    Over(Result<(), hyper::Error>),
    /// To be put to rest.
    Rest,
    Judged,
}

/// Serves until the end; between requests it may rest.
async fn serve_h1(serving: Rc<ClientSession>, mut io: ClientIo) {
    let conn = Arc::clone(&serving.conn);
    loop {
        let rested = serve_stretch(&serving, io).await;
        serving.settle();
        let Some(left) = rested else { break };
        io = left;
        conn.forget_verdict();
        if !wait_at_rest(&conn, &io).await {
            break;
        }
    }
    serving.end();
}

/// Serves with hyper. Gives the socket back when the connection shall rest, `None` when it is over.
async fn serve_stretch(serving: &Rc<ClientSession>, io: ClientIo) -> Option<ClientIo> {
    serving.worker.awakes(&serving.conn);
    let limits = serving.worker.live().settings.limits.clone();
    let mut builder = http1::Builder::new();
    builder.max_buf_size(limits.head_bytes.max(8 << 10));
    // Who has asked and closes its side still listens, perhaps; the sweep ends what listens too long.
    builder.half_close(true);
    if limits.headers != HYPERS_HEADERS {
        builder.max_headers(limits.headers);
    }
    builder.max_header_size(limits.head_bytes);
    let for_service = Rc::clone(serving);
    let service = service_fn(move |request| handle(&for_service, request));
    let connection = builder.serve_connection(TokioIo::new(io), service).with_upgrades();
    let mut connection = Box::pin(connection);
    let mut is_known = false;
    let end = std::future::poll_fn(|cx| {
        if !std::mem::replace(&mut is_known, true) {
            serving.conn.set_waker(cx.waker());
        }
        poll_stretch(serving, connection.as_mut(), cx)
    })
    .await;
    match end {
        ServeOutcome::Rest => {
            let parts = Pin::into_inner(connection).into_parts()?;
            // A byte that has come already would be lost.
            parts.read_buf.is_empty().then(|| parts.io.into_inner())
        }
        ServeOutcome::Over(result) => {
            note_end(serving, result.err());
            None
        }
        ServeOutcome::Judged => {
            note_verdict(serving);
            None
        }
    }
}

fn poll_stretch<S>(
    serving: &ClientSession,
    connection: Pin<&mut UpgradeableConnection<TokioIo<ClientIo>, S>>,
    cx: &mut Context<'_>,
) -> Poll<ServeOutcome>
where
    UpgradeableConnection<TokioIo<ClientIo>, S>: Future<Output = Result<(), hyper::Error>>,
    S: hyper::service::HttpService<hyper::body::Incoming>,
{
    let verdict = serving.conn.verdict();
    if !matches!(verdict, SweepVerdict::None | SweepVerdict::Park) {
        return Poll::Ready(ServeOutcome::Judged);
    }
    if let Poll::Ready(result) = connection.poll(cx) {
        return Poll::Ready(ServeOutcome::Over(result));
    }
    serving.settle();
    if verdict == SweepVerdict::Park {
        serving.conn.forget_verdict();
        if serving.conn.phase() == ConnectionPhase::Idle && serving.is_at_rest() {
            return Poll::Ready(ServeOutcome::Rest);
        }
    }
    Poll::Pending
}

/// Waits for the next byte; false when the sweep ends the connection.
async fn wait_at_rest(conn: &ClientState, io: &ClientIo) -> bool {
    let mut readable = std::pin::pin!(io.readable());
    let mut is_known = false;
    conn.set_resting(true);
    let is_readable = std::future::poll_fn(|cx| {
        if !std::mem::replace(&mut is_known, true) {
            conn.set_waker(cx.waker());
        }
        if conn.verdict() != SweepVerdict::None {
            return Poll::Ready(false);
        }
        readable.as_mut().poll(cx).map(|result| result.is_ok())
    })
    .await;
    conn.set_resting(false);
    is_readable
}

/// A connection that ends in the middle of a head, or with one that cannot be read, was no request.
fn note_end(serving: &ClientSession, error: Option<hyper::Error>) {
    let Some(error) = error else { return };
    let reason = if error.is_parse_too_large() {
        "head_too_large"
    } else if error.is_parse() {
        "malformed"
    } else if serving.conn.phase() == ConnectionPhase::Head || serving.requests() == 0 {
        "reset"
    } else {
        return;
    };
    refuse(serving, reason, Some(error.to_string()));
}

fn note_verdict(serving: &ClientSession) {
    if serving.conn.verdict() == SweepVerdict::SlowHead {
        refuse(serving, "slow_head", None);
    }
}

fn refuse(serving: &ClientSession, reason: &'static str, detail: Option<String>) {
    let conn = &serving.conn;
    let bytes = (conn.received.load(Relaxed), conn.sent.load(Relaxed));
    let mut recorder = serving.worker.recorder.borrow_mut();
    recorder.refused(&conn.listener, conn.client_text(), reason, bytes, detail);
}

/// Streams of HTTP/2 are tasks of the same thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalExecutor;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}

async fn serve_h2(serving: Rc<ClientSession>, io: ClientIo, limits: &Limits) {
    let mut builder = http2::Builder::new(LocalExecutor);
    builder
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX));
    let for_service = Rc::clone(&serving);
    let service = service_fn(move |request| handle(&for_service, request));
    let mut connection = Box::pin(builder.serve_connection(TokioIo::new(io), service));
    let conn = Arc::clone(&serving.conn);
    let mut is_known = false;
    let mut is_going = false;
    let result = std::future::poll_fn(|cx| {
        if !std::mem::replace(&mut is_known, true) {
            conn.set_waker(cx.waker());
        }
        match conn.verdict() {
            SweepVerdict::Close if !is_going => {
                is_going = true;
                connection.as_mut().graceful_shutdown();
            }
            SweepVerdict::SlowHead | SweepVerdict::SlowClient => return Poll::Ready(None),
            _ => {}
        }
        connection.as_mut().poll(cx).map(Some)
    })
    .await;
    match result {
        Some(result) => note_end(&serving, result.err()),
        None => note_verdict(&serving),
    }
}
