//! A thread of the edge: a runtime that accepts, serves and sweeps until it is told to end.

use std::net::TcpListener;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;

use crate::client::state::Listener;
use crate::client::task::accept;
use crate::pool::Pool;
use crate::pool::backend::Backend;
use crate::pool::health_check::check_always;
use crate::time::now_ns;
use crate::upstream::Upstream;
use crate::worker::{SharedState, Worker};

/// How long requests may take to end.
const GRACE: Duration = Duration::from_secs(10);
/// Pause after an accept that failed, such as for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What a thread is told.
pub(crate) enum ThreadCommand {
    Listen(Arc<Listener>, TcpListener),
    Close(Arc<Listener>),
    /// Open so many connections to a backend, for requests to come.
    Warm(Arc<Pool>, Arc<Backend>, u32),
    End,
}

/// What ends the accepting on a socket, and the task that does it.
type AcceptTask = (Rc<Notify>, JoinHandle<()>);

/// Serves until the end.
pub(crate) fn run(
    shared: Arc<SharedState>,
    is_first: bool,
    orders: UnboundedReceiver<ThreadCommand>,
) {
    match Builder::new_current_thread().enable_all().build_local(LocalOptions::default()) {
        Ok(runtime) => runtime.block_on(serve(shared, is_first, orders)),
        Err(error) => tracing::error!("a thread of the edge cannot start: {error}"),
    }
}

async fn serve(
    shared: Arc<SharedState>,
    is_first: bool,
    mut orders: UnboundedReceiver<ThreadCommand>,
) {
    let worker = Rc::new(Worker::new(shared, is_first));
    let sweeping = {
        let worker = Rc::clone(&worker);
        tokio::task::spawn_local(async move { worker.sweep_always().await })
    };
    if is_first {
        tokio::task::spawn_local(check_always(Rc::clone(&worker)));
    }
    let mut open: FxHashMap<usize, Vec<AcceptTask>> = FxHashMap::default();
    while let Some(order) = orders.recv().await {
        worker.renew();
        match order {
            ThreadCommand::Listen(listener, socket) => {
                let (key, close) = (Arc::as_ptr(&listener).addr(), Rc::new(Notify::new()));
                let accepting =
                    accept_always(Rc::clone(&worker), listener, socket, Rc::clone(&close));
                let accepting = tokio::task::spawn_local(accepting);
                open.entry(key).or_default().push((close, accepting));
            }
            ThreadCommand::Close(listener) => {
                let accepting = open.remove(&Arc::as_ptr(&listener).addr());
                accepting.into_iter().flatten().for_each(|(close, _)| close.notify_one());
            }
            ThreadCommand::Warm(pool, backend, count) => {
                for _ in 0..count {
                    let (pool, backend) = (Arc::clone(&pool), Arc::clone(&backend));
                    tokio::task::spawn_local(warm(Rc::clone(&worker), pool, backend));
                }
            }
            ThreadCommand::End => break,
        }
    }
    for (close, accepting) in open.into_values().flatten() {
        close.notify_one();
        let _ = accepting.await;
    }
    worker.end_idle();
    let _ = tokio::time::timeout(GRACE, nothing_open(&worker)).await;
    sweeping.abort();
    worker.report(true);
}

/// A connection for requests to come. One that cannot be made is the matter of the request that needs it.
async fn warm(worker: Rc<Worker>, pool: Arc<Pool>, backend: Arc<Backend>) {
    let live = worker.live();
    let connecting = Upstream::connect(&backend, &pool, &live.settings.limits, Vec::new());
    if let Ok(upstream) = connecting.await {
        worker.rest(upstream, now_ns());
    }
}

async fn nothing_open(worker: &Worker) {
    while worker.open() > 0 {
        worker.end_idle();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn accept_always(
    worker: Rc<Worker>,
    listener: Arc<Listener>,
    socket: TcpListener,
    close: Rc<Notify>,
) {
    let socket = match tokio::net::TcpListener::from_std(socket) {
        Ok(socket) => socket,
        Err(error) => return tracing::error!("cannot serve `{}`: {error}", listener.name),
    };
    let mut closed = pin!(close.notified());
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            () = &mut closed => break,
        };
        match accepted {
            Ok((stream, peer)) => accept(&worker, &listener, stream, peer),
            Err(error) => {
                tracing::warn!("cannot accept on `{}`: {error}", listener.name);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    // What the kernel has taken already would be reset with the socket.
    let mut cx = Context::from_waker(Waker::noop());
    while let Poll::Ready(Ok((stream, peer))) = socket.poll_accept(&mut cx) {
        accept(&worker, &listener, stream, peer);
    }
}
