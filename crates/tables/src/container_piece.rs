//! Lines that container runtimes write: the CRI's `2026-11-20T12:00:00.1Z stdout P text` and
//! `{"log":"text","stream":"stdout","time":"…"}` of Docker's `json-file`.
//!
//! From Kubernetes' CRI log format and Docker's `jsonfilelog`. Both split a message of more than
//! 16 KiB into pieces: the CRI marks all but the last with `P`, Docker leaves out their line ends.
//! Pieces of the two streams of a container can alternate.

use std::ops::Range;

/// Standard output or standard error of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A line of a container's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerPiece {
    /// Which of the two streams it belongs to.
    pub stream: ContainerStream,
    /// Whether the message goes on in the next line of the same stream.
    pub is_partial: bool,
    /// Byte range of the text in the line; in Docker's lines with JSON's escapes.
    pub text: Range<usize>,
    /// Byte range of the CRI's mark, `P` or `F` with tags; empty in Docker's lines and in those of
    /// CRI-O before 1.10.
    pub mark: Range<usize>,
}

impl ContainerPiece {
    /// Reads a line without its line end; `None` if no runtime wrote it.
    pub fn of(line: &[u8]) -> Option<Self> {
        if line.first() == Some(&b'{') { of_docker(line) } else { of_cri(line) }
    }
}

/// Shortest and longest time of the CRI: from whole seconds in UTC to nanoseconds with an offset.
const CRI_TIME_BYTES: Range<usize> = 20..36;

fn of_cri(line: &[u8]) -> Option<ContainerPiece> {
    let front = &line[..line.len().min(CRI_TIME_BYTES.end)];
    let time_end = memchr::memchr(b' ', front)?;
    let is_time = CRI_TIME_BYTES.contains(&time_end)
        && line[..4].iter().all(u8::is_ascii_digit)
        && (line[4], line[10], line[13]) == (b'-', b'T', b':');
    if !is_time {
        return None;
    }
    let rest = &line[time_end + 1..];
    let stream = match rest.get(..7)? {
        b"stdout " => ContainerStream::Stdout,
        b"stderr " => ContainerStream::Stderr,
        _ => return None,
    };
    let mark_start = time_end + 8;
    let mark_length = line[mark_start..].iter().position(|byte| *byte == b' ');
    let mark_end = mark_start + mark_length.unwrap_or(line.len() - mark_start);
    let tag = line[mark_start..mark_end].split(|byte| *byte == b':').next().unwrap_or_default();
    let is_partial = tag == b"P";
    if !is_partial && tag != b"F" {
        let text = mark_start..line.len();
        let mark = mark_start..mark_start;
        return Some(ContainerPiece { stream, is_partial: false, text, mark });
    }
    let text = (mark_end + 1).min(line.len())..line.len();
    Some(ContainerPiece { stream, is_partial, text, mark: mark_start..mark_end })
}

fn of_docker(line: &[u8]) -> Option<ContainerPiece> {
    const FRONT: &[u8] = br#"{"log":""#;
    const BEHIND: &[u8] = br#"","stream":"std"#;
    if !line.starts_with(FRONT) || !line.ends_with(b"}") {
        return None;
    }
    // Keys behind the text are short, and a quote inside of a text is escaped.
    let end = memchr::memmem::rfind(line, BEHIND).filter(|end| *end >= FRONT.len())?;
    let stream = match line.get(end + BEHIND.len()..end + BEHIND.len() + 4)? {
        b"out\"" => ContainerStream::Stdout,
        b"err\"" => ContainerStream::Stderr,
        _ => return None,
    };
    let text = FRONT.len()..end;
    let bytes = &line[text.clone()];
    let slashes = bytes.strip_suffix(b"n").unwrap_or_default();
    let slashes = slashes.iter().rev().take_while(|byte| **byte == b'\\').count();
    Some(ContainerPiece { stream, is_partial: slashes % 2 == 0, text, mark: 0..0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, stream: ContainerStream, is_partial: bool, text: &str) {
        let piece = ContainerPiece::of(line.as_bytes()).expect(line);
        assert_eq!((piece.stream, piece.is_partial), (stream, is_partial), "{line}");
        assert_eq!(&line[piece.text], text, "{line}");
    }

    #[test]
    fn marks_and_missing_line_ends_are_pieces() {
        use ContainerStream::{Stderr, Stdout};
        check("2026-11-20T12:00:00.123456789Z stdout P a b", Stdout, true, "a b");
        check("2026-11-20T12:00:00.123456789+01:00 stderr F:x text", Stderr, false, "text");
        check("2026-11-20T12:00:00Z stderr P:x:y ", Stderr, true, "");
        check("2026-11-20T12:00:00.1Z stdout F", Stdout, false, "");
        check("2026-11-20T12:00:00.1Z stdout Further text", Stdout, false, "Further text");
        let docker = r#"{"log":"a\n","stream":"stdout","time":"2026-11-20T12:00:00Z"}"#;
        check(docker, Stdout, false, "a\\n");
        let docker = r#"{"log":"a \"b\\n","stream":"stderr","attrs":{"a":"b"},"time":"x"}"#;
        check(docker, Stderr, true, r#"a \"b\\n"#);
        check(r#"{"log":"","stream":"stdout"}"#, Stdout, true, "");
    }

    #[test]
    fn other_lines_are_none() {
        for line in [
            "",
            "2026-11-20T12:00:00.1Z",
            "2026-11-20T12:00:00.1Z info P a",
            "2026-11-20 12:00:00.1Z stdout P a",
            r#"{"log":"a","level":"info"}"#,
            r#"{"log":"a","stream":"stdin"}"#,
            r#"{"message":"a","stream":"stdout"}"#,
        ] {
            assert_eq!(ContainerPiece::of(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic() {
        let seeds = [
            &b"2026-11-20T12:00:00.1Z stdout P a"[..],
            br#"{"log":"a\n","stream":"stdout","time":"x"}"#,
        ];
        for seed in seeds {
            for at in 0..seed.len() {
                for byte in [0, b' ', b'"', b'\\', b':', 0xff] {
                    let mut line = seed.to_vec();
                    line[at] = byte;
                    for end in 0..=line.len() {
                        let piece = ContainerPiece::of(&line[..end]);
                        assert!(piece.is_none_or(|piece| piece.text.end <= end));
                    }
                }
            }
        }
    }
}
