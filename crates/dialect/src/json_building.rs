//! Functions that make JSON of values, as calls of functions and of `string_agg`.
//!
//! `json_agg(x)` is `json_in('[' || string_agg(json_item(x), ', ') || ']')`: the order, the filter and the window of the
//! call are those of `string_agg`.

use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectName,
};

use crate::fragments::{arguments, call, nested, text};

/// A function that makes JSON of values; `None` for other functions and calls.
pub(crate) fn rewrite(name: &str, function: &Function) -> Option<Expr> {
    let args = arguments(function);
    match (name, args.as_slice()) {
        ("to_json" | "array_to_json" | "row_to_json", [value]) => {
            Some(call("json_of", vec![value.clone()]))
        }
        ("to_jsonb", [value]) => Some(call("jsonb_in", vec![call("json_of", vec![value.clone()])])),
        _ => built(name, function, args),
    }
}

fn built(name: &str, function: &Function, args: Vec<Expr>) -> Option<Expr> {
    let (kind, is_binary) = match name.strip_prefix("jsonb_") {
        Some(kind) => (kind, true),
        None => (name.strip_prefix("json_")?, false),
    };
    let reader = if is_binary { "jsonb_in" } else { "json_in" };
    let value = match (kind, args.len()) {
        ("build_object", count) if count % 2 == 0 => call("json_object_of", args),
        ("build_array", _) => call("json_array_of", args),
        ("agg", 1) => joined(function, call("json_item", args), ["[", "]"])?,
        ("object_agg", 2) => joined(function, call("json_member", args), ["{ ", " }"])?,
        _ => return None,
    };
    let has_type = kind.starts_with("build") && !is_binary;
    Some(if has_type { value } else { call(reader, vec![value]) })
}

/// The items of all rows between two brackets; `None` with `distinct`, whose order is that of the values.
fn joined(function: &Function, item: Expr, [opening, closing]: [&str; 2]) -> Option<Expr> {
    let mut aggregate = function.clone();
    let FunctionArguments::List(list) = &mut aggregate.args else { return None };
    if list.duplicate_treatment.is_some() {
        return None;
    }
    let plain = |expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr));
    list.args = vec![plain(item), plain(text(", "))];
    aggregate.name = ObjectName::from(vec![Ident::new("string_agg")]);
    let parts = [text(opening), Expr::Function(aggregate), text(closing)];
    let joined = parts.into_iter().reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::StringConcat,
        right: Box::new(right),
    });
    joined.map(nested)
}

#[cfg(test)]
mod tests {
    use crate::syntax::tests::rewritten;

    #[test]
    fn aggregates_keep_order_filter_and_window() {
        let sql = "select json_agg(x order by y) filter (where z) from t";
        let joined = "('[' || string_agg(json_item(x), ', ' ORDER BY y) FILTER (WHERE z) || ']')";
        assert_eq!(rewritten(sql), format!("SELECT json_in({joined}) FROM t"));
        let sql = "select jsonb_object_agg(k, v) over (partition by p) from t";
        assert!(
            rewritten(sql).contains("string_agg(json_member(k, v), ', ') OVER (PARTITION BY p)")
        );
    }

    #[test]
    fn odd_and_distinct_calls_stay_for_the_engine_to_refuse() {
        for call in ["json_build_object('a')", "json_agg(distinct x)", "json_object_agg(x)"] {
            assert!(rewritten(&format!("select {call} from t")).to_lowercase().contains(call));
        }
    }
}
