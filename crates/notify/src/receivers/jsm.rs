//! Jira Service Management (once Opsgenie): an alert under an alias, acknowledged and closed by it.
//!
//! <https://developer.atlassian.com/cloud/jira/service-desk-ops/rest/v2/>. Answers are 202: the
//! request was queued, and the alias makes a repeat harmless.

use async_trait::async_trait;
use reqwest::{RequestBuilder, Url};
use serde_json::{Value, json};
use weir_actions::{NoticeKind, Urgency};

use crate::forms::{NoticeText, cut_units, one_line, text, unlinked};
use crate::http_client::HttpClient;
use crate::receiver::{Accepted, Message, RateLimit, Receiver, SendError};
use crate::settings::{
    ReceiverSettings, ReceiverSpec, SecretText, SettingError, UrlDefault, below,
};

pub(crate) const SPEC: ReceiverSpec = ReceiverSpec {
    name: "jsm",
    doc: "Jira Service Management, by an integration's API key",
    keys: &["url", "token_file", "ca_file"],
    read: |settings| Ok(Box::new(JsmReceiver::read(settings)?)),
};

const URL: UrlDefault = UrlDefault {
    url: Some("https://api.atlassian.com/jsm/ops/integration/v2/alerts"),
    example: "https://api.atlassian.com/jsm/ops/integration/v2/alerts",
};
const MESSAGE_CHARS_MAX: usize = 130;
const DESCRIPTION_CHARS_MAX: usize = 15_000;
const ENTITY_CHARS_MAX: usize = 512;
const ALIAS_CHARS_MAX: usize = 512;
const TAG_CHARS_MAX: usize = 50;

#[derive(Debug)]
struct JsmReceiver {
    client: HttpClient,
    url: Url,
    key: SecretText,
}

impl JsmReceiver {
    fn read(settings: &ReceiverSettings<'_>) -> Result<Self, SettingError> {
        let url = settings.address(URL)?;
        let key = settings.required_token()?;
        Ok(Self { client: HttpClient::new(settings, &url)?, url, key })
    }

    fn post(&self, url: Url, body: &Value) -> RequestBuilder {
        let request = self.client.post_json(url, body);
        request.header("authorization", format!("GenieKey {}", self.key.0))
    }

    fn alias_url(&self, alias_and_change: [&str; 2]) -> Url {
        let mut url = below(&self.url, &alias_and_change);
        url.query_pairs_mut().append_pair("identifierType", "alias");
        url
    }

    fn request(&self, message: &Message) -> RequestBuilder {
        let alias = alias(message);
        let change = match message.notice.kind {
            NoticeKind::Resolved => "close",
            NoticeKind::Test if message.notice.is_test_end() => "close",
            NoticeKind::Ack if message.notice.incident.acked_by.is_some() => "acknowledge",
            _ => return self.post(self.url.clone(), &alert(message)),
        };
        let note = unlinked(&one_line(&message.notice.change));
        let body = json!({"source": "weir", "note": cut_units(&note, DESCRIPTION_CHARS_MAX)});
        self.post(self.alias_url([&alias, change]), &body)
    }
}

fn alias(message: &Message) -> String {
    let kind = if message.notice.kind == NoticeKind::Test { "weir-test" } else { "weir" };
    cut_units(&format!("{kind}-{}", one_line(&message.notice.incident.id)), ALIAS_CHARS_MAX)
}

fn alert(message: &Message) -> Value {
    let notice = NoticeText::new(message);
    let incident = &message.notice.incident;
    let priority = match (message.notice.kind, incident.class) {
        (NoticeKind::Test, _) | (_, Urgency::Note) => "P5",
        (_, Urgency::Mail) => "P3",
        (_, Urgency::Page) => "P1",
    };
    json!({
        "message": cut_units(&unlinked(&notice.head()), MESSAGE_CHARS_MAX),
        "alias": alias(message),
        "description": cut_units(&text(message), DESCRIPTION_CHARS_MAX),
        "entity": cut_units(&unlinked(&one_line(&incident.host)), ENTITY_CHARS_MAX),
        "tags": [cut_units(&unlinked(&one_line(&incident.root_rule)), TAG_CHARS_MAX)],
        "source": "weir",
        "priority": priority,
    })
}

#[async_trait]
impl Receiver for JsmReceiver {
    async fn send(&self, message: &Message) -> Result<Accepted, SendError> {
        let answer = self.client.accepted(self.request(message), message.now_us).await?;
        Ok(Accepted { answer: self.client.said(&answer), external_id: Some(alias(message)) })
    }

    /// The close of an unknown alias is queued and changes nothing.
    async fn probe(&self) -> Result<String, SendError> {
        let url = self.alias_url(["weir-probe", "close"]);
        let answer = self.client.accepted(self.post(url, &json!({"source": "weir"})), 0).await?;
        Ok(format!("the API key is valid ({})", answer.status))
    }

    fn is_idempotent(&self) -> bool {
        true
    }

    fn is_read_by_people(&self) -> bool {
        false
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit { burst: 20.0, per_second: 2.0 }
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
        let is_alert = (1..=130).contains(&char_count(&body["message"]))
            && (1..=512).contains(&char_count(&body["alias"]))
            && char_count(&body["description"]) <= 15_000
            && char_count(&body["entity"]) <= 512;
        let is_fine = match request.path.as_str() {
            "/alerts" => is_alert,
            "/alerts/weir-k3f9/close?identifierType=alias"
            | "/alerts/weir-k3f9/acknowledge?identifierType=alias"
            | "/alerts/weir-probe/close?identifierType=alias" => body.is_object(),
            _ => false,
        };
        match request.header("authorization") {
            Some("GenieKey eb243592") if is_fine => {
                ScriptedAnswer::json(202, &json!({"result": "Request will be processed"}))
            }
            Some("GenieKey eb243592") => ScriptedAnswer::status(422),
            _ => ScriptedAnswer::status(401),
        }
    }

    fn receiver(double: &HttpDouble) -> Box<dyn Receiver> {
        let mut settings = TestSettings::new(&[("url", &double.url("/alerts"))]);
        settings.token = Some("eb243592");
        settings.open("jsm").unwrap()
    }

    #[tokio::test]
    async fn an_alert_is_made_acknowledged_and_closed_by_its_alias() {
        let double = HttpDouble::start(contract).await;
        let receiver = receiver(&double);
        for kind in [NoticeKind::Page, NoticeKind::Mail, NoticeKind::Ack, NoticeKind::Resolved] {
            let accepted = receiver.send(&message(kind)).await.unwrap();
            assert_eq!(accepted.external_id.as_deref(), Some("weir-k3f9"));
        }
        assert_eq!(double.requests()[0].json()["priority"], "P1");
        assert_eq!(double.requests()[1].json()["priority"], "P3");
        assert_eq!(double.last().path, "/alerts/weir-k3f9/close?identifierType=alias");
        receiver.probe().await.unwrap();
    }

    #[tokio::test]
    async fn data_makes_no_link_and_fits() {
        let double = HttpDouble::start(contract).await;
        for sample in [evil_message(), long_message()] {
            receiver(&double).send(&sample).await.unwrap();
            assert!(!double.last().text().contains("http://evil"));
        }
    }
}
