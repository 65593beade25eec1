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
use crate::unpack::unpack;

/// Largest decompressed message.
const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Up to this length, a message before a newline is parsed to learn whether it is complete.
const SHORT_BYTES: usize = 64 << 10;
/// Most chunks of one message, by the specification.
const MAX_CHUNKS: usize = 128;
/// Time within which all chunks of a message must arrive, by the specification.
const CHUNKS_WITHIN: Duration = Duration::from_secs(5);
/// Most bytes of incomplete messages, of all senders together.
const MAX_WAITING_BYTES: usize = 16 << 20;

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
fn message_end(bytes: &[u8]) -> Option<usize> {
    let nul = memchr(0, bytes);
    let within = &bytes[..nul.unwrap_or(bytes.len())];
    let newline = memchr_iter(b'\n', within).find(|at| {
        within[..*at].trim_ascii_end().ends_with(b"}")
            && match within[at + 1..].trim_ascii_start() {
                [] => nul.is_none() && *at < SHORT_BYTES && is_object(&within[..*at]),
                behind => behind[0] == b'{',
            }
    });
    newline.or(nul)
}

fn is_object(bytes: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok()
}

/// Incomplete messages.
#[derive(Debug, Default)]
pub(crate) struct GelfChunks {
    waiting: HashMap<(IpAddr, [u8; 8]), PartialMessage>,
    bytes: usize,
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
        if self.bytes + part.len() > MAX_WAITING_BYTES {
            return None;
        }
        let key = (peer, *id);
        let message = self.waiting.entry(key).or_insert_with(|| PartialMessage {
            since: now,
            parts: vec![None; count],
            bytes: 0,
        });
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
        Some(message.parts.into_iter().flatten().flatten().collect())
    }

    /// Drops messages with missing chunks after their deadline and returns their number.
    pub(crate) fn expire(&mut self, now: Micros) -> usize {
        let before = self.waiting.len();
        let bytes = &mut self.bytes;
        self.waiting.retain(|_, message| {
            let is_waiting = now <= message.since + CHUNKS_WITHIN;
            *bytes -= if is_waiting { 0 } else { message.bytes };
            is_waiting
        });
        before - self.waiting.len()
    }
}

/// Reads one message, compressed or not.
pub(crate) fn read(message: &[u8], origin: StreamOrigin<'_>, builder: &mut BatchBuilder) {
    let StreamOrigin { peer, source } = origin;
    if message.trim_ascii().is_empty() {
        return;
    }
    let coding = match message {
        [0x1f, 0x8b, ..] => "gzip",
        [0x78, ..] => "deflate",
        _ => "",
    };
    let unpacked = unpack(coding, Bytes::copy_from_slice(message), MAX_MESSAGE_BYTES);
    let document =
        unpacked.ok().and_then(|bytes| serde_json::from_slice::<Map<String, Value>>(&bytes).ok());
    let Some(document) = document else {
        let detail = "the message is not a JSON object, or cannot be decompressed";
        let fault = RejectCause { parser: "gelf", reason: "invalid_json", detail };
        return builder.reject(RowOrigin { host: peer, source }, &fault, message);
    };
    let host = document.get("host").and_then(Value::as_str).unwrap_or(peer).to_owned();
    let host = if host.is_empty() || host.len() > 255 { peer } else { &host };
    let document = Value::Object(renamed(document)).to_string();
    builder.line(RowOrigin { host, source }, document.as_bytes(), None);
}

/// Renames fields to the names that the parser knows.
fn renamed(document: Map<String, Value>) -> Map<String, Value> {
    let mut out = Map::new();
    for (key, value) in document {
        let (key, value) = match (key.as_str(), value) {
            ("version" | "host", _) => continue,
            ("short_message", value) => ("message", value),
            ("level", value) => {
                match value.as_u64().and_then(|level| usize::try_from(level).ok()) {
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
        assert!(chunks.bytes <= MAX_WAITING_BYTES);
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
