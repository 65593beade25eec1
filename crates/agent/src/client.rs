//! Asking a weir over HTTP: for `weir query` and for agents. Blocking, without TLS (`link` brings
//! that).

use std::io::{ErrorKind, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use weir_config::place::read_token;
use weir_process::failure::Failure;

/// The flags that name a weir to ask.
#[derive(Args, Clone, Debug)]
pub struct WeirArgs {
    /// Where weir answers; default: `WEIR_URL` of the environment, else http://127.0.0.1:4770.
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,
    /// A file whose first line is the login.
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl WeirArgs {
    /// Whether one was named, here or in the environment.
    pub fn is_named(&self) -> bool {
        self.url.is_some() || std::env::var_os("WEIR_URL").is_some()
    }

    /// A client for it.
    pub fn client(&self) -> Result<Client, Failure> {
        Client::of(self.url.as_deref(), self.token_file.as_deref())
    }
}

/// One weir to ask.
pub struct Client {
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

/// A response whose body is read as it arrives.
pub struct OpenResponse {
    /// The HTTP status.
    pub status: u16,
    /// The body; reading fails if the connection ends before it.
    pub body: ureq::BodyReader<'static>,
}

/// Bodies larger than this are not read.
const MAX_ANSWER_BYTES: u64 = 1 << 30;
/// Connections that wait for the next request.
const IDLE: usize = 2;

impl Client {
    /// A client for the weir at `url`, such as `http://127.0.0.1:4770`.
    pub fn new(url: &str, token: Option<&str>, timeout: Duration) -> Result<Self, Failure> {
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

    /// A client for the weir that a command's flags name, see [`WeirArgs`].
    pub fn of(url: Option<&str>, token_file: Option<&Path>) -> Result<Self, Failure> {
        let url = url.map(str::to_owned).or_else(|| std::env::var("WEIR_URL").ok());
        let url = url.unwrap_or_else(|| "http://127.0.0.1:4770".to_owned());
        let token = token_file.map(read_token).transpose()?;
        Self::new(&url, token.as_deref(), Duration::from_secs(300))
    }

    /// GETs JSON.
    pub fn get_json(&self, path: &str, timeout: Duration) -> Result<Value, Failure> {
        let request = self.agent.get(format!("{}{path}", self.base));
        let mut request = request.config().timeout_global(Some(timeout)).build();
        if let Some(login) = &self.login {
            request = request.header("authorization", login);
        }
        let answer = request.call().and_then(|mut response: ureq::http::Response<ureq::Body>| {
            let body = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec()?;
            Ok(HttpResponse { status: response.status().as_u16(), body })
        });
        answer.map_err(|error| unreachable_weir(self, &error))?.json()
    }

    /// POSTs JSON, and reads JSON.
    pub fn post_json(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let answer = self.post(path, "application/json", body.to_string().as_bytes());
        answer.map_err(|error| unreachable_weir(self, &error))?.json()
    }

    /// The address of the weir.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// POSTs a body; an error when no whole answer came.
    pub fn post(
        &self,
        path: &str,
        content_type: &str,
        body: &[u8],
    ) -> Result<HttpResponse, ureq::Error> {
        let mut response = self.send(path, content_type, body)?;
        let body = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec()?;
        Ok(HttpResponse { status: response.status().as_u16(), body })
    }

    /// POSTs JSON; the caller reads the body of the response as it arrives.
    pub fn open_json(&self, path: &str, body: &Value) -> Result<OpenResponse, ureq::Error> {
        let response = self.send(path, "application/json", body.to_string().as_bytes())?;
        let status = response.status().as_u16();
        Ok(OpenResponse { status, body: response.into_body().into_reader() })
    }

    fn send(
        &self,
        path: &str,
        content_type: &str,
        body: &[u8],
    ) -> Result<ureq::http::Response<ureq::Body>, ureq::Error> {
        let mut request =
            self.agent.post(format!("{}{path}", self.base)).header("content-type", content_type);
        if let Some(login) = &self.login {
            request = request.header("authorization", login);
        }
        request.send(body)
    }
}

impl OpenResponse {
    /// Reads the whole body, such as that of a refusal.
    ///
    /// # Errors
    /// The connection ended before it.
    pub fn whole(self) -> std::io::Result<HttpResponse> {
        let mut body = Vec::new();
        self.body.take(MAX_ANSWER_BYTES).read_to_end(&mut body)?;
        Ok(HttpResponse { status: self.status, body })
    }
}

impl HttpResponse {
    /// The body of a good answer.
    fn json(&self) -> Result<Value, Failure> {
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

/// Why no answer came.
pub fn unreachable_weir(client: &Client, error: &ureq::Error) -> Failure {
    let failure = Failure::new(format!("cannot ask weir at `{}`: {error}", client.base()));
    match error {
        ureq::Error::Io(error) if error.kind() == ErrorKind::ConnectionRefused => failure
            .hint("nothing listens there; start it with `weir up`, or name another with --url"),
        ureq::Error::Timeout(_) => {
            failure.hint("is the address right, and may this host reach it?")
        }
        _ => failure,
    }
}

/// Whether an address can be reached from this machine only.
pub fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}
