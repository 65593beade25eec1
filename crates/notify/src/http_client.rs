//! An HTTP client for one address: certificate authority, timeouts, and errors without secrets.
//!
//! A status alone decides whether to try again (RFC 9110, RFC 6585): 408, 425, 429 and 5xx later,
//! any other failure never. A redirect is not followed, because the login would go along.

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, LOCATION, RETRY_AFTER};
use reqwest::{Certificate, Client, Method, RequestBuilder, Url, redirect};
use serde_json::Value;

use crate::receiver::{RetryAdvice, SendError};
use crate::settings::{ReceiverSettings, SettingError, below, wrong};

const CONNECT_WAIT: Duration = Duration::from_secs(5);
const REQUEST_WAIT: Duration = Duration::from_secs(10);
/// The status has arrived by then, so a slow body must not use up the rest of the time.
const BODY_WAIT: Duration = Duration::from_secs(2);
/// Longest response body that is kept.
const BODY_BYTES_MAX: usize = 64 << 10;
/// Longest list that is kept.
const LARGE_BODY_BYTES_MAX: usize = 4 << 20;
/// Longest text of an answer in an error or a table.
const ANSWER_CHARS_MAX: usize = 300;
/// A receiver that demands a longer pause is tried after this one.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);
/// Shorter secrets are not searched in answers: they would blacken ordinary words.
const SECRET_BYTES_MIN: usize = 4;

/// A response's status, headers and at most 64 KiB of its body.
#[derive(Debug)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// Secrets that the request carried and the answer may repeat.
    sent_secrets: Vec<String>,
}

/// A client for one receiver.
pub(crate) struct HttpClient {
    client: Client,
    /// Host and port, for errors.
    pub(crate) host: String,
    /// Texts that are blackened in answers.
    secrets: Vec<String>,
}

impl std::fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpClient").field("host", &self.host).finish_non_exhaustive()
    }
}

impl HttpClient {
    /// # Errors
    /// When `ca_file` is not PEM, or the system's authorities cannot be read.
    pub(crate) fn new(settings: &ReceiverSettings<'_>, url: &Url) -> Result<Self, SettingError> {
        let mut builder = Client::builder()
            .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_WAIT)
            .timeout(REQUEST_WAIT);
        if let Some(pem) = settings.authority()? {
            let hint = "write PEM: -----BEGIN CERTIFICATE-----";
            let certificates = Certificate::from_pem_bundle(pem)
                .map_err(|error| wrong("ca_file", error.to_string(), hint))?;
            builder = certificates
                .into_iter()
                .fold(builder, |builder, one| builder.add_root_certificate(one));
        }
        let client = builder.build().map_err(|error| {
            let message = format!("cannot set up the HTTP client: {}", causes(&error));
            wrong("ca_file", message, "check the certificates of the system")
        })?;
        let host = url.host_str().unwrap_or_default();
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        Ok(Self { client, host, secrets: secrets(settings, url) })
    }

    /// A request to `url`.
    pub(crate) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.client.request(method, url)
    }

    /// A `POST` of JSON.
    pub(crate) fn post_json(&self, url: Url, body: &Value) -> RequestBuilder {
        let request = self.request(Method::POST, url);
        request.header("content-type", "application/json").body(body.to_string())
    }

    /// Sends a request and reads the answer, whatever its status is.
    ///
    /// # Errors
    /// When there is no answer: try again.
    pub(crate) async fn exchange(&self, request: RequestBuilder) -> Result<HttpAnswer, SendError> {
        self.exchange_up_to(BODY_BYTES_MAX, request).await
    }

    /// As [`exchange`](Self::exchange), with a body of at most 4 MiB: a list of what happened.
    ///
    /// # Errors
    /// When there is no answer: try again.
    pub(crate) async fn exchange_large(
        &self,
        request: RequestBuilder,
    ) -> Result<HttpAnswer, SendError> {
        self.exchange_up_to(LARGE_BODY_BYTES_MAX, request).await
    }

    async fn exchange_up_to(
        &self,
        body_bytes: usize,
        request: RequestBuilder,
    ) -> Result<HttpAnswer, SendError> {
        let request = request.build().map_err(|error| self.unanswered(error))?;
        let login = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let login = login.and_then(|value| value.split_whitespace().last()).map(str::to_owned);
        let response =
            self.client.execute(request).await.map_err(|error| self.unanswered(error))?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = read_body(response, body_bytes).await;
        Ok(HttpAnswer { status, headers, body, sent_secrets: login.into_iter().collect() })
    }

    /// Opens a stream: a response of which the status is read, and the body is not.
    ///
    /// # Errors
    /// When there is no answer or another status than success.
    pub(crate) async fn open(
        &self,
        request: RequestBuilder,
        now_us: i64,
    ) -> Result<reqwest::Response, SendError> {
        let response = request.send().await.map_err(|error| self.unanswered(error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = read_body(response, BODY_BYTES_MAX).await;
        let answer = HttpAnswer { status, headers, body, sent_secrets: Vec::new() };
        Err(self.refusal(&answer, now_us))
    }

    /// Sends a request; a status from 200 to 299 means that the receiver took it.
    ///
    /// # Errors
    /// When there is no answer or another status.
    pub(crate) async fn accepted(
        &self,
        request: RequestBuilder,
        now_us: i64,
    ) -> Result<HttpAnswer, SendError> {
        let answer = self.exchange(request).await?;
        if answer.is_success() { Ok(answer) } else { Err(self.refusal(&answer, now_us)) }
    }

    /// The error for an answer whose status is no success.
    pub(crate) fn refusal(&self, answer: &HttpAnswer, now_us: i64) -> SendError {
        let retry = match answer.status {
            // A gateway that lost the server's answer; 520 and 524 are Cloudflare's.
            502 | 504 | 520 | 524 => RetryAdvice::Unclear,
            408 | 425 | 429 | 500..=599 => {
                answer.retry_after(now_us).map_or(RetryAdvice::Backoff, RetryAdvice::After)
            }
            _ => RetryAdvice::Never,
        };
        let hint = match answer.status {
            300..=399 => "; redirects are not followed: set `url` to the new address",
            401 | 403 => "; check the login and what it may do",
            404 | 405 | 410 => "; check the path of `url`",
            _ => "",
        };
        let text = self.said(answer);
        SendError { message: format!("cannot send to `{}`: {text}{hint}", self.host), retry }
    }

    /// The error for an answer that is a success by its status alone.
    pub(crate) fn unusable(&self, answer: &HttpAnswer, retry: RetryAdvice) -> SendError {
        let text = self.said(answer);
        SendError { message: format!("cannot send to `{}`: {text}", self.host), retry }
    }

    /// Status and start of the body, without secrets, as errors and tables show it.
    pub(crate) fn said(&self, answer: &HttpAnswer) -> String {
        let start = &answer.body[..answer.body.len().min(4 * ANSWER_CHARS_MAX)];
        let mut text = String::from_utf8_lossy(start).into_owned();
        if answer.status < 400
            && let Some(location) = answer.headers.get(LOCATION).and_then(|it| it.to_str().ok())
        {
            text = format!("location {location} {text}");
        }
        for secret in self.secrets.iter().chain(&answer.sent_secrets) {
            text = text.replace(secret.as_str(), "…");
        }
        shortened(&format!("{} {text}", answer.status))
    }

    /// The URL is left out, because it can hold a token.
    fn unanswered(&self, error: reqwest::Error) -> SendError {
        let is_unsent = error.is_connect() || error.is_builder();
        let retry = if is_unsent { RetryAdvice::Backoff } else { RetryAdvice::Unclear };
        let mut text = causes(&error.without_url());
        for secret in &self.secrets {
            text = text.replace(secret.as_str(), "…");
        }
        let message = format!("cannot send to `{}`: {}", self.host, shortened(&text));
        SendError { message, retry }
    }
}

impl HttpAnswer {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body as JSON; null when it is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// What to do after a success by status whose body is no success: an empty or incomplete
    /// body may belong to a message that arrived.
    pub(crate) fn unusable_advice(&self) -> RetryAdvice {
        let body = self.body.trim_ascii();
        let is_cut = body.starts_with(b"{") && serde_json::from_slice::<Value>(body).is_err();
        if body.is_empty() || is_cut { RetryAdvice::Unclear } else { RetryAdvice::Backoff }
    }

    /// The header `Retry-After`: seconds, or an HTTP date against the time of sending. Some services
    /// send parts of a second.
    fn retry_after(&self, now_us: i64) -> Option<Duration> {
        let text = self.headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
        let seconds = text.parse().ok().or_else(|| {
            let seconds = text.parse::<f64>().ok().filter(|seconds| seconds.is_sign_positive())?;
            Duration::try_from_secs_f64(seconds.ceil()).ok().map(|pause| pause.as_secs())
        });
        let seconds = seconds.or_else(|| {
            let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp().as_microsecond();
            u64::try_from(date.saturating_sub(now_us))
                .ok()
                .map(|pause_us| pause_us.div_ceil(1_000_000))
        });
        seconds.map(bounded_pause)
    }
}

/// A pause that a receiver demands, within what makes sense.
pub(crate) fn bounded_pause(seconds: u64) -> Duration {
    Duration::from_secs(seconds).min(RETRY_AFTER_MAX)
}

/// The start of a body; what is missing at the end of the wait is left out.
async fn read_body(mut response: reqwest::Response, bytes_max: usize) -> Vec<u8> {
    let mut body = Vec::new();
    let reading = async {
        while let Ok(Some(part)) = response.chunk().await {
            body.extend_from_slice(&part[..part.len().min(bytes_max - body.len())]);
            if body.len() == bytes_max {
                break;
            }
        }
    };
    // A status without its body still decides, so the end of the wait is no error.
    let _late = tokio::time::timeout(BODY_WAIT, reading).await;
    body
}

/// Texts that no error may show: secrets in every encoding that a server may repeat, the query of
/// the address, and all of an address that is a secret.
fn secrets(settings: &ReceiverSettings<'_>, url: &Url) -> Vec<String> {
    let plain = [&settings.token, &settings.password, &settings.secret].into_iter().flatten();
    let mut secrets: Vec<String> = plain.flat_map(|secret| encodings(secret.trim())).collect();
    secrets.extend(url.query().map(str::to_owned));
    if settings.secret_url.is_some() {
        secrets.push(url.as_str().to_owned());
        let parts = url.path_segments().into_iter().flatten();
        // Short parts are words as `api`, or numbers.
        secrets.extend(parts.filter(|part| part.len() >= 8).map(str::to_owned));
    }
    secrets.retain(|text| text.len() >= SECRET_BYTES_MIN);
    secrets.sort_by_key(|text| std::cmp::Reverse(text.len()));
    secrets
}

/// A secret as it is, in JSON, in a query and in a path.
fn encodings(secret: &str) -> Vec<String> {
    let json = Value::from(secret).to_string();
    let mut forms = vec![secret.to_owned(), json.trim_matches('"').to_owned()];
    if let Ok(mut url) = Url::parse("http://host/") {
        url.query_pairs_mut().append_pair("", secret);
        forms.extend(url.query().and_then(|query| query.strip_prefix('=')).map(str::to_owned));
        let path = below(&url, &[secret]);
        forms.push(path.path().trim_start_matches('/').to_owned());
    }
    forms
}

/// An error with its causes in one line; each text once.
pub(crate) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

/// An answer with single spaces, without control characters, of at most 300 characters.
pub fn shortened(answer: &str) -> String {
    let plain: String = answer
        .chars()
        .filter(|letter| !crate::forms::is_invisible(*letter))
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect();
    let words: Vec<&str> = plain.split_whitespace().collect();
    words.join(" ").chars().take(ANSWER_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::thread;

    use reqwest::header::HeaderValue;
    use rustls::{ServerConfig, ServerConnection, StreamOwned};
    use weir_actions::NoticeKind;

    use super::*;
    use crate::receiver::Receiver;
    use crate::testing::TestSettings;
    use crate::testing::samples::message;
    use crate::testing::smtp::certificate;

    fn answer(retry_after: &'static str) -> HttpAnswer {
        let headers = [(RETRY_AFTER, HeaderValue::from_static(retry_after))].into_iter().collect();
        HttpAnswer { status: 429, headers, body: Vec::new(), sent_secrets: Vec::new() }
    }

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date() {
        let now_us = 784_111_777_000_000; // Sun, 06 Nov 1994 08:49:37 GMT
        assert_eq!(answer("120").retry_after(now_us), Some(Duration::from_secs(120)));
        assert_eq!(
            answer("Sun, 06 Nov 1994 08:50:37 GMT").retry_after(now_us),
            Some(Duration::from_secs(60))
        );
        assert_eq!(
            answer("Sun, 06 Nov 1994 08:49:00 GMT").retry_after(now_us),
            None,
            "a date in the past"
        );
        assert_eq!(answer("99999999999").retry_after(now_us), Some(RETRY_AFTER_MAX));
        // SpaceTradersAPI/api-docs#24, opensearch-project/data-prepper#6928.
        assert_eq!(answer("0.493").retry_after(now_us), Some(Duration::from_secs(1)));
        assert_eq!(answer("299.997").retry_after(now_us), Some(Duration::from_secs(300)));
        for text in ["soon", "nan", "inf", "-0.5", "1e400"] {
            assert_eq!(answer(text).retry_after(now_us), None, "{text}");
        }
        assert_eq!(answer("-5").retry_after(now_us), None);
    }

    #[test]
    fn answers_are_one_short_line_without_control_characters() {
        assert_eq!(shortened("250 2.0.0\r\n Ok:\tqueued\u{1b}[31m"), "250 2.0.0 Ok: queued [31m");
        assert_eq!(shortened("a\u{202e}b"), "ab");
        assert_eq!(shortened(&"é".repeat(1000)).chars().count(), ANSWER_CHARS_MAX);
    }

    /// Serves each connection with one response in a thread, over TLS if there is a configuration.
    fn serve(response: Vec<u8>, tls: Option<Arc<ServerConfig>>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (response, tls) = (response.clone(), tls.clone());
                thread::spawn(move || match tls {
                    Some(config) => {
                        let server = ServerConnection::new(config).unwrap();
                        answer_once(&mut StreamOwned::new(server, stream), &response)
                    }
                    None => answer_once(&mut &stream, &response),
                });
            }
        });
        address.to_string()
    }

    /// Reads the head, writes the response and keeps the connection until the client leaves.
    fn answer_once<S: Read + Write>(stream: &mut S, response: &[u8]) -> std::io::Result<()> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        stream.write_all(response)?;
        stream.flush()?;
        while stream.read(&mut [0; 1024])? > 0 {}
        Ok(())
    }

    fn webhook(url: &str, authority: Option<Vec<u8>>) -> Box<dyn Receiver> {
        TestSettings { authority, ..TestSettings::new(&[("url", url)]) }.open("webhook").unwrap()
    }

    #[tokio::test]
    async fn only_a_certificate_of_ca_file_is_trusted() {
        let (tls, authority) = certificate();
        let response = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_vec();
        let url = format!("https://{}/", serve(response, Some(tls)));
        let sample = message(NoticeKind::Page);
        let error = webhook(&url, None).send(&sample).await.unwrap_err();
        assert_eq!(error.retry, RetryAdvice::Backoff);
        assert!(error.message.contains("certificate"), "{error}");
        assert_eq!(webhook(&url, Some(authority)).send(&sample).await.unwrap().answer, "200");
        let none = Some(b"no PEM".to_vec());
        let broken = TestSettings { authority: none, ..TestSettings::new(&[("url", &url)]) };
        let error = broken.open("webhook").unwrap_err();
        assert!(error.to_string().contains("the file has no certificate"), "{error}");
    }

    #[tokio::test]
    async fn a_body_that_never_ends_delays_but_does_not_undo_a_success() {
        let endless = b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\nqueued".to_vec();
        let url = format!("http://{}/", serve(endless, None));
        let accepted = webhook(&url, None).send(&message(NoticeKind::Page)).await.unwrap();
        assert_eq!(accepted.answer, "200 queued");
    }

    #[tokio::test]
    async fn a_long_body_is_read_to_its_limit() {
        let mut long = b"HTTP/1.1 503 X\r\ncontent-length: 9999999\r\n\r\n".to_vec();
        long.resize(200_000, b'x');
        let url = Url::parse(&format!("http://{}/", serve(long, None))).unwrap();
        let given = TestSettings::new(&[]);
        let client = HttpClient::new(&given.settings(), &url).unwrap();
        let answer = client.exchange(client.request(Method::GET, url)).await.unwrap();
        assert_eq!((answer.status, answer.body.len()), (503, BODY_BYTES_MAX));
        assert_eq!(client.said(&answer).chars().count(), ANSWER_CHARS_MAX);
    }

    #[test]
    fn secrets_are_blackened_in_every_encoding() {
        let found = encodings("a\"b/c+d%");
        for form in ["a\"b/c+d%", "a\\\"b/c+d%", "a%22b%2Fc%2Bd%25", "a%22b%2Fc+d%25"] {
            assert!(found.iter().any(|text| text == form), "{form} in {found:?}");
        }
    }
}
