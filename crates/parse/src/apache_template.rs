//! Apache's `LogFormat` (mod_log_config, mod_logio), compiled to a line matcher.
//!
//! Pitfalls: `%b` writes `-` for zero bytes, `%D` is microseconds, `%k` counts *earlier* requests.

use crate::apache_time;
use crate::field::Field;
use crate::format::Format;
use crate::json_lines::JsonTemplate;
use crate::json_template;
use crate::template::{Template, TemplateFormat, TemplatePart, ValueSyntax};

/// A reader for the text of a `LogFormat`.
pub(crate) fn format(template: &str) -> Box<dyn Format> {
    if template.trim_start().starts_with('{') {
        let template = template.replace("\\\"", "\"");
        return Box::new(JsonTemplate(json_template::lines(&template, json_meaning)));
    }
    Box::new(TemplateFormat { name: "apache_template", template: text(template) })
}

/// The matcher of a text format.
fn text(template: &str) -> Template {
    Template::new(parts(&template.replace("\\\"", "\"").replace("\\t", "\t")), true)
}

/// The meaning of a value in a JSON format.
fn json_meaning(value: &str) -> Field {
    match parts(value).as_slice() {
        [TemplatePart::Value { field, .. } | TemplatePart::Time { field, .. }] => *field,
        [
            TemplatePart::Value { field: Field::Target, .. },
            TemplatePart::Value { field: Field::Query, .. },
        ] => Field::Target,
        [
            TemplatePart::Value { field: Field::Host | Field::ServerName, .. },
            TemplatePart::Value { field: Field::Target, .. },
        ]
        | [
            TemplatePart::Value { field: Field::Host | Field::ServerName, .. },
            TemplatePart::Value { field: Field::Target, .. },
            TemplatePart::Value { field: Field::Query, .. },
        ] => Field::AuthorityTarget,
        _ => Field::Attr,
    }
}

fn parts(template: &str) -> Vec<TemplatePart> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some(percent) = rest.find('%') {
        let (before, behind) = rest.split_at(percent);
        if !before.is_empty() {
            parts.push(TemplatePart::Literal(before.to_owned()));
        }
        if let Some((part, length)) = apache_time::directives(behind) {
            parts.push(part);
            rest = &behind[length..];
            continue;
        }
        let length = directive(&behind[1..], &mut parts);
        rest = &behind[1 + length..];
    }
    if !rest.is_empty() {
        parts.push(TemplatePart::Literal(rest.to_owned()));
    }
    parts
}

/// Adds the directive after a `%`, and returns its length: `>s`, `{Referer}i`,
/// `400,501{User-Agent}i`.
fn directive(text: &str, parts: &mut Vec<TemplatePart>) -> usize {
    let modifiers = text.find(|c: char| !matches!(c, '<' | '>' | '!' | ',' | '0'..='9'));
    let start = modifiers.unwrap_or(text.len());
    let (argument, letters) =
        match text[start..].strip_prefix('{').and_then(|braced| braced.split_once('}')) {
            Some((argument, _)) => (argument, start + argument.len() + 2),
            None => ("", start),
        };
    let name_length = if text[letters..].starts_with('^') { 3 } else { 1 };
    let Some(name) = text.get(letters..letters + name_length) else {
        parts.push(TemplatePart::Literal("%".into()));
        return 0;
    };
    let directive = Directive { name, argument, is_last: text[..start].contains('>') };
    match name {
        "%" => parts.push(TemplatePart::Literal("%".into())),
        "t" if argument.is_empty() => parts.extend(bracketed_time()),
        _ => parts.push(TemplatePart::Value {
            name: directive.attr_name(),
            field: directive.meaning(),
            inside: directive.syntax(),
        }),
    }
    letters + name_length
}

/// `%t` writes `[20/Nov/2026:12:00:00 +0000]`; a user name before it may have blanks, but no bracket.
fn bracketed_time() -> [TemplatePart; 3] {
    let inside = ValueSyntax::ZoneSpace;
    [
        TemplatePart::Literal("[".into()),
        TemplatePart::Value { name: "time".into(), field: Field::TimeOtherwise, inside },
        TemplatePart::Literal("]".into()),
    ]
}

/// A directive: `%{argument}name`.
#[derive(Clone, Copy)]
struct Directive<'t> {
    name: &'t str,
    argument: &'t str,
    /// `%>s`: of the last request, after internal redirects.
    is_last: bool,
}

impl Directive<'_> {
    /// The meaning (mod_log_config's table of format strings).
    fn meaning(self) -> Field {
        let header = self.argument.to_ascii_lowercase();
        match (self.name, header.as_str()) {
            ("a", "c") => Field::PeerAddress,
            ("h" | "a", _) => Field::ClientAddress,
            ("A", _) => Field::ServerAddress,
            ("b", _) => Field::ResponseBodyBytesOrDash,
            ("B", _) => Field::ResponseBodyBytes,
            ("D", _) | ("T", "us") => Field::DurationMicros,
            ("T", "ms") => Field::DurationMillis,
            ("T", _) => Field::DurationOtherwise,
            ("H", _) => Field::Protocol,
            ("I", _) => Field::RequestBytes,
            ("O", _) => Field::ResponseBytes,
            ("k", _) => Field::EarlierRequests,
            ("L", _) | ("i", "x-request-id") | ("e", "unique_id") => Field::RequestId,
            ("m", _) => Field::Method,
            ("p", "remote") => Field::ClientPort,
            ("p", _) => Field::ServerPort,
            ("q", _) => Field::Query,
            ("r", _) => Field::RequestLine,
            ("s", _) if self.is_last => Field::Status,
            ("s", _) => Field::StatusOtherwise,
            ("U", _) => Field::Target,
            ("v" | "V", _) => Field::ServerName,
            ("i", "host") => Field::Host,
            ("i", "referer") => Field::Referer,
            ("i", "user-agent") => Field::UserAgent,
            ("i", "x-forwarded-for") => Field::ForwardedFor,
            _ => Field::Attr,
        }
    }

    /// What the value may contain. A list of proxies has blanks.
    fn syntax(self) -> ValueSyntax {
        if self.name == "r" {
            ValueSyntax::RequestLine
        } else if self.name == "i" && self.argument.eq_ignore_ascii_case("x-forwarded-for") {
            ValueSyntax::QuotedList
        } else {
            ValueSyntax::EscapedQuote
        }
    }

    /// The attribute's name for a directive without a column.
    fn attr_name(self) -> String {
        let Self { name, argument, .. } = self;
        let header = argument.to_ascii_lowercase().replace('-', "_");
        match name {
            "l" => "remote_logname".into(),
            "u" => "remote_user".into(),
            "a" if argument == "c" => "peer_address".into(),
            "P" => "process_id".into(),
            "X" => "connection_status".into(),
            "S" => "transferred_bytes".into(),
            "f" => "filename".into(),
            "R" => "handler".into(),
            "i" => format!("http_{header}"),
            "o" => format!("sent_http_{header}"),
            "C" => format!("cookie_{argument}"),
            "e" | "n" | "x" | "c" if !argument.is_empty() => argument.to_owned(),
            _ if argument.is_empty() => name.to_owned(),
            _ => format!("{name}_{header}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use weir_tables::LogFormat;

    use crate::check::check_format;

    fn format(template: &str) -> LogFormat {
        LogFormat::ApacheTemplate { template: template.into() }
    }

    #[test]
    fn directives_fill_the_columns() {
        check_format(
            format(
                r#"%v:%p %h %l %u %t \"%r\" %>s %O %I %D %k %X \"%{Referer}i\" \"%{User-Agent}i\" %{X-Cache}o %L"#,
            ),
            r#"www.example.com:443 1.2.3.4 - bob [20/Nov/2026:12:00:00 +0000] "GET /a HTTP/1.1" 200 5120 310 250000 2 + "-" "x \"y\" \\ \xc3\xa9" HIT W5fOaH8
"#,
            expect![[r#"
                request
                  ts: 2026-11-20T12:00:00Z
                  request_id: W5fOaH8
                  client_address: 1.2.3.4
                  server_address: www.example.com
                  server_port: 443
                  http_request_method: GET
                  url_path: /a
                  network_protocol_version: 1.1
                  http_response_status_code: 200
                  request_bytes: 310
                  response_bytes: 5120
                  user_agent_original: x "y" \ é
                  duration_seconds: 0.25
                  connection_requests: 3
                  attrs: {remote_user: bob, connection_status: +, sent_http_x_cache: HIT}
            "#]],
        );
    }

    #[test]
    fn dash_of_bytes_is_zero_and_units_differ() {
        check_format(
            format("%a %m %U%q %H %s %b %{ms}T %{msec}t %% %{remote}p"),
            "::1 GET /a?b=1 HTTP/2.0 304 - 12 1795176000123 % 5000\n",
            expect![[r#"
                request
                  ts: 2026-11-20T12:00:00.123Z
                  client_address: ::1
                  client_port: 5000
                  http_request_method: GET
                  url_path: /a
                  url_query: b=1
                  network_protocol_version: 2
                  http_response_status_code: 304
                  response_body_bytes: 0
                  duration_seconds: 0.012
            "#]],
        );
        check_format(
            format("%h %B"),
            "::1\n",
            expect![[r#"
            reject
              ts: 2026-11-20T12:00:00Z
              reason: no_match
              detail: no ` ` behind `h`, which begins at byte 0
              raw: ::1
        "#]],
        );
    }

    #[test]
    fn json_format_is_read_as_json() {
        check_format(
            format(r#"{ \"ip\":\"%a\", \"st\":%>s, \"us\":%D, \"r\":\"%r\" }"#),
            "{ \"ip\":\"::1\", \"st\":200, \"us\":1500, \"r\":\"GET / HTTP/1.1\" }\n",
            expect![[r#"
                request
                  ts: 2026-11-20T12:00:00Z
                  client_address: ::1
                  http_request_method: GET
                  url_path: /
                  network_protocol_version: 1.1
                  http_response_status_code: 200
                  duration_seconds: 0.0015
            "#]],
        );
    }
}
