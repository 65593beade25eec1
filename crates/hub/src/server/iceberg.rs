//! `/iceberg/v1/…`: the tables as a read-only Iceberg REST catalog, for engines that read Parquet
//! files themselves.
//!
//! Answers and errors have the shapes of the catalog's own specification, and not weir's.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::{Value, json};
use weir_tables::{TABLES, TableSpec};

use super::SharedApp;

/// The only namespace.
const NAMESPACE: &str = "weir";

/// The supported endpoints; clients then request no others.
const ENDPOINTS: [&str; 8] = [
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics",
    "GET /v1/config",
];

/// The catalog's ways, to be nested under a path.
pub(crate) fn router() -> axum::Router<SharedApp> {
    axum::Router::new()
        .route("/v1/config", get(config))
        .route("/v1/namespaces", get(namespaces))
        .route("/v1/namespaces/{namespace}", get(namespace))
        .route("/v1/namespaces/{namespace}/tables", get(tables))
        .route("/v1/namespaces/{namespace}/tables/{table}", get(table))
        .route("/v1/namespaces/{namespace}/tables/{table}/metrics", post(metrics))
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
}

/// An error as the specification has it.
struct CatalogError {
    status: StatusCode,
    kind: &'static str,
    message: String,
}

impl IntoResponse for CatalogError {
    fn into_response(self) -> Response {
        let code = self.status.as_u16();
        let error = json!({"message": self.message, "type": self.kind, "code": code});
        (self.status, Json(json!({"error": error}))).into_response()
    }
}

async fn config() -> Json<Value> {
    Json(json!({"defaults": {}, "overrides": {}, "endpoints": ENDPOINTS}))
}

#[derive(Deserialize)]
struct NamespaceQuery {
    parent: Option<String>,
}

async fn namespaces(Query(below): Query<NamespaceQuery>) -> Result<Json<Value>, CatalogError> {
    let found = match below.parent.as_deref() {
        None | Some("") => json!([[NAMESPACE]]),
        Some(parent) => {
            known(parent)?;
            json!([])
        }
    };
    Ok(Json(json!({"namespaces": found})))
}

async fn namespace(Path(name): Path<String>) -> Result<Json<Value>, CatalogError> {
    known(&name)?;
    Ok(Json(json!({"namespace": [name], "properties": {}})))
}

async fn tables(Path(name): Path<String>) -> Result<Json<Value>, CatalogError> {
    known(&name)?;
    let found: Vec<Value> = TABLES
        .iter()
        .map(|spec: &&TableSpec| json!({"namespace": [name], "name": spec.name}))
        .collect();
    Ok(Json(json!({"identifiers": found})))
}

async fn table(
    State(app): State<SharedApp>,
    method: Method,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Response, CatalogError> {
    // Spark asks for `files` in `weir.log` first: only a table that is not there makes it look for
    // the files of `weir.log`.
    let found = weir_tables::table(&name).filter(|_| namespace == NAMESPACE);
    let spec = found.ok_or_else(|| CatalogError {
        status: StatusCode::NOT_FOUND,
        kind: "NoSuchTableException",
        message: format!("there is no table `{name}` in `{}`", dotted(&namespace)),
    })?;
    if method == Method::HEAD {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let found = app.store.iceberg_table(spec).await.map_err(|error| CatalogError {
        status: StatusCode::SERVICE_UNAVAILABLE,
        kind: "ServiceUnavailableException",
        message: error.to_string(),
    })?;
    let body = json!({
        "metadata-location": found.metadata_location,
        "metadata": found.metadata,
        "config": {},
    });
    Ok(Json(body).into_response())
}

/// Accepts and ignores a client's metrics.
async fn metrics() -> StatusCode {
    StatusCode::NO_CONTENT
}

fn known(namespace: &str) -> Result<(), CatalogError> {
    if namespace == NAMESPACE {
        return Ok(());
    }
    Err(CatalogError {
        status: StatusCode::NOT_FOUND,
        kind: "NoSuchNamespaceException",
        message: format!(
            "there is no namespace `{}`: all tables are in `{NAMESPACE}`",
            dotted(namespace)
        ),
    })
}

/// A namespace's levels as people write them.
fn dotted(namespace: &str) -> String {
    namespace.replace('\u{1f}', ".")
}

async fn unknown(method: Method, uri: Uri) -> CatalogError {
    let path = uri.path();
    if method == Method::GET || method == Method::HEAD {
        return CatalogError {
            status: StatusCode::NOT_FOUND,
            kind: "NotFoundException",
            message: format!("this catalog has no `{path}`"),
        };
    }
    CatalogError {
        status: StatusCode::METHOD_NOT_ALLOWED,
        kind: "UnsupportedOperationException",
        message: format!("cannot {method} `{path}`: this catalog only reads"),
    }
}
