//! `[[outputs]]`: rows that are copied to another system (docs/outputs.md).

use weir_process::failure::Failure;

use super::entries::{Entry, EntryKind, EntryList, KeyDefault, key};

/// Every key.
pub const OUTPUTS: EntryList = EntryList {
    section: "outputs",
    doc: "Rows that are copied to another system as they come (docs/outputs.md). A new output begins with what arrives after it \
        was first started.",
    keys: &[
        key(
            "name",
            EntryKind::Text,
            KeyDefault::Required,
            "what it is called in `output_run` and in messages; under this name its position is kept",
        ),
        key(
            "to",
            EntryKind::Text,
            KeyDefault::Required,
            "`elasticsearch`, `kafka`, `http` or `s3`",
        ),
        key(
            "url",
            EntryKind::Text,
            KeyDefault::Required,
            "`https://es.example.net:9200`; `kafka://a:9092,b:9092`, with TLS `kafkas://…`; `https://…`; `s3://BUCKET/PREFIX`",
        ),
        key("table", EntryKind::Text, KeyDefault::Required, "the table that is copied"),
        key(
            "where",
            EntryKind::Text,
            KeyDefault::Shown("*all rows*"),
            "a condition on its columns, in SQL: `severity = 'error'`",
        ),
        key(
            "columns",
            EntryKind::Texts,
            KeyDefault::Shown("*all columns*"),
            "the columns that are copied",
        ),
        key(
            "index",
            EntryKind::Text,
            KeyDefault::Shown("`\"weir-{table}-{date}\"`"),
            "Elasticsearch: the index, or a data stream; `{date}` is the row's day",
        ),
        key(
            "topic",
            EntryKind::Text,
            KeyDefault::Shown("`\"weir-{table}\"`"),
            "Kafka: the topic, which has to exist",
        ),
        key(
            "sasl",
            EntryKind::Text,
            KeyDefault::Shown("`\"plain\"`"),
            "Kafka: how `user` and the password are sent: `plain`, `scram-sha-256` or `scram-sha-512`",
        ),
        key(
            "format",
            EntryKind::Text,
            KeyDefault::Shown("`\"jsonl\"`"),
            "S3: `jsonl` or `parquet`",
        ),
        key(
            "endpoint",
            EntryKind::Text,
            KeyDefault::Shown("*Amazon's*"),
            "S3: where the service is, such as `http://minio:9000`",
        ),
        key("region", EntryKind::Text, KeyDefault::Shown("*by the environment*"), "S3: the region"),
        key(
            "user",
            EntryKind::Text,
            KeyDefault::Shown("*none*"),
            "the user; for S3 the access key. Without it S3 takes what the environment or the machine's role gives",
        ),
        key(
            "password_file",
            EntryKind::Text,
            KeyDefault::Shown("*none*"),
            "a file whose first line is the password; for S3 the secret key",
        ),
        key(
            "token_file",
            EntryKind::Text,
            KeyDefault::Shown("*none*"),
            "a file whose first line is the token: `Authorization: Bearer …`, for Elasticsearch `ApiKey …`",
        ),
        key(
            "ca_file",
            EntryKind::Text,
            KeyDefault::Shown("*the system's*"),
            "an authority (PEM) that the target's certificate may be of",
        ),
        key(
            "batch_rows",
            EntryKind::Number,
            KeyDefault::Shown("`5000`, S3 `1000000`"),
            "a batch is sent at this many rows,",
        ),
        key(
            "batch_bytes",
            EntryKind::Number,
            KeyDefault::Shown("`5242880`, S3 `67108864`"),
            "at this many bytes,",
        ),
        key(
            "batch_seconds",
            EntryKind::Number,
            KeyDefault::Shown("`1`, S3 `60`"),
            "or so long after its first row",
        ),
        key(
            "timeout_seconds",
            EntryKind::Number,
            KeyDefault::Shown("`30`"),
            "a request that takes longer has failed and is made again",
        ),
        key(
            "keep_bytes",
            EntryKind::Number,
            KeyDefault::Shown("`1073741824`"),
            "how much of the log may wait on this hub's disk; beyond it, the oldest rows are given up and counted",
        ),
    ],
};

/// One output: its name is checked here, its target's settings by the hub, which knows the targets.
#[derive(Clone, Debug)]
pub struct OutputEntry {
    /// The output's name, under which the position is kept.
    pub name: String,
    /// The keys of the entry.
    pub entry: Entry,
}

/// Reads one entry.
pub(super) fn of(entry: Entry) -> Result<OutputEntry, Failure> {
    let name = entry.key("name").required("search")?.to_owned();
    if name.len() > 64 || !name.bytes().all(is_plain) {
        return Err(entry
            .key("name")
            .wrong("`name` may have letters, digits, `-`, `_` and `.`, at most 64"));
    }
    Ok(OutputEntry { name, entry })
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}
