//! Requests without readable framing: a request is what the client sends until the server answers.
//!
//! TLS shows its records, so that handshakes, tickets and alerts are neither ([`crate::tls`]).

use super::exchange::Exchange;
use super::request_tracker::RequestTracker;
use super::shard_context::ShardContext;
use crate::flow::{Connection, NONE, Protocol, Side};
use crate::http::{Framer, HttpSink};
use crate::tls::{RecordContext, RecordMeaning, TlsInput, TlsRecords};

/// Tickets in several segments come within this time; a record that comes later is the answer.
const TICKETS_NS: i64 = 2_000_000;

/// Processes the next in-order bytes of a direction: `length` on the wire, of which `bytes` were
/// captured.
pub(crate) fn bytes(
    connection: &mut Connection,
    context: &mut ShardContext,
    side: Side,
    ts: i64,
    bytes: &[u8],
    length: u32,
) {
    match connection.protocol {
        Protocol::Unknown => {}
        Protocol::Tls => tls(connection, context, side, ts, TlsInput { bytes, length }),
        _ => turn(connection, context, side, ts, length),
    }
}

fn tls(
    connection: &mut Connection,
    context: &mut ShardContext,
    side: Side,
    ts: i64,
    mut input: TlsInput<'_>,
) {
    let mut records = records_of(connection.half(side).framer);
    let is_hello_due = side == Side::Server && !records.has_hello();
    let record_context = RecordContext {
        is_from_server: side == Side::Server,
        peer: records_of(connection.half(side.other()).framer),
        is_later: connection.requests > 1,
    };
    let mut partial = connection.half(side).partial.take();
    let (mut data, mut tickets) = (0, 0);
    while let Some(part) = records.next(&mut partial, &mut input, record_context) {
        match part.meaning {
            RecordMeaning::Control => {}
            RecordMeaning::Data => data += part.bytes,
            RecordMeaning::Ticket => tickets += part.bytes,
        }
    }
    if tickets > 0 && connection.current == NONE {
        records.end_tickets();
    }
    let half = connection.half(side);
    (half.framer, half.partial) = (Framer::Record(records), partial);
    if is_hello_due && records.has_hello() {
        note_hello(connection, context, ts);
    }
    if data + tickets == 0 {
        return;
    }
    if side == Side::Server && connection.current != NONE {
        let exchange = context.pool.get(connection.current);
        supersede_tickets(exchange, ts, data == 0);
    }
    turn(connection, context, side, ts, data + tickets);
}

/// Adds the time that the server took for its first record, less the round trip beyond the tap.
fn note_hello(connection: &mut Connection, context: &mut ShardContext, ts: i64) {
    let asked = connection.half(Side::Client).last_data_ts;
    let waited = if asked == 0 { 0 } else { ts - asked };
    let connect = Some(connection.syn_wait_us).filter(|us| *us != NONE).unwrap_or(0);
    let us = u64::try_from(waited / 1000).unwrap_or(0).saturating_sub(connect.into());
    context.tier_mut(connection.tier).hello.add(us);
}

fn records_of(framer: Framer) -> TlsRecords {
    if let Framer::Record(records) = framer { records } else { TlsRecords::default() }
}

/// Drops an answer that was a ticket, once another record follows it.
fn supersede_tickets(exchange: &mut Exchange, ts: i64, is_ticket: bool) {
    let [first, last] = exchange.answered;
    if first == 0 {
        exchange.is_ticket = is_ticket;
    } else if exchange.is_ticket && (!is_ticket || ts - last >= TICKETS_NS) {
        exchange.answered = [0; 2];
        exchange.response_bytes = 0;
        exchange.is_ticket = false;
    }
}

fn turn(connection: &mut Connection, context: &mut ShardContext, side: Side, ts: i64, length: u32) {
    let end_seq = connection.half(side).next;
    let mut tracker = RequestTracker { connection, context, side, ts, end_seq, is_interim: false };
    let is_answered = tracker.current().is_some_and(|exchange| exchange.answered[0] != 0);
    let is_open = tracker.connection.current != NONE;
    match side {
        Side::Client if is_open && !is_answered => {}
        Side::Client => {
            if is_answered {
                tracker.end_seq = tracker.connection.half(Side::Server).next;
                tracker.end_response();
            }
            tracker.begin();
        }
        Side::Server if !is_open => return,
        Side::Server => tracker.begin(),
    }
    HttpSink::count(&mut tracker, u64::from(length));
    if side == Side::Client {
        tracker.end();
    }
}
