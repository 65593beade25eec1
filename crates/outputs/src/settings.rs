//! Settings of targets: every target names its keys, reads its own settings, and opens itself.
//!
//! ```text
//!  [[outputs]] ─► TargetKind::read ─► dyn TargetPlan ─► open(access) ─► OutputTarget
//!                 (no files, no network)               (credentials are read)
//! ```

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use weir_tables::TableSpec;

use crate::error::Error;
use crate::target::OutputTarget;

/// A kind of target: its name in `to = "…"` and how its settings are read.
pub struct TargetKind {
    /// The value of `to`.
    pub name: &'static str,
    /// Keys that only some targets have, this one among them.
    pub keys: &'static [&'static str],
    /// Whether it wants few large batches, as object storage does.
    pub is_bulk: bool,
    pub(crate) read: ReadPlan,
}

/// Reads the settings of one target for copies of a table.
pub(crate) type ReadPlan =
    fn(&dyn SettingSource, &'static TableSpec) -> Result<Arc<dyn TargetPlan>, SettingError>;

impl TargetKind {
    /// Reads the settings of this kind of target for copies of `table`.
    ///
    /// # Errors
    /// The key with a missing or unusable value.
    pub fn read(
        &self,
        source: &dyn SettingSource,
        table: &'static TableSpec,
    ) -> Result<Arc<dyn TargetPlan>, SettingError> {
        (self.read)(source, table)
    }
}

/// The settings of one output, as the configuration has them.
pub trait SettingSource {
    /// The text of a key; `None` when it is not set.
    fn text(&self, key: &str) -> Option<&str>;
}

/// A setting that cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub enum SettingError {
    /// A required key is not set.
    Missing {
        /// The key.
        key: &'static str,
        /// A value as it could be.
        example: &'static str,
    },
    /// The value of a key cannot be used.
    Wrong {
        /// The key.
        key: &'static str,
        /// The problem.
        message: String,
        /// What to do about it.
        hint: String,
    },
}

/// A target's settings, checked but not opened yet.
pub trait TargetPlan: fmt::Debug + Send + Sync {
    /// Prepares the target; connects to nothing yet.
    ///
    /// # Errors
    /// When the credentials, the authority or the address cannot be used.
    fn open(&self, access: TargetAccess) -> Result<OutputTarget, Error>;
}

/// How a target knows the sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// Anonymous access; for S3, the credentials of the environment or the machine's role.
    None,
    /// User and password; for S3, access key and secret key.
    Password {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
    /// A token for the header `Authorization`.
    Token(String),
}

/// What a plan needs to open its target.
#[derive(Clone, Debug)]
pub struct TargetAccess {
    /// The credentials.
    pub credentials: Credentials,
    /// A certificate authority (PEM) besides those of the system.
    pub authority: Option<Vec<u8>>,
    /// A request that takes longer has failed.
    pub timeout: Duration,
    /// Numbers of the copied columns, for targets that take columns.
    pub columns: Vec<usize>,
    /// Opens a bucket, for targets that write objects.
    pub open_bucket: OpenBucket,
}

/// A bucket and its service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketAddress {
    /// The bucket's name.
    pub bucket: String,
    /// URL of the service; `None` for Amazon's.
    pub endpoint: Option<String>,
    /// The region; `None` for the environment's.
    pub region: Option<String>,
}

/// A write in progress.
pub type PutFuture<'a> = Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'a>>;

/// Writes objects and encodes Parquet.
pub trait ObjectSink: Send {
    /// Writes a whole object.
    fn put(&self, name: String, bytes: Vec<u8>) -> PutFuture<'_>;
    /// Encodes rows as a Parquet file.
    ///
    /// # Errors
    /// When the rows cannot be encoded.
    fn parquet(&self, rows: &[RecordBatch]) -> Result<Vec<u8>, Error>;
}

/// Opens a bucket for writing.
pub type OpenBucket = fn(&BucketAddress, &TargetAccess) -> Result<Box<dyn ObjectSink>, Error>;

/// The text of the required key `url`.
pub(crate) fn required_url<'a>(
    source: &'a dyn SettingSource,
    example: &'static str,
) -> Result<&'a str, SettingError> {
    let text = source.text("url").filter(|text| !text.is_empty());
    text.ok_or(SettingError::Missing { key: "url", example })
}

/// The text of a key, or `default`, with `{table}` replaced.
pub(crate) fn named(
    source: &dyn SettingSource,
    setting: NamedSetting,
    table: &TableSpec,
) -> String {
    let NamedSetting { key, default } = setting;
    source.text(key).unwrap_or(default).replace("{table}", table.name)
}

/// A setting whose value can hold `{table}`.
pub(crate) struct NamedSetting {
    pub(crate) key: &'static str,
    pub(crate) default: &'static str,
}

pub(crate) fn wrong(key: &'static str, message: String, hint: impl Into<String>) -> SettingError {
    SettingError::Wrong { key, message, hint: hint.into() }
}

/// The setting `url`.
pub(crate) struct UrlSetting<'a>(pub(crate) &'a str);

impl UrlSetting<'_> {
    /// The error that it is no address of this target.
    pub(crate) fn wrong(&self, example: &str) -> SettingError {
        let message = format!("`{}` is not an address of this target", self.0);
        wrong("url", message, format!("write it as {example}"))
    }
}

/// An address without a login, which would be shown wherever the address is.
pub(crate) fn http_url(source: &dyn SettingSource) -> Result<String, SettingError> {
    let url = required_url(source, "https://es.example.net:9200")?;
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let Some(rest) = rest.filter(|rest| !rest.is_empty() && !rest.starts_with(['/', ':'])) else {
        return Err(UrlSetting(url).wrong("https://es.example.net:9200"));
    };
    if rest.split('/').next().is_some_and(|authority| authority.contains('@')) {
        return Err(wrong(
            "url",
            "`url` holds a login, which would be shown with the address".to_owned(),
            "write it to a file: user = \"…\", password_file = \"/etc/weir/es-password\"",
        ));
    }
    Ok(url.to_owned())
}
