//! Probes of database servers: their state and replication, every few seconds.
//!
//! A server is probed only if the configuration names it. Each protocol is a file: a login, and
//! queries whose results are text. Connections stay open between probes; a server that does not
//! reply within the timeout gives a row with the error. Nothing is written.

mod member;
mod mysql;
mod mysql_replica;
mod mysql_work;
mod postgresql;
mod redis;
mod secure;
mod stream;

use std::collections::HashMap;
use std::time::Instant;

use weir_tables::{Batch, DbMemberRows, DbReplica, DbReplicaRows, DbServer, DbServerRows, Micros};

use crate::push;
use member::{OwnMember, push_members};
pub use secure::{DatabasePem, DatabaseTls, DatabaseVerify};
use stream::{ProbeError, ServerAddress, ServerStream};

/// Shortest and longest seconds between probes of a server.
const PROBE_SECONDS: (f64, f64) = (1.0, 10.0);
/// Share of the time that probing a server may take.
const TIME_PART: f64 = 0.02;
/// Seconds until the next probe after a failed one.
const RETRY_SECONDS: f64 = 2.0;

/// How one kind of database server is probed.
///
/// A new kind takes a file with an implementation and a line in [`PROTOCOLS`].
trait DatabaseProtocol: Sync {
    /// Value of the column `system`, and of the key `system` in the configuration.
    fn name(&self) -> &'static str;

    fn default_port(&self) -> u16;

    /// User used when the configuration names none.
    fn default_user(&self) -> &'static str {
        "weir"
    }

    /// Database used when the configuration names none.
    fn default_database(&self) -> &'static str {
        ""
    }

    /// Whether [`DatabaseTarget::heartbeat`] is used.
    fn has_heartbeat(&self) -> bool {
        false
    }

    /// Longest seconds between probes. A server whose replies only wait is probed often although
    /// it is slow.
    fn longest_pause(&self) -> f64 {
        PROBE_SECONDS.1
    }

    /// Logs in; applies TLS as the target demands, at the point where the protocol starts it.
    fn login(
        &self,
        stream: ServerStream,
        target: &DatabaseTarget,
    ) -> Result<Box<dyn DatabaseSession>, ProbeError>;
}

trait DatabaseSession: Send {
    fn snapshot(&mut self) -> Result<ServerSnapshot, ProbeError>;
}

const PROTOCOLS: [&dyn DatabaseProtocol; 3] =
    [&postgresql::Postgresql, &mysql::Mysql, &redis::Redis];

/// A kind of database server.
#[derive(Clone, Copy)]
pub struct DatabaseSystem(&'static dyn DatabaseProtocol);

impl DatabaseSystem {
    /// The system with this name, as in the column `system`.
    pub fn with_name(name: &str) -> Option<Self> {
        PROTOCOLS.into_iter().find(|protocol| protocol.name() == name).map(Self)
    }

    /// Value of the column `system`.
    pub fn as_str(self) -> &'static str {
        self.0.name()
    }

    /// User used when the configuration names none.
    pub fn default_user(self) -> &'static str {
        self.0.default_user()
    }

    /// Database used when the configuration names none.
    pub fn default_database(self) -> &'static str {
        self.0.default_database()
    }

    /// Whether [`DatabaseTarget::heartbeat`] is used.
    pub fn has_heartbeat(self) -> bool {
        self.0.has_heartbeat()
    }
}

impl std::fmt::Debug for DatabaseSystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A server to probe, and the login.
#[derive(Clone)]
pub struct DatabaseTarget {
    /// Kind of server.
    pub system: DatabaseSystem,
    /// `host`, `host:port` or the absolute path of its socket.
    pub address: String,
    /// User name; empty for the default user of Redis.
    pub user: String,
    /// Password; `None` logs in without one.
    pub password: Option<String>,
    /// Database to connect to (PostgreSQL, MySQL); may be empty for MySQL.
    pub database: String,
    /// `store` or `cache`.
    pub purpose: Option<String>,
    /// Query whose first cell is the age in seconds of the newest heartbeat row.
    pub heartbeat: Option<String>,
    /// TLS settings; `None` leaves the connection in cleartext.
    pub tls: Option<DatabaseTls>,
}

/// Probes one server, on its own thread: an unresponsive one must not delay the others.
pub struct DatabaseProber {
    host: String,
    server: MonitoredServer,
}

struct MonitoredServer {
    target: DatabaseTarget,
    session: Option<Box<dyn DatabaseSession>>,
    probed_at: Option<Micros>,
    pause_seconds: f64,
    totals: CounterTotals,
}

/// Result of one probe, named like the columns.
#[derive(Debug, Default)]
struct ServerSnapshot {
    version: Option<String>,
    is_replica: Option<bool>,
    connections: Option<i64>,
    connection_limit: Option<i64>,
    memory_bytes: Option<i64>,
    memory_limit_bytes: Option<i64>,
    eviction_policy: Option<String>,
    waiting_on_lock: Option<i64>,
    blocker: Option<String>,
    data_directory: Option<String>,
    work: ServerWork,
    totals: CounterTotals,
    own: OwnMember,
    links: Vec<ReplicaLink>,
}

/// What the server's sessions do, named like the columns.
#[derive(Debug, Default, PartialEq)]
struct ServerWork {
    sessions_active: Option<i64>,
    sessions_on_cpu: Option<i64>,
    connections_idle: Option<i64>,
    longest_statement_seconds: Option<f64>,
    longest_statement: Option<String>,
    idle_transaction_seconds: Option<f64>,
    idle_transaction: Option<String>,
    blocked_clients: Option<i64>,
    slow_commands_increase: Option<i64>,
    slowest_command: Option<String>,
    slowest_command_seconds: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct CounterTotals {
    connections_refused: Option<i64>,
    evicted_keys: Option<i64>,
    writes_refused: Option<i64>,
}

/// A row of `db_replica`.
#[derive(Debug, Default, PartialEq)]
struct ReplicaLink {
    role: &'static str,
    peer: String,
    state: String,
    is_running: Option<bool>,
    is_paused: Option<bool>,
    unsent_bytes: Option<i64>,
    unapplied_bytes: Option<i64>,
    retained_bytes: Option<i64>,
    lag_seconds: Option<f64>,
    heartbeat_seconds: Option<f64>,
    source_position: Option<i64>,
    /// How far the peer has applied the log; only in `db_member`.
    applied_position: Option<i64>,
    error: Option<String>,
    applier: Option<String>,
}

/// Result of a query: column names, and rows of texts.
#[derive(Debug, Default)]
struct QueryResult {
    columns: Vec<String>,
    rows: Vec<Vec<Option<String>>>,
}

impl QueryResult {
    fn by_name(&self) -> impl Iterator<Item = HashMap<&str, &str>> {
        self.rows.iter().map(|row| {
            let pairs = self.columns.iter().zip(row);
            pairs.filter_map(|(name, cell)| Some((name.as_str(), cell.as_deref()?))).collect()
        })
    }

    fn first(&self) -> Option<&str> {
        self.rows.first()?.first()?.as_deref()
    }
}

/// Rows of one probe.
#[derive(Default)]
struct ServerRows {
    servers: DbServerRows,
    links: DbReplicaRows,
    members: DbMemberRows,
}

impl DatabaseProber {
    /// Creates a prober.
    pub fn new(host: String, target: DatabaseTarget) -> Self {
        let (session, probed_at, totals) = <_>::default();
        Self {
            host,
            server: MonitoredServer { target, session, probed_at, pause_seconds: 0.0, totals },
        }
    }

    /// Probes if due, to be called once a second. Takes up to 4 s without a reply.
    pub fn probe(&mut self, clock: &dyn Fn() -> Micros) -> Vec<Batch> {
        let (now, before) = (clock(), self.server.probed_at);
        let mut batches = Vec::new();
        if crate::is_due(&mut self.server.probed_at, now, self.server.pause_seconds) {
            let interval = before.map(|before| now.seconds_since(before));
            let mut rows = ServerRows::default();
            self.server.probe(&self.host, now, interval, &mut rows);
            push(&mut rows.servers, &mut batches);
            push(&mut rows.links, &mut batches);
            push(&mut rows.members, &mut batches);
        }
        batches
    }
}

impl MonitoredServer {
    fn probe(
        &mut self,
        host: &str,
        now: Micros,
        interval_seconds: Option<f64>,
        rows: &mut ServerRows,
    ) {
        let started = Instant::now();
        let found = self.snapshot();
        let duration_seconds = started.elapsed().as_secs_f64();
        let error = found.as_ref().err().map(|fault| fault.message(&self.target));
        let before = self.schedule_next(&found, duration_seconds);
        let snapshot = found.unwrap_or_default();
        let system = self.target.system.as_str();
        rows.servers.push(&DbServer {
            ts: now,
            host,
            system,
            server_address: &self.target.address,
            purpose: self.target.purpose.as_deref(),
            version: snapshot.version.as_deref(),
            is_replica: snapshot.is_replica,
            connections: snapshot.connections,
            connection_limit: snapshot.connection_limit,
            connections_refused_total: snapshot.totals.connections_refused,
            connections_refused_increase: increase(
                before.connections_refused,
                snapshot.totals.connections_refused,
            ),
            memory_bytes: snapshot.memory_bytes,
            memory_limit_bytes: snapshot.memory_limit_bytes,
            eviction_policy: snapshot.eviction_policy.as_deref(),
            evicted_keys_total: snapshot.totals.evicted_keys,
            evicted_keys_increase: increase(before.evicted_keys, snapshot.totals.evicted_keys),
            writes_refused_total: snapshot.totals.writes_refused,
            writes_refused_increase: increase(
                before.writes_refused,
                snapshot.totals.writes_refused,
            ),
            waiting_on_lock: snapshot.waiting_on_lock,
            blocker: snapshot.blocker.as_deref(),
            data_directory: snapshot.data_directory.as_deref(),
            interval_seconds,
            duration_seconds,
            error: error.as_deref(),
            ..work_columns(&snapshot.work)
        });
        push_members(&mut rows.members, host, now, &self.target, &snapshot);
        for link in &snapshot.links {
            rows.links.push(&DbReplica {
                ts: now,
                host,
                system,
                server_address: &self.target.address,
                role: link.role,
                peer: &link.peer,
                state: &link.state,
                is_running: link.is_running,
                is_paused: link.is_paused,
                unsent_bytes: link.unsent_bytes,
                unapplied_bytes: link.unapplied_bytes,
                retained_bytes: link.retained_bytes,
                lag_seconds: link.lag_seconds,
                heartbeat_seconds: link.heartbeat_seconds,
                source_position: link.source_position,
                error: link.error.as_deref(),
                applier: link.applier.as_deref(),
            });
        }
    }

    /// Schedules the next probe; returns the totals before this one.
    fn schedule_next(
        &mut self,
        found: &Result<ServerSnapshot, ProbeError>,
        duration_seconds: f64,
    ) -> CounterTotals {
        let before = self.totals;
        self.pause_seconds = if let Ok(snapshot) = found {
            self.totals = snapshot.totals;
            let longest = self.target.system.0.longest_pause();
            (duration_seconds / TIME_PART).clamp(PROBE_SECONDS.0, longest)
        } else {
            self.session = None;
            RETRY_SECONDS
        };
        before
    }

    fn snapshot(&mut self) -> Result<ServerSnapshot, ProbeError> {
        let session = match &mut self.session {
            Some(session) => session,
            None => {
                let protocol = self.target.system.0;
                let address = ServerAddress::parse(&self.target.address, protocol.default_port())?;
                let session = protocol.login(address.connect()?, &self.target)?;
                self.session.insert(session)
            }
        };
        session.snapshot()
    }
}

/// The columns about the work of sessions; the others are empty.
fn work_columns(work: &ServerWork) -> DbServer<'_> {
    DbServer {
        sessions_active: work.sessions_active,
        sessions_on_cpu: work.sessions_on_cpu,
        connections_idle: work.connections_idle,
        longest_statement_seconds: work.longest_statement_seconds,
        longest_statement: work.longest_statement.as_deref(),
        idle_transaction_seconds: work.idle_transaction_seconds,
        idle_transaction: work.idle_transaction.as_deref(),
        blocked_clients: work.blocked_clients,
        slow_commands_increase: work.slow_commands_increase,
        slowest_command: work.slowest_command.as_deref(),
        slowest_command_seconds: work.slowest_command_seconds,
        ..DbServer::default()
    }
}

/// First word of a statement, such as SELECT; nothing else of it is kept.
fn first_word(statement: &str) -> Option<String> {
    let word = statement.trim_start_matches(['(', ' ', '\n', '\t']).split_whitespace().next()?;
    let word: String = word.chars().take_while(char::is_ascii_alphabetic).take(12).collect();
    (word.len() > 1).then(|| word.to_ascii_uppercase())
}

/// `None` at the first probe, and after a restart, when the counter is smaller than before.
pub(crate) fn increase(before: Option<i64>, now: Option<i64>) -> Option<i64> {
    now?.checked_sub(before?).filter(|increase| *increase >= 0)
}
