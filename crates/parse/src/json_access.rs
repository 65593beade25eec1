//! Access lines in JSON of gateways, balancers and frameworks whose keys mean nothing elsewhere, and
//! lines that are no requests, of Nextcloud, MySQL, and of PostgreSQL in the log of CloudNativePG.
//!
//! Programs, keys and their sources are in `parsers/access/json.toml`.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::field::{self, Field};
use crate::known::{KnownColumn, KnownEntry};
use crate::record::{Record, RowKind};

/// Nextcloud's and ownCloud's levels, in the order of their numbers.
const NEXTCLOUD_LEVELS: [&str; 5] = ["debug", "info", "warn", "error", "fatal"];

static DIALECTS: LazyLock<Vec<Dialect>> = LazyLock::new(|| {
    let entries = KnownEntry::all(include_str!("../../../parsers/access/json.toml"));
    entries.into_iter().map(Dialect::new).collect()
});

/// The lines of one program.
struct Dialect {
    /// Keys that are all in a line; the first is a [`Field::AccessMark`].
    signs: Vec<String>,
    /// The column `program`; empty where programs of any name write them.
    program: String,
    /// The column `tier`; empty for lines that are no requests.
    tier: String,
    /// May be in front of a key.
    prefix: String,
    /// Whether other keys have their usual meanings; otherwise they are attributes.
    has_usual_names: bool,
    columns: HashMap<String, KnownColumn>,
}

impl Dialect {
    fn new(mut entry: KnownEntry) -> Self {
        let signs = entry.take("signs");
        let [program, tier, prefix, others] =
            ["program", "tier", "prefix", "other_names"].map(|name| entry.take_text(name));
        let mut columns = HashMap::new();
        for (name, keys) in entry.into_columns() {
            let column =
                |key| (key, KnownColumn { name: name.clone(), field: field::of_column(&name) });
            columns.extend(keys.into_iter().map(column));
        }
        Self { signs, program, tier, prefix, has_usual_names: others == "usual", columns }
    }

    /// The name and the meaning of a key.
    fn meaning<'k>(&'static self, key: &'k str) -> (&'k str, Field)
    where
        'static: 'k,
    {
        let name = key.strip_prefix(&*self.prefix).unwrap_or(key);
        match self.columns.get(name) {
            Some(column) => (column.key(key), column.field),
            None if self.has_usual_names => (key, field::of_key(name)),
            None => (key, Field::Attr),
        }
    }
}

/// Gives the keys of a line with [`Field::AccessMark`] their meanings; `None`, with the record as it
/// was, for a line of another program.
pub(crate) fn parse(record: &mut Record<'_>) -> Option<RowKind> {
    let is_of = |dialect: &&Dialect| dialect.signs.iter().all(|key| record.text(key).is_some());
    let dialect = DIALECTS.iter().find(is_of)?;
    // What a function of Vercel wrote has the values of its request beside it.
    if dialect.program == "vercel" && record.text("message").is_some_and(|text| !text.is_empty()) {
        return None;
    }
    if dialect.program == "cloudfront" {
        record.join_time("Z");
    }
    let texts = record.take_texts();
    for (key, value, _) in texts.iter() {
        let (key, field) = dialect.meaning(key);
        match field {
            Field::DurationSeconds if !value.contains('.') => {
                record.put([key, value], Field::DurationMillis);
            }
            Field::Status | Field::UpstreamStatus if value.bytes().all(|byte| byte == b'0') => {}
            Field::Severity if dialect.program == "nextcloud" => {
                let number = value.parse().unwrap_or(usize::MAX);
                record.put([key, NEXTCLOUD_LEVELS.get(number).unwrap_or(&value)], field);
            }
            // The host of a tunnel.
            Field::Target if !value.contains('/') => {
                record.put([key, value], Field::AuthorityTarget);
            }
            _ => record.put([key, value], field),
        }
    }
    if !dialect.program.is_empty() {
        record.put(["program", &dialect.program], Field::Program);
    }
    record.request.tier = &dialect.tier;
    Some(if dialect.tier.is_empty() { RowKind::Log } else { RowKind::Request })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_sign_of_each_program_is_a_mark() {
        assert!(DIALECTS.len() > 20);
        for dialect in DIALECTS.iter() {
            let marks =
                dialect.signs.iter().filter(|sign| field::of_key(sign) == Field::AccessMark);
            assert!(marks.count() > 0, "{:?}", dialect.signs);
        }
    }
}
