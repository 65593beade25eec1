//! What happens to an exchange, whatever protocol delimits it: it begins, its request is read, its
//! response ends, it is complete. The sequencer gets each as an event.

use super::event::{CompletedRequest, RequestDetails, ShardEvent};
use super::observed::RequestEnd;
use super::shard_context::ShardContext;
use super::urls;
use crate::flow::Connection;

/// Without a measured round trip, a request this soon after the server's FIN has crossed it.
const CROSSING_NS: i64 = 50_000_000;

/// A request that waits for its response.
pub(super) struct WaitingRequest {
    /// Time of its last byte.
    pub(super) asked: i64,
    /// Position in its connection.
    pub(super) order: u32,
    /// Whether the server has acknowledged a part of it: its socket was open.
    pub(super) is_received: bool,
}

/// Begins a request at `ts`; returns its slot.
pub(super) fn begin(connection: &mut Connection, context: &mut ShardContext, ts: i64) -> u32 {
    connection.requests += 1;
    let slot = context.pool.take();
    let exchange = context.pool.get(slot);
    exchange.asked = [ts; 2];
    exchange.order = connection.requests;
    exchange.tier = connection.tier;
    context.emit(ShardEvent::Begin { slot, tier: connection.tier, ts });
    note_late(connection, context, ts);
    slot
}

/// Counts a request that comes after the server's FIN.
fn note_late(connection: &mut Connection, context: &mut ShardContext, ts: i64) {
    let Some(fin_ts) = connection.server_fin_ts() else { return };
    connection.late_requests = connection.late_requests.saturating_add(1);
    let number = context.slice_of(ts);
    let part = &mut context.parts[usize::from(connection.tier)];
    part.transport.after_fin += 1;
    let rtt = connection.client_rtt_us().map(|us| i64::from(us) * 1000);
    if ts - fin_ts < rtt.map_or(CROSSING_NS, |rtt| rtt + rtt / 4 + 1_000_000) {
        part.transport.races += 1;
        part.recent.at(number).races += 1;
        connection.has_raced = true;
    }
}

/// Reports what the request in `slot` is for.
pub(super) fn describe(
    connection: &Connection,
    context: &mut ShardContext,
    slot: u32,
    target: &[u8],
    keys: [u64; 2],
) {
    let path = urls::path(target);
    let text = &mut context.out.text;
    let from = text.len();
    text.extend_from_slice(path);
    let path_at = (offset_of(from), offset_of(text.len()));
    context.out.details.push(RequestDetails {
        slot,
        path: path_at,
        hash: urls::hash(path),
        keys,
        client: connection.client().address,
        server: connection.server().address,
    });
    context.emit(ShardEvent::Details);
}

/// Reports that the response in `slot` is over; it is complete once the client has acknowledged it.
pub(super) fn answer(connection: &mut Connection, context: &mut ShardContext, slot: u32) {
    report_answer(context, slot);
    let before = std::mem::replace(&mut connection.unacknowledged, slot);
    if before != crate::flow::NONE {
        complete(connection, context, before, RequestEnd::Ok, None);
    }
}

/// Reports the times of a response.
pub(super) fn report_answer(context: &mut ShardContext, slot: u32) {
    let exchange = context.pool.get(slot);
    let answered = exchange.answered;
    let think_ns = answered[0] - exchange.asked[1];
    context.emit(ShardEvent::Answered { slot, answered, think_ns });
}

/// Completes an exchange: the sequencer counts it and emits its row.
pub(super) fn complete(
    connection: &Connection,
    context: &mut ShardContext,
    slot: u32,
    end: RequestEnd,
    acknowledged: Option<i64>,
) {
    let exchange = context.pool.give_back(slot);
    context.out.completed.push(CompletedRequest {
        slot,
        connection: context.slot,
        exchange,
        ends: context.wants_rows.then(|| Box::new([connection.client(), connection.server()])),
        protocol: connection.protocol,
        end,
        acknowledged,
    });
    context.emit(ShardEvent::Completed);
}

fn offset_of(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
