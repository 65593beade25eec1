//! Listening sockets: one for each thread on each address (`SO_REUSEPORT`, socket(7)), with a backlog that is asked for.
//!
//! The kernel cuts a backlog silently to `net.core.somaxconn`; that is where connections were lost that nobody missed, so
//! it is said at the start and is a column of `edge_listener`.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::conn::Listener;
use crate::error::EdgeError;
use crate::settings::ListenerSettings;

/// A listener and its sockets, one for each thread.
pub(crate) struct Bound {
    pub(crate) listener: Arc<Listener>,
    pub(crate) sockets: Vec<TcpListener>,
}

/// Binds an address `threads` times.
pub(crate) fn bind(settings: &ListenerSettings, threads: usize) -> Result<Bound, EdgeError> {
    let first = socket(settings, settings.address)
        .map_err(|error| cannot_listen(settings.address, &error))?;
    let address = first.local_addr().map_err(|error| cannot_listen(settings.address, &error))?;
    let mut sockets = vec![first];
    while sockets.len() < threads {
        let next = socket(settings, address).map_err(|error| cannot_listen(address, &error))?;
        sockets.push(next);
    }
    let listener = Arc::new(Listener::new(settings.clone(), address));
    Ok(Bound { listener, sockets })
}

fn socket(settings: &ListenerSettings, address: SocketAddr) -> std::io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket: OwnedFd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, i32::try_from(settings.backlog).unwrap_or(i32::MAX))?;
    Ok(socket.into())
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> EdgeError {
    let failure = EdgeError::new(format!("cannot listen on `{address}`: {error}"));
    match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            failure.hint("another program listens there: `ss -ltnp` tells which")
        }
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
