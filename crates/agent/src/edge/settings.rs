//! The edge's settings from the configuration: what cannot work together is refused with the key to
//! change.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use weir_config::{Values, saturating_usize};
use weir_edge::{
    AcmeSettings, BackendSettings, BackendTlsSettings, CertificateFiles, CheckKind, CheckSettings,
    EdgeError, Limits, ListenerSettings, RouteSettings, Settings, UpstreamSettings,
};
use weir_process::failure::{EXIT_CONFIG, Failure};
use weir_tables::IpNetwork;

/// An error of the edge as a command's failure.
pub fn edge_failure(error: EdgeError) -> Failure {
    Failure::new(error.message).hint(error.hint.unwrap_or_default()).code(EXIT_CONFIG)
}

/// Whether the configuration asks for an edge.
pub fn is_wanted(values: &Values) -> bool {
    let edge = &values.edge;
    [&edge.listen, &edge.listen_tls, &edge.listen_h2c].iter().any(|list| !list.is_empty())
}

/// The edge's settings.
pub fn settings(values: &Values) -> Result<Settings, Failure> {
    let edge = &values.edge;
    let settings = Settings {
        host: values.collect.host.clone(),
        threads: saturating_usize(edge.threads).min(256),
        listeners: listeners(values)?,
        certificates: certificates(values)?,
        acme: acme(values)?,
        backends: edge
            .backends
            .iter()
            .map(|text| BackendSettings::parse(text))
            .collect::<Result<_, _>>()
            .map_err(edge_failure)?,
        routes: edge
            .routes
            .iter()
            .map(|text| RouteSettings::parse(text))
            .collect::<Result<_, _>>()
            .map_err(edge_failure)?,
        trusted_proxies: networks(&edge.trusted_proxies, &TRUSTED_PROXIES)?,
        backend_tls: backend_tls(values)?,
        balance: edge.balance.parse().map_err(edge_failure)?,
        zone: Some(edge.zone.clone()).filter(|zone| !zone.is_empty()),
        limits: limits(values)?,
        upstream: upstream(values)?,
        resolve: at_least_a_second(edge.resolve_seconds),
        pool_idle: of_pools(&edge.pool_idle_seconds, &POOL_IDLE)?,
        pool_body: of_pools(&edge.pool_body_seconds, &POOL_BODY)?,
        check: check(values)?,
        beacon: Some(edge.beacon.clone()).filter(|path| !path.is_empty()),
        record_one_of: small(edge.record_one_of.max(1)),
        ..Settings::default()
    };
    settings.check().map_err(edge_failure)?;
    Ok(settings)
}

fn small(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn listeners(values: &Values) -> Result<Vec<ListenerSettings>, Failure> {
    let edge = &values.edge;
    let lists = [
        (&edge.listen, false, false),
        (&edge.listen_tls, true, false),
        (&edge.listen_h2c, false, true),
    ];
    let all =
        lists.iter().flat_map(|(list, tls, h2c)| list.iter().map(move |one| (one, *tls, *h2c)));
    let mut listeners = Vec::new();
    for (text, is_tls, is_h2c) in all {
        let mut listener = ListenerSettings::parse(text, is_tls, small(edge.backlog.max(1)))
            .map_err(edge_failure)?;
        listener.is_h2c = is_h2c;
        listener.has_proxy_header = edge.proxy_header_from.contains(text);
        if listener.has_proxy_header {
            listener.proxy_networks = networks(&edge.proxy_header_trusted, &HEADER_NETWORKS)?;
        }
        listeners.push(listener);
    }
    let is_known = |text: &&String| lists.iter().any(|(list, ..)| list.contains(text));
    if let Some(other) = edge.proxy_header_from.iter().find(|text| !is_known(text)) {
        return Err(Failure::new(format!(
            "cannot take PROXY headers on `{other}`: nothing listens there"
        ))
        .hint("`edge.proxy_header_from` repeats addresses of `edge.listen`, `edge.listen_tls` and `edge.listen_h2c`")
        .code(EXIT_CONFIG));
    }
    Ok(listeners)
}

/// A key of `[edge]` whose texts are networks.
struct NetworkKey {
    name: &'static str,
    purpose: &'static str,
}

const HEADER_NETWORKS: NetworkKey =
    NetworkKey { name: "proxy_header_trusted", purpose: "take PROXY headers from" };
const TRUSTED_PROXIES: NetworkKey =
    NetworkKey { name: "trusted_proxies", purpose: "trust the proxy" };

fn networks(texts: &[String], key: &NetworkKey) -> Result<Vec<IpNetwork>, Failure> {
    let NetworkKey { name, purpose } = key;
    IpNetwork::parse_each(texts.iter().map(String::as_str)).map_err(|text| {
        Failure::new(format!("cannot {purpose} `{text}`: it is not a network"))
            .hint(format!("write `edge.{name}` as [\"10.0.0.0/8\", \"2001:db8::/32\"]"))
            .code(EXIT_CONFIG)
    })
}

fn certificates(values: &Values) -> Result<Vec<CertificateFiles>, Failure> {
    let (chains, keys) = (&values.edge.tls_certificate_files, &values.edge.tls_key_files);
    if chains.len() != keys.len() {
        return Err(Failure::new(format!(
            "cannot use TLS: {} certificates and {} keys",
            chains.len(),
            keys.len()
        ))
        .hint("`edge.tls_key_files` has the key of each of `edge.tls_certificate_files`, in the same order")
        .code(EXIT_CONFIG));
    }
    let pairs = chains.iter().zip(keys);
    Ok(pairs
        .map(|(certificate, key)| CertificateFiles {
            certificate: certificate.into(),
            key: key.into(),
        })
        .collect())
}

fn acme(values: &Values) -> Result<Option<AcmeSettings>, Failure> {
    let edge = &values.edge;
    if edge.acme_names.is_empty() {
        return Ok(None);
    }
    Ok(Some(AcmeSettings {
        certificates: edge
            .acme_names
            .iter()
            .map(|text| text.parse())
            .collect::<Result<_, _>>()
            .map_err(edge_failure)?,
        directory: edge.acme_directory.parse().map_err(edge_failure)?,
        contact: edge.acme_contact.clone(),
        dir: edge.acme_dir.clone().unwrap_or_else(|| values.store.dir.join("acme")),
        authorities: edge.acme_ca_file.clone(),
        challenge: edge.acme_challenge.parse().map_err(edge_failure)?,
    }))
}

fn backend_tls(values: &Values) -> Result<BackendTlsSettings, Failure> {
    let edge = &values.edge;
    let certificate = match (&edge.backend_certificate_file, &edge.backend_key_file) {
        (None, None) => None,
        (Some(certificate), Some(key)) => {
            Some(CertificateFiles { certificate: certificate.clone(), key: key.clone() })
        }
        _ => {
            return Err(Failure::new(
                "cannot present a certificate to backends: only one of its two files is set",
            )
            .hint("`edge.backend_certificate_file` and `edge.backend_key_file` belong together")
            .code(EXIT_CONFIG));
        }
    };
    Ok(BackendTlsSettings { authorities: edge.backend_ca_file.clone(), certificate })
}

fn limits(values: &Values) -> Result<Limits, Failure> {
    let edge = &values.edge;
    Ok(Limits {
        connections: saturating_usize(edge.connections),
        address_connections: saturating_usize(edge.address_connections),
        connection_requests: small(edge.connection_requests.max(1)),
        head_bytes: saturating_usize(edge.head_bytes.clamp(8 << 10, 1 << 20)),
        headers: saturating_usize(edge.headers.clamp(8, 1000)),
        body_bytes: edge.body_bytes,
        body: Duration::from_secs(edge.body_seconds),
        handshake: at_least_a_second(edge.handshake_seconds),
        head: at_least_a_second(edge.head_seconds),
        idle: at_least_a_second(edge.idle_seconds),
        listener_idle: listener_idle(values)?,
        client_pause: at_least_a_second(edge.client_pause_seconds),
        half_closed: at_least_a_second(edge.half_closed_seconds),
        tunnel_idle: at_least_a_second(edge.tunnel_idle_seconds),
    })
}

fn at_least_a_second(value: u64) -> Duration {
    Duration::from_secs(value.max(1))
}

/// `ADDRESS:PORT=SECONDS`, of addresses that are listened on.
fn listener_idle(values: &Values) -> Result<Vec<(SocketAddr, Duration)>, Failure> {
    let edge = &values.edge;
    let lists = [&edge.listen, &edge.listen_tls, &edge.listen_h2c];
    let one = |text: &String| {
        let (address, idle) = LISTENER_IDLE.parse(text)?;
        let is_known = lists.iter().any(|list| list.iter().any(|one| one == address));
        let resolved = address.to_socket_addrs().ok().and_then(|mut all| all.next());
        resolved.filter(|_| is_known).map(|address| (address, idle)).ok_or_else(|| {
            Failure::new(format!(
                "cannot set the keep-alive of `{address}`: nothing listens there"
            ))
            .hint("`edge.listener_idle_seconds` repeats addresses of `edge.listen`, `edge.listen_tls` and `edge.listen_h2c`")
            .code(EXIT_CONFIG)
        })
    };
    edge.listener_idle_seconds.iter().map(one).collect()
}

/// `POOL=SECONDS`.
fn of_pools(texts: &[String], key: &SecondsKey) -> Result<Vec<(String, Duration)>, Failure> {
    let one = |text: &String| {
        let (pool, seconds) = key.parse(text)?;
        Ok((pool.to_owned(), seconds))
    };
    texts.iter().map(one).collect()
}

/// A key of `[edge]` whose texts are `NAME=SECONDS`.
struct SecondsKey {
    name: &'static str,
    example: &'static str,
}

const LISTENER_IDLE: SecondsKey =
    SecondsKey { name: "listener_idle_seconds", example: "0.0.0.0:80=5" };
const POOL_IDLE: SecondsKey = SecondsKey { name: "pool_idle_seconds", example: "api=30" };
const POOL_BODY: SecondsKey = SecondsKey { name: "pool_body_seconds", example: "uploads=14400" };

impl SecondsKey {
    fn parse<'a>(&self, text: &'a str) -> Result<(&'a str, Duration), Failure> {
        let parts = text.rsplit_once('=');
        let parts = parts.and_then(|(of, seconds)| Some((of.trim(), seconds.trim().parse().ok()?)));
        parts.map(|(of, seconds)| (of, Duration::from_secs(seconds))).ok_or_else(|| {
            let Self { name, example } = self;
            Failure::new(format!("cannot use `{text}` in `edge.{name}`: it is not NAME=SECONDS"))
                .hint(format!("write it as {example}"))
                .code(EXIT_CONFIG)
        })
    }
}

fn upstream(values: &Values) -> Result<UpstreamSettings, Failure> {
    let edge = &values.edge;
    Ok(UpstreamSettings {
        connect: Duration::from_millis(edge.connect_milliseconds.max(1)),
        answer: Duration::from_secs(edge.answer_seconds.max(1)),
        idle: Duration::from_secs(edge.upstream_idle_seconds),
        in_flight: saturating_usize(edge.in_flight),
        queue: saturating_usize(edge.queue),
        queue_wait: Duration::from_millis(edge.queue_milliseconds),
        retry_percent: small(edge.retry_percent.min(100)),
        failures: small(edge.failures.max(1)),
        ejection: Duration::from_secs(edge.ejection_seconds.clamp(1, 3600)),
        stall: Duration::from_millis(edge.stall_milliseconds.max(50)),
        stall_late: Duration::from_secs(edge.stall_late_seconds),
        slow_start: Duration::from_secs(edge.slow_start_seconds),
        panic_percent: small(edge.panic_percent.min(100)),
        proxy_header: edge.send_proxy_header.parse().map_err(edge_failure)?,
    })
}

fn check(values: &Values) -> Result<Option<CheckSettings>, Failure> {
    let edge = &values.edge;
    if edge.check.is_empty() {
        return Ok(None);
    }
    let every = Duration::from_millis(edge.check_milliseconds.max(100));
    Ok(Some(CheckSettings {
        kind: CheckKind::parse(&edge.check).map_err(edge_failure)?,
        every,
        within: every,
        rise: small(edge.check_rise.max(1)),
        fall: small(edge.check_fall.max(1)),
    }))
}
