//! Client of a running weir's HTTP API, over HTTP or TLS with the system's certificate authorities.
//!
//! Blocking: commands are plain threads. A request inside an async runtime needs
//! `tokio::task::block_in_place`.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use reqwest::header::CONTENT_TYPE;
use reqwest::{RequestBuilder, Response};
use serde_json::Value;
use tokio::runtime::Runtime;
use weir_agent_core::client::HttpResponse;
use weir_agent_core::parcel_link::PARCEL_TYPE;
use weir_config::place::read_token;
use weir_process::failure::Failure;
use weir_tables::Parcel;

/// The flags that name a weir to ask.
#[derive(Args, Clone, Debug)]
pub(crate) struct WeirArgs {
    /// Where weir answers; default: `WEIR_URL` of the environment, else http://127.0.0.1:4770.
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,
    /// A file whose first line is the login.
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl WeirArgs {
    /// Whether one was named, here or in the environment.
    pub(crate) fn is_named(&self) -> bool {
        self.url.is_some() || std::env::var_os("WEIR_URL").is_some()
    }

    /// A client for it.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        Client::of(self.url.as_deref(), self.token_file.as_deref())
    }
}

/// Bodies larger than this are not read.
const MAX_ANSWER_BYTES: usize = 1 << 30;
/// Connections that wait for the next request.
const IDLE: usize = 2;
/// A connection that waits for longer is not used again: nothing polls it between requests, so it
/// does not notice that weir has closed it.
const IDLE_TIME: Duration = Duration::from_secs(1);

/// One weir to ask.
pub(crate) struct Client {
    http: reqwest::Client,
    /// `None` only while the client is dropped.
    runtime: Option<Runtime>,
    base: String,
    login: Option<String>,
}

impl Client {
    /// A client for the weir at `url`, such as `http://127.0.0.1:4770` or `https://weir.example`.
    pub(crate) fn new(url: &str, token: Option<&str>, timeout: Duration) -> Result<Self, Failure> {
        let url = url.trim_end_matches('/');
        let base = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let is_tls = base.starts_with("https://");
        if !is_tls && !base.starts_with("http://") {
            return Err(Failure::new(format!(
                "cannot ask `{url}`: only http:// and https:// are spoken"
            ))
            .hint("write it as http://127.0.0.1:4770 or https://weir.example"));
        }
        let http = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(5))
            .timeout(timeout)
            .pool_max_idle_per_host(IDLE)
            .pool_idle_timeout(IDLE_TIME)
            .no_proxy()
            // The system's authorities are read only for TLS: that takes milliseconds.
            .tls_built_in_root_certs(is_tls)
            .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| unusable(&base, &RequestError::new(&error)))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| unusable(&base, &error))?;
        let login = token.map(|token| format!("Bearer {token}"));
        Ok(Self { http, runtime: Some(runtime), base, login })
    }

    /// A client for the weir that a command's flags name, see [`WeirArgs`].
    pub(crate) fn of(url: Option<&str>, token_file: Option<&Path>) -> Result<Self, Failure> {
        let url = url.map(str::to_owned).or_else(|| std::env::var("WEIR_URL").ok());
        let url = url.unwrap_or_else(|| "http://127.0.0.1:4770".to_owned());
        let token = token_file.map(read_token).transpose()?;
        Self::new(&url, token.as_deref(), Duration::from_secs(300))
    }

    /// GETs JSON.
    pub(crate) fn get_json(&self, path: &str, timeout: Duration) -> Result<Value, Failure> {
        let request = self.http.get(format!("{}{path}", self.base)).timeout(timeout);
        self.send(request).map_err(|error| unreachable_weir(self, &error))?.json()
    }

    /// POSTs JSON, and reads JSON.
    pub(crate) fn post_json(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let answer = self.post(path, body.to_string().as_bytes());
        answer.map_err(|error| unreachable_weir(self, &error))?.json()
    }

    /// The address of the weir.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// POSTs JSON; an error when no whole answer came.
    pub(crate) fn post(&self, path: &str, body: &[u8]) -> Result<HttpResponse, RequestError> {
        let request = self.http.post(format!("{}{path}", self.base));
        self.send(request.header(CONTENT_TYPE, "application/json").body(body.to_vec()))
    }

    /// Sends rows; an error when no whole answer came.
    pub(crate) fn post_parcel(&self, parcel: &Parcel) -> Result<HttpResponse, RequestError> {
        let request = self.http.post(format!("{}/api/link/parcel", self.base));
        self.send(request.header(CONTENT_TYPE, PARCEL_TYPE).body(parcel.encode(true)))
    }

    /// POSTs JSON; the caller reads the body of the response as it arrives.
    pub(crate) fn open_json(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<OpenResponse<'_>, RequestError> {
        let request = self.http.post(format!("{}{path}", self.base));
        self.open(request.header(CONTENT_TYPE, "application/json").body(body.to_string()))
    }

    fn send(&self, request: RequestBuilder) -> Result<HttpResponse, RequestError> {
        self.open(request)?.whole()
    }

    fn open(&self, mut request: RequestBuilder) -> Result<OpenResponse<'_>, RequestError> {
        if let Some(login) = &self.login {
            request = request.header("authorization", login);
        }
        let runtime = self.runtime.as_ref().expect("the runtime is taken only on drop");
        // `send` itself needs the runtime, so it is called inside.
        let response = runtime.block_on(async { request.send().await });
        let response = response.map_err(|error| RequestError::new(&error))?;
        Ok(OpenResponse { runtime, response })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // A runtime that is dropped inside of another one panics.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A response whose body is read as it arrives.
pub(crate) struct OpenResponse<'a> {
    runtime: &'a Runtime,
    response: Response,
}

impl OpenResponse<'_> {
    /// The HTTP status.
    pub(crate) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// The next part of the body; `None` at its end, an error when the connection ends before it.
    pub(crate) fn next_part(&mut self) -> Result<Option<impl AsRef<[u8]>>, RequestError> {
        let part = self.runtime.block_on(async { self.response.chunk().await });
        part.map_err(|error| RequestError::new(&error))
    }

    /// Reads the whole body, such as that of a refusal.
    pub(crate) fn whole(mut self) -> Result<HttpResponse, RequestError> {
        let (status, mut body) = (self.status(), Vec::new());
        while let Some(part) = self.next_part()? {
            if body.len() + part.as_ref().len() > MAX_ANSWER_BYTES {
                return Err(RequestError::too_large());
            }
            body.extend_from_slice(part.as_ref());
        }
        Ok(HttpResponse { status, body })
    }
}

fn unusable(base: &str, why: &dyn Display) -> Failure {
    Failure::new(format!("cannot ask weir at `{base}`: {why}"))
}

/// Why no whole answer came.
#[derive(Debug)]
pub(crate) struct RequestError {
    reason: String,
    is_refused: bool,
    is_timeout: bool,
}

impl RequestError {
    /// The reason is the innermost error: the outer ones say only that a request failed.
    fn new(error: &reqwest::Error) -> Self {
        let outer: &(dyn Error + 'static) = error;
        let causes: Vec<_> =
            std::iter::successors(Some(outer), |cause| (*cause).source()).collect();
        let is_refused = causes.iter().any(|cause| {
            let cause = cause.downcast_ref::<std::io::Error>();
            cause.is_some_and(|cause| cause.kind() == ErrorKind::ConnectionRefused)
        });
        let is_timeout = error.is_timeout();
        let reason = match causes.last() {
            _ if is_timeout => "no answer in time".to_owned(),
            cause => cause.map(ToString::to_string).unwrap_or_default(),
        };
        Self { reason, is_refused, is_timeout }
    }

    /// Whether nothing listens there.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused
    }

    fn too_large() -> Self {
        let reason = format!("the answer is larger than {MAX_ANSWER_BYTES} bytes");
        Self { reason, is_refused: false, is_timeout: false }
    }
}

impl Display for RequestError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// Why no answer came.
pub(crate) fn unreachable_weir(client: &Client, error: &RequestError) -> Failure {
    let failure = unusable(client.base(), error);
    if error.is_refused {
        failure.hint("nothing listens there; start it with `weir up`, or name another with --url")
    } else if error.is_timeout {
        failure.hint("is the address right, and may this host reach it?")
    } else {
        failure
    }
}
