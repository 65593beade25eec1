//! `POST /api/cluster/rows`: rows in memory, for a query at another hub; `GET /api/cluster/pieces`:
//! a connection for pieces of another hub's queries; `POST /api/cluster/order`: an order for an agent of
//! this hub; and the way to ask another hub for rows and pieces.

use std::io::{self, Cursor};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use async_trait::async_trait;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use reqwest::Upgraded;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use weir_store::{Peer, PeerAsk, PeerFailure, PeerRows, Peers, QueryChannel, query_channel};

use super::SharedApp;
use super::answer::Refusal;
use super::sql::require_json;
use crate::heal::{PeerAnswer, PeerOrder};

pub(super) const ARROW: &str = "application/vnd.apache.arrow.stream";
/// A hub that takes no connection within this is gone,
const CONNECT: Duration = Duration::from_secs(2);
/// and so is one that does not answer within this.
const ANSWER: Duration = Duration::from_secs(10);

/// Where a connection for pieces of queries begins: HTTP/2 with gRPC after an `Upgrade` to
/// [`PROTOCOL`].
pub(crate) const PIECES: &str = "/api/cluster/pieces";
const PROTOCOL: HeaderValue = HeaderValue::from_static("weir-pieces");
/// A hub that does not say within this that it is there gets no more answers.
const ALIVE: Duration = Duration::from_secs(10);

/// The wire form of a [`PeerAsk`].
#[derive(Deserialize, Serialize)]
struct PeerRequest {
    snapshot: i64,
    table: String,
    columns: Vec<String>,
    condition: Option<String>,
    limit: Option<usize>,
}

/// `POST /api/cluster/rows`.
pub(crate) async fn rows(
    State(app): State<SharedApp>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    require_json(&headers)?;
    let asked: PeerRequest = serde_json::from_slice(&body).map_err(|error| {
        Refusal::new(StatusCode::BAD_REQUEST, format!("cannot read the body: {error}"))
    })?;
    let PeerRequest { snapshot, table, columns, condition, limit } = asked;
    let ask = PeerAsk { snapshot, table, columns, condition, limit };
    let rows = app.store.rows_for_peer(&ask).await?;
    let Some(first) = rows.first() else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    let write = || {
        let options = IpcWriteOptions::default()
            .try_with_compression(Some(arrow_ipc::CompressionType::LZ4_FRAME))?;
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &first.schema(), options)?;
        for batch in &rows {
            writer.write(batch)?;
        }
        writer.into_inner()
    };
    let written = write().map_err(|error| {
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, format!("cannot write rows: {error}"))
    })?;
    Ok(([(header::CONTENT_TYPE, ARROW)], written).into_response())
}

/// `POST /api/cluster/order`: an order of the leader, for an agent that is connected to this hub.
pub(crate) async fn order(
    State(app): State<SharedApp>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<PeerAnswer>, Refusal> {
    require_json(&headers)?;
    let order: PeerOrder = serde_json::from_slice(&body).map_err(|error| {
        Refusal::new(StatusCode::BAD_REQUEST, format!("cannot read the body: {error}"))
    })?;
    let delivered = app.heals.deliver(&order).await;
    delivered.map(Json).map_err(|why| {
        Refusal::new(StatusCode::FORBIDDEN, format!("cannot carry the order: {why}")).hint(
            "the hubs of a cluster share `link/orders.pem`: run the same version on all of them",
        )
    })
}

/// `GET /api/cluster/pieces`.
pub(crate) async fn pieces(
    State(app): State<SharedApp>,
    mut request: Request,
) -> Result<Response, Refusal> {
    let Some(worker) = app.store.query_worker()? else {
        return Err(Refusal::new(StatusCode::NOT_FOUND, "this hub is not one of several"));
    };
    if request.headers().get(header::UPGRADE) != Some(&PROTOCOL) {
        let why = "parts of queries use a separate protocol";
        return Err(Refusal::new(StatusCode::UPGRADE_REQUIRED, why)
            .hint("hubs of one cluster ask this of each other; ask `/api/sql`"));
    }
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        // A connection that breaks is noticed by the hub that asks.
        let Ok(stream) = upgrade.await else { return };
        let mut builder = Builder::new(TokioExecutor::new()).http2_only();
        builder.http2().timer(TokioTimer::new()).keep_alive_interval(ALIVE);
        drop(builder.serve_connection(stream, TowerToHyperService::new(worker)).await);
    });
    let headers =
        [(header::CONNECTION, HeaderValue::from_static("upgrade")), (header::UPGRADE, PROTOCOL)];
    Ok((StatusCode::SWITCHING_PROTOCOLS, headers).into_response())
}

/// Other hubs over HTTP, with the login of hubs among each other.
pub(crate) struct OverHttp {
    way: Arc<PeerClient>,
    /// Queries run on threads that have no sockets.
    runtime: Handle,
}

struct PeerClient {
    client: reqwest::Client,
    token: String,
}

impl OverHttp {
    /// Asks on threads of the runtime that this is called on.
    ///
    /// # Errors
    /// When no client can be made.
    pub(crate) fn new(token: String) -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .connect_timeout(CONNECT)
            .timeout(ANSWER)
            .build()?;
        Ok(Self { way: Arc::new(PeerClient { client, token }), runtime: Handle::current() })
    }
}

impl PeerClient {
    async fn ask(&self, peer: &Peer, ask: &PeerAsk) -> Result<PeerRows, PeerFailure> {
        let failed = |why: String| PeerFailure::Failed(why);
        let PeerAsk { snapshot, table, columns, condition, limit } = ask.clone();
        let asked = PeerRequest { snapshot, table, columns, condition, limit };
        let body = serde_json::to_vec(&asked).map_err(|error| failed(error.to_string()))?;
        let url = format!("{}/api/cluster/rows", peer.address.trim_end_matches('/'));
        let mut request =
            self.client.post(url).header(header::CONTENT_TYPE, "application/json").body(body);
        request = request.bearer_auth(&self.token);
        let answer = request.send().await.map_err(|error| gone(&error))?;
        let status = answer.status();
        let bytes = answer.bytes().await.map_err(|error| gone(&error))?;
        match status {
            StatusCode::OK => read(&bytes).map_err(|error| failed(error.to_string())),
            StatusCode::NO_CONTENT => Ok(Vec::new()),
            StatusCode::CONFLICT => Err(PeerFailure::Stale(told(&bytes))),
            _ => Err(failed(format!("it answers {status}: {}", told(&bytes)))),
        }
    }
}

impl PeerClient {
    /// A connection for pieces of queries.
    async fn connect(&self, address: &str) -> io::Result<Upgraded> {
        let url = format!("{}{PIECES}", address.trim_end_matches('/'));
        let mut request = self.client.get(url).header(header::CONNECTION, "upgrade");
        request = request.header(header::UPGRADE, PROTOCOL);
        request = request.bearer_auth(&self.token);
        let answer = request.send().await.map_err(io::Error::other)?;
        let status = answer.status();
        if status != StatusCode::SWITCHING_PROTOCOLS {
            let body = answer.bytes().await.map_err(io::Error::other)?;
            return Err(io::Error::other(format!("it answers {status}: {}", told(&body))));
        }
        answer.upgrade().await.map_err(io::Error::other)
    }

    async fn connect_soon(&self, address: &str) -> io::Result<Upgraded> {
        let connect = tokio::time::timeout(CONNECT, self.connect(address)).await;
        connect.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

#[async_trait]
impl Peers for OverHttp {
    async fn rows(&self, peer: &Peer, ask: &PeerAsk) -> Result<PeerRows, PeerFailure> {
        let (way, peer, ask) = (Arc::clone(&self.way), peer.clone(), ask.clone());
        let asking = self.runtime.spawn(async move { way.ask(&peer, &ask).await });
        asking.await.unwrap_or_else(|error| Err(PeerFailure::Failed(error.to_string())))
    }

    fn channel(&self, peer: &Peer) -> QueryChannel {
        let (way, address) = (Arc::clone(&self.way), peer.address.clone());
        query_channel(&self.runtime, move || {
            let (way, address) = (Arc::clone(&way), address.clone());
            async move { way.connect_soon(&address).await }
        })
    }
}

fn read(bytes: &[u8]) -> Result<Vec<RecordBatch>, arrow_schema::ArrowError> {
    StreamReader::try_new(Cursor::new(bytes), None)?.collect()
}

/// With the causes, which say more than the first line.
fn gone(error: &reqwest::Error) -> PeerFailure {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    PeerFailure::Gone(text)
}

/// The error of an answer, else its beginning.
fn told(body: &[u8]) -> String {
    let json: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let error = json.as_ref().and_then(|json| json["error"].as_str());
    let text = String::from_utf8_lossy(&body[..body.len().min(200)]);
    error.map_or_else(|| text.into_owned(), str::to_owned)
}
