//! Maps severity names to the nine values of the column `severity`; syslog facilities (RFC 5424
//! §6.2.1).

/// Severities in the order of syslog's numbers.
const SYSLOG_SEVERITIES: [&str; 8] =
    ["emergency", "alert", "critical", "error", "warn", "notice", "info", "debug"];

/// The severity of a syslog number, 0 to 7.
pub fn of_syslog(number: i64) -> Option<&'static str> {
    usize::try_from(number).ok().and_then(|index| SYSLOG_SEVERITIES.get(index).copied())
}

/// The priority that `auth.crit` is, also in brackets (`[auth.crit]`, `<auth.crit>`), or in numbers
/// (`<4.2>`).
pub fn priority_of_word(word: &str) -> Option<i64> {
    let bare = word.trim_matches(['[', ']', '<', '>']);
    if let Some((name, level)) = bare.split_once('.').filter(|_| word.starts_with('<'))
        && let (Ok(name @ 0..24), Ok(level @ 0..8)) = (name.parse::<i64>(), level.parse::<i64>())
    {
        return Some(name * 8 + level);
    }
    bare.split_once('.').and_then(|(name, level)| priority_of(name, level))
}

/// The priority of a facility and a severity in words.
pub fn priority_of(name: &str, level: &str) -> Option<i64> {
    let facility = (0..24).find(|number| facility(*number) == Some(name))?;
    let severity = of_word(level).filter(|_| level.len() >= 3)?;
    let number = SYSLOG_SEVERITIES.iter().zip(0..).find(|(known, _)| **known == severity)?.1;
    Some(facility * 8 + number)
}

/// The facility of a syslog number, 0 to 23.
pub fn facility(number: i64) -> Option<&'static str> {
    const NAMES: [&str; 24] = [
        "kern",
        "user",
        "mail",
        "daemon",
        "auth",
        "syslog",
        "lpr",
        "news",
        "uucp",
        "cron",
        "authpriv",
        "ftp",
        "ntp",
        "security",
        "console",
        "solaris-cron",
        "local0",
        "local1",
        "local2",
        "local3",
        "local4",
        "local5",
        "local6",
        "local7",
    ];
    usize::try_from(number).ok().and_then(|index| NAMES.get(index).copied())
}

/// The severity of a message of PHP: `PHP Warning:  text`.
pub fn of_php(text: &str) -> Option<&'static str> {
    let (kind, _) = text.strip_prefix("PHP ")?.split_once(':')?;
    match kind {
        "Fatal error" | "Parse error" | "Catchable fatal error" | "Recoverable fatal error" => {
            Some("error")
        }
        "Warning" | "Core Warning" | "Compile Warning" => Some("warn"),
        "Notice" | "Deprecated" | "Strict Standards" | "Strict standards" => Some("notice"),
        _ => None,
    }
}

/// The severity of a message of PostgreSQL, which has two blanks behind its own: `… ERROR:  text`.
pub fn of_postgresql(text: &str) -> Option<&'static str> {
    let bytes = text.as_bytes();
    let at = memchr::memchr_iter(b':', bytes).find(|at| bytes[at + 1..].starts_with(b"  "))?;
    let level = text[..at].trim_end_matches(|digit: char| digit.is_ascii_digit());
    match level.rsplit(|mark: char| !mark.is_ascii_uppercase()).next()? {
        "LOG" | "INFO" => Some("info"),
        "NOTICE" => Some("notice"),
        "WARNING" => Some("warn"),
        "ERROR" => Some("error"),
        "FATAL" | "PANIC" => Some("critical"),
        "DEBUG" => Some("debug"),
        _ => None,
    }
}

/// The severity of MongoDB's letter, with a degree for messages of debugging.
pub fn of_mongodb(letter: &str) -> Option<&'static str> {
    match letter {
        "F" => Some("critical"),
        "E" => Some("error"),
        "W" => Some("warn"),
        "I" => Some("info"),
        "D" | "D1" | "D2" | "D3" | "D4" | "D5" => Some("debug"),
        _ => None,
    }
}

/// The severity of OpenTelemetry's number: six words with four grades each.
pub fn of_opentelemetry(number: i64) -> Option<&'static str> {
    Some(match number {
        1..=4 => "trace",
        5..=8 => "debug",
        9..=12 => "info",
        13..=16 => "warn",
        17..=20 => "error",
        21..=24 => "critical",
        _ => return None,
    })
}

/// The severity for a word or a number.
///
/// Numbers below 10 are syslog's; 10, 20, … 60 are from pino and bunyan.
pub fn of_word(word: &str) -> Option<&'static str> {
    // Go's `slog` writes levels between its own as `DEBUG+2`.
    let word = word
        .split_once(['+', '-'])
        .filter(|(_, behind)| {
            !behind.is_empty() && behind.bytes().all(|byte| byte.is_ascii_digit())
        })
        .map_or(word, |(level, _)| level);
    let mut lower = [0u8; 12];
    let target = lower.get_mut(..word.len())?;
    target.copy_from_slice(word.as_bytes());
    target.make_ascii_lowercase();
    Some(match &*target {
        b"trace" | b"trace1" | b"trace2" | b"finest" | b"finer" | b"trce" | b"trc" | b"trac"
        | b"10" => "trace",
        b"debug" | b"dbg" | b"dbug" | b"debug1" | b"fine" | b"verbose" | b"vrb" | b"debu"
        | b"7" | b"20" => "debug",
        b"info" | b"information" | b"inf" | b"informational" | b"6" | b"30" => "info",
        b"notice" | b"note" | b"noti" | b"5" => "notice",
        b"warn" | b"warning" | b"wrn" | b"4" | b"40" => "warn",
        b"error" | b"err" | b"eror" | b"erro" | b"severe" | b"3" | b"50" => "error",
        b"crit" | b"critical" | b"fatal" | b"ftl" | b"fata" | b"2" | b"60" | b"dpanic" => {
            "critical"
        }
        b"alert" | b"1" => "alert",
        b"emerg" | b"emergency" | b"panic" | b"pani" | b"0" => "emergency",
        _ if target.starts_with(b"trace") => "trace",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_many_loggers_are_known() {
        let known = ["WARN", "Warning", "err", "FATAL", "INF", "7", "40", "trace8"].map(of_word);
        let expected = ["warn", "warn", "error", "critical", "info", "debug", "warn", "trace"];
        assert_eq!(
            ["DEBUG+2", "WARN-1", "ERRO"].map(of_word),
            ["debug", "warn", "error"].map(Some)
        );
        assert_eq!(["-1", "info-", "a+1"].map(of_word), [None; 3]);
        assert_eq!(known, expected.map(Some));
        assert_eq!(["", "failed", "averyveryverylongword", "11"].map(of_word), [None; 4]);
    }
}
