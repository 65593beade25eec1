//! Splits request lines: `GET /path?query HTTP/1.1` (RFC 9112 §3).

/// The parts of a request line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestLine<'a> {
    pub(crate) method: &'a str,
    pub(crate) target: RequestTarget<'a>,
    pub(crate) version: Option<&'a str>,
}

/// A request target: path, query, and the host of the absolute form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestTarget<'a> {
    pub(crate) authority: Option<&'a str>,
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
}

/// Parses a request line; `None` for anything else, such as a TLS handshake on a plaintext port.
pub(crate) fn parse(line: &str) -> Option<RequestLine<'_>> {
    let (method, rest) = line.split_once(' ')?;
    if !is_method(method) {
        return None;
    }
    let (target, version) = match rest.rsplit_once(' ') {
        Some((target, last)) if last.starts_with("HTTP/") => (target, version(last)),
        // Hypercorn writes the version alone.
        Some((target, last @ ("1.0" | "1.1" | "2.0"))) => (target, version(last)),
        _ => (rest, None),
    };
    (!target.is_empty()).then(|| RequestLine { method, target: split_target(target), version })
}

/// Whether a text has the form of a method.
pub(crate) fn is_method(text: &str) -> bool {
    (1..=32).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// `HTTP/1.1` to `1.1`, `HTTP/2.0` and `h2` to `2`.
pub(crate) fn version(protocol: &str) -> Option<&str> {
    let version = protocol.strip_prefix("HTTP/").unwrap_or(protocol);
    match version {
        "1.1" | "1.0" | "0.9" | "2" | "3" => Some(version),
        "2.0" | "h2" | "h2c" => Some("2"),
        "3.0" | "h3" => Some("3"),
        _ => None,
    }
}

/// Splits a request target into host (of the absolute form), path and query.
pub(crate) fn split_target(target: &str) -> RequestTarget<'_> {
    let parts = target.split_once("://");
    let is_http =
        |scheme: &str| scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    let absolute = parts.filter(|(scheme, _)| is_http(scheme)).map(|(_, rest)| rest);
    let (authority, target) = match absolute {
        Some(rest) => {
            let at = rest.find(['/', '?']).unwrap_or(rest.len());
            (Some(&rest[..at]), &rest[at..])
        }
        None => (None, target),
    };
    let (path, query) = match memchr::memchr(b'?', target.as_bytes()) {
        Some(at) => (&target[..at], Some(&target[at + 1..]).filter(|query| !query.is_empty())),
        None => (target, None),
    };
    RequestTarget { authority, path, query }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn check(line: &str, expected: expect_test::Expect) {
        let text = parse(line).map_or_else(
            || "none".to_owned(),
            |RequestLine { method, target, version }| {
                format!(
                    "{method} {:?} {} {:?} {version:?}",
                    target.authority, target.path, target.query
                )
            },
        );
        expected.assert_eq(&text);
    }

    #[test]
    fn request_lines_are_split() {
        check("GET / HTTP/1.1", expect![[r#"GET None / None Some("1.1")"#]]);
        check("GET /a?b=c?d HTTP/2.0", expect![[r#"GET None /a Some("b=c?d") Some("2")"#]]);
        check("GET /a b HTTP/1.0", expect![[r#"GET None /a b None Some("1.0")"#]]);
        check(
            "GET http://a.example:80/x? HTTP/1.1",
            expect![[r#"GET Some("a.example:80") /x None Some("1.1")"#]],
        );
        check("CONNECT a:443 HTTP/1.1", expect![[r#"CONNECT None a:443 None Some("1.1")"#]]);
        check("GET /old", expect!["GET None /old None None"]);
    }

    #[test]
    fn what_is_no_request_line_is_none() {
        for line in ["", "-", "\u{16}\u{3}\u{1}", "GET", "GET ", "/ HTTP/1.1", "a{b} /c HTTP/1.1"] {
            check(line, expect!["none"]);
        }
    }
}
