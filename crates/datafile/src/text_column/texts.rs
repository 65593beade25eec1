//! Texts of one column in write order, from plain arrays or dictionaries.

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, Int32Array, RecordBatch, StringArray};
use weir_tables::is_null_column;

/// Column values of the rows to write.
pub(crate) enum TextValues<'a> {
    /// Number of NULL rows.
    Nulls(usize),
    /// All rows of a batch.
    All(TextPart<'a>),
    /// Selected rows, as (batch, row).
    Chosen(&'a [TextPart<'a>], &'a [(usize, usize)]),
}

/// Column of one batch.
#[derive(Clone, Copy)]
pub(crate) enum TextPart<'a> {
    /// Plain strings.
    Plain(&'a StringArray),
    /// Dictionary-encoded strings, as read from a file.
    Dictionary(DictionaryTexts<'a>),
}

/// Dictionary codes with their dictionary.
#[derive(Clone, Copy)]
pub(crate) struct DictionaryTexts<'a> {
    pub(super) keys: &'a Int32Array,
    /// The dictionary, which contains no NULL.
    pub(super) values: &'a ArrayRef,
}

impl<'a> TextPart<'a> {
    /// Wraps a string or dictionary array.
    pub(crate) fn of(column: &'a dyn Array) -> Self {
        match column.as_dictionary_opt::<Int32Type>() {
            Some(coded) => {
                Self::Dictionary(DictionaryTexts { keys: coded.keys(), values: coded.values() })
            }
            None => Self::Plain(column.as_string()),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Plain(texts) => texts.len(),
            Self::Dictionary(coded) => coded.keys.len(),
        }
    }

    #[inline]
    fn text(&self, row: usize) -> Option<&'a [u8]> {
        match self {
            Self::Plain(texts) => texts.is_valid(row).then(|| texts.value(row).as_bytes()),
            Self::Dictionary(coded) => {
                let texts = coded.values.as_string::<i32>();
                coded.place(row).map(|place| texts.value(place).as_bytes())
            }
        }
    }
}

impl DictionaryTexts<'_> {
    /// Dictionary code of the row; `None` for NULL.
    #[inline]
    pub(super) fn place(&self, row: usize) -> Option<usize> {
        self.keys.is_valid(row).then(|| self.keys.value(row).cast_unsigned() as usize)
    }
}

impl TextValues<'_> {
    /// Calls `take` for each text; `None` for NULL.
    #[inline]
    pub(crate) fn each(&self, mut take: impl FnMut(Option<&[u8]>)) {
        match self {
            Self::Nulls(count) => (0..*count).for_each(|_| take(None)),
            Self::All(TextPart::Plain(texts)) => {
                texts.iter().for_each(|text| take(text.map(str::as_bytes)));
            }
            Self::All(part) => (0..part.len()).for_each(|row| take(part.text(row))),
            Self::Chosen(parts, order) => {
                order.iter().for_each(|(part, row)| take(parts[*part].text(*row)));
            }
        }
    }
}

/// The column at `place` in each batch; `None` if it is NULL in all of them.
pub(crate) fn parts(batches: &[RecordBatch], place: usize) -> Option<Vec<TextPart<'_>>> {
    if batches.iter().all(|batch| is_null_column(batch.column(place))) {
        return None;
    }
    Some(batches.iter().map(|batch| TextPart::of(batch.column(place))).collect())
}
