//! The newest line with a mark before a position: lines such as `#Fields:` change how the rest of a
//! file is read, and a restarted agent begins behind them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use memchr::memmem;

/// Bytes before the position that are searched.
const SEARCHED_BYTES: u64 = 64 << 20;
/// Bytes read at a time.
const BLOCK_BYTES: u64 = 256 << 10;
/// Longest line.
const LINE_BYTES: u64 = 64 << 10;

/// The newest whole line of a file that begins with `mark` and ends before the offset `end`, with
/// its line end, among the last 64 MiB before `end`. `None` without one, or if the file is unreadable.
pub fn earlier_line(path: &Path, mark: &str, end: u64) -> Option<Vec<u8>> {
    let file = weir_access::open(path).ok()?;
    let finder = memmem::FinderRev::new(mark.as_bytes());
    let (mut to, first) = (end, end.saturating_sub(SEARCHED_BYTES));
    while to > first {
        // One byte more shows whether the mark begins a line.
        let from = to.saturating_sub(BLOCK_BYTES).max(first);
        let block = read(&file, from.saturating_sub(1)..(to + mark.len() as u64).min(end))?;
        let mut rest = block.as_slice();
        while let Some(at) = finder.rfind(rest) {
            let offset = from.saturating_sub(1) + at as u64;
            let begins_line = if at == 0 { offset == 0 } else { block[at - 1] == b'\n' };
            let line = begins_line.then(|| read(&file, offset..(offset + LINE_BYTES).min(end)));
            let length = line.iter().flatten().find_map(|line| memchr::memchr(b'\n', line));
            if let (Some(Some(mut line)), Some(length)) = (line, length) {
                line.truncate(length + 1);
                return Some(line);
            }
            rest = &block[..at];
        }
        to = from;
    }
    None
}

fn read(file: &File, range: std::ops::Range<u64>) -> Option<Vec<u8>> {
    let length = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, range.start).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, end: usize) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        std::fs::write(&path, text).unwrap();
        let line = earlier_line(&path, "#Fields:", u64::try_from(end).unwrap())?;
        Some(String::from_utf8(line).unwrap())
    }

    #[test]
    fn newest_line_before_the_position_is_found() {
        let text = "#Fields: a\n1\nno #Fields: x\n#Fields: b\n2\n#Fields: c\n";
        assert_eq!(found(text, text.len()).as_deref(), Some("#Fields: c\n"));
        // Not a line that is torn at the position, and not the mark inside of another one.
        assert_eq!(found(text, text.len() - 1).as_deref(), Some("#Fields: b\n"));
        let second = text.find("#Fields: b").unwrap();
        for end in [11, second, second + 5] {
            assert_eq!(found(text, end).as_deref(), Some("#Fields: a\n"), "{end}");
        }
        for end in [0, 5, 10] {
            assert_eq!(found(text, end), None, "{end}");
        }
        assert_eq!(found("plain\n", 6), None);
        // A position behind the end is that of another file.
        assert_eq!(found(text, 1000), None);
    }

    /// The mark lies on every offset around the edge of a block.
    #[test]
    fn line_over_the_edge_of_a_block_is_found() {
        let block = usize::try_from(BLOCK_BYTES).unwrap();
        for behind in block - 20..block + 20 {
            let text = format!("x\n#Fields: b\n{}\n", "y".repeat(behind));
            assert_eq!(found(&text, text.len()).as_deref(), Some("#Fields: b\n"), "{behind}");
        }
        assert!(earlier_line(Path::new("/nonexistent"), "#", 5).is_none());
    }
}
