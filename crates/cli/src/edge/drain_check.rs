//! `weir edge safe-to-end`: whether a host that was taken out of DNS can be ended: who still comes,
//! how much, and when it is safe.
//!
//! Resolvers and programs keep an address for days. What still comes is compared with what came
//! before, or with what comes to the other hosts now, and its fall is drawn on. Silence of the host
//! itself is not taken for silence of its visitors.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use weir_process::failure::{EXIT_USAGE, Failure};
use weir_process::terminal::{Paint, say};
use weir_tables::{parse_duration, sql_literal};

use super::args::EdgeFormat;
use crate::client::{Client, WeirArgs};
use crate::show::aligned;

/// Exit code of a host that cannot be ended yet.
const EXIT_NOT_YET: u8 = 3;
/// Number of windows that are compared.
const WINDOWS: u32 = 12;
/// After this long without a report, a host's traffic is unknown.
const SILENT_SECONDS: f64 = 60.0;
/// Fewer points make no line.
const POINTS_MIN: usize = 3;

/// Tell whether a host that was taken out of DNS can be ended: who still comes, how much, and when
/// it is safe.
///
/// Exit code 0: it can be ended. 3: not yet. 1: it cannot be told.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  weir edge safe-to-end edge1 --withdrawn 2h
  weir edge safe-to-end edge1 --name shop.example            as the name servers were seen to answer (table name_probe)
  until weir edge safe-to-end edge1 --withdrawn 2h; do sleep 300; done && poweroff")]
pub(crate) struct DrainCheckArgs {
    /// The host, as rows name it.
    #[arg(value_name = "HOST")]
    host: String,
    /// How long ago it was taken out of DNS: 90m, 2h, 3d. Default: since the table name_probe has
    /// its name elsewhere.
    #[arg(long, value_name = "SPAN")]
    withdrawn: Option<String>,
    /// Only requests for this name; then also what comes to other hosts for it counts.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The share of requests, in percent, under which it can be ended.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.5)]
    below: f64,
    /// Over how long requests are counted.
    #[arg(long, value_name = "SPAN", default_value = "5m")]
    window: String,
    /// How to print it.
    #[arg(long, value_enum, default_value = "text")]
    format: EdgeFormat,
    #[command(flatten)]
    weir: WeirArgs,
}

/// What came, all of it requests in one window.
#[derive(Clone, Debug, Default)]
struct WindowCounts {
    here: f64,
    elsewhere: f64,
    /// The mean of the windows before the withdrawal.
    before: f64,
    /// Windows since then, the newest first.
    past: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum DrainVerdict {
    Safe,
    /// After this many more windows, at the current rate.
    After(f64),
    /// The rate does not fall, or it is too early to tell.
    NotFalling,
    TooSoon,
}

impl WindowCounts {
    /// All that would come here if nothing had changed.
    fn whole(&self) -> f64 {
        self.before.max(self.here + self.elsewhere)
    }

    fn share(&self) -> f64 {
        if self.here == 0.0 { 0.0 } else { self.here / self.whole() }
    }

    fn verdict(&self, below: f64) -> DrainVerdict {
        if self.share() <= below {
            return DrainVerdict::Safe;
        }
        // Below half a request in a window, traffic has ended.
        let aim = (below * self.whole()).max(0.5);
        match slope(&self.past) {
            None => DrainVerdict::TooSoon,
            Some(slope) if slope > -0.01 => DrainVerdict::NotFalling,
            Some(slope) => DrainVerdict::After((self.here / aim).ln() / -slope),
        }
    }
}

/// By how much the logarithm of the counts changes from window to window (least squares); `past`
/// begins with the newest.
fn slope(past: &[f64]) -> Option<f64> {
    let counted = past.iter().rev().zip(0_u32..).filter(|(count, _)| **count > 0.0);
    let points: Vec<(f64, f64)> = counted.map(|(count, at)| (f64::from(at), count.ln())).collect();
    if points.len() < POINTS_MIN {
        return None;
    }
    let count = f64::from(u32::try_from(points.len()).ok()?);
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let over: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let under: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    (under > 0.0).then(|| over / under)
}

/// Asks, and prints the answer.
pub(crate) fn run(args: &DrainCheckArgs) -> Result<ExitCode, Failure> {
    let client = args.weir.client()?;
    let window = span(&args.window, "--window")?;
    if !(0.0..100.0).contains(&args.below) {
        return Err(Failure::new(format!("cannot use `{}` as --below", args.below))
            .hint("a share in percent, from 0 to less than 100")
            .code(EXIT_USAGE));
    }
    let until = last_report(&client, &args.host)?;
    let withdrawn = match &args.withdrawn {
        Some(text) => span(text, "--withdrawn")?.as_secs_f64(),
        None => probed(&client, args)?,
    };
    // Rows may still arrive: clients are listed first, so that none of them is missing in the counts.
    let clients = who(&client, args, &until, window)?;
    let (tier, mut seen) = counts(&client, args, &until, window, withdrawn)?;
    seen.past = past(&client, args, &tier, &until, window, withdrawn)?;
    let clients = of_tier(clients, &tier);
    let verdict = seen.verdict(args.below / 100.0);
    if args.format.is_json() {
        say(&as_json(args, &seen, verdict, window, withdrawn, &clients).to_string());
    } else {
        say(&as_text(args, &seen, verdict, window, withdrawn, &clients));
    }
    Ok(if verdict == DrainVerdict::Safe { ExitCode::SUCCESS } else { EXIT_NOT_YET.into() })
}

fn span(text: &str, flag: &str) -> Result<Duration, Failure> {
    parse_duration(text).ok().filter(|span| !span.is_zero()).ok_or_else(|| {
        Failure::new(format!("cannot use `{text}` as {flag}: it is not a duration"))
            .hint("write it as 90s, 5m, 1h30m or 3d")
            .code(EXIT_USAGE)
    })
}

fn rows(client: &Client, sql: &str) -> Result<Vec<Vec<Value>>, Failure> {
    let answer = client.post_json("/api/sql", &json!({"sql": sql, "limit": 1000}))?;
    let rows = answer["rows"].as_array().cloned().unwrap_or_default();
    Ok(rows.into_iter().map(|row| row.as_array().cloned().unwrap_or_default()).collect())
}

fn number(row: &[Value], at: usize) -> Option<f64> {
    row.get(at).and_then(Value::as_f64)
}

/// The host's last report, as an SQL timestamp. Requests are counted up to it: after it the host's
/// traffic is unknown, not zero.
fn last_report(client: &Client, host: &str) -> Result<String, Failure> {
    let sql = format!(
        "select date_part('epoch', now()) - date_part('epoch', max(ts)), max(ts)::text from (\
         select ts from edge_listener where host = {0} and ts > now() - interval '1 day' union all \
         select ts from collector_run where host = {0} and ts > now() - interval '1 day')",
        sql_literal(host)
    );
    let cannot =
        |why: String| Failure::new(format!("cannot tell whether `{host}` is visited: {why}"));
    let found = rows(client, &sql)?;
    let last = found.first().and_then(|row| Some((number(row, 0)?, row.get(1)?.as_str()?)));
    match last {
        None => Err(cannot("it has reported nothing within a day".into())
            .hint("`weir query 'select distinct host from edge_listener'` lists hosts; does its weir send here?")),
        Some((age, _)) if age > SILENT_SECONDS => {
            Err(cannot(format!("its last report is {} old", human_span(age)))
                .hint("mend that first: until it reports, its visitors are unknown"))
        }
        Some((_, at)) => Ok(format!("timestamp {}", sql_literal(at))),
    }
}

/// Since when a name leads elsewhere, as far as the host saw.
fn probed(client: &Client, args: &DrainCheckArgs) -> Result<f64, Failure> {
    let of_name = args.name.as_ref().map_or_else(String::new, |name| {
        format!(" and name = {}", sql_literal(&name.to_lowercase()))
    });
    let sql = format!(
        "select min(away) from (\
         select date_part('epoch', now()) - date_part('epoch', max(ts) filter (where is_here)) as away from name_probe \
         where host = {} and is_here is not null and ts > now() - interval '7 days'{of_name} group by name \
         having not last_value(is_here order by ts) and max(ts) filter (where is_here) is not null)",
        sql_literal(&args.host)
    );
    let found = rows(client, &sql)?.first().and_then(|row| number(row, 0));
    found.ok_or_else(|| {
        Failure::new(format!("cannot tell when `{}` was taken out of DNS", args.host))
            .hint("give it: --withdrawn 2h (the table name_probe has only names that an nginx there serves)")
            .code(EXIT_USAGE)
    })
}

/// The tier that stands first there, and its requests.
fn counts(
    client: &Client,
    args: &DrainCheckArgs,
    until: &str,
    window: Duration,
    withdrawn: f64,
) -> Result<(String, WindowCounts), Failure> {
    let (host, seconds, window) = (sql_literal(&args.host), window.as_secs_f64(), window.as_secs());
    let past = f64::from(WINDOWS) * seconds;
    let sql = format!(
        "select tier, count(*) filter (where host = {host} and ts > {until} - interval '{window} seconds'), \
         count(*) filter (where host <> {host} and ts > {until} - interval '{window} seconds'), \
         count(*) filter (where host = {host} and ts <= now() - interval '{withdrawn} seconds'), \
         date_part('epoch', now()) - date_part('epoch', min(ts) filter (where host = {host})) \
         from request where tier in ('edge', 'proxy') and ts > now() - interval '{} seconds' and ts <= {until}{} \
         group by tier order by tier",
        withdrawn + past,
        of_name(args)
    );
    let all = rows(client, &sql)?;
    let own =
        |row: &&Vec<Value>| number(row, 1).unwrap_or(0.0) + number(row, 3).unwrap_or(0.0) > 0.0;
    let Some(row) = all.iter().find(own) else {
        return Ok(("edge".into(), WindowCounts::default()));
    };
    let count = |at| number(row, at).unwrap_or(0.0);
    let elsewhere = if args.name.is_some() { count(2) } else { 0.0 };
    // A host that is young served fewer windows before.
    let served = ((count(4) - withdrawn) / seconds).clamp(1.0, f64::from(WINDOWS));
    let seen =
        WindowCounts { here: count(1), elsewhere, before: count(3) / served, past: Vec::new() };
    Ok((row[0].as_str().unwrap_or("edge").to_owned(), seen))
}

fn of_name(args: &DrainCheckArgs) -> String {
    args.name.as_ref().map_or_else(String::new, |name| {
        // A client writes the port when it is unusual.
        format!(
            " and split_part(lower(server_address), ':', 1) = {}",
            sql_literal(&name.to_lowercase())
        )
    })
}

/// Requests of each window since the withdrawal, the newest first.
fn past(
    client: &Client,
    args: &DrainCheckArgs,
    tier: &str,
    until: &str,
    window: Duration,
    withdrawn: f64,
) -> Result<Vec<f64>, Failure> {
    let seconds = window.as_secs_f64();
    let span = withdrawn.min(seconds * f64::from(WINDOWS));
    let sql = format!(
        "select cast(floor((date_part('epoch', {until}) - date_part('epoch', ts)) / {seconds}) as bigint) as age, count(*) \
         from request where tier = {} and host = {} and ts > {until} - interval '{span} seconds' and ts <= {until}{} \
         group by 1 order by 1",
        sql_literal(tier),
        sql_literal(&args.host),
        of_name(args)
    );
    let whole = (span / seconds).floor();
    let counted = rows(client, &sql)?;
    Ok((0..WINDOWS)
        .filter(|age| f64::from(*age) < whole)
        .map(|age: u32| {
            let row = counted.iter().find(|row| number(row, 0) == Some(f64::from(age)));
            row.and_then(|row| number(row, 1)).unwrap_or(0.0)
        })
        .collect())
}

/// Clients of the last window in each tier, by number of requests: tier, then the client's columns.
fn who(
    client: &Client,
    args: &DrainCheckArgs,
    until: &str,
    window: Duration,
) -> Result<Vec<Vec<Value>>, Failure> {
    let sql = format!(
        "select tier, client_address, count(*) as requests, max(ts) as last, max(user_agent_original) as user_agent \
         from request where tier in ('edge', 'proxy') and host = {} and ts > {until} - interval '{} seconds' \
         and ts <= {until}{} group by 1, 2 order by 3 desc, 2 limit 40",
        sql_literal(&args.host),
        window.as_secs(),
        of_name(args)
    );
    rows(client, &sql)
}

/// The first twenty clients of a tier, without its name.
fn of_tier(clients: Vec<Vec<Value>>, tier: &str) -> Vec<Vec<Value>> {
    let own = clients.into_iter().filter(|row| row.first().is_some_and(|name| name == tier));
    own.map(|row| row[1..].to_vec()).take(20).collect()
}

/// A span for a person.
fn human_span(seconds: f64) -> String {
    match seconds {
        _ if seconds < 120.0 => format!("{seconds:.0} s"),
        _ if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        _ if seconds < 172_800.0 => format!("{:.0} h", seconds / 3600.0),
        _ => format!("{:.0} days", seconds / 86_400.0),
    }
}

fn as_text(
    args: &DrainCheckArgs,
    seen: &WindowCounts,
    verdict: DrainVerdict,
    window: Duration,
    withdrawn: f64,
    clients: &[Vec<Value>],
) -> String {
    let (host, below, seconds) = (&args.host, args.below, window.as_secs_f64());
    let judged = match verdict {
        DrainVerdict::Safe => format!("{host} can be ended"),
        DrainVerdict::After(windows) => format!(
            "{host} cannot be ended yet; at this pace it is under {below} % in about {}",
            human_span(windows * seconds)
        ),
        DrainVerdict::NotFalling => {
            format!("{host} cannot be ended yet: its traffic does not fall")
        }
        DrainVerdict::TooSoon => {
            format!(
                "{host} cannot be ended yet; from {} on it can be told when",
                human_span(3.0 * seconds)
            )
        }
    };
    let mut out = format!(
        "{judged}\ntaken out of DNS {} ago; in the last {} {} requests came here, {:.2} % of {:.0}",
        human_span(withdrawn),
        human_span(seconds),
        seen.here,
        seen.share() * 100.0,
        seen.whole()
    );
    if !clients.is_empty() {
        let mut cells = vec![["CLIENT", "REQUESTS", "LAST", "USER AGENT"].map(str::to_owned)];
        cells.extend(clients.iter().map(|row| {
            std::array::from_fn(|at| {
                row.get(at).map_or_else(String::new, |value: &Value| match value {
                    Value::String(text) => {
                        text.chars().filter(|letter| !letter.is_control()).take(80).collect()
                    }
                    Value::Null => "-".to_owned(),
                    other => other.to_string(),
                })
            })
        }));
        let cells = cells.iter().map(|row| row.each_ref().map(String::as_str));
        out += &format!("\n\n{}", aligned(cells, Paint::for_stdout()));
    }
    out
}

fn as_json(
    args: &DrainCheckArgs,
    seen: &WindowCounts,
    verdict: DrainVerdict,
    window: Duration,
    withdrawn: f64,
    clients: &[Vec<Value>],
) -> Value {
    json!({
        "host": args.host,
        "is_safe": verdict == DrainVerdict::Safe,
        "withdrawn_seconds": withdrawn,
        "window_seconds": window.as_secs(),
        "requests": seen.here,
        "requests_of_all": seen.whole(),
        "share_ratio": seen.share(),
        "is_falling": matches!(verdict, DrainVerdict::Safe | DrainVerdict::After(_)),
        "safe_in_seconds": match verdict {
            DrainVerdict::Safe => Some(0.0),
            DrainVerdict::After(windows) => Some(windows * window.as_secs_f64()),
            _ => None,
        },
        "clients": clients.iter().map(|row: &Vec<Value>| json!({"client_address": row.first(), "requests": row.get(1), "last_ts": row.get(2), "user_agent": row.get(3)})).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_that_halves_is_drawn_on_to_its_threshold() {
        let past = vec![100.0, 200.0, 400.0, 800.0];
        let seen = WindowCounts { here: 100.0, before: 1000.0, past, ..WindowCounts::default() };
        let DrainVerdict::After(windows) = seen.verdict(0.0125) else { panic!("it falls") };
        assert!((windows - 3.0).abs() < 1e-9, "{windows}");
        assert_eq!(seen.verdict(0.1), DrainVerdict::Safe);
    }

    #[test]
    fn what_does_not_fall_has_no_end_and_few_points_make_no_line() {
        assert_eq!(seen(&[50.0, 50.0, 50.0, 50.0]).verdict(0.005), DrainVerdict::NotFalling);
        assert_eq!(seen(&[50.0, 40.0, 30.0]).verdict(0.005), DrainVerdict::NotFalling);
        assert_eq!(seen(&[50.0, 100.0]).verdict(0.005), DrainVerdict::TooSoon);
        assert_eq!(seen(&[50.0, 0.0, 0.0, 100.0]).verdict(0.005), DrainVerdict::TooSoon);
    }

    fn seen(past: &[f64]) -> WindowCounts {
        WindowCounts { here: 50.0, before: 100.0, past: past.to_vec(), ..WindowCounts::default() }
    }

    #[test]
    fn nobody_is_safe_and_somebody_of_whom_nothing_is_known_is_not() {
        assert_eq!(WindowCounts::default().verdict(0.005), DrainVerdict::Safe);
        let stranger = WindowCounts { here: 1.0, ..WindowCounts::default() };
        assert_eq!(stranger.verdict(0.005), DrainVerdict::TooSoon);
        let elsewhere = WindowCounts { here: 1.0, elsewhere: 999.0, ..WindowCounts::default() };
        assert_eq!(elsewhere.verdict(0.005), DrainVerdict::Safe);
    }
}
