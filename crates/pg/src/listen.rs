//! Accepts connections up to a limit and runs their startup.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::cancel::CancelRegistry;
use crate::error::PgError;
use crate::kept_bytes::KeptBytes;
use crate::scram::Password;
use crate::session::Session;
use crate::startup::{ByteStream, ConnectionPurpose, StartupMessage, begin, log_in};
use crate::tls::Tls;
use crate::writer::MessageWriter;
use crate::{Caller, QueryEngine};

/// Limit of connections; more are refused with an error.
const CONNECTIONS_MAX: usize = 100;
/// Timeout of startup and login.
const START: Duration = Duration::from_secs(20);
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
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let handler = Arc::new(ConnectionHandler {
        options,
        engine,
        cancels: Arc::default(),
        kept_bytes: Arc::default(),
        ended: ended.clone(),
    });
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = ended.wait_for(|is_ended| *is_ended) => return,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let slot = Arc::clone(&slots).try_acquire_owned().ok();
        let handler = Arc::clone(&handler);
        tokio::spawn(async move {
            // An I/O error ends this connection only, and cannot be reported to its client.
            let _ = handler.handle(stream, peer, slot.is_some()).await;
            drop(slot);
        });
    }
}

impl ConnectionHandler {
    async fn handle(&self, stream: TcpStream, peer: SocketAddr, has_slot: bool) -> io::Result<()> {
        let ends = ConnectionEnds { peer, local: stream.local_addr().ok() };
        let _ = stream.set_nodelay(true);
        let start = tokio::time::timeout(START, begin(stream, self.options.tls.as_ref()));
        match start.await?? {
            ConnectionPurpose::Cancel(key) => {
                self.cancels.cancel(key);
                Ok(())
            }
            ConnectionPurpose::Session(wire, hello) => {
                self.session(wire, hello, ends, has_slot).await
            }
        }
    }

    async fn session(
        &self,
        wire: Box<dyn ByteStream>,
        hello: StartupMessage,
        ends: ConnectionEnds,
        has_slot: bool,
    ) -> io::Result<()> {
        let (mut from, to) = tokio::io::split(wire);
        let mut out = MessageWriter::new(to);
        hello.negotiate(&mut out);
        let login = self.log_in((&mut from, &mut out), &hello, ends, has_slot);
        if let Err(error) = tokio::time::timeout(START, login).await?? {
            out.error("FATAL", &error);
            out.shut().await;
            return Ok(());
        }
        let caller = Caller { user: hello.user().into(), address: ends.peer.ip().to_canonical() };
        let engine = Arc::clone(&self.engine);
        let cancellation = self.cancels.register();
        let kept = KeptBytes::new(&self.kept_bytes);
        let session = Session::new(out, engine, caller, cancellation, kept);
        session.run(from, &hello, self.ended.clone()).await
    }

    async fn log_in<R, W>(
        &self,
        (from, out): (&mut R, &mut MessageWriter<W>),
        hello: &StartupMessage,
        ends: ConnectionEnds,
        has_slot: bool,
    ) -> io::Result<Result<(), PgError>>
    where
        R: tokio::io::AsyncRead + Unpin,
        W: tokio::io::AsyncWrite + Unpin,
    {
        if !has_slot {
            let text = format!("the limit of {CONNECTIONS_MAX} connections is reached");
            return Ok(Err(
                PgError::new("53300", text).hint("close some, or use a connection pool")
            ));
        }
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
