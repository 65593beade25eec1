//! Connections of the page and the API: taken up to a limit, closed when a client sends nothing,
//! drained at the end.
//!
//! A client that sends its request byte by byte, or not at all, holds a connection. Their number is
//! limited, so each has a timeout for its head here and for the whole request in `guard`.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1::Builder;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use weir_process::socket_owner::peer_user;

use super::caller::PEER;

/// Connections at a time; more wait in the kernel's accept queue.
const MAX_CONNECTIONS: usize = 1024;
/// How long a client may take for the head of a request, and how long a connection may lie idle
/// before the next one.
const READ_HEAD: Duration = Duration::from_secs(10);
/// How long open connections may take to end after a stop.
const DRAIN: Duration = Duration::from_secs(3);

/// Ends of the connection that a task serves, and whether its peer may change something: found out
/// once, because the kernel's table can be long.
struct ConnectionEnds {
    peer: SocketAddr,
    local: Option<SocketAddr>,
    is_trusted: OnceLock<bool>,
}

tokio::task_local! {
    static ENDS: ConnectionEnds;
}

fn stream_ends(peer: SocketAddr, local: Option<SocketAddr>) -> ConnectionEnds {
    ConnectionEnds { peer, local, is_trusted: OnceLock::new() }
}

/// Whether root or weir's own user is at the other end of the connection that this task serves.
pub(super) fn is_trusted_peer() -> bool {
    ENDS.try_with(|ends| {
        *ends.is_trusted.get_or_init(|| {
            let local = ends.local;
            let user = local.and_then(|local| peer_user(Path::new("/"), ends.peer, local));
            let own = std::fs::metadata("/proc/self").map(|process| process.uid()).ok();
            user.is_some_and(|user| user == 0 || Some(user) == own)
        })
    })
    .unwrap_or(false)
}

/// Serves until `ended`, then lets open connections finish for a moment.
pub(crate) async fn serve(
    mut listener: TcpListener,
    router: Router,
    mut ended: watch::Receiver<bool>,
) -> io::Result<()> {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    // Told apart by the first bytes, HTTP/2 would bring back a wait without a limit: the page has
    // no need of it.
    let mut builder = Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(READ_HEAD);
    loop {
        let next = async {
            let place = Arc::clone(&room).acquire_owned().await.map_err(io::Error::other)?;
            // `Listener::accept` waits and tries again by itself when descriptors run out.
            io::Result::Ok((place, Listener::accept(&mut listener).await))
        };
        let (place, (stream, peer)) = tokio::select! {
            next = next => next?,
            _ = ended.wait_for(|is_ended| *is_ended) => break,
        };
        let local = stream.local_addr().ok();
        let service = TowerToHyperService::new(router.clone());
        let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
        let mut told = ended.clone();
        let serving = async move {
            let mut connection = std::pin::pin!(connection);
            tokio::select! {
                outcome = connection.as_mut() => return outcome,
                _ = told.wait_for(|is_ended| *is_ended) => connection.as_mut().graceful_shutdown(),
            }
            // The request under way is the last.
            connection.await
        };
        let ends = stream_ends(peer, local);
        tokio::spawn(async move {
            // A broken connection is the client's problem: there is no one to report it to.
            let _ = ENDS.scope(ends, PEER.scope(peer.ip(), serving)).await;
            drop(place);
        });
    }
    drop(listener);
    let all = u32::try_from(MAX_CONNECTIONS).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(DRAIN, room.acquire_many(all)).await;
    Ok(())
}
