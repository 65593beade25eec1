//! Redis: values that begin with a letter for their type; lines, strings with a length, and lists
//! of values.
//!
//! Source: Redis' documentation, "RESP protocol description". A request is a list of strings whose
//! first is the command; each gets one value in response, even when clients pipeline. The only
//! string read is the command.

use super::MessageSink;
use crate::flow::Side;
use crate::http::{Framer, RedisValue};

pub(super) const PORTS: [u16; 3] = [6379, 6380, 26_379];
const NAME_BYTES_MAX: usize = 20;
/// Behind it, what a client sends is acknowledgements of a replica, which get no response.
const REPLICATION: [&[u8]; 2] = [b"PSYNC", b"SYNC"];
/// Behind it, no command gets a response.
pub(super) const NO_REPLIES: &[u8] = b"CLIENT REPLY OFF";

/// Detects a list of strings, or a response at a known port.
pub(super) fn recognise(bytes: &[u8], port: u16, side: Side) -> Option<Side> {
    let is_list = match bytes {
        [b'*', b'1'..=b'9', rest @ ..] => {
            let digits = rest.iter().take(7).take_while(|byte| byte.is_ascii_digit()).count();
            matches!(rest.get(digits..digits + 3), Some(b"\r\n$"))
        }
        _ => false,
    };
    let is_answer = side == Side::Server
        && PORTS.contains(&port)
        && matches!(bytes.first(), Some(b'+' | b'-' | b':' | b'$' | b'*' | b'%' | b'_'));
    match side {
        Side::Client if is_list => Some(Side::Client),
        // Servers send lists of strings as well.
        Side::Server if is_answer => Some(Side::Server),
        _ => None,
    }
}

pub(super) fn feed(
    side: Side,
    framer: &mut Framer,
    bytes: &[u8],
    length: u32,
    sink: &mut impl MessageSink,
) {
    let (mut bytes, mut left) = (bytes, length);
    if *framer == Framer::Lost && is_start(side, bytes) {
        *framer = Framer::Idle;
    }
    while left > 0 {
        let taken = match *framer {
            Framer::Lost | Framer::Opaque => return,
            Framer::Text { items, rest, is_pushed } => {
                let taken = rest.min(left);
                *framer = Framer::Text { items, rest: rest - taken, is_pushed };
                taken
            }
            _ if bytes.is_empty() => {
                // Cut by the snap length: the start of the next value is unknown.
                *framer = Framer::Lost;
                return sink.lost();
            }
            Framer::Value(value) => step(side, framer, value, bytes, sink),
            _ => begin(side, framer, bytes[0], sink),
        };
        if taken == 0 {
            *framer = Framer::Lost;
            return sink.lost();
        }
        sink.count(taken.into());
        bytes = bytes.get(taken as usize..).unwrap_or_default();
        left -= taken;
        settle(side, framer, sink);
    }
}

fn is_start(side: Side, bytes: &[u8]) -> bool {
    match side {
        Side::Client => matches!(bytes, [b'*', b'1'..=b'9', ..]),
        Side::Server => bytes.first().is_some_and(|kind| is_kind(*kind)),
    }
}

fn is_kind(byte: u8) -> bool {
    b"+-:$*%~>_,#(!=|".contains(&byte)
}

/// Begins a request or response at its first byte.
fn begin(side: Side, framer: &mut Framer, kind: u8, sink: &mut impl MessageSink) -> u32 {
    if side == Side::Client && kind != b'*' || !is_kind(kind) {
        return 0;
    }
    if side == Side::Client {
        sink.request();
    } else if kind != b'>' {
        // A push message (RESP3) is no response.
        sink.response();
    }
    let is_pushed = kind == b'>';
    *framer = Framer::Value(RedisValue { items: 1, number: 0, kind, is_first: true, is_pushed });
    1
}

/// Processes the next bytes of a line and returns their count. A value's type is 0 when its own
/// first byte is next.
fn step(
    side: Side,
    framer: &mut Framer,
    mut value: RedisValue,
    bytes: &[u8],
    sink: &mut impl MessageSink,
) -> u32 {
    let byte = bytes[0];
    if value.kind == 0 {
        if !is_kind(byte) {
            return 0;
        }
        (value.kind, value.number) = (byte, 0);
        *framer = Framer::Value(value);
        return 1;
    }
    if byte != b'\n' {
        if value.kind == b'-' && value.is_first && value.number == 0 && side == Side::Server {
            let code = bytes.iter().take(NAME_BYTES_MAX).take_while(|b| b.is_ascii_uppercase());
            sink.error(&bytes[..code.count()]);
        }
        value.number = match byte {
            b'0'..=b'9' => value.number.saturating_mul(10).saturating_add(u32::from(byte - b'0')),
            // A negative length means null.
            b'-' if matches!(value.kind, b'$' | b'*') => 0x8000_0000,
            _ if value.kind == b'-' => 1,
            _ => value.number,
        };
        *framer = Framer::Value(value);
        return 1;
    }
    let (number, items) = (value.number, value.items);
    let is_none = number >= 0x8000_0000;
    match value.kind {
        b'*' | b'~' | b'>' if !is_none => value.items = items - 1 + number.min(1 << 24),
        b'%' | b'|' if !is_none => value.items = items - 1 + 2 * number.min(1 << 23),
        b'$' | b'!' | b'=' if !is_none => {
            if side == Side::Client && value.is_first {
                let name = command(&bytes[1..], number);
                sink.command(&name);
                if REPLICATION.contains(&name.as_slice()) || name == NO_REPLIES {
                    sink.request_end();
                    *framer = Framer::Opaque;
                    return 1;
                }
            }
            let is_pushed = value.is_pushed;
            *framer = Framer::Text { items: items - 1, rest: number + 2, is_pushed };
            return 1;
        }
        _ => value.items = items - 1,
    }
    value.kind = 0;
    value.is_first &= side == Side::Client;
    *framer = Framer::Value(value);
    1
}

/// The command in capitals, if captured.
fn command(bytes: &[u8], length: u32) -> Vec<u8> {
    const REPLY_OFF: &[u8] = b"CLIENT\r\n$5\r\nREPLY\r\n$3\r\nOFF";
    if bytes.get(..REPLY_OFF.len()).is_some_and(|start| start.eq_ignore_ascii_case(REPLY_OFF)) {
        return NO_REPLIES.to_vec();
    }
    let name = bytes.get(..length as usize).filter(|name| name.len() <= NAME_BYTES_MAX);
    match name {
        Some(name) if name.iter().all(u8::is_ascii_alphabetic) => name.to_ascii_uppercase(),
        _ => b"(other)".to_vec(),
    }
}

/// Moves to the next value, or ends the message.
fn settle(side: Side, framer: &mut Framer, sink: &mut impl MessageSink) {
    let (items, is_pushed, is_first) = match *framer {
        Framer::Text { items, rest: 0, is_pushed } => (items, is_pushed, false),
        Framer::Value(RedisValue { items, kind: 0, is_pushed, is_first, .. }) => {
            (items, is_pushed, is_first)
        }
        _ => return,
    };
    *framer = match items {
        0 => Framer::Idle,
        _ => Framer::Value(RedisValue { items, number: 0, kind: 0, is_first, is_pushed }),
    };
    if items == 0 {
        match side {
            Side::Client => sink.request_end(),
            Side::Server if !is_pushed => sink.response_end(),
            Side::Server => {}
        }
    }
}
