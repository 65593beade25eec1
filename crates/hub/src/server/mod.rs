//! The page and the HTTP API (`docs/api.md`) on one port.

mod act;
mod answer;
mod bodies;
mod caller;
mod check_results;
mod cluster;
mod compare;
mod connection;
mod edge;
mod findings;
mod forecast;
mod guard;
mod heals;
mod iceberg;
mod incidents;
mod judgements;
mod link;
mod metrics;
mod page;
mod parse;
mod pg;
mod replay;
mod row_encoder;
mod rules;
mod schema;
mod slos;
mod sql;
mod sql_body;
mod status;
mod thresholds;
mod wire;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use serde_json::{Map, Value};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weir_agent_core::edge::EdgeControl;
use weir_agent_core::watch::WatchStatus;
use weir_config::slos::SloSpec;
use weir_intake::{Intake, TlsServer};
use weir_notify::mail_reply::MAIL_BYTES_MAX;
use weir_process::meter::Meter;
use weir_store::{Query, QueryLimits, QueryResult, Store};
use weir_tables::{Clock, Micros};

use crate::cells::Cells;
use crate::fleet::Fleet;
use crate::haproxy;
use crate::heal::Heals;
use crate::logins::Logins;
use crate::notices::Notices;
use crate::outputs::Outputs;
use crate::rule_runner::RuleRunner;
pub(crate) use answer::Refusal;
use bodies::BodyRoom;
pub(crate) use caller::Callers;
pub(crate) use cluster::OverHttp;
pub(crate) use guard::Grant;
pub(crate) use pg::PgServer;
pub(crate) use sql::require_json;
use sql_body::UserStream;

/// Bodies of requests that are no parcels.
const MAX_BODY_BYTES: usize = 1 << 20;

/// What every handler can reach.
pub(crate) struct App {
    pub(crate) store: Arc<Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) judge: Arc<RuleRunner>,
    /// For trying out pipelines.
    pub(crate) parsers: weir_parse::Parsers,
    pub(crate) meter: Arc<Meter>,
    /// What this host's collectors see; `None` on a hub.
    pub(crate) watch: Option<Arc<WatchStatus>>,
    /// Agents that are connected.
    pub(crate) fleet: Arc<Fleet>,
    /// Copies of rows to other systems.
    pub(crate) outputs: Arc<Outputs>,
    /// Incidents and the notices of them.
    pub(crate) notices: Arc<Notices>,
    /// Repairs of hosts.
    pub(crate) heals: Arc<Heals>,
    /// What results of checks are passed to, once it runs.
    pub(crate) intake: OnceLock<Arc<Intake>>,
    /// Objectives that are counted.
    pub(crate) slos: Vec<SloSpec>,
    /// The edge of this process, once it runs.
    pub(crate) edge: OnceLock<Arc<EdgeControl>>,
    /// Runtime sockets of HAProxys that may be driven.
    pub(crate) haproxy: Vec<String>,
    pub(crate) role: &'static str,
    pub(crate) host: String,
    pub(crate) data_dir: String,
    pub(crate) started: Micros,
    pub(crate) logins: Arc<Logins>,
    pub(crate) host_names: Vec<String>,
    pub(crate) ui_dir: Option<PathBuf>,
    /// Where rules of the user's own are.
    pub(crate) rules_dir: Option<PathBuf>,
    pub(crate) queries: Arc<Semaphore>,
    pub(crate) callers: Callers,
    pub(crate) query_limits: QueryLimits,
    pub(crate) parcel_bytes: usize,
    pub(crate) capture_bytes: usize,
}

/// The app as handlers hold it.
pub(crate) type SharedApp = Arc<App>;

impl App {
    /// Waits for a permit to query; their number is limited in all and for each user.
    pub(crate) async fn turn(&self) -> Result<QueryPermit, Refusal> {
        let waiting = async {
            let own = self.callers.turn().await?;
            let all = Arc::clone(&self.queries).acquire_owned().await.ok()?;
            Some(QueryPermit { _own: own, _all: all })
        };
        let turn = tokio::time::timeout(self.query_limits.timeout, waiting).await;
        turn.ok().flatten().ok_or_else(|| {
            Refusal::new(
                axum::http::StatusCode::SERVICE_UNAVAILABLE,
                "cannot query: too many queries are running",
            )
            .hint("try again, or raise `api.concurrent_queries` or `api.user_queries`")
        })
    }

    /// Runs a query of a user.
    pub(crate) async fn query(&self, sql: &str, rows: usize) -> Result<QueryResult, Refusal> {
        let _turn = self.turn().await?;
        let result = self.store.query(self.user_query(sql, rows)).run().await;
        self.meter.count_query(result.is_ok());
        Ok(result?)
    }

    /// Starts a query of a user, whose rows are read as they come.
    async fn stream(&self, sql: &str, rows: usize) -> Result<UserStream, Refusal> {
        let permit = self.turn().await?;
        let rows = self.store.query(self.user_query(sql, rows)).stream().await;
        let rows = rows.inspect_err(|_| self.meter.count_query(false))?;
        Ok(UserStream { rows, meter: Arc::clone(&self.meter), _permit: permit })
    }

    fn user_query(&self, sql: &str, rows: usize) -> Query {
        let limits = QueryLimits { rows, ..self.query_limits };
        Query::new(sql).caller(&caller::caller()).limits(limits)
    }
}

/// Held while a query runs.
pub(crate) struct QueryPermit {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

/// Serves until `ended` comes, then lets open connections finish for a moment.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsServer>,
    app: SharedApp,
    ended: tokio::sync::watch::Receiver<bool>,
) -> std::io::Result<()> {
    connection::serve(listener, tls, router(app), ended).await
}

fn router(app: SharedApp) -> Router {
    let parcels = Router::new().route("/api/link/parcel", post(link::parcel));
    let parcels = BodyRoom::new(app.parcel_bytes, "api.parcel_bytes").around(parcels);
    let captures = Router::new().route("/api/wire", post(wire::post));
    let captures = BodyRoom::new(app.capture_bytes, "api.capture_bytes").around(captures);
    let mails = Router::new().route("/api/notify/reply", post(incidents::mail_reply));
    let mails = BodyRoom::new(2 * MAIL_BYTES_MAX, "").around(mails);
    let links = Router::new().route("/a/{token}", get(act::show).post(act::act));
    let links = BodyRoom::new(act::FORM_BYTES_MAX, "").around(links);
    BodyRoom::new(MAX_BODY_BYTES, "")
        .around(small_routes())
        .merge(parcels)
        .merge(captures)
        .merge(mails)
        .merge(links)
        .fallback(page::serve)
        .layer(from_fn_with_state(app.clone(), guard::guard))
        .with_state(app)
}

/// Routes whose bodies are small.
fn small_routes() -> Router<SharedApp> {
    Router::new()
        .route("/api/sql", post(sql::post).get(sql::get))
        .route("/api/sql/forecast", post(forecast::post))
        .route("/api/compare", post(compare::post))
        .route("/api/parse", post(parse::post))
        .route("/api/findings", get(findings::list))
        .route("/api/findings/{finding_id}", get(findings::one))
        .route("/api/findings/{finding_id}/judgement", post(judgements::judge))
        .route("/api/incidents", get(incidents::list))
        .route("/api/incidents/{incident_id}", get(incidents::one))
        .route("/api/incidents/{incident_id}/ack", post(incidents::ack))
        .route("/api/incidents/{incident_id}/resolve", post(incidents::resolve))
        .route("/api/incidents/{incident_id}/judgement", post(incidents::judge))
        .route("/api/silences", get(incidents::silences).post(incidents::silence))
        .route("/api/silences/{silence_id}/end", post(incidents::end_silence))
        .route("/api/notices", get(incidents::notices))
        .route("/api/oncall", get(incidents::on_call))
        .route("/api/oncall/{calendar}", get(incidents::calendar))
        .route("/api/notify/test", post(incidents::test))
        .route("/api/actions", get(heals::list))
        .route("/api/actions/{run_id}/approve", post(heals::approve))
        .route("/api/actions/{run_id}/refuse", post(heals::refuse))
        .route("/api/actions/{run_id}/undo", post(heals::undo))
        .route("/api/heal/stop", post(heals::stop))
        .route("/api/heal/start", post(heals::start))
        .route("/api/heal/raise", post(heals::raise))
        .route("/api/heal/locks", get(heals::locks).post(heals::lock))
        .route("/api/heal/locks/{lock_id}/end", post(heals::unlock))
        .route("/api/rules", get(rules::list))
        .route("/api/rules/{rule}/replay", get(replay::replay))
        .route("/api/thresholds", get(thresholds::list))
        .route("/api/thresholds/{rule}", post(thresholds::accept))
        .route("/api/slos", get(slos::list))
        .route("/api/tables", get(schema::list))
        .route("/api/edge", get(edge::state))
        .route("/api/edge/config", get(edge::config).put(edge::change))
        .route("/api/edge/backend", post(edge::weigh))
        .route("/api/haproxy", get(haproxy::state))
        .route("/api/haproxy/server", post(haproxy::order))
        .route("/api/status", get(status::status))
        .route("/api/store/flush", post(status::flush))
        .route("/healthz", get(status::healthz))
        .route("/metrics", get(metrics::metrics))
        .route("/api/cluster/rows", post(cluster::rows))
        .route(cluster::PIECES, get(cluster::pieces))
        .route("/api/cluster/order", post(cluster::order))
        .route("/api/link/positions", post(link::positions))
        .route("/v1/check-results", post(check_results::post))
        .nest("/iceberg", iceberg::router())
}

/// Rows as JSON objects.
fn objects(result: &QueryResult) -> Vec<Value> {
    let names: Vec<&String> = result.schema.fields().iter().map(|field| field.name()).collect();
    let mut out = Vec::new();
    for batch in &result.batches {
        let cells = Cells::new(batch);
        for row in 0..cells.row_count() {
            let pairs = names.iter().map(|name| (*name).clone()).zip(cells.row(row));
            out.push(Value::Object(pairs.collect::<Map<_, _>>()));
        }
    }
    out
}
