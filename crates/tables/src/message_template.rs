//! The message of a log line without the texts that a visitor can choose: what rules match on.
//!
//! A proxy quotes paths, user names and headers in its messages, so the words of a message are not
//! always the program's: a request for `/accept4() failed (24: Too many open files)` is logged as
//! `open() "/srv/accept4() failed (24: Too many open files)" failed (2: No such file or
//! directory)`. Formats of messages: nginx's `ngx_log_error` calls, Apache's `APLOGNO` calls,
//! `send_log` and `ha_alert` of HAProxy, `zlog` of PHP-FPM.
//!
//! Only programs whose messages are known have a template. For all others it is unknown which
//! words are whose.

use std::borrow::Cow;

/// Stands for a text that was left out.
const GAP: &str = "…";

/// The message of a known program with quoted texts replaced by `…`; `None` when it is unknown
/// which words are the program's own.
pub fn message_template<'a>(program: &str, body: &'a str) -> Option<Cow<'a, str>> {
    match program {
        "nginx" => Some(nginx(body)),
        "haproxy" => haproxy(body),
        "apache" | "apache2" | "httpd" => apache(body),
        _ if program.starts_with("php-fpm") || program.starts_with("php_fpm") => php_fpm(body),
        _ => None,
    }
}

/// The text before the first quote, of a message whose end is unknown or may be a visitor's.
pub fn unfinished_template(body: &str) -> Cow<'_, str> {
    match (foreign_start(body), body.find('"')) {
        (None, None) => Cow::Borrowed(body),
        (foreign, quote) => {
            let cut = foreign.unwrap_or(body.len()).min(quote.unwrap_or(body.len()));
            Cow::Owned(format!("{}{GAP}", &body[..cut]))
        }
    }
}

/// nginx quotes what comes from a request, except for names that its resolver looks up and texts
/// that scripts log.
fn nginx(body: &str) -> Cow<'_, str> {
    if let Some(cut) = foreign_start(body) {
        return Cow::Owned(format!("{}{GAP}", &body[..cut]));
    }
    if let Some(at) = body.rfind(" could not be resolved (") {
        return Cow::Owned(format!("{GAP}{}", &body[at..]));
    }
    if let Some((own, _)) = body.split_once("no resolver defined to resolve ") {
        return Cow::Owned(format!("{own}no resolver defined to resolve {GAP}"));
    }
    without_quoted(body, &['"'])
}

/// Where the text of a script or of another module's log format starts.
fn foreign_start(body: &str) -> Option<usize> {
    let marks = ["[lua] ", "js: ", "js exception: ", "ModSecurity: ", "NAXSI_", "[client "];
    marks.iter().find_map(|mark| body.starts_with(mark).then_some(mark.len()))
}

/// Everything between the first and the last quote becomes `…`: a quoted text may have quotes.
fn without_quoted<'a>(body: &'a str, quotes: &[char]) -> Cow<'a, str> {
    match (body.find(quotes), body.rfind(quotes)) {
        (Some(first), Some(last)) if first < last => {
            Cow::Owned(format!("{}{GAP}{}", &body[..=first], &body[last..]))
        }
        (Some(first), _) => Cow::Owned(format!("{}{GAP}", &body[..=first])),
        _ => Cow::Borrowed(body),
    }
}

/// HAProxy's own messages start with what they are about. Anything else is a line of a
/// `log-format`, which may hold headers. It quotes what a checked server answered, and the error of
/// a connect.
fn haproxy(body: &str) -> Option<Cow<'_, str>> {
    let message = without_level(body);
    let (first, rest) = message.split_once(' ')?;
    let second = rest.split(' ').next().unwrap_or_default();
    let is_own = match first {
        "Server" => second.contains('/'),
        "Backup" => rest.starts_with("Server "),
        "Health" => rest.starts_with("check for "),
        "backend" => rest.ends_with(" has no server available!"),
        "Connect()" => rest.starts_with("failed for "),
        "Proxy" => [" started", " stopped", " reached "].iter().any(|words| rest.contains(words)),
        _ => false,
    };
    let quote = message.find('"').unwrap_or(message.len());
    let is_system = message[..quote].contains(", reason: Layer4 ");
    is_own.then(|| if is_system { Cow::Borrowed(message) } else { without_quoted(message, &['"']) })
}

/// The message behind `[WARNING]  (123) : `, as HAProxy writes it to its standard error.
fn without_level(body: &str) -> &str {
    let levels = ["[ALERT]", "[WARNING]", "[NOTICE]", "[EMERG]"];
    let behind = levels.iter().find_map(|level| body.strip_prefix(level));
    behind.and_then(|rest| rest.split_once(" : ")).map_or(body, |(_, message)| message)
}

/// Messages of Apache that have no text of a request, by their code; the others are their code.
const APACHE_OWN: &[&str] = &[
    "AH00045", "AH00046", "AH00051", "AH00052", "AH00056", "AH00072", "AH00094", "AH00161",
    "AH00163", "AH00169", "AH00286", "AH00287", "AH00326", "AH00484", "AH00485", "AH00489",
    "AH00491", "AH00492", "AH00493", "AH00895", "AH00898", "AH00940", "AH00957", "AH00959",
    "AH00961", "AH01079", "AH01102", "AH01114", "AH01167", "AH02454", "AH03490",
];

/// `(13)Permission denied: AH00132: …`: the error of a system call and the code come first.
fn apache(body: &str) -> Option<Cow<'_, str>> {
    let at = match body.strip_prefix('(') {
        Some(rest) if rest.starts_with(|digit: char| digit.is_ascii_digit()) => {
            body.find(": AH")? + 2
        }
        _ => 0,
    };
    let code = body[at..].split(':').next()?;
    let is_code = code.len() == 7
        && code.strip_prefix("AH").is_some_and(|n| n.bytes().all(|digit| digit.is_ascii_digit()));
    if !is_code {
        return None;
    }
    if APACHE_OWN.contains(&code) {
        // What comes behind is the path that was asked for.
        return Some(match body.find(" returned by /") {
            Some(at) => Cow::Owned(format!("{} returned by {GAP}", &body[..at])),
            None => without_quoted(body, &['"']),
        });
    }
    Some(Cow::Owned(format!("{}: {GAP}", &body[..at + code.len()])))
}

/// PHP-FPM quotes scripts, requests and what its children print.
fn php_fpm(body: &str) -> Option<Cow<'_, str>> {
    const STARTS: &[&str] = &[
        "[pool ",
        "server reached ",
        "seems busy ",
        "child ",
        "fpm is ",
        "ready to ",
        "unable to ",
        "failed to ",
    ];
    let is_own = STARTS.iter().any(|start| body.starts_with(start));
    is_own.then(|| without_quoted(body, &['"', '\'']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(program: &str, cases: &[(&str, Option<&str>)]) {
        for (body, template) in cases {
            assert_eq!(message_template(program, body).as_deref(), *template, "{body}");
        }
    }

    #[test]
    fn words_of_nginx_are_kept_and_quoted_texts_are_not() {
        let own = "accept4() failed (24: Too many open files)";
        let busy = "connect() to unix:/run/a.sock failed (11: Resource temporarily unavailable) \
                    while connecting to upstream";
        check(
            "nginx",
            &[
                (own, Some(own)),
                (busy, Some(busy)),
                (
                    r#"open() "/srv/accept4() failed (24: Too many open files)" failed (2: No such file or directory)"#,
                    Some(r#"open() "…" failed (2: No such file or directory)"#),
                ),
                (
                    r#"open() "/srv/a"b" failed (24: Too many open files)"#,
                    Some(r#"open() "…" failed (24: Too many open files)"#),
                ),
                (r#"user "a" failed" was not found in "/etc/h""#, Some(r#"user "…""#)),
                (
                    "too,many.example could not be resolved (3: Host not found)",
                    Some("… could not be resolved (3: Host not found)"),
                ),
                ("[lua] a.lua:3: f(): connect() failed (111: x)", Some("[lua] …")),
            ],
        );
        assert_eq!(unfinished_template(r#"open() "/a" failed (24: x)"#), "open() …");
        assert_eq!(unfinished_template(own), own);
    }

    #[test]
    fn messages_of_haproxy_start_with_their_subject() {
        check(
            "haproxy",
            &[
                (
                    r#"Server app/a is DOWN, reason: Layer7 invalid response, info: "Server app/b is DOWN", check duration: 1ms."#,
                    Some(
                        r#"Server app/a is DOWN, reason: Layer7 invalid response, info: "…", check duration: 1ms."#,
                    ),
                ),
                (
                    r#"Server app/a is DOWN, reason: Layer4 connection problem, info: "Connection refused""#,
                    Some(
                        r#"Server app/a is DOWN, reason: Layer4 connection problem, info: "Connection refused""#,
                    ),
                ),
                (
                    "[WARNING]  (81) : Server app/a is UP, reason: Layer4 check passed",
                    Some("Server app/a is UP, reason: Layer4 check passed"),
                ),
                (
                    "backend app has no server available!",
                    Some("backend app has no server available!"),
                ),
                ("GET /Server app/a is DOWN {Server app/a is DOWN}", None),
                ("1.2.3.4:5 [x] web/1: SSL handshake failure", None),
                ("Server is DOWN", None),
            ],
        );
    }

    #[test]
    fn messages_of_apache_and_fpm_that_quote_requests_are_their_code() {
        let busy = "AH00484: server reached MaxRequestWorkers setting, consider raising it";
        check(
            "apache",
            &[
                (busy, Some(busy)),
                ("AH01618: user AH00484: server reached not found: /", Some("AH01618: …")),
                (
                    "(24)Too many open files: AH00132: file permissions deny: /x",
                    Some("(24)Too many open files: AH00132: …"),
                ),
                ("PHP Warning:  AH00484: server reached", None),
                ("(x) AH00484: server reached", None),
            ],
        );
        check(
            "php-fpm",
            &[
                (
                    "[pool www] server reached pm.max_children setting (5), consider raising it",
                    Some(
                        "[pool www] server reached pm.max_children setting (5), consider raising it",
                    ),
                ),
                (
                    r#"[pool www] child 5 said into stderr: "[pool www] server reached""#,
                    Some(r#"[pool www] child 5 said into stderr: "…""#),
                ),
                (
                    "[pool www] child 5, script '/a' (request: \"GET /' x\") is slow",
                    Some("[pool www] child 5, script '…\") is slow"),
                ),
                (
                    "server reached pm.max_children setting (5), consider raising it",
                    Some("server reached pm.max_children setting (5), consider raising it"),
                ),
                ("PHP message: server reached pm.max_children", None),
            ],
        );
        check("shop", &[("accept4() failed (24: Too many open files)", None)]);
    }
}
