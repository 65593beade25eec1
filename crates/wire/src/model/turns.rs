//! Requests without readable framing: a request is what the client sends until the server answers.
//!
//! TLS shows its records, so that handshakes, tickets and alerts are neither ([`weir_tls_records`]).

use weir_tls_records::{RecordContext, RecordMeaning, TlsInput, TlsRecords};

use super::exchange::Exchange;
use super::request_tracker::RequestTracker;
use super::shard_context::ShardContext;
use crate::flow::{Connection, NONE, Protocol, Side};
use crate::http::{Framer, HttpSink};

/// Tickets in several segments come within this time; a record that comes later is the answer.
const TICKETS_NS: i64 = 2_000_000;
/// Without answers, a client gives up no sooner.
const PATIENCE_NS: i64 = 1_000_000_000;
/// A ticket behind another one waits for the client's acknowledgement (Nagle), which may be delayed.
const DELAYED_ACK_NS: i64 = 250_000_000;
/// Type of a TLS record.
const APPLICATION_DATA: u8 = 0x17;

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
    if side == Side::Server && records.is_tls13() && input.bytes.first() == Some(&APPLICATION_DATA)
    {
        end_flight(connection, context);
    }
    let is_hello_due = side == Side::Server && !records.has_hello();
    let record_context = RecordContext {
        is_from_server: side == Side::Server,
        peer: records_of(connection.half(side.other()).framer),
        is_later: connection.requests > 1,
    };
    let (mut meanings, mut bytes) = (0, 0);
    while let Some(part) = records.next(&mut input, record_context) {
        let is_control = part.meaning == RecordMeaning::Control;
        meanings |= if is_control { 0 } else { 1 << part.meaning as u8 };
        bytes += if is_control { 0 } else { part.bytes };
    }
    let has = |meaning: RecordMeaning| meanings & 1 << meaning as u8 != 0;
    let may_be_tickets = meanings & !(1 << RecordMeaning::Data as u8) != 0;
    if may_be_tickets && connection.current == NONE {
        records.end_tickets();
    }
    connection.half(side).framer = Framer::Record(records);
    if is_hello_due && records.has_hello() {
        note_hello(connection, context, ts);
    }
    if bytes == 0 {
        return;
    }
    if side == Side::Server && connection.current != NONE {
        let exchange = context.pool.get(connection.current);
        if !supersede_tickets(exchange, ts, has) {
            return;
        }
    } else if side == Side::Client {
        drop_tickets(connection, context);
    }
    turn(connection, context, side, ts, bytes);
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

/// Those of client and server.
fn records_of_both(connection: &Connection) -> [TlsRecords; 2] {
    [0, 1].map(|side: usize| records_of(connection.halves[side].framer))
}

/// Whether all of an answer so far may be tickets and settings.
fn may_be_control(exchange: &Exchange) -> bool {
    exchange.order == 1 && exchange.is_ticket && !exchange.has_answer
}

/// Ends the client's handshake if its Finished was not recognised: the server sends again. What
/// followed the handshake's first record was a request.
fn end_flight(connection: &mut Connection, context: &mut ShardContext) {
    let client = connection.half(Side::Client);
    let mut records = records_of(client.framer);
    if !records.has_open_flight() {
        return;
    }
    let may_ask = records.end_flight();
    client.framer = Framer::Record(records);
    let (ts, end_seq) = (client.last_data_ts, client.next);
    if may_ask && connection.current == NONE {
        let side = Side::Client;
        let mut tracker =
            RequestTracker { connection, context, side, ts, end_seq, is_interim: false };
        tracker.begin();
        tracker.end();
    }
}

/// Notes that the client leaves, or the capture ends, long after the last bytes, if these may be tickets
/// and settings alone.
pub(crate) fn note_doubt(connection: &Connection, context: &mut ShardContext, end_ts: i64) {
    if connection.current == NONE {
        return;
    }
    let exchange = context.pool.get(connection.current);
    let is_late = exchange.answered[1] != 0 && end_ts - exchange.answered[1] >= PATIENCE_NS;
    let [client, server] = records_of_both(connection);
    exchange.is_doubtful = is_late && may_be_control(exchange) && !server.has_answered(client);
}

/// Tickets and settings alone are no answer.
pub(crate) fn drop_tickets(connection: &Connection, context: &mut ShardContext) {
    if connection.current == NONE {
        return;
    }
    let exchange = context.pool.get(connection.current);
    let [client, server] = records_of_both(connection);
    if exchange.is_no_answer || may_be_control(exchange) && server.has_settings(client) {
        (exchange.is_no_answer, exchange.is_ticket) = (false, false);
        exchange.answered = [0; 2];
        exchange.response_bytes = 0;
    }
}

/// Drops an answer that was a ticket, once another record follows it. Returns whether the new records
/// count.
fn supersede_tickets(
    exchange: &mut Exchange,
    ts: i64,
    has: impl Fn(RecordMeaning) -> bool,
) -> bool {
    let [first, last] = exchange.answered;
    let is_sure = has(RecordMeaning::Data);
    let is_long = is_sure || has(RecordMeaning::Ticket) || has(RecordMeaning::Answer);
    let is_second = has(RecordMeaning::SecondTicket) && !is_sure && !has(RecordMeaning::Answer);
    let has_frame = has(RecordMeaning::Frame);
    if first == 0 {
        exchange.is_ticket = !is_sure;
        exchange.is_no_answer = is_second;
    } else if is_second && exchange.is_ticket && ts - last < DELAYED_ACK_NS {
        exchange.is_no_answer = true;
    } else if !is_long && !is_second && (exchange.has_answer || !has_frame) {
        return has_frame;
    } else if exchange.is_ticket && (is_sure || ts - last >= TICKETS_NS) {
        exchange.answered = [0; 2];
        exchange.response_bytes = 0;
        exchange.is_ticket = !is_long && !is_second;
        exchange.is_no_answer = false;
    }
    exchange.has_answer |= is_sure || has(RecordMeaning::Answer);
    exchange.is_no_answer &= !exchange.has_answer && !has_frame;
    true
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
