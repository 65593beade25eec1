//! Database servers, asked every few seconds what they say of themselves and of their copies.
//!
//! Nothing is asked unless the configuration names a server. Each protocol is a file: a login, and questions whose
//! answers are text. Connections stay open between looks; a server that does not answer within the wait is a row with
//! its error. No statement of users is read, nothing is written.

mod mysql;
mod postgresql;
mod redis;
mod secure;
mod stream;

use std::collections::HashMap;
use std::time::Instant;

use weir_tables::{Batch, DbReplica, DbReplicaRows, DbServer, DbServerRows, Micros};

use super::push;
pub use secure::{DatabasePem, DatabaseTls, DatabaseVerify};
use stream::{Fault, Place};

/// Seconds between two looks at a server that answers quickly, and at most.
const LOOK_SECONDS: (f64, f64) = (1.0, 10.0);
/// A look may take this part of the time until the next.
const TIME_PART: f64 = 0.02;
/// Seconds until the next look after one that failed.
const RETRY_SECONDS: f64 = 2.0;

/// What a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseSystem {
    /// PostgreSQL.
    Postgresql,
    /// MySQL and MariaDB.
    Mysql,
    /// Redis and what speaks like it.
    Redis,
}

impl DatabaseSystem {
    /// As in the column `system`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Postgresql => "postgresql",
            Self::Mysql => "mysql",
            Self::Redis => "redis",
        }
    }

    /// Where it listens unless it is told otherwise.
    fn port(self) -> u16 {
        match self {
            Self::Postgresql => 5432,
            Self::Mysql => 3306,
            Self::Redis => 6379,
        }
    }
}

/// A server that is asked, and as whom.
#[derive(Clone)]
pub struct DatabaseTarget {
    /// What it speaks.
    pub system: DatabaseSystem,
    /// `host`, `host:port` or the absolute path of its socket.
    pub address: String,
    /// The user; empty for Redis' default user.
    pub user: String,
    /// The password; `None` logs in without one.
    pub password: Option<String>,
    /// The database that is connected to (PostgreSQL, MySQL); may be empty for MySQL.
    pub database: String,
    /// `store` or `cache`.
    pub purpose: Option<String>,
    /// A query whose first cell is the age in seconds of the newest heartbeat row.
    pub heartbeat: Option<String>,
    /// How the connection is encrypted; `None` leaves it in clear.
    pub tls: Option<DatabaseTls>,
}

/// Asks one server. Each needs a prober and a thread of its own: one that is silent must not keep the others waiting.
pub struct DatabaseProber {
    host: String,
    server: Server,
}

/// A server with what is kept between looks.
struct Server {
    target: DatabaseTarget,
    client: Option<Client>,
    asked: Option<Micros>,
    /// Seconds from the last look to the next.
    pause_seconds: f64,
    totals: Totals,
}

enum Client {
    Postgresql(postgresql::Client),
    Mysql(mysql::Client),
    Redis(redis::Client),
}

/// What a look found. The names are the columns'.
#[derive(Debug, Default)]
struct Look {
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
    totals: Totals,
    links: Vec<Link>,
}

/// Counters of which the increase is a column.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    connections_refused: Option<i64>,
    evicted_keys: Option<i64>,
    writes_refused: Option<i64>,
}

/// A row of `db_replica`.
#[derive(Debug, Default, PartialEq)]
struct Link {
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
    error: Option<String>,
    applier: Option<String>,
}

/// The answer to a question: names of columns, and rows of texts.
#[derive(Debug, Default)]
struct Answer {
    columns: Vec<String>,
    rows: Vec<Vec<Option<String>>>,
}

impl Answer {
    /// Each row by the names of its columns, without NULLs.
    fn by_name(&self) -> impl Iterator<Item = HashMap<&str, &str>> {
        self.rows.iter().map(|row| {
            let pairs = self.columns.iter().zip(row);
            pairs.filter_map(|(name, cell)| Some((name.as_str(), cell.as_deref()?))).collect()
        })
    }

    /// The first cell.
    fn first(&self) -> Option<&str> {
        self.rows.first()?.first()?.as_deref()
    }
}

impl DatabaseProber {
    /// A prober that has not asked yet.
    pub fn new(host: String, target: DatabaseTarget) -> Self {
        let (client, asked, totals) = <_>::default();
        Self { host, server: Server { target, client, asked, pause_seconds: 0.0, totals } }
    }

    /// Asks if it is time, to be called once a second. Takes up to 4 s when the server is silent.
    pub fn probe(&mut self, clock: &dyn Fn() -> Micros) -> Vec<Batch> {
        let (now, before) = (clock(), self.server.asked);
        let mut batches = Vec::new();
        if super::is_due(&mut self.server.asked, now, self.server.pause_seconds) {
            let interval = before.map(|before| now.seconds_since(before));
            let (mut servers, mut links) = (DbServerRows::default(), DbReplicaRows::default());
            self.server.look(&self.host, now, interval, &mut servers, &mut links);
            push(&mut servers, &mut batches);
            push(&mut links, &mut batches);
        }
        batches
    }
}

impl Server {
    fn look(
        &mut self,
        host: &str,
        now: Micros,
        interval_seconds: Option<f64>,
        servers: &mut DbServerRows,
        links: &mut DbReplicaRows,
    ) {
        let started = Instant::now();
        let found = self.ask();
        let duration_seconds = started.elapsed().as_secs_f64();
        let error = found.as_ref().err().map(|fault| fault.message(&self.target));
        let before = self.take_in(&found, duration_seconds);
        let look = found.unwrap_or_default();
        let system = self.target.system.as_str();
        servers.push(&DbServer {
            ts: now,
            host,
            system,
            server_address: &self.target.address,
            purpose: self.target.purpose.as_deref(),
            version: look.version.as_deref(),
            is_replica: look.is_replica,
            connections: look.connections,
            connection_limit: look.connection_limit,
            connections_refused_total: look.totals.connections_refused,
            connections_refused_increase: increase(
                before.connections_refused,
                look.totals.connections_refused,
            ),
            memory_bytes: look.memory_bytes,
            memory_limit_bytes: look.memory_limit_bytes,
            eviction_policy: look.eviction_policy.as_deref(),
            evicted_keys_total: look.totals.evicted_keys,
            evicted_keys_increase: increase(before.evicted_keys, look.totals.evicted_keys),
            writes_refused_total: look.totals.writes_refused,
            writes_refused_increase: increase(before.writes_refused, look.totals.writes_refused),
            waiting_on_lock: look.waiting_on_lock,
            blocker: look.blocker.as_deref(),
            data_directory: look.data_directory.as_deref(),
            interval_seconds,
            duration_seconds,
            error: error.as_deref(),
        });
        for link in &look.links {
            links.push(&DbReplica {
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

    /// Decides when to look again; the totals before this look.
    fn take_in(&mut self, found: &Result<Look, Fault>, duration_seconds: f64) -> Totals {
        let before = self.totals;
        self.pause_seconds = if let Ok(look) = found {
            self.totals = look.totals;
            (duration_seconds / TIME_PART).clamp(LOOK_SECONDS.0, LOOK_SECONDS.1)
        } else {
            self.client = None;
            RETRY_SECONDS
        };
        before
    }

    fn ask(&mut self) -> Result<Look, Fault> {
        let client = match &mut self.client {
            Some(client) => client,
            None => self.client.insert(Client::connect(&self.target)?),
        };
        match client {
            Client::Postgresql(client) => client.look(),
            Client::Mysql(client) => client.look(self.target.heartbeat.as_deref()),
            Client::Redis(client) => client.look(),
        }
    }
}

impl Client {
    fn connect(target: &DatabaseTarget) -> Result<Self, Fault> {
        let stream = Place::of(&target.address, target.system.port())?.connect()?;
        Ok(match target.system {
            DatabaseSystem::Postgresql => {
                Self::Postgresql(postgresql::Client::login(stream, target)?)
            }
            DatabaseSystem::Mysql => Self::Mysql(mysql::Client::login(stream, target)?),
            DatabaseSystem::Redis => {
                let stream = match &target.tls {
                    Some(tls) => stream.secured(tls)?,
                    None => stream,
                };
                Self::Redis(redis::Client::login(stream, target)?)
            }
        })
    }
}

/// `None` at the first look, and after a restart, when the counter is smaller than before.
fn increase(before: Option<i64>, now: Option<i64>) -> Option<i64> {
    now?.checked_sub(before?).filter(|increase| *increase >= 0)
}
