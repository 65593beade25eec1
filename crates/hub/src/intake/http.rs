//! Connections of shippers that speak HTTP: a limit on their number and on their patience. The crate
//! `intake` limits their bodies.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, BodyDataStream, Bytes, HttpBody};
use axum::extract::{Extension, Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use futures::StreamExt;
use http_body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use weir_intake::{BodySource, ConnectionRefusal, Intake, IntakeResponse, Sender, TlsServer};

/// How long a sender may take for the head of a request, and how long a connection may lie idle
/// before the next one.
const READ_HEAD: Duration = Duration::from_secs(60);
/// How long open requests may take to end after a stop; an append may wait 10 s for space.
const DRAIN: Duration = Duration::from_secs(12);
/// A pause when the kernel gives no connection, as when file descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// How long the answer to a sender that may not send may take.
const TURN_AWAY: Duration = Duration::from_secs(2);
/// Bytes that are read from such a sender and discarded.
const TURNED_AWAY_BYTES: u64 = 64 << 10;

/// Requests that one HTTP/2 connection may have open.
const STREAMS: u32 = 64;

/// Serves until `ended`, then lets open requests finish.
pub(super) async fn serve(
    listener: TcpListener,
    tls: Option<TlsServer>,
    intake: Arc<Intake>,
    room: Arc<Semaphore>,
    mut ended: watch::Receiver<bool>,
) {
    let router = Router::new().fallback(answer).with_state(Arc::clone(&intake));
    let has_client_check = tls.as_ref().is_some_and(|tls| tls.has_client_check);
    let has_login = has_client_check || intake.requires_token();
    let graceful = GracefulShutdown::new();
    loop {
        let next = async {
            let place = Arc::clone(&room).acquire_owned().await.map_err(io::Error::other)?;
            let (stream, peer) = listener.accept().await?;
            io::Result::Ok((place, stream, peer))
        };
        let accepted = tokio::select! {
            accepted = next => accepted,
            _ = ended.wait_for(|is_ended| *is_ended) => break,
        };
        let Ok((place, stream, peer)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let share = match intake.admit_connection("http", peer.ip(), has_login, &room) {
            Ok(share) => share,
            Err(refusal) => {
                if tls.is_none() {
                    tokio::spawn(turn_away(stream, peer.ip(), refusal, place));
                }
                continue;
            }
        };
        let sender = Sender { address: peer.ip(), has_certificate: has_client_check };
        let router = router.clone().layer(Extension(sender));
        let (tls, watcher) = (tls.clone(), graceful.watcher());
        tokio::spawn(async move {
            connection(stream, tls, router, watcher).await;
            drop((place, share));
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(DRAIN, graceful.shutdown()).await;
}

/// Answers a sender that may not send, whatever it sends, and closes.
async fn turn_away(
    mut stream: TcpStream,
    peer: IpAddr,
    refusal: ConnectionRefusal,
    _place: OwnedSemaphorePermit,
) {
    let (status, error, hint) = match refusal {
        ConnectionRefusal::NotAllowed => (
            "403 Forbidden",
            format!("`{}` may not send", peer.to_canonical()),
            "set `intake.token_file`, or add its network to `intake.allow`",
        ),
        ConnectionRefusal::TooMany => (
            "503 Service Unavailable",
            format!("`{}` has too many connections open", peer.to_canonical()),
            "send over fewer connections, or raise `intake.connections`",
        ),
    };
    let body = json!({"error": error, "hint": hint}).to_string();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let spoken = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        // Unread bytes would make the kernel reset the connection before the answer is read.
        let mut unread = stream.take(TURNED_AWAY_BYTES);
        tokio::io::copy(&mut unread, &mut tokio::io::sink()).await
    };
    let _ = tokio::time::timeout(TURN_AWAY, spoken).await;
}

/// A broken connection is the sender's problem: there is no one to report it to.
async fn connection(stream: TcpStream, tls: Option<TlsServer>, router: Router, watcher: Watcher) {
    let _ = stream.set_nodelay(true);
    match tls {
        None => {
            let Some(is_http2) = is_http2(&stream).await else { return };
            Box::pin(speak(stream, is_http2, router, watcher)).await;
        }
        Some(tls) => {
            let Ok(stream) = tls.accept(stream).await else { return };
            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            Box::pin(speak(stream, is_http2, router, watcher)).await;
        }
    }
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    is_http2: bool,
    router: Router,
    watcher: Watcher,
) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(READ_HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(READ_HEAD)
        .max_concurrent_streams(STREAMS);
    let builder = if is_http2 { builder.http2_only() } else { builder.http1_only() };
    let service = TowerToHyperService::new(router);
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    let _ = watcher.watch(connection).await;
}

/// Looks at the first bytes without taking them: HTTP/2 begins with `PRI `. `None` when nothing
/// comes.
async fn is_http2(stream: &TcpStream) -> Option<bool> {
    let mut first = [0; 4];
    let length = tokio::time::timeout(READ_HEAD, stream.peek(&mut first)).await.ok()?.ok()?;
    (length > 0).then_some(&first == b"PRI ")
}

async fn answer(
    State(intake): State<Arc<Intake>>,
    Extension(sender): Extension<Sender>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let body = ReceivedBody::new(body);
    response_of(Box::pin(intake.respond(parts, sender, body)).await)
}

/// A response of the intake as the server sends it.
pub(crate) fn response_of(answer: IntakeResponse) -> Response {
    let mut response = Response::new(match answer.trailers {
        None => Body::from(answer.body),
        Some(trailers) => Body::new(WithTrailers(Some(answer.body), Some(trailers))),
    });
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    response
}

/// A body in one piece, and the trailers behind it.
struct WithTrailers(Option<Bytes>, Option<HeaderMap>);

impl HttpBody for WithTrailers {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = self.0.take().map(Frame::data);
        Poll::Ready(data.or_else(|| self.1.take().map(Frame::trailers)).map(Ok))
    }
}

/// A body as hyper receives it.
pub(crate) struct ReceivedBody(BodyDataStream);

impl ReceivedBody {
    /// The body of a request.
    pub(crate) fn new(body: Body) -> Self {
        Self(body.into_data_stream())
    }
}

impl BodySource for ReceivedBody {
    async fn next(&mut self) -> Option<Result<Bytes, String>> {
        let chunk = self.0.next().await?;
        Some(chunk.map_err(|error| error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sender_outside_of_the_networks_reads_why_though_it_sends_on() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let room = Arc::new(Semaphore::new(1));
        let place = Arc::clone(&room).acquire_owned().await.expect("it is open");
        let turning = tokio::spawn(async move {
            let (stream, peer) = listener.accept().await.expect("a connection");
            turn_away(stream, peer.ip(), ConnectionRefusal::NotAllowed, place).await;
        });
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let head = "POST /intake/jsonl HTTP/1.1\r\nhost: weir\r\ncontent-length: 30000\r\n\r\n";
        stream.write_all(head.as_bytes()).await.expect("it is open");
        stream.write_all(&[b'x'; 30_000]).await.expect("it is open");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer and an end");
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
        assert!(answer.contains("`127.0.0.1` may not send"), "{answer}");
        assert!(answer.contains("intake.allow"), "{answer}");
        drop(stream);
        turning.await.expect("it ends");
        assert_eq!(room.available_permits(), 1);
    }
}
