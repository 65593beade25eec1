//! Formats of a line that is neither JSON nor an envelope, in the order in which they are tried.

use crate::record::{LineFault, Record, RowKind};
use crate::{
    apache_error, audit, bare_access, cef, combined, envoy, haproxy, klog, known_templates, logfmt,
    nginx_error, passenger, routeros, squid, windows_event, zerolog,
};

/// Reads a line if it is in a format; `None` if it is not.
type DetectLine = for<'a> fn(&'a str, &mut Record<'a>) -> Option<Result<RowKind, LineFault>>;

/// Formats that are detected, in this order.
const DETECTORS: &[(&str, DetectLine)] = &[
    ("combined", combined::detect),
    ("cef", |line, record| cef::parse(line, record).map(Ok)),
    ("windows_event", |line, record| windows_event::parse(line, record).map(|()| Ok(RowKind::Log))),
    ("routeros", |line, record| routeros::parse(line, record).map(|()| Ok(RowKind::Log))),
    ("nginx_template", |line, record| {
        known_templates::parse(line, record).map(|()| Ok(RowKind::Request))
    }),
    ("bare_access", |line, record| bare_access::parse(line, record).map(|()| Ok(RowKind::Request))),
    ("squid", |line, record| squid::parse(line, record).map(|()| Ok(RowKind::Request))),
    ("envoy", |line, record| envoy::parse(line, record).map(Ok)),
    ("haproxy_http", |line, record| haproxy::is_access(line).then(|| haproxy::parse(line, record))),
    ("haproxy_tcp", |line, record| haproxy::detect_session(line, record).map(Ok)),
    ("passenger", |line, record| passenger::parse(line, record).map(|()| Ok(RowKind::Log))),
    ("nginx_error", |line, record| {
        nginx_error::is_likely(line).then(|| Ok(nginx_error::parse(line, record)))
    }),
    ("apache_error", |line, record| {
        apache_error::is_likely(line).then(|| Ok(apache_error::parse(line, record)))
    }),
    ("audit", |line, record| audit::parse(line, record).map(|()| Ok(RowKind::Log))),
    ("klog", |line, record| klog::parse(line, record).map(|()| Ok(RowKind::Log))),
    ("zerolog", |line, record| zerolog::parse(line, record).map(|()| Ok(RowKind::Log))),
    ("logfmt", |line, record| logfmt::parse(line, record).map(Ok)),
];

/// Reads a line that is neither JSON nor an envelope, in the format that it is in.
pub(crate) fn read_known<'a>(
    line: &'a str,
    record: &mut Record<'a>,
) -> Option<Result<RowKind, LineFault>> {
    for (name, detect) in DETECTORS {
        if let Some(outcome) = detect(line, record) {
            record.taken_for = name;
            return Some(outcome);
        }
    }
    None
}

/// Whether a line starts like a JSON object.
pub(crate) fn is_json(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    line.strip_prefix(b"{").is_some_and(|rest| matches!(rest.trim_ascii_start(), [b'"' | b'}', ..]))
}
