//! GoAlert's generic API: an alert under a deduplication key, closed by `action=close`.
//!
//! <https://goalert.me/docs/> (`/api/v2/generic/incoming`). There is no acknowledgement in it, so
//! those notices are not sent: an alert that was closed by hand would open again.

use async_trait::async_trait;
use reqwest::{Method, RequestBuilder, Url};
use weir_actions::NoticeKind;

use crate::forms::{NoticeText, cut_units, one_line, text, unlinked};
use crate::http_client::HttpClient;
use crate::receiver::{Accepted, Message, RateLimit, Receiver, SendError};
use crate::settings::{ReceiverSettings, ReceiverSpec, SecretText, SettingError, UrlDefault};

pub(crate) const SPEC: ReceiverSpec = ReceiverSpec {
    name: "goalert",
    doc: "GoAlert, by an integration key of its generic API",
    keys: &["url", "token_file", "ca_file"],
    read: |settings| Ok(Box::new(GoAlert::read(settings)?)),
};

const URL: UrlDefault =
    UrlDefault { url: None, example: "https://goalert.example.net/api/v2/generic/incoming" };
const SUMMARY_CHARS_MAX: usize = 1024;
const DETAILS_CHARS_MAX: usize = 6144;

#[derive(Debug)]
struct GoAlert {
    client: HttpClient,
    url: Url,
    token: SecretText,
}

impl GoAlert {
    fn read(settings: &ReceiverSettings<'_>) -> Result<Self, SettingError> {
        let url = settings.address(URL)?;
        let token = settings.required_token()?;
        Ok(Self { client: HttpClient::new(settings, &url)?, url, token })
    }

    fn post(&self, form: &[(&str, String)]) -> RequestBuilder {
        let mut url = self.url.clone();
        url.query_pairs_mut().append_pair("token", &self.token.0);
        let request = self.client.request(Method::POST, url).header("accept", "application/json");
        request.form(form)
    }
}

fn dedup(message: &Message) -> String {
    let kind = if message.notice.kind == NoticeKind::Test { "weir-test" } else { "weir" };
    format!("{kind}-{}", cut_units(&one_line(&message.notice.incident.id), 64))
}

#[async_trait]
impl Receiver for GoAlert {
    async fn send(&self, message: &Message) -> Result<Accepted, SendError> {
        let dedup = dedup(message);
        let external_id = Some(dedup.clone());
        if message.notice.kind == NoticeKind::Ack {
            let answer = "not sent: GoAlert's API has no acknowledgement".to_owned();
            return Ok(Accepted { answer, external_id });
        }
        let notice = NoticeText::new(message);
        let mut form = vec![
            ("summary", cut_units(&unlinked(&notice.head()), SUMMARY_CHARS_MAX)),
            ("details", cut_units(&text(message), DETAILS_CHARS_MAX)),
            ("dedup", dedup),
        ];
        if message.notice.kind == NoticeKind::Resolved || message.notice.is_test_end() {
            form.push(("action", "close".to_owned()));
        }
        let answer = self.client.accepted(self.post(&form), message.now_us).await?;
        Ok(Accepted { answer: self.client.said(&answer), external_id })
    }

    /// The close of an unknown key changes nothing.
    async fn probe(&self) -> Result<String, SendError> {
        let form = [
            ("summary", "weir checks the integration key".to_owned()),
            ("dedup", "weir-probe".to_owned()),
            ("action", "close".to_owned()),
        ];
        let answer = self.client.accepted(self.post(&form), 0).await?;
        Ok(format!("the integration key is valid ({})", answer.status))
    }

    fn is_idempotent(&self) -> bool {
        true
    }

    fn is_read_by_people(&self) -> bool {
        false
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit { burst: 20.0, per_second: 5.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestSettings;
    use crate::testing::http::{HttpDouble, RecordedRequest, ScriptedAnswer};
    use crate::testing::samples::{evil_message, long_message, message};

    fn contract(request: &RecordedRequest) -> ScriptedAnswer {
        let is_fine = (1..=1024).contains(&request.form_length("summary"))
            && request.form_length("details") <= 6144
            && (1..=512).contains(&request.form_length("dedup"));
        match request.path.as_str() {
            "/api/v2/generic/incoming?token=81cabf3a" if is_fine => {
                ScriptedAnswer::text(200, "{\"AlertID\":5,\"ServiceID\":\"s\",\"IsNew\":true}")
            }
            "/api/v2/generic/incoming?token=81cabf3a" => ScriptedAnswer::status(400),
            _ => ScriptedAnswer::status(401),
        }
    }

    fn receiver(double: &HttpDouble) -> Box<dyn Receiver> {
        let mut settings = TestSettings::new(&[("url", &double.url("/api/v2/generic/incoming"))]);
        settings.token = Some("81cabf3a");
        settings.open("goalert").unwrap()
    }

    #[tokio::test]
    async fn an_alert_is_opened_and_closed_under_one_key() {
        let double = HttpDouble::start(contract).await;
        let receiver = receiver(&double);
        receiver.send(&message(NoticeKind::Page)).await.unwrap();
        assert_eq!(double.last().form_value("action"), None);
        let unsent = receiver.send(&message(NoticeKind::Ack)).await.unwrap();
        assert!(unsent.answer.starts_with("not sent"));
        double.next(ScriptedAnswer::status(204));
        receiver.send(&message(NoticeKind::Resolved)).await.unwrap();
        assert_eq!(double.last().form_value("action").as_deref(), Some("close"));
        let keys =
            double.requests().into_iter().map(|request| request.form_value("dedup").unwrap());
        assert_eq!(keys.collect::<Vec<_>>(), ["weir-k3f9", "weir-k3f9"]);
        receiver.probe().await.unwrap();
    }

    #[tokio::test]
    async fn data_makes_no_link_and_fits_and_the_token_is_never_shown() {
        let double = HttpDouble::start(contract).await;
        for sample in [evil_message(), long_message()] {
            receiver(&double).send(&sample).await.unwrap();
            assert!(!double.last().form_value("details").unwrap().contains("http://evil"));
        }
        double.next(ScriptedAnswer::Echo { status: 400 });
        let error = receiver(&double).send(&message(NoticeKind::Page)).await.unwrap_err();
        assert!(!error.message.contains("81cabf3a"), "{error}");
    }
}
