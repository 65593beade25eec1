//! Connections of the page and the API: taken up to a limit, closed when a client sends nothing,
//! drained at the end.
//!
//! A client that sends its request byte by byte, or not at all, holds a connection. Their number is
//! limited, so each has a timeout for its head here and for the whole request in `guard`.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1::Builder;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use weir_intake::TlsServer;
use weir_process::socket_owner::peer_user;

use super::caller::PEER;

/// Connections at a time; more wait in the kernel's accept queue.
const MAX_CONNECTIONS: usize = 1024;
/// How long a client may take for the head of a request, and how long a connection may lie idle
/// before the next one.
const READ_HEAD: Duration = Duration::from_secs(10);
/// How long open connections may take to end after a stop.
const DRAIN: Duration = Duration::from_secs(3);

/// Ends of the connection that a task serves, and whether the kernel vouches for its peer: found out
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

/// The address at the other end of the connection that this task serves.
pub(super) fn peer() -> Option<IpAddr> {
    ENDS.try_with(|ends| ends.peer.ip().to_canonical()).ok()
}

/// Whether root or weir's own user is at the other end of the connection that this task serves.
pub(super) fn is_trusted_peer() -> bool {
    ENDS.try_with(|ends| {
        let is_own = || ends.local.is_some_and(|local| is_own_socket(ends.peer, local));
        *ends.is_trusted.get_or_init(is_own)
    })
    .unwrap_or(false)
}

/// The address at the other end, for a log.
pub(super) fn peer_text() -> String {
    ENDS.try_with(|ends| ends.peer.ip().to_canonical().to_string()).unwrap_or_default()
}

/// Whether the socket at the other end of a connection is of root or of weir's own user, on this
/// host.
pub(super) fn is_own_socket(peer: SocketAddr, local: SocketAddr) -> bool {
    if !peer.ip().to_canonical().is_loopback() {
        return false;
    }
    let user = peer_user(Path::new("/"), peer, local);
    let own = std::fs::metadata("/proc/self").map(|process| process.uid()).ok();
    user.is_some_and(|user| user == 0 || Some(user) == own)
}

/// What answers on a connection.
#[derive(Clone)]
struct PageService {
    builder: Builder,
    router: Router,
}

impl PageService {
    /// Answers the requests of one connection. A broken one is the client's problem: there is no one
    /// to report it to.
    async fn speak(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        mut ended: watch::Receiver<bool>,
    ) {
        let service = TowerToHyperService::new(self.router);
        let connection = self.builder.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection.with_upgrades());
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = ended.wait_for(|is_ended| *is_ended) => connection.as_mut().graceful_shutdown(),
        }
        // The request under way is the last.
        let _ = connection.await;
    }
}

/// Serves until `ended`, then lets open connections finish for a moment.
pub(crate) async fn serve(
    mut listener: TcpListener,
    tls: Option<TlsServer>,
    router: Router,
    mut ended: watch::Receiver<bool>,
) -> io::Result<()> {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    // Told apart by the first bytes, HTTP/2 would bring back a wait without a limit: the page has
    // no need of it.
    let mut builder = Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(READ_HEAD);
    let service = PageService { builder, router };
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
        let (service, tls, told) = (service.clone(), tls.clone(), ended.clone());
        let serving = async move {
            match tls {
                None => service.speak(stream, told).await,
                Some(tls) => {
                    let Ok(stream) = tls.accept(stream).await else { return };
                    service.speak(stream, told).await;
                }
            }
        };
        let ends = stream_ends(peer, local);
        tokio::spawn(async move {
            ENDS.scope(ends, PEER.scope(peer.ip(), serving)).await;
            drop(place);
        });
    }
    drop(listener);
    let all = u32::try_from(MAX_CONNECTIONS).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(DRAIN, room.acquire_many(all)).await;
    Ok(())
}
