//! MySQL and MariaDB: the client/server protocol 4.1 (dev.mysql.com, "Client/Server Protocol";
//! mariadb.com/kb), text queries, logins by `mysql_native_password`, `caching_sha2_password` and
//! the server's socket.
//!
//! `Seconds_Behind_Source` is 0 when the network is cut and NULL when a thread has stopped; only a
//! heartbeat row measures the real lag.

use std::collections::HashMap;

use ring::digest::{self, SHA1_FOR_LEGACY_USE_ONLY, SHA256};

use super::mysql_replica;
use super::mysql_work::{self, MysqlWork};
use super::stream::{CLEARTEXT_REFUSED, MessageFields, ProbeError, ServerStream};
use super::{
    CounterTotals, DatabaseProtocol, DatabaseSession, DatabaseTarget, QueryResult, ReplicaLink,
    ServerSnapshot,
};

/// LONG_PASSWORD, CONNECT_WITH_DB, PROTOCOL_41, SECURE_CONNECTION, PLUGIN_AUTH.
const CAPABILITIES: u32 = 1 | 8 | 0x200 | 0x8000 | 0x8_0000;
/// SSL: the rest of the connection is in TLS.
const TLS: u32 = 0x800;
const UTF8MB4: u8 = 45;
const COM_QUERY: u8 = 3;

const STATUS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_connected', 'Connection_errors_max_connections')";
const SETTINGS: &str = "SELECT @@version AS version, @@max_connections AS max_connections, @@datadir AS datadir, @@read_only AS read_only";

/// Sessions of clients, from the view that the server has: `information_schema.processlist`, which
/// MySQL 9 dropped, else that of `performance_schema`. `{}` is the view.
const SESSIONS: &str = "SELECT id, user, db, command, time, state, LEFT(info, 40) AS info FROM {} \
    WHERE id <> CONNECTION_ID() AND command NOT LIKE 'Binlog Dump%' AND command <> 'Daemon' AND user <> 'system user' \
    AND user <> 'event_scheduler' ORDER BY command = 'Sleep', time DESC LIMIT 2000";
const SESSION_VIEWS: [&str; 2] =
    ["information_schema.processlist", "performance_schema.processlist"];

/// Open transactions, the oldest first; waiters have the time since when they wait.
const TRANSACTIONS: &str = "SELECT trx_mysql_thread_id AS id, trx_state AS state, trx_id AS trx, \
    TIMESTAMPDIFF(SECOND, trx_started, NOW()) AS age, TIMESTAMPDIFF(SECOND, trx_wait_started, NOW()) AS waits \
    FROM information_schema.innodb_trx ORDER BY trx_started LIMIT 500";

/// Queries for the blocking transactions: of MySQL 8, then of MariaDB and MySQL 5.7.
const BLOCKERS: [&str; 2] = [
    "SELECT blocking_engine_transaction_id AS blocking, COUNT(*) AS waiters FROM performance_schema.data_lock_waits GROUP BY 1 ORDER BY 2 DESC LIMIT 20",
    "SELECT blocking_trx_id AS blocking, COUNT(*) AS waiters FROM information_schema.innodb_lock_waits GROUP BY 1 ORDER BY 2 DESC LIMIT 20",
];

pub(super) struct MysqlSession {
    stream: ServerStream,
    sequence: u8,
    /// Query for the age of the newest heartbeat row.
    heartbeat: Option<String>,
    /// Whether the user may see the sessions and transactions of others (`PROCESS`).
    sees_others: Option<bool>,
}

pub(super) struct Mysql;

impl DatabaseProtocol for Mysql {
    fn name(&self) -> &'static str {
        "mysql"
    }

    fn default_port(&self) -> u16 {
        3306
    }

    fn has_heartbeat(&self) -> bool {
        true
    }

    fn login(
        &self,
        stream: ServerStream,
        target: &DatabaseTarget,
    ) -> Result<Box<dyn DatabaseSession>, ProbeError> {
        Ok(Box::new(MysqlSession::login(stream, target)?))
    }
}

impl DatabaseSession for MysqlSession {
    fn snapshot(&mut self) -> Result<ServerSnapshot, ProbeError> {
        let status = self.query(STATUS)?;
        let [connections, connections_refused] =
            ["Threads_connected", "Connection_errors_max_connections"]
                .map(|name| status_counter(&status, name));
        let settings = self.query(SETTINGS)?;
        let settings: HashMap<String, String> = mysql_replica::owned(&settings);
        let version = settings.get("version").cloned();
        let sources = mysql_replica::sources(self, version.as_deref().unwrap_or_default())?;
        let heartbeat = self.heartbeat.clone().filter(|_| !sources.rows.is_empty());
        let heartbeat_seconds = match heartbeat {
            Some(sql) => self.query(&sql)?.first().and_then(|cell| cell.parse::<f64>().ok()),
            None => None,
        };
        let mut links: Vec<ReplicaLink> =
            sources.by_name().map(|row| link(&row, heartbeat_seconds)).collect();
        links.extend(mysql_replica::replicas(self)?);
        let work = self.work()?;
        Ok(ServerSnapshot {
            version,
            waiting_on_lock: work.as_ref().map(|work| work.waiting_on_lock),
            blocker: work.as_ref().and_then(|work| work.blocker.clone()),
            work: work.map(|work| work.columns).unwrap_or_default(),
            is_replica: Some(!sources.rows.is_empty()),
            connections,
            connection_limit: settings.get("max_connections").and_then(|text| text.parse().ok()),
            data_directory: settings.get("datadir").cloned(),
            totals: CounterTotals { connections_refused, ..CounterTotals::default() },
            own: mysql_replica::own_member(&settings),
            links,
            ..ServerSnapshot::default()
        })
    }
}

impl MysqlSession {
    /// What the sessions do; `None` where the user may not see them.
    fn work(&mut self) -> Result<Option<MysqlWork>, ProbeError> {
        if self.sees_others == Some(false) {
            return Ok(None);
        }
        // Without `PROCESS` this is refused, and the list of sessions would be short of others.
        let Some(transactions) = self.allowed(TRANSACTIONS)? else {
            self.sees_others = Some(false);
            return Ok(None);
        };
        let mut sessions = None;
        for view in SESSION_VIEWS {
            sessions = self.allowed(&SESSIONS.replace("{}", view))?;
            if sessions.is_some() {
                break;
            }
        }
        let Some(sessions) = sessions else { return Ok(None) };
        let mut blockers = None;
        if transactions.by_name().any(|row| row.get("state") == Some(&"LOCK WAIT")) {
            for sql in BLOCKERS {
                blockers = self.allowed(sql)?;
                if blockers.is_some() {
                    break;
                }
            }
        }
        Ok(Some(mysql_work::summary(&sessions, &transactions, &blockers.unwrap_or_default())))
    }

    /// The result of a query; `None` when the server refuses it.
    fn allowed(&mut self, sql: &str) -> Result<Option<QueryResult>, ProbeError> {
        match self.query(sql) {
            Ok(result) => Ok(Some(result)),
            Err(ProbeError::Refused(_)) => Ok(None),
            Err(other) => Err(other),
        }
    }

    fn login(stream: ServerStream, target: &DatabaseTarget) -> Result<Self, ProbeError> {
        let heartbeat = target.heartbeat.clone();
        let mut client = Self { stream, sequence: 0, heartbeat, sees_others: None };
        let handshake = client.packet()?;
        if handshake.first() == Some(&0xff) {
            return Err(refusal(&handshake));
        }
        let HandshakePacket { mut plugin, mut salt, capabilities } = parse_handshake(&handshake)?;
        let password = target.password.as_deref().unwrap_or_default();
        let wanted = CAPABILITIES | if target.tls.is_some() { TLS } else { 0 };
        let mut body = wanted.to_le_bytes().to_vec();
        body.extend_from_slice(&(1_u32 << 24).to_le_bytes());
        body.push(UTF8MB4);
        body.extend_from_slice(&[0; 23]);
        if let Some(tls) = &target.tls {
            if u32::from(capabilities) & TLS == 0 {
                return Err(ProbeError::Unsupported(
                    "it does not support TLS; set `ssl_cert` and `ssl_key` in its configuration"
                        .to_owned(),
                ));
            }
            client.send(&body)?;
            let sequence = client.sequence.wrapping_add(1);
            client = Self { stream: client.stream.secured(tls)?, sequence, ..client };
        }
        body.extend_from_slice(target.user.as_bytes());
        body.push(0);
        let proof = proof(&plugin, &salt, password);
        body.push(u8::try_from(proof.len()).unwrap_or_default());
        body.extend_from_slice(&proof);
        for word in [&target.database, &plugin] {
            body.extend_from_slice(word.as_bytes());
            body.push(0);
        }
        client.send(&body)?;
        loop {
            let packet = client.packet()?;
            match packet.split_first() {
                Some((0, _)) => return Ok(client),
                Some((0xff, _)) => return Err(refusal(&packet)),
                Some((0xfe, rest)) => {
                    let mut fields = MessageFields(rest);
                    plugin = fields.text()?;
                    salt = fields.0.strip_suffix(&[0]).unwrap_or(fields.0).to_vec();
                    client.send(&self::proof(&plugin, &salt, password))?;
                }
                // caching_sha2_password: 3 means success, 4 requests the password itself.
                Some((1, [3])) => {}
                Some((1, [4])) if client.stream.is_private => {
                    client.send(&[password.as_bytes(), &[0]].concat())?;
                }
                Some((1, [4])) => {
                    return Err(ProbeError::Unsupported(CLEARTEXT_REFUSED.to_owned()));
                }
                _ => return Err(ProbeError::Protocol("an unknown login step")),
            }
        }
    }

    fn packet(&mut self) -> Result<Vec<u8>, ProbeError> {
        let [a, b, c, sequence] = self.stream.bytes::<4>()?;
        self.sequence = sequence.wrapping_add(1);
        let length = u32::from_le_bytes([a, b, c, 0]);
        self.stream.vector(usize::try_from(length).unwrap_or(usize::MAX))
    }

    fn send(&mut self, body: &[u8]) -> Result<(), ProbeError> {
        let length = u32::try_from(body.len()).unwrap_or_default().to_le_bytes();
        let head = [length[0], length[1], length[2], self.sequence];
        self.stream.send(&[&head, body].concat())
    }

    pub(super) fn query(&mut self, sql: &str) -> Result<QueryResult, ProbeError> {
        self.sequence = 0;
        self.send(&[&[COM_QUERY], sql.as_bytes()].concat())?;
        let mut result = QueryResult::default();
        let first = self.packet()?;
        match first.first() {
            Some(0) => return Ok(result),
            Some(0xff) => return Err(refusal(&first)),
            _ => {}
        }
        let count = length(&mut MessageFields(&first))?
            .ok_or(ProbeError::Protocol("a missing column count"))?;
        for _ in 0..count {
            result.columns.push(column_name(&self.packet()?)?);
        }
        self.packet()?;
        loop {
            let packet = self.packet()?;
            match packet.first() {
                Some(0xfe) if packet.len() < 9 => return Ok(result),
                Some(0xff) => return Err(refusal(&packet)),
                _ => result.rows.push(cells(&packet, result.columns.len())?),
            }
        }
    }
}

fn status_counter(status: &QueryResult, name: &str) -> Option<i64> {
    let mut rows = status.rows.iter();
    let row = rows.find(|row| row.first().is_some_and(|cell| cell.as_deref() == Some(name)))?;
    row.get(1)?.as_deref()?.parse().ok()
}

/// Converts a row of SHOW REPLICA STATUS, with column names of MySQL 8.0.22 or older ones.
fn link(row: &HashMap<&str, &str>, heartbeat_seconds: Option<f64>) -> ReplicaLink {
    let get =
        |new: &str, old: &str| row.get(new).or_else(|| row.get(old)).copied().unwrap_or_default();
    let receiving = get("Replica_IO_Running", "Slave_IO_Running");
    let applying = get("Replica_SQL_Running", "Slave_SQL_Running");
    let errors = ["Last_IO_Error", "Last_SQL_Error"].map(|name| get(name, name));
    let error: Vec<&str> = errors.into_iter().filter(|text| !text.is_empty()).collect();
    // Valid within one file of the source's log; across files the backlog is at least one file.
    let is_same_file = get("Source_Log_File", "Master_Log_File")
        == get("Relay_Source_Log_File", "Relay_Master_Log_File");
    let read = get("Read_Source_Log_Pos", "Read_Master_Log_Pos").parse::<i64>().ok();
    let applied = get("Exec_Source_Log_Pos", "Exec_Master_Log_Pos").parse::<i64>().ok();
    let applier = get("Replica_SQL_Running_State", "Slave_SQL_Running_State");
    let behind = get("Seconds_Behind_Source", "Seconds_Behind_Master");
    ReplicaLink {
        role: "source",
        peer: mysql_replica::peer(row),
        state: format!("{receiving}/{applying}"),
        is_running: Some(receiving == "Yes" && applying == "Yes"),
        unapplied_bytes: read.zip(applied).filter(|_| is_same_file).map(|(read, done)| read - done),
        lag_seconds: behind.parse().ok(),
        heartbeat_seconds,
        error: (!error.is_empty()).then(|| error.join("; ")),
        applier: (!applier.is_empty()).then(|| applier.to_owned()),
        ..ReplicaLink::default()
    }
}

/// Initial handshake packet, version 10.
struct HandshakePacket {
    plugin: String,
    salt: Vec<u8>,
    capabilities: u16,
}

fn parse_handshake(packet: &[u8]) -> Result<HandshakePacket, ProbeError> {
    let mut fields = MessageFields(packet);
    if fields.take(1)? != [10] {
        return Err(ProbeError::Protocol("a handshake of another version than 10"));
    }
    fields.text()?;
    fields.take(4)?;
    let mut salt = fields.take(8)?.to_vec();
    fields.take(1)?;
    let capabilities = u16::from_le_bytes(fields.take(2)?.try_into().unwrap_or_default());
    fields.take(5)?;
    let length = fields.take(1)?.first().copied().unwrap_or_default();
    fields.take(10)?;
    let rest = fields.take(usize::from(length.saturating_sub(8)).max(13))?;
    salt.extend_from_slice(rest.strip_suffix(&[0]).unwrap_or(rest));
    Ok(HandshakePacket { plugin: fields.text()?, salt, capabilities })
}

/// Authentication response; empty without a password, and where the socket identifies the user.
fn proof(plugin: &str, salt: &[u8], password: &str) -> Vec<u8> {
    let (algorithm, is_salt_first) = match plugin {
        _ if password.is_empty() => return Vec::new(),
        "mysql_native_password" => (&SHA1_FOR_LEGACY_USE_ONLY, true),
        "caching_sha2_password" => (&SHA256, false),
        _ => return Vec::new(),
    };
    let once = digest::digest(algorithm, password.as_bytes());
    let twice = digest::digest(algorithm, once.as_ref());
    let salted = match is_salt_first {
        true => [salt, twice.as_ref()].concat(),
        false => [twice.as_ref(), salt].concat(),
    };
    let mixed = digest::digest(algorithm, &salted);
    once.as_ref().iter().zip(mixed.as_ref()).map(|(one, other)| one ^ other).collect()
}

/// Parses `ERR`: a code, then `#` and five characters of state, then the message.
fn refusal(packet: &[u8]) -> ProbeError {
    let words = packet.get(3..).unwrap_or_default();
    let words = words.strip_prefix(b"#").and_then(|rest| rest.get(5..)).unwrap_or(words);
    ProbeError::Refused(String::from_utf8_lossy(words).into_owned())
}

/// A length-encoded integer; `None` is NULL.
fn length(fields: &mut MessageFields<'_>) -> Result<Option<usize>, ProbeError> {
    let first = fields.take(1)?.first().copied().unwrap_or_default();
    let bytes = match first {
        0xfb => return Ok(None),
        0xfc => fields.take(2)?,
        0xfd => fields.take(3)?,
        0xfe => fields.take(8)?,
        small => return Ok(Some(small.into())),
    };
    let number = bytes.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    Ok(Some(usize::try_from(number).unwrap_or(usize::MAX)))
}

fn text(fields: &mut MessageFields<'_>) -> Result<Option<String>, ProbeError> {
    let Some(length) = length(fields)? else { return Ok(None) };
    Ok(Some(String::from_utf8_lossy(fields.take(length)?).into_owned()))
}

fn column_name(packet: &[u8]) -> Result<String, ProbeError> {
    let mut fields = MessageFields(packet);
    for _ in 0..4 {
        text(&mut fields)?;
    }
    Ok(text(&mut fields)?.unwrap_or_default())
}

fn cells(packet: &[u8], count: usize) -> Result<Vec<Option<String>>, ProbeError> {
    let mut fields = MessageFields(packet);
    (0..count).map(|_| text(&mut fields)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_read_with_old_and_new_column_names() {
        let old = HashMap::from([
            ("Master_Host", "db1"),
            ("Master_Port", "3306"),
            ("Slave_IO_Running", "Connecting"),
            ("Slave_SQL_Running", "Yes"),
            ("Last_IO_Error", "error reconnecting"),
            ("Slave_SQL_Running_State", "Waiting for table metadata lock"),
            ("Master_Log_File", "bin.000002"),
            ("Relay_Master_Log_File", "bin.000002"),
            ("Read_Master_Log_Pos", "900"),
            ("Exec_Master_Log_Pos", "400"),
            ("Seconds_Behind_Master", "0"),
        ]);
        let expected = ReplicaLink {
            role: "source",
            peer: "db1:3306".to_owned(),
            state: "Connecting/Yes".to_owned(),
            is_running: Some(false),
            unapplied_bytes: Some(500),
            lag_seconds: Some(0.0),
            heartbeat_seconds: Some(7.5),
            error: Some("error reconnecting".to_owned()),
            applier: Some("Waiting for table metadata lock".to_owned()),
            ..ReplicaLink::default()
        };
        assert_eq!(link(&old, Some(7.5)), expected);
        let new = old.iter().map(|(name, value)| {
            let name = name.replace("Master", "Source").replace("Slave", "Replica");
            (&*name.leak(), *value)
        });
        assert_eq!(link(&new.collect(), Some(7.5)), expected);
    }

    #[test]
    fn any_bytes_are_parsed_or_rejected_without_panic() {
        arbtest::arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            let _ = (
                parse_handshake(&bytes).is_ok(),
                refusal(&bytes),
                column_name(&bytes),
                cells(&bytes, 3),
            );
            Ok(())
        });
    }
}
