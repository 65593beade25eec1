//! Telegram, by a bot: `sendMessage`, and `getUpdates` for presses of its buttons.
//!
//! The token is a part of every address (<https://core.telegram.org/bots/api#making-requests>). Data
//! goes into `<pre>`, in which Telegram finds no addresses, mentions and commands. A bot with a
//! webhook has no `getUpdates` (409): then the buttons need another way.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::{Method, Url};
use serde_json::{Value, json};
use weir_actions::NoticeKind;

use crate::forms::{NoticeText, chat_text, cut_units, escape_html, unlinked};
use crate::http_client::{HttpAnswer, HttpClient, bounded_pause};
use crate::receiver::{Accepted, Message, RateLimit, Receiver, RetryAdvice, SendError};
use crate::replies::{Reply, ReplyAction, ReplyBatch, ReplyRequest, ReplySource, is_tag, tag};
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
/// How long `getUpdates` waits for a press.
const POLL_SECONDS: u32 = 25;
const POLL_TIMEOUT: Duration = Duration::from_secs(35);
/// Longest text that `answerCallbackQuery` takes.
const ANSWER_UNITS_MAX: usize = 200;

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
            return Err(self.client.unusable(answer, answer.unusable_advice()));
        }
        Ok(body["result"].clone())
    }

    /// The button of a message that a person has to act on. Its data has at most 64 bytes.
    fn ack_button(&self, message: &Message) -> Option<Value> {
        let (id, word) = (&message.notice.incident.id, ReplyAction::Acknowledge.as_str());
        let is_plain =
            !id.is_empty() && id.len() <= 32 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        (message.notice.is_actionable() && is_plain).then(|| {
            let data = format!("{word}:{id}:{}", tag(&self.token.0, &[word, id]));
            json!({"text": "Acknowledge", "callback_data": data})
        })
    }

    /// The answer in an update; `None` when it is no press of a button of this bot's messages.
    fn reply(&self, update: &Value) -> Option<Reply> {
        let query = &update["callback_query"];
        let mut parts = query["data"].as_str()?.splitn(3, ':');
        let (word, id, given) = (parts.next()?, parts.next()?, parts.next()?);
        if !is_tag(given, &self.token.0, &[word, id]) {
            return None;
        }
        let from = &query["from"];
        let name = from["username"].as_str().or(from["first_name"].as_str()).unwrap_or_default();
        Some(Reply {
            incident: id.to_owned(),
            action: ReplyAction::parse(word)?,
            name: crate::shortened(name),
            address: query["message"]["chat"]["id"].as_i64().map(|id| id.to_string()),
            handle: query["id"].as_str()?.to_owned(),
        })
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
        let link = notice.link.as_ref();
        let link = link.map(|link| json!({"text": "Open in weir", "url": link.as_str()}));
        let buttons: Vec<Value> = self.ack_button(message).into_iter().chain(link).collect();
        if !buttons.is_empty() {
            body["reply_markup"] = json!({"inline_keyboard": [buttons]});
        }
        if let Some(first) = message.thread.as_deref().and_then(|thread| thread.parse::<i64>().ok())
        {
            body["reply_parameters"] =
                json!({"message_id": first, "allow_sending_without_reply": true});
        }
        body
    }
}

/// The chat that a group became: its old number takes no messages any more.
fn moved_chat(answer: &HttpAnswer) -> Option<i64> {
    answer.json()["parameters"]["migrate_to_chat_id"].as_i64()
}

fn moved_words(chat: i64) -> String {
    format!("the group has another number now: set `chat` to {chat}")
}

#[async_trait]
impl Receiver for TelegramReceiver {
    async fn send(&self, message: &Message) -> Result<Accepted, SendError> {
        let mut content = self.content(message);
        let send = |content: &Value| {
            self.client.exchange(self.client.post_json(self.method_url("sendMessage"), content))
        };
        let mut answer = send(&content).await?;
        let moved = moved_chat(&answer);
        if let Some(chat) = moved {
            content["chat_id"] = json!(chat);
            answer = send(&content).await?;
        }
        let result = self.result(&answer, message.now_us)?;
        let external_id = result["message_id"].as_i64().map(|id| id.to_string());
        let words = moved.map(|chat| format!("; {}", moved_words(chat))).unwrap_or_default();
        Ok(Accepted { answer: format!("{} ok{words}", answer.status), external_id })
    }

    /// `getMe`, and `getChat`, which finds a wrong chat before a page does.
    async fn probe(&self) -> Result<String, SendError> {
        let request = self.client.request(Method::GET, self.method_url("getMe"));
        let result = self.result(&self.client.exchange(request).await?, 0)?;
        let name = crate::shortened(result["username"].as_str().unwrap_or_default());
        let request =
            self.client.post_json(self.method_url("getChat"), &json!({"chat_id": self.chat}));
        let answer = self.client.exchange(request).await?;
        let words = match moved_chat(&answer) {
            Some(chat) => format!("; {}", moved_words(chat)),
            None => self.result(&answer, 0).map(|_| String::new())?,
        };
        Ok(format!("logged in as `{name}`{words}"))
    }

    fn is_idempotent(&self) -> bool {
        false
    }

    fn replies(&self) -> Option<&dyn ReplySource> {
        Some(self)
    }

    fn rate_limit(&self) -> RateLimit {
        // A group takes 20 messages a minute.
        RateLimit { burst: 5.0, per_second: 0.3 }
    }
}

#[async_trait]
impl ReplySource for TelegramReceiver {
    /// The cursor is the number of the first update that was not read. Asking for it confirms all
    /// earlier ones.
    async fn read(&self, request: &ReplyRequest) -> Result<ReplyBatch, SendError> {
        let offset = request.cursor.as_deref().and_then(|cursor| cursor.parse::<i64>().ok());
        let body = json!({
            "offset": offset, "timeout": POLL_SECONDS, "allowed_updates": ["callback_query"],
        });
        let call = self.client.post_json(self.method_url("getUpdates"), &body);
        let answer = self.client.exchange_large(call.timeout(POLL_TIMEOUT)).await?;
        let result = self.result(&answer, request.now_us)?;
        let updates = result.as_array().map(Vec::as_slice).unwrap_or_default();
        let last = updates.iter().filter_map(|update| update["update_id"].as_i64()).max();
        Ok(ReplyBatch {
            replies: updates.iter().filter_map(|update| self.reply(update)).collect(),
            cursor: last
                .map_or_else(|| request.cursor.clone(), |last| Some((last + 1).to_string())),
        })
    }

    async fn answer(&self, reply: &Reply, text: &str) -> Result<(), SendError> {
        let text = cut_units(&unlinked(text), ANSWER_UNITS_MAX);
        let body = json!({"callback_query_id": reply.handle, "text": text});
        let call = self.client.post_json(self.method_url("answerCallbackQuery"), &body);
        self.result(&self.client.exchange(call).await?, 0).map(drop)
    }
}

#[cfg(test)]
mod tests {
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
            "/bot123:abcdef/sendMessage" | "/bot123:abcdef/getChat"
                if body["chat_id"] == "-1234" =>
            {
                let parameters = json!({"migrate_to_chat_id": -1_001_557_912_345_i64});
                let description = "Bad Request: group chat was upgraded to a supergroup chat";
                let refusal = json!({
                    "ok": false, "error_code": 400, "description": description,
                    "parameters": parameters,
                });
                ScriptedAnswer::json(400, &refusal)
            }
            "/bot123:abcdef/sendMessage" | "/bot123:abcdef/getChat"
                if body["chat_id"] != "-100" && body["chat_id"] != -1_001_557_912_345_i64 =>
            {
                ScriptedAnswer::json(400, &json!({"ok": false, "description": "chat not found"}))
            }
            "/bot123:abcdef/getChat" => {
                ScriptedAnswer::json(200, &json!({"ok": true, "result": {"id": -100}}))
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
        receiver_of(double, "-100")
    }

    fn receiver_of(double: &HttpDouble, chat: &str) -> Box<dyn Receiver> {
        let mut settings = TestSettings::new(&[("url", &double.url("")), ("chat", chat)]);
        settings.token = Some("123:abcdef");
        settings.open("telegram").unwrap()
    }

    fn press(update_id: i64, data: &str) -> Value {
        json!({"update_id": update_id, "callback_query": {
            "id": "q1", "data": data, "from": {"id": 5, "username": "ada_l"},
            "message": {"chat": {"id": -100}},
        }})
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
        let buttons = body["reply_markup"]["inline_keyboard"][0].as_array().unwrap();
        let button = &buttons[0];
        assert_eq!(buttons.len(), 1, "the end has nothing to acknowledge");
        assert_eq!(button["url"], "https://weir.example.net/#/incidents/k3f9");
        assert_eq!(receiver(&double).probe().await.unwrap(), "logged in as `weir_bot`");
    }

    /// TwiN/gatus#179, Flexget/Flexget#967, ableev/Zabbix-in-Telegram#32: a group that became a
    /// supergroup has another number, and every message to the old one is refused.
    #[tokio::test]
    async fn message_follows_a_group_to_its_new_number() {
        let double = HttpDouble::start(contract).await;
        let receiver = receiver_of(&double, "-1234");
        let accepted = receiver.send(&message(NoticeKind::Page)).await.unwrap();
        assert_eq!(accepted.external_id.as_deref(), Some("77"));
        assert!(accepted.answer.ends_with("set `chat` to -1001557912345"), "{}", accepted.answer);
        let probed = receiver.probe().await.unwrap();
        assert!(probed.ends_with("set `chat` to -1001557912345"), "{probed}");
        let wrong = receiver_of(&double, "-5").probe().await.unwrap_err();
        assert!(wrong.message.contains("chat not found"), "{wrong}");
    }

    /// A press of the button is an answer of that person, also for an incident that is gone
    /// (grafana/oncall#3814); what others put into the data is none.
    #[tokio::test]
    async fn press_of_the_button_is_read_and_answered() {
        let double = HttpDouble::start(contract).await;
        let receiver = receiver(&double);
        receiver.send(&message(NoticeKind::Page)).await.unwrap();
        let body = double.last().json();
        let button = &body["reply_markup"]["inline_keyboard"][0][0];
        let data = button["callback_data"].as_str().unwrap().to_owned();
        assert!(data.starts_with("ack:k3f9:") && data.len() <= 64, "{data}");
        let forged = data.replace("k3f9", "zzzz");
        let updates =
            [press(7, &forged), press(8, &data), press(9, "ack"), json!({"update_id": 3})];
        double.next(ScriptedAnswer::json(200, &json!({"ok": true, "result": updates})));
        let replies = receiver.replies().unwrap();
        let batch = replies.read(&ReplyRequest::default()).await.unwrap();
        assert_eq!(batch.cursor.as_deref(), Some("10"));
        let [reply] = &batch.replies[..] else { panic!("{:?}", batch.replies) };
        assert_eq!((reply.incident.as_str(), reply.name.as_str()), ("k3f9", "ada_l"));
        assert_eq!(reply.address.as_deref(), Some("-100"));
        double.next(ScriptedAnswer::json(200, &json!({"ok": true, "result": true})));
        replies.answer(reply, "acknowledged by ada").await.unwrap();
        assert_eq!(double.last().path, "/bot123:abcdef/answerCallbackQuery");
        assert_eq!(double.last().json()["callback_query_id"], "q1");
        double.next(ScriptedAnswer::json(200, &json!({"ok": true, "result": []})));
        let next = ReplyRequest { cursor: batch.cursor, ..ReplyRequest::default() };
        assert_eq!(replies.read(&next).await.unwrap().cursor.as_deref(), Some("10"));
        assert_eq!(double.last().json()["offset"], 10);
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
