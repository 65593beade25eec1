//! `notify`: time from a finding that fires to the receiver's answer, 200 findings in 10 s, beside Alertmanager in the
//! same run.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use parking_lot::Mutex;
use serde_json::{Value, json};
use weir_tables::Micros;

use crate::data::pause;
use crate::meter;
use crate::report::{Report, now};
use crate::weir::{Weir, wait_for};

/// One rule per finding: findings of one rule join one incident, which is one message.
const FINDINGS: u32 = 200;
const SECONDS: u32 = 10;
/// How long the last message may take.
const LIMIT: Duration = Duration::from_secs(180);

/// Pages for each marker line, as long as it is younger than two minutes.
const RULE: &str = r#"/*---
id = "bench.marker{number}"
title = "Marker in a log"
tier = "app"
class = "page"
for = "0s"
every = "1s"
clear = "0s"
key = ["subject"]
needs = ["log"]
when = "select 1 from log where source = 'app' and body like 'page{number} %' and ts > $now - interval '2 minutes' and ts <= $now limit 1"
subject = "{subject}"
summary = "{subject} fails"
why = "The benchmark wrote a line."
look_at = "The benchmark."
silent_when = "No such line in the last two minutes."
fix = "Write no more lines."
source = "the benchmark"
---*/
select host, substr(body, strpos(body, ' ') + 1) as subject from log
where source = 'app' and body like 'page{number} %' and ts > $now - interval '2 minutes' and ts <= $now
group by host, body
"#;

/// Measures weir, then Alertmanager with two settings.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut page = Report::new("notify");
    let weir = weir_latency()?;
    page.own(weir.cpu_seconds);
    let mut rows = vec![
        ["sender", "messages", "alerts in them", "p50", "p99", "CPU seconds"]
            .map(str::to_owned)
            .to_vec(),
        weir.row("weir: line written to page accepted"),
    ];
    for (name, wait) in
        [("Alertmanager, `group_wait` 0 s", "0s"), ("Alertmanager, its defaults", "30s")]
    {
        let peer = alertmanager_latency(wait)?;
        page.own(peer.cpu_seconds);
        rows.push(peer.row(&format!("{name}: alert posted to page accepted")));
    }
    page.text(&format!(
        "{FINDINGS} findings in {SECONDS} s, one rule per finding, to one webhook on loopback. weir's time includes \
         intake, the rule and the ledger; Alertmanager's begins when an alert reaches it, so the time of the rules that \
         Prometheus would run before (15 s by default) is not in it. Bars: p50 ≤ 0.3 s after the rule has run, p99 ≤ 2 s."
    ));
    page.table(&rows);
    if let Some(engine) = weir.after_rule {
        page.text(&format!(
            "From the finding's `fired_ts` to the receiver's answer: p50 **{:.3} s**, p99 **{:.3} s**.",
            engine.0, engine.1
        ));
    }
    page.write()
}

/// Times of one sender.
struct Latency {
    messages: usize,
    seconds: Vec<f64>,
    cpu_seconds: f64,
    /// p50 and p99 from the finding's firing.
    after_rule: Option<(f64, f64)>,
}

impl Latency {
    fn row(&self, name: &str) -> Vec<String> {
        let (half, most) = percentiles(&self.seconds);
        vec![
            name.to_owned(),
            self.messages.to_string(),
            self.seconds.len().to_string(),
            format!("**{half:.3} s**"),
            format!("**{most:.3} s**"),
            format!("{:.2}", self.cpu_seconds),
        ]
    }
}

fn percentiles(seconds: &[f64]) -> (f64, f64) {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |hundredths: usize| sorted.get(sorted.len() * hundredths / 100).copied();
    (at(50).unwrap_or(f64::NAN), at(99).or(sorted.last().copied()).unwrap_or(f64::NAN))
}

/// Messages with the time of their arrival.
#[derive(Clone, Default)]
struct Arrivals(Arc<Mutex<Vec<(Micros, Value)>>>);

impl Arrivals {
    fn serve() -> anyhow::Result<(String, Self)> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}/hook", listener.local_addr()?);
        let arrivals = Self::default();
        let kept = arrivals.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let kept = kept.clone();
                std::thread::spawn(move || kept.answer(&stream));
            }
        });
        Ok((url, arrivals))
    }

    fn answer(&self, stream: &TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        loop {
            let (mut line, mut length) = (String::new(), 0);
            loop {
                line.clear();
                if reader.read_line(&mut line)? == 0 {
                    return Ok(());
                }
                let header = line.trim().to_lowercase();
                if let Some(value) = header.strip_prefix("content-length: ") {
                    length = value.parse().unwrap_or(0);
                }
                if header.is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body)?;
            if let Ok(message) = serde_json::from_slice(&body) {
                self.0.lock().push((now(), message));
            }
            (&*stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")?;
        }
    }

    fn all(&self) -> Vec<(Micros, Value)> {
        self.0.lock().clone()
    }
}

fn weir_latency() -> anyhow::Result<Latency> {
    let dir = tempfile::tempdir()?;
    let (url, arrivals) = Arrivals::serve()?;
    let config = dir.path().join("weir.toml");
    fs::write(
        &config,
        format!("[[receivers]]\nname = \"hook\"\nkind = \"webhook\"\nurl = \"{url}\"\n"),
    )?;
    let rules = dir.path().join("rules");
    fs::create_dir(&rules)?;
    for number in 0..FINDINGS {
        let rule = RULE.replace("{number}", &number.to_string());
        fs::write(rules.join(format!("bench.marker{number}.sql")), rule)?;
    }
    let intake = weir_drill::free_address()?;
    let shown = |path: &Path| path.display().to_string();
    let args = ["hub", "--listen", "127.0.0.1:0", "--data", &shown(&dir.path().join("data"))]
        .map(str::to_owned)
        .into_iter()
        .chain(["--config".to_owned(), shown(&config)]);
    let args: Vec<String> = args.collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let set = [("WEIR_INTAKE_HTTP", intake.to_string()), ("WEIR_RULES_DIR", shown(&rules))];
    let weir = Weir::serve_with(&args, &set)?;
    // All rules have run once and are planned.
    pause(Duration::from_secs(20));
    let posted = spread(|number| {
        let line = format!("{{\"message\":\"page{number} shop{number}\",\"host\":\"web1\"}}\n");
        let url = format!("http://{intake}/intake/jsonl?source=app");
        ureq::post(&url).send(line)?;
        Ok(())
    })?;
    let page_of = |(at, message): &(Micros, Value)| {
        let subject = message["title"].as_str()?.split("shop").nth(1)?;
        let digits: String = subject.chars().take_while(char::is_ascii_digit).collect();
        (message["kind"] == "page").then_some((digits.parse().ok()?, *at))
    };
    wait_for("a page of each finding", LIMIT, Duration::from_millis(200), || {
        let all = arrivals.all();
        let pages: BTreeMap<u32, Micros> = all.iter().rev().filter_map(page_of).collect();
        Ok(pages.len() >= posted.len())
    })?;
    let pages: BTreeMap<u32, Micros> = arrivals.all().iter().rev().filter_map(page_of).collect();
    let seconds =
        pages.iter().filter_map(|(number, at)| Some(at.seconds_since(*posted.get(number)?)));
    let seconds = seconds.collect();
    let fired = fired_times(&weir)?;
    let after: Vec<f64> = pages
        .iter()
        .filter_map(|(number, at)| Some(at.as_unix_seconds() - fired.get(number)?))
        .collect();
    let messages = arrivals.all().len();
    let cpu_seconds = weir.stop()?;
    Ok(Latency { messages, seconds, cpu_seconds, after_rule: Some(percentiles(&after)) })
}

/// Seconds since 1970 at which the finding of each number fired.
fn fired_times(weir: &Weir) -> anyhow::Result<BTreeMap<u32, f64>> {
    let rows = weir.sql(
        "select subject, date_part('epoch', fired_ts) from finding_now where rule like 'bench.marker%'",
    )?;
    let one = |row: &Value| {
        let number = row[0].as_str()?.strip_prefix("shop")?.parse().ok()?;
        Some((number, row[1].as_f64()?))
    };
    Ok(rows.iter().filter_map(one).collect())
}

/// Calls `post` for each number, evenly over the time; the time of each call.
fn spread(
    mut post: impl FnMut(u32) -> anyhow::Result<()>,
) -> anyhow::Result<BTreeMap<u32, Micros>> {
    let began = now();
    let mut posted = BTreeMap::new();
    for number in 0..FINDINGS {
        let due = f64::from(number) * f64::from(SECONDS) / f64::from(FINDINGS);
        let ahead = due - now().seconds_since(began);
        if ahead > 0.0 {
            pause(Duration::from_secs_f64(ahead));
        }
        posted.insert(number, now());
        post(number)?;
    }
    Ok(posted)
}

/// A process that is killed when dropped.
struct Peer(Option<Child>);

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _gone_already = child.kill();
            let _reaped = child.wait();
        }
    }
}

fn alertmanager_latency(group_wait: &str) -> anyhow::Result<Latency> {
    let dir = tempfile::tempdir()?;
    let (url, arrivals) = Arrivals::serve()?;
    let config = dir.path().join("alertmanager.yml");
    fs::write(
        &config,
        format!(
            "route:\n  receiver: hook\n  group_by: [subject]\n  group_wait: {group_wait}\n\
             receivers:\n  - name: hook\n    webhook_configs:\n      - url: {url}\n"
        ),
    )?;
    let address = weir_drill::free_address()?;
    let mut command = Command::new("prometheus-alertmanager");
    command.arg(format!("--config.file={}", config.display()));
    command.arg(format!("--storage.path={}", dir.path().display()));
    command.arg(format!("--web.listen-address={address}")).arg("--cluster.listen-address=");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut peer = Peer(Some(command.spawn().context("cannot run prometheus-alertmanager")?));
    let is_ready = || Ok(ureq::get(format!("http://{address}/-/ready")).call().is_ok());
    wait_for("Alertmanager", Duration::from_secs(30), Duration::from_millis(50), is_ready)?;
    let posted = spread(|number| {
        let alert =
            json!([{"labels": {"alertname": "marker", "subject": format!("shop{number}")}}]);
        let url = format!("http://{address}/api/v2/alerts");
        ureq::post(&url).header("content-type", "application/json").send(alert.to_string())?;
        Ok(())
    })?;
    let times = |arrivals: &Arrivals| {
        let mut times: BTreeMap<u32, Micros> = BTreeMap::new();
        for (at, message) in arrivals.all() {
            let alerts = message["alerts"].as_array().cloned().unwrap_or_default();
            for alert in alerts {
                let subject = alert["labels"]["subject"].as_str().unwrap_or_default();
                if let Some(number) = subject.strip_prefix("shop").and_then(|n| n.parse().ok()) {
                    times.entry(number).or_insert(at);
                }
            }
        }
        times
    };
    wait_for("all alerts", LIMIT, Duration::from_millis(200), || {
        Ok(times(&arrivals).len() >= posted.len())
    })?;
    let seconds: Vec<f64> = times(&arrivals)
        .iter()
        .filter_map(|(number, at)| Some(at.seconds_since(*posted.get(number)?)))
        .collect();
    ensure!(!seconds.is_empty(), "Alertmanager sent nothing");
    let mut child = peer.0.take().context("it runs")?;
    let cpu_seconds = meter::cpu_seconds(child.id());
    child.kill()?;
    child.wait()?;
    Ok(Latency { messages: arrivals.all().len(), seconds, cpu_seconds, after_rule: None })
}
