//! Takes connections, up to a limit, and sees each through its start.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::cancel::Cancels;
use crate::out::Out;
use crate::refusal::Refusal;
use crate::scram::Password;
use crate::session::Session;
use crate::startup::{Hello, Purpose, Wire, begin, log_in};
use crate::tls::Tls;
use crate::{Caller, Engine};

/// Connections at a time; more are told so and closed.
const CONNECTIONS_MAX: usize = 100;
/// How long a client may take for the start, login included.
const START: Duration = Duration::from_secs(20);
/// A wrong password is answered so late.
const SLOW_DOWN: Duration = Duration::from_millis(500);
/// After an error of the listener itself, such as too many open files.
const PAUSE: Duration = Duration::from_millis(200);

/// Who may come in, and how.
#[derive(Clone, Default)]
pub struct Options {
    /// Asked for when there is one.
    pub password: Option<Password>,
    /// Offered when there is one.
    pub tls: Option<Tls>,
    /// Whether a connection without TLS is turned away.
    pub is_tls_needed: bool,
}

struct Door {
    options: Options,
    engine: Arc<dyn Engine>,
    cancels: Arc<Cancels>,
    ended: watch::Receiver<bool>,
}

/// Serves until `ended` says so.
pub async fn serve(
    listener: TcpListener,
    options: Options,
    engine: Arc<dyn Engine>,
    mut ended: watch::Receiver<bool>,
) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let cancels = Arc::default();
    let door = Arc::new(Door { options, engine, cancels, ended: ended.clone() });
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = ended.wait_for(|is_ended| *is_ended) => return,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let place = Arc::clone(&room).try_acquire_owned().ok();
        let door = Arc::clone(&door);
        tokio::spawn(async move {
            // A connection that breaks is the client's matter: there is nobody to tell.
            let _ = door.see_in(stream, peer.ip().to_canonical(), place.is_some()).await;
            drop(place);
        });
    }
}

impl Door {
    async fn see_in(&self, stream: TcpStream, from: IpAddr, has_place: bool) -> io::Result<()> {
        let _ = stream.set_nodelay(true);
        let start = tokio::time::timeout(START, begin(stream, self.options.tls.as_ref()));
        match start.await?? {
            Purpose::Cancel(key) => {
                self.cancels.cancel(key);
                Ok(())
            }
            Purpose::Session(wire, hello) => self.session(wire, hello, from, has_place).await,
        }
    }

    async fn session(
        &self,
        wire: Box<dyn Wire>,
        hello: Hello,
        address: IpAddr,
        has_place: bool,
    ) -> io::Result<()> {
        let (mut from, to) = tokio::io::split(wire);
        let mut out = Out::new(to);
        hello.negotiate(&mut out);
        let login = self.log_in(&mut from, &mut out, &hello, has_place);
        if let Err(refusal) = tokio::time::timeout(START, login).await?? {
            out.error("FATAL", &refusal);
            out.shut().await;
            return Ok(());
        }
        let caller = Caller { user: hello.user().into(), address };
        let engine = Arc::clone(&self.engine);
        let entered = self.cancels.enter();
        Session::new(out, engine, caller, entered).run(from, &hello, self.ended.clone()).await
    }

    async fn log_in<R, W>(
        &self,
        from: &mut R,
        out: &mut Out<W>,
        hello: &Hello,
        has_place: bool,
    ) -> io::Result<Result<(), Refusal>>
    where
        R: tokio::io::AsyncRead + Unpin,
        W: tokio::io::AsyncWrite + Unpin,
    {
        if !has_place {
            let text = format!("{CONNECTIONS_MAX} connections are open, which is all there may be");
            return Ok(Err(Refusal::new("53300", text).hint("close some, or use a pool")));
        }
        if let Err(refusal) = hello.check(self.options.is_tls_needed) {
            return Ok(Err(refusal));
        }
        let Some(password) = &self.options.password else { return Ok(Ok(())) };
        let outcome = log_in(from, out, password).await?;
        if outcome.is_err() {
            tokio::time::sleep(SLOW_DOWN).await;
        }
        Ok(outcome)
    }
}
