//! The hub's address for agents: opened at start when it is configured or agents were invited
//! before, else at the first invitation. So no port is open until an agent is expected.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use weir_agent_core::join::link_failure;
use weir_config::{Config, Values, saturating_usize};
use weir_link::{
    Authority, CarriedOrder, ClockOffset, ConnectedAgent, Hub, HubOptions, LinkError, OrderAnswer,
};
use weir_process::PROGRAM;
use weir_process::failure::{EXIT_CONFIG, Failure};
use weir_process::meter::Meter;
use weir_store::Store;
use weir_tables::{Clock, Micros, Parcel};

use super::clocks::ClockLog;
use super::intake::StoreIntake;
use super::speakers::SpeakerList;

/// How often to check for a first invitation, and to write the list of connected agents.
const LOOK: Duration = Duration::from_secs(1);
/// The list of who is connected is written at least this often, in looks.
const LOOKS_A_LIST: u32 = 10;

/// The state of the fleet while the hub runs.
#[derive(Default)]
pub(crate) struct Fleet {
    hub: OnceLock<Arc<Hub>>,
}

impl Fleet {
    /// Connected agents by name, with the offset of each clock in microseconds once it is measured.
    pub(crate) fn clocks(&self) -> BTreeMap<String, Option<i64>> {
        let connected = self.hub.get().map(|hub| hub.connected()).unwrap_or_default();
        let clocks = connected.into_iter();
        clocks.map(|agent| (agent.name, agent.clock.map(|clock| clock.offset_micros))).collect()
    }

    /// Sends an order to an agent of this hub, and waits for its host's answer; `None` if the hub has
    /// no agents. An error can mean that the outcome is unknown: see [`Hub::send_order`].
    pub(crate) async fn send_order(
        &self,
        agent: &str,
        order: CarriedOrder,
        patience: Duration,
    ) -> Option<Result<OrderAnswer, LinkError>> {
        Some(self.hub.get()?.send_order(agent, order, patience).await)
    }

    /// `agents` of `/api/status`.
    pub(crate) fn agents_json(&self) -> Vec<Value> {
        let connected = self.hub.get().map(|hub| hub.connected()).unwrap_or_default();
        connected
            .iter()
            .map(|agent| {
                json!({
                    "name": agent.name,
                    "address": agent.address,
                    "since_ts": agent.since.to_string(),
                    "program": agent.program,
                    "clock_offset_seconds":
                        agent.clock.map(|clock| Micros(clock.offset_micros).seconds_since(Micros(0))),
                })
            })
            .collect()
    }
}

/// Whether and where a hub listens for agents.
pub(crate) enum AgentListener {
    /// The hub takes no agents.
    Never,
    /// There.
    Now(TcpListener),
    /// At the first invitation.
    OnceInvited,
}

impl AgentListener {
    /// Binds the address when it is time to.
    pub(crate) fn new(config: &Config, is_hub: bool) -> Result<Self, Failure> {
        let values = &config.values;
        let is_asked = config.is_set(("link", "listen"));
        let is_invited = Authority::path(&link_dir(values)).exists();
        match (is_asked, is_hub) {
            (true, _) => bind(&values.link.listen).map(Self::Now),
            (false, true) if is_invited => bind(&values.link.listen).map(Self::Now),
            (false, true) => Ok(Self::OnceInvited),
            (false, false) => Ok(Self::Never),
        }
    }

    /// The address, when it is known at start.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Now(socket) => socket.local_addr().ok(),
            _ => None,
        }
    }

    /// Writes the address, when it is known at start, before the hub reports that it is up: an
    /// invitation names it.
    pub(crate) fn note_address(&self, values: &Values) {
        let Some(address) = self.address() else { return };
        let dir = link_dir(values);
        if let Err(error) = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir) {
            return tracing::warn!("cannot make `{}`: {error}", dir.display());
        }
        note(&dir.join("address"), &format!("{address}\n"));
    }

    /// Serves agents until `ended`.
    pub(crate) async fn serve(self, serving: LinkService, ended: watch::Receiver<bool>) {
        let socket = match self {
            Self::Never => return,
            Self::Now(socket) => socket,
            Self::OnceInvited => match once_invited(&serving, ended.clone()).await {
                Some(socket) => socket,
                None => return,
            },
        };
        if let Err(failure) = serving.serve(socket, ended).await {
            tracing::error!("{failure}");
        }
    }
}

/// `link/` of the data directory.
pub fn link_dir(values: &Values) -> PathBuf {
    values.store.dir.join("link")
}

fn bind(text: &str) -> Result<TcpListener, Failure> {
    let address = text.to_socket_addrs().ok().and_then(|mut all| all.next());
    let address = address.ok_or_else(|| {
        Failure::new(format!("cannot listen for agents on `{text}`: not an address and a port"))
            .hint("write it as 0.0.0.0:4771 or [::]:4771")
            .code(EXIT_CONFIG)
    })?;
    let bound = TcpListener::bind(address).and_then(|socket| {
        socket.set_nonblocking(true)?;
        Ok(socket)
    });
    bound.map_err(|error| {
        Failure::new(format!("cannot listen for agents on `{address}`: {error}"))
            .hint("`link.listen` names the address and the port; port 0 takes any free one")
    })
}

/// Binds when there is an authority, which the first `weir hub invite` makes; retries when that
/// fails.
async fn once_invited(
    serving: &LinkService,
    mut ended: watch::Receiver<bool>,
) -> Option<TcpListener> {
    let mut said = String::new();
    loop {
        if Authority::path(&serving.link_dir).exists() {
            match bind(&serving.listen) {
                Ok(socket) => return Some(socket),
                Err(failure) if said == failure.to_string() => {}
                Err(failure) => {
                    said = failure.to_string();
                    tracing::error!("{said}");
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            _ = ended.wait_for(|is_ended| *is_ended) => return None,
        }
    }
}

/// What serving agents needs.
pub(crate) struct LinkService {
    pub(crate) link_dir: PathBuf,
    pub(crate) listen: String,
    pub(crate) options: HubOptions,
    pub(crate) store: Arc<Store>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) speakers: Arc<SpeakerList>,
}

impl LinkService {
    /// From the configuration.
    pub(crate) fn new(
        values: &Values,
        speakers: &Arc<SpeakerList>,
        store: &Arc<Store>,
        meter: &Arc<Meter>,
        clock: &Arc<dyn Clock>,
        fleet: &Arc<Fleet>,
    ) -> Self {
        let link_dir = link_dir(values);
        let link = &values.link;
        let options = HubOptions {
            program: PROGRAM.into(),
            heartbeat: Duration::from_secs(link.heartbeat_seconds.clamp(1, 600)),
            parcel_bytes: saturating_usize(values.api.parcel_bytes),
            connections: saturating_usize(link.connections.clamp(1, 1 << 20)),
            certificate_lifetime: Duration::from_secs(
                link.certificate_days.clamp(1, 3650) * 86_400,
            ),
            ..HubOptions::new(&link_dir)
        };
        Self {
            link_dir,
            listen: link.listen.clone(),
            options,
            store: Arc::clone(store),
            meter: Arc::clone(meter),
            clock: Arc::clone(clock),
            fleet: Arc::clone(fleet),
            speakers: Arc::clone(speakers),
        }
    }

    async fn serve(self, socket: TcpListener, ended: watch::Receiver<bool>) -> Result<(), Failure> {
        let address = socket.local_addr().map_err(|error| Failure::new(error.to_string()))?;
        let intake = StoreIntake {
            store: Arc::clone(&self.store),
            meter: self.meter,
            speakers: self.speakers,
        };
        let hub = Hub::new(self.options, Arc::new(intake), self.clock).map_err(link_failure)?;
        let _ = self.fleet.hub.set(Arc::clone(&hub));
        let listener = tokio::net::TcpListener::from_std(socket)
            .map_err(|error| Failure::new(format!("cannot serve agents: {error}")))?;
        tracing::info!("agents are served on {address}");
        note(&self.link_dir.join("address"), &format!("{address}\n"));
        let path = self.link_dir.join("connected");
        let listing = tokio::spawn(list_always(Arc::clone(&hub), path, self.store));
        hub.serve(listener, ended).await;
        listing.abort();
        for name in ["address", "connected"] {
            let _ = std::fs::remove_file(self.link_dir.join(name));
        }
        Ok(())
    }
}

/// Keeps a list of who is connected beside the registry, for `weir hub agents`, and rows of it in
/// the store, for rules.
async fn list_always(hub: Arc<Hub>, path: PathBuf, store: Arc<Store>) {
    let mut written: Option<Vec<ConnectedAgent>> = None;
    let mut clocks = ClockLog::default();
    for look in 0_u32.. {
        let connected = hub.connected();
        if look % LOOKS_A_LIST == 0 || written.as_ref() != Some(&connected) {
            note(
                &path,
                &connected
                    .iter()
                    .map(|agent: &ConnectedAgent| {
                        let ConnectedAgent { name, address, since, program, clock } = agent;
                        let clock = clock.map(clock_text).unwrap_or_default();
                        format!("{name}\t{address}\t{since}\t{program}\t{clock}\n")
                    })
                    .collect::<String>(),
            );
            written = Some(connected.clone());
        }
        if let Some(batch) = clocks.rows(&connected) {
            let parcel = Parcel { range: None, batches: vec![batch] };
            if let Err(error) = store.append(parcel).await {
                tracing::warn!("cannot keep rows of `agent_link`: {}", error.message);
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// A clock that is off by more than a second, for people.
fn clock_text(clock: ClockOffset) -> String {
    let seconds = Micros(clock.offset_micros).seconds_since(Micros(0));
    let direction = if seconds > 0.0 { "ahead of" } else { "behind" };
    match seconds.abs() {
        off if off > 1.0 => format!(", its clock {off:.1} s {direction} the hub's"),
        _ => String::new(),
    }
}

/// For people and `weir hub`; nothing depends on it.
fn note(path: &Path, text: &str) {
    let next = path.with_extension("next");
    let written = std::fs::write(&next, text).and_then(|()| std::fs::rename(&next, path));
    if let Err(error) = written {
        tracing::warn!("cannot write `{}`: {error}", path.display());
    }
}
