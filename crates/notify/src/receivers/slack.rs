//! Slack: `chat.postMessage` with a bot's token, or an incoming webhook.
//!
//! Slack answers failures with status 200 and `ok: false`. Data goes into `plain_text` blocks and,
//! escaped, into the fallback text; `parse: none` keeps names and addresses from becoming links
//! (<https://docs.slack.dev/messaging/formatting-message-text>).

use async_trait::async_trait;
use reqwest::{Method, Url};
use serde_json::{Value, json};

use crate::forms::{NoticeText, chat_text, cut_by, cut_units, unlinked};
use crate::http_client::{HttpAnswer, HttpClient};
use crate::receiver::{Accepted, Message, RateLimit, Receiver, RetryAdvice, SendError};
use crate::settings::{
    ReceiverSettings, ReceiverSpec, RequiredKey, SecretText, SettingError, UrlDefault, below,
};

pub(crate) const SPEC: ReceiverSpec = ReceiverSpec {
    name: "slack",
    doc: "Slack, by a bot's token and a channel, or by an incoming webhook",
    keys: &["url", "url_file", "token_file", "channel", "ca_file"],
    read: |settings| Ok(Box::new(SlackReceiver::read(settings)?)),
};

const API: UrlDefault =
    UrlDefault { url: Some("https://slack.com/api"), example: "https://slack.com/api" };
const WEBHOOK: UrlDefault =
    UrlDefault { url: None, example: "https://hooks.slack.com/services/T0/B0/x" };
const HEADER_CHARS_MAX: usize = 150;
const SECTION_CHARS_MAX: usize = 3000;
/// Errors of the API that pass: <https://docs.slack.dev/reference/methods/chat.postMessage>.
const PASSING: &[&str] = &[
    "message_limit_exceeded",
    "rate_limited",
    "ratelimited",
    "request_timeout",
    "service_unavailable",
    "team_added_to_org",
];
/// Errors before which a part of the work may have been done.
const UNCLEAR: &[&str] = &["fatal_error", "internal_error"];

#[derive(Debug)]
struct SlackReceiver {
    client: HttpClient,
    url: Url,
    /// Token and channel of the API; an incoming webhook has neither.
    bot: Option<SlackBot>,
}

#[derive(Debug)]
struct SlackBot {
    token: SecretText,
    channel: String,
}

impl SlackReceiver {
    fn read(settings: &ReceiverSettings<'_>) -> Result<Self, SettingError> {
        let Some(token) = settings.optional_token()? else {
            let url = settings.address(WEBHOOK)?;
            return Ok(Self { client: HttpClient::new(settings, &url)?, url, bot: None });
        };
        let url = settings.address(API)?;
        let channel = settings.required(RequiredKey { key: "channel", example: "C024BE91L" })?;
        let client = HttpClient::new(settings, &url)?;
        Ok(Self { client, url, bot: Some(SlackBot { token, channel }) })
    }

    /// The answer of the API, if it took the message.
    fn checked(&self, answer: HttpAnswer) -> Result<HttpAnswer, SendError> {
        let body = answer.json();
        if body["ok"] == true {
            return Ok(answer);
        }
        let retry = match body["error"].as_str() {
            Some(error) if PASSING.contains(&error) => RetryAdvice::Backoff,
            Some(error) if UNCLEAR.contains(&error) => RetryAdvice::Unclear,
            Some(_) => RetryAdvice::Never,
            None => answer.unusable_advice(),
        };
        Err(self.client.unusable(&answer, retry))
    }

    async fn post_by_api(&self, bot: &SlackBot, message: &Message) -> Result<Accepted, SendError> {
        let mut body = content(message);
        body["channel"] = json!(message.notice.address.as_deref().unwrap_or(&bot.channel));
        if let Some(thread) = message.thread.as_deref() {
            body["thread_ts"] = json!(thread);
            // A new page must not hide in a thread without followers.
            body["reply_broadcast"] = json!(message.notice.kind == weir_actions::NoticeKind::Page);
        }
        let request = self.client.post_json(below(&self.url, &["chat.postMessage"]), &body);
        let request = request.bearer_auth(&bot.token.0);
        let answer = self.checked(self.client.accepted(request, message.now_us).await?)?;
        let external_id = answer.json()["ts"].as_str().map(str::to_owned);
        let answer = format!("{} ok", answer.status);
        Ok(Accepted { answer, external_id })
    }

    async fn post_by_webhook(&self, message: &Message) -> Result<Accepted, SendError> {
        let request = self.client.post_json(self.url.clone(), &content(message));
        let answer = self.client.accepted(request, message.now_us).await?;
        if answer.body.trim_ascii() != b"ok" {
            return Err(self.client.unusable(&answer, answer.unusable_advice()));
        }
        Ok(Accepted { answer: self.client.said(&answer), external_id: None })
    }
}

/// Text in Slack's markup in which nothing is a link or a mention.
fn escaped(text: &str) -> String {
    unlinked(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Slack keeps `&`, `<` and `>` escaped, so that they count as their escapes.
fn plain_text(text: &str, max: usize) -> Value {
    let text = cut_by(&unlinked(text), max, |letter| match letter {
        '&' => "&amp;".len(),
        '<' | '>' => "&lt;".len(),
        _ => letter.len_utf16(),
    });
    json!({"type": "plain_text", "text": text, "emoji": false})
}

fn content(message: &Message) -> Value {
    let notice = NoticeText::new(message);
    let mut blocks = vec![
        json!({"type": "header", "text": plain_text(&notice.head(), HEADER_CHARS_MAX)}),
        json!({"type": "section", "text": plain_text(&chat_text(&notice), SECTION_CHARS_MAX)}),
    ];
    let act = notice.act.iter();
    let act = act.map(|(link, pin)| format!("<{}|Acknowledge> (PIN {pin})", escaped_link(link)));
    let open = notice.link.iter().map(|link| format!("<{}|Open in weir>", escaped_link(link)));
    let text = act.chain(open).collect::<Vec<_>>().join(" · ");
    if !text.is_empty() {
        let element = json!({"type": "mrkdwn", "text": text, "verbatim": true});
        blocks.push(json!({"type": "context", "elements": [element]}));
    }
    // Escapes make it longer, so it is cut before.
    let fallback = cut_units(&format!("{}: {}", notice.head(), notice.summary), 600);
    json!({
        "text": escaped(&fallback),
        "blocks": blocks,
        "parse": "none",
        "link_names": false,
        "unfurl_links": false,
        "unfurl_media": false,
    })
}

fn escaped_link(link: &Url) -> String {
    link.as_str().replace('&', "&amp;").replace('<', "%3C").replace('>', "%3E").replace('|', "%7C")
}

#[async_trait]
impl Receiver for SlackReceiver {
    async fn send(&self, message: &Message) -> Result<Accepted, SendError> {
        match &self.bot {
            Some(bot) => self.post_by_api(bot, message).await,
            None => self.post_by_webhook(message).await,
        }
    }

    /// `auth.test`; a webhook has no call without effect, so only its connection is checked.
    async fn probe(&self) -> Result<String, SendError> {
        let Some(bot) = &self.bot else {
            let request = self.client.request(Method::OPTIONS, self.url.clone());
            let answer = self.client.exchange(request).await?;
            return Ok(format!("`{}` answers (OPTIONS: {})", self.client.host, answer.status));
        };
        let url = below(&self.url, &["auth.test"]);
        let request = self.client.request(Method::POST, url).bearer_auth(&bot.token.0);
        let answer = self.checked(self.client.accepted(request, 0).await?)?;
        let body = answer.json();
        let (user, team) = (body["user"].as_str(), body["team"].as_str());
        let (user, team) = (user.unwrap_or_default(), team.unwrap_or_default());
        Ok(crate::shortened(&format!("logged in as `{user}` of `{team}`")))
    }

    fn is_idempotent(&self) -> bool {
        false
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit { burst: 4.0, per_second: 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use weir_actions::NoticeKind;

    use super::*;
    use crate::testing::http::{HttpDouble, RecordedRequest, ScriptedAnswer};
    use crate::testing::samples::{evil_message, long_message, message};
    use crate::testing::{TestSettings, char_count};

    fn is_within_limits(body: &Value) -> bool {
        let blocks = body["blocks"].as_array().map(Vec::as_slice).unwrap_or_default();
        let fits = blocks.iter().all(|block| match block["type"].as_str() {
            Some("header") => (1..=150).contains(&char_count(&block["text"]["text"])),
            Some("section") => (1..=3000).contains(&char_count(&block["text"]["text"])),
            Some("context") => char_count(&block["elements"][0]["text"]) <= 3000,
            _ => false,
        });
        fits && !blocks.is_empty() && blocks.len() <= 50 && body["text"].is_string()
    }

    fn api(request: &RecordedRequest) -> ScriptedAnswer {
        let body = request.json();
        let answer = match request.path.as_str() {
            _ if request.header("authorization") != Some("Bearer xoxb-1234") => {
                json!({"ok": false, "error": "invalid_auth"})
            }
            "/api/auth.test" => json!({"ok": true, "user": "weir", "team": "Example"}),
            "/api/chat.postMessage" if body["channel"] != "C1" && body["channel"] != "U2" => {
                json!({"ok": false, "error": "channel_not_found"})
            }
            "/api/chat.postMessage" if !is_within_limits(&body) => {
                json!({"ok": false, "error": "invalid_blocks"})
            }
            "/api/chat.postMessage" => json!({"ok": true, "ts": "1503435956.000247"}),
            _ => json!({"ok": false, "error": "unknown_method"}),
        };
        ScriptedAnswer::json(200, &answer)
    }

    fn by_api(double: &HttpDouble, channel: &str) -> Box<dyn Receiver> {
        let pairs = [("url", &*double.url("/api")), ("channel", channel)];
        let mut settings = TestSettings::new(&pairs);
        settings.token = Some("xoxb-1234");
        settings.open("slack").unwrap()
    }

    #[tokio::test]
    async fn messages_go_to_the_channel_and_later_ones_to_the_thread() {
        let double = HttpDouble::start(api).await;
        let receiver = by_api(&double, "C1");
        let first = receiver.send(&message(NoticeKind::Page)).await.unwrap();
        assert_eq!(first.external_id.as_deref(), Some("1503435956.000247"));
        let mut second = message(NoticeKind::Resolved);
        second.thread = first.external_id;
        second.notice.address = Some("U2".to_owned());
        receiver.send(&second).await.unwrap();
        let body = double.last().json();
        assert_eq!(body["thread_ts"], "1503435956.000247");
        assert_eq!((&body["channel"], &body["reply_broadcast"]), (&json!("U2"), &json!(false)));
        assert_eq!(receiver.probe().await.unwrap(), "logged in as `weir` of `Example`");
    }

    #[tokio::test]
    async fn a_failure_with_status_200_is_a_failure() {
        let double = HttpDouble::start(api).await;
        let error = by_api(&double, "C9").send(&message(NoticeKind::Page)).await.unwrap_err();
        assert_eq!(error.retry, RetryAdvice::Never);
        assert!(error.message.contains("channel_not_found"), "{error}");
        let receiver = by_api(&double, "C1");
        // grafana-cold-storage/oncall#5204 has `message_limit_exceeded`.
        for (name, retry) in [
            ("message_limit_exceeded", RetryAdvice::Backoff),
            ("rate_limited", RetryAdvice::Backoff),
            ("internal_error", RetryAdvice::Unclear),
            ("channel_is_archived", RetryAdvice::Never),
        ] {
            double.next(ScriptedAnswer::json(200, &json!({"ok": false, "error": name})));
            let error = receiver.send(&message(NoticeKind::Page)).await.unwrap_err();
            assert_eq!(error.retry, retry, "{name}");
        }
        // A page of some proxy, and answers whose end is lost: the message may be in the channel.
        for (body, retry) in [
            ("<html>", RetryAdvice::Backoff),
            ("", RetryAdvice::Unclear),
            ("{\"ok\":true,\"ch", RetryAdvice::Unclear),
        ] {
            double.next(ScriptedAnswer::text(200, body));
            let error = receiver.send(&message(NoticeKind::Page)).await.unwrap_err();
            assert_eq!(error.retry, retry, "{body}");
        }
    }

    /// target/goalert#2178: the limit is reached by the escapes of the text.
    #[tokio::test]
    async fn escapes_count_for_the_limit() {
        let double = HttpDouble::start(api).await;
        let mut sample = message(NoticeKind::Page);
        sample.notice.incident.fix = "a && b > c ".repeat(500);
        by_api(&double, "C1").send(&sample).await.unwrap();
        let body = double.last().json();
        let text = body["blocks"][1]["text"]["text"].as_str().unwrap();
        let escaped = text.replace('&', "&amp;").replace('>', "&gt;");
        assert!((2_900..=3_000).contains(&escaped.chars().count()), "{}", escaped.len());
    }

    #[tokio::test]
    async fn a_webhook_answers_ok_and_its_address_is_a_secret() {
        let double = HttpDouble::start(|request| {
            let is_fine = is_within_limits(&request.json());
            ScriptedAnswer::text(if is_fine { 200 } else { 400 }, "ok")
        })
        .await;
        let settings = TestSettings {
            secret_url: Some(double.url("/services/T0/B0/s3cr3tpath")),
            ..TestSettings::default()
        };
        let receiver = settings.open("slack").unwrap();
        let accepted = receiver.send(&message(NoticeKind::Page)).await.unwrap();
        assert_eq!(accepted.answer, "200 ok");
        double.next(ScriptedAnswer::Echo { status: 404 });
        let error = receiver.send(&message(NoticeKind::Page)).await.unwrap_err();
        assert!(!error.message.contains("s3cr3tpath"), "{error}");
        double.next(ScriptedAnswer::text(200, "no_text"));
        let error = receiver.send(&message(NoticeKind::Page)).await.unwrap_err();
        assert_eq!(error.retry, RetryAdvice::Backoff);
    }

    #[tokio::test]
    async fn data_makes_no_mention_and_no_link_and_fits() {
        let double = HttpDouble::start(api).await;
        for sample in [evil_message(), long_message()] {
            by_api(&double, "C1").send(&sample).await.unwrap();
            let body = double.last().json();
            let fallback = body["text"].as_str().unwrap();
            assert!(!fallback.contains(['<', '>']), "{fallback}");
            assert!(!body.to_string().contains("http://evil"), "{body}");
            assert_eq!(body["parse"], "none");
            let markup = body["blocks"].as_array().unwrap().iter().filter(|block| {
                block["type"] != "context" && block["text"]["type"] != "plain_text"
            });
            assert_eq!(markup.count(), 0, "data is plain text");
        }
    }
}
