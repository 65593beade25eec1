//! Group keys as ids: each distinct value of a key gets an id in order of first occurrence, and
//! each combination of ids that occurs is a group.
//!
//! A key is evaluated once per distinct value where a column is dictionary-encoded, a key over
//! several columns once per combination of their values, and a truncated time once per run of rows
//! in the same interval.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_cast::cast;
use arrow_schema::{DataType, Schema, SchemaRef, TimeUnit};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::physical_expr::expressions::{Column as ColumnExpr, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;

use super::cache::WantedRows;
use super::column::{Column, each_width};
use super::filter::{SelectedRows, localized};
use super::group_ids::{NumberedInts, NumberedTexts};
use super::morsel::MorselReader;
use super::pair_interner::{IdPair, PairInterner};

/// One expression of `group by`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GroupKey {
    of: KeySource,
    /// Output type.
    kind: DataType,
}

#[derive(Clone, Debug, PartialEq)]
enum KeySource {
    /// The `ts` column at this index, truncated to multiples of `width` µs since 1970.
    Time { column: usize, width: i64 },
    /// An expression of one column, over a batch of that column alone.
    Value { column: usize, local: Arc<dyn PhysicalExpr>, schema: SchemaRef },
    /// An expression of several columns, each of which is a key itself.
    Values { columns: Vec<GroupKey>, local: Arc<dyn PhysicalExpr>, schema: SchemaRef },
}

impl GroupKey {
    /// A key over the table's columns; the flag says whether all times are in [`NEAR`]. `None` if
    /// the expression is not supported.
    ///
    /// # Errors
    /// When it references unknown columns, which would be a bug.
    pub(crate) fn new(
        expr: &Arc<dyn PhysicalExpr>,
        table: &Schema,
        is_near: bool,
    ) -> Result<Option<Self>> {
        let mut columns: Vec<usize> = collect_columns(expr).iter().map(ColumnExpr::index).collect();
        columns.sort_unstable();
        let kind = expr.data_type(table)?;
        if let ([column], Some(width)) = (&columns[..], width_of(expr, table))
            && is_near
        {
            return Ok(Some(Self { of: KeySource::Time { column: *column, width }, kind }));
        }
        if !is_known(&kind) || is_volatile(expr) {
            return Ok(None);
        }
        let of = match columns[..] {
            [] => return Ok(None),
            [column] => {
                let is_time = matches!(table.field(column).data_type(), DataType::Timestamp(..));
                if is_time && kind != DataType::Int64 {
                    return Ok(None);
                }
                let (local, schema) = localized(expr, &columns, table)?;
                KeySource::Value { column, local, schema }
            }
            _ => {
                let kinds = columns.iter().map(|column| table.field(*column).data_type());
                if !kinds.into_iter().all(is_known) {
                    return Ok(None);
                }
                let (local, schema) = localized(expr, &columns, table)?;
                let columns = columns.iter().map(|column| Self::of_column(*column, table));
                KeySource::Values { columns: columns.collect::<Result<_>>()?, local, schema }
            }
        };
        Ok(Some(Self { of, kind }))
    }

    /// A key that is a plain column.
    fn of_column(column: usize, table: &Schema) -> Result<Self> {
        let field = table.field(column);
        let plain: Arc<dyn PhysicalExpr> = Arc::new(ColumnExpr::new(field.name(), column));
        let (local, schema) = localized(&plain, &[column], table)?;
        Ok(Self { of: KeySource::Value { column, local, schema }, kind: field.data_type().clone() })
    }
}

/// Whether values of a type can get ids.
fn is_known(kind: &DataType) -> bool {
    matches!(kind, DataType::Utf8 | DataType::Int64 | DataType::Boolean)
}

/// Times that fit into nanoseconds, which the time functions need: µs up to the year 2255.
pub(crate) const NEAR: std::ops::Range<i64> = -9_000_000_000_000_000..9_000_000_000_000_000;

/// Interval in µs to which a time is truncated.
fn width_of(expr: &Arc<dyn PhysicalExpr>, table: &Schema) -> Option<i64> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    let [unit, ts] = call.args() else { return None };
    let column = ts.downcast_ref::<ColumnExpr>()?;
    match table.field(column.index()).data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, Some(zone)) if **zone == *"+00:00" => {}
        _ => return None,
    }
    let unit = unit.downcast_ref::<Literal>()?.value();
    match (call.name(), unit) {
        ("date_bin", ScalarValue::IntervalMonthDayNano(Some(unit))) if unit.months == 0 => {
            let days = i64::from(unit.days).checked_mul(86_400_000_000)?;
            let width = days.checked_add(unit.nanoseconds / 1000)?;
            (unit.nanoseconds % 1000 == 0 && width > 0 && width < NEAR.end / 1000).then_some(width)
        }
        ("date_trunc", unit) => match unit.try_as_str().flatten()?.to_lowercase().as_str() {
            "second" => Some(1_000_000),
            "minute" => Some(60_000_000),
            "hour" => Some(3_600_000_000),
            "day" => Some(86_400_000_000),
            _ => None,
        },
        _ => None,
    }
}

/// Distinct values of a key.
#[derive(Debug)]
struct KeyValues {
    key: GroupKey,
    known: KnownGroups,
    /// Ids of texts by their code in a shared dictionary.
    names: Vec<NameIds>,
    /// Combinations, for a key over several columns.
    combinations: Option<KeyCombinations>,
}

/// Combinations of a key's columns found so far, and the id of each one's value.
#[derive(Debug)]
struct KeyCombinations {
    groups: GroupIds,
    numbers: Vec<u32>,
}

/// Ids of texts by their code in one shared dictionary.
#[derive(Debug)]
struct NameIds {
    lexicon: u64,
    numbers: Vec<Option<u32>>,
}

impl NameIds {
    #[inline]
    fn at(&mut self, name: u32) -> &mut Option<u32> {
        let name = name as usize;
        if name >= self.numbers.len() {
            self.numbers.resize((name + 1).next_power_of_two(), None);
        }
        &mut self.numbers[name]
    }
}

#[derive(Debug)]
enum KnownGroups {
    Texts(NumberedTexts),
    Ints(NumberedInts),
}

/// No id yet.
const NONE: u32 = u32::MAX;

impl KeyValues {
    fn new(key: GroupKey) -> Self {
        let known = match key.kind {
            DataType::Utf8 => KnownGroups::Texts(NumberedTexts::default()),
            _ => KnownGroups::Ints(NumberedInts::default()),
        };
        let combinations = match &key.of {
            KeySource::Values { columns, .. } => {
                Some(KeyCombinations { groups: GroupIds::new(columns), numbers: Vec::new() })
            }
            KeySource::Time { .. } | KeySource::Value { .. } => None,
        };
        Self { key, known, names: Vec::new(), combinations }
    }

    fn len(&self) -> usize {
        match &self.known {
            KnownGroups::Texts(texts) => texts.len(),
            KnownGroups::Ints(ints) => ints.len(),
        }
    }

    fn byte_count(&self) -> usize {
        let names = self.names.iter().map(|names| size_of_val(names.numbers.as_slice()));
        let known = match &self.known {
            KnownGroups::Texts(texts) => texts.byte_count(),
            KnownGroups::Ints(ints) => ints.byte_count(),
        };
        let combinations = self.combinations.as_ref().map_or(0, |combinations| {
            combinations.groups.byte_count() + size_of_val(combinations.numbers.as_slice())
        });
        known + names.sum::<usize>() + combinations
    }

    /// Takes the ids of a shared dictionary's codes out; the caller puts them back.
    fn take_names(&mut self, lexicon: u64) -> NameIds {
        let place = self.names.iter().position(|names| names.lexicon == lexicon);
        let new = NameIds { lexicon, numbers: Vec::new() };
        place.map_or(new, |place| self.names.swap_remove(place))
    }

    /// Id of each selected row's value.
    fn numbers(&mut self, reader: &MorselReader<'_>, picked: &SelectedRows) -> Result<Vec<u32>> {
        let (column, local, schema) = match &self.key.of {
            KeySource::Time { column, width } => {
                let width = *width;
                let times = reader.rows(&[*column], picked)?;
                let times = times[0].as_primitive::<TimestampMicrosecondType>();
                return Ok(self.numbers_of_times(times.values(), width));
            }
            KeySource::Value { column, local, schema } => {
                (*column, Arc::clone(local), Arc::clone(schema))
            }
            KeySource::Values { local, schema, .. } => {
                let (local, schema) = (Arc::clone(local), Arc::clone(schema));
                return self.numbers_of_combinations(reader, picked, &*local, schema);
            }
        };
        let is_plain = local.is::<ColumnExpr>();
        let compute = |values: ArrayRef| -> Result<ArrayRef> {
            if is_plain {
                return Ok(values);
            }
            let count = values.len();
            let batch = RecordBatch::try_new(Arc::clone(&schema), vec![values])?;
            local.evaluate(&batch)?.into_array(count)
        };
        let place = column;
        if let Some(column) = reader.values(place, WantedRows(picked.len()))?
            && let Column::Coded { codes, values, names } = &*column
            && values.len() <= picked.len()
            // If evaluation fails for a value that no selected row may have, evaluate row by row.
            && let Ok(keys) = compute(Arc::clone(values))
        {
            let names = match (keys.as_string_opt::<i32>(), reader.lexicon(place)) {
                (Some(texts), Some(lexicon)) if is_plain => {
                    Some(names.get_or_init(|| lexicon.names(texts)))
                }
                _ => None,
            };
            let mut of_names = names.map(|names| self.take_names(names.lexicon));
            let mut numbering = self.numbering(&keys)?;
            let mut known = vec![NONE; keys.len()];
            let mut number = |code: usize| {
                if known[code] == NONE {
                    known[code] = match (names, &mut of_names) {
                        (Some(names), Some(of_names)) => {
                            *of_names.at(names.numbers[code]).get_or_insert_with(|| numbering(code))
                        }
                        _ => numbering(code),
                    };
                }
                known[code]
            };
            let numbers = each_width!(codes, codes => match picked {
                SelectedRows::All(_) => codes.iter().map(|code| number(*code as usize)).collect(),
                SelectedRows::Some(rows) => {
                    rows.iter().map(|row| number(codes[*row as usize] as usize)).collect()
                }
            }, _rows => vec![number(0); picked.len()]);
            drop(numbering);
            self.names.extend(of_names);
            return Ok(numbers);
        }
        let rows = reader.rows(&[column], picked)?.remove(0);
        let keys = compute(rows)?;
        let mut numbering = self.numbering(&keys)?;
        Ok((0..keys.len()).map(&mut *numbering).collect())
    }

    /// Ids for a key over several columns.
    fn numbers_of_combinations(
        &mut self,
        reader: &MorselReader<'_>,
        picked: &SelectedRows,
        local: &dyn PhysicalExpr,
        schema: SchemaRef,
    ) -> Result<Vec<u32>> {
        let Some(mut combinations) = self.combinations.take() else {
            return internal_err!("a key of several columns has combinations");
        };
        let mut numbers = combinations.groups.of_rows(reader, picked)?;
        let known = combinations.numbers.len();
        if known < combinations.groups.len() {
            let new = RecordBatch::try_new(schema, combinations.groups.arrays(known)?)?;
            let keys = local.evaluate(&new)?.into_array(new.num_rows())?;
            let mut numbering = self.numbering(&keys)?;
            combinations.numbers.extend((0..keys.len()).map(&mut *numbering));
        }
        for number in &mut numbers {
            *number = combinations.numbers[*number as usize];
        }
        self.combinations = Some(combinations);
        Ok(numbers)
    }

    /// A function from row position to the key's id.
    fn numbering<'a>(
        &'a mut self,
        keys: &'a ArrayRef,
    ) -> Result<Box<dyn FnMut(usize) -> u32 + 'a>> {
        Ok(match &mut self.known {
            KnownGroups::Texts(known) => {
                let texts: &StringArray = keys.as_string();
                let text = |at: usize| texts.is_valid(at).then(|| texts.value(at));
                Box::new(move |at| known.number(text(at)))
            }
            KnownGroups::Ints(known) => {
                let ints = cast(keys, &DataType::Int64)?;
                let ints = ints.as_primitive::<Int64Type>().clone();
                Box::new(move |at| known.number(ints.is_valid(at).then(|| ints.value(at))))
            }
        })
    }

    fn numbers_of_times(&mut self, times: &[i64], width: i64) -> Vec<u32> {
        let KnownGroups::Ints(known) = &mut self.known else { unreachable!("times are numbers") };
        let (mut start, mut last) = (0, NONE);
        let number = |ts: &i64| {
            // As an unsigned number, a negative difference is a large one.
            let is_past = ts.wrapping_sub(start).cast_unsigned() >= width.cast_unsigned();
            if is_past || last == NONE {
                start = ts.wrapping_sub(ts.rem_euclid(width));
                last = known.number(Some(start));
            }
            last
        };
        times.iter().map(number).collect()
    }

    /// Values of some ids.
    fn array(&self, numbers: &[u32]) -> Result<ArrayRef> {
        Ok(match &self.known {
            KnownGroups::Texts(texts) => {
                Arc::new(numbers.iter().map(|number| texts.get(*number)).collect::<StringArray>())
            }
            KnownGroups::Ints(ints) => {
                let ints = numbers.iter().map(|number| ints.get(*number)).collect::<Int64Array>();
                cast(&ints, &self.key.kind)?
            }
        })
    }
}

/// Groups found so far.
#[derive(Debug)]
pub(crate) struct GroupIds {
    values: Vec<KeyValues>,
    /// Interners of id pairs: first and second key, that pair and the third key, and so on.
    pairs: Vec<PairInterner>,
}

impl GroupIds {
    pub(crate) fn new(keys: &[GroupKey]) -> Self {
        let pairs = keys.iter().skip(1).map(|_| PairInterner::default()).collect();
        Self { values: keys.iter().cloned().map(KeyValues::new).collect(), pairs }
    }

    pub(crate) fn len(&self) -> usize {
        self.pairs.last().map_or_else(|| self.values[0].len(), |pairs| pairs.firsts.len())
    }

    pub(crate) fn byte_count(&self) -> usize {
        let values = self.values.iter().map(KeyValues::byte_count);
        values.chain(self.pairs.iter().map(PairInterner::byte_count)).sum()
    }

    /// Group of each selected row.
    ///
    /// # Errors
    /// When a key cannot be computed, or files cannot be read.
    pub(crate) fn of_rows(
        &mut self,
        reader: &MorselReader<'_>,
        picked: &SelectedRows,
    ) -> Result<Vec<u32>> {
        let (first, rest) = self.values.split_first_mut().expect("groups have a key");
        let mut groups = first.numbers(reader, picked)?;
        for (values, pairs) in rest.iter_mut().zip(&mut self.pairs) {
            let seconds = values.numbers(reader, picked)?;
            pairs.reserve(values.len());
            for (group, second) in groups.iter_mut().zip(seconds) {
                *group = pairs.number(IdPair { first: *group, second });
            }
        }
        Ok(groups)
    }

    /// Keys of all groups from `from` on.
    ///
    /// # Errors
    /// When values cannot be converted to the output type, which would be a bug.
    pub(crate) fn arrays(&self, from: usize) -> Result<Vec<ArrayRef>> {
        let mut numbers: Vec<u32> = (group_number(from)..group_number(self.len())).collect();
        let mut arrays = Vec::with_capacity(self.values.len());
        for (values, pairs) in self.values.iter().skip(1).zip(&self.pairs).rev() {
            let seconds: Vec<u32> =
                numbers.iter().map(|number| pairs.seconds[*number as usize]).collect();
            arrays.push(values.array(&seconds)?);
            numbers.iter_mut().for_each(|number| *number = pairs.firsts[*number as usize]);
        }
        arrays.push(self.values[0].array(&numbers)?);
        arrays.reverse();
        Ok(arrays)
    }
}

fn group_number(group: usize) -> u32 {
    u32::try_from(group).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_cut_in_any_order() {
        let mut values = time_values(60);
        let times = [0, 59, 60, -1, -60, -61, 3, 119, 120, 60];
        assert_eq!(values.numbers_of_times(&times, 60), [0, 0, 1, 2, 2, 3, 0, 1, 4, 1]);
        let KnownGroups::Ints(ints) = &values.known else { unreachable!() };
        assert_eq!(
            (0..5).map(|at| ints.get(at).unwrap()).collect::<Vec<_>>(),
            [0, 60, -60, -120, 120]
        );
    }

    fn time_values(width: i64) -> KeyValues {
        let kind = DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
        KeyValues::new(GroupKey { of: KeySource::Time { column: 0, width }, kind })
    }
}
