//! Telegram, by a bot: `sendMessage`.
//!
//! The token is a part of every address (<https://core.telegram.org/bots/api#making-requests>). Data
//! goes into `<pre>`, in which Telegram finds no addresses, mentions and commands.

use async_trait::async_trait;
use reqwest::{Method, Url};
use serde_json::{Value, json};
use weir_actions::NoticeKind;

use crate::forms::{NoticeText, chat_text, cut_units, escape_html, unlinked};
use crate::http_client::{HttpAnswer, HttpClient, bounded_pause};
use crate::receiver::{Accepted, Message, RateLimit, Receiver, RetryAdvice, SendError};
use crate::settings::{
    ReceiverSettings, ReceiverSpec, RequiredKey, SecretText, SettingError, UrlDefault, below,
};

pub(crate) const SPEC: ReceiverSpec = ReceiverSpec {
    name: "telegram",
    doc: "Telegram, by a bot's token and a chat",
    keys: &["url", "token_file", "chat", "ca_file"],
    read: |settings| Ok(Box::new(TelegramReceiver::read(settings)?)),
};

const URL: UrlDefault =
    UrlDefault { url: Some("https://api.telegram.org"), example: "https://api.telegram.org" };
/// Telegram takes 4,096 after it has read the markup.
const TEXT_UNITS_MAX: usize = 4000;

#[derive(Debug)]
struct TelegramReceiver {
    client: HttpClient,
    url: Url,
    token: SecretText,
    chat: String,
}

impl TelegramReceiver {
    fn read(settings: &ReceiverSettings<'_>) -> Result<Self, SettingError> {
        let url = settings.address(URL)?;
        let token = settings.required_token()?;
        let chat = settings.required(RequiredKey { key: "chat", example: "-1001234567890" })?;
        Ok(Self { client: HttpClient::new(settings, &url)?, url, token, chat })
    }

    fn method_url(&self, method: &str) -> Url {
        below(&self.url, &[&format!("bot{}", self.token.0), method])
    }

    /// The result of a call: `ok: true`.
    fn result(&self, answer: &HttpAnswer, now_us: i64) -> Result<Value, SendError> {
        let body = answer.json();
        if let Some(seconds) = body["parameters"]["retry_after"].as_u64() {
            let advice = RetryAdvice::After(bounded_pause(seconds));
            return Err(self.client.unusable(answer, advice));
        }
        if !answer.is_success() {
            return Err(self.client.refusal(answer, now_us));
        }
        if body["ok"] != true {
            return Err(self.client.unusable(answer, RetryAdvice::Backoff));
        }
        Ok(body["result"].clone())
    }

    fn content(&self, message: &Message) -> Value {
        let notice = NoticeText::new(message);
        let data = unlinked(&format!("{}\n{}", notice.head(), chat_text(&notice)));
        let data = cut_units(&data, TEXT_UNITS_MAX);
        let mut body = json!({
            "chat_id": message.notice.address.as_deref().unwrap_or(&self.chat),
            "text": format!("<pre>{}</pre>", escape_html(&data)),
            "parse_mode": "HTML",
            "link_preview_options": {"is_disabled": true},
            "disable_notification": !matches!(message.notice.kind, NoticeKind::Page | NoticeKind::Test),
        });
        if let Some(link) = &notice.link {
            let button = json!({"text": "Open in weir", "url": link.as_str()});
            body["reply_markup"] = json!({"inline_keyboard": [[button]]});
        }
        if let Some(first) = message.thread.as_deref().and_then(|thread| thread.parse::<i64>().ok())
        {
            body["reply_parameters"] =
                json!({"message_id": first, "allow_sending_without_reply": true});
        }
        body
    }
}

#[async_trait]
impl Receiver for TelegramReceiver {
    async fn send(&self, message: &Message) -> Result<Accepted, SendError> {
        let request = self.client.post_json(self.method_url("sendMessage"), &self.content(message));
        let answer = self.client.exchange(request).await?;
        let result = self.result(&answer, message.now_us)?;
        let external_id = result["message_id"].as_i64().map(|id| id.to_string());
        Ok(Accepted { answer: format!("{} ok", answer.status), external_id })
    }

    async fn probe(&self) -> Result<String, SendError> {
        let request = self.client.request(Method::GET, self.method_url("getMe"));
        let answer = self.client.exchange(request).await?;
        let result = self.result(&answer, 0)?;
        let name = crate::shortened(result["username"].as_str().unwrap_or_default());
        Ok(format!("logged in as `{name}`"))
    }

    fn is_idempotent(&self) -> bool {
        false
    }

    fn rate_limit(&self) -> RateLimit {
        // A group takes 20 messages a minute.
        RateLimit { burst: 5.0, per_second: 0.3 }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::TestSettings;
    use crate::testing::http::{HttpDouble, RecordedRequest, ScriptedAnswer};
    use crate::testing::samples::{evil_message, long_message, message};

    fn contract(request: &RecordedRequest) -> ScriptedAnswer {
        let body = request.json();
        let text = body["text"].as_str().unwrap_or_default();
        let inner = text.strip_prefix("<pre>").and_then(|text| text.strip_suffix("</pre>"));
        let shown = inner.map(|inner| {
            let units = inner.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
            units.replace("&#39;", "'").replace("&amp;", "&").encode_utf16().count()
        });
        let is_parsed = inner.is_some_and(|inner| !inner.contains(['<', '>']));
        match request.path.as_str() {
            "/bot123:abcdef/getMe" => {
                ScriptedAnswer::json(200, &json!({"ok": true, "result": {"username": "weir_bot"}}))
            }
            "/bot123:abcdef/sendMessage" if body["chat_id"] != "-100" => {
                ScriptedAnswer::json(400, &json!({"ok": false, "description": "chat not found"}))
            }
            "/bot123:abcdef/sendMessage"
                if is_parsed && shown.is_some_and(|units| units <= 4096) =>
            {
                ScriptedAnswer::json(200, &json!({"ok": true, "result": {"message_id": 77}}))
            }
            _ => ScriptedAnswer::json(400, &json!({"ok": false, "description": "cannot parse"})),
        }
    }

    fn receiver(double: &HttpDouble) -> Box<dyn Receiver> {
        let mut settings = TestSettings::new(&[("url", &double.url("")), ("chat", "-100")]);
        settings.token = Some("123:abcdef");
        settings.open("telegram").unwrap()
    }

    #[tokio::test]
    async fn messages_have_a_button_and_later_ones_reply_to_the_first() {
        let double = HttpDouble::start(contract).await;
        let first = receiver(&double).send(&message(NoticeKind::Page)).await.unwrap();
        assert_eq!(first.external_id.as_deref(), Some("77"));
        let mut second = message(NoticeKind::Resolved);
        second.thread = first.external_id;
        receiver(&double).send(&second).await.unwrap();
        let body = double.last().json();
        assert_eq!(body["reply_parameters"]["message_id"], 77);
        assert_eq!(body["disable_notification"], true);
        let button = &body["reply_markup"]["inline_keyboard"][0][0];
        assert_eq!(button["url"], "https://weir.example.net/#/incidents/k3f9");
        assert_eq!(receiver(&double).probe().await.unwrap(), "logged in as `weir_bot`");
    }

    #[tokio::test]
    async fn the_pause_of_the_body_is_obeyed_and_the_token_never_shown() {
        let double = HttpDouble::start(contract).await;
        let pause = json!({"ok": false, "parameters": {"retry_after": 9}});
        double.next(ScriptedAnswer::json(429, &pause));
        let error = receiver(&double).send(&message(NoticeKind::Page)).await.unwrap_err();
        assert_eq!(error.retry, RetryAdvice::After(Duration::from_secs(9)));
        for scripted in [ScriptedAnswer::Echo { status: 401 }, ScriptedAnswer::Drop] {
            double.next(scripted);
            let error = receiver(&double).send(&message(NoticeKind::Page)).await.unwrap_err();
            assert!(!error.message.contains("abcdef"), "{error}");
        }
    }

    #[tokio::test]
    async fn data_stays_preformatted_and_fits() {
        let double = HttpDouble::start(contract).await;
        for sample in [evil_message(), long_message()] {
            receiver(&double).send(&sample).await.unwrap();
        }
    }
}
