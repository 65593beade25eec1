//! `pg_activity`: sessions of PostgreSQL servers on this host, by the titles of their processes.
//!
//! Source: PostgreSQL documentation §28.1, ps_status.c: `postgres: [cluster:] user database host
//! activity`, where ` waiting` follows the command while the session waits for a lock. That needs
//! no login and has no text of a statement. With `update_process_title = off` titles do not change.
//! A session that waits for one lock hardly runs; one that gets many contended locks one after the
//! other does, and only `/proc/PID/schedstat` tells the two apart.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use weir_tables::{Batch, Micros, PgActivity, PgActivityRows};

use super::process::SocketOwner;
use super::run::{DutyCycle, Stopwatch};
use super::{CollectResult, Collector, FullRound, View, take, text};

/// Pace of reading titles: 5 µs for each session.
const DUTY_CYCLE: DutyCycle = DutyCycle { cost_ratio: 0.001, pause_seconds: (1.5, 60.0) };
const FULL_ROUND_SECONDS: f64 = 60.0;
/// A lock that is waited for longer is a pile-up, as for a server that is queried.
const LONG_WAIT_SECONDS: f64 = 5.0;
/// Times that a session may run within one wait: at its start, at `deadlock_timeout`, at a signal.
const RUNS_OF_A_WAIT: i64 = 3;
const SERVER_LIMIT: usize = 32;
const SESSION_LIMIT: usize = 4096;
/// A title is at most as long as the arguments and environment that it replaces.
const TITLE_BYTES: u64 = 1024;
const NAME_CHARS: usize = 64;

#[derive(Debug, Default)]
pub(super) struct PgActivityCollector {
    rows: PgActivityRows,
    sessions: HashMap<u32, SessionState>,
    next: Option<Micros>,
    full_round: FullRound,
}

/// What a session does, since when it has been seen to do only that.
#[derive(Clone, Copy, Debug)]
struct SessionState {
    activity: Activity,
    since: Micros,
    runs: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    Idle,
    IdleInTransaction,
    Running,
    Waiting,
}

/// A title of a client's session, in parts.
#[derive(Debug, PartialEq, Eq)]
struct SessionTitle<'a> {
    user: &'a str,
    database: &'a str,
    activity: Activity,
    command: &'a str,
}

/// A postmaster and where it listens.
struct Postmaster {
    process_id: u32,
    netns: Arc<str>,
    port: Option<u16>,
}

/// The sessions of one server.
#[derive(Debug, Default)]
struct ServerSums {
    sessions: i64,
    active: i64,
    waiting: i64,
    waiting_on_lock: i64,
    idle_in_transaction: i64,
    longest_wait: Option<f64>,
    blocker: Option<(bool, f64, String)>,
    queued_change: Option<(f64, String)>,
}

impl Collector for PgActivityCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        if !view.is_live || !DUTY_CYCLE.is_due(self.next, now) {
            return Ok(());
        }
        let stopwatch = Stopwatch::start();
        let is_full = self.full_round.begin(now, FULL_ROUND_SECONDS);
        let before = std::mem::take(&mut self.sessions);
        let proc = view.path("proc");
        for server in postmasters(view) {
            let sums = self.look(&proc, server.process_id, &before, now);
            if !is_full && sums.waiting == 0 {
                continue;
            }
            self.rows.push(&PgActivity {
                ts: now,
                host: &view.host,
                netns: &server.netns,
                process_id: server.process_id.into(),
                server_port: server.port.map(i64::from),
                sessions: sums.sessions,
                sessions_active: sums.active,
                waiting: sums.waiting,
                waiting_on_lock: sums.waiting_on_lock,
                longest_wait_seconds: sums.longest_wait,
                idle_in_transaction: sums.idle_in_transaction,
                blocker: sums.blocker.as_ref().map(|(_, _, text)| text.as_str()),
                queued_change: sums.queued_change.as_ref().map(|(_, text)| text.as_str()),
            });
        }
        take(&mut self.rows, out);
        self.next = Some(DUTY_CYCLE.next_run(stopwatch.stop(), now));
        Ok(())
    }
}

impl PgActivityCollector {
    /// Reads the titles of a server's processes.
    fn look(
        &mut self,
        proc: &Path,
        postmaster: u32,
        before: &HashMap<u32, SessionState>,
        now: Micros,
    ) -> ServerSums {
        let mut sums = ServerSums::default();
        let children = fs::read(proc.join(format!("{postmaster}/task/{postmaster}/children")));
        let children = children.unwrap_or_default();
        let children = text::fields(&children).filter_map(text::int);
        for process_id in children.filter_map(|id| u32::try_from(id).ok()) {
            let dir = proc.join(process_id.to_string());
            let Some(bytes) = title(&dir) else { continue };
            let line = String::from_utf8_lossy(&bytes);
            let Some(session) = SessionTitle::parse(&line) else { continue };
            if self.sessions.len() >= SESSION_LIMIT {
                break;
            }
            let state = SessionState::next(before.get(&process_id), session.activity, &dir, now);
            self.sessions.insert(process_id, state);
            sums.add(process_id, &session, now.seconds_since(state.since));
        }
        if sums.waiting == 0 {
            sums.blocker = None;
        }
        sums
    }
}

impl SessionState {
    fn next(before: Option<&Self>, activity: Activity, dir: &Path, now: Micros) -> Self {
        let is_waiting = activity == Activity::Waiting;
        let runs = if is_waiting { runs(dir) } else { None };
        let same = before.filter(|before| before.activity == activity && before.since <= now);
        // Compared with the count at the wait's beginning, which is kept.
        let same = same.filter(|before| match (before.runs, runs) {
            (Some(first), Some(now)) => now - first <= RUNS_OF_A_WAIT,
            _ => true,
        });
        same.copied().unwrap_or(Self { activity, since: now, runs })
    }
}

impl ServerSums {
    fn add(&mut self, process_id: u32, session: &SessionTitle<'_>, seconds: f64) {
        self.sessions += 1;
        let named = |what: &str| {
            let [user, database] = [session.user, session.database]
                .map(|name| name.chars().take(NAME_CHARS).collect::<String>());
            format!("process {process_id} ({user} in database {database}), {what}")
        };
        match session.activity {
            Activity::Idle => {}
            Activity::IdleInTransaction => {
                self.idle_in_transaction += 1;
                self.suspect(true, seconds, || named("idle in transaction"));
            }
            Activity::Running => {
                self.active += 1;
                self.suspect(false, seconds, || named(session.command));
            }
            Activity::Waiting => {
                self.active += 1;
                self.waiting += 1;
                self.waiting_on_lock += i64::from(seconds > LONG_WAIT_SECONDS);
                let longest = self.longest_wait.get_or_insert(seconds);
                *longest = longest.max(seconds);
                let is_change =
                    !["SELECT", "INSERT", "UPDATE", "DELETE"].contains(&session.command);
                let is_older = self.queued_change.as_ref().is_none_or(|(age, _)| seconds > *age);
                if is_change && is_older {
                    self.queued_change = Some((seconds, named(session.command)));
                }
            }
        }
    }

    /// Keeps the session that holds a lock more likely than the one so far.
    fn suspect(&mut self, is_idle: bool, seconds: f64, text: impl Fn() -> String) {
        let is_better = self
            .blocker
            .as_ref()
            .is_none_or(|(was_idle, age, _)| (is_idle, seconds) > (*was_idle, *age));
        if is_better {
            self.blocker = Some((is_idle, seconds, text()));
        }
    }
}

impl<'a> SessionTitle<'a> {
    /// `None` for processes that serve no client.
    fn parse(title: &'a str) -> Option<Self> {
        let rest = title.strip_prefix("postgres: ")?;
        let words: Vec<&str> = rest.split(' ').collect();
        let place = words.iter().position(|word| is_client(word))?;
        let [.., user, database, _] = words.get(..=place)? else { return None };
        // `walsender USER HOST` has no database.
        if *user == "walsender" {
            return None;
        }
        let start = rest.find(words.get(place)?)? + words.get(place)?.len();
        let activity = rest.get(start..)?.trim();
        let (command, is_waiting) =
            activity.strip_suffix(" waiting").map_or((activity, false), |command| (command, true));
        let activity = match command {
            "authentication" | "startup" | "" => return None,
            _ if is_waiting => Activity::Waiting,
            "idle" => Activity::Idle,
            "idle in transaction" | "idle in transaction (aborted)" => Activity::IdleInTransaction,
            _ => Activity::Running,
        };
        Some(Self { user, database, activity, command })
    }
}

/// `[local]`, or `address(port)`.
fn is_client(word: &str) -> bool {
    let port = word.strip_suffix(')').and_then(|word| word.split_once('('));
    word == "[local]"
        || port.is_some_and(|(address, port)| !address.is_empty() && port.parse::<u16>().is_ok())
}

/// What a process shows as its first argument.
fn title(dir: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(128);
    fs::File::open(dir.join("cmdline")).ok()?.take(TITLE_BYTES).read_to_end(&mut bytes).ok()?;
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    bytes.truncate(bytes[..end].trim_ascii_end().len());
    Some(bytes)
}

/// How often a process has been given a CPU: the third number of its `schedstat`.
fn runs(dir: &Path) -> Option<i64> {
    text::int(text::fields(fs::read(dir.join("schedstat")).ok()?.trim_ascii_end()).nth(2)?)
}

/// The PostgreSQL servers that listen, each once.
fn postmasters(view: &View) -> Vec<Postmaster> {
    let mut found: Vec<Postmaster> = Vec::new();
    let mut note = |owner: Option<&SocketOwner>, netns: &Arc<str>, port: Option<u16>| {
        let Some(owner) = owner.filter(|owner| is_postgresql(&owner.name)) else { return };
        if let Some(server) = found.iter_mut().find(|one| one.process_id == owner.process_id) {
            server.port = server.port.into_iter().chain(port).min();
        } else if found.len() < SERVER_LIMIT {
            let (process_id, netns) = (owner.process_id, netns.clone());
            found.push(Postmaster { process_id, netns, port });
        }
    };
    let owner_of = |inode: u32| view.owners.get(&inode).and_then(Option::as_ref);
    for listener in &view.listeners {
        note(owner_of(listener.socket.inode), &listener.netns, Some(listener.socket.port));
    }
    for listener in &view.unix_listeners {
        note(owner_of(listener.socket.inode), &listener.netns, None);
    }
    found
}

fn is_postgresql(name: &str) -> bool {
    matches!(name, "postgres" | "postmaster")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(title: &str) -> Option<(&str, &str, Activity, &str)> {
        SessionTitle::parse(title)
            .map(|session| (session.user, session.database, session.activity, session.command))
    }

    #[test]
    fn titles_of_sessions_are_read_and_those_of_other_processes_are_not() {
        for (title, expected) in [
            ("postgres: app shop [local] idle", Some(("app", "shop", Activity::Idle, "idle"))),
            (
                "postgres: 15/main: app shop 127.0.0.1(53412) UPDATE waiting",
                Some(("app", "shop", Activity::Waiting, "UPDATE")),
            ),
            (
                "postgres: app shop fd00::7(40000) idle in transaction (aborted)",
                Some(("app", "shop", Activity::IdleInTransaction, "idle in transaction (aborted)")),
            ),
            (
                "postgres: main: app shop db.example(5000) ALTER TABLE waiting",
                Some(("app", "shop", Activity::Waiting, "ALTER TABLE")),
            ),
            (
                "postgres: app shop [local] SELECT",
                Some(("app", "shop", Activity::Running, "SELECT")),
            ),
            ("postgres: app shop [local] authentication", None),
            ("postgres: 15/main: walsender rep 10.0.0.2(5555) streaming 0/3000060", None),
            ("postgres: 15/main: autovacuum worker shop", None),
            ("postgres: 15/main: parallel worker for PID 812", None),
            ("postgres: checkpointer", None),
            ("/usr/lib/postgresql/15/bin/postgres -D /var/lib/postgresql/15/main", None),
            ("postgres: [local]", None),
            ("", None),
        ] {
            assert_eq!(parse(title), expected, "{title}");
        }
    }

    /// A directory like `/proc` with a postmaster 100 and its children.
    fn proc(children: &[(u32, &str, i64)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: String, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let ids: Vec<String> = children.iter().map(|(id, _, _)| id.to_string()).collect();
        put("100/task/100/children".into(), &ids.join(" "));
        for (id, title, runs) in children {
            put(format!("{id}/cmdline"), &format!("{title}\0\0\0"));
            put(format!("{id}/schedstat"), &format!("1000 2000 {runs}\n"));
        }
        dir
    }

    fn look(
        collector: &mut PgActivityCollector,
        second: i64,
        children: &[(u32, &str, i64)],
    ) -> ServerSums {
        let (dir, before) = (proc(children), std::mem::take(&mut collector.sessions));
        collector.look(dir.path(), 100, &before, Micros(second * 1_000_000))
    }

    #[test]
    fn sessions_behind_a_migration_wait_long_and_sessions_that_run_do_not() {
        let mut collector = PgActivityCollector::default();
        let host = |runs| {
            [
                (101, "postgres: report shop [local] idle in transaction", 900),
                (102, "postgres: deploy shop [local] ALTER TABLE waiting", 40),
                (103, "postgres: app shop [local] SELECT waiting", 70),
                (104, "postgres: app shop [local] UPDATE waiting", runs),
                (105, "postgres: app shop [local] idle", 5),
                (106, "postgres: checkpointer", 5),
            ]
        };
        let first = look(&mut collector, 0, &host(10));
        assert_eq!([first.sessions, first.waiting, first.waiting_on_lock], [5, 3, 0]);
        look(&mut collector, 4, &host(60));
        let later = look(&mut collector, 8, &host(110));
        // Process 104 gets one contended lock after the other.
        assert_eq!([later.active, later.waiting, later.waiting_on_lock], [3, 3, 2]);
        assert_eq!(later.idle_in_transaction, 1);
        assert_eq!(later.longest_wait, Some(8.0));
        let blocker = later.blocker.unwrap().2;
        assert_eq!(blocker, "process 101 (report in database shop), idle in transaction");
        let change = later.queued_change.unwrap().1;
        assert_eq!(change, "process 102 (deploy in database shop), ALTER TABLE");
    }

    #[test]
    fn without_a_waiting_session_nobody_is_a_blocker() {
        let mut collector = PgActivityCollector::default();
        let sums = look(&mut collector, 0, &[(101, "postgres: app shop [local] SELECT", 1)]);
        assert_eq!((sums.active, sums.waiting), (1, 0));
        assert!(sums.blocker.is_none() && sums.longest_wait.is_none());
    }
}
