//! Records of the Linux audit subsystem, as auditd writes them, and as the kernel
//! logs them without it.
//!
//! Sources: auditd.conf(5), and the documentation of linux-audit about event parsing and enrichment.
//! A value that a user can choose is in quotes, or in hexadecimal digits if it has blanks or
//! quotes; such values are decoded. The names that auditd adds to enriched records follow a
//! group separator, sometimes without a blank.
//!
//! ```text
//! type=SYSCALL msg=audit(1795176000.123:456): syscall=59 pid=7 comm="rm"␝SYSCALL=execve
//! node=web1 type=USER_AUTH msg=audit(1795176000.123:457): pid=7 msg='op=PAM:auth res=failed'
//! audit: type=1400 audit(1795176000.123:458): apparmor="DENIED" pid=7 comm="nginx"
//! ```

use weir_values::number;

use crate::field::Field;
use crate::record::Record;
use crate::text;

/// Boundary of the names that auditd adds.
const GROUP_SEPARATOR: char = '\u{1d}';
/// Values that are hexadecimal where they are not in quotes.
const ENCODED: [&str; 10] =
    ["proctitle", "comm", "exe", "cwd", "name", "cmd", "acct", "data", "path", "unit"];

/// Reads a record; `None`, with the record empty, if the line is none.
pub(crate) fn parse<'a>(line: &'a str, record: &mut Record<'a>) -> Option<()> {
    let rest = match line.as_bytes() {
        [b't', b'y', b'p', b'e', b'=', ..] | [b'n', b'o', b'd', b'e', b'=', ..] => line,
        [b'a', b'u', b'd', b'i', b't', b':' | b'(', ..] => line,
        [b'[', b' ' | b'0'..=b'9', ..] => behind_uptime(line, record)?,
        _ => return None,
    };
    let outcome = stamped(rest, record);
    if outcome.is_none() {
        record.clear_texts();
    }
    outcome
}

/// The text behind the kernel's own stamp, `[ 12.345678] `, if a record follows.
fn behind_uptime<'a>(line: &'a str, record: &mut Record<'a>) -> Option<&'a str> {
    let (uptime, rest) = line[1..].split_once("] ")?;
    let is_record = rest.starts_with("audit: ") && number::seconds(uptime.trim_ascii()).is_some();
    if !is_record {
        return None;
    }
    record.attr(["kernel_uptime_seconds", uptime.trim_ascii()]);
    Some(rest)
}

/// `type=NAME msg=audit(seconds:serial): values`.
fn stamped<'a>(line: &'a str, record: &mut Record<'a>) -> Option<()> {
    let (head, rest) = line.split_once("audit(")?;
    let (stamp, values) = rest.split_once(')')?;
    let (time, serial) = stamp.rsplit_once(':')?;
    let values = values.trim_start_matches([' ', ':']);
    number::integer(serial)?;
    record.ts = Some(record.times.read(time)?);
    let mut kind = "";
    for word in head.split(' ') {
        match word.split_once('=') {
            Some(("type", name)) => kind = name,
            Some(("node", name)) => record.attr(["node", name]),
            _ => {}
        }
    }
    if line.starts_with("type=") || line.starts_with("node=") {
        record.log.program = Some("auditd");
    }
    record.attr(["audit_type", kind]);
    record.attr(["audit_serial", serial]);
    put_values(values, kind, record);
    record.log.body = line;
    Some(())
}

/// Puts the values of a record. Words that are no pairs stay in the text alone, except the decision
/// of SELinux. Single quotes within single quotes hold no pairs, so that no line nests deeply.
fn put_values<'a>(values: &'a str, kind: &str, record: &mut Record<'a>) {
    let mut rest = values;
    if let Some(decision) = values.strip_prefix("avc:")
        && let Some((decision, behind)) = decision.split_once(" for ")
    {
        record.attr(["avc", decision.trim_ascii()]);
        rest = behind;
    }
    let mut outer = None;
    loop {
        let Some(pair) = next_pair(rest) else {
            match outer.take() {
                Some(text) => rest = text,
                None => return,
            }
            continue;
        };
        rest = pair.behind;
        match pair.value {
            AuditValue::Nested(inner) if outer.is_none() => {
                outer = Some(rest);
                rest = inner;
            }
            AuditValue::Nested(value) | AuditValue::Quoted(value) => record.attr([pair.key, value]),
            AuditValue::Bare(value) => put_bare([pair.key, value], kind, record),
        }
    }
}

/// Puts a value without quotes, decoded where its key says that it may be encoded.
fn put_bare<'a>([key, value]: [&'a str; 2], kind: &str, record: &mut Record<'a>) {
    let is_encoded = kind == "EXECVE" && is_argument(key) || ENCODED.contains(&key);
    let decoded = if is_encoded { decoded(value, record) } else { None };
    let field = if key == "pid" { Field::ProcessId } else { Field::Attr };
    record.put([key, decoded.unwrap_or(value)], field);
}

/// `a0` to `a99999`, the arguments of a command.
fn is_argument(key: &str) -> bool {
    let digits = key.strip_prefix('a').unwrap_or("");
    (1..=5).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// A value as it is written.
enum AuditValue<'a> {
    Bare(&'a str),
    Quoted(&'a str),
    /// Pairs of a program in user space, in single quotes.
    Nested(&'a str),
}

/// A pair and the text behind it.
struct AuditPair<'a> {
    key: &'a str,
    value: AuditValue<'a>,
    behind: &'a str,
}

/// The next pair of a text, with the words before it skipped.
fn next_pair(text: &str) -> Option<AuditPair<'_>> {
    let at = memchr::memchr_iter(b'=', text.as_bytes()).find_map(|at| {
        let key = key_before(&text[..at]);
        (!key.is_empty()).then_some((key, at + 1))
    });
    let (key, start) = at?;
    let rest = &text[start..];
    let (value, behind) = if let Some(quoted) = rest.strip_prefix('"') {
        let (value, behind) = quoted.split_once('"')?;
        (AuditValue::Quoted(value), behind)
    } else if let Some(quoted) = rest.strip_prefix('\'') {
        let own = quoted.split(GROUP_SEPARATOR).next().unwrap_or(quoted);
        let end = own.rfind('\'')?;
        (AuditValue::Nested(&own[..end]), &quoted[end + 1..])
    } else {
        let end = rest.find([' ', '\n', GROUP_SEPARATOR]).unwrap_or(rest.len());
        (AuditValue::Bare(rest[..end].trim_end_matches([',', ')'])), &rest[end..])
    };
    // `(null)` and `(none)` are values.
    let value = match value {
        AuditValue::Bare(bare) if bare.starts_with('(') => {
            AuditValue::Bare(&rest[..bare.len() + usize::from(rest[bare.len()..].starts_with(')'))])
        }
        value => value,
    };
    Some(AuditPair { key, value, behind })
}

/// The name that ends a text.
fn key_before(text: &str) -> &str {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let length = text.bytes().rev().take_while(|byte| is_name(*byte)).count();
    &text[text.len() - length..]
}

/// The text of hexadecimal digits, where a NUL separates arguments; `None` if they are none.
fn decoded<'a>(digits: &str, record: &mut Record<'a>) -> Option<&'a str> {
    let is_hex = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'F'));
    if !is_hex || digits.is_empty() || !digits.len().is_multiple_of(2) {
        return None;
    }
    let pairs = (0..digits.len()).step_by(2).map(|at| &digits[at..at + 2]);
    let bytes: Option<Vec<u8>> = pairs.map(|pair| u8::from_str_radix(pair, 16).ok()).collect();
    let mut bytes = bytes?;
    bytes.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b' ');
    let bytes = record.arena.alloc_slice_copy(&bytes);
    Some(text::lossless(bytes, "\\x", record.arena).0)
}
