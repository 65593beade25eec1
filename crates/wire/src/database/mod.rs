//! Database protocols: message boundaries, command names and error codes.
//!
//! Only what tells requests apart is read, never a statement's text or values. A request's first
//! byte is that of its first message, its last byte that of its last; the end of a response depends
//! on the protocol.

mod mongodb;
mod mysql;
mod postgresql;
mod redis;

use crate::flow::{Protocol, Side};
use crate::http::Framer;
use crate::partial_head::PartialHead;

pub(crate) trait MessageSink {
    /// Whether no request was seen yet, so that the handshake may still be running.
    fn is_fresh(&mut self) -> bool;
    fn request(&mut self);
    /// A message of a multi-message request, by its bit; the first begins the request. Returns all
    /// bits so far.
    fn part(&mut self, bit: u8) -> u8;
    /// The request's command: a word of the protocol.
    fn command(&mut self, name: &[u8]);
    fn request_end(&mut self);
    fn count(&mut self, bytes: u64);
    /// A message belongs to the response that is due.
    fn response(&mut self);
    /// The response is an error with this code.
    fn error(&mut self, code: &[u8]);
    fn response_end(&mut self);
    /// Whether the response that is due waits for a file of the client.
    fn is_file_wanted(&mut self) -> bool;
    fn set_file_wanted(&mut self, is_wanted: bool);
    /// Nothing is readable from now on: TLS, or compressed.
    fn hidden(&mut self, by: Protocol);
    fn lost(&mut self);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageHead {
    Short,
    /// Length of the message, and whether a request or response ends with it.
    Message {
        bytes: u32,
        is_last: bool,
    },
    Wrong,
}

struct MessagePrefix<'a> {
    side: Side,
    bytes: &'a [u8],
    /// The rest of the message's head is missing, cut by the snap length.
    is_all: bool,
    /// Whether the stretch holds nothing else.
    is_alone: bool,
}

/// Messages are smaller: MySQL's are below 16 MiB, MongoDB's below 48 MiB, PostgreSQL's below 1
/// GiB.
const MESSAGE_BYTES_MAX: u32 = 1 << 30;

/// Detects the protocol from the first bytes of a packet, and which side sends them.
pub(crate) fn recognise(
    bytes: &[u8],
    length: u32,
    server_port: u16,
    side: Side,
) -> Option<(Protocol, Side)> {
    mysql::recognise(bytes, length, server_port, side)
        .map(|speaker| (Protocol::Mysql, speaker))
        .or_else(|| {
            postgresql::recognise(bytes, length, server_port, side)
                .map(|speaker| (Protocol::Postgresql, speaker))
        })
        .or_else(|| mongodb::recognise(bytes, length).map(|speaker| (Protocol::Mongodb, speaker)))
        .or_else(|| {
            redis::recognise(bytes, server_port, side).map(|speaker| (Protocol::Redis, speaker))
        })
}

/// Whether a database usually listens on this port.
pub(crate) fn has_port(port: u16) -> bool {
    [mysql::PORTS.as_slice(), &postgresql::PORTS, &redis::PORTS, &mongodb::PORTS]
        .iter()
        .any(|ports| ports.contains(&port))
}

/// Commands whose response may come when something happens, or never: Redis' blocking reads, subscriptions,
/// replication, and the command that turns responses off; MongoDB's awaited `hello` and tailed cursors; MySQL's binary log.
const WAITING: [&[u8]; 25] = [
    b"BLPOP",
    b"BRPOP",
    b"BRPOPLPUSH",
    b"BLMOVE",
    b"BLMPOP",
    b"BZPOPMIN",
    b"BZPOPMAX",
    b"BZMPOP",
    b"XREAD",
    b"XREADGROUP",
    b"WAIT",
    b"WAITAOF",
    b"SUBSCRIBE",
    b"PSUBSCRIBE",
    b"SSUBSCRIBE",
    b"MONITOR",
    b"PSYNC",
    b"SYNC",
    b"hello",
    b"isMaster",
    b"ismaster",
    b"getMore",
    b"COM_BINLOG_DUMP",
    b"COM_BINLOG_DUMP_GTID",
    redis::NO_REPLIES,
];

/// Whether a command's response may wait for something to happen, so that its time says nothing
/// about the database.
pub(crate) fn waits_for_news(command: &[u8]) -> bool {
    WAITING.contains(&command)
}

/// Processes the next in-order bytes of one direction: `length` on the wire, of which `bytes` were
/// captured.
pub(crate) fn feed(
    protocol: Protocol,
    side: Side,
    framer: &mut Framer,
    partial: &mut Option<Box<PartialHead>>,
    bytes: &[u8],
    length: u32,
    sink: &mut impl MessageSink,
) {
    if protocol == Protocol::Redis {
        return redis::feed(side, framer, bytes, length, sink);
    }
    let (mut bytes, mut left) = (bytes, length);
    while left > 0 {
        match *framer {
            Framer::Message(rest, is_last) => {
                let taken = rest.min(left);
                bytes = bytes.get(taken as usize..).unwrap_or_default();
                left -= taken;
                sink.count(taken.into());
                *framer = Framer::Message(rest - taken, is_last);
                end_if(framer, side, sink);
            }
            Framer::Opaque => return,
            // Packets nearly always begin with a message, so resynchronise at the next packet.
            Framer::Lost if left < length => return,
            _ => {
                let before = partial.as_ref().map_or(0, |partial| partial.0.len());
                if let Some(partial) = partial {
                    partial.0.extend_from_slice(bytes);
                }
                let known: &[u8] = partial.as_ref().map_or(bytes, |partial| &partial.0);
                let is_all = bytes.len() < left as usize;
                let is_alone = length == 1 && before == 0;
                let prefix = MessagePrefix { side, bytes: known, is_all, is_alone };
                let head = head(protocol, &prefix, sink);
                if head == MessageHead::Short && !is_all && known.len() < HEAD_BYTES_MAX {
                    partial.get_or_insert_with(|| Box::new(PartialHead(bytes.to_vec())));
                    *framer = Framer::Head;
                    return;
                }
                *partial = None;
                let MessageHead::Message { bytes: total, is_last } = head else {
                    return lose(framer, sink);
                };
                // Bytes of earlier packets were not counted while their meaning was unknown.
                sink.count(before as u64);
                let rest = total.saturating_sub(u32::try_from(before).unwrap_or(u32::MAX));
                *framer = Framer::Message(rest, is_last);
                end_if(framer, side, sink);
            }
        }
    }
}

fn lose(framer: &mut Framer, sink: &mut impl MessageSink) {
    if *framer != Framer::Lost {
        *framer = Framer::Lost;
        sink.lost();
    }
}

/// A head is always shorter.
const HEAD_BYTES_MAX: usize = 512;

fn end_if(framer: &mut Framer, side: Side, sink: &mut impl MessageSink) {
    if let Framer::Message(0, is_last) = *framer {
        *framer = Framer::Idle;
        match side {
            Side::Client if is_last => sink.request_end(),
            Side::Server if is_last => sink.response_end(),
            _ => {}
        }
    }
}

fn head(
    protocol: Protocol,
    prefix: &MessagePrefix<'_>,
    sink: &mut impl MessageSink,
) -> MessageHead {
    let head = match protocol {
        Protocol::Mysql => mysql::head(prefix, sink),
        Protocol::Postgresql => postgresql::head(prefix, sink),
        _ => mongodb::head(prefix, sink),
    };
    match head {
        MessageHead::Message { bytes, .. } if bytes == 0 || bytes > MESSAGE_BYTES_MAX => {
            MessageHead::Wrong
        }
        head => head,
    }
}

impl MessageHead {
    /// A message that ends its request or response.
    fn last(bytes: u32) -> Self {
        Self::Message { bytes, is_last: true }
    }

    /// A message that is followed by others.
    fn inner(bytes: u32) -> Self {
        Self::Message { bytes, is_last: false }
    }
}

/// Four bytes at `at`, if present.
fn four(bytes: &[u8], at: usize) -> Option<[u8; 4]> {
    bytes.get(at..at + 4)?.try_into().ok()
}

#[cfg(test)]
mod tests;
