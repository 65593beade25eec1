//! PostgreSQL: a letter and four bytes of length, which count themselves; a connection's first
//! message has no letter.
//!
//! Source: PostgreSQL's documentation, "Frontend/Backend Protocol". A simple query is one message,
//! an extended one is everything up to `Sync`; each ends with one `ReadyForQuery`, even when
//! clients pipeline.

use super::{MessageHead, MessagePrefix, MessageSink, four};
use crate::flow::{Protocol, Side};

pub(super) const PORTS: [u16; 2] = [5432, 6432];
/// Codes in place of a protocol version.
const TLS_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
const CANCEL: u32 = 80_877_102;
const INTRODUCTION_BYTES_MAX: u32 = 10_000;
/// Bytes read of an error: its code comes third, after two words.
const ERROR_BYTES: u32 = 64;

const PARSE: u8 = 1;
const BIND: u8 = 2;
const EXECUTE: u8 = 4;
const OTHER: u8 = 8;

/// Detects a startup message, or a message that fills its packet at a known port.
pub(super) fn recognise(bytes: &[u8], length: u32, port: u16, side: Side) -> Option<Side> {
    if is_introduction(bytes) {
        return Some(Side::Client);
    }
    let size = four(bytes, 1).map(u32::from_be_bytes)?;
    let first = *bytes.first()?;
    let fits = (4..=length.saturating_sub(1)).contains(&size) && PORTS.contains(&port);
    match side {
        Side::Client if fits && b"QPBEDCSFX".contains(&first) => Some(Side::Client),
        Side::Server if fits && b"12TDCZER".contains(&first) => Some(Side::Server),
        _ => None,
    }
}

fn is_introduction(bytes: &[u8]) -> bool {
    let (size, code) = (four(bytes, 0).map(u32::from_be_bytes), four(bytes, 4));
    let is_known = code
        .map(u32::from_be_bytes)
        .is_some_and(|code| code >> 16 == 3 || matches!(code, TLS_REQUEST | GSS_REQUEST | CANCEL));
    size.is_some_and(|size| (8..INTRODUCTION_BYTES_MAX).contains(&size)) && is_known
}

pub(super) fn head(prefix: &MessagePrefix<'_>, sink: &mut impl MessageSink) -> MessageHead {
    let bytes = prefix.bytes;
    match (prefix.side, bytes) {
        // The response to a TLS request is one letter.
        (Side::Server, [b'S' | b'G']) if prefix.is_alone && sink.is_fresh() => {
            sink.hidden(Protocol::Tls);
            return MessageHead::inner(1);
        }
        (Side::Server, [b'N']) if prefix.is_alone && sink.is_fresh() => {
            return MessageHead::inner(1);
        }
        (Side::Client, [0, ..]) => {
            return match four(bytes, 0).map(u32::from_be_bytes) {
                _ if is_introduction(bytes) => {
                    MessageHead::inner(four(bytes, 0).map_or(0, u32::from_be_bytes))
                }
                _ if bytes.len() < 8 && !prefix.is_all => MessageHead::Short,
                _ => MessageHead::Wrong,
            };
        }
        _ => {}
    }
    let (Some(kind), Some(size)) = (bytes.first().copied(), four(bytes, 1)) else {
        return MessageHead::Short;
    };
    let size = u32::from_be_bytes(size);
    if !kind.is_ascii_alphanumeric() || !(4..1 << 30).contains(&size) {
        return MessageHead::Wrong;
    }
    let total = size + 1;
    match prefix.side {
        Side::Client => MessageHead::Message { bytes: total, is_last: ask(kind, sink) },
        Side::Server => {
            let wanted = if kind == b'E' { total.min(ERROR_BYTES) } else { 5 };
            if bytes.len() < wanted as usize && !prefix.is_all {
                return MessageHead::Short;
            }
            let is_last = answer(kind, bytes.get(5..).unwrap_or_default(), sink);
            MessageHead::Message { bytes: total, is_last }
        }
    }
}

/// Processes a client message; true when it ends a request.
fn ask(kind: u8, sink: &mut impl MessageSink) -> bool {
    let bit = match kind {
        b'Q' | b'F' => {
            sink.request();
            sink.command(if kind == b'Q' { b"Query" } else { b"FunctionCall" });
            return true;
        }
        b'P' => PARSE,
        b'B' => BIND,
        b'E' => EXECUTE,
        b'D' | b'C' | b'H' => OTHER,
        b'S' => 0,
        // Passwords, COPY data, Terminate.
        _ => return false,
    };
    let bits = sink.part(bit);
    if bit == 0 {
        sink.command(match (bits & PARSE != 0, bits & EXECUTE != 0, bits & BIND != 0) {
            (true, true, _) => b"Parse/Bind/Execute",
            (false, true, _) => b"Bind/Execute",
            (true, false, _) => b"Parse",
            (false, false, true) => b"Bind",
            (false, false, false) => b"Sync",
        });
    }
    bit == 0
}

/// Processes a server message; true when it ends a response.
fn answer(kind: u8, body: &[u8], sink: &mut impl MessageSink) -> bool {
    match kind {
        // Settings, notices and notifications are asynchronous; keys and authentication precede all
        // requests.
        b'S' | b'N' | b'A' | b'K' | b'R' => return false,
        b'E' => {
            sink.response();
            if let Some(code) = code(body) {
                sink.error(code);
            }
        }
        _ => sink.response(),
    }
    kind == b'Z'
}

/// SQLSTATE: field `C` of an error.
fn code(body: &[u8]) -> Option<&[u8]> {
    let mut fields = body.split(|byte| *byte == 0);
    let field = fields.find(|field| field.first() == Some(&b'C'))?;
    Some(&field[1..]).filter(|code| code.len() == 5)
}
