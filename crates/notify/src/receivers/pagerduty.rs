//! PagerDuty's Events API v2: trigger, acknowledge, resolve under one deduplication key.
//!
//! <https://developer.pagerduty.com/docs/events-api-v2-overview>. A trigger that arrives after the
//! resolve opens a new incident, so the caller keeps the order of notices.

use async_trait::async_trait;
use reqwest::Url;
use serde_json::{Value, json};
use weir_actions::{NoticeKind, Urgency};

use crate::forms::{NoticeText, cut_bytes, cut_units, one_line, sections, unlinked};
use crate::http_client::HttpClient;
use crate::receiver::{Accepted, Message, RateLimit, Receiver, SendError};
use crate::settings::{ReceiverSettings, ReceiverSpec, SecretText, SettingError, UrlDefault};

pub(crate) const SPEC: ReceiverSpec = ReceiverSpec {
    name: "pagerduty",
    doc: "PagerDuty, by an integration's routing key",
    keys: &["url", "token_file", "ca_file"],
    read: |settings| Ok(Box::new(PagerDuty::read(settings)?)),
};

const URL: UrlDefault = UrlDefault {
    url: Some("https://events.pagerduty.com/v2/enqueue"),
    example: "https://events.pagerduty.com/v2/enqueue",
};
const SUMMARY_CHARS_MAX: usize = 1024;
const SOURCE_CHARS_MAX: usize = 255;
const DEDUP_KEY_BYTES_MAX: usize = 255;

#[derive(Debug)]
struct PagerDuty {
    client: HttpClient,
    url: Url,
    routing_key: SecretText,
}

impl PagerDuty {
    fn read(settings: &ReceiverSettings<'_>) -> Result<Self, SettingError> {
        let url = settings.address(URL)?;
        let routing_key = settings.required_token()?;
        Ok(Self { client: HttpClient::new(settings, &url)?, url, routing_key })
    }

    fn event(&self, message: &Message) -> Value {
        let notice = NoticeText::new(message);
        let incident = &message.notice.incident;
        let mut event = json!({
            "routing_key": self.routing_key.0,
            "event_action": action(message),
            "dedup_key": dedup_key(message),
            "client": "weir",
        });
        let source = if incident.host.is_empty() { "weir" } else { &incident.host };
        let details = sections(&notice).into_iter().map(|section| {
            let heading = if section.heading.is_empty() { "Summary" } else { section.heading };
            (heading.to_owned(), json!(unlinked(&section.lines.join("\n"))))
        });
        let opened = jiff::Timestamp::from_microsecond(incident.opened_us);
        event["payload"] = json!({
            "summary": cut_units(&unlinked(&notice.head()), SUMMARY_CHARS_MAX),
            "source": short_field(source),
            "severity": severity(message),
            "timestamp": opened.map_or(Value::Null, |time| json!(time.to_string())),
            "component": short_field(&incident.subject),
            "class": short_field(&incident.root_rule),
            "custom_details": details.collect::<serde_json::Map<_, _>>(),
        });
        if let Some(link) = &notice.link {
            event["client_url"] = json!(link.as_str());
            event["links"] = json!([{"href": link.as_str(), "text": "Open in weir"}]);
        }
        event
    }
}

fn short_field(text: &str) -> String {
    cut_units(&unlinked(&one_line(text)), SOURCE_CHARS_MAX)
}

fn action(message: &Message) -> &'static str {
    match message.notice.kind {
        NoticeKind::Resolved => "resolve",
        NoticeKind::Test if message.notice.is_test_end() => "resolve",
        NoticeKind::Ack if message.notice.incident.acked_by.is_some() => "acknowledge",
        _ => "trigger",
    }
}

fn severity(message: &Message) -> &'static str {
    match (message.notice.kind, message.notice.incident.class) {
        (NoticeKind::Test, _) | (_, Urgency::Note) => "info",
        (_, Urgency::Mail) => "warning",
        (_, Urgency::Page) => "critical",
    }
}

fn dedup_key(message: &Message) -> String {
    let id = one_line(&message.notice.incident.id);
    let kind = if message.notice.kind == NoticeKind::Test { "weir-test" } else { "weir" };
    cut_bytes(&format!("{kind}-{id}"), DEDUP_KEY_BYTES_MAX)
}

#[async_trait]
impl Receiver for PagerDuty {
    async fn send(&self, message: &Message) -> Result<Accepted, SendError> {
        let request = self.client.post_json(self.url.clone(), &self.event(message));
        let answer = self.client.accepted(request, message.now_us).await?;
        let external_id = Some(dedup_key(message));
        Ok(Accepted { answer: self.client.said(&answer), external_id })
    }

    /// The resolve of an unknown key is accepted and dropped.
    async fn probe(&self) -> Result<String, SendError> {
        let event = json!({
            "routing_key": self.routing_key.0,
            "event_action": "resolve",
            "dedup_key": "weir-probe",
        });
        let request = self.client.post_json(self.url.clone(), &event);
        let answer = self.client.accepted(request, 0).await?;
        Ok(format!("the routing key is valid ({})", answer.status))
    }

    fn is_idempotent(&self) -> bool {
        true
    }

    fn is_read_by_people(&self) -> bool {
        false
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit { burst: 60.0, per_second: 2.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::http::{HttpDouble, RecordedRequest, ScriptedAnswer};
    use crate::testing::samples::{evil_message, long_message, message};
    use crate::testing::{TestSettings, char_count};

    fn contract(request: &RecordedRequest) -> ScriptedAnswer {
        let body = request.json();
        let payload = &body["payload"];
        let is_payload = (1..=1024).contains(&char_count(&payload["summary"]))
            && char_count(&payload["source"]) > 0
            && ["critical", "error", "warning", "info"]
                .iter()
                .any(|severity| payload["severity"] == *severity);
        let is_fine = body["routing_key"] == "R0123456789abcdef"
            && (1..=255).contains(&char_count(&body["dedup_key"]))
            && request.body.len() <= 512 << 10
            && match body["event_action"].as_str() {
                Some("trigger") => is_payload,
                Some("acknowledge" | "resolve") => true,
                _ => false,
            };
        let answer = json!({"status": "success", "dedup_key": body["dedup_key"]});
        if is_fine { ScriptedAnswer::json(202, &answer) } else { ScriptedAnswer::status(400) }
    }

    fn receiver(double: &HttpDouble) -> Box<dyn Receiver> {
        let mut settings = TestSettings::new(&[("url", &double.url("/v2/enqueue"))]);
        settings.token = Some("R0123456789abcdef");
        settings.open("pagerduty").unwrap()
    }

    #[tokio::test]
    async fn one_incident_is_triggered_acknowledged_and_resolved_under_one_key() {
        let double = HttpDouble::start(contract).await;
        let mut expired = message(NoticeKind::Ack);
        expired.notice.incident.acked_by = None;
        let samples = [
            (message(NoticeKind::Page), "trigger", "critical"),
            (message(NoticeKind::Mail), "trigger", "warning"),
            (message(NoticeKind::Ack), "acknowledge", "critical"),
            (expired, "trigger", "critical"),
            (message(NoticeKind::Resolved), "resolve", "critical"),
        ];
        for (sample, action, severity) in samples {
            let accepted = receiver(&double).send(&sample).await.unwrap();
            assert_eq!(accepted.external_id.as_deref(), Some("weir-k3f9"));
            let body = double.last().json();
            assert_eq!(
                (&body["event_action"], &body["dedup_key"]),
                (&json!(action), &json!("weir-k3f9"))
            );
            assert_eq!(body["payload"]["severity"], severity);
        }
        receiver(&double).probe().await.unwrap();
        assert_eq!(double.last().json()["event_action"], "resolve");
    }

    #[tokio::test]
    async fn data_makes_no_link_and_fits() {
        let double = HttpDouble::start(contract).await;
        for sample in [evil_message(), long_message()] {
            receiver(&double).send(&sample).await.unwrap();
            let body = double.last().json();
            assert!(!body.to_string().contains("http://evil"), "{body}");
            assert_eq!(body["links"].as_array().unwrap().len(), 1);
        }
        let mut nowhere = message(NoticeKind::Page);
        nowhere.notice.incident.host = String::new();
        receiver(&double).send(&nowhere).await.unwrap();
    }
}
