//! Tunnels for WebSocket and other protocols that start as HTTP/1.1 (RFC 9110 §7.8): after a 101
//! response, bytes pass in both directions unchanged.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Response, StatusCode, response};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::client::session::{ClientSession, OpenRecord};
use crate::client::state::ConnectionPhase;
use crate::pool::BackendSlot;
use crate::proxy::own_response::own_response;
use crate::proxy::response_body::ResponseBody;
use crate::record::RequestFailure;
use crate::time::{MonoTime, Nanos};
use crate::upstream::Upstream;

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
    let protocol = parts.headers.get(UPGRADE).cloned();
    crate::proxy::headers::strip_hop_by_hop(&mut parts.headers);
    parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    if let Some(protocol) = protocol {
        parts.headers.insert(UPGRADE, protocol);
    }
    session.conn.set_phase(ConnectionPhase::Tunnel);
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

/// Copies one direction until it ends, or until both have been silent for `idle`.
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
        to.write_all(&buffer[..count]).await?;
        to.flush().await?;
    }
}
