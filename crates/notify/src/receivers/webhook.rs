//! JSON posted to an address, signed with HMAC-SHA256 of time and body.
//!
//! A status from 200 to 299 means that the receiver took the notice. The header `Idempotency-Key`
//! is the same for every attempt, also after a restart, so a receiver that remembers it drops
//! repeats. Texts are sent as they are: escape them before they are shown.

use async_trait::async_trait;
use jiff::Timestamp;
use reqwest::{Method, RequestBuilder, Url};
use ring::hmac;
use serde_json::{Value, json};

use crate::forms::{incident_url, phone};
use crate::http_client::HttpClient;
use crate::receiver::{Accepted, Message, RateLimit, Receiver, SendError};
use crate::settings::{
    Login, ReceiverSettings, ReceiverSpec, SecretText, SettingError, UrlDefault, wrong,
};

pub(crate) const SPEC: ReceiverSpec = ReceiverSpec {
    name: "webhook",
    doc: "JSON posted to an address, signed if a secret is set",
    keys: &["url", "url_file", "token_file", "user", "password_file", "secret_file", "ca_file"],
    read: |settings| Ok(Box::new(WebhookReceiver::read(settings)?)),
};

const URL: UrlDefault = UrlDefault { url: None, example: "https://alerts.example.net/weir" };

#[derive(Debug)]
struct WebhookReceiver {
    client: HttpClient,
    url: Url,
    token: Option<SecretText>,
    login: Option<Login>,
    secret: Option<SecretText>,
}

impl WebhookReceiver {
    fn read(settings: &ReceiverSettings<'_>) -> Result<Self, SettingError> {
        let url = settings.address(URL)?;
        let (token, login) = (settings.optional_token()?, settings.login()?);
        if token.is_some() && login.is_some() {
            let message = "a request has one login, not two".to_owned();
            return Err(wrong("token_file", message, "leave out `token_file` or `user`"));
        }
        let secret = settings.secret.as_deref().map(str::trim).filter(|text| !text.is_empty());
        Ok(Self {
            client: HttpClient::new(settings, &url)?,
            url,
            token,
            login,
            secret: secret.map(|text| SecretText(text.to_owned())),
        })
    }

    fn request(&self, method: Method) -> RequestBuilder {
        let request = self.client.request(method, self.url.clone());
        match (&self.token, &self.login) {
            (Some(token), _) => request.bearer_auth(&token.0),
            (None, Some(login)) => request.basic_auth(&login.user, Some(&login.password.0)),
            (None, None) => request,
        }
    }
}

/// `t=<seconds>,v1=<hex of HMAC-SHA256 over "<seconds>.<body>">`.
fn signature(secret: &SecretText, body: &str, now_us: i64) -> String {
    let seconds = now_us.div_euclid(1_000_000);
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.0.as_bytes());
    let tag = hmac::sign(&key, format!("{seconds}.{body}").as_bytes());
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={seconds},v1={hex}")
}

/// A time as RFC 3339; null for one that no calendar has.
fn rfc3339(time_us: i64) -> Value {
    Timestamp::from_microsecond(time_us).map_or(Value::Null, |time| json!(time.to_string()))
}

/// The body: flat, with every field present, so that a receiver needs no schema.
fn body(message: &Message) -> Value {
    let (notice, incident) = (&message.notice, &message.notice.incident);
    let evidence: Value = serde_json::from_str(&incident.evidence).unwrap_or_default();
    json!({
        "id": notice.id,
        "kind": notice.kind.as_str(),
        "is_repeat": message.is_repeat,
        "sent_at": rfc3339(message.now_us),
        "receiver": notice.receiver,
        "address": notice.address,
        "person": notice.person,
        "reason": notice.reason,
        "change": notice.change,
        "on_call": notice.on_call,
        "incident": incident.id,
        "url": incident_url(message).map(String::from),
        "class": incident.class.as_str(),
        "root_rule": incident.root_rule,
        "host": incident.host,
        "tier": incident.tier,
        "subject": incident.subject,
        "title": incident.title,
        "summary": incident.summary,
        "why": incident.why,
        "fix": incident.fix,
        "evidence": evidence,
        "symptoms": incident.symptoms,
        "finding_count": incident.finding_count,
        "host_count": incident.host_count,
        "opened_at": rfc3339(incident.opened_us),
        "resolved_at": incident.resolved_us.map_or(Value::Null, rfc3339),
        "acked_by": incident.acked_by,
        "phone": phone(message),
        "act_url": message.act_link.as_ref().map(|link| &link.url),
        "act_pin": message.act_link.as_ref().map(|link| &link.pin),
    })
}

#[async_trait]
impl Receiver for WebhookReceiver {
    async fn send(&self, message: &Message) -> Result<Accepted, SendError> {
        let body = body(message).to_string();
        let mut request = self
            .request(Method::POST)
            .header("content-type", "application/json")
            .header("idempotency-key", &message.notice.id);
        if let Some(secret) = &self.secret {
            request = request.header("x-weir-signature", signature(secret, &body, message.now_us));
        }
        let answer = self.client.accepted(request.body(body), message.now_us).await?;
        Ok(Accepted { answer: self.client.said(&answer), external_id: None })
    }

    /// No request of the contract is without effect, so only the connection is checked.
    async fn probe(&self) -> Result<String, SendError> {
        let answer = self.client.exchange(self.request(Method::OPTIONS)).await?;
        if matches!(answer.status, 429 | 500 | 502..=504) {
            return Err(self.client.refusal(&answer, 0));
        }
        Ok(format!("`{}` answers (OPTIONS: {})", self.client.host, answer.status))
    }

    fn is_idempotent(&self) -> bool {
        true
    }

    /// A program reads one incident from each body.
    fn takes_digests(&self) -> bool {
        false
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit { burst: 1000.0, per_second: 200.0 }
    }
}

#[cfg(test)]
mod tests {
    use weir_actions::NoticeKind;

    use super::*;
    use crate::testing::TestSettings;
    use crate::testing::http::{HttpDouble, RecordedRequest, ScriptedAnswer};
    use crate::testing::samples::{EVIL, evil_message, message};

    fn contract(request: &RecordedRequest) -> ScriptedAnswer {
        let body = request.json();
        let is_complete =
            ["id", "kind", "incident", "title", "summary", "class", "host", "root_rule"]
                .iter()
                .all(|key| body[key].is_string())
                && body["is_repeat"].is_boolean()
                && request.method == "POST"
                && request.header("content-type") == Some("application/json")
                && request.header("idempotency-key") == body["id"].as_str();
        ScriptedAnswer::status(if is_complete { 202 } else { 400 })
    }

    #[tokio::test]
    async fn a_notice_is_json_with_a_stable_key_and_all_fields() {
        let double = HttpDouble::start(contract).await;
        let mut settings = TestSettings::new(&[("url", &double.url("/hook?a=b"))]);
        settings.token = Some("tok-123456");
        let receiver = settings.open("webhook").unwrap();
        for (kind, name) in [
            (NoticeKind::Page, "page"),
            (NoticeKind::Mail, "mail"),
            (NoticeKind::Ack, "ack"),
            (NoticeKind::Resolved, "resolved"),
            (NoticeKind::Test, "test"),
        ] {
            let accepted = receiver.send(&message(kind)).await.unwrap();
            assert_eq!(accepted, Accepted { answer: "202".to_owned(), external_id: None });
            assert_eq!(double.last().json()["kind"], name);
        }
        let request = double.requests().remove(3);
        assert_eq!(request.path, "/hook?a=b");
        assert_eq!(request.header("authorization"), Some("Bearer tok-123456"));
        let body = request.json();
        assert_eq!(body["id"], "0123456789abcdef0123456789abcdef");
        assert_eq!(body["opened_at"], "2026-11-30T00:53:10Z");
        assert_eq!(body["resolved_at"], "2026-11-30T00:53:20.5Z");
        assert_eq!(body["sent_at"], "2026-11-30T00:53:21Z");
        assert_eq!(body["url"], "https://weir.example.net/#/incidents/k3f9");
        assert_eq!(body["symptoms"][1]["host"], "web2");
        assert_eq!(body["evidence"][0]["failed"], 12);
        assert_eq!((&body["finding_count"], &body["host_count"]), (&json!(4), &json!(3)));
        assert_eq!((&body["class"], &body["acked_by"]), (&json!("page"), &Value::Null));
        assert_eq!(body["on_call"], json!(["ada", "bo"]));
    }

    #[tokio::test]
    async fn the_signature_covers_time_and_body() {
        let double = HttpDouble::start(contract).await;
        let mut settings = TestSettings::new(&[("url", &double.url("/"))]);
        settings.secret = Some("swordfish");
        settings.open("webhook").unwrap().send(&evil_message()).await.unwrap();
        let request = double.last();
        let header = request.header("x-weir-signature").unwrap();
        let (time, hex) = header.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
        assert_eq!(time, "1796000001");
        let tag: Vec<u8> = (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect();
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"swordfish");
        let signed = [b"1796000001.".as_slice(), &request.body].concat();
        hmac::verify(&key, &signed, &tag).unwrap();
        assert_eq!(request.json()["summary"], EVIL, "JSON carries data unchanged");
    }

    #[test]
    fn the_signature_is_that_of_a_known_case() {
        // RFC 4231 has no case with our prefix; this one was made with openssl dgst -sha256 -hmac.
        let made = signature(&SecretText("key".to_owned()), "{}", 1_000_000);
        assert_eq!(made, "t=1,v1=1ba6b8171186efc613e8bcc0cbdab2748f24984d7c5a84faa2637afa0e40d224");
    }

    #[test]
    fn two_logins_are_refused() {
        let mut settings = TestSettings::new(&[("url", "http://127.0.0.1/"), ("user", "weir")]);
        (settings.token, settings.password) = (Some("tok"), Some("pw"));
        assert!(matches!(
            settings.open("webhook").unwrap_err(),
            SettingError::Wrong { key: "token_file", .. }
        ));
    }

    #[tokio::test]
    async fn the_probe_sends_no_notice() {
        let double = HttpDouble::start(|_| ScriptedAnswer::status(405)).await;
        let receiver = TestSettings::new(&[("url", &double.url("/"))]).open("webhook").unwrap();
        assert!(receiver.probe().await.unwrap().contains("405"));
        assert_eq!(double.last().method, "OPTIONS");
    }
}
