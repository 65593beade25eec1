//! `weir agent`: this host's collectors with a hub as destination. No SQL engine and no store is
//! started.
//!
//! The destination is a courier over the link; `http://` to a hub on the same host is the other
//! one, without certificates.

use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::time::Duration;

use weir_config::place::read_token;
use weir_config::{Config, Values};
use weir_link::{Bandwidth, Identity, JoinToken, Spool, SpoolDamage, Uplink, UplinkOptions};
use weir_process::PROGRAM;
use weir_process::clock::SystemClock;
use weir_process::failure::{EXIT_CONFIG, EXIT_USAGE, Failure};
use weir_process::log;
use weir_process::meter::{Meter, Stage};
use weir_process::own_limits::{self, CpuShare};
use weir_process::own_memory;
use weir_process::own_memory::{FreedMemory, start_lean};
use weir_process::service;
use weir_process::signals::Signals;
use weir_process::terminal::say;
use weir_tables::Clock;

use crate::args::{AgentAction, AgentArgs};
use crate::client::{Client, is_loopback};
use crate::courier::CourierDestination;
use crate::edge;
use crate::hooks::AgentHooks;
use crate::join::{join, link_failure};
use crate::memory_cap;
use crate::orders::HelperCarrier;
use crate::remote::RemoteHub;
use crate::watch::deliver::Destination;
use crate::watch::{AgentLimits, Watch, WatchContext, WatchStatus, format_notes};

/// A parcel that is not answered in this time is sent again; for `http://`.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// What an agent does, and what it is allowed.
#[derive(Clone, Copy, Debug)]
pub struct AgentRole {
    /// Whether it watches this host, or is an edge only.
    pub is_watching: bool,
    /// Whether `http://` may lead to another host.
    pub is_insecure: bool,
    /// What the program lends.
    pub hooks: AgentHooks,
}

/// Runs `weir agent`, or joins a fleet.
///
/// # Errors
/// Why it cannot join, or not watch.
pub fn command(
    args: &AgentArgs,
    mut config: Config,
    startup: &edge::EdgeStartup,
    hooks: AgentHooks,
) -> Result<(), Failure> {
    config.apply_hubs(&args.hub);
    config.apply_watch(&args.watch);
    log::start(&config.values.log.level)?;
    if let Some(AgentAction::Join { token, host }) = &args.action {
        if let Some(flag) = args.flag_of_watching() {
            let what = format!("`weir agent join` has no flag `{flag}`");
            return Err(Failure::new(what)
                .hint("weir agent join TOKEN [--host NAME]")
                .code(EXIT_USAGE));
        }
        config.apply_host(host.as_ref());
        return join(&config.values, token);
    }
    start_lean(FreedMemory::Returned);
    let role = AgentRole { is_watching: true, is_insecure: args.insecure, hooks };
    run(&config, args.join.as_deref(), role, startup)
}

/// Runs until Ctrl-C or SIGTERM.
pub fn run(
    config: &Config,
    token: Option<&str>,
    role: AgentRole,
    startup: &edge::EdgeStartup,
) -> Result<(), Failure> {
    let values = &memory_cap::within(&config.values);
    own_limits::raise_open_files();
    // Client requests depend on an edge: do not lower its priority.
    if edge::is_wanted(values) {
        own_limits::let_edge_run();
    } else {
        own_limits::lower(values.agent.nice, values.agent.idle_io);
    }
    match values.agent.hubs.as_slice() {
        [url] if url.contains("://") => over_http(values, url, role, startup),
        hubs => {
            if let Some(url) = hubs.iter().find(|hub| hub.contains("://")) {
                return Err(Failure::new(format!("cannot use `{url}` beside other hubs"))
                    .hint("write hubs as host:port; the agent moves on between those it has joined")
                    .code(EXIT_CONFIG));
            }
            over_link(values, token, role, startup)
        }
    }
}

/// What every agent has, whatever its destination is.
struct AgentParts {
    clock: Arc<dyn Clock>,
    meter: Arc<Meter>,
    status: Arc<WatchStatus>,
    runtime: tokio::runtime::Runtime,
}

impl AgentParts {
    fn new(startup: &edge::EdgeStartup) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::new(format!("cannot start: {error}")))?;
        Ok(Self {
            clock: Arc::new(SystemClock),
            meter: Arc::clone(&startup.meter),
            status: Arc::default(),
            runtime,
        })
    }

    fn edge(
        &self,
        values: &Values,
        destination: &Arc<dyn Destination>,
        startup: &edge::EdgeStartup,
    ) -> Result<Option<edge::HostedEdge>, Failure> {
        edge::HostedEdge::start(values, destination, &self.clock, startup)
    }

    /// `None` for an edge that does not watch its host.
    fn watch(
        &self,
        values: &Values,
        role: AgentRole,
        destination: &Arc<dyn Destination>,
    ) -> Result<Option<Watch>, Failure> {
        if !role.is_watching {
            return Ok(None);
        }
        let destination = Arc::clone(destination);
        let context = WatchContext::new(
            values,
            destination,
            &self.clock,
            &self.meter,
            &self.status,
            role.hooks,
        );
        let limits = AgentLimits::of(values);
        Watch::start(context, values, Some(limits)).map(Some)
    }

    fn greet(&self, values: &Values, hubs: &str, edge: Option<&edge::HostedEdge>) {
        let lines = edge.map_or(&[][..], |edge| &edge.lines);
        say(&format!(
            "weir {} watches `{}` and sends to {hubs}\n  logs    {}\n  listen  {}{}",
            env!("CARGO_PKG_VERSION"),
            values.collect.host,
            self.status.sources().len(),
            self.status.listeners().len(),
            lines.iter().map(|line| format!("\n  edge    {line}")).collect::<String>(),
        ));
        for note in format_notes(&self.status.sources()) {
            say(&format!("  note    {}", note.replace('\n', "\n          ")));
        }
        service::ready();
        tokio::spawn(own_memory::stay_small());
    }
}

fn over_link(
    values: &Values,
    token: Option<&str>,
    role: AgentRole,
    startup: &edge::EdgeStartup,
) -> Result<(), Failure> {
    let agent = &values.agent;
    if let Some(token) = token {
        join_once(values, token)?;
    }
    let identities = Identity::load_all(&agent.dir).map_err(link_failure)?;
    if identities.is_empty() {
        return Err(Failure::new("cannot watch: this agent has not joined a hub")
            .hint(
                "`weir hub invite` on the hub prints a token; `weir agent join TOKEN` here uses it",
            )
            .code(EXIT_CONFIG));
    }
    let hubs = match agent.hubs.as_slice() {
        [] => identities.iter().flat_map(|known| known.addresses.clone()).collect(),
        hubs => hubs.to_vec(),
    };
    let parts = AgentParts::new(startup)?;
    let orders = Arc::new(HelperCarrier::new(
        &values.collect.host,
        &values.act.socket,
        &agent.dir,
        Arc::clone(&parts.clock),
    ));
    let mut spool = Spool::open(&agent.dir.join("spool"), agent.spool_bytes.max(1 << 20))
        .map_err(link_failure)?;
    if let Some(damage) = spool.take_damage() {
        report_damage(&damage, &parts.meter);
    }
    let (handle, uplink) = Uplink::new(UplinkOptions {
        dir: agent.dir.clone(),
        hubs: agent.hubs.clone(),
        program: PROGRAM.into(),
        host: values.collect.host.clone(),
        bandwidth: Bandwidth::new(agent.bandwidth_bytes),
        window_bytes: agent.window_bytes.max(1),
        clock: Arc::clone(&parts.clock),
        spool,
        orders: Some(Arc::clone(&orders) as _),
    });
    let cpu = CpuShare::new(agent.cpu_percent);
    let destination: Arc<dyn Destination> =
        Arc::new(CourierDestination::new(handle, Arc::clone(&parts.meter), cpu));
    parts.runtime.block_on(async {
        let signals = Signals::new()?;
        orders.start(Arc::clone(&destination));
        let delivering = tokio::spawn(uplink.run());
        let edge = parts.edge(values, &destination, startup)?;
        let watch = parts.watch(values, role, &destination)?;
        parts.greet(values, &hubs.join(", "), edge.as_ref());
        signals.wait(edge::replaced(edge.as_ref())).await;
        tracing::info!("ending");
        edge::end(edge).await;
        // Close the uplink first: threads that wait for it return when it is closed.
        destination.close();
        if delivering.await.is_err() {
            tracing::error!("the uplink panicked");
        }
        if let Some(watch) = watch {
            watch.end();
        }
        Ok(())
    })
}

/// Reports samples lost on this host's disk, in the same way as samples dropped by a full spool.
fn report_damage(damage: &SpoolDamage, meter: &Meter) {
    let SpoolDamage { records, place } = damage;
    let text = format!("the spool is damaged: {records} samples cannot be read, see {place}");
    tracing::warn!("{text}");
    meter.count_dropped(*records);
    meter.failed(Stage::Spool, &text);
}

/// A token of a fleet that was joined before is not used again, so that a unit file may name one
/// for ever.
fn join_once(values: &Values, token: &str) -> Result<(), Failure> {
    if token != "-" {
        let authority = JoinToken::decode(token).map_err(link_failure)?.authority;
        let known = Identity::load_all(&values.agent.dir).map_err(link_failure)?;
        if known.iter().any(|identity| identity.is_of_authority(&authority)) {
            return Ok(());
        }
    }
    join(values, token)
}

fn over_http(
    values: &Values,
    url: &str,
    role: AgentRole,
    startup: &edge::EdgeStartup,
) -> Result<(), Failure> {
    if !role.is_insecure && !is_local(url) {
        return Err(Failure::new(format!(
            "cannot send to `{url}`: it is another host, and others can read and change what is sent"
        ))
        .hint("join it: `weir hub invite` there, `weir agent join TOKEN` here; or take the risk with --insecure")
        .code(EXIT_CONFIG));
    }
    let token = values.agent.token_file.as_deref().map(read_token).transpose()?;
    let client = Client::new(url, token.as_deref(), ANSWER_WITHIN)?;
    let parts = AgentParts::new(startup)?;
    let buffer_bytes = usize::try_from(values.agent.buffer_bytes).unwrap_or(usize::MAX);
    let remote = Arc::new(RemoteHub::new(client, Arc::clone(&parts.meter), buffer_bytes));
    parts.runtime.block_on(async {
        let signals = Signals::new()?;
        let sender = Arc::clone(&remote);
        let sending = std::thread::Builder::new()
            .name("weir-send".into())
            .spawn(move || sender.send_always())
            .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
        let destination: Arc<dyn Destination> = Arc::clone(&remote) as _;
        let edge = parts.edge(values, &destination, startup)?;
        let watch = parts.watch(values, role, &destination)?;
        parts.greet(values, url, edge.as_ref());
        signals.wait(edge::replaced(edge.as_ref())).await;
        tracing::info!("ending");
        edge::end(edge).await;
        remote.close();
        if let Some(watch) = watch {
            watch.end();
        }
        if sending.join().is_err() {
            tracing::error!("the sending thread panicked");
        }
        Ok(())
    })
}

/// Whether every address of the URL's host is this machine's loopback.
fn is_local(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let authority = if has_port { authority.to_owned() } else { format!("{authority}:80") };
    let addresses: Vec<_> = authority.to_socket_addrs().into_iter().flatten().collect();
    !addresses.is_empty() && addresses.into_iter().all(is_loopback)
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn only_loopback_is_this_host() {
        for local in ["http://127.0.0.1:4770", "http://[::1]:4770/", "http://127.9.9.9"] {
            assert!(is_local(local), "{local}");
        }
        for other in
            ["http://10.0.0.5:4770", "http://192.0.2.1", "http://[2001:db8::1]:4770", "http://"]
        {
            assert!(!is_local(other), "{other}");
        }
    }
}
