//! Lines of unknown format: the body is the whole line; a leading time and a severity word are
//! read.

use weir_tables::Micros;
use weir_values::{peer_address, severity};

use crate::format::{LineFormat, NamedFormat};
use crate::record::{Record, RowKind};
use crate::text;

/// Leading words that are checked for a severity.
const FRONT_WORDS: usize = 3;

pub(crate) const FORMAT: NamedFormat = NamedFormat {
    name: "text",
    new: || {
        Box::new(LineFormat {
            name: "text",
            parse: |line, record| {
                parse(line, record);
                Ok(RowKind::Log)
            },
        })
    },
};

/// Reads a line.
pub(crate) fn parse<'a>(line: &'a str, record: &mut Record<'a>) {
    record.log.body = line;
    let known = redis(line, record).or_else(|| varnish(line, record));
    if known.or_else(|| sssd(line, record)).is_some() {
        return;
    }
    let front = front(line);
    if let Some((ts, used)) = record.times.read_any_front(front) {
        record.ts = Some(ts);
        record.log.severity = severity_at_front(&front[used..]);
    } else if let Some((ts, behind)) = time_behind_word(line, record) {
        record.ts = Some(ts);
        record.log.severity = severity_at_front(line).or_else(|| severity_at_front(behind));
    } else {
        record.log.severity = severity_at_front(line);
    }
}

/// Redis and Valkey: process, role, time and level, `812:M 20 Nov 2026 12:00:00.123 # text`.
fn redis(line: &str, record: &mut Record<'_>) -> Option<()> {
    let (process, rest) = line.split_once(':')?;
    let rest = rest.strip_prefix(['M', 'S', 'C', 'X'])?.strip_prefix(' ')?;
    let is_process = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
    let (ts, used) = record.times.read_any_front(rest).filter(|_| is_process)?;
    let severity = match rest[used..].trim_start_matches(' ').as_bytes() {
        [b'#', b' ', ..] => "warn",
        [b'*', b' ', ..] => "notice",
        [b'-', b' ', ..] => "info",
        [b'.', b' ', ..] => "debug",
        _ => return None,
    };
    (record.ts, record.log.severity) = (Some(ts), Some(severity));
    Some(())
}

/// A transaction of `varnishlog`, `**  << BeReq    >> 3`, whose first time is in `Start: 1795176000.1`.
fn varnish(line: &str, record: &mut Record<'_>) -> Option<()> {
    let behind = line.strip_prefix('*')?.trim_start_matches(['*', ' ']).strip_prefix("<< ")?;
    let start = behind.split_once("Start: ").map(|(_, rest)| text::word(rest).0);
    record.ts = start.and_then(|time| record.times.read(time));
    record.log.program = Some("varnishd");
    Some(())
}

/// SSSD's `(2026-11-20 12:00:00): [be[a.example]] [function] (0x0020): text`; the mask is the level.
fn sssd(line: &str, record: &mut Record<'_>) -> Option<()> {
    let (time, rest) = line.strip_prefix('(')?.split_once(')')?;
    let (_, mask) = rest.trim_start_matches([':', ' ']).strip_prefix('[')?.split_once(" (0x")?;
    let severity = match mask.get(..4)? {
        "0010" | "0020" => "critical",
        "0040" => "error",
        "0080" => "warn",
        "0100" => "info",
        "0200" | "0400" => "debug",
        _ => "trace",
    };
    record.ts = Some(record.times.read(time)?);
    (record.log.severity, record.log.program) = (Some(severity), Some("sssd"));
    Some(())
}

/// A time behind a first word that is a level (`INFO  [2026-11-20 …]`, logrus' `WARN[2026-11-20…]`,
/// Cassandra's `INFO  [main] 2026-11-20 …`), an address, or ends in a colon (Go's prefix), and the text
/// behind it; also behind NestJS' `[Nest] 7  - `.
fn time_behind_word<'a>(line: &'a str, record: &Record<'a>) -> Option<(Micros, &'a str)> {
    let (word, behind) = text::word(line);
    if let Some((_, behind)) = line.split_once('[').filter(|(level, _)| capitals(level).is_some())
        && let Some((ts, used)) = record.times.read_front(behind)
    {
        return Some((ts, &behind[used..]));
    }
    if word == "[Nest]" {
        let (_, behind) = behind.split_once(" - ")?;
        let (ts, used) = record.times.read_any_front(behind)?;
        return Some((ts, &behind[used..]));
    }
    let number = word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    // A process, as NATS writes it.
    let is_process = number.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    let is_client = || word.contains(['.', ':']) && peer_address::is_peer(word);
    if !word.ends_with(':') && level_of(word).is_none() && !is_process && !is_client() {
        return None;
    }
    let behind = behind.trim_start_matches(' ');
    let front = front(behind);
    let behind_thread = || behind.strip_prefix('[')?.split_once("] ").map(|(_, rest)| rest);
    let found = |text: &'a str| record.times.read_front(text).map(|(ts, used)| (ts, &text[used..]));
    found(front).or_else(|| found(behind_thread()?))
}

/// The severity of a line whose time is known otherwise.
pub(crate) fn severity_of(line: &str, record: &Record<'_>) -> Option<&'static str> {
    let front = front(line);
    let used = record.times.read_any_front(front).map_or(0, |(_, used)| used);
    severity_at_front(&front[used..])
}

/// A line without the marks that some programs write before the time (`[`, WebLogic's `####<`, Ruby's
/// `I, [`).
fn front(line: &str) -> &str {
    if let [b'D' | b'I' | b'W' | b'E' | b'F' | b'A', b',', b' ', b'[', ..] = line.as_bytes() {
        return &line[4..];
    }
    line.strip_prefix("####<").or_else(|| line.strip_prefix('[')).unwrap_or(line)
}

/// A severity in capitals (`WARN`, `INFO:`, `WARN[0012]`, `app.ERROR:`), in brackets (`[error]`,
/// `<Error>`), or before a colon at the start (`error: …`); elsewhere such words are prose in lower
/// case.
fn severity_at_front(text: &str) -> Option<&'static str> {
    let text = text.trim_start_matches([']', ' ']);
    // PHP-FPM's, for what PHP wrote.
    let text = text.strip_prefix("NOTICE: PHP message: ").unwrap_or(text);
    if let Some(severity) = severity::of_php(text) {
        return Some(severity);
    }
    // `[ info] ` of Fluent Bit, `[info     ] ` of structlog.
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let padded = bracketed.filter(|(level, _)| level.trim_ascii().len() < level.len());
    // NLog's `|Warn|`.
    let barred = text.strip_prefix('|').and_then(|rest| rest.split_once('|'));
    if let Some(severity) = padded.or(barred).and_then(|(level, _)| level_word(level)) {
        return Some(severity);
    }
    // `12][error][config] ` of Envoy.
    let first = text::word(text).0;
    let mut chain = first.split("][").filter(|_| first.contains("]["));
    if let Some(severity) = chain.find_map(|part| severity_of_part(bare(part))) {
        return Some(severity);
    }
    // BIND's `queries: info: `, Unbound's `unbound[7:0] info: `, Dovecot's `imap-login: Info: `.
    let is_tag = first.ends_with([':', ']']);
    let second = text[first.len()..].trim_start().split(' ').next().filter(|_| is_tag);
    if let Some(severity) =
        [Some(first), second].into_iter().flatten().find_map(severity_before_colon)
    {
        return Some(severity);
    }
    let words = text.split_ascii_whitespace().filter(|word| !bare(word).is_empty());
    let found = words.take(FRONT_WORDS).find_map(level_of).or_else(|| severity_of_letter(text));
    found.or_else(|| severity::of_postgresql(text))
}

/// A level between brackets or bars; a number there is a process.
fn level_word(level: &str) -> Option<&'static str> {
    let level = level.trim_ascii();
    severity::of_word(level).filter(|_| !level.starts_with(|digit: char| digit.is_ascii_digit()))
}

/// The level that a word in lower case with a colon is: winston's `error:`, .NET's `fail:`.
fn severity_before_colon(word: &str) -> Option<&'static str> {
    // Varnish's `Error:`.
    match word.strip_suffix(':')? {
        "Debug" => Some("debug"),
        "Info" => Some("info"),
        "Notice" => Some("notice"),
        "Warning" => Some("warn"),
        "Error" => Some("error"),
        "Critical" | "Fatal" => Some("critical"),
        "panic" => Some("critical"),
        "fail" => Some("error"),
        level @ ("trace" | "trce" | "verbose" | "debug" | "dbug" | "info" | "notice" | "warn"
        | "warning" | "err" | "error" | "crit" | "critical" | "fatal") => severity::of_word(level),
        _ => None,
    }
}

fn bare(word: &str) -> &str {
    word.trim_matches(['[', ']', ':', '<', '>', '-', '|', ','])
}

fn is_word(text: &str) -> bool {
    text.len() >= 3 && text.bytes().all(|byte| byte.is_ascii_alphabetic())
}

fn severity_of_part(part: &str) -> Option<&'static str> {
    if is_word(part) { severity::of_word(part) } else { None }
}

/// The severity of a word in brackets or capitals, also before or behind other parts of it:
/// `WARNING:root:text`, `[7]INFO:app:text`, `WARN[0012]`, `ERROR/MainProcess]`, `app.ERROR:`.
fn level_of(word: &str) -> Option<&'static str> {
    // Telegraf's.
    if let [b'E' | b'W' | b'I' | b'D', b'!'] = word.as_bytes() {
        return severity::of_mongodb(&word[..1]);
    }
    // Stunnel's `LOG3[28228:1]:`.
    if let [b'L', b'O', b'G', digit @ b'0'..=b'7', b'[', ..] = word.as_bytes() {
        return severity::of_syslog(i64::from(digit - b'0'));
    }
    let bare = bare(word);
    let word = word.strip_suffix(':').filter(|word| word.ends_with(']')).unwrap_or(word);
    let is_bracketed = (word.starts_with('[') && word.ends_with(']'))
        || (word.starts_with('<') && word.ends_with('>'));
    if is_bracketed && is_word(bare) {
        return severity::of_word(bare);
    }
    let parts = bare.split([':', '/', '[', ']', '(']).take(2);
    let channel = word.strip_suffix(':').and_then(|name| name.rsplit_once('.'));
    parts.chain(channel.map(|(_, level)| level)).find_map(capitals)
}

/// The letter of MongoDB before 4.4: `I CONTROL  [initandlisten] text`.
fn severity_of_letter(text: &str) -> Option<&'static str> {
    let mut words = text.split_ascii_whitespace();
    let (level, component, context) = (words.next()?, words.next()?, words.next()?);
    // Old etcd's `W | `, Gluster's `E [MSGID: 1] `.
    if component == "|" || component == "[MSGID:" {
        return severity::of_mongodb(level);
    }
    let is_component =
        component.bytes().all(|byte| byte.is_ascii_uppercase() || b"-_".contains(&byte));
    if !is_component || !context.starts_with('[') {
        return None;
    }
    severity::of_mongodb(level)
}

fn capitals(word: &str) -> Option<&'static str> {
    let is_word = word.len() >= 3 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    if is_word { severity::of_word(word) } else { None }
}
