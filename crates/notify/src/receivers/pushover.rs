//! Pushover: a form posted to `messages.json` (<https://pushover.net/api>).
//!
//! A page is an emergency, which rings each minute until it is acknowledged on the phone; it has
//! the incident as its tag, and an acknowledgement or the end cancels all emergencies of the tag.
//! Whether it was acknowledged on the phone is in its receipt, which may be read every 5 s
//! (<https://pushover.net/api/receipts>).

use std::time::Duration;

use async_trait::async_trait;
use reqwest::{Method, RequestBuilder, Url};
use weir_actions::NoticeKind;

use crate::forms::{NoticeText, chat_text, cut_units, subject, unlinked};
use crate::http_client::{HttpAnswer, HttpClient};
use crate::receiver::{Accepted, Message, RateLimit, Receiver, RetryAdvice, SendError};
use crate::replies::{Reply, ReplyBatch, ReplyRequest, ReplySource};
use crate::settings::{
    ReceiverSettings, ReceiverSpec, RequiredKey, SecretText, SettingError, UrlDefault, below,
};

pub(crate) const SPEC: ReceiverSpec = ReceiverSpec {
    name: "pushover",
    doc: "Pushover, by an application's token and a user's or group's key",
    keys: &["url", "token_file", "to", "ca_file"],
    read: |settings| Ok(Box::new(PushoverReceiver::read(settings)?)),
};

const URL: UrlDefault =
    UrlDefault { url: Some("https://api.pushover.net/1"), example: "https://api.pushover.net/1" };
/// Limits are in characters of 4 bytes; UTF-16 units are never fewer than characters.
const MESSAGE_CHARS_MAX: usize = 1024;
/// An emergency is repeated after this many seconds; at least 30.
const RETRY_SECONDS: &str = "60";
/// An emergency is repeated for this many seconds; at most 10,800.
const EXPIRE_SECONDS: &str = "10800";

/// Pause before receipts are read.
const RECEIPT_PAUSE: Duration = Duration::from_secs(5);
/// Receipts that are read in one turn; each has its own limit.
const RECEIPTS_MAX: usize = 50;
/// Receipts that are remembered as answered.
const ANSWERED_MAX: usize = 200;

#[derive(Debug)]
struct PushoverReceiver {
    client: HttpClient,
    url: Url,
    token: SecretText,
    to: String,
}

impl PushoverReceiver {
    fn read(settings: &ReceiverSettings<'_>) -> Result<Self, SettingError> {
        let url = settings.address(URL)?;
        let token = settings.required_token()?;
        let to = settings
            .required(RequiredKey { key: "to", example: "uQiRzpo4DXghDmr9QzzfQu27cmVRsG" })?;
        Ok(Self { client: HttpClient::new(settings, &url)?, url, token, to })
    }

    fn post(&self, parts: &[&str], form: &[(&str, String)]) -> RequestBuilder {
        let mut fields = vec![("token", self.token.0.clone())];
        fields.extend(form.iter().cloned());
        self.client.request(Method::POST, below(&self.url, parts)).form(&fields)
    }

    /// The answer, if it has `status: 1`.
    fn checked(&self, answer: HttpAnswer, now_us: i64) -> Result<HttpAnswer, SendError> {
        if !answer.is_success() {
            return Err(self.client.refusal(&answer, now_us));
        }
        if answer.json()["status"] != 1 {
            return Err(self.client.unusable(&answer, answer.unusable_advice()));
        }
        Ok(answer)
    }

    /// Ends the ringing of earlier pages; nothing happens when there are none.
    async fn cancel(&self, message: &Message) -> Result<(), SendError> {
        let tag = format!("{}.json", tag(message));
        let request = self.post(&["receipts", "cancel_by_tag", &tag], &[]);
        match self.checked(self.client.exchange(request).await?, message.now_us) {
            Err(error) if error.retry != RetryAdvice::Never => Err(error),
            _ => Ok(()),
        }
    }

    fn form(&self, message: &Message) -> Vec<(&'static str, String)> {
        let notice = NoticeText::new(message);
        let text = cut_units(&unlinked(&chat_text(&notice)), MESSAGE_CHARS_MAX);
        let priority = match message.notice.kind {
            NoticeKind::Page => "2",
            NoticeKind::Mail | NoticeKind::Resolved | NoticeKind::Test => "0",
            NoticeKind::Ack => "-1",
        };
        let to = message.notice.address.as_deref().unwrap_or(&self.to);
        let mut form = vec![
            ("user", to.to_owned()),
            ("title", subject(message)),
            ("message", if text.is_empty() { notice.head() } else { text }),
            ("priority", priority.to_owned()),
            ("timestamp", message.now_us.div_euclid(1_000_000).to_string()),
        ];
        if message.notice.kind == NoticeKind::Page {
            form.push(("retry", RETRY_SECONDS.to_owned()));
            form.push(("expire", EXPIRE_SECONDS.to_owned()));
            form.push(("tags", tag(message)));
        }
        let act = notice.act.map(|(link, pin)| (link, format!("Acknowledge (PIN {pin})")));
        let link = act.or_else(|| notice.link.map(|link| (link, "Open in weir".to_owned())));
        // The limit of an address is 512.
        if let Some((link, title)) = link.filter(|(link, _)| link.as_str().len() <= 512) {
            form.push(("url", link.into()));
            form.push(("url_title", title));
        }
        form
    }
}

/// Receipts that were answered, as the cursor has them.
fn answered(cursor: Option<&str>) -> Vec<String> {
    cursor.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

#[async_trait]
impl ReplySource for PushoverReceiver {
    async fn read(&self, request: &ReplyRequest) -> Result<ReplyBatch, SendError> {
        tokio::time::sleep(RECEIPT_PAUSE).await;
        let mut answered = answered(request.cursor.as_deref());
        let open = unanswered(request, &answered);
        let mut replies = Vec::new();
        for (receipt, incident) in open {
            let mut url = below(&self.url, &["receipts", &format!("{receipt}.json")]);
            url.query_pairs_mut().append_pair("token", &self.token.0);
            let answer = self.client.exchange(self.client.request(Method::GET, url)).await?;
            // A receipt is deleted after a week.
            if answer.status == 404 {
                answered.push(receipt.clone());
                continue;
            }
            let body = self.checked(answer, request.now_us)?.json();
            if body["acknowledged"] == 1 {
                answered.push(receipt.clone());
                replies.push(Reply {
                    incident: incident.to_owned(),
                    name: body["acknowledged_by_device"]
                        .as_str()
                        .map(crate::shortened)
                        .unwrap_or_default(),
                    address: body["acknowledged_by"].as_str().map(crate::shortened),
                    ..Reply::default()
                });
            }
        }
        let surplus = answered.len().saturating_sub(ANSWERED_MAX);
        Ok(ReplyBatch { replies, cursor: Some(answered[surplus..].join(" ")) })
    }
}

/// Receipts and incidents of emergencies that were not answered.
fn unanswered<'a>(request: &'a ReplyRequest, answered: &[String]) -> Vec<(&'a String, &'a str)> {
    let mut open = Vec::new();
    for sent in &request.sent {
        for receipt in sent.external_ids.iter().filter(|id| is_receipt(id)) {
            if !answered.contains(receipt) && open.len() < RECEIPTS_MAX {
                open.push((receipt, sent.incident.as_str()));
            }
        }
    }
    open
}

/// Receipts have 30 letters and digits; a message that is no emergency has a number with dashes.
fn is_receipt(text: &str) -> bool {
    !text.is_empty() && text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn tag(message: &Message) -> String {
    let id = message.notice.incident.id.chars().filter(char::is_ascii_alphanumeric);
    format!("weir-{}", id.collect::<String>())
}

#[async_trait]
impl Receiver for PushoverReceiver {
    async fn send(&self, message: &Message) -> Result<Accepted, SendError> {
        if matches!(message.notice.kind, NoticeKind::Ack | NoticeKind::Resolved) {
            self.cancel(message).await?;
        }
        let request = self.post(&["messages.json"], &self.form(message));
        let answer = self.checked(self.client.exchange(request).await?, message.now_us)?;
        let body = answer.json();
        let id = body["receipt"].as_str().or(body["request"].as_str()).map(str::to_owned);
        Ok(Accepted { answer: format!("{} status 1", answer.status), external_id: id })
    }

    async fn probe(&self) -> Result<String, SendError> {
        let request = self.post(&["users", "validate.json"], &[("user", self.to.clone())]);
        self.checked(self.client.exchange(request).await?, 0)?;
        Ok("the user has a device".to_owned())
    }

    fn is_idempotent(&self) -> bool {
        false
    }

    fn replies(&self) -> Option<&dyn ReplySource> {
        Some(self)
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit { burst: 10.0, per_second: 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::replies::SentMessage;
    use crate::testing::TestSettings;
    use crate::testing::http::{HttpDouble, RecordedRequest, ScriptedAnswer};
    use crate::testing::samples::{evil_message, long_message, message};

    fn contract(request: &RecordedRequest) -> ScriptedAnswer {
        let length = request.form_length("message");
        let is_emergency = request.form_value("priority").as_deref() == Some("2");
        let is_timed = request.form_number("retry") >= 30
            && (1..=10_800).contains(&request.form_number("expire"));
        let is_fine = request.form_value("token").as_deref()
            == Some("azGDORePK8gMaC0QOYAMyEEuzJnyUi")
            && (request.path.contains("cancel_by_tag")
                || request.form_value("user").as_deref() == Some("ukey"))
            && (request.path != "/1/messages.json"
                || ((1..=1024).contains(&length)
                    && request.form_length("title") <= 250
                    && (!is_emergency || is_timed)));
        let answer = match is_fine {
            true if is_emergency => json!({"status": 1, "receipt": "rcpt", "request": "r"}),
            true => json!({"status": 1, "request": "r"}),
            false => json!({"status": 0, "errors": ["invalid"]}),
        };
        ScriptedAnswer::json(if is_fine { 200 } else { 400 }, &answer)
    }

    fn receiver(double: &HttpDouble) -> Box<dyn Receiver> {
        let mut settings = TestSettings::new(&[("url", &double.url("/1")), ("to", "ukey")]);
        settings.token = Some("azGDORePK8gMaC0QOYAMyEEuzJnyUi");
        settings.open("pushover").unwrap()
    }

    #[tokio::test]
    async fn a_page_rings_until_the_end_cancels_it() {
        let double = HttpDouble::start(contract).await;
        let receiver = receiver(&double);
        let page = receiver.send(&message(NoticeKind::Page)).await.unwrap();
        assert_eq!(page.external_id.as_deref(), Some("rcpt"));
        assert_eq!(double.last().form_value("tags").as_deref(), Some("weir-k3f9"));
        receiver.send(&message(NoticeKind::Resolved)).await.unwrap();
        let paths: Vec<String> =
            double.requests().into_iter().map(|request| request.path).collect();
        assert_eq!(
            paths,
            ["/1/messages.json", "/1/receipts/cancel_by_tag/weir-k3f9.json", "/1/messages.json"]
        );
        receiver.probe().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn receipt_that_was_acknowledged_on_the_phone_is_one_answer() {
        let double = HttpDouble::start(|request| {
            let is_acked = request.path.starts_with("/1/receipts/r2.json?token=");
            let answer = json!({
                "status": 1, "acknowledged": u8::from(is_acked),
                "acknowledged_by": "ukey", "acknowledged_by_device": "iphone",
            });
            ScriptedAnswer::json(if request.path.contains("r3") { 404 } else { 200 }, &answer)
        })
        .await;
        let receiver = receiver(&double);
        let replies = receiver.replies().unwrap();
        let sent = SentMessage {
            incident: "k3f9".to_owned(),
            address: None,
            external_ids: ["r1", "r2", "r3", "5042853c-402d"].map(str::to_owned).to_vec(),
        };
        let request = ReplyRequest { sent: vec![sent], ..ReplyRequest::default() };
        let start = tokio::time::Instant::now();
        let batch = replies.read(&request).await.unwrap();
        assert!(start.elapsed() >= RECEIPT_PAUSE, "no faster than Pushover allows");
        let [reply] = &batch.replies[..] else { panic!("{:?}", batch.replies) };
        assert_eq!((reply.incident.as_str(), reply.name.as_str()), ("k3f9", "iphone"));
        assert_eq!(reply.address.as_deref(), Some("ukey"));
        assert_eq!(batch.cursor.as_deref(), Some("r2 r3"));
        let again = ReplyRequest { cursor: batch.cursor, ..request };
        assert!(replies.read(&again).await.unwrap().replies.is_empty());
        assert_eq!(double.requests().len(), 4, "r1 twice, the others once");
    }

    #[tokio::test]
    async fn a_cancel_that_fails_for_now_is_repeated_before_the_notice() {
        let double = HttpDouble::start(contract).await;
        double.next(ScriptedAnswer::status(503));
        let error = receiver(&double).send(&message(NoticeKind::Ack)).await.unwrap_err();
        assert_eq!(error.retry, RetryAdvice::Backoff);
        double.next(ScriptedAnswer::status(404));
        receiver(&double).send(&message(NoticeKind::Ack)).await.unwrap();
    }

    #[tokio::test]
    async fn data_makes_no_link_and_fits() {
        let double = HttpDouble::start(contract).await;
        for sample in [evil_message(), long_message()] {
            receiver(&double).send(&sample).await.unwrap();
            let request = double.last();
            assert_eq!(request.form_value("html"), None);
            assert!(!request.form_value("message").unwrap().contains("http://evil"));
        }
    }
}
