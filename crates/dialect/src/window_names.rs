//! Windows that extend a named one: `over (w order by x)` has the partitions of `w`.
//!
//! The engine forgets the partitions and order of `w` there.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, NamedWindowDefinition, NamedWindowExpr, Query, Select, VisitMut, VisitorMut, WindowSpec,
    WindowType,
};

use crate::column_substitution::normal;
use crate::copy_budget::CopyBudget;
use crate::refusal::{Result, SyntaxRefusal, refuse};

/// Most definitions that build on each other.
const CHAIN_MAX: usize = 16;

/// Longest definition that is copied.
const COPIED_BYTES_MAX: usize = 2_000;

/// Writes out the windows that extend a named one.
pub(crate) fn expand(select: &mut Select, budget: &CopyBudget) -> Result<()> {
    let named = select.named_window.clone();
    for definition in &mut select.named_window {
        if let NamedWindowExpr::WindowSpec(spec) = &mut definition.1 {
            complete(spec, &named, budget)?;
        }
    }
    if named.is_empty() {
        return Ok(());
    }
    let mut expander = WindowExpander { named: &named, budget, depth: 0 };
    for item in &mut select.projection {
        if let ControlFlow::Break(refusal) = item.visit(&mut expander) {
            return Err(refusal);
        }
    }
    Ok(())
}

/// Takes partitions and order over from the named window.
fn complete(
    spec: &mut WindowSpec,
    named: &[NamedWindowDefinition],
    budget: &CopyBudget,
) -> Result<()> {
    for _ in 0..CHAIN_MAX {
        let Some(name) = spec.window_name.take() else { return Ok(()) };
        let found = named.iter().find(|definition| normal(&definition.0) == normal(&name));
        let base = match found.map(|definition| &definition.1) {
            Some(NamedWindowExpr::WindowSpec(base)) => base,
            Some(NamedWindowExpr::NamedWindow(other)) => {
                spec.window_name = Some(other.clone());
                continue;
            }
            None => return refuse!("there is no window `{}`", name.value),
        };
        let bytes = base.to_string().len();
        if bytes > COPIED_BYTES_MAX {
            return refuse!("the window `{}` is too long to be extended", name.value);
        }
        budget.copy_bytes(bytes)?;
        if !spec.partition_by.is_empty() {
            return refuse!("a window cannot replace the partitions of `{}`", name.value);
        }
        if !spec.order_by.is_empty() && !base.order_by.is_empty() {
            return refuse!("a window cannot replace the order of `{}`", name.value);
        }
        if base.window_frame.is_some() {
            return refuse!("`{}` has a frame and cannot be extended", name.value);
        }
        spec.partition_by.clone_from(&base.partition_by);
        if spec.order_by.is_empty() {
            spec.order_by.clone_from(&base.order_by);
        }
        spec.window_name.clone_from(&base.window_name);
    }
    refuse!("windows that extend each other are nested too deeply")
}

struct WindowExpander<'a> {
    named: &'a [NamedWindowDefinition],
    budget: &'a CopyBudget,
    /// Number of nested queries around the expression.
    depth: usize,
}

impl VisitorMut for WindowExpander<'_> {
    type Break = SyntaxRefusal;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<SyntaxRefusal> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SyntaxRefusal> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SyntaxRefusal> {
        if self.depth == 0
            && let Expr::Function(function) = expr
            && let Some(WindowType::WindowSpec(spec)) = &mut function.over
            && let Err(refusal) = complete(spec, self.named, self.budget)
        {
            return ControlFlow::Break(refusal);
        }
        ControlFlow::Continue(())
    }
}
