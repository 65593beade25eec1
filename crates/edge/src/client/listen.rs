//! Listening sockets: one for each thread on each address (`SO_REUSEPORT`, socket(7)), with a backlog that is asked for.
//!
//! The kernel cuts a backlog silently to `net.core.somaxconn`; that is where connections were lost that nobody missed, so
//! it is said at the start and is a column of `edge_listener`.
//!
//! A socket that is closed takes with it what waits in its queue. So sockets stay while their address is listened on, whatever
//! else changes, and an edge that takes another's place is given the very sockets (unix(7), `SCM_RIGHTS`).

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::client::state::{Listener, ListenerTotals};
use crate::error::EdgeError;
use crate::settings::ListenerSettings;

/// A listener and its sockets: of a thread the one at its number, and each so many further.
pub(crate) struct BoundListener {
    pub(crate) listener: Arc<Listener>,
    pub(crate) sockets: Vec<TcpListener>,
}

/// Sockets that are there already.
pub(crate) struct ExistingSockets {
    pub(crate) sockets: Vec<TcpListener>,
    pub(crate) totals: Arc<ListenerTotals>,
}

impl BoundListener {
    /// The same sockets once more, for other settings of the same address.
    pub(crate) fn again(&self) -> std::io::Result<ExistingSockets> {
        let sockets = self.sockets.iter().map(TcpListener::try_clone).collect::<Result<_, _>>()?;
        Ok(ExistingSockets { sockets, totals: Arc::clone(&self.listener.totals) })
    }
}

/// Takes those that were asked to be at `asked`, of one real address: port 0 may have been asked for twice.
pub(crate) fn take(
    sockets: &mut Vec<(SocketAddr, TcpListener)>,
    asked: SocketAddr,
) -> Vec<TcpListener> {
    let real = |socket: &TcpListener| socket.local_addr().ok();
    let Some((_, first)) = sockets.iter().find(|(address, _)| *address == asked) else {
        return Vec::new();
    };
    let first = real(first);
    let own = sockets.extract_if(.., |(address, one)| *address == asked && real(one) == first);
    own.map(|(_, socket)| socket).collect()
}

/// Binds an address as often as there are `threads`; what was `found` is used, and bound anew is what is missing.
pub(crate) fn bind(
    settings: &ListenerSettings,
    threads: usize,
    found: Option<ExistingSockets>,
) -> Result<BoundListener, EdgeError> {
    let (mut sockets, totals) =
        found.map_or_else(Default::default, |found| (found.sockets, found.totals));
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

/// Refuses an address that somebody listens on. Binding it would not: with `SO_REUSEPORT` a program of the same user that
/// asked for it too, such as a second edge, would silently get half of the connections.
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

/// Called again, it changes the backlog and nothing else. Connections take `TCP_NODELAY` from their listener, which spares
/// a system call each.
fn listen(socket: &TcpListener, settings: &ListenerSettings) -> std::io::Result<()> {
    sockopt::set_tcp_nodelay(socket, true)?;
    let backlog = i32::try_from(settings.backlog).unwrap_or(i32::MAX);
    Ok(rustix::net::listen(socket, backlog)?)
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> EdgeError {
    let failure = EdgeError::new(format!("cannot listen on `{address}`: {error}"));
    match error.kind() {
        std::io::ErrorKind::AddrInUse => failure.hint(
            "another program listens there: `ss -ltnp` tells which; \
             `weir edge --replace` takes the place of an edge",
        ),
        std::io::ErrorKind::PermissionDenied => {
            failure.hint("ports below 1024 need root, or CAP_NET_BIND_SERVICE")
        }
        _ => failure.hint("the address must be one of this machine's own: `ip address`"),
    }
}

/// `net.core.somaxconn`; `None` when it cannot be read.
pub(crate) fn backlog_limit() -> Option<u32> {
    std::fs::read_to_string("/proc/sys/net/core/somaxconn").ok()?.trim().parse().ok()
}
