//! Apache's `ErrorLog` (core, default `ErrorLogFormat` of 2.4, and that of 2.2).
//!
//! `[Fri Nov 20 12:00:00.123456 2026] [core:error] [pid 12:tid 34] (2)No such file: [client
//! 1.2.3.4:5] AH00128: …`
//!
//! Apache escapes line ends and quotes, so a visitor cannot forge a line. PHP as a module writes
//! its messages with Apache's header; before 7.1 it had one level for all of them.

use weir_values::{number, severity};

use crate::format::{LineFormat, NamedFormat};
use crate::log_text;
use crate::passenger;
use crate::record::{Record, RowKind};

pub(crate) const FORMAT: NamedFormat = NamedFormat {
    name: "apache_error",
    new: || {
        Box::new(LineFormat { name: "apache_error", parse: |line, record| Ok(parse(line, record)) })
    },
};

/// Reads a line.
pub(crate) fn parse<'a>(line: &'a str, record: &mut Record<'a>) -> RowKind {
    if passenger::parse(line, record).is_none() && head(line, record).is_none() {
        log_text::parse(line, record);
    }
    RowKind::Log
}

/// Whether a line starts with the header of the format.
pub(crate) fn is_likely(line: &str) -> bool {
    let bytes = line.as_bytes();
    let is_named = |head: &str| {
        head.split_once(':').is_some_and(|(_, level)| severity::of_word(level).is_some())
    };
    match bytes {
        [b'[', _, _, _, b' ', ..] => line.contains("] ["),
        // `ErrorLogFormat` with `%{cu}t`: module, level and process tell it from other logs.
        [b'[', _, _, _, _, b'-', ..] => {
            let behind = line.split_once("] [").and_then(|(_, rest)| rest.split_once("] [pid "));
            behind.is_some_and(|(head, _)| is_named(head))
        }
        _ => false,
    }
}

fn head<'a>(line: &'a str, record: &mut Record<'a>) -> Option<()> {
    let (stamp, mut rest) = line.strip_prefix('[')?.split_once("] ")?;
    record.ts = Some(record.times.read(stamp)?);
    record.log.program = Some("apache");
    while let Some((inner, behind)) = bracket(rest).filter(|(inner, _)| is_head(inner)) {
        head_value(inner, record);
        rest = behind;
    }
    record.is_template_known = true;
    record.log.body = message(rest, record);
    if record.log.severity == Some("error") {
        record.log.severity = severity::of_php(record.log.body).or(Some("error"));
    }
    Some(())
}

fn bracket(text: &str) -> Option<(&str, &str)> {
    let (inner, rest) = text.strip_prefix('[')?.split_once(']')?;
    Some((inner, rest.strip_prefix(' ').unwrap_or(rest)))
}

fn is_head(inner: &str) -> bool {
    let level = inner.rsplit_once(':').map_or(inner, |(_, level)| level);
    let is_peer = inner.starts_with("client ") || inner.starts_with("remote ");
    inner.starts_with("pid ") || is_peer || severity::of_word(level).is_some()
}

fn head_value<'a>(inner: &'a str, record: &mut Record<'a>) {
    if let Some(process) = inner.strip_prefix("pid ") {
        let (process_id, thread_id) = process.split_once(":tid ").unwrap_or((process, ""));
        record.log.process_id = number::integer(process_id);
        record.attr(["thread_id", thread_id]);
    } else if let Some(client) = inner.strip_prefix("client ") {
        record.attr(["client", client]);
    } else if let Some(remote) = inner.strip_prefix("remote ") {
        // The server that mod_proxy connected to.
        record.attr(["remote", remote]);
    } else {
        let (module, level) = inner.rsplit_once(':').unwrap_or(("", inner));
        record.attr(["module", module]);
        record.log.severity = severity::of_word(level);
    }
}

/// The message without the client in its middle, the error code before it and the referer after it.
///
/// The error code and what a system call answered come first, so a visitor's text cannot be taken
/// for them.
fn message<'a>(rest: &'a str, record: &mut Record<'a>) -> &'a str {
    let mut body = rest;
    let mut system_error_text = "";
    if let Some((system_error, behind)) = rest.split_once(": [client ")
        && let Some((client, message)) = behind.split_once("] ")
        && system_error.starts_with('(')
    {
        record.attr(["system_error", system_error]);
        record.attr(["client", client]);
        body = message;
        system_error_text = system_error;
    } else if let Some((system_error, message)) = rest.split_once(": AH")
        && is_system_error(system_error)
    {
        // Lines without a request have no client: `(111)Connection refused: AH00957: …`.
        record.attr(["system_error", system_error]);
        body = &rest[rest.len() - message.len() - 2..];
        system_error_text = system_error;
    }
    if let Some((code, _)) = body.split_once(": ")
        && code.starts_with("AH")
        && number::integer(&code[2..]).is_some()
    {
        record.attr(["error_code", code]);
    }
    // A referer comes last, and may have anything in it.
    let own = body.split_once(", referer: ").map_or(body, |(own, _)| own);
    record.log.message_template = template(own, system_error_text, record);
    match body.rsplit_once(", referer: ") {
        Some((message, referer)) => {
            record.attr(["referer", referer]);
            message
        }
        None => body,
    }
}

/// Whether it is `(111)Connection refused` or, for a name, `(EAI 2)Name or service not known`.
fn is_system_error(text: &str) -> bool {
    let code = text.strip_prefix('(').and_then(|rest| rest.split_once(')')).map(|(code, _)| code);
    code.is_some_and(|code| number::integer(code.strip_prefix("EAI ").unwrap_or(code)).is_some())
}

/// The template of a message, with the error of the system call that may stand before the client.
fn template<'a>(body: &str, system_error: &str, record: &Record<'a>) -> Option<&'a str> {
    let text = weir_tables::message_template("apache", body)?;
    let between = if system_error.is_empty() { "" } else { ": " };
    Some(record.arena.alloc_str(&format!("{system_error}{between}{text}")))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use weir_tables::LogFormat;

    use crate::check::check_format;

    #[test]
    fn heads_of_2_4_and_2_2_are_read() {
        check_format(
            LogFormat::ApacheError,
            r#"[Fri Nov 20 12:00:00.123456 2026] [core:error] [pid 12:tid 34] (13)Permission denied: [client 1.2.3.4:567] AH00132: file permissions deny: /x, referer: http://r/
[Fri Nov 20 12:00:00.123456 2026] [mpm_event:notice] [pid 12:tid 34] AH00489: Apache/2.4 configured -- resuming
[Fri Nov 20 12:00:00 2026] [error] [client 1.2.3.4] File does not exist: /x
"#,
            expect![[r#"
                log
                  ts: 2026-11-20T12:00:00.123456Z
                  program: apache
                  process_id: 12
                  severity: error
                  body: AH00132: file permissions deny: /x
                  attrs: {module: core, thread_id: 34, system_error: (13)Permission denied, client: 1.2.3.4:567, error_code: AH00132, referer: http://r/}
                  message_template: (13)Permission denied: AH00132: …
                log
                  ts: 2026-11-20T12:00:00.123456Z
                  program: apache
                  process_id: 12
                  severity: notice
                  body: AH00489: Apache/2.4 configured -- resuming
                  attrs: {module: mpm_event, thread_id: 34, error_code: AH00489}
                  message_template: AH00489: Apache/2.4 configured -- resuming
                log
                  ts: 2026-11-20T12:00:00Z
                  program: apache
                  severity: error
                  body: File does not exist: /x
                  attrs: {client: 1.2.3.4}
            "#]],
        );
    }

    #[test]
    fn system_errors_without_a_client_leave_the_message() {
        check_format(
            LogFormat::ApacheError,
            r#"[Thu Nov 19 18:41:18.194693 2026] [proxy:error] [pid 9363:tid 9366] (111)Connection refused: AH00957: http: attempt to connect to 127.0.0.1:24102 (127.0.0.1:24102) failed
[Thu Nov 19 18:41:19.347621 2026] [proxy:error] [pid 9363:tid 9368] (EAI 2)Name or service not known: [client 127.0.0.1:55026] AH00898: DNS lookup failure for: nosuch.invalid returned by /name
[Thu Nov 19 18:41:19.347621 2026] [x:error] [pid 1:tid 2] (a)b: AH00001: c
"#,
            expect![[r#"
                log
                  ts: 2026-11-19T18:41:18.194693Z
                  program: apache
                  process_id: 9363
                  severity: error
                  body: AH00957: http: attempt to connect to 127.0.0.1:24102 (127.0.0.1:24102) failed
                  attrs: {module: proxy, thread_id: 9366, system_error: (111)Connection refused, error_code: AH00957}
                  message_template: (111)Connection refused: AH00957: http: attempt to connect to 127.0.0.1:24102 (127.0.0.1:24102) failed
                log
                  ts: 2026-11-19T18:41:19.347621Z
                  program: apache
                  process_id: 9363
                  severity: error
                  body: AH00898: DNS lookup failure for: nosuch.invalid returned by /name
                  attrs: {module: proxy, thread_id: 9368, system_error: (EAI 2)Name or service not known, client: 127.0.0.1:55026, error_code: AH00898}
                  message_template: (EAI 2)Name or service not known: AH00898: DNS lookup failure for: nosuch.invalid returned by …
                log
                  ts: 2026-11-19T18:41:19.347621Z
                  program: apache
                  process_id: 1
                  severity: error
                  body: (a)b: AH00001: c
                  attrs: {module: x, thread_id: 2}
            "#]],
        );
    }

    /// Fmstrat/shorten issue 42, UnamSanctam/UnamWebPanel issue 244, and notes of administrators
    /// (php7), at a later time.
    #[test]
    fn messages_of_php_as_a_module_are_read() {
        check_format(
            LogFormat::ApacheError,
            r#"[Fri Nov 20 10:28:11.971642 2026] [:error] [pid 23603] [client 192.168.99.1:55729] PHP Warning:  feof() expects parameter 1 to be resource, boolean given in /var/www/html/short/s/index.php on line 39
[Fri Nov 20 10:05:27.217648 2026] [php:error] [pid 26600:tid 15088] [client 106.75.126.212:52758] script 'C:/xampp/htdocs/index_sso.php' not found or unable to stat
[Fri Nov 20 10:35:35.868963 2026] [php7:error] [pid 29625] [client 127.0.0.1:56664] PHP Fatal error:  Uncaught Doctrine\\DBAL\\DBALException: Failed to connect to the database: An exception occurred in driver: SQLSTATE[HY000] [2002] Connection refused in /var/www/nextcloud/lib/private/DB/Connection.php:72\nStack trace:\n#0 {main}, referer: https://cloud.example/
[Fri Nov 20 10:18:43.234051 2026] [php7:notice] [pid 30304] [client 192.168.1.225:57283] PHP Notice:  Undefined index: Test in /var/www/api/mvc.php on line 94
[Fri Nov 20 10:18:43.234051 2026] [ssl:error] [pid 30304] [remote 10.0.0.5:443] AH02039: Certificate Verification: Error (20): unable to get local issuer certificate
"#,
            expect![[r#"
                log
                  ts: 2026-11-20T10:28:11.971642Z
                  program: apache
                  process_id: 23603
                  severity: warn
                  body: PHP Warning:  feof() expects parameter 1 to be resource, boolean given in /var/www/html/short/s/index.php on line 39
                  attrs: {client: 192.168.99.1:55729}
                log
                  ts: 2026-11-20T10:05:27.217648Z
                  program: apache
                  process_id: 26600
                  severity: error
                  body: script 'C:/xampp/htdocs/index_sso.php' not found or unable to stat
                  attrs: {module: php, thread_id: 15088, client: 106.75.126.212:52758}
                log
                  ts: 2026-11-20T10:35:35.868963Z
                  program: apache
                  process_id: 29625
                  severity: error
                  body: PHP Fatal error:  Uncaught Doctrine\\DBAL\\DBALException: Failed to connect to the database: An exception occurred in driver: SQLSTATE[HY000] [2002] Connection refused in /var/www/nextcloud/lib/private/DB/Connection.php:72\nStack trace:\n#0 {main}
                  attrs: {module: php7, client: 127.0.0.1:56664, referer: https://cloud.example/}
                log
                  ts: 2026-11-20T10:18:43.234051Z
                  program: apache
                  process_id: 30304
                  severity: notice
                  body: PHP Notice:  Undefined index: Test in /var/www/api/mvc.php on line 94
                  attrs: {module: php7, client: 192.168.1.225:57283}
                log
                  ts: 2026-11-20T10:18:43.234051Z
                  program: apache
                  process_id: 30304
                  severity: error
                  body: AH02039: Certificate Verification: Error (20): unable to get local issuer certificate
                  attrs: {module: ssl, remote: 10.0.0.5:443, error_code: AH02039}
                  message_template: AH02039: …
            "#]],
        );
    }

    /// OpenHistoricalMap/issues issue 778, at a later time.
    #[test]
    fn lines_of_passenger_are_its_own() {
        check_format(
            LogFormat::ApacheError,
            r#"[ N 2026-11-20 11:14:55.2323 334/T1 age/Cor/CoreMain.cpp:1015 ]: Passenger core online, PID 334
[Fri Nov 20 11:14:55.234249 2026] [mpm_event:notice] [pid 301:tid 140207974897536] AH00489: Apache/2.4.52 (Ubuntu) Phusion_Passenger/6.0.10 configured -- resuming normal operations
App 412 output: WARN: advpng none at /usr/bin/advpng (== none) is of unknown version
"#,
            expect![[r#"
                log
                  ts: 2026-11-20T11:14:55.232300Z
                  program: passenger
                  process_id: 334
                  severity: notice
                  body: Passenger core online, PID 334
                  attrs: {thread_id: T1, code_location: age/Cor/CoreMain.cpp:1015}
                log
                  ts: 2026-11-20T11:14:55.234249Z
                  program: apache
                  process_id: 301
                  severity: notice
                  body: AH00489: Apache/2.4.52 (Ubuntu) Phusion_Passenger/6.0.10 configured -- resuming normal operations
                  attrs: {module: mpm_event, thread_id: 140207974897536, error_code: AH00489}
                  message_template: AH00489: Apache/2.4.52 (Ubuntu) Phusion_Passenger/6.0.10 configured -- resuming normal operations
                log
                  ts: 2026-11-20T12:00:00Z
                  program: passenger
                  process_id: 412
                  severity: warn
                  body: WARN: advpng none at /usr/bin/advpng (== none) is of unknown version
                  attrs: {stream: output}
            "#]],
        );
    }

    #[test]
    fn lines_without_head_are_kept_whole() {
        check_format(
            LogFormat::ApacheError,
            "sh: 1: convert: not found\n[noon] [x] y\n",
            expect![[r#"
                log
                  ts: 2026-11-20T12:00:00Z
                  body: sh: 1: convert: not found
                log
                  ts: 2026-11-20T12:00:00Z
                  body: [noon] [x] y
            "#]],
        );
    }
}
