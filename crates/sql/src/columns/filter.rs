//! Selects the rows of a morsel that meet a condition: evaluated once per distinct value where a
//! column is dictionary-encoded.
//!
//! A substring is searched in all texts of a column at once, since they are contiguous in memory; a
//! match that crosses the end of a text is discarded.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, StringArray};
use arrow_schema::{DataType, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column as ColumnExpr, LikeExpr, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use memchr::memmem::Finder;

use super::cache::WantedRows;
use super::column::{Column, DictionaryCodes, each_width};
use super::morsel::{Morsel, MorselReader};

/// Selection vector of a morsel: row numbers, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SelectedRows {
    All(usize),
    Some(Vec<u32>),
}

impl SelectedRows {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::All(count) => *count,
            Self::Some(rows) => rows.len(),
        }
    }

    /// The selected row numbers.
    pub(crate) fn rows(self) -> Vec<u32> {
        match self {
            Self::All(count) => (0..u32::try_from(count).unwrap_or(u32::MAX)).collect(),
            Self::Some(rows) => rows,
        }
    }

    /// Keeps the rows for which `answers`, one per selected row, is true.
    fn filter(self, answers: &BooleanArray) -> Self {
        let is_true = |at: usize| answers.is_valid(at) && answers.value(at);
        if answers.null_count() == 0 && answers.true_count() == answers.len() {
            return self;
        }
        match self {
            Self::All(_) if answers.null_count() == 0 => {
                let rows = answers.values().set_indices();
                Self::Some(rows.filter_map(|row| u32::try_from(row).ok()).collect())
            }
            picked => {
                let rows = picked.rows().into_iter().enumerate();
                Self::Some(rows.filter(|(at, _)| is_true(*at)).map(|(_, row)| row).collect())
            }
        }
    }

    /// Keeps the rows whose value's answer is true.
    fn filter_coded(self, codes: &DictionaryCodes, answers: &[bool]) -> Self {
        if answers.iter().all(|answer| *answer) {
            return self;
        }
        if !answers.iter().any(|answer| *answer) {
            return Self::Some(Vec::new());
        }
        let is_true = |code: usize| answers[code];
        each_width!(codes, codes => match self {
            Self::All(_) => Self::Some(all_true(codes.iter().map(|code| is_true(*code as usize)))),
            Self::Some(mut rows) => {
                rows.retain(|row| is_true(codes[*row as usize] as usize));
                Self::Some(rows)
            }
        }, _one => self)
    }
}

/// Indexes of the true items; branch-free, because the branch would be unpredictable.
fn all_true(answers: impl ExactSizeIterator<Item = bool>) -> Vec<u32> {
    let mut rows = vec![0; answers.len() + 1];
    let mut found = 0;
    for (row, is_true) in (0_u32..).zip(answers) {
        rows[found] = row;
        found += usize::from(is_true);
    }
    rows.truncate(found);
    rows
}

/// A condition on rows of a table.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    /// The condition over the table's schema.
    pub(crate) expr: Arc<dyn PhysicalExpr>,
    /// Indexes of the referenced columns in the table, ascending.
    pub(crate) columns: Vec<usize>,
    /// The condition over a batch of only these columns.
    local: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    /// Substring to search, if the condition is nothing else.
    part: Option<Arc<Finder<'static>>>,
    /// Comparison of `ts` with a constant, if the condition is nothing else.
    bound: Option<(Operator, i64)>,
}

impl Filter {
    /// A condition whose columns are those of `table`.
    ///
    /// # Errors
    /// When it references unknown columns, which would be a bug.
    pub(crate) fn new(expr: Arc<dyn PhysicalExpr>, table: &Schema) -> Result<Self> {
        let mut columns: Vec<usize> =
            collect_columns(&expr).iter().map(ColumnExpr::index).collect();
        columns.sort_unstable();
        columns.dedup();
        let (local, schema) = localized(&expr, &columns, table)?;
        let part = part_of(&local).map(|part| Arc::new(Finder::new(part.as_bytes()).into_owned()));
        let bound = bound_of(&expr);
        Ok(Self { expr, columns, local, schema, part, bound })
    }

    /// The result for all rows of a morsel, if its range of `ts` decides it.
    pub(crate) fn answer_of_all(&self, unit: &Morsel) -> Option<bool> {
        let (operator, than) = self.bound?;
        let (of_first, of_last) = (unit.min_ts.cmp(&than), unit.max_ts.cmp(&than));
        (is_met(operator, of_first) == is_met(operator, of_last))
            .then(|| is_met(operator, of_first))
    }

    /// Relative cost, used to evaluate cheap conditions first: numbers before texts, one column
    /// before several.
    pub(crate) fn cost(&self, table: &Schema) -> usize {
        self.columns
            .iter()
            .map(|column| match table.field(*column).data_type() {
                DataType::Utf8 => 2,
                _ => 1,
            })
            .sum()
    }

    /// Keeps the rows of `picked` that meet the condition.
    ///
    /// # Errors
    /// When it cannot be computed for a row, or files cannot be read.
    pub(crate) fn narrow(
        &self,
        reader: &MorselReader<'_>,
        picked: SelectedRows,
    ) -> Result<SelectedRows> {
        if let [column] = self.columns[..]
            && let Some(column) = reader.values(column, WantedRows(picked.len()))?
        {
            match &*column {
                Column::Coded { codes, values, .. } if values.len() <= picked.len() => {
                    // If evaluation fails for a value that no selected row may have, evaluate row
                    // by row.
                    if let Ok(answers) = self.answers(values) {
                        return Ok(picked.filter_coded(codes, &answers));
                    }
                }
                Column::Plain(array) if *array.data_type() == DataType::Utf8 => {
                    if let Some(part) =
                        self.part.as_ref().filter(|_| picked.len() * 4 > array.len())
                    {
                        return Ok(holding(array.as_string(), part, &picked));
                    }
                }
                _ => {}
            }
        }
        let arrays = reader.rows(&self.columns, &picked)?;
        let answers = self.ask(arrays, picked.len())?;
        Ok(picked.filter(&answers))
    }

    fn ask(&self, arrays: Vec<ArrayRef>, rows: usize) -> Result<BooleanArray> {
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?;
        let answers = self.local.evaluate(&batch)?.into_array(rows)?;
        match answers.as_boolean_opt() {
            Some(answers) => Ok(answers.clone()),
            None => internal_err!("`{}` is not a condition", self.expr),
        }
    }

    /// The result for each value.
    fn answers(&self, values: &ArrayRef) -> Result<Vec<bool>> {
        if let Some(part) = &self.part
            && let Some(texts) = values.as_string_opt::<i32>()
        {
            let mut answers = vec![false; texts.len()];
            if let SelectedRows::Some(rows) = holding(texts, part, &SelectedRows::All(texts.len()))
            {
                rows.iter().for_each(|row| answers[*row as usize] = true);
            }
            return Ok(answers);
        }
        let answers = self.ask(vec![Arc::clone(values)], values.len())?;
        Ok((0..values.len()).map(|at| answers.is_valid(at) && answers.value(at)).collect())
    }
}

fn is_met(operator: Operator, order: Ordering) -> bool {
    match operator {
        Operator::Gt => order.is_gt(),
        Operator::GtEq => order.is_ge(),
        Operator::Lt => order.is_lt(),
        _ => order.is_le(),
    }
}

/// An expression over a batch with only `columns` of the table, and that batch's schema.
pub(crate) fn localized(
    expr: &Arc<dyn PhysicalExpr>,
    columns: &[usize],
    table: &Schema,
) -> Result<(Arc<dyn PhysicalExpr>, SchemaRef)> {
    let local = Arc::clone(expr).transform_down(|node| {
        let Some(column) = node.downcast_ref::<ColumnExpr>() else {
            return Ok(Transformed::no(node));
        };
        let place = columns.iter().position(|place| *place == column.index());
        match place {
            Some(place) => {
                let column = ColumnExpr::new(column.name(), place);
                Ok(Transformed::yes(Arc::new(column) as Arc<dyn PhysicalExpr>))
            }
            None => internal_err!("`{column}` is no column of the expression"),
        }
    });
    Ok((local.data()?, Arc::new(table.project(columns)?)))
}

/// The required substring, if the condition is nothing else.
fn part_of(local: &Arc<dyn PhysicalExpr>) -> Option<String> {
    if let Some(like) = local.downcast_ref::<LikeExpr>() {
        let is_plain =
            !like.negated() && !like.case_insensitive() && like.expr().is::<ColumnExpr>();
        let pattern = text_of(like.pattern()).filter(|_| is_plain)?;
        let part = pattern.strip_prefix('%')?.strip_suffix('%')?;
        return (!part.is_empty() && !part.contains(['%', '_', '\\'])).then(|| part.to_owned());
    }
    let call = local.downcast_ref::<ScalarFunctionExpr>()?;
    match call.args() {
        [column, part] if call.name() == "contains" && column.is::<ColumnExpr>() => {
            text_of(part).filter(|part| !part.is_empty())
        }
        _ => None,
    }
}

fn text_of(expr: &Arc<dyn PhysicalExpr>) -> Option<String> {
    let literal = expr.downcast_ref::<Literal>()?;
    literal.value().try_as_str().flatten().map(str::to_owned)
}

/// The comparison of `ts`, if the condition is nothing else.
fn bound_of(expr: &Arc<dyn PhysicalExpr>) -> Option<(Operator, i64)> {
    let comparison = expr.downcast_ref::<BinaryExpr>()?;
    let (left, operator, right) = (comparison.left(), comparison.op(), comparison.right());
    let (operator, than) = if is_ts(left) {
        (*operator, instant_of(right)?)
    } else if is_ts(right) {
        (operator.swap()?, instant_of(left)?)
    } else {
        return None;
    };
    let is_order =
        matches!(operator, Operator::Gt | Operator::GtEq | Operator::Lt | Operator::LtEq);
    is_order.then_some((operator, than))
}

fn instant_of(expr: &Arc<dyn PhysicalExpr>) -> Option<i64> {
    match expr.downcast_ref::<Literal>()?.value() {
        ScalarValue::TimestampMicrosecond(ts, _) => *ts,
        _ => None,
    }
}

fn is_ts(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.downcast_ref::<ColumnExpr>().is_some_and(|column| column.name() == "ts")
}

/// Rows of `picked` that contain the text.
fn holding(texts: &StringArray, part: &Finder<'_>, picked: &SelectedRows) -> SelectedRows {
    let (ends, bytes) = (texts.value_offsets(), texts.value_data());
    let offset = |at: usize| usize::try_from(ends[at]).unwrap_or_default();
    let last = offset(texts.len());
    let mut found = Vec::new();
    let (mut at, mut row) = (offset(0), 0);
    while let Some(hit) = part.find(&bytes[at..last]) {
        let start = at + hit;
        // The row of the match: the last one that starts at or before it.
        row += ends[row + 1..]
            .partition_point(|end| usize::try_from(*end).unwrap_or_default() <= start);
        let end = offset(row + 1);
        if start + part.needle().len() > end {
            at = start + 1;
            continue;
        }
        if texts.is_valid(row) {
            found.push(u32::try_from(row).unwrap_or(u32::MAX));
        }
        at = end;
    }
    if let SelectedRows::Some(rows) = picked {
        let mut rows = rows.iter().copied().peekable();
        found.retain(|row| {
            while rows.next_if(|picked| picked < row).is_some() {}
            rows.peek() == Some(row)
        });
    }
    SelectedRows::Some(found)
}

#[cfg(test)]
mod tests {
    use weir_datafile::UniformColumns;

    use super::super::morsel::MorselSource;
    use super::*;

    #[test]
    fn substrings_are_found_within_texts_and_not_across_them() {
        let texts: StringArray = [
            Some("ab"),
            Some("cab"),
            None,
            Some(""),
            Some("c"),
            Some("xxcabcab"),
            Some("aab"),
            Some("b"),
        ]
        .into_iter()
        .collect();
        for part in ["a", "b", "ab", "bc", "bca", "ca", "cab", "abc", "bb", "zz"] {
            check_holding(&texts, part);
            check_holding(&texts.slice(1, 6), part);
        }
    }

    fn check_holding(texts: &StringArray, part: &str) {
        let expected = texts
            .iter()
            .enumerate()
            .filter(|(_, text)| text.is_some_and(|text| text.contains(part)));
        let expected: Vec<u32> = expected.map(|(row, _)| u32::try_from(row).unwrap()).collect();
        let found = holding(texts, &Finder::new(part), &SelectedRows::All(texts.len()));
        assert_eq!(found, SelectedRows::Some(expected.clone()), "{part}");
        let odd: Vec<u32> =
            (0..u32::try_from(texts.len()).unwrap()).filter(|row| row % 2 == 1).collect();
        let found = holding(texts, &Finder::new(part), &SelectedRows::Some(odd));
        let expected = expected.into_iter().filter(|row| row % 2 == 1).collect();
        assert_eq!(found, SelectedRows::Some(expected), "{part}");
    }

    #[test]
    fn the_range_of_times_answers_for_all_rows() {
        let table = weir_tables::Log::SPEC.schema();
        let column = |name: &str| {
            let place = table.index_of(name).unwrap();
            Arc::new(ColumnExpr::new(name, place)) as Arc<dyn PhysicalExpr>
        };
        let rows = RecordBatch::new_empty(Arc::clone(&table));
        let unit = |min_ts, max_ts| Morsel {
            source: MorselSource::Hot(rows.clone(), UniformColumns::of(0)),
            min_ts,
            max_ts,
            picked: SelectedRows::All(0),
        };
        let answers = |left, operator, right| {
            let expr = Arc::new(BinaryExpr::new(left, operator, right));
            let filter = Filter::new(expr, &table).unwrap();
            let units = [(5, 9), (10, 10), (11, 20), (9, 11), (5, 10), (10, 20)];
            units.map(|(min_ts, max_ts)| filter.answer_of_all(&unit(min_ts, max_ts)))
        };
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(answers(column("ts"), Operator::Gt, time(10)), [no, no, yes, None, no, None]);
        assert_eq!(
            answers(column("ts"), Operator::GtEq, time(10)),
            [no, yes, yes, None, None, yes]
        );
        assert_eq!(answers(column("ts"), Operator::Lt, time(10)), [yes, no, no, None, None, no]);
        // 10 >= ts
        assert_eq!(
            answers(time(10), Operator::GtEq, column("ts")),
            [yes, yes, no, None, yes, None]
        );
        assert_eq!(answers(column("observed_ts"), Operator::Gt, time(10)), [None; 6]);
        assert_eq!(answers(column("ts"), Operator::Eq, time(10)), [None; 6]);
    }

    #[test]
    fn rows_stay_whose_value_is_true() {
        let codes = DictionaryCodes::U8(vec![0, 1, 2, 1, 0, 2]);
        let keep = |picked: SelectedRows, answers: [bool; 3]| picked.filter_coded(&codes, &answers);
        assert_eq!(
            keep(SelectedRows::All(6), [false, true, false]),
            SelectedRows::Some(vec![1, 3])
        );
        assert_eq!(keep(SelectedRows::All(6), [true; 3]), SelectedRows::All(6));
        assert_eq!(keep(SelectedRows::All(6), [false; 3]), SelectedRows::Some(vec![]));
        assert_eq!(
            keep(SelectedRows::Some(vec![0, 2, 3]), [true, false, true]),
            SelectedRows::Some(vec![0, 2])
        );
        let answers = BooleanArray::from(vec![Some(true), None, Some(false)]);
        assert_eq!(SelectedRows::All(3).filter(&answers), SelectedRows::Some(vec![0]));
        assert_eq!(SelectedRows::Some(vec![4, 7, 9]).filter(&answers), SelectedRows::Some(vec![4]));
    }

    fn time(ts: i64) -> Arc<dyn PhysicalExpr> {
        let ts = ScalarValue::TimestampMicrosecond(Some(ts), Some("+00:00".into()));
        Arc::new(Literal::new(ts)) as Arc<dyn PhysicalExpr>
    }
}
