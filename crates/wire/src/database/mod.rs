//! Databases: where their messages begin and end, which command is asked, and which error is answered.
//!
//! Read is as much as tells requests apart, never a statement's text or a value. A request's first byte is that of its
//! first message, its end that of its last; what belongs to a response each protocol says in a way of its own.

mod mongodb;
mod mysql;
mod postgresql;
mod redis;

use crate::flow::{Protocol, Side};
use crate::http::{Framer, Partial};

/// Who wants to know of requests and responses.
pub(crate) trait Ears {
    /// Whether no request was seen yet: the two may still be introducing themselves.
    fn is_fresh(&mut self) -> bool;
    /// A request begins.
    fn request(&mut self);
    /// A message of a request that takes several, by its bit; the first of them begins it.
    fn part(&mut self, bit: u8) -> u8;
    /// What the request asks for: a word of the protocol.
    fn command(&mut self, name: &[u8]);
    /// The request's last byte.
    fn request_end(&mut self);
    /// So many bytes of a message.
    fn count(&mut self, bytes: u64);
    /// A message belongs to the response that is due.
    fn response(&mut self);
    /// The response is an error: the protocol's code.
    fn error(&mut self, code: &[u8]);
    /// The response's last byte.
    fn response_end(&mut self);
    /// From now on nothing is readable: TLS, or compressed.
    fn hidden(&mut self, by: Protocol);
    /// Where messages begin is not known any more.
    fn lost(&mut self);
}

/// What is known of a message by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Head {
    /// More bytes are needed.
    Short,
    /// It is so long; whether a request or response is over with it.
    Message { bytes: u32, is_last: bool },
    /// It is no message.
    Wrong,
}

/// What a message's beginning is read from.
struct Look<'a> {
    side: Side,
    bytes: &'a [u8],
    /// No more of this message's beginning will come: a snap length cuts it.
    is_all: bool,
    /// The stretch that it stands in holds nothing else.
    is_alone: bool,
}

/// Messages are not larger: MySQL's are below 16 MiB, MongoDB's below 48 MiB, PostgreSQL's below 1 GiB.
const MESSAGE_BYTES_MAX: u32 = 1 << 30;

/// What is spoken, if these are the first bytes of a packet in such a protocol; and which side speaks.
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

/// Whether a database usually listens there.
pub(crate) fn has_port(port: u16) -> bool {
    [mysql::PORTS.as_slice(), &postgresql::PORTS, &redis::PORTS, &mongodb::PORTS]
        .iter()
        .any(|ports| ports.contains(&port))
}

/// Takes in the next bytes in order of one direction: `length` on the wire, of which `bytes` were captured.
pub(crate) fn feed(
    protocol: Protocol,
    side: Side,
    framer: &mut Framer,
    partial: &mut Option<Box<Partial>>,
    bytes: &[u8],
    length: u32,
    ears: &mut impl Ears,
) {
    if protocol == Protocol::Redis {
        return redis::feed(side, framer, bytes, length, ears);
    }
    let (mut bytes, mut left) = (bytes, length);
    while left > 0 {
        match *framer {
            Framer::Message(rest, is_last) => {
                let taken = rest.min(left);
                bytes = bytes.get(taken as usize..).unwrap_or_default();
                left -= taken;
                ears.count(taken.into());
                *framer = Framer::Message(rest - taken, is_last);
                end_if(framer, side, ears);
            }
            Framer::Opaque => return,
            // Packets nearly always begin with a message, so the way is found again there.
            Framer::Lost if left < length => return,
            _ => {
                let before = partial.as_ref().map_or(0, |partial| partial.0.len());
                if let Some(partial) = partial {
                    partial.0.extend_from_slice(bytes);
                }
                let known: &[u8] = partial.as_ref().map_or(bytes, |partial| &partial.0);
                let is_cut = bytes.len() < left as usize;
                let look = Look {
                    side,
                    bytes: known,
                    is_all: is_cut,
                    is_alone: length == 1 && before == 0,
                };
                match head(protocol, &look, ears) {
                    Head::Short if !is_cut && known.len() < HEAD_BYTES_MAX => {
                        if partial.is_none() {
                            *partial = Some(Box::new(Partial(bytes.to_vec())));
                        }
                        *framer = Framer::Head;
                        return;
                    }
                    Head::Message { bytes: total, is_last } => {
                        *partial = None;
                        // What came with packets before was not counted while it meant nothing.
                        ears.count(before as u64);
                        let rest = total.saturating_sub(u32::try_from(before).unwrap_or(u32::MAX));
                        *framer = Framer::Message(rest, is_last);
                        end_if(framer, side, ears);
                    }
                    Head::Short | Head::Wrong => {
                        *partial = None;
                        if *framer != Framer::Lost {
                            *framer = Framer::Lost;
                            ears.lost();
                        }
                        return;
                    }
                }
            }
        }
    }
}

/// A head is known by then.
const HEAD_BYTES_MAX: usize = 512;

fn end_if(framer: &mut Framer, side: Side, ears: &mut impl Ears) {
    if let Framer::Message(0, is_last) = *framer {
        *framer = Framer::Idle;
        match side {
            Side::Client if is_last => ears.request_end(),
            Side::Server if is_last => ears.response_end(),
            _ => {}
        }
    }
}

fn head(protocol: Protocol, look: &Look<'_>, ears: &mut impl Ears) -> Head {
    let head = match protocol {
        Protocol::Mysql => mysql::head(look, ears),
        Protocol::Postgresql => postgresql::head(look, ears),
        _ => mongodb::head(look, ears),
    };
    match head {
        Head::Message { bytes, .. } if bytes == 0 || bytes > MESSAGE_BYTES_MAX => Head::Wrong,
        head => head,
    }
}

/// Four bytes at `at`, when they are there.
fn four(bytes: &[u8], at: usize) -> Option<[u8; 4]> {
    bytes.get(at..at + 4)?.try_into().ok()
}

#[cfg(test)]
mod tests;
