//! Rows in the memory of other hubs, for a query on this hub.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use async_trait::async_trait;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DataFusionError, Result as PlanResult};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::utils::conjunction;
use datafusion::sql::unparser::expr_to_sql;
use futures::future::join_all;
use weir_datafile::{ErrorKind, MemBatch, StoreError};
use weir_tables::{TableSpec, null_column};

use crate::distributed::QueryChannel;
use crate::peer_set::PeerSet;

/// Another hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Name of the hub.
    pub name: String,
    /// Address at which it is reached.
    pub address: String,
}

/// Request for a table's rows that another hub has in memory and that were not in files as of a
/// snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAsk {
    /// Number of the snapshot.
    pub snapshot: i64,
    /// Name of the table.
    pub table: String,
    /// Columns to return; must include `ts`.
    pub columns: Vec<String>,
    /// SQL condition; rows that do not match may be left out.
    pub condition: Option<String>,
    /// Any rows up to this number are enough.
    pub limit: Option<usize>,
}

/// Rows with the requested columns.
pub type PeerRows = Vec<RecordBatch>;

/// Reason why another hub returned no rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerFailure {
    /// Unreachable: rows that only this hub has are missing.
    Gone(String),
    /// The requested snapshot is too old.
    Stale(String),
    /// Reachable, but the request failed.
    Failed(String),
}

/// Transport to other hubs.
#[async_trait]
pub trait Peers: Send + Sync {
    /// Requests rows from one hub.
    ///
    /// # Errors
    /// The reason why it returned none.
    async fn rows(&self, peer: &Peer, ask: &PeerAsk) -> Result<PeerRows, PeerFailure>;

    /// Channel for subplans, as [`query_channel`](crate::query_channel) creates it; it is cached.
    fn channel(&self, peer: &Peer) -> QueryChannel;
}

/// Remote rows for one query.
#[derive(Clone)]
pub(crate) struct PeerRowSource {
    pub(crate) peer_set: Arc<PeerSet>,
    pub(crate) snapshot: i64,
}

impl fmt::Debug for PeerRowSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OfPeers").field("snapshot", &self.snapshot).finish_non_exhaustive()
    }
}

impl PeerRowSource {
    /// Rows of `table` in the memory of all other hubs: the columns that the projection or
    /// `filters` reference, the others NULL.
    pub(crate) async fn rows(
        &self,
        table: &'static TableSpec,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> PlanResult<Vec<MemBatch>> {
        let peers = self.peer_set.reachable();
        if peers.is_empty() {
            return Ok(Vec::new());
        }
        let columns = columns(table, projection, filters);
        let ask = PeerAsk {
            snapshot: self.snapshot,
            table: table.name.to_owned(),
            columns: columns.iter().map(|place| table.columns[*place].name.to_owned()).collect(),
            condition: condition(filters),
            limit: limit.filter(|_| filters.is_empty()),
        };
        let answers = peers.iter().map(|peer| self.peer_set.peers.rows(peer, &ask));
        let mut rows = Vec::new();
        for (answer, peer) in join_all(answers).await.into_iter().zip(&peers) {
            match answer {
                Ok(batches) => {
                    self.peer_set.note_reached(peer, None);
                    rows.extend(batches);
                }
                Err(PeerFailure::Gone(why)) => self.peer_set.note_reached(peer, Some(&why)),
                Err(PeerFailure::Stale(why)) => return Err(refused(ErrorKind::Moved, peer, &why)),
                Err(PeerFailure::Failed(why)) => {
                    return Err(refused(ErrorKind::Io, peer, &why));
                }
            }
        }
        rows.iter().filter_map(|rows| widen(table, &columns, rows).transpose()).collect()
    }
}

fn refused(kind: ErrorKind, peer: &Peer, why: &str) -> DataFusionError {
    let text = format!("the hub `{}` cannot return its newest rows: {why}", peer.name);
    let hint = "retry in a few seconds; a hub that has stopped is not queried";
    DataFusionError::External(Box::new(StoreError::new(kind, text).with_hint(hint)))
}

/// Indexes of the columns that a scan needs, including `ts`.
fn columns(table: &TableSpec, projection: Option<&Vec<usize>>, filters: &[Expr]) -> Vec<usize> {
    let Some(projection) = projection else { return (0..table.columns.len()).collect() };
    let named: HashSet<String> = filters
        .iter()
        .flat_map(|filter| filter.column_refs().into_iter().map(|column| column.name.clone()))
        .collect();
    (0..table.columns.len())
        .filter(|place| {
            let name = table.columns[*place].name;
            projection.contains(place) || name == "ts" || named.contains(name)
        })
        .collect()
}

/// The filters that can be expressed in SQL, as one condition.
fn condition(filters: &[Expr]) -> Option<String> {
    let all = conjunction(filters.iter().filter_map(|filter| {
        let filter = filter.clone().transform_names();
        expr_to_sql(&filter).ok()?;
        Some(filter)
    }))?;
    Some(expr_to_sql(&all).ok()?.to_string())
}

/// Removes table qualifiers from columns.
pub(crate) trait UnqualifiedColumns {
    fn transform_names(self) -> Self;
}

impl UnqualifiedColumns for Expr {
    fn transform_names(self) -> Self {
        self.clone().transform(without_relation).data().unwrap_or(self)
    }
}

fn without_relation(expr: Expr) -> Result<Transformed<Expr>, DataFusionError> {
    Ok(match expr {
        Expr::Column(mut column) => {
            column.relation = None;
            Transformed::yes(Expr::Column(column))
        }
        other => Transformed::no(other),
    })
}

/// Adds the table's other columns, as NULL.
fn widen(
    table: &'static TableSpec,
    columns: &[usize],
    rows: &RecordBatch,
) -> PlanResult<Option<MemBatch>> {
    let schema = table.schema();
    let widened = (0..table.columns.len())
        .map(|place: usize| -> ArrayRef {
            match columns.iter().position(|found| *found == place) {
                Some(at) => Arc::clone(rows.column(at)),
                None => null_column(schema.field(place).data_type(), rows.num_rows()),
            }
        })
        .collect();
    // Allow NULL even in required columns: nothing reads them.
    let lax = Arc::new(arrow_schema::Schema::new(
        schema
            .fields()
            .iter()
            .map(|field| field.as_ref().clone().with_nullable(true))
            .collect::<Vec<_>>(),
    ));
    let rows = RecordBatch::try_new(lax, widened)?;
    Ok(MemBatch::new(rows))
}
