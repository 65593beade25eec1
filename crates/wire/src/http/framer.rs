//! Cuts one direction of a connection into messages.
//!
//! ```text
//! Idle ─first byte─► Head ─empty line─► Body(n) │ Size ⇄ Chunk(n) ─0─► Trailer │ UntilEnd ─► Idle
//! ```
//! A snap length hides bytes but not their number, so bodies are counted, not read. When a head is
//! cut, or a gap hides a length, the message lasts until the other side answers (`UntilEnd`), or
//! until a packet begins like a head (`Lost`).
//!
//! Example: `POST /a` with `Content-Length: 5000`, of which 96 bytes were captured. The head is
//! complete within the 96 bytes, so the state becomes `Body(5000)`; the uncaptured bytes count it
//! down to 0, and the message ends at its true last byte.

use weir_tls_records::TlsRecords;

use super::head::{
    self, RequestHead, ResponseHead, is_request_start, is_response_start, may_be_request,
};
use crate::partial_head::PartialHead;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framer {
    /// The next byte begins a message.
    #[default]
    Idle,
    /// In a head; `partial` holds its start.
    Head,
    Body(u64),
    /// In the size line of the next chunk; whether its digits are complete.
    Size(u64, bool),
    /// Remaining bytes of the chunk and its line end.
    Chunk(u64),
    /// After the last chunk; whether the line so far is empty.
    Trailer(bool),
    /// Until the other side sends, or the connection ends.
    UntilEnd,
    /// Until a packet begins like a head.
    Lost,
    Opaque,
    /// Remaining bytes of a PROXY header.
    Proxy(u32),
    /// A PROXY header that ends with its line.
    ProxyLine,
    /// TLS.
    Record(TlsRecords),
    /// Remaining bytes of a database message, and whether a request or response ends with it.
    Message(u32, bool),
    Value(RedisValue),
    Text {
        items: u32,
        /// Remaining bytes, with the line end.
        rest: u32,
        /// Whether the message was pushed, not requested.
        is_pushed: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RedisValue {
    /// Values until the message ends, this one included.
    pub(crate) items: u32,
    pub(crate) number: u32,
    /// First byte; 0 before it is read.
    pub(crate) kind: u8,
    /// Whether it is the first of its message.
    pub(crate) is_first: bool,
    /// Whether the message was pushed, not requested.
    pub(crate) is_pushed: bool,
}

/// How the body of a message ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFraming {
    None,
    Length(u64),
    Chunked,
    /// When the other side sends or the connection ends.
    UntilEnd,
    /// Never: the connection switches to another protocol.
    Opaque,
}

pub(crate) trait HttpSink {
    fn begin(&mut self);
    /// A request's head, complete or cut; returns how its body ends.
    fn request(&mut self, head: &RequestHead<'_>, is_cut: bool) -> BodyFraming;
    /// A response's head, complete or cut; returns how its body ends.
    fn response(&mut self, head: &ResponseHead, is_cut: bool) -> BodyFraming;
    fn count(&mut self, bytes: u64);
    fn end(&mut self);
    fn lost(&mut self);
}

/// Maximum length of a head; longer ones are not read.
const HEAD_BYTES_MAX: usize = 64 << 10;

struct FramerInput<'a> {
    bytes: &'a [u8],
    length: u64,
}

impl FramerInput<'_> {
    fn consume(&mut self, count: u64, sink: &mut impl HttpSink) {
        let count = count.min(self.length);
        self.length -= count;
        let seen = usize::try_from(count).unwrap_or(usize::MAX);
        self.bytes = self.bytes.get(seen..).unwrap_or_default();
        sink.count(count);
    }

    /// Whether bytes follow that were not captured.
    fn is_cut(&self) -> bool {
        (self.bytes.len() as u64) < self.length
    }
}

impl Framer {
    /// Processes the next in-order bytes, of which only the beginning may be captured.
    /// Returns how many are left when the connection switches to another protocol.
    pub(crate) fn feed(
        &mut self,
        partial: &mut Option<Box<PartialHead>>,
        is_request: bool,
        bytes: &[u8],
        length: u32,
        sink: &mut impl HttpSink,
    ) -> u32 {
        let mut input = FramerInput { bytes, length: u64::from(length) };
        self.begin_packet(is_request, bytes, sink);
        while input.length > 0 {
            match *self {
                Self::Idle => self.idle(is_request, &mut input, sink),
                Self::Head => self.head(partial, is_request, &mut input, sink),
                Self::Body(left) => {
                    let count = left.min(input.length);
                    input.consume(count, sink);
                    *self = Self::Body(left - count);
                    self.end_if(left == count, sink);
                }
                Self::Size(size, is_over) => self.size(size, is_over, &mut input, sink),
                Self::Chunk(left) => {
                    let count = left.min(input.length);
                    input.consume(count, sink);
                    *self = if left == count {
                        Self::Size(0, false)
                    } else {
                        Self::Chunk(left - count)
                    };
                }
                Self::Trailer(is_empty) => self.trailer(is_empty, &mut input, sink),
                Self::UntilEnd => input.consume(u64::MAX, sink),
                // Databases have separate parsers.
                Self::Message(..) | Self::Value(_) | Self::Text { .. } => break,
                Self::Lost | Self::Opaque | Self::Record(_) => break,
                // Skipped before the framer gets the bytes.
                Self::Proxy(_) | Self::ProxyLine => break,
            }
        }
        u32::try_from(input.length).unwrap_or(0)
    }

    /// Skips missing bytes.
    pub(crate) fn gap(
        &mut self,
        partial: &mut Option<Box<PartialHead>>,
        length: u32,
        sink: &mut impl HttpSink,
    ) {
        let length = u64::from(length);
        match self {
            Self::Body(left) if *left >= length => {
                *left -= length;
                sink.count(length);
                let is_over = *left == 0;
                self.end_if(is_over, sink);
            }
            Self::Chunk(left) if *left > length => {
                *left -= length;
                sink.count(length);
            }
            Self::Message(left, is_last) if u64::from(*left) >= length => {
                *left -= u32::try_from(length).unwrap_or(*left);
                let (is_over, is_last) = (*left == 0, *is_last);
                sink.count(length);
                if is_over {
                    *self = Self::Idle;
                }
                if is_over && is_last {
                    sink.end();
                }
            }
            Self::Text { rest, .. } if u64::from(*rest) > length => {
                *rest -= u32::try_from(length).unwrap_or(*rest);
                sink.count(length);
            }
            Self::UntilEnd => sink.count(length),
            Self::Proxy(rest) if u64::from(*rest) > length => {
                *rest -= u32::try_from(length).unwrap_or(*rest);
            }
            Self::Opaque => {}
            _ => {
                *partial = None;
                *self = Self::Lost;
                sink.lost();
            }
        }
    }

    /// Ends a message that lasts until the other side sends; true if there was one.
    pub(crate) fn turn(&mut self) -> bool {
        let is_over = *self == Self::UntilEnd;
        if is_over {
            *self = Self::Idle;
        }
        is_over
    }

    /// Ends a message without a delimiter when a packet begins like a head.
    fn begin_packet(&mut self, is_request: bool, bytes: &[u8], sink: &mut impl HttpSink) {
        let is_start =
            || if is_request { is_request_start(bytes) } else { is_response_start(bytes) };
        match self {
            Self::Lost if is_start() => *self = Self::Idle,
            Self::UntilEnd if is_start() => {
                sink.end();
                *self = Self::Idle;
            }
            _ => {}
        }
    }

    fn end_if(&mut self, is_over: bool, sink: &mut impl HttpSink) {
        if is_over {
            *self = Self::Idle;
            sink.end();
        }
    }

    fn idle(&mut self, is_request: bool, input: &mut FramerInput<'_>, sink: &mut impl HttpSink) {
        // Empty lines before a request line are allowed (RFC 9112 §2.2).
        if let [b'\r' | b'\n', ..] = input.bytes {
            input.bytes = &input.bytes[1..];
            input.length -= 1;
            return;
        }
        let is_start = if is_request {
            may_be_request(input.bytes)
        } else {
            is_response_start(input.bytes) || input.bytes.len() < 4
        };
        if is_start {
            *self = Self::Head;
            sink.begin();
        } else {
            *self = Self::Lost;
            sink.lost();
        }
    }

    fn head(
        &mut self,
        partial: &mut Option<Box<PartialHead>>,
        is_request: bool,
        input: &mut FramerInput<'_>,
        sink: &mut impl HttpSink,
    ) {
        if partial.is_some() {
            return self.head_in_pieces(partial, is_request, input, sink);
        }
        let mut head = read(is_request, input.bytes);
        match head.end() {
            Some(end) => {
                let body = head.tell(false, sink);
                input.consume(end as u64, sink);
                self.enter(body, sink);
            }
            None if input.is_cut() => {
                head.guess(input.length);
                let body = head.tell(true, sink);
                input.consume(u64::MAX, sink);
                self.enter(body, sink);
            }
            None if input.bytes.len() > HEAD_BYTES_MAX => self.lose(sink),
            None => {
                *partial = Some(Box::new(PartialHead(input.bytes.to_vec())));
                input.consume(u64::MAX, sink);
            }
        }
    }

    /// Continues a head from earlier packets; it is parsed only when complete.
    fn head_in_pieces(
        &mut self,
        partial: &mut Option<Box<PartialHead>>,
        is_request: bool,
        input: &mut FramerInput<'_>,
        sink: &mut impl HttpSink,
    ) {
        let Some(pieces) = partial else { return };
        let before = pieces.0.len();
        pieces.0.extend_from_slice(input.bytes);
        let bytes = &pieces.0;
        match head::end(bytes, before.saturating_sub(3)) {
            Some(end) => {
                let body = read(is_request, bytes).tell(false, sink);
                input.consume((end - before) as u64, sink);
                *partial = None;
                self.enter(body, sink);
            }
            None if input.is_cut() => {
                let body = read(is_request, bytes).tell(true, sink);
                input.consume(u64::MAX, sink);
                *partial = None;
                self.enter(body, sink);
            }
            None if bytes.len() > HEAD_BYTES_MAX => {
                *partial = None;
                self.lose(sink);
            }
            None => input.consume(u64::MAX, sink),
        }
    }

    fn lose(&mut self, sink: &mut impl HttpSink) {
        *self = Self::Lost;
        sink.lost();
    }

    fn enter(&mut self, body: BodyFraming, sink: &mut impl HttpSink) {
        *self = match body {
            BodyFraming::None | BodyFraming::Length(0) => {
                *self = Self::Idle;
                return sink.end();
            }
            BodyFraming::Length(length) => Self::Body(length),
            BodyFraming::Chunked => Self::Size(0, false),
            BodyFraming::UntilEnd => Self::UntilEnd,
            BodyFraming::Opaque => Self::Opaque,
        };
    }

    /// Parses `1a;extension CRLF` byte by byte, since a line may be split anywhere.
    fn size(
        &mut self,
        size: u64,
        is_over: bool,
        input: &mut FramerInput<'_>,
        sink: &mut impl HttpSink,
    ) {
        let Some(byte) = input.bytes.first().copied() else {
            // Cut by the snap length: the chunk's length stays unknown.
            *self = Self::UntilEnd;
            return;
        };
        input.consume(1, sink);
        let digit = char::from(byte).to_digit(16).filter(|_| !is_over);
        *self = match (byte, digit) {
            (b'\n', _) if size == 0 => Self::Trailer(true),
            (b'\n', _) => Self::Chunk(size.saturating_add(2)),
            (_, Some(digit)) => Self::Size(size.saturating_mul(16) + u64::from(digit), false),
            (_, None) => Self::Size(size, true),
        };
    }

    fn trailer(&mut self, is_empty: bool, input: &mut FramerInput<'_>, sink: &mut impl HttpSink) {
        let Some(byte) = input.bytes.first().copied() else {
            input.consume(u64::MAX, sink);
            return self.end_if(true, sink);
        };
        input.consume(1, sink);
        match byte {
            b'\n' if is_empty => self.end_if(true, sink),
            b'\n' => *self = Self::Trailer(true),
            b'\r' => {}
            _ => *self = Self::Trailer(false),
        }
    }
}

/// A parsed head and where it ends.
enum ParsedHead<'a> {
    Request(RequestHead<'a>, Option<usize>),
    Response(ResponseHead, Option<usize>),
}

fn read(is_request: bool, bytes: &[u8]) -> ParsedHead<'_> {
    if is_request {
        let (head, end) = head::request(bytes);
        ParsedHead::Request(head, end)
    } else {
        let (head, end) = head::response(bytes);
        ParsedHead::Response(head, end)
    }
}

/// Length of `HTTP/1.1 100 Continue`: no final response in use has it.
const CONTINUE_BYTES: u64 = 25;

impl ParsedHead<'_> {
    /// Guesses from its length whether a response without a readable status is interim.
    fn guess(&mut self, length: u64) {
        if let Self::Response(head, _) = self
            && head.class == 0
            && length == CONTINUE_BYTES
        {
            head.class = 1;
        }
    }

    fn end(&self) -> Option<usize> {
        let (Self::Request(_, end) | Self::Response(_, end)) = self;
        *end
    }

    fn tell(&self, is_cut: bool, sink: &mut impl HttpSink) -> BodyFraming {
        match self {
            Self::Request(head, _) => sink.request(head, is_cut),
            Self::Response(head, _) => sink.response(head, is_cut),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::{BodyFraming, Framer, HttpSink, RequestHead, ResponseHead};

    #[derive(Default)]
    struct EventLog {
        text: String,
        counted: u64,
    }

    impl HttpSink for EventLog {
        fn begin(&mut self) {
            self.text += "[";
        }
        fn request(&mut self, head: &RequestHead<'_>, is_cut: bool) -> BodyFraming {
            self.text += &String::from_utf8_lossy(head.target);
            match head.content_length {
                _ if head.is_chunked => BodyFraming::Chunked,
                Some(length) => BodyFraming::Length(length),
                None if is_cut && head.method == b"POST" => BodyFraming::UntilEnd,
                None => BodyFraming::None,
            }
        }
        fn response(&mut self, head: &ResponseHead, _: bool) -> BodyFraming {
            self.text += &head.status.to_string();
            match head.content_length {
                _ if head.is_chunked => BodyFraming::Chunked,
                Some(length) => BodyFraming::Length(length),
                None => BodyFraming::UntilEnd,
            }
        }
        fn count(&mut self, bytes: u64) {
            self.counted += bytes;
        }
        fn end(&mut self) {
            self.text += &format!(" {}] ", std::mem::take(&mut self.counted));
        }
        fn lost(&mut self) {
            self.text += "?";
        }
    }

    /// Feeds the text in one piece and byte by byte: the messages must be equal.
    fn check(is_request: bool, text: &str, expected: &Expect) {
        let run = |step: usize| {
            let (mut framer, mut partial, mut log) = (Framer::default(), None, EventLog::default());
            for piece in text.as_bytes().chunks(step) {
                let length = u32::try_from(piece.len()).expect("short");
                framer.feed(&mut partial, is_request, piece, length, &mut log);
            }
            log.text
        };
        expected.assert_eq(&run(text.len()));
        if !text.contains("trash") {
            for step in [1, 2, 3, 7] {
                assert_eq!(run(step), run(text.len()), "in pieces of {step}");
            }
        }
    }

    #[test]
    fn requests_are_cut_out_of_the_stream() {
        check(
            true,
            "GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\n\r\n",
            &expect!["[/a 28] [/b 19] "],
        );
        check(
            true,
            "POST /p HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello\r\nGET /q HTTP/1.1\n\n",
            &expect!["[/p 44] [/q 17] "],
        );
        check(
            true,
            "PUT /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;x=1\r\nhello\r\n1A\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nT: 1\r\n\r\nGET /d HTTP/1.1\r\n\r\n",
            &expect!["[/c 104] [/d 19] "],
        );
        check(true, "trash", &expect!["?"]);
    }

    #[test]
    fn responses_last_as_long_as_they_say() {
        check(
            false,
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
            &expect!["[200 40] [404 38] "],
        );
        check(false, "HTTP/1.0 200 OK\r\n\r\nuntil the end", &expect!["[200"]);
    }

    #[test]
    fn a_snap_length_hides_bytes_but_not_messages() {
        let (mut framer, mut partial, mut log) = (Framer::default(), None, EventLog::default());
        let mut feed =
            |bytes: &[u8], length| framer.feed(&mut partial, true, bytes, length, &mut log);
        feed(b"GET /long", 400);
        feed(b"POST /p HT", 300);
        feed(b"body bo", 700);
        feed(b"GET", 200);
        feed(b"POST /q HTTP/1.1\r\nContent-Length: 1000\r\n\r\nabc", 542);
        feed(b"more", 500);
        assert_eq!(log.text, "[/long 400] [/p 1000] [ 200] [/q 1042] ");
    }

    #[test]
    fn a_gap_in_a_body_is_counted_and_one_elsewhere_loses_the_way() {
        let (mut framer, mut partial, mut log) = (Framer::default(), None, EventLog::default());
        framer.feed(
            &mut partial,
            true,
            b"POST /p HTTP/1.1\r\nContent-Length: 10\r\n\r\nab",
            42,
            &mut log,
        );
        framer.gap(&mut partial, 8, &mut log);
        framer.gap(&mut partial, 100, &mut log);
        framer.feed(&mut partial, true, b"rest of something", 17, &mut log);
        framer.feed(&mut partial, true, b"GET /b HTTP/1.1\r\n\r\n", 19, &mut log);
        assert_eq!(log.text, "[/p 50] ?[/b 19] ");
    }

    #[test]
    fn random_bytes_and_gaps_never_panic() {
        arbtest::arbtest(|u| {
            let (mut framer, mut partial, mut log) = (Framer::default(), None, EventLog::default());
            for _ in 0..8 {
                let is_request = u.arbitrary()?;
                let parts: [&[u8]; 6] = [
                    b"GET / HTTP/1.1\r\n",
                    b"content-length: 3\r\n",
                    b"\r\n",
                    b"HTTP/1.1 200 OK\r\n",
                    b"transfer-encoding: chunked\r\n",
                    b"0",
                ];
                let bytes =
                    if u.arbitrary()? { u.choose(&parts)?.to_vec() } else { u.arbitrary()? };
                let more: u32 = u.int_in_range(0..=9)?;
                let length = u32::try_from(bytes.len()).expect("short") + more;
                framer.feed(&mut partial, is_request, &bytes, length, &mut log);
                if u.ratio(1, 8)? {
                    framer.gap(&mut partial, u.arbitrary()?, &mut log);
                }
                let _ = u.arbitrary::<bool>()? && framer.turn();
            }
            Ok(())
        });
    }
}
