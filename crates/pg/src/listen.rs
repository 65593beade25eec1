//! Accepts connections and runs their startup: slots are for clients that have logged in.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::cancel::CancelRegistry;
use crate::error::PgError;
use crate::kept_bytes::KeptBytes;
use crate::scram::Password;
use crate::session::Session;
use crate::starting::StartingConnections;
use crate::startup::{ByteStream, ConnectionPurpose, StartupMessage, begin, log_in};
use crate::tls::Tls;
use crate::writer::MessageWriter;
use crate::{Caller, QueryEngine};

/// Limit of connections that have logged in; more are refused with an error.
const CONNECTIONS_MAX: usize = 100;
/// Timeout of startup and login together.
const START: Duration = Duration::from_secs(10);
/// Silence after which the kernel probes a connection, the interval of its probes, and their
/// number: a client behind a firewall that forgot the connection gives its slot back.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(60), Duration::from_secs(15), 4);
/// Delay of the reply to a wrong password.
const SLOW_DOWN: Duration = Duration::from_millis(500);
/// Pause after an error of the listener, such as too many open files.
const PAUSE: Duration = Duration::from_millis(200);

/// Passwords of users.
#[derive(Clone, Default)]
pub struct Passwords {
    /// Passwords of users by name.
    pub named: HashMap<String, Password>,
    /// The password of every other user; `None` lets them in without one.
    pub other: Option<Password>,
    /// Whether a client needs no password, told by the addresses of its end and of this one.
    pub is_trusted: Option<fn(SocketAddr, SocketAddr) -> bool>,
}

impl Passwords {
    /// The password that a user has to prove, if any.
    fn needed(&self, user: &str, ends: &ConnectionEnds) -> Option<&Password> {
        if let Some(password) = self.named.get(user) {
            return Some(password);
        }
        let other = self.other.as_ref()?;
        let is_trusted = self.is_trusted.zip(ends.local);
        let is_trusted = is_trusted.is_some_and(|(is_trusted, own)| is_trusted(ends.peer, own));
        (!is_trusted).then_some(other)
    }
}

/// Addresses of both ends of a connection.
#[derive(Clone, Copy)]
struct ConnectionEnds {
    peer: SocketAddr,
    local: Option<SocketAddr>,
}

/// Requirements for connections.
#[derive(Clone, Default)]
pub struct ServerOptions {
    /// Passwords of users.
    pub passwords: Passwords,
    /// Offered certificate, if any.
    pub tls: Option<Tls>,
    /// Whether to refuse connections without TLS.
    pub is_tls_needed: bool,
}

struct ConnectionHandler {
    options: ServerOptions,
    engine: Arc<dyn QueryEngine>,
    slots: Arc<Semaphore>,
    cancels: Arc<CancelRegistry>,
    /// Bytes of prepared statements and portals of all connections.
    kept_bytes: Arc<AtomicUsize>,
    ended: watch::Receiver<bool>,
}

/// Serves until `ended` is set.
pub async fn serve(
    listener: TcpListener,
    options: ServerOptions,
    engine: Arc<dyn QueryEngine>,
    mut ended: watch::Receiver<bool>,
) {
    let handler = Arc::new(ConnectionHandler {
        options,
        engine,
        slots: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        cancels: Arc::default(),
        kept_bytes: Arc::default(),
        ended: ended.clone(),
    });
    let starting = Arc::<StartingConnections>::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = ended.wait_for(|is_ended| *is_ended) => return,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let (handler, mut place) = (Arc::clone(&handler), starting.enter());
        tokio::spawn(async move {
            let ends = ConnectionEnds { peer, local: stream.local_addr().ok() };
            let start = tokio::time::timeout(START, handler.start(stream, ends));
            let started = tokio::select! {
                started = start => started,
                () = place.evicted() => return,
            };
            drop(place);
            if let Ok(Ok(Some(client))) = started {
                // An I/O error ends this connection only, and cannot be reported to its client.
                let _ = handler.session(client, peer.ip().to_canonical()).await;
            }
        });
    }
}

/// A client that has logged in.
struct LoggedInClient {
    from: ReadHalf<Box<dyn ByteStream>>,
    out: MessageWriter<WriteHalf<Box<dyn ByteStream>>>,
    hello: StartupMessage,
}

impl ConnectionHandler {
    /// Runs startup and login. `None` for a connection that ends with them.
    async fn start(
        &self,
        stream: TcpStream,
        ends: ConnectionEnds,
    ) -> io::Result<Option<LoggedInClient>> {
        let _ = stream.set_nodelay(true);
        keep_alive(&stream);
        let (wire, hello) = match begin(stream, self.options.tls.as_ref()).await? {
            ConnectionPurpose::Cancel(key) => {
                self.cancels.cancel(key);
                return Ok(None);
            }
            ConnectionPurpose::Session(wire, hello) => (wire, hello),
        };
        let (mut from, to) = tokio::io::split(wire);
        let mut out = MessageWriter::new(to);
        hello.negotiate(&mut out);
        if let Err(error) = self.log_in((&mut from, &mut out), &hello, ends).await? {
            out.error("FATAL", &error);
            out.shut().await;
            return Ok(None);
        }
        Ok(Some(LoggedInClient { from, out, hello }))
    }

    async fn session(&self, client: LoggedInClient, address: IpAddr) -> io::Result<()> {
        let LoggedInClient { from, mut out, hello } = client;
        let Ok(_slot) = self.slots.try_acquire() else {
            let text = format!("the limit of {CONNECTIONS_MAX} connections is reached");
            let error = PgError::new("53300", text).hint("close some, or use a connection pool");
            out.error("FATAL", &error);
            out.shut().await;
            return Ok(());
        };
        let caller = Caller { user: hello.user().into(), address, settings: Arc::default() };
        let engine = Arc::clone(&self.engine);
        let cancellation = self.cancels.register(&caller.user);
        let kept = KeptBytes::new(&self.kept_bytes);
        let session = Session::new(out, engine, caller, cancellation, kept);
        session.run(from, &hello, self.ended.clone()).await
    }

    async fn log_in<R, W>(
        &self,
        (from, out): (&mut R, &mut MessageWriter<W>),
        hello: &StartupMessage,
        ends: ConnectionEnds,
    ) -> io::Result<Result<(), PgError>>
    where
        R: tokio::io::AsyncRead + Unpin,
        W: tokio::io::AsyncWrite + Unpin,
    {
        if let Err(error) = hello.check(self.options.is_tls_needed) {
            return Ok(Err(error));
        }
        let needed = self.options.passwords.needed(hello.user(), &ends);
        let Some(password) = needed else { return Ok(Ok(())) };
        let outcome = log_in(from, out, password).await?;
        if outcome.is_err() {
            tokio::time::sleep(SLOW_DOWN).await;
        }
        Ok(outcome)
    }
}

/// Best effort: without it, a lost client keeps its slot until the idle timeout.
fn keep_alive(stream: &TcpStream) {
    let (idle, interval, probes) = KEEPALIVE;
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, idle);
    let _ = sockopt::set_tcp_keepintvl(stream, interval);
    let _ = sockopt::set_tcp_keepcnt(stream, probes);
}
