//! Fluent's forward protocol (Fluentd, Fluent Bit): every mode, acknowledgements, shared key.
//!
//! From the Forward Protocol Specification v1. An event is `[tag, time, record]` or many of them
//! packed. A message with the option `chunk` is acknowledged once it is durable, and a repeated
//! chunk is known. As in Fluentd's `in_forward`, a message may be JSON: its first byte, `[`, is an
//! integer in MessagePack, which begins no message.
//!
//! ```text
//!  with a shared key:  server HELO(nonce) ─► client PING(digest) ─► server PONG(digest), then events
//! ```

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use weir_tables::Micros;

use crate::batch_builder::{BatchBuilder, ItemVerdict, MAX_ITEMS, RejectCause, RowOrigin};
use crate::document;
use crate::json_scan::JsonScan;
use crate::msgpack::{MsgpackError, MsgpackReader, Token, ValueScan, push_text};
use crate::stream::{NO_MEMORY, StreamError, StreamOrigin, StreamProtocol};
use crate::unpack::{UnpackError, unpack};
use crate::window::Identity;

/// Largest message; Fluent Bit's chunks are 2 MiB, Fluentd's 8 MiB.
const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// One connection.
#[derive(Clone, Default)]
pub(crate) struct FluentStream {
    shared_key: Option<Arc<str>>,
    hub_host: String,
    /// Random bytes of this connection; empty without a key.
    nonce: Vec<u8>,
    is_authenticated: bool,
    /// The end of the message that is arriving.
    scan: ValueScan,
    json_scan: JsonScan,
    /// Replies to write once the events before them are durable.
    replies: Vec<u8>,
}

const BAD: StreamError =
    StreamError { reason: "bad_message", detail: "not a message of Fluent's forward protocol" };

const WRONG_KEY: StreamError =
    StreamError { reason: "no_login", detail: "the shared key does not match" };

impl StreamProtocol for FluentStream {
    fn greet(&mut self) -> Vec<u8> {
        let mut hello = Vec::new();
        if self.shared_key.is_some() {
            self.nonce = random();
            hello.extend_from_slice(b"\x92\xa4HELO\x83\xa5nonce\xc4\x10");
            hello.extend_from_slice(&self.nonce);
            hello.extend_from_slice(b"\xa4auth\xa0\xa9keepalive\xc3");
        }
        hello
    }

    fn cut(
        &mut self,
        bytes: &[u8],
        origin: StreamOrigin<'_>,
        builder: &mut BatchBuilder,
    ) -> Result<usize, StreamError> {
        let mut used = 0;
        while used < bytes.len() && !builder.is_batch_full() {
            let rest = &bytes[used..];
            if matches!(rest[0], b' ' | b'\n' | b'\r' | b'\t') {
                // White space behind a message of JSON; in MessagePack these are integers, which
                // begin no message.
                used += 1;
                continue;
            }
            let is_json = rest[0] == b'[';
            let Some(length) = self.message_length(rest, is_json)? else { break };
            let message = &rest[..length];
            if self.shared_key.is_some() && !self.is_authenticated {
                self.ping(message)?;
            } else {
                let read = if is_json {
                    json_events(message, origin.peer, builder)
                } else {
                    self.events(message, origin.peer, builder)
                };
                match read {
                    // The messages before are stored first.
                    Err(NO_MEMORY) if used > 0 => break,
                    read => read?,
                }
            }
            used += message.len();
        }
        Ok(used)
    }

    /// Withholds acknowledgements while a first attempt is still being stored, so the sender
    /// retries.
    fn replies(&mut self, verdicts: &[ItemVerdict]) -> Vec<u8> {
        let replies = std::mem::take(&mut self.replies);
        if verdicts.contains(&ItemVerdict::Pending) { Vec::new() } else { replies }
    }
}

impl FluentStream {
    /// A connection that requires `shared_key`, if there is one.
    pub(crate) fn new(shared_key: Option<Arc<str>>, hub_host: &str) -> Self {
        Self { shared_key, hub_host: hub_host.to_owned(), ..Self::default() }
    }

    /// Length of the message at the front of `rest`; `None` while its end is missing.
    fn message_length(&mut self, rest: &[u8], is_json: bool) -> Result<Option<usize>, StreamError> {
        let length = if is_json {
            self.json_scan.scan(rest)
        } else {
            match self.scan.scan(rest) {
                Ok(length) => Some(length),
                Err(MsgpackError::Short) => None,
                Err(MsgpackError::Bad) => return Err(BAD),
            }
        };
        if length.is_none() && rest.len() > MAX_MESSAGE_BYTES {
            return Err(StreamError { reason: "too_long", detail: "a message is too long" });
        }
        Ok(length)
    }

    fn ping(&mut self, message: &[u8]) -> Result<(), StreamError> {
        // PING is an array of six parts.
        let mut reader = MsgpackReader(message.strip_prefix(&[0x96]).ok_or(WRONG_KEY)?);
        let mut parts = [&[][..]; 4];
        for part in &mut parts {
            let Ok(Token::Text(bytes) | Token::Bytes(bytes)) = reader.token() else {
                return Err(WRONG_KEY);
            };
            *part = bytes;
        }
        let [word, host, salt, digest] = parts;
        let key = self.shared_key.as_deref().unwrap_or_default().as_bytes();
        let expected = hex_sha512(&[salt, host, &self.nonce, key]);
        if word != b"PING" || !crate::access::is_secret(digest, &expected) {
            return Err(WRONG_KEY);
        }
        let own = self.hub_host.as_bytes();
        self.replies.extend_from_slice(b"\x95\xa4PONG\xc3\xa0");
        push_text(&mut self.replies, own);
        push_text(&mut self.replies, hex_sha512(&[salt, own, &self.nonce, key]).as_bytes());
        self.is_authenticated = true;
        Ok(())
    }

    fn events(
        &mut self,
        message: &[u8],
        peer: &str,
        builder: &mut BatchBuilder,
    ) -> Result<(), StreamError> {
        let mut reader = MsgpackReader(message);
        let Ok(Token::Array(parts @ 2..=4)) = reader.token() else { return Err(BAD) };
        let Ok(Token::Text(tag) | Token::Bytes(tag)) = reader.token() else { return Err(BAD) };
        let tag = String::from_utf8_lossy(tag);
        let entries = reader.value().map_err(|_| BAD)?;
        let kind = MsgpackReader(entries).token().map_err(|_| BAD)?;
        let is_single = match kind {
            Token::Array(_) => is_time_with_metadata(entries),
            Token::Text(_) | Token::Bytes(_) => false,
            _ => true,
        };
        let record = if is_single { Some(reader.value().map_err(|_| BAD)?) } else { None };
        let has_option = parts == if is_single { 4 } else { 3 };
        let option = if has_option {
            read_option(&mut reader).map_err(|_| BAD)?
        } else {
            ForwardOptions::default()
        };
        let mut events = ForwardEvents { tag: &tag, peer, chunk: option.chunk, number: 0, builder };
        match kind {
            Token::Array(count) if !is_single => {
                let mut reader = MsgpackReader(entries);
                let _ = reader.token();
                for _ in 0..count {
                    events.entry(&mut reader)?;
                }
            }
            Token::Text(packed) | Token::Bytes(packed) if !is_single => {
                let packed = option.unpacked(packed, events.builder)?;
                let mut reader = MsgpackReader(&packed);
                while !reader.0.is_empty() {
                    events.entry(&mut reader)?;
                }
            }
            _ => events.event([entries, record.unwrap_or_default()])?,
        }
        if let Some(chunk) = option.chunk {
            self.replies.extend_from_slice(b"\x81\xa3ack");
            push_text(&mut self.replies, chunk);
        }
        Ok(())
    }
}

/// Whether an array is a time with metadata, `[time, {…}]`, and not a list of events.
fn is_time_with_metadata(array: &[u8]) -> bool {
    let mut reader = MsgpackReader(array);
    matches!(reader.token(), Ok(Token::Array(1..)))
        && matches!(
            reader.token(),
            Ok(Token::Extension(0, _) | Token::Integer(_) | Token::Unsigned(_) | Token::Float(_))
        )
}

/// Events of a message of JSON: `[tag, time, record]` or `[tag, [[time, record], …]]`.
fn json_events(message: &[u8], peer: &str, builder: &mut BatchBuilder) -> Result<(), StreamError> {
    use serde_json::Value;
    let parts: Vec<Value> = serde_json::from_slice(message).map_err(|_| BAD)?;
    let chunk = parts.last().and_then(|option| option.get("chunk")?.as_str());
    if let [Value::String(tag), Value::Array(entries), ..] = &parts[..] {
        let chunk = chunk.filter(|_| parts.len() == 3).map(str::as_bytes);
        let mut events = ForwardEvents { tag, peer, chunk, number: 0, builder };
        for entry in entries {
            let Some([time, record]) = entry.as_array().and_then(|entry| entry.first_chunk::<2>())
            else {
                return Err(BAD);
            };
            events.document(json_time(time), record.to_string())?;
        }
        return Ok(());
    }
    let [Value::String(tag), time, record, ..] = &parts[..] else { return Err(BAD) };
    let chunk = chunk.filter(|_| parts.len() == 4).map(str::as_bytes);
    let mut events = ForwardEvents { tag, peer, chunk, number: 0, builder };
    events.document(json_time(time), record.to_string())
}

/// Seconds as a number or text.
fn json_time(time: &serde_json::Value) -> Option<Micros> {
    let seconds = time.as_f64().or_else(|| time.as_str()?.parse().ok())?;
    seconds.is_finite().then(|| Micros::from_unix_seconds(seconds))
}

#[derive(Default)]
struct ForwardOptions<'a> {
    chunk: Option<&'a [u8]>,
    /// `gzip` or `zstd`; empty, or `text`, without compression.
    coding: &'a [u8],
}

impl ForwardOptions<'_> {
    /// Packed events, decompressed into memory that the builder takes.
    fn unpacked<'b>(
        &self,
        packed: &'b [u8],
        builder: &BatchBuilder,
    ) -> Result<Cow<'b, [u8]>, StreamError> {
        if matches!(self.coding, b"" | b"text") {
            return Ok(Cow::Borrowed(packed));
        }
        let coding = String::from_utf8_lossy(self.coding);
        let mut take = |bytes| builder.take_memory(bytes);
        match unpack(&coding, Bytes::copy_from_slice(packed), MAX_MESSAGE_BYTES, &mut take) {
            Ok(events) => Ok(Cow::Owned(events.into())),
            Err(UnpackError::NoMemory) => Err(NO_MEMORY),
            Err(UnpackError::TooLarge) => {
                let detail = "a decompressed chunk is too large";
                Err(StreamError { reason: "too_large", detail })
            }
            Err(UnpackError::Broken(_) | UnpackError::Unknown(_)) => {
                let detail = "a chunk cannot be decompressed";
                Err(StreamError { reason: "broken_packing", detail })
            }
        }
    }
}

fn read_option<'a>(reader: &mut MsgpackReader<'a>) -> Result<ForwardOptions<'a>, MsgpackError> {
    let mut options = ForwardOptions::default();
    let Token::Map(count) = reader.token()? else { return Ok(options) };
    for _ in 0..count {
        let key = reader.token()?;
        let value = reader.value()?;
        if let (Token::Text(key), Ok(Token::Text(value) | Token::Bytes(value))) =
            (key, MsgpackReader(value).token())
        {
            match key {
                b"chunk" => options.chunk = Some(value),
                b"compressed" => options.coding = value,
                _ => {}
            }
        }
    }
    Ok(options)
}

struct ForwardEvents<'a, 'b> {
    tag: &'a str,
    peer: &'a str,
    chunk: Option<&'a [u8]>,
    number: usize,
    builder: &'b mut BatchBuilder,
}

impl ForwardEvents<'_, '_> {
    /// `[time, record]`.
    fn entry(&mut self, reader: &mut MsgpackReader<'_>) -> Result<(), StreamError> {
        let Ok(Token::Array(2..)) = reader.token() else { return Err(BAD) };
        let time = reader.value().map_err(|_| BAD)?;
        let record = reader.value().map_err(|_| BAD)?;
        self.event([time, record])
    }

    fn event(&mut self, [time, record]: [&[u8]; 2]) -> Result<(), StreamError> {
        let mut document = String::with_capacity(record.len() + 64);
        MsgpackReader(record).push_json(&mut document, 0).map_err(|_| BAD)?;
        self.document(event_time(time).map_err(|_| BAD)?, document)
    }

    /// An event whose record is a JSON `document`.
    fn document(&mut self, ts: Option<Micros>, mut document: String) -> Result<(), StreamError> {
        if self.number >= MAX_ITEMS {
            let detail = "more events in one message than weir takes";
            return Err(StreamError { reason: "too_many_rows", detail });
        }
        // The record's own time takes precedence.
        if let Some(ts) = ts
            && document.len() > 2
            && document.ends_with('}')
        {
            document.pop();
            document += &format!(",\"@timestamp\":\"{ts}\"}}");
        }
        let source = format!("fluent:{}", &self.tag[..self.tag.floor_char_boundary(200)]);
        let host = document::host(document.as_bytes());
        let place = RowOrigin { host: host.as_deref().unwrap_or(self.peer), source: &source };
        let id =
            self.chunk.map(|chunk| Identity::of(&[b"fluent", chunk, &self.number.to_le_bytes()]));
        self.number += 1;
        if document.starts_with("{\"") {
            self.builder.line(place, document.as_bytes(), id);
        } else {
            let fault = RejectCause {
                parser: "fluent",
                reason: "no_record",
                detail: "the record is not a map with keys",
            };
            self.builder.reject(place, &fault, document.as_bytes());
        }
        Ok(())
    }
}

/// Seconds, or extension 0: seconds and nanoseconds.
fn event_time(bytes: &[u8]) -> Result<Option<Micros>, MsgpackError> {
    Ok(match MsgpackReader(bytes).token()? {
        Token::Integer(number) => Some(from_seconds(number)),
        Token::Unsigned(number) => Some(from_seconds(i64::try_from(number).unwrap_or(i64::MAX))),
        Token::Float(number) => Some(Micros::from_unix_seconds(number)),
        Token::Extension(0, bytes) => {
            let (seconds, nanos) = bytes.split_first_chunk::<4>().ok_or(MsgpackError::Bad)?;
            let nanos = nanos.first_chunk::<4>().map_or(0, |nanos| u32::from_be_bytes(*nanos));
            Some(Micros(
                i64::from(u32::from_be_bytes(*seconds)) * 1_000_000 + i64::from(nanos / 1000),
            ))
        }
        // Fluentd 1.18 wraps the time with metadata: `[time, {}]`.
        Token::Array(1..) => {
            let mut reader = MsgpackReader(bytes);
            reader.token()?;
            let inner = reader.value()?;
            if matches!(MsgpackReader(inner).token()?, Token::Array(_)) {
                None
            } else {
                event_time(inner)?
            }
        }
        _ => None,
    })
}

fn from_seconds(seconds: i64) -> Micros {
    Micros(seconds.saturating_mul(1_000_000))
}

fn random() -> Vec<u8> {
    use ring::rand::SecureRandom;
    let mut bytes = vec![0; 16];
    ring::rand::SystemRandom::new().fill(&mut bytes).expect("the system has random bytes");
    bytes
}

fn hex_sha512(parts: &[&[u8]]) -> String {
    let mut context = ring::digest::Context::new(&ring::digest::SHA512);
    parts.iter().for_each(|part| context.update(part));
    weir_tables::hex(context.finish().as_ref())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::check::{builder, dump, mangled};

    /// `["app", 1795176000, {"message": "one"}, {"chunk": "c1"}]`.
    const SINGLE: &[u8] =
        b"\x94\xa3app\xce\x6b\x00\x36\x40\x81\xa7message\xa3one\x81\xa5chunk\xa2c1";

    const ORIGIN: StreamOrigin<'_> = StreamOrigin { peer: "192.0.2.1", source: "fluent" };

    /// `{"ack": …` before a chunk id of two bytes.
    const ACK: &[u8] = b"\x81\xa3ack\xda\x00\x02";

    fn entry(message: &str) -> Vec<u8> {
        let mut out = b"\x92\xd7\x00\x6b\x00\x36\x40\x00\x00\x03\xe8\x81\xa7message".to_vec();
        push_text(&mut out, message.as_bytes());
        out
    }

    fn packed([entries, option]: [&[u8]; 2]) -> Vec<u8> {
        let length = u32::try_from(entries.len()).expect("short").to_be_bytes();
        [b"\x93\xa3app\xc6", &length[..], entries, option].concat()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        use std::io::Write;
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        writer.write_all(bytes).expect("memory");
        writer.finish().expect("memory")
    }

    fn check(bytes: &[u8], acknowledged: Option<&str>, expected: &Expect) {
        let (mut stream, mut builder) = (FluentStream::default(), builder());
        assert!(stream.greet().is_empty());
        assert_eq!(stream.cut(bytes, ORIGIN, &mut builder), Ok(bytes.len()));
        let reply = acknowledged.map(|chunk| [ACK, chunk.as_bytes()].concat());
        assert_eq!(stream.replies(&builder.verdicts), reply.unwrap_or_default());
        expected.assert_eq(&dump(&mut builder));
    }

    #[test]
    fn every_mode_is_read_and_a_chunk_is_acknowledged() {
        check(
            SINGLE,
            Some("c1"),
            &expect![[r#"
            192.0.2.1 fluent:app
              {"message":"one","@timestamp":"2026-11-20T12:00:00.000000Z"}
        "#]],
        );
        let two = [entry("a"), entry("b")].concat();
        let lines = expect![[r#"
            192.0.2.1 fluent:app
              {"message":"a","@timestamp":"2026-11-20T12:00:00.000001Z"}
              {"message":"b","@timestamp":"2026-11-20T12:00:00.000001Z"}
        "#]];
        check(&[b"\x92\xa3app\x92", &two[..]].concat(), None, &lines);
        check(&packed([&two, b"\x81\xa4size\x02"]), None, &lines);
        check(&packed([&gzip(&two), b"\x81\xaacompressed\xa4gzip"]), None, &lines);
        let zstd = zstd::encode_all(&two[..], 3).expect("memory");
        check(&packed([&zstd, b"\x81\xaacompressed\xa4zstd"]), None, &lines);
        check(&packed([&two, b"\x81\xaacompressed\xa4text"]), None, &lines);
    }

    /// fluent/fluentd#5369, fluent/fluent-bit#11814 and #6666: the time is wrapped with metadata.
    #[test]
    fn a_single_event_may_have_metadata_beside_its_time() {
        let message =
            b"\x93\xa3app\x92\xd7\x00\x6b\x00\x36\x40\x00\x00\x03\xe8\x80\x81\xa7message\xa3one";
        check(
            message,
            None,
            &expect![[r#"
            192.0.2.1 fluent:app
              {"message":"one","@timestamp":"2026-11-20T12:00:00.000001Z"}
        "#]],
        );
    }

    /// From the manual of Fluentd's `in_forward`: `echo '["tag", 1, {…}]' | nc`.
    #[test]
    fn messages_of_json_are_read_in_pieces() {
        let bytes = b"[\"app\", 1795176000, {\"message\":\"a ]\"}]\n[\"app\", [[1795176000.5, {\"message\":\"b\"}], [1795176001, {\"message\":\"c\"}]]]";
        let lines = expect![[r#"
            192.0.2.1 fluent:app
              {"message":"a ]","@timestamp":"2026-11-20T12:00:00.000000Z"}
              {"message":"b","@timestamp":"2026-11-20T12:00:00.500000Z"}
              {"message":"c","@timestamp":"2026-11-20T12:00:01.000000Z"}
        "#]];
        check(bytes, None, &lines);
        let (mut stream, mut builder) = (FluentStream::default(), builder());
        let mut used = 0;
        for end in 0..=bytes.len() {
            used += stream.cut(&bytes[used..end], ORIGIN, &mut builder).expect("well formed");
        }
        lines.assert_eq(&dump(&mut builder));
        for bytes in [&b"[1, 2, 3]"[..], b"[\"app\"]", b"[\"app\", [1]]", b"[}"] {
            FluentStream::default().cut(bytes, ORIGIN, &mut builder).expect_err("no message");
        }
        let mut locked = FluentStream::new(Some("secret".into()), "hub");
        locked.cut(bytes, ORIGIN, &mut builder).expect_err("the key is missing");
    }

    #[test]
    fn a_repeated_chunk_is_known() {
        let (mut stream, mut builder) = (FluentStream::default(), builder());
        let bytes = [SINGLE, SINGLE].concat();
        assert_eq!(stream.cut(&bytes, ORIGIN, &mut builder), Ok(bytes.len()));
        assert_eq!(builder.verdicts, [ItemVerdict::Kept, ItemVerdict::Known]);
        assert_eq!(stream.replies(&builder.verdicts), b"\x81\xa3ack\xda\x00\x02c1".repeat(2));
    }

    #[test]
    fn a_partial_message_waits_and_garbage_closes_the_connection() {
        for length in 0..SINGLE.len() {
            let cut = FluentStream::default().cut(&SINGLE[..length], ORIGIN, &mut builder());
            assert_eq!(cut, Ok(0), "{length}");
        }
        for bytes in [
            &b"\x01"[..],
            b"GET / HTTP",
            b"\x93\x01\x02\x03",
            b"\x93\xa3app\x01\xc1",
            &packed([b"\x01\x02\x03", b"\x80"]),
            &packed([b"abc", b"\x81\xaacompressed\xa4gzip"]),
        ] {
            FluentStream::default().cut(bytes, ORIGIN, &mut builder()).expect_err("broken");
        }
    }

    fn ping(nonce: &[u8], key: &str) -> Vec<u8> {
        let digest = hex_sha512(&[b"salt", b"client", nonce, key.as_bytes()]);
        let mut out = b"\x96\xa4PING\xa6client\xa4salt".to_vec();
        push_text(&mut out, digest.as_bytes());
        out.extend_from_slice(b"\xa0\xa0");
        out
    }

    #[test]
    fn both_sides_prove_the_shared_key_before_events_are_read() {
        let mut stream = FluentStream::new(Some("secret".into()), "hub");
        let hello = stream.greet();
        assert!(hello.starts_with(b"\x92\xa4HELO"));
        let nonce = stream.nonce.clone();
        assert!(hello.windows(16).any(|window| window == nonce));
        let mut builder = builder();
        stream.clone().cut(SINGLE, ORIGIN, &mut builder).expect_err("events before the key");
        let wrong = stream.clone().cut(&ping(&nonce, "wrong"), ORIGIN, &mut builder);
        assert_eq!(wrong.expect_err("wrong key").reason, "no_login");
        let right = ping(&nonce, "secret");
        assert_eq!(stream.cut(&right, ORIGIN, &mut builder), Ok(right.len()));
        let pong = stream.replies(&[]);
        assert!(pong.starts_with(b"\x95\xa4PONG\xc3\xa0"));
        let proof = hex_sha512(&[b"salt", b"hub", &nonce, b"secret"]);
        assert!(pong.ends_with(proof.as_bytes()));
        assert_eq!(stream.cut(SINGLE, ORIGIN, &mut builder), Ok(SINGLE.len()));
        assert_eq!(builder.verdicts, [ItemVerdict::Kept]);
    }

    #[test]
    fn any_bytes_are_cut_without_panic() {
        let seed = [SINGLE, &packed([&entry("a"), b"\x80"])].concat();
        arbtest::arbtest(|u| {
            let bytes = mangled(u, &seed)?;
            if let Ok(used) = FluentStream::default().cut(&bytes, ORIGIN, &mut builder()) {
                assert!(used <= bytes.len());
            }
            Ok(())
        });
    }
}
