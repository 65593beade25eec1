//! Sending to a weir over HTTP, for agents. Blocking, and without TLS, which `link` brings.
//!
//! The commands use reqwest. That would add 34 packages to `weir-agent`, which is to stay small.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use weir_process::failure::Failure;

/// One weir to send to.
pub(crate) struct Client {
    agent: ureq::Agent,
    base: String,
    login: Option<String>,
}

/// What came back.
pub struct HttpResponse {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// Bodies larger than this are not read.
const MAX_ANSWER_BYTES: u64 = 1 << 30;
/// Connections that wait for the next request.
const IDLE: usize = 2;

impl Client {
    /// A client for the weir at `url`, such as `http://127.0.0.1:4770`.
    pub(crate) fn new(url: &str, token: Option<&str>, timeout: Duration) -> Result<Self, Failure> {
        let url = url.trim_end_matches('/');
        let base = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        if !base.starts_with("http://") {
            return Err(Failure::new(format!("cannot ask `{url}`: only http:// is spoken"))
                .hint("write it as http://127.0.0.1:4770"));
        }
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(Duration::from_secs(5)))
            .timeout_global(Some(timeout))
            .max_idle_connections(IDLE)
            .proxy(None)
            .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
            .build();
        let login = token.map(|token| format!("Bearer {token}"));
        Ok(Self { agent: config.into(), base, login })
    }

    /// POSTs a body; an error when no whole answer came.
    pub(crate) fn post(
        &self,
        path: &str,
        content_type: &str,
        body: &[u8],
    ) -> Result<HttpResponse, ureq::Error> {
        let mut request =
            self.agent.post(format!("{}{path}", self.base)).header("content-type", content_type);
        if let Some(login) = &self.login {
            request = request.header("authorization", login);
        }
        let mut response = request.send(body)?;
        let body = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec()?;
        Ok(HttpResponse { status: response.status().as_u16(), body })
    }
}

impl HttpResponse {
    /// The body of a good answer.
    pub fn json(&self) -> Result<Value, Failure> {
        if self.status != 200 {
            return Err(self.failure());
        }
        serde_json::from_slice(&self.body).map_err(|error| {
            Failure::new(format!("cannot read the answer: {error}")).hint("is it a weir?")
        })
    }

    /// The error and hint of a refusal, for a person.
    pub fn failure(&self) -> Failure {
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
        let message = text("error")
            .unwrap_or_else(|| format!("cannot ask weir: it answered {}", self.status));
        let hint = match self.status {
            401 => Some("name the login: --token-file FILE, or `agent.token_file`".to_owned()),
            _ => text("hint"),
        };
        Failure::new(message).hint(hint.unwrap_or_default())
    }
}

/// Whether an address can be reached from this machine only.
pub fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}
