//! Access and timeouts: the Host header against DNS rebinding, the login, the headers that keep a
//! browser strict.
//!
//! A page on another site can make a browser send requests here. It cannot read answers (no CORS),
//! cannot send JSON (the preflight fails), and cannot pass for this site by renaming itself (the
//! Host check).

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use weir_intake::browser;
use weir_link::SecretBytes;

use super::SharedApp;
use super::answer::Refusal;
use super::caller::as_caller;
use super::connection;

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
    let (method, path) = (request.method(), request.uri().path());
    if !browser::is_own_host(headers, &app.host_names) {
        return Err(Refusal::new(
            StatusCode::MISDIRECTED_REQUEST,
            "this name is not one of weir's own",
        )
        .hint("use the address, or add the name to `api.host_names`"));
    }
    if is_foreign_fetch(method, path, headers, &app.host_names) {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "another site's page may not ask weir"));
    }
    if is_hidden_query(method, path, headers) {
        let why = "a browser may not query by address without TLS";
        return Err(Refusal::new(StatusCode::FORBIDDEN, why)
            .hint("use the page, or POST `{\"sql\": \"…\"}` to /api/sql"));
    }
    let Some(token) = &app.token else {
        return if is_change(method, path) && !connection::is_trusted_peer() {
            Err(Refusal::new(StatusCode::FORBIDDEN, "another account of this host may not change anything")
                .hint("run the command as root or as weir's user, or set `api.token_file` and send that login"))
        } else {
            Ok(())
        };
    };
    if path == "/healthz" || has_login(headers, token) {
        return Ok(());
    }
    Err(Refusal::new(StatusCode::UNAUTHORIZED, "a login is needed").hint(
        "send `Authorization: Bearer …`, or HTTP Basic with the token as password and any user name",
    ))
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

/// Whether a page of another site caused the request. Links from elsewhere (navigation) may open the
/// page, and no part of the API: a query costs, though its answer is not seen.
fn is_foreign_fetch(method: &Method, path: &str, headers: &HeaderMap, own: &[String]) -> bool {
    let is_link = headers.get("sec-fetch-mode").is_some_and(|mode| mode == "navigate")
        && matches!(*method, Method::GET | Method::HEAD)
        && !path.starts_with("/api/")
        && !path.starts_with("/iceberg");
    browser::is_from_foreign_page(headers, own) && !is_link
}

/// Whether a browser may have been made to send a query in an address. Over plain HTTP browsers do
/// not say from where, so only programs may.
fn is_hidden_query(method: &Method, path: &str, headers: &HeaderMap) -> bool {
    let is_told = headers.contains_key("sec-fetch-site");
    path == "/api/sql" && *method == Method::GET && !is_told && browser::is_from_browser(headers)
}

/// Whether the request can change something. Queries and trials by POST do not.
fn is_change(method: &Method, path: &str) -> bool {
    const READS: [&str; 6] = [
        "/api/sql",
        "/api/sql/forecast",
        "/api/compare",
        "/api/parse",
        "/api/link/positions",
        "/api/cluster/rows",
    ];
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) && !READS.contains(&path)
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
    fn pages_of_other_sites_are_refused_and_links_to_the_page_are_not() {
        let check = |method: &Method, path: &str, site: &str, mode: &str| {
            let headers = headers(&[("sec-fetch-site", site), ("sec-fetch-mode", mode)]);
            is_foreign_fetch(method, path, &headers, &[])
        };
        let (get, post) = (&Method::GET, &Method::POST);
        assert!(check(get, "/", "cross-site", "cors"));
        assert!(check(get, "/", "cross-site", "no-cors"));
        assert!(check(get, "/", "same-site", "no-cors"), "another port of localhost");
        assert!(check(post, "/", "cross-site", "navigate"), "a form");
        assert!(check(get, "/api/sql", "cross-site", "navigate"), "a frame");
        assert!(check(get, "/api/rules/a/replay", "same-site", "navigate"));
        assert!(!check(get, "/", "cross-site", "navigate"));
        assert!(!check(get, "/api/sql", "same-origin", "cors"));
        assert!(!check(get, "/api/sql", "none", "navigate"));
        let origin = |origin| headers(&[("host", "127.0.0.1:4770"), ("origin", origin)]);
        assert!(is_foreign_fetch(post, "/api/sql", &origin("https://evil.example"), &[]));
        assert!(!is_foreign_fetch(post, "/api/sql", &origin("http://127.0.0.1:4770"), &[]));
    }

    #[test]
    fn queries_by_address_are_for_programs_over_plain_http() {
        let check = |pairs: &[(&'static str, &str)]| {
            is_hidden_query(&Method::GET, "/api/sql", &headers(pairs))
        };
        assert!(check(&[("user-agent", "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0")]));
        assert!(check(&[("referer", "http://evil.example/")]));
        assert!(!check(&[("user-agent", "curl/8.15.0")]));
        assert!(!check(&[("user-agent", "Mozilla/5.0"), ("sec-fetch-site", "none")]));
    }

    #[test]
    fn judgements_rows_and_orders_are_changes_and_queries_are_not() {
        for path in [
            "/api/findings/1/judgement",
            "/api/thresholds/a",
            "/api/link/parcel",
            "/api/wire",
            "/api/haproxy/server",
            "/api/store/flush",
        ] {
            assert!(is_change(&Method::POST, path), "{path}");
        }
        assert!(is_change(&Method::PUT, "/api/edge/config"));
        assert!(!is_change(&Method::POST, "/api/sql"));
        assert!(!is_change(&Method::GET, "/api/status"));
    }
}
