//! Passive results of checks, from NSCA and over HTTP, to rows of `check_result`.
//!
//! Sources: Nagios Core's external commands `PROCESS_SERVICE_CHECK_RESULT` and `PROCESS_HOST_CHECK_RESULT`. The
//! surprising thing: codes of hosts are 0 up, 1 down and 2 unreachable, so 1 is no warning there.

use std::net::IpAddr;

use weir_plugin::{CheckState, PluginResult};
use weir_tables::{CheckResult, Micros};

use crate::batch_builder::{BatchBuilder, RejectCause, RowOrigin};
use crate::check_book::{CheckName, MAX_TTL_SECONDS};

/// The name of the check of a host itself.
pub(crate) const HOST_CHECK: &str = "host";
/// Longest name of a host or a check, in characters.
const NAME_CHARS_MAX: usize = 255;
/// Longest text that becomes `output`, in characters.
const OUTPUT_CHARS_MAX: usize = 1_000;
/// Figures of a result that become `perfdata`.
const FIGURES_MAX: usize = 100;
/// Older results are about another time, newer ones have a wrong clock.
const AGE_MAX_US: i64 = 24 * 3_600 * 1_000_000;

/// A result as its sender wrote it.
#[derive(Clone, Debug)]
pub(crate) struct PassiveResult {
    pub(crate) host: String,
    /// The check; empty for the host itself.
    pub(crate) check: String,
    pub(crate) state: CheckState,
    /// What a plugin wrote: text, and figures after `|`.
    pub(crate) output: String,
    /// When the check ended; `None` is now.
    pub(crate) ts: Option<Micros>,
    /// Seconds until the next result should arrive.
    pub(crate) ttl_seconds: Option<i64>,
    pub(crate) service: Option<String>,
}

/// Where a result came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResultSender<'a> {
    pub(crate) peer: &'a str,
    pub(crate) source: &'a str,
}

/// Why a result becomes no row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResultFault {
    pub(crate) reason: &'static str,
    pub(crate) detail: String,
}

impl ResultFault {
    pub(crate) fn new(reason: &'static str, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

/// The state of a code; another number is unknown, as of a plugin that is missing (127).
pub(crate) fn service_state(code: i64) -> CheckState {
    i32::try_from(code).map_or(CheckState::Unknown, CheckState::of_code)
}

/// The state of a host's code.
pub(crate) fn host_state(code: i64) -> CheckState {
    match code {
        0 => CheckState::Ok,
        1 | 2 => CheckState::Critical,
        _ => CheckState::Unknown,
    }
}

/// Whether a name means the host itself: none, or what NCPA sends.
pub(crate) fn is_host_check(check: &str) -> bool {
    check.is_empty() || check == "__HOST__"
}

impl PassiveResult {
    /// Adds the result as one item: a row, or a reject with its reason.
    pub(crate) fn push(
        mut self,
        raw: &[u8],
        sender: ResultSender<'_>,
        builder: &mut BatchBuilder,
    ) -> Result<(), ResultFault> {
        let checked = self.check(sender, builder);
        match &checked {
            Ok(ts) => self.push_row(*ts, builder),
            Err(fault) => reject(fault, raw, sender, builder),
        }
        checked.map(|_| ())
    }

    /// Puts names in order and returns the time of the result.
    fn check(
        &mut self,
        sender: ResultSender<'_>,
        builder: &BatchBuilder,
    ) -> Result<Micros, ResultFault> {
        if is_host_check(self.check.trim()) {
            HOST_CHECK.clone_into(&mut self.check);
        }
        for (what, name) in [("host", &mut self.host), ("check", &mut self.check)] {
            *name = one_line(name, usize::MAX);
            if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
                let detail = format!("the name of the {what} has 1 to {NAME_CHARS_MAX} characters");
                return Err(ResultFault::new("bad_name", detail));
            }
        }
        let peer: Option<IpAddr> = sender.peer.parse().ok();
        if !builder.checks.allows(peer, &self.host) {
            let detail = format!(
                "`{}` may not report about `{}`; add it to `intake.check_hosts`",
                sender.peer, self.host
            );
            return Err(ResultFault::new("foreign_host", detail));
        }
        if self.ttl_seconds.is_some_and(|ttl| !(1..=MAX_TTL_SECONDS).contains(&ttl)) {
            let detail = format!("`ttl` is 1 to {MAX_TTL_SECONDS} s");
            return Err(ResultFault::new("bad_ttl", detail));
        }
        let now = builder.now;
        match self.ts.filter(|ts| ts.0 > 0) {
            Some(ts) if now.0 - ts.0 > AGE_MAX_US => {
                Err(ResultFault::new("too_old", "the result is more than a day old"))
            }
            // A clock that is ahead must not hide the next results.
            Some(ts) => Ok(ts.min(now)),
            None => Ok(now),
        }
    }

    fn push_row(&self, ts: Micros, builder: &mut BatchBuilder) {
        let result = PluginResult::parse(self.state, &self.output);
        let output = one_line(&result.summary, OUTPUT_CHARS_MAX);
        let first = result.values.first();
        let bound = result.bound().map(|range| range.to_string());
        let figures: Vec<(String, String)> = result
            .values
            .iter()
            .take(FIGURES_MAX)
            .map(|value| (value.label.clone(), value.to_string()))
            .collect();
        let figures: Vec<(&str, &str)> =
            figures.iter().map(|(label, figure)| (label.as_str(), figure.as_str())).collect();
        let name = CheckName { host: &self.host, check: &self.check };
        let own = self.ttl_seconds.map(|ttl| Micros(ts.0 + ttl * 1_000_000));
        let expires = own.or_else(|| builder.checks.expiry(name, ts));
        builder.check_row(&CheckResult {
            ts,
            host: &self.host,
            check: &self.check,
            kind: "passive",
            service: self.service.as_deref().filter(|name| !name.is_empty()),
            status: self.state.as_str(),
            observed_value: first.and_then(|value| value.value),
            observed_unit: first.map(|value| value.unit.as_str()).filter(|unit| !unit.is_empty()),
            threshold: bound.as_deref(),
            output: Some(output.as_str()).filter(|output| !output.is_empty()),
            expires_ts: expires,
            perfdata: &figures,
            ..CheckResult::default()
        });
    }
}

/// Adds a raw item to `reject`, with the sender as its host: the claimed one may not be its own.
pub(crate) fn reject(
    fault: &ResultFault,
    raw: &[u8],
    sender: ResultSender<'_>,
    builder: &mut BatchBuilder,
) {
    let cause =
        RejectCause { parser: sender.source, reason: fault.reason, detail: fault.detail.as_str() };
    builder.reject(RowOrigin { host: sender.peer, source: sender.source }, &cause, raw);
}

/// Reads `[TIME] PROCESS_SERVICE_CHECK_RESULT;HOST;SERVICE;CODE;TEXT|FIGURES`, and the form of hosts without a service.
pub(crate) fn parse_command(line: &str) -> Result<PassiveResult, ResultFault> {
    let (ts, command) = split_time(line)?;
    let (name, rest) = command.split_once(';').unwrap_or((command, ""));
    let is_service = match name.trim() {
        "PROCESS_SERVICE_CHECK_RESULT" => true,
        "PROCESS_HOST_CHECK_RESULT" => false,
        _ => {
            let detail = "the line is neither a JSON object nor a check result of Nagios";
            return Err(ResultFault::new("no_match", detail));
        }
    };
    let mut fields = rest.splitn(if is_service { 4 } else { 3 }, ';');
    let host = fields.next().unwrap_or_default().to_owned();
    let check = if is_service { fields.next().unwrap_or_default() } else { "" }.to_owned();
    let code: Option<i64> = fields.next().and_then(|code| code.trim().parse().ok());
    let code = code.ok_or_else(|| ResultFault::new("bad_status", "the code is not a number"))?;
    if is_service && check.trim().is_empty() {
        return Err(ResultFault::new("bad_name", "the service has no name"));
    }
    let is_host = is_host_check(check.trim());
    let state = if is_host { host_state(code) } else { service_state(code) };
    let output = with_line_ends(fields.next().unwrap_or_default());
    Ok(PassiveResult { host, check, state, output, ts, ttl_seconds: None, service: None })
}

/// The time in brackets, and the command.
fn split_time(line: &str) -> Result<(Option<Micros>, &str), ResultFault> {
    let Some(rest) = line.strip_prefix('[') else { return Ok((None, line)) };
    let parts = rest.split_once(']');
    let seconds = parts.and_then(|(time, _)| time.trim().parse::<f64>().ok());
    match (parts, seconds.filter(|seconds| seconds.is_finite())) {
        (Some((_, command)), Some(seconds)) => {
            Ok((Some(Micros::from_unix_seconds(seconds)), command.trim_start()))
        }
        _ => Err(ResultFault::new("bad_time", "the time in brackets is not in seconds")),
    }
}

/// Nagios' command file is made of lines, so line ends of the output are written as `\n`.
fn with_line_ends(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match (char, chars.as_str().chars().next()) {
            ('\\', Some('n')) => {
                out.push('\n');
                chars.next();
            }
            ('\\', Some('\\')) => {
                out.push('\\');
                chars.next();
            }
            _ => out.push(char),
        }
    }
    out
}

/// The text on one line, without control characters, cut where it is very long.
fn one_line(text: &str, most: usize) -> String {
    let mut chars = text.trim().chars().map(|char| if char.is_control() { ' ' } else { char });
    let mut line: String = chars.by_ref().take(most).collect();
    if chars.next().is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::check::{builder, rows};

    const SENDER: ResultSender<'_> = ResultSender { peer: "192.0.2.1", source: "check_results" };

    fn shown(line: &str) -> String {
        let mut builder = builder();
        let pushed = parse_command(line)
            .and_then(|result| result.push(line.as_bytes(), SENDER, &mut builder));
        if let Err(fault) = pushed {
            return format!("{}: {}", fault.reason, fault.detail);
        }
        let columns = ["host", "check", "status", "output", "observed_value", "perfdata"];
        rows(&mut builder, &columns)
    }

    /// Alignak-monitoring/alignak#687: a service that is critical and was shown as unreachable;
    /// Alignak-monitoring/alignak#94: down and unreachable of hosts, swapped;
    /// naemon/naemon-core#505: NCPA's name for the host itself;
    /// Icinga/icinga-core#802: figures after the text.
    #[test]
    fn commands_of_nagios_are_results() {
        expect![[r#"
            host=ek3022fdj-00009 check=svc_Printing_A status=critical output=Hardware observed_value=4.0 perfdata={PrintedDocs: 4c}
        "#]]
        .assert_eq(&shown("[1795175990] PROCESS_SERVICE_CHECK_RESULT;ek3022fdj-00009;svc_Printing_A;2;Hardware|'PrintedDocs'=4c"));
        expect![[r#"
            host=localhost check=fuckup status=ok output=connected observed_value=1.0 perfdata={state: 1, time: 8.636009}
        "#]]
        .assert_eq(&shown("PROCESS_SERVICE_CHECK_RESULT;localhost;fuckup;0;connected|state=1 time=8.636009"));
        for (line, expected) in [
            ("PROCESS_HOST_CHECK_RESULT;router;1;no reply", "critical"),
            ("PROCESS_HOST_CHECK_RESULT;router;2;unreachable", "critical"),
            ("PROCESS_HOST_CHECK_RESULT;router;0;up; 1 ms", "ok"),
            ("PROCESS_SERVICE_CHECK_RESULT;router;__HOST__;1;down", "critical"),
            ("PROCESS_SERVICE_CHECK_RESULT;router;disk;1;nearly full", "warn"),
            ("PROCESS_SERVICE_CHECK_RESULT;router;disk;127;not found", "unknown"),
            ("PROCESS_SERVICE_CHECK_RESULT;router;disk;-1;killed", "unknown"),
        ] {
            let row = shown(line);
            assert!(row.contains(&format!("status={expected} ")), "{line}: {row}");
            let is_host = line.contains("_HOST");
            assert_eq!(row.contains("check=host "), is_host, "{line}: {row}");
        }
        let several = shown("PROCESS_SERVICE_CHECK_RESULT;a;b;0;first; second\\nC:\\\\new|a=1");
        assert!(several.contains("output=first; second ") && several.contains("a: 1"), "{several}");
    }

    #[test]
    fn lines_that_are_no_result_have_a_reason() {
        for (line, reason) in [
            ("[1795175990] ACKNOWLEDGE_SVC_PROBLEM;a;b;1;1;1;ada;seen", "no_match"),
            ("nonsense", "no_match"),
            ("", "no_match"),
            ("[now] PROCESS_SERVICE_CHECK_RESULT;a;b;0;x", "bad_time"),
            ("[1795175990 PROCESS_SERVICE_CHECK_RESULT;a;b;0;x", "bad_time"),
            ("PROCESS_SERVICE_CHECK_RESULT;a;b;OK;x", "bad_status"),
            ("PROCESS_SERVICE_CHECK_RESULT;a;b", "bad_status"),
            ("PROCESS_SERVICE_CHECK_RESULT;a;;0;x", "bad_name"),
            ("PROCESS_SERVICE_CHECK_RESULT; ;b;0;x", "bad_name"),
            ("[1795000000] PROCESS_SERVICE_CHECK_RESULT;a;b;0;x", "too_old"),
        ] {
            assert!(shown(line).starts_with(&format!("{reason}: ")), "{line}: {}", shown(line));
        }
        let long = format!("PROCESS_SERVICE_CHECK_RESULT;a;{};0;x", "b".repeat(300));
        assert!(shown(&long).starts_with("bad_name"));
    }

    #[test]
    fn a_result_from_the_future_is_one_of_now() {
        let mut builder = builder();
        let line = "[1795999999] PROCESS_SERVICE_CHECK_RESULT;a;b;0;x";
        let result = parse_command(line).expect("a result");
        result.push(line.as_bytes(), SENDER, &mut builder).expect("a row");
        assert_eq!(rows(&mut builder, &["ts"]), "ts=2026-11-20T12:00:00Z\n");
    }
}
