//! Lumberjack 1 and 2, as Beats' and Logstash's outputs speak it: windows of frames, acknowledged when durable.
//!
//! From the protocol's description in logstash-input-beats and go-lumber. Big endian numbers throughout:
//!
//! ```text
//!  '1'|'2' 'W' count                            a window of so many events follows
//!  '1'|'2' 'D' seq pairs (length key length value)…   one event of keys and values
//!  '2'     'J' seq length json                  one event of JSON
//!  '1'|'2' 'C' length zlib(frames…)             frames, packed
//!  '1'|'2' 'A' seq                              from here: everything up to seq is durable
//! ```

use crate::document;
use crate::harvest::{Fault, Harvest, Place, Verdict};
use crate::stream::{Broken, Framing};
use crate::unpack::{Packed, zlib};
use crate::window::Identity;
use memchr::memmem;

/// A packed frame, and what is in it; Beats send 2 MiB at most by default.
const MAX_PACKED_BYTES: usize = 16 << 20;
/// One event.
const MAX_EVENT_BYTES: usize = 1 << 20;
/// Keys of one event of version 1.
const MAX_PAIRS: usize = 1000;

/// One connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lumberjack {
    /// Version and number of the last event that was read and is not acknowledged yet.
    last: Option<(u8, u32)>,
}

impl Framing for Lumberjack {
    fn cut(
        &mut self,
        bytes: &[u8],
        peer: &str,
        _source: &str,
        harvest: &mut Harvest,
    ) -> Result<usize, Broken> {
        self.frames(bytes, peer, false, harvest)
    }

    /// Not while an event's first sending is not through: the window comes again.
    fn replies(&mut self, verdicts: &[Verdict]) -> Vec<u8> {
        let Some((version, seq)) = self.last.take() else { return Vec::new() };
        if verdicts.contains(&Verdict::Pending) {
            return Vec::new();
        }
        let seq = seq.to_be_bytes();
        [&[version, b'A'][..], &seq].concat()
    }
}

/// Reads from the front; `None` while it is not all there.
struct Cut<'a>(&'a [u8]);

impl<'a> Cut<'a> {
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
    fn length(&mut self, max: usize) -> Result<Option<usize>, Broken> {
        let Some(length) = self.number() else { return Ok(None) };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > max {
            return Err(Broken::new("too_long", "a length is larger than it may be"));
        }
        Ok(Some(length))
    }
}

const BAD: Broken = Broken { reason: "bad_frame", detail: "not a frame of Lumberjack" };

impl Lumberjack {
    fn frames(
        &mut self,
        bytes: &[u8],
        peer: &str,
        is_packed: bool,
        harvest: &mut Harvest,
    ) -> Result<usize, Broken> {
        let mut used = 0;
        // A packed frame is taken whole, or its rest would be acknowledged with it.
        while is_packed || !harvest.is_full() {
            let mut cut = Cut(&bytes[used..]);
            if !self.frame(&mut cut, peer, is_packed, harvest)? {
                break;
            }
            used = bytes.len() - cut.0.len();
        }
        Ok(used)
    }

    /// One frame; `false` when it is not all there.
    fn frame(
        &mut self,
        cut: &mut Cut<'_>,
        peer: &str,
        is_packed: bool,
        harvest: &mut Harvest,
    ) -> Result<bool, Broken> {
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
                self.event(version, seq, event, peer, harvest);
                Ok(true)
            }
            b'D' => {
                let Some(seq) = cut.number() else { return Ok(false) };
                let Some(event) = pairs(cut)? else { return Ok(false) };
                self.event(version, seq, event.as_bytes(), peer, harvest);
                Ok(true)
            }
            b'C' if !is_packed => {
                let Some(length) = cut.length(MAX_PACKED_BYTES)? else { return Ok(false) };
                let Some(packed) = cut.take(length) else { return Ok(false) };
                let frames = zlib(packed, MAX_PACKED_BYTES).map_err(|error| match error {
                    Packed::TooLarge => Broken::new("too_large", "a frame is too large unpacked"),
                    _ => Broken::new("broken_packing", "a frame cannot be unpacked"),
                })?;
                let used = self.frames(&frames, peer, true, harvest)?;
                if used < frames.len() { Err(BAD) } else { Ok(true) }
            }
            _ => Err(BAD),
        }
    }

    fn event(&mut self, version: u8, seq: u32, event: &[u8], peer: &str, harvest: &mut Harvest) {
        self.last = Some((version, seq));
        let event = event.trim_ascii();
        let (host, file) = (document::host(event), document::file(event));
        let place = Place {
            host: host.as_deref().unwrap_or(peer),
            source: file.as_deref().unwrap_or("lumberjack"),
        };
        if !document::is_object(event) {
            let detail = "the event is not a JSON object";
            let fault = Fault { parser: "lumberjack", reason: "invalid_json", detail };
            return harvest.reject(place, &fault, event);
        }
        // Numbers start again in each window. What tells an event apart is where in its file it stood, and when.
        let has = |name: &[u8]| memmem::find(event, name).is_some();
        let is_unique = has(b"\"@timestamp\"") && has(b"\"offset\"");
        let id = is_unique.then(|| Identity::of(&[b"lumberjack", event]));
        harvest.line(place, event, id);
    }
}

/// Keys and values as a JSON object.
fn pairs(cut: &mut Cut<'_>) -> Result<Option<String>, Broken> {
    let Some(count) = cut.length(MAX_PAIRS)? else { return Ok(None) };
    let mut event = serde_json::Map::new();
    for _ in 0..count {
        let Some(length) = cut.length(MAX_EVENT_BYTES)? else { return Ok(None) };
        let Some(key) = cut.take(length) else { return Ok(None) };
        let Some(length) = cut.length(MAX_EVENT_BYTES)? else { return Ok(None) };
        let Some(value) = cut.take(length) else { return Ok(None) };
        // The first Lumberjack called the message `line`.
        let key = if key == b"line" { b"message" } else { key };
        event.insert(
            String::from_utf8_lossy(key).into_owned(),
            String::from_utf8_lossy(value).into_owned().into(),
        );
    }
    Ok(Some(serde_json::Value::Object(event).to_string()))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::check::{dump, harvest, mangled};

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
    fn a_window_is_acknowledged_by_its_last_number_and_known_when_it_comes_again() {
        let (mut stream, mut harvest) = (Lumberjack::default(), harvest());
        let bytes = [window(), window()].concat();
        assert_eq!(stream.cut(&bytes, "192.0.2.1", "", &mut harvest), Ok(bytes.len()));
        assert_eq!(stream.replies(&harvest.verdicts), b"2A\0\0\0\x02");
        assert_eq!(stream.replies(&[]), b"");
        expect![[r#"
            web1 lumberjack
              {"@timestamp":"2026-11-20T12:00:00Z","message":"one","host":{"name":"web1"},"log":{"offset":5}}
            192.0.2.1 lumberjack
              {"message":"two"}
              {"message":"two"}
        "#]]
        .assert_eq(&dump(&mut harvest));
        assert_eq!(harvest.verdicts[2], Verdict::Known);
    }

    #[test]
    fn version_one_has_pairs() {
        let bytes = b"1W\0\0\0\x011D\0\0\0\x01\0\0\0\x02\0\0\0\x04line\0\0\0\x02hi\0\0\0\x04host\0\0\0\x01a";
        let (mut stream, mut harvest) = (Lumberjack::default(), harvest());
        for length in 6..bytes.len() {
            assert_eq!(stream.clone().cut(&bytes[..length], "p", "", &mut harvest), Ok(6));
        }
        assert_eq!(stream.cut(bytes, "p", "", &mut harvest), Ok(bytes.len()));
        assert_eq!(stream.replies(&harvest.verdicts), b"1A\0\0\0\x01");
        assert_eq!(dump(&mut harvest), "a lumberjack\n  {\"host\":\"a\",\"message\":\"hi\"}\n");
    }

    #[test]
    fn lengths_that_lie_end_the_connection() {
        let check = |bytes: &[u8]| {
            let cut = Lumberjack::default().cut(bytes, "p", "", &mut harvest());
            cut.expect_err("broken").reason
        };
        assert_eq!(check(b"2J\0\0\0\x01\xff\xff\xff\xff"), "too_long");
        assert_eq!(check(b"2C\xff\xff\xff\xff"), "too_long");
        assert_eq!(check(b"1D\0\0\0\x01\0\xff\xff\xff"), "too_long");
        assert_eq!(check(b"2C\0\0\0\x03abc"), "broken_packing");
        assert_eq!(check(&packed(&packed(b"2W\0\0\0\x01"))), "bad_frame");
        assert_eq!(check(&packed(b"2J\0\0\0\x01\0\0\0\x05{")), "bad_frame");
        assert_eq!(check(&packed(&vec![b'x'; MAX_PACKED_BYTES + 1])), "too_large");
        assert_eq!(check(b"GET / HTTP/1.1\r\n"), "bad_frame");
    }

    #[test]
    fn any_bytes_are_cut_without_panic() {
        let seed = [window(), b"1D\0\0\0\x01\0\0\0\x01\0\0\0\x01a\0\0\0\x01b".to_vec()].concat();
        arbtest::arbtest(|u| {
            let bytes = mangled(u, &seed)?;
            let (mut stream, mut harvest) = (Lumberjack::default(), harvest());
            if let Ok(used) = stream.cut(&bytes, "p", "", &mut harvest) {
                assert!(used <= bytes.len());
            }
            Ok(())
        });
    }
}
