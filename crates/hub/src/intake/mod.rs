//! Intake from other shippers: sockets from the configuration, the crate `intake` behind them, the
//! store behind that.
//!
//! Sockets are bound before the store is opened, so that a wrong address is reported at once.

mod checks;
mod http;
mod hub;
mod kernel;
mod redact;
mod scrape;

use std::net::{SocketAddr, TcpListener, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use weir_config::place::read_token;
use weir_config::{Values, saturating_usize};
use weir_intake::{
    AccessRules, Hub, Intake, IntakeSettings, MAX_KNOWN, OverTcp, OverUdp, TlsServer,
};
use weir_process::failure::{EXIT_CONFIG, Failure};
use weir_process::meter::Meter;
use weir_store::{Query, QueryLimits, Store};
use weir_tables::{Clock, IpNetwork, Micros};

use crate::fleet::Fleet;
use crate::store_failure;
use checks::CheckSettings;
pub(crate) use http::{ReceivedBody, response_of};
use hub::StoreHub;
use kernel::KernelLines;

/// How often counts become rows of `intake_run`.
const REPORT: Duration = Duration::from_secs(10);
/// How long open requests and connections may take to end; an append may wait 10 s for room.
const END: Duration = Duration::from_secs(12);
/// Least time for which identities are remembered: a packet of NSCA is valid for 30 s before and after its time.
const MIN_KNOWN: Duration = Duration::from_secs(120);
/// How long the identities of the last run may take to be read.
const REMEMBER: Duration = Duration::from_secs(30);

/// Sockets that are bound and settings that are right.
pub(crate) struct BoundIntake {
    access: AccessRules,
    shared_key: Option<String>,
    checks: CheckSettings,
    tls: Option<TlsServer>,
    sockets: Vec<IntakeSocket>,
    targets: Vec<scrape::Target>,
}

/// A socket and what it takes.
enum IntakeSocket {
    Http { listener: TcpListener, is_tls: bool },
    Tcp { name: &'static str, listener: TcpListener, protocol: OverTcp, is_tls: bool },
    Udp { name: &'static str, socket: UdpSocket, protocol: OverUdp },
}

/// Binds what the configuration names and readies what it scrapes; nothing when it names nothing.
pub(crate) fn bind(values: &Values) -> Result<BoundIntake, Failure> {
    let intake = &values.intake;
    let token = intake.token_file.as_deref().map(read_token).transpose()?;
    let allow = networks(&intake.allow)?;
    let access = AccessRules { token, allow };
    let shared_key = intake.fluent_shared_key_file.as_deref().map(read_token).transpose()?;
    let checks = checks::settings(values)?;
    let tls = tls(values)?;
    let has_networks = !access.allow.is_empty();
    let guard = SenderGuard {
        http: access.token.is_some() || has_networks,
        plain: has_networks,
        tls: has_networks || intake.tls_client_ca_file.is_some(),
    };
    let mut sockets = Vec::new();
    for text in &intake.http {
        let listener = bind_tcp("http", guard.http, text)?;
        sockets.push(IntakeSocket::Http { listener, is_tls: false });
    }
    for text in &intake.https {
        let listener = bind_tcp("https", guard.http || guard.tls, text)?;
        sockets.push(IntakeSocket::Http { listener, is_tls: true });
    }
    bind_others(values, &guard, shared_key.is_some(), &mut sockets)?;
    let needs_tls = sockets.iter().any(IntakeSocket::is_tls);
    if needs_tls && tls.is_none() {
        return Err(Failure::new(
            "cannot listen with TLS: `intake.tls_certificate_file` is not set",
        )
        .hint(
            "name a certificate and its key: `intake.tls_certificate_file`, `intake.tls_key_file`",
        )
        .code(EXIT_CONFIG));
    }
    let targets = scrape::prepare(&values.scrape)?;
    Ok(BoundIntake { access, shared_key, checks, tls, sockets, targets })
}

/// Sockets of protocols that are no HTTP.
fn bind_others(
    values: &Values,
    guard: &SenderGuard,
    has_shared_key: bool,
    sockets: &mut Vec<IntakeSocket>,
) -> Result<(), Failure> {
    let intake = &values.intake;
    for (name, texts, protocol, is_tls) in [
        ("syslog_tcp", &intake.syslog_tcp, OverTcp::Syslog, false),
        ("syslog_tls", &intake.syslog_tls, OverTcp::Syslog, true),
        ("fluent", &intake.fluent, OverTcp::Fluent, false),
        ("fluent_tls", &intake.fluent_tls, OverTcp::Fluent, true),
        ("lumberjack", &intake.lumberjack, OverTcp::Lumberjack, false),
        ("lumberjack_tls", &intake.lumberjack_tls, OverTcp::Lumberjack, true),
        ("gelf_tcp", &intake.gelf_tcp, OverTcp::Gelf, false),
        ("graphite_tcp", &intake.graphite_tcp, OverTcp::Graphite, false),
        ("nsca", &intake.nsca, OverTcp::Nsca, false),
    ] {
        let has_key = protocol == OverTcp::Fluent && has_shared_key;
        let is_guarded = has_key || if is_tls { guard.tls } else { guard.plain };
        for text in texts {
            let listener = bind_tcp(name, is_guarded, text)?;
            sockets.push(IntakeSocket::Tcp { name, listener, protocol, is_tls });
        }
    }
    for (name, texts, protocol) in [
        ("syslog_udp", &intake.syslog_udp, OverUdp::Syslog),
        ("gelf_udp", &intake.gelf_udp, OverUdp::Gelf),
        ("statsd_udp", &intake.statsd_udp, OverUdp::Statsd),
    ] {
        for text in texts {
            let address = resolve(name, guard.plain, text)?;
            let buffer = usize::try_from(intake.udp_buffer_bytes).unwrap_or(usize::MAX);
            let socket = weir_intake::bind_udp(address, buffer.min(1 << 30))
                .map_err(|error| cannot_listen(name, address, &error))?;
            sockets.push(IntakeSocket::Udp { name, socket, protocol });
        }
    }
    Ok(())
}

/// Kinds of sockets that authenticate senders, so that they may be reached from other machines.
struct SenderGuard {
    http: bool,
    plain: bool,
    tls: bool,
}

impl IntakeSocket {
    fn is_tls(&self) -> bool {
        match self {
            Self::Http { is_tls, .. } | Self::Tcp { is_tls, .. } => *is_tls,
            Self::Udp { .. } => false,
        }
    }
}

fn tls(values: &Values) -> Result<Option<TlsServer>, Failure> {
    let intake = &values.intake;
    match (&intake.tls_certificate_file, &intake.tls_key_file) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => {
            let tls = TlsServer::load(certificate, key, intake.tls_client_ca_file.as_deref());
            tls.map(Some).map_err(|why| {
                Failure::new(why)
                    .hint("the files are PEM: the certificate first, then its chain; the key in a separate file")
                    .code(EXIT_CONFIG)
            })
        }
        _ => Err(Failure::new("cannot use TLS: certificate and key must be set together")
            .hint("set `intake.tls_certificate_file` and `intake.tls_key_file`")
            .code(EXIT_CONFIG)),
    }
}

fn networks(texts: &[String]) -> Result<Vec<IpNetwork>, Failure> {
    IpNetwork::parse_each(texts.iter().map(String::as_str)).map_err(|text| {
        Failure::new(format!("cannot use `intake.allow`: `{text}` is not a network"))
            .hint("write it as 10.0.0.0/8, 192.0.2.7 or 2001:db8::/32")
            .code(EXIT_CONFIG)
    })
}

fn resolve(key: &str, is_guarded: bool, text: &str) -> Result<SocketAddr, Failure> {
    let address = text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    let address = address.ok_or_else(|| {
        Failure::new(format!(
            "cannot listen on `{text}` (`intake.{key}`): not an address and a port"
        ))
        .hint("write it as 127.0.0.1:9200 or [::1]:9200")
        .code(EXIT_CONFIG)
    })?;
    if !address.ip().to_canonical().is_loopback() && !is_guarded {
        return Err(Failure::new(format!(
            "cannot listen on `{address}` (`intake.{key}`): it can be reached from other machines and access is not restricted"
        ))
        .hint("set `intake.token_file`, or name networks in `intake.allow`")
        .code(EXIT_CONFIG));
    }
    Ok(address)
}

fn cannot_listen(key: &str, address: SocketAddr, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot listen on `{address}` (`intake.{key}`): {error}"))
        .hint("another program may have the port (`ss -ltnup`); ports below 1024 need root")
        .code(EXIT_CONFIG)
}

fn bind_tcp(key: &str, is_guarded: bool, text: &str) -> Result<TcpListener, Failure> {
    let address = resolve(key, is_guarded, text)?;
    let bound = TcpListener::bind(address).and_then(|socket| {
        socket.set_nonblocking(true)?;
        Ok(socket)
    });
    bound.map_err(|error| cannot_listen(key, address, &error))
}

/// The intake at work.
pub(crate) struct RunningIntake {
    intake: Arc<Intake>,
    hub: Arc<StoreHub>,
    end: watch::Sender<bool>,
    listeners: Vec<JoinHandle<()>>,
    reporter: JoinHandle<()>,
    /// One line for each socket: what it takes, where it listens.
    pub(crate) lines: Vec<String>,
}

impl BoundIntake {
    /// Starts to take, from sockets, targets and the API. Agents of the fleet, and this process if it
    /// watches its host, read their kernels themselves.
    pub(crate) async fn start(
        self,
        values: &Values,
        store: &Arc<Store>,
        clock: &Arc<dyn Clock>,
        meter: &Arc<Meter>,
        (fleet, is_watching): (&Arc<Fleet>, bool),
    ) -> Result<RunningIntake, Failure> {
        let own_host = is_watching.then(|| values.collect.host.clone());
        let hub = Arc::new(StoreHub {
            kernel_lines: KernelLines::new(fleet, own_host, &**clock),
            store: Arc::clone(store),
            clock: Arc::clone(clock),
            meter: Arc::clone(meter),
            host: values.collect.host.clone(),
            parsers: weir_agent_core::parsers::load(values)?,
        });
        let settings = settings(values, self.access, self.shared_key, self.checks);
        let known = settings.known;
        let intake = Intake::new(Arc::clone(&hub) as _, settings);
        remember(&intake, store, known).await?;
        checks::remember(&intake, store).await;
        let (end, ended) = watch::channel(false);
        let connections = usize::try_from(values.intake.connections.max(1)).unwrap_or(1024);
        let room = Arc::new(Semaphore::new(connections.min(Semaphore::MAX_PERMITS)));
        let (mut listeners, mut lines) = (Vec::new(), Vec::new());
        for socket in self.sockets {
            let (intake, room, ended) = (Arc::clone(&intake), Arc::clone(&room), ended.clone());
            let tls = self.tls.clone().filter(|_| socket.is_tls());
            let (line, listener) = socket.listen(intake, tls, room, ended).map_err(cannot_serve)?;
            lines.push(line);
            listeners.push(listener);
        }
        if !self.targets.is_empty() {
            lines.push(format!("{:<14} {} targets", "scrape", self.targets.len()));
        }
        for target in self.targets {
            let (intake, clock) = (Arc::clone(&intake), Arc::clone(clock));
            listeners.push(tokio::spawn(target.run(
                intake,
                clock,
                hub.host.clone(),
                ended.clone(),
            )));
        }
        let reporter = tokio::spawn(report_always(Arc::clone(&intake), Arc::clone(&hub)));
        Ok(RunningIntake { intake, hub, end, listeners, reporter, lines })
    }
}

impl IntakeSocket {
    /// Starts a task; what to say of it, and the task.
    fn listen(
        self,
        intake: Arc<Intake>,
        tls: Option<TlsServer>,
        room: Arc<Semaphore>,
        ended: watch::Receiver<bool>,
    ) -> std::io::Result<(String, JoinHandle<()>)> {
        Ok(match self {
            Self::Http { listener, is_tls } => {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                let name = if is_tls { "https" } else { "http" };
                let line = line(name, listener.local_addr()?);
                (line, tokio::spawn(http::serve(listener, tls, intake, room, ended)))
            }
            Self::Tcp { name, listener, protocol, .. } => {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                let line = line(name, listener.local_addr()?);
                (line, tokio::spawn(intake.listen_tcp(listener, protocol, tls, room, ended)))
            }
            Self::Udp { name, socket, protocol } => {
                let socket = tokio::net::UdpSocket::from_std(socket)?;
                let line = line(name, socket.local_addr()?);
                (line, tokio::spawn(intake.listen_udp(socket, protocol, ended)))
            }
        })
    }
}

fn line(name: &str, address: SocketAddr) -> String {
    format!("{name:<14} {address}")
}

fn cannot_serve(error: std::io::Error) -> Failure {
    Failure::new(format!("cannot serve the intake: {error}"))
}

fn settings(
    values: &Values,
    access: AccessRules,
    shared_key: Option<String>,
    checks: CheckSettings,
) -> IntakeSettings {
    let intake = &values.intake;
    let host = values.collect.host.clone();
    IntakeSettings {
        access,
        host_names: values.api.host_names.iter().cloned().chain([host]).collect(),
        shared_key: shared_key.map(Arc::from),
        nsca: checks.nsca,
        checks: checks.rules,
        body_bytes: saturating_usize(intake.body_bytes).clamp(1 << 10, 128 << 20),
        in_flight_bytes: saturating_usize(intake.in_flight_bytes).max(1 << 20),
        known: Duration::from_secs(intake.known_seconds).max(MIN_KNOWN),
        elasticsearch_version: intake.elasticsearch_version.clone(),
    }
}

/// Identities that the last run kept.
async fn remember(intake: &Intake, store: &Store, known: Duration) -> Result<(), Failure> {
    let seconds = known.as_secs();
    let sql = format!(
        "select ts, ids from intake_batch where ts > now() - interval '{seconds} seconds' order by ts"
    );
    let limits = QueryLimits::of_rule(MAX_KNOWN, REMEMBER);
    let result = store.query(Query::new(&sql).limits(limits)).run().await.map_err(store_failure)?;
    for batch in &result.batches {
        let ts = batch.column(0).as_primitive::<TimestampMicrosecondType>();
        let ids = batch.column(1).as_string::<i32>();
        let rows = ts.iter().zip(ids);
        intake.remember(rows.filter_map(|(ts, ids)| Some((Micros(ts?), ids?))));
    }
    Ok(())
}

async fn report_always(intake: Arc<Intake>, hub: Arc<StoreHub>) {
    let mut ticks = tokio::time::interval(REPORT);
    loop {
        ticks.tick().await;
        report(&intake, &hub).await;
    }
}

/// Rejected rows are counted nowhere else, so they are logged.
async fn report(intake: &Intake, hub: &StoreHub) {
    if let Some(batch) = intake.report()
        && let Err(error) = hub.keep(vec![batch]).await
    {
        tracing::warn!("cannot keep rows of `intake_run`: {}", error.message);
    }
}

impl RunningIntake {
    /// What the API passes results of checks to.
    pub(crate) fn shared(&self) -> Arc<Intake> {
        Arc::clone(&self.intake)
    }

    /// Ends listening, lets requests finish, and keeps the last counts.
    pub(crate) async fn end(self) {
        let _ = self.end.send(true);
        let end = tokio::time::Instant::now() + END;
        for listener in self.listeners {
            // A full disk must not keep weir from ending; what was not answered is sent again.
            let _ = tokio::time::timeout_at(end, listener).await;
        }
        self.reporter.abort();
        report(&self.intake, &self.hub).await;
    }
}
