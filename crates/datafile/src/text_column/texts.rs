//! Texts of one column in the order in which they are to be written, wherever they are.

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, Int32Array, RecordBatch, StringArray};
use weir_tables::is_null_column;

/// A column of the rows at hand.
pub(crate) enum TextValues<'a> {
    /// So many rows without a text.
    Nulls(usize),
    /// All of it.
    All(TextPart<'a>),
    /// The texts at these places: (batch, row).
    Chosen(&'a [TextPart<'a>], &'a [(usize, usize)]),
}

/// The column of one batch.
#[derive(Clone, Copy)]
pub(crate) enum TextPart<'a> {
    /// As they are.
    Plain(&'a StringArray),
    /// As a file has them: the place of each in a dictionary.
    Dictionary(DictionaryTexts<'a>),
}

/// Texts of a dictionary.
#[derive(Clone, Copy)]
pub(crate) struct DictionaryTexts<'a> {
    pub(super) keys: &'a Int32Array,
    /// Without NULL.
    pub(super) values: &'a ArrayRef,
}

impl<'a> TextPart<'a> {
    /// `column` has texts, or a dictionary of them.
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
    /// Where in the dictionary the row's text is; `None` for NULL.
    #[inline]
    pub(super) fn place(&self, row: usize) -> Option<usize> {
        self.keys.is_valid(row).then(|| self.keys.value(row).cast_unsigned() as usize)
    }
}

impl TextValues<'_> {
    /// Hands out one after the other; `None` for NULL.
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

/// A column of all batches; `None` when it is NULL in all of them.
pub(crate) fn parts(batches: &[RecordBatch], place: usize) -> Option<Vec<TextPart<'_>>> {
    if batches.iter().all(|batch| is_null_column(batch.column(place))) {
        return None;
    }
    Some(batches.iter().map(|batch| TextPart::of(batch.column(place))).collect())
}
