//! Bounds of a statement's size, as errors of the engine.

use datafusion::common::{Result, plan_datafusion_err};
use weir_dialect::SyntaxRefusal;

/// Checks a query.
///
/// # Errors
/// The query is too long or too deep.
pub(crate) fn check_query(sql: &str) -> Result<()> {
    weir_dialect::check_query(sql).map_err(|refusal| error(&refusal))
}

/// Checks a condition on single rows.
///
/// # Errors
/// The condition is too long or too deep.
pub(crate) fn check_condition(sql: &str) -> Result<()> {
    weir_dialect::check_condition(sql).map_err(|refusal| error(&refusal))
}

fn error(refusal: &SyntaxRefusal) -> datafusion::error::DataFusionError {
    plan_datafusion_err!("{refusal}")
}
