//! Types of parameters, from where they stand in a statement: a cast, `LIMIT`, `ANY($1)`, or a
//! comparison with a column of the catalog. The engine finds the types of the other comparisons.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use arrow_schema::DataType;
use datafusion::sql::sqlparser::ast::{
    Expr, LimitClause, Query, Statement, Value, Visit, VisitMut, Visitor, VisitorMut,
};

use super::relation::kind_of_column;
use super::type_names::parameter_type;

/// What a statement says about its parameters.
#[derive(Default)]
pub(super) struct ParameterUses {
    /// OID and type of parameters that the statement casts, by number.
    casts: BTreeMap<usize, (u32, DataType)>,
    /// Types that follow from the place.
    places: BTreeMap<usize, DataType>,
    /// Parameters of `ANY` and `ALL`.
    lists: Vec<usize>,
    /// Greatest number.
    pub(super) count: usize,
}

impl ParameterUses {
    /// Uses in a statement as the client sent it.
    pub(super) fn of(statement: &Statement) -> Self {
        let mut uses = Self::default();
        let _ = statement.visit(&mut uses);
        uses
    }

    /// Whether a parameter is the array of `ANY` or `ALL`.
    pub(super) fn is_list(&self, number: usize) -> bool {
        self.lists.contains(&number)
    }

    /// OID of the type to which the statement casts a parameter.
    pub(super) fn cast_oid(&self, number: usize) -> Option<u32> {
        self.casts.get(&number).map(|(oid, _)| *oid)
    }

    /// Type of a parameter; `inferred` is the engine's.
    pub(super) fn type_of(&self, number: usize, inferred: Option<&DataType>) -> DataType {
        if let Some((_, kind)) = self.casts.get(&number) {
            return kind.clone();
        }
        if let Some(kind) = self.places.get(&number) {
            return kind.clone();
        }
        let kind = match inferred {
            Some(DataType::Null) | None => DataType::Utf8,
            Some(DataType::Dictionary(_, value)) => (**value).clone(),
            Some(kind) => kind.clone(),
        };
        let is_list = self.lists.contains(&number) && !matches!(kind, DataType::List(_));
        if is_list { DataType::new_list(kind, true) } else { kind }
    }

    fn put_place(&mut self, expr: &Expr, kind: DataType) {
        if let Some(number) = number_of(expr) {
            self.places.entry(number).or_insert(kind);
        }
    }

    /// A parameter that is compared with a column of the catalog.
    fn put_compared(&mut self, column: &Expr, parameter: &Expr) {
        let name = match column {
            Expr::Identifier(ident) => &ident.value,
            Expr::CompoundIdentifier(idents) => match idents.last() {
                Some(ident) => &ident.value,
                None => return,
            },
            _ => return,
        };
        if let Some(kind) = kind_of_column(&name.to_lowercase()) {
            self.put_place(parameter, kind);
        }
    }
}

impl Visitor for ParameterUses {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let places = match &query.limit_clause {
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                [limit.as_ref(), offset.as_ref().map(|offset| &offset.value)]
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => [Some(offset), Some(limit)],
            None => [None, None],
        };
        for place in places.into_iter().flatten() {
            self.put_place(place, DataType::Int64);
        }
        let fetch = query.fetch.as_ref().and_then(|fetch| fetch.quantity.as_ref());
        if let Some(quantity) = fetch {
            self.put_place(quantity, DataType::Int64);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Value(_) => {
                self.count = self.count.max(number_of(expr).unwrap_or(0));
            }
            Expr::Cast { expr: inner, data_type, .. } => {
                if let (Some(number), Some(kind)) = (number_of(inner), parameter_type(data_type)) {
                    self.casts.entry(number).or_insert(kind);
                }
            }
            Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => {
                self.lists.extend(number_of(right));
            }
            Expr::BinaryOp { left, right, .. } => {
                self.put_compared(left, right);
                self.put_compared(right, left);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Number of a parameter such as `$1`, also in parentheses.
fn number_of(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Nested(inner) => number_of(inner),
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => name.strip_prefix('$')?.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// Replaces `x = ANY($1)` with `x = $1`: the engine then finds the type of the items.
pub(super) fn compare_items(statement: &mut Statement) {
    let _ = statement.visit(&mut ItemComparison);
}

struct ItemComparison;

impl VisitorMut for ItemComparison {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::AnyOp { left, compare_op, right, .. } | Expr::AllOp { left, compare_op, right } =
            expr
            && number_of(right).is_some()
        {
            *expr =
                Expr::BinaryOp { left: left.clone(), op: compare_op.clone(), right: right.clone() };
        }
        ControlFlow::Continue(())
    }
}
