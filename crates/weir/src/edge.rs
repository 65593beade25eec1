//! The edge in this process: settings from the configuration, rows to the destination, SIGHUP to read the settings again.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use weir_edge::{
    BackendSettings, BackendTlsSettings, CertificateFiles, CheckSettings, Edge, EdgeError, Limits,
    ListenerSettings, RouteSettings, Settings, Sink, UpstreamSettings,
};
use weir_tables::{Batch, Clock};

use crate::cli::EdgeArgs;
use crate::config::{Config, Values};
use crate::failure::{EXIT_CONFIG, Failure};
use crate::meter::Meter;
use crate::terminal::say;
use crate::watch::deliver::Destination;

/// Batches of up to a thousand rows that may wait for the destination; more are dropped and counted.
const BATCHES_WAITING: usize = 256;
/// Batches that become one parcel when they have waited.
const BATCHES_TOGETHER: usize = 16;

/// Reads the configuration again, with the flags that were given.
pub(crate) type Reload = Arc<dyn Fn() -> Result<Config, Failure> + Send + Sync>;

/// An edge at work.
pub(crate) struct Running {
    edge: Arc<Mutex<Option<Edge>>>,
    rows: JoinHandle<()>,
    reloading: tokio::task::JoinHandle<()>,
    /// One line for each address.
    pub(crate) lines: Vec<String>,
}

impl From<EdgeError> for Failure {
    fn from(error: EdgeError) -> Self {
        Self::new(error.message).hint(error.hint.unwrap_or_default()).code(EXIT_CONFIG)
    }
}

/// Whether the configuration asks for an edge.
pub(crate) fn is_wanted(values: &Values) -> bool {
    let edge = &values.edge;
    [&edge.listen, &edge.listen_tls, &edge.listen_h2c].iter().any(|list| !list.is_empty())
}

/// The edge's settings.
pub(crate) fn settings(values: &Values) -> Result<Settings, Failure> {
    let edge = &values.edge;
    let settings = Settings {
        host: values.collect.host.clone(),
        threads: size(edge.threads).min(256),
        listeners: listeners(values)?,
        certificates: certificates(values)?,
        backends: edge
            .backends
            .iter()
            .map(|text| BackendSettings::parse(text))
            .collect::<Result<_, _>>()?,
        routes: edge
            .routes
            .iter()
            .map(|text| RouteSettings::parse(text))
            .collect::<Result<_, _>>()?,
        backend_tls: backend_tls(values)?,
        balance: edge.balance.parse()?,
        limits: limits(values),
        upstream: upstream(values)?,
        check: check(values),
        beacon: Some(edge.beacon.clone()).filter(|path| !path.is_empty()),
    };
    settings.check()?;
    Ok(settings)
}

fn size(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
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
        let mut listener = ListenerSettings::parse(text, is_tls, small(edge.backlog.max(1)))?;
        listener.is_h2c = is_h2c;
        listener.has_proxy_header = edge.proxy_header_from.contains(text);
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

fn backend_tls(values: &Values) -> Result<BackendTlsSettings, Failure> {
    let edge = &values.edge;
    let certificate = match (&edge.backend_certificate_file, &edge.backend_key_file) {
        (None, None) => None,
        (Some(certificate), Some(key)) => {
            Some(CertificateFiles { certificate: certificate.clone(), key: key.clone() })
        }
        _ => {
            return Err(Failure::new(
                "cannot show backends a certificate: one of two files is named",
            )
            .hint("`edge.backend_certificate_file` and `edge.backend_key_file` belong together")
            .code(EXIT_CONFIG));
        }
    };
    Ok(BackendTlsSettings { authorities: edge.backend_ca_file.clone(), certificate })
}

fn limits(values: &Values) -> Limits {
    let edge = &values.edge;
    let seconds = |value: u64| Duration::from_secs(value.max(1));
    Limits {
        connections: size(edge.connections),
        address_connections: size(edge.address_connections),
        connection_requests: small(edge.connection_requests.max(1)),
        head_bytes: size(edge.head_bytes.clamp(8 << 10, 1 << 20)),
        headers: size(edge.headers.clamp(8, 1000)),
        body_bytes: edge.body_bytes,
        handshake: seconds(edge.handshake_seconds),
        head: seconds(edge.head_seconds),
        idle: seconds(edge.idle_seconds),
        client_pause: seconds(edge.client_pause_seconds),
        tunnel_idle: seconds(edge.tunnel_idle_seconds),
    }
}

fn upstream(values: &Values) -> Result<UpstreamSettings, Failure> {
    let edge = &values.edge;
    Ok(UpstreamSettings {
        connect: Duration::from_millis(edge.connect_milliseconds.max(1)),
        answer: Duration::from_secs(edge.answer_seconds.max(1)),
        idle: Duration::from_secs(edge.upstream_idle_seconds),
        in_flight: size(edge.in_flight),
        queue: size(edge.queue),
        queue_wait: Duration::from_millis(edge.queue_milliseconds),
        retry_percent: small(edge.retry_percent.min(100)),
        failures: small(edge.failures.max(1)),
        ejection: Duration::from_secs(edge.ejection_seconds.clamp(1, 3600)),
        stall: Duration::from_millis(edge.stall_milliseconds.max(50)),
        slow_start: Duration::from_secs(edge.slow_start_seconds),
        panic_percent: small(edge.panic_percent.min(100)),
        proxy_header: edge.send_proxy_header.parse()?,
    })
}

fn check(values: &Values) -> Option<CheckSettings> {
    let edge = &values.edge;
    let every = Duration::from_millis(edge.check_milliseconds.max(100));
    (!edge.check.is_empty()).then(|| CheckSettings {
        path: edge.check.clone(),
        every,
        within: every,
        rise: small(edge.check_rise.max(1)),
        fall: small(edge.check_fall.max(1)),
    })
}

/// `weir edge --dry-run`.
pub(crate) fn dry_run(
    args: &EdgeArgs,
    config: &Config,
    load: impl Fn(&Path) -> Result<Config, Failure>,
) -> Result<ExitCode, Failure> {
    let new = settings(&config.values)?;
    weir_edge::check_certificates(&new)?;
    let old = match &args.against {
        Some(file) => {
            let mut old = load(file)?;
            old.apply_edge(args);
            settings(&old.values)?
        }
        None => Settings { host: new.host.clone(), ..Settings::default() },
    };
    let lines = old.differences(&new);
    let text = if lines.is_empty() { "nothing changes".to_owned() } else { lines.join("\n") };
    say(&text);
    Ok(ExitCode::SUCCESS)
}

impl Running {
    /// Starts the edge if the configuration asks for one; `reload` is called at SIGHUP.
    pub(crate) fn start(
        values: &Values,
        destination: &Arc<dyn Destination>,
        clock: &Arc<dyn Clock>,
        meter: &Arc<Meter>,
        reload: &Reload,
    ) -> Result<Option<Self>, Failure> {
        if !is_wanted(values) {
            return Ok(None);
        }
        let settings = settings(values)?;
        let (sink, rows) = rows_to(destination, meter)?;
        let backends = settings.backends.len();
        let edge = Edge::start(settings, Arc::clone(clock), sink)?;
        let lines = edge
            .addresses()
            .into_iter()
            .map(|address| {
                format!("{address}  backends {backends}, threads {}", edge.thread_count())
            })
            .collect();
        let edge = Arc::new(Mutex::new(Some(edge)));
        let reloading = tokio::spawn(reload_always(Arc::clone(&edge), Arc::clone(reload)));
        Ok(Some(Self { edge, rows, reloading, lines }))
    }

    async fn end(self) {
        self.reloading.abort();
        let ending = tokio::task::spawn_blocking(move || {
            if let Some(edge) = self.edge.lock().unwrap_or_else(PoisonError::into_inner).take() {
                edge.end();
            }
            if self.rows.join().is_err() {
                tracing::error!("the thread of the edge's rows panicked");
            }
        });
        let _ = ending.await;
    }
}

/// Lets requests end, and hands over the last rows.
pub(crate) async fn end(edge: Option<Running>) {
    if let Some(edge) = edge {
        edge.end().await;
    }
}

/// The edge's threads must not wait for a disk: a thread of its own encodes and hands over.
fn rows_to(
    destination: &Arc<dyn Destination>,
    meter: &Arc<Meter>,
) -> Result<(Sink, JoinHandle<()>), Failure> {
    let (sender, batches) = sync_channel::<Vec<Batch>>(BATCHES_WAITING);
    let destination = Arc::clone(destination);
    let thread = std::thread::Builder::new()
        .name("weir-edge-rows".into())
        .spawn(move || deliver_always(&batches, &*destination))
        .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    let meter = Arc::clone(meter);
    let sink: Sink = Arc::new(move |batches| {
        if let Err(TrySendError::Full(_)) = sender.try_send(batches) {
            meter.count_dropped(1);
        }
    });
    Ok((sink, thread))
}

fn deliver_always(waiting: &Receiver<Vec<Batch>>, destination: &dyn Destination) {
    while let Ok(mut batches) = waiting.recv() {
        for _ in 1..BATCHES_TOGETHER {
            let Ok(more) = waiting.try_recv() else { break };
            batches.extend(more);
        }
        destination.send_sample(batches);
    }
}

async fn reload_always(edge: Arc<Mutex<Option<Edge>>>, reload: Reload) {
    let Ok(mut hangups) = signal(SignalKind::hangup()) else {
        return tracing::error!("cannot wait for SIGHUP: the configuration is not read again");
    };
    while hangups.recv().await.is_some() {
        let (edge, reload) = (Arc::clone(&edge), Arc::clone(&reload));
        // Files are read and names looked up: not on a thread that serves.
        let change = move || match changed(&edge, &reload) {
            Ok(lines) if lines.is_empty() => {
                tracing::info!("the edge's configuration is as it was")
            }
            Ok(lines) => {
                tracing::info!("the edge's configuration has changed:\n{}", lines.join("\n"))
            }
            Err(failure) => tracing::error!("the edge stays as it is: {failure}"),
        };
        let _ = tokio::task::spawn_blocking(change).await;
    }
}

fn changed(edge: &Mutex<Option<Edge>>, reload: &Reload) -> Result<Vec<String>, Failure> {
    let settings = settings(&reload()?.values)?;
    match &*edge.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(edge) => Ok(edge.change(&settings)?),
        None => Ok(Vec::new()),
    }
}

/// What reads the configuration again: the same file, the same environment, the same flags.
pub(crate) fn reload_of(
    load: fn(Option<&Path>, Option<&String>) -> Result<Config, Failure>,
    file: Option<PathBuf>,
    args: Option<EdgeArgs>,
) -> Reload {
    Arc::new(move || {
        let mut config = load(file.as_deref(), None)?;
        if let Some(args) = &args {
            config.apply_edge(args);
        }
        Ok(config)
    })
}
