//! SQL from PostgreSQL's clients: parameters, catalog, functions.

mod absent_types;
mod array_literals;
mod catalog;
mod catalog_casts;
mod column_names;
mod connect_functions;
mod fragments;
mod functions;
mod parameters;
mod relation;
mod relations;
mod rewrite;
mod settings;
mod source_functions;
mod stand_in;
mod system_columns;
mod type_functions;
mod type_names;

use std::sync::{Arc, OnceLock};

use arrow_array::ArrayRef;
use arrow_schema::{DataType, SchemaRef};
use datafusion::catalog::CatalogProvider;
use datafusion::catalog::MemoryCatalogProvider;
use datafusion::error::DataFusionError;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::LogicalPlan;
use datafusion::scalar::ScalarValue;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use weir_datafile::{ErrorKind, StoreError};

use crate::join_subqueries;
use crate::planning::parse_statement;
use crate::relation_count::check_relations;

pub(crate) use column_names::{OutputName, renamed};
use parameters::ParameterUses;
pub(crate) use settings::ClientSettings;

/// Parameters and result columns of a statement.
#[derive(Clone, Debug)]
pub struct Described {
    /// Types of `$1`, `$2`, …; text where the statement does not determine the type.
    pub parameters: Vec<DataType>,
    /// OIDs of the types to which the statement casts `$1`, `$2`, …, where it does.
    pub oids: Vec<Option<u32>>,
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
    // The catalog has its own `information_schema`, with PostgreSQL's type names.
    options.catalog.information_schema = false;
    for function in functions::all().into_iter().chain(connect_functions::all()) {
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

/// A statement of a PostgreSQL client: its parameters, the settings of the session, and the names of
/// its columns once it is planned.
#[derive(Clone, Default)]
pub(crate) struct PostgresQuery {
    pub(crate) parameters: Vec<ScalarValue>,
    pub(crate) settings: ClientSettings,
    names: Arc<OnceLock<Vec<OutputName>>>,
}

impl PostgresQuery {
    pub(crate) fn new(parameters: Vec<ScalarValue>, settings: ClientSettings) -> Self {
        Self { parameters, settings, names: Arc::default() }
    }

    /// The schema of a result with the names that PostgreSQL gives the columns.
    pub(crate) fn named(&self, schema: &SchemaRef) -> SchemaRef {
        self.names.get().map_or_else(|| Arc::clone(schema), |names| renamed(schema, names))
    }
}

/// Plans a statement with its parameters.
pub(crate) async fn plan(
    state: &SessionState,
    sql: &str,
    query: &PostgresQuery,
) -> Result<LogicalPlan, DataFusionError> {
    let mut statement = parse(state, sql)?;
    if let Statement::Statement(statement) = &statement
        && let Some(names) = column_names::output_names(statement)
    {
        let _ = query.names.set(names);
    }
    rewrite_all(&mut statement, &query.settings)?;
    let plan = join_subqueries::move_below(state.statement_to_plan(statement).await?)?;
    let parameters = &query.parameters;
    if parameters.is_empty() { Ok(plan) } else { plan.with_param_values(parameters.clone()) }
}

fn parse(state: &SessionState, sql: &str) -> Result<Statement, DataFusionError> {
    let statement = parse_statement(state, sql)?;
    check_relations(&statement)?;
    Ok(statement)
}

fn rewrite_all(
    statement: &mut Statement,
    settings: &ClientSettings,
) -> Result<(), DataFusionError> {
    match statement {
        Statement::Statement(statement) => rewrite_one(statement, settings),
        Statement::Explain(explain) => {
            if let Statement::Statement(statement) = &mut *explain.statement {
                rewrite_one(statement, settings);
            }
        }
        _ => {}
    }
    weir_semantics::rewrite(statement, &relation::columns_of)
}

fn rewrite_one(statement: &mut ast::Statement, settings: &ClientSettings) {
    absent_types::rewrite(statement);
    source_functions::rewrite(statement);
    system_columns::rewrite(statement);
    column_names::resolve(statement);
    array_literals::rewrite(statement);
    catalog_casts::rewrite(statement, settings);
    rewrite::rewrite(statement);
}

/// Describes a statement; `known` are the parameter types that the client declared.
pub(crate) async fn describe(
    state: &SessionState,
    sql: &str,
    known: &[Option<DataType>],
    settings: &ClientSettings,
) -> Result<Described, DataFusionError> {
    let mut statement = parse(state, sql)?;
    let (mut uses, mut names) = (ParameterUses::default(), None);
    if let Statement::Statement(statement) = &mut statement {
        uses = ParameterUses::of(statement);
        names = column_names::output_names(statement);
        parameters::compare_items(statement);
    }
    rewrite_all(&mut statement, settings)?;
    let plan = join_subqueries::move_below(state.statement_to_plan(statement).await?)?;
    let found = plan.get_parameter_types()?;
    let numbers = found.keys().filter_map(|name| name.trim_start_matches('$').parse().ok());
    let count = numbers.max().unwrap_or(0).max(uses.count);
    let mut nulls = Vec::new();
    let mut parameters = Vec::new();
    for number in 1..=count {
        let inferred = found.get(&format!("${number}")).and_then(Option::as_ref);
        let kind = known.get(number - 1).cloned().flatten();
        let kind = kind.unwrap_or_else(|| uses.type_of(number, inferred));
        // This plan compares the items of a list.
        let null = match &kind {
            DataType::List(item) if uses.is_list(number) => item.data_type(),
            kind => kind,
        };
        nulls.push(ScalarValue::try_from(null)?);
        parameters.push(kind);
    }
    let plan = if nulls.is_empty() { plan } else { plan.with_param_values(nulls)? };
    let schema = plan.schema().inner();
    let schema = names.map_or_else(|| Arc::clone(schema), |names| renamed(schema, &names));
    let oids = (1..=count).map(|number| uses.cast_oid(number)).collect();
    Ok(Described { parameters, oids, schema })
}

/// Converts parameters, each an array of one value.
pub(crate) fn values(parameters: &[ArrayRef]) -> Result<Vec<ScalarValue>, StoreError> {
    let one = |array: &ArrayRef| ScalarValue::try_from_array(array, 0);
    parameters.iter().map(one).collect::<Result<_, _>>().map_err(|error| {
        StoreError::new(ErrorKind::BadQuery, format!("cannot use a parameter: {error}"))
    })
}

#[cfg(test)]
mod tests;
