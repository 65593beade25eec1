//! What an edge is told: where it listens, where requests go, and a limit for everything.
//!
//! Settings are values: a running edge is given new ones and changes to them. [`Settings::differences`] says what would
//! change before it does.

pub(crate) mod destination;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::acme::settings::AcmeSettings;
use crate::error::EdgeError;
use crate::settings::destination::{BackendSettings, RouteSettings, resolve};

/// Everything that an edge is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The name of this host in every row.
    pub host: String,
    /// Threads, each with listeners, connections and pools of its own; 0 for one a processor.
    pub threads: usize,
    /// Where clients connect.
    pub listeners: Vec<ListenerSettings>,
    /// Certificates for listeners with TLS; the first is for names that no other has.
    pub certificates: Vec<CertificateFiles>,
    /// Certificates that are obtained and renewed; `None`: none are.
    pub acme: Option<AcmeSettings>,
    /// Where requests go; may be empty when there is a beacon.
    pub backends: Vec<BackendSettings>,
    /// Which pool a request is for: the first that fits; what fits none is for the backends without a pool.
    pub routes: Vec<RouteSettings>,
    /// For backends with TLS.
    pub backend_tls: BackendTlsSettings,
    /// How a backend is chosen.
    pub balance: Balance,
    /// The zone that this edge is in: its backends are preferred. `None`: all zones alike.
    pub zone: Option<String>,
    /// Limits of clients' connections and requests.
    pub limits: Limits,
    /// Limits of connections to backends.
    pub upstream: UpstreamSettings,
    /// What [`UpstreamSettings::idle`] is for single pools, by name.
    pub pool_idle: Vec<(String, Duration)>,
    /// The check that asks each backend; `None`: only what happens to requests tells.
    pub check: Option<CheckSettings>,
    /// The path that takes beacons.
    pub beacon: Option<String>,
    /// One request of so many gets a row, chosen by its id; 1 for all.
    pub record_one_of: u32,
}

/// An address that clients connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSettings {
    /// The address; port 0 takes a free one.
    pub address: SocketAddr,
    /// Whether it speaks TLS.
    pub is_tls: bool,
    /// Whether clients speak HTTP/2 from the first byte, without TLS.
    pub is_h2c: bool,
    /// Whether each connection begins with a PROXY protocol header, version 1 or 2.
    pub has_proxy_header: bool,
    /// Length asked for each accept queue.
    pub backlog: u32,
}

/// A certificate chain and its key, both PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate first, then those that signed it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// How TLS to backends is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendTlsSettings {
    /// Certificates (PEM) of the authorities that backends' certificates come from.
    pub authorities: PathBuf,
    /// The edge's own, shown to backends that ask for one.
    pub certificate: Option<CertificateFiles>,
}

/// How a backend is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// Of two at random the one with fewer requests under way, weighed by latency where that differs much.
    TwoChoices,
    /// The one with the fewest requests under way.
    LeastConnections,
    /// In turn, smoothly by weight.
    RoundRobin,
    /// By the client's address, so that it comes back to the same backend while that is up.
    Hash,
}

/// Limits of what clients may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections of all clients.
    pub connections: usize,
    /// Open connections of one address.
    pub address_connections: usize,
    /// Requests on one connection before it is closed.
    pub connection_requests: u32,
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// Header fields of a request.
    pub headers: usize,
    /// Bytes of a request's body.
    pub body_bytes: u64,
    /// For the TLS handshake, or the PROXY header.
    pub handshake: Duration,
    /// For the whole head of a request, from its first byte.
    pub head: Duration,
    /// An idle connection is closed after that; the keep-alive of clients.
    pub idle: Duration,
    /// The same for single listeners, by the address that they are asked to have.
    pub listener_idle: Vec<(SocketAddr, Duration)>,
    /// Longest pause of a client that sends a body, or takes an answer.
    pub client_pause: Duration,
    /// How long a client that closed its side while its request is under way is thought to wait for the answer.
    pub half_closed: Duration,
    /// Longest pause of a connection that became a tunnel (WebSocket).
    pub tunnel_idle: Duration,
}

/// What connections to backends may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamSettings {
    /// For the TCP handshake.
    pub connect: Duration,
    /// Until the first byte of the answer, and longest pause within it.
    pub answer: Duration,
    /// An idle connection is closed after that, unless the backend says or shows that it closes earlier.
    pub idle: Duration,
    /// Requests under way at one backend; more wait. 0 sets no limit.
    pub in_flight: usize,
    /// Requests that may wait for a backend with room.
    pub queue: usize,
    /// How long they may wait.
    pub queue_wait: Duration,
    /// Retries as a share of requests, in percent.
    pub retry_percent: u32,
    /// Failures in a row that put a backend out.
    pub failures: u32,
    /// How long it is out the first time; doubled each time up to 32 times that.
    pub ejection: Duration,
    /// No answer at all for that long, though requests wait, puts it out; more for backends that are slow by nature.
    pub stall: Duration,
    /// A backend that comes back gets its full share only after that.
    pub slow_start: Duration,
    /// When more of the backends than that look ill, none is believed to be, in percent.
    pub panic_percent: u32,
    /// The PROXY protocol header that begins each connection to a backend; such connections carry one request.
    pub proxy_header: ProxyHeader,
}

/// A version of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// None.
    Off,
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

/// What tells whether a backend is well, besides what happens to requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckSettings {
    /// What is done.
    pub kind: CheckKind,
    /// Pause between checks.
    pub every: Duration,
    /// How long an answer may take.
    pub within: Duration,
    /// Good ones in a row until it is well again.
    pub rise: u32,
    /// Bad ones in a row until it is ill.
    pub fall: u32,
}

/// What a check does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckKind {
    /// Connects, with TLS where the backend has it; nothing is asked.
    Connect,
    /// Asks for a path. Every status below 400 is well, unless the answer is a digest that says otherwise (docs/edge.md).
    Ask(String),
}

impl CheckKind {
    /// Reads `connect` or a path.
    ///
    /// # Errors
    /// When it is neither.
    pub fn parse(text: &str) -> Result<Self, EdgeError> {
        if text == "connect" {
            Ok(Self::Connect)
        } else if text.starts_with('/') {
            Ok(Self::Ask(text.to_owned()))
        } else {
            let what = format!("cannot use the check `{text}`: neither a path nor `connect`");
            Err(EdgeError::new(what).hint("write it as /health, or connect to ask for nothing"))
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            host: "localhost".into(),
            threads: 0,
            listeners: Vec::new(),
            certificates: Vec::new(),
            acme: None,
            backends: Vec::new(),
            routes: Vec::new(),
            backend_tls: BackendTlsSettings::default(),
            balance: Balance::TwoChoices,
            zone: None,
            limits: Limits::default(),
            upstream: UpstreamSettings::default(),
            pool_idle: Vec::new(),
            check: None,
            beacon: None,
            record_one_of: 1,
        }
    }
}

impl Default for BackendTlsSettings {
    fn default() -> Self {
        Self { authorities: "/etc/ssl/certs/ca-certificates.crt".into(), certificate: None }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 100_000,
            address_connections: 10_000,
            connection_requests: 100_000,
            head_bytes: 32 << 10,
            headers: 100,
            body_bytes: 64 << 20,
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(10),
            idle: Duration::from_secs(15),
            listener_idle: Vec::new(),
            client_pause: Duration::from_secs(30),
            half_closed: Duration::from_secs(5),
            tunnel_idle: Duration::from_secs(600),
        }
    }
}

impl Default for UpstreamSettings {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(2),
            answer: Duration::from_secs(60),
            idle: Duration::from_secs(4),
            in_flight: 0,
            queue: 1024,
            queue_wait: Duration::from_secs(5),
            retry_percent: 10,
            failures: 3,
            ejection: Duration::from_secs(5),
            stall: Duration::from_millis(750),
            slow_start: Duration::from_secs(10),
            panic_percent: 50,
            proxy_header: ProxyHeader::Off,
        }
    }
}

impl ListenerSettings {
    /// A listener without PROXY header at `ADDRESS:PORT`.
    ///
    /// # Errors
    /// When it is not an address and a port.
    pub fn parse(text: &str, is_tls: bool, backlog: u32) -> Result<Self, EdgeError> {
        let address = resolve(text).map_err(|why| {
            EdgeError::new(format!("cannot listen on `{text}`: {why}"))
                .hint("write it as 0.0.0.0:80 or [::]:80")
        })?;
        Ok(Self { address, is_tls, is_h2c: false, has_proxy_header: false, backlog })
    }
}

impl FromStr for Balance {
    type Err = EdgeError;

    fn from_str(text: &str) -> Result<Self, EdgeError> {
        match text {
            "two_choices" => Ok(Self::TwoChoices),
            "least_connections" => Ok(Self::LeastConnections),
            "round_robin" => Ok(Self::RoundRobin),
            "hash" => Ok(Self::Hash),
            _ => Err(EdgeError::new(format!("cannot balance by `{text}`: not known"))
                .hint("two_choices, least_connections, round_robin or hash")),
        }
    }
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TwoChoices => "two_choices",
            Self::LeastConnections => "least_connections",
            Self::RoundRobin => "round_robin",
            Self::Hash => "hash",
        })
    }
}

impl Limits {
    /// After how long an idle connection of the listener that was asked to be at `address` is closed.
    pub fn idle_of(&self, address: SocketAddr) -> Duration {
        let own = self.listener_idle.iter().find(|(one, _)| *one == address);
        own.map_or(self.idle, |(_, idle)| *idle)
    }
}

impl FromStr for ProxyHeader {
    type Err = EdgeError;

    fn from_str(text: &str) -> Result<Self, EdgeError> {
        match text {
            "off" => Ok(Self::Off),
            "v1" => Ok(Self::V1),
            "v2" => Ok(Self::V2),
            _ => Err(EdgeError::new(format!("cannot send the PROXY header `{text}`: not known"))
                .hint("off, v1 or v2")),
        }
    }
}

impl fmt::Display for ProxyHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::V1 => "v1",
            Self::V2 => "v2",
        })
    }
}

impl Settings {
    /// Refuses settings that cannot work together.
    ///
    /// # Errors
    /// Says which, and what to set.
    pub fn check(&self) -> Result<(), EdgeError> {
        if self.listeners.is_empty() {
            return Err(EdgeError::new("cannot start the edge: it has nowhere to listen")
                .hint("--listen 0.0.0.0:80, or `edge.listen`"));
        }
        if self.backends.is_empty() && self.beacon.is_none() {
            return Err(EdgeError::new("cannot start the edge: it has no backend and no beacon")
                .hint("--backend 10.0.0.5:8080, or --beacon /ping"));
        }
        let has_certificates = !self.certificates.is_empty() || self.acme.is_some();
        if self.listeners.iter().any(|listener| listener.is_tls) && !has_certificates {
            return Err(EdgeError::new("cannot listen with TLS: there is no certificate").hint(
                "`edge.tls_certificate_files` and `edge.tls_key_files`, or `edge.acme_names`",
            ));
        }
        if let Some(acme) = &self.acme {
            acme.check(&self.listeners)?;
        }
        let mut addresses: Vec<_> = self.backends.iter().map(|backend| backend.address).collect();
        addresses.sort_unstable();
        if let Some(twice) = addresses.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(EdgeError::new(format!("cannot use the backend `{}` twice", twice[0]))
                .hint("give it a weight instead: 10.0.0.5:8080*2"));
        }
        let has_backend = |pool: &str| self.backends.iter().any(|backend| backend.pool == pool);
        if let Some(route) = self.routes.iter().find(|route| !has_backend(&route.pool)) {
            return Err(EdgeError::new(format!(
                "cannot use the route `{route}`: no backend is in the pool `{}`",
                route.pool
            ))
            .hint(format!("`edge.backends = [\"{}=10.0.0.5:8080\"]`", route.pool)));
        }
        if let Some((pool, _)) = self.pool_idle.iter().find(|(pool, _)| !has_backend(pool)) {
            return Err(EdgeError::new(format!(
                "cannot set the keep-alive of the pool `{pool}`: no backend is in it"
            ))
            .hint("`edge.pool_idle_seconds` names pools of `edge.backends`; the one without a name is `=4`"));
        }
        let is_named = |pool: &str| self.routes.iter().any(|route| route.pool == pool);
        let idle = self.backends.iter().find(|one| !one.pool.is_empty() && !is_named(&one.pool));
        if let Some(backend) = idle {
            let pool = &backend.pool;
            return Err(EdgeError::new(format!(
                "cannot use the backend `{}`: no route is for its pool `{pool}`",
                backend.address
            ))
            .hint(format!("`edge.routes = [\"/{pool}/={pool}\"]`")));
        }
        if let Some(zone) = &self.zone
            && !self.backends.iter().any(|backend| backend.zone == *zone)
        {
            return Err(EdgeError::new(format!(
                "cannot prefer the zone `{zone}`: no backend is in it"
            ))
            .hint(format!("`edge.backends = [\"10.0.0.5:8080@{zone}\"]`")));
        }
        if let Some(path) = &self.beacon
            && !path.starts_with('/')
        {
            return Err(EdgeError::new(format!("cannot take beacons at `{path}`: not a path"))
                .hint("it begins with a slash: /ping"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn a_difference_says_what_goes_and_what_comes() {
        let backend = |text: &str| BackendSettings::parse(text).unwrap();
        let listener = ListenerSettings::parse("127.0.0.1:80", false, 16).unwrap();
        let old = Settings {
            listeners: vec![listener],
            backends: vec![backend("127.0.0.1:1"), backend("127.0.0.1:2")],
            ..Settings::default()
        };
        let mut new = old.clone();
        assert!(old.differences(&new).is_empty());
        new.backends = vec![backend("127.0.0.1:1"), backend("127.0.0.1:2*5")];
        new.balance = Balance::Hash;
        new.upstream.idle = Duration::from_secs(3);
        new.limits.listener_idle = vec![("127.0.0.1:80".parse().unwrap(), Duration::from_secs(5))];
        new.check = Some(CheckSettings {
            kind: CheckKind::Connect,
            every: Duration::from_secs(1),
            within: Duration::from_secs(1),
            rise: 2,
            fall: 3,
        });
        expect![[r"
            - backend 127.0.0.1:2 weight 1
            + backend 127.0.0.1:2 weight 5
            + listener_idle_seconds 127.0.0.1:80=5
            - balance two_choices
            + balance hash
            - upstream_idle_seconds 4
            + upstream_idle_seconds 3
            - check (none)
            + check connect
            - check_milliseconds (none)
            + check_milliseconds 1000
            - check_rise (none)
            + check_rise 2
            - check_fall (none)
            + check_fall 3"]]
        .assert_eq(&old.differences(&new).join("\n"));
    }

    #[test]
    fn settings_that_cannot_work_are_refused_with_what_to_do() {
        let message = |settings: &Settings| settings.check().unwrap_err().to_string();
        expect![[r"
            cannot start the edge: it has nowhere to listen
            hint: --listen 0.0.0.0:80, or `edge.listen`"]]
        .assert_eq(&message(&Settings::default()));
        let listener = ListenerSettings::parse("127.0.0.1:80", true, 16).unwrap();
        let mut settings = Settings { listeners: vec![listener], ..Settings::default() };
        expect![[r"
            cannot start the edge: it has no backend and no beacon
            hint: --backend 10.0.0.5:8080, or --beacon /ping"]]
        .assert_eq(&message(&settings));
        settings.beacon = Some("ping".into());
        assert!(message(&settings).contains("no certificate"));
        settings.listeners[0].is_tls = false;
        assert!(message(&settings).contains("not a path"));
    }
}
