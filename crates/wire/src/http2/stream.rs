//! Open streams of an HTTP/2 connection, and the flow control of both directions.
//!
//! A sender has a window for each stream and one for the connection (RFC 9113 §5.2); DATA reduces
//! both. A window that is used up is a stall: the sender waits for the receiver to read.
//!
//! Example: a client that never reads has granted 65,535 bytes. The server's DATA frames add up to
//! as much, so its window is 0; the stall lasts until the client's WINDOW_UPDATE.

use super::frame::StreamId;
use crate::flow::Side;

/// Open streams of one connection; requests beyond it are not followed.
pub(crate) const STREAMS_MAX: usize = 1024;
/// Window before settings and updates (RFC 9113 §6.9.2).
const WINDOW_BYTES: i64 = 65_535;

/// A request and its response.
#[derive(Debug)]
pub(crate) struct HttpStream {
    pub(crate) id: StreamId,
    /// Its exchange.
    pub(crate) slot: u32,
    /// Updates less data, of what client and server send.
    credit: [i64; 2],
    /// Since when client and server wait for its window; 0 for not.
    stalled_since: [i64; 2],
    pub(crate) messages: MessageCounter,
    pub(crate) is_request_over: bool,
    /// Whether frames of the server are missing since the request.
    pub(crate) has_gap: bool,
    /// Whether the end of its response may be among them.
    pub(crate) may_be_over: bool,
    pub(crate) is_grpc: bool,
    /// Whether its response paused for a window.
    pub(crate) was_stalled: bool,
}

impl HttpStream {
    pub(crate) fn new(id: StreamId, slot: u32) -> Self {
        Self {
            id,
            slot,
            credit: [0; 2],
            stalled_since: [0; 2],
            messages: MessageCounter::default(),
            is_request_over: false,
            has_gap: false,
            may_be_over: false,
            is_grpc: false,
            was_stalled: false,
        }
    }
}

/// Messages of a gRPC response: each has a byte of flags and a length before it.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct MessageCounter {
    head: [u8; 5],
    filled: u8,
    /// Remaining bytes of the message.
    left: u32,
    pub(crate) count: u32,
}

impl MessageCounter {
    /// Counts the messages that begin in the next bytes; what was not captured is no message.
    pub(crate) fn feed(&mut self, bytes: &[u8], length: u32) {
        let (mut bytes, mut length) = (bytes, length);
        while length > 0 {
            let count = if self.left > 0 {
                let count = self.left.min(length);
                self.left -= count;
                count
            } else {
                let Some(byte) = bytes.first() else { return };
                self.begin(*byte);
                1
            };
            bytes = bytes.get(count as usize..).unwrap_or_default();
            length -= count;
        }
    }

    fn begin(&mut self, byte: u8) {
        self.head[usize::from(self.filled)] = byte;
        self.filled += 1;
        if let (5, [_, length @ ..]) = (self.filled, self.head) {
            (self.filled, self.left) = (0, u32::from_be_bytes(length));
            self.count += 1;
        }
    }
}

/// Flow control of one sender, for all streams.
#[derive(Debug, Clone, Copy)]
struct SendWindow {
    /// What the connection may still take.
    connection: i64,
    /// What a stream may take before updates.
    initial: i64,
    /// Since when the connection's window is used up; 0 when it is not.
    stalled_since: i64,
    /// The stream whose data used it up.
    stalled_by: StreamId,
    /// Whether settings and updates of the receiver may be missing.
    is_unknown: bool,
}

impl SendWindow {
    fn new(is_unknown: bool) -> Self {
        Self {
            connection: WINDOW_BYTES,
            initial: WINDOW_BYTES,
            stalled_since: 0,
            stalled_by: StreamId(0),
            is_unknown,
        }
    }
}

/// The end of a stall of one sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlowStall {
    pub(crate) since: i64,
    /// Whether all streams of the connection waited.
    pub(crate) is_of_connection: bool,
}

/// Streams in the order of their numbers.
#[derive(Debug)]
pub(crate) struct StreamTable {
    items: Vec<HttpStream>,
    /// The highest number of a request so far.
    pub(crate) highest: StreamId,
    /// What client and server send.
    windows: [SendWindow; 2],
    /// Streams that wait for their own windows.
    stalled: u32,
    /// Whether the snap length cut requests of the client.
    pub(crate) has_hidden_requests: bool,
}

impl Default for StreamTable {
    fn default() -> Self {
        let windows = [SendWindow::new(false); 2];
        Self {
            items: Vec::new(),
            highest: StreamId(0),
            windows,
            stalled: 0,
            has_hidden_requests: false,
        }
    }
}

fn at(side: Side) -> usize {
    usize::from(side == Side::Server)
}

impl StreamTable {
    /// Streams of a connection whose windows are not known.
    pub(crate) fn unknown() -> Self {
        Self { windows: [SendWindow::new(true); 2], ..Self::default() }
    }

    /// Windows are not known from now on: frames are missing that may have changed them.
    pub(crate) fn forget_windows(&mut self) {
        self.windows = [SendWindow::new(true); 2];
        self.items.iter_mut().for_each(|stream| stream.stalled_since = [0; 2]);
        self.stalled = 0;
    }

    fn place(&self, id: StreamId) -> Result<usize, usize> {
        self.items.binary_search_by_key(&id, |stream| stream.id)
    }

    pub(crate) fn find(&mut self, id: StreamId) -> Option<&mut HttpStream> {
        let place = self.place(id).ok()?;
        self.items.get_mut(place)
    }

    /// Adds a stream; false when there are too many, or when its number is taken.
    pub(crate) fn add(&mut self, stream: HttpStream) -> bool {
        self.highest = self.highest.max(stream.id);
        match self.place(stream.id) {
            Err(place) if self.items.len() < STREAMS_MAX => {
                self.items.insert(place, stream);
                true
            }
            _ => false,
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.items.len() >= STREAMS_MAX
    }

    pub(crate) fn remove(&mut self, id: StreamId) -> Option<HttpStream> {
        let place = self.place(id).ok()?;
        let stream = self.items.remove(place);
        self.stalled -= stream.stalls();
        Some(stream)
    }

    /// Removes the first stream for which `is_wanted` holds.
    pub(crate) fn take_first(
        &mut self,
        is_wanted: impl FnMut(&HttpStream) -> bool,
    ) -> Option<HttpStream> {
        let id = self.items.iter().position(is_wanted).map(|place| self.items[place].id)?;
        self.remove(id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &HttpStream> {
        self.items.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut HttpStream> {
        self.items.iter_mut()
    }

    /// Counts data that `sender` has sent; the sender stalls when a window is used up and more is to
    /// come.
    pub(crate) fn sent(&mut self, sender: Side, id: StreamId, data: SentData) {
        let window = &mut self.windows[at(sender)];
        window.connection -= i64::from(data.length);
        let is_used_up = window.connection <= 0;
        if is_used_up && window.stalled_since == 0 && !data.is_last && !window.is_unknown {
            (window.stalled_since, window.stalled_by) = (data.ts, id);
        }
        let is_unknown = window.is_unknown;
        let Some(stream) = self.find(id) else { return };
        stream.credit[at(sender)] -= i64::from(data.length);
        if !is_used_up && !is_unknown && !data.is_last {
            self.stall_if_used_up(sender, id, data.ts);
        }
    }

    fn stall_if_used_up(&mut self, sender: Side, id: StreamId, ts: i64) {
        let initial = self.windows[at(sender)].initial;
        let Some(stream) = self.find(id) else { return };
        let since = &mut stream.stalled_since[at(sender)];
        if *since == 0 && initial + stream.credit[at(sender)] <= 0 {
            *since = ts;
            self.stalled += 1;
        }
    }

    /// The receiver of what `sender` sends takes more; returns the stall that this ends.
    pub(crate) fn update(
        &mut self,
        sender: Side,
        id: StreamId,
        update: WindowUpdate,
    ) -> Option<FlowStall> {
        let window = &mut self.windows[at(sender)];
        let bytes = i64::from(update.bytes);
        if id != StreamId(0) {
            let initial = window.initial;
            let stream = self.find(id)?;
            stream.credit[at(sender)] = stream.credit[at(sender)].saturating_add(bytes);
            return self.end_stall(sender, id, initial);
        }
        window.connection = window.connection.saturating_add(bytes);
        if window.connection <= 0 || window.stalled_since == 0 {
            return None;
        }
        let since = std::mem::take(&mut window.stalled_since);
        let by = window.stalled_by;
        self.stall_if_used_up(sender, by, update.ts);
        self.items.iter_mut().for_each(|stream| stream.was_stalled = true);
        Some(FlowStall { since, is_of_connection: true })
    }

    fn end_stall(&mut self, sender: Side, id: StreamId, initial: i64) -> Option<FlowStall> {
        let stream = self.find(id)?;
        let since = &mut stream.stalled_since[at(sender)];
        if *since == 0 || initial + stream.credit[at(sender)] <= 0 {
            return None;
        }
        let since = std::mem::take(since);
        stream.was_stalled = true;
        self.stalled -= 1;
        Some(FlowStall { since, is_of_connection: false })
    }

    /// The receiver of what `sender` sends sets the windows of all streams; calls `each` with the
    /// stalls that this ends.
    pub(crate) fn set_initial(
        &mut self,
        sender: Side,
        bytes: u32,
        each: &mut impl FnMut(FlowStall),
    ) {
        let initial = i64::from(bytes);
        self.windows[at(sender)].initial = initial;
        if self.stalled == 0 {
            return;
        }
        for place in 0..self.items.len() {
            let id = self.items[place].id;
            if let Some(stall) = self.end_stall(sender, id, initial) {
                each(stall);
            }
        }
    }

    /// The stalls of `sender` that last until the connection ends.
    pub(crate) fn open_stalls(&self, sender: Side) -> impl Iterator<Item = FlowStall> {
        let of_connection = self.windows[at(sender)].stalled_since;
        let of_streams = self.items.iter().map(move |stream| stream.stalled_since[at(sender)]);
        std::iter::once(FlowStall { since: of_connection, is_of_connection: true })
            .chain(of_streams.map(|since| FlowStall { since, is_of_connection: false }))
            .filter(|stall| stall.since != 0)
    }
}

impl HttpStream {
    /// How many of its directions are stalled.
    fn stalls(&self) -> u32 {
        self.stalled_since.iter().map(|since| u32::from(*since != 0)).sum()
    }
}

/// A DATA frame that was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentData {
    pub(crate) ts: i64,
    pub(crate) length: u32,
    pub(crate) is_last: bool,
}

/// An update of a window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowUpdate {
    pub(crate) ts: i64,
    pub(crate) bytes: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: Side = Side::Server;

    fn table(ids: &[u32]) -> StreamTable {
        let mut table = StreamTable::default();
        ids.iter().for_each(|id| assert!(table.add(HttpStream::new(StreamId(*id), 0))));
        table
    }

    fn send(table: &mut StreamTable, [id, length]: [u32; 2], ts: i64) {
        table.sent(SERVER, StreamId(id), SentData { ts, length, is_last: false });
    }

    fn grant(table: &mut StreamTable, [id, bytes]: [u32; 2], ts: i64) -> Option<FlowStall> {
        table.update(SERVER, StreamId(id), WindowUpdate { ts, bytes })
    }

    #[test]
    fn a_stream_whose_window_is_used_up_stalls_until_it_is_updated() {
        let mut table = table(&[1, 3]);
        assert_eq!(grant(&mut table, [0, 1 << 20], 1), None);
        send(&mut table, [1, 65_535], 10);
        send(&mut table, [3, 1000], 11);
        assert_eq!(grant(&mut table, [3, 1000], 20), None);
        let stall = FlowStall { since: 10, is_of_connection: false };
        assert_eq!(table.open_stalls(SERVER).collect::<Vec<_>>(), [stall]);
        assert_eq!(grant(&mut table, [1, 1], 30), Some(stall));
        send(&mut table, [1, 1], 40);
        let mut ended = Vec::new();
        table.set_initial(SERVER, 70_000, &mut |stall| ended.push(stall));
        assert_eq!(ended, [FlowStall { since: 40, is_of_connection: false }]);
        assert_eq!(table.open_stalls(SERVER).count(), 0);
        assert_eq!(table.stalled, 0);
    }

    #[test]
    fn the_window_of_the_connection_stalls_all_streams() {
        let mut table = table(&[1, 3]);
        send(&mut table, [1, 35_535], 10);
        send(&mut table, [3, 30_000], 11);
        let of_connection = FlowStall { since: 11, is_of_connection: true };
        assert_eq!(table.open_stalls(SERVER).collect::<Vec<_>>(), [of_connection]);
        assert_eq!(grant(&mut table, [3, 1000], 20), None);
        assert_eq!(grant(&mut table, [0, 1000], 30), Some(of_connection));
        // Both windows at once: the stream waits for its own once the connection's is open.
        send(&mut table, [3, 1000], 40);
        assert_eq!(table.open_stalls(SERVER).count(), 1);
        assert!(grant(&mut table, [0, 100_000], 41).is_some());
        send(&mut table, [3, 35_535], 50);
        let of_stream = FlowStall { since: 50, is_of_connection: false };
        assert_eq!(grant(&mut table, [3, 1], 60), Some(of_stream));
    }

    #[test]
    fn the_last_data_and_unknown_windows_stall_nothing() {
        let mut known = table(&[1]);
        let last = SentData { ts: 1, length: 65_535, is_last: true };
        known.sent(SERVER, StreamId(1), last);
        let mut unknown = StreamTable::unknown();
        unknown.add(HttpStream::new(StreamId(1), 0));
        send(&mut unknown, [1, 1 << 20], 1);
        for table in [known, unknown] {
            assert_eq!(table.open_stalls(SERVER).count(), 0);
        }
    }

    #[test]
    fn streams_are_found_by_number_and_limited() {
        let mut table = StreamTable::default();
        for id in 0..u32::try_from(STREAMS_MAX).expect("small") + 1 {
            let is_added = table.add(HttpStream::new(StreamId(2 * id + 1), id));
            assert_eq!(is_added, id < 1024);
        }
        assert!(table.is_full());
        assert_eq!(table.remove(StreamId(7)).map(|stream| stream.slot), Some(3));
        assert!(table.find(StreamId(7)).is_none() && table.find(StreamId(9)).is_some());
        assert_eq!(table.highest, StreamId(2049));
    }

    #[test]
    fn messages_are_counted_in_any_pieces() {
        let stream =
            [&[0, 0, 0, 0, 3][..], b"abc", &[1, 0, 0, 0, 0], &[0, 0, 0, 0, 1], b"x"].concat();
        for size in 1..=stream.len() {
            let mut messages = MessageCounter::default();
            for piece in stream.chunks(size) {
                messages.feed(piece, u32::try_from(piece.len()).expect("short"));
            }
            assert_eq!(messages.count, 3, "{size}");
        }
        let mut cut = MessageCounter::default();
        cut.feed(&stream[..6], 100);
        assert_eq!(cut.count, 1);
    }
}
