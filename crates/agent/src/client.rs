//! Sending to a weir over HTTP, for agents. Blocking, and without TLS, which `link` brings.
//!
//! The commands use reqwest. That would add 34 packages to `weir-agent`, which is to stay small.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::runtime::Runtime;
use weir_process::failure::Failure;

/// One weir to send to.
pub(crate) struct Client {
    http: legacy::Client<HttpConnector, Full<Bytes>>,
    /// Drives the connections while a request blocks its caller. `None` only while it is dropped.
    runtime: Option<Runtime>,
    base: String,
    login: Option<HeaderValue>,
    timeout: Duration,
}

/// What came back.
pub struct HttpResponse {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// Bodies larger than this are not read.
const MAX_ANSWER_BYTES: usize = 1 << 30;
/// Connections that wait for the next request.
const IDLE: usize = 2;
/// A hub on this machine that does not accept in this time is down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

impl Client {
    /// A client for the weir at `url`, such as `http://127.0.0.1:4770`.
    pub(crate) fn new(url: &str, token: Option<&str>, timeout: Duration) -> Result<Self, Failure> {
        let url = url.trim_end_matches('/');
        let base = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        if !base.starts_with("http://") {
            return Err(Failure::new(format!("cannot ask `{url}`: only http:// is spoken"))
                .hint("write it as http://127.0.0.1:4770"));
        }
        let login = token.map(|token| HeaderValue::from_str(&format!("Bearer {token}")));
        let login = login.transpose().map_err(|_| {
            Failure::new("cannot send the login: a header may not have its characters")
                .hint("copy the file with the hub's login again; it is one line of printable ASCII")
        })?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::new(format!("cannot start the HTTP client: {error}")))?;
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_nodelay(true);
        let http = legacy::Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(IDLE)
            .build(connector);
        Ok(Self { http, runtime: Some(runtime), base, login, timeout })
    }

    /// POSTs a body; an error when no whole answer came.
    pub(crate) fn post(
        &self,
        path: &str,
        content_type: &'static str,
        body: Vec<u8>,
    ) -> Result<HttpResponse, String> {
        let mut request = Request::post(format!("{}{path}", self.base))
            .header(CONTENT_TYPE, content_type)
            .header(USER_AGENT, concat!("weir/", env!("CARGO_PKG_VERSION")));
        if let Some(login) = &self.login {
            request = request.header(AUTHORIZATION, login);
        }
        let request = request.body(Full::from(body)).map_err(|error| root_cause(&error))?;
        let Some(runtime) = &self.runtime else { return Err("the client has ended".into()) };
        runtime.block_on(async {
            match tokio::time::timeout(self.timeout, self.exchange(request)).await {
                Ok(answer) => answer,
                Err(_) => Err(format!("no answer in {} s", self.timeout.as_secs())),
            }
        })
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<HttpResponse, String> {
        let response = self.http.request(request).await.map_err(|error| root_cause(&error))?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| root_cause(&*error))?.to_bytes().into();
        Ok(HttpResponse { status, body })
    }
}

impl Drop for Client {
    /// Shuts down in the background: dropping a runtime inside another one panics.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The message of the root cause; outer errors only say "client error".
fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
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

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Answers two requests on one connection with their own bodies.
    fn echo_twice(listener: &TcpListener) -> Vec<String> {
        let (stream, _) = listener.accept().expect("a client connects");
        let mut reader = BufReader::new(stream);
        let mut heads = Vec::new();
        for _ in 0..2 {
            let (mut head, mut line) = (String::new(), String::new());
            while reader.read_line(&mut line).expect("a head") > 2 {
                head.push_str(&line.to_lowercase());
                line.clear();
            }
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
            let length: usize = length.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            let answer = format!("HTTP/1.1 409 Conflict\r\ncontent-length: {length}\r\n\r\n");
            let stream = reader.get_mut();
            stream.write_all(answer.as_bytes()).expect("the head is sent");
            stream.write_all(&body).expect("the body is sent");
            heads.push(head);
        }
        heads
    }

    #[test]
    fn requests_share_a_connection_and_answers_come_whole() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        let hub = std::thread::spawn(move || echo_twice(&listener));
        let client = Client::new(&url, Some("0123456789abcdef"), PATIENCE).expect("a client");
        for body in [vec![7; 300_000], Vec::new()] {
            let answer = client.post("/api/x", "text/plain", body.clone()).expect("an answer");
            assert_eq!((answer.status, answer.body), (409, body));
        }
        for head in hub.join().expect("the hub answers") {
            assert!(head.starts_with("post /api/x http/1.1"), "{head}");
            assert!(head.contains("authorization: bearer 0123456789abcdef"), "{head}");
            assert!(head.contains("content-type: text/plain"), "{head}");
        }
    }

    #[test]
    fn what_failed_is_told_by_its_cause_and_a_runtime_may_drop_the_client() {
        let client = Client::new("127.0.0.1:1", None, PATIENCE).expect("a client");
        let error = client.post("/", "text/plain", Vec::new()).err().expect("a refused connection");
        assert!(error.contains("Connection refused"), "{error}");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async move { drop(client) });
        assert!(Client::new("https://hub", None, PATIENCE).is_err());
    }
}
