//! One search for the words of many conditions at once: which rows of a batch each condition has to
//! be evaluated for.

use std::collections::HashMap;

use aho_corasick::AhoCorasick;
use arrow_array::cast::AsArray;
use arrow_array::{RecordBatch, UInt32Array};
use weir_dialect::required_words;

/// Column whose words are searched for: texts of lines.
const COLUMN: &str = "body";

/// The words of conditions over one table.
#[derive(Debug)]
pub struct WordFilter {
    search: Option<AhoCorasick>,
    /// By word, the places of the conditions that it may make true.
    conditions: Vec<Vec<usize>>,
    /// By condition, whether it can be true only for rows that contain one of its words.
    has_words: Vec<bool>,
}

/// Rows of a batch that a condition has to be evaluated for.
#[derive(Debug)]
pub enum PossibleRows {
    /// Every row.
    All,
    /// These only; all others do not match.
    Some(UInt32Array),
}

impl WordFilter {
    /// The filter of conditions in SQL on single rows; their places are used below.
    pub fn new<'a>(conditions: impl Iterator<Item = &'a str>) -> Self {
        let mut places: HashMap<String, Vec<usize>> = HashMap::new();
        let mut has_words = Vec::new();
        for (place, condition) in conditions.enumerate() {
            let words = required_words(condition, COLUMN);
            has_words.push(words.is_some());
            for word in words.unwrap_or_default() {
                places.entry(word).or_default().push(place);
            }
        }
        let (words, conditions): (Vec<String>, Vec<Vec<usize>>) = places.into_iter().unzip();
        // Too many words for an automaton: every condition is evaluated for all rows.
        let search = if words.is_empty() { None } else { AhoCorasick::new(&words).ok() };
        Self { search, conditions, has_words }
    }

    /// The rows to evaluate, by the condition's place.
    pub fn rows(&self, batch: &RecordBatch) -> Vec<PossibleRows> {
        let texts = batch.column_by_name(COLUMN).and_then(|column| column.as_string_opt::<i32>());
        let (Some(search), Some(texts)) = (&self.search, texts) else {
            return self.has_words.iter().map(|_| PossibleRows::All).collect();
        };
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); self.has_words.len()];
        for (row, text) in (0..).zip(texts) {
            for found in search.find_overlapping_iter(text.unwrap_or_default()) {
                for place in &self.conditions[found.pattern().as_usize()] {
                    if rows[*place].last() != Some(&row) {
                        rows[*place].push(row);
                    }
                }
            }
        }
        let possible = self.has_words.iter().zip(rows).map(|(has_words, rows)| match has_words {
            true => PossibleRows::Some(rows.into()),
            false => PossibleRows::All,
        });
        possible.collect()
    }
}

#[cfg(test)]
mod tests {
    use weir_tables::{Log, LogRows, Micros, Rows};

    use super::*;

    #[test]
    fn only_rows_with_a_word_of_the_condition_are_evaluated() {
        let mut rows = LogRows::default();
        for body in ["connection refused", "all is well", "refused, then timed out", ""] {
            rows.push(&Log { ts: Micros(1), body, ..Default::default() });
        }
        let batch = rows.finish();
        let conditions = [
            "body like '%refused%' or body like '%refus%out%'",
            "severity = 'error'",
            "body = 'none of them'",
        ];
        let found = WordFilter::new(conditions.into_iter()).rows(&batch);
        let found: Vec<Option<Vec<u32>>> = found
            .into_iter()
            .map(|rows| match rows {
                PossibleRows::All => None,
                PossibleRows::Some(rows) => Some(rows.values().to_vec()),
            })
            .collect();
        assert_eq!(found, [Some(vec![0, 2]), None, Some(vec![])]);
    }
}
