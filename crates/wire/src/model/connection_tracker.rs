//! Tracks TCP: processes one packet of one connection.

use super::connection_times::is_long_pause;
use super::event::{ClosedConnection, ShardEvent};
use super::observed::ObservedConnection;
use super::request_tracker;
use super::shard_context::ShardContext;
use super::{copies, detection};
use crate::flow::{Connection, NONE, OrderedChunk, SegmentArrival, Side};
use crate::http::Framer;
use weir_capture::SkipReason;
use weir_capture::packet::{Flags, Packet, SackBlock};

/// Later SYNs sooner than this were held together in the network; a kernel retries after one
/// second.
const SYN_RETRY_NS: i64 = 800_000_000;
/// Minimum retransmission timeout of Linux, with a margin.
const RETRANSMIT_NS: i64 = 150_000_000;
/// A hole filled sooner was reordering; later than this and than a round trip it was a retransmit.
const REORDERED_NS: i64 = 3_000_000;
/// A server that resumes this soon after the client's acknowledgement had waited for it.
const PROMPT_NS: i64 = 5_000_000;
/// A reset this soon after a request was not caused by it.
const RACE_NS: i64 = 50_000_000;
/// Smaller segments wait for acknowledgements by Nagle's algorithm.
const SMALL_BYTES: u32 = 1000;

/// Whether a packet begins a new connection between the same endpoints.
pub(super) fn is_new_incarnation(connection: &Connection, packet: &Packet<'_>) -> bool {
    if !packet.flags.has(Flags::SYN) || packet.flags.has(Flags::ACK) {
        return false;
    }
    match connection.side(packet.from) {
        // One that is older than all else of its connection was only written late.
        Side::Client if connection.syn_count == 0 => packet.ts_ns > connection.first_ts,
        Side::Client => connection.client_isn != packet.seq,
        // Both ends send one in a simultaneous open; later, a former client listens now.
        Side::Server => {
            connection.synack_count > 0 || packet.ts_ns - connection.first_ts >= SYN_RETRY_NS
        }
    }
}

pub(super) fn packet(connection: &mut Connection, context: &mut ShardContext, packet: &Packet<'_>) {
    let side = connection.side(packet.from);
    if packet.payload_length > 0 {
        detection::detect_protocol(connection, context, packet, side);
    }
    let side = if packet.payload_length > 0 { connection.side(packet.from) } else { side };
    if copies::is_copy(connection, context, packet, side) {
        return context.skipped.add(SkipReason::Duplicate);
    }
    let previous_ts = std::mem::replace(&mut connection.last_ts, packet.ts_ns);
    let flags = packet.flags;
    if flags.has(Flags::SYN) {
        process_syn(connection, context, packet, side);
    } else if !connection.is_established {
        finish_handshake(connection, context, packet, side);
    }
    let is_heard = !flags.has(Flags::SYN) || flags.has(Flags::ACK) || packet.payload_length > 0;
    if is_heard && !connection.has_tier {
        give_tier(connection, context);
    }
    count(connection, context, packet, side);
    watch_window(connection, context, packet, side);
    if flags.has(Flags::ACK) && packet.is_sequence_known {
        acknowledge(connection, context, packet, side);
    }
    if packet.payload_length > 0 && !flags.has(Flags::RST) {
        payload(connection, context, packet, side, previous_ts);
    } else if packet.is_sequence_known && !flags.has(Flags::RST) && !flags.has(Flags::SYN) {
        let gap = connection.half(side).missed_before(packet.seq);
        if gap > 0 {
            request_tracker::gap(connection, context, side, gap);
        }
    }
    if flags.has(Flags::FIN) {
        close(connection, context, packet, side);
    }
    if flags.has(Flags::RST) {
        reset(connection, context, packet, side);
    }
}

fn process_syn(
    connection: &mut Connection,
    context: &mut ShardContext,
    packet: &Packet<'_>,
    side: Side,
) {
    if let Some(bytes) = packet.segment_bytes_max {
        connection.limit_segments(bytes);
    }
    if side == Side::Server || packet.flags.has(Flags::ACK) {
        if side == Side::Client {
            // The second half of a simultaneous open.
            return;
        }
        connection.synack_count = connection.synack_count.saturating_add(1);
        if connection.synack_count > 1 {
            let tier = tier_of(connection, context);
            // A server that defers accept() sends it again, too, until there is a request.
            if connection.synack_count == 2 && connection.half(Side::Client).bytes > 0 {
                context.tier_mut(tier).late_accepts += 1;
            }
            context.tier_mut(tier).synack_retries += 1;
            context.now(tier).synack_retries += 1;
            return;
        }
        connection.half(Side::Server).open(packet.seq);
        connection.set_synack(packet.ts_ns);
        context.emit(ShardEvent::Server(connection.server().address));
        let tier = tier_of(connection, context);
        if connection.syn_count > 0 {
            let wait = micros(packet.ts_ns - connection.first_ts);
            connection.syn_wait_us = wait;
            context.tier_mut(tier).connect.add(u64::from(wait));
            context.now(tier).connect.add(u64::from(wait));
        }
        return;
    }
    connection.syn_count = connection.syn_count.saturating_add(1);
    connection.is_subflow |= packet.is_join;
    if connection.syn_count == 1 {
        connection.client_isn = packet.seq;
        if connection.half(Side::Client).packets > 0 {
            if connection.has_tier {
                count_syns(connection, context, 1);
            }
            return;
        }
        connection.half(Side::Client).open(packet.seq);
        if context.ports.contains(&connection.server().port) {
            give_tier(connection, context);
        }
        return;
    }
    let had_tier = connection.has_tier;
    let tier = tier_of(connection, context);
    if had_tier {
        context.tier_mut(tier).syns += 1;
        context.now(tier).syns += 1;
    }
    let waited = packet.ts_ns - connection.first_ts;
    // A server that knows these ports from before acknowledges the SYN, and the client resets that.
    let is_unanswered = connection.half(Side::Server).packets == 0;
    if waited >= SYN_RETRY_NS && is_unanswered {
        context.tier_mut(tier).late_syns += 1;
        context.now(tier).late_syns += 1;
    }
}

/// Processes the first packet after the SYN-ACK, or the first of a connection seen mid-stream.
fn finish_handshake(
    connection: &mut Connection,
    context: &mut ShardContext,
    packet: &Packet<'_>,
    side: Side,
) {
    if side == Side::Server && connection.syn_count > 0 && connection.synack_count == 0 {
        return;
    }
    if let Some(synack_ts) = connection.synack_ts().filter(|_| side == Side::Client) {
        connection.handshake_us = micros(packet.ts_ns - synack_ts);
        let tier = tier_of(connection, context);
        context.tier_mut(tier).rtt.add(u64::from(connection.handshake_us));
        context.tier_mut(tier).lost_synacks += u64::from(connection.synack_count > 1);
    }
    if side == Side::Client || connection.syn_count == 0 {
        connection.establish();
    }
}

fn tier_of(connection: &mut Connection, context: &mut ShardContext) -> u16 {
    if !connection.has_tier {
        give_tier(connection, context);
    }
    connection.tier
}

/// Assigns a tier: a port gets one when it answers or is configured; port scans get none.
fn give_tier(connection: &mut Connection, context: &mut ShardContext) {
    connection.has_tier = true;
    connection.tier = context.tier(connection.server().port);
    context.tier_mut(connection.tier).connections += 1;
    context.now(connection.tier).new_connections += u32::from(connection.syn_count > 0);
    count_syns(connection, context, u32::from(connection.syn_count));
}

fn count_syns(connection: &Connection, context: &mut ShardContext, count: u32) {
    context.tier_mut(connection.tier).syns += u64::from(count);
    context.now(connection.tier).syns += count;
}

fn count(connection: &mut Connection, context: &mut ShardContext, packet: &Packet<'_>, side: Side) {
    context.packets += 1;
    context.bytes += u64::from(packet.payload_length);
    connection.half(side).packets += 1;
    let (number, taken) = (context.hints.slice, context.taken);
    let part = &mut context.parts[usize::from(connection.tier)];
    let (tier, slice) = (&mut part.transport, part.recent.at(number));
    tier.packets += 1;
    tier.bytes += u64::from(packet.payload_length);
    slice.packets += 1;
    slice.bytes += u64::from(packet.payload_length);
    if packet.payload_length > 0 {
        let traffic = if side == Side::Client { &mut tier.client } else { &mut tier.server };
        traffic.data_packets += 1;
        slice.data_packets += u32::from(side == Side::Server);
    }
    if side == Side::Client
        && let Some(stamps) = packet.timestamps
        && let Some(delay_us) = connection.clock.stamp(packet.ts_ns, stamps.value)
    {
        tier.delay.add(delay_us);
        slice.delay.add(delay_us);
        let lasting = taken.wrapping_add(number);
        if connection.delay_slice != lasting {
            connection.delay_slice = lasting;
            slice.delayed_connections += 1;
        }
    }
    if side == Side::Server
        && let Some(stamps) = packet.timestamps
    {
        context.stamp_server(connection.tier, packet.ts_ns, stamps.value);
    }
    if let Some(id) = packet.ip_id
        && !packet.flags.has(Flags::RST)
        && !(packet.flags.has(Flags::SYN) && side == Side::Server)
    {
        let segments = segments(connection, packet);
        let missing = connection.half(side).identify(id, segments);
        if missing > 0 && side == Side::Client {
            let slice = context.now(connection.tier);
            slice.missing += u32::from(missing);
        }
    }
}

/// Segments that a payload took on the wire, at least: the NIC merges and splits them (GRO, TSO), and
/// identifications count segments.
#[inline]
fn segments(connection: &Connection, packet: &Packet<'_>) -> u16 {
    let full = connection.segment_bytes(packet.timestamps.is_some());
    if packet.payload_length <= full {
        return 1;
    }
    u16::try_from(packet.payload_length.div_ceil(full)).unwrap_or(u16::MAX)
}

/// Tracks zero windows: the receiver does not accept data.
fn watch_window(
    connection: &mut Connection,
    context: &mut ShardContext,
    packet: &Packet<'_>,
    side: Side,
) {
    let is_shut = packet.window == 0
        && packet.flags.has(Flags::ACK)
        && !packet.flags.has(Flags::RST)
        && !packet.flags.has(Flags::SYN);
    let tier = connection.tier;
    let half = connection.half(side);
    match (is_shut, half.shut_since()) {
        (true, 0) => {
            let troubles = half.troubles_mut();
            troubles.shut_since = packet.ts_ns;
            troubles.shut_count = troubles.shut_count.saturating_add(1);
            if side == Side::Client {
                context.now(tier).zero_windows += 1;
            }
        }
        (false, since) if since != 0 => {
            let us = micros(packet.ts_ns - since);
            let troubles = half.troubles_mut();
            troubles.shut_since = 0;
            troubles.shut_us = troubles.shut_us.saturating_add(us);
            if side == Side::Client {
                context.now(tier).zero_window_us += u64::from(us);
            }
        }
        _ => {}
    }
}

fn acknowledge(
    connection: &mut Connection,
    context: &mut ShardContext,
    packet: &Packet<'_>,
    side: Side,
) {
    let peer = side.other();
    if let Some(SackBlock { right, .. }) = packet.dsack {
        let is_new = connection.half(peer).note_dsack(packet.ts_ns, right, copies::COPY_NS);
        if is_new && peer == Side::Server {
            context.now(connection.tier).spurious += 1;
            request_tracker::note_spurious(connection, context);
        }
    }
    let half = connection.half(peer);
    half.set_hole(packet.sack_blocks > 0 && packet.dsack.is_none());
    let rtt = half.acknowledge(packet.ts_ns, packet.ack);
    release(connection, context, peer, packet.ts_ns, false);
    if let Some(rtt) = rtt
        && peer == Side::Server
    {
        let tier = connection.tier;
        context.tier_mut(tier).rtt.add(u64::from(rtt));
    }
    if side == Side::Client {
        request_tracker::acknowledged(connection, context, packet.ts_ns, packet.ack);
    }
}

fn payload(
    connection: &mut Connection,
    context: &mut ShardContext,
    packet: &Packet<'_>,
    side: Side,
    previous_ts: i64,
) {
    let tier = connection.tier;
    if side == Side::Client && connection.half(Side::Server).is_ahead_of_tap() {
        // The client has a response that the tap missed; what follows is not pipelined.
        request_tracker::give_up_unseen(connection, context, packet.ts_ns);
    }
    let last_data_ts = connection.half(side).last_data_ts;
    let pause = packet.ts_ns - last_data_ts;
    if side == Side::Server && last_data_ts != 0 && is_long_pause(connection, pause) {
        let was_answered = packet.ts_ns - previous_ts <= PROMPT_NS;
        let was_shut = connection.half(Side::Client).troubles().shut_count > 0;
        let is_large = packet.payload_length >= SMALL_BYTES;
        let is_of_client = was_answered && (is_large || was_shut);
        request_tracker::note_pause(connection, context, is_of_client, pause);
    }
    if !packet.is_sequence_known {
        let (ts, length) = (packet.ts_ns, packet.payload_length);
        return request_tracker::bytes(connection, context, side, ts, packet.payload, length);
    }
    if packet.flags.has(Flags::SYN) {
        connection.half(side).note_syn_data();
    }
    let received = connection.half(side).receive(packet);
    if received.gap > 0 {
        request_tracker::gap(connection, context, side, received.gap);
    }
    if received.length > 0 {
        let bytes = packet.payload.get(received.overlap as usize..).unwrap_or_default();
        request_tracker::bytes(connection, context, side, packet.ts_ns, bytes, received.length);
        release(connection, context, side, packet.ts_ns, false);
    } else if received.arrival == SegmentArrival::Ahead {
        release(connection, context, side, packet.ts_ns, false);
    }
    match received.arrival {
        SegmentArrival::Again if is_no_retransmit(connection, packet, side, received.overlap) => {}
        SegmentArrival::Again => {
            connection.half(side).note_retransmit();
            let traffic = match side {
                Side::Client => &mut context.tier_mut(tier).client,
                Side::Server => &mut context.tier_mut(tier).server,
            };
            traffic.late_retransmits += u64::from(pause >= RETRANSMIT_NS);
            context.now(tier).retransmits += u32::from(side == Side::Server);
            request_tracker::note_retransmit(connection, context, side);
        }
        SegmentArrival::Filled(waited_ns) => {
            let rtt_us = match side {
                Side::Client => connection.client_rtt_us(),
                Side::Server => Some(connection.half(Side::Client).rtt_us).filter(|us| *us != NONE),
            };
            if waited_ns >= REORDERED_NS.max(rtt_us.map_or(0, |us| i64::from(us) * 1000)) {
                let tier = context.tier_mut(tier);
                let traffic =
                    if side == Side::Client { &mut tier.client } else { &mut tier.server };
                traffic.refilled += 1;
            }
        }
        SegmentArrival::New | SegmentArrival::KeepAlive | SegmentArrival::Ahead => {}
    }
}

/// Whether bytes seen before are no sign of loss: a probe of a closed window, the byte of such a
/// probe once the window is open, or the payload of a SYN, which the server did not accept.
fn is_no_retransmit(
    connection: &mut Connection,
    packet: &Packet<'_>,
    side: Side,
    overlap: u32,
) -> bool {
    let first = connection.client_isn.wrapping_add(1);
    connection.half(side.other()).shut_since() != 0
        || overlap == 1
        || (side == Side::Client
            && connection.half(side).take_refused_syn_data(packet.data_seq(), first))
}

/// Passes on held segments that are in order now; all of them when the connection is over.
fn release(
    connection: &mut Connection,
    context: &mut ShardContext,
    side: Side,
    now: i64,
    is_over: bool,
) {
    loop {
        let half = connection.half(side);
        let next = if is_over { half.rest() } else { half.ready() };
        match next {
            None => return,
            Some(OrderedChunk::Gap { length }) => {
                request_tracker::gap(connection, context, side, length)
            }
            Some(OrderedChunk::Bytes { ts, bytes, overlap, length }) => {
                let bytes = bytes.get(overlap as usize..).unwrap_or_default();
                request_tracker::bytes(connection, context, side, now.max(ts), bytes, length);
            }
        }
    }
}

fn close(connection: &mut Connection, context: &mut ShardContext, packet: &Packet<'_>, side: Side) {
    connection.half(side).close();
    connection.fin_by.get_or_insert(side);
    if side == Side::Server {
        connection.set_server_fin(packet.ts_ns);
        request_tracker::server_closed(connection, context, packet.ts_ns);
    }
    if connection.halves.iter().all(crate::flow::HalfConnection::has_closed) {
        connection.start_closing();
    }
}

fn reset(connection: &mut Connection, context: &mut ShardContext, packet: &Packet<'_>, side: Side) {
    if connection.rst_by.is_some() {
        return;
    }
    connection.rst_by = Some(side);
    connection.start_closing();
    if side == Side::Client || connection.half(Side::Server).is_ahead_of_tap() {
        return;
    }
    let Some(waiting) = request_tracker::waiting(connection, context) else {
        // A request that comes after it has crossed it, as it would a FIN.
        return connection.set_server_fin(packet.ts_ns);
    };
    connection.is_rst_in_flight = true;
    let tier = connection.tier;
    context.tier_mut(tier).resets_in_flight += 1;
    context.now(tier).resets_in_flight += 1;
    let rtt = connection.client_rtt_us().map_or(0, |us| 2000 * i64::from(us));
    let is_old = waiting.order > 1 || !is_whole(connection);
    let was_idle = is_old || connection.server_fin_ts().is_some();
    // A server that has taken the request closed the connection: no race.
    let is_race = was_idle && !waiting.is_received && !connection.has_raced;
    if is_race && packet.ts_ns - waiting.asked <= RACE_NS.max(rtt) {
        context.tier_mut(tier).races += 1;
        context.now(tier).races += 1;
    }
}

/// Ends a connection: completes what is in flight and adds up its counters.
pub(super) fn finish(connection: &mut Connection, context: &mut ShardContext, is_end: bool) {
    let last_ts = connection.last_ts;
    for side in [Side::Client, Side::Server] {
        release(connection, context, side, last_ts, true);
        if connection.half(side).is_ahead_of_tap() {
            let tier = connection.tier;
            context.tier_mut(tier).missed_by_tap += 1;
        }
    }
    request_tracker::finish(connection, context, is_end);
    if !connection.has_tier {
        connection.has_tier = true;
        connection.tier = 0;
        let rest = context.tier_mut(0);
        rest.connections += 1;
        rest.syns += u64::from(connection.syn_count);
    }
    let observed = observe(connection);
    let tier = context.tier_mut(connection.tier);
    tier.unopened += u64::from(is_unopened(connection));
    let has_failed = has_failed_handshake(connection);
    tier.failed_handshakes += u64::from(has_failed && !has_left_handshake(connection));
    tier.left_handshakes += u64::from(has_failed && has_left_handshake(connection));
    tier.one_sided += u64::from(is_one_sided(connection));
    tier.subflows += u64::from(connection.is_subflow);
    tier.stamped_connections += u64::from(observed.tick_us.is_some());
    tier.speaking[connection.protocol as usize] += 1;
    for (at, traffic) in [&mut tier.client, &mut tier.server].into_iter().enumerate() {
        let half = &connection.halves[at];
        let troubles = half.troubles();
        traffic.packets += u64::from(half.packets);
        traffic.retransmits += u64::from(troubles.retransmits);
        traffic.spurious += u64::from(troubles.dsacks);
        traffic.filled += u64::from(troubles.filled);
        traffic.zero_windows += u64::from(troubles.shut_count);
        traffic.zero_window_us += u64::from(troubles.shut_us);
        if half.id.is_usable() {
            traffic.identified += u64::from(half.id.steps);
            traffic.missing += u64::from(half.id.missing);
        }
    }
    context.out.closed.push(ClosedConnection { slot: context.slot, observed });
    context.emit(ShardEvent::Closed);
}

/// Whether the capture has the connection's beginning.
fn is_whole(connection: &Connection) -> bool {
    connection.syn_count > 0 || connection.synack_count > 0
}

/// Whether the server refused the connection, or answered none of several SYNs.
fn is_unopened(connection: &Connection) -> bool {
    let [client, server] = &connection.halves;
    let is_refused = connection.rst_by == Some(Side::Server) && server.packets == 1;
    let is_ignored = connection.syn_count > 1
        && server.packets == 0
        && client.packets == u32::from(connection.syn_count);
    connection.syn_count > 0 && connection.synack_count == 0 && (is_refused || is_ignored)
}

/// Whether the connection ended after a ClientHello and before the client's Finished.
fn has_failed_handshake(connection: &Connection) -> bool {
    let is_over = connection.fin_by.is_some() || connection.rst_by.is_some();
    let Framer::Record(records) = connection.halves[0].framer else { return false };
    is_over && is_whole(connection) && connection.requests == 0 && records.has_only_begun()
}

/// Whether the client left after the server's hello and sent no alert, as health checks do.
fn has_left_handshake(connection: &Connection) -> bool {
    let [Framer::Record(client), Framer::Record(server)] =
        [0, 1].map(|side: usize| connection.halves[side].framer)
    else {
        return false;
    };
    server.has_hello() && !server.has_alert() && !client.has_alert() && !connection.is_broken_off()
}

/// Whether enough packets passed one way and none the other: the tap sees one direction.
fn is_one_sided(connection: &Connection) -> bool {
    const PACKETS_MIN: u32 = 3;
    let [client, server] = [0, 1].map(|at| connection.halves[at].packets);
    let is_answered = client > 0 && server > 0;
    // SYNs alone may be unanswered for other reasons.
    !is_answered && client + server >= PACKETS_MIN + u32::from(connection.syn_count)
}

fn known_us(us: u32) -> Option<u32> {
    (us != NONE).then_some(us)
}

fn side_name(side: Side) -> &'static str {
    match side {
        Side::Client => "client",
        Side::Server => "server",
    }
}

fn observe(connection: &Connection) -> ObservedConnection {
    let [client, server] = &connection.halves;
    let [of_client, of_server] = [client.troubles(), server.troubles()];
    ObservedConnection {
        number: 0,
        client: connection.client(),
        server: connection.server(),
        protocol: connection.protocol,
        first_ts: connection.first_ts,
        // A packet from another CPU may be older than the first.
        last_ts: connection.last_ts.max(connection.first_ts),
        syns: connection.syn_count,
        synacks: connection.synack_count,
        syn_wait_us: known_us(connection.syn_wait_us),
        handshake_us: known_us(connection.handshake_us),
        rtt_us: [connection.client_rtt_us(), known_us(client.rtt_us)],
        delay_max_us: connection.clock.max_us(),
        tick_us: connection.clock.tick_us(),
        requests: connection.requests,
        bytes: [client.bytes, server.bytes],
        packets: [client.packets, server.packets],
        retransmits: [of_client.retransmits, of_server.retransmits],
        spurious: [of_client.dsacks, of_server.dsacks],
        filled: [of_client.filled, of_server.filled],
        missing: [client.missing_ids(), server.missing_ids()],
        zero_windows: [of_client.shut_count, of_server.shut_count],
        zero_window_us: [of_client.shut_us, of_server.shut_us],
        fin_by: connection.fin_by.map(side_name),
        rst_by: connection.rst_by.map(side_name),
        is_rst_in_flight: connection.is_rst_in_flight,
        late_requests: connection.late_requests,
        interface: connection.interface,
    }
}

/// Microseconds from nanoseconds, from 0 to one less than the marker for "not seen".
fn micros(ns: i64) -> u32 {
    u32::try_from(ns.max(0) / 1000).unwrap_or(NONE - 1).min(NONE - 1)
}
