//! `[[buckets]]`: logs that lie in a bucket, as AWS's balancers leave them (docs/parsers.md).

use std::path::PathBuf;
use std::time::Duration;

use weir_process::failure::Failure;

use super::entries::{Entry, EntryKind, EntryList, KeyDefault, key};

/// Every key.
pub const BUCKETS: EntryList = EntryList {
    section: "buckets",
    doc: "Logs in a bucket that speaks S3, such as those of AWS's balancers and CloudFront (docs/parsers.md). Each object is read once, packed \
        or not; one that is written again is read again.",
    keys: &[
        key(
            "url",
            EntryKind::Text,
            KeyDefault::Required,
            "`s3://BUCKET/PREFIX`, with `%Y`, `%m` and `%d` for the day: `s3://logs/AWSLogs/1234/elasticloadbalancing/eu-west-1/%Y/%m/%d/`",
        ),
        key(
            "endpoint",
            EntryKind::Text,
            KeyDefault::Shown("*Amazon's*"),
            "where the service is, such as `http://minio:9000`",
        ),
        key("region", EntryKind::Text, KeyDefault::Shown("*by the environment*"), "the region"),
        key(
            "user",
            EntryKind::Text,
            KeyDefault::Shown("*none*"),
            "the access key. Without it, what the environment or the machine's role gives",
        ),
        key(
            "password_file",
            EntryKind::Text,
            KeyDefault::Shown("*none*"),
            "a file whose first line is the secret key",
        ),
        key(
            "ca_file",
            EntryKind::Text,
            KeyDefault::Shown("*the system's*"),
            "an authority (PEM) that the service's certificate may be of",
        ),
        key(
            "interval_seconds",
            EntryKind::Number,
            KeyDefault::Shown("`60`"),
            "how often the bucket is listed",
        ),
        key(
            "hours",
            EntryKind::Number,
            KeyDefault::Shown("`24`"),
            "the greatest age of objects that are read; older objects that arrived while weir was down are skipped",
        ),
    ],
};

/// One bucket.
#[derive(Clone, Debug)]
pub struct NamedBucket {
    /// The line that it begins at, for messages.
    pub place: String,
    /// The bucket.
    pub bucket: String,
    /// With `%Y`, `%m` and `%d`.
    pub prefix: String,
    /// Where the service is; Amazon's without one.
    pub endpoint: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// The access key.
    pub user: Option<String>,
    /// A file whose first line is the secret key.
    pub password_file: Option<PathBuf>,
    /// An authority (PEM) beside the system's.
    pub ca_file: Option<PathBuf>,
    /// How often the bucket is listed.
    pub interval: Duration,
    /// The greatest age of an object that is read.
    pub past: Duration,
}

impl NamedBucket {
    /// As it is written, and as rows have it for their source.
    pub fn url(&self) -> String {
        format!("s3://{}/{}", self.bucket, self.prefix)
    }
}

/// Reads one entry.
pub(super) fn of(entry: &Entry) -> Result<NamedBucket, Failure> {
    const EXAMPLE: &str = "s3://logs/AWSLogs";
    let url = entry.key("url").required(EXAMPLE)?;
    let path = url.strip_prefix("s3://").filter(|path| !path.starts_with('/') && !path.is_empty());
    let Some(path) = path else {
        let what = format!("`{url}` names no bucket");
        return Err(entry.key("url").wrong(&what).hint(format!("write it as {EXAMPLE}")));
    };
    let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
    let text = |name: &str| entry.text(name).map(str::to_owned);
    let (user, password_file) = (text("user"), entry.path("password_file"));
    if user.is_some() != password_file.is_some() {
        return Err(entry
            .key("user")
            .wrong("`user` and `password_file` must be set together")
            .hint("the access key and a file with the secret key; neither, for a machine's role"));
    }
    Ok(NamedBucket {
        place: entry.place.to_string(),
        bucket: bucket.to_owned(),
        prefix: prefix.to_owned(),
        endpoint: text("endpoint"),
        region: text("region"),
        user,
        password_file,
        ca_file: entry.path("ca_file"),
        interval: Duration::from_secs(entry.number("interval_seconds", 60, 1..=86_400)?),
        past: Duration::from_secs(3600 * entry.number("hours", 24, 1..=8760)?),
    })
}
