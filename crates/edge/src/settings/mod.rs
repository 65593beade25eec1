//! Settings of an edge: where it listens, where requests go, and a limit for everything.
//!
//! Settings are plain values: a running edge receives new ones and applies the changes.
//! [`Settings::differences`] lists the changes beforehand.

pub(crate) mod destination;
pub(crate) mod listener;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use weir_resolver::Resolver;
use weir_tables::IpNetwork;

use crate::acme::settings::AcmeSettings;
use crate::error::EdgeError;
use crate::settings::destination::{BackendSettings, RouteSettings};
use crate::settings::listener::ListenerSettings;

/// All settings of an edge.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Name of this host in every row.
    pub host: String,
    /// Number of threads; 0 for one per CPU.
    pub threads: usize,
    /// Addresses that clients connect to.
    pub listeners: Vec<ListenerSettings>,
    /// Certificates of TLS listeners; the first serves names that no other has.
    pub certificates: Vec<CertificateFiles>,
    /// Certificates obtained by ACME, if any.
    pub acme: Option<AcmeSettings>,
    /// Destinations of requests; may be empty if there is a beacon.
    pub backends: Vec<BackendSettings>,
    /// Routes to pools: the first match wins; other requests go to the default pool.
    pub routes: Vec<RouteSettings>,
    /// Networks of proxies whose `X-Forwarded-*`, `Forwarded` and `X-Real-IP` are kept.
    pub trusted_proxies: Vec<IpNetwork>,
    /// For backends with TLS.
    pub backend_tls: BackendTlsSettings,
    /// Load-balancing algorithm.
    pub balance: Balance,
    /// The zone of this edge, whose backends are preferred; `None` treats all zones alike.
    pub zone: Option<String>,
    /// Limits of client connections and requests.
    pub limits: Limits,
    /// Limits of connections to backends.
    pub upstream: UpstreamSettings,
    /// Longest time until names of backends are looked up again: a shorter TTL counts.
    pub resolve: Duration,
    /// Where names of backends are looked up.
    pub resolver: Resolver,
    /// Overrides [`UpstreamSettings::idle`] for single pools, by name.
    pub pool_idle: Vec<(String, Duration)>,
    /// Overrides [`Limits::body`] for single pools, by name.
    pub pool_body: Vec<(String, Duration)>,
    /// Active health checks; `None` relies on the outcome of requests alone.
    pub check: Option<CheckSettings>,
    /// The path that takes beacons.
    pub beacon: Option<String>,
    /// Sampling: one request in this many gets a row, chosen by its id; 1 for all.
    pub record_one_of: u32,
}

/// A certificate chain and its key, both PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate first, then its chain.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// TLS to backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendTlsSettings {
    /// CA certificates (PEM) that the backends' certificates must chain to.
    pub authorities: PathBuf,
    /// The edge's own certificate, for backends that request one (mutual TLS).
    pub certificate: Option<CertificateFiles>,
}

/// Load-balancing algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// Of two random backends, the one with fewer requests in progress, weighted by latency if that
    /// differs a lot.
    TwoChoices,
    /// The backend with the fewest requests in progress.
    LeastConnections,
    /// Smooth weighted round robin.
    RoundRobin,
    /// By client address: a client stays with its backend while that is up.
    Hash,
}

/// Limits of client connections and requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections of all clients.
    pub connections: usize,
    /// Open connections of one address.
    pub address_connections: usize,
    /// Requests per connection before it is closed.
    pub connection_requests: u32,
    /// Size of a request head, in bytes.
    pub head_bytes: usize,
    /// Header fields of a request.
    pub headers: usize,
    /// Size of a request body, in bytes.
    pub body_bytes: u64,
    /// Time for a whole request body, unless its response has begun; zero sets no limit.
    pub body: Duration,
    /// Time for the TLS handshake, or for the PROXY header.
    pub handshake: Duration,
    /// Time for a whole request head, from its first byte.
    pub head: Duration,
    /// Keep-alive timeout of client connections.
    pub idle: Duration,
    /// Overrides `idle` for single listeners, by configured address.
    pub listener_idle: Vec<(SocketAddr, Duration)>,
    /// Longest pause of a client while it sends a body or receives a response.
    pub client_pause: Duration,
    /// How long to wait for a client that closed its side during a request.
    pub half_closed: Duration,
    /// Idle timeout of a tunnel (WebSocket).
    pub tunnel_idle: Duration,
}

/// Limits of connections to backends, and when a backend counts as unhealthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamSettings {
    /// Time to connect, including TLS and the settings of HTTP/2.
    pub connect: Duration,
    /// Time to the first byte of a response, and longest pause within it.
    pub answer: Duration,
    /// Idle timeout of pooled connections; shorter if the backend is known to close earlier.
    pub idle: Duration,
    /// Concurrent requests per backend; more wait in the queue. 0 sets no limit.
    pub in_flight: usize,
    /// Queue length: requests that may wait for a free slot.
    pub queue: usize,
    /// Longest wait in the queue.
    pub queue_wait: Duration,
    /// Retries as a share of requests, in percent.
    pub retry_percent: u32,
    /// Consecutive failures that eject a backend.
    pub failures: u32,
    /// Duration of the first ejection, doubled each time up to a factor of 32.
    pub ejection: Duration,
    /// A backend that sends nothing for this long while requests wait has stalled and is ejected;
    /// slow backends get more time.
    pub stall: Duration,
    /// Longest time that a response may take by design, such as a long poll's: until then, only
    /// routes that were quicker lately show a stall.
    pub stall_late: Duration,
    /// Time until a recovered backend gets its full share.
    pub slow_start: Duration,
    /// If more than this percentage of backends look unhealthy, health is ignored (panic mode).
    pub panic_percent: u32,
    /// PROXY header sent on each connection to a backend; such connections carry one request.
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

/// Active health checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckSettings {
    /// What a check does.
    pub kind: CheckKind,
    /// Interval between checks.
    pub every: Duration,
    /// Timeout of a check.
    pub within: Duration,
    /// Consecutive successes until a backend is healthy again.
    pub rise: u32,
    /// Consecutive failures until a backend is unhealthy.
    pub fall: u32,
}

/// What a check does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckKind {
    /// Connects, including TLS if configured, and sends no request.
    Connect,
    /// Requests a path. A status below 400 is healthy, unless a JSON body reports failed checks
    /// (docs/edge.md).
    Ask(String),
}

impl CheckKind {
    /// Parses `connect` or a path.
    ///
    /// # Errors
    /// If it is neither.
    pub fn parse(text: &str) -> Result<Self, EdgeError> {
        if text == "connect" {
            Ok(Self::Connect)
        } else if text.starts_with('/') {
            Ok(Self::Ask(text.to_owned()))
        } else {
            let what = format!("invalid check `{text}`: neither a path nor `connect`");
            Err(EdgeError::new(what)
                .hint("use a path such as /health, or `connect` to only connect"))
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
            trusted_proxies: Vec::new(),
            backend_tls: BackendTlsSettings::default(),
            balance: Balance::TwoChoices,
            zone: None,
            limits: Limits::default(),
            upstream: UpstreamSettings::default(),
            resolve: Duration::from_secs(10),
            resolver: Resolver::default(),
            pool_idle: Vec::new(),
            pool_body: Vec::new(),
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
            body: Duration::from_secs(3600),
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
            stall_late: Duration::from_secs(60),
            slow_start: Duration::from_secs(10),
            panic_percent: 50,
            proxy_header: ProxyHeader::Off,
        }
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
            _ => Err(EdgeError::new(format!("unknown balance `{text}`"))
                .hint("use two_choices, least_connections, round_robin or hash")),
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
    /// The idle timeout of the listener configured at `address`.
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
            _ => Err(EdgeError::new(format!("unknown PROXY header version `{text}`"))
                .hint("use off, v1 or v2")),
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
    /// Rejects settings that cannot work together.
    ///
    /// # Errors
    /// Names the setting and what to set instead.
    pub fn check(&self) -> Result<(), EdgeError> {
        if self.listeners.is_empty() {
            return Err(EdgeError::new("cannot start the edge: it has no listener")
                .hint("set --listen 0.0.0.0:80, or `edge.listen`"));
        }
        if self.backends.is_empty() && self.beacon.is_none() {
            return Err(EdgeError::new("cannot start the edge: it has no backend and no beacon")
                .hint("set --backend 10.0.0.5:8080, or --beacon /ping"));
        }
        let has_certificates = !self.certificates.is_empty() || self.acme.is_some();
        if self.listeners.iter().any(|listener| listener.is_tls) && !has_certificates {
            return Err(EdgeError::new("cannot listen with TLS: there is no certificate").hint(
                "set `edge.tls_certificate_files` and `edge.tls_key_files`, or `edge.acme_names`",
            ));
        }
        if let Some(acme) = &self.acme {
            acme.check(&self.listeners)?;
        }
        let mut names: Vec<_> = self.backends.iter().map(|one| one.name.to_lowercase()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(EdgeError::new(format!("cannot use the backend `{}` twice", twice[0]))
                .hint("set a weight instead: 10.0.0.5:8080*2"));
        }
        self.check_pools()?;
        if let Some(path) = &self.beacon
            && !path.starts_with('/')
        {
            return Err(EdgeError::new(format!("cannot take beacons at `{path}`: not a path"))
                .hint("it must begin with a slash: /ping"));
        }
        Ok(())
    }

    fn has_backend(&self, pool: &str) -> bool {
        self.backends.iter().any(|backend| backend.pool == pool)
    }

    /// Rejects pools without backends or routes, and zones without backends.
    fn check_pools(&self) -> Result<(), EdgeError> {
        if let Some(route) = self.routes.iter().find(|route| !self.has_backend(&route.pool)) {
            return Err(EdgeError::new(format!(
                "cannot use the route `{route}`: pool `{}` has no backend",
                route.pool
            ))
            .hint(format!("set `edge.backends = [\"{}=10.0.0.5:8080\"]`", route.pool)));
        }
        let lists = [
            (&self.pool_idle, "keep-alive", "pool_idle_seconds"),
            (&self.pool_body, "time for bodies", "pool_body_seconds"),
        ];
        for (list, what, key) in lists {
            if let Some((pool, _)) = list.iter().find(|(pool, _)| !self.has_backend(pool)) {
                let why = format!("cannot set the {what} of the pool `{pool}`: it has no backend");
                return Err(EdgeError::new(why).hint(format!(
                    "`edge.{key}` takes pools of `edge.backends`; for the default pool, write `=4`"
                )));
            }
        }
        let mut in_pools = self.backends.iter().filter(|one| !one.pool.is_empty());
        let unused = in_pools.find(|one| !self.routes.iter().any(|route| route.pool == one.pool));
        if let Some(backend) = unused {
            let pool = &backend.pool;
            return Err(EdgeError::new(format!(
                "cannot use the backend `{}`: no route leads to its pool `{pool}`",
                backend.name
            ))
            .hint(format!("set `edge.routes = [\"/{pool}/={pool}\"]`")));
        }
        if let Some(zone) = &self.zone
            && !self.backends.iter().any(|backend| backend.zone == *zone)
        {
            return Err(EdgeError::new(format!(
                "cannot prefer the zone `{zone}`: it has no backend"
            ))
            .hint(format!("set `edge.backends = [\"10.0.0.5:8080@{zone}\"]`")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn backend(text: &str) -> BackendSettings {
        BackendSettings::parse(text).unwrap()
    }

    fn message(settings: &Settings) -> String {
        settings.check().unwrap_err().to_string()
    }

    #[test]
    fn a_difference_shows_old_and_new_values() {
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
    fn settings_that_cannot_work_are_refused_with_a_hint() {
        expect![[r"
            cannot start the edge: it has no listener
            hint: set --listen 0.0.0.0:80, or `edge.listen`"]]
        .assert_eq(&message(&Settings::default()));
        let listener = ListenerSettings::parse("127.0.0.1:80", true, 16).unwrap();
        let mut settings = Settings { listeners: vec![listener], ..Settings::default() };
        expect![[r"
            cannot start the edge: it has no backend and no beacon
            hint: set --backend 10.0.0.5:8080, or --beacon /ping"]]
        .assert_eq(&message(&settings));
        settings.beacon = Some("ping".into());
        assert!(message(&settings).contains("no certificate"));
        settings.listeners[0].is_tls = false;
        assert!(message(&settings).contains("not a path"));
    }
}
