//! `POST /api/cluster/rows`: rows in memory, for a query at another hub; and the way to ask another hub for them.

use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use async_trait::async_trait;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use weir_store::{Peer, PeerAsk, PeerFailure, PeerRows, Peers};

use super::Shared;
use super::answer::Refusal;
use super::sql::require_json;

const ARROW: &str = "application/vnd.apache.arrow.stream";
/// A hub that takes no connection within this is gone,
const CONNECT: Duration = Duration::from_secs(2);
/// and so is one that does not answer within this.
const ANSWER: Duration = Duration::from_secs(10);

/// A [`PeerAsk`] on its way.
#[derive(Deserialize, Serialize)]
struct Asked {
    snapshot: i64,
    table: String,
    columns: Vec<String>,
    condition: Option<String>,
    limit: Option<usize>,
}

/// `POST /api/cluster/rows`.
pub(crate) async fn rows(
    State(app): State<Shared>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    require_json(&headers)?;
    let asked: Asked = serde_json::from_slice(&body).map_err(|error| {
        Refusal::new(StatusCode::BAD_REQUEST, format!("cannot read the body: {error}"))
    })?;
    let Asked { snapshot, table, columns, condition, limit } = asked;
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

/// Other hubs over HTTP, with the login that all of them have.
pub(crate) struct OverHttp {
    way: Arc<Way>,
    /// Queries run on threads that have no sockets.
    runtime: Handle,
}

struct Way {
    client: reqwest::Client,
    token: Option<String>,
}

impl OverHttp {
    /// Asks on threads of the runtime that this is called on.
    ///
    /// # Errors
    /// When no client can be made.
    pub(crate) fn new(token: Option<String>) -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .connect_timeout(CONNECT)
            .timeout(ANSWER)
            .build()?;
        Ok(Self { way: Arc::new(Way { client, token }), runtime: Handle::current() })
    }
}

impl Way {
    async fn ask(&self, peer: &Peer, ask: &PeerAsk) -> Result<PeerRows, PeerFailure> {
        let failed = |why: String| PeerFailure::Failed(why);
        let PeerAsk { snapshot, table, columns, condition, limit } = ask.clone();
        let asked = Asked { snapshot, table, columns, condition, limit };
        let body = serde_json::to_vec(&asked).map_err(|error| failed(error.to_string()))?;
        let url = format!("{}/api/cluster/rows", peer.address.trim_end_matches('/'));
        let mut request =
            self.client.post(url).header(header::CONTENT_TYPE, "application/json").body(body);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
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

#[async_trait]
impl Peers for OverHttp {
    async fn rows(&self, peer: &Peer, ask: &PeerAsk) -> Result<PeerRows, PeerFailure> {
        let (way, peer, ask) = (Arc::clone(&self.way), peer.clone(), ask.clone());
        let asking = self.runtime.spawn(async move { way.ask(&peer, &ask).await });
        asking.await.unwrap_or_else(|error| Err(PeerFailure::Failed(error.to_string())))
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
