//! Shares identical group-by subplans: DataFusion plans a common table expression once per
//! reference, and this rule executes it once.

use std::sync::Arc;

use arrow_schema::Schema;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;

use super::groups::{DictionaryGroupsExec, FoldKind, GroupPlan, SharedGroups};
use super::morsel::{Morsel, MorselSource};
use super::scan::ColumnScan;

/// A scan and its grouping, needed at one or more places of a plan.
struct ScanSignature {
    what: GroupPlan,
    places: usize,
    made: Option<Arc<SharedGroups>>,
}

/// Rewrites the plan so that identical groups are computed once.
pub(super) fn alike_once(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let mut kinds: Vec<ScanSignature> = Vec::new();
    // Subplans in traversal order: the signature of each and which of its columns are wanted.
    let mut found: Vec<(usize, Vec<usize>)> = Vec::new();
    plan.apply(|node| {
        let Some(groups) = node.downcast_ref::<DictionaryGroupsExec>() else {
            return Ok(TreeNodeRecursion::Continue);
        };
        let what = &groups.made.what;
        let kind = kinds.iter().position(|kind| is_alike(&kind.what, what));
        let kind = kind.unwrap_or_else(|| {
            kinds.push(ScanSignature { what: what.clone(), places: 0, made: None });
            kinds.len() - 1
        });
        kinds[kind].places += 1;
        found.push((kind, add(&mut kinds[kind].what, what)));
        Ok(TreeNodeRecursion::Jump)
    })?;
    if kinds.iter().all(|kind| kind.places == 1) {
        return Ok(plan);
    }
    let mut found = found.into_iter();
    plan.transform_down(|node| {
        let Some(groups) = node.downcast_ref::<DictionaryGroupsExec>() else {
            return Ok(Transformed::no(node));
        };
        let Some((kind, places)) = found.next() else { return Ok(Transformed::no(node)) };
        let ScanSignature { what, places: needed, made } = &mut kinds[kind];
        if *needed == 1 {
            return Ok(Transformed::new(node, false, TreeNodeRecursion::Jump));
        }
        let made = made.get_or_insert_with(|| SharedGroups::new(what.clone(), true));
        let groups = Arc::new(groups.out_of(Arc::clone(made), places));
        Ok(Transformed::new(groups as _, true, TreeNodeRecursion::Jump))
    })
    .data()
}

/// Adds the aggregates of another place with the same groups; returns the indexes of that place's
/// columns.
fn add(what: &mut GroupPlan, other: &GroupPlan) -> Vec<usize> {
    let keys = other.keys.len();
    let mut places: Vec<usize> = (0..keys).collect();
    for (at, fold) in other.folds.iter().enumerate() {
        let place = what.folds.iter().position(|known| is_same_fold(known, fold));
        places.push(
            keys + place.unwrap_or_else(|| {
                let field = Arc::clone(&other.schema.fields()[keys + at]);
                let fields = what.schema.fields().iter().cloned().chain([field]);
                what.schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
                what.folds.push(fold.clone());
                what.folds.len() - 1
            }),
        );
    }
    for expr in &other.computed {
        if !what.computed.contains(expr) {
            what.computed.push(Arc::clone(expr));
        }
    }
    places
}

fn is_alike(one: &GroupPlan, other: &GroupPlan) -> bool {
    one.keys == other.keys && reads_the_same(&one.scan, &other.scan)
}

fn is_same_fold(one: &FoldKind, other: &FoldKind) -> bool {
    match (one, other) {
        (FoldKind::Count, FoldKind::Count) => true,
        (
            FoldKind::Other { function, arguments, filter },
            FoldKind::Other { function: function2, arguments: arguments2, filter: filter2 },
        ) => {
            function.fun() == function2.fun()
                && function.ignore_nulls() == function2.ignore_nulls()
                && arguments == arguments2
                && filter == filter2
        }
        _ => false,
    }
}

/// Whether two scans of one plan return the same rows: all scans of a query read the same snapshot.
fn reads_the_same(one: &ColumnScan, other: &ColumnScan) -> bool {
    let units = one.units.iter().zip(&*other.units);
    one.table.name == other.table.name
        && one.units.len() == other.units.len()
        && exprs_of(one) == exprs_of(other)
        && units.into_iter().all(|(one, other)| is_same_unit(one, other))
}

fn exprs_of(scan: &ColumnScan) -> Vec<Arc<dyn PhysicalExpr>> {
    scan.filters.iter().map(|filter| Arc::clone(&filter.expr)).collect::<Vec<_>>()
}

fn is_same_unit(one: &Morsel, other: &Morsel) -> bool {
    let is_same = match (&one.source, &other.source) {
        (MorselSource::Hot(..), MorselSource::Hot(..)) => {
            (one.min_ts, one.max_ts) == (other.min_ts, other.max_ts)
        }
        (
            MorselSource::Group { file, group, .. },
            MorselSource::Group { file: file2, group: group2, .. },
        ) => file.id == file2.id && group == group2,
        _ => false,
    };
    is_same && one.picked == other.picked
}
