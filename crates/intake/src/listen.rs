//! Sockets of protocols that are no HTTP: the list of them, and who is let in.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, watch};

use crate::counts::{Amount, Origin, Outcome};
use crate::datagram::Read;
use crate::fluent::Forward;
use crate::gelf::{self, Chunks, GelfStream};
use crate::graphite::Graphite;
use crate::intake::Intake;
use crate::lumberjack::Lumberjack;
use crate::statsd;
use crate::syslog::{self, SyslogStream};
use crate::tls::Tls;

/// A pause when the kernel gives no connection, as when file descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// A protocol over TCP or TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverTcp {
    /// Syslog, RFC 6587 and RFC 5425.
    Syslog,
    /// Fluent's forward protocol.
    Fluent,
    /// Lumberjack 1 and 2.
    Lumberjack,
    /// GELF, each message ending in NUL.
    Gelf,
    /// Graphite's plaintext protocol.
    Graphite,
}

/// A protocol over UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverUdp {
    /// Syslog, RFC 5426.
    Syslog,
    /// GELF, packed and in chunks.
    Gelf,
    /// statsd.
    Statsd,
}

impl OverTcp {
    /// As the column `protocol` has it.
    fn name(self, is_tls: bool) -> &'static str {
        match (self, is_tls) {
            (Self::Syslog, false) => "syslog_tcp",
            (Self::Syslog, true) => "syslog_tls",
            (Self::Fluent, _) => "fluent",
            (Self::Lumberjack, _) => "lumberjack",
            (Self::Gelf, _) => "gelf_tcp",
            (Self::Graphite, _) => "graphite",
        }
    }
}

impl Intake {
    /// Takes connections until `ended` says so, and returns when the last of them is read to its end. `room` bounds their number.
    pub async fn listen_tcp(
        self: Arc<Self>,
        listener: TcpListener,
        protocol: OverTcp,
        tls: Option<Tls>,
        room: Arc<Semaphore>,
        mut ended: watch::Receiver<bool>,
    ) {
        let mut connections = tokio::task::JoinSet::new();
        loop {
            let next = async {
                let place = Arc::clone(&room).acquire_owned().await;
                (place.expect("the semaphore is never closed"), listener.accept().await)
            };
            let (place, accepted) = tokio::select! {
                next = next => next,
                Some(_) = connections.join_next() => continue,
                _ = ended.wait_for(|is_ended| *is_ended) => break,
            };
            let Ok((stream, peer)) = accepted else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let (intake, tls, ended) = (Arc::clone(&self), tls.clone(), ended.clone());
            connections.spawn(async move {
                intake.connection(stream, peer, protocol, tls, ended).await;
                drop(place);
            });
        }
        drop(listener);
        while connections.join_next().await.is_some() {}
    }

    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        protocol: OverTcp,
        tls: Option<Tls>,
        ended: watch::Receiver<bool>,
    ) {
        let origin =
            Origin { protocol: protocol.name(tls.is_some()), peer: Some(peer.ip().to_canonical()) };
        let refuse = |reason| {
            let amount = Amount { batches: 1, rows: 0, bytes: 0 };
            self.counts.add(origin, Outcome::Refused, Some(reason), amount);
        };
        let is_checked = tls.as_ref().is_some_and(|tls| tls.has_client_check)
            || protocol == OverTcp::Fluent && self.settings.shared_key.is_some();
        if !is_checked && !self.settings.access.allows(peer.ip()) {
            return refuse("not_allowed");
        }
        match tls {
            None => self.read(stream, protocol, origin, ended).await,
            Some(tls) => match tls.accept(stream).await {
                Ok(stream) => self.read(stream, protocol, origin, ended).await,
                Err(_) => refuse("no_handshake"),
            },
        }
    }

    async fn read(
        self: &Arc<Self>,
        stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send,
        protocol: OverTcp,
        origin: Origin,
        ended: watch::Receiver<bool>,
    ) {
        match protocol {
            OverTcp::Syslog => {
                self.read_stream(stream, SyslogStream::default(), origin, ended).await;
            }
            OverTcp::Fluent => {
                let framing = Forward::new(self.settings.shared_key.clone(), self.hub.host());
                self.read_stream(stream, framing, origin, ended).await;
            }
            OverTcp::Lumberjack => {
                self.read_stream(stream, Lumberjack::default(), origin, ended).await;
            }
            OverTcp::Gelf => self.read_stream(stream, GelfStream, origin, ended).await,
            OverTcp::Graphite => self.read_stream(stream, Graphite, origin, ended).await,
        }
    }

    /// Takes datagrams until `ended` says so.
    pub async fn listen_udp(
        self: Arc<Self>,
        socket: UdpSocket,
        protocol: OverUdp,
        ended: watch::Receiver<bool>,
    ) {
        let (name, read): (_, Read) = match protocol {
            OverUdp::Syslog => ("syslog_udp", |bytes, peer, harvest| {
                syslog::frame(bytes, peer, "syslog_udp", harvest);
            }),
            OverUdp::Gelf => ("gelf_udp", |bytes, peer, harvest| {
                gelf::read(bytes, peer, "gelf_udp", harvest);
            }),
            OverUdp::Statsd => ("statsd", statsd::read),
        };
        let chunks = (protocol == OverUdp::Gelf).then(Chunks::default);
        self.read_datagrams(socket, name, read, chunks, ended).await;
    }
}
