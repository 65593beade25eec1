//! Rows that other hubs have in memory, for a query here.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use async_trait::async_trait;
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
    /// What it is called.
    pub name: String,
    /// Where it is reached.
    pub address: String,
}

/// Rows that are wanted of another hub: those of a table that were not in files at a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAsk {
    /// The change.
    pub snapshot: i64,
    /// The table.
    pub table: String,
    /// Its columns, of which one is `ts`.
    pub columns: Vec<String>,
    /// A condition in SQL; rows that do not fit may be left out.
    pub condition: Option<String>,
    /// So many rows are enough, whichever.
    pub limit: Option<usize>,
}

/// The columns that were asked for.
pub type PeerRows = Vec<RecordBatch>;

/// Why another hub gave no rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerFailure {
    /// It cannot be reached: what only it has is not to be had.
    Gone(String),
    /// Rows of a change that is too long ago were asked for.
    Stale(String),
    /// It is there and does not answer as it should.
    Failed(String),
}

/// The way to other hubs.
#[async_trait]
pub trait Peers: Send + Sync {
    /// Asks one.
    ///
    /// # Errors
    /// Why it gave none.
    async fn rows(&self, peer: &Peer, ask: &PeerAsk) -> Result<PeerRows, PeerFailure>;

    /// The way for pieces of queries, as [`query_channel`](crate::query_channel) makes it; it is kept.
    fn channel(&self, peer: &Peer) -> QueryChannel;
}

/// Rows of others as one query asks for them.
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
    /// Rows of `table` in the memory of all other hubs: the columns that are wanted or that `filters` name, the others NULL.
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
    let text = format!("the hub `{}` does not give its newest rows: {why}", peer.name);
    let hint = "ask again in some seconds; a hub that has ended is not asked";
    DataFusionError::External(Box::new(StoreError::new(kind, text).with_hint(hint)))
}

/// Places of the columns that a scan needs, `ts` among them.
fn columns(table: &TableSpec, projection: Option<&Vec<usize>>, filters: &[Expr]) -> Vec<usize> {
    let Some(projection) = projection else { return (0..table.columns.len()).collect() };
    let named: HashSet<String> = filters
        .iter()
        .flat_map(|filter| filter.column_refs().into_iter().map(|column| column.name.clone()))
        .collect();
    let is_wanted = |place: &usize| {
        let name = table.columns[*place].name;
        projection.contains(place) || name == "ts" || named.contains(name)
    };
    (0..table.columns.len()).filter(is_wanted).collect()
}

/// As much of the filters as can be said in SQL.
fn condition(filters: &[Expr]) -> Option<String> {
    let plain = |filter: &Expr| {
        let filter = filter.clone().transform_names();
        expr_to_sql(&filter).ok()?;
        Some(filter)
    };
    let all = conjunction(filters.iter().filter_map(plain))?;
    Some(expr_to_sql(&all).ok()?.to_string())
}

/// Columns without the name of their table.
pub(crate) trait UnqualifiedColumns {
    fn transform_names(self) -> Self;
}

impl UnqualifiedColumns for Expr {
    fn transform_names(self) -> Self {
        use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
        let bare = |expr: Self| {
            Ok(match expr {
                Self::Column(mut column) => {
                    column.relation = None;
                    Transformed::yes(Self::Column(column))
                }
                other => Transformed::no(other),
            })
        };
        self.clone().transform(bare).data().unwrap_or(self)
    }
}

/// Rows with all columns of their table, NULL where they were not asked for.
fn widen(
    table: &'static TableSpec,
    columns: &[usize],
    rows: &RecordBatch,
) -> PlanResult<Option<MemBatch>> {
    let schema = table.schema();
    let column = |place: usize| -> ArrayRef {
        match columns.iter().position(|found| *found == place) {
            Some(at) => Arc::clone(rows.column(at)),
            None => null_column(schema.field(place).data_type(), rows.num_rows()),
        }
    };
    let widened = (0..table.columns.len()).map(column).collect();
    // NULL in columns that never are: nobody looks at them.
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
