//! Squid's own access log, `logformat squid` (Squid's documentation of its log files).
//!
//! The duration is whole milliseconds, and the bytes are all that the client got.
//!
//! ```text
//! 1795176000.913     70 192.0.2.1 TCP_MISS/204 206 HEAD http://a/x - HIER_DIRECT/192.0.2.9 text/html
//! ```

use weir_values::{number, peer_address};

use crate::field::Field;
use crate::record::Record;

/// Reads a line; `None`, with the record unchanged, if it is not in this format.
pub(crate) fn parse<'a>(line: &'a str, record: &mut Record<'a>) -> Option<()> {
    // The time has ten digits, a point and three digits.
    if line.as_bytes().get(10) != Some(&b'.') || !line.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let mut words = line.split_ascii_whitespace();
    let mut next = || words.next();
    let (time, span, client, result) = (next()?, next()?, next()?, next()?);
    let (bytes, method, url, user) = (next()?, next()?, next()?, next()?);
    let (hierarchy, media_type) = (next()?, next()?);
    let (action, status) = result.rsplit_once('/')?;
    let (route, peer) = hierarchy.rsplit_once('/')?;
    let is_squid = number::integer(status).is_some()
        && number::integer(bytes).is_some()
        && number::seconds(span).is_some()
        && action.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    if !is_squid {
        return None;
    }
    record.ts = Some(record.times.read(time)?);
    record.put(["program", "squid"], Field::Program);
    record.put(["duration_ms", span], Field::DurationMillis);
    record.put(["client", client], Field::ClientAddress);
    record.put(["termination_state", action], Field::Column);
    // Without a status the client was gone, or it is a tunnel that was never opened.
    let status = if status == "000" { "-" } else { status };
    record.put(["status", status], Field::Status);
    record.put(["response_bytes", bytes], Field::ResponseBytes);
    let method = if method == "NONE" || method == "NONE_NONE" { "-" } else { method };
    record.put(["method", method], Field::Method);
    put_target(url, method, record);
    if user != "-" {
        record.attr(["remote_user", user]);
    }
    record.attr(["hierarchy", route]);
    if peer_address::is_peer(peer) {
        record.put(["upstream_address", peer], Field::UpstreamAddress);
    }
    if media_type != "-" {
        record.attr(["media_type", media_type]);
    }
    Some(())
}

/// The host of a URL, or that of a tunnel; `error:invalid-request` is no target.
fn put_target<'a>(url: &'a str, method: &str, record: &mut Record<'a>) {
    if method == "CONNECT" {
        record.put(["host", url], Field::Host);
    } else if url.starts_with("error:") {
        record.attr(["squid_error", url]);
    } else {
        record.put(["url", url], Field::Target);
    }
}
