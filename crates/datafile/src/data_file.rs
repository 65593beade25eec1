//! A table's Parquet file as the manifest describes it: everything known before the file is opened.

use std::sync::OnceLock;

use weir_tables::TableSpec;

use crate::checked_file::ExpectedContent;
use crate::checksums::FileSeal;
use crate::text_index::TextIndex;

/// Tier that holds a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Under the data directory.
    Local,
    /// In the cold tier.
    Slow,
}

/// Prefix of a cold-tier path where tier and path share one name.
pub const SLOW_PREFIX: &str = "slow/";

/// One Parquet file of a table.
#[derive(Clone, Debug)]
pub struct DataFile {
    /// File number in the manifest.
    pub id: i64,
    /// Table of the file's rows.
    pub table: &'static TableSpec,
    /// Path below the tier's directory, with `/` separators.
    pub path: String,
    /// Tier that holds the file.
    pub tier: Tier,
    /// Days since 1970-01-01 of the oldest row's `ts`.
    pub day: i64,
    /// Number of rows.
    pub row_count: u64,
    /// File size in bytes.
    pub byte_count: u64,
    /// Smallest `ts`, µs since 1970.
    pub min_ts: i64,
    /// Largest `ts`, µs since 1970.
    pub max_ts: i64,
    /// Arrival time of the last row.
    pub arrival_ts: i64,
    /// Checksum of the whole file; `None` where an older weir wrote it.
    pub seal: Option<FileSeal>,
    /// Text index, once loaded; the inner `None` means that the file has none.
    pub index: OnceLock<Option<TextIndex>>,
    /// For each column, whether it is fully dictionary-encoded; set once known.
    pub dictionaries: OnceLock<Vec<bool>>,
}

impl DataFile {
    /// A file description without rows.
    pub fn new(id: i64, table: &'static TableSpec, path: String) -> Self {
        Self {
            id,
            table,
            path,
            tier: Tier::Local,
            day: 0,
            row_count: 0,
            byte_count: 0,
            min_ts: 0,
            max_ts: 0,
            arrival_ts: 0,
            seal: None,
            index: OnceLock::new(),
            dictionaries: OnceLock::new(),
        }
    }

    /// Name of the file in query plans. That of a file in the cold tier has its size and seal, so that
    /// every hub that reads it can tell another file in its place.
    pub fn location(&self) -> String {
        let seal = self.seal.map_or(String::new(), |seal| format!("{:08x}", seal.0));
        match self.tier {
            Tier::Local => self.path.clone(),
            Tier::Slow => format!("{SLOW_PREFIX}{:x}-{seal}/{}", self.byte_count, self.path),
        }
    }

    /// What the file has to contain.
    pub fn expected(&self) -> ExpectedContent {
        ExpectedContent { byte_count: Some(self.byte_count), seal: self.seal }
    }
}

/// Path of file `id` of a table, below the directory of its tier; `date` is the day of its rows.
pub fn file_path(table: &str, date: &str, id: i64) -> String {
    format!("data/{table}/{date}/{id:012}.parquet")
}

/// The number of the file at a path of [`file_path`]'s form; `None` for every other path, such as one
/// that leaves the directory. Manifests and pieces of queries come from backups and other hubs.
pub fn file_number(path: &str) -> Option<i64> {
    let mut parts = path.strip_prefix("data/")?.split('/');
    let (table, date, name) = (parts.next()?, parts.next()?, parts.next()?);
    let is_table = table.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_date = date.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let id = name.strip_suffix(".parquet")?.parse().ok()?;
    let is_same = parts.next().is_none() && file_path(table, date, id) == path;
    (is_table && is_date && !table.is_empty() && !date.is_empty() && is_same).then_some(id)
}

/// Whether a path stays in the directory that it is joined to.
pub fn is_inside(path: &str) -> bool {
    path.split('/').all(|part| !matches!(part, "" | "." | "..")) && !path.contains('\0')
}

/// A file in the cold tier, from [`DataFile::location`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowLocation<'a> {
    /// Size in bytes.
    pub byte_count: u64,
    /// Checksum, if the manifest has it.
    pub seal: Option<FileSeal>,
    /// Path below the tier's directory.
    pub path: &'a str,
}

impl<'a> SlowLocation<'a> {
    /// Reads a location without [`SLOW_PREFIX`].
    pub fn parse(text: &'a str) -> Option<Self> {
        let (content, path) = text.split_once('/')?;
        let (bytes, seal) = content.split_once('-')?;
        let seal = match seal {
            "" => None,
            digits => Some(FileSeal(u32::from_str_radix(digits, 16).ok()?)),
        };
        Some(Self { byte_count: u64::from_str_radix(bytes, 16).ok()?, seal, path })
    }

    /// What the file has to contain.
    pub fn expected(&self) -> ExpectedContent {
        ExpectedContent { byte_count: Some(self.byte_count), seal: self.seal }
    }
}

#[cfg(test)]
mod tests {
    use weir_tables::Log;

    use super::*;

    #[test]
    fn paths_are_those_of_the_store_or_have_no_number() {
        assert_eq!(file_number(&file_path("log", "1970-01-01", 7)), Some(7));
        assert_eq!(file_number(&file_path("tcp_stat", "-0001-01-01", 1 << 50)), Some(1 << 50));
        for other in [
            "",
            "data/log/1970-01-01/7.parquet",
            "data/log/1970-01-01/+00000000007.parquet",
            "data/log/../../../etc/000000000007.parquet",
            "data/log/../000000000007.parquet",
            "data/../1970-01-01/000000000007.parquet",
            "data/log//000000000007.parquet",
            "data//1970-01-01/000000000007.parquet",
            "/data/log/1970-01-01/000000000007.parquet",
            "data/log/1970-01-01/000000000007.parquet/../../manifest",
            "manifest.sqlite",
        ] {
            assert_eq!(file_number(other), None, "{other}");
        }
    }

    #[test]
    fn location_in_the_cold_tier_has_size_and_seal() {
        let path = "data/log/2026-01-01/000000000007.parquet";
        for seal in [None, Some(FileSeal(0xAB))] {
            let file = DataFile::new(7, &Log::SPEC, path.to_owned());
            let file = DataFile { tier: Tier::Slow, byte_count: 4711, seal, ..file };
            let location = file.location();
            let read = SlowLocation::parse(location.strip_prefix(SLOW_PREFIX).unwrap());
            assert_eq!(read, Some(SlowLocation { byte_count: 4711, seal, path }));
        }
        for bad in ["", "data/log", "12/data", "x-/data", "12-zz/data", "12-123456789/data"] {
            assert_eq!(SlowLocation::parse(bad), None, "{bad}");
        }
    }
}
