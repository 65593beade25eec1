//! An HTTP client for one address: login, certificate authority, timeout, and errors without
//! secrets.

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Certificate, Client, redirect};

use crate::error::{Error, shortened};
use crate::settings::{Credentials, TargetAccess};

/// Longest response that is read.
const RESPONSE_BYTES_MAX: usize = 64 << 20;
/// Bytes of an unexpected response that are examined for its message.
const MESSAGE_BYTES_MAX: usize = 2000;

/// The address of a target and how to reach it.
#[derive(Clone, Debug)]
pub(crate) struct HttpEndpoint {
    /// `http://…` or `https://…`, without a trailing slash.
    pub(crate) url: String,
    /// Scheme of a token in `Authorization`: `Bearer` or `ApiKey`.
    pub(crate) token_scheme: &'static str,
    pub(crate) access: TargetAccess,
}

/// A response's status and body.
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct HttpClient {
    client: Client,
    endpoint: HttpEndpoint,
}

impl HttpClient {
    /// # Errors
    /// When the authority is not PEM or the token is not a valid header value.
    pub(crate) fn new(endpoint: HttpEndpoint) -> Result<Self, Error> {
        let access = &endpoint.access;
        let mut headers = HeaderMap::new();
        if let Credentials::Token(token) = &access.credentials {
            let value = HeaderValue::from_str(&format!("{} {token}", endpoint.token_scheme));
            let mut value = value.map_err(|error| {
                Error::caused_by("the token has characters that are not allowed in a header", error)
            })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let mut builder = Client::builder()
            .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .redirect(redirect::Policy::none())
            .connect_timeout(access.timeout.min(Duration::from_secs(5)))
            .timeout(access.timeout);
        if let Some(pem) = &access.authority {
            let certificates = Certificate::from_pem_bundle(pem)
                .map_err(|error| Error::caused_by("`ca_file` is not PEM", error))?;
            builder = certificates
                .into_iter()
                .fold(builder, |builder, one| builder.add_root_certificate(one));
        }
        let client = builder
            .build()
            .map_err(|error| Error::caused_by("cannot set up the HTTP client", error))?;
        Ok(Self { client, endpoint })
    }

    /// Sends `POST path` and reads the whole response.
    ///
    /// # Errors
    /// When there is no response, or it is too long.
    pub(crate) async fn post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<HttpResponse, Error> {
        let mut request = self.client.post(format!("{}{path}", self.endpoint.url)).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Credentials::Password { user, password } = &self.endpoint.access.credentials {
            request = request.basic_auth(user, Some(password));
        }
        let mut response = request.send().await.map_err(request_failed)?;
        let mut bytes = Vec::new();
        while let Some(part) = response.chunk().await.map_err(request_failed)? {
            if bytes.len() + part.len() > RESPONSE_BYTES_MAX {
                let message = format!("the response is longer than {RESPONSE_BYTES_MAX} bytes");
                return Err(Error::new(message));
            }
            bytes.extend_from_slice(&part);
        }
        Ok(HttpResponse { status: response.status().as_u16(), body: bytes })
    }
}

/// The URL is left out, because it can hold a login.
fn request_failed(error: reqwest::Error) -> Error {
    Error::caused_by("the request failed", error.without_url())
}

/// The error for a response with an unexpected status.
pub(crate) fn unexpected_response(response: &HttpResponse) -> Error {
    let start = &response.body[..response.body.len().min(MESSAGE_BYTES_MAX)];
    let body = shortened(&String::from_utf8_lossy(start));
    let hint = match response.status {
        401 => "check `user`, `password_file` or `token_file`",
        403 => "the login may not write there",
        404 => "check the path of `url`",
        _ => "",
    };
    Error::new(format!("the response was {}: {body}", response.status)).with_hint(hint)
}
