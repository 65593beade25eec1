//! Views as tables of a snapshot.
//!
//! The plan of a view is the same for every query but for the rows and files below it, so it is
//! made once, over tables without rows, and its tables are replaced in each query. The planner
//! then inlines it: conditions and columns of the query reach the table as if it were named itself.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{TableReference, plan_datafusion_err};
use datafusion::datasource::ViewTable;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{LogicalPlan, TableSource};
use datafusion::prelude::SessionContext;
use futures::FutureExt;
use weir_datafile::{CutoffSide, TableSnapshot, VisibilityCutoff};
use weir_tables::{TABLES, VIEWS, ViewSpec};

use crate::table_provider::StoreTable;

/// Plans over tables without rows, by view.
static PLANS: LazyLock<HashMap<&str, LogicalPlan>> = LazyLock::new(|| {
    let state = state_without_rows();
    VIEWS.iter().map(|view| (view.table.name, plan(&state, view.sql))).collect()
});

fn plan(state: &SessionState, sql: &str) -> LogicalPlan {
    let plan = state.create_logical_plan(sql).now_or_never();
    let plan = plan.expect("tables without files are found at once");
    plan.expect("the query of a view is right: a test plans each one")
}

fn state_without_rows() -> SessionState {
    let context = SessionContext::new();
    let horizon = VisibilityCutoff { ts: i64::MAX, side: CutoffSide::Past };
    for spec in TABLES {
        let table = StoreTable::new(spec, TableSnapshot::default(), None, horizon);
        context.register_table(spec.name, Arc::new(table)).expect("names of tables differ");
    }
    context.state()
}

/// The view over the tables that `source` has.
pub(crate) fn provider(
    view: &ViewSpec,
    source: &dyn Fn(&TableReference) -> Option<Arc<dyn TableSource>>,
) -> Result<Arc<dyn TableProvider>, DataFusionError> {
    let plan = PLANS[view.table.name].clone();
    let plan = plan.transform_down_with_subqueries(|node| match node {
        LogicalPlan::TableScan(mut scan) => {
            scan.source = source(&scan.table_name)
                .ok_or_else(|| plan_datafusion_err!("{} is no table", scan.table_name))?;
            Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
        }
        other => Ok(Transformed::no(other)),
    });
    Ok(Arc::new(ViewTable::new(plan.data()?, Some(view.sql.to_owned()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_have_the_columns_of_their_specs() {
        for view in VIEWS {
            let plan = &PLANS[view.table.name];
            let planned: Vec<_> = plan
                .schema()
                .fields()
                .iter()
                .map(|field| (field.name().as_str(), field.data_type().clone()))
                .collect();
            let documented: Vec<_> = view
                .table
                .columns
                .iter()
                .map(|column| (column.name, column.kind.data_type()))
                .collect();
            assert_eq!(planned, documented, "{}", view.table.name);
        }
    }

    /// The scans of a query's plan, with their conditions and columns.
    fn scans(sql: &str) -> Vec<String> {
        let context = SessionContext::new_with_state(state_without_rows());
        for view in VIEWS {
            let table = ViewTable::new(PLANS[view.table.name].clone(), None);
            context.register_table(view.table.name, Arc::new(table)).unwrap();
        }
        let state = context.state();
        let plan = state.optimize(&plan(&state, sql)).unwrap().display_indent().to_string();
        let scans = plan.lines().filter(|line| line.contains("TableScan"));
        scans.map(|line| line.trim().to_owned()).collect()
    }

    #[test]
    fn views_read_what_their_tables_would() {
        let range =
            "ts > timestamp '2026-11-26T12:00:00Z' and ts <= timestamp '2026-11-26T12:00:10Z'";
        for (view, table) in [
            (
                format!(
                    "select host, upstream, max(app_seconds) from proxy_request where {range} group by 1, 2"
                ),
                format!(
                    "select host, coalesce(nullif(proxy_backend, ''), upstream_address), \
                    max(case when upstream_connect_seconds is null and upstream_header_seconds is null then 0.0 \
                      else coalesce(upstream_header_seconds, upstream_response_seconds) end) \
                    from request where tier in ('proxy', 'edge') and {range} group by 1, 2"
                ),
            ),
            (
                format!(
                    "select endpoint, count(*) from listener_queue where is_full and {range} group by 1"
                ),
                format!(
                    "select concat(server_address, server_port), count(*) from listener \
                    where accept_queue_length > 0 and accept_queue_length >= accept_queue_limit and {range} group by 1"
                ),
            ),
            (
                format!("select file, backlog from listen_directive where host = 'a' and {range}"),
                format!(
                    "select file, arguments from config_directive \
                    where directive in ('listen', 'bind', 'Listen') and host = 'a' and {range}"
                ),
            ),
            (
                "select count(*) from finding_now where finding_id = 'a'".to_owned(),
                "select ts, state from finding where finding_id = 'a'".to_owned(),
            ),
        ] {
            assert_eq!(scans(&view), scans(&table), "{view}");
        }
    }
}
