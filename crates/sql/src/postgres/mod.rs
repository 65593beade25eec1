//! SQL from PostgreSQL's clients: parameters, catalog, functions.

mod catalog;
mod functions;
mod relation;
mod rewrite;
mod settings;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arrow_array::ArrayRef;
use arrow_schema::{DataType, SchemaRef};
use datafusion::catalog::CatalogProvider;
use datafusion::catalog::MemoryCatalogProvider;
use datafusion::common::config::Dialect;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::DataFusionError;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::scalar::ScalarValue;
use datafusion::sql::parser::Statement;
use weir_datafile::{ErrorKind, StoreError};

use crate::relation_count::check_relations;
use crate::statement_size::check_query;

/// Parameters and result columns of a statement.
#[derive(Clone, Debug)]
pub struct Described {
    /// Types of `$1`, `$2`, …; text where the statement does not determine the type.
    pub parameters: Vec<DataType>,
    /// Names and types of the result columns.
    pub schema: SchemaRef,
}

/// Session state with PostgreSQL's dialect and functions, created on first use.
#[derive(Default)]
pub(crate) struct Postgres(OnceLock<SessionState>);

impl Postgres {
    /// The engine's state with the functions of the catalog; created for the first client.
    pub(crate) fn state(&self, own: &SessionState) -> SessionState {
        self.0.get_or_init(|| extended(own)).clone()
    }
}

fn extended(own: &SessionState) -> SessionState {
    let mut state = own.clone();
    let options = state.config_mut().options_mut();
    options.sql_parser.dialect = Dialect::PostgreSQL;
    // The catalog has its own `information_schema`, with PostgreSQL's type names.
    options.catalog.information_schema = false;
    for function in functions::all() {
        state.register_udf(Arc::new(function)).expect("this registry takes functions");
    }
    state
}

/// Adds `pg_catalog` and `information_schema`.
pub(crate) fn add_namespaces(catalog: &MemoryCatalogProvider) {
    for (name, namespace) in catalog::namespaces() {
        catalog.register_schema(name, namespace).expect("memory catalogs take schemas");
    }
}

/// Plans a statement with these parameters.
pub(crate) async fn plan(
    state: &SessionState,
    sql: &str,
    parameters: &[ScalarValue],
) -> Result<LogicalPlan, DataFusionError> {
    let plan = open_plan(state, sql).await?;
    if parameters.is_empty() { Ok(plan) } else { plan.with_param_values(parameters.to_vec()) }
}

async fn open_plan(state: &SessionState, sql: &str) -> Result<LogicalPlan, DataFusionError> {
    check_query(sql)?;
    let mut statement = state.sql_to_statement(sql, &Dialect::PostgreSQL)?;
    check_relations(&statement)?;
    match &mut statement {
        Statement::Statement(statement) => rewrite::rewrite(statement),
        Statement::Explain(explain) => {
            if let Statement::Statement(statement) = &mut *explain.statement {
                rewrite::rewrite(statement);
            }
        }
        _ => {}
    }
    state.statement_to_plan(statement).await
}

/// Describes a statement; `known` are the parameter types that the client declared.
pub(crate) async fn describe(
    state: &SessionState,
    sql: &str,
    known: &[Option<DataType>],
) -> Result<Described, DataFusionError> {
    let plan = open_plan(state, sql).await?;
    let (found, cast) = (plan.get_parameter_types()?, cast_types(&plan)?);
    let count = found
        .keys()
        .filter_map(|name| name.trim_start_matches('$').parse::<usize>().ok())
        .max()
        .unwrap_or(0);
    let parameters: Vec<DataType> = (1..=count)
        .map(|at| {
            let name = format!("${at}");
            let inferred = [&found, &cast].into_iter().find_map(|types| types.get(&name)?.clone());
            let known = known.get(at - 1).cloned().flatten();
            known.or(inferred).filter(|kind| *kind != DataType::Null).unwrap_or(DataType::Utf8)
        })
        .collect();
    let nulls = parameters.iter().map(ScalarValue::try_from).collect::<Result<Vec<_>, _>>()?;
    let plan = if nulls.is_empty() { plan } else { plan.with_param_values(nulls)? };
    Ok(Described { parameters, schema: Arc::clone(plan.schema().inner()) })
}

/// Types of parameters that the statement casts, such as `bigint` for `$1::bigint`, as PostgreSQL
/// infers them: a driver may refuse to send a number for a text parameter. `None` for a parameter
/// with casts to different types.
fn cast_types(plan: &LogicalPlan) -> Result<HashMap<String, Option<DataType>>, DataFusionError> {
    let mut types: HashMap<String, Option<DataType>> = HashMap::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                if let Some((name, kind)) = cast_parameter(part) {
                    let known = types.entry(name.clone()).or_insert_with(|| Some(kind.clone()));
                    if known.as_ref() != Some(kind) {
                        *known = None;
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(types)
}

/// Name and type of a parameter that this expression casts to a type that clients can send in text
/// and in binary.
fn cast_parameter(expression: &Expr) -> Option<(&String, &DataType)> {
    let Expr::Cast(cast) = expression else { return None };
    let Expr::Placeholder(parameter) = &*cast.expr else { return None };
    let kind = cast.field.data_type();
    let is_sendable = kind.is_signed_integer()
        || kind.is_floating()
        || matches!(kind, DataType::Boolean | DataType::Date32 | DataType::Timestamp(..));
    is_sendable.then_some((&parameter.id, kind))
}

/// Converts parameters, each an array of one value.
pub(crate) fn values(parameters: &[ArrayRef]) -> Result<Vec<ScalarValue>, StoreError> {
    let one = |array: &ArrayRef| ScalarValue::try_from_array(array, 0);
    parameters.iter().map(one).collect::<Result<_, _>>().map_err(|error| {
        StoreError::new(ErrorKind::BadQuery, format!("cannot use a parameter: {error}"))
    })
}
