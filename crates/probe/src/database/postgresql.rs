//! PostgreSQL: protocol 3.0 (documentation, chapter 55), SCRAM-SHA-256 (RFC 7677).
//!
//! A user with `pg_monitor` sees everything; without it other users' sessions have no state.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::rand::SecureRandom as _;
use ring::{digest, hmac, pbkdf2};

use super::stream::{CLEARTEXT_REFUSED, MessageFields, ProbeError, ServerStream};
use super::{
    DatabaseProtocol, DatabaseSession, DatabaseTarget, OwnMember, QueryResult, ReplicaLink,
    ServerSnapshot, ServerWork,
};

const VERSION_3_0: i32 = 196_608;
/// Sent instead of a version to request TLS.
const TLS_REQUEST: i32 = 80_877_103;
/// More rounds than any server uses would only burn CPU time on this host.
const ITERATION_LIMIT: u32 = 1_000_000;

const SERVER: &str = "select current_setting('server_version'), pg_is_in_recovery(), \
    (select count(*) from pg_stat_activity where backend_type = 'client backend'), \
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int, \
    (select count(*) from pg_stat_activity where wait_event_type = 'Lock' and now() - query_start > interval '5 seconds'), \
    (select setting from pg_settings where name = 'data_directory')";

const BLOCKER: &str = "select format('process %s of user %s (%s for %s s)', a.pid, coalesce(a.usename, '?'), \
    coalesce(a.state, '?'), round(extract(epoch from now() - a.state_change))) from pg_stat_activity a join \
    (select unnest(pg_blocking_pids(pid)) as pid from pg_stat_activity where wait_event_type = 'Lock') b on b.pid = a.pid \
    where a.wait_event_type is distinct from 'Lock' group by a.pid, a.usename, a.state, a.state_change order by count(*) desc limit 1";

/// One row: counts, then the oldest running statement and the oldest idle transaction of clients.
const WORK: &str = "with s as (select pid, coalesce(usename, '?') as usename, coalesce(datname, '?') as datname, state, \
    wait_event_type, substr(query, 1, 40) as query, extract(epoch from now() - query_start) as runs, \
    extract(epoch from now() - state_change) as rests from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()), \
    busy as (select * from s where state = 'active' and wait_event_type is distinct from 'Lock' order by runs desc nulls last limit 1), \
    open as (select * from s where state like 'idle in transaction%' order by rests desc nulls last limit 1) \
    select (select count(*) from s where state = 'active') as active, \
    (select count(*) from s where state = 'active' and wait_event_type is null) as on_cpu, \
    (select count(*) from s where state = 'idle') as idle, (select count(*) from s where state is null) as hidden, \
    (select runs from busy) as runs, (select query from busy) as query, \
    (select format('process %s of user %s on database %s', pid, usename, datname) from busy) as runner, \
    (select rests from open) as rests, \
    (select format('process %s of user %s on database %s', pid, usename, datname) from open) as holder";

/// End of the log that this server has: a standby serves others what it has received.
macro_rules! log_end {
    () => {
        "case when pg_is_in_recovery() then coalesce(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) else pg_current_wal_lsn() end"
    };
}

const REPLICAS: &str = concat!(
    "select concat_ws(' ', coalesce(host(client_addr), 'local'), nullif(application_name, '')) as peer, state, \
    pg_wal_lsn_diff(\"end\", flush_lsn)::bigint as unsent, pg_wal_lsn_diff(flush_lsn, replay_lsn)::bigint as unapplied, \
    extract(epoch from replay_lag) as lag, pg_wal_lsn_diff(\"end\", '0/0')::bigint as position, \
    pg_wal_lsn_diff(replay_lsn, '0/0')::bigint as applied from pg_stat_replication, (select ",
    log_end!(),
    " as \"end\") log"
);

const SLOTS: &str = concat!(
    "select slot_name as peer, coalesce(wal_status, '') as state, active, \
    pg_wal_lsn_diff(\"end\", restart_lsn)::bigint as retained, \
    pg_wal_lsn_diff(\"end\", '0/0')::bigint as position from pg_replication_slots, (select ",
    log_end!(),
    " as \"end\") log where not temporary"
);

// The time of the last replayed commit is no lag while nothing waits to be replayed: on an idle
// primary it grows forever.
const SOURCE: &str = "select coalesce(sender_host || ':' || sender_port, '') as peer, coalesce(status, '') as state, \
    pg_is_wal_replay_paused() as paused, unapplied, \
    case when unapplied > 0 or unapplied is null then extract(epoch from now() - pg_last_xact_replay_timestamp()) end as lag \
    from (select pg_wal_lsn_diff(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())::bigint as unapplied) one left join pg_stat_wal_receiver on true";

const OWN_MEMBER: &str = "select (pg_control_system()).system_identifier, \
    coalesce((select received_tli from pg_stat_wal_receiver), (pg_control_checkpoint()).timeline_id), \
    pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end, '0/0')::bigint, \
    pg_is_in_recovery() or current_setting('default_transaction_read_only')::bool";

struct PostgresqlSession {
    stream: ServerStream,
    /// Query for the age of the newest heartbeat row.
    heartbeat: Option<String>,
}

pub(super) struct Postgresql;

impl DatabaseProtocol for Postgresql {
    fn name(&self) -> &'static str {
        "postgresql"
    }

    fn default_port(&self) -> u16 {
        5432
    }

    fn default_database(&self) -> &'static str {
        "postgres"
    }

    fn has_heartbeat(&self) -> bool {
        true
    }

    fn login(
        &self,
        stream: ServerStream,
        target: &DatabaseTarget,
    ) -> Result<Box<dyn DatabaseSession>, ProbeError> {
        Ok(Box::new(PostgresqlSession::login(stream, target)?))
    }
}

impl DatabaseSession for PostgresqlSession {
    fn snapshot(&mut self) -> Result<ServerSnapshot, ProbeError> {
        let result = self.query(SERVER)?;
        let Some([version, recovery, connections, limit, waiting, directory]) =
            result.rows.first().map(Vec::as_slice)
        else {
            return Err(ProbeError::Protocol("an unexpected number of columns"));
        };
        let [connections, limit, waiting] =
            [connections, limit, waiting].map(|cell| cell.as_deref()?.parse::<i64>().ok());
        let mut snapshot = ServerSnapshot {
            version: version.clone(),
            is_replica: recovery.as_deref().map(|flag| flag == "t"),
            connections,
            connection_limit: limit,
            waiting_on_lock: waiting,
            data_directory: directory.clone(),
            ..ServerSnapshot::default()
        };
        if snapshot.waiting_on_lock > Some(0) {
            snapshot.blocker = self.query(BLOCKER)?.first().map(str::to_owned);
        }
        snapshot.work =
            self.query(WORK)?.by_name().next().map(|row| work(&row)).unwrap_or_default();
        if snapshot.is_replica == Some(true) {
            let mut sources = links("source", &self.query(SOURCE)?);
            if let Some(sql) = self.heartbeat.clone() {
                let age = self.query(&sql)?.first().and_then(|cell| cell.parse().ok());
                sources.iter_mut().for_each(|link| link.heartbeat_seconds = age);
            }
            snapshot.links.extend(sources);
        }
        // A standby may serve others.
        for (role, sql) in [("replica", REPLICAS), ("slot", SLOTS)] {
            snapshot.links.extend(links(role, &self.query(sql)?));
        }
        snapshot.own = self.own_member()?;
        Ok(snapshot)
    }
}

impl PostgresqlSession {
    fn login(mut stream: ServerStream, target: &DatabaseTarget) -> Result<Self, ProbeError> {
        if let Some(tls) = &target.tls {
            stream.send(&framed(None, &TLS_REQUEST.to_be_bytes()))?;
            stream = match stream.bytes::<1>()? {
                [b'S'] => stream.secured(tls)?,
                [b'N'] => {
                    return Err(ProbeError::Unsupported(
                        "it does not support TLS; set `ssl = on` in postgresql.conf".to_owned(),
                    ));
                }
                _ => return Err(ProbeError::Protocol("an unknown reply to the TLS request")),
            };
        }
        let mut body = VERSION_3_0.to_be_bytes().to_vec();
        let pairs =
            [("user", &*target.user), ("database", &target.database), ("application_name", "weir")];
        for word in pairs.iter().flat_map(|(key, value)| [key, value]) {
            body.extend_from_slice(word.as_bytes());
            body.push(0);
        }
        body.push(0);
        stream.send(&framed(None, &body))?;
        let mut client = Self { stream, heartbeat: target.heartbeat.clone() };
        let password = target.password.as_deref();
        loop {
            let (kind, body) = client.message()?;
            match kind {
                b'R' => client.authenticate(&body, password)?,
                b'Z' => return Ok(client),
                _ => {}
            }
        }
    }

    /// Reads the next message; an error message becomes an error.
    fn message(&mut self) -> Result<(u8, Vec<u8>), ProbeError> {
        let [kind, length @ ..] = self.stream.bytes::<5>()?;
        let length = usize::try_from(i32::from_be_bytes(length)).ok();
        let length = length.and_then(|length| length.checked_sub(4));
        let body =
            self.stream.vector(length.ok_or(ProbeError::Protocol("a message length below 4"))?)?;
        if kind == b'E' {
            return Err(ProbeError::Refused(error_message(&body)));
        }
        Ok((kind, body))
    }

    fn authenticate(&mut self, body: &[u8], password: Option<&str>) -> Result<(), ProbeError> {
        let mut fields = MessageFields(body);
        let method = i32::from_be_bytes(fields.take(4)?.try_into().unwrap_or_default());
        if method == 0 {
            return Ok(());
        }
        let needed =
            password.ok_or_else(|| ProbeError::Refused("it requires a password".to_owned()));
        match method {
            3 if self.stream.is_private => {
                let mut text = needed?.as_bytes().to_vec();
                text.push(0);
                self.stream.send(&framed(Some(b'p'), &text))
            }
            3 => Err(ProbeError::Unsupported(CLEARTEXT_REFUSED.to_owned())),
            10 => self.scram(&mut fields, needed?),
            other => Err(ProbeError::Unsupported(format!(
                "it requires authentication method {other}; set `scram-sha-256` or `peer` for this user in pg_hba.conf"
            ))),
        }
    }

    fn scram(&mut self, offered: &mut MessageFields<'_>, password: &str) -> Result<(), ProbeError> {
        const METHOD: &str = "SCRAM-SHA-256";
        if !std::iter::from_fn(|| offered.text().ok()).any(|name| name == METHOD) {
            return Err(ProbeError::Unsupported(format!("it does not offer {METHOD}")));
        }
        let mut random = [0; 18];
        let filled = ring::rand::SystemRandom::new().fill(&mut random);
        filled.map_err(|_| ProbeError::Protocol("no system randomness"))?;
        let first = format!("n=,r={}", BASE64.encode(random));
        let mut body = [METHOD.as_bytes(), &[0]].concat();
        let message = format!("n,,{first}");
        let length = i32::try_from(message.len()).unwrap_or_default();
        body.extend_from_slice(&length.to_be_bytes());
        body.extend_from_slice(message.as_bytes());
        self.stream.send(&framed(Some(b'p'), &body))?;
        let challenge = self.sasl(11)?;
        let (result, signature) =
            respond(&ScramExchange { first: &first, challenge: &challenge, password })?;
        self.stream.send(&framed(Some(b'p'), result.as_bytes()))?;
        let last = self.sasl(12)?;
        // A peer that cannot sign does not know the password, so it is not the server.
        if last.strip_prefix("v=") != Some(&signature) {
            return Err(ProbeError::Refused(
                "it does not know the user's password, so it is another server".to_owned(),
            ));
        }
        Ok(())
    }

    fn sasl(&mut self, expected: i32) -> Result<String, ProbeError> {
        let (kind, body) = self.message()?;
        let mut fields = MessageFields(&body);
        if kind != b'R' || fields.take(4)? != expected.to_be_bytes() {
            return Err(ProbeError::Protocol("an unexpected login message"));
        }
        Ok(String::from_utf8_lossy(fields.0).into_owned())
    }

    /// What the server knows about itself; nothing if its functions are not allowed to this user.
    fn own_member(&mut self) -> Result<OwnMember, ProbeError> {
        let result = match self.query(OWN_MEMBER) {
            Err(ProbeError::Refused(_)) => return Ok(OwnMember::default()),
            other => other?,
        };
        let Some([cluster, term, position, read_only]) = result.rows.first().map(Vec::as_slice)
        else {
            return Err(ProbeError::Protocol("an unexpected number of columns"));
        };
        let [term, position] = [term, position].map(|cell| cell.as_deref()?.parse().ok());
        let is_read_only = read_only.as_deref().map(|flag| flag == "t");
        Ok(OwnMember { cluster: cluster.clone(), position, term, is_read_only })
    }

    /// Sends a query and reads its whole result. After an error the session can go on.
    fn query(&mut self, sql: &str) -> Result<QueryResult, ProbeError> {
        self.stream.send(&framed(Some(b'Q'), &[sql.as_bytes(), &[0]].concat()))?;
        let mut result = QueryResult::default();
        let mut refused = None;
        loop {
            let (kind, body) = match (self.message(), refused.take()) {
                (Err(error @ ProbeError::Refused(_)), None) => {
                    refused = Some(error);
                    continue;
                }
                // A fatal error ends the connection; the words before it are the reason.
                (Err(_), Some(reason)) => return Err(reason),
                (message, reason) => {
                    refused = reason;
                    message?
                }
            };
            match kind {
                b'T' => result.columns = columns(&body)?,
                b'D' => result.rows.push(cells(&body)?),
                b'Z' => return refused.map_or(Ok(result), Err),
                _ => {}
            }
        }
    }
}

/// Without `pg_monitor` the state of other users' sessions is hidden, so counts would be too low.
fn work(row: &HashMap<&str, &str>) -> ServerWork {
    let count = |name: &str| row.get(name)?.parse::<i64>().ok();
    let seconds = |name: &str| row.get(name)?.parse::<f64>().ok();
    if count("hidden").is_some_and(|hidden| hidden > 0) {
        return ServerWork::default();
    }
    let word = row.get("query").and_then(|query| super::first_word(query));
    ServerWork {
        sessions_active: count("active"),
        sessions_on_cpu: count("on_cpu"),
        connections_idle: count("idle"),
        longest_statement_seconds: seconds("runs"),
        longest_statement: row.get("runner").map(|runner| match word {
            Some(word) => format!("{runner} ({word})"),
            None => (*runner).to_owned(),
        }),
        idle_transaction_seconds: seconds("rests"),
        idle_transaction: row.get("holder").map(|holder| (*holder).to_owned()),
        ..ServerWork::default()
    }
}

fn links(role: &'static str, result: &QueryResult) -> Vec<ReplicaLink> {
    result.by_name().map(|row| link(role, &row)).collect()
}

fn link(role: &'static str, row: &HashMap<&str, &str>) -> ReplicaLink {
    let [unsent_bytes, unapplied_bytes, retained_bytes, source_position, applied_position] =
        ["unsent", "unapplied", "retained", "position", "applied"]
            .map(|name| row.get(name)?.parse::<i64>().ok());
    let [is_active, is_paused] = ["active", "paused"].map(|name| Some(*row.get(name)? == "t"));
    let state = row.get("state").copied().unwrap_or_default();
    ReplicaLink {
        role,
        peer: row.get("peer").copied().unwrap_or_default().to_owned(),
        state: state.to_owned(),
        is_running: is_active.or(Some(state == "streaming")),
        is_paused,
        unsent_bytes,
        unapplied_bytes,
        retained_bytes,
        lag_seconds: row.get("lag").and_then(|text| text.parse().ok()),
        source_position,
        applied_position,
        ..ReplicaLink::default()
    }
}

/// Frames a message: its kind (none at the start), its length including the length field, its body.
fn framed(kind: Option<u8>, body: &[u8]) -> Vec<u8> {
    let length = i32::try_from(body.len() + 4).unwrap_or(i32::MAX);
    let mut bytes: Vec<u8> = kind.into_iter().collect();
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

fn error_message(body: &[u8]) -> String {
    let mut fields = MessageFields(body);
    while let Ok([kind]) = fields.take(1).map(|kind| <[u8; 1]>::try_from(kind).unwrap_or_default())
    {
        match fields.text() {
            Ok(text) if kind == b'M' => return text,
            Ok(_) => {}
            Err(_) => break,
        }
    }
    "it refused without a reason".to_owned()
}

fn columns(body: &[u8]) -> Result<Vec<String>, ProbeError> {
    let mut fields = MessageFields(body);
    let count = count(&mut fields)?;
    (0..count)
        .map(|_| {
            let name = fields.text()?;
            fields.take(18)?;
            Ok(name)
        })
        .collect()
}

fn cells(body: &[u8]) -> Result<Vec<Option<String>>, ProbeError> {
    let mut fields = MessageFields(body);
    let count = count(&mut fields)?;
    (0..count)
        .map(|_| {
            let length = i32::from_be_bytes(fields.take(4)?.try_into().unwrap_or_default());
            let Ok(length) = usize::try_from(length) else { return Ok(None) };
            Ok(Some(String::from_utf8_lossy(fields.take(length)?).into_owned()))
        })
        .collect()
}

fn count(fields: &mut MessageFields<'_>) -> Result<u16, ProbeError> {
    Ok(u16::from_be_bytes(fields.take(2)?.try_into().unwrap_or_default()))
}

/// Inputs of a SCRAM login: the client's first message, the server's reply, the password.
struct ScramExchange<'a> {
    first: &'a str,
    challenge: &'a str,
    password: &'a str,
}

fn hmac_key(bytes: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, bytes)
}

/// RFC 5802 §3: returns the client's final message, and the signature that the server must send.
fn respond(exchange: &ScramExchange<'_>) -> Result<(String, String), ProbeError> {
    let ScramExchange { first, challenge, password } = *exchange;
    let [Some(nonce), Some(salt), Some(rounds)] = ["r=", "s=", "i="]
        .map(|name| challenge.split(',').find_map(|part| part.strip_prefix(name)))
    else {
        return Err(ProbeError::Protocol("a challenge without nonce, salt or rounds"));
    };
    let salt =
        BASE64.decode(salt).map_err(|_| ProbeError::Protocol("a salt that is not base64"))?;
    let rounds = rounds.parse().ok().filter(|rounds| *rounds <= ITERATION_LIMIT);
    let rounds = rounds.and_then(std::num::NonZeroU32::new);
    let rounds = rounds
        .ok_or(ProbeError::Protocol("an iteration count that is not a number up to a million"))?;
    let own = first.split_once("r=").map_or("", |(_, own)| own);
    if !nonce.starts_with(own) {
        return Err(ProbeError::Protocol("another nonce than the one sent"));
    }
    let mut salted = [0; digest::SHA256_OUTPUT_LEN];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, &salt, password.as_bytes(), &mut salted);
    let bare = format!("c=biws,r={nonce}");
    let all = format!("{first},{challenge},{bare}");
    let client_key = hmac::sign(&hmac_key(&salted), b"Client Key");
    let stored = digest::digest(&digest::SHA256, client_key.as_ref());
    let signature = hmac::sign(&hmac_key(stored.as_ref()), all.as_bytes());
    let proof: Vec<u8> = client_key
        .as_ref()
        .iter()
        .zip(signature.as_ref())
        .map(|(one, other)| one ^ other)
        .collect();
    let server_key = hmac::sign(&hmac_key(&salted), b"Server Key");
    let server = hmac::sign(&hmac_key(server_key.as_ref()), all.as_bytes());
    Ok((format!("{bare},p={}", BASE64.encode(proof)), BASE64.encode(server)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exchange in RFC 7677 §3.
    #[test]
    fn login_is_that_of_the_standard() {
        let first = "n=user,r=rOprNGfwEbeRWgbNEkqO";
        let challenge = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let mut exchange = ScramExchange { first, challenge, password: "pencil" };
        let (result, signature) = respond(&exchange).unwrap();
        assert_eq!(
            result,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert_eq!(signature, "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        exchange.challenge = "r=other,s=W22Z,i=4096";
        assert!(respond(&exchange).is_err());
    }

    #[test]
    fn any_bytes_are_parsed_or_rejected_without_panic() {
        arbtest::arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            let _ = (error_message(&bytes), columns(&bytes), cells(&bytes));
            let challenge = String::from_utf8_lossy(&bytes);
            let _ =
                respond(&ScramExchange { first: "n=,r=x", challenge: &challenge, password: "x" });
            Ok(())
        });
    }
}
