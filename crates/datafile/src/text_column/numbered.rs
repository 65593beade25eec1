//! Numbers of texts, found once for each text of a dictionary that rows come with.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};

use super::NULL;
use super::distinct::Distinct;
use super::texts::{Coded, Part, Texts};
use crate::dictionary::is_same;

/// The texts of a row group, and what is known of the dictionaries that rows came with.
#[derive(Default)]
pub(super) struct Numbered {
    pub(super) distinct: Distinct,
    dictionaries: Vec<Dictionary>,
}

struct Dictionary {
    /// Kept, so that no other dictionary comes to lie where this one is.
    values: ArrayRef,
    /// For each of its texts, [`NULL`] where it has not come yet.
    numbers: Vec<u32>,
}

impl Numbered {
    /// Appends the number of each text, [`NULL`] for those that are NULL.
    pub(super) fn push(&mut self, texts: &Texts<'_>, rows: &mut Vec<u32>) {
        match texts {
            Texts::Nulls(count) => rows.resize(rows.len() + count, NULL),
            Texts::All(Part::Coded(coded)) => {
                let known = self.known(coded);
                rows.extend((0..coded.keys.len()).map(|row| self.number(known, coded, row)));
            }
            Texts::Chosen(parts, order)
                if parts.iter().any(|part| matches!(part, Part::Coded(_))) =>
            {
                let known: Vec<usize> = parts.iter().map(|part| self.known_part(part)).collect();
                rows.extend(order.iter().map(|(part, row)| match &parts[*part] {
                    Part::Coded(coded) => self.number(known[*part], coded, *row),
                    Part::Plain(texts) if texts.is_null(*row) => NULL,
                    Part::Plain(texts) => self.distinct.number(texts.value(*row).as_bytes()),
                }));
            }
            _ => texts.each(|text| {
                rows.push(text.map_or(NULL, |text| self.distinct.number(text)));
            }),
        }
    }

    fn known_part(&mut self, part: &Part<'_>) -> usize {
        match part {
            Part::Coded(coded) => self.known(coded),
            Part::Plain(_) => usize::MAX,
        }
    }

    /// The place of the dictionary among those that are known.
    fn known(&mut self, coded: &Coded<'_>) -> usize {
        let is_known = |known: &Dictionary| is_same(&known.values, coded.values);
        self.dictionaries.iter().rposition(is_known).unwrap_or_else(|| {
            let numbers = vec![NULL; coded.values.len()];
            self.dictionaries.push(Dictionary { values: coded.values.clone(), numbers });
            self.dictionaries.len() - 1
        })
    }

    #[inline]
    fn number(&mut self, known: usize, coded: &Coded<'_>, row: usize) -> u32 {
        let Some(place) = coded.place(row) else { return NULL };
        let number = &mut self.dictionaries[known].numbers[place];
        if *number == NULL {
            *number = self.distinct.number(coded.values.as_string::<i32>().value(place).as_bytes());
        }
        *number
    }
}
