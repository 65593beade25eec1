//! All tables of one snapshot, by the names that queries use.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::TableReference;
use datafusion::datasource::provider_as_source;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::TableSource;
use weir_datafile::{CutoffSide, Snapshot, VisibilityCutoff};
use weir_tables::{TABLES, VIEWS};

use crate::distributed::WorkerFiles;
use crate::file_access::FileAccess;
use crate::peers::PeerRowSource;
use crate::table_provider::StoreTable;
use crate::views;

pub(crate) const SCHEMA: &str = "public";
/// Schema with the same tables, for rows that are too far ahead of the clock.
pub(crate) const FUTURE_SCHEMA: &str = "future";

/// All tables of one snapshot; tables that a query does not reference cost nothing.
#[derive(Clone)]
pub(crate) struct TableCatalog {
    pub(crate) view: Snapshot,
    pub(crate) files: Option<FileAccess>,
    pub(crate) horizon: VisibilityCutoff,
    /// Rows in the memory of other hubs, in a cluster.
    pub(crate) peers: Option<PeerRowSource>,
    /// Splits scans into parts that may run on other hubs.
    pub(crate) spread: Option<Arc<WorkerFiles>>,
}

impl TableCatalog {
    pub(crate) fn of(&self, side: CutoffSide) -> Self {
        Self { horizon: VisibilityCutoff { side, ..self.horizon }, ..self.clone() }
    }

    /// The schema of rows ahead of the clock has no views.
    fn has_views(&self) -> bool {
        self.horizon.side == CutoffSide::Past
    }

    fn provider(&self, name: &str) -> Option<Arc<StoreTable>> {
        let at = TABLES.iter().position(|spec| spec.name == name)?;
        let view = self.view.tables[at].clone();
        let table = StoreTable::new(TABLES[at], view, self.files.clone(), self.horizon);
        Some(Arc::new(table.with_peers(self.peers.clone()).with_spread(self.spread.clone())))
    }

    /// Resolves a table name of a plan.
    pub(crate) fn source(&self, name: &TableReference) -> Option<Arc<dyn TableSource>> {
        let side = match name.schema() {
            None | Some(SCHEMA) => CutoffSide::Past,
            Some(FUTURE_SCHEMA) => CutoffSide::Future,
            Some(_) => return None,
        };
        Some(provider_as_source(self.of(side).provider(name.table())?))
    }
}

impl fmt::Debug for TableCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").finish_non_exhaustive()
    }
}

#[async_trait]
impl SchemaProvider for TableCatalog {
    fn table_names(&self) -> Vec<String> {
        let mut names: Vec<String> = TABLES.iter().map(|spec| spec.name.to_owned()).collect();
        if self.has_views() {
            names.extend(VIEWS.iter().map(|view| view.table.name.to_owned()));
        }
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        if let Some(table) = self.provider(name) {
            return Ok(Some(table));
        }
        match weir_tables::view(name).filter(|_| self.has_views()) {
            Some(view) => Ok(Some(views::provider(view, &|name| self.source(name))?)),
            None => Ok(None),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        weir_tables::table(name).is_some() || self.has_views() && weir_tables::view(name).is_some()
    }
}
