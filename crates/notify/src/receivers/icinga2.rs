//! Icinga 2: a passive check result by its API.
//!
//! <https://icinga.com/docs/icinga-2/latest/doc/12-icinga2-api/#process-check-result>. Host and
//! service travel as variables of the filter, so data is never a part of an expression. The state
//! of a service is what was sent last, so a repeat is harmless.
//!
//! A problem counts for its `ttl`; Icinga then runs the service's own check, if it has one. So an open
//! incident is sent again each minute, and its state does not outlive a weir that ended.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::{Method, RequestBuilder, Url};
use serde_json::{Value, json};
use weir_actions::NoticeKind;

use crate::forms::{NoticeText, check_state, cut_units, one_line, unlinked};
use crate::http_client::HttpClient;
use crate::receiver::{Accepted, Message, RateLimit, Receiver, RetryAdvice, SendError};
use crate::settings::{
    Login, NumberKey, ReceiverSettings, ReceiverSpec, SettingError, UrlDefault, below,
};

pub(crate) const SPEC: ReceiverSpec = ReceiverSpec {
    name: "icinga2",
    doc: "Icinga 2: passive check results by its API",
    keys: &["url", "user", "password_file", "host", "service", "ttl_seconds", "ca_file"],
    read: |settings| Ok(Box::new(IcingaReceiver::read(settings)?)),
};

const URL: UrlDefault = UrlDefault { url: None, example: "https://icinga.example.net:5665" };
const TTL_SECONDS: NumberKey = NumberKey { key: "ttl_seconds", bounds: 1..=31_536_000 };
const TTL_SECONDS_DEFAULT: u64 = 300;
/// A state is sent again after this time.
const REFRESH: Duration = Duration::from_secs(60);
const OUTPUT_CHARS_MAX: usize = 4000;
const NAME_CHARS_MAX: usize = 255;

#[derive(Debug)]
struct IcingaReceiver {
    client: HttpClient,
    url: Url,
    login: Login,
    host: Option<String>,
    service: Option<String>,
    ttl_seconds: Option<u64>,
}

impl IcingaReceiver {
    fn read(settings: &ReceiverSettings<'_>) -> Result<Self, SettingError> {
        let url = settings.address(URL)?;
        let login = settings.login()?;
        let login = login.ok_or(SettingError::Missing { key: "user", example: "weir" })?;
        Ok(Self {
            client: HttpClient::new(settings, &url)?,
            url,
            login,
            host: settings.text("host").map(str::to_owned),
            service: settings.text("service").map(str::to_owned),
            ttl_seconds: settings.number(&TTL_SECONDS)?,
        })
    }

    fn with_login(&self, request: RequestBuilder) -> RequestBuilder {
        let request = request.header("accept", "application/json");
        request.basic_auth(&self.login.user, Some(&self.login.password.0))
    }

    fn result(&self, message: &Message) -> Value {
        let notice = NoticeText::new(message);
        let incident = &message.notice.incident;
        let host = self.host.as_deref().unwrap_or(&incident.host);
        let service = self.service.as_deref().unwrap_or(&incident.root_rule);
        let (host, service) = (object_name(host), object_name(service));
        let output = unlinked(&format!("{}: {}", notice.head(), notice.summary));
        let mut result = json!({
            "type": "Service",
            "filter": "host.name == weir_host && service.name == weir_service",
            "filter_vars": {"weir_host": host, "weir_service": service},
            "exit_status": check_state(message),
            // Text after `|` would be read as performance data.
            "plugin_output": cut_units(&output.replace('|', "/"), OUTPUT_CHARS_MAX),
            "check_source": "weir",
        });
        // Without `ttl` the end of a problem stays: nothing repeats it for ever.
        let is_over = message.notice.kind == NoticeKind::Resolved;
        let default = (!is_over).then_some(TTL_SECONDS_DEFAULT);
        if let Some(ttl) = self.ttl_seconds.or(default) {
            result["ttl"] = json!(ttl);
        }
        result
    }
}

fn object_name(text: &str) -> String {
    cut_units(&one_line(text), NAME_CHARS_MAX)
}

#[async_trait]
impl Receiver for IcingaReceiver {
    async fn send(&self, message: &Message) -> Result<Accepted, SendError> {
        let url = below(&self.url, &["v1", "actions", "process-check-result"]);
        let request = self.with_login(self.client.post_json(url, &self.result(message)));
        let answer = self.client.accepted(request, message.now_us).await?;
        let body = answer.json();
        let results = body["results"].as_array().map(Vec::as_slice).unwrap_or_default();
        let codes: Vec<f64> =
            results.iter().map(|result| result["code"].as_f64().unwrap_or(0.0)).collect();
        if codes.is_empty() {
            return Err(self.client.unusable(&answer, RetryAdvice::Never));
        }
        if let Some(code) = codes.into_iter().find(|code| !(200.0..300.0).contains(code)) {
            let passes = code >= 500.0;
            let retry = if passes { RetryAdvice::Backoff } else { RetryAdvice::Never };
            return Err(self.client.unusable(&answer, retry));
        }
        Ok(Accepted { answer: self.client.said(&answer), external_id: None })
    }

    /// `GET /v1` answers with the user's permissions.
    async fn probe(&self) -> Result<String, SendError> {
        let request = self.with_login(self.client.request(Method::GET, below(&self.url, &["v1"])));
        self.client.accepted(request, 0).await?;
        Ok(format!("logged in as `{}`", self.login.user))
    }

    fn is_idempotent(&self) -> bool {
        true
    }

    fn is_read_by_people(&self) -> bool {
        false
    }

    /// Twice within the `ttl` where that is short.
    fn refresh_pause(&self) -> Option<Duration> {
        let half = Duration::from_secs(self.ttl_seconds.unwrap_or(TTL_SECONDS_DEFAULT) / 2);
        Some(REFRESH.min(half.max(Duration::from_secs(1))))
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

    fn contract(request: &RecordedRequest) -> ScriptedAnswer {
        let body = request.json();
        let is_login = request.header("authorization") == Some("Basic d2VpcjpodW50ZXIyMg==");
        let is_fine = request.header("accept") == Some("application/json")
            && body["type"] == "Service"
            && body["filter"] == "host.name == weir_host && service.name == weir_service"
            && body["filter_vars"]["weir_host"].is_string()
            && body["exit_status"].as_u64().is_some_and(|code| code <= 3)
            && body["plugin_output"].as_str().is_some_and(|text| !text.contains(['\n', '|']));
        match request.path.as_str() {
            _ if !is_login => ScriptedAnswer::status(401),
            "/v1" => ScriptedAnswer::json(200, &json!({"results": []})),
            "/v1/actions/process-check-result" if is_fine => ScriptedAnswer::json(
                200,
                &json!({"results": [{"code": 200.0, "status": "Successfully processed"}]}),
            ),
            _ => ScriptedAnswer::status(400),
        }
    }

    fn receiver(double: &HttpDouble) -> Box<dyn Receiver> {
        let pairs = [("url", &*double.url("")), ("user", "weir"), ("ttl_seconds", "90")];
        let mut settings = TestSettings::new(&pairs);
        settings.password = Some("hunter22");
        settings.open("icinga2").unwrap()
    }

    #[tokio::test]
    async fn states_follow_the_incident() {
        let double = HttpDouble::start(contract).await;
        let kinds = [(NoticeKind::Page, 2), (NoticeKind::Mail, 1), (NoticeKind::Resolved, 0)];
        for (kind, state) in kinds {
            receiver(&double).send(&message(kind)).await.unwrap();
            let body = double.last().json();
            assert_eq!((&body["exit_status"], &body["ttl"]), (&json!(state), &json!(90)));
            assert_eq!(
                body["filter_vars"],
                json!({"weir_host": "web3", "weir_service": "app.down"})
            );
        }
        assert_eq!(receiver(&double).probe().await.unwrap(), "logged in as `weir`");
    }

    #[tokio::test]
    async fn a_problem_counts_for_five_minutes_and_its_end_stays() {
        let double = HttpDouble::start(contract).await;
        let mut settings = TestSettings::new(&[("url", &*double.url("")), ("user", "weir")]);
        settings.password = Some("hunter22");
        let receiver = settings.open("icinga2").unwrap();
        receiver.send(&message(NoticeKind::Page)).await.unwrap();
        assert_eq!(double.last().json()["ttl"], 300);
        receiver.send(&message(NoticeKind::Resolved)).await.unwrap();
        assert_eq!(double.last().json()["ttl"], Value::Null);
        assert_eq!(receiver.refresh_pause(), Some(Duration::from_secs(60)));
        settings.pairs.push(("ttl_seconds".to_owned(), "40".to_owned()));
        let receiver = settings.open("icinga2").unwrap();
        assert_eq!(receiver.refresh_pause(), Some(Duration::from_secs(20)));
    }

    #[tokio::test]
    async fn a_result_that_no_object_took_is_a_failure() {
        let double = HttpDouble::start(contract).await;
        let cases = [
            (json!({"results": []}), RetryAdvice::Never),
            (json!({"results": [{"code": 403.0}]}), RetryAdvice::Never),
            (json!({"results": [{"code": 500.0}]}), RetryAdvice::Backoff),
        ];
        for (body, retry) in cases {
            double.next(ScriptedAnswer::json(200, &body));
            let error = receiver(&double).send(&message(NoticeKind::Page)).await.unwrap_err();
            assert_eq!(error.retry, retry, "{body}");
        }
        double.next(ScriptedAnswer::Echo { status: 403 });
        let error = receiver(&double).send(&message(NoticeKind::Page)).await.unwrap_err();
        assert!(!error.message.contains("d2VpcjpodW50"), "{error}");
    }

    #[tokio::test]
    async fn hostile_texts_keep_the_contract() {
        let double = HttpDouble::start(contract).await;
        for sample in [evil_message(), long_message()] {
            receiver(&double).send(&sample).await.unwrap();
            let output = double.last().json()["plugin_output"].to_string();
            assert!(!output.contains("http://evil"), "{output}");
        }
    }
}
