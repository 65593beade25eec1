//! Microsoft Teams, by the address of a workflow: one Adaptive Card.
//!
//! Data goes into `TextRun`s, in which Teams reads no Markdown; only the button is a link.

use async_trait::async_trait;
use reqwest::{Method, Url};
use serde_json::{Value, json};

use crate::forms::{NoticeText, cut_units, sections, unlinked};
use crate::http_client::HttpClient;
use crate::receiver::{Accepted, Message, RateLimit, Receiver, RetryAdvice, SendError};
use crate::settings::{ReceiverSettings, ReceiverSpec, SettingError, UrlDefault};

pub(crate) const SPEC: ReceiverSpec = ReceiverSpec {
    name: "teams",
    doc: "Microsoft Teams, by the address of a workflow",
    keys: &["url", "url_file", "ca_file"],
    read: |settings| Ok(Box::new(TeamsReceiver::read(settings)?)),
};

const URL: UrlDefault =
    UrlDefault { url: None, example: "https://prod-1.westeurope.logic.azure.com/workflows/x" };
/// Teams takes 28,672 bytes of a card that is a JSON text within JSON; a part is for what the
/// workflow adds. A workflow accepts any length, and a card that is too long does not appear.
const CARD_BYTES_MAX: usize = 25_000;
/// The start of a body by which a connector reports a failure with status 200.
const FAILURE_WORDS: &str = "Webhook message delivery failed";
/// A line is shortened to these lengths, one after the other, until the card fits.
const LINE_CHARS: [usize; 4] = [1000, 400, 150, 60];

#[derive(Debug)]
struct TeamsReceiver {
    client: HttpClient,
    url: Url,
}

impl TeamsReceiver {
    fn read(settings: &ReceiverSettings<'_>) -> Result<Self, SettingError> {
        let url = settings.address(URL)?;
        Ok(Self { client: HttpClient::new(settings, &url)?, url })
    }
}

fn text_block(text: &str, is_bold: bool) -> Value {
    let weight = if is_bold { "Bolder" } else { "Default" };
    json!({"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, "weight": weight}]})
}

fn short_line(text: &str, line_chars: usize) -> String {
    cut_units(&unlinked(text), line_chars)
}

/// The card, with lines of at most `line_chars`.
fn card(notice: &NoticeText, line_chars: usize) -> Value {
    let mut body = vec![text_block(&short_line(&notice.head(), line_chars), true)];
    for section in sections(notice) {
        if !section.heading.is_empty() {
            body.push(text_block(section.heading, true));
        }
        body.extend(
            section.lines.iter().map(|text| text_block(&short_line(text, line_chars), false)),
        );
    }
    let mut card = json!({
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
    });
    let act = notice.act.iter().map(|(link, pin)| (format!("Acknowledge (PIN {pin})"), link));
    let open = notice.link.iter().map(|link| ("Open in weir".to_owned(), link));
    let actions = act.chain(open).map(
        |(title, link)| json!({"type": "Action.OpenUrl", "title": title, "url": link.as_str()}),
    );
    let actions: Vec<Value> = actions.collect();
    if !actions.is_empty() {
        card["actions"] = actions.into();
    }
    let attachment =
        json!({"contentType": "application/vnd.microsoft.card.adaptive", "content": card});
    json!({"type": "message", "attachments": [attachment]})
}

/// The length of a value as a text within JSON, in which each quotation mark is escaped.
fn nested_length(value: &Value) -> usize {
    Value::from(value.to_string()).to_string().len()
}

fn fitting_card(message: &Message) -> Value {
    let notice = NoticeText::new(message);
    let mut cards = LINE_CHARS.iter().map(|length| card(&notice, *length));
    let fits = cards.find(|card| nested_length(card) <= CARD_BYTES_MAX);
    fits.unwrap_or_else(|| card(&notice, LINE_CHARS[LINE_CHARS.len() - 1]))
}

#[async_trait]
impl Receiver for TeamsReceiver {
    async fn send(&self, message: &Message) -> Result<Accepted, SendError> {
        let request = self.client.post_json(self.url.clone(), &fitting_card(message));
        let answer = self.client.accepted(request, message.now_us).await?;
        let said = self.client.said(&answer);
        if let Some(reason) = String::from_utf8_lossy(&answer.body).split_once(FAILURE_WORDS) {
            // The status of Teams behind the connector is in the text: 413 stays, 429 passes.
            let is_final = reason.1.contains("error 400") || reason.1.contains("error 413");
            let retry = if is_final { RetryAdvice::Never } else { RetryAdvice::Backoff };
            return Err(self.client.unusable(&answer, retry));
        }
        Ok(Accepted { answer: said, external_id: None })
    }

    /// Every call of a workflow posts, so only the connection is checked.
    async fn probe(&self) -> Result<String, SendError> {
        let request = self.client.request(Method::OPTIONS, self.url.clone());
        let answer = self.client.exchange(request).await?;
        Ok(format!("`{}` answers (OPTIONS: {})", self.client.host, answer.status))
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
    use weir_actions::{NoticeKind, SymptomLine};

    use super::*;
    use crate::testing::TestSettings;
    use crate::testing::http::{HttpDouble, RecordedRequest, ScriptedAnswer};
    use crate::testing::samples::{evil_message, long_message, message};

    fn contract(request: &RecordedRequest) -> ScriptedAnswer {
        let body = request.json();
        let attachment = &body["attachments"][0];
        let is_card = body["type"] == "message"
            && attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
            && attachment["content"]["type"] == "AdaptiveCard";
        // MicrosoftDocs/msteams-docs#11274: 24,453 bytes were 28,897 for Teams, which escapes the
        // card once more.
        let fits = nested_length(&body) <= 28 << 10;
        ScriptedAnswer::status(if is_card && fits { 202 } else { 400 })
    }

    #[tokio::test]
    async fn the_card_has_only_plain_runs_and_one_button_and_fits() {
        let double = HttpDouble::start(contract).await;
        let settings = TestSettings {
            secret_url: Some(double.url("/workflows/x?sig=s3cr3t")),
            ..TestSettings::default()
        };
        let receiver = settings.open("teams").unwrap();
        for sample in [evil_message(), long_message()] {
            assert_eq!(receiver.send(&sample).await.unwrap().answer, "202");
            let request = double.last();
            assert_eq!(request.path, "/workflows/x?sig=s3cr3t");
            let card = &request.json()["attachments"][0]["content"];
            let blocks = card["body"].as_array().unwrap();
            assert!(blocks.iter().all(|block| block["type"] == "RichTextBlock"), "{card}");
            assert!(!card.to_string().contains("http://evil"), "{card}");
            let actions = card["actions"].as_array().unwrap();
            assert_eq!(actions.len(), 1);
            assert_eq!(actions[0]["url"], "https://weir.example.net/#/incidents/k3f9");
        }
    }

    #[tokio::test]
    async fn quotation_marks_and_many_lines_fit_as_teams_counts_them() {
        let double = HttpDouble::start(contract).await;
        let receiver = TestSettings::new(&[("url", &double.url("/x"))]).open("teams").unwrap();
        let mut sample = message(NoticeKind::Page);
        let line = "\"GET /a?b=\\\"c\\\" HTTP/1.1\" ".repeat(40);
        let (rule, host) = ("proxy.errors".to_owned(), "web1".to_owned());
        sample.notice.incident.symptoms = vec![SymptomLine { rule, host, summary: line }; 20];
        receiver.send(&sample).await.unwrap();
    }

    /// EvotecIT/PSTeams#53 and MicrosoftDocs/msteams-docs#3571: the status is 200, and the text is the
    /// error.
    #[tokio::test]
    async fn failure_with_status_200_is_a_failure() {
        let double = HttpDouble::start(contract).await;
        let receiver = TestSettings::new(&[("url", &double.url("/x"))]).open("teams").unwrap();
        for (status, retry) in [(413, RetryAdvice::Never), (429, RetryAdvice::Backoff)] {
            let body = format!(
                "Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP \
                 error {status} with ContextId tcid=0,server=msgapi-production-wuk-azsc6-1-44"
            );
            double.next(ScriptedAnswer::text(200, &body));
            let error = receiver.send(&message(NoticeKind::Page)).await.unwrap_err();
            assert_eq!(error.retry, retry, "{error}");
        }
    }
}
