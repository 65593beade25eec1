//! Arithmetic that fails where PostgreSQL's does: `bigint out of range`, `division by zero`.
//!
//! The engine's operators wrap integers around, and floats become infinite or NaN. Integers are always
//! checked. Floats are checked for users' queries (`enable_ansi_mode`); weir's rules keep the floats of
//! IEEE 754, in which an infinite ratio is larger than any threshold.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, Datum, Float64Array};
use arrow_schema::{ArrowError, DataType};
use datafusion::arrow::compute::kernels::numeric;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue, exec_err, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::logical_expr_common::type_coercion::binary::BinaryTypeCoercer;
use datafusion::physical_expr_common::datum::apply;

use crate::rewrite_parts::{call, cast, is_decimal, type_of};
use crate::{decimal_arithmetic, numeric_sum};

/// All functions.
pub(crate) fn all() -> Vec<ScalarUDF> {
    let operators = OPERATORS.into_iter().map(|(op, name)| {
        let signature = Signature::any(2, Volatility::Immutable);
        ScalarUDF::from(CheckedOperator { op, name, signature })
    });
    let signature = Signature::variadic_any(Volatility::Immutable);
    operators.chain([ScalarUDF::from(DefinedResult { signature })]).collect()
}

/// Most checked operators that are arguments of each other: the engine needs the name of each at each.
const DEPTH_MAX: usize = 64;

const OPERATORS: [(Operator, &str); 5] = [
    (Operator::Plus, "checked_add"),
    (Operator::Minus, "checked_subtract"),
    (Operator::Multiply, "checked_multiply"),
    (Operator::Divide, "checked_divide"),
    // Of decimals only: the engine takes any `x % 1` for 0.
    (Operator::Modulo, "decimal_remainder"),
];

/// Function that fails for results without a value.
const DEFINED: &str = "defined_result";

/// Functions of floats that are undefined for some of them, or exceed their range.
const PARTIAL: [&str; 18] = [
    "ln", "log", "log10", "log2", "sqrt", "power", "exp", "acos", "asin", "acosh", "atanh", "cosh",
    "sinh", "cbrt", "pow", "tan", "cot", "degrees",
];

/// Whether a function has no result for some numbers.
pub(crate) fn is_partial(name: &str) -> bool {
    PARTIAL.contains(&name)
}

/// The checked operator in place of the engine's; `None` if that one is right.
pub(crate) fn rewrite_operator(
    binary: &BinaryExpr,
    schema: &DFSchema,
    options: &ConfigOptions,
) -> Result<Option<Expr>> {
    let Some((_, name)) = OPERATORS.iter().find(|(op, _)| *op == binary.op) else {
        return Ok(None);
    };
    let types = [&binary.left, &binary.right].map(|side| type_of(side, schema));
    let [Some(left), Some(right)] = types else { return Ok(None) };
    let Ok(kind) = result_type(&left, binary.op, &right) else { return Ok(None) };
    let is_fraction = |side: &Expr, kind: &DataType| {
        is_decimal(kind) || kind.is_integer() && numeric_sum::is_named_sum(side, schema)
    };
    let is_quotient = binary.op == Operator::Divide
        && (is_fraction(&binary.left, &left) || is_fraction(&binary.right, &right));
    let is_checked = match &kind {
        _ if is_quotient => true,
        kind if binary.op == Operator::Modulo => is_decimal(kind),
        kind if kind.is_integer() => binary.op != Operator::Divide,
        DataType::Decimal128(..) => true,
        kind if kind.is_floating() => options.execution.enable_ansi_mode,
        _ => false,
    };
    if !is_checked || !left.is_numeric() || !right.is_numeric() {
        return Ok(None);
    }
    if depth(&binary.left) >= DEPTH_MAX || depth(&binary.right) >= DEPTH_MAX {
        return plan_err!(
            "more than {DEPTH_MAX} operators in a chain: add columns of a subquery, or use `sum`"
        );
    }
    let (mut one, mut other) = ((*binary.left).clone(), (*binary.right).clone());
    if is_quotient {
        // The engine cuts quotients of decimals to four more digits.
        let floats = [one, other].map(|side| cast(side, DataType::Float64));
        return Ok(Some(call(name, floats.to_vec())));
    }
    if binary.op == Operator::Modulo {
        return Ok(Some(call(name, vec![one, other])));
    }
    // A `real` and an integer have a `double precision`.
    if left == DataType::Float32 && right.is_integer() {
        one = cast(one, DataType::Float64);
    } else if right == DataType::Float32 && left.is_integer() {
        other = cast(other, DataType::Float64);
    }
    if is_small(&left) && is_small_literal(&other) {
        other = cast(other, DataType::Int32);
    } else if is_small(&right) && is_small_literal(&one) {
        one = cast(one, DataType::Int32);
    }
    Ok(Some(call(name, vec![one, other])))
}

/// Number of checked operators that are arguments of each other.
fn depth(expr: &Expr) -> usize {
    match expr {
        Expr::ScalarFunction(call) if OPERATORS.iter().any(|(_, name)| *name == call.name()) => {
            1 + call.args.iter().map(depth).max().unwrap_or(0)
        }
        Expr::Cast(cast) => depth(&cast.expr),
        _ => 0,
    }
}

/// `integer` or `smallint`: with such a constant the result is an `integer`.
fn is_small(kind: &DataType) -> bool {
    matches!(kind, DataType::Int16 | DataType::Int32)
}

fn is_small_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Int64(Some(value)), _) if i32::try_from(*value).is_ok())
}

/// A checked negation of a number that is no constant.
pub(crate) fn rewrite_negation(value: &Expr, schema: &DFSchema) -> Option<Expr> {
    let kind = type_of(value, schema)?;
    if !kind.is_signed_integer() || matches!(value, Expr::Literal(..)) {
        return None;
    }
    let zero = Expr::Literal(ScalarValue::new_zero(&kind).ok()?, None);
    Some(call("checked_subtract", vec![zero, value.clone()]))
}

/// A call of a function of floats whose result is checked.
pub(crate) fn rewrite_function(function: &ScalarFunction, options: &ConfigOptions) -> Option<Expr> {
    if !options.execution.enable_ansi_mode || !PARTIAL.contains(&function.name()) {
        return None;
    }
    let mut args = vec![Expr::ScalarFunction(function.clone())];
    // What was checked is a number. Copies of it would double with each function in another.
    args.extend(function.args.iter().filter(|arg| !has_checked(arg)).cloned());
    Some(call(DEFINED, args))
}

/// Whether a part of an expression is the checked result of a function.
fn has_checked(expr: &Expr) -> bool {
    let is_checked =
        |part: &Expr| Ok(matches!(part, Expr::ScalarFunction(call) if call.name() == DEFINED));
    expr.exists(is_checked).unwrap_or(true)
}

/// Type of a result; products of decimals keep room for whole digits.
fn result_type(left: &DataType, op: Operator, right: &DataType) -> Result<DataType> {
    let kind = BinaryTypeCoercer::new(left, &op, right).get_result_type()?;
    Ok(match kind {
        DataType::Decimal128(digits, scale) if op == Operator::Multiply => {
            DataType::Decimal128(digits, scale.min(decimal_arithmetic::PLACES_MAX))
        }
        other => other,
    })
}

/// An operator of numbers.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedOperator {
    op: Operator,
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for CheckedOperator {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [left, right] => result_type(left, self.op, right),
            _ => plan_err!("{} takes two numbers", self.name),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let result = args.return_type().clone();
        let [left, right] = args.args.as_slice() else {
            return exec_err!("{} takes two numbers", self.name);
        };
        if self.op == Operator::Modulo {
            let (left, right) = (as_decimal(left)?, as_decimal(right)?);
            return apply(&left, &right, numeric::rem)?.cast_to(&result, None);
        }
        if let (Operator::Multiply, DataType::Decimal128(digits, scale)) = (self.op, &result) {
            let (left, right) = (as_decimal(left)?, as_decimal(right)?);
            return apply(&left, &right, |left, right| {
                decimal_arithmetic::product(left, right, (*digits, *scale))
            });
        }
        let (left, right) = (left.cast_to(&result, None)?, right.cast_to(&result, None)?);
        let op = self.op;
        apply(&left, &right, |left, right| checked(op, left, right, &result)).map_err(|error| {
            match error {
                DataFusionError::ArrowError(inner, _)
                    if matches!(*inner, ArrowError::ArithmeticOverflow(_)) =>
                {
                    out_of_range(&result)
                }
                other => other,
            }
        })
    }
}

/// An integer as a decimal: a remainder may have fewer digits than it has, a product more.
fn as_decimal(value: &ColumnarValue) -> Result<ColumnarValue> {
    if value.data_type().is_integer() {
        value.cast_to(&DataType::Decimal128(20, 0), None)
    } else {
        Ok(value.clone())
    }
}

fn out_of_range(kind: &DataType) -> DataFusionError {
    let name = match kind {
        DataType::Int16 => "smallint",
        DataType::Int32 => "integer",
        DataType::Int64 => "bigint",
        _ => "value",
    };
    DataFusionError::Execution(format!("{name} out of range"))
}

fn checked(
    op: Operator,
    left: &dyn Datum,
    right: &dyn Datum,
    kind: &DataType,
) -> std::result::Result<ArrayRef, ArrowError> {
    let result = match op {
        Operator::Plus => numeric::add(left, right)?,
        Operator::Minus => numeric::sub(left, right)?,
        Operator::Multiply => numeric::mul(left, right)?,
        _ => numeric::div(left, right)?,
    };
    match kind {
        DataType::Float64 => check_floats::<Float64Type>(op, left, right, &result)?,
        DataType::Float32 => check_floats::<Float32Type>(op, left, right, &result)?,
        DataType::Decimal128(digits, scale) => {
            let numbers = result.as_primitive::<Decimal128Type>();
            return decimal_arithmetic::of_type(numbers, (*digits, *scale));
        }
        _ => {}
    }
    Ok(result)
}

/// Fails for a float that is infinite or 0 because its true value has no float.
fn check_floats<T>(
    op: Operator,
    left: &dyn Datum,
    right: &dyn Datum,
    result: &ArrayRef,
) -> std::result::Result<(), ArrowError>
where
    T: ArrowPrimitiveType,
    T::Native: Into<f64>,
{
    let result = result.as_primitive::<T>();
    let is_product = matches!(op, Operator::Multiply | Operator::Divide);
    let mut values = result.values().iter().map(|value| -> f64 { (*value).into() });
    if values.all(|value| value.is_finite() && !(is_product && value == 0.0)) {
        return Ok(());
    }
    let sides = [left.get(), right.get()];
    for at in (0..result.len()).filter(|at| result.is_valid(*at)) {
        let [left, right] = sides.map(|(side, is_scalar)| -> f64 {
            side.as_primitive::<T>().value(if is_scalar { 0 } else { at }).into()
        });
        check_float(op, [left, right], result.value(at).into())?;
    }
    Ok(())
}

fn check_float(
    op: Operator,
    [left, right]: [f64; 2],
    result: f64,
) -> std::result::Result<(), ArrowError> {
    let is_division = op == Operator::Divide;
    let is_finite = left.is_finite() && right.is_finite();
    if is_division && right == 0.0 && !left.is_nan() {
        return Err(ArrowError::DivideByZero);
    }
    let is_underflow = match op {
        Operator::Multiply => result == 0.0 && left != 0.0 && right != 0.0,
        Operator::Divide => result == 0.0 && left != 0.0 && is_finite,
        _ => false,
    };
    if is_underflow {
        return Err(ArrowError::ComputeError("value out of range: underflow".into()));
    }
    if is_finite && result.is_infinite() {
        return Err(ArrowError::ComputeError("value out of range: overflow".into()));
    }
    Ok(())
}

/// The first argument, if it is a number, or one of the others is none.
#[derive(Debug, PartialEq, Eq, Hash)]
struct DefinedResult {
    signature: Signature,
}

impl ScalarUDFImpl for DefinedResult {
    fn name(&self) -> &'static str {
        DEFINED
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.first() {
            Some(kind) => Ok(kind.clone()),
            None => plan_err!("{DEFINED} takes a result and the arguments that it is of"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some((result, rest)) = args.args.split_first() else {
            return exec_err!("{DEFINED} takes a result");
        };
        let floats = floats_of(result)?;
        if floats.values().iter().all(|value| value.is_finite()) {
            return Ok(result.clone());
        }
        let rest = rest.iter().map(floats_of).collect::<Result<Vec<_>>>()?;
        for at in (0..floats.len()).filter(|at| floats.is_valid(*at)) {
            let args = rest.iter().map(|arg| arg.value(if arg.len() == 1 { 0 } else { at }));
            check_defined(floats.value(at), &args.collect::<Vec<_>>())?;
        }
        Ok(result.clone())
    }
}

fn check_defined(result: f64, args: &[f64]) -> Result<()> {
    if result.is_nan() && !args.iter().any(|arg| arg.is_nan()) {
        return exec_err!("a function has no result for these numbers");
    }
    if result.is_infinite() && args.iter().all(|arg| arg.is_finite()) {
        return exec_err!("value out of range: the result of a function is infinite");
    }
    Ok(())
}

/// The values as floats; one for a constant.
fn floats_of(value: &ColumnarValue) -> Result<Float64Array> {
    let array = value.cast_to(&DataType::Float64, None)?.to_array(1)?;
    Ok(array.as_primitive::<Float64Type>().clone())
}
