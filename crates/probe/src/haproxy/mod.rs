//! HAProxy's own counters, sampled every 2 s: `show stat` and `show info` on its stats socket, or
//! the CSV of its statistics page (management guide §9.1 and §9.3).
//!
//! HAProxy writes no log file itself, so these counters are often all that can be read of it. The
//! surprising thing: a reload starts a new process whose counters begin at zero.

mod stat;
mod target;

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weir_tables::{Micros, ProxyStat, ProxyStatRows};

use stat::{StatEntry, StatTotals};
pub(super) use target::StatTarget;
pub(super) use target::targets;
use target::{StatSource, server_address};

/// Timeout for connecting, and for each read and write.
const WAIT: Duration = Duration::from_secs(1);
const RESPONSE_LIMIT: u64 = 16 << 20;
/// Frontends, backends and servers that become rows.
const ENTRY_LIMIT: usize = 2000;
/// Shortest and longest seconds between two samples.
const SAMPLE_SECONDS: (f64, f64) = (2.0, 30.0);
/// Share of the time that HAProxy may spend on replies.
const TIME_PART: f64 = 0.02;
/// An unchanged entry is written again after this long.
const REPEAT_SECONDS: f64 = 9.5;

/// Samples every HAProxy of this host.
#[derive(Debug, Default)]
pub(super) struct HaproxyProber {
    known: HashMap<StatTarget, SampledProxy>,
}

#[derive(Debug, Default)]
struct SampledProxy {
    sampled_at: Option<Micros>,
    pause_seconds: f64,
    process_id: Option<i64>,
    written: HashMap<EntryName, WrittenEntry>,
}

/// Kind, proxy and server.
type EntryName = (&'static str, String, String);

#[derive(Debug)]
struct WrittenEntry {
    at: Micros,
    entry: StatEntry,
}

/// One reply: the entries, and the source that sent it.
struct StatReply {
    source: String,
    entries: Vec<StatEntry>,
}

impl HaproxyProber {
    /// Samples the targets that are due.
    pub(super) fn probe(
        &mut self,
        targets: &[StatTarget],
        host: &str,
        clock: &dyn Fn() -> Micros,
    ) -> ProxyStatRows {
        let mut rows = ProxyStatRows::default();
        self.known.retain(|known, _| targets.contains(known));
        for target in targets {
            let sampled = self.known.entry(target.clone()).or_default();
            let now = clock();
            if crate::is_due(&mut sampled.sampled_at, now, sampled.pause_seconds) {
                sampled.sample(target, (host, now), &mut rows);
            }
        }
        rows
    }
}

impl SampledProxy {
    fn sample(
        &mut self,
        target: &StatTarget,
        (host, now): (&str, Micros),
        rows: &mut ProxyStatRows,
    ) {
        let started = Instant::now();
        let reply = ask_first(target);
        let duration_seconds = started.elapsed().as_secs_f64();
        let (least, most) = SAMPLE_SECONDS;
        self.pause_seconds = (duration_seconds / TIME_PART).clamp(least, most);
        let reply = match reply {
            Ok(reply) => reply,
            Err((source, error)) => {
                rows.push(&ProxyStat {
                    error: Some(&error),
                    ..row(&StatEntry::of_kind("error"), (host, now), &source, duration_seconds)
                });
                return;
            }
        };
        self.forget_previous_process(&reply.entries);
        for mut entry in reply.entries.into_iter().take(ENTRY_LIMIT) {
            if entry.address.is_none() {
                entry.address = server_address(target, &entry);
            }
            let name = entry.name();
            let before = self.written.get(&name);
            let age = before.map(|before| now.seconds_since(before.at));
            if before.is_some_and(|before| before.entry.is_same(&entry))
                && age.is_some_and(|age| (0.0..REPEAT_SECONDS).contains(&age))
            {
                continue;
            }
            let increases = before.map_or_else(StatTotals::default, |before| {
                entry.totals.since(&before.entry.totals)
            });
            rows.push(&ProxyStat {
                sessions_increase: increases.sessions,
                responses_increase: increases.responses,
                responses_5xx_increase: increases.responses_5xx,
                responses_4xx_increase: increases.responses_4xx,
                connect_errors_increase: increases.connect_errors,
                response_errors_increase: increases.response_errors,
                retries_increase: increases.retries,
                client_aborts_increase: increases.client_aborts,
                checks_failed_increase: increases.checks_failed,
                handshake_failures_increase: increases.handshake_failures,
                interval_seconds: age,
                ..row(&entry, (host, now), &reply.source, duration_seconds)
            });
            self.written.insert(name, WrittenEntry { at: now, entry });
        }
        self.written.retain(|_, written| now.seconds_since(written.at) < 60.0);
    }

    /// Drops the counters of a process that a reload replaced.
    fn forget_previous_process(&mut self, entries: &[StatEntry]) {
        let process_id = entries.iter().find_map(|entry| entry.process_id);
        if process_id != self.process_id {
            self.written.clear();
            self.process_id = process_id;
        }
    }
}

fn row<'a>(
    entry: &'a StatEntry,
    (host, now): (&'a str, Micros),
    source: &'a str,
    duration_seconds: f64,
) -> ProxyStat<'a> {
    ProxyStat {
        ts: now,
        host,
        program: "haproxy",
        source,
        kind: entry.kind,
        proxy_name: &entry.proxy,
        server_name: entry.server.as_deref(),
        upstream_address: entry.address.as_deref(),
        mode: entry.mode.as_deref(),
        state: entry.state.as_deref(),
        state_seconds: entry.state_seconds,
        check_status: entry.check_status.as_deref(),
        check_code: entry.check_code,
        check_text: entry.check_text.as_deref(),
        servers_up: entry.servers_up,
        servers_total: entry.servers_total,
        queue_length: entry.queue_length,
        sessions: entry.sessions,
        session_limit: entry.session_limit,
        sessions_total: entry.totals.sessions,
        queue_seconds: entry.queue_seconds,
        connect_seconds: entry.connect_seconds,
        response_seconds: entry.response_seconds,
        total_seconds: entry.total_seconds,
        idle_ratio: entry.idle_ratio,
        process_id: entry.process_id,
        duration_seconds,
        ..ProxyStat::default()
    }
}

/// Asks the target's sources in order; the first that replies counts.
fn ask_first(target: &StatTarget) -> Result<StatReply, (String, String)> {
    let mut failures = Vec::new();
    for source in &target.sources {
        match inside(target.process_id, source) {
            Ok(entries) => return Ok(StatReply { source: source.to_string(), entries }),
            Err(error) => failures.push((source.to_string(), reason(source, &error))),
        }
    }
    Err(failures.into_iter().next().unwrap_or_default())
}

fn reason(source: &StatSource, error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("no answer within {} s", WAIT.as_secs())
        }
        _ => error.to_string().to_lowercase(),
    };
    format!("cannot query HAProxy at `{source}`: {why}")
}

/// Queries a proxy in a container from inside its network namespace.
fn inside(process_id: Option<i64>, source: &StatSource) -> io::Result<Vec<StatEntry>> {
    let entrance = process_id.map(|id| PathBuf::from(format!("/proc/{id}/ns/net")));
    let differs = |entrance: &PathBuf| {
        let theirs = std::fs::read_link(entrance).ok();
        theirs.is_some() && theirs != std::fs::read_link("/proc/self/ns/net").ok()
    };
    match (source, entrance.filter(differs)) {
        (StatSource::Socket(path), _) => ask_socket(&seen_path(process_id, path)),
        (_, Some(entrance)) => weir_collect::host::inside_netns(&entrance, || ask(source))?,
        (_, None) => ask(source),
    }
}

/// The path of a process' file as seen from here.
fn seen_path(process_id: Option<i64>, path: &Path) -> PathBuf {
    let Some(id) = process_id else { return path.to_owned() };
    let theirs = std::fs::read_link(format!("/proc/{id}/ns/mnt")).ok();
    let is_here = theirs.is_none() || theirs == std::fs::read_link("/proc/self/ns/mnt").ok();
    let process = PathBuf::from(format!("/proc/{id}"));
    // Below its root, the socket is opened with the rights of the process' owner.
    if is_here && (!process.exists() || weir_access::is_trusted_process(&process)) {
        return path.to_owned();
    }
    let inner = path.strip_prefix("/").unwrap_or(path);
    PathBuf::from(format!("/proc/{id}/root")).join(inner)
}

fn ask(source: &StatSource) -> io::Result<Vec<StatEntry>> {
    match source {
        StatSource::Socket(path) => ask_socket(path),
        StatSource::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, WAIT)?;
            stream.set_read_timeout(Some(WAIT))?;
            stream.set_write_timeout(Some(WAIT))?;
            command(stream)
        }
        StatSource::Page { address, path } => {
            let mut stream = TcpStream::connect_timeout(address, WAIT)?;
            stream.set_read_timeout(Some(WAIT))?;
            stream.set_write_timeout(Some(WAIT))?;
            let request = format!(
                "GET {path};csv HTTP/1.0\r\nHost: {address}\r\nUser-Agent: weir\r\nConnection: close\r\n\r\n"
            );
            stream.write_all(request.as_bytes())?;
            let text = read_all(stream)?;
            stat::parse(body(&text)?)
        }
    }
}

/// The body of a response; the header ends at the first empty line.
fn body(text: &str) -> io::Result<&str> {
    let status = text.split(' ').nth(1).unwrap_or_default();
    if status != "200" {
        return Err(io::Error::other(format!("its statistics page answers with status {status}")));
    }
    Ok(text.split_once("\r\n\r\n").map_or("", |(_, body)| body))
}

fn ask_socket(path: &Path) -> io::Result<Vec<StatEntry>> {
    let stream = weir_access::connect(path)?;
    stream.set_read_timeout(Some(WAIT))?;
    stream.set_write_timeout(Some(WAIT))?;
    command(stream)
}

/// Both commands at once: HAProxy closes the connection after the last reply.
fn command(mut stream: impl Read + Write) -> io::Result<Vec<StatEntry>> {
    stream.write_all(b"show info; show stat\n")?;
    stat::parse(&read_all(stream)?)
}

fn read_all(stream: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    stream.take(RESPONSE_LIMIT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests;
