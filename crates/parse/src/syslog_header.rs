//! The header of a syslog message: priority, time, host and tag.
//!
//! Sources: RFC 3164 §4, RFC 5424 §6, Cisco's "System Message Logging" (IOS, IOS XR, NX-OS, ASA).
//! RFC 3164 describes what programs wrote, not what they have to write, so each part may be
//! missing: a priority alone makes a message (§4.3.2), and the time has any common form.
//!
//! ```text
//! <34>Nov  2 12:00:00 web1 su[7]: text             classic; daemons' files lack the priority
//! <34>1 2026-11-02T12:00:00Z web1 su 7 ID - text   modern
//! <34>su[7]: text                                  neither time nor host
//! <34>83: sw1: *Nov  2 12:00:00.123 UTC: %SYS-5-CONFIG_I: text
//! ```

use weir_values::time_forms::{self, ClockReading};
use weir_values::{number, peer_address, severity, zone};

use crate::text;

/// Longest tag.
const MAX_TAG_BYTES: usize = 64;
/// Most parts of a device's header before its `%FACILITY-SEVERITY-MNEMONIC`.
const MAX_DEVICE_PARTS: usize = 6;

/// A time in a header, before zone and year are settled.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum HeaderTime<'a> {
    #[default]
    None,
    Clock(ClockReading),
    /// Digits since 1970.
    Epoch(&'a str),
}

/// The parts of a header; those that are missing are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SyslogHeader<'a> {
    pub(crate) priority: Option<i64>,
    pub(crate) time: HeaderTime<'a>,
    pub(crate) host: &'a str,
    pub(crate) program: &'a str,
    /// Mostly a number.
    pub(crate) process: &'a str,
    pub(crate) message_id: &'a str,
    /// Number of the message on a device of Cisco.
    pub(crate) sequence: &'a str,
    /// Severity in a word before the tag, without a host.
    pub(crate) level: &'a str,
    /// Time since the start of a device without a clock.
    pub(crate) uptime: &'a str,
    /// Model, address and version of a device of UniFi, or another name of a device beside the host's.
    pub(crate) device: &'a str,
    /// Whether `message` begins with RFC 5424's structured data.
    pub(crate) is_modern: bool,
    pub(crate) message: &'a str,
}

impl<'a> SyslogHeader<'a> {
    /// Reads the header of a line; `None` if it has neither a priority nor a time.
    pub(crate) fn read(line: &'a str) -> Option<Self> {
        let header = Self::read_first(line)?;
        // The sender's own header, behind that of a relay.
        let own = Some(header.message).filter(|text| text.starts_with('<'));
        match own.and_then(Self::read_first).filter(|own| own.priority.is_some()) {
            Some(own) => Some(Self {
                time: if own.time == HeaderTime::None { header.time } else { own.time },
                host: if own.host.is_empty() { header.host } else { own.host },
                ..own
            }),
            None => Some(header),
        }
    }

    fn read_first(line: &'a str) -> Option<Self> {
        let (priority, rest) = priority(line);
        let modern =
            priority.and_then(|_| modern(rest.strip_prefix(['0', '1'])?.strip_prefix(' ')?));
        // Some write a version, and RFC 3164 behind it.
        let loose = rest.strip_prefix("1 ").filter(|_| priority.is_some()).unwrap_or(rest);
        let header = modern.or_else(|| classic(loose, priority.is_some()));
        let header = match priority {
            Some(_) => header.or_else(|| Some(untimed(rest))),
            None => header.or_else(|| counted(rest)).or_else(|| kernel(rest)),
        }?;
        Some(Self { priority: priority.or(header.priority), ..header })
    }

    /// Severity and facility: of the priority, else the severity in a device's tag.
    pub(crate) fn severity(&self) -> Option<i64> {
        self.priority.map(|priority| priority % 8).or_else(|| mnemonic_severity(self.program))
    }
}

/// The host in the header of a frame that arrived by syslog.
///
/// `None` if the header has none, so the host is the sender. Bytes behind the header do not
/// matter and may be cut off.
pub fn syslog_host(frame: &[u8]) -> Option<&str> {
    let head = &frame[..frame.len().min(512)];
    let head = match std::str::from_utf8(head) {
        Ok(head) => head,
        Err(error) => std::str::from_utf8(&head[..error.valid_up_to()]).ok()?,
    };
    let header = SyslogHeader::read(head).filter(|header| header.priority.is_some())?;
    Some(header.host).filter(|host| !host.is_empty())
}

/// The priority, 0 to 191, and the text behind it.
fn priority(line: &str) -> (Option<i64>, &str) {
    let cut = line.strip_prefix('<').and_then(|rest| rest.split_once('>'));
    let read = cut.and_then(|(digits, rest)| {
        let is_number = digits.len() <= 3 && digits.bytes().all(|byte| byte.is_ascii_digit());
        let priority = number::integer(digits).filter(|_| is_number)?;
        (0..=191).contains(&priority).then_some((priority, rest))
    });
    read.map_or((None, line), |(priority, rest)| (Some(priority), rest))
}

/// `time host app procid msgid …` (RFC 5424 §6).
fn modern(rest: &str) -> Option<SyslogHeader<'_>> {
    let (stamp, rest) = rest.split_once(' ')?;
    let (host, rest) = rest.split_once(' ')?;
    let (program, rest) = rest.split_once(' ')?;
    // A colon ends a tag of RFC 3164, unless the nil values of RFC 5424 follow (Pulse Secure).
    let is_tag = program.ends_with(':') && !rest.starts_with("- - ");
    let program = program.strip_suffix(':').filter(|_| !is_tag).unwrap_or(program);
    let (process, rest) = rest.split_once(' ')?;
    let (message_id, message) = text::word(rest);
    let time = match stamp {
        _ if is_tag => return None,
        "-" => HeaderTime::None,
        _ => whole_time(stamp)?,
    };
    let known = |word| if word == "-" { "" } else { word };
    Some(SyslogHeader {
        time,
        host: self::host(host).unwrap_or(known(host)),
        program: known(program),
        process: known(process),
        message_id: known(message_id),
        is_modern: true,
        message,
        ..SyslogHeader::default()
    })
}

/// `time host tag[pid]: message`; lines that programs send to `/dev/log` have no host.
fn classic(rest: &str, has_priority: bool) -> Option<SyslogHeader<'_>> {
    let (time, used) = time(rest, has_priority)?;
    let mut header = SyslogHeader { time, ..SyslogHeader::default() };
    let behind = &rest[used..];
    header.message = match behind.strip_prefix(": ") {
        // Cisco ends the time with a colon, and writes no host then.
        Some(message) => message,
        None => behind_time(behind.strip_prefix(' ')?, &mut header),
    };
    // FreeBSD with `-O rfc5424`, behind the header that a relay wrote.
    let inner = header.message.strip_prefix("1 ").and_then(modern);
    if let Some(inner) = inner.filter(|inner| inner.time != HeaderTime::None) {
        return Some(inner);
    }
    if !device(header.message, &mut header)
        && let Some(tag) = numbered_tag(header.message, &mut header).or_else(|| tag(header.message))
    {
        tag.fill(&mut header);
    }
    Some(header)
}

/// Takes the host, and the priority in words that some daemons write before or behind it; returns
/// the tag and the message.
///
/// `auth.crit web1 su[7]: text` (syslog-ng, FreeBSD with `-v`), `web1 user.notice su: text`
/// (BusyBox), `daemon.err su[7]: text` (OpenWrt).
fn behind_time<'a>(behind: &'a str, header: &mut SyslogHeader<'a>) -> &'a str {
    let behind = priority_word(behind.trim_start_matches(' '), header);
    if let Some(message) = behind_level(behind, header) {
        return message;
    }
    let (word, message) = text::word(behind);
    let known =
        host(word).or_else(|| unusual_host(word).filter(|_| word_with_process(message).is_some()));
    let Some(host) = known else { return device_name(behind, header) };
    header.host = host;
    let message = utc_time(message, header);
    // A relay of UniFi's repeats the host.
    let repeated = message.strip_prefix(word).and_then(|rest| rest.strip_prefix(' '));
    let message = repeated.filter(|rest| tag(rest).is_some()).unwrap_or(message);
    let message = device_name(priority_word(message, header), header);
    let message = behind_level(message, header).unwrap_or(message);
    let tagged = message.trim_start_matches(' ');
    let message = if word_with_process(tagged).is_some() { tagged } else { message };
    message.strip_prefix(": ").unwrap_or(message)
}

/// Takes the time in UTC that WatchGuard writes behind the host, or behind it and the device's number:
/// `FB1 80BF03 (2026-11-20T12:00:00) firewall: text`.
fn utc_time<'a>(text: &'a str, header: &mut SyslogHeader<'a>) -> &'a str {
    let (word, behind) = text::word(text);
    let (device, rest) = if behind.starts_with("(2") { (word, behind) } else { ("", text) };
    let parts = rest.strip_prefix('(').and_then(|rest| rest.split_once(") "));
    match parts.and_then(|(time, message)| Some((whole_time(time)?, message))) {
        Some((HeaderTime::Clock(reading), message)) => {
            let offset_seconds = reading.offset_seconds.or(Some(0));
            header.time = HeaderTime::Clock(ClockReading { offset_seconds, ..reading });
            header.device = device;
            message
        }
        _ => text,
    }
}

/// Takes a level in a word before a tag with a process: `info vpxd[7] text` (VMware), `web1 notice tmm[7]:
/// text` (F5).
fn behind_level<'a>(text: &'a str, header: &mut SyslogHeader<'a>) -> Option<&'a str> {
    let (word, message) = text::word(text);
    let word = word.trim_matches(['(', ')']);
    let is_level = matches!(
        word,
        "info" | "notice" | "warning" | "err" | "error" | "verbose" | "debug" | "crit" | "critical"
    );
    let is_tag = message.starts_with("kernel: ") || word_with_process(message).is_some();
    (is_level && is_tag).then_some(())?;
    header.level = word;
    Some(message)
}

/// Takes what UniFi's devices write before the tag: `U7PG2,f09fc2000000,v4.0.66.10832: `, or the address
/// first. Without a host, its first part is one.
fn device_name<'a>(text: &'a str, header: &mut SyslogHeader<'a>) -> &'a str {
    let (word, behind) = text::word(text);
    let is_address = |part: &str| part.len() == 12 && part.bytes().all(|b| b.is_ascii_hexdigit());
    let name = word.strip_suffix(':').filter(|name| name.contains(','));
    let Some(name) = name.filter(|name| name.split(',').any(is_address)) else { return text };
    header.device = name;
    if header.host.is_empty() {
        header.host = name.split(',').next().unwrap_or_default();
    }
    behind.trim_start_matches([' ', ':'])
}

/// Takes a priority in words at the front of a text.
fn priority_word<'a>(text: &'a str, header: &mut SyslogHeader<'a>) -> &'a str {
    let (word, behind) = text::word(text);
    // Kiwi's `Local7.Info`.
    let lower = || word.starts_with(|first: char| first.is_ascii_uppercase()) && word.contains('.');
    let priority = severity::priority_of_word(word).or_else(|| {
        lower().then(|| severity::priority_of_word(&word.to_ascii_lowercase())).flatten()
    });
    match priority {
        Some(priority) => {
            header.priority = Some(priority);
            behind
        }
        None => text,
    }
}

/// `kern  :warn  : [   12.233441] text` (`dmesg -x`).
fn kernel(rest: &str) -> Option<SyslogHeader<'_>> {
    let (name, behind) = rest.split_once(':')?;
    let (level, message) = behind.split_once(": [")?;
    let priority = severity::priority_of(name.trim_ascii(), level.trim_ascii());
    let message = &behind[behind.len() - message.len() - 1..];
    Some(SyslogHeader {
        priority: Some(priority?),
        program: "kernel",
        message,
        ..SyslogHeader::default()
    })
}

/// A header without a priority whose time is a number: seconds since 1970 (`journalctl -o
/// short-unix`, syslog-ng's `$UNIXTIME`), or in brackets those since the start of the kernel
/// (`short-monotonic`). Only a host and a tag tell such a line from others.
fn counted(rest: &str) -> Option<SyslogHeader<'_>> {
    let header = match rest.strip_prefix('[') {
        Some(uptime) => {
            let (uptime, behind) = uptime.split_once("] ")?;
            let uptime = uptime.trim_ascii();
            number::seconds(uptime).filter(|_| uptime.contains('.'))?;
            let mut header = SyslogHeader { uptime, ..SyslogHeader::default() };
            header.message = behind_time(behind, &mut header);
            tag(header.message)?.fill(&mut header);
            Some(header).filter(|found| found.program == "kernel" || !found.process.is_empty())
        }
        None => classic(rest, true).filter(|found| matches!(found.time, HeaderTime::Epoch(_))),
    }?;
    let is_name = header.host.bytes().any(|byte| byte.is_ascii_alphabetic() || byte == b'.');
    (is_name && !header.program.is_empty()).then_some(header)
}

/// A message without a time (RFC 3164 §4.3.2).
///
/// A word with a colon is a tag, except a severity, since such messages often have no tag.
fn untimed(rest: &str) -> SyslogHeader<'_> {
    let mut header = SyslogHeader { message: rest, ..SyslogHeader::default() };
    // A device of UniFi without a clock has a name.
    let (name, behind) = text::word(rest);
    let message = device_name(behind, &mut header);
    if !header.device.is_empty() {
        (header.host, header.message) = (name, message);
    }
    let rest = header.message;
    if !device(rest, &mut header)
        && let Some(tag) = tag(rest)
        && severity::of_word(tag.program).is_none()
    {
        tag.fill(&mut header);
    }
    header
}

/// A word that is a host's name or address; brackets of IPv6 are taken off.
fn host(word: &str) -> Option<&str> {
    let inner = word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let (name, may_be_address) = inner.map_or((word, !word.ends_with(':')), |inner| (inner, true));
    let fits = (1..=255).contains(&name.len())
        && may_be_address
        && !name.starts_with('%')
        && !is_level(name)
        // An engine of a NetScaler.
        && !name.contains("-PPE-")
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte))
        && (inner.is_none() || name.contains(':'));
    fits.then_some(if name == "-" { "" } else { name })
}

/// A host that only the tag behind it tells: `[web1]`, `name@serial` (Dell).
fn unusual_host(word: &str) -> Option<&str> {
    let bare = word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let name = bare.or_else(|| Some(word.split_once('@')?.0))?;
    host(name).map(|_| bare.unwrap_or(word))
}

/// Whether a word is a severity in capitals, which many loggers write behind the time.
fn is_level(word: &str) -> bool {
    let is_loud = word.len() >= 3 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    is_loud && severity::of_word(word).is_some()
}

/// `tag[pid]: ` or `tag: ` (RFC 3164 §4.1.3); a message of RFC 5424 that was written in the older form
/// may have `tag[pid] `.
struct TagParts<'a> {
    program: &'a str,
    process: &'a str,
    message: &'a str,
}

impl<'a> TagParts<'a> {
    fn fill(self, header: &mut SyslogHeader<'a>) {
        (header.program, header.process, header.message) =
            (self.program, self.process, self.message);
    }
}

/// `tag[7]` at the start of a text, and what follows it and its colon.
fn word_with_process(text: &str) -> Option<(&str, &str)> {
    let (word, behind) = text::word(text);
    let tag = word.strip_suffix(':').unwrap_or(word);
    let (name, process) = tag.strip_suffix(']')?.split_once('[')?;
    let is_number = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
    (!name.is_empty() && is_number).then_some((tag, behind))
}

/// The tag behind the number of an event, `00419 auth: ` (switches of HP and Aruba).
fn numbered_tag<'a>(text: &'a str, header: &mut SyslogHeader<'a>) -> Option<TagParts<'a>> {
    let (number, behind) = text.split_once(' ')?;
    let is_number = number.len() == 5 && number.bytes().all(|byte| byte.is_ascii_digit());
    let tag = tag(behind).filter(|_| is_number)?;
    header.message_id = number;
    Some(TagParts { message: tag.message.trim_start_matches(' '), ..tag })
}

fn tag(text: &str) -> Option<TagParts<'_>> {
    let (tag, message) = match word_with_process(text) {
        Some(parts) => parts,
        None => text.split_once(':').filter(|(_, rest)| !rest.starts_with("//"))?,
    };
    let (program, process) = match tag.strip_suffix(']').and_then(|tag| tag.split_once('[')) {
        Some((program, process)) => (program, process),
        None => (tag, ""),
    };
    let fits = (1..=MAX_TAG_BYTES).contains(&program.len())
        && process.len() <= MAX_TAG_BYTES
        && tag.bytes().all(|byte| byte.is_ascii_graphic() && !b"=\"{<".contains(&byte))
        && !program.bytes().all(|byte| byte.is_ascii_digit())
        // A balancer's client with its port.
        && !(program.contains('.') && peer_address::is_address(program))
        && !program.contains('[')
        // The first word of an event (iDRAC's `Severity: …`), and not of its sender.
        && !matches!(program, "CEF" | "LEEF" | "Severity");
    let message = message.strip_prefix(' ').unwrap_or(message);
    fits.then_some(TagParts { program, process, message })
}

/// Reads what a device of Cisco puts before its message; false, with the header unchanged, if it is
/// not one: parts separated by `: `, then `%FACILITY-SEVERITY-MNEMONIC: `.
fn device<'a>(text: &'a str, header: &mut SyslogHeader<'a>) -> bool {
    if memchr::memchr(b'%', text.as_bytes()).is_none() {
        return false;
    }
    let mut found = *header;
    let mut rest = text.strip_prefix(": ").unwrap_or(text);
    for _ in 0..=MAX_DEVICE_PARTS {
        if let Some((mnemonic, message)) = mnemonic(rest.trim_start_matches('*')) {
            // Arista's `host Agent: %…` has a tag.
            if !found.device.is_empty() && found.sequence.is_empty() {
                return false;
            }
            (found.program, found.message) = (mnemonic, message);
            *header = found;
            return true;
        }
        let Some((part, behind)) = rest.split_once(": ") else { return false };
        if !device_part(part.trim_ascii(), &mut found) {
            return false;
        }
        rest = behind.trim_start_matches(' ');
    }
    false
}

/// Takes a part of a device's header: a number, a time, a host or a process.
fn device_part<'a>(part: &'a str, found: &mut SyslogHeader<'a>) -> bool {
    // IOS XR: `RP/0/RSP0/CPU0:Nov  2 12:00:00.123 UTC`.
    let behind_node = part.split_once(':').map_or(part, |(_, behind)| behind);
    let times = [part, behind_node].into_iter().find_map(whole_time);
    // IOS XR counts beyond the largest number of its type.
    let digits = part.strip_prefix('-').unwrap_or(part);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        found.sequence = part;
    } else if part.bytes().all(|byte| byte.is_ascii_punctuation()) {
        // What is left of a part that the device did not know.
    } else if let Some(time) = times {
        found.time = time;
        // IOS XR with `logging hostnameprefix`.
        let named = part.split_once(' ').filter(|(_, node)| node.starts_with("RP/"));
        found.host = named.and_then(|(name, _)| host(name)).unwrap_or(found.host);
    } else if is_uptime(part) {
        found.uptime = part;
    } else if let Some((_, process)) = part.strip_suffix(']').and_then(|part| part.split_once('['))
    {
        found.process = process;
    } else if let Some(host) = host(part).filter(|_| found.host.is_empty()) {
        found.host = host;
    } else if host(part).is_some() && found.device.is_empty() {
        found.device = part;
    } else if let Some(wireless) = part.strip_prefix('*').filter(|task| !task.contains(' ')) {
        found.process = wireless;
    } else {
        return false;
    }
    true
}

/// `2y10w`, `3d02h`, `00:01:46`.
fn is_uptime(part: &str) -> bool {
    let is_clock = part.len() == 8 && part.bytes().all(|b| b.is_ascii_digit() || b == b':');
    let is_span = part.starts_with(|first: char| first.is_ascii_digit())
        && part.ends_with(['w', 'd', 'h'])
        && part.bytes().all(|byte| byte.is_ascii_digit() || b"ywdh".contains(&byte));
    is_clock || is_span
}

/// `%SEC_LOGIN-5-LOGIN_SUCCESS` at the front, and the message behind it.
fn mnemonic(text: &str) -> Option<(&str, &str)> {
    let (mnemonic, message) = text.split_once(':').filter(|_| text.starts_with('%'))?;
    let mnemonic = mnemonic.trim_ascii_end();
    mnemonic_severity(mnemonic)?;
    Some((mnemonic, message.strip_prefix(' ').unwrap_or(message)))
}

fn mnemonic_severity(mnemonic: &str) -> Option<i64> {
    let name = mnemonic.strip_prefix('%').filter(|name| name.len() <= MAX_TAG_BYTES)?;
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    let mut parts = name.split('-').skip(1).filter(|part| part.len() == 1 && is_name);
    parts.find_map(|part| {
        // Small switches write a letter.
        let letter = "-ACEWNID".find(part).and_then(|at| i64::try_from(at).ok());
        number::integer(part).or(letter).filter(|level| (0..=7).contains(level))
    })
}

/// The time that is a whole text.
fn whole_time(text: &str) -> Option<HeaderTime<'_>> {
    let (time, used) = time(text, true)?;
    (used == text.len()).then_some(time)
}

/// The time at the front of a text, with its length.
///
/// `*` and `.` are Cisco's marks of a clock that is not synchronized. `is_loose` allows months in
/// lower case and epochs, which would be too weak a mark of a syslog line without a priority.
fn time(text: &str, is_loose: bool) -> Option<(HeaderTime<'_>, usize)> {
    let start = usize::from(text.starts_with(['*', '.']) || is_loose && text.starts_with(' '));
    if let Some((mut reading, mut used)) = time_forms::header(&text.as_bytes()[start..], is_loose) {
        used += start;
        if let Some((offset, length)) = zone_word(&text[used..])
            && reading.offset_seconds.is_none()
        {
            reading.offset_seconds = Some(offset);
            used += length;
        }
        return Some((HeaderTime::Clock(reading), used));
    }
    let digits = text.find(|mark: char| !mark.is_ascii_digit() && mark != '.');
    let epoch = &text[..digits.unwrap_or(text.len())];
    let whole = epoch.split('.').next()?;
    (is_loose && (whole.len() == 10 || whole.len() == 13) && epoch.split('.').count() <= 2)
        .then_some((HeaderTime::Epoch(epoch), epoch.len()))
}

/// ` UTC` behind a time and its length. A word before a tag is a host, whatever it is called.
fn zone_word(rest: &str) -> Option<(i64, usize)> {
    let rest = rest.strip_prefix(' ')?;
    let length = rest.find(|mark: char| !mark.is_ascii_uppercase()).unwrap_or(rest.len());
    let offset = zone::of_abbreviation(&rest.as_bytes()[..length])?;
    let behind = &rest[length..];
    let is_zone = match behind.strip_prefix(' ') {
        Some(behind) => host(text::word(behind).0).is_some(),
        None => behind.is_empty() || behind.starts_with(':'),
    };
    is_zone.then_some((offset, 1 + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// syslog-ng/syslog-ng#4707, vectordotdev/vector#5441 and others: the time has any length.
    #[test]
    fn the_host_is_the_word_behind_the_time_however_that_is_written() {
        for (frame, host) in [
            ("<13>Nov 20 08:30:10.123 web1 app: with milliseconds", Some("web1")),
            ("<164>Nov 20 2026 08:30:47 EDGE-FW2 : %ASA-4-106023: Deny", Some("EDGE-FW2")),
            ("<38>Nov 6 08:30:11 node-01 auditd[38707]: no pad", Some("node-01")),
            ("<13>httpd[221]: child died at once", None),
            ("<13>2026-11-20T08:30:13.5Z web1 app: iso", Some("web1")),
            ("<13>2026-11-20 08:30:14 web1 app: iso with a space", Some("web1")),
            ("<13>1795162215 web1 app: epoch", Some("web1")),
            ("<14>Nov 20 08:30:16 [2001:db8::5] app: brackets", Some("2001:db8::5")),
            ("<14>1 2026-11-20T08:30:17Z web1 app - - - m", Some("web1")),
            ("<14>1 - - app - - - m", None),
            ("<14>Fri Nov 20 08:30:18 2026 web1 app: ctime", Some("web1")),
            ("<14>Nov 20 08:30:18 2026 web1 app: year behind", Some("web1")),
            ("<14>Nov 20 08:30:19 UTC web1 app: zone", Some("web1")),
            ("<14>Nov 20 08:30:19 MSK app: a host of that name", Some("MSK")),
            ("<14>nov 20 08:30:20 web1 app: lower month", Some("web1")),
            ("<14>Nov 20 08:30:21+01:00 web1 app: offset", Some("web1")),
            ("<14>Nov 20 08:30:21 app: no host", None),
            ("<14>%ASA-6-302013: Built inbound TCP connection", None),
            ("<189>179767: sw-core: Nov 20 07:23:27.833: %SW-4-FLAP: text", Some("sw-core")),
            ("<38>User logged into the appliance. User: someone.", None),
            ("Nov 20 08:30:21 web1 app: no priority", None),
        ] {
            assert_eq!(syslog_host(frame.as_bytes()), host, "{frame}");
        }
        assert_eq!(syslog_host(b"<14>Nov 20 08:30:21 web1 app: \xff\xfe"), Some("web1"));
    }

    #[test]
    fn a_word_with_a_colon_is_a_tag_unless_it_is_a_severity() {
        let tag_of = |line| SyslogHeader::read(line).map(|header| header.program);
        assert_eq!(tag_of("<13>app: text"), Some("app"));
        assert_eq!(tag_of("<13>error: text"), Some(""));
        assert_eq!(tag_of("<13>http://a.example/ is down"), Some(""));
        assert_eq!(tag_of("<013x>app: text"), None);
        assert_eq!(tag_of("app: text"), None);
    }
}
