//! Keeps the engine's pushdown of filters from plans in which it would take one column for another.
//!
//! The engine (55.2) finds the columns of a pushed filter by name. Above a join of two relations that share a name, it
//! takes the first column of this name, so that rows are lost without an error (apache/datafusion#21246, #25244,
//! #25262, #25263, #25264, #25296; mended upstream by position).

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

/// The rules that push filters; they begin with this.
const PUSHDOWN: &str = "FilterPushdown";

/// Guards each rule that pushes filters.
pub(crate) fn guard(rules: &mut [Arc<dyn PhysicalOptimizerRule + Send + Sync>]) {
    for rule in rules.iter_mut().filter(|rule| rule.name().starts_with(PUSHDOWN)) {
        *rule = Arc::new(PushdownByName(Arc::clone(rule)));
    }
}

/// Applies a rule to the parts of a plan below which no columns have the same name.
#[derive(Debug)]
struct PushdownByName(Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for PushdownByName {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // Filters come from a node and go below it: the names of the columns that it has do not matter.
        if plan.children().into_iter().all(names_differ) {
            return self.0.optimize(plan, config);
        }
        let children = plan.children().into_iter();
        let children: Result<Vec<_>> =
            children.map(|child| self.optimize(Arc::clone(child), config)).collect();
        replace_children_if_necessary(plan, children?)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Whether the columns of each node of a plan have different names.
fn names_differ(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let schema = plan.schema();
    let names: HashSet<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    names.len() == schema.fields().len() && plan.children().into_iter().all(names_differ)
}
