//! Bounds on what one row, one function call or one constant can make of little SQL.
//!
//! Operators reserve their memory in the query's pool, and are cancelled between two batches.
//! Neither holds within the evaluation of an expression: `repeat('x', 1000000000)` allocates at
//! once, and `levenshtein` of two long texts runs for minutes. So functions that amplify their
//! arguments are wrapped ([`bounded_function`]): the worst case of each row is estimated before the
//! call, a batch that may exceed the bound is evaluated in parts, and a row that exceeds it is
//! refused. The same bound applies to values that are copied to each row: constants and subqueries
//! ([`WideConstants`]), results of window functions ([`window_result`]) and wide rows of joins
//! ([`row_width`]).

mod argument_size;
mod bounded_function;
mod function_rewrite;
mod row_cost;
mod row_width;
mod string_concat;
mod wide_constants;
mod window_result;

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::common::{Result, exec_err};
use datafusion::execution::{FunctionRegistry, SessionState};

use bounded_function::bounded;
pub(crate) use function_rewrite::BoundRewrite;
pub(crate) use row_width::{SMALL_BATCH_ROWS, copies_rows, has_joins, limit_row_width};
pub(crate) use wide_constants::WideConstants;

use crate::limits::{QueryUsage, USAGE, size};

/// Share of a query's memory that one evaluation of a function may make.
const MEMORY_SHARE: usize = 4;
/// Least limit of one evaluation, for queries with little memory.
const BYTES_MIN: u64 = 16 << 20;
/// Limit of one evaluation outside of a query, as in a condition of a live view.
const BYTES_OUTSIDE_QUERIES: u64 = 64 << 20;
/// Timeout of one evaluation outside of a query.
const TIME_OUTSIDE_QUERIES: Duration = Duration::from_secs(10);

/// Limits of one evaluation of one expression.
pub(crate) struct EvaluationLimit {
    pub(crate) bytes: u64,
    usage: Option<Arc<QueryUsage>>,
    timeout: Duration,
    started: Instant,
}

impl EvaluationLimit {
    /// Limits of the query that the current task belongs to.
    pub(crate) fn current() -> Self {
        let usage = USAGE.try_with(Arc::clone).ok();
        let (bytes, timeout) = match &usage {
            Some(usage) => {
                let share = (usage.limits.memory_bytes / MEMORY_SHARE) as u64;
                (share.max(BYTES_MIN), usage.limits.timeout)
            }
            None => (BYTES_OUTSIDE_QUERIES, TIME_OUTSIDE_QUERIES),
        };
        Self { bytes, usage, timeout, started: Instant::now() }
    }

    /// # Errors
    /// The query has ended, or this evaluation alone takes longer than the query may.
    fn check_time(&self, function: &str) -> Result<()> {
        let has_ended = self.usage.as_ref().is_some_and(|usage| usage.has_ended());
        if has_ended || self.started.elapsed() > self.timeout {
            return exec_err!(
                "`{function}` was stopped after {} s: pass it shorter texts or fewer rows",
                self.started.elapsed().as_secs()
            );
        }
        Ok(())
    }

    /// Marks the query as one that needs smaller batches.
    fn meet_wide_row(&self) {
        if let Some(usage) = &self.usage {
            usage.meet_wide_row();
        }
    }

    /// Adds bytes that window functions of the query have made.
    fn add_window_bytes(&self, function: &str, bytes: u64) -> Result<()> {
        let sum = self.usage.as_ref().map_or(bytes, |usage| usage.add_window_bytes(bytes));
        if sum > self.bytes {
            return exec_err!(
                "`{function}` as a window function would make {}, the limit is {}: group by the \
                 columns instead, or use a smaller frame",
                size(sum),
                size(self.bytes)
            );
        }
        Ok(())
    }
}

/// Wraps the functions of the registry that amplify their arguments.
pub(crate) fn wrap_functions(state: &mut SessionState) -> Result<()> {
    let functions: Vec<_> = state.scalar_functions().values().map(Arc::clone).collect();
    for function in functions {
        if let Some(wrapped) = bounded(&function) {
            state.register_udf(Arc::new(wrapped))?;
        }
    }
    state.register_udf(Arc::new(string_concat::string_concat()))?;
    state.register_udf(Arc::new(wide_constants::wide_constant()))?;
    state.register_function_rewrite(Arc::new(BoundRewrite))
}
