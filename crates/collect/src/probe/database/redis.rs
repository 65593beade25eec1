//! Redis and what speaks like it (Valkey, KeyDB): RESP2 (redis.io, "Redis serialization protocol"), `AUTH` and `INFO`.

use std::collections::HashMap;

use super::stream::{Fault, MESSAGE_LIMIT, Stream};
use super::{DatabaseTarget, Link, Look, Totals};

/// Longest first line of an answer.
const LINE_LIMIT: usize = 4096;

/// A connection that is logged in.
pub(super) struct Client(Stream);

impl Client {
    pub(super) fn login(stream: Stream, target: &DatabaseTarget) -> Result<Self, Fault> {
        let mut client = Self(stream);
        if let Some(password) = &target.password {
            let words: Vec<&str> = match target.user.as_str() {
                "" => vec!["AUTH", password],
                user => vec!["AUTH", user, password],
            };
            client.ask(&words)?;
        }
        Ok(client)
    }

    /// One command, and its answer as text.
    fn ask(&mut self, words: &[&str]) -> Result<String, Fault> {
        let mut command = format!("*{}\r\n", words.len());
        for word in words {
            command += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.0.send(command.as_bytes())?;
        let line = self.line()?;
        match line.split_at_checked(1) {
            Some(("+", words)) => Ok(words.to_owned()),
            Some(("-", words)) => Err(Fault::Refused(words.to_owned())),
            Some(("$", length)) => {
                let length = length.parse::<usize>().ok().filter(|length| *length < MESSAGE_LIMIT);
                let length = length.ok_or(Fault::Garbled("a length that is no number"))?;
                let bytes = self.0.vector(length + 2)?;
                Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
            }
            _ => Err(Fault::Garbled("an answer of another kind than text")),
        }
    }

    fn line(&mut self) -> Result<String, Fault> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            if line.len() > LINE_LIMIT {
                return Err(Fault::Garbled("a line longer than 4 KiB"));
            }
            line.extend(self.0.bytes::<1>()?);
        }
        line.truncate(line.len() - 2);
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    pub(super) fn look(&mut self) -> Result<Look, Fault> {
        Ok(read(&self.ask(&["INFO"])?))
    }
}

/// What INFO says, `name:value` by line.
fn read(info: &str) -> Look {
    let values: HashMap<&str, &str> =
        info.lines().filter_map(|line| line.trim_end().split_once(':')).collect();
    let text = |name: &str| values.get(name).map(|text| (*text).to_owned());
    let number = |name: &str| values.get(name)?.parse::<i64>().ok();
    let is_replica = values.get("role").map(|role| *role == "slave");
    Look {
        version: text("redis_version"),
        is_replica,
        connections: number("connected_clients"),
        connection_limit: number("maxclients"),
        memory_bytes: number("used_memory"),
        memory_limit_bytes: number("maxmemory").filter(|limit| *limit > 0),
        eviction_policy: text("maxmemory_policy"),
        totals: Totals {
            connections_refused: number("rejected_connections"),
            evicted_keys: number("evicted_keys"),
            writes_refused: refused(&values),
        },
        links: match is_replica {
            Some(true) => vec![source(&values)],
            _ => replicas(&values),
        },
        ..Look::default()
    }
}

/// `errorstat_OOM:count=3`; it is there from the first such error on, in servers that count errors at all (6.2).
fn refused(values: &HashMap<&str, &str>) -> Option<i64> {
    match values.get("errorstat_OOM") {
        Some(count) => count.strip_prefix("count=")?.parse().ok(),
        None => values.contains_key("total_error_replies").then_some(0),
    }
}

fn source(values: &HashMap<&str, &str>) -> Link {
    let text = |name: &str| values.get(name).copied().unwrap_or_default();
    Link {
        role: "source",
        peer: format!("{}:{}", text("master_host"), text("master_port")),
        state: text("master_link_status").to_owned(),
        is_running: Some(text("master_link_status") == "up"),
        lag_seconds: text("master_last_io_seconds_ago").parse().ok().filter(|age| *age >= 0.0),
        ..Link::default()
    }
}

/// `slave0:ip=10.0.0.2,port=6379,state=online,offset=100,lag=0`.
fn replicas(values: &HashMap<&str, &str>) -> Vec<Link> {
    let position = values.get("master_repl_offset").and_then(|text| text.parse::<i64>().ok());
    let is_replica =
        |name: &str| name.strip_prefix("slave").is_some_and(|number| number.parse::<u32>().is_ok());
    let mut found: Vec<(&&str, &&str)> =
        values.iter().filter(|(name, _)| is_replica(name)).collect();
    found.sort_unstable();
    let link = |line: &str| {
        let parts: HashMap<&str, &str> =
            line.split(',').filter_map(|part| part.split_once('=')).collect();
        let text = |name: &str| parts.get(name).copied().unwrap_or_default();
        let offset = text("offset").parse::<i64>().ok();
        Link {
            role: "replica",
            peer: format!("{}:{}", text("ip"), text("port")),
            state: text("state").to_owned(),
            is_running: Some(text("state") == "online"),
            unsent_bytes: position.zip(offset).map(|(position, offset)| position - offset),
            lag_seconds: text("lag").parse().ok(),
            source_position: position,
            ..Link::default()
        }
    };
    found.into_iter().map(|(_, line)| link(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primary_tells_of_its_replicas_and_its_memory() {
        let look = read(
            "# Server\r\nredis_version:7.0.15\r\n# Clients\r\nconnected_clients:3\r\nmaxclients:10000\r\n\
             used_memory:900\r\nmaxmemory:1000\r\nmaxmemory_policy:allkeys-lru\r\nevicted_keys:12\r\n\
             rejected_connections:0\r\ntotal_error_replies:4\r\nerrorstat_OOM:count=3\r\nrole:master\r\n\
             slave0:ip=10.0.0.2,port=6379,state=online,offset=80,lag=1\r\nmaster_repl_offset:100\r\n",
        );
        assert_eq!((look.connections, look.connection_limit), (Some(3), Some(10_000)));
        assert_eq!((look.memory_bytes, look.memory_limit_bytes), (Some(900), Some(1000)));
        assert_eq!((look.totals.evicted_keys, look.totals.writes_refused), (Some(12), Some(3)));
        let link = &look.links[0];
        assert_eq!((link.peer.as_str(), link.unsent_bytes), ("10.0.0.2:6379", Some(20)));
    }

    #[test]
    fn replica_tells_of_its_source() {
        let look = read(
            "maxmemory:0\nrole:slave\nmaster_host:db1\nmaster_port:6379\nmaster_link_status:down\nmaster_last_io_seconds_ago:-1\n",
        );
        assert_eq!((look.is_replica, look.memory_limit_bytes), (Some(true), None));
        let link = &look.links[0];
        assert_eq!(
            (link.peer.as_str(), link.is_running, link.lag_seconds),
            ("db1:6379", Some(false), None)
        );
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
