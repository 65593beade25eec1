//! MySQL and MariaDB: packets of three bytes of length, one of sequence, then the payload.
//!
//! Source: MySQL's documentation of its client/server protocol. A command begins with sequence 0;
//! its first byte is the command. Only a result's contents give its length, so it lasts until the
//! next command. Only the first bytes of a packet are read. Sequence numbers wrap around: among the
//! packets of a file that the client sends, 0 is no command; an empty one ends the file.

use super::{MessageHead, MessagePrefix, MessageSink};
use crate::flow::{Protocol, Side};

pub(super) const PORTS: [u16; 3] = [3306, 3307, 33_060];
/// Client capabilities, in the first, second and fourth byte of its handshake response.
const COMPRESSES: u8 = 0x20;
const WANTS_TLS: u8 = 0x08;
const COMPRESSES_WITH_ZSTD: u8 = 0x04;
/// Length of `SSLRequest`, a handshake response without a user name.
const TLS_REQUEST_BYTES: u32 = 32;
/// Other handshake responses are longer.
const INTRODUCTION_BYTES_MIN: u32 = 32;
const ERROR: u8 = 0xff;
/// The first packet of a response that wants a file of the client (`LOAD DATA LOCAL`).
const WANTS_FILE: u8 = 0xfb;

const COMMANDS: [&str; 32] = [
    "COM_SLEEP",
    "COM_QUIT",
    "COM_INIT_DB",
    "COM_QUERY",
    "COM_FIELD_LIST",
    "COM_CREATE_DB",
    "COM_DROP_DB",
    "COM_REFRESH",
    "COM_SHUTDOWN",
    "COM_STATISTICS",
    "COM_PROCESS_INFO",
    "COM_CONNECT",
    "COM_PROCESS_KILL",
    "COM_DEBUG",
    "COM_PING",
    "COM_TIME",
    "COM_DELAYED_INSERT",
    "COM_CHANGE_USER",
    "COM_BINLOG_DUMP",
    "COM_TABLE_DUMP",
    "COM_CONNECT_OUT",
    "COM_REGISTER_SLAVE",
    "COM_STMT_PREPARE",
    "COM_STMT_EXECUTE",
    "COM_STMT_SEND_LONG_DATA",
    "COM_STMT_CLOSE",
    "COM_STMT_RESET",
    "COM_SET_OPTION",
    "COM_STMT_FETCH",
    "COM_DAEMON",
    "COM_BINLOG_DUMP_GTID",
    "COM_RESET_CONNECTION",
];
/// COM_QUIT, COM_STMT_SEND_LONG_DATA, COM_STMT_CLOSE: commands without a response.
const UNANSWERED: [u8; 3] = [1, 24, 25];

/// Detects the server's greeting with its version; later, a command that fills its packet.
pub(super) fn recognise(bytes: &[u8], length: u32, port: u16, side: Side) -> Option<Side> {
    let [a, b, c, sequence, first, after @ ..] = bytes else { return None };
    let size = u32::from_le_bytes([*a, *b, *c, 0]);
    let is_whole = size + 4 == length;
    let is_version = after.first().is_some_and(u8::is_ascii_digit);
    if *sequence == 0 && *first == 10 && is_version && is_whole && size >= 30 {
        return Some(Side::Server);
    }
    let is_command = *sequence == 0 && usize::from(*first) < COMMANDS.len() && is_whole;
    (PORTS.contains(&port) && side == Side::Client && is_command).then_some(Side::Client)
}

pub(super) fn head(prefix: &MessagePrefix<'_>, sink: &mut impl MessageSink) -> MessageHead {
    let [a, b, c, sequence, ..] = prefix.bytes else { return MessageHead::Short };
    let size = u32::from_le_bytes([*a, *b, *c, 0]);
    let total = size + 4;
    let wanted = match prefix.side {
        Side::Client if size == 0 => {
            sink.set_file_wanted(false);
            return MessageHead::inner(total);
        }
        _ if size == 0 => return MessageHead::inner(total),
        Side::Server if prefix.bytes.get(4) == Some(&ERROR) => size.min(3),
        Side::Server => 1,
        Side::Client if *sequence == 1 => size.min(4),
        Side::Client => 1,
    };
    let Some(payload) = prefix.bytes.get(4..4 + wanted as usize) else {
        return if prefix.is_all { MessageHead::inner(total) } else { MessageHead::Short };
    };
    match (prefix.side, payload) {
        (Side::Client, [command, ..]) if *sequence == 0 && !sink.is_file_wanted() => {
            if UNANSWERED.contains(command) {
                return MessageHead::inner(total);
            }
            let name = COMMANDS.get(usize::from(*command)).unwrap_or(&"COM_OTHER");
            sink.request();
            sink.command(name.as_bytes());
            MessageHead::last(total)
        }
        (Side::Client, [low, high, _, highest]) if *sequence == 1 && sink.is_fresh() => {
            let compresses = low & COMPRESSES != 0 || highest & COMPRESSES_WITH_ZSTD != 0;
            if size == TLS_REQUEST_BYTES && high & WANTS_TLS != 0 {
                sink.hidden(Protocol::Tls);
            } else if size > INTRODUCTION_BYTES_MIN && compresses {
                sink.hidden(Protocol::Opaque);
            }
            MessageHead::inner(total)
        }
        (Side::Client, _) => MessageHead::inner(total),
        (Side::Server, [ERROR, low, high]) => {
            sink.response();
            sink.error(u16::from_le_bytes([*low, *high]).to_string().as_bytes());
            sink.set_file_wanted(false);
            MessageHead::inner(total)
        }
        (Side::Server, payload) => {
            sink.response();
            sink.set_file_wanted(*sequence == 1 && payload == [WANTS_FILE]);
            MessageHead::inner(total)
        }
    }
}
