//! Sizes of a function's arguments, row by row.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType, IntervalYearMonthType,
};
use arrow_array::{Array, ArrayRef, OffsetSizeTrait};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;

/// Bytes of a value in JSON beside its text, while it is made: an owned text and its separator.
const JSON_VALUE_BYTES: u64 = 64;
/// Bytes of a value whose type has no fixed width and is not measured.
const OTHER_BYTES: u64 = 16;
const DAY_NANOS: i128 = 86_400_000_000_000;
/// Shortest month, so that a range by months is not underestimated.
const MONTH_DAYS: i128 = 28;

/// Numbers of rows; one number for all rows of a scalar.
#[derive(Default)]
pub(super) struct RowNumbers<T>(Vec<T>);

impl<T: Copy + Default> RowNumbers<T> {
    pub(super) fn of(&self, row: usize) -> T {
        let at = if self.0.len() == 1 { 0 } else { row };
        self.0.get(at).copied().unwrap_or_default()
    }
}

/// One argument of a function.
pub(super) struct FunctionArgument {
    array: ArrayRef,
    bytes: RowNumbers<u64>,
    items: RowNumbers<u64>,
    numbers: RowNumbers<i128>,
}

impl FunctionArgument {
    pub(super) fn new(value: &ColumnarValue) -> Result<Self> {
        let array = match value {
            ColumnarValue::Array(array) => array.clone(),
            ColumnarValue::Scalar(scalar) => scalar.to_array()?,
        };
        let (bytes, items) = (RowNumbers(bytes(&array)), RowNumbers(items(&array)));
        let numbers = RowNumbers(numbers(&array));
        Ok(Self { array, bytes, items, numbers })
    }

    /// Bytes of the value.
    pub(super) fn bytes(&self, row: usize) -> u64 {
        self.bytes.of(row)
    }

    /// Items of a list.
    pub(super) fn items(&self, row: usize) -> u64 {
        self.items.of(row)
    }

    /// Value of an integer; nanoseconds of a time or an interval.
    pub(super) fn number(&self, row: usize) -> i128 {
        self.numbers.of(row)
    }

    /// What the JSON of each value takes while it is made.
    pub(super) fn json_bytes(&self) -> RowNumbers<u64> {
        RowNumbers(json_bytes(&self.array))
    }

    /// How many of these bytes each text has.
    pub(super) fn marks(&self, marks: &[u8]) -> RowNumbers<u64> {
        let count = |text: &str| text.bytes().filter(|byte| marks.contains(byte)).count() as u64;
        RowNumbers(of_texts(&self.array, count).unwrap_or_default())
    }

    /// Text of a constant.
    pub(super) fn constant_text(&self) -> Option<&str> {
        if self.array.len() != 1 || self.array.is_null(0) {
            return None;
        }
        match self.array.data_type() {
            DataType::Utf8 => Some(self.array.as_string::<i32>().value(0)),
            DataType::LargeUtf8 => Some(self.array.as_string::<i64>().value(0)),
            DataType::Utf8View => Some(self.array.as_string_view().value(0)),
            _ => None,
        }
    }
}

/// Bytes of each value of an array.
pub(super) fn bytes(array: &dyn Array) -> Vec<u64> {
    match array.data_type() {
        DataType::Utf8 => widths(array.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => widths(array.as_string::<i64>().value_offsets()),
        DataType::Binary => widths(array.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => widths(array.as_binary::<i64>().value_offsets()),
        DataType::Utf8View => array.as_string_view().lengths().map(u64::from).collect(),
        DataType::BinaryView => array.as_binary_view().lengths().map(u64::from).collect(),
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            sums(lists.value_offsets(), &bytes(lists.values()))
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            sums(lists.value_offsets(), &bytes(lists.values()))
        }
        DataType::Struct(_) => {
            let mut sum = vec![0; array.len()];
            for column in array.as_struct().columns() {
                sum.iter_mut().zip(bytes(column)).for_each(|(sum, bytes)| *sum += bytes);
            }
            sum
        }
        DataType::Map(..) => {
            let maps = array.as_map();
            sums(maps.value_offsets(), &bytes(maps.entries()))
        }
        DataType::FixedSizeBinary(width) => {
            vec![u64::try_from(*width).unwrap_or(0); array.len()]
        }
        DataType::Dictionary(..) => by_key(array, bytes),
        DataType::FixedSizeList(_, length) => {
            let lists = array.as_fixed_size_list();
            let length = usize::try_from(*length).unwrap_or(0);
            let values = bytes(lists.values());
            (0..lists.len()).map(|at| values.iter().skip(at * length).take(length).sum()).collect()
        }
        kind => {
            let width = kind.primitive_width().map_or(OTHER_BYTES, |width| width as u64);
            vec![width; array.len()]
        }
    }
}

/// A number for each value of a dictionary's column.
fn by_key(array: &dyn Array, measure: fn(&dyn Array) -> Vec<u64>) -> Vec<u64> {
    let dictionary = array.as_any_dictionary();
    let values = measure(dictionary.values());
    if values.is_empty() {
        return vec![0; array.len()];
    }
    let keys = dictionary.normalized_keys();
    keys.into_iter().map(|key| values.get(key).copied().unwrap_or(0)).collect()
}

/// A number for each text; `None` for other types.
fn of_texts(array: &dyn Array, measure: impl Fn(&str) -> u64) -> Option<Vec<u64>> {
    let of = |text: Option<&str>| text.map_or(0, &measure);
    Some(match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().iter().map(of).collect(),
        DataType::LargeUtf8 => array.as_string::<i64>().iter().map(of).collect(),
        DataType::Utf8View => array.as_string_view().iter().map(of).collect(),
        _ => return None,
    })
}

/// What the JSON of each value takes at most while it is made. The fields of a row are named in each.
fn json_bytes(array: &dyn Array) -> Vec<u64> {
    let of_lists = match array.data_type() {
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            sums(lists.value_offsets(), &json_bytes(lists.values()))
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            sums(lists.value_offsets(), &json_bytes(lists.values()))
        }
        DataType::FixedSizeList(_, length) => {
            let lists = array.as_fixed_size_list();
            let length = usize::try_from(*length).unwrap_or(0);
            let values = json_bytes(lists.values());
            (0..lists.len()).map(|at| values.iter().skip(at * length).take(length).sum()).collect()
        }
        DataType::Map(..) => {
            let maps = array.as_map();
            sums(maps.value_offsets(), &json_bytes(maps.entries()))
        }
        DataType::Struct(fields) => {
            let names = fields.iter().map(|field| escaped(field.name())).sum::<u64>();
            let mut sum = vec![names; array.len()];
            for column in array.as_struct().columns() {
                sum.iter_mut().zip(json_bytes(column)).for_each(|(sum, bytes)| *sum += bytes);
            }
            sum
        }
        DataType::Dictionary(..) => return by_key(array, json_bytes),
        _ => of_texts(array, escaped).unwrap_or_else(|| bytes(array)),
    };
    of_lists.into_iter().map(|bytes| bytes.saturating_add(JSON_VALUE_BYTES)).collect()
}

/// Bytes of a text in JSON.
fn escaped(text: &str) -> u64 {
    let of_byte = |byte| match byte {
        0..=31 => 6,
        b'"' | b'\\' => 2,
        _ => 1,
    };
    text.bytes().map(of_byte).sum()
}

/// Whether the values of a type may be of any length.
pub(super) fn is_variable(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(_, values) => is_variable(values),
        DataType::Null => false,
        kind => kind.primitive_width().is_none() && *kind != DataType::Boolean,
    }
}

fn items(array: &dyn Array) -> Vec<u64> {
    match array.data_type() {
        DataType::List(_) => widths(array.as_list::<i32>().value_offsets()),
        DataType::LargeList(_) => widths(array.as_list::<i64>().value_offsets()),
        DataType::FixedSizeList(_, length) => vec![u64::try_from(*length).unwrap_or(0)],
        _ => Vec::new(),
    }
}

fn width<O: OffsetSizeTrait>(start: O, end: O) -> usize {
    end.as_usize().saturating_sub(start.as_usize())
}

fn widths<O: OffsetSizeTrait>(offsets: &[O]) -> Vec<u64> {
    offsets.windows(2).map(|pair| width(pair[0], pair[1]) as u64).collect()
}

fn sums<O: OffsetSizeTrait>(offsets: &[O], values: &[u64]) -> Vec<u64> {
    let range = |pair: &[O]| values.get(pair[0].as_usize()..pair[1].as_usize());
    offsets.windows(2).map(|pair| range(pair).map_or(0, |values| values.iter().sum())).collect()
}

/// Integers as they are, times and intervals in nanoseconds; nothing for other types.
fn numbers(array: &ArrayRef) -> Vec<i128> {
    match array.data_type() {
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let intervals = array.as_primitive::<IntervalMonthDayNanoType>().values().iter();
            intervals
                .map(|each| {
                    let days = i128::from(each.months) * MONTH_DAYS + i128::from(each.days);
                    days * DAY_NANOS + i128::from(each.nanoseconds)
                })
                .collect()
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            let intervals = array.as_primitive::<IntervalDayTimeType>().values().iter();
            let nanos = |days: i32, millis: i32| {
                i128::from(days) * DAY_NANOS + i128::from(millis) * 1_000_000
            };
            intervals.map(|each| nanos(each.days, each.milliseconds)).collect()
        }
        DataType::Interval(IntervalUnit::YearMonth) => {
            let intervals = array.as_primitive::<IntervalYearMonthType>().values().iter();
            intervals.map(|months| i128::from(*months) * MONTH_DAYS * DAY_NANOS).collect()
        }
        kind => match unit_nanos(kind) {
            Some(unit) => match arrow_cast::cast(array, &DataType::Int64) {
                Ok(whole) => {
                    let values = whole.as_primitive::<Int64Type>().values().iter();
                    values.map(|number| i128::from(*number) * unit).collect()
                }
                Err(_) => Vec::new(),
            },
            None => Vec::new(),
        },
    }
}

/// What one unit of a type counts for.
fn unit_nanos(kind: &DataType) -> Option<i128> {
    match kind {
        DataType::Date32 => Some(DAY_NANOS),
        DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => Some(1_000_000),
        DataType::Timestamp(TimeUnit::Second, _) => Some(1_000_000_000),
        DataType::Timestamp(TimeUnit::Microsecond, _) => Some(1000),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => Some(1),
        kind if kind.is_integer() => Some(1),
        _ => None,
    }
}
