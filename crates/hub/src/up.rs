//! `weir up` and `weir hub`: the store, the rules, the page and the API, with or without this
//! host's collectors.
//!
//! Order at start: cheap checks first (login, port), then open the store, watch, serve, report. The
//! end is in reverse, so that everything that was read is stored: watch, delivery, rules,
//! connections, store.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use weir_agent_core::watch::deliver::Destination;
use weir_agent_core::watch::{Watch, WatchContext, WatchStatus};
use weir_agent_core::{edge, parsers};
use weir_config::{Api, Config, Values, saturating_usize};
use weir_intake::TlsServer;
use weir_process::clock::SystemClock;
use weir_process::failure::{EXIT_CONFIG, Failure};
use weir_process::meter::Meter;
use weir_process::own_limits;
use weir_process::service;
use weir_process::signals::Signals;
use weir_process::terminal::say;
use weir_store::{QueryLimits, Retention, Store, StoreOptions};
use weir_tables::Clock;

use crate::bind::listen;
use crate::cluster::{FleetKeys, SharedFleet};
use crate::fleet::speakers::SpeakerList;
use crate::fleet::{AgentListener, Fleet, LinkService, link_dir};
use crate::heal::{self, Heals, PeerHubs};
use crate::hooks::AGENT_HOOKS;
use crate::local::LocalStore;
use crate::logins::Logins;
use crate::notices::Notices;
use crate::rule_runner::{RuleRunner, read_rule_files, run_always};
use crate::server::{self, App, Callers, PgServer};
use crate::store_faults::FaultReporter;
use crate::{
    banner, cluster, intake, notices, outputs, slos, slow_query, slow_tier, store_failure,
    thresholds,
};

/// Threads that serve, append and run rules; queries have separate threads in the store.
const THREADS: usize = 2;

/// Runs until Ctrl-C or SIGTERM.
pub fn run(config: &Config, is_watching: bool, startup: &edge::EdgeStartup) -> Result<(), Failure> {
    let values = &config.values;
    own_limits::raise_open_files();
    if edge::is_wanted(values) {
        own_limits::let_edge_run();
    }
    let tls = page_tls(values)?;
    let flag = if startup.is_edge { "--page" } else { "--listen" };
    let is_closed = tls.is_some() || values.api.plain_http;
    let socket = listen(&values.api.listen, is_closed, flag)?;
    let logins = Arc::new(Logins::load(values)?);
    let listening = AgentListener::new(config, !is_watching)?;
    let speakers = Arc::new(SpeakerList::parse(&values.link.speaks_for)?);
    let pg = PgServer::bind(values, &logins)?;
    let intake = intake::bind(values)?;
    let outputs = outputs::prepare(values)?;
    let notices = notices::prepare(values, cluster::manifest(values)?)?;
    let judge = Arc::new(load_rules(values.rules.dir.as_deref())?);
    let heals = heal::prepare(values, &judge, is_watching)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("weir-serve")
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start threads: {error}")))?;
    let doors =
        Listeners { page: socket, tls, agents: listening, pg, intake, outputs, notices, heals };
    runtime.block_on(async {
        HubStart { values, logins, speakers, judge, startup }.run(doors, is_watching).await
    })
}

/// The certificate of page and API.
fn page_tls(values: &Values) -> Result<Option<TlsServer>, Failure> {
    let api = &values.api;
    match (&api.tls_certificate_file, &api.tls_key_file) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => {
            let loaded = TlsServer::load(certificate, key, None);
            loaded.map(Some).map_err(|why| {
                Failure::new(format!("cannot serve the page by TLS: {why}")).code(EXIT_CONFIG)
            })
        }
        _ => {
            Err(Failure::new("cannot serve the page by TLS: a certificate and its key go together")
                .hint("set both `api.tls_certificate_file` and `api.tls_key_file`")
                .code(EXIT_CONFIG))
        }
    }
}

fn load_rules(dir: Option<&Path>) -> Result<RuleRunner, Failure> {
    let files = dir.map(read_rule_files).transpose()?.unwrap_or_default();
    let judge = RuleRunner::new(&files);
    for error in &judge.broken {
        tracing::error!("{error}");
    }
    Ok(judge)
}

/// The store's options from the configuration.
pub fn store_options(values: &Values, clock: Arc<dyn Clock>) -> Result<StoreOptions, Failure> {
    let or_never = |limit: u64, never: u64| if limit == 0 { never } else { limit };
    let defaults = StoreOptions::new(values.store.dir.clone(), clock);
    let hot_bytes = saturating_usize(values.store.hot_bytes.max(1 << 20));
    Ok(StoreOptions {
        hot_bytes_max: hot_bytes,
        hot_bytes_limit: hot_bytes.saturating_mul(3),
        hot_age_max: Duration::from_secs(values.store.flush_seconds.max(1)),
        min_free_bytes: Some(values.store.min_free_bytes).filter(|bytes| *bytes > 0),
        retention: Retention {
            days: u32::try_from(or_never(values.store.retention_days, 36_500)).unwrap_or(36_500),
            total_bytes: or_never(values.store.retention_bytes, u64::MAX),
            ..defaults.retention.clone()
        },
        query_memory_bytes: saturating_usize(values.api.query_memory_bytes),
        column_cache_bytes: saturating_usize(values.api.column_cache_bytes),
        query_spill_bytes: saturating_usize(values.api.query_spill_bytes),
        user_read_bytes: values.api.user_read_bytes,
        slow_query: Duration::from_millis(values.api.slow_query_milliseconds),
        future: Duration::from_secs(values.store.future_seconds),
        scrub: Duration::from_secs(values.store.scrub_days.saturating_mul(86_400)),
        gc_grace: Duration::from_secs(values.store.grace_seconds),
        copies: Some(values.outputs.iter().map(|output| output.name.clone()).collect()),
        slow: slow_tier::options(&values.store)?,
        ..defaults
    })
}

/// Limits of one query of a user.
fn query_limits(api: &Api) -> QueryLimits {
    QueryLimits {
        timeout: Duration::from_secs(api.query_timeout_seconds.max(1)),
        memory_bytes: saturating_usize(api.one_query_memory_bytes),
        read_bytes: if api.query_read_bytes == 0 { u64::MAX } else { api.query_read_bytes },
        answer_bytes: saturating_usize(api.answer_bytes),
        ..QueryLimits::default()
    }
}

/// Where others come in, bound before anything else starts, and where rows go out.
struct Listeners {
    page: TcpListener,
    tls: Option<TlsServer>,
    agents: AgentListener,
    pg: Option<PgServer>,
    intake: intake::BoundIntake,
    outputs: outputs::PreparedOutputs,
    notices: notices::PreparedNotices,
    heals: heal::PreparedHeals,
}

/// Intake ends before the outputs, so that its last rows are copied too.
async fn end_streams(intake: intake::RunningIntake, outputs: Option<outputs::RunningOutputs>) {
    intake.end().await;
    if let Some(outputs) = outputs {
        outputs.end().await;
    }
}

/// Parts that the API shows and that others use too.
struct SharedParts<'a> {
    fleet: &'a Arc<Fleet>,
    outputs: &'a Arc<outputs::Outputs>,
    notices: &'a Arc<Notices>,
    heals: &'a Arc<Heals>,
}

struct HubStart<'a> {
    values: &'a Values,
    logins: Arc<Logins>,
    speakers: Arc<SpeakerList>,
    judge: Arc<RuleRunner>,
    startup: &'a edge::EdgeStartup,
}

impl HubStart<'_> {
    async fn run(self, doors: Listeners, is_watching: bool) -> Result<(), Failure> {
        let Listeners { page: socket, tls, agents: listening, pg, intake, outputs, notices, heals } =
            doors;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let values = self.values;
        let address = socket.local_addr().map_err(|error| Failure::new(error.to_string()))?;
        let store = self.open_store(address, &clock, is_watching).await?;
        let meter = Arc::clone(&self.startup.meter);
        let (local, delivery) = LocalStore::new(Arc::clone(&store), Arc::clone(&meter));
        let delivery = tokio::spawn(delivery);
        let status = Arc::new(WatchStatus::default());
        let fleet = Arc::new(Fleet::default());
        let watched = is_watching.then(|| Arc::clone(&status));
        let shown = Arc::clone(&outputs.shown);
        let (notices, noticing) = Notices::start(notices, values, &store, &clock).await?;
        let heals =
            Heals::new(heals, values, &store, &clock, (&fleet, &notices), self.peer_hubs()?);
        let shared =
            SharedParts { fleet: &fleet, outputs: &shown, notices: &notices, heals: &heals };
        let app = self.app(&store, &clock, &meter, watched, shared)?;
        let (end, ended) = watch::channel(false);
        let agents_address = listening.address();
        let fleet_files = self.share_files(&store, agents_address.is_some(), &clock).await?;
        listening.note_address(values);
        let link = LinkService::new(values, &self.speakers, &store, &meter, &clock, &fleet);
        let linking = tokio::spawn(listening.serve(link, ended.clone()));
        let addresses = (address, agents_address, pg.as_ref().map(PgServer::address));
        let socket = tokio::net::TcpListener::from_std(socket)
            .map_err(|error| Failure::new(format!("cannot serve: {error}")))?;
        let serving = tokio::spawn(serve((socket, tls, pg), Arc::clone(&app), ended));
        let judging = self.judge(&store, &clock, (&notices, &heals));
        let sharing = tokio::spawn(fleet_files.run());
        let slow = slow_query::SlowQueryReporter::start(&store, &values.collect.host);
        let faults = FaultReporter::start(&store, &clock, &values.collect.host);
        let outputs = outputs.start(values, &store, &clock)?;
        let intake = intake.start(values, &store, &clock, &meter, (&fleet, is_watching)).await?;
        let _ = app.intake.set(intake.shared());
        let signals = Signals::new()?;
        let destination: Arc<dyn Destination> = Arc::clone(&local) as _;
        let edge = self.edge(&destination, &clock, &app)?;
        let watching = if is_watching {
            let destination = Arc::clone(&destination);
            let (clock, status) = (&clock, &status);
            let watch = WatchContext::new(values, destination, clock, &meter, status, AGENT_HOOKS);
            Some(start_watch(watch, values.clone()).await?)
        } else {
            None
        };
        let balanced = edge.as_ref().map_or(&[][..], |edge| &edge.lines);
        let watched = is_watching.then_some(&*status);
        let lines = (&*intake.lines, &*shown.lines(), balanced, notices.lines());
        say(&banner::text(values, addresses, &self.judge, watched, lines));
        service::ready();
        signals.wait(edge::replaced(edge.as_ref())).await;
        tracing::info!("ending");
        edge::end(edge).await;
        end_watch(watching, &local).await;
        end_streams(intake, outputs).await;
        drop((local, destination, app, faults));
        let _ = delivery.await;
        judging.iter().for_each(JoinHandle::abort);
        noticing.end().await;
        sharing.abort();
        let _ = end.send(true);
        let _ = linking.await;
        let _ = serving.await;
        slow.end().await;
        store.close().await.map_err(store_failure)?;
        Ok(())
    }

    /// Other hubs, for orders to their agents.
    fn peer_hubs(&self) -> Result<PeerHubs, Failure> {
        PeerHubs::new(self.logins.of_hubs().to_owned())
            .map_err(|error| Failure::new(format!("cannot reach other hubs: {error}")))
    }

    /// Takes over the fleet's files that the other hubs have.
    async fn share_files(
        &self,
        store: &Arc<Store>,
        is_serving: bool,
        clock: &Arc<dyn Clock>,
    ) -> Result<SharedFleet, Failure> {
        let keys = FleetKeys { is_serving, is_ordering: self.values.heal.enabled };
        SharedFleet::enter(store, link_dir(self.values), keys, clock.now()).await
    }

    /// Opens the store, alone or as one of several whose others reach this one at `address`.
    async fn open_store(
        &self,
        address: SocketAddr,
        clock: &Arc<dyn Clock>,
        is_watching: bool,
    ) -> Result<Arc<Store>, Failure> {
        let cluster = cluster::options(self.values, self.logins.of_hubs(), address)?;
        if cluster.is_some() && is_watching {
            return Err(Failure::new("cannot use `cluster.manifest`: `weir up` is a single hub")
                .hint("run `weir hub` on the hosts that keep rows, and `weir agent` beside it")
                .code(EXIT_CONFIG));
        }
        let options = store_options(self.values, Arc::clone(clock))?;
        let options = StoreOptions { cluster, ..options };
        let opening = tokio::task::spawn_blocking(move || Store::open(options));
        let opened = opening.await;
        opened
            .map_err(|error| Failure::new(format!("cannot open the store: {error}")))?
            .map_err(store_failure)
    }

    /// Starts the edge, which the page can reach from then on.
    fn edge(
        &self,
        destination: &Arc<dyn Destination>,
        clock: &Arc<dyn Clock>,
        app: &server::SharedApp,
    ) -> Result<Option<edge::HostedEdge>, Failure> {
        let edge = edge::HostedEdge::start(self.values, destination, clock, self.startup)?;
        if let Some(edge) = &edge {
            let _ = app.edge.set(Arc::clone(edge.control()));
        }
        Ok(edge)
    }

    /// Runs the rules, and keeps the values that their thresholds are mined from.
    fn judge(
        &self,
        store: &Arc<Store>,
        clock: &Arc<dyn Clock>,
        (notices, heals): (&Arc<Notices>, &Arc<Heals>),
    ) -> [JoinHandle<()>; 3] {
        let every = Duration::from_secs(self.values.rules.every_seconds.max(1));
        let shared = || (Arc::clone(&self.judge), Arc::clone(store), Arc::clone(clock));
        let (judge, kept, time) = shared();
        let desks = (Arc::clone(notices), Arc::clone(heals));
        let judging = tokio::spawn(run_always(judge, kept, time, every, desks));
        let (judge, kept, time) = shared();
        let host = self.values.collect.host.clone();
        let keeping = tokio::spawn(thresholds::keep_always(judge, kept, time, host.clone()));
        let (_, kept, time) = shared();
        let slos = self.values.slos.clone();
        [judging, keeping, tokio::spawn(slos::keep_always(slos, kept, time, host))]
    }

    fn app(
        &self,
        store: &Arc<Store>,
        clock: &Arc<dyn Clock>,
        meter: &Arc<Meter>,
        watch: Option<Arc<WatchStatus>>,
        shared: SharedParts<'_>,
    ) -> Result<server::SharedApp, Failure> {
        let api = &self.values.api;
        let host = self.values.collect.host.clone();
        if let Some(dir) = api.ui_dir.as_deref().filter(|dir| !dir.join("index.html").is_file()) {
            return Err(Failure::new(format!(
                "cannot serve `{}`: no index.html in it",
                dir.display()
            ))
            .hint("--ui-dir names the directory `ui` of weir's sources"));
        }
        Ok(Arc::new(App {
            store: Arc::clone(store),
            clock: Arc::clone(clock),
            judge: Arc::clone(&self.judge),
            parsers: parsers::load(self.values)?,
            meter: Arc::clone(meter),
            fleet: Arc::clone(shared.fleet),
            outputs: Arc::clone(shared.outputs),
            notices: Arc::clone(shared.notices),
            heals: Arc::clone(shared.heals),
            intake: OnceLock::new(),
            slos: self.values.slos.clone(),
            edge: OnceLock::new(),
            haproxy: self.values.haproxy.sockets.clone(),
            role: if watch.is_some() { "up" } else { "hub" },
            watch,
            host_names: (api.host_names.iter().cloned())
                .chain([host.clone()])
                .chain(public_host(&self.values.notify.public_url))
                .collect(),
            host,
            data_dir: self.values.store.dir.display().to_string(),
            started: clock.now(),
            logins: Arc::clone(&self.logins),
            ui_dir: api.ui_dir.clone(),
            rules_dir: self.values.rules.dir.clone(),
            queries: Arc::new(Semaphore::new(
                usize::try_from(api.concurrent_queries.clamp(1, 64)).unwrap_or(4),
            )),
            callers: Callers::new(usize::try_from(api.user_queries.clamp(1, 64)).unwrap_or(3)),
            query_limits: query_limits(api),
            parcel_bytes: usize::try_from(api.parcel_bytes).unwrap_or(usize::MAX),
            capture_bytes: usize::try_from(api.capture_bytes).unwrap_or(usize::MAX),
        }))
    }
}

/// Serves browsers, programs and clients of PostgreSQL.
async fn serve(
    (page, tls, pg): (tokio::net::TcpListener, Option<TlsServer>, Option<PgServer>),
    app: server::SharedApp,
    ended: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let rows = Arc::clone(&app);
    let others = ended.clone();
    let pg = async move {
        if let Some(pg) = pg {
            pg.serve(rows, others).await;
        }
    };
    tokio::join!(server::serve(page, tls, app, ended), pg).0
}

async fn start_watch(context: WatchContext, values: Values) -> Result<Watch, Failure> {
    tokio::task::spawn_blocking(move || Watch::start(context, &values, None))
        .await
        .map_err(|error| Failure::new(format!("cannot watch: {error}")))?
}

async fn end_watch(watching: Option<Watch>, local: &Arc<LocalStore>) {
    let Some(watching) = watching else { return };
    // The parser may wait for room in the delivery; the delivery task still runs, so it gets it.
    let ended = tokio::task::spawn_blocking(move || watching.end());
    if tokio::time::timeout(Duration::from_secs(10), ended).await.is_err() {
        tracing::warn!("the watch did not end in 10 s; what it had not handed over is read again");
        local.close();
    }
}

/// The name in the address of the page, under which links of messages reach it.
fn public_host(public_url: &str) -> Option<String> {
    reqwest::Url::parse(public_url.trim()).ok()?.host_str().map(str::to_owned)
}
