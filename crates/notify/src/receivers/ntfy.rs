//! ntfy: `POST /TOPIC` with title, priority and action as headers (<https://docs.ntfy.sh/publish/>).
//!
//! Without the header `Markdown` a message is plain text; apps turn bare addresses into links, so
//! addresses in data are broken up.

use async_trait::async_trait;
use reqwest::{Method, RequestBuilder, Url};
use weir_actions::NoticeKind;

use crate::forms::{NoticeText, chat_text, cut_bytes, subject, unlinked};
use crate::http_client::HttpClient;
use crate::receiver::{Accepted, Message, RateLimit, Receiver, RetryAdvice, SendError};
use crate::settings::{
    Login, ReceiverSettings, ReceiverSpec, RequiredKey, SecretText, SettingError, UrlDefault,
    below, wrong,
};

pub(crate) const SPEC: ReceiverSpec = ReceiverSpec {
    name: "ntfy",
    doc: "ntfy, by a topic; of ntfy.sh or an own server",
    keys: &["url", "topic", "token_file", "user", "password_file", "ca_file"],
    read: |settings| Ok(Box::new(NtfyReceiver::read(settings)?)),
};

const URL: UrlDefault = UrlDefault { url: Some("https://ntfy.sh"), example: "https://ntfy.sh" };
/// A longer message becomes an attachment, which an app does not show.
const MESSAGE_BYTES_MAX: usize = 4096;
const TOPIC_CHARS_MAX: usize = 64;

#[derive(Debug)]
struct NtfyReceiver {
    client: HttpClient,
    url: Url,
    topic: String,
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
        Ok(Self {
            client: HttpClient::new(settings, &url)?,
            url,
            topic,
            token: settings.optional_token()?,
            login: settings.login()?,
        })
    }

    fn request(&self, method: Method, parts: &[&str]) -> RequestBuilder {
        let request = self.client.request(method, below(&self.url, parts));
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
        if let Some(link) = &notice.link {
            // A quoted value keeps commas and semicolons from ending the action.
            let quoted = link.as_str().replace('"', "%22");
            request = request.header("actions", format!("view, Open in weir, \"{quoted}\""));
        }
        let answer = self.client.accepted(request, message.now_us).await?;
        let external_id = answer.json()["id"].as_str().map(str::to_owned);
        Ok(Accepted { answer: answer.status.to_string(), external_id })
    }

    /// `GET /TOPIC/auth` checks the login for the topic.
    async fn probe(&self) -> Result<String, SendError> {
        let request = self.request(Method::GET, &[&self.topic, "auth"]);
        self.client.accepted(request, 0).await?;
        Ok(format!("topic `{}` is open to this login", self.topic))
    }

    fn is_idempotent(&self) -> bool {
        false
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit { burst: 60.0, per_second: 0.2 }
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
}
