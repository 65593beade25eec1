//! Discord, by a channel's webhook.
//!
//! `?wait=true` makes Discord answer after the message was stored; without it a lost message is no
//! error (<https://discord.com/developers/docs/resources/webhook#execute-webhook>). Data goes into a
//! code block, in which there are no mentions, links and markup.

use async_trait::async_trait;
use reqwest::{Method, Url};
use serde_json::{Value, json};

use crate::forms::{NoticeText, chat_text, cut_units, unlinked};
use crate::http_client::{HttpClient, bounded_pause};
use crate::receiver::{Accepted, Message, RateLimit, Receiver, RetryAdvice, SendError};
use crate::settings::{ReceiverSettings, ReceiverSpec, SettingError, UrlDefault};

pub(crate) const SPEC: ReceiverSpec = ReceiverSpec {
    name: "discord",
    doc: "Discord, by a channel's webhook",
    keys: &["url", "url_file", "ca_file"],
    read: |settings| Ok(Box::new(DiscordReceiver::read(settings)?)),
};

const URL: UrlDefault = UrlDefault { url: None, example: "https://discord.com/api/webhooks/1/x" };
const CONTENT_CHARS_MAX: usize = 2000;
/// The flag `SUPPRESS_EMBEDS`: no preview of the link.
const SUPPRESS_EMBEDS: u32 = 1 << 2;

#[derive(Debug)]
struct DiscordReceiver {
    client: HttpClient,
    url: Url,
}

impl DiscordReceiver {
    fn read(settings: &ReceiverSettings<'_>) -> Result<Self, SettingError> {
        let url = settings.address(URL)?;
        Ok(Self { client: HttpClient::new(settings, &url)?, url })
    }
}

fn content(message: &Message) -> Value {
    let notice = NoticeText::new(message);
    let act = notice.act.iter().map(|(link, pin)| format!("Acknowledge (PIN {pin}): <{link}>\n"));
    let link = notice.link.iter().map(|link| format!("<{link}>"));
    let link: String = act.chain(link).collect();
    let data = format!("{}\n{}", notice.head(), chat_text(&notice));
    // A backtick would end the block.
    let data = unlinked(&data).replace('`', "'");
    let frame = "```\n\n```\n".len();
    let space = CONTENT_CHARS_MAX.saturating_sub(frame + link.chars().count());
    json!({
        "content": format!("```\n{}\n```\n{link}", cut_units(&data, space)),
        "allowed_mentions": {"parse": []},
        "flags": SUPPRESS_EMBEDS,
    })
}

#[async_trait]
impl Receiver for DiscordReceiver {
    async fn send(&self, message: &Message) -> Result<Accepted, SendError> {
        let mut url = self.url.clone();
        url.query_pairs_mut().append_pair("wait", "true");
        let request = self.client.post_json(url, &content(message));
        let answer = self.client.exchange(request).await?;
        let body = answer.json();
        if answer.status == 429
            && let Some(seconds) = body["retry_after"].as_f64()
        {
            let pause = std::time::Duration::try_from_secs_f64(seconds.ceil());
            let pause = bounded_pause(pause.map_or(1, |pause| pause.as_secs()));
            return Err(self.client.unusable(&answer, RetryAdvice::After(pause)));
        }
        if !answer.is_success() {
            return Err(self.client.refusal(&answer, message.now_us));
        }
        let Some(id) = body["id"].as_str() else {
            return Err(self.client.unusable(&answer, answer.unusable_advice()));
        };
        Ok(Accepted { answer: answer.status.to_string(), external_id: Some(id.to_owned()) })
    }

    /// `GET` of the webhook describes it.
    async fn probe(&self) -> Result<String, SendError> {
        let request = self.client.request(Method::GET, self.url.clone());
        let answer = self.client.accepted(request, 0).await?;
        let name = crate::shortened(answer.json()["name"].as_str().unwrap_or_default());
        Ok(format!("webhook `{name}` exists"))
    }

    fn is_idempotent(&self) -> bool {
        false
    }

    fn rate_limit(&self) -> RateLimit {
        // 30 messages a minute and channel.
        RateLimit { burst: 5.0, per_second: 0.5 }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_actions::NoticeKind;

    use super::*;
    use crate::testing::TestSettings;
    use crate::testing::http::{HttpDouble, RecordedRequest, ScriptedAnswer};
    use crate::testing::samples::{evil_message, long_message, message};

    fn contract(request: &RecordedRequest) -> ScriptedAnswer {
        let body = request.json();
        let length = body["content"].as_str().map_or(0, |text| text.encode_utf16().count());
        if request.method == "GET" {
            return ScriptedAnswer::json(200, &json!({"name": "weir", "token": "x"}));
        }
        if !request.path.ends_with("wait=true") {
            return ScriptedAnswer::status(204);
        }
        if !(1..=2000).contains(&length) || body["allowed_mentions"]["parse"] != json!([]) {
            return ScriptedAnswer::json(400, &json!({"code": 50006}));
        }
        ScriptedAnswer::json(200, &json!({"id": "1234567890"}))
    }

    fn receiver(double: &HttpDouble) -> Box<dyn Receiver> {
        let secret_url = Some(double.url("/api/webhooks/1/s3cr3ttoken?thread_id=5"));
        TestSettings { secret_url, ..TestSettings::default() }.open("discord").unwrap()
    }

    #[tokio::test]
    async fn the_message_is_confirmed_by_its_id() {
        let double = HttpDouble::start(contract).await;
        let accepted = receiver(&double).send(&message(NoticeKind::Page)).await.unwrap();
        assert_eq!(accepted.external_id.as_deref(), Some("1234567890"));
        assert_eq!(double.last().path, "/api/webhooks/1/s3cr3ttoken?thread_id=5&wait=true");
        assert_eq!(receiver(&double).probe().await.unwrap(), "webhook `weir` exists");
        double.next(ScriptedAnswer::status(204));
        let error = receiver(&double).send(&message(NoticeKind::Page)).await.unwrap_err();
        assert_eq!(error.retry, RetryAdvice::Unclear, "204 confirms nothing");
    }

    /// discord/discord-api-docs#5810: a ban without any pause in headers or body.
    #[tokio::test]
    async fn ban_without_a_pause_is_tried_later() {
        let double = HttpDouble::start(contract).await;
        let message_text = "You are being blocked from accessing our API temporarily due to exceeding \
            our rate limits frequently.";
        double.next(ScriptedAnswer::json(429, &json!({"code": 0, "message": message_text})));
        let error = receiver(&double).send(&message(NoticeKind::Page)).await.unwrap_err();
        assert_eq!(error.retry, RetryAdvice::Backoff);
    }

    #[tokio::test]
    async fn the_pause_of_the_body_is_obeyed() {
        let double = HttpDouble::start(contract).await;
        double.next(ScriptedAnswer::json(429, &json!({"retry_after": 64.57, "global": false})));
        let error = receiver(&double).send(&message(NoticeKind::Page)).await.unwrap_err();
        assert_eq!(error.retry, RetryAdvice::After(Duration::from_secs(65)));
    }

    #[tokio::test]
    async fn data_stays_in_its_block_and_fits() {
        let double = HttpDouble::start(contract).await;
        for sample in [evil_message(), long_message()] {
            receiver(&double).send(&sample).await.unwrap();
            let body = double.last().json();
            let content = body["content"].as_str().unwrap();
            assert_eq!(content.matches('`').count(), 6, "{content}");
            assert!(
                content.starts_with("```\n") && content.contains("\n```\n<https://weir"),
                "{content}"
            );
            assert!(!content.contains("http://evil"), "{content}");
        }
    }
}
