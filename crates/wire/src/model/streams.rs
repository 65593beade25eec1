//! Requests of an HTTP/2 connection: each has a stream, and they end in any order.
//!
//! ```text
//! client HEADERS ─► Begin ── DATA, END_STREAM ─► asked
//! server HEADERS ─► answered ── DATA, trailers ── END_STREAM ─► Answered, Completed
//! RST_STREAM, GOAWAY ─► Completed without an answer, or with a part of it
//! ```
//! A sender that has used up a window waits for the receiver's update. That is counted like a TCP
//! window of zero: to the peer's kernel it looks as if all had been read.

use super::connection_times::is_long_pause;
use super::exchange::{Exchange, RequestText};
use super::observed::RequestEnd;
use super::request_events::{self, WaitingRequest, complete};
use super::shard_context::ShardContext;
use super::urls;
use crate::flow::{Connection, NONE, Protocol, Side};
use crate::http::is_stream;
use crate::http2::{
    FlowStall, FrameSink, HeaderBlock, Http2State, HttpStream, SentData, StreamId, StreamTable,
    WindowUpdate,
};

/// Statuses of gRPC that say that the server failed: UNKNOWN, DEADLINE_EXCEEDED, UNIMPLEMENTED,
/// INTERNAL, UNAVAILABLE, DATA_LOSS (OpenTelemetry's semantic conventions for gRPC).
const SERVER_FAILURES: [u16; 6] = [2, 4, 12, 13, 14, 15];
/// A stream is over without an error (RFC 9113 §7).
const NO_ERROR: u32 = 0;
/// Error of a gRPC response without a status.
const NO_STATUS: &[u8; 9] = b"no status";
/// A frame's head.
const HEAD_BYTES: u64 = 9;

/// Processes the next in-order bytes of a direction: `length` on the wire, of which `bytes` were
/// captured.
pub(super) fn bytes(
    connection: &mut Connection,
    context: &mut ShardContext,
    side: Side,
    ts: i64,
    bytes: &[u8],
    length: u32,
) {
    let Some(mut state) = connection.http2.take() else { return };
    let Http2State { readers, streams, is_client_pause } = &mut *state;
    let is_client_pause = std::mem::take(is_client_pause);
    let mut tracker =
        StreamTracker { connection, context, streams, side, ts, first_ts: ts, is_client_pause };
    readers[usize::from(side == Side::Server)].feed(bytes, length, &mut tracker);
    connection.http2 = Some(state);
}

/// Gives up what the server sent and the tap missed.
pub(super) fn forget_server(connection: &mut Connection, context: &mut ShardContext, ts: i64) {
    let Some(mut state) = connection.http2.take() else { return };
    let Http2State { readers, streams, .. } = &mut *state;
    readers[1].forget();
    let side = Side::Server;
    let mut tracker = StreamTracker {
        connection,
        context,
        streams,
        side,
        ts,
        first_ts: ts,
        is_client_pause: false,
    };
    tracker.lost(false);
    connection.http2 = Some(state);
}

/// Switches from HTTP/1.1 (`Upgrade: h2c`): the response to the request comes on stream 1.
pub(super) fn upgrade(connection: &mut Connection, context: &mut ShardContext) {
    let slot = connection.current;
    let mut state = Http2State::new();
    if slot != NONE {
        let exchange = context.pool.get(slot);
        exchange.answered = [0; 2];
        exchange.interim += 1;
        let is_sent = exchange.is_sent;
        connection.current = exchange.next;
        if connection.newest == slot {
            connection.newest = NONE;
        }
        let mut stream = HttpStream::new(StreamId(1), slot);
        stream.is_request_over = is_sent;
        state.streams.add(stream);
    }
    connection.http2 = Some(state);
    connection.protocol = Protocol::Http2;
}

/// The oldest request without a response.
pub(super) fn waiting(
    connection: &Connection,
    context: &mut ShardContext,
) -> Option<WaitingRequest> {
    let streams = &connection.http2.as_deref()?.streams;
    let slot = streams.iter().map(|stream| stream.slot);
    let slot = slot.into_iter().find(|slot| context.pool.get(*slot).answered[0] == 0)?;
    let exchange = context.pool.get(slot);
    Some(WaitingRequest {
        asked: exchange.asked[1],
        order: exchange.order,
        is_received: connection.halves[0].has_acknowledged(exchange.end_seq),
    })
}

/// Ends the connection: no more packets.
pub(super) fn finish(connection: &mut Connection, context: &mut ShardContext, is_end: bool) {
    let Some(mut state) = connection.http2.take() else { return };
    let (side, ts) = (Side::Server, connection.last_ts);
    let streams = &mut state.streams;
    let mut tracker = StreamTracker {
        connection,
        context,
        streams,
        side,
        ts,
        first_ts: ts,
        is_client_pause: false,
    };
    for sender in [Side::Client, Side::Server] {
        let stalls: Vec<FlowStall> = tracker.streams.open_stalls(sender).collect();
        stalls.into_iter().for_each(|stall| tracker.add_stall(sender, stall));
    }
    tracker.end_doubtful();
    let is_broken_off = tracker.connection.is_broken_off();
    let without_answer = match (tracker.connection.rst_by, tracker.connection.fin_by) {
        (Some(_), _) => RequestEnd::Reset,
        (None, None) if is_end => RequestEnd::Unanswered,
        (None, _) => RequestEnd::Closed,
    };
    while let Some(stream) = tracker.streams.take_first(|_| true) {
        tracker.give_up(&stream, without_answer, is_broken_off);
    }
}

/// Streams of one connection at one moment; receives the frames' meaning.
struct StreamTracker<'a> {
    connection: &'a mut Connection,
    context: &'a mut ShardContext,
    streams: &'a mut StreamTable,
    side: Side,
    ts: i64,
    /// Time of the current frame's first byte.
    first_ts: i64,
    is_client_pause: bool,
}

impl FrameSink for StreamTracker<'_> {
    fn frame(&mut self, _stream: StreamId) {
        self.first_ts = self.ts;
    }

    fn headers(&mut self, stream: StreamId, block: &HeaderBlock, is_last: bool) {
        match self.side {
            Side::Client => self.request(stream, block, is_last),
            Side::Server => self.response(stream, block, is_last),
        }
    }

    fn data(&mut self, stream: StreamId, bytes: &[u8], length: u32) {
        let (side, ts) = (self.side, self.ts);
        let Some(open) = self.streams.find(stream) else { return };
        let exchange = self.context.pool.get(open.slot);
        if side == Side::Client {
            exchange.request_bytes += u64::from(length);
            ask_until(exchange, ts);
        } else if exchange.answered[0] == 0 {
            // The beginning of the response is missing.
            self.end_unseen(stream);
        } else {
            exchange.response_bytes += u64::from(length);
            if open.is_grpc {
                open.messages.feed(bytes, length);
            }
            self.go_on(stream);
        }
    }

    fn data_end(&mut self, stream: StreamId, length: u32, is_last: bool) {
        let (side, ts) = (self.side, self.ts);
        self.streams.sent(side, stream, SentData { ts, length, is_last });
        if let Some(open) = self.streams.find(stream) {
            let exchange = self.context.pool.get(open.slot);
            match side {
                Side::Client => exchange.request_bytes += HEAD_BYTES,
                Side::Server => exchange.response_bytes += HEAD_BYTES,
            }
        }
        if is_last {
            if side == Side::Server {
                self.end_without_status(stream);
            }
            self.end_side(stream);
        }
    }

    fn reset(&mut self, stream: StreamId, code: u32) {
        let Some(open) = self.streams.remove(stream) else { return };
        // A client that ends a stream which it has not closed wants no answer any more.
        let is_withdrawn = self.side == Side::Client && !open.is_request_over;
        let without_answer = if is_withdrawn { RequestEnd::Cut } else { RequestEnd::Reset };
        let is_truncated = self.side == Side::Server && code != NO_ERROR;
        self.give_up(&open, without_answer, is_truncated);
    }

    fn go_away(&mut self, last: StreamId) {
        if self.side == Side::Client {
            return;
        }
        let pool = &mut self.context.pool;
        let mut refused = Vec::new();
        for stream in self.streams.iter() {
            if stream.id > last && pool.get(stream.slot).answered[0] == 0 {
                refused.push(stream.id);
            }
        }
        for id in refused {
            if let Some(stream) = self.streams.remove(id) {
                self.give_up(&stream, RequestEnd::Closed, false);
            }
        }
    }

    fn window_update(&mut self, stream: StreamId, bytes: u32) {
        let sender = self.side.other();
        let update = WindowUpdate { ts: self.ts, bytes };
        if let Some(stall) = self.streams.update(sender, stream, update) {
            self.add_stall(sender, stall);
        }
    }

    fn initial_window(&mut self, bytes: u32) {
        let sender = self.side.other();
        let mut ended = Vec::new();
        self.streams.set_initial(sender, bytes, &mut |stall| ended.push(stall));
        ended.into_iter().for_each(|stall| self.add_stall(sender, stall));
    }

    fn lost(&mut self, is_cut: bool) {
        self.streams.forget_windows();
        self.streams.has_hidden_requests |= is_cut && self.side == Side::Client;
        for stream in self.streams.iter_mut() {
            if self.side == Side::Client {
                stream.is_request_over = true;
            } else if self.context.pool.get(stream.slot).answered[0] == 0 {
                stream.has_gap = true;
            } else {
                stream.may_be_over = true;
            }
        }
    }
}

impl StreamTracker<'_> {
    fn request(&mut self, id: StreamId, block: &HeaderBlock, is_last: bool) {
        if let Some(stream) = self.streams.find(id) {
            let exchange = self.context.pool.get(stream.slot);
            exchange.request_bytes += block.bytes;
            ask_until(exchange, self.ts);
            if is_last {
                self.end_side(id);
            }
            return;
        }
        // Servers begin even ones; lower ones are over.
        if id.0.is_multiple_of(2) || id <= self.streams.highest {
            return;
        }
        self.end_doubtful();
        if self.streams.is_full() {
            self.streams.highest = id;
            let tier = self.connection.tier;
            self.context.tier_mut(tier).unasked += 1;
            return;
        }
        let slot = request_events::begin(self.connection, self.context, self.first_ts);
        let end_seq = self.connection.half(Side::Client).next;
        let wants_text = self.context.wants_rows;
        let exchange = self.context.pool.get(slot);
        exchange.asked[1] = self.ts;
        exchange.request_bytes = block.bytes;
        exchange.end_seq = end_seq;
        exchange.is_cut = block.is_cut;
        exchange.is_connect = block.method == b"CONNECT";
        if wants_text {
            exchange.text = Some(Box::new(text_of(block)));
        }
        let request_id = match &block.request_id[..] {
            [] => 0,
            id => urls::hash(id).rotate_left(1) | 1,
        };
        let keys = [request_id, urls::hash(&block.path) ^ urls::hash(&block.method)];
        request_events::describe(self.connection, self.context, slot, &block.path, keys);
        let mut stream = HttpStream::new(id, slot);
        stream.is_request_over = is_last;
        self.streams.add(stream);
    }

    fn response(&mut self, id: StreamId, block: &HeaderBlock, is_last: bool) {
        let is_hidden = self.streams.has_hidden_requests && block.status >= 200;
        if is_hidden && self.streams.find(id).is_none() && !self.streams.is_full() {
            self.begin_hidden(id);
        }
        let Some(stream) = self.streams.find(id) else {
            if !id.0.is_multiple_of(2) && id > self.streams.highest {
                self.streams.highest = id;
                let tier = self.connection.tier;
                self.context.tier_mut(tier).unasked += 1;
            }
            return;
        };
        let exchange = self.context.pool.get(stream.slot);
        if (100..200).contains(&block.status) {
            exchange.interim += 1;
            return;
        }
        exchange.response_bytes += block.bytes;
        exchange.is_cut |= block.is_cut;
        if exchange.answered[0] == 0 {
            exchange.answered = [self.first_ts, self.ts];
            exchange.status = block.status;
            exchange.is_stream = is_stream(&block.content_type);
            exchange.has_own_pace = !stream.is_request_over;
            stream.is_grpc = is_grpc(block);
            stream.has_gap = false;
        }
        if let Some(code) = block.grpc_status.filter(|code| *code != 0) {
            let digits = code.to_string();
            exchange.error.iter_mut().zip(digits.bytes()).for_each(|(to, from)| *to = from);
            exchange.is_client_error = !SERVER_FAILURES.contains(&code);
        }
        let is_tunnel = exchange.is_connect && (200..300).contains(&exchange.status);
        self.go_on(id);
        if is_last || is_tunnel {
            self.end_side(id);
        }
    }

    /// Adds a request that the snap length hides, when its response comes.
    fn begin_hidden(&mut self, id: StreamId) {
        let ts = self.connection.half(Side::Client).last_data_ts;
        let slot = request_events::begin(self.connection, self.context, ts);
        self.context.pool.get(slot).is_cut = true;
        let mut stream = HttpStream::new(id, slot);
        stream.is_request_over = true;
        self.streams.add(stream);
    }

    /// More of a response: notes how long its stream paused.
    fn go_on(&mut self, id: StreamId) {
        let Some(stream) = self.streams.find(id) else { return };
        let was_stalled = std::mem::take(&mut stream.was_stalled);
        let exchange = self.context.pool.get(stream.slot);
        let pause = self.ts - exchange.answered[1];
        exchange.answered[1] = exchange.answered[1].max(self.ts);
        if !was_stalled && is_long_pause(self.connection, pause) {
            let waits = match self.is_client_pause {
                true => &mut exchange.client_wait_ns,
                false => &mut exchange.server_pause_ns,
            };
            *waits += pause;
        }
    }

    /// The sender has sent all of its part of the stream.
    fn end_side(&mut self, id: StreamId) {
        if self.side == Side::Client {
            if let Some(stream) = self.streams.find(id) {
                stream.is_request_over = true;
            }
            return;
        }
        if let Some(stream) = self.streams.remove(id) {
            self.end_answered(&stream);
        }
    }

    /// A gRPC response that ends with data has no status, which clients take for a failure.
    fn end_without_status(&mut self, id: StreamId) {
        let Some(stream) = self.streams.find(id) else { return };
        let exchange = self.context.pool.get(stream.slot);
        if stream.is_grpc && exchange.status == 200 && exchange.error[0] == 0 {
            exchange.error[..NO_STATUS.len()].copy_from_slice(NO_STATUS);
        }
    }

    fn end_answered(&mut self, stream: &HttpStream) {
        let end_seq = self.connection.half(Side::Server).next;
        let exchange = self.context.pool.get(stream.slot);
        exchange.is_stream |= is_message_stream(stream);
        exchange.end_seq = end_seq;
        request_events::answer(self.connection, self.context, stream.slot);
    }

    /// Ends the responses whose end may be among the bytes that are missing.
    fn end_doubtful(&mut self) {
        while let Some(stream) = self.streams.take_first(|stream| stream.may_be_over) {
            self.end_answered(&stream);
        }
    }

    fn end_unseen(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.remove(id) {
            complete(self.connection, self.context, stream.slot, RequestEnd::Unseen, None);
        }
    }

    /// Ends a request whose response is not complete.
    fn give_up(&mut self, stream: &HttpStream, without_answer: RequestEnd, is_truncated: bool) {
        let exchange = self.context.pool.get(stream.slot);
        let is_answered = exchange.answered[0] != 0;
        let is_open = without_answer == RequestEnd::Unanswered;
        let is_missed = stream.has_gap || self.connection.halves[1].is_ahead_of_tap();
        if stream.is_request_over && !is_answered && !is_missed {
            exchange.left = if is_open { self.context.end_ts } else { self.ts };
        }
        exchange.is_stream |= is_message_stream(stream);
        exchange.is_truncated = is_truncated && is_answered;
        let end = match (is_answered, stream.has_gap) {
            (true, _) => RequestEnd::Cut,
            (false, true) => RequestEnd::Unseen,
            (false, false) => without_answer,
        };
        complete(self.connection, self.context, stream.slot, end, None);
    }

    /// Counts the time that `sender` waited for a window, unless a round trip explains it.
    fn add_stall(&mut self, sender: Side, stall: FlowStall) {
        let wait = self.ts - stall.since;
        if !is_long_pause(self.connection, wait) {
            return;
        }
        let pool = &mut self.context.pool;
        let waiting = match stall.is_of_connection {
            true => self.streams.iter().filter(|stream| match sender {
                Side::Client => !stream.is_request_over,
                Side::Server => pool.get(stream.slot).answered[0] != 0,
            }),
            false => return self.add_wait(sender, wait, 1),
        };
        let count = waiting.count().max(1);
        self.add_wait(sender, wait, count);
    }

    fn add_wait(&mut self, sender: Side, wait: i64, streams: usize) {
        let us = u64::try_from(wait / 1000).unwrap_or(0) * streams as u64;
        let tier = self.connection.tier;
        let transport = self.context.tier_mut(tier);
        let receiver =
            if sender == Side::Server { &mut transport.client } else { &mut transport.server };
        receiver.zero_windows += 1;
        receiver.zero_window_us += us;
        if sender == Side::Server {
            let slice = self.context.now(tier);
            slice.zero_windows += 1;
            slice.zero_window_us += us;
        }
    }
}

/// The request lasts until `ts`, unless the response has begun.
fn ask_until(exchange: &mut Exchange, ts: i64) {
    if exchange.answered[0] == 0 {
        exchange.asked[1] = exchange.asked[1].max(ts);
    }
}

/// Whether a message is gRPC's. gRPC-Web sends its status within the body.
fn is_grpc(block: &HeaderBlock) -> bool {
    let rest = block.content_type.strip_prefix(b"application/grpc");
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

/// Whether a response has several messages: they come when something happens.
fn is_message_stream(stream: &HttpStream) -> bool {
    stream.messages.count > 1
}

fn text_of(block: &HeaderBlock) -> RequestText {
    let [method, host, target, request_id] =
        [&block.method, &block.authority, &block.path, &block.request_id]
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    RequestText { method, host, target, request_id }
}
