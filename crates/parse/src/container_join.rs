//! Joins the pieces in which container runtimes write long messages.
//!
//! From Kubernetes' CRI log format and Docker's `json-file`: a message of more than 16 KiB is split,
//! and pieces of standard output and standard error can alternate. A message becomes one line in the
//! runtime's own format, at the offset of its first piece. One whose end is missing stays partial.

use bumpalo::Bump;
use memchr::memchr;
use weir_tables::{ContainerPiece, ContainerStream};

/// Maximum bytes of a joined message; the rest is the next one.
const MAX_JOINED_BYTES: usize = 960 << 10;

/// A line and its offset.
pub(crate) type LineAt<'a> = (usize, &'a [u8]);

/// The messages in `bytes`, if a container runtime wrote its first line. Lines that no runtime wrote
/// are returned as they are, blank ones too. Messages of one event, which end at `ends`, are one.
pub(crate) fn joined<'a>(
    bytes: &'a [u8],
    ends: Option<&[usize]>,
    arena: &'a Bump,
) -> Option<Vec<LineAt<'a>>> {
    let first = bytes.get(..memchr(b'\n', bytes).unwrap_or(bytes.len()))?;
    ContainerPiece::of(without_return(first))?;
    let mut messages: Vec<Message<'a>> = Vec::new();
    let mut open: [Option<usize>; 2] = [None; 2];
    let mut at = 0;
    let mut ends = ends.map(|ends| ends.iter().copied().peekable());
    let mut event: Option<usize> = None;
    while at < bytes.len() {
        if let Some(ends) = &mut ends
            && ends.next_if(|end| *end <= at).is_some()
        {
            event = None;
        }
        let end = memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |length| at + length);
        let line = without_return(&bytes[at..end]);
        match ContainerPiece::of(line) {
            None => messages.push(Message { at, line, first: None, more: Vec::new(), bytes: 0 }),
            Some(piece) => {
                let place = &mut open[usize::from(piece.stream == ContainerStream::Stderr)];
                let is_partial = piece.is_partial;
                let room = MAX_JOINED_BYTES.saturating_sub(piece.text.len());
                let begun = place.and_then(|place| messages.get_mut(place));
                if let Some(message) = begun.filter(|message| message.bytes <= room) {
                    message.push(line, piece, false);
                } else if let Some(message) = event.and_then(|event| messages.get_mut(event)) {
                    *place = event;
                    message.push(line, piece, true);
                } else {
                    *place = Some(messages.len());
                    event = ends.is_some().then_some(messages.len());
                    messages.push(Message::begun_with(at, line, piece));
                }
                if !is_partial {
                    *place = None;
                }
            }
        }
        at = end + 1;
    }
    Some(messages.into_iter().map(|message| (message.at, message.into_line(arena))).collect())
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// A message whose pieces arrive.
struct Message<'a> {
    at: usize,
    /// The line of the first piece.
    line: &'a [u8],
    first: Option<ContainerPiece>,
    /// Lines of the other pieces, and whether each begins a line of the program.
    more: Vec<(&'a [u8], ContainerPiece, bool)>,
    /// Bytes of the texts.
    bytes: usize,
}

impl<'a> Message<'a> {
    fn begun_with(at: usize, line: &'a [u8], piece: ContainerPiece) -> Self {
        Self { at, line, bytes: piece.text.len(), first: Some(piece), more: Vec::new() }
    }

    fn push(&mut self, line: &'a [u8], piece: ContainerPiece, is_line: bool) {
        self.bytes += piece.text.len() + usize::from(is_line);
        self.more.push((line, piece, is_line));
    }

    /// The message in the format of its runtime, with the time of its first piece.
    fn into_line(self, arena: &'a Bump) -> &'a [u8] {
        let (Some(first), Some((last_line, last, _))) = (&self.first, self.more.last()) else {
            return self.line;
        };
        let mut out = Vec::with_capacity(self.bytes + 128);
        if first.mark.is_empty() {
            out.extend_from_slice(&self.line[..first.text.start]);
        } else {
            out.extend_from_slice(&self.line[..first.mark.start]);
            out.extend_from_slice(&last_line[last.mark.clone()]);
            out.push(b' ');
        }
        out.extend_from_slice(&self.line[first.text.clone()]);
        for (line, piece, is_line) in &self.more {
            // Docker's texts have their line ends.
            if *is_line && !first.mark.is_empty() {
                out.push(b'\n');
            }
            out.extend_from_slice(&line[piece.text.clone()]);
        }
        out.extend_from_slice(&self.line[first.text.end..]);
        arena.alloc_slice_copy(&out)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use weir_tables::LogFormat;

    use super::*;
    use crate::check::check_format;

    fn check(text: &str, expected: &Expect) {
        let arena = Bump::new();
        let lines = joined(text.as_bytes(), None, &arena).expect("a container's log");
        let lines =
            lines.iter().map(|(at, line)| format!("{at} {}\n", String::from_utf8_lossy(line)));
        expected.assert_eq(&lines.collect::<String>());
    }

    /// kubernetes/kubernetes#55922, splunk/splunk-connect-for-kubernetes#549 and, with streams that
    /// alternate, fluent/fluent-bit#4387.
    #[test]
    fn pieces_of_a_stream_become_one_line() {
        check(
            "2026-11-20T12:00:00.1Z stdout P {\"a\":\n2026-11-20T12:00:00.2Z stderr F between\n\
             2026-11-20T12:00:00.3Z stdout P  1,\n2026-11-20T12:00:00.4Z stdout F:x  \"b\": 2}\n\
             2026-11-20T12:00:00.5Z stdout F next\nno runtime's line\n",
            &expect![[r#"
                0 2026-11-20T12:00:00.1Z stdout F:x {"a": 1, "b": 2}
                38 2026-11-20T12:00:00.2Z stderr F between
                157 2026-11-20T12:00:00.5Z stdout F next
                194 no runtime's line
            "#]],
        );
    }

    /// moby/moby#34855 and #36777, docker/for-linux#1321.
    #[test]
    fn pieces_of_json_file_become_one_line() {
        check(
            "{\"log\":\"one \\\"\",\"stream\":\"stdout\",\"time\":\"2026-11-20T12:00:00.1Z\"}\r\n\
             {\"log\":\"x\\n\",\"stream\":\"stderr\",\"time\":\"2026-11-20T12:00:00.2Z\"}\n\
             {\"log\":\"two\\\"\\n\",\"stream\":\"stdout\",\"time\":\"2026-11-20T12:00:00.3Z\"}\n",
            &expect![[r#"
                0 {"log":"one \"two\"\n","stream":"stdout","time":"2026-11-20T12:00:00.1Z"}
                68 {"log":"x\n","stream":"stderr","time":"2026-11-20T12:00:00.2Z"}
            "#]],
        );
    }

    /// fluent/fluent-bit#4551: a trace of a program in a container.
    #[test]
    fn lines_of_an_event_are_one_text() {
        let cri = "2026-11-20T12:00:00.1Z stdout F";
        let text = format!("{cri} ERROR x\n{cri} \tat a.b\n{cri} next\n");
        let ends = [text.len() - cri.len() - 6, text.len()];
        let arena = Bump::new();
        let lines = joined(text.as_bytes(), Some(&ends), &arena).expect("a container's log");
        let lines = lines.iter().map(|(_, line)| String::from_utf8_lossy(line));
        assert_eq!(
            lines.collect::<Vec<_>>(),
            [format!("{cri} ERROR x\n\tat a.b"), format!("{cri} next")]
        );
    }

    #[test]
    fn other_logs_are_left_alone() {
        let arena = Bump::new();
        for text in ["", "\n", "a\n2026-11-20T12:00:00.1Z stdout P b\n", "{\"log\":\"a\"}\n"] {
            assert_eq!(joined(text.as_bytes(), None, &arena), None, "{text}");
        }
    }

    #[test]
    fn a_message_over_the_limit_goes_on_in_the_next() {
        let piece = format!("2026-11-20T12:00:00.1Z stdout P {}\n", "x".repeat(16 << 10));
        let arena = Bump::new();
        let text = piece.repeat(100);
        let lines = joined(text.as_bytes(), None, &arena).expect("a container's log");
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|(_, line)| line.len() <= MAX_JOINED_BYTES + 64));
        let length: usize = lines.iter().map(|(_, line)| line.len() - 32).sum();
        assert_eq!(length, 100 * (16 << 10));
    }

    #[test]
    fn a_joined_message_is_read_by_its_own_format() {
        check_format(
            LogFormat::Auto,
            "2026-11-20T12:00:00.1Z stdout P {\"level\":\"error\",\"msg\":\"payment \n\
             2026-11-20T12:00:00.2Z stderr F 192.0.2.1 - - [20/Nov/2026:12:00:00 +0000] \"GET /ok HTTP/1.1\" 200 5\n\
             2026-11-20T12:00:00.3Z stdout F refused\",\"order\":17}\n\
             2026-11-20T12:00:00.4Z stdout P no end\n",
            expect![[r#"
                request
                  ts: 2026-11-20T12:00:00Z
                  client_address: 192.0.2.1
                  http_request_method: GET
                  url_path: /ok
                  network_protocol_version: 1.1
                  http_response_status_code: 200
                  response_body_bytes: 5
                  attrs: {stream: stderr}
                log
                  ts: 2026-11-20T12:00:00.100Z
                  severity: error
                  body: payment refused
                  attrs: {order: 17, stream: stdout}
                log
                  ts: 2026-11-20T12:00:00.400Z
                  body: no end
                  attrs: {stream: stdout, is_partial: true}
            "#]],
        );
    }

    #[test]
    fn no_byte_is_lost_and_no_message_is_out_of_order() {
        arbtest::arbtest(|u| {
            let words = ["stdout P a", "stdout F b", "stderr P c", "stderr F d", "x", ""];
            let mut text = "2026-11-20T12:00:00Z stdout F a\n".to_owned();
            let mut letters = 1;
            for _ in 0..u.int_in_range(0..=30)? {
                let word = u.choose(&words)?;
                letters += usize::from(word.len() > 1);
                text += &if word.len() > 1 {
                    format!("2026-11-20T12:00:00Z {word}\n")
                } else {
                    format!("{word}\n")
                };
            }
            let arena = Bump::new();
            let lines = joined(text.as_bytes(), None, &arena).expect("a container's log");
            assert!(lines.is_sorted_by_key(|(at, _)| *at));
            let texts = lines
                .iter()
                .filter_map(|(_, line)| ContainerPiece::of(line).map(|piece| piece.text.len()));
            assert_eq!(texts.sum::<usize>(), letters);
            Ok(())
        });
    }
}
