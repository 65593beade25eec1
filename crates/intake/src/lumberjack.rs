//! Lumberjack 1 and 2, the protocol of Beats and Logstash: windows of frames, acknowledged when
//! durable.
//!
//! From the protocol's description in logstash-input-beats and go-lumber. Numbers are big endian:
//!
//! ```text
//!  '1'|'2' 'W' count                            size of the window that follows
//!  '1'|'2' 'D' seq pairs (length key length value)…   one event as keys and values
//!  '2'     'J' seq length json                  one event as JSON
//!  '1'|'2' 'C' length zlib(frames…)             compressed frames
//!  '1'|'2' 'A' seq                              acknowledgement: everything up to seq is durable
//! ```

use crate::batch_builder::{BatchBuilder, ItemVerdict, MAX_ITEMS, RejectCause, RowOrigin};
use crate::document;
use crate::stream::{NO_MEMORY, StreamError, StreamOrigin, StreamProtocol};
use crate::unpack::{UnpackError, zlib};
use crate::window::Identity;
use memchr::memmem;

/// Largest compressed frame, and its largest content; Beats send 2 MiB at most by default.
const MAX_PACKED_BYTES: usize = 16 << 20;
/// Largest event.
const MAX_EVENT_BYTES: usize = 1 << 20;
/// Most keys of one event of version 1.
const MAX_PAIRS: usize = 1000;

/// One connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct LumberjackStream {
    /// Version and number of the last event that is not acknowledged yet.
    last: Option<(u8, u32)>,
}

impl StreamProtocol for LumberjackStream {
    fn cut(
        &mut self,
        bytes: &[u8],
        origin: StreamOrigin<'_>,
        builder: &mut BatchBuilder,
    ) -> Result<usize, StreamError> {
        self.frames(bytes, origin.peer, false, builder)
    }

    /// Withholds the acknowledgement while a first attempt is still being stored, so the sender
    /// retries.
    fn replies(&mut self, verdicts: &[ItemVerdict]) -> Vec<u8> {
        let Some((version, seq)) = self.last.take() else { return Vec::new() };
        if verdicts.contains(&ItemVerdict::Pending) {
            return Vec::new();
        }
        let seq = seq.to_be_bytes();
        [&[version, b'A'][..], &seq].concat()
    }
}

/// Reads from the front; `None` if incomplete.
struct FrameReader<'a>(&'a [u8]);

impl<'a> FrameReader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    fn number(&mut self) -> Option<u32> {
        let bytes = self.take(4)?;
        Some(u32::from_be_bytes(bytes.try_into().expect("take gives four bytes")))
    }

    /// A length that is at most `max`.
    fn length(&mut self, max: usize) -> Result<Option<usize>, StreamError> {
        let Some(length) = self.number() else { return Ok(None) };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > max {
            let detail = "a length exceeds its limit";
            return Err(StreamError { reason: "too_long", detail });
        }
        Ok(Some(length))
    }
}

const BAD: StreamError = StreamError { reason: "bad_frame", detail: "not a frame of Lumberjack" };

impl LumberjackStream {
    fn frames(
        &mut self,
        bytes: &[u8],
        peer: &str,
        is_packed: bool,
        builder: &mut BatchBuilder,
    ) -> Result<usize, StreamError> {
        let (mut used, rows) = (0, builder.verdicts.len());
        // A compressed frame is read completely, or its rest would be acknowledged with it.
        while is_packed || !builder.is_batch_full() {
            let rest = &bytes[used..];
            let mut cut = FrameReader(rest);
            match self.frame(&mut cut, peer, is_packed, builder) {
                Ok(false) => break,
                // The frames before are stored first.
                Err(NO_MEMORY) if used > 0 => break,
                read => read?,
            };
            used = bytes.len() - cut.0.len();
            if builder.verdicts.len() - rows > MAX_ITEMS {
                let detail = "more events in one frame than weir takes";
                return Err(StreamError { reason: "too_many_rows", detail });
            }
            // Its memory is given back before the next one is decompressed.
            if rest[1] == b'C' {
                break;
            }
        }
        Ok(used)
    }

    /// Reads one frame; `false` if incomplete.
    fn frame(
        &mut self,
        cut: &mut FrameReader<'_>,
        peer: &str,
        is_packed: bool,
        builder: &mut BatchBuilder,
    ) -> Result<bool, StreamError> {
        let Some(head) = cut.take(2) else { return Ok(false) };
        let (version, kind) = (head[0], head[1]);
        if !matches!(version, b'1' | b'2') {
            return Err(BAD);
        }
        match kind {
            b'W' => Ok(cut.number().is_some()),
            b'J' => {
                let Some(seq) = cut.number() else { return Ok(false) };
                let Some(length) = cut.length(MAX_EVENT_BYTES)? else { return Ok(false) };
                let Some(event) = cut.take(length) else { return Ok(false) };
                self.event(version, seq, event, peer, builder);
                Ok(true)
            }
            b'D' => {
                let Some(seq) = cut.number() else { return Ok(false) };
                let Some(event) = pairs(cut)? else { return Ok(false) };
                self.event(version, seq, event.as_bytes(), peer, builder);
                Ok(true)
            }
            b'C' if !is_packed => {
                let Some(length) = cut.length(MAX_PACKED_BYTES)? else { return Ok(false) };
                let Some(packed) = cut.take(length) else { return Ok(false) };
                let mut take = |bytes| builder.take_memory(bytes);
                let frames = zlib(packed, MAX_PACKED_BYTES, &mut take).map_err(frame_error)?;
                let used = self.frames(&frames, peer, true, builder)?;
                if used < frames.len() { Err(BAD) } else { Ok(true) }
            }
            _ => Err(BAD),
        }
    }

    fn event(
        &mut self,
        version: u8,
        seq: u32,
        event: &[u8],
        peer: &str,
        builder: &mut BatchBuilder,
    ) {
        self.last = Some((version, seq));
        let event = event.trim_ascii();
        let (host, file) = (document::host(event), document::file(event));
        let place = RowOrigin {
            host: host.as_deref().unwrap_or(peer),
            source: file.as_deref().unwrap_or("lumberjack"),
        };
        if !document::is_object(event) {
            let detail = "the event is not a JSON object";
            let fault = RejectCause { parser: "lumberjack", reason: "invalid_json", detail };
            return builder.reject(place, &fault, event);
        }
        // Numbers restart in each window. Time and file offset identify an event.
        let id_fields = [&b"\"@timestamp\""[..], b"\"offset\""];
        let is_unique = id_fields.iter().all(|field| memmem::find(event, field).is_some());
        let id = is_unique.then(|| Identity::of(&[b"lumberjack", event]));
        builder.line(place, event, id);
    }
}

fn frame_error(error: UnpackError) -> StreamError {
    match error {
        UnpackError::NoMemory => NO_MEMORY,
        UnpackError::TooLarge => {
            let detail = "a decompressed frame is too large";
            StreamError { reason: "too_large", detail }
        }
        UnpackError::Broken(_) | UnpackError::Unknown(_) => {
            let detail = "a frame cannot be decompressed";
            StreamError { reason: "broken_packing", detail }
        }
    }
}

/// Keys and values as a JSON object, once all of them are there.
fn pairs(cut: &mut FrameReader<'_>) -> Result<Option<String>, StreamError> {
    let Some(count) = cut.length(MAX_PAIRS)? else { return Ok(None) };
    let mut ahead = FrameReader(cut.0);
    let mut bytes = 0;
    for _ in 0..2 * count {
        let Some(length) = ahead.length(MAX_EVENT_BYTES - bytes)? else { return Ok(None) };
        bytes += length;
        if ahead.take(length).is_none() {
            return Ok(None);
        }
    }
    let mut event = serde_json::Map::new();
    for _ in 0..count {
        let [key, value] = [text(cut)?, text(cut)?];
        // Version 1 calls the message `line`.
        let key = if key == b"line" { b"message" } else { key };
        event.insert(
            String::from_utf8_lossy(key).into_owned(),
            String::from_utf8_lossy(value).into_owned().into(),
        );
    }
    Ok(Some(serde_json::Value::Object(event).to_string()))
}

/// A length and as many bytes.
fn text<'a>(cut: &mut FrameReader<'a>) -> Result<&'a [u8], StreamError> {
    cut.length(MAX_EVENT_BYTES)?.and_then(|length| cut.take(length)).ok_or(BAD)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::check::{builder, dump, mangled};

    const ORIGIN: StreamOrigin<'_> = StreamOrigin { peer: "192.0.2.1", source: "lumberjack" };

    fn event(seq: u32, json: &str) -> Vec<u8> {
        let length = u32::try_from(json.len()).expect("short").to_be_bytes();
        [b"2J", &seq.to_be_bytes()[..], &length, json.as_bytes()].concat()
    }

    fn packed(frames: &[u8]) -> Vec<u8> {
        use std::io::Write;
        let mut writer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        writer.write_all(frames).expect("memory");
        let packed = writer.finish().expect("memory");
        let length = u32::try_from(packed.len()).expect("short").to_be_bytes();
        [b"2C", &length[..], &packed].concat()
    }

    fn window() -> Vec<u8> {
        let frames = [
            event(
                1,
                r#"{"@timestamp":"2026-11-20T12:00:00Z","message":"one","host":{"name":"web1"},"log":{"offset":5}}"#,
            ),
            event(2, r#"{"message":"two"}"#),
        ];
        [b"2W\0\0\0\x02".to_vec(), packed(&frames.concat())].concat()
    }

    #[test]
    fn a_window_is_acknowledged_by_its_last_number_and_a_repeat_is_known() {
        let (mut stream, mut builder) = (LumberjackStream::default(), builder());
        let bytes = [window(), window()].concat();
        assert_eq!(stream.cut(&bytes, ORIGIN, &mut builder), Ok(window().len()), "one at a time");
        assert_eq!(stream.cut(&window(), ORIGIN, &mut builder), Ok(window().len()));
        assert_eq!(stream.replies(&builder.verdicts), b"2A\0\0\0\x02");
        assert_eq!(stream.replies(&[]), b"");
        expect![[r#"
            web1 lumberjack
              {"@timestamp":"2026-11-20T12:00:00Z","message":"one","host":{"name":"web1"},"log":{"offset":5}}
            192.0.2.1 lumberjack
              {"message":"two"}
              {"message":"two"}
        "#]]
        .assert_eq(&dump(&mut builder));
        assert_eq!(builder.verdicts[2], ItemVerdict::Known);
    }

    #[test]
    fn version_one_has_pairs() {
        let bytes = b"1W\0\0\0\x011D\0\0\0\x01\0\0\0\x02\0\0\0\x04line\0\0\0\x02hi\0\0\0\x04host\0\0\0\x01a";
        let (mut stream, mut builder) = (LumberjackStream::default(), builder());
        for length in 6..bytes.len() {
            assert_eq!(stream.clone().cut(&bytes[..length], ORIGIN, &mut builder), Ok(6));
        }
        assert_eq!(stream.cut(bytes, ORIGIN, &mut builder), Ok(bytes.len()));
        assert_eq!(stream.replies(&builder.verdicts), b"1A\0\0\0\x01");
        assert_eq!(dump(&mut builder), "a lumberjack\n  {\"host\":\"a\",\"message\":\"hi\"}\n");
    }

    #[test]
    fn false_lengths_close_the_connection() {
        for (bytes, reason) in [
            (&b"2J\0\0\0\x01\xff\xff\xff\xff"[..], "too_long"),
            (b"2C\xff\xff\xff\xff", "too_long"),
            (b"1D\0\0\0\x01\0\xff\xff\xff", "too_long"),
            (b"2C\0\0\0\x03abc", "broken_packing"),
            (&packed(&packed(b"2W\0\0\0\x01")), "bad_frame"),
            (&packed(b"2J\0\0\0\x01\0\0\0\x05{"), "bad_frame"),
            (&packed(&vec![b'x'; MAX_PACKED_BYTES + 1]), "too_large"),
            (b"GET / HTTP/1.1\r\n", "bad_frame"),
        ] {
            let cut = LumberjackStream::default().cut(bytes, ORIGIN, &mut builder());
            assert_eq!(cut.expect_err("malformed").reason, reason);
        }
    }

    #[test]
    fn any_bytes_are_cut_without_panic() {
        let seed = [window(), b"1D\0\0\0\x01\0\0\0\x01\0\0\0\x01a\0\0\0\x01b".to_vec()].concat();
        arbtest::arbtest(|u| {
            let bytes = mangled(u, &seed)?;
            let (mut stream, mut builder) = (LumberjackStream::default(), builder());
            if let Ok(used) = stream.cut(&bytes, ORIGIN, &mut builder) {
                assert!(used <= bytes.len());
            }
            Ok(())
        });
    }
}
