//! Redis and compatible servers: RESP2 (redis.io, "Redis serialization protocol"), `AUTH`, `INFO`.

use std::collections::HashMap;

use super::stream::{MESSAGE_LIMIT, ProbeError, ServerStream};
use super::{
    CounterTotals, DatabaseProtocol, DatabaseSession, DatabaseTarget, OwnMember, ReplicaLink,
    ServerSnapshot, ServerWork,
};

const LINE_LIMIT: usize = 4096;

struct RedisSession {
    stream: ServerStream,
    /// Id of the newest entry of SLOWLOG that was read; `None` before the first reading.
    newest_slow: Option<i64>,
    /// Whether the user may not read SLOWLOG.
    is_slowlog_refused: bool,
}

/// A reply; null and arrays of arrays are possible.
#[derive(Debug, PartialEq)]
enum RedisReply {
    Text(String),
    Number(i64),
    List(Vec<RedisReply>),
    Null,
}

/// Entries of SLOWLOG that one probe reads.
const SLOWLOG_ENTRIES: &str = "16";
/// Commands of the last seconds count at the first reading on a connection.
const RECONNECT_SECONDS: i64 = 6;
/// Elements of one array, and depth of arrays.
const LIST_LIMIT: usize = 4096;
const DEPTH_LIMIT: usize = 5;

pub(super) struct Redis;

impl DatabaseProtocol for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn default_port(&self) -> u16 {
        6379
    }

    fn default_user(&self) -> &'static str {
        ""
    }

    // Its one thread answers after the command before: that wait costs it nothing.
    fn longest_pause(&self) -> f64 {
        2.0
    }

    fn login(
        &self,
        stream: ServerStream,
        target: &DatabaseTarget,
    ) -> Result<Box<dyn DatabaseSession>, ProbeError> {
        let stream = match &target.tls {
            Some(tls) => stream.secured(tls)?,
            None => stream,
        };
        Ok(Box::new(RedisSession::login(stream, target)?))
    }
}

impl DatabaseSession for RedisSession {
    fn snapshot(&mut self) -> Result<ServerSnapshot, ProbeError> {
        let info = self.ask(&["INFO"])?;
        let mut snapshot = read(&info);
        if !self.is_slowlog_refused {
            match self.reply_to(&["SLOWLOG", "GET", SLOWLOG_ENTRIES]) {
                Ok(reply) => {
                    let commands = slow_commands(reply);
                    let known = self.newest_slow.or_else(|| newest_before(&commands, &info));
                    self.newest_slow = known;
                    note_slow(&commands, &mut self.newest_slow, &mut snapshot.work);
                }
                Err(ProbeError::Refused(_)) => self.is_slowlog_refused = true,
                Err(other) => return Err(other),
            }
        }
        Ok(snapshot)
    }
}

impl RedisSession {
    fn login(stream: ServerStream, target: &DatabaseTarget) -> Result<Self, ProbeError> {
        let mut client = Self { stream, newest_slow: None, is_slowlog_refused: false };
        if let Some(password) = &target.password {
            let words: Vec<&str> = match target.user.as_str() {
                "" => vec!["AUTH", password],
                user => vec!["AUTH", user, password],
            };
            client.ask(&words)?;
        }
        Ok(client)
    }

    /// Sends one command and returns its reply as text.
    fn ask(&mut self, words: &[&str]) -> Result<String, ProbeError> {
        match self.reply_to(words)? {
            RedisReply::Text(text) => Ok(text),
            _ => Err(ProbeError::Protocol("a reply that is not text")),
        }
    }

    fn reply_to(&mut self, words: &[&str]) -> Result<RedisReply, ProbeError> {
        let mut command = format!("*{}\r\n", words.len());
        for word in words {
            command += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.stream.send(command.as_bytes())?;
        self.reply(0)
    }

    fn reply(&mut self, depth: usize) -> Result<RedisReply, ProbeError> {
        let line = self.line()?;
        match line.split_at_checked(1) {
            Some(("+", words)) => Ok(RedisReply::Text(words.to_owned())),
            Some(("-", words)) => Err(ProbeError::Refused(words.to_owned())),
            Some((":", number)) => Ok(RedisReply::Number(number.parse().unwrap_or_default())),
            Some(("$" | "*", "-1")) => Ok(RedisReply::Null),
            Some(("$", length)) => {
                let length = length.parse::<usize>().ok().filter(|length| *length < MESSAGE_LIMIT);
                let length = length.ok_or(ProbeError::Protocol("an invalid length"))?;
                let bytes = self.stream.vector(length + 2)?;
                Ok(RedisReply::Text(String::from_utf8_lossy(&bytes[..length]).into_owned()))
            }
            Some(("*", count)) if depth < DEPTH_LIMIT => {
                let count = count.parse::<usize>().ok().filter(|count| *count < LIST_LIMIT);
                let count = count.ok_or(ProbeError::Protocol("an invalid length"))?;
                (0..count)
                    .map(|_| self.reply(depth + 1))
                    .collect::<Result<_, _>>()
                    .map(RedisReply::List)
            }
            _ => Err(ProbeError::Protocol("a reply of an unknown type")),
        }
    }

    fn line(&mut self) -> Result<String, ProbeError> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            if line.len() > LINE_LIMIT {
                return Err(ProbeError::Protocol("a line longer than 4 KiB"));
            }
            line.extend(self.stream.bytes::<1>()?);
        }
        line.truncate(line.len() - 2);
        Ok(String::from_utf8_lossy(&line).into_owned())
    }
}

/// An entry of SLOWLOG: id, Unix time in seconds, duration in µs, the command's name.
#[derive(Clone, Debug, PartialEq)]
struct SlowCommand {
    id: i64,
    at: i64,
    micros: i64,
    name: String,
}

/// Entries of SLOWLOG GET: id, time, µs, arguments, and more in newer versions. Of the arguments
/// only the command's name is kept.
fn slow_commands(reply: RedisReply) -> Vec<SlowCommand> {
    let RedisReply::List(entries) = reply else { return Vec::new() };
    let of_entry = |entry: RedisReply| {
        let RedisReply::List(cells) = entry else { return None };
        let [
            RedisReply::Number(id),
            RedisReply::Number(at),
            RedisReply::Number(micros),
            RedisReply::List(words),
            ..,
        ] = cells.as_slice()
        else {
            return None;
        };
        let Some(RedisReply::Text(name)) = words.first() else { return None };
        let (id, at, micros) = (*id, *at, *micros);
        Some(SlowCommand { id, at, micros, name: super::first_word(name)? })
    };
    entries.into_iter().filter_map(of_entry).collect()
}

/// The newest entry from before the last seconds, for the first reading on a connection: the
/// command that let the previous connection time out is among the later ones.
fn newest_before(commands: &[SlowCommand], info: &str) -> Option<i64> {
    let now = info.lines().find_map(|line| line.strip_prefix("server_time_usec:"))?;
    let now = now.trim().parse::<i64>().ok()? / 1_000_000;
    let old = commands.iter().filter(|command| command.at < now - RECONNECT_SECONDS);
    Some(old.map(|command| command.id).max().unwrap_or(-1))
}

/// Counts entries that are newer than those of the last probe. A restart begins again at id 0.
fn note_slow(commands: &[SlowCommand], newest_slow: &mut Option<i64>, work: &mut ServerWork) {
    // `SLOWLOG RESET` empties the log; ids are not reset.
    let newest = commands.iter().map(|command| command.id).max().or(*newest_slow).unwrap_or(-1);
    let known = newest_slow.replace(newest);
    let Some(known) = known else { return };
    let known = if newest < known { -1 } else { known };
    // The log has more entries than were read when many are slow: ids tell how many.
    work.slow_commands_increase = Some(newest - known);
    let new = commands.iter().filter(|command| command.id > known);
    if let Some(slowest) = new.max_by_key(|command| command.micros) {
        work.slowest_command = Some(slowest.name.clone());
        #[expect(clippy::cast_precision_loss, reason = "microseconds of one command")]
        let seconds = slowest.micros as f64 / 1e6;
        work.slowest_command_seconds = Some(seconds);
    }
}

/// Parses INFO, `name:value` by line.
fn read(info: &str) -> ServerSnapshot {
    let values: HashMap<&str, &str> =
        info.lines().filter_map(|line| line.trim_end().split_once(':')).collect();
    let [version, eviction_policy] =
        ["redis_version", "maxmemory_policy"].map(|name| values.get(name).map(|v| (*v).to_owned()));
    // KeyDB has `active-replica` too.
    let is_replica = values.get("role").map(|role| *role != "master");
    ServerSnapshot {
        version,
        is_replica,
        connections: number(&values, "connected_clients"),
        connection_limit: number(&values, "maxclients"),
        memory_bytes: number(&values, "used_memory"),
        memory_limit_bytes: number(&values, "maxmemory").filter(|limit| *limit > 0),
        eviction_policy,
        totals: CounterTotals {
            connections_refused: number(&values, "rejected_connections"),
            evicted_keys: number(&values, "evicted_keys"),
            writes_refused: refused(&values),
        },
        own: own_member(&values, is_replica),
        // A replica may serve others.
        links: sources(info).chain(replicas(&values)).collect(),
        work: ServerWork {
            blocked_clients: number(&values, "blocked_clients"),
            ..ServerWork::default()
        },
        ..ServerSnapshot::default()
    }
}

/// `errorstat_OOM:count=3`; present after the first error, in servers that count errors (6.2).
fn refused(values: &HashMap<&str, &str>) -> Option<i64> {
    match values.get("errorstat_OOM") {
        Some(count) => count.strip_prefix("count=")?.parse().ok(),
        None => values.contains_key("total_error_replies").then_some(0),
    }
}

fn own_member(values: &HashMap<&str, &str>, is_replica: Option<bool>) -> OwnMember {
    let applied = number(values, "slave_repl_offset").filter(|_| is_replica == Some(true));
    OwnMember {
        cluster: values.get("master_replid").map(|id| (*id).to_owned()),
        position: applied.or_else(|| number(values, "master_repl_offset")),
        term: None,
        is_read_only: match is_replica {
            Some(true) => values.get("slave_read_only").map(|flag| *flag == "1"),
            other => other,
        },
    }
}

fn number(values: &HashMap<&str, &str>, name: &str) -> Option<i64> {
    values.get(name)?.parse().ok()
}

/// What the server replicates from: one source, several with KeyDB, each from its `master_host` on.
fn sources(info: &str) -> impl Iterator<Item = ReplicaLink> {
    let mut groups: Vec<HashMap<&str, &str>> = Vec::new();
    for (name, value) in info.lines().filter_map(|line| line.trim_end().split_once(':')) {
        if name == "master_host" {
            groups.push(HashMap::new());
        }
        if let Some(group) = groups.last_mut() {
            group.entry(name).or_insert(value);
        }
    }
    groups.into_iter().map(|values| source(&values))
}

fn source(values: &HashMap<&str, &str>) -> ReplicaLink {
    let [host, port, status, idle] =
        ["master_host", "master_port", "master_link_status", "master_last_io_seconds_ago"]
            .map(|name| values.get(name).copied().unwrap_or_default());
    ReplicaLink {
        role: "source",
        peer: format!("{host}:{port}"),
        state: status.to_owned(),
        is_running: Some(status == "up"),
        lag_seconds: idle.parse().ok().filter(|age| *age >= 0.0),
        ..ReplicaLink::default()
    }
}

/// `slave0:ip=10.0.0.2,port=6379,state=online,offset=100,lag=0`.
fn replicas(values: &HashMap<&str, &str>) -> Vec<ReplicaLink> {
    let position = values.get("master_repl_offset").and_then(|text| text.parse::<i64>().ok());
    let is_replica =
        |name: &str| name.strip_prefix("slave").is_some_and(|number| number.parse::<u32>().is_ok());
    let mut found: Vec<(&&str, &&str)> =
        values.iter().filter(|(name, _)| is_replica(name)).collect();
    found.sort_unstable();
    found.into_iter().map(|(_, line)| replica(line, position)).collect()
}

fn replica(line: &str, source_position: Option<i64>) -> ReplicaLink {
    let parts: HashMap<&str, &str> =
        line.split(',').filter_map(|part| part.split_once('=')).collect();
    let [ip, port, state, offset, lag] = ["ip", "port", "state", "offset", "lag"]
        .map(|name| parts.get(name).copied().unwrap_or_default());
    let offset = offset.parse::<i64>().ok();
    ReplicaLink {
        role: "replica",
        peer: format!("{ip}:{port}"),
        state: state.to_owned(),
        is_running: Some(state == "online"),
        unsent_bytes: source_position.zip(offset).map(|(position, offset)| position - offset),
        lag_seconds: lag.parse().ok(),
        source_position,
        applied_position: offset,
        ..ReplicaLink::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primary_reports_its_replicas_and_its_memory() {
        let snapshot = read(
            "# Server\r\nredis_version:7.0.15\r\n# Clients\r\nconnected_clients:3\r\nmaxclients:10000\r\n\
             used_memory:900\r\nmaxmemory:1000\r\nmaxmemory_policy:allkeys-lru\r\nevicted_keys:12\r\n\
             rejected_connections:0\r\ntotal_error_replies:4\r\nerrorstat_OOM:count=3\r\nrole:master\r\n\
             slave0:ip=10.0.0.2,port=6379,state=online,offset=80,lag=1\r\nmaster_repl_offset:100\r\n",
        );
        assert_eq!((snapshot.connections, snapshot.connection_limit), (Some(3), Some(10_000)));
        assert_eq!((snapshot.memory_bytes, snapshot.memory_limit_bytes), (Some(900), Some(1000)));
        assert_eq!(
            (snapshot.totals.evicted_keys, snapshot.totals.writes_refused),
            (Some(12), Some(3))
        );
        let link = &snapshot.links[0];
        assert_eq!((link.peer.as_str(), link.unsent_bytes), ("10.0.0.2:6379", Some(20)));
    }

    #[test]
    fn replica_reports_its_source() {
        let snapshot = read(
            "maxmemory:0\nrole:slave\nmaster_host:db1\nmaster_port:6379\nmaster_link_status:down\nmaster_last_io_seconds_ago:-1\n",
        );
        assert_eq!((snapshot.is_replica, snapshot.memory_limit_bytes), (Some(true), None));
        let link = &snapshot.links[0];
        assert_eq!(
            (link.peer.as_str(), link.is_running, link.lag_seconds),
            ("db1:6379", Some(false), None)
        );
    }

    #[test]
    fn replica_that_serves_another_reports_both_sides() {
        let snapshot = read(
            "role:slave\nmaster_host:10.0.0.1\nmaster_port:6379\nmaster_link_status:up\nmaster_last_io_seconds_ago:3\n\
             slave_repl_offset:90\nslave_read_only:1\nmaster_replid:8371\nmaster_repl_offset:90\n\
             slave0:ip=10.0.0.3,port=6379,state=online,offset=70,lag=0\n",
        );
        let links: Vec<_> =
            snapshot.links.iter().map(|l| (l.role, l.peer.as_str(), l.unsent_bytes)).collect();
        assert_eq!(
            links,
            [("source", "10.0.0.1:6379", None), ("replica", "10.0.0.3:6379", Some(20))]
        );
        let own = OwnMember {
            cluster: Some("8371".to_owned()),
            position: Some(90),
            term: None,
            is_read_only: Some(true),
        };
        assert_eq!(snapshot.own, own);
    }

    #[test]
    fn each_source_of_an_active_replica_is_a_link() {
        let snapshot = read(
            "role:active-replica\nMaster 0:\nmaster_host:127.0.0.1\nmaster_port:8882\nmaster_link_status:up\n\
             master_last_io_seconds_ago:0\nMaster 1:\nmaster_host:127.0.0.1\nmaster_port:8883\n\
             master_link_status:down\nmaster_last_io_seconds_ago:-1\nconnected_slaves:0\n",
        );
        let links: Vec<_> =
            snapshot.links.iter().map(|link| (link.peer.as_str(), link.is_running)).collect();
        assert_eq!(links, [("127.0.0.1:8882", Some(true)), ("127.0.0.1:8883", Some(false))]);
    }

    #[test]
    fn only_new_entries_of_the_slow_log_are_counted_and_arguments_are_dropped() {
        let entry = |id, micros, name: &str| {
            let words = vec![RedisReply::Text(name.to_owned()), RedisReply::Text("secret".into())];
            let cells = [RedisReply::Number(id), RedisReply::Number(9), RedisReply::Number(micros)];
            RedisReply::List(cells.into_iter().chain([RedisReply::List(words)]).collect())
        };
        let (mut newest, mut work) = (None, ServerWork::default());
        let first = slow_commands(RedisReply::List(vec![entry(4, 9_000_000, "eval")]));
        note_slow(&first, &mut newest, &mut work);
        assert_eq!(work, ServerWork::default());
        let later =
            vec![entry(6, 20_000, "get"), entry(5, 1_500_000, "keys"), entry(4, 9_000_000, "eval")];
        note_slow(&slow_commands(RedisReply::List(later)), &mut newest, &mut work);
        assert_eq!(work.slow_commands_increase, Some(2));
        assert_eq!(work.slowest_command.as_deref(), Some("KEYS"));
        assert_eq!(work.slowest_command_seconds, Some(1.5));
        // A new connection: what is older than some seconds was counted before.
        let commands = slow_commands(RedisReply::List(vec![entry(6, 20_000, "get")]));
        assert_eq!(newest_before(&commands, "server_time_usec:99000000\r\n"), Some(6));
        assert_eq!(newest_before(&commands, "server_time_usec:10000000\r\n"), Some(-1));
        assert_eq!(newest_before(&commands, "redis_version:5\r\n"), None);
        // A restart: the ids begin again.
        note_slow(
            &slow_commands(RedisReply::List(vec![entry(0, 30_000, "sort")])),
            &mut newest,
            &mut work,
        );
        assert_eq!(work.slow_commands_increase, Some(1));
    }

    #[test]
    fn any_text_is_read_without_panic() {
        arbtest::arbtest(|u| {
            let text: String = u.arbitrary()?;
            let _ = read(&format!("role:master\nslave0:{text}\n{text}"));
            Ok(())
        });
    }
}
