//! Filters that hubs send to each other: a closed grammar of columns, literals, operators and a
//! list of functions.
//!
//! A filter is decoded from bytes of another process. An expression can contain a whole plan (a
//! subquery), and a plan can read and write files: everything that is not listed here is rejected
//! before it is planned.

use std::panic::{AssertUnwindSafe, catch_unwind};

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, exec_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::Expr;
use datafusion_proto::bytes::Serializeable;

/// Functions that filters may call. Each is pure, and its result is not much larger than its
/// arguments.
const FUNCTIONS: &[&str] = &[
    "abs",
    "btrim",
    "ceil",
    "character_length",
    "checked_add",
    "checked_divide",
    "checked_multiply",
    "checked_subtract",
    "coalesce",
    "contains",
    "date_bin",
    "date_part",
    "date_trunc",
    "defined_result",
    "ends_with",
    "floor",
    "has_phrase",
    "has_token",
    "ip_in",
    "ip_network",
    "left",
    "lower",
    "ltrim",
    "nullif",
    "octet_length",
    "regexp_like",
    "right",
    "round",
    "rtrim",
    "search",
    "split_part",
    "starts_with",
    "string_concat",
    "strpos",
    "substr",
    "to_timestamp",
    "to_timestamp_micros",
    "to_timestamp_millis",
    "to_timestamp_seconds",
    "upper",
    "url_host",
    "url_parameter",
];

/// Limit of the parts of one filter, so that a hub cannot be made to plan without end.
const PARTS_MAX: usize = 100_000;

/// Decodes a filter from another hub.
///
/// # Errors
/// The bytes are not a filter, or it has parts outside of the grammar.
pub(super) fn decode(bytes: &[u8], context: &TaskContext) -> Result<Expr> {
    // The engine's reader of lists panics at offsets beyond their bytes.
    let read = catch_unwind(AssertUnwindSafe(|| Expr::from_bytes_with_ctx(bytes, context)));
    let Ok(filter) = read else {
        return exec_err!("a piece of a query has a constant that cannot be read");
    };
    let filter = filter?;
    match unlisted(&filter)? {
        Some(part) => {
            exec_err!("a piece of a query filters by {part}, which is not run for others")
        }
        None => Ok(filter),
    }
}

/// Whether other hubs accept this filter. The ones that they do not accept are evaluated above the
/// scan only.
pub(crate) fn is_accepted(filter: &Expr) -> bool {
    unlisted(filter).is_ok_and(|part| part.is_none())
}

/// First part of the filter that is outside of the grammar.
fn unlisted(filter: &Expr) -> Result<Option<String>> {
    let (mut found, mut count) = (None, 0);
    filter.apply(|part| {
        count += 1;
        found = if count > PARTS_MAX {
            Some(format!("more than {PARTS_MAX} parts"))
        } else {
            name_unlisted(part)
        };
        Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn name_unlisted(part: &Expr) -> Option<String> {
    match part {
        Expr::Alias(_)
        | Expr::Column(_)
        | Expr::Literal(..)
        | Expr::BinaryExpr(_)
        | Expr::Like(_)
        | Expr::Not(_)
        | Expr::IsNotNull(_)
        | Expr::IsNull(_)
        | Expr::IsTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNotFalse(_)
        | Expr::IsNotUnknown(_)
        | Expr::Negative(_)
        | Expr::Between(_)
        | Expr::Case(_)
        | Expr::Cast(_)
        | Expr::TryCast(_)
        | Expr::InList(_) => None,
        Expr::ScalarFunction(call) if FUNCTIONS.contains(&call.name()) => None,
        Expr::ScalarFunction(call) => Some(format!("function `{}`", call.name())),
        Expr::ScalarSubquery(_)
        | Expr::InSubquery(_)
        | Expr::Exists(_)
        | Expr::SetComparison(_) => Some("a subquery".to_owned()),
        Expr::AggregateFunction(_) => Some("an aggregate function".to_owned()),
        Expr::WindowFunction(_) => Some("a window function".to_owned()),
        _ => Some("an expression outside of the grammar of filters".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{DataType, Field, Schema};
    use datafusion::datasource::empty::EmptyTable;
    use datafusion::functions_aggregate::expr_fn::{array_agg, sum};
    use datafusion::logical_expr::{
        ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, col, exists, in_subquery, lit,
        scalar_subquery, when,
    };
    use datafusion::prelude::SessionContext;

    use super::*;

    fn context() -> SessionContext {
        let context = SessionContext::new();
        let columns =
            vec![Field::new("n", DataType::Int64, true), Field::new("s", DataType::Utf8, true)];
        let table = EmptyTable::new(Arc::new(Schema::new(columns)));
        context.register_table("t", Arc::new(table)).unwrap();
        context
    }

    /// Condition of `select 1 from t where …` as it is planned.
    async fn filter(context: &SessionContext, condition: &str) -> Expr {
        let query = format!("select 1 from t where {condition}");
        let plan = context.state().create_logical_plan(&query).await.unwrap();
        let mut found = None;
        plan.apply(|node| {
            if let LogicalPlan::Filter(filter) = node {
                found = Some(filter.predicate.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .unwrap();
        found.unwrap()
    }

    fn inner(columns: &[&str]) -> Arc<LogicalPlan> {
        let ones = columns.iter().map(|name| lit(1_i64).alias(*name));
        let plan = LogicalPlanBuilder::empty(true).project(ones).unwrap();
        Arc::new(plan.build().unwrap())
    }

    #[tokio::test]
    async fn usual_filters_are_sent() {
        let context = context();
        for condition in [
            "n = 7 and s <> 'x'",
            "n between 1 and 5 or s is null",
            "s like '%a%' and not s ilike 'b%'",
            "lower(s) in ('a', 'b', 'c')",
            "case when n > 1 then s = 'a' else n::text = s end",
            "starts_with(s, 'GET') and n + 1 < 3 * n",
        ] {
            let condition = filter(&context, condition).await;
            assert!(is_accepted(&condition), "{condition}");
            let bytes = condition.to_bytes().unwrap();
            let decoded = decode(&bytes, &context.task_ctx()).unwrap();
            assert_eq!(decoded.to_string(), condition.to_string());
        }
    }

    #[tokio::test]
    async fn plans_within_filters_are_rejected() {
        let context = context();
        let sub = || scalar_subquery(inner(&["a"]));
        let joined = LogicalPlanBuilder::from((*inner(&["a"])).clone())
            .alias("l")
            .unwrap()
            .join_on(
                (*inner(&["b"])).clone(),
                datafusion::common::JoinType::Inner,
                [col("l.a").eq(sub())],
            )
            .unwrap()
            .build()
            .unwrap();
        let sorted = array_agg(col("n")).order_by(vec![sub().sort(true, true)]).build().unwrap();
        let hostile = [
            sub().eq(lit(1_i64)),
            when(sub().eq(lit(1_i64)), lit(true)).otherwise(lit(false)).unwrap(),
            col("n").in_list(vec![lit(1_i64), sub()], false),
            sum(sub()).gt(lit(1_i64)),
            sorted.is_not_null(),
            exists(Arc::new(joined)),
            in_subquery(col("n"), inner(&["a"])),
            col("n").between(lit(1_i64), sub()),
            filter(&context, "lower(s) = lower(cast((select 1) as text))").await,
            filter(&context, "-(n + (select 2)) is not null").await,
        ];
        let mut refused = 0;
        for filter in hostile {
            assert!(!is_accepted(&filter), "{filter}");
            let Ok(bytes) = filter.to_bytes() else { continue };
            let error = decode(&bytes, &context.task_ctx()).unwrap_err().to_string();
            refused += usize::from(error.contains("not run for others"));
        }
        assert!(refused >= 5, "only {refused} of them are refused by the grammar");
    }

    #[tokio::test]
    async fn functions_outside_of_the_list_are_rejected() {
        let context = context();
        for condition in [
            "repeat(s, 1000000000) = s",
            "lpad(s, 2147483647) = s",
            "levenshtein(s, s) > 3",
            "random() > 0.5",
            "regexp_replace(s, 'a', 'bbbb', 'g') = s",
        ] {
            let condition = filter(&context, condition).await;
            assert!(!is_accepted(&condition), "{condition}");
            let bytes = condition.to_bytes().unwrap();
            let error = decode(&bytes, &context.task_ctx()).unwrap_err().to_string();
            assert!(error.contains("not run for others"), "{condition}: {error}");
        }
    }

    #[test]
    fn bytes_that_are_no_filter_are_rejected() {
        let context = SessionContext::new().task_ctx();
        let bytes = lit(true).and(col("n").gt(lit(1_i64))).to_bytes().unwrap();
        for end in 0..bytes.len() {
            let _ = decode(&bytes[..end], &context);
        }
        assert!(decode(b"\xff\xff\xff\xff", &context).is_err());
    }
}
