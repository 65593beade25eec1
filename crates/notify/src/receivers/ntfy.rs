//! ntfy: `POST /TOPIC` with title, priority and action as headers (<https://docs.ntfy.sh/publish/>).
//!
//! Without the header `Markdown` a message is plain text; apps turn bare addresses into links, so
//! addresses in data are broken up.
//!
//! A button posts to the reply topic, which weir reads as a stream (`GET /TOPIC/json`,
//! <https://docs.ntfy.sh/subscribe/api/>). The phone posts without a login, so a server that
//! demands one has to let everybody write to that topic; `reply_topic` names it then.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::{Method, RequestBuilder, Url};
use serde_json::Value;
use weir_actions::NoticeKind;

use crate::forms::{NoticeText, chat_text, cut_bytes, subject, unlinked};
use crate::http_client::HttpClient;
use crate::receiver::{Accepted, Message, RateLimit, Receiver, RetryAdvice, SendError};
use crate::replies::{Reply, ReplyAction, ReplyBatch, ReplyRequest, ReplySource, is_tag, tag};
use crate::settings::{
    Login, ReceiverSettings, ReceiverSpec, RequiredKey, SecretText, SettingError, UrlDefault,
    below, wrong,
};

pub(crate) const SPEC: ReceiverSpec = ReceiverSpec {
    name: "ntfy",
    doc: "ntfy, by a topic; of ntfy.sh or an own server",
    keys: &["url", "topic", "reply_topic", "token_file", "user", "password_file", "ca_file"],
    read: |settings| Ok(Box::new(NtfyReceiver::read(settings)?)),
};

const URL: UrlDefault = UrlDefault { url: Some("https://ntfy.sh"), example: "https://ntfy.sh" };
/// A longer message becomes an attachment, which an app does not show.
const MESSAGE_BYTES_MAX: usize = 4096;
const TOPIC_CHARS_MAX: usize = 64;
/// Added to the topic for answers.
const REPLY_SUFFIX: &str = "-reply";
/// How long a stream of answers stays open; the server sends a line each 45 s.
const STREAM_TIME: Duration = Duration::from_secs(30);
/// Longest line of the stream that is read.
const LINE_BYTES_MAX: usize = 64 << 10;

#[derive(Debug)]
struct NtfyReceiver {
    client: HttpClient,
    url: Url,
    topic: String,
    /// Where buttons post to.
    reply_topic: Option<String>,
    token: Option<SecretText>,
    login: Option<Login>,
}

impl NtfyReceiver {
    fn read(settings: &ReceiverSettings<'_>) -> Result<Self, SettingError> {
        let url = settings.address(URL)?;
        let topic = settings.required(RequiredKey { key: "topic", example: "weir-web" })?;
        if !is_topic(&topic) {
            let message = format!("`{topic}` is not a topic");
            return Err(wrong("topic", message, "use 1 to 64 letters, digits, `_` and `-`"));
        }
        let (token, login) = (settings.optional_token()?, settings.login()?);
        let is_open = token.is_none() && login.is_none();
        let derived = is_open.then(|| format!("{topic}{REPLY_SUFFIX}"));
        let reply_topic = match settings.text("reply_topic") {
            Some(named) if !is_topic(named) => {
                let message = format!("`{named}` is not a topic");
                let hint = "use 1 to 64 letters, digits, `_` and `-`";
                return Err(wrong("reply_topic", message, hint));
            }
            named => named.map(str::to_owned).or(derived).filter(|topic| is_topic(topic)),
        };
        Ok(Self { client: HttpClient::new(settings, &url)?, url, topic, reply_topic, token, login })
    }

    /// What tags are made with: the login, or the topic, which is the secret without one.
    fn secret(&self) -> &str {
        let password = self.login.as_ref().map(|login| login.password.0.as_str());
        self.token.as_ref().map(|token| token.0.as_str()).or(password).unwrap_or(&self.topic)
    }

    /// The button of a message that a person has to act on, as a short form of `Actions`.
    fn ack_action(&self, message: &Message) -> Option<String> {
        let topic = self.reply_topic.as_deref()?;
        let (id, word) = (&message.notice.incident.id, ReplyAction::Acknowledge.as_str());
        let person = message.notice.person.as_deref().unwrap_or("-");
        if !message.notice.is_actionable()
            || ![id.as_str(), person].iter().all(|part| is_plain(part))
        {
            return None;
        }
        let tag = tag(self.secret(), &[word, id, person]);
        let url = below(&self.url, &[topic]);
        Some(format!(
            "http, Acknowledge, \"{url}\", method=POST, body=\"{word} {id} {person} {tag}\", clear=true"
        ))
    }

    /// The answer in a line of the stream, and its id.
    fn reply(&self, event: &Value) -> Option<Reply> {
        let words: Vec<&str> = event["message"].as_str()?.split_whitespace().collect();
        let [word, id, person, given] = words[..] else { return None };
        if !is_tag(given, self.secret(), &[word, id, person]) {
            return None;
        }
        Some(Reply {
            incident: id.to_owned(),
            action: ReplyAction::parse(word)?,
            name: if person == "-" { String::new() } else { person.to_owned() },
            address: None,
            handle: String::new(),
        })
    }

    /// Takes whole lines off the stream; the rest stays in `buffer`.
    fn take_lines(&self, buffer: &mut Vec<u8>, batch: &mut ReplyBatch) {
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line).unwrap_or_default();
            if event["event"] == "message" {
                batch.cursor = event["id"].as_str().map(str::to_owned).or(batch.cursor.take());
                batch.replies.extend(self.reply(&event));
            }
        }
        if buffer.len() > LINE_BYTES_MAX {
            buffer.clear();
        }
    }

    fn request(&self, method: Method, parts: &[&str]) -> RequestBuilder {
        self.with_login(self.client.request(method, below(&self.url, parts)))
    }

    fn with_login(&self, request: RequestBuilder) -> RequestBuilder {
        match (&self.token, &self.login) {
            (Some(token), _) => request.bearer_auth(&token.0),
            (None, Some(login)) => request.basic_auth(&login.user, Some(&login.password.0)),
            (None, None) => request,
        }
    }
}

fn is_topic(text: &str) -> bool {
    (1..=TOPIC_CHARS_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Whether a text stays one word within an action: ids, names of people.
fn is_plain(text: &str) -> bool {
    (1..=TOPIC_CHARS_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// From 1 (no sound) to 5 (rings through).
fn priority(kind: NoticeKind) -> &'static str {
    match kind {
        NoticeKind::Page => "5",
        NoticeKind::Mail | NoticeKind::Resolved | NoticeKind::Test => "3",
        NoticeKind::Ack => "2",
    }
}

#[async_trait]
impl Receiver for NtfyReceiver {
    async fn send(&self, message: &Message) -> Result<Accepted, SendError> {
        let notice = NoticeText::new(message);
        let topic = message.notice.address.as_deref().unwrap_or(&self.topic);
        if !is_topic(topic) {
            let message = format!("cannot send to `{}`: the address is no topic", self.client.host);
            return Err(SendError { message, retry: RetryAdvice::Never });
        }
        let text = cut_bytes(&unlinked(&chat_text(&notice)), MESSAGE_BYTES_MAX);
        let mut request = self
            .request(Method::POST, &[topic])
            .header("title", subject(message))
            .header("priority", priority(message.notice.kind))
            .body(text);
        let link = notice.link.as_ref().map(|link| {
            // A quoted value keeps commas and semicolons from ending the action.
            let quoted = link.as_str().replace('"', "%22");
            format!("view, Open in weir, \"{quoted}\"")
        });
        let act = self.ack_action(message).or_else(|| {
            let (link, pin) = notice.act.as_ref()?;
            Some(format!("view, Acknowledge (PIN {pin}), \"{link}\""))
        });
        let actions: Vec<String> = act.into_iter().chain(link).collect();
        if !actions.is_empty() {
            request = request.header("actions", actions.join("; "));
        }
        let answer = self.client.accepted(request, message.now_us).await?;
        let external_id = answer.json()["id"].as_str().map(str::to_owned);
        Ok(Accepted { answer: answer.status.to_string(), external_id })
    }

    /// `GET /TOPIC/auth` checks whether the login may read the topic; a wrong one gets 401. A login that
    /// may only write gets 403, which is all that can be known without a message.
    async fn probe(&self) -> Result<String, SendError> {
        let request = self.request(Method::GET, &[&self.topic, "auth"]);
        let answer = self.client.exchange(request).await?;
        if answer.status == 403 && (self.token.is_some() || self.login.is_some()) {
            let topic = &self.topic;
            return Ok(format!(
                "the login is valid; it may not read topic `{topic}`, and whether it may write shows \
                 with a message"
            ));
        }
        if !answer.is_success() {
            return Err(self.client.refusal(&answer, 0));
        }
        Ok(format!("topic `{}` is open to this login", self.topic))
    }

    fn is_idempotent(&self) -> bool {
        false
    }

    fn replies(&self) -> Option<&dyn ReplySource> {
        self.reply_topic.as_ref().map(|_| self as &dyn ReplySource)
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit { burst: 60.0, per_second: 0.2 }
    }
}

#[async_trait]
impl ReplySource for NtfyReceiver {
    /// The cursor is the id of the last message; the first time nothing older than now is read.
    async fn read(&self, request: &ReplyRequest) -> Result<ReplyBatch, SendError> {
        let Some(topic) = &self.reply_topic else { return Ok(ReplyBatch::default()) };
        let now = request.now_us.div_euclid(1_000_000).to_string();
        let since = request.cursor.clone().unwrap_or(now);
        let mut url = below(&self.url, &[topic, "json"]);
        url.query_pairs_mut().append_pair("since", &since);
        let call = self.with_login(self.client.request(Method::GET, url));
        let mut response = self.client.open(call.timeout(STREAM_TIME * 2), request.now_us).await?;
        let mut batch = ReplyBatch { replies: Vec::new(), cursor: Some(since) };
        let mut buffer = Vec::new();
        let reading = async {
            while batch.replies.is_empty()
                && let Ok(Some(part)) = response.chunk().await
            {
                buffer.extend_from_slice(&part);
                self.take_lines(&mut buffer, &mut batch);
            }
        };
        // The end of the time is usual: the next call continues behind the last message.
        let _late = tokio::time::timeout(STREAM_TIME, reading).await;
        Ok(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestSettings;
    use crate::testing::http::{HttpDouble, RecordedRequest, ScriptedAnswer};
    use crate::testing::samples::{evil_message, long_message, message};

    fn contract(request: &RecordedRequest) -> ScriptedAnswer {
        let is_login = request.header("authorization") == Some("Bearer tk_123456");
        let priority = request.header("priority").and_then(|text| text.parse().ok());
        let is_fine = request.method == "POST"
            && request.path == "/weir"
            && (1..=4096).contains(&request.body.len())
            && priority.is_some_and(|priority: u8| (1..=5).contains(&priority))
            && request.header("markdown").is_none();
        match request.path.as_str() {
            _ if !is_login => ScriptedAnswer::status(403),
            "/weir/auth" => ScriptedAnswer::text(200, "{\"success\":true}"),
            _ if is_fine => ScriptedAnswer::text(200, "{\"id\":\"hwQ2YpKdmg\"}"),
            _ => ScriptedAnswer::status(400),
        }
    }

    fn receiver(double: &HttpDouble) -> Box<dyn Receiver> {
        let mut settings = TestSettings::new(&[("url", &double.url("")), ("topic", "weir")]);
        settings.token = Some("tk_123456");
        settings.open("ntfy").unwrap()
    }

    #[tokio::test]
    async fn a_page_rings_and_has_one_action() {
        let double = HttpDouble::start(contract).await;
        let accepted = receiver(&double).send(&message(NoticeKind::Page)).await.unwrap();
        assert_eq!(accepted.external_id.as_deref(), Some("hwQ2YpKdmg"));
        let request = double.last();
        assert_eq!(request.header("priority"), Some("5"));
        assert_eq!(
            request.header("actions"),
            Some("view, Open in weir, \"https://weir.example.net/#/incidents/k3f9\"")
        );
        assert!(request.header("title").unwrap().starts_with("PAGE web3 app.down"));
        receiver(&double).probe().await.unwrap();
    }

    #[tokio::test]
    async fn data_makes_no_header_and_no_link_and_fits() {
        let double = HttpDouble::start(contract).await;
        for sample in [evil_message(), long_message()] {
            receiver(&double).send(&sample).await.unwrap();
            let request = double.last();
            assert_eq!(request.header("injected"), None);
            assert!(!request.text().contains("http://evil"));
            assert!(!request.header("title").unwrap().contains("http://evil"));
        }
    }

    /// A button that works without an open port: binwiederhier/ntfy#134.
    #[tokio::test]
    async fn press_of_the_button_is_read_once_and_a_forged_one_never() {
        let double = HttpDouble::start(|request| match request.path.as_str() {
            "/weir" => ScriptedAnswer::text(200, "{\"id\":\"m1\"}"),
            path if path.starts_with("/weir-reply/json?since=") => ScriptedAnswer::status(200),
            _ => ScriptedAnswer::status(404),
        })
        .await;
        let receiver = TestSettings::new(&[("url", &double.url("")), ("topic", "weir")]);
        let receiver = receiver.open("ntfy").unwrap();
        receiver.send(&message(NoticeKind::Page)).await.unwrap();
        let actions = double.last().header("actions").unwrap().to_owned();
        assert!(actions.starts_with("http, Acknowledge, \"http://127.0.0.1:"), "{actions}");
        assert!(actions.contains("/weir-reply\", method=POST, body=\"ack k3f9 ada "), "{actions}");
        let body = actions.split('"').nth(3).unwrap();
        let forged = body.replace("k3f9", "zzzz");
        let stream = format!(
            "{{\"event\":\"open\"}}\n{{\"event\":\"message\",\"id\":\"a\",\"message\":\"{forged}\"}}\n\
             {{\"event\":\"message\",\"id\":\"b\",\"message\":\"{body}\"}}\n{{\"event\":\"keepalive\"}}\n"
        );
        double.next(ScriptedAnswer::text(200, &stream));
        let replies = receiver.replies().unwrap();
        let now_us = message(NoticeKind::Page).now_us;
        let first = ReplyRequest { now_us, ..ReplyRequest::default() };
        let batch = replies.read(&first).await.unwrap();
        assert_eq!(double.last().path, "/weir-reply/json?since=1796000001");
        let read: Vec<(&str, &str)> =
            batch.replies.iter().map(|it| (it.incident.as_str(), it.name.as_str())).collect();
        assert_eq!((read, batch.cursor.as_deref()), (vec![("k3f9", "ada")], Some("b")));
        let next = ReplyRequest { cursor: batch.cursor, ..first };
        assert_eq!(replies.read(&next).await.unwrap().cursor.as_deref(), Some("b"));
        assert_eq!(double.last().path, "/weir-reply/json?since=b");
    }

    #[test]
    fn server_with_a_login_has_a_button_only_by_a_named_topic() {
        let mut settings = TestSettings::new(&[("topic", "weir")]);
        settings.token = Some("tk_123456");
        assert!(settings.open("ntfy").unwrap().replies().is_none());
        settings.pairs.push(("reply_topic".to_owned(), "weir-answers".to_owned()));
        assert!(settings.open("ntfy").unwrap().replies().is_some());
        settings.pairs.push(("reply_topic".to_owned(), "x/y".to_owned()));
        settings.pairs.remove(1);
        assert!(settings.open("ntfy").is_err());
    }

    #[tokio::test]
    async fn topics_that_are_paths_are_refused() {
        let double = HttpDouble::start(contract).await;
        let settings = TestSettings::new(&[("topic", "a/b")]);
        assert!(settings.open("ntfy").is_err());
        let mut sample = message(NoticeKind::Page);
        sample.notice.address = Some("../x".to_owned());
        let error = receiver(&double).send(&sample).await.unwrap_err();
        assert_eq!(error.retry, RetryAdvice::Never);
        assert!(double.requests().is_empty());
    }

    /// binwiederhier/ntfy's `/auth` demands the right to read, which a token for publishing lacks.
    #[tokio::test]
    async fn login_that_may_only_write_passes_the_probe() {
        let double = HttpDouble::start(contract).await;
        double.next(ScriptedAnswer::status(403));
        assert!(receiver(&double).probe().await.unwrap().contains("may not read"));
        double.next(ScriptedAnswer::status(401));
        receiver(&double).probe().await.unwrap_err();
        let open = TestSettings::new(&[("url", &double.url("")), ("topic", "weir")]);
        open.open("ntfy").unwrap().probe().await.unwrap_err();
    }

    /// binwiederhier/ntfy#737, liketrek/TREK#1621, activepieces/activepieces#3529: headers with other
    /// letters than ASCII are refused or garbled.
    #[tokio::test]
    async fn headers_are_ascii_whatever_the_data_has() {
        let double = HttpDouble::start(contract).await;
        for mut sample in [evil_message(), long_message()] {
            sample.page_url = "https://wéir.example.net/ü;,\"".to_owned();
            sample.notice.person = Some("Zoë".to_owned());
            receiver(&double).send(&sample).await.unwrap();
            let request = double.last();
            for name in ["title", "actions", "priority"] {
                let text = request.header(name).unwrap_or_default();
                assert!(text.is_ascii(), "{name}: {text}");
            }
        }
    }
}
