//! The agent's handshakes: connecting to a hub, and joining a fleet.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use weir_tables::Clock;

use crate::bandwidth::Bandwidth;
use crate::error::{LinkError, LinkErrorKind};
use crate::frame::{BODY_BYTES_MAX, FrameLimits};
use crate::identity::{Identity, PendingJoin};
use crate::message::{CAPABILITIES, Hello, Message, VERSION_MAX, VERSION_MIN, Welcome};
use crate::tls;
use crate::token::JoinToken;
use crate::wire::{self, Inbox, Outbox};

const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// Limits of what a hub may send. It sends no parcels.
const LIMITS: FrameLimits = FrameLimits { parcel: 0, other: BODY_BYTES_MAX };

/// A connection after its handshake.
pub(crate) struct Connection {
    pub(crate) welcome: Welcome,
    pub(crate) inbox: Inbox<TlsStream<TcpStream>>,
    pub(crate) outbox: Outbox,
    /// DER of the hub's certificate.
    pub(crate) hub: Vec<u8>,
}

/// Parameters of a connection attempt.
pub(crate) struct Dial<'a> {
    pub(crate) address: &'a str,
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) clock: &'a Arc<dyn Clock>,
    pub(crate) program: &'a str,
    /// Host of the agent's rows.
    pub(crate) host: &'a str,
    pub(crate) bandwidth: Bandwidth,
    /// `CAN_…` of this agent.
    pub(crate) capabilities: u64,
}

impl Dial<'_> {
    /// Connects and exchanges Hello and Welcome.
    pub(crate) async fn connect(self) -> Result<Connection, LinkError> {
        let stream = self.handshake().await?;
        let hub = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let hub = hub.map(|certificate| certificate.to_vec()).unwrap_or_default();
        let (mut inbox, outbox) = wire::split(stream, LIMITS, self.bandwidth.clone());
        let hello = Hello {
            versions: (VERSION_MIN, VERSION_MAX),
            capabilities: self.capabilities,
            now_micros: self.clock.now().0,
            program: self.program.to_owned(),
            host: self.host.to_owned(),
        };
        outbox.send(&Message::Hello(hello)).await?;
        match self.first(&mut inbox).await? {
            Message::Welcome(welcome) if welcome.version <= VERSION_MAX => {
                Ok(Connection { welcome, inbox, outbox, hub })
            }
            other => Err(unexpected(self.address, other)),
        }
    }

    async fn handshake(&self) -> Result<TlsStream<TcpStream>, LinkError> {
        let address = self.address;
        let stream = tokio::time::timeout(CONNECT_PATIENCE, TcpStream::connect(address))
            .await
            .map_err(|_| timed_out(address, CONNECT_PATIENCE))?
            .map_err(|error| unreachable(address, &error))?;
        let _ = stream.set_nodelay(true);
        let connecting = TlsConnector::from(Arc::clone(&self.tls)).connect(tls::hub_name(), stream);
        tokio::time::timeout(HANDSHAKE_PATIENCE, connecting)
            .await
            .map_err(|_| timed_out(address, HANDSHAKE_PATIENCE))?
            .map_err(|error| tls::explain(address, self.clock.now(), &error))
    }

    /// Receives the first reply. In TLS 1.3 the hub verifies our certificate after our handshake
    /// has ended, so a rejection is an error of the first read.
    async fn first(&self, inbox: &mut Inbox<TlsStream<TcpStream>>) -> Result<Message, LinkError> {
        inbox.next_within(HANDSHAKE_PATIENCE).await.map_err(|error| match error.alert.as_deref() {
            Some(alert) => tls::explain(self.address, self.clock.now(), alert),
            None => error,
        })
    }
}

fn unreachable(address: &str, why: &dyn std::fmt::Display) -> LinkError {
    let text = format!("cannot reach the hub at `{address}`: {why}");
    LinkError::new(LinkErrorKind::Unreachable, text).hint(
        "check that the hub runs, that the address is its own, and that no firewall blocks it",
    )
}

fn timed_out(address: &str, patience: Duration) -> LinkError {
    unreachable(address, &format_args!("no reply in {} s", patience.as_secs()))
}

/// The hub's goodbye, or an error about a message out of place.
pub(crate) fn unexpected(address: &str, message: Message) -> LinkError {
    match message {
        Message::Goodbye { code, text, hint } => LinkError::new(
            LinkErrorKind::Refused(code),
            format!("the hub at `{address}` says: {text}"),
        )
        .hint(hint),
        _ => LinkError::protocol(format!("the hub at `{address}` sent an unexpected message")),
    }
}

/// Joins the fleet of a token: generates a key, gets it signed, and stores both below `dir`.
///
/// # Errors
/// When the token is invalid or the hub cannot be reached. The token stays valid unless the hub
/// says otherwise.
pub async fn join(
    dir: &Path,
    token: &JoinToken,
    name: &str,
    clock: &Arc<dyn Clock>,
) -> Result<Identity, LinkError> {
    let joining = PendingJoin::begin(dir, token)?;
    let mut last = LinkError::new(LinkErrorKind::Token, "cannot join: the token names no address");
    for address in &token.addresses {
        let (config, pinned) = tls::stranger(token.authority, clock)?;
        let bandwidth = Bandwidth::new(0);
        let capabilities = CAPABILITIES;
        let dial =
            Dial { address, tls: config, clock, program: "", host: "", bandwidth, capabilities };
        let stream = match dial.handshake().await {
            Ok(stream) => stream,
            Err(error) => {
                last = error;
                continue;
            }
        };
        let (mut inbox, outbox) = wire::split(stream, LIMITS, Bandwidth::new(0));
        let enrol = Message::Enrol {
            invite: token.invite,
            secret: token.secret,
            name: name.to_owned(),
            request: joining.request.clone(),
        };
        outbox.send(&enrol).await?;
        let answer = dial.first(&mut inbox).await?;
        outbox.end().await;
        let Message::Enrolled { certificate, .. } = answer else {
            return Err(unexpected(address, answer));
        };
        let authority = pinned.authority().expect("the handshake has verified it");
        return joining.finish(token, &authority, &certificate, clock.now());
    }
    Err(last)
}
