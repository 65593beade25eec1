//! An HTTP client for one address: login, authority, time limit, and errors in one line without secrets.

use std::error::Error;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Certificate, Client, redirect};

/// Answers are read up to this many bytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// How a server knows who sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// Not at all.
    None,
    /// HTTP Basic.
    Basic {
        /// The name.
        user: String,
        /// The password.
        password: String,
    },
    /// `Authorization: SCHEME TOKEN`.
    Token {
        /// `Bearer` or `ApiKey`.
        scheme: &'static str,
        /// The token.
        token: String,
    },
}

/// Where to, and as whom.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// `http://…` or `https://…`, without a slash at the end.
    pub url: String,
    /// The login.
    pub auth: Auth,
    /// An authority (PEM) beside those of the system.
    pub authority: Option<Vec<u8>>,
    /// A request that takes longer has failed.
    pub timeout: Duration,
}

/// The client.
#[derive(Debug)]
pub(crate) struct HttpClient {
    client: Client,
    endpoint: Endpoint,
}

impl HttpClient {
    /// # Errors
    /// What is wrong with the endpoint: the authority is no PEM, the token no header's value.
    pub(crate) fn new(endpoint: Endpoint) -> Result<Self, String> {
        let mut headers = HeaderMap::new();
        if let Auth::Token { scheme, token } = &endpoint.auth {
            let mut value = HeaderValue::from_str(&format!("{scheme} {token}"))
                .map_err(|_| "the token has characters that no header can hold".to_owned())?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let mut builder = Client::builder()
            .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .redirect(redirect::Policy::none())
            .connect_timeout(endpoint.timeout.min(Duration::from_secs(5)))
            .timeout(endpoint.timeout);
        if let Some(pem) = &endpoint.authority {
            let certificates =
                Certificate::from_pem_bundle(pem).map_err(|error| describe(&error))?;
            builder = certificates
                .into_iter()
                .fold(builder, |builder, one| builder.add_root_certificate(one));
        }
        let client = builder.build().map_err(|error| describe(&error))?;
        Ok(Self { client, endpoint })
    }

    /// `POST path`; status and body of the answer.
    ///
    /// # Errors
    /// No answer: why, in one line.
    pub(crate) async fn post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<(u16, Vec<u8>), String> {
        let mut request = self.client.post(format!("{}{path}", self.endpoint.url)).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Auth::Basic { user, password } = &self.endpoint.auth {
            request = request.basic_auth(user, Some(password));
        }
        let mut answer = request.send().await.map_err(|error| describe(&error.without_url()))?;
        let mut bytes = Vec::new();
        while let Some(part) =
            answer.chunk().await.map_err(|error| describe(&error.without_url()))?
        {
            if bytes.len() + part.len() > ANSWER_BYTES_MAX {
                return Err(format!("the answer is longer than {ANSWER_BYTES_MAX} bytes"));
            }
            bytes.extend_from_slice(&part);
        }
        Ok((answer.status().as_u16(), bytes))
    }
}

/// An answer that was not expected.
pub(crate) fn unexpected(status: u16, body: &[u8]) -> String {
    let body = String::from_utf8_lossy(&body[..body.len().min(2000)]).into_owned();
    let words: Vec<&str> = body.split_whitespace().collect();
    let body: String = words.join(" ").chars().take(300).collect();
    let hint = match status {
        401 => "; check `user`, `password_file` or `token_file`",
        403 => "; the login may not write there",
        404 => "; check the path of `url`",
        _ => "",
    };
    format!("the answer was {status}: {body}{hint}")
}

/// The error and its causes, each once.
fn describe(error: &dyn Error) -> String {
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
