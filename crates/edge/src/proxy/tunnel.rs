//! Tunnels for WebSocket and other protocols that start as HTTP/1.1 (RFC 9110 §7.8): after a 101
//! response, bytes pass in both directions unchanged.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, UPGRADE};
use http::{HeaderValue, Response, StatusCode, Version, response};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::client::session::{ClientSession, OpenRecord};
use crate::client::state::ConnectionPhase;
use crate::pool::BackendSlot;
use crate::proxy::headers;
use crate::proxy::own_response::own_response;
use crate::proxy::response_body::ResponseBody;
use crate::record::RequestFailure;
use crate::time::{MonoTime, Nanos};
use crate::upstream::Upstream;
use crate::worker::Worker;

/// After one side has closed, the other may continue until it pauses for this long.
const LINGER: Duration = Duration::from_secs(5);
/// Buffer of one direction, in bytes.
const BUFFER_BYTES: usize = 16 << 10;

/// Responds with 101 and starts the tunnel; the record ends with it.
pub(crate) fn switch(
    mut parts: response::Parts,
    upstream: Upstream,
    slot: BackendSlot,
    mut record: OpenRecord,
    session: Rc<ClientSession>,
    on_upgrade: Option<OnUpgrade>,
) -> Response<ResponseBody> {
    let Some(on_upgrade) = on_upgrade else {
        record.failure = Some(RequestFailure::InvalidAnswer);
        return own_response(
            record,
            StatusCode::BAD_GATEWAY,
            "the backend switched protocols unasked",
        );
    };
    if !headers::is_websocket(&parts.headers) {
        record.failure = Some(RequestFailure::InvalidAnswer);
        let why = "the backend switched to another protocol";
        return own_response(record, StatusCode::BAD_GATEWAY, why);
    }
    headers::strip_hop_by_hop(&mut parts.headers);
    parts.version = Version::HTTP_11;
    if session.conn.is_h2 {
        // Success is what HTTP/2 calls it (RFC 8441 §5), and the key was the edge's own.
        parts.status = StatusCode::OK;
        parts.headers.remove(SEC_WEBSOCKET_ACCEPT);
    } else {
        parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        parts.headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        session.conn.set_phase(ConnectionPhase::Tunnel);
    }
    let idle = session.worker.live().settings.limits.tunnel_idle;
    tokio::task::spawn_local(async move {
        let end = pass(on_upgrade, upstream, idle).await;
        if let Some(upstream) = &mut record.upstream {
            upstream.response = Some(MonoTime::now().since(upstream.started));
        }
        if end.is_err() {
            record.failure = Some(RequestFailure::AnswerCut);
        }
        drop(slot);
        record.finish_now();
        drop(session);
    });
    Response::from_parts(parts, ResponseBody::Own(None))
}

/// A `Sec-WebSocket-Key`: 16 random bytes in Base64 (RFC 6455 §4.1).
pub(crate) fn websocket_key(worker: &Worker) -> HeaderValue {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits = u128::from(worker.random().0) << 64 | u128::from(worker.random().0);
    let mut text = [b'='; 24];
    for (at, digit) in text.iter_mut().take(22).enumerate() {
        // 22 digits have 132 bits; the last four are zero.
        let shift = 122_i32 - 6 * i32::try_from(at).unwrap_or(0);
        let six = if shift >= 0 { bits >> shift } else { bits << -shift };
        *digit = DIGITS[(six & 63) as usize];
    }
    HeaderValue::from_bytes(&text).expect("Base64 is valid in a header")
}

async fn pass(on_upgrade: OnUpgrade, upstream: Upstream, idle: Duration) -> io::Result<()> {
    let client = on_upgrade.await.map_err(io::Error::other)?;
    let stream = upstream.into_stream();
    let (mut backend, early) =
        stream.ok_or_else(|| io::Error::other("HTTP/2 does not switch protocols"))?;
    let mut client = TokioIo::new(client);
    client.write_all(&early).await?;
    client.flush().await?;
    let (client_read, client_write) = tokio::io::split(&mut client);
    let (backend_read, backend_write) = tokio::io::split(&mut backend);
    let moved = Cell::new(MonoTime::now());
    let mut up = pin!(copy(client_read, backend_write, idle, &moved));
    let mut down = pin!(copy(backend_read, client_write, idle, &moved));
    tokio::select! {
        ended = &mut up => {
            ended?;
            linger(down, &moved).await
        }
        ended = &mut down => {
            ended?;
            linger(up, &moved).await
        }
    }
}

/// Waits for the other side after one has closed, as long as bytes move.
async fn linger(
    mut other: Pin<&mut impl Future<Output = io::Result<()>>>,
    moved: &Cell<MonoTime>,
) -> io::Result<()> {
    loop {
        if let Ok(ended) = tokio::time::timeout(LINGER, &mut other).await {
            return ended;
        }
        if MonoTime::now().since(moved.get()) >= Nanos::from(LINGER) {
            return Ok(());
        }
    }
}

/// Copies one direction until it ends, its receiver takes nothing for `idle`, or both are silent for as long.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    idle: Duration,
    moved: &Cell<MonoTime>,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let Ok(read) = tokio::time::timeout(idle, from.read(&mut buffer)).await else {
            if MonoTime::now().since(moved.get()) >= Nanos::from(idle) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            continue;
        };
        let count = read?;
        moved.set(MonoTime::now());
        if count == 0 {
            return to.shutdown().await;
        }
        let writing = async {
            to.write_all(&buffer[..count]).await?;
            to.flush().await
        };
        // Two sides that both send and do not read would wait for each other.
        tokio::time::timeout(idle, writing).await??;
    }
}
