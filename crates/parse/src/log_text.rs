//! Lines of unknown format: the body is the whole line; a leading time and a severity word are
//! read.

use weir_tables::Micros;
use weir_values::{number, peer_address, severity};

use crate::format::{LineFormat, NamedFormat};
use crate::record::{Record, RowKind};
use crate::text;

/// Leading words that are checked for a severity.
const FRONT_WORDS: usize = 3;
/// Leading words that are checked for a severity in capitals before a colon.
const LATE_WORDS: usize = 5;

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
    let known = known.or_else(|| sssd(line, record)).or_else(|| zabbix(line, record));
    if known.is_some() {
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
    record.log.process_id = number::integer(process);
    Some(())
}

/// Zabbix: process, date and clock, `  812:20261120:120000.123 text`.
fn zabbix(line: &str, record: &mut Record<'_>) -> Option<()> {
    let (process, rest) = line.trim_start_matches(' ').split_once(':')?;
    let (time, _) = text::word(rest);
    let (date, clock) = time.split_once(':').filter(|(date, clock)| {
        [process, date].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
            && (date.len(), clock.len()) == (8, 10)
            && clock.is_ascii()
    })?;
    let time = format!("{date} {}:{}:{}", &clock[..2], &clock[2..4], &clock[4..]);
    record.ts = Some(record.times.read(&time)?);
    record.log.process_id = number::integer(process);
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
    // Tornado's `[W 261120 12:00:00 web:2348] `.
    if let [b'[', b'D' | b'I' | b'W' | b'E' | b'C'] = word.as_bytes()
        && let Some((ts, _)) = record.times.read_any_front(behind)
    {
        return Some((ts, word));
    }
    if word == "[Nest]" {
        let (_, behind) = behind.split_once(" - ")?;
        let (ts, used) = record.times.read_any_front(behind)?;
        return Some((ts, &behind[used..]));
    }
    // A thread, also of several words (Suricata's `[812 - Suricata-Main] `).
    if let Some((_, behind)) = line.strip_prefix('[').and_then(|rest| rest.split_once("] "))
        && let Some((ts, used)) = record.times.read_front(behind)
    {
        return Some((ts, &behind[used..]));
    }
    // A process.
    let is_process = word.bytes().all(|byte| byte.is_ascii_digit());
    let is_client = || word.contains(['.', ':']) && peer_address::is_peer(word);
    if !word.ends_with(':') && level_of(word).is_none() && !is_process && !is_client() {
        return None;
    }
    // Solr's `WARN  - 2026-11-20 …`.
    let behind = behind.trim_start_matches(' ');
    let behind = behind.strip_prefix("- ").unwrap_or(behind);
    let front = front(behind);
    let behind_thread = || behind.strip_prefix('[')?.split_once("] ").map(|(_, rest)| rest);
    let found = |text: &'a str| record.times.read_front(text).map(|(ts, used)| (ts, &text[used..]));
    let behind_names = || behind.split_once(" [").filter(|_| is_client()).map(|(_, rest)| rest);
    found(front).or_else(|| found(behind_thread()?)).or_else(|| found(behind_names()?))
}

/// The severity of a line whose time is known otherwise.
pub(crate) fn severity_of(line: &str, record: &Record<'_>) -> Option<&'static str> {
    let front = front(line);
    let used = record.times.read_any_front(front).map_or(0, |(_, used)| used);
    severity_at_front(&front[used..])
}

/// A line without the marks that some programs write before the time (`[`, WebLogic's `####<`, Ruby's
/// `I, [`, MySQL's `# Time: ` in its slow log).
fn front(line: &str) -> &str {
    let line = line.trim_start_matches(' ');
    if let [b'D' | b'I' | b'W' | b'E' | b'F' | b'A', b',', b' ', b'[', ..] = line.as_bytes() {
        return &line[4..];
    }
    let known = line.strip_prefix("####<").or_else(|| line.strip_prefix("# Time: "));
    known.or_else(|| line.strip_prefix('[')).unwrap_or(line)
}

/// A severity in capitals (`WARN`, `INFO:`, `WARN[0012]`, `app.ERROR:`), in brackets (`[error]`,
/// `<Error>`), or before a colon at the start (`error: …`); elsewhere such words are prose in lower
/// case.
fn severity_at_front(text: &str) -> Option<&'static str> {
    let text = text.trim_start_matches([']', ' ']);
    // PHP-FPM's, for what PHP wrote.
    let text = text.strip_prefix("NOTICE: PHP message: ").unwrap_or(text);
    if let Some(severity) = severity::of_php(text).or_else(|| nagios(text)) {
        return Some(severity);
    }
    // `[ info] ` of Fluent Bit, `[info     ] ` of structlog.
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let padded = bracketed.filter(|(level, _)| level.trim_ascii().len() < level.len());
    // NLog's `|Warn|`, and zap's tabs.
    let barred = text.strip_prefix('|').and_then(|rest| rest.split_once('|'));
    let tabbed = || text.strip_prefix('\t').and_then(|rest| rest.split_once('\t'));
    let parted = padded.or(barred).or_else(tabbed);
    if let Some(severity) = parted.and_then(|(level, _)| level_word(level)) {
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
    let words = || text.split_ascii_whitespace().filter(|word| !bare(word).is_empty());
    let found = words().take(FRONT_WORDS).find_map(level_of).or_else(|| severity_of_letter(text));
    // Sidekiq's, behind process, thread, class and job.
    let late = || words().take(LATE_WORDS).find_map(|word| capitals(word.strip_suffix(':')?));
    found.or_else(late).or_else(|| severity::of_postgresql(text))
}

/// The state in `SERVICE ALERT: host;service;CRITICAL;…` of Nagios, Naemon and Icinga 1.
fn nagios(text: &str) -> Option<&'static str> {
    const KINDS: [(&str, usize); 8] = [
        ("SERVICE ALERT: ", 2),
        ("CURRENT SERVICE STATE: ", 2),
        ("INITIAL SERVICE STATE: ", 2),
        ("SERVICE NOTIFICATION: ", 3),
        ("HOST ALERT: ", 1),
        ("CURRENT HOST STATE: ", 1),
        ("INITIAL HOST STATE: ", 1),
        ("HOST NOTIFICATION: ", 2),
    ];
    let (values, state) =
        KINDS.iter().find_map(|(kind, state)| Some((text.strip_prefix(kind)?, *state)))?;
    match values.split(';').nth(state)? {
        "OK" | "UP" => Some("info"),
        "WARNING" | "UNKNOWN" => Some("warn"),
        "CRITICAL" | "DOWN" | "UNREACHABLE" => Some("critical"),
        _ => None,
    }
}

/// A level between brackets or bars; a number there is a process.
fn level_word(level: &str) -> Option<&'static str> {
    let level = level.trim_ascii();
    severity::of_word(level).filter(|_| !level.starts_with(|digit: char| digit.is_ascii_digit()))
}

/// The level that a word in lower case with a colon is: winston's `error:`, .NET's `fail:`.
fn severity_before_colon(word: &str) -> Option<&'static str> {
    let word = word.strip_suffix(':')?;
    // Icinga's `warning/cli:`, Varnish's `Error:`.
    match word.split_once('/').map_or(word, |(level, _)| level) {
        "Debug" => Some("debug"),
        "Info" => Some("info"),
        "Notice" => Some("notice"),
        "Warning" => Some("warn"),
        "Error" => Some("error"),
        "Critical" | "Fatal" => Some("critical"),
        "panic" => Some("critical"),
        "fail" => Some("error"),
        level @ ("trace" | "trce" | "verbose" | "debug" | "dbug" | "info" | "information"
        | "notice" | "warn" | "warning" | "err" | "error" | "crit" | "critical"
        | "fatal") => severity::of_word(level),
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
    // Tornado's and Gitea's.
    if let [b'[', b'F' | b'E' | b'W' | b'I' | b'D']
    | [b'[', b'F' | b'E' | b'W' | b'I' | b'D', b']'] = word.as_bytes()
    {
        return severity::of_mongodb(&word[1..2]);
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
    let parts = bare.split([':', '/', '[', ']', '(']).take(2).map(|part| part.trim_matches('-'));
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
