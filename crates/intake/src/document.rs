//! Host and file of a JSON document, found before the parser reads it.
//!
//! Knows the Elastic Common Schema (`host.name`, `log.file.path`), flat and nested, and the plain
//! names of other shippers.

use memchr::memmem;
use sonic_rs::JsonValueTrait;

/// Longest host or path that is accepted as a name.
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
    // A cheap search first, because most documents have no host and the paths are slow to check.
    memmem::find(document, b"host")?;
    first(document, HOSTS)
}

/// The file in a document.
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

/// Appends a JSON object without its line ends: between values they are white space, and in a text,
/// where JSON does not allow them, they are escaped.
pub(crate) fn push_in_one_line(object: &[u8], out: &mut Vec<u8>) {
    if memchr::memchr(b'\n', object).is_none() {
        return out.extend_from_slice(object);
    }
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in object {
        match byte {
            b'\n' if is_text => out.extend_from_slice(b"\\n"),
            b'\n' => out.push(b' '),
            other => out.push(*other),
        }
        is_text ^= *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
    }
}

/// Whether bytes start like a JSON object.
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

/// Whether a text may be a line that the parser reads into columns: an access line, an error line of
/// nginx or Apache, or pairs.
pub(crate) fn may_have_format(line: &[u8]) -> bool {
    let is_nginx = line.get(4) == Some(&b'/') && line.get(19..21) == Some(b" [");
    let is_apache = line.first() == Some(&b'[') && line.get(4) == Some(&b' ');
    let has_level =
        ["level=", "lvl="].iter().any(|key| memmem::find(line, key.as_bytes()).is_some());
    is_access_line(line) || is_nginx || is_apache || has_level
}

/// The value of the column `severity` for a word.
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
        for document in [
            r#"{"message":"a","host":{"name":"web1","ip":["::1"]}}"#,
            r#"{"host.name":"web1"}"#,
            r#"{"host":"web1"}"#,
            r#"{"hostname":"web1"}"#,
        ] {
            assert_eq!(host(document.as_bytes()).as_deref(), Some("web1"), "{document}");
        }
        for document in [
            r#"{"message":"no such host"}"#,
            r#"{"host":7}"#,
            r#"{"host":""}"#,
            r#"{"host":"a\nb"}"#,
            r#"{"host": "#,
        ] {
            assert_eq!(host(document.as_bytes()), None, "{document}");
        }
    }

    /// Kibana's console sends documents over several lines (elastic/elasticsearch#7299).
    #[test]
    fn a_document_of_several_lines_becomes_one() {
        let mut out = Vec::new();
        push_in_one_line(b"{\n  \"a\": \"b\\\"\nc\",\n  \"d\": 1\n}", &mut out);
        assert_eq!(out, b"{   \"a\": \"b\\\"\\nc\",   \"d\": 1 }");
    }

    #[test]
    fn the_file_is_a_path() {
        let document = br#"{"log":{"file":{"path":"/var/log/a.log"}}}"#;
        assert_eq!(file(document).as_deref(), Some("/var/log/a.log"));
        assert_eq!(file(br#"{"file":"main.rs"}"#), None);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic() {
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
