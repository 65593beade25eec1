//! The combined log format of nginx and Apache, and `common`, which lacks its last two values.
//!
//! `addr - user [time] "request" status bytes "referer" "user agent"`; what stands behind is kept as `rest`, and
//! a `host:port` in front (Apache's `vhost_combined`) is taken.

use crate::field::Field;
use crate::record::{Fault, Kind, Record};
use crate::text;

/// Reads a line.
pub(crate) fn parse<'a>(line: &'a str, record: &mut Record<'a>) -> Result<Kind, Fault> {
    match fields(line, record) {
        Some(()) => Ok(Kind::Request),
        None => Err(Fault::no_match("not `address - user [time] \"request\" status bytes`")),
    }
}

/// Whether a line has the bracketed time and the quoted request of the format.
pub(crate) fn is_likely(line: &str) -> bool {
    let Some((head, behind)) = line.split_once(" [") else { return false };
    let is_time = behind.as_bytes().get(2) == Some(&b'/') && behind.contains("] \"");
    is_time && head.split(' ').count() <= 5
}

fn fields<'a>(line: &'a str, record: &mut Record<'a>) -> Option<()> {
    let (head, rest) = line.split_once(" [")?;
    let (time, rest) = rest.split_once("] \"")?;
    let (request, rest) = quoted_end(rest)?;
    let (status, rest) = text::word(rest.strip_prefix(' ')?);
    let (bytes, rest) = text::word(rest);
    record.ts = Some(record.times.read(time)?);
    crate::number::integer(status).filter(|_| !bytes.is_empty())?;
    head_fields(head, record)?;
    record.put("request", text::unescape(request, record.arena), Field::RequestLine);
    record.put("status", status, Field::Status);
    record.put("body_bytes_sent", bytes, Field::ResponseBodyBytesOrDash);
    tail_fields(rest, record);
    Some(())
}

/// `[vhost:port] address logname user`.
fn head_fields<'a>(head: &'a str, record: &mut Record<'a>) -> Option<()> {
    let (before_user, user) = head.rsplit_once(' ')?;
    let (before_logname, logname) = before_user.rsplit_once(' ')?;
    let address = match before_logname.split_once(' ') {
        Some((vhost, address)) => {
            record.put("vhost", vhost, Field::Host);
            address
        }
        None => before_logname,
    };
    record.put("remote_addr", address, Field::ClientAddress);
    record.attr("remote_logname", logname);
    record.attr("remote_user", text::unescape(user, record.arena));
    Some(())
}

fn tail_fields<'a>(rest: &'a str, record: &mut Record<'a>) {
    let mut rest = rest;
    for (name, field) in [("http_referer", Field::Referer), ("http_user_agent", Field::UserAgent)] {
        let Some((value, behind)) = rest.strip_prefix('"').and_then(quoted_end) else { break };
        record.put(name, text::unescape(value, record.arena), field);
        rest = behind.strip_prefix(' ').unwrap_or(behind);
    }
    record.attr("rest", rest);
}

/// The value up to its closing quote, and what follows; `\"` does not close.
pub(crate) fn quoted_end(text: &str) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let mut from = 0;
    loop {
        let at = from + memchr::memchr(b'"', &bytes[from..])?;
        let slash_count = bytes[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
        if slash_count % 2 == 0 {
            return Some((&text[..at], &text[at + 1..]));
        }
        from = at + 1;
    }
}
