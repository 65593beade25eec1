//! Connections of the page and the API: taken up to a limit, closed when a client sends nothing, drained at the end.
//!
//! A client that sends its request byte by byte, or not at all, holds a connection. There are only so many, so each
//! has a limit for its head here and for the whole request in `guard`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1::Builder;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use super::caller::PEER;

/// Connections at a time; more wait in the kernel's accept queue.
const MAX_CONNECTIONS: usize = 1024;
/// How long a client may take for the head of a request, and how long a connection may lie idle before the next one.
const READ_HEAD: Duration = Duration::from_secs(10);
/// How long open connections may take to end after weir was told to end.
const DRAIN: Duration = Duration::from_secs(3);

/// Serves until `ended` says so, then lets open connections finish for a moment.
pub(crate) async fn serve(
    mut listener: TcpListener,
    router: Router,
    mut ended: watch::Receiver<bool>,
) -> io::Result<()> {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    // Told apart by the first bytes, HTTP/2 would bring back a wait without a limit: the page has no need of it.
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
        tokio::spawn(async move {
            // A connection that breaks is the client's matter: there is nobody to tell.
            let _ = PEER.scope(peer.ip(), serving).await;
            drop(place);
        });
    }
    drop(listener);
    let all = u32::try_from(MAX_CONNECTIONS).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(DRAIN, room.acquire_many(all)).await;
    Ok(())
}
