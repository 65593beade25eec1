//! The lists of access lines of known programs below `parsers/access/`: JSON by its keys, text by its format.

use toml::de::{DeTable, DeValue};

use crate::field::Field;

/// An entry of a list: names with their texts, in order.
#[derive(Debug)]
pub(crate) struct KnownEntry(Vec<(String, Vec<String>)>);

impl KnownEntry {
    /// The entries of a list.
    pub(crate) fn all(list: &str) -> Vec<Self> {
        let root = DeTable::parse(list).expect("a test reads the built-in lists").into_inner();
        let entries = root.get("access").and_then(|value| value.get_ref().as_array());
        let tables = entries.into_iter().flatten().filter_map(|entry| entry.get_ref().as_table());
        tables.map(Self::new).collect()
    }

    fn new(table: &DeTable<'_>) -> Self {
        let text = |value: &DeValue<'_>| value.as_str().map(str::to_owned);
        let texts = |value: &DeValue<'_>| match value.as_array() {
            Some(items) => items.iter().filter_map(|item| text(item.get_ref())).collect(),
            None => text(value).into_iter().collect(),
        };
        let pairs = table.iter();
        Self(
            pairs.map(|(key, value)| (key.get_ref().to_string(), texts(value.get_ref()))).collect(),
        )
    }

    /// Takes the texts of a name out of the entry.
    pub(crate) fn take(&mut self, name: &str) -> Vec<String> {
        let at = self.0.iter().position(|(key, _)| key == name);
        at.map_or_else(Vec::new, |at| self.0.remove(at).1)
    }

    /// Takes the only text of a name, empty if there is none.
    pub(crate) fn take_text(&mut self, name: &str) -> String {
        self.take(name).pop().unwrap_or_default()
    }

    /// The names that were not taken, which are those of columns, with their texts.
    pub(crate) fn into_columns(self) -> Vec<(String, Vec<String>)> {
        self.0
    }
}

/// The column of a name in a list, and its meaning.
#[derive(Debug)]
pub(crate) struct KnownColumn {
    pub(crate) name: String,
    pub(crate) field: Field,
}

impl KnownColumn {
    /// The key of the value in the record: the column's name for a plain column, else the text's own key.
    pub(crate) fn key<'s>(&'s self, key: &'s str) -> &'s str {
        if self.field == Field::Column { &self.name } else { key }
    }
}
