//! Detects the protocol of a connection from its first payload, behind a PROXY header if there is
//! one, and which end serves if the capture began too late.

use weir_capture::packet::Packet;

use super::shard_context::ShardContext;
use crate::database;
use crate::flow::{Connection, Protocol, Side};
use crate::http::{is_request_start, is_response_start, proxy_header};
use crate::http2::{self, FirstFrames, Http2State};

/// Detects the protocol from a packet with payload.
#[inline]
pub(crate) fn detect_protocol(
    connection: &mut Connection,
    context: &mut ShardContext,
    packet: &Packet<'_>,
    side: Side,
) {
    if connection.protocol == Protocol::Unknown {
        detect(connection, context, packet, side);
    }
}

fn detect(
    connection: &mut Connection,
    context: &mut ShardContext,
    packet: &Packet<'_>,
    side: Side,
) {
    let is_whole = connection.syn_count > 0 || connection.synack_count > 0;
    if packet.payload_length <= 1 && !is_whole {
        // A keep-alive probe, most likely.
        return;
    }
    let skipped = header_bytes(connection, context, packet, side);
    let side = connection.side(packet.from);
    let length = packet.payload_length - skipped;
    if length == 0 {
        return;
    }
    let bytes = packet.payload.get(skipped as usize..).unwrap_or_default();
    let speaker = if is_request_start(bytes) {
        Some(Side::Client)
    } else if is_response_start(bytes) {
        Some(Side::Server)
    } else {
        None
    };
    let frames = http2::recognise(bytes, length);
    let found = speaker
        .map(|speaker| (Protocol::Http, speaker))
        .or_else(|| Some((Protocol::Http2, frames?.speaker(side, is_whole)?)))
        .or_else(|| database::recognise(bytes, length, connection.server().port, side));
    let may_tell = !bytes.is_empty() || (!context.hints.is_mute && skipped == 0);
    let has_known_port =
        is_http_port(connection, context, side) || database::has_port(connection.server().port);
    match found {
        Some((protocol, speaker)) => {
            connection.protocol = protocol;
            if speaker != side {
                flip(connection, context);
            }
            if protocol == Protocol::Http2 {
                let is_start = is_whole || frames == Some(FirstFrames::Preface);
                let state = if is_start { Http2State::new() } else { Http2State::in_the_middle() };
                connection.http2 = Some(state);
            }
        }
        // In the middle, either side may send these.
        None if !is_whole && frames.is_some() => {}
        None if matches!(bytes, [0x14..=0x17, 3, 0..=4, ..]) => connection.protocol = Protocol::Tls,
        // Mid-stream, this may be part of a body; without payload it stays unknown.
        None if !is_whole && may_tell && has_known_port => {}
        None if skipped > 0 && bytes.is_empty() => {}
        None => connection.protocol = Protocol::Opaque,
    }
}

/// Bytes of the packet that belong to a PROXY header, which is noted in the client's framer.
fn header_bytes(
    connection: &mut Connection,
    context: &mut ShardContext,
    packet: &Packet<'_>,
    side: Side,
) -> u32 {
    let half = connection.half(side);
    if half.bytes == 0
        && let Some(header) = proxy_header(packet.payload)
    {
        if side == Side::Server {
            flip(connection, context);
        }
        connection.half(Side::Client).framer = header;
        return header.proxy_bytes(packet.payload, packet.payload_length);
    }
    half.framer.proxy_bytes(packet.payload, packet.payload_length)
}

/// Swaps client and server, which were mistaken for each other, unless the handshake was seen.
fn flip(connection: &mut Connection, context: &mut ShardContext) {
    let is_whole = connection.syn_count > 0 || connection.synack_count > 0;
    if is_whole || connection.requests > 0 {
        return;
    }
    connection.flip();
    if connection.has_tier {
        connection.has_tier = false;
        context.tier_mut(connection.tier).mistaken += 1;
    }
}

fn is_http_port(connection: &Connection, context: &ShardContext, side: Side) -> bool {
    let [of_sender, of_receiver] = context.hints.is_readable;
    (if side == Side::Server { of_sender } else { of_receiver })
        || matches!(connection.server().port, 80 | 8080 | 8000 | 8081 | 3000 | 5000 | 50_051)
}
