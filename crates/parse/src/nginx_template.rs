//! nginx's `log_format` (ngx_http_log_module), compiled to a line matcher.
//!
//! A text that starts with `{` describes JSON: the lines are read as JSON and the text only gives
//! the meaning of the keys, because hand-written formats are often not quite JSON and a file may
//! hold lines of an older format.

use weir_tables::JsonEscape;

use crate::field::{self, Field};
use crate::format::Format;
use crate::json_lines::JsonTemplate;
use crate::json_template;
use crate::template::{Template, TemplateFormat, TemplatePart, ValueSyntax};

/// A piece of the format text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TemplateToken<'t> {
    Text(&'t str),
    Variable(&'t str),
}

/// Splits a text at `$name` and `${name}`.
fn tokens(template: &str) -> Vec<TemplateToken<'_>> {
    let mut tokens = Vec::new();
    let mut rest = template;
    while let Some(dollar) = rest.find('$') {
        let (before, behind) = rest.split_at(dollar);
        if !before.is_empty() {
            tokens.push(TemplateToken::Text(before));
        }
        let (name, length) = variable(&behind[1..]);
        if name.is_empty() {
            tokens.push(TemplateToken::Text("$"));
        } else {
            tokens.push(TemplateToken::Variable(name));
        }
        rest = &behind[1 + length..];
    }
    if !rest.is_empty() {
        tokens.push(TemplateToken::Text(rest));
    }
    tokens
}

/// The leading variable's name, and its length.
fn variable(text: &str) -> (&str, usize) {
    if let Some((name, _)) = text.strip_prefix('{').and_then(|braced| braced.split_once('}')) {
        return (name, name.len() + 2);
    }
    let length = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    (&text[..length], length)
}

/// A reader for the text of a `log_format`.
pub(crate) fn format(template: &str, escape: JsonEscape) -> Box<dyn Format> {
    if template.trim_start().starts_with('{') {
        return Box::new(JsonTemplate(json_template::lines(template, value_field)));
    }
    Box::new(TemplateFormat { name: "nginx_template", template: text(template, escape) })
}

/// The matcher of a text format.
pub(crate) fn text(template: &str, escape: JsonEscape) -> Template {
    text_with(template, escape, meaning)
}

/// The matcher of a text format whose variables have other meanings.
pub(crate) fn text_with(
    template: &str,
    escape: JsonEscape,
    meaning: fn(&str) -> Field,
) -> Template {
    let parts = tokens(template).into_iter().map(|token| match token {
        TemplateToken::Text(text) => TemplatePart::Literal(text.to_owned()),
        // No variable of nginx: a time in any form, in a list of known programs.
        TemplateToken::Variable("time") => TemplatePart::Time { form: None, field: Field::Time },
        TemplateToken::Variable(name) => TemplatePart::Value {
            name: name.to_owned(),
            field: meaning(name),
            inside: inside(name),
        },
    });
    Template::new(parts.collect(), escape != JsonEscape::None)
}

/// The meaning of a variable in a text format. In the place of the address, operators behind a proxy
/// log what it forwards.
fn meaning(variable: &str) -> Field {
    match variable {
        "http_x_forwarded_for" | "proxy_add_x_forwarded_for" => Field::ForwardedFor,
        _ => field::of_nginx(variable),
    }
}

fn inside(variable: &str) -> ValueSyntax {
    match variable {
        "time_local" => ValueSyntax::ZoneSpace,
        "request" => ValueSyntax::RequestLine,
        "http_x_forwarded_for" | "proxy_add_x_forwarded_for" => ValueSyntax::List,
        _ if variable.starts_with("upstream_") => ValueSyntax::List,
        _ => ValueSyntax::Nothing,
    }
}

fn value_field(value: &str) -> Field {
    match tokens(value).as_slice() {
        [TemplateToken::Variable(name)] => meaning(name),
        [
            TemplateToken::Variable("uri"),
            TemplateToken::Variable("is_args"),
            TemplateToken::Variable("args"),
        ] => Field::Target,
        [TemplateToken::Variable("scheme"), TemplateToken::Text("://"), address @ ..] => {
            if is_address(address) {
                Field::Target
            } else {
                Field::Attr
            }
        }
        address if is_address(address) => Field::AuthorityTarget,
        _ => Field::Attr,
    }
}

/// `$host$request_uri`, with a port behind the host, or a query behind the path.
fn is_address(tokens: &[TemplateToken<'_>]) -> bool {
    let [TemplateToken::Variable("host" | "http_host" | "server_name"), behind @ ..] = tokens
    else {
        return false;
    };
    let target = match behind {
        [TemplateToken::Text(":"), TemplateToken::Variable("server_port"), target @ ..] => target,
        target => target,
    };
    matches!(
        target,
        [TemplateToken::Variable("request_uri" | "uri")]
            | [
                TemplateToken::Variable("uri"),
                TemplateToken::Variable("is_args"),
                TemplateToken::Variable("args")
            ]
    )
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use weir_tables::LogFormat;

    use super::*;
    use crate::check::{check_format, nginx};

    #[test]
    fn variables_are_cut_out_of_a_text() {
        use TemplateToken::{Text, Variable};
        assert_eq!(
            tokens("a${b}c $d_1-$"),
            [Text("a"), Variable("b"), Text("c "), Variable("d_1"), Text("-"), Text("$")]
        );
    }

    #[test]
    fn keys_of_a_json_format_get_the_meaning_of_their_variable() {
        let fields = json_template::fields(
            r#"{ "rt":"$request_time", "st": $status, "u":{"addr":"$upstream_addr"},
                "where":"$scheme://$host", "v":"1" }"#,
            value_field,
        );
        assert_eq!(fields["rt"], Field::DurationSeconds);
        assert_eq!(fields["st"], Field::Status);
        assert_eq!(fields["u.addr"], Field::UpstreamAddress);
        assert_eq!((fields["where"], fields["v"]), (Field::Attr, Field::Attr));
        assert_eq!(fields.len(), 5);
    }

    const MAIN: &str = r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" "$http_x_forwarded_for" rt=$request_time uct="$upstream_connect_time" uht="$upstream_header_time" urt="$upstream_response_time" ua=$upstream_addr us=$upstream_status"#;

    #[test]
    fn text_format_with_retries_fills_the_columns() {
        check_format(
            nginx(MAIN),
            r#"10.0.0.9 - bob [20/Nov/2026:12:00:00 +0000] "GET /a?b=c HTTP/1.1" 200 612 "-" "curl/8 \x22x\x22" "1.2.3.4" rt=0.250 uct="0.001, 0.002" uht="0.1, 0.11" urt="0.1, 0.12" ua=10.0.0.1:80, 10.0.0.2:80 us=502, 200"#,
            expect![[r#"
                request
                  ts: 2026-11-20T12:00:00Z
                  client_address: 10.0.0.9
                  http_request_method: GET
                  url_path: /a
                  url_query: b=c
                  network_protocol_version: 1.1
                  http_response_status_code: 200
                  response_body_bytes: 612
                  user_agent_original: curl/8 "x"
                  duration_seconds: 0.25
                  upstream_connect_seconds: 0.003
                  upstream_header_seconds: 0.21
                  upstream_response_seconds: 0.22
                  upstream_address: 10.0.0.2:80
                  upstream_status_code: 200
                  upstream_tries: 2
                  attrs: {remote_user: bob, http_x_forwarded_for: 1.2.3.4}
            "#]],
        );
    }

    #[test]
    fn request_without_upstream_tried_none() {
        check_format(
            nginx(MAIN),
            r#"10.0.0.9 - - [20/Nov/2026:12:00:00 +0000] "\x16\x03\x01" 400 157 "-" "-" "-" rt=0.000 uct="-" uht="-" urt="-" ua=- us=-"#,
            expect![[r#"
                request
                  ts: 2026-11-20T12:00:00Z
                  client_address: 10.0.0.9
                  http_response_status_code: 400
                  response_body_bytes: 157
                  duration_seconds: 0.0
                  upstream_tries: 0
                  attrs: {request: \x16\x03\x01}
            "#]],
        );
    }

    /// Formats as in allinurl/goaccess#1303, #1541 and #1098, with the separator in a visitor's text.
    #[test]
    fn a_separator_in_a_visitors_text_ends_no_value() {
        check_format(
            nginx(
                "$remote_addr|$request_method|$request_uri|$status|$upstream_addr|$http_user_agent|$upstream_response_time",
            ),
            "192.0.2.22|GET|/n|1?a=|b|200|10.0.0.1:80, 10.0.0.2:80|a|b|0.001, 0.002\n192.0.2.23|GET|/n|200|-|a|-\n192.0.2.24|GET|/n|no|status|at|all\n",
            expect![[r#"
                request
                  ts: 2026-11-20T12:00:00Z
                  client_address: 192.0.2.22
                  http_request_method: GET
                  url_path: /n|1
                  url_query: a=|b
                  http_response_status_code: 200
                  user_agent_original: a|b
                  upstream_response_seconds: 0.003
                  upstream_address: 10.0.0.2:80
                  upstream_tries: 2
                request
                  ts: 2026-11-20T12:00:00Z
                  client_address: 192.0.2.23
                  http_request_method: GET
                  url_path: /n
                  http_response_status_code: 200
                  user_agent_original: a
                  upstream_tries: 0
                request
                  ts: 2026-11-20T12:00:00Z
                  client_address: 192.0.2.24
                  http_request_method: GET
                  url_path: /n
                  user_agent_original: at
                  upstream_address: status
                  upstream_tries: 1
                  attrs: {status: no, upstream_response_time: all}
            "#]],
        );
    }

    #[test]
    fn line_of_another_format_is_rejected() {
        check_format(
            nginx(MAIN),
            "10.0.0.9 - - hello\n",
            expect![[r#"
            reject
              ts: 2026-11-20T12:00:00Z
              reason: no_match
              detail: no ` [` behind `remote_user`, which begins at byte 11
              raw: 10.0.0.9 - - hello
        "#]],
        );
        check_format(
            nginx("$status end"),
            "200 end of it\n",
            expect![[r#"
                reject
                  ts: 2026-11-20T12:00:00Z
                  reason: no_match
                  detail: no ` end` behind `status`, which begins at byte 0
                  raw: 200 end of it
            "#]],
        );
        check_format(
            nginx("<$status"),
            "200\n",
            expect![[r#"
            reject
              ts: 2026-11-20T12:00:00Z
              reason: no_match
              detail: the line does not begin with `<`
              raw: 200
        "#]],
        );
    }

    #[test]
    fn path_of_uri_and_args_is_split_again() {
        check_format(
            nginx("$msec $connection_requests $uri$is_args$args $host$request_uri"),
            "1795176000.250 7 /a?b=1 h/a?b=1\n",
            expect![[r#"
                request
                  ts: 2026-11-20T12:00:00.250Z
                  server_address: h
                  url_path: /a
                  url_query: b=1
                  connection_requests: 7
            "#]],
        );
    }

    #[test]
    fn json_format_gets_its_meaning_from_the_template() {
        let template = r#"{"t":"$time_iso8601","rt":$request_time,"urt":$upstream_response_time,"u":"$upstream_addr","st":$status,"req":"$request","h":"$host","n":"$server_name","p":"$server_port","tls":"$ssl_protocol","k":"$scheme://$host"}"#;
        check_format(
            nginx(template),
            r#"{"t":"2026-11-20T12:00:00+00:00","rt":0.250,"urt":0.1, 0.15,"u":"10.0.0.1:80, 10.0.0.2:80","st":200,"req":"POST /x HTTP/2.0","h":"a.example:8443","n":"a.example","p":"8443","tls":"TLSv1.3","k":"https://a.example"}
{"t":"2026-11-20T12:00:00+00:00","rt":0.250,"urt":-,"u":"-","st":499,"req":"GET /\xff","h":"a","n":"_","p":"80","tls":"-","k":"http://a"}
"#,
            expect![[r#"
                request
                  ts: 2026-11-20T12:00:00Z
                  server_address: a.example
                  server_port: 8443
                  http_request_method: POST
                  url_path: /x
                  network_protocol_version: 2
                  http_response_status_code: 200
                  duration_seconds: 0.25
                  upstream_response_seconds: 0.25
                  upstream_address: 10.0.0.2:80
                  upstream_tries: 2
                  repair: loose_json
                  attrs: {tls: TLSv1.3, k: https://a.example}
                request
                  ts: 2026-11-20T12:00:00Z
                  server_address: a
                  server_port: 80
                  http_request_method: GET
                  url_path: /\xFF
                  http_response_status_code: 499
                  duration_seconds: 0.25
                  upstream_tries: 0
                  repair: hex_escape,invalid_utf8,loose_json
                  attrs: {k: http://a}
            "#]],
        );
    }

    #[test]
    fn values_of_a_format_without_escape_are_taken_as_they_are() {
        let format = LogFormat::NginxTemplate {
            template: r#""$request_uri" "$http_user_agent""#.into(),
            escape: JsonEscape::None,
        };
        check_format(
            format,
            r#""/new\x22" "C:\new "x" y""#,
            expect![[r#"
            request
              ts: 2026-11-20T12:00:00Z
              url_path: /new\x22
              user_agent_original: C:\new "x" y
        "#]],
        );
    }
}
