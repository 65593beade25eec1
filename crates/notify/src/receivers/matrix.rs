//! Matrix: an event put into a room under a transaction id.
//!
//! The notice's id is the transaction id, so the homeserver drops a repeat
//! (<https://spec.matrix.org/latest/client-server-api/#transaction-identifiers>). An empty
//! `m.mentions` keeps `@room` from notifying. A reaction to a page acknowledges it; reactions are
//! read by `/sync`, also in encrypted rooms, where they are not encrypted.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::{Method, Url};
use serde_json::{Value, json};

use crate::forms::{NoticeText, chat_text, cut_bytes, escape_html, unlinked};
use crate::http_client::{HttpAnswer, HttpClient, bounded_pause};
use crate::receiver::{Accepted, Message, RateLimit, Receiver, RetryAdvice, SendError};
use crate::replies::{Reply, ReplyBatch, ReplyRequest, ReplySource, SentMessage};
use crate::settings::{
    ReceiverSettings, ReceiverSpec, RequiredKey, SecretText, SettingError, UrlDefault, below, wrong,
};

pub(crate) const SPEC: ReceiverSpec = ReceiverSpec {
    name: "matrix",
    doc: "Matrix, by an access token and a room",
    keys: &["url", "token_file", "room", "ca_file"],
    read: |settings| Ok(Box::new(MatrixReceiver::read(settings)?)),
};

const URL: UrlDefault = UrlDefault { url: None, example: "https://matrix.example.net" };
/// An event has at most 65,536 bytes, and the text is in it twice, once escaped.
const TEXT_BYTES_MAX: usize = 8000;

/// How long `/sync` waits for a reaction.
const SYNC_MS: &str = "25000";
const SYNC_TIMEOUT: Duration = Duration::from_secs(35);
/// Reactions that acknowledge: thumb, check marks, eyes, fine.
const ACK_KEYS: [&str; 6] = ["👍", "✅", "✔", "☑", "👀", "👌"];

#[derive(Debug)]
struct MatrixReceiver {
    client: HttpClient,
    url: Url,
    token: SecretText,
    room: String,
}

impl MatrixReceiver {
    fn read(settings: &ReceiverSettings<'_>) -> Result<Self, SettingError> {
        let url = settings.address(URL)?;
        let token = settings.required_token()?;
        let room = settings.required(RequiredKey { key: "room", example: "!abc:example.net" })?;
        if !room.starts_with('!') {
            let message = format!("`{room}` is not the id of a room");
            return Err(wrong("room", message, "write the id, not an alias: !abc:example.net"));
        }
        Ok(Self { client: HttpClient::new(settings, &url)?, url, token, room })
    }

    fn checked(&self, answer: HttpAnswer, now_us: i64) -> Result<HttpAnswer, SendError> {
        let body = answer.json();
        if answer.status == 429
            && let Some(pause_ms) = body["retry_after_ms"].as_u64()
        {
            let advice = RetryAdvice::After(bounded_pause(pause_ms.div_ceil(1000)));
            return Err(self.client.unusable(&answer, advice));
        }
        if answer.is_success() { Ok(answer) } else { Err(self.client.refusal(&answer, now_us)) }
    }
}

/// The incident and sender of a reaction that acknowledges one of our messages.
fn reaction(event: &Value, sent: &[SentMessage]) -> Option<Reply> {
    let relation = &event["content"]["m.relates_to"];
    let key = relation["key"].as_str()?;
    // With a variation selector or the tone of a skin.
    let is_ack = ACK_KEYS.iter().any(|known| key.starts_with(known));
    if event["type"] != "m.reaction" || relation["rel_type"] != "m.annotation" || !is_ack {
        return None;
    }
    let target = relation["event_id"].as_str()?;
    let sent = sent.iter().find(|sent| sent.external_ids.iter().any(|id| id == target))?;
    Some(Reply {
        incident: sent.incident.clone(),
        name: crate::shortened(event["sender"].as_str()?),
        ..Reply::default()
    })
}

/// Nothing but reactions of these rooms.
fn reaction_filter(rooms: &[&str]) -> Value {
    let nothing = json!({"types": []});
    json!({
        "presence": nothing,
        "account_data": nothing,
        "room": {
            "rooms": rooms,
            "timeline": {"types": ["m.reaction"], "limit": 100},
            "state": nothing,
            "ephemeral": nothing,
            "account_data": nothing,
        },
    })
}

#[async_trait]
impl ReplySource for MatrixReceiver {
    /// The cursor is the token of `/sync`. The first call brings the token only: older reactions are
    /// of other incidents.
    async fn read(&self, request: &ReplyRequest) -> Result<ReplyBatch, SendError> {
        let addresses = request.sent.iter().filter_map(|sent| sent.address.as_deref());
        let rooms: Vec<&str> = addresses.chain([self.room.as_str()]).collect();
        let mut url = below(&self.url, &["_matrix", "client", "v3", "sync"]);
        url.query_pairs_mut().append_pair("filter", &reaction_filter(&rooms).to_string());
        if let Some(since) = &request.cursor {
            url.query_pairs_mut().append_pair("since", since).append_pair("timeout", SYNC_MS);
        }
        let call = self.client.request(Method::GET, url).bearer_auth(&self.token.0);
        let answer = self.client.exchange_large(call.timeout(SYNC_TIMEOUT)).await?;
        let body = self.checked(answer, request.now_us)?.json();
        let cursor = body["next_batch"].as_str().map(str::to_owned);
        let is_first = request.cursor.is_none();
        let joined = body["rooms"]["join"].as_object().filter(|_| !is_first);
        let events = joined.into_iter().flat_map(|rooms| rooms.values()).flat_map(|room| {
            room["timeline"]["events"].as_array().map(Vec::as_slice).unwrap_or_default()
        });
        let replies = events.filter_map(|event| reaction(event, &request.sent)).collect();
        Ok(ReplyBatch { replies, cursor: cursor.or_else(|| request.cursor.clone()) })
    }
}

fn content(message: &Message) -> Value {
    let notice = NoticeText::new(message);
    let data = unlinked(&format!("{}\n{}", notice.head(), chat_text(&notice)));
    let data = cut_bytes(&data, TEXT_BYTES_MAX);
    let mut plain = data.clone();
    let mut markup = format!("<pre><code>{}</code></pre>", escape_html(&data));
    if let Some(link) = &notice.link {
        plain.push_str(&format!("\n{link}"));
        let link = escape_html(link.as_str());
        markup.push_str(&format!("<p><a href=\"{link}\">Open in weir</a></p>"));
    }
    let mut body = json!({
        "msgtype": "m.text",
        "body": plain,
        "format": "org.matrix.custom.html",
        "formatted_body": markup,
        "m.mentions": {},
    });
    if let Some(thread) = &message.thread {
        body["m.relates_to"] = json!({
            "rel_type": "m.thread",
            "event_id": thread,
            "is_falling_back": true,
            "m.in_reply_to": {"event_id": thread},
        });
    }
    body
}

#[async_trait]
impl Receiver for MatrixReceiver {
    async fn send(&self, message: &Message) -> Result<Accepted, SendError> {
        let room = message.notice.address.as_deref().unwrap_or(&self.room);
        let parts = ["_matrix", "client", "v3", "rooms", room, "send", "m.room.message"];
        let url = below(&below(&self.url, &parts), &[&message.notice.id]);
        let request = self
            .client
            .request(Method::PUT, url)
            .header("content-type", "application/json")
            .bearer_auth(&self.token.0)
            .body(content(message).to_string());
        let answer = self.checked(self.client.exchange(request).await?, message.now_us)?;
        let Some(event) = answer.json()["event_id"].as_str().map(str::to_owned) else {
            return Err(self.client.unusable(&answer, RetryAdvice::Backoff));
        };
        Ok(Accepted { answer: answer.status.to_string(), external_id: Some(event) })
    }

    async fn probe(&self) -> Result<String, SendError> {
        let url = below(&self.url, &["_matrix", "client", "v3", "account", "whoami"]);
        let request = self.client.request(Method::GET, url).bearer_auth(&self.token.0);
        let answer = self.checked(self.client.exchange(request).await?, 0)?;
        let name = crate::shortened(answer.json()["user_id"].as_str().unwrap_or_default());
        Ok(format!("logged in as `{name}`"))
    }

    fn is_idempotent(&self) -> bool {
        true
    }

    fn replies(&self) -> Option<&dyn ReplySource> {
        Some(self)
    }

    fn rate_limit(&self) -> RateLimit {
        // Synapse's default for a user.
        RateLimit { burst: 10.0, per_second: 0.2 }
    }
}

#[cfg(test)]
mod tests {
    use weir_actions::NoticeKind;

    use super::*;
    use crate::testing::TestSettings;
    use crate::testing::http::{HttpDouble, RecordedRequest, ScriptedAnswer};
    use crate::testing::samples::{evil_message, long_message, message};

    const PATH: &str = "/_matrix/client/v3/rooms/!abc:example.net/send/m.room.message/\
        0123456789abcdef0123456789abcdef";

    fn contract(request: &RecordedRequest) -> ScriptedAnswer {
        let body = request.json();
        let is_fine = request.method == "PUT"
            && request.path == PATH
            && body["msgtype"] == "m.text"
            && body["body"].is_string()
            && body["m.mentions"] == json!({})
            && request.body.len() < 60_000;
        match request.path.as_str() {
            _ if request.header("authorization") != Some("Bearer syt_123456") => {
                ScriptedAnswer::json(401, &json!({"errcode": "M_UNKNOWN_TOKEN"}))
            }
            "/_matrix/client/v3/account/whoami" => {
                ScriptedAnswer::json(200, &json!({"user_id": "@weir:example.net"}))
            }
            _ if is_fine => ScriptedAnswer::json(200, &json!({"event_id": "$event"})),
            _ => ScriptedAnswer::json(400, &json!({"errcode": "M_BAD_JSON"})),
        }
    }

    fn receiver(double: &HttpDouble) -> Box<dyn Receiver> {
        let mut settings =
            TestSettings::new(&[("url", &double.url("/")), ("room", "!abc:example.net")]);
        settings.token = Some("syt_123456");
        settings.open("matrix").unwrap()
    }

    #[tokio::test]
    async fn every_attempt_has_the_same_transaction_id() {
        let double = HttpDouble::start(contract).await;
        let mut sample = message(NoticeKind::Page);
        let first = receiver(&double).send(&sample).await.unwrap();
        assert_eq!(first.external_id.as_deref(), Some("$event"));
        sample.is_repeat = true;
        sample.thread = first.external_id;
        receiver(&double).send(&sample).await.unwrap();
        let paths: Vec<String> =
            double.requests().into_iter().map(|request| request.path).collect();
        assert_eq!(paths, [PATH, PATH]);
        assert_eq!(double.last().json()["m.relates_to"]["event_id"], "$event");
        assert_eq!(receiver(&double).probe().await.unwrap(), "logged in as `@weir:example.net`");
        assert!(receiver(&double).is_idempotent());
    }

    #[test]
    fn an_alias_is_no_room() {
        let mut settings =
            TestSettings::new(&[("url", "https://m.example.net"), ("room", "#a:example.net")]);
        settings.token = Some("syt_123456");
        assert!(settings.open("matrix").unwrap_err().to_string().contains("not an alias"));
    }

    #[tokio::test]
    async fn the_pause_of_the_body_is_obeyed() {
        let double = HttpDouble::start(contract).await;
        let pause = json!({"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": 2001});
        double.next(ScriptedAnswer::json(429, &pause));
        let error = receiver(&double).send(&message(NoticeKind::Page)).await.unwrap_err();
        assert_eq!(error.retry, RetryAdvice::After(Duration::from_secs(3)));
    }

    fn reaction_event(key: &str, target: &str) -> Value {
        json!({"type": "m.reaction", "sender": "@ada:example.net", "content": {
            "m.relates_to": {"rel_type": "m.annotation", "event_id": target, "key": key},
        }})
    }

    #[tokio::test]
    async fn reaction_to_a_page_acknowledges_it_and_old_ones_do_nothing() {
        let double = HttpDouble::start(contract).await;
        let receiver = receiver(&double);
        let replies = receiver.replies().unwrap();
        let sent = SentMessage {
            incident: "k3f9".to_owned(),
            address: None,
            external_ids: vec!["$page".to_owned()],
        };
        let first = ReplyRequest { sent: vec![sent], ..ReplyRequest::default() };
        let mut answers = Vec::new();
        for events in [
            vec![reaction_event("👍", "$page")],
            vec![
                reaction_event("👎", "$page"),
                reaction_event("👍", "$other"),
                json!({"type": "m.room.message", "content": {"body": "👍"}}),
                reaction_event("👍🏽", "$page"),
            ],
        ] {
            let rooms = json!({"!abc:example.net": {"timeline": {"events": events}}});
            let next = format!("s{}", answers.len());
            let body = json!({"next_batch": next, "rooms": {"join": rooms}});
            double.next(ScriptedAnswer::json(200, &body));
            let cursor = answers.last().and_then(|batch: &ReplyBatch| batch.cursor.clone());
            answers.push(replies.read(&ReplyRequest { cursor, ..first.clone() }).await.unwrap());
        }
        assert!(answers[0].replies.is_empty(), "the first answer brings the place only");
        let [reply] = &answers[1].replies[..] else { panic!("{:?}", answers[1].replies) };
        assert_eq!((reply.incident.as_str(), reply.name.as_str()), ("k3f9", "@ada:example.net"));
        assert_eq!(answers[1].cursor.as_deref(), Some("s1"));
        assert!(double.last().path.contains("since=s0") && double.last().path.contains("timeout="));
    }

    #[tokio::test]
    async fn data_makes_no_markup_and_fits() {
        let double = HttpDouble::start(contract).await;
        for sample in [evil_message(), long_message()] {
            receiver(&double).send(&sample).await.unwrap();
            let body = double.last().json();
            let markup = body["formatted_body"].as_str().unwrap();
            assert_eq!(markup.matches("<a ").count(), 1, "{markup}");
            assert!(!markup.contains("<script") && !markup.contains("http://evil"), "{markup}");
        }
    }
}
