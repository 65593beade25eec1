//! Texts of one column in the order in which they are to be written, wherever they are.

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch, StringArray};
use weir_tables::is_null_column;

/// A column of the rows at hand.
pub(crate) enum Texts<'a> {
    /// So many rows without a text.
    Nulls(usize),
    /// All of it.
    All(&'a StringArray),
    /// The texts at these places: (batch, row).
    Chosen(&'a [&'a StringArray], &'a [(usize, usize)]),
}

impl Texts<'_> {
    /// Hands out one after the other; `None` for NULL.
    #[inline]
    pub(crate) fn each(&self, mut take: impl FnMut(Option<&[u8]>)) {
        match self {
            Self::Nulls(count) => (0..*count).for_each(|_| take(None)),
            Self::All(texts) => texts.iter().for_each(|text| take(text.map(str::as_bytes))),
            Self::Chosen(parts, order) => {
                for (part, row) in *order {
                    let texts = parts[*part];
                    take(texts.is_valid(*row).then(|| texts.value(*row).as_bytes()));
                }
            }
        }
    }
}

/// A column of all batches; `None` when it is NULL in all of them.
pub(crate) fn parts(batches: &[RecordBatch], place: usize) -> Option<Vec<&StringArray>> {
    if batches.iter().all(|batch| is_null_column(batch.column(place))) {
        return None;
    }
    Some(batches.iter().map(|batch| batch.column(place).as_string()).collect())
}
