//! `POST /intake/jsonl`: one JSON object per line, or any other line that the parser knows.
//!
//! weir's own protocol, for everything that can run `curl --data-binary @file`. `Idempotency-Key`
//! makes retries safe.

use http::request::Parts;
use http::{Method, StatusCode};
use memchr::memchr;
use serde_json::json;

use crate::batch_builder::{BatchBuilder, ItemVerdict, RejectCause, RowOrigin, too_many};
use crate::document;
use crate::protocol::{HttpProtocol, IntakeRequest, without_mark};
use crate::response::{IntakeResponse, Refusal};
use crate::window::Identity;

/// Longer lines become rejects.
const MAX_LINE_BYTES: usize = 1 << 20;

pub(crate) struct JsonLines;

impl HttpProtocol for JsonLines {
    const NAME: &'static str = "jsonl";
    type Note = ();

    fn is_for(parts: &Parts) -> bool {
        parts.uri.path() == "/intake/jsonl"
    }

    fn read(request: &IntakeRequest, builder: &mut BatchBuilder) -> Result<(), Refusal> {
        if request.parts.method != Method::POST {
            return Err(Refusal::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "bad_method",
                "send lines with POST",
            ));
        }
        let host = request.parameter("host");
        let source = request.parameter("source").unwrap_or_else(|| "jsonl".into());
        let key = request.header("idempotency-key");
        let peer = request.peer.to_string();
        let body = without_mark(&request.body);
        let (mut at, mut number) = (0, 0_usize);
        while at < body.len() {
            let rest = &body[at..];
            let length = memchr(b'\n', rest).unwrap_or(rest.len());
            let line = rest[..length].trim_ascii();
            at += length + 1;
            if line.is_empty() {
                continue;
            }
            if builder.is_full() {
                return Err(too_many());
            }
            number += 1;
            let id = (!key.is_empty())
                .then(|| Identity::of(&[b"jsonl", key.as_bytes(), &number.to_le_bytes(), line]));
            let own = if host.is_none() { document::host(line) } else { None };
            let host = own.as_deref().or(host.as_deref()).unwrap_or(&peer);
            let place = RowOrigin { host, source: &source };
            if line.len() > MAX_LINE_BYTES {
                let detail = format!("{} bytes, more than {MAX_LINE_BYTES}", line.len());
                let fault = RejectCause { parser: "jsonl", reason: "too_long", detail: &detail };
                builder.reject(place, &fault, line);
            } else {
                builder.line(place, line, id);
            }
        }
        Ok(())
    }

    fn respond(_request: &IntakeRequest, (): (), verdicts: &[ItemVerdict]) -> IntakeResponse {
        let kept = verdicts.iter().filter(|verdict| **verdict == ItemVerdict::Kept).count();
        let known = verdicts.iter().filter(|verdict| **verdict == ItemVerdict::Known).count();
        let rejected =
            verdicts.iter().filter(|verdict| matches!(verdict, ItemVerdict::Rejected(_)));
        let first_rejected: Vec<serde_json::Value> = verdicts
            .iter()
            .enumerate()
            .filter_map(|(at, verdict)| match verdict {
                ItemVerdict::Rejected(why) => Some(json!({"line": at + 1, "reason": why})),
                _ => None,
            })
            .take(100)
            .collect();
        let body = json!({
            "kept": kept,
            "known": known,
            "rejected": rejected.count(),
            "first_rejected": first_rejected,
        });
        if verdicts.contains(&ItemVerdict::Pending) {
            return Refusal::new(
                StatusCode::TOO_MANY_REQUESTS,
                "pending",
                "a request with this Idempotency-Key is still being stored",
            )
            .plain()
            .with(("retry-after", "1"));
        }
        IntakeResponse::json(StatusCode::OK, &body)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::batch_builder::MAX_ITEMS;
    use crate::check::{builder, items_of, mangled, request, status_and_body};

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_line() {
        let body = "\u{feff}{\"message\":\"first\"}\n{\"message\":\"second\"}\n".as_bytes();
        let request = request(Method::POST, "/intake/jsonl", &[("x", "y")], body);
        expect![[r#"
            192.0.2.1 jsonl
              {"message":"first"}
              {"message":"second"}
        "#]]
        .assert_eq(&items_of::<JsonLines>(&request).expect("lines"));
    }

    #[test]
    fn lines_of_any_kind_are_kept_except_blank_ones() {
        let body = b"{\"message\":\"one\",\"host\":\"web1\"}\r\n\n  \nGET / HTTP/1.0\n{\"message\":\"last\"}";
        let request = request(Method::POST, "/intake/jsonl?source=app%20log", &[], body);
        expect![[r#"
            web1 app log
              {"message":"one","host":"web1"}
            192.0.2.1 app log
              GET / HTTP/1.0
              {"message":"last"}
        "#]]
        .assert_eq(&items_of::<JsonLines>(&request).expect("it is well formed"));
    }

    #[test]
    fn a_key_distinguishes_equal_lines_and_recognizes_a_repeated_request() {
        let headers = [("idempotency-key", "k1")];
        let request = request(Method::POST, "/intake/jsonl", &headers, b"same\nsame\n");
        let mut builder = builder();
        assert!(JsonLines::read(&request, &mut builder).is_ok());
        assert_eq!(builder.verdicts, [ItemVerdict::Kept, ItemVerdict::Kept]);
        builder.claims.commit(crate::check::NOW);
        assert!(JsonLines::read(&request, &mut builder).is_ok());
        assert_eq!(builder.verdicts[2..], [ItemVerdict::Known, ItemVerdict::Known]);
        expect![[r#"200 {"first_rejected":[],"kept":2,"known":2,"rejected":0}"#]]
            .assert_eq(&status_and_body(&JsonLines::respond(&request, (), &builder.verdicts)));
    }

    #[test]
    fn long_lines_are_rejected_and_too_many_are_refused() {
        let mut body = vec![b'a'; MAX_LINE_BYTES + 1];
        let mut builder = builder();
        assert!(
            JsonLines::read(&request(Method::POST, "/intake/jsonl", &[], &body), &mut builder)
                .is_ok()
        );
        assert_eq!(builder.verdicts, [ItemVerdict::Rejected("too_long".into())]);
        body = b"a\n".repeat(MAX_ITEMS + 1);
        let refusal =
            JsonLines::read(&request(Method::POST, "/intake/jsonl", &[], &body), &mut builder);
        assert_eq!(refusal.expect_err("too many").status, StatusCode::PAYLOAD_TOO_LARGE);
    }

    /// CVE-2025-11230 (jcmoraisjr/haproxy-ingress#1307): the exponent of a number was computed one step
    /// at a time.
    #[test]
    fn numbers_of_any_size_are_lines() {
        let digits = "9".repeat(20_000);
        for number in ["1e999999999999999999", "-0.1e-999999999999999999", &digits] {
            let body = format!("{{\"message\":\"a\",\"n\":{number}}}\n{{\"host\":\"web1\"}}\n");
            let mut builder = builder();
            let request = request(Method::POST, "/intake/jsonl", &[], body.as_bytes());
            assert!(JsonLines::read(&request, &mut builder).is_ok());
            assert_eq!(builder.verdicts, [ItemVerdict::Kept, ItemVerdict::Kept]);
        }
    }

    #[test]
    fn any_bytes_are_lines() {
        arbtest::arbtest(|u| {
            let body = mangled(u, b"{\"host\":\"a\"}\nplain\n\n{\"host\":{\"name\":")?;
            let mut builder = builder();
            assert!(
                JsonLines::read(&request(Method::POST, "/intake/jsonl", &[], &body), &mut builder)
                    .is_ok()
            );
            let filled = body.split(|b| *b == b'\n').filter(|line| !line.trim_ascii().is_empty());
            assert_eq!(builder.verdicts.len(), filled.count());
            Ok(())
        });
    }
}
