//! Listeners of protocols other than HTTP: the list of protocols, and admission.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, watch};

use crate::counts::BatchOrigin;
use crate::datagram::ReadDatagram;
use crate::fluent::FluentStream;
use crate::gelf::{self, GelfChunks, GelfStream};
use crate::graphite::GraphiteStream;
use crate::intake::Intake;
use crate::lumberjack::LumberjackStream;
use crate::nsca::{self, NscaStream};
use crate::statsd;
use crate::stream::StreamOrigin;
use crate::syslog::{self, SyslogStream};
use crate::tls::TlsServer;

/// Pause after a failed accept(), such as when file descriptors have run out.
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
    /// GELF, with messages terminated by NUL.
    Gelf,
    /// Graphite's plaintext protocol.
    Graphite,
    /// NSCA: results of checks.
    Nsca,
}

/// A protocol over UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverUdp {
    /// Syslog, RFC 5426.
    Syslog,
    /// GELF, compressed and chunked.
    Gelf,
    /// statsd.
    Statsd,
}

impl OverTcp {
    /// The value of the column `protocol`.
    fn name(self, is_tls: bool) -> &'static str {
        match (self, is_tls) {
            (Self::Syslog, false) => "syslog_tcp",
            (Self::Syslog, true) => "syslog_tls",
            (Self::Fluent, _) => "fluent",
            (Self::Lumberjack, _) => "lumberjack",
            (Self::Gelf, _) => "gelf_tcp",
            (Self::Graphite, _) => "graphite",
            (Self::Nsca, _) => "nsca",
        }
    }
}

impl OverUdp {
    /// The value of the column `protocol`, and what reads a datagram.
    pub(crate) fn reader(self) -> (&'static str, ReadDatagram) {
        match self {
            Self::Syslog => ("syslog_udp", |bytes, peer, builder| {
                syslog::frame(bytes, StreamOrigin { peer, source: "syslog_udp" }, builder);
            }),
            Self::Gelf => ("gelf_udp", |bytes, peer, builder| {
                gelf::read(bytes, StreamOrigin { peer, source: "gelf_udp" }, builder);
            }),
            Self::Statsd => ("statsd", statsd::read),
        }
    }
}

impl Intake {
    /// Accepts connections until `ended` is true, and returns when all of them are read to their
    /// end. `room` limits their number, and each sender and protocol has a share of it.
    pub async fn listen_tcp(
        self: Arc<Self>,
        listener: TcpListener,
        protocol: OverTcp,
        tls: Option<TlsServer>,
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
            let has_login = tls.as_ref().is_some_and(|tls| tls.has_client_check)
                || protocol == OverTcp::Fluent && self.settings.shared_key.is_some();
            let name = protocol.name(tls.is_some());
            let Ok(share) = self.admit_connection(name, peer.ip(), has_login, &room) else {
                continue;
            };
            let (intake, tls, ended) = (Arc::clone(&self), tls.clone(), ended.clone());
            connections.spawn(async move {
                intake.connection(stream, peer, protocol, tls, ended).await;
                drop((place, share));
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
        tls: Option<TlsServer>,
        ended: watch::Receiver<bool>,
    ) {
        let origin = BatchOrigin {
            protocol: protocol.name(tls.is_some()),
            peer: Some(peer.ip().to_canonical()),
        };
        match tls {
            None => self.read_connection(stream, protocol, origin, ended).await,
            Some(tls) => match tls.accept(stream).await {
                Ok(stream) => self.read_connection(stream, protocol, origin, ended).await,
                Err(_) => self.count_closed(origin, "no_handshake", 0),
            },
        }
    }

    /// Reads a connection that is not a socket, or whose socket was accepted elsewhere.
    pub async fn read_bytes_of(
        self: &Arc<Self>,
        stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send,
        protocol: OverTcp,
        peer: IpAddr,
        ended: watch::Receiver<bool>,
    ) {
        let origin = BatchOrigin { protocol: protocol.name(false), peer: Some(peer) };
        self.read_connection(stream, protocol, origin, ended).await;
    }

    async fn read_connection(
        self: &Arc<Self>,
        stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send,
        protocol: OverTcp,
        origin: BatchOrigin,
        ended: watch::Receiver<bool>,
    ) {
        match protocol {
            OverTcp::Syslog => {
                self.read_stream(stream, SyslogStream::default(), origin, ended).await;
            }
            OverTcp::Fluent => {
                let framing = FluentStream::new(self.settings.shared_key.clone(), self.hub.host());
                self.read_stream(stream, framing, origin, ended).await;
            }
            OverTcp::Lumberjack => {
                self.read_stream(stream, LumberjackStream::default(), origin, ended).await;
            }
            OverTcp::Gelf => self.read_stream(stream, GelfStream::default(), origin, ended).await,
            OverTcp::Graphite => {
                self.read_stream(stream, GraphiteStream::default(), origin, ended).await;
            }
            OverTcp::Nsca => {
                let Some(key) = &self.settings.nsca else { return };
                let framing = NscaStream::new(key, self.hub.now());
                let reading = self.read_stream(stream, framing, origin, ended);
                if tokio::time::timeout(nsca::LIFETIME, reading).await.is_err() {
                    self.count_closed(origin, "too_slow", 0);
                }
            }
        }
    }

    /// Receives datagrams until `ended` is true.
    pub async fn listen_udp(
        self: Arc<Self>,
        socket: UdpSocket,
        protocol: OverUdp,
        ended: watch::Receiver<bool>,
    ) {
        let (name, read) = protocol.reader();
        let chunks = (protocol == OverUdp::Gelf).then(GelfChunks::default);
        self.read_datagrams(socket, name, read, chunks, ended).await;
    }
}
