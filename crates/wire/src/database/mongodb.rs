//! MongoDB: sixteen bytes of length, request id, id of the request answered, and opcode,
//! little-endian.
//!
//! Source: MongoDB's documentation, "Wire Protocol". The command is the name of the first field of
//! the first document; the only value read is `ok`.

use super::{MessageHead, MessagePrefix, MessageSink, four};
use crate::flow::Side;

pub(super) const PORTS: [u16; 3] = [27_017, 27_018, 27_019];
const COMPRESSED: u32 = 2012;
const MESSAGE: u32 = 2013;
const QUERY: u32 = 2004;
const REPLY: u32 = 1;
/// `OP_MSG`: another message follows unrequested, or no response is wanted.
const MORE_TO_COME: u32 = 2;
/// Head, flags, kind of section, length of the document, type of its first field.
const NAME_AT: usize = 16 + 4 + 1 + 4 + 1;
const NAME_BYTES_MAX: usize = 40;

/// Detects a plausible head; a message that answers nothing is the client's.
pub(super) fn recognise(bytes: &[u8], length: u32) -> Option<Side> {
    let (size, answers, kind) = (word(bytes, 0)?, word(bytes, 8)?, word(bytes, 12)?);
    let is_kind = matches!(kind, COMPRESSED | MESSAGE | QUERY | REPLY);
    if !is_kind || !(16..1 << 26).contains(&size) || (length < 1000 && size < length) {
        return None;
    }
    Some(if answers == 0 { Side::Client } else { Side::Server })
}

pub(super) fn head(prefix: &MessagePrefix<'_>, sink: &mut impl MessageSink) -> MessageHead {
    let (Some(size), Some(kind)) = (word(prefix.bytes, 0), word(prefix.bytes, 12)) else {
        return MessageHead::Short;
    };
    if !(16..1 << 26).contains(&size) {
        return MessageHead::Wrong;
    }
    let wanted = (size as usize).min(NAME_AT + NAME_BYTES_MAX);
    if prefix.bytes.len() < wanted && !prefix.is_all {
        return MessageHead::Short;
    }
    let flags = if kind == MESSAGE { word(prefix.bytes, 16).unwrap_or(0) } else { 0 };
    let has_more = flags & MORE_TO_COME != 0;
    if prefix.side == Side::Server {
        sink.response();
        if kind == MESSAGE && has_failed(prefix.bytes) {
            sink.error(b"");
        }
        return MessageHead::Message { bytes: size, is_last: !has_more };
    }
    if has_more {
        return MessageHead::inner(size);
    }
    sink.request();
    sink.command(match kind {
        MESSAGE => name(prefix.bytes).unwrap_or(b"OP_MSG"),
        QUERY => b"OP_QUERY",
        COMPRESSED => b"OP_COMPRESSED",
        _ => b"OP_OTHER",
    });
    MessageHead::last(size)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    four(bytes, at).map(u32::from_le_bytes)
}

/// Name of the first field of the first document.
fn name(bytes: &[u8]) -> Option<&[u8]> {
    let rest = bytes.get(NAME_AT..)?;
    let end = rest.iter().take(NAME_BYTES_MAX).position(|byte| *byte == 0)?;
    Some(&rest[..end]).filter(|name| !name.is_empty() && name.iter().all(u8::is_ascii_alphanumeric))
}

/// Whether the response is an error: servers begin it with `ok: 0.0`.
fn has_failed(bytes: &[u8]) -> bool {
    const DOUBLE: u8 = 1;
    bytes.get(NAME_AT - 1) == Some(&DOUBLE)
        && bytes.get(NAME_AT..NAME_AT + 11) == Some(b"ok\0\0\0\0\0\0\0\0\0".as_slice())
}
