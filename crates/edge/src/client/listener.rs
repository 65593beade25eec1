//! Listening sockets: one per thread and address (`SO_REUSEPORT`, socket(7)).
//!
//! The kernel silently caps a backlog at `net.core.somaxconn`, which loses connections unnoticed.
//! The edge therefore warns at startup, and the cap is a column of `edge_listener`.
//!
//! Closing a socket drops the connections in its queue. Sockets therefore stay open as long as
//! their address is configured, and a replacing edge receives the same sockets (unix(7),
//! `SCM_RIGHTS`).

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::error::EdgeError;
use crate::settings::listener::ListenerSettings;

#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) settings: ListenerSettings,
    /// The bound address; differs from the configured one if that has port 0.
    pub(crate) address: SocketAddr,
    /// `address` as rows show it.
    pub(crate) name: String,
    pub(crate) totals: Arc<ListenerTotals>,
}

/// Counters summed over all threads; they survive a change of the listener's settings.
#[derive(Debug, Default)]
pub(crate) struct ListenerTotals {
    pub(crate) open: AtomicU64,
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) received_bytes: AtomicU64,
    pub(crate) sent_bytes: AtomicU64,
}

impl Listener {
    pub(crate) fn new(
        settings: ListenerSettings,
        address: SocketAddr,
        totals: Arc<ListenerTotals>,
    ) -> Self {
        Self { settings, address, name: address.to_string(), totals }
    }
}

/// A listener and its sockets: of `n` threads, thread `i` owns sockets `i`, `i + n`, and so on.
pub(crate) struct BoundListener {
    pub(crate) listener: Arc<Listener>,
    pub(crate) sockets: Vec<TcpListener>,
}

/// Sockets that already listen on an address.
pub(crate) struct ExistingSockets {
    pub(crate) sockets: Vec<TcpListener>,
    pub(crate) totals: Arc<ListenerTotals>,
}

impl BoundListener {
    /// Copies of the sockets, for other settings of this address.
    pub(crate) fn duplicate(&self) -> std::io::Result<ExistingSockets> {
        let sockets = self.sockets.iter().map(TcpListener::try_clone).collect::<Result<_, _>>()?;
        Ok(ExistingSockets { sockets, totals: Arc::clone(&self.listener.totals) })
    }
}

/// Removes the sockets configured as `configured` from the list.
///
/// Port 0 may be configured twice, so only sockets with the bound address of the first match are
/// taken.
pub(crate) fn take(
    sockets: &mut Vec<(SocketAddr, TcpListener)>,
    configured: SocketAddr,
) -> Vec<TcpListener> {
    let Some((_, first)) = sockets.iter().find(|(address, _)| *address == configured) else {
        return Vec::new();
    };
    let bound = first.local_addr().ok();
    let own = sockets
        .extract_if(.., |(address, one)| *address == configured && one.local_addr().ok() == bound);
    own.map(|(_, socket)| socket).collect()
}

/// Binds one socket per thread, reusing `existing` ones first.
pub(crate) fn bind(
    settings: &ListenerSettings,
    threads: usize,
    existing: Option<ExistingSockets>,
) -> Result<BoundListener, EdgeError> {
    let (mut sockets, totals) =
        existing.map_or_else(Default::default, |existing| (existing.sockets, existing.totals));
    for known in &sockets {
        listen(known, settings).map_err(|error| cannot_listen(settings.address, &error))?;
    }
    if sockets.is_empty() {
        let first = socket(settings, settings.address);
        sockets.push(first.map_err(|error| cannot_listen(settings.address, &error))?);
    }
    let address =
        sockets[0].local_addr().map_err(|error| cannot_listen(settings.address, &error))?;
    while sockets.len() < threads {
        let next = socket(settings, address).map_err(|error| cannot_listen(address, &error))?;
        sockets.push(next);
    }
    let listener = Arc::new(Listener::new(settings.clone(), address, totals));
    Ok(BoundListener { listener, sockets })
}

/// Fails if another program listens on the address.
///
/// Binding it would not fail: with `SO_REUSEPORT`, another program of the same user that sets it
/// too, such as a second edge, would silently receive half of the connections.
pub(crate) fn check_free(address: SocketAddr) -> Result<(), EdgeError> {
    let bound = open(address).and_then(|socket| Ok(rustix::net::bind(&socket, &address)?));
    bound.map_err(|error| cannot_listen(address, &error))
}

fn open(address: SocketAddr) -> std::io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    Ok(socket)
}

fn socket(settings: &ListenerSettings, address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = open(address)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    let socket = socket.into();
    listen(&socket, settings)?;
    Ok(socket)
}

/// Starts listening; on a socket that already listens, only changes the backlog.
///
/// Accepted connections inherit `TCP_NODELAY`, which saves a system call each.
fn listen(socket: &TcpListener, settings: &ListenerSettings) -> std::io::Result<()> {
    sockopt::set_tcp_nodelay(socket, true)?;
    let backlog = i32::try_from(settings.backlog).unwrap_or(i32::MAX);
    Ok(rustix::net::listen(socket, backlog)?)
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> EdgeError {
    let failure = EdgeError::new(format!("cannot listen on `{address}`: {error}"));
    match error.kind() {
        std::io::ErrorKind::AddrInUse => failure.hint(
            "another program listens there: find it with `ss -ltnp`; \
             `weir edge --replace` takes over from a running edge",
        ),
        std::io::ErrorKind::PermissionDenied => {
            failure.hint("ports below 1024 need root, or CAP_NET_BIND_SERVICE")
        }
        _ => failure.hint("the address must belong to this machine: `ip address` lists them"),
    }
}

/// `net.core.somaxconn`; `None` if it cannot be read.
pub(crate) fn backlog_limit() -> Option<u32> {
    std::fs::read_to_string("/proc/sys/net/core/somaxconn").ok()?.trim().parse().ok()
}
