//! A thread of the edge: a runtime that accepts, serves and sweeps until it is stopped.

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

use crate::client::listener::Listener;
use crate::client::task::accept;
use crate::pool::Pool;
use crate::pool::backend::Backend;
use crate::pool::health_check::check_loop;
use crate::shared::SharedState;
use crate::time::MonoTime;
use crate::upstream::Upstream;
use crate::worker::Worker;

/// How long requests may take to finish at shutdown.
const GRACE: Duration = Duration::from_secs(10);
/// Pause after a failed accept, for instance when file descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

pub(crate) enum ThreadCommand {
    Listen(Arc<Listener>, TcpListener),
    Close(Arc<Listener>),
    /// Opens this many connections to a backend ahead of requests.
    Warm(Arc<Pool>, Arc<Backend>, u32),
    End,
}

/// The task that accepts on a socket.
struct AcceptTask {
    stop: Rc<Notify>,
    handle: JoinHandle<()>,
}

/// Runs the thread until [`ThreadCommand::End`].
pub(crate) fn run(
    shared: Arc<SharedState>,
    is_first: bool,
    commands: UnboundedReceiver<ThreadCommand>,
) {
    match Builder::new_current_thread().enable_all().build_local(LocalOptions::default()) {
        Ok(runtime) => runtime.block_on(serve(shared, is_first, commands)),
        Err(error) => tracing::error!("a thread of the edge cannot start: {error}"),
    }
}

async fn serve(
    shared: Arc<SharedState>,
    is_first: bool,
    mut commands: UnboundedReceiver<ThreadCommand>,
) {
    let worker = Rc::new(Worker::new(shared, is_first));
    let sweeping = {
        let worker = Rc::clone(&worker);
        tokio::task::spawn_local(async move { worker.sweep_loop().await })
    };
    if is_first {
        tokio::task::spawn_local(check_loop(Rc::clone(&worker)));
    }
    let mut open: FxHashMap<usize, Vec<AcceptTask>> = FxHashMap::default();
    while let Some(command) = commands.recv().await {
        worker.refresh_config();
        match command {
            ThreadCommand::Listen(listener, socket) => {
                let (key, stop) = (Arc::as_ptr(&listener).addr(), Rc::new(Notify::new()));
                let accepting = accept_loop(Rc::clone(&worker), listener, socket, Rc::clone(&stop));
                let handle = tokio::task::spawn_local(accepting);
                open.entry(key).or_default().push(AcceptTask { stop, handle });
            }
            ThreadCommand::Close(listener) => {
                let tasks = open.remove(&Arc::as_ptr(&listener).addr());
                tasks.into_iter().flatten().for_each(|task| task.stop.notify_one());
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
    for AcceptTask { stop, handle } in open.into_values().flatten() {
        stop.notify_one();
        let _ = handle.await;
    }
    worker.close_idle();
    let _ = tokio::time::timeout(GRACE, all_closed(&worker)).await;
    sweeping.abort();
    worker.flush(true);
}

/// Opens a connection ahead of requests; a failure is left to the request that needs it.
async fn warm(worker: Rc<Worker>, pool: Arc<Pool>, backend: Arc<Backend>) {
    let live = worker.live();
    let connecting = Upstream::connect(&backend, &pool, &live.settings.limits, Vec::new());
    if let Ok(upstream) = connecting.await {
        worker.put_idle(upstream, MonoTime::now());
    }
}

async fn all_closed(worker: &Worker) {
    while worker.open() > 0 {
        worker.close_idle();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn accept_loop(
    worker: Rc<Worker>,
    listener: Arc<Listener>,
    socket: TcpListener,
    stop: Rc<Notify>,
) {
    let socket = match tokio::net::TcpListener::from_std(socket) {
        Ok(socket) => socket,
        Err(error) => return tracing::error!("cannot serve `{}`: {error}", listener.name),
    };
    let mut stopped = pin!(stop.notified());
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            () = &mut stopped => break,
        };
        match accepted {
            Ok((stream, peer)) => accept(&worker, &listener, stream, peer),
            Err(error) => {
                tracing::warn!("cannot accept on `{}`: {error}", listener.name);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    // Closing the socket would reset the connections that the kernel has already accepted.
    let mut cx = Context::from_waker(Waker::noop());
    while let Poll::Ready(Ok((stream, peer))) = socket.poll_accept(&mut cx) {
        accept(&worker, &listener, stream, peer);
    }
}
