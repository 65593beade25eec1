//! The report of the week: pages by rule and how many were real, times to acknowledge and resolve, pages at night,
//! repairs and what came of them, and what is done by hand so often that it should be automated.
//!
//! It is a letter like a hand-over, sent each Monday from 07:00 UTC. The week that was reported last is
//! in the ledger, so that each is reported once, whichever hub leads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use weir_actions::{Desk, LetterText, Silence, SymptomLine, is_night};
use weir_ledger::{Change, LedgerError};
use weir_rules::{Cell, Row, rows_of};
use weir_store::{Query, QueryLimits};
use weir_tables::Micros;

use super::{Notices, blocking};

/// Kind and key of the document with the week that was reported last.
const KIND: &str = "report";
const KEY: &str = "weekly";
/// Interval between two checks for the end of a week.
const LOOK: Duration = Duration::from_secs(600);
const DAY_US: i64 = 86_400_000_000;
const WEEK_US: i64 = 7 * DAY_US;
/// The first Monday, 07:00 UTC, of the clock's calendar: 1970-01-05.
const FIRST_US: i64 = 4 * DAY_US + 7 * 3_600_000_000;
const ROWS_MAX: usize = 10_000;
const RULES_MAX: usize = 12;
const REPEATS_MAX: usize = 10;
/// A silence of this age is reported.
const OLD_SILENCE_US: i64 = WEEK_US;

/// Incidents that paged in the week, with their newest judgement.
const PAGED: &str = "select i.incident_id, i.root_rule, i.host, i.opened_ts, i.resolved_ts, a.acked_ts, j.verdict \
    from incident_now i \
    join (select distinct incident_id from notice where kind = 'page' and state = 'sent' \
      and ts > $start and ts <= $end) n on n.incident_id = i.incident_id \
    left join (select incident_id, min(ts) as acked_ts from incident where state = 'acked' \
      group by incident_id) a on a.incident_id = i.incident_id \
    left join (select finding_id, verdict, row_number() over (partition by finding_id order by ts desc) as place \
      from judgement) j on j.finding_id = i.root_finding_id and j.place = 1 \
    order by i.opened_ts limit 10000";
/// Pages that people got in the week.
const WOKEN: &str = "select person, ts from notice where kind = 'page' and state = 'sent' and person is not null \
    and ts > $start and ts <= $end limit 10000";
/// Repairs of the week by their last state, with the newest reason; agents write the same runs without a rule.
const REPAIRS: &str = "select action, state, count(*) as runs, max(host) as host, count(distinct host) as hosts, \
      last_value(reason order by ts) as reason \
    from (select *, row_number() over (partition by run_id order by ts desc) as place from action_run \
      where ts > $start and ts <= $end and rule_id is not null and mode <> 'dry_run') r \
    where place = 1 and state in ('verified', 'refused', 'failed', 'undone', 'unknown') \
    group by action, state order by action, state";
/// What was done by hand three times within 30 days.
const BY_HAND: &str = "select distinct subject from finding where rule = 'weir.repeat_manual' and state = 'firing' \
    and ts > $start and ts <= $end order by subject";

/// An incident that paged.
#[derive(Clone, Debug, Default)]
struct PagedIncident {
    rule: String,
    host: String,
    is_real: bool,
    acked_seconds: Option<f64>,
    resolved_seconds: Option<f64>,
}

/// What the report is made of.
#[derive(Clone, Debug, Default)]
struct WeekFigures {
    paged: Vec<PagedIncident>,
    /// Pages at night by person.
    night: BTreeMap<String, usize>,
    repairs: Vec<Repairs>,
    /// Actions and their rules, as `weir.repeat_manual` names them.
    by_hand: Vec<String>,
    silences: Vec<Silence>,
}

/// Runs of an action that came to the same end.
#[derive(Clone, Debug, Default)]
struct Repairs {
    action: String,
    state: String,
    runs: i64,
    hosts: i64,
    host: String,
    reason: Option<String>,
}

/// Reports each week that is over.
pub(super) async fn report_always(notices: Arc<Notices>, target: String) {
    loop {
        tokio::time::sleep(LOOK).await;
        if notices.store.is_leader()
            && let Err(why) = notices.report_week(&target).await
        {
            tracing::warn!("cannot report the week, will try again: {why}");
        }
    }
}

/// Number of the week that ended last, and its end.
fn last_week(now: Micros) -> (i64, Micros) {
    let number = (now.0 - FIRST_US).div_euclid(WEEK_US);
    (number, Micros(FIRST_US + number * WEEK_US))
}

impl Notices {
    async fn report_week(&self, target: &str) -> Result<(), String> {
        let (week, end) = last_week(self.clock.now());
        let text = |error: LedgerError| error.to_string();
        let kept = self.with_ledger(|ledger| ledger.get(KIND, KEY)).await.map_err(text)?;
        let last = kept.as_ref().and_then(|document| document.body.parse::<i64>().ok());
        if last == Some(week) {
            return Ok(());
        }
        let body = Some((week.to_string(), None));
        let (kind, key) = (KIND.to_owned(), KEY.to_owned());
        let expected = kept.map_or(0, |document| document.version);
        let mut letters = Vec::new();
        // The week in which weir was installed is not reported.
        if last.is_some() {
            let figures = self.week_figures(end).await?;
            let desk = Desk::new(self.policy.clone());
            letters = desk.letter(self.clock.now(), target, report_text(&figures, end));
        }
        let outbox = Arc::clone(&self.outbox);
        let change = Change { kind, key, expected, body };
        blocking(move || outbox.commit(&[change], &letters)).await.map(drop).map_err(text)
    }

    async fn week_figures(&self, end: Micros) -> Result<WeekFigures, String> {
        let start = Micros(end.0 - WEEK_US);
        let paged = self.report_rows(within(PAGED, start, end)).await?;
        let mut night = BTreeMap::new();
        for row in self.report_rows(within(WOKEN, start, end)).await? {
            let (Some(person), Some(at)) = (row.text("person"), time(&row, "ts")) else { continue };
            if is_night(self.zone_of(person), at) {
                *night.entry(person.to_owned()).or_insert(0) += 1;
            }
        }
        let repairs = self.report_rows(within(REPAIRS, start, end)).await?;
        let by_hand = self.report_rows(within(BY_HAND, start, end)).await?;
        let by_hand = by_hand.iter().filter_map(|row| row.text("subject"));
        let silences = self.with_ledger(|ledger| ledger.all("silence")).await;
        let silences = silences.map_err(|error| error.to_string())?;
        let silences = silences.iter().filter_map(|found| serde_json::from_str(&found.body).ok());
        Ok(WeekFigures {
            paged: paged.iter().map(PagedIncident::from_row).collect(),
            night,
            repairs: repairs.iter().map(Repairs::from_row).collect(),
            by_hand: by_hand.take(REPEATS_MAX).map(str::to_owned).collect(),
            silences: silences
                .filter(|silence: &Silence| end.0 - silence.from_us >= OLD_SILENCE_US)
                .collect(),
        })
    }

    async fn report_rows(&self, sql: String) -> Result<Vec<Row>, String> {
        let limits = QueryLimits::of_rule(ROWS_MAX, Duration::from_secs(60));
        let answer = self.store.query(Query::new(&sql).limits(limits)).run().await;
        let answer = answer.map_err(|error| error.message)?;
        Ok(rows_of(&answer.batches, ROWS_MAX))
    }

    /// The time zone of a person: of the quiet hours, else of a rota.
    fn zone_of(&self, person: &str) -> &str {
        let quiet = self.policy.people.iter().find(|known| known.name == person);
        let quiet = quiet.and_then(|person| person.quiet.as_ref()).map(|quiet| quiet.zone.as_str());
        let rotas = &self.policy.rotas;
        let rota = rotas.iter().find(|rota| rota.people.iter().any(|name| name == person));
        quiet.or_else(|| rota.map(|rota| rota.zone.as_str())).unwrap_or("UTC")
    }
}

/// A query with its bounds.
fn within(sql: &str, start: Micros, end: Micros) -> String {
    let sql = sql.replace("$start", &format!("timestamp '{start}'"));
    sql.replace("$end", &format!("timestamp '{end}'"))
}

fn time(row: &Row, name: &str) -> Option<Micros> {
    match row.get(name)? {
        Cell::Time(at) => Some(*at),
        _ => None,
    }
}

impl PagedIncident {
    fn from_row(row: &Row) -> Self {
        let opened = time(row, "opened_ts");
        let after = |name: &str| Some(time(row, name)?.seconds_since(opened?));
        Self {
            rule: row.text("root_rule").unwrap_or_default().to_owned(),
            host: row.text("host").unwrap_or_default().to_owned(),
            is_real: row.text("verdict") == Some("real"),
            acked_seconds: after("acked_ts"),
            resolved_seconds: after("resolved_ts"),
        }
    }
}

impl Repairs {
    fn from_row(row: &Row) -> Self {
        let text = |name: &str| row.text(name).map(str::to_owned);
        let count = |name: &str| match row.get(name) {
            Some(Cell::Int(count)) => *count,
            _ => 0,
        };
        Self {
            action: text("action").unwrap_or_default(),
            state: text("state").unwrap_or_default(),
            runs: count("runs"),
            hosts: count("hosts"),
            host: text("host").unwrap_or_default(),
            reason: text("reason"),
        }
    }

    /// `healed`, with the action's name and how often on which hosts.
    fn line(&self) -> SymptomLine {
        let what = match self.state.as_str() {
            "verified" => "healed",
            "unknown" => "end unknown",
            other => other,
        };
        let hosts = match self.hosts {
            1 => self.host.clone(),
            hosts => format!("{hosts} hosts"),
        };
        let times = if self.runs == 1 { "once".to_owned() } else { format!("{} times", self.runs) };
        // A reason of a success is what the check saw, and no news.
        let reason = self.reason.as_deref().filter(|_| self.state != "verified");
        let reason = reason.map(|reason| format!(", last because {reason}")).unwrap_or_default();
        line(what, &self.action, &format!("{times} on {hosts}{reason}"))
    }
}

/// The report as a letter.
fn report_text(figures: &WeekFigures, end: Micros) -> LetterText {
    let mut rules: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut places: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for incident in &figures.paged {
        let rule = rules.entry(&incident.rule).or_default();
        rule.0 += 1;
        rule.1 += usize::from(incident.is_real);
        *places.entry((&incident.rule, &incident.host)).or_default() += 1;
    }
    let mut rules: Vec<(&str, (usize, usize))> = rules.into_iter().collect();
    rules.sort_by_key(|(_, (pages, _))| std::cmp::Reverse(*pages));
    rules.truncate(RULES_MAX);
    let rows: Vec<Value> = rules
        .iter()
        .map(|(rule, (pages, real))| json!({"rule": rule, "pages": pages, "real": real}))
        .collect();
    let mut lines: Vec<SymptomLine> = rules
        .iter()
        .enumerate()
        .map(|(index, (rule, (pages, real)))| {
            line(
                &format!("{}.", index + 1),
                rule,
                &format!("{pages} incidents, {real} judged real"),
            )
        })
        .collect();
    let night = figures.night.iter();
    lines.extend(night.map(|(who, count)| line("at night", who, &format!("{count} pages"))));
    let repeats = places.iter().filter(|(_, count)| **count >= 3).take(REPEATS_MAX);
    lines.extend(repeats.map(|((rule, host), count)| {
        line("repeat", rule, &format!("{count} incidents on {}", or_several(host)))
    }));
    lines.extend(figures.repairs.iter().map(Repairs::line));
    lines.extend(
        figures
            .by_hand
            .iter()
            .map(|subject| line("automate", subject, "done by hand three times within 30 days")),
    );
    lines.extend(figures.silences.iter().map(|silence| {
        let rules = silence.rules.join(", ");
        line("old silence", &silence.id, &format!("{rules}, by {}: {}", silence.by, silence.reason))
    }));
    let acked = figures.paged.iter().filter_map(|incident| incident.acked_seconds);
    let resolved = figures.paged.iter().filter_map(|incident| incident.resolved_seconds);
    let real = figures.paged.iter().filter(|incident| incident.is_real).count();
    let summary = format!(
        "{} incidents paged, {real} judged real; mean time to acknowledge {}, to resolve {}.",
        figures.paged.len(),
        mean(acked),
        mean(resolved),
    );
    let title = format!("week to {}: {} incidents paged", day(end), figures.paged.len());
    LetterText { title, summary, evidence: Value::from(rows).to_string(), lines }
}

fn line(kind: &str, name: &str, text: &str) -> SymptomLine {
    SymptomLine { rule: kind.to_owned(), host: name.to_owned(), summary: text.to_owned() }
}

fn or_several(host: &str) -> &str {
    if host.is_empty() { "several hosts" } else { host }
}

/// `2026-12-07`.
fn day(at: Micros) -> String {
    at.to_string().chars().take(10).collect()
}

/// A mean in minutes: `4 min`; `unknown` of nothing.
fn mean(seconds: impl Iterator<Item = f64>) -> String {
    let (sum, count) = seconds.fold((0.0, 0.0), |(sum, count), one| (sum + one, count + 1.0));
    if count < 0.5 { "unknown".to_owned() } else { format!("{:.0} min", sum / count / 60.0) }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn paged(rule: &str, host: &str, is_real: bool) -> PagedIncident {
        PagedIncident {
            rule: rule.to_owned(),
            host: host.to_owned(),
            is_real,
            acked_seconds: is_real.then_some(240.0),
            resolved_seconds: Some(1800.0),
        }
    }

    fn repairs(action: &str, state: &str, runs: i64, reason: Option<&str>) -> Repairs {
        Repairs {
            action: action.to_owned(),
            state: state.to_owned(),
            runs,
            hosts: 1,
            host: "web1".to_owned(),
            reason: reason.map(str::to_owned),
        }
    }

    #[test]
    fn weeks_end_on_monday_morning() {
        // 2026-12-07 is a Monday; 07:00 UTC.
        let monday = Micros(1_796_626_800_000_000);
        let (week, end) = last_week(monday);
        assert_eq!(end, monday);
        assert_eq!(last_week(Micros(monday.0 - 1)), (week - 1, Micros(monday.0 - WEEK_US)));
        assert_eq!(last_week(Micros(monday.0 + WEEK_US - 1)), (week, monday));
    }

    #[test]
    fn report_names_rules_nights_and_repeats() {
        let figures = WeekFigures {
            paged: vec![
                paged("disk.full", "db1", false),
                paged("app.down", "web1", true),
                paged("app.down", "web1", true),
                paged("app.down", "web1", false),
            ],
            night: BTreeMap::from([("ada".to_owned(), 2)]),
            repairs: vec![
                repairs("restart-app", "verified", 3, None),
                repairs("free-disk", "refused", 1, Some("it ran twice today")),
            ],
            by_hand: vec!["restart mta, against mail.queue".to_owned()],
            silences: Vec::new(),
        };
        let text = report_text(&figures, Micros(1_796_626_800_000_000));
        let lines: Vec<String> = text
            .lines
            .iter()
            .map(|it| format!("{} {}: {}", it.rule, it.host, it.summary))
            .collect();
        expect![[r#"
            week to 2026-12-07: 4 incidents paged
            4 incidents paged, 2 judged real; mean time to acknowledge 4 min, to resolve 30 min.
            [{"pages":3,"real":2,"rule":"app.down"},{"pages":1,"real":0,"rule":"disk.full"}]
            1. app.down: 3 incidents, 2 judged real
            2. disk.full: 1 incidents, 0 judged real
            at night ada: 2 pages
            repeat app.down: 3 incidents on web1
            healed restart-app: 3 times on web1
            refused free-disk: once on web1, last because it ran twice today
            automate restart mta, against mail.queue: done by hand three times within 30 days
        "#]]
        .assert_eq(&format!(
            "{}\n{}\n{}\n{}\n",
            text.title,
            text.summary,
            text.evidence,
            lines.join("\n")
        ));
    }

    #[test]
    fn week_without_pages_is_reported_as_such() {
        let text = report_text(&WeekFigures::default(), Micros(0));
        assert!(text.summary.starts_with("0 incidents paged") && text.summary.contains("unknown"));
        assert_eq!(text.evidence, "[]");
    }
}
