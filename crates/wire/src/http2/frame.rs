//! Cuts one direction of an HTTP/2 connection into frames (RFC 9113 §4 and §6).
//!
//! ```text
//! Preface ─24 bytes─► Head ─9 bytes─► Payload(n) ─► Head
//!                      └─ not captured ─► Lost ─ a packet that consists of frames ─► Head
//! ```
//! The capture may lack bytes: behind the snap length, or lost by the tap. Their number is known, so
//! that a frame whose head was captured ends where it ends; a head that is missing hides where the
//! next frame begins.

use weir_hpack::{FieldName, HeaderField, HeaderTable};

use crate::flow::Side;

/// Number of a stream; 0 is the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamId(pub(crate) u32);

/// What the client sends first.
pub(crate) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// As much of the preface as tells it from anything else.
const PREFACE_START: usize = 14;
/// A header block with its continuations; of longer ones the beginning is read.
const BLOCK_BYTES_MAX: usize = 64 << 10;
/// Settings and other control frames are shorter.
const CONTROL_BYTES_MAX: usize = 1024;
/// Buffers larger than this are given back after use.
const BUFFER_BYTES: usize = 4096;
/// Largest frame that a packet in the middle may begin with.
const FRAME_BYTES_MAX: u32 = 1 << 20;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const HAS_PRIORITY: u8 = 0x20;

const INITIAL_WINDOW_SIZE: u16 = 4;

/// Receives what frames mean; all of one direction.
pub(crate) trait FrameSink {
    /// The first byte of a frame of this stream, or of the connection.
    fn frame(&mut self, stream: StreamId);
    /// A header block is complete, or as much of it as was captured.
    fn headers(&mut self, stream: StreamId, block: &HeaderBlock, is_last: bool);
    /// A part of the payload of a DATA frame: `length` on the wire, of which `bytes` were captured.
    fn data(&mut self, stream: StreamId, bytes: &[u8], length: u32);
    /// A DATA frame of `length` bytes, which flow control counts, is over.
    fn data_end(&mut self, stream: StreamId, length: u32, is_last: bool);
    /// The sender gives the stream up, for the reason `code`.
    fn reset(&mut self, stream: StreamId, code: u32);
    /// The sender takes no stream after `last`.
    fn go_away(&mut self, last: StreamId);
    /// The sender takes `bytes` more of the stream, or of the connection.
    fn window_update(&mut self, stream: StreamId, bytes: u32);
    /// Size of the window of each stream until it is updated.
    fn initial_window(&mut self, bytes: u32);
    /// Frames are missing: behind the snap length of this packet, or lost by the tap.
    fn lost(&mut self, is_cut: bool);
}

/// Fields of a header block; empty where absent or unknown.
#[derive(Debug, Default)]
pub(crate) struct HeaderBlock {
    pub(crate) method: Vec<u8>,
    pub(crate) path: Vec<u8>,
    pub(crate) authority: Vec<u8>,
    /// `X-Request-Id`, or the trace id of `traceparent`.
    pub(crate) request_id: Vec<u8>,
    pub(crate) content_type: Vec<u8>,
    /// 0 when absent.
    pub(crate) status: u16,
    pub(crate) grpc_status: Option<u16>,
    /// Whether a part is missing.
    pub(crate) is_cut: bool,
    /// Its length, with the head of its first frame.
    pub(crate) bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadState {
    /// Remaining bytes of the client's preface.
    Preface(u8),
    /// Bytes of the frame's head so far.
    Head(u8),
    /// Remaining bytes of the frame's payload.
    Payload(u32),
    Lost,
}

/// Reads one direction.
#[derive(Debug)]
pub(crate) struct FrameReader {
    table: HeaderTable,
    state: ReadState,
    head: [u8; 9],
    /// Payload of a frame that is not DATA; of the frames of a header block, their fragments.
    payload: Vec<u8>,
    /// Where the fragment of the current frame begins in `payload`.
    fragment: usize,
    /// A header block that goes on in continuations.
    block: Option<OpenBlock>,
    /// Whether a part of the payload was not kept.
    is_cut: bool,
}

#[derive(Debug, Clone, Copy)]
struct OpenBlock {
    stream: StreamId,
    is_last: bool,
    /// Whether it is a request that the server invents (push).
    is_promise: bool,
}

/// The next in-order bytes: `length` on the wire, of which `bytes` were captured.
struct FrameInput<'a> {
    bytes: &'a [u8],
    length: u32,
}

impl<'a> FrameInput<'a> {
    fn take(&mut self, count: u32) -> &'a [u8] {
        let (taken, rest) = self.bytes.split_at(self.bytes.len().min(count as usize));
        self.bytes = rest;
        self.length -= count;
        taken
    }
}

#[derive(Debug, Clone, Copy)]
struct FrameHead {
    length: u32,
    kind: u8,
    flags: u8,
    stream: StreamId,
}

impl FrameHead {
    fn of(head: &[u8; 9]) -> Self {
        let [a, b, c, kind, flags, stream @ ..] = *head;
        let stream = StreamId(u32::from_be_bytes(stream) & 0x7fff_ffff);
        Self { length: u32::from_be_bytes([0, a, b, c]), kind, flags, stream }
    }

    fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether a frame that begins a packet in the middle of a connection can be this one.
    fn is_likely(self) -> bool {
        let is_of_stream = self.stream != StreamId(0);
        match self.kind {
            DATA => {
                is_of_stream
                    && self.flags & !(END_STREAM | PADDED) == 0
                    && self.length <= FRAME_BYTES_MAX
            }
            HEADERS => {
                is_of_stream
                    && self.flags & !(END_STREAM | END_HEADERS | PADDED | HAS_PRIORITY) == 0
                    && (1..=FRAME_BYTES_MAX).contains(&self.length)
            }
            PRIORITY => is_of_stream && self.length == 5,
            RST_STREAM => is_of_stream && self.length == 4 && self.flags == 0,
            SETTINGS => {
                !is_of_stream
                    && self.length.is_multiple_of(6)
                    && self.length <= 600
                    && self.flags <= ACK
            }
            PING => !is_of_stream && self.length == 8 && self.flags <= ACK,
            GOAWAY => !is_of_stream && (8..=16_384).contains(&self.length) && self.flags == 0,
            WINDOW_UPDATE => self.length == 4 && self.flags == 0,
            CONTINUATION => is_of_stream && self.flags & !END_HEADERS == 0,
            _ => false,
        }
    }
}

/// The frame that begins a packet, if the packet consists of frames as far as it was captured; the
/// last may go on in the next packet.
fn first_of_frames(bytes: &[u8], length: u32) -> Option<(FrameHead, &[u8])> {
    let first = FrameHead::of(bytes.first_chunk()?);
    let mut at = 0_usize;
    while let Some(head) = bytes.get(at..).and_then(<[u8]>::first_chunk).map(FrameHead::of) {
        if !head.is_likely() {
            return None;
        }
        at += 9 + head.length as usize;
    }
    let is_head_cut = bytes.len() < length as usize || at <= bytes.len();
    (is_head_cut || at >= length as usize).then(|| (first, &bytes[9..]))
}

/// Whether bytes are the beginning of the client's preface.
pub(crate) fn is_preface(bytes: &[u8]) -> bool {
    bytes.starts_with(&PREFACE[..PREFACE_START]) || {
        bytes.len() >= 4 && PREFACE.starts_with(bytes)
    }
}

/// What the first packet with payload shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstFrames {
    /// The client's preface.
    Preface,
    /// A request.
    Request,
    /// A response, or the server's settings.
    Response,
    /// Frames that either side may send.
    Any,
}

impl FirstFrames {
    /// The side that sends them, of a packet from `side`; of a connection whose beginning was
    /// captured, only the preface or the server's settings come first.
    pub(crate) fn speaker(self, side: Side, is_whole: bool) -> Option<Side> {
        match self {
            Self::Preface => Some(Side::Client),
            Self::Response if !is_whole || side == Side::Server => Some(Side::Server),
            Self::Request if !is_whole => Some(Side::Client),
            Self::Request | Self::Response | Self::Any => None,
        }
    }
}

/// Recognises frames at the beginning of a packet.
pub(crate) fn recognise(bytes: &[u8], length: u32) -> Option<FirstFrames> {
    if is_preface(bytes) {
        return Some(FirstFrames::Preface);
    }
    let (head, payload) = first_of_frames(bytes, length)?;
    if head.kind == SETTINGS && !head.has(ACK) {
        // A client's settings follow its preface.
        return Some(FirstFrames::Response);
    }
    if head.kind != HEADERS || !head.has(END_HEADERS) {
        return Some(FirstFrames::Any);
    }
    let before = usize::from(head.has(PADDED)) + if head.has(HAS_PRIORITY) { 5 } else { 0 };
    match payload.get(before) {
        // `:method`, `:path`, `:scheme` and `:authority` of the static table.
        Some(0x82..=0x87 | 0x41..=0x44 | 0x01..=0x04 | 0x11..=0x14) => Some(FirstFrames::Request),
        // `:status`.
        Some(0x88..=0x8e | 0x48 | 0x08 | 0x18) => Some(FirstFrames::Response),
        _ => Some(FirstFrames::Any),
    }
}

impl FrameReader {
    /// Reads from the beginning of a direction; the client's begins with the preface.
    pub(crate) fn new(has_preface: bool) -> Self {
        let preface = u8::try_from(PREFACE.len()).expect("24 bytes");
        Self {
            table: HeaderTable::new(),
            state: if has_preface { ReadState::Preface(preface) } else { ReadState::Head(0) },
            head: [0; 9],
            payload: Vec::new(),
            fragment: 0,
            block: None,
            is_cut: false,
        }
    }

    /// Reads from a packet in the middle.
    pub(crate) fn in_the_middle() -> Self {
        let mut reader = Self::new(false);
        reader.forget();
        reader
    }

    /// Loses its place: the next packet that consists of frames is read again.
    pub(crate) fn forget(&mut self) {
        self.table.forget();
        self.state = ReadState::Lost;
        self.payload = Vec::new();
        self.block = None;
    }

    /// Processes the next bytes: `length` on the wire, of which `bytes` were captured; none of a gap
    /// were.
    pub(crate) fn feed(&mut self, bytes: &[u8], length: u32, sink: &mut impl FrameSink) {
        if self.state == ReadState::Lost && first_of_frames(bytes, length).is_some() {
            self.state = ReadState::Head(0);
        }
        let mut input = FrameInput { bytes, length };
        while input.length > 0 {
            match self.state {
                ReadState::Lost => return,
                ReadState::Preface(left) => {
                    let count = u32::from(left).min(input.length);
                    input.take(count);
                    let left = left - u8::try_from(count).expect("less than left");
                    self.state =
                        if left == 0 { ReadState::Head(0) } else { ReadState::Preface(left) };
                }
                ReadState::Head(_) if input.bytes.is_empty() => {
                    self.forget();
                    return sink.lost(!bytes.is_empty());
                }
                ReadState::Head(filled) => self.head(filled, &mut input, sink),
                ReadState::Payload(left) => {
                    let count = left.min(input.length);
                    let bytes = input.take(count);
                    self.payload(bytes, count, sink);
                    self.state = ReadState::Payload(left - count);
                    self.end_if(left == count, sink);
                }
            }
        }
    }

    fn head(&mut self, filled: u8, input: &mut FrameInput<'_>, sink: &mut impl FrameSink) {
        let at = usize::from(filled);
        let count = input.bytes.len().min(self.head.len() - at);
        let taken = input.take(u32::try_from(count).expect("at most nine"));
        self.head[at..at + count].copy_from_slice(taken);
        if at + count < self.head.len() {
            self.state = ReadState::Head(filled + u8::try_from(count).expect("at most nine"));
            return;
        }
        let head = FrameHead::of(&self.head);
        if head.kind != CONTINUATION {
            self.payload.clear();
            (self.block, self.is_cut) = (None, false);
        }
        self.fragment = self.payload.len();
        if matches!(head.kind, DATA | HEADERS) {
            sink.frame(head.stream);
        }
        self.state = ReadState::Payload(head.length);
        self.end_if(head.length == 0, sink);
    }

    fn payload(&mut self, bytes: &[u8], count: u32, sink: &mut impl FrameSink) {
        let head = FrameHead::of(&self.head);
        if head.kind == DATA {
            return sink.data(head.stream, bytes, count);
        }
        let limit = match head.kind {
            HEADERS | PUSH_PROMISE | CONTINUATION => BLOCK_BYTES_MAX,
            _ => CONTROL_BYTES_MAX,
        };
        let kept = bytes.len().min(limit.saturating_sub(self.payload.len()));
        self.is_cut |= kept < count as usize;
        self.payload.extend_from_slice(&bytes[..kept]);
    }

    fn end_if(&mut self, is_over: bool, sink: &mut impl FrameSink) {
        if !is_over {
            return;
        }
        self.state = ReadState::Head(0);
        let head = FrameHead::of(&self.head);
        match head.kind {
            DATA => sink.data_end(head.stream, head.length, head.has(END_STREAM)),
            HEADERS | PUSH_PROMISE => self.begin_block(head, sink),
            CONTINUATION if head.has(END_HEADERS) => self.end_block(sink),
            RST_STREAM => {
                if let Some(code) = self.number(0) {
                    sink.reset(head.stream, code);
                }
            }
            SETTINGS if !head.has(ACK) => self.settings(sink),
            GOAWAY => {
                if let Some(last) = self.number(0) {
                    sink.go_away(StreamId(last & 0x7fff_ffff));
                }
            }
            WINDOW_UPDATE => {
                if let Some(bytes) = self.number(0) {
                    sink.window_update(head.stream, bytes & 0x7fff_ffff);
                }
            }
            _ => {}
        }
    }

    fn number(&self, at: usize) -> Option<u32> {
        Some(u32::from_be_bytes(*self.payload.get(at..)?.first_chunk()?))
    }

    fn settings(&self, sink: &mut impl FrameSink) {
        for setting in self.payload.chunks_exact(6) {
            if u16::from_be_bytes([setting[0], setting[1]]) == INITIAL_WINDOW_SIZE {
                sink.initial_window(u32::from_be_bytes([
                    setting[2], setting[3], setting[4], setting[5],
                ]));
            }
        }
    }

    /// Removes padding and priority from the first frame of a block.
    fn begin_block(&mut self, head: FrameHead, sink: &mut impl FrameSink) {
        let is_promise = head.kind == PUSH_PROMISE;
        let is_padded = head.has(PADDED);
        let padding = if is_padded { self.payload.first().copied().unwrap_or(0) } else { 0 };
        let before = usize::from(is_padded)
            + if is_promise { 4 } else { 0 }
            + if !is_promise && head.has(HAS_PRIORITY) { 5 } else { 0 };
        let end = (head.length as usize).saturating_sub(usize::from(padding));
        self.payload.truncate(end);
        self.payload.drain(..before.min(self.payload.len()));
        let is_last = head.has(END_STREAM) && !is_promise;
        self.block = Some(OpenBlock { stream: head.stream, is_last, is_promise });
        if head.has(END_HEADERS) {
            self.end_block(sink);
        }
    }

    fn end_block(&mut self, sink: &mut impl FrameSink) {
        let Some(OpenBlock { stream, is_last, is_promise }) = self.block.take() else { return };
        let mut block = HeaderBlock::default();
        let is_whole = self.table.decode(&self.payload, &mut |field| block.add(&field));
        block.bytes = (self.payload.len() + self.head.len()) as u64;
        block.is_cut = self.is_cut || !is_whole;
        if block.is_cut {
            self.table.forget();
        }
        if self.payload.capacity() > BUFFER_BYTES {
            self.payload = Vec::new();
        }
        if !is_promise {
            sink.headers(stream, &block, is_last);
        }
    }
}

impl HeaderBlock {
    fn add(&mut self, field: &HeaderField<'_>) {
        let value = field.value;
        match field.name {
            FieldName::Method => self.method = value.to_vec(),
            FieldName::Path => self.path = value.to_vec(),
            FieldName::Authority if self.authority.is_empty() => self.authority = value.to_vec(),
            FieldName::Status => self.status = number(value).unwrap_or(0),
            FieldName::ContentType => self.content_type = value.to_vec(),
            FieldName::GrpcStatus => self.grpc_status = number(value),
            FieldName::RequestId => self.request_id = value.to_vec(),
            FieldName::TraceParent if self.request_id.is_empty() => {
                self.request_id = value.get(3..35).unwrap_or_default().to_vec();
            }
            _ => {}
        }
    }
}

fn number(digits: &[u8]) -> Option<u16> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
