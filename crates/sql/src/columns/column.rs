//! A column of some rows in memory: dictionary codes where values repeat, else plain values.

use std::sync::{Arc, OnceLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float64Array, Int64Array, StringArray, UInt32Array,
    new_null_array,
};
use arrow_schema::DataType;
use arrow_select::concat::concat;
use arrow_select::take::take;
use datafusion::common::Result;
use parking_lot::Mutex;

use super::group_ids::{NumberedTexts, spread};

/// The values of one column.
#[derive(Debug)]
pub(crate) enum Column {
    /// Dictionary-encoded: each row has the code of an entry of `values`, which may include NULL.
    Coded { codes: DictionaryCodes, values: ArrayRef, names: OnceLock<DictionaryNames> },
    /// Plain values.
    Plain(ArrayRef),
}

/// Dictionary code of each row, in the narrowest integer type that fits.
#[derive(Debug)]
pub(crate) enum DictionaryCodes {
    /// Number of rows, all of which have the first value.
    One(usize),
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
}

/// Most distinct values for which numbers and times are dictionary-encoded.
const FEW: usize = 255;
/// Number of texts after which the encoder decides whether values repeat.
const PROBE_ROWS: usize = 16_384;

/// Runs `$body` with `$codes` as a slice of any width; [`DictionaryCodes::One`] is passed as
/// `$one`.
macro_rules! each_width {
    ($of:expr, $codes:ident => $body:expr, $rows:ident => $one:expr) => {
        match $of {
            $crate::columns::column::DictionaryCodes::One($rows) => $one,
            $crate::columns::column::DictionaryCodes::U8($codes) => $body,
            $crate::columns::column::DictionaryCodes::U16($codes) => $body,
            $crate::columns::column::DictionaryCodes::U32($codes) => $body,
        }
    };
}
pub(crate) use each_width;

impl DictionaryCodes {
    fn new(codes: impl ExactSizeIterator<Item = u32>, values: usize) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "every code is below `values`")]
        match values {
            0 | 1 => Self::One(codes.len()),
            2..=0x100 => Self::U8(codes.map(|code| code as u8).collect()),
            0x101..=0x1_0000 => Self::U16(codes.map(|code| code as u16).collect()),
            _ => Self::U32(codes.collect()),
        }
    }

    pub(crate) fn len(&self) -> usize {
        each_width!(self, codes => codes.len(), rows => *rows)
    }

    /// Codes of some rows.
    #[expect(clippy::useless_conversion, reason = "one of the widths is that of the outcome")]
    fn at(&self, rows: &[u32]) -> UInt32Array {
        each_width!(self,
            codes => rows.iter().map(|row| u32::from(codes[*row as usize])).collect::<Vec<_>>(),
            _all => vec![0; rows.len()])
        .into()
    }

    #[expect(clippy::useless_conversion, reason = "one of the widths is that of the outcome")]
    fn all(&self) -> UInt32Array {
        each_width!(self,
            codes => codes.iter().map(|code| u32::from(*code)).collect::<Vec<_>>(),
            rows => vec![0; *rows])
        .into()
    }

    fn byte_count(&self) -> usize {
        each_width!(self, codes => size_of_val(codes.as_slice()), _rows => 0)
    }
}

impl Column {
    /// Encodes an array in the form that is smallest and fastest to filter.
    ///
    /// # Errors
    /// When the engine cannot concatenate values, which would be a bug.
    pub(crate) fn new(array: &ArrayRef) -> Result<Self> {
        if !array.is_empty() && array.null_count() == array.len() {
            let values = new_null_array(value_type(array.data_type()), 1);
            return Ok(Self::coded(DictionaryCodes::One(array.len()), values));
        }
        let coded = match array.data_type() {
            DataType::Dictionary(..) => Some(of_dictionary(array.as_dictionary())?),
            DataType::Utf8 => of_texts(array.as_string()),
            DataType::Int64 => {
                of_few(array, |row| array.as_primitive::<Int64Type>().value(row).cast_unsigned())
                    .map(|(codes, bits)| {
                        Self::coded(
                            codes,
                            Arc::new(
                                bits.into_iter()
                                    .map(|bits| bits.map(u64::cast_signed))
                                    .collect::<Int64Array>(),
                            ),
                        )
                    })
            }
            DataType::Float64 => {
                of_few(array, |row| array.as_primitive::<Float64Type>().value(row).to_bits()).map(
                    |(codes, bits)| {
                        let values = bits
                            .into_iter()
                            .map(|bits| bits.map(f64::from_bits))
                            .collect::<Float64Array>();
                        Self::coded(codes, Arc::new(values))
                    },
                )
            }
            _ => None,
        };
        Ok(coded.unwrap_or_else(|| Self::Plain(Arc::clone(array))))
    }

    /// Whether all rows have the same value, if that can be checked cheaply: texts, and NULL.
    pub(crate) fn is_of_one_value(array: &ArrayRef) -> bool {
        match array.null_count() {
            0 => array.as_string_opt::<i32>().is_some_and(is_one_text),
            nulls => nulls == array.len(),
        }
    }

    /// A column for an array whose rows are known to have one value.
    pub(crate) fn of_one_value(array: &ArrayRef) -> Self {
        Self::coded(DictionaryCodes::One(array.len()), array.slice(0, 1))
    }

    fn coded(codes: DictionaryCodes, values: ArrayRef) -> Self {
        Self::Coded { codes, values, names: OnceLock::new() }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        match self {
            Self::Coded { codes, .. } => codes.len(),
            Self::Plain(array) => array.len(),
        }
    }

    /// Some rows, in the order of `rows`.
    pub(crate) fn rows(&self, rows: &[u32]) -> Result<ArrayRef> {
        let is_stretch = rows
            .first()
            .zip(rows.last())
            .is_some_and(|(first, last)| (last - first) as usize + 1 == rows.len());
        Ok(match self {
            Self::Coded { values, .. } if is_null_only(values) => {
                new_null_array(values.data_type(), rows.len())
            }
            Self::Coded { codes, values, .. } => take(values, &codes.at(rows), None)?,
            // Rows ascend, so a slice contains exactly the rows between the first and the last.
            Self::Plain(array) if is_stretch => array.slice(rows[0] as usize, rows.len()),
            Self::Plain(array) => take(array, &UInt32Array::from(rows.to_vec()), None)?,
        })
    }

    /// All rows.
    pub(crate) fn all(&self) -> Result<ArrayRef> {
        Ok(match self {
            Self::Coded { codes, values, .. } if is_null_only(values) => {
                new_null_array(values.data_type(), codes.len())
            }
            Self::Coded { codes, values, .. } => take(values, &codes.all(), None)?,
            Self::Plain(array) => Arc::clone(array),
        })
    }

    /// Bytes in memory.
    pub(crate) fn byte_count(&self) -> usize {
        match self {
            // Four bytes for each value's shared code, which grouping adds.
            Self::Coded { codes, values, .. } => {
                codes.byte_count() + values.get_array_memory_size() + 4 * values.len()
            }
            Self::Plain(array) => array.get_array_memory_size(),
        }
    }
}

/// Codes that a shared dictionary assigned to the values of a column.
#[derive(Debug)]
pub(crate) struct DictionaryNames {
    /// Number of the shared dictionary.
    pub(crate) lexicon: u64,
    /// Shared code of each value.
    pub(crate) numbers: Vec<u32>,
}

/// Dictionary of one text column over all row groups of a table, so that a query compares codes
/// instead of texts.
#[derive(Debug)]
pub(crate) struct SharedDictionary {
    number: u64,
    texts: Mutex<NumberedTexts>,
}

impl SharedDictionary {
    /// An empty dictionary; `number` identifies it.
    pub(crate) fn new(number: u64) -> Self {
        Self { number, texts: Mutex::default() }
    }

    /// Shared codes of values; unknown texts get new codes.
    pub(crate) fn names(&self, values: &StringArray) -> DictionaryNames {
        let mut texts = self.texts.lock();
        let numbers = values.iter().map(|text| texts.number(text)).collect();
        DictionaryNames { lexicon: self.number, numbers }
    }

    pub(crate) fn byte_count(&self) -> usize {
        self.texts.lock().byte_count()
    }
}

/// Whether all texts equal the first one.
fn is_one_text(texts: &StringArray) -> bool {
    let ends = texts.value_offsets();
    let [first, second, .., last] = ends else { return texts.len() == 1 };
    let (width, whole) = (second - first, last - first);
    if usize::try_from(whole).ok() != usize::try_from(width).ok().map(|width| width * texts.len()) {
        return false;
    }
    let bytes = &texts.value_data()[place_of(first)..place_of(last)];
    // Texts of equal length are all equal if each byte equals the byte one text length before it.
    bytes[place_of(&width)..] == bytes[..bytes.len() - place_of(&width)]
        && ends.windows(2).all(|ends| ends[1] - ends[0] == width)
}

fn place_of(end: &i32) -> usize {
    usize::try_from(*end).unwrap_or_default()
}

fn is_null_only(values: &ArrayRef) -> bool {
    values.len() == 1 && values.is_null(0)
}

fn value_type(kind: &DataType) -> &DataType {
    match kind {
        DataType::Dictionary(_, value) => value,
        kind => kind,
    }
}

fn of_dictionary(array: &DictionaryArray<Int32Type>) -> Result<Column> {
    let (keys, values) = (array.keys(), array.values());
    if keys.null_count() == 0 {
        let codes = keys.values().iter().map(|key| key.cast_unsigned());
        return Ok(Column::coded(DictionaryCodes::new(codes, values.len()), Arc::clone(values)));
    }
    let null = u32::try_from(values.len()).unwrap_or(u32::MAX);
    let with_null = concat(&[values, &new_null_array(values.data_type(), 1)])?;
    let codes = keys
        .values()
        .iter()
        .enumerate()
        .map(|(row, key)| if keys.is_null(row) { null } else { key.cast_unsigned() });
    Ok(Column::coded(DictionaryCodes::new(codes, with_null.len()), with_null))
}

/// Dictionary-encodes texts; `None` when most of them are distinct.
fn of_texts(texts: &StringArray) -> Option<Column> {
    let mut numbered = NumberedTexts::default();
    let mut codes = Vec::with_capacity(texts.len());
    for (row, text) in texts.iter().enumerate() {
        codes.push(numbered.number(text));
        let is_time_to_tell = row + 1 == PROBE_ROWS || row + 1 == texts.len();
        if is_time_to_tell && numbered.len() * 2 > row + 1 {
            return None;
        }
    }
    let values = numbered.finish();
    Some(Column::coded(DictionaryCodes::new(codes.into_iter(), values.len()), Arc::new(values)))
}

/// Codes and 64-bit values; `None` when there are too many distinct ones.
fn of_few(
    array: &ArrayRef,
    bits: impl Fn(usize) -> u64,
) -> Option<(DictionaryCodes, Vec<Option<u64>>)> {
    let mut values: Vec<Option<u64>> = Vec::new();
    let mut slots = [u16::MAX; 1024];
    let mut codes = Vec::with_capacity(array.len());
    for row in 0..array.len() {
        let value = array.is_valid(row).then(|| bits(row));
        // Ten bits: below the number of slots.
        let mut at = usize::try_from(spread(value.unwrap_or(u64::MAX)) >> 54).unwrap_or_default();
        let code = loop {
            match slots[at] {
                u16::MAX => {
                    if values.len() == FEW {
                        return None;
                    }
                    slots[at] = u16::try_from(values.len()).ok()?;
                    values.push(value);
                    break slots[at];
                }
                code if values[usize::from(code)] == value => break code,
                _ => at = (at + 1) % slots.len(),
            }
        };
        codes.push(u32::from(code));
    }
    let count = values.len();
    Some((DictionaryCodes::new(codes.into_iter(), count), values))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(array: ArrayRef, is_coded: bool) {
        let column = Column::new(&array).unwrap();
        assert_eq!(matches!(column, Column::Coded { .. }), is_coded, "{array:?}");
        assert_eq!((column.len(), &column.all().unwrap()), (array.len(), &array));
        let rows: Vec<u32> = (0..u32::try_from(array.len()).unwrap()).step_by(3).collect();
        let taken = take(&array, &UInt32Array::from(rows.clone()), None).unwrap();
        assert_eq!(&column.rows(&rows).unwrap(), &taken);
        let stretch: Vec<u32> = (1..4).collect();
        assert_eq!(&column.rows(&stretch).unwrap(), &array.slice(1, 3));
    }

    #[test]
    fn rows_in_memory_with_one_value_are_told() {
        assert!(is_one_value(&[Some("web1"); 3]));
        assert!(is_one_value(&[Some("web1")]));
        assert!(is_one_value(&[Some(""); 3]));
        assert!(is_one_value(&[None; 3]));
        assert!(
            !is_one_value(&[Some("ab"), Some("a"), Some("bab")]),
            "the same bytes, cut elsewhere"
        );
        assert!(!is_one_value(&[Some("ab"), Some("ac"), Some("ab")]));
        assert!(!is_one_value(&[Some("long"), Some("a"), Some("a")]));
        assert!(!is_one_value(&[Some("a"), None]));
        assert!(!is_one_value(&[Some(""), None]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 1]));
        assert!(!Column::is_of_one_value(&numbers));
        let nothing: ArrayRef = Arc::new(Int64Array::from(vec![None; 2]));
        assert!(Column::is_of_one_value(&nothing));
        assert_eq!(&Column::of_one_value(&nothing).all().unwrap(), &nothing);
    }

    fn is_one_value(texts: &[Option<&str>]) -> bool {
        let all: ArrayRef = Arc::new(texts.iter().copied().collect::<StringArray>());
        let framed = [&[Some("xy")], texts, &[Some("z")]].concat();
        let part: ArrayRef = Arc::new(framed.into_iter().collect::<StringArray>());
        let answers = [all, part.slice(1, texts.len())].map(|array| {
            let is_one = Column::is_of_one_value(&array);
            if is_one {
                assert_eq!(&Column::of_one_value(&array).all().unwrap(), &array);
            }
            is_one
        });
        assert_eq!(answers[0], answers[1], "{texts:?}");
        answers[0]
    }

    #[test]
    fn what_comes_out_is_what_went_in_whatever_the_form() {
        check(texts_of(3), true);
        check(texts_of(300), true);
        check(texts_of(999), false);
        check(numbers_of(200), true);
        check(numbers_of(400), false);
        check(Arc::new(Int64Array::from(vec![Some(-1), Some(i64::MAX), None, Some(-1)])), true);
        check(
            Arc::new(Float64Array::from(vec![Some(0.0), Some(-0.0), None, Some(f64::NAN)])),
            true,
        );
        check(new_null_array(&DataType::Utf8, 50), true);
        let dictionary: DictionaryArray<Int32Type> =
            [Some("a"), None, Some("b"), Some("a"), Some("c")].into_iter().collect();
        let array: ArrayRef = Arc::new(dictionary);
        let column = Column::new(&array).unwrap();
        let plain = arrow_cast::cast(&array, &DataType::Utf8).unwrap();
        assert_eq!(&column.all().unwrap(), &plain);
        assert_eq!(column.rows(&[1, 4]).unwrap().as_string::<i32>().value(1), "c");
    }

    fn texts_of(count: usize) -> ArrayRef {
        Arc::new(
            (0..1000)
                .map(|row| (row % 7 != 3).then(|| format!("t{}", row % count)))
                .collect::<StringArray>(),
        )
    }

    fn numbers_of(count: i64) -> ArrayRef {
        Arc::new(
            (0..1000).map(|row| (row % 7 != 3).then_some(row % count - 5)).collect::<Int64Array>(),
        )
    }
}
