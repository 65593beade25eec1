//! `POST /intake/jsonl`: one JSON object a line, or any other line that the parser knows.
//!
//! weir's own, for everything that can do `curl --data-binary @file`. `Idempotency-Key` makes a request that is sent
//! again harmless.

use http::request::Parts;
use http::{Method, StatusCode};
use memchr::memchr;
use serde_json::json;

use crate::document;
use crate::harvest::{Fault, Harvest, Place, Verdict, too_many};
use crate::http::{Answer, Ask, Protocol, Refusal};
use crate::window::Identity;

/// Lines above this are kept as rejects.
const MAX_LINE_BYTES: usize = 1 << 20;

pub(crate) struct JsonLines;

impl Protocol for JsonLines {
    const NAME: &'static str = "jsonl";
    type Note = ();

    fn is_for(parts: &Parts) -> bool {
        parts.uri.path() == "/intake/jsonl"
    }

    fn read(ask: &Ask, harvest: &mut Harvest) -> Result<(), Refusal> {
        if ask.parts.method != Method::POST {
            return Err(Refusal::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "bad_method",
                "lines are sent with POST",
            ));
        }
        let host = ask.parameter("host");
        let source = ask.parameter("source").unwrap_or_else(|| "jsonl".into());
        let key = ask.header("idempotency-key");
        let peer = ask.peer.to_string();
        let (mut at, mut number) = (0, 0_usize);
        while at < ask.body.len() {
            let rest = &ask.body[at..];
            let length = memchr(b'\n', rest).unwrap_or(rest.len());
            let line = rest[..length].trim_ascii();
            at += length + 1;
            if line.is_empty() {
                continue;
            }
            if harvest.is_full() {
                return Err(too_many());
            }
            number += 1;
            let id = (!key.is_empty())
                .then(|| Identity::of(&[b"jsonl", key.as_bytes(), &number.to_le_bytes(), line]));
            let own = if host.is_none() { document::host(line) } else { None };
            let host = own.as_deref().or(host.as_deref()).unwrap_or(&peer);
            let place = Place { host, source: &source };
            if line.len() > MAX_LINE_BYTES {
                let detail = format!("{} bytes, more than {MAX_LINE_BYTES}", line.len());
                let fault = Fault { parser: "jsonl", reason: "too_long", detail: &detail };
                harvest.reject(place, &fault, line);
            } else {
                harvest.line(place, line, id);
            }
        }
        Ok(())
    }

    fn answer(_ask: &Ask, (): (), verdicts: &[Verdict]) -> Answer {
        let count = |wanted: fn(&Verdict) -> bool| verdicts.iter().filter(|v| wanted(v)).count();
        let rejected: Vec<serde_json::Value> = verdicts
            .iter()
            .enumerate()
            .filter_map(|(at, verdict)| match verdict {
                Verdict::Rejected(why) => Some(json!({"line": at + 1, "reason": why})),
                _ => None,
            })
            .take(100)
            .collect();
        let body = json!({
            "kept": count(|v| *v == Verdict::Kept),
            "known": count(|v| *v == Verdict::Known),
            "rejected": count(|v| matches!(v, Verdict::Rejected(_))),
            "first_rejected": rejected,
        });
        if verdicts.contains(&Verdict::Pending) {
            return Refusal::new(
                StatusCode::TOO_MANY_REQUESTS,
                "pending",
                "a request with this Idempotency-Key is not through yet",
            )
            .plain()
            .with("retry-after", "1");
        }
        Answer::json(StatusCode::OK, &body)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::check::{ask, harvest, harvested, mangled, told};
    use crate::harvest::MAX_ITEMS;

    #[test]
    fn lines_of_any_kind_are_taken_and_blank_ones_are_not() {
        let body = b"{\"message\":\"one\",\"host\":\"web1\"}\r\n\n  \nGET / HTTP/1.0\n{\"message\":\"last\"}";
        let ask = ask("POST", "/intake/jsonl?source=app%20log", &[], body);
        expect![[r#"
            web1 app log
              {"message":"one","host":"web1"}
            192.0.2.1 app log
              GET / HTTP/1.0
              {"message":"last"}
        "#]]
        .assert_eq(&harvested::<JsonLines>(&ask).expect("it is well formed"));
    }

    #[test]
    fn a_key_makes_equal_lines_of_one_request_different_and_requests_alike() {
        let headers = [("idempotency-key", "k1")];
        let ask = ask("POST", "/intake/jsonl", &headers, b"same\nsame\n");
        let mut harvest = harvest();
        assert!(JsonLines::read(&ask, &mut harvest).is_ok());
        assert_eq!(harvest.verdicts, [Verdict::Kept, Verdict::Kept]);
        harvest.claims.commit(crate::check::NOW);
        assert!(JsonLines::read(&ask, &mut harvest).is_ok());
        assert_eq!(harvest.verdicts[2..], [Verdict::Known, Verdict::Known]);
        expect![[r#"200 {"first_rejected":[],"kept":2,"known":2,"rejected":0}"#]]
            .assert_eq(&told(&JsonLines::answer(&ask, (), &harvest.verdicts)));
    }

    #[test]
    fn long_lines_are_kept_as_rejects_and_too_many_are_refused() {
        let mut body = vec![b'a'; MAX_LINE_BYTES + 1];
        let mut harvest = harvest();
        assert!(JsonLines::read(&ask("POST", "/intake/jsonl", &[], &body), &mut harvest).is_ok());
        assert_eq!(harvest.verdicts, [Verdict::Rejected("too_long".into())]);
        body = b"a\n".repeat(MAX_ITEMS + 1);
        let refusal = JsonLines::read(&ask("POST", "/intake/jsonl", &[], &body), &mut harvest);
        assert_eq!(refusal.expect_err("too many").status, StatusCode::PAYLOAD_TOO_LARGE);
    }

    #[test]
    fn any_bytes_are_lines() {
        arbtest::arbtest(|u| {
            let body = mangled(u, b"{\"host\":\"a\"}\nplain\n\n{\"host\":{\"name\":")?;
            let mut harvest = harvest();
            assert!(
                JsonLines::read(&ask("POST", "/intake/jsonl", &[], &body), &mut harvest).is_ok()
            );
            let filled = body.split(|b| *b == b'\n').filter(|line| !line.trim_ascii().is_empty());
            assert_eq!(harvest.verdicts.len(), filled.count());
            Ok(())
        });
    }
}
