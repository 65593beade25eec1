//! `POST /v1/check-results`: one result of a check per line, as a JSON object or as Nagios' command.
//!
//! ```text
//!   {"host": "db1", "check": "backup", "status": "ok", "text": "12 GB", "perfdata": "size=12GB", "ttl": 90000}
//!   [1795176000] PROCESS_SERVICE_CHECK_RESULT;db1;backup;0;12 GB|size=12GB
//! ```

use std::collections::BTreeMap;

use http::request::Parts;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use weir_plugin::CheckState;

use crate::batch_builder::{BatchBuilder, ItemVerdict, too_many};
use crate::passive::{
    PassiveResult, ResultFault, ResultSender, host_state, is_host_check, parse_command, reject,
    service_state,
};
use crate::protocol::{HttpProtocol, IntakeRequest, without_mark};
use crate::response::{IntakeResponse, Refusal};
use crate::window::{Claim, Identity};

/// Path of the door.
pub(crate) const PATH: &str = "/v1/check-results";
/// Longer lines become rejects.
const MAX_LINE_BYTES: usize = 64 << 10;
/// Rejected lines that the response lists.
const MAX_LISTED: usize = 100;
const SOURCE: &str = "check_results";

pub(crate) struct CheckLines;

/// A line as JSON.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResultLine {
    host: String,
    #[serde(default)]
    check: String,
    status: ResultStatus,
    #[serde(default)]
    text: String,
    perfdata: Option<ResultFigures>,
    ttl: Option<f64>,
    service: Option<String>,
}

/// A state by its code or its name.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ResultStatus {
    Code(i64),
    Name(String),
}

/// Figures in Nagios' form, or by label.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ResultFigures {
    Text(String),
    Texts(Vec<String>),
    ByLabel(BTreeMap<String, Value>),
}

impl HttpProtocol for CheckLines {
    const NAME: &'static str = SOURCE;
    /// Lines that are rejected: number, reason, detail.
    type Note = Vec<Value>;

    fn is_for(parts: &Parts) -> bool {
        parts.uri.path() == PATH
    }

    fn read(request: &IntakeRequest, builder: &mut BatchBuilder) -> Result<Vec<Value>, Refusal> {
        if request.parts.method != Method::POST {
            let message = "send results with POST";
            return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "bad_method", message));
        }
        let peer = request.peer.to_string();
        let sender = ResultSender { peer: &peer, source: SOURCE };
        let key = request.header("idempotency-key");
        let mut rejected = Vec::new();
        for (at, line) in without_mark(&request.body).split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            if builder.is_full() {
                return Err(too_many());
            }
            if !key.is_empty() && is_repeat(key, at, line, builder) {
                continue;
            }
            if let Err(fault) = read_line(line, sender, builder)
                && rejected.len() < MAX_LISTED
            {
                rejected
                    .push(json!({"line": at + 1, "reason": fault.reason, "detail": fault.detail}));
            }
        }
        builder.checked().map(|()| rejected)
    }

    fn respond(
        _request: &IntakeRequest,
        rejected: Vec<Value>,
        verdicts: &[ItemVerdict],
    ) -> IntakeResponse {
        let count = |verdict: &ItemVerdict| verdicts.iter().filter(|it| *it == verdict).count();
        let (kept, known) = (count(&ItemVerdict::Kept), count(&ItemVerdict::Known));
        if verdicts.contains(&ItemVerdict::Pending) {
            let message = "a request with this Idempotency-Key is still being stored";
            return Refusal::new(StatusCode::TOO_MANY_REQUESTS, "pending", message)
                .plain()
                .with(("retry-after", "1"));
        }
        let all = verdicts.len() - kept - known;
        // `curl --fail` of a job that reports nothing else must fail.
        let is_useless = all > 0 && kept + known == 0;
        let status = if is_useless { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
        let body =
            json!({"kept": kept, "known": known, "rejected": all, "first_rejected": rejected});
        IntakeResponse::json(status, &body)
    }
}

/// Whether the line of a request with a key came before; notes it as an item then.
fn is_repeat(key: &str, at: usize, line: &[u8], builder: &mut BatchBuilder) -> bool {
    let id = Identity::of(&[SOURCE.as_bytes(), key.as_bytes(), &at.to_le_bytes(), line]);
    let verdict = match builder.claims.claim(id) {
        Claim::New => return false,
        Claim::Known => ItemVerdict::Known,
        Claim::Pending => ItemVerdict::Pending,
    };
    builder.verdicts.push(verdict);
    true
}

fn read_line(
    line: &[u8],
    sender: ResultSender<'_>,
    builder: &mut BatchBuilder,
) -> Result<(), ResultFault> {
    let parsed = if line.len() > MAX_LINE_BYTES {
        let detail = format!("{} bytes, more than {MAX_LINE_BYTES}", line.len());
        Err(ResultFault::new("too_long", detail))
    } else if line.starts_with(b"{") {
        parse_object(line)
    } else {
        parse_command(&String::from_utf8_lossy(line))
    };
    match parsed {
        Ok(result) => result.push(line, sender, builder),
        Err(fault) => {
            reject(&fault, line, sender, builder);
            Err(fault)
        }
    }
}

fn parse_object(line: &[u8]) -> Result<PassiveResult, ResultFault> {
    let line: ResultLine = serde_json::from_slice(line)
        .map_err(|error| ResultFault::new("bad_object", error.to_string()))?;
    let state = state(&line.status, is_host_check(line.check.trim()))?;
    let ttl_seconds = line.ttl.map(whole_seconds).transpose()?;
    let output = match line.perfdata {
        None => line.text,
        Some(figures) => with_figures(&line.text, figures.text()?),
    };
    let (host, check, service) = (line.host, line.check, line.service);
    Ok(PassiveResult { host, check, state, output, ts: None, ttl_seconds, service })
}

fn state(status: &ResultStatus, is_host: bool) -> Result<CheckState, ResultFault> {
    let name = match status {
        ResultStatus::Code(code) if is_host => return Ok(host_state(*code)),
        ResultStatus::Code(code) => return Ok(service_state(*code)),
        ResultStatus::Name(name) => name.trim().to_ascii_lowercase(),
    };
    match name.as_str() {
        "ok" | "up" => Ok(CheckState::Ok),
        "warn" | "warning" => Ok(CheckState::Warning),
        "critical" | "crit" | "down" | "unreachable" => Ok(CheckState::Critical),
        "unknown" => Ok(CheckState::Unknown),
        _ => match name.parse() {
            Ok(code) => state(&ResultStatus::Code(code), is_host),
            Err(_) => {
                let detail =
                    format!("`{name}` is no status: 0 to 3, ok, warn, critical or unknown");
                Err(ResultFault::new("bad_status", detail))
            }
        },
    }
}

/// A time in seconds, rounded up; `check` refuses those out of bounds.
fn whole_seconds(seconds: f64) -> Result<i64, ResultFault> {
    if !(0.0..1e12).contains(&seconds) {
        return Err(ResultFault::new("bad_ttl", "`ttl` is a number of seconds"));
    }
    #[expect(clippy::cast_possible_truncation, reason = "it was compared with bounds above")]
    Ok(seconds.ceil() as i64)
}

impl ResultFigures {
    /// The figures in Nagios' form.
    fn text(&self) -> Result<String, ResultFault> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::Texts(texts) => Ok(texts.join(" ")),
            Self::ByLabel(figures) => {
                let items = figures.iter().map(|(label, value)| labelled(label, value));
                Ok(items.collect::<Result<Vec<_>, _>>()?.join(" "))
            }
        }
    }
}

fn labelled(label: &str, value: &Value) -> Result<String, ResultFault> {
    let label = label.replace('\'', "''");
    match value {
        Value::Number(number) => Ok(format!("'{label}'={number}")),
        Value::String(text) => Ok(format!("'{label}'={text}")),
        _ => {
            let detail = format!("the figure `{label}` is neither a number nor a text");
            Err(ResultFault::new("bad_object", detail))
        }
    }
}

/// The output of a plugin with these figures: they go to the first line's end.
fn with_figures(text: &str, figures: String) -> String {
    let figures = figures.replace(['\n', '\r'], " ");
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let mark = if first.contains('|') { " " } else { "|" };
    format!("{first}{mark}{figures}\n{rest}")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::batch_builder::MAX_ITEMS;
    use crate::check::{builder, mangled, request, rows, status_and_body};

    const COLUMNS: [&str; 8] = [
        "host",
        "check",
        "status",
        "output",
        "observed_value",
        "observed_unit",
        "expires_ts",
        "perfdata",
    ];

    fn posted(body: &[u8]) -> (String, String) {
        let request = request(Method::POST, PATH, &[], body);
        let mut builder = builder();
        let note = CheckLines::read(&request, &mut builder).expect("it is well formed");
        let answer = status_and_body(&CheckLines::respond(&request, note, &builder.verdicts));
        let own = builder.own_rows();
        let results = own.iter().filter(|batch| batch.table.name == "check_result");
        (results.map(|batch| crate::check::texts(batch, &COLUMNS)).collect(), answer)
    }

    /// centreon-archive/centreon-archived#7872: a result that is missed after 26 hours;
    /// sensu/sensu-go#584: a time to live that the result states.
    #[test]
    fn objects_are_results_with_the_time_that_they_state() {
        let body = br#"
            {"host":"db1","check":"backup","status":"ok","text":"12 GB | size=12GB;;20","ttl":93600}
            {"host":"db1","check":"load","status":1,"text":"high","perfdata":"load1=5.5;5;10 load5=2","ttl":0.5}
            {"host":"web1","check":"jobs","status":"2","perfdata":{"failed":3,"it's":"4ms"}}
            {"host":"web1","check":"queue","status":"WARNING","text":"a\nb","perfdata":["x=1","y=2"]}
            {"host":"web1","status":"down"}
            {"host":"web1","check":"exit","status":127}
        "#;
        let (rows, answer) = posted(body);
        expect![[r#"
            host=db1 check=backup status=ok output=12 GB observed_value=12.0 observed_unit=GB expires_ts=2026-11-21T14:00:00Z perfdata={size: 12GB;;20}
            host=db1 check=load status=warn output=high observed_value=5.5 observed_unit= expires_ts=2026-11-20T12:00:01Z perfdata={load1: 5.5;5;10, load5: 2}
            host=web1 check=jobs status=critical output= observed_value=3.0 observed_unit= expires_ts= perfdata={failed: 3, it's: 4ms}
            host=web1 check=queue status=warn output=a observed_value=1.0 observed_unit= expires_ts= perfdata={x: 1, y: 2}
            host=web1 check=host status=critical output= observed_value= observed_unit= expires_ts= perfdata={}
            host=web1 check=exit status=unknown output= observed_value= observed_unit= expires_ts= perfdata={}
        "#]]
        .assert_eq(&rows);
        expect![[r#"200 {"first_rejected":[],"kept":6,"known":0,"rejected":0}"#]]
            .assert_eq(&answer);
    }

    #[test]
    fn lines_that_are_no_result_are_listed_and_the_others_are_kept() {
        let (_, answer) = posted(
            b"[1795175990] PROCESS_SERVICE_CHECK_RESULT;a;b;0;fine\n\nnonsense\n{\"host\":\"a\",\"check\":\"b\",\"status\":\"fine\"}\n",
        );
        expect![[r#"200 {"first_rejected":[{"detail":"the line is neither a JSON object nor a check result of Nagios","line":3,"reason":"no_match"},{"detail":"`fine` is no status: 0 to 3, ok, warn, critical or unknown","line":4,"reason":"bad_status"}],"kept":1,"known":0,"rejected":2}"#]]
        .assert_eq(&answer);
        for (line, reason) in [
            (r#"{"host":"a","check":"b","status":0,"tll":60}"#, "bad_object"),
            (r#"{"host":"a","check":"b"}"#, "bad_object"),
            (r#"{"host":"a","check":"b","status":0,"ttl":0}"#, "bad_ttl"),
            (r#"{"host":"a","check":"b","status":0,"ttl":-5}"#, "bad_ttl"),
            (r#"{"host":"a","check":"b","status":0,"ttl":1e9}"#, "bad_ttl"),
            (r#"{"host":"","check":"b","status":0}"#, "bad_name"),
            (r#"{"host":"a","check":"b","status":0,"perfdata":{"a":[]}}"#, "bad_object"),
        ] {
            let (rows, answer) = posted(line.as_bytes());
            assert!(rows.is_empty(), "{line}: {rows}");
            assert!(answer.starts_with("422 "), "{line}: {answer}");
            assert!(answer.contains(&format!(r#""reason":"{reason}""#)), "{line}: {answer}");
        }
    }

    #[test]
    fn a_key_recognizes_a_repeated_request() {
        let line = br#"{"host":"a","check":"b","status":0}"#;
        let request = request(Method::POST, PATH, &[("idempotency-key", "k1")], line);
        let mut builder = builder();
        assert!(CheckLines::read(&request, &mut builder).is_ok());
        builder.claims.commit(crate::check::NOW);
        assert!(CheckLines::read(&request, &mut builder).is_ok());
        assert_eq!(builder.verdicts, [ItemVerdict::Kept, ItemVerdict::Known]);
    }

    #[test]
    fn too_many_results_are_refused() {
        let body = b"PROCESS_SERVICE_CHECK_RESULT;a;b;0;x\n".repeat(MAX_ITEMS + 1);
        let request = request(Method::POST, PATH, &[], &body);
        let refusal = CheckLines::read(&request, &mut builder()).expect_err("too many");
        assert_eq!(refusal.status, StatusCode::PAYLOAD_TOO_LARGE);
    }

    #[test]
    fn any_bytes_are_read() {
        arbtest::arbtest(|u| {
            let seed = b"{\"host\":\"a\",\"check\":\"b\",\"status\":0,\"text\":\"x|y=1\"}\n[1795175990] PROCESS_SERVICE_CHECK_RESULT;a;b;0;fine\\n|a=1\n";
            let body = mangled(u, seed)?;
            let mut builder = builder();
            let request = request(Method::POST, PATH, &[], &body);
            assert!(CheckLines::read(&request, &mut builder).is_ok());
            let filled = body.split(|b| *b == b'\n').filter(|line| !line.trim_ascii().is_empty());
            assert_eq!(builder.verdicts.len(), filled.count());
            let _ = rows(&mut builder, &["host"]);
            Ok(())
        });
    }
}
