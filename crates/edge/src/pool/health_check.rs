//! Health checks: a whole HTTP request to each backend, because a hung process still accepts
//! connections.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderValue, Method, Request};
use http_body::Body;
use hyper::body::Incoming;

use crate::client::proxy_header;
use crate::live::LiveConfig;
use crate::pool::Pool;
use crate::pool::backend::Backend;
use crate::pool::health_report::HealthReport;
use crate::pool::shared_check;
use crate::proxy::headers;
use crate::proxy::request_body::RequestBody;
use crate::settings::{CheckKind, CheckSettings};
use crate::time::MonoTime;
use crate::upstream::Upstream;
use crate::worker::Worker;

/// Longer bodies are not evaluated.
const BODY_BYTES_MAX: usize = 64 << 10;
/// How soon a configuration change that turns checks on takes effect.
const CONFIG_POLL: Duration = Duration::from_millis(500);

/// Checks all backends forever, as the current configuration says.
pub(crate) async fn check_loop(worker: Rc<Worker>) {
    loop {
        let live = worker.live();
        let pause = live.settings.check.as_ref().map_or(CONFIG_POLL, |check| check.every);
        if let Some(check) = &live.settings.check {
            for (pool, backend) in live.backends().filter(|(_, one)| one.is_resolved()) {
                let (live, pool) = (Rc::clone(&live), Arc::clone(pool));
                let backend = Arc::clone(backend);
                tokio::task::spawn_local(check_one(live, pool, backend, check.clone()));
            }
        }
        drop(live);
        tokio::time::sleep(pause).await;
    }
}

async fn check_one(
    live: Rc<LiveConfig>,
    pool: Arc<Pool>,
    backend: Arc<Backend>,
    check: CheckSettings,
) {
    let request = request(&live, &pool, &backend, &check.kind);
    let result = tokio::time::timeout(check.within, request).await;
    let report = result
        .unwrap_or_else(|_| Err("no response in time".into()))
        .unwrap_or_else(HealthReport::without_response);
    shared_check::record(&pool, &backend, report, MonoTime::now(), &check);
}

async fn request(
    live: &LiveConfig,
    pool: &Pool,
    backend: &Arc<Backend>,
    kind: &CheckKind,
) -> Result<HealthReport, String> {
    let limits = &live.settings.limits;
    let header = proxy_header::write_local(pool.settings.proxy_header);
    let mut upstream =
        Upstream::connect(backend, pool, limits, header).await.map_err(|(_, text)| text)?;
    let CheckKind::Ask(path) = kind else { return Ok(HealthReport::passed()) };
    let mut request = Request::new(RequestBody::Empty);
    *request.method_mut() = Method::GET;
    *request.uri_mut() = path.as_str().try_into().map_err(|_| format!("`{path}` is not a path"))?;
    let host =
        HeaderValue::try_from(backend.authority.as_str()).map_err(|error| error.to_string())?;
    request.headers_mut().insert(HOST, host);
    request.headers_mut().insert(USER_AGENT, HeaderValue::from_static("weir-edge-check"));
    let (mut parts, body) = request.into_parts();
    headers::set_target(&mut parts, backend);
    let mut sending = std::pin::pin!(upstream.send(Request::from_parts(parts, body)));
    let response = std::future::poll_fn(|cx| {
        let is_over = upstream.drive(cx);
        match sending.as_mut().poll(cx) {
            Poll::Ready(result) => {
                Poll::Ready(result.map_err(|error| error.into_error().to_string()))
            }
            Poll::Pending if is_over => Poll::Ready(Err("it closed the connection".into())),
            Poll::Pending => Poll::Pending,
        }
    })
    .await?;
    let status = response.status().as_u16();
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let body = if kind.is_some_and(|kind| kind.contains("json")) {
        read(&mut upstream, response.into_body()).await?
    } else {
        None
    };
    Ok(HealthReport::of_response(status, &body.unwrap_or_default()))
}

/// Reads the whole body; `None` if it is longer than [`BODY_BYTES_MAX`].
async fn read(upstream: &mut Upstream, mut body: Incoming) -> Result<Option<Vec<u8>>, String> {
    let mut bytes = Vec::new();
    while bytes.len() <= BODY_BYTES_MAX {
        let frame = std::future::poll_fn(|cx| {
            let is_over = upstream.drive(cx);
            match Pin::new(&mut body).poll_frame(cx) {
                Poll::Pending if is_over => Poll::Ready(None),
                other => other,
            }
        })
        .await;
        let Some(frame) = frame else { return Ok(Some(bytes)) };
        if let Ok(data) = frame.map_err(|error| error.to_string())?.into_data() {
            bytes.extend_from_slice(&data);
        }
    }
    Ok(None)
}
