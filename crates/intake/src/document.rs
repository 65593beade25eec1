//! What is needed of a JSON document before the parser reads it: whose host it is, and which file it came from.
//!
//! Fields of the Elastic Common Schema (`host.name`, `log.file.path`), flat and nested, and the plain names of other shippers.

use memchr::memmem;
use sonic_rs::JsonValueTrait;

/// Hosts and paths longer than this are no names.
const MAX_NAME_BYTES: usize = 255;

const HOSTS: &[&[&str]] = &[
    &["host", "name"],
    &["host", "hostname"],
    &["host.name"],
    &["host"],
    &["hostname"],
    &["host_name"],
    &["kubernetes", "node", "name"],
    &["agent", "hostname"],
];

const FILES: &[&[&str]] = &[&["log", "file", "path"], &["log.file.path"], &["file"], &["filename"]];

/// The host that a document names.
pub(crate) fn host(document: &[u8]) -> Option<String> {
    // One look at the bytes spares documents without a host eight looks at their structure.
    memmem::find(document, b"host")?;
    first(document, HOSTS)
}

/// The file that a document says it was read from.
pub(crate) fn file(document: &[u8]) -> Option<String> {
    memmem::find(document, b"file")?;
    first(document, FILES).filter(|path| path.starts_with('/'))
}

fn first(document: &[u8], paths: &[&[&str]]) -> Option<String> {
    paths.iter().find_map(|path| {
        let value = sonic_rs::get_from_slice(document, path.iter()).ok()?;
        let text = value.as_str()?;
        let is_name = !text.is_empty()
            && text.len() <= MAX_NAME_BYTES
            && !text.contains(|letter: char| letter.is_control());
        is_name.then(|| text.to_owned())
    })
}

/// Whether bytes begin like a JSON object.
pub(crate) fn is_object(bytes: &[u8]) -> bool {
    let inner = bytes.trim_ascii_start().strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
    matches!(inner, Some([b'"' | b'}', ..]))
}

/// Whether a line looks like one of an access log in the combined format.
pub(crate) fn is_access_line(line: &[u8]) -> bool {
    line.first().is_some_and(u8::is_ascii_hexdigit)
        && memmem::find(&line[..line.len().min(1024)], b"] \"").is_some()
        && memmem::find(line, b" [").is_some()
}

/// The severity that a word says, as the column `severity` has it.
pub(crate) fn severity(word: &str) -> Option<&'static str> {
    let words = [
        ("trace", "trace"),
        ("debug", "debug"),
        ("info", "info"),
        ("information", "info"),
        ("notice", "notice"),
        ("warn", "warn"),
        ("warning", "warn"),
        ("error", "error"),
        ("err", "error"),
        ("critical", "critical"),
        ("crit", "critical"),
        ("fatal", "critical"),
        ("alert", "alert"),
        ("emergency", "emergency"),
    ];
    words.iter().find(|(known, _)| word.eq_ignore_ascii_case(known)).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_found_nested_flat_and_plain() {
        let check = |document: &str| host(document.as_bytes());
        let web1 = Some("web1".to_owned());
        assert_eq!(check(r#"{"message":"a","host":{"name":"web1","ip":["::1"]}}"#), web1);
        assert_eq!(check(r#"{"host.name":"web1"}"#), web1);
        assert_eq!(check(r#"{"host":"web1"}"#), web1);
        assert_eq!(check(r#"{"hostname":"web1"}"#), web1);
        assert_eq!(check(r#"{"message":"no such host"}"#), None);
        assert_eq!(check(r#"{"host":7}"#), None);
        assert_eq!(check(r#"{"host":""}"#), None);
        assert_eq!(check(r#"{"host":"a\nb"}"#), None);
        assert_eq!(check(r#"{"host": "#), None);
    }

    #[test]
    fn the_file_is_a_path() {
        let check = |document: &str| file(document.as_bytes());
        let path = Some("/var/log/a.log".to_owned());
        assert_eq!(check(r#"{"log":{"file":{"path":"/var/log/a.log"}}}"#), path);
        assert_eq!(check(r#"{"file":"main.rs"}"#), None);
    }

    #[test]
    fn any_bytes_are_looked_at_without_a_panic() {
        arbtest::arbtest(|u| {
            let mut bytes = br#"{"host":{"name":"web1"},"log":{"file":{"path":"/a"}}}"#.to_vec();
            let at = u.choose_index(bytes.len())?;
            bytes[at] = u.arbitrary()?;
            bytes.truncate(u.int_in_range(0..=bytes.len())?);
            let _ = (host(&bytes), file(&bytes), is_object(&bytes));
            Ok(())
        });
    }
}
