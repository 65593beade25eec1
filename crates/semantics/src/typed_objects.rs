//! Comparisons of `jsonb` and `uuid`, which are texts here, with each other and with constants, and the
//! order of arrays, in which the engine's NULL is less than all else.

use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use datafusion::scalar::ScalarValue;

use crate::json_functions::{ObjectType, refuse_order};
use crate::rewrite_parts::{call, type_of};
use crate::typed_texts::is_list;

/// A comparison with a side of such a type; `None` if it is right as it is.
pub(crate) fn rewrite_comparison(binary: &BinaryExpr, schema: &DFSchema) -> Result<Option<Expr>> {
    let is_comparison = binary.op.supports_propagation()
        || matches!(
            binary.op,
            Operator::IsDistinctFrom | Operator::IsNotDistinctFrom | Operator::NotEq
        );
    if !is_comparison {
        return Ok(None);
    }
    let are_arrays = [&binary.left, &binary.right]
        .iter()
        .all(|side| type_of(side, schema).is_some_and(|kind| is_list(&kind)));
    if is_ordered(binary.op) && are_arrays {
        let sides = vec![(*binary.left).clone(), (*binary.right).clone()];
        let (left, right) = (
            Box::new(call("array_order", sides)),
            Box::new(Expr::Literal(ScalarValue::Int32(Some(0)), None)),
        );
        return Ok(Some(Expr::BinaryExpr(BinaryExpr { left, op: binary.op, right })));
    }
    let kinds = [&binary.left, &binary.right].map(|side| ObjectType::of(side, schema));
    let sides = match kinds {
        [Some(ObjectType::Jsonb), _] | [_, Some(ObjectType::Jsonb)] => {
            if is_ordered(binary.op) {
                return refuse_order();
            }
            [&binary.left, &binary.right].map(|side| key(side))
        }
        [Some(ObjectType::Uuid), None] if is_constant(&binary.right) => {
            [(*binary.left).clone(), uuid(&binary.right)]
        }
        [None, Some(ObjectType::Uuid)] if is_constant(&binary.left) => {
            [uuid(&binary.left), (*binary.right).clone()]
        }
        _ => return Ok(None),
    };
    let [left, right] = sides.map(Box::new);
    Ok(Some(Expr::BinaryExpr(BinaryExpr { left, op: binary.op, right })))
}

fn is_ordered(op: Operator) -> bool {
    matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
}

fn is_constant(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.try_as_str().flatten().is_some())
}

fn uuid(constant: &Expr) -> Expr {
    call("uuid_in", vec![constant.clone()])
}

fn key(expr: &Expr) -> Expr {
    match expr {
        Expr::Literal(ScalarValue::Null, _) => expr.clone(),
        other => call("jsonb_key", vec![other.clone()]),
    }
}

/// A list in which such a value is searched.
pub(crate) fn rewrite_list(list: &InList, schema: &DFSchema) -> Option<Expr> {
    let convert: fn(&Expr) -> Expr = match ObjectType::of(&list.expr, schema)? {
        ObjectType::Jsonb => key,
        ObjectType::Uuid if list.list.iter().any(is_constant) => same_or_uuid,
        _ => return None,
    };
    let is_jsonb = ObjectType::of(&list.expr, schema) == Some(ObjectType::Jsonb);
    let expr = if is_jsonb { key(&list.expr) } else { (*list.expr).clone() };
    Some(Expr::InList(InList {
        expr: Box::new(expr),
        list: list.list.iter().map(convert).collect(),
        negated: list.negated,
    }))
}

fn same_or_uuid(expr: &Expr) -> Expr {
    if is_constant(expr) { uuid(expr) } else { expr.clone() }
}
