//! Maps the codes of input dictionaries to codes of the output dictionary, once per distinct text.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};

use super::NULL;
use super::distinct::DistinctTexts;
use super::texts::{DictionaryTexts, TextPart, TextValues};
use crate::dictionary::is_same;

/// Output dictionary of a row group, and the code maps of the input dictionaries.
#[derive(Default)]
pub(super) struct TextNumbering {
    pub(super) distinct: DistinctTexts,
    dictionaries: Vec<InputDictionary>,
}

struct InputDictionary {
    /// Holds a reference, so that no other dictionary can reuse the address.
    values: ArrayRef,
    /// Output code of each input code; [`NULL`] if not yet seen.
    numbers: Vec<u32>,
}

impl TextNumbering {
    /// Appends the code of each text, [`NULL`] for NULL.
    pub(super) fn push(&mut self, texts: &TextValues<'_>, rows: &mut Vec<u32>) {
        match texts {
            TextValues::Nulls(count) => rows.resize(rows.len() + count, NULL),
            TextValues::All(TextPart::Dictionary(coded)) => {
                let known = self.known(coded);
                rows.extend((0..coded.keys.len()).map(|row| self.number(known, coded, row)));
            }
            TextValues::Chosen(parts, order)
                if parts.iter().any(|part| matches!(part, TextPart::Dictionary(_))) =>
            {
                let known: Vec<usize> = parts.iter().map(|part| self.known_part(part)).collect();
                rows.extend(order.iter().map(|(part, row)| match &parts[*part] {
                    TextPart::Dictionary(coded) => self.number(known[*part], coded, *row),
                    TextPart::Plain(texts) if texts.is_null(*row) => NULL,
                    TextPart::Plain(texts) => self.distinct.number(texts.value(*row).as_bytes()),
                }));
            }
            _ => texts.each(|text| {
                rows.push(text.map_or(NULL, |text| self.distinct.number(text)));
            }),
        }
    }

    fn known_part(&mut self, part: &TextPart<'_>) -> usize {
        match part {
            TextPart::Dictionary(coded) => self.known(coded),
            TextPart::Plain(_) => usize::MAX,
        }
    }

    /// Index of the input dictionary in the list of code maps; adds it if new.
    fn known(&mut self, coded: &DictionaryTexts<'_>) -> usize {
        let is_known = |known: &InputDictionary| is_same(&known.values, coded.values);
        self.dictionaries.iter().rposition(is_known).unwrap_or_else(|| {
            let numbers = vec![NULL; coded.values.len()];
            self.dictionaries.push(InputDictionary { values: coded.values.clone(), numbers });
            self.dictionaries.len() - 1
        })
    }

    #[inline]
    fn number(&mut self, known: usize, coded: &DictionaryTexts<'_>, row: usize) -> u32 {
        let Some(place) = coded.place(row) else { return NULL };
        let number = &mut self.dictionaries[known].numbers[place];
        if *number == NULL {
            *number = self.distinct.number(coded.values.as_string::<i32>().value(place).as_bytes());
        }
        *number
    }
}
