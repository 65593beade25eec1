//! Access and timeouts: the Host header against DNS rebinding, the login, the headers that keep a
//! browser strict.
//!
//! A page on another site can make a browser send requests here. It cannot read answers (no CORS),
//! cannot send JSON (the preflight fails), and cannot pass for this site by renaming itself (the
//! Host check).

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use weir_config::logins::LoginScope;
use weir_intake::browser;

use super::SharedApp;
use super::answer::Refusal;
use super::caller::{as_caller, as_owner};
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
/// Delay of the answer to a wrong login.
const SLOW_DOWN: Duration = Duration::from_millis(500);

/// The name of whom the kernel vouches for.
const THIS_HOST: &str = "this host";

/// An authenticated caller.
#[derive(Clone)]
pub(crate) struct Grant {
    name: Arc<str>,
    kind: GrantKind,
    /// Whether it may change edge, balancers, thresholds and the store.
    pub(crate) may_change: bool,
}

/// Whose a grant is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GrantKind {
    /// A login of `[[logins]]`, named after its owner.
    Personal,
    /// The login that may do everything, or that of hubs: several people may have it.
    Shared,
    /// Root or weir's own user on the hub's host, by the kernel's word.
    ThisHost,
}

impl Grant {
    /// The login's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whose it is.
    pub(crate) fn kind(&self) -> GrantKind {
        self.kind
    }
}

/// The scope that a request needs, and the grant of its caller.
struct Admission {
    needed: LoginScope,
    grant: Grant,
}

/// Runs before every handler.
pub(crate) async fn guard(
    State(app): State<SharedApp>,
    mut request: Request,
    next: Next,
) -> Response {
    app.meter.count_request();
    let mut response = match admitted(&app, &request) {
        Ok(admission) => {
            let user = basic(request.headers()).map(|(user, _)| user);
            let change = admission.as_ref().and_then(|admission| admission.change(&request));
            let mut owner = None;
            if let Some(Admission { grant, .. }) = admission {
                owner = (grant.kind == GrantKind::Personal).then(|| Arc::clone(&grant.name));
                request.extensions_mut().insert(grant);
            }
            let answer = in_time(&app, next.run(request));
            let answer = match owner {
                Some(owner) => as_owner(&owner, answer).await,
                None => as_caller(user.as_deref(), answer).await,
            };
            if let Some(change) = change {
                tracing::info!("{change}: {}", answer.status());
            }
            answer
        }
        Err(refusal) => {
            if secret(request.headers()).is_some() {
                tokio::time::sleep(SLOW_DOWN).await;
            }
            refusal.into_response()
        }
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

impl Admission {
    /// The line for weir's log if the request may change something.
    fn change(&self, request: &Request) -> Option<String> {
        if !matches!(self.needed, LoginScope::Judge | LoginScope::Change) {
            return None;
        }
        let (peer, path) = (connection::peer_text(), request.uri().path());
        Some(format!("`{}` at {peer} asks {} {path}", self.grant.name, request.method()))
    }
}

fn admitted(app: &SharedApp, request: &Request) -> Result<Option<Admission>, Refusal> {
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
    let Some(needed) = needed_scope(method, path) else { return Ok(None) };
    let grant = granted(app, headers, needed)?;
    Ok(Some(Admission { needed, grant }))
}

/// The caller's grant, if a login or the kernel proves the caller and the scope `needed` is included.
fn granted(app: &SharedApp, headers: &HeaderMap, needed: LoginScope) -> Result<Grant, Refusal> {
    let login = secret(headers).and_then(|secret| app.logins.find(&secret));
    let Some(login) = login else {
        // A proxy's socket says nothing about whom it speaks for.
        let is_trusted = app.logins.is_host_trusted() && !is_forwarded(headers);
        if is_trusted && connection::is_trusted_peer() {
            let kind = GrantKind::ThisHost;
            return Ok(Grant { name: THIS_HOST.into(), kind, may_change: true });
        }
        return Err(no_login(app));
    };
    if login.may(needed) {
        return Ok(Grant {
            name: Arc::clone(login.name()),
            kind: if login.is_personal() { GrantKind::Personal } else { GrantKind::Shared },
            may_change: login.may(LoginScope::Change),
        });
    }
    let what = format!("the login `{}` has no scope `{}`", login.name(), needed.as_str());
    Err(Refusal::new(StatusCode::FORBIDDEN, what)
        .hint("`scopes` of `[[logins]]` in weir.toml says what a login may do"))
}

fn no_login(app: &SharedApp) -> Refusal {
    let hint = "send `Authorization: Bearer …`, or HTTP Basic with the login as password and any user name";
    let hint = if app.logins.is_host_trusted() {
        format!("{hint}; it is in `{}/login` on the hub's host", app.data_dir)
    } else {
        hint.to_owned()
    };
    Refusal::new(StatusCode::UNAUTHORIZED, "a login is needed").hint(hint)
}

/// Whether a proxy passed the request on.
fn is_forwarded(headers: &HeaderMap) -> bool {
    ["forwarded", "via", "x-forwarded-for", "x-real-ip"]
        .iter()
        .any(|name| headers.contains_key(*name))
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

/// The scope that a request needs; `None` if it needs no login.
fn needed_scope(method: &Method, path: &str) -> Option<LoginScope> {
    // They only read, though they are sent by POST.
    const READS: [&str; 4] = ["/api/sql", "/api/sql/forecast", "/api/compare", "/api/parse"];
    let is_get = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    Some(match path {
        "/healthz" => return None,
        // The address is the secret.
        _ if path.starts_with("/a/") => return None,
        _ if is_get && path.starts_with("/api/oncall/") => return None,
        _ if path.starts_with("/api/cluster/") => LoginScope::Hub,
        _ if path.starts_with("/api/link/")
            || path == "/api/wire"
            || path == "/v1/check-results" =>
        {
            LoginScope::Intake
        }
        // Engines also send figures about their scans, which are not kept.
        _ if is_get || READS.contains(&path) || path.starts_with("/iceberg/") => LoginScope::Read,
        _ if ["/api/findings/", "/api/incidents/", "/api/notify/reply", "/api/silences"]
            .iter()
            .any(|start| path.starts_with(start)) =>
        {
            LoginScope::Judge
        }
        _ => LoginScope::Change,
    })
}

/// What a request gives as its login: a bearer token, or the password of HTTP Basic.
fn secret(headers: &HeaderMap) -> Option<Vec<u8>> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, secret) = value.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(secret.trim().as_bytes().to_vec());
    }
    basic(headers).map(|(_, password)| password)
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
        assert!(secret(&headers(&[])).is_none());
    }

    fn check(value: &str) -> bool {
        secret(&headers(&[("authorization", value)])).is_some_and(|secret| secret == b"sesame")
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
    fn each_door_needs_its_scope() {
        let post = |path: &str| needed_scope(&Method::POST, path).map(LoginScope::as_str);
        for (path, scope) in [
            ("/api/findings/1/judgement", "judge"),
            ("/api/incidents/1/ack", "judge"),
            ("/api/silences", "judge"),
            ("/api/incidents/1/judgement", "judge"),
            ("/api/notify/reply", "judge"),
            ("/api/notify/test", "change"),
            ("/api/oncall/web.ics", "change"),
            ("/api/actions/1/approve", "change"),
            ("/api/heal/stop", "change"),
            ("/api/thresholds/a", "change"),
            ("/api/haproxy/server", "change"),
            ("/api/edge/backend", "change"),
            ("/api/store/flush", "change"),
            ("/api/what/comes/later", "change"),
            ("/api/link/parcel", "intake"),
            ("/api/wire", "intake"),
            ("/api/cluster/rows", "hub"),
            ("/api/sql", "read"),
        ] {
            assert_eq!(post(path), Some(scope), "{path}");
        }
        let get = |path: &str| needed_scope(&Method::GET, path).map(LoginScope::as_str);
        assert_eq!(get("/api/status"), Some("read"));
        assert_eq!(get("/metrics"), Some("read"));
        assert_eq!(get("/"), Some("read"));
        assert_eq!(get("/api/cluster/pieces"), Some("hub"));
        for open in ["/healthz", "/a/0af1", "/api/oncall/web.ics"] {
            assert_eq!(get(open), None, "{open}");
        }
        assert_eq!(post("/a/0af1"), None);
        assert_eq!((get("/api/oncall"), get("/a")), (Some("read"), Some("read")));
        assert_eq!(needed_scope(&Method::PUT, "/api/edge/config"), Some(LoginScope::Change));
    }

    /// Every route and every listening key is in `docs/security.md`, and its scope is the real one.
    #[test]
    fn the_page_about_security_has_every_door() {
        let page = include_str!("../../../../docs/security.md");
        for key in weir_config::KEYS.iter().filter(|key| key.unit == "address:port") {
            let name = format!("{}.{}", key.section, key.name);
            let is_target = name == "edge.backends";
            assert!(is_target || page.contains(&format!("`{name}`")), "{name} is no door there");
        }
        let routes = include_str!("mod.rs").split(".route(").skip(1).filter_map(|route| {
            let (path, rest) = route.split_once(", ")?;
            let path = if path == "cluster::PIECES" { "/api/cluster/pieces" } else { path };
            let methods = rest.split_once('\n')?.0;
            Some((path.trim_matches('"'), methods))
        });
        let mut count = 0;
        for (path, methods) in routes {
            let line = page.lines().find(|line| line.contains(&format!("{path}`")));
            let line = line.unwrap_or_else(|| panic!("{path} is not there"));
            let concrete = path.replace(['{', '}'], "");
            for (word, method) in
                [("get(", Method::GET), ("post(", Method::POST), ("put(", Method::PUT)]
            {
                let needed = needed_scope(&method, &concrete).map_or("none", LoginScope::as_str);
                assert!(
                    !methods.contains(word) || line.contains(needed),
                    "{method} {path}: {needed}"
                );
            }
            count += 1;
        }
        assert!(count >= 25, "only {count} routes were found");
    }
}
