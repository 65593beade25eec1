//! PostgreSQL's meaning of SQL, where the engine has another one or none.
//!
//! Recorded answers of PostgreSQL test it, beside `weir-sql`, which runs queries.
//!
//! Three steps change a query: [`rewrite`] its syntax, before names are resolved; `typed` its
//! expressions, once their types are known; and the analyzer rules whole plans, for what depends on
//! keys of groups, sorts and joins. What none of them can mend is refused.

mod array_functions;
mod bytes_functions;
mod checked_arithmetic;
mod checked_sum;
mod clock_functions;
mod decimal_arithmetic;
mod difference_casts;
mod duplicate_rows;
mod exact_not_in;
mod guards;
mod interval_aggregate;
mod interval_functions;
mod interval_keys;
mod json_building;
mod json_functions;
mod letter_case;
mod numeric_sum;
mod only_value;
mod operator_planner;
mod ordered_set;
mod refused_plans;
mod rewrite_parts;
mod row_function;
mod text_functions;
mod typed;
mod typed_objects;
mod typed_texts;
mod typed_times;
mod value_text;

use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::sql::parser::Statement;
use weir_dialect::{CatalogColumns, rewrite_statement};

pub use json_functions::CLIENT_TYPE;

/// Rewrites a statement to one that means the same to the engine.
///
/// # Errors
/// `Plan`: a shape that the engine would answer wrongly.
pub fn rewrite(
    statement: &mut Statement,
    catalog: CatalogColumns<'_>,
) -> Result<(), DataFusionError> {
    match statement {
        Statement::Statement(statement) => rewrite_statement(statement, catalog)
            .map_err(|refusal| DataFusionError::Plan(refusal.to_string())),
        Statement::Explain(explain) => rewrite(&mut explain.statement, catalog),
        _ => Ok(()),
    }
}

/// The engine's other names of functions that are replaced here.
const ALIASES: [(&str, &str); 6] = [
    ("array_length", "list_length"),
    ("array_remove", "list_remove"),
    ("array_replace", "list_replace"),
    ("array_to_string", "list_to_string"),
    ("array_to_string", "array_join"),
    ("array_to_string", "list_join"),
];

/// Adds functions, rewrites and analyzer rules to a session.
///
/// # Errors
/// The registry of the session takes no functions.
pub fn register(state: &mut SessionState) -> Result<(), DataFusionError> {
    let functions = [
        clock_functions::all(),
        interval_functions::all(),
        text_functions::all(),
        checked_arithmetic::all(),
        value_text::all(),
        array_functions::all(),
        bytes_functions::all(),
        json_building::all(),
        json_functions::all(),
        letter_case::all(),
        vec![duplicate_rows::duplicate_number(), numeric_sum::named_value()],
    ];
    for function in functions.into_iter().flatten() {
        // A bound is found by name: an alias of the engine's function would bring that back.
        let aliases = ALIASES.iter().filter(|(name, _)| *name == function.name());
        let aliases: Vec<_> = aliases.map(|(_, alias)| *alias).collect();
        state.register_udf(Arc::new(function.with_aliases(aliases)))?;
    }
    let sums = [checked_sum::sum(), only_value::only_value()].into_iter();
    let sums = sums.chain(numeric_sum::placeholders());
    for function in ordered_set::all().into_iter().chain(interval_aggregate::all()).chain(sums) {
        state.register_udaf(Arc::new(function))?;
    }
    state.register_expr_planner(Arc::new(operator_planner::OperatorPlanner))?;
    state.register_function_rewrite(Arc::new(typed::TypedRewrite))?;
    state.add_analyzer_rule(Arc::new(difference_casts::DifferenceCasts));
    state.add_analyzer_rule(Arc::new(exact_not_in::ExactNotIn));
    state.add_analyzer_rule(Arc::new(refused_plans::RefuseKnownWrong));
    state.add_analyzer_rule(Arc::new(duplicate_rows::NumberDuplicates));
    state.add_analyzer_rule(Arc::new(interval_keys::IntervalKeys));
    Ok(())
}
