//! Asking each backend whether it is well: a whole HTTP request, since a process that hangs still accepts connections.

use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::header::{HOST, USER_AGENT};
use http::{HeaderValue, Method, Request};

use crate::backend::Backend;
use crate::body::RequestBody;
use crate::headers;
use crate::pool::Pool;
use crate::settings::CheckSettings;
use crate::time::now_ns;
use crate::upstream::Upstream;
use crate::worker::{Live, Worker};

/// How soon a configuration that has begun to ask for checks is followed.
const NO_CHECK: Duration = Duration::from_millis(500);

/// Checks all backends for ever, as the configuration of the moment says.
pub(crate) async fn check_always(worker: Rc<Worker>) {
    loop {
        let live = worker.live();
        let pause = live.settings.check.as_ref().map_or(NO_CHECK, |check| check.every);
        if let Some(check) = &live.settings.check {
            for (pool, backend) in live.backends() {
                let (live, pool) = (Rc::clone(&live), Arc::clone(pool));
                let backend = Arc::clone(backend);
                tokio::task::spawn_local(check_one(live, pool, backend, check.clone()));
            }
        }
        drop(live);
        tokio::time::sleep(pause).await;
    }
}

async fn check_one(live: Rc<Live>, pool: Arc<Pool>, backend: Arc<Backend>, check: CheckSettings) {
    let asked = ask(&live, &pool, &backend, &check.path);
    let asked = tokio::time::timeout(check.within, asked).await;
    let result = asked.unwrap_or_else(|_| Err("no answer in time".into()));
    if backend.checked(now_ns(), result.is_ok(), check.rise, check.fall) {
        match result {
            Ok(()) => tracing::info!("backend `{}` passes its checks again", backend.name),
            Err(why) => tracing::warn!("backend `{}` fails its checks: {why}", backend.name),
        }
    }
}

async fn ask(live: &Live, pool: &Pool, backend: &Arc<Backend>, path: &str) -> Result<(), String> {
    let limits = &live.settings.limits;
    let mut upstream =
        Upstream::connect(backend, pool, limits, Vec::new()).await.map_err(|(_, text)| text)?;
    let mut request = Request::new(RequestBody::Empty);
    *request.method_mut() = Method::GET;
    *request.uri_mut() = path.try_into().map_err(|_| format!("`{path}` is not a path"))?;
    let host = HeaderValue::try_from(backend.name.as_str()).map_err(|error| error.to_string())?;
    request.headers_mut().insert(HOST, host);
    request.headers_mut().insert(USER_AGENT, HeaderValue::from_static("weir-edge-check"));
    let (mut parts, body) = request.into_parts();
    headers::address(&mut parts, backend.protocol);
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
    if status < 400 { Ok(()) } else { Err(format!("it answers {status}")) }
}
