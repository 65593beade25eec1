//! Requests and responses of one connection: by message framing, or by turns.
//!
//! Exchanges form a list: `current` is the oldest without a complete response, `newest` the last
//! that began; a complete one waits in `unacknowledged` until the client has it.

use weir_capture::SequenceNumber;

use super::exchange::RequestText;
use super::observed::RequestEnd;
use super::request_events::{self, WaitingRequest, complete};
use super::shard_context::ShardContext;
use super::{streams, turns, urls};
use crate::database::{self, MessageSink};
use crate::flow::{Connection, NONE, Protocol, Side};
use crate::http::{BodyFraming, Framer, HttpSink, RequestHead, ResponseHead};

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
    let protocol = connection.protocol;
    let half = connection.half(side);
    half.last_data_ts = ts;
    let header_bytes = half.framer.skip_proxy(bytes, length);
    let bytes = bytes.get(header_bytes as usize..).unwrap_or_default();
    let length = length - header_bytes;
    if length == 0 {
        return;
    }
    if protocol == Protocol::Http2 {
        return streams::bytes(connection, context, side, ts, bytes, length);
    }
    if protocol != Protocol::Http && !protocol.is_database() {
        return turns::bytes(connection, context, side, ts, bytes, length);
    }
    let end_seq = half.next;
    // Reading may change the other direction's framer, never this one's.
    let (mut framer, mut partial) = (half.framer, half.partial.take());
    let mut tracker = RequestTracker { connection, context, side, ts, end_seq, is_interim: false };
    let unread = if protocol == Protocol::Http {
        framer.feed(&mut partial, side == Side::Client, bytes, length, &mut tracker)
    } else {
        database::feed(protocol, side, &mut framer, &mut partial, bytes, length, &mut tracker);
        0
    };
    let half = connection.half(side);
    (half.framer, half.partial) = (framer, partial);
    if unread > 0 && connection.protocol == Protocol::Http2 {
        let bytes = bytes.get((length - unread) as usize..).unwrap_or_default();
        streams::bytes(connection, context, side, ts, bytes, unread);
    }
}

/// Skips `length` bytes that the capture misses (they were on the wire).
pub(super) fn gap(
    connection: &mut Connection,
    context: &mut ShardContext,
    side: Side,
    length: u32,
) {
    let tier = connection.tier;
    context.tier_mut(tier).missed_by_tap += 1;
    context.now(tier).missed_by_tap += 1;
    if connection.protocol == Protocol::Http2 {
        let ts = connection.half(side).last_data_ts;
        return streams::bytes(connection, context, side, ts, &[], length);
    }
    if connection.protocol != Protocol::Http && !connection.protocol.is_database() {
        if let Framer::Record(records) = &mut connection.half(side).framer {
            records.skip(length);
        }
        return;
    }
    let half = connection.half(side);
    let (mut framer, mut partial) = (half.framer, half.partial.take());
    let (ts, end_seq) = (half.last_data_ts, half.next);
    let mut tracker = RequestTracker { connection, context, side, ts, end_seq, is_interim: false };
    framer.gap(&mut partial, length, &mut tracker);
    let half = connection.half(side);
    (half.framer, half.partial) = (framer, partial);
}

pub(super) fn note_retransmit(connection: &Connection, context: &mut ShardContext, side: Side) {
    let slot = match side {
        Side::Client => connection.newest,
        Side::Server if connection.current != NONE => connection.current,
        Side::Server => connection.unacknowledged,
    };
    if slot != NONE {
        let exchange = context.pool.get(slot);
        let count = match side {
            Side::Client => &mut exchange.request_retransmits,
            Side::Server => &mut exchange.response_retransmits,
        };
        *count = count.saturating_add(1);
    }
}

/// Counts a spurious retransmit of a response.
pub(super) fn note_spurious(connection: &Connection, context: &mut ShardContext) {
    for slot in [connection.unacknowledged, connection.current] {
        if slot != NONE {
            let exchange = context.pool.get(slot);
            exchange.spurious = exchange.spurious.saturating_add(1);
            return;
        }
    }
}

/// Adds a pause of the server within a response, which ended with the client's window update or by
/// itself.
pub(super) fn note_pause(
    connection: &mut Connection,
    context: &mut ShardContext,
    is_of_client: bool,
    ns: i64,
) {
    if let Some(state) = &mut connection.http2 {
        state.is_client_pause = is_of_client;
    }
    if connection.current != NONE {
        let exchange = context.pool.get(connection.current);
        if exchange.answered[0] != 0 {
            let pause = if is_of_client {
                &mut exchange.client_wait_ns
            } else {
                &mut exchange.server_pause_ns
            };
            *pause += ns;
        }
    }
}

pub(super) fn waiting(
    connection: &Connection,
    context: &mut ShardContext,
) -> Option<WaitingRequest> {
    if connection.current == NONE {
        return streams::waiting(connection, context);
    }
    let exchange = context.pool.get(connection.current);
    let is_only = connection.current == connection.newest;
    let client = &connection.halves[0];
    let length = u32::try_from(exchange.request_bytes).unwrap_or(u32::MAX);
    let is_received =
        is_only && client.has_acknowledged(client.next.wrapping_sub(length).wrapping_add(1));
    (exchange.answered[0] == 0).then_some(WaitingRequest {
        asked: exchange.asked[1],
        order: exchange.order,
        is_received,
    })
}

/// Processes the client's acknowledgement up to `ack`.
pub(super) fn acknowledged(
    connection: &mut Connection,
    context: &mut ShardContext,
    ts: i64,
    ack: u32,
) {
    let slot = connection.unacknowledged;
    if slot != NONE && !ack.is_before(context.pool.get(slot).end_seq) {
        connection.unacknowledged = NONE;
        complete(connection, context, slot, RequestEnd::Ok, Some(ts));
    }
}

/// Gives up responses that the tap missed: the client has everything the server sent and sends
/// another request. The server's next byte begins a new response.
pub(super) fn give_up_unseen(connection: &mut Connection, context: &mut ShardContext, ts: i64) {
    while connection.current != NONE {
        give_up_oldest(connection, context, Some(ts));
    }
    connection.newest = NONE;
    streams::forget_server(connection, context, ts);
    let half = connection.half(Side::Server);
    half.catch_up();
    half.partial = None;
    match &mut half.framer {
        Framer::Opaque => {}
        Framer::Record(records) => records.skip(u32::MAX),
        framer => *framer = Framer::Idle,
    }
    let tier = connection.tier;
    context.tier_mut(tier).missed_by_tap += 1;
    context.now(tier).missed_by_tap += 1;
}

/// Ends a response that only the server's FIN delimits.
pub(super) fn server_closed(connection: &mut Connection, context: &mut ShardContext, ts: i64) {
    turns::drop_tickets(connection, context);
    if connection.fin_by.or(connection.rst_by) == Some(Side::Client) {
        turns::note_doubt(connection, context, ts);
    }
    let is_soft = connection.half(Side::Server).framer.turn()
        || matches!(connection.protocol, Protocol::Tls | Protocol::Opaque | Protocol::Mysql);
    let end_seq = connection.half(Side::Server).next;
    let mut tracker =
        RequestTracker { connection, context, side: Side::Server, ts, end_seq, is_interim: false };
    if is_soft && tracker.current().is_some_and(|exchange| exchange.answered[0] != 0) {
        tracker.end_response();
    }
}

/// Ends the connection: no more packets.
pub(super) fn finish(connection: &mut Connection, context: &mut ShardContext, is_end: bool) {
    let ts = connection.last_ts;
    let is_open = is_end && connection.rst_by.is_none() && connection.fin_by.is_none();
    if is_open {
        turns::drop_tickets(connection, context);
        turns::note_doubt(connection, context, context.end_ts);
    }
    server_closed(connection, context, ts);
    if connection.unacknowledged != NONE {
        let slot = std::mem::replace(&mut connection.unacknowledged, NONE);
        complete(connection, context, slot, RequestEnd::Ok, None);
    }
    let is_broken_off = connection.is_broken_off();
    let upload = connection.halves[0].framer;
    let is_uploading = matches!(upload, Framer::Body(_) | Framer::Size(..) | Framer::Chunk(_));
    streams::finish(connection, context, is_end);
    note_left(connection, context, if is_open { context.end_ts } else { ts });
    while connection.current != NONE {
        let slot = connection.current;
        let exchange = context.pool.get(slot);
        connection.current = exchange.next;
        // A client that leaves within its upload gets no response.
        exchange.has_own_pace |= is_uploading && !exchange.is_sent && !is_broken_off;
        exchange.is_truncated = is_broken_off && exchange.answered[0] != 0;
        let end = match (exchange.answered[0] != 0, connection.rst_by, connection.fin_by) {
            (true, _, _) => RequestEnd::Cut,
            (false, Some(_), _) => RequestEnd::Reset,
            (false, None, Some(_)) => RequestEnd::Closed,
            (false, None, None) if is_open => RequestEnd::Unanswered,
            (false, None, None) => RequestEnd::Closed,
        };
        complete(connection, context, slot, end, None);
    }
    connection.newest = NONE;
}

/// Notes until when the oldest request has waited for a response, unless only the tap lacks that.
fn note_left(connection: &Connection, context: &mut ShardContext, left: i64) {
    let is_read = connection.protocol == Protocol::Http || connection.protocol.is_database();
    if connection.current == NONE || !is_read || connection.halves[1].is_ahead_of_tap() {
        return;
    }
    let exchange = context.pool.get(connection.current);
    if exchange.is_sent && exchange.answered[0] == 0 {
        exchange.left = left;
    }
}

/// Bit of [`super::exchange::Exchange::parts`]: MySQL waits for a file of the client.
const WANTS_FILE: u8 = 0x80;

/// Messages of one direction at one moment; receives the framers' events.
pub(crate) struct RequestTracker<'a> {
    pub(crate) connection: &'a mut Connection,
    pub(crate) context: &'a mut ShardContext,
    pub(crate) side: Side,
    pub(crate) ts: i64,
    /// Sequence number after the bytes being read.
    pub(crate) end_seq: u32,
    pub(crate) is_interim: bool,
}

impl RequestTracker<'_> {
    pub(crate) fn current(&mut self) -> Option<&mut super::exchange::Exchange> {
        let slot = self.connection.current;
        (slot != NONE).then(|| self.context.pool.get(slot))
    }

    fn newest(&mut self) -> Option<&mut super::exchange::Exchange> {
        let slot = self.connection.newest;
        (slot != NONE).then(|| self.context.pool.get(slot))
    }

    fn begin_request(&mut self) {
        // A response without a delimiter ends here.
        let has_no_end = self.connection.protocol == Protocol::Mysql;
        if (self.connection.half(Side::Server).framer.turn() || has_no_end)
            && self.current().is_some_and(|exchange| exchange.answered[0] != 0)
        {
            self.end_seq = self.connection.half(Side::Server).next;
            self.end_response();
        }
        let Self { connection, context, ts, .. } = self;
        let slot = request_events::begin(connection, context, *ts);
        if connection.current == NONE {
            connection.current = slot;
        } else {
            context.pool.get(connection.newest).next = slot;
        }
        connection.newest = slot;
    }

    /// Adds a request hidden by the snap length (pipelined in a client segment) when its response
    /// comes.
    fn begin_hidden_request(&mut self) {
        let ts = self.ts;
        self.ts = self.connection.half(Side::Client).last_data_ts;
        self.begin_request();
        self.ts = ts;
        if let Some(exchange) = self.newest() {
            exchange.answered = [ts; 2];
            exchange.is_sent = true;
            exchange.is_cut = true;
        }
    }

    pub(crate) fn end_response(&mut self) {
        let slot = self.connection.current;
        if slot == NONE {
            return;
        }
        let Self { connection, context, end_seq, .. } = self;
        let exchange = context.pool.get(slot);
        exchange.end_seq = *end_seq;
        let next = exchange.next;
        if connection.newest == slot {
            connection.newest = NONE;
        }
        connection.current = next;
        request_events::answer(connection, context, slot);
    }

    /// Whether the server answers no request: it tells a client that has sent none why it closes.
    fn is_uninvited(&self, status: u16) -> bool {
        const REQUEST_TIMEOUT: u16 = 408;
        let is_silent = self.connection.syn_count > 0 && self.connection.halves[0].bytes == 0;
        status == REQUEST_TIMEOUT || is_silent
    }

    /// A final answer to `Expect: 100-continue`: the client may keep the body and go on with its
    /// next request.
    fn end_withheld(&mut self) {
        let withheld = self.current().map_or(0, |exchange| exchange.withheld_bytes);
        let framer = &mut self.connection.half(Side::Client).framer;
        let is_withheld = match *framer {
            Framer::Body(left) => left == withheld,
            Framer::Size(0, false) => withheld == u64::MAX,
            _ => false,
        };
        if is_withheld {
            *framer = Framer::UntilEnd;
        }
    }

    fn ask(&mut self, target: &[u8], keys: [u64; 2]) {
        let Self { connection, context, .. } = self;
        request_events::describe(connection, context, connection.newest, target, keys);
    }
}

impl HttpSink for RequestTracker<'_> {
    fn begin(&mut self) {
        if self.side == Side::Client {
            return self.begin_request();
        }
        if self.connection.half(Side::Client).framer.turn()
            && let Some(exchange) = self.current()
        {
            exchange.is_sent = true;
        }
        let ts = self.ts;
        if let Some(exchange) = self.current().filter(|exchange| exchange.answered[0] == 0) {
            exchange.answered = [ts; 2];
        }
    }

    fn request(&mut self, head: &RequestHead<'_>, is_cut: bool) -> BodyFraming {
        let wants_text = self.context.wants_rows;
        self.connection.has_cut_requests |= is_cut;
        if let Some(exchange) = self.newest() {
            exchange.is_cut |= is_cut;
            exchange.is_head = head.method == b"HEAD";
            exchange.is_connect = head.method == b"CONNECT";
            if head.expects_continue {
                exchange.withheld_bytes =
                    if head.is_chunked { u64::MAX } else { head.content_length.unwrap_or(0) };
            }
            if wants_text {
                exchange.text = Some(Box::new(RequestText {
                    method: lossy(head.method),
                    host: lossy(head.host),
                    target: lossy(head.target),
                    request_id: lossy(head.request_id),
                }));
            }
            let id = match head.request_id {
                [] => 0,
                id => urls::hash(id).rotate_left(1) | 1,
            };
            let known =
                if is_cut && head.host.is_empty() { cut_target(head.target) } else { head.target };
            self.ask(known, [id, urls::hash(head.target) ^ urls::hash(head.method)]);
        }
        match head.content_length {
            _ if head.is_chunked => BodyFraming::Chunked,
            Some(length) => BodyFraming::Length(length),
            None if !is_cut => BodyFraming::None,
            None if matches!(head.method, b"GET" | b"HEAD" | b"DELETE" | b"OPTIONS") => {
                BodyFraming::None
            }
            None => BodyFraming::UntilEnd,
        }
    }

    fn response(&mut self, head: &ResponseHead, is_cut: bool) -> BodyFraming {
        if self.connection.current == NONE {
            match head.class {
                1 => {}
                class if self.connection.has_cut_requests && (class > 1 || is_cut) => {
                    self.begin_hidden_request();
                }
                _ if self.is_uninvited(head.status) => {}
                _ => self.context.tier_mut(self.connection.tier).unasked += 1,
            }
        }
        if head.class > 1 {
            self.end_withheld();
        }
        let (is_head, is_connect) = self
            .current()
            .map_or((false, false), |exchange| (exchange.is_head, exchange.is_connect));
        if let Some(exchange) = self.current() {
            exchange.status = head.status;
            exchange.is_stream = head.is_stream;
            exchange.is_cut |= is_cut;
        }
        match head.status {
            101 if head.is_h2c => {
                streams::upgrade(self.connection, self.context);
                BodyFraming::Opaque
            }
            101 => {
                self.connection.half(Side::Client).framer = Framer::Opaque;
                self.end_response();
                BodyFraming::Opaque
            }
            _ if head.class == 1 => {
                self.is_interim = true;
                BodyFraming::None
            }
            200..=299 if is_connect => {
                self.connection.half(Side::Client).framer = Framer::Opaque;
                self.end_response();
                BodyFraming::Opaque
            }
            204 | 304 => BodyFraming::None,
            _ if is_head => BodyFraming::None,
            _ if head.is_chunked => BodyFraming::Chunked,
            _ => head.content_length.map_or(BodyFraming::UntilEnd, BodyFraming::Length),
        }
    }

    fn count(&mut self, bytes: u64) {
        let ts = self.ts;
        match self.side {
            Side::Client => {
                if let Some(exchange) = self.newest() {
                    exchange.request_bytes += bytes;
                    exchange.asked[1] = exchange.asked[1].max(ts);
                }
            }
            Side::Server => {
                if let Some(exchange) = self.current() {
                    exchange.response_bytes += bytes;
                    exchange.answered[1] = exchange.answered[1].max(ts);
                }
            }
        }
    }

    fn end(&mut self) {
        match self.side {
            Side::Client => {
                if let Some(exchange) = self.newest() {
                    exchange.is_sent = true;
                }
            }
            Side::Server if std::mem::take(&mut self.is_interim) => {
                if let Some(exchange) = self.current() {
                    exchange.answered = [0; 2];
                    exchange.interim += 1;
                }
            }
            Side::Server => self.end_response(),
        }
    }

    fn lost(&mut self) {
        if self.side == Side::Client {
            return;
        }
        // The due response is among the missing bytes. With pipelining, the newest may still come.
        let is_pipelined = self.connection.current != self.connection.newest;
        while self.connection.current != NONE {
            let is_newest = self.connection.current == self.connection.newest;
            let is_waiting = self.current().is_some_and(|exchange| exchange.answered[0] == 0);
            if is_pipelined && is_newest && is_waiting {
                return;
            }
            give_up_oldest(self.connection, self.context, None);
        }
        self.connection.newest = NONE;
    }
}

impl MessageSink for RequestTracker<'_> {
    fn is_fresh(&mut self) -> bool {
        self.connection.requests == 0
    }

    fn request(&mut self) {
        self.begin_request();
    }

    fn part(&mut self, bit: u8) -> u8 {
        if self.newest().is_none_or(|exchange| exchange.is_sent) {
            self.begin_request();
        }
        self.newest().map_or(0, |exchange| {
            exchange.parts |= bit;
            exchange.parts
        })
    }

    fn command(&mut self, name: &[u8]) {
        let wants_text = self.context.wants_rows;
        // A server that answers half a command has already ended its request.
        let Some(exchange) = self.newest() else { return };
        exchange.has_own_pace = database::waits_for_news(name);
        if wants_text {
            let method = String::from_utf8_lossy(name).into_owned();
            exchange.text = Some(Box::new(RequestText { method, ..RequestText::default() }));
        }
        self.ask(name, [0; 2]);
    }

    fn request_end(&mut self) {
        if let Some(exchange) = self.newest() {
            exchange.is_sent = true;
        }
    }

    /// Bytes outside of requests, such as closing a statement, do not count to the one before.
    fn count(&mut self, bytes: u64) {
        let belongs = match self.side {
            Side::Client => self.newest().is_some_and(|exchange| !exchange.is_sent),
            Side::Server => self.current().is_some_and(|exchange| exchange.answered[0] != 0),
        };
        if belongs {
            HttpSink::count(self, bytes);
        }
    }

    fn response(&mut self) {
        let ts = self.ts;
        if let Some(exchange) = self.current().filter(|exchange| exchange.answered[0] == 0) {
            exchange.answered = [ts; 2];
        }
    }

    fn error(&mut self, code: &[u8]) {
        const UNNAMED: &[u8] = b"error";
        let code = if code.is_empty() { UNNAMED } else { code };
        if let Some(exchange) = self.current().filter(|exchange| exchange.error[0] == 0) {
            exchange.error.iter_mut().zip(code).for_each(|(to, from)| *to = *from);
        }
    }

    fn response_end(&mut self) {
        if self.current().is_some_and(|exchange| exchange.answered[0] != 0) {
            self.end_response();
        }
    }

    fn is_file_wanted(&mut self) -> bool {
        self.current().is_some_and(|exchange| exchange.parts & WANTS_FILE != 0)
    }

    fn set_file_wanted(&mut self, is_wanted: bool) {
        if let Some(exchange) = self.current() {
            exchange.parts &= !WANTS_FILE;
            exchange.parts |= if is_wanted { WANTS_FILE } else { 0 };
        }
    }

    fn hidden(&mut self, by: Protocol) {
        self.connection.protocol = by;
    }

    fn lost(&mut self) {
        HttpSink::lost(self);
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Ends the oldest request: the client has its response, the capture lacks all or part of it.
fn give_up_oldest(
    connection: &mut Connection,
    context: &mut ShardContext,
    acknowledged: Option<i64>,
) {
    let slot = connection.current;
    let exchange = context.pool.get(slot);
    let is_answered = exchange.answered[0] != 0;
    connection.current = exchange.next;
    if is_answered {
        request_events::report_answer(context, slot);
    }
    let end = if is_answered { RequestEnd::Ok } else { RequestEnd::Unseen };
    complete(connection, context, slot, end, acknowledged);
}

/// The target without its last segment: cut by the snap length, that may be half an id.
fn cut_target(target: &[u8]) -> &[u8] {
    let end = target.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let has_query = target.contains(&b'?');
    if has_query { target } else { &target[..end] }
}
