//! GELF, Graylog's format: JSON over UDP (compressed, chunked) and over TCP (terminated by NUL).
//!
//! From the GELF specification 1.1. Fields get the names that the parser knows: `short_message`
//! becomes `message`, `level` its word, and extra fields lose their underscore.
//!
//! ```text
//!  chunk: 1e 0f | id (8 bytes) | number | count | part of the message
//! ```

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use memchr::{memchr, memchr_iter};
use serde_json::{Map, Value};
use weir_tables::Micros;

use crate::batch_builder::{BatchBuilder, RejectCause, RowOrigin};
use crate::stream::{EndedFrames, StreamError, StreamOrigin, StreamProtocol};
use crate::unpack::{UnpackError, unpack};

/// Largest decompressed message.
const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Up to this length, a message before a newline is parsed to learn whether it is complete.
const SHORT_BYTES: usize = 8 << 10;
/// Most chunks of one message, by the specification.
const MAX_CHUNKS: usize = 128;
/// Time within which all chunks of a message must arrive, by the specification.
const CHUNKS_WITHIN: Duration = Duration::from_secs(5);
/// Most bytes of incomplete messages, of all senders together.
const MAX_WAITING_BYTES: usize = 16 << 20;
/// Memory of an incomplete message, and of a chunk that is missing.
const MESSAGE_BYTES: usize = 128;
const SLOT_BYTES: usize = size_of::<Option<Vec<u8>>>();
/// Most incomplete messages of one address.
const MAX_WAITING_OF_PEER: usize = 1000;

/// One connection over TCP.
#[derive(Clone, Debug, Default)]
pub(crate) struct GelfStream(EndedFrames);

impl StreamProtocol for GelfStream {
    fn cut(
        &mut self,
        bytes: &[u8],
        origin: StreamOrigin<'_>,
        builder: &mut BatchBuilder,
    ) -> Result<usize, StreamError> {
        Ok(self.0.cut(bytes, MAX_MESSAGE_BYTES, builder, message_end, |message, builder| {
            read(message, origin, builder);
        }))
    }

    fn finish(&mut self, bytes: &[u8], origin: StreamOrigin<'_>, builder: &mut BatchBuilder) {
        self.0.finish(bytes, builder, |message, builder| read(message, origin, builder));
    }
}

/// The end of the first message over TCP: NUL, or a newline between two messages, as rsyslog's
/// omfwd sends it. No JSON object has `}`, a newline and `{` in this order.
fn message_end(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    let nul = memchr(0, rest);
    let rest = &rest[..nul.unwrap_or(rest.len())];
    let newline = memchr_iter(b'\n', rest).map(|at| from + at).find(|at| {
        let message = &bytes[..*at];
        let message = message.strip_suffix(b"\r").unwrap_or(message);
        message.ends_with(b"}")
            && match bytes[*at + 1..].trim_ascii_start() {
                [] => message.len() < SHORT_BYTES && is_object(message),
                behind => behind[0] == b'{',
            }
    });
    newline.or(nul.map(|at| from + at))
}

fn is_object(bytes: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok()
}

/// Incomplete messages.
#[derive(Debug, Default)]
pub(crate) struct GelfChunks {
    waiting: HashMap<(IpAddr, [u8; 8]), PartialMessage>,
    by_peer: HashMap<IpAddr, usize>,
    /// Parts, slots and messages.
    bytes: usize,
    /// Chunks for which there was no space.
    refused: usize,
}

#[derive(Debug)]
struct PartialMessage {
    since: Micros,
    parts: Vec<Option<Vec<u8>>>,
    bytes: usize,
}

impl GelfChunks {
    /// Adds a datagram; returns a message when it is complete.
    pub(crate) fn add(&mut self, datagram: &[u8], peer: IpAddr, now: Micros) -> Option<Vec<u8>> {
        let Some(chunk) = datagram.strip_prefix(b"\x1e\x0f") else {
            return Some(datagram.to_vec());
        };
        let (id, chunk) = chunk.split_first_chunk::<8>()?;
        let ([number, count], part) = chunk.split_first_chunk::<2>()?;
        let (number, count) = (usize::from(*number), usize::from(*count));
        if count == 0 || count > MAX_CHUNKS || number >= count {
            return None;
        }
        let key = (peer, *id);
        let is_new = !self.waiting.contains_key(&key);
        let cost = part.len() + if is_new { MESSAGE_BYTES + count * SLOT_BYTES } else { 0 };
        let of_peer = self.by_peer.get(&peer).copied().unwrap_or(0);
        if self.bytes + cost > MAX_WAITING_BYTES || is_new && of_peer >= MAX_WAITING_OF_PEER {
            self.refused += 1;
            return None;
        }
        let message = self.waiting.entry(key).or_insert_with(|| PartialMessage {
            since: now,
            parts: vec![None; count],
            bytes: MESSAGE_BYTES + count * SLOT_BYTES,
        });
        if is_new {
            self.bytes += message.bytes;
            *self.by_peer.entry(peer).or_default() += 1;
        }
        let slot = message.parts.get_mut(number)?;
        if slot.is_none() {
            *slot = Some(part.to_vec());
            message.bytes += part.len();
            self.bytes += part.len();
        }
        if message.parts.iter().any(Option::is_none) {
            return None;
        }
        let message = self.waiting.remove(&key)?;
        self.bytes -= message.bytes;
        forget(&mut self.by_peer, peer);
        Some(message.parts.into_iter().flatten().flatten().collect())
    }

    /// Chunks that were dropped since the last call, because too much is waiting.
    pub(crate) fn take_refused(&mut self) -> usize {
        std::mem::take(&mut self.refused)
    }

    /// Drops messages with missing chunks after their deadline and returns their number.
    pub(crate) fn expire(&mut self, now: Micros) -> usize {
        let before = self.waiting.len();
        let (bytes, by_peer) = (&mut self.bytes, &mut self.by_peer);
        self.waiting.retain(|(peer, _), message| {
            let is_waiting = now <= message.since + CHUNKS_WITHIN;
            if !is_waiting {
                *bytes -= message.bytes;
                forget(by_peer, *peer);
            }
            is_waiting
        });
        before - self.waiting.len()
    }
}

/// One message less of an address.
fn forget(by_peer: &mut HashMap<IpAddr, usize>, peer: IpAddr) {
    if let Some(count) = by_peer.get_mut(&peer) {
        *count -= 1;
        if *count == 0 {
            by_peer.remove(&peer);
        }
    }
}

/// Reads one message, compressed or not.
pub(crate) fn read(message: &[u8], origin: StreamOrigin<'_>, builder: &mut BatchBuilder) {
    let StreamOrigin { peer, source } = origin;
    // Some senders end datagrams as the protocol ends messages over TCP.
    let message =
        message.strip_suffix(b"\0").filter(|text| text.ends_with(b"}")).unwrap_or(message);
    if message.trim_ascii().is_empty() {
        return;
    }
    let coding = match message {
        [0x1f, 0x8b, ..] => "gzip",
        [0x78, ..] => "deflate",
        _ => "",
    };
    // One message at a time; `datagram.rs` and `is_batch_full` limit how many make a batch.
    let unpacked = if coding.is_empty() && message.len() > MAX_MESSAGE_BYTES {
        Err(UnpackError::TooLarge)
    } else {
        unpack(coding, Bytes::copy_from_slice(message), MAX_MESSAGE_BYTES, &mut |_| true)
    };
    let is_long = unpacked == Err(UnpackError::TooLarge);
    let document =
        unpacked.ok().and_then(|bytes| serde_json::from_slice::<Map<String, Value>>(&bytes).ok());
    let Some(document) = document else {
        let (reason, detail) = if is_long {
            ("too_long", "the message has more than 1 MiB")
        } else {
            ("invalid_json", "the message is not a JSON object, or cannot be decompressed")
        };
        let fault = RejectCause { parser: "gelf", reason, detail };
        return builder.reject(RowOrigin { host: peer, source }, &fault, message);
    };
    let host = document.get("host").and_then(Value::as_str).unwrap_or(peer).to_owned();
    let host = if host.is_empty() || host.len() > 255 { peer } else { &host };
    let document = Value::Object(renamed(document)).to_string();
    builder.line(RowOrigin { host, source }, document.as_bytes(), None);
}

/// Renames fields to the names that the parser knows.
fn renamed(mut document: Map<String, Value>) -> Map<String, Value> {
    // Without its short form, the message is the long one.
    let is_blank = |text: &Value| text.as_str().is_some_and(|text| text.trim_ascii().is_empty());
    if document.get("short_message").is_none_or(is_blank)
        && let Some(text) = document.remove("full_message").filter(|text| !is_blank(text))
    {
        document.insert("short_message".to_owned(), text);
    }
    let mut out = Map::new();
    for (key, value) in document {
        let (key, value) = match (key.as_str(), value) {
            ("version" | "host", _) => continue,
            ("short_message", value) => ("message", value),
            ("level", value) => {
                let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
                match number.and_then(|level| usize::try_from(level).ok()) {
                    Some(level) if level < LEVELS.len() => ("level", LEVELS[level].into()),
                    _ => ("level", value),
                }
            }
            (key, value) => (key.strip_prefix('_').unwrap_or(key), value),
        };
        let key = if out.contains_key(key) { format!("_{key}") } else { key.to_owned() };
        out.insert(key, value);
    }
    out
}

/// Syslog's severities.
const LEVELS: [&str; 8] =
    ["emergency", "alert", "critical", "error", "warn", "notice", "info", "debug"];

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::check::{NOW, builder, dump, mangled};

    const MESSAGE: &[u8] = br#"{"version":"1.1","host":"web1","short_message":"oh","timestamp":1795176000.5,"level":3,"_user":"u","message":"x"}"#;
    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const ORIGIN: StreamOrigin<'_> = StreamOrigin { peer: "192.0.2.1", source: "gelf_tcp" };

    #[test]
    fn messages_over_tcp_are_documents_under_known_names() {
        let mut builder = builder();
        let bytes = [MESSAGE, b"\0nonsense\0{\"half"].concat();
        let used = GelfStream::default().cut(&bytes, ORIGIN, &mut builder).expect("well formed");
        assert_eq!(&bytes[used..], b"{\"half");
        expect![[r#"
            web1 gelf_tcp
              {"_message":"oh","level":"error","message":"x","timestamp":1795176000.5,"user":"u"}
            reject: 1 rows
        "#]]
        .assert_eq(&dump(&mut builder));
    }

    /// Field case: rsyslog's omfwd ends messages with a newline.
    #[test]
    fn messages_over_tcp_may_end_with_a_newline() {
        let bytes = b"{\"a\":1}\n{\"a\":\n{\"b\":2}\n}\r\n{\"a\":3}\0{\"a\":4}\n";
        for step in [1, bytes.len()] {
            let (mut stream, mut builder, mut buffer) =
                (GelfStream::default(), builder(), Vec::new());
            for read in bytes.chunks(step) {
                buffer.extend_from_slice(read);
                let used = stream.cut(&buffer, ORIGIN, &mut builder).expect("never fails");
                buffer.drain(..used);
            }
            assert!(buffer.is_empty());
            expect![[r#"
                192.0.2.1 gelf_tcp
                  {"a":1}
                  {"a":{"b":2}}
                  {"a":3}
                  {"a":4}
            "#]]
            .assert_eq(&dump(&mut builder));
        }
    }

    /// mp911de/logstash-gelf#158 (a level in quotes), fluent/fluentd#669 (no short message),
    /// Graylog2/graylog2-server#3970 (a blank one), and a NUL behind a datagram.
    #[test]
    fn messages_that_bend_the_specification_are_read() {
        let mut builder = builder();
        for message in [
            &br#"{"host":"web1","timestamp":"1795176000.998","level":"6","_Severity":"INFO"}"#[..],
            br#"{"version":"1.1","short_message":"","full_message":"a\nb","level":3}"#,
            br#"{"version":"1.1","short_message":" ","full_message":"Backtrace here","level":1}"#,
            b"{\"short_message\":\"c\",\"full_message\":\"\"}\0",
        ] {
            read(message, ORIGIN, &mut builder);
        }
        expect![[r#"
            web1 gelf_tcp
              {"Severity":"INFO","level":"info","timestamp":"1795176000.998"}
            192.0.2.1 gelf_tcp
              {"level":"error","message":"a\nb"}
              {"level":"alert","message":"Backtrace here"}
              {"full_message":"","message":"c"}
        "#]]
        .assert_eq(&dump(&mut builder));
    }

    /// A chunk `number` of `count`.
    fn chunk([id, number, count]: [u8; 3], part: &[u8]) -> Vec<u8> {
        [&[0x1e, 0x0f, id, 0, 0, 0, 0, 0, 0, 0, number, count], part].concat()
    }

    #[test]
    fn chunks_in_any_order_become_one_message_and_late_ones_are_dropped() {
        let mut chunks = GelfChunks::default();
        let (first, second) = MESSAGE.split_at(20);
        assert_eq!(chunks.add(&chunk([1, 1, 2], second), PEER, NOW), None);
        assert_eq!(chunks.add(&chunk([1, 1, 2], second), PEER, NOW), None, "twice");
        assert_eq!(chunks.add(&chunk([1, 0, 2], first), PEER, NOW).as_deref(), Some(MESSAGE));
        assert_eq!(chunks.add(&chunk([2, 0, 2], first), PEER, NOW), None);
        assert_eq!(chunks.expire(NOW), 0);
        assert_eq!(chunks.expire(NOW + Duration::from_secs(6)), 1);
        assert_eq!((chunks.bytes, chunks.waiting.len()), (0, 0));
        for bad in [
            &b"\x1e\x0f"[..],
            &chunk([3, 2, 2], b""),
            &chunk([3, 0, 0], b""),
            &chunk([3, 0, 200], b""),
        ] {
            assert_eq!(chunks.add(bad, PEER, NOW), None);
        }
        assert_eq!(chunks.add(MESSAGE, PEER, NOW).as_deref(), Some(MESSAGE));
    }

    #[test]
    fn memory_of_incomplete_messages_is_limited() {
        let mut chunks = GelfChunks::default();
        let part = vec![0; 60_000];
        for number in 0..1000_u32 {
            let mut datagram = chunk([0, 0, 2], &part);
            datagram[2..6].copy_from_slice(&number.to_be_bytes());
            chunks.add(&datagram, PEER, NOW);
        }
        assert!(chunks.bytes <= MAX_WAITING_BYTES && chunks.take_refused() > 700);
    }

    /// Twelve bytes open a message of 128 slots: 5 MB of them took 1.5 GB.
    #[test]
    fn slots_of_empty_chunks_are_counted_and_addresses_are_limited() {
        let mut chunks = GelfChunks::default();
        for number in 0..400_000_u32 {
            let mut datagram = chunk([0, 0, 128], b"");
            datagram[2..6].copy_from_slice(&number.to_be_bytes());
            let peer = IpAddr::from([10, 0, 0, u8::try_from(number % 200).expect("small")]);
            chunks.add(&datagram, peer, NOW);
        }
        assert!(chunks.bytes <= MAX_WAITING_BYTES);
        assert!(chunks.waiting.len() * 128 * SLOT_BYTES <= MAX_WAITING_BYTES);
        assert_eq!(chunks.waiting.len() + chunks.take_refused(), 400_000);
        chunks.expire(NOW + Duration::from_secs(6));
        assert_eq!((chunks.bytes, chunks.by_peer.len()), (0, 0));
        for number in 0..1500_u32 {
            let mut datagram = chunk([0, 0, 2], b"");
            datagram[2..6].copy_from_slice(&number.to_be_bytes());
            chunks.add(&datagram, PEER, NOW);
        }
        assert_eq!((chunks.waiting.len(), chunks.take_refused()), (1000, 500));
    }

    #[test]
    fn any_bytes_are_read_or_rejected() {
        let seed = chunk([1, 0, 1], MESSAGE);
        let mut chunks = GelfChunks::default();
        arbtest::arbtest(|u| {
            let bytes = mangled(u, &seed)?;
            if let Some(message) = chunks.add(&bytes, PEER, NOW) {
                read(&message, ORIGIN, &mut builder());
            }
            chunks.expire(NOW + Duration::from_secs(10));
            let _ = GelfStream::default().cut(&bytes, ORIGIN, &mut builder());
            Ok(())
        });
    }
}
