//! Prometheus' Alertmanager: `POST /api/v2/alerts` with labels, annotations, start and end.
//!
//! Labels identify an alert, so a repeat changes nothing. Alertmanager ends an alert at `endsAt`
//! unless it is sent again before (<https://prometheus.io/docs/alerting/latest/clients/>): an open
//! incident is sent again each minute with an end four minutes ahead, a resolved one for five minutes
//! more, in case Alertmanager restarted in between.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use reqwest::{Method, RequestBuilder, Url};
use serde_json::{Value, json};
use weir_actions::NoticeKind;

use crate::forms::{NoticeText, cut_units, one_line, unlinked};
use crate::http_client::HttpClient;
use crate::receiver::{Accepted, Message, RateLimit, Receiver, SendError};
use crate::settings::{
    Login, NumberKey, ReceiverSettings, ReceiverSpec, SecretText, SettingError, UrlDefault, below,
};

pub(crate) const SPEC: ReceiverSpec = ReceiverSpec {
    name: "alertmanager",
    doc: "Prometheus' Alertmanager, by its API v2",
    keys: &["url", "token_file", "user", "password_file", "ends_minutes", "ca_file"],
    read: |settings| Ok(Box::new(AlertmanagerReceiver::read(settings)?)),
};

const URL: UrlDefault = UrlDefault { url: None, example: "http://alertmanager.example.net:9093" };
const ENDS_MINUTES: NumberKey = NumberKey { key: "ends_minutes", bounds: 2..=10_080 };
const ENDS_MINUTES_DEFAULT: u64 = 4;
/// An alert is sent again after this time; two may be lost before it ends.
const REFRESH: Duration = Duration::from_secs(60);
/// How long the alert of a test stays.
const TEST_US: i64 = 4 * 60_000_000;
const LABEL_CHARS_MAX: usize = 500;

#[derive(Debug)]
struct AlertmanagerReceiver {
    client: HttpClient,
    url: Url,
    token: Option<SecretText>,
    login: Option<Login>,
    ends_us: i64,
}

impl AlertmanagerReceiver {
    fn read(settings: &ReceiverSettings<'_>) -> Result<Self, SettingError> {
        let url = settings.address(URL)?;
        let minutes = settings.number(&ENDS_MINUTES)?.unwrap_or(ENDS_MINUTES_DEFAULT);
        Ok(Self {
            client: HttpClient::new(settings, &url)?,
            url,
            token: settings.optional_token()?,
            login: settings.login()?,
            ends_us: i64::try_from(minutes).unwrap_or(i64::MAX / 60_000_000) * 60_000_000,
        })
    }

    fn with_login(&self, request: RequestBuilder) -> RequestBuilder {
        match (&self.token, &self.login) {
            (Some(token), _) => request.bearer_auth(&token.0),
            (None, Some(login)) => request.basic_auth(&login.user, Some(&login.password.0)),
            (None, None) => request,
        }
    }

    fn alert(&self, message: &Message) -> Value {
        let notice = NoticeText::new(message);
        let incident = &message.notice.incident;
        let is_over = message.notice.kind == NoticeKind::Resolved || message.notice.is_test_end();
        let end_us = if is_over {
            incident.resolved_us.unwrap_or(message.now_us).min(message.now_us)
        } else if message.notice.kind == NoticeKind::Test {
            message.now_us.saturating_add(TEST_US)
        } else {
            message.now_us.saturating_add(self.ends_us)
        };
        // An end before the start is refused.
        let start_us = incident.opened_us.min(end_us);
        let mut labels = json!({
            "alertname": label(&incident.root_rule),
            "incident": label(&incident.id),
            "source": "weir",
        });
        let kind = if message.notice.kind == NoticeKind::Test { "test" } else { "incident" };
        labels["kind"] = json!(kind);
        if !incident.host.is_empty() {
            labels["instance"] = json!(label(&incident.host));
        }
        json!({
            "labels": labels,
            "annotations": {
                "summary": unlinked(&notice.title),
                "description": unlinked(&notice.summary),
                "fix": unlinked(&notice.fix),
                "severity": incident.class.as_str(),
                "change": unlinked(&notice.change),
            },
            "startsAt": rfc3339(start_us),
            "endsAt": rfc3339(end_us),
            "generatorURL": notice.link.map(String::from).unwrap_or_default(),
        })
    }
}

/// A label's value: never empty, because an empty label is none, and identity would change.
fn label(text: &str) -> String {
    let text = cut_units(&one_line(text), LABEL_CHARS_MAX);
    if text.is_empty() { "none".to_owned() } else { text }
}

fn rfc3339(time_us: i64) -> String {
    Timestamp::from_microsecond(time_us).unwrap_or(Timestamp::UNIX_EPOCH).to_string()
}

#[async_trait]
impl Receiver for AlertmanagerReceiver {
    async fn send(&self, message: &Message) -> Result<Accepted, SendError> {
        let url = below(&self.url, &["api", "v2", "alerts"]);
        let request = self.client.post_json(url, &json!([self.alert(message)]));
        let answer = self.client.accepted(self.with_login(request), message.now_us).await?;
        Ok(Accepted { answer: self.client.said(&answer), external_id: None })
    }

    async fn probe(&self) -> Result<String, SendError> {
        let request = self.client.request(Method::GET, below(&self.url, &["api", "v2", "status"]));
        let answer = self.client.accepted(self.with_login(request), 0).await?;
        let version = answer.json()["versionInfo"]["version"].as_str().map(crate::shortened);
        Ok(format!("Alertmanager {} answers", version.unwrap_or_default()))
    }

    fn is_idempotent(&self) -> bool {
        true
    }

    fn is_read_by_people(&self) -> bool {
        false
    }

    fn refresh_pause(&self) -> Option<Duration> {
        Some(REFRESH)
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit { burst: 100.0, per_second: 50.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestSettings;
    use crate::testing::http::{HttpDouble, RecordedRequest, ScriptedAnswer};
    use crate::testing::samples::{evil_message, long_message, message};

    fn time_of(text: &Value) -> Option<Timestamp> {
        text.as_str()?.parse().ok()
    }

    fn contract(request: &RecordedRequest) -> ScriptedAnswer {
        if request.path == "/am/api/v2/status" {
            return ScriptedAnswer::text(200, "{\"versionInfo\":{\"version\":\"0.25.0\"}}");
        }
        let body = request.json();
        let alerts = body.as_array().map(Vec::as_slice).unwrap_or_default();
        let are_fine = alerts.iter().all(|alert| {
            let labels = alert["labels"].as_object();
            let is_named = labels.is_some_and(|labels| {
                labels.contains_key("alertname")
                    && labels.values().all(|value| value.as_str().is_some_and(|it| !it.is_empty()))
            });
            let (start, end) = (time_of(&alert["startsAt"]), time_of(&alert["endsAt"]));
            is_named && start.is_some() && start <= end
        });
        let is_fine = request.path == "/am/api/v2/alerts" && !alerts.is_empty() && are_fine;
        ScriptedAnswer::status(if is_fine { 200 } else { 400 })
    }

    fn receiver(double: &HttpDouble) -> Box<dyn Receiver> {
        let pairs = [("url", &*double.url("/am")), ("ends_minutes", "4")];
        TestSettings::new(&pairs).open("alertmanager").unwrap()
    }

    #[tokio::test]
    async fn an_alert_keeps_its_labels_from_start_to_end() {
        let double = HttpDouble::start(contract).await;
        for kind in [NoticeKind::Page, NoticeKind::Ack, NoticeKind::Resolved] {
            receiver(&double).send(&message(kind)).await.unwrap();
        }
        let alerts: Vec<Value> =
            double.requests().iter().map(|request| request.json()[0].clone()).collect();
        assert!(alerts.iter().all(|alert| alert["labels"] == alerts[0]["labels"]));
        assert_eq!(alerts[0]["labels"]["alertname"], "app.down");
        assert_eq!(alerts[0]["startsAt"], "2026-11-30T00:53:10Z");
        assert_eq!(alerts[0]["endsAt"], "2026-11-30T00:57:21Z", "four minutes after the sending");
        assert_eq!(alerts[2]["endsAt"], "2026-11-30T00:53:20.5Z");
        assert_eq!(receiver(&double).probe().await.unwrap(), "Alertmanager 0.25.0 answers");
    }

    #[tokio::test]
    async fn hostile_and_empty_texts_keep_the_contract() {
        let double = HttpDouble::start(contract).await;
        let mut empty = message(NoticeKind::Resolved);
        let incident = &mut empty.notice.incident;
        (incident.host, incident.root_rule) = (String::new(), String::new());
        incident.opened_us = empty.now_us + 1;
        for sample in [evil_message(), long_message(), empty] {
            receiver(&double).send(&sample).await.unwrap();
            assert!(!double.last().json()[0]["annotations"].to_string().contains("http://evil"));
        }
    }

    #[test]
    fn ends_minutes_has_bounds() {
        let pairs = [("url", "http://127.0.0.1:9093"), ("ends_minutes", "1")];
        let error = TestSettings::new(&pairs).open("alertmanager").unwrap_err();
        assert!(error.to_string().contains("from 2 to 10080"), "{error}");
    }
}
