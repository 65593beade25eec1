//! nginx's `error_log` (ngx_log.c): `2026/11/20 12:00:00 [error] 12#34: *5 message, client: …,
//! server: …`.
//!
//! The named values at the end become attributes; the body is the message before them. A line
//! without the header continues the previous one (stack traces of FastCGI applications) and is a
//! row with the line as its body.
//!
//! nginx escapes nothing: a path with `%22`, `%20` or `%0a` is logged with a quote, blank or line
//! end. So a request can forge named values, and whole lines. [`named_values`] accepts only what
//! nginx alone can have written, [`line_trust`] finds the lines that may be part of another.
//! Passenger writes its lines, without nginx's header, into the same file.

use weir_tables::{message_template, unfinished_template};
use weir_values::{number, severity};

use crate::format::{Format, NamedFormat};
use crate::log_text;
use crate::passenger;
use crate::record::{LineFault, Record, RowKind};

/// Names that nginx appends to a message, in this order (ngx_http_log_error_handler,
/// ngx_stream_log_error, ngx_mail_log_error). Some are written without quotes.
const NAMES: [&str; 6] = ["request", "subrequest", "login", "upstream", "host", "referrer"];

/// Longest message of nginx, line end included (NGX_MAX_ERROR_STR), and of OpenResty.
const MESSAGE_BYTES: [usize; 2] = [2048, 4096];

pub(crate) const FORMAT: NamedFormat =
    NamedFormat { name: "nginx_error", new: || Box::new(NginxErrorLog { trust: Vec::new() }) };

/// Reads the lines of one error log.
struct NginxErrorLog {
    /// For the next lines of the chunk, last line first.
    trust: Vec<LineTrust>,
}

/// How much of a line nginx itself has written for sure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineTrust {
    /// The line is one message.
    Whole,
    /// The message may go on in the next line: only its header and first words are nginx's.
    Start,
    /// All of it may be a visitor's.
    Nothing,
}

impl Format for NginxErrorLog {
    fn name(&self) -> &'static str {
        FORMAT.name
    }

    fn parse<'a>(&mut self, line: &'a str, record: &mut Record<'a>) -> Result<RowKind, LineFault> {
        match self.trust.pop().unwrap_or(LineTrust::Whole) {
            LineTrust::Nothing => {
                record.is_template_known = true;
                log_text::parse(line, record);
                record.log.severity = None;
            }
            trust => read(line, trust, record),
        }
        Ok(RowKind::Log)
    }

    fn looks_ahead(&self) -> bool {
        true
    }

    fn look_ahead(&mut self, lines: &[&[u8]]) {
        self.trust = line_trust(lines);
        self.trust.reverse();
    }
}

/// Reads a line that is one message.
pub(crate) fn parse<'a>(line: &'a str, record: &mut Record<'a>) -> RowKind {
    read(line, LineTrust::Whole, record);
    RowKind::Log
}

fn read<'a>(line: &'a str, trust: LineTrust, record: &mut Record<'a>) {
    record.is_template_known = true;
    if head(line, trust, record).is_none() && passenger::parse(line, record).is_none() {
        log_text::parse(line, record);
    }
}

/// Whether a line starts with the header of the format.
pub(crate) fn is_likely(line: &str) -> bool {
    has_header(line.as_bytes())
}

fn has_header(line: &[u8]) -> bool {
    matches!(line, [_, _, _, _, b'/', _, _, b'/', _, _, b' ', ..])
        && line.get(19..).is_some_and(|rest| rest.starts_with(b" ["))
}

/// How far each of consecutive lines can be trusted.
///
/// nginx writes a message at once and cuts it off at [`MESSAGE_BYTES`]. So a message with line ends
/// has an end that no header begins, or exactly the longest length; every line since the first
/// request's message within that length may be the visitor's.
///
/// ```text
/// 12:00:00 [error] 1#1: *5 open() "/srv/         ◄── start
/// 12:00:00 [alert] 1#1: accept4() failed (24: …  ◄── forged
/// x" failed (2: …), client: …, request: "GET …   ◄── its end, without a header
/// ```
fn line_trust(lines: &[&[u8]]) -> Vec<LineTrust> {
    let mut trust = vec![LineTrust::Whole; lines.len()];
    let mut starts = Vec::with_capacity(lines.len());
    let mut at = 0;
    for line in lines {
        starts.push(at);
        at += line.len() + 1;
    }
    let mut is_passenger = false;
    for (last, line) in lines.iter().enumerate() {
        let end = starts[last] + line.len() + 1;
        is_passenger = is_of_passenger(line, is_passenger);
        let is_end = !has_header(line) && !is_passenger;
        let near = starts.partition_point(|start| end - start.min(&end) > MESSAGE_BYTES[1]);
        let first = (near..last).find(|first| {
            let is_longest = MESSAGE_BYTES.contains(&(end - starts[*first]));
            (is_end || is_longest) && begins_quote(lines[*first])
        });
        if let Some(first) = first {
            trust[first + 1..=last].fill(LineTrust::Nothing);
            if trust[first] == LineTrust::Whole {
                trust[first] = LineTrust::Start;
            }
        }
    }
    trust
}

/// Whether a line is Passenger's, or an indented continuation of such a line.
fn is_of_passenger(line: &[u8], is_earlier: bool) -> bool {
    let is_continued = is_earlier && line.starts_with(b"  ") && !passenger::names_client(line);
    is_continued || passenger::is_own(line)
}

/// Whether a line is of a connection, with a text that nginx did not choose.
fn begins_quote(line: &[u8]) -> bool {
    has_header(line)
        && memchr::memmem::find(line, b": *").is_some()
        && (memchr::memchr(b'"', line).is_some()
            || memchr::memmem::find(line, b" [lua] ").is_some())
}

fn head<'a>(line: &'a str, trust: LineTrust, record: &mut Record<'a>) -> Option<()> {
    let (ts, used) = record.times.read_front(line)?;
    let (level, rest) = line[used..].strip_prefix(" [")?.split_once("] ")?;
    let (process, message) = rest.split_once(": ")?;
    let (process_id, thread_id) = process.split_once('#')?;
    record.log.process_id = Some(number::integer(process_id)?);
    record.log.severity = severity::of_word(level);
    record.log.program = Some("nginx");
    record.ts = Some(ts);
    record.attr(["thread_id", thread_id]);
    let (message, is_connection) = connection(message, record);
    let (body, template) = match ends(message)[..] {
        _ if trust == LineTrust::Start => (message, unfinished_template(message)),
        [] if is_connection => (message, unfinished_template(message)),
        [] => (message, message_template("nginx", message).unwrap_or_default()),
        // A second end before which nothing is quoted is in a request or header.
        [at, ..] if !message[..at].contains('"') => own_message(message, at, record),
        [at] => own_message(message, at, record),
        _ => (message, unfinished_template(message)),
    };
    record.log.body = body;
    record.log.message_template = Some(record.arena.alloc_str(&template));
    Some(())
}

/// A leading `*5 ` is the number of the connection.
fn connection<'a>(message: &'a str, record: &mut Record<'a>) -> (&'a str, bool) {
    let cut = message.strip_prefix('*').and_then(|rest| rest.split_once(' '));
    match cut.filter(|(number, _)| number::integer(number).is_some()) {
        Some((number, message)) => {
            record.attr(["connection", number]);
            (message, true)
        }
        None => (message, false),
    }
}

/// Offsets of `, client: ADDRESS, server: `, at most two: the end of the message, or a copy of it
/// in a text that a visitor chose.
fn ends(message: &str) -> Vec<usize> {
    let found = message.match_indices(", ").map(|(at, _)| at);
    found.filter(|at| is_end(&message[*at..])).take(2).collect()
}

fn is_end(text: &str) -> bool {
    let marks = [", client: ", ", udp client: "];
    let Some(rest) = marks.iter().find_map(|mark| text.strip_prefix(mark)) else { return false };
    let (address, behind) = rest.split_once(", ").unwrap_or((rest, "server: "));
    let is_address = !address.is_empty()
        && address.bytes().all(|byte| byte.is_ascii_hexdigit() || b".:%".contains(&byte));
    (is_address || address == "unix:") && behind.starts_with("server: ")
}

/// Reads the named values from `at` on; returns the message before them and its template.
fn own_message<'a>(
    message: &'a str,
    at: usize,
    record: &mut Record<'a>,
) -> (&'a str, std::borrow::Cow<'a, str>) {
    named_values(&message[at..], record);
    let message = &message[..at];
    (message, message_template("nginx", message).unwrap_or_default())
}

/// Reads `, client: …, server: …, request: "…", …`.
///
/// Neither a target nor a Host header may have a blank (since nginx 1.21.1), so a value ends at the
/// first one; only a referrer may, and it is the last. What does not look like that is one value,
/// unless it is clear where it ends.
fn named_values<'a>(text: &'a str, record: &mut Record<'a>) {
    let Some((_, rest)) = text.split_once("client: ") else { return };
    let (client, rest) = rest.split_once(", server: ").unwrap_or((rest, ""));
    record.attr(["client", client]);
    let (server, _) = rest.split_once(", ").unwrap_or((rest, ""));
    record.attr(["server", server]);
    let mut rest = &rest[server.len()..];
    let mut names = NAMES.iter();
    while let Some((name, value)) = rest.strip_prefix(", ").and_then(|rest| rest.split_once(": ")) {
        if !names.any(|known| *known == name) {
            break;
        }
        let end = match name {
            "request" => request_end(value).or_else(|| loose_end(value)).unwrap_or(value.len()),
            "referrer" | "login" => value.len(),
            _ => value.find(' ').map_or(value.len(), |blank| {
                if value[..blank].ends_with(',') { blank - 1 } else { blank }
            }),
        };
        record.attr([name, unquoted(&value[..end])]);
        rest = &value[end..];
    }
    record.attr(["rest", rest.strip_prefix(", ").unwrap_or(rest)]);
}

/// The length of `"GET /target HTTP/1.1"` at the front of a text.
fn request_end(text: &str) -> Option<usize> {
    let mut words = text.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if !method.starts_with('"') || !version.starts_with("HTTP/") {
        return None;
    }
    let quote = version.find('"')?;
    Some(method.len() + target.len() + quote + 3)
}

/// The length of a request with blanks in its target; `None` if it may contain a forged upstream.
fn loose_end(text: &str) -> Option<usize> {
    let is_clear = text.matches("\", upstream: \"").count() < 2;
    let marks = NAMES[1..].iter().filter_map(|name| text.find(&format!("\", {name}: \"")));
    marks.min().filter(|_| is_clear).map(|at| at + 1)
}

fn unquoted(value: &str) -> &str {
    let value = value.strip_prefix('"').unwrap_or(value);
    value.strip_suffix('"').unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use weir_tables::LogFormat;

    use crate::RowText;
    use crate::check::{check_format, rows};

    #[test]
    fn named_values_leave_the_message() {
        check_format(
            LogFormat::NginxError,
            r#"2026/11/20 12:00:00 [error] 12#34: *5 connect() failed (111: Connection refused) while connecting to upstream, client: 10.0.0.1, server: _, request: "GET /a, b HTTP/1.1", upstream: "http://127.0.0.1:8080/a", host: "a.example", referrer: "http://r/"
2026/11/20 12:00:00 [emerg] 12#12: bind() to 0.0.0.0:80 failed (98: Address already in use)
"#,
            expect![[r#"
                log
                  ts: 2026-11-20T12:00:00Z
                  program: nginx
                  process_id: 12
                  severity: error
                  body: connect() failed (111: Connection refused) while connecting to upstream
                  attrs: {thread_id: 34, connection: 5, client: 10.0.0.1, server: _, request: GET /a, b HTTP/1.1, upstream: http://127.0.0.1:8080/a, host: a.example, referrer: http://r/}
                  message_template: connect() failed (111: Connection refused) while connecting to upstream
                log
                  ts: 2026-11-20T12:00:00Z
                  program: nginx
                  process_id: 12
                  severity: emergency
                  body: bind() to 0.0.0.0:80 failed (98: Address already in use)
                  attrs: {thread_id: 12}
                  message_template: bind() to 0.0.0.0:80 failed (98: Address already in use)
            "#]],
        );
    }

    #[test]
    fn names_inside_of_messages_and_requests_are_not_taken() {
        check_format(
            LogFormat::NginxError,
            r#"2026/11/20 12:00:00 [error] 1#1: *5 FastCGI sent in stderr: "PHP message: x, server: y" while reading upstream, client: 10.0.0.1, server: a, request: "GET /, client: 6.6.6.6 HTTP/1.1"
"#,
            expect![[r#"
                log
                  ts: 2026-11-20T12:00:00Z
                  program: nginx
                  process_id: 1
                  severity: error
                  body: FastCGI sent in stderr: "PHP message: x, server: y" while reading upstream
                  attrs: {thread_id: 1, connection: 5, client: 10.0.0.1, server: a, request: GET /, client: 6.6.6.6 HTTP/1.1}
                  message_template: FastCGI sent in stderr: "…" while reading upstream
            "#]],
        );
    }

    /// Written by nginx 1.22 for requests with `%22`, `%20` and `%0a` and for headers with quotes.
    #[test]
    fn forged_values_and_lines_are_not_taken() {
        check_format(
            LogFormat::NginxError,
            r#"2026/11/20 11:59:00 [error] 7#7: *1 open() "/srv/
2026/11/20 11:58:00 [alert] 1#1: accept4() failed (24: Too many open files)
x" failed (2: No such file or directory), client: 127.0.0.1, server: a.example, request: "GET /%0a2026/11/20%2011:58:00%20%5balert%5d%201%231:%20accept4()%20failed%20(24:%20Too%20many%20open%20files)%0ax HTTP/1.1", host: "a.example"
2026/11/20 11:59:01 [error] 7#7: *2 open() "/srv/x" failed (111: Connection refused) while connecting to upstream, client: 1.1.1.1, server: _, request: "GET / HTTP/1.1", upstream: "http:/victim:80/", host: "x" failed (2: No such file or directory), client: 127.0.0.1, server: a.example, request: "GET /x%22%20failed HTTP/1.1", host: "a.example"
2026/11/20 11:59:02 [error] 7#7: *3 connect() failed (111: Connection refused) while connecting to upstream, client: 127.0.0.1, server: a.example, request: "GET /up/a%22b?c=%22 HTTP/1.1", upstream: "http://127.0.0.1:1/up/a%22b?c=%22", host: "a"b", referrer: "x", upstream: "http://victim:1/", host: "z"
2026/11/20 11:59:03 [error] 7#7: *4 open() "/srv/a" failed (24: Too many open files), client: ::1, server: , request: "GET /a" b HTTP/1.1", upstream: "http://victim:1/", upstream: "http://10.0.0.1:80/a", host: "x"
2026/11/20 11:59:05 [error] 7#7: *9 no,such.example could not be resolved (110: Operation timed out), client: 127.0.0.1, server: a.example, request: "GET /dyn HTTP/1.1", host: "no,such.example"
2026/11/20 11:59:06 [error] 7#7: *10 connect() failed (111: Connection refused) while connecting to upstream, client: 10.0.0.1, server: 0.0.0.0:5432, upstream: "10.0.0.2:5432", bytes from/to client:0/0, bytes from/to upstream:0/0
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
                  ts: 2026-11-20T11:58:00Z
                  body: 2026/11/20 11:58:00 [alert] 1#1: accept4() failed (24: Too many open files)
                log
                  ts: 2026-11-20T12:00:00Z
                  body: x" failed (2: No such file or directory), client: 127.0.0.1, server: a.example, request: "GET /%0a2026/11/20%2011:58:00%20%5balert%5d%201%231:%20accept4()%20failed%20(24:%20Too%20many%20open%20files)%0ax HTTP/1.1", host: "a.example"
                log
                  ts: 2026-11-20T11:59:01Z
                  program: nginx
                  process_id: 7
                  severity: error
                  body: open() "/srv/x" failed (111: Connection refused) while connecting to upstream, client: 1.1.1.1, server: _, request: "GET / HTTP/1.1", upstream: "http:/victim:80/", host: "x" failed (2: No such file or directory), client: 127.0.0.1, server: a.example, request: "GET /x%22%20failed HTTP/1.1", host: "a.example"
                  attrs: {thread_id: 7, connection: 2}
                  message_template: open() …
                log
                  ts: 2026-11-20T11:59:02Z
                  program: nginx
                  process_id: 7
                  severity: error
                  body: connect() failed (111: Connection refused) while connecting to upstream
                  attrs: {thread_id: 7, connection: 3, client: 127.0.0.1, server: a.example, request: GET /up/a%22b?c=%22 HTTP/1.1, upstream: http://127.0.0.1:1/up/a%22b?c=%22, host: a"b, referrer: x", upstream: "http://victim:1/", host: "z}
                  message_template: connect() failed (111: Connection refused) while connecting to upstream
                log
                  ts: 2026-11-20T11:59:03Z
                  program: nginx
                  process_id: 7
                  severity: error
                  body: open() "/srv/a" failed (24: Too many open files)
                  attrs: {thread_id: 7, connection: 4, client: ::1, request: GET /a" b HTTP/1.1", upstream: "http://victim:1/", upstream: "http://10.0.0.1:80/a", host: "x}
                  message_template: open() "…" failed (24: Too many open files)
                log
                  ts: 2026-11-20T11:59:05Z
                  program: nginx
                  process_id: 7
                  severity: error
                  body: no,such.example could not be resolved (110: Operation timed out)
                  attrs: {thread_id: 7, connection: 9, client: 127.0.0.1, server: a.example, request: GET /dyn HTTP/1.1, host: no,such.example}
                  message_template: … could not be resolved (110: Operation timed out)
                log
                  ts: 2026-11-20T11:59:06Z
                  program: nginx
                  process_id: 7
                  severity: error
                  body: connect() failed (111: Connection refused) while connecting to upstream
                  attrs: {thread_id: 7, connection: 10, client: 10.0.0.1, server: 0.0.0.0:5432, upstream: 10.0.0.2:5432, rest: bytes from/to client:0/0, bytes from/to upstream:0/0}
                  message_template: connect() failed (111: Connection refused) while connecting to upstream
            "#]],
        );
    }

    /// crowdsecurity/crowdsec #1123, crowdsecurity/hub PR 519 and #288, fail2ban/fail2ban PR 680.
    #[test]
    fn lines_of_public_reports_keep_their_own_words() {
        let cases = [
            (
                r#"2021/12/23 14:39:01 [error] 3775#3775: *69 [client 192.0.2.42] ModSecurity: Access denied with code 403 (phase 2). [msg "accept4() failed (24: Too many open files)"] [ref ""], client: 192.0.2.42, server: a.example, request: "HEAD / HTTP/1.1", host: "a.example""#,
                "[client …",
                "HEAD / HTTP/1.1",
            ),
            (
                r#"2022/07/28 16:37:00 [error] 2118161#2118161: *1 limiting requests, excess: 5.459 by zone "nodos", client: 192.0.2.100, server: a.example, request: "POST https://a.example/login", host: "a.example", referrer: "https://a.example/login?referrer=/""#,
                r#"limiting requests, excess: 5.459 by zone "…""#,
                "POST https://a.example/login",
            ),
            (
                r#"2021/12/01 13:53:33 [error] 31#31: *46 "/srv/market/index.html" is not found (2: No such file or directory), client: 172.17.0.1, server: localhost, request: "GET /market/ HTTP/1.1", host: "localhost""#,
                r#""…" is not found (2: No such file or directory)"#,
                "GET /market/ HTTP/1.1",
            ),
            (
                r#"2014/04/03 22:20:38 [error] 30708#0: *3 user "a" was not found in "/etc/h", client: 192.0.2.35, server: , request: "GET / HTTP/1.1", host: "10.0.0.1:443", referrer: "x", client: 10.0.0.9, server: , upstream: "http://10.0.0.66:80/""#,
                "user …",
                "",
            ),
        ];
        for (line, template, request) in cases {
            let rows = RowText::all(&rows(LogFormat::NginxError, line.as_bytes()).finish());
            assert_eq!(rows[0].get("message_template"), Some(template), "{line}");
            assert_eq!(rows[0].get("attrs.request").unwrap_or_default(), request, "{line}");
            assert_eq!(rows[0].get("attrs.upstream"), None, "{line}");
        }
    }

    #[test]
    fn lines_that_may_be_part_of_a_longest_message_are_not_trusted() {
        let first = "2026/11/20 11:59:00 [error] 7#7: *1 open() \"/srv/".to_owned();
        let forged = "2026/11/20 11:58:00 [alert] 1#1: accept4() failed (24: Too many open files)";
        let pad = "x".repeat(super::MESSAGE_BYTES[0] - first.len() - forged.len() - 2);
        let first = first + &pad;
        let lines = [first.as_bytes(), forged.as_bytes(), forged.as_bytes()];
        use super::LineTrust::{Nothing, Start, Whole};
        assert_eq!(super::line_trust(&lines), [Start, Nothing, Whole]);
        let lines = [&first.as_bytes()[..900], forged.as_bytes()];
        assert_eq!(super::line_trust(&lines), [Whole, Whole]);
    }

    #[test]
    fn continued_lines_are_kept_whole() {
        check_format(
            LogFormat::NginxError,
            "PHP message: #0 {main}\n2026/11/20 [x\n",
            expect![[r#"
                log
                  ts: 2026-11-20T12:00:00Z
                  body: PHP message: #0 {main}
                log
                  ts: 2026-11-20T12:00:00Z
                  body: 2026/11/20 [x
            "#]],
        );
    }
}
