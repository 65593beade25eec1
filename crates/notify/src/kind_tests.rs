//! Every kind of receiver under the same conditions: accepted, refused, busy, dropped, hanging.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use weir_actions::{Notice, NoticeKind, Urgency, digest};

use crate::receiver::{Message, Receiver, RetryAdvice, SendError};
use crate::receivers::RECEIVERS;
use crate::testing::TestSettings;
use crate::testing::http::{HttpDouble, RecordedRequest, ScriptedAnswer};
use crate::testing::samples::{evil_message, message};

const TOKEN: &str = "t0ken-s3cr3t-value";
const PASSWORD: &str = "p4ssw0rd-s3cr3t";
const SECRET: &str = "s1gning-s3cr3t";

/// Kinds that do not speak HTTP; their own tests have these conditions.
const OTHERS: &[&str] = &["smtp", "nagios_cmd", "nsca"];

/// One answer that every API takes as a success.
fn success(_: &RecordedRequest) -> ScriptedAnswer {
    let body = json!({
        "ok": true, "id": "1", "event_id": "$1", "status": 1,
        "result": {"message_id": 1}, "results": [{"code": 200.0}],
    });
    ScriptedAnswer::json(200, &body)
}

/// Settings of a kind with every secret that it can have.
fn settings(kind: &str, url: String) -> TestSettings {
    let spec = RECEIVERS.iter().find(|spec| spec.name == kind).expect("a kind of the list");
    let values = [
        ("channel", "C1"),
        ("chat", "-100"),
        ("topic", "weir"),
        ("room", "!a:example.net"),
        ("to", "ukey"),
    ];
    let mut pairs: Vec<(&str, &str)> =
        values.into_iter().filter(|(key, _)| spec.keys.contains(key)).collect();
    let has_password = spec.keys.contains(&"password_file");
    let has_token = spec.keys.contains(&"token_file");
    if has_password && (!has_token || kind == "alertmanager") {
        pairs.push(("user", "weir"));
    }
    pairs.push(("url", &url));
    let mut given = TestSettings::new(&pairs);
    given.token = has_token.then_some(TOKEN);
    given.password =
        (has_password && given.pairs.iter().any(|(key, _)| key == "user")).then_some(PASSWORD);
    given.secret = spec.keys.contains(&"secret_file").then_some(SECRET);
    given
}

async fn each_http_kind(check: impl AsyncFn(&str, &HttpDouble, Box<dyn Receiver>)) {
    for spec in RECEIVERS.iter().filter(|spec| !OTHERS.contains(&spec.name)) {
        let double = HttpDouble::start(success).await;
        let receiver = settings(spec.name, double.url("/base")).open(spec.name).expect(spec.name);
        check(spec.name, &double, receiver).await;
    }
}

async fn refused(receiver: &dyn Receiver) -> SendError {
    receiver.send(&message(NoticeKind::Page)).await.expect_err("the answer is a refusal")
}

#[tokio::test]
async fn accepted_answers_are_accepted() {
    each_http_kind(async |kind, double, receiver| {
        let accepted = receiver.send(&message(NoticeKind::Page)).await;
        let accepted = accepted.unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert!(accepted.answer.starts_with("200"), "{kind}: {}", accepted.answer);
        assert!(accepted.answer.len() <= 300 && !double.requests().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_busy_receiver_is_tried_when_it_says_so() {
    each_http_kind(async |kind, double, receiver| {
        double.next(ScriptedAnswer::Reply {
            status: 429,
            headers: vec![("retry-after", "17".to_owned())],
            body: String::new(),
        });
        let error = refused(&*receiver).await;
        assert_eq!(error.retry, RetryAdvice::After(Duration::from_secs(17)), "{kind}: {error}");
        for status in [408, 425, 429, 500, 503] {
            double.next(ScriptedAnswer::status(status));
            let error = refused(&*receiver).await;
            assert_eq!(error.retry, RetryAdvice::Backoff, "{kind} {status}: {error}");
        }
        double.next(ScriptedAnswer::status(504));
        assert_eq!(refused(&*receiver).await.retry, RetryAdvice::Unclear, "{kind}");
    })
    .await;
}

#[tokio::test]
async fn a_receiver_that_refuses_for_good_is_not_tried_again() {
    each_http_kind(async |kind, double, receiver| {
        for status in [400, 401, 403, 404, 410, 413, 422] {
            double.next(ScriptedAnswer::status(status));
            let error = refused(&*receiver).await;
            assert_eq!(error.retry, RetryAdvice::Never, "{kind} {status}: {error}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = HttpDouble::start(success).await;
    let location = elsewhere.url("/stolen");
    each_http_kind(async |kind, double, receiver| {
        double.next(ScriptedAnswer::Reply {
            status: 307,
            headers: vec![("location", location.clone())],
            body: String::new(),
        });
        let error = refused(&*receiver).await;
        assert_eq!(error.retry, RetryAdvice::Never, "{kind}: {error}");
    })
    .await;
    assert!(elsewhere.requests().is_empty(), "no login goes along");
}

#[tokio::test]
async fn a_dropped_connection_is_tried_later_as_a_possible_repeat() {
    each_http_kind(async |kind, double, receiver| {
        double.next(ScriptedAnswer::Drop);
        let error = refused(&*receiver).await;
        assert_eq!(error.retry, RetryAdvice::Unclear, "{kind}: {error}");
        assert!(error.message.starts_with("cannot send to `127.0.0.1:"), "{error}");
        receiver.send(&message(NoticeKind::Page)).await.expect(kind);
    })
    .await;
}

#[tokio::test]
async fn a_hanging_server_ends_by_the_callers_timeout() {
    each_http_kind(async |kind, double, receiver| {
        double.next(ScriptedAnswer::Hang);
        let sample = message(NoticeKind::Page);
        let sending = receiver.send(&sample);
        let ended = tokio::time::timeout(Duration::from_millis(300), sending).await;
        assert!(ended.is_err(), "{kind}");
        receiver.send(&message(NoticeKind::Page)).await.expect(kind);
    })
    .await;
}

#[tokio::test]
async fn no_secret_is_in_an_error_an_answer_or_debug_output() {
    each_http_kind(async |kind, double, receiver| {
        let mut texts = vec![format!("{receiver:?}")];
        for scripted in [
            ScriptedAnswer::Echo { status: 400 },
            ScriptedAnswer::Echo { status: 503 },
            ScriptedAnswer::Echo { status: 200 },
            ScriptedAnswer::Drop,
        ] {
            double.next(scripted);
            match receiver.send(&message(NoticeKind::Page)).await {
                Ok(accepted) => texts.push(accepted.answer),
                Err(error) => texts.push(error.message),
            }
            double.next(ScriptedAnswer::Echo { status: 401 });
            texts
                .push(receiver.probe().await.err().map_or_else(String::new, |error| error.message));
        }
        let sent = double.requests().iter().map(RecordedRequest::echo).collect::<String>();
        // base64 of "weir:" and the password.
        let encoded = "d2VpcjpwNHNzdzByZC1zM2NyM3Q=";
        for text in texts {
            for secret in [TOKEN, PASSWORD, SECRET, encoded] {
                assert!(!text.contains(secret), "{kind}: {text}");
            }
        }
        let is_sent = [TOKEN, encoded].iter().any(|secret| sent.contains(secret));
        let has_login = !["teams", "discord"].contains(&kind);
        assert!(is_sent || !has_login, "{kind}: the login was sent: {sent}");
    })
    .await;
}

#[tokio::test]
async fn a_repeat_is_marked_where_the_receiver_would_show_it_twice() {
    each_http_kind(async |kind, double, receiver| {
        let mut sample = message(NoticeKind::Page);
        sample.is_repeat = true;
        receiver.send(&sample).await.expect(kind);
        if !receiver.is_idempotent() {
            let request = double.last();
            let title = request.header("title").unwrap_or_default().to_owned();
            let form = request.form_value("title").unwrap_or_default();
            let text = format!("{title}{form}{}", request.text());
            assert!(text.contains("(may be a repeat)"), "{kind}: {text}");
        }
    })
    .await;
}

#[tokio::test]
async fn hostile_texts_make_no_link_and_no_mention() {
    // Others show these three to people by way of names, which must not change.
    let exempt = ["webhook", "alertmanager", "icinga2"];
    each_http_kind(async |kind, double, receiver| {
        receiver.send(&evil_message()).await.unwrap_or_else(|error| panic!("{kind}: {error}"));
        let request = double.last();
        let form: String = request.form().into_iter().map(|(_, value)| value).collect();
        let text = format!("{}{form}", request.echo());
        if !exempt.contains(&kind) {
            for hostile in
                ["http://evil", "@everyone", "@here", "<!channel>", "<@U123>", "\u{202e}"]
            {
                assert!(!text.contains(hostile), "{kind}: {hostile} in {text}");
            }
        }
        assert!(request.header("injected").is_none() && !text.contains("\u{1b}"), "{kind}");
    })
    .await;
}

/// A digest of 100 incidents whose titles grow when they are escaped.
fn large_digest() -> Message {
    let sample = message(NoticeKind::Mail);
    let notices: Vec<Notice> = (0..100)
        .map(|number| {
            let mut notice = sample.notice.clone();
            (notice.id, notice.incident.id) = (format!("{number:032}"), format!("inc{number}"));
            notice.incident.class = Urgency::Mail;
            notice.incident.title = format!("web{number} disk.fill_eta {}", "<&>\"'é".repeat(12));
            notice
        })
        .collect();
    let notices: Vec<&Notice> = notices.iter().collect();
    Message { notice: digest(0, &notices).unwrap(), ..sample }
}

/// elastic/kibana#73061, muety/telepush#65, binwiederhier/ntfy#1073, prometheus/alertmanager#2923: a
/// long message is refused as a whole, or cut within its markup and refused for that.
#[tokio::test]
async fn digest_fits_the_documented_size_of_every_receiver() {
    each_http_kind(async |kind, double, receiver| {
        if !receiver.takes_digests() {
            return;
        }
        receiver.send(&large_digest()).await.unwrap_or_else(|error| panic!("{kind}: {error}"));
        let request = double.last();
        match kind {
            "slack" => {
                let body = request.json();
                let blocks = body["blocks"].as_array().cloned().unwrap_or_default();
                for block in &blocks {
                    let text = block["text"]["text"].as_str().unwrap_or_default();
                    assert!(text.chars().count() <= 3_000, "{}", text.len());
                }
                assert!(!blocks.is_empty() && blocks.len() <= 50);
            }
            "telegram" => {
                let text = request.json()["text"].as_str().unwrap_or_default().to_owned();
                let inner = text.strip_prefix("<pre>").and_then(|it| it.strip_suffix("</pre>"));
                let entities = [
                    ("&lt;", "<"),
                    ("&gt;", ">"),
                    ("&quot;", "\""),
                    ("&#39;", "'"),
                    ("&amp;", "&"),
                ];
                let mut plain = inner.expect("the markup is whole").to_owned();
                entities.iter().for_each(|(entity, letter)| plain = plain.replace(entity, letter));
                assert!(plain.encode_utf16().count() <= 4_096 && plain.len() > 2_000);
            }
            "discord" => {
                let body = request.json();
                let content = body["content"].as_str().unwrap_or_default();
                assert!((1..=2_000).contains(&content.encode_utf16().count()), "{}", content.len());
            }
            "pushover" => {
                let text = request.form_value("message").unwrap_or_default();
                assert!((1..=1_024).contains(&text.chars().count()), "{}", text.len());
            }
            "ntfy" => assert!((1..=4_096).contains(&request.text().len())),
            "teams" => assert!((1..=28 * 1024).contains(&request.text().len())),
            "matrix" => assert!((1..=65_000).contains(&request.text().len())),
            other => panic!("{other} takes digests: what is its limit?"),
        }
    })
    .await;
}

#[tokio::test]
async fn end_of_a_test_closes_what_the_test_opened() {
    each_http_kind(async |kind, double, receiver| {
        let mut test = message(NoticeKind::Test);
        receiver.send(&test).await.expect(kind);
        let opened = double.last();
        test.notice = weir_actions::test_end(&test.notice);
        receiver.send(&test).await.expect(kind);
        let closed = double.last();
        match kind {
            "pagerduty" => {
                assert_eq!(opened.json()["event_action"], "trigger");
                assert_eq!(closed.json()["event_action"], "resolve");
                assert_eq!(opened.json()["dedup_key"], closed.json()["dedup_key"]);
            }
            "jsm" => assert_eq!(closed.path, "/base/weir-test-k3f9/close?identifierType=alias"),
            "goalert" => {
                assert_eq!(closed.form_value("action").as_deref(), Some("close"));
                assert_eq!(opened.form_value("dedup"), closed.form_value("dedup"));
            }
            _ => {}
        }
    })
    .await;
}

#[tokio::test]
async fn an_unreachable_receiver_is_tried_later() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for spec in RECEIVERS.iter().filter(|spec| !OTHERS.contains(&spec.name)) {
        let url = format!("http://127.0.0.1:{port}");
        let receiver = settings(spec.name, url).open(spec.name).unwrap();
        let error = refused(&*receiver).await;
        assert_eq!(error.retry, RetryAdvice::Backoff, "{}: {error}", spec.name);
    }
}

#[test]
fn every_kind_is_described_and_has_limits() {
    let names: BTreeSet<&str> = RECEIVERS.iter().map(|spec| spec.name).collect();
    assert_eq!(names.len(), RECEIVERS.len(), "names are unique");
    for spec in RECEIVERS {
        assert!(!spec.doc.is_empty() && !spec.doc.ends_with('.'), "{}", spec.name);
        assert!(spec.keys.contains(&"url") || spec.name == "nagios_cmd", "{}", spec.name);
        if !OTHERS.contains(&spec.name) {
            let receiver = settings(spec.name, "http://127.0.0.1:9".to_owned()).open(spec.name);
            let limit = receiver.expect(spec.name).rate_limit();
            assert!(limit.burst >= 1.0 && limit.per_second > 0.0, "{}", spec.name);
        }
    }
}
