//! From SQL to a plan: the catalog with its names, the statements that are allowed, and the task that
//! ends with its caller.

use std::sync::Arc;

use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemoryCatalogProvider, MemoryCatalogProviderList,
};
use datafusion::common::plan_err;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SQLOptions;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use weir_datafile::{CutoffSide, ErrorKind, StoreError};
use weir_dialect::PostgresSyntax;

use crate::join_subqueries;
use crate::postgres;
use crate::query_request::QueryMode;
use crate::relation_count::check_relations;
use crate::statement_size::check_query;
use crate::tables::{FUTURE_SCHEMA, SCHEMA, TableCatalog};

/// Name of the only catalog.
pub(crate) const CATALOG: &str = "weir";

/// Catalogs with the table names that are visible in this query mode.
pub(crate) fn catalogs(tables: &TableCatalog, mode: &QueryMode) -> Arc<dyn CatalogProviderList> {
    let catalog = MemoryCatalogProvider::new();
    for (name, side) in [(SCHEMA, CutoffSide::Past), (FUTURE_SCHEMA, CutoffSide::Future)] {
        let tables = tables.of(side);
        catalog.register_schema(name, Arc::new(tables)).expect("memory catalogs take schemas");
    }
    if let QueryMode::Postgres(_) = mode {
        postgres::add_namespaces(&catalog);
    }
    let catalogs = MemoryCatalogProviderList::new();
    catalogs.register_catalog(CATALOG.into(), Arc::new(catalog));
    Arc::new(catalogs)
}

/// Aborts the task when the caller is gone.
pub(crate) struct AbortOnDrop(pub(crate) tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Parses one statement; its size is checked before.
pub(crate) fn parse_statement(
    state: &SessionState,
    sql: &str,
) -> Result<Statement, DataFusionError> {
    check_query(sql)?;
    let depth_max = state.config().options().sql_parser.recursion_limit.get();
    let parser = DFParserBuilder::new(sql).with_dialect(&PostgresSyntax);
    let mut statements = parser.with_recursion_limit(depth_max).build()?.parse_statements()?;
    let count = statements.len();
    match statements.pop_front() {
        Some(statement) if count == 1 => Ok(statement),
        Some(_) => plan_err!("cannot run {count} statements as one query: send them one by one"),
        None => plan_err!("there is no statement: write a query, such as `select 1`"),
    }
}

/// Plans a query from its SQL.
pub(crate) async fn plan_query(
    state: &SessionState,
    sql: &str,
) -> Result<LogicalPlan, DataFusionError> {
    let mut statement = parse_statement(state, sql)?;
    weir_semantics::rewrite(&mut statement, &|_| None)?;
    check_relations(&statement)?;
    let plan = join_subqueries::move_below(state.statement_to_plan(statement).await?)?;
    verify(&plan)?;
    Ok(plan)
}

pub(crate) fn verify(plan: &LogicalPlan) -> Result<(), DataFusionError> {
    let reads_only =
        SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    reads_only.verify_plan(plan)
}

pub(crate) fn crash(error: &tokio::task::JoinError) -> StoreError {
    StoreError::new(ErrorKind::Io, format!("the query broke off: {error}"))
}
