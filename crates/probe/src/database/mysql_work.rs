//! What the sessions of a MySQL or MariaDB server do, from its lists of sessions and transactions.
//!
//! The surprising things: a session that waits for a row lock has an ordinary state such as
//! `Updating` and is known only by its transaction, and one that waits for a metadata lock has no
//! transaction that shows it, only its state.

use std::collections::HashMap;

use super::{QueryResult, ServerWork, first_word};

/// Seconds from which a wait for a lock counts, as in PostgreSQL's query.
const WAIT_SECONDS: i64 = 5;

#[derive(Debug, Default, PartialEq)]
pub(super) struct MysqlWork {
    pub(super) waiting_on_lock: i64,
    pub(super) blocker: Option<String>,
    pub(super) columns: ServerWork,
}

#[derive(Debug)]
struct ClientSession<'a> {
    id: &'a str,
    user: &'a str,
    database: Option<&'a str>,
    command: &'a str,
    seconds: i64,
    state: &'a str,
    statement: Option<&'a str>,
}

impl ClientSession<'_> {
    fn name(&self) -> String {
        let database = self.database.map(|name| format!(" on database {name}"));
        format!("process {} of user {}{}", self.id, self.user, database.unwrap_or_default())
    }

    fn is_running(&self) -> bool {
        matches!(self.command, "Query" | "Execute" | "Call")
    }

    /// `Waiting for table metadata lock`, `Waiting for backup lock`, `Waiting for global read lock`
    /// and their kind; `User lock` is `GET_LOCK`, which programs wait for on purpose.
    fn waits_for_table(&self) -> bool {
        self.state.starts_with("Waiting for") && self.state.ends_with("lock")
    }
}

/// Sums up sessions, transactions, and how many transactions each blocking one holds up.
pub(super) fn summary(
    sessions: &QueryResult,
    transactions: &QueryResult,
    blockers: &QueryResult,
) -> MysqlWork {
    let sessions: Vec<ClientSession<'_>> =
        sessions.by_name().filter_map(|row| session(&row)).collect();
    let transactions: Vec<HashMap<&str, &str>> = transactions.by_name().collect();
    let number = |row: &HashMap<&str, &str>, name: &str| row.get(name)?.parse::<i64>().ok();
    let row_waiters: HashMap<&str, i64> = transactions
        .iter()
        .filter(|row| row.get("state") == Some(&"LOCK WAIT"))
        .filter_map(|row| Some((*row.get("id")?, number(row, "waits").unwrap_or_default())))
        .collect();
    let waits = |one: &ClientSession<'_>| row_waiters.contains_key(one.id) || one.waits_for_table();
    let waiting = |one: &&ClientSession<'_>| {
        let row_wait = row_waiters.get(one.id).copied();
        let table_wait = one.waits_for_table().then_some(one.seconds);
        row_wait.max(table_wait).is_some_and(|seconds| seconds >= WAIT_SECONDS)
    };
    let waiting_on_lock =
        i64::try_from(sessions.iter().filter(waiting).count()).unwrap_or(i64::MAX);
    let running = sessions.iter().filter(|one| one.is_running() && !waits(one));
    let longest = running.max_by_key(|one| one.seconds);
    let idle_since = |row: &HashMap<&str, &str>| {
        let id = *row.get("id")?;
        sessions.iter().find(|one| one.id == id && one.command == "Sleep")
    };
    let idle = transactions.iter().filter_map(idle_since).max_by_key(|one| one.seconds);
    let open_ids: Vec<&str> =
        transactions.iter().filter_map(|row| row.get("id").copied()).collect();
    let resting =
        sessions.iter().filter(|one| one.command == "Sleep" && !open_ids.contains(&one.id)).count();
    let blocker = (waiting_on_lock > 0)
        .then(|| blocker(&sessions, &transactions, blockers, &row_waiters))
        .flatten();
    #[expect(clippy::cast_precision_loss, reason = "seconds of a statement")]
    let seconds = |one: &ClientSession<'_>| one.seconds as f64;
    MysqlWork {
        waiting_on_lock,
        blocker,
        columns: ServerWork {
            sessions_active: i64::try_from(sessions.iter().filter(|one| one.is_running()).count())
                .ok(),
            connections_idle: i64::try_from(resting).ok(),
            longest_statement_seconds: longest.map(seconds),
            longest_statement: longest.map(|one| match one.statement.and_then(first_word) {
                Some(word) => format!("{} ({word})", one.name()),
                None => one.name(),
            }),
            idle_transaction_seconds: idle.map(seconds),
            idle_transaction: idle.map(ClientSession::name),
            ..ServerWork::default()
        },
    }
}

fn session<'a>(row: &HashMap<&'a str, &'a str>) -> Option<ClientSession<'a>> {
    // MySQL writes the names of these columns in capitals, MariaDB as in the query.
    let get =
        |name: &str| row.get(name).or_else(|| row.get(name.to_ascii_uppercase().as_str())).copied();
    Some(ClientSession {
        id: get("id")?,
        user: get("user")?,
        database: get("db"),
        command: get("command")?,
        seconds: get("time").and_then(|text| text.parse().ok()).unwrap_or_default(),
        state: get("state").unwrap_or_default(),
        statement: get("info"),
    })
}

/// The session that holds up most others and waits for no lock itself. Without a list of blockers
/// the oldest transaction that is not waiting is the likely one.
fn blocker(
    sessions: &[ClientSession<'_>],
    transactions: &[HashMap<&str, &str>],
    blockers: &QueryResult,
    row_waiters: &HashMap<&str, i64>,
) -> Option<String> {
    let free = |row: &&HashMap<&str, &str>| {
        row.get("id").is_some_and(|id| {
            !row_waiters.contains_key(id)
                && sessions.iter().any(|one| one.id == *id && !one.waits_for_table())
        })
    };
    let named = blockers.by_name().find_map(|blocking| {
        let trx = blocking.get("blocking").copied()?;
        transactions.iter().filter(free).find(|row| row.get("trx") == Some(&trx))
    });
    let (row, is_known) = match named {
        Some(row) => (row, true),
        None => (transactions.iter().find(free)?, false),
    };
    let id = *row.get("id")?;
    let age = row.get("age").copied().unwrap_or("?");
    let session = sessions.iter().find(|one| one.id == id)?;
    let command = if session.command == "Sleep" { "idle" } else { "running" };
    let likely = if is_known { "" } else { "probably " };
    Some(format!("{likely}{} ({command}, transaction open for {age} s)", session.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(columns: &str, rows: &[&str]) -> QueryResult {
        let cell = |text: &str| (text != "-").then(|| text.to_owned());
        QueryResult {
            columns: columns.split('|').map(str::to_owned).collect(),
            rows: rows.iter().map(|row| row.split('|').map(cell).collect()).collect(),
        }
    }

    const SESSIONS: &str = "ID|USER|DB|COMMAND|TIME|STATE|INFO";
    const TRANSACTIONS: &str = "id|state|trx|age|waits";

    #[test]
    fn row_lock_is_counted_by_transaction_and_its_holder_is_named() {
        let sessions = table(
            SESSIONS,
            &[
                "8|app|shop|Query|9|Updating|update stock set secret",
                "9|app|shop|Query|7|Updating|update stock",
                "7|cron|shop|Sleep|40||-",
                "6|app|shop|Sleep|3||-",
                "5|bi|shop|Query|90|Sending data|/* x */ select secret",
            ],
        );
        let transactions = table(
            TRANSACTIONS,
            &["7|RUNNING|100|41|-", "8|LOCK WAIT|101|9|9", "9|LOCK WAIT|102|7|7"],
        );
        let found =
            summary(&sessions, &transactions, &table("blocking|waiters", &["101|1", "100|2"]));
        assert_eq!(found.waiting_on_lock, 2);
        assert_eq!(
            found.blocker.as_deref(),
            Some("process 7 of user cron on database shop (idle, transaction open for 41 s)")
        );
        let work = found.columns;
        assert_eq!((work.sessions_active, work.connections_idle), (Some(3), Some(1)));
        assert_eq!(
            work.longest_statement.as_deref(),
            Some("process 5 of user bi on database shop")
        );
        assert_eq!(work.idle_transaction_seconds, Some(40.0));
    }

    #[test]
    fn metadata_lock_is_counted_by_state_and_the_oldest_transaction_is_the_likely_holder() {
        let sessions = table(
            SESSIONS,
            &[
                "8|app|shop|Query|12|Waiting for table metadata lock|alter table t",
                "9|app|shop|Query|11|Waiting for table metadata lock|select 1",
                "10|app|shop|Query|500|User lock|do get_lock()",
                "7|cron|shop|Sleep|40||-",
            ],
        );
        let found = summary(
            &sessions,
            &table(TRANSACTIONS, &["7|RUNNING|100|41|-"]),
            &QueryResult::default(),
        );
        assert_eq!(found.waiting_on_lock, 2);
        assert!(found.blocker.unwrap().starts_with("probably process 7 of user cron"));
    }

    #[test]
    fn idle_server_has_no_work() {
        let found = summary(
            &table(SESSIONS, &["6|app|shop|Sleep|3||-"]),
            &table(TRANSACTIONS, &[]),
            &QueryResult::default(),
        );
        assert_eq!((found.waiting_on_lock, found.blocker), (0, None));
        assert_eq!(found.columns.connections_idle, Some(1));
        assert_eq!(found.columns.longest_statement, None);
    }
}
