//! Access and timeouts: the Host header against DNS rebinding, the login, the headers that keep a
//! browser strict.
//!
//! A page on another site can make a browser send requests here. It cannot read answers (no CORS),
//! cannot send JSON (the preflight fails), and cannot pass for this site by renaming itself (the
//! Host check).

use std::net::IpAddr;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use weir_link::SecretBytes;

use super::SharedApp;
use super::answer::Refusal;
use super::caller::as_caller;

const STRICT: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// How long a body may take to arrive.
const READ_BODY: Duration = Duration::from_secs(30);

/// Runs before every handler.
pub(crate) async fn guard(State(app): State<SharedApp>, request: Request, next: Next) -> Response {
    app.meter.count_request();
    let mut response = match admitted(&app, &request) {
        Ok(()) => {
            let user = basic(request.headers()).map(|(user, _)| user);
            as_caller(user.as_deref(), in_time(&app, next.run(request))).await
        }
        Err(refusal) => refusal.into_response(),
    };
    if response.status() == StatusCode::UNAUTHORIZED {
        let challenge = HeaderValue::from_static("Basic realm=\"weir\", charset=\"UTF-8\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    for (name, value) in STRICT {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    let default_cache = HeaderValue::from_static("no-store");
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(default_cache);
    response
}

fn admitted(app: &SharedApp, request: &Request) -> Result<(), Refusal> {
    let headers = request.headers();
    if !is_own_host(headers, &app.host_names) {
        return Err(Refusal::new(
            StatusCode::MISDIRECTED_REQUEST,
            "this name is not one of weir's own",
        )
        .hint("use the address, or add the name to `api.host_names`"));
    }
    if is_foreign_fetch(headers) {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "another site's page may not ask weir"));
    }
    let Some(token) = &app.token else { return Ok(()) };
    if request.uri().path() == "/healthz" || has_login(headers, token) {
        return Ok(());
    }
    Err(Refusal::new(StatusCode::UNAUTHORIZED, "a login is needed").hint(
        "send `Authorization: Bearer …`, or HTTP Basic with the token as password and any user name",
    ))
}

/// No Host at all is let through: browsers always send one, and only they can be tricked.
fn is_own_host(headers: &HeaderMap, own: &[String]) -> bool {
    let Some(host) = headers.get(header::HOST) else { return true };
    let Ok(host) = host.to_str() else { return false };
    let name = without_port(host);
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || own.iter().any(|own| name.eq_ignore_ascii_case(own))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// The answer, unless the request takes longer than any body may need to arrive and any query to
/// wait and to run.
async fn in_time(app: &SharedApp, answer: impl Future<Output = Response>) -> Response {
    let limit = app.query_limits.timeout * 2 + READ_BODY;
    tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| {
        let why = format!("the request was incomplete after {} s", limit.as_secs());
        Refusal::new(StatusCode::REQUEST_TIMEOUT, why).into_response()
    })
}

/// Links from elsewhere (navigation) are fine, scripts and images are not.
fn is_foreign_fetch(headers: &HeaderMap) -> bool {
    let is = |name: &str, value: &str| headers.get(name).is_some_and(|header| header == value);
    is("sec-fetch-site", "cross-site") && !is("sec-fetch-mode", "navigate")
}

fn has_login(headers: &HeaderMap, token: &str) -> bool {
    let Some(value) = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok())
    else {
        return false;
    };
    let Some((scheme, secret)) = value.split_once(' ') else { return false };
    let given = if scheme.eq_ignore_ascii_case("bearer") {
        secret.trim().as_bytes().to_vec()
    } else if let Some((_, password)) = basic(headers) {
        password
    } else {
        return false;
    };
    SecretBytes(token.as_bytes()).is_same(&given)
}

/// User and password of HTTP Basic.
fn basic(headers: &HeaderMap) -> Option<(String, Vec<u8>)> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, secret) = value.split_once(' ')?;
    let pair = BASE64_STANDARD.decode(secret.trim()).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    let user = String::from_utf8_lossy(&pair[..colon]).into_owned();
    scheme.eq_ignore_ascii_case("basic").then(|| (user, pair[colon + 1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().expect("a header value"));
        }
        headers
    }

    #[test]
    fn only_own_names_and_addresses_are_hosts() {
        let own = ["weir.example.net".to_owned()];
        let check = |host: &str| is_own_host(&headers(&[("host", host)]), &own);
        for good in [
            "localhost:4770",
            "127.0.0.1:1",
            "[::1]:4770",
            "[::1]",
            "10.0.0.5",
            "WEIR.example.net:80",
        ] {
            assert!(check(good), "{good}");
        }
        for bad in ["evil.example", "evil.example:4770", "localhost.evil.example", "", "a:b"] {
            assert!(!check(bad), "{bad}");
        }
        assert!(is_own_host(&headers(&[]), &own));
    }

    #[test]
    fn login_is_a_bearer_token_or_a_basic_password() {
        assert!(check("Bearer sesame"));
        assert!(check("Basic bWU6c2VzYW1l")); // me:sesame
        for bad in [
            "Bearer sesam",
            "Bearer sesame1",
            "Bearer ",
            "Basic !",
            "Basic c2VzYW1l",
            "Digest sesame",
            "sesame",
        ] {
            assert!(!check(bad), "{bad}");
        }
        assert!(!has_login(&headers(&[]), "sesame"));
    }

    fn check(value: &str) -> bool {
        has_login(&headers(&[("authorization", value)]), "sesame")
    }

    #[test]
    fn scripts_of_other_sites_are_refused_and_links_are_not() {
        let from = |site, mode| headers(&[("sec-fetch-site", site), ("sec-fetch-mode", mode)]);
        assert!(is_foreign_fetch(&from("cross-site", "cors")));
        assert!(is_foreign_fetch(&from("cross-site", "no-cors")));
        assert!(!is_foreign_fetch(&from("cross-site", "navigate")));
        assert!(!is_foreign_fetch(&from("same-origin", "cors")));
    }
}
