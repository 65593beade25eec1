//! Shapes of queries that the engine answers wrongly, and that are refused for it.
//!
//! Each has the report upstream. When the engine is upgraded, try each shape again: the test of this
//! module and the recorded answers fail for one that is right by then.

use std::ops::ControlFlow;

use crate::refusal::{Result, SyntaxRefusal};
use sqlparser::ast::{Statement, TableFactor, Visit, Visitor};

/// A shape of SQL that the engine would answer wrongly.
pub struct KnownWrongShape {
    /// What the query has.
    pub shape: &'static str,
    /// What would be wrong, and what to write instead.
    pub reason: &'static str,
    /// Report upstream; empty where there is none.
    pub upstream: &'static str,
}

/// `tablesample` is read and has no effect.
const TABLE_SAMPLE: KnownWrongShape = KnownWrongShape {
    shape: "tablesample",
    reason: "all rows would be read: use `where random() < 0.1`",
    upstream: "apache/datafusion#13563",
};

/// All shapes.
pub const KNOWN_WRONG_SHAPES: &[&KnownWrongShape] = &[&TABLE_SAMPLE];

impl KnownWrongShape {
    /// The error for a query of this shape.
    fn refusal(&self) -> SyntaxRefusal {
        SyntaxRefusal::new(self.refusal_text())
    }

    /// Text of the error for a query of this shape.
    pub fn refusal_text(&self) -> String {
        format!("{} is not supported: {}", self.shape, self.reason)
    }
}

/// Refuses a statement with such a shape.
pub(crate) fn refuse_syntax(statement: &Statement) -> Result<()> {
    match statement.visit(&mut ShapeFinder) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(shape) => Err(shape.refusal()),
    }
}

struct ShapeFinder;

impl Visitor for ShapeFinder {
    type Break = &'static KnownWrongShape;

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<Self::Break> {
        match table {
            TableFactor::Table { sample: Some(_), .. }
            | TableFactor::Derived { sample: Some(_), .. } => ControlFlow::Break(&TABLE_SAMPLE),
            _ => ControlFlow::Continue(()),
        }
    }
}
