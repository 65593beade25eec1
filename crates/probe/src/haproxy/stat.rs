//! The replies to `show info` and `show stat`: `Name: value` lines, then CSV with a header.
//!
//! Columns are found by name, since each version has more of them. Times are in milliseconds.

use std::collections::HashMap;
use std::io;

/// A frontend, backend or server, or the process.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct StatEntry {
    pub(super) kind: &'static str,
    pub(super) proxy: String,
    pub(super) server: Option<String>,
    pub(super) address: Option<String>,
    pub(super) mode: Option<String>,
    pub(super) state: Option<String>,
    pub(super) state_seconds: Option<f64>,
    pub(super) check_status: Option<String>,
    pub(super) check_code: Option<i64>,
    pub(super) check_text: Option<String>,
    pub(super) servers_up: Option<i64>,
    pub(super) servers_total: Option<i64>,
    pub(super) queue_length: Option<i64>,
    pub(super) sessions: Option<i64>,
    pub(super) session_limit: Option<i64>,
    pub(super) queue_seconds: Option<f64>,
    pub(super) connect_seconds: Option<f64>,
    pub(super) response_seconds: Option<f64>,
    pub(super) total_seconds: Option<f64>,
    pub(super) idle_ratio: Option<f64>,
    pub(super) process_id: Option<i64>,
    pub(super) totals: StatTotals,
}

/// Counters since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StatTotals {
    pub(super) sessions: Option<i64>,
    pub(super) responses: Option<i64>,
    pub(super) responses_5xx: Option<i64>,
    pub(super) responses_4xx: Option<i64>,
    pub(super) connect_errors: Option<i64>,
    pub(super) response_errors: Option<i64>,
    pub(super) retries: Option<i64>,
    pub(super) client_aborts: Option<i64>,
    pub(super) checks_failed: Option<i64>,
    pub(super) handshake_failures: Option<i64>,
}

impl StatTotals {
    /// Increases; `None` where a counter fell, which is a restart.
    pub(super) fn since(&self, before: &Self) -> Self {
        let of = |now: Option<i64>, before: Option<i64>| crate::database::increase(before, now);
        Self {
            sessions: of(self.sessions, before.sessions),
            responses: of(self.responses, before.responses),
            responses_5xx: of(self.responses_5xx, before.responses_5xx),
            responses_4xx: of(self.responses_4xx, before.responses_4xx),
            connect_errors: of(self.connect_errors, before.connect_errors),
            response_errors: of(self.response_errors, before.response_errors),
            retries: of(self.retries, before.retries),
            client_aborts: of(self.client_aborts, before.client_aborts),
            checks_failed: of(self.checks_failed, before.checks_failed),
            handshake_failures: of(self.handshake_failures, before.handshake_failures),
        }
    }
}

impl StatEntry {
    pub(super) fn of_kind(kind: &'static str) -> Self {
        Self { kind, proxy: "haproxy".to_owned(), ..Self::default() }
    }

    pub(super) fn name(&self) -> super::EntryName {
        (self.kind, self.proxy.clone(), self.server.clone().unwrap_or_default())
    }

    /// Whether nothing changed but the ages of states and the mean times.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.totals == other.totals
            && self.state == other.state
            && self.check_status == other.check_status
            && self.queue_length == other.queue_length
            && self.sessions == other.sessions
            && self.session_limit == other.session_limit
            && self.servers_up == other.servers_up
    }

    fn is_serving(&self) -> bool {
        self.state.as_deref().is_some_and(|state| state.starts_with("UP") || state == "no check")
    }
}

/// Parses both replies; `show info` is absent on a statistics page.
pub(super) fn parse(text: &str) -> io::Result<Vec<StatEntry>> {
    let Some((info, csv)) = text.split_once("# pxname,") else {
        let words = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        return Err(io::Error::other(format!("it replies `{words}`")));
    };
    let mut entries: Vec<StatEntry> = process(info).into_iter().collect();
    let mut lines = csv.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let mut usable: HashMap<String, i64> = HashMap::new();
    let servers_at = entries.len();
    for line in lines.filter(|line| !line.trim().is_empty()) {
        let cells = cells(line);
        let Some((proxy, rest)) = cells.split_first() else { continue };
        let values: HashMap<&str, &str> = header
            .iter()
            .zip(rest)
            .filter(|(_, cell)| !cell.is_empty())
            .map(|(name, cell)| (*name, cell.as_str()))
            .collect();
        entries.extend(entry(proxy, &values));
        let is_member = values.get("type") == Some(&"2")
            && values.get("act") == Some(&"1")
            && !values.get("status").is_some_and(|state| state.starts_with("MAINT"));
        if is_member {
            *usable.entry(proxy.clone()).or_default() += 1;
        }
    }
    for backend in entries.iter_mut().skip(servers_at).filter(|entry| entry.kind == "backend") {
        backend.servers_total = Some(usable.get(&backend.proxy).copied().unwrap_or_default());
    }
    Ok(entries)
}

/// `Name: value` lines of `show info`.
fn process(info: &str) -> Option<StatEntry> {
    let values: HashMap<&str, &str> =
        info.lines().filter_map(|line| line.split_once(": ")).collect();
    let of = |name: &str| values.get(name)?.trim().parse::<i64>().ok();
    Some(StatEntry {
        sessions: Some(of("CurrConns")?),
        session_limit: of("Maxconn"),
        queue_length: None,
        #[expect(clippy::cast_precision_loss, reason = "a percentage")]
        idle_ratio: of("Idle_pct").map(|percent| percent as f64 / 100.0),
        process_id: of("Pid"),
        totals: StatTotals { sessions: of("CumConns"), ..StatTotals::default() },
        ..StatEntry::of_kind("process")
    })
}

fn entry(proxy: &str, values: &HashMap<&str, &str>) -> Option<StatEntry> {
    let text = |name: &str| values.get(name).map(|text| (*text).to_owned());
    let number = |name: &str| values.get(name)?.parse::<i64>().ok();
    #[expect(clippy::cast_precision_loss, reason = "seconds and milliseconds")]
    let seconds = |name: &str, unit: f64| number(name).map(|count| count as f64 / unit);
    let kind = match *values.get("type")? {
        "0" => "frontend",
        "1" => "backend",
        "2" => "server",
        _ => return None,
    };
    let codes = ["hrsp_1xx", "hrsp_2xx", "hrsp_3xx", "hrsp_4xx", "hrsp_5xx", "hrsp_other"];
    let counts: Vec<i64> = codes.into_iter().filter_map(number).collect();
    let mut entry = StatEntry {
        kind,
        proxy: proxy.to_owned(),
        server: text("svname").filter(|_| kind == "server"),
        address: text("addr").filter(|_| kind == "server"),
        mode: text("mode"),
        state: text("status"),
        state_seconds: seconds("lastchg", 1.0),
        check_status: text("check_status"),
        check_code: number("check_code"),
        check_text: text("last_chk"),
        servers_up: None,
        servers_total: None,
        queue_length: number("qcur"),
        sessions: number("scur"),
        session_limit: number("slim").filter(|limit| *limit > 0 && kind != "backend"),
        queue_seconds: seconds("qtime", 1000.0),
        connect_seconds: seconds("ctime", 1000.0),
        response_seconds: seconds("rtime", 1000.0),
        total_seconds: seconds("ttime", 1000.0),
        idle_ratio: None,
        process_id: None,
        totals: StatTotals {
            sessions: number("stot"),
            responses: (!counts.is_empty()).then(|| counts.iter().sum()),
            responses_5xx: number("hrsp_5xx"),
            responses_4xx: number("hrsp_4xx"),
            connect_errors: number("econ"),
            response_errors: number("eresp"),
            retries: number("wretr"),
            client_aborts: number("cli_abrt"),
            checks_failed: number("chkfail"),
            handshake_failures: number("ssl_failed_handshake").filter(|_| kind == "frontend"),
        },
    };
    entry.servers_up = match kind {
        // Backup servers take requests when no other server is left.
        "backend" => number("act").zip(number("bck")).map(|(active, backup)| match active {
            0 => backup,
            some => some,
        }),
        "server" => Some(i64::from(entry.is_serving())),
        _ => None,
    };
    Some(entry)
}

/// Cells of a CSV line; a cell with commas or quotes is quoted, and quotes in it are doubled.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    let mut characters = line.trim_end_matches('\r').chars().peekable();
    while let Some(character) = characters.next() {
        let last = cells.len() - 1;
        match character {
            '"' if is_quoted && characters.peek() == Some(&'"') => {
                characters.next();
                cells[last].push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            other => cells[last].push(other),
        }
    }
    cells
}
