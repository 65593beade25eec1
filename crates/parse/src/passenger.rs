//! Lines of Phusion Passenger in the error log of nginx or Apache, or in `passenger_log_file`.
//!
//! `[ N 2026-11-20 12:00:00.1234 123/T1 age/Cor/CoreMain.cpp:10 ]: message` is Passenger's own
//! (LoggingKit; early versions wrote no level), `App 123 output: text` is a line that an
//! application wrote (`stdout` and `stderr` before 6.0).
//!
//! A visitor can forge such lines in nginx's error log, but not the end of nginx's message, which
//! names the client. So no line that names a client is taken for Passenger's.

use weir_values::number;

use crate::log_text;
use crate::record::Record;

const PROGRAM: &str = "passenger";

/// The parts before a message of Passenger.
struct MessageHead<'a> {
    level: &'a str,
    time: &'a str,
    process: &'a str,
    /// File and line of Passenger's source.
    place: &'a str,
    message: &'a str,
}

/// Reads a line; `None`, with the record unchanged, if it is not in this format.
pub(crate) fn parse<'a>(line: &'a str, record: &mut Record<'a>) -> Option<()> {
    if let Some((process_id, stream, text)) = output(line) {
        return application(process_id, [stream, text], record);
    }
    let head = head(line)?;
    let ts = record.times.read(head.time)?;
    let (process_id, thread_id) = head.process.split_once('/')?;
    let process_id = number::integer(process_id)?;
    record.is_template_known = true;
    record.ts = Some(ts);
    record.log.program = Some(PROGRAM);
    record.log.process_id = Some(process_id);
    record.log.severity = severity(head.level);
    record.log.body = head.message;
    record.attr(["thread_id", thread_id]);
    record.attr(["code_location", head.place]);
    Some(())
}

/// Whether a line is Passenger's, and not the end of a message of nginx.
pub(crate) fn is_own(line: &[u8]) -> bool {
    let starts = line.starts_with(b"[ ") || line.starts_with(b"App ");
    starts
        && !names_client(line)
        && std::str::from_utf8(line)
            .is_ok_and(|text| output(text).is_some() || head(text).is_some())
}

/// Whether a line may be the end of a message that nginx wrote for a client.
pub(crate) fn names_client(line: &[u8]) -> bool {
    memchr::memmem::find(line, b"client: ").is_some()
}

/// What an application wrote is read like a line of its log.
fn application<'a>(
    process_id: i64,
    [stream, text]: [&'a str; 2],
    record: &mut Record<'a>,
) -> Option<()> {
    log_text::parse(text, record);
    record.is_template_known = true;
    record.log.program = Some(PROGRAM);
    record.log.process_id = Some(process_id);
    record.attr(["stream", stream]);
    Some(())
}

/// `App 123 output: text`: process, stream and text.
fn output(line: &str) -> Option<(i64, &str, &str)> {
    let (process, rest) = line.strip_prefix("App ")?.split_once(' ')?;
    let (stream, text) = rest.split_once(':')?;
    let is_stream = matches!(stream, "output" | "stdout" | "stderr");
    let process_id = number::integer(process).filter(|_| is_stream)?;
    Some((process_id, stream, text.strip_prefix(' ').unwrap_or(text)))
}

fn head(line: &str) -> Option<MessageHead<'_>> {
    let (head, message) = line.strip_prefix("[ ")?.split_once(" ]:")?;
    let (level, rest) = match head.split_once(' ')? {
        (level, rest) if level.starts_with(|first: char| first.is_ascii_uppercase()) => {
            (level, rest)
        }
        _ => ("", head),
    };
    let day = rest.find(' ')?;
    let clock = rest[day + 1..].find(' ')?;
    let (time, rest) = rest.split_at(day + 1 + clock);
    let (process, place) = rest[1..].split_once(' ')?;
    let is_time = time.len() >= 19
        && time.bytes().all(|byte| byte.is_ascii_digit() || b"-:. ".contains(&byte));
    let is_process = process.split_once('/').is_some_and(|(id, _)| number::integer(id).is_some());
    let is_head = is_time && is_process && place.contains(':') && !place.contains(' ');
    let message = message.strip_prefix(' ').unwrap_or(message);
    is_head.then_some(MessageHead { level, time, process, place, message })
}

/// The severity of a letter; `D2` and `D3` are more detailed.
fn severity(level: &str) -> Option<&'static str> {
    Some(match level {
        "C" => "critical",
        "E" => "error",
        "W" => "warn",
        "N" => "notice",
        "I" => "info",
        "D" | "D2" | "D3" => "debug",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use weir_tables::LogFormat;

    use crate::check::check_format;

    /// phusion/passenger issues 2345 and 2001, at a later time.
    #[test]
    fn lines_in_the_error_log_of_nginx_are_read() {
        check_format(
            LogFormat::NginxError,
            r#"[ E 2026-11-20 08:07:14.7713 130726/T6 age/Cor/Con/CheckoutSession.cpp:274 ]: [Client 1-285] Cannot checkout session because a spawning error occurred. The identifier of the error is 8771bf24. Please see earlier logs for details about the error.
2026/11/20 08:13:04 [error] 130739#130739: *2594 access forbidden by rule, client: 185.191.171.8, server: myapp.org, request: "GET /robots.txt HTTP/1.1", host: "myapp.org"
[ E 2026-11-20 09:55:18.3724 130726/Tu age/Cor/App/Implementation.cpp:221 ]: Could not spawn process for application /var/www/myapp/bundle/programs: An operating system error occurred while preparing to spawn an application process: Cannot lstat("/var/www/myapp/bundle/programs/main.js"): No such file or directory (errno=2)
  Error ID: 7e481a39
App 6756 stderr: + '[' -d /etc/profile.d ']'
"#,
            expect![[r#"
                log
                  ts: 2026-11-20T08:07:14.771300Z
                  program: passenger
                  process_id: 130726
                  severity: error
                  body: [Client 1-285] Cannot checkout session because a spawning error occurred. The identifier of the error is 8771bf24. Please see earlier logs for details about the error.
                  attrs: {thread_id: T6, code_location: age/Cor/Con/CheckoutSession.cpp:274}
                log
                  ts: 2026-11-20T08:13:04Z
                  program: nginx
                  process_id: 130739
                  severity: error
                  body: access forbidden by rule
                  attrs: {thread_id: 130739, connection: 2594, client: 185.191.171.8, server: myapp.org, request: GET /robots.txt HTTP/1.1, host: myapp.org}
                  message_template: access forbidden by rule
                log
                  ts: 2026-11-20T09:55:18.372400Z
                  program: passenger
                  process_id: 130726
                  severity: error
                  body: Could not spawn process for application /var/www/myapp/bundle/programs: An operating system error occurred while preparing to spawn an application process: Cannot lstat("/var/www/myapp/bundle/programs/main.js"): No such file or directory (errno=2)
                  attrs: {thread_id: Tu, code_location: age/Cor/App/Implementation.cpp:221}
                log
                  ts: 2026-11-20T12:00:00Z
                  body:   Error ID: 7e481a39
                log
                  ts: 2026-11-20T12:00:00Z
                  program: passenger
                  process_id: 6756
                  body: + '[' -d /etc/profile.d ']'
                  attrs: {stream: stderr}
            "#]],
        );
    }

    /// phusion/passenger issues 1123 and 1621 at a later time, and lines of applications.
    #[test]
    fn lines_of_other_versions_and_of_applications_are_read() {
        check_format(
            LogFormat::Auto,
            r#"[ 2026-11-20 11:36:50.1655 26875/7f85d1e5e700 Pool2/Spawner.h:796 ]: [App 26906 stdout] 
[ W 2026-11-20 11:32:36.4234 17309/7f5e2abfd700 age/Cor/Con/CheckoutSession.cpp:236 ]: [Client 10-52676] Returning HTTP 503 due to: Request queue full (configured max. size: 100)
[ D2 2026-11-20 11:32:36.4234 17309/T1 Ser/Server.h:900 ]: x
App 12 output: 2026-11-20 11:59:58 ERROR disk full
App 12 output:
App twelve output: x
"#,
            expect![[r#"
                log
                  ts: 2026-11-20T11:36:50.165500Z
                  program: passenger
                  process_id: 26875
                  body: [App 26906 stdout] 
                  attrs: {thread_id: 7f85d1e5e700, code_location: Pool2/Spawner.h:796}
                log
                  ts: 2026-11-20T11:32:36.423400Z
                  program: passenger
                  process_id: 17309
                  severity: warn
                  body: [Client 10-52676] Returning HTTP 503 due to: Request queue full (configured max. size: 100)
                  attrs: {thread_id: 7f5e2abfd700, code_location: age/Cor/Con/CheckoutSession.cpp:236}
                log
                  ts: 2026-11-20T11:32:36.423400Z
                  program: passenger
                  process_id: 17309
                  severity: debug
                  body: x
                  attrs: {thread_id: T1, code_location: Ser/Server.h:900}
                log
                  ts: 2026-11-20T11:59:58Z
                  program: passenger
                  process_id: 12
                  severity: error
                  body: 2026-11-20 11:59:58 ERROR disk full
                  attrs: {stream: output}
                log
                  ts: 2026-11-20T12:00:00Z
                  program: passenger
                  process_id: 12
                  body: App 12 output:
                  attrs: {stream: output}
                log
                  ts: 2026-11-20T12:00:00Z
                  body: App twelve output: x
            "#]],
        );
    }

    #[test]
    fn a_visitor_cannot_write_such_lines() {
        check_format(
            LogFormat::NginxError,
            r#"2026/11/20 11:59:00 [error] 7#7: *1 open() "/srv/
[ E 2026-11-20 11:59:00.1 1/T1 age/Cor/App/Implementation.cpp:221 ]: Could not spawn process for application /x
  Error ID: 1
App 1 output: PHP Fatal error" failed (2: No such file or directory), client: 127.0.0.1, server: a.example, request: "GET /x HTTP/1.1"
"#,
            expect![[r#"
                log
                  ts: 2026-11-20T11:59:00Z
                  program: nginx
                  process_id: 7
                  severity: error
                  body: open() "/srv/
                  attrs: {thread_id: 7, connection: 1}
                  message_template: open() …
                log
                  ts: 2026-11-20T12:00:00Z
                  body: [ E 2026-11-20 11:59:00.1 1/T1 age/Cor/App/Implementation.cpp:221 ]: Could not spawn process for application /x
                log
                  ts: 2026-11-20T12:00:00Z
                  body:   Error ID: 1
                log
                  ts: 2026-11-20T12:00:00Z
                  body: App 1 output: PHP Fatal error" failed (2: No such file or directory), client: 127.0.0.1, server: a.example, request: "GET /x HTTP/1.1"
            "#]],
        );
    }
}
