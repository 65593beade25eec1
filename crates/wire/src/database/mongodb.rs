//! MongoDB: sixteen bytes of length, request id, id of the request answered, and opcode,
//! little-endian.
//!
//! Source: MongoDB's documentation, "Wire Protocol". The command is the name of the first field of
//! the first document; the only value read is `ok`.

use super::{Ears, Head, Look, four};
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
/// Maximum length of a command name.
const NAME_BYTES_MAX: usize = 40;

/// Detects a plausible head; a message that answers nothing is the client's.
pub(super) fn recognise(bytes: &[u8], length: u32) -> Option<Side> {
    let word = |at| four(bytes, at).map(u32::from_le_bytes);
    let (size, answers, kind) = (word(0)?, word(8)?, word(12)?);
    let is_kind = matches!(kind, COMPRESSED | MESSAGE | QUERY | REPLY);
    if !is_kind || !(16..1 << 26).contains(&size) || (length < 1000 && size < length) {
        return None;
    }
    Some(if answers == 0 { Side::Client } else { Side::Server })
}

pub(super) fn head(look: &Look<'_>, ears: &mut impl Ears) -> Head {
    let word = |at| four(look.bytes, at).map(u32::from_le_bytes);
    let (Some(size), Some(kind)) = (word(0), word(12)) else { return Head::Short };
    if !(16..1 << 26).contains(&size) {
        return Head::Wrong;
    }
    let wanted = (size as usize).min(NAME_AT + NAME_BYTES_MAX);
    if look.bytes.len() < wanted && !look.is_all {
        return Head::Short;
    }
    let flags = if kind == MESSAGE { word(16).unwrap_or(0) } else { 0 };
    let has_more = flags & MORE_TO_COME != 0;
    let message = |is_last| Head::Message { bytes: size, is_last };
    if look.side == Side::Server {
        ears.response();
        if kind == MESSAGE && has_failed(look.bytes) {
            ears.error(b"");
        }
        return message(!has_more);
    }
    if has_more {
        return message(false);
    }
    ears.request();
    ears.command(match kind {
        MESSAGE => name(look.bytes).unwrap_or(b"OP_MSG"),
        QUERY => b"OP_QUERY",
        COMPRESSED => b"OP_COMPRESSED",
        _ => b"OP_OTHER",
    });
    message(true)
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
