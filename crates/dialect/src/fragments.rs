//! Parts of statements that rewrites build and read.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    ObjectName, Query, TableAliasColumnDef, Value, VisitMut, VisitorMut,
};

/// Text of a constant.
pub(crate) fn literal(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text)
            | Value::EscapedStringLiteral(text)
            | Value::UnicodeStringLiteral(text) => Some(text),
            Value::DollarQuotedString(text) => Some(&text.value),
            _ => None,
        },
        Expr::Nested(inner) => literal(inner),
        _ => None,
    }
}

/// Unnamed arguments of a function; empty if there are others.
pub(crate) fn arguments(function: &Function) -> Vec<Expr> {
    let FunctionArguments::List(list) = &function.args else { return Vec::new() };
    let plain = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    plain.collect::<Option<Vec<_>>>().unwrap_or_default()
}

/// A text constant.
pub(crate) fn text(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_owned()).into())
}

/// A number constant.
pub(crate) fn number(number: i64) -> Expr {
    Expr::Value(Value::Number(number.to_string(), false).into())
}

/// A number constant with these characters.
pub(crate) fn number_constant(number: String) -> Expr {
    Expr::Value(Value::Number(number, false).into())
}

/// A name of a column behind the alias of a table.
pub(crate) fn column_definition(name: String) -> TableAliasColumnDef {
    TableAliasColumnDef { name: Ident::new(name), data_type: None }
}

/// Arguments of a source of rows that have no name.
pub(crate) fn plain_arguments(arguments: &[FunctionArg]) -> Vec<Expr> {
    let plain = arguments.iter().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    plain.collect()
}

/// The expression in brackets.
pub(crate) fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

/// A call of a function.
pub(crate) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let args = arguments.into_iter().map(|expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)));
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Calls `visit` with each expression of a node, inner ones first, and the number of nested queries
/// around it.
pub(crate) fn visit_with_depth(node: &mut impl VisitMut, visit: impl FnMut(&mut Expr, usize)) {
    let _ = node.visit(&mut DepthVisitor { visit, depth: 0 });
}

struct DepthVisitor<F> {
    visit: F,
    depth: usize,
}

impl<F: FnMut(&mut Expr, usize)> VisitorMut for DepthVisitor<F> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        (self.visit)(expr, self.depth);
        ControlFlow::Continue(())
    }
}
