//! Lists of tables such as `[[outputs]]`: every key with kind, default and doc, so that wrong ones
//! are refused in one way.

use std::collections::BTreeMap;
use std::path::PathBuf;

use toml::de::{DeTable, DeValue};
use weir_process::failure::Failure;
use weir_tables::nearest;

use super::refusal::{ConfigPlace, WrittenKey};

/// What a value must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A text.
    Text,
    /// A whole number.
    Number,
    /// True or false.
    Flag,
    /// A number, with or without decimals.
    Decimal,
    /// A list of texts.
    Texts,
    /// Names and texts: `{ job = "node" }`.
    Labels,
}

/// One key of an entry.
#[derive(Clone, Copy, Debug)]
pub struct EntryKey {
    /// The key's name.
    pub name: &'static str,
    /// What its value must be.
    pub kind: EntryKind,
    /// As the docs show it.
    pub default: &'static str,
    /// The documentation of the key.
    pub doc: &'static str,
}

/// What holds where a key is not set.
#[derive(Clone, Copy)]
pub(super) enum KeyDefault {
    /// Nothing: the key is required.
    Required,
    /// This, as the docs show it.
    Shown(&'static str),
}

/// One key of a list of them.
pub(super) const fn key(
    name: &'static str,
    kind: EntryKind,
    default: KeyDefault,
    doc: &'static str,
) -> EntryKey {
    let default = match default {
        KeyDefault::Required => "",
        KeyDefault::Shown(text) => text,
    };
    EntryKey { name, kind, default, doc }
}

/// The key of a login's password.
pub(super) const PASSWORD_FILE: EntryKey = key(
    "password_file",
    EntryKind::Text,
    KeyDefault::Shown("*none*"),
    "a file whose first line is the password",
);

/// A kind of entry.
#[derive(Clone, Copy, Debug)]
pub struct EntryList {
    /// The name between `[[` and `]]`.
    pub section: &'static str,
    /// What the list is for, for the docs.
    pub doc: &'static str,
    /// Every key of an entry.
    pub keys: &'static [EntryKey],
}

/// A value from the file.
#[derive(Clone, Debug)]
enum EntryValue {
    Text(String),
    Number(u64),
    Flag(bool),
    Decimal(f64),
    Texts(Vec<String>),
    Labels(BTreeMap<String, String>),
}

/// One entry of the file: keys that are known, values of the right kind.
#[derive(Clone, Debug)]
pub struct Entry {
    section: &'static str,
    /// `weir.toml:12`.
    pub place: ConfigPlace,
    values: BTreeMap<&'static str, (EntryValue, ConfigPlace)>,
}

/// One key of an entry, set or not, for what is wrong with it.
#[derive(Clone, Copy, Debug)]
pub struct EntryField<'a> {
    entry: &'a Entry,
    name: &'a str,
}

impl EntryKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Number => "whole number",
            Self::Flag => "flag: true or false",
            Self::Decimal => "number such as 99.9",
            Self::Texts => "list of texts",
            Self::Labels => "table of texts such as { job = \"node\" }",
        }
    }

    fn read(self, value: &DeValue<'_>) -> Option<EntryValue> {
        match (self, value) {
            (Self::Text, value) => text_of(value).map(EntryValue::Text),
            (Self::Number, DeValue::Integer(number)) => {
                u64::from_str_radix(number.as_str(), number.radix()).ok().map(EntryValue::Number)
            }
            (Self::Flag, DeValue::Boolean(flag)) => Some(EntryValue::Flag(*flag)),
            (Self::Decimal, DeValue::Float(number)) => decimal(number.as_str()),
            (Self::Decimal, DeValue::Integer(number)) => decimal(number.as_str()),
            (Self::Texts, DeValue::Array(items)) => {
                let texts = items.iter().map(|item| text_of(item.get_ref()));
                texts.collect::<Option<_>>().map(EntryValue::Texts)
            }
            (Self::Labels, DeValue::Table(table)) => {
                let pairs = table.iter().map(|(key, value)| {
                    Some((key.get_ref().to_string(), text_of(value.get_ref())?))
                });
                pairs.collect::<Option<_>>().map(EntryValue::Labels)
            }
            _ => None,
        }
    }
}

fn decimal(text: &str) -> Option<EntryValue> {
    let number = text.replace('_', "").parse::<f64>().ok()?;
    number.is_finite().then_some(EntryValue::Decimal(number))
}

fn text_of(value: &DeValue<'_>) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// Reads one entry; `at` gives the place of an offset.
pub(super) fn read(
    list: &EntryList,
    table: &DeTable<'_>,
    place: &ConfigPlace,
    at: impl Fn(usize) -> ConfigPlace,
) -> Result<Entry, Failure> {
    let mut values = BTreeMap::new();
    for (name, value) in table {
        let place = at(name.span().start);
        let name = name.get_ref().as_ref();
        let Some(key) = list.keys.iter().find(|key| key.name == name) else {
            let known = || list.keys.iter().map(|key| key.name);
            let hint = nearest(name, known()).map_or_else(
                || format!("known are {}", known().collect::<Vec<_>>().join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            let section = list.section;
            return Err(place.unknown_key(&WrittenKey { section, name }).hint(hint));
        };
        let value = key.kind.read(value.get_ref()).ok_or_else(|| {
            let (section, kind) = (list.section, key.kind.as_str());
            place.refuse(&format!("`{section}.{name}` must be a {kind}")).hint(key.doc)
        })?;
        values.insert(key.name, (value, place));
    }
    Ok(Entry { section: list.section, place: place.clone(), values })
}

impl Entry {
    fn get(&self, name: &str) -> Option<&EntryValue> {
        self.values.get(name).map(|(value, _)| value)
    }

    /// A text.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            EntryValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The key `name`, set or not.
    pub fn key<'a>(&'a self, name: &'a str) -> EntryField<'a> {
        EntryField { entry: self, name }
    }

    /// A path.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }

    /// A number within `range`.
    pub fn number(
        &self,
        name: &str,
        default: u64,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<u64, Failure> {
        let number = match self.get(name) {
            Some(EntryValue::Number(number)) => *number,
            _ => default,
        };
        if range.contains(&number) {
            return Ok(number);
        }
        let (from, to) = range.into_inner();
        Err(self.key(name).wrong(&format!("`{name}` must be from {from} to {to}")))
    }

    /// Whether a flag is set to true.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some(EntryValue::Flag(true)))
    }

    /// A number with decimals; `None` when it is not set.
    pub fn decimal(&self, name: &str) -> Option<f64> {
        match self.get(name) {
            Some(EntryValue::Decimal(number)) => Some(*number),
            _ => None,
        }
    }

    /// A list.
    pub fn texts(&self, name: &str) -> &[String] {
        match self.get(name) {
            Some(EntryValue::Texts(texts)) => texts,
            _ => &[],
        }
    }

    /// Names and texts.
    pub fn labels(&self, name: &str) -> Vec<(String, String)> {
        match self.get(name) {
            Some(EntryValue::Labels(labels)) => labels.clone().into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The section.
    pub(super) fn section(&self) -> &'static str {
        self.section
    }

    /// The keys that are there.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.values.keys().copied()
    }
}

impl<'a> EntryField<'a> {
    /// A required text; `example` is used in the hint.
    pub fn required(self, example: &str) -> Result<&'a str, Failure> {
        let text = self.entry.text(self.name).filter(|text| !text.is_empty());
        text.ok_or_else(|| self.missing(example))
    }

    /// The error that a required text is not set.
    pub fn missing(self, example: &str) -> Failure {
        let (section, name) = (self.entry.section, self.name);
        let failure = self.entry.place.refuse(&format!("`[[{section}]]` has no `{name}`"));
        failure.hint(format!("{name} = \"{example}\""))
    }

    /// Where the key is set; where the entry begins when it is not.
    pub fn place(self) -> &'a ConfigPlace {
        self.entry.values.get(self.name).map_or(&self.entry.place, |(_, place)| place)
    }

    /// The error that `what` is wrong with the key, with its place.
    pub fn wrong(self, what: &str) -> Failure {
        self.place().refuse(what)
    }
}

/// An entry as written in the file, for `weir config`.
#[derive(Clone, Debug)]
pub struct ShownEntry {
    /// `outputs`.
    pub section: String,
    /// The entry's index in the list.
    pub number: usize,
    /// Where it begins.
    pub origin: String,
    /// Keys and values.
    pub values: toml::Table,
}

/// A table of the file as a value.
pub(super) fn whole(table: &DeTable<'_>) -> toml::Table {
    let pairs = table.iter();
    pairs.map(|(key, value)| (key.get_ref().to_string(), whole_value(value.get_ref()))).collect()
}

fn whole_value(value: &DeValue<'_>) -> toml::Value {
    match value {
        DeValue::Table(table) => toml::Value::Table(whole(table)),
        DeValue::Array(items) => {
            toml::Value::Array(items.iter().map(|item| whole_value(item.get_ref())).collect())
        }
        DeValue::Float(number) => toml::Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        other => super::to_value(other),
    }
}
