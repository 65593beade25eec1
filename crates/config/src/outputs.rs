//! `[[outputs]]`: rows that are copied to another system (docs/outputs.md).

use weir_process::failure::Failure;

use super::entries::{Entry, EntryKind, EntryList, key};

/// Every key.
pub const OUTPUTS: EntryList = EntryList {
    section: "outputs",
    doc: "Rows that are copied to another system as they come (docs/outputs.md). A new output begins with what arrives after it \
        was first started.",
    keys: &[
        key(
            "name",
            EntryKind::Text,
            "",
            "what it is called in `output_run` and in messages; under this name its position is kept",
        ),
        key("to", EntryKind::Text, "", "`elasticsearch`, `kafka`, `http` or `s3`"),
        key(
            "url",
            EntryKind::Text,
            "",
            "`https://es.example.net:9200`; `kafka://a:9092,b:9092`, with TLS `kafkas://…`; `https://…`; `s3://BUCKET/PREFIX`",
        ),
        key("table", EntryKind::Text, "", "the table that is copied"),
        key(
            "where",
            EntryKind::Text,
            "*all rows*",
            "a condition on its columns, in SQL: `severity = 'error'`",
        ),
        key("columns", EntryKind::Texts, "*all columns*", "the columns that are copied"),
        key(
            "index",
            EntryKind::Text,
            "`\"weir-{table}-{date}\"`",
            "Elasticsearch: the index, or a data stream; `{date}` is the row's day",
        ),
        key("topic", EntryKind::Text, "`\"weir-{table}\"`", "Kafka: the topic, which has to exist"),
        key(
            "sasl",
            EntryKind::Text,
            "`\"plain\"`",
            "Kafka: how `user` and the password are sent: `plain`, `scram-sha-256` or `scram-sha-512`",
        ),
        key("format", EntryKind::Text, "`\"jsonl\"`", "S3: `jsonl` or `parquet`"),
        key(
            "endpoint",
            EntryKind::Text,
            "*Amazon's*",
            "S3: where the service is, such as `http://minio:9000`",
        ),
        key("region", EntryKind::Text, "*by the environment*", "S3: the region"),
        key(
            "user",
            EntryKind::Text,
            "*none*",
            "the user; for S3 the access key. Without it S3 takes what the environment or the machine's role gives",
        ),
        key(
            "password_file",
            EntryKind::Text,
            "*none*",
            "a file whose first line is the password; for S3 the secret key",
        ),
        key(
            "token_file",
            EntryKind::Text,
            "*none*",
            "a file whose first line is the token: `Authorization: Bearer …`, for Elasticsearch `ApiKey …`",
        ),
        key(
            "ca_file",
            EntryKind::Text,
            "*the system's*",
            "an authority (PEM) that the target's certificate may be of",
        ),
        key(
            "batch_rows",
            EntryKind::Number,
            "`5000`, S3 `1000000`",
            "a batch is sent at this many rows,",
        ),
        key("batch_bytes", EntryKind::Number, "`5242880`, S3 `67108864`", "at this many bytes,"),
        key("batch_seconds", EntryKind::Number, "`1`, S3 `60`", "or so long after its first row"),
        key(
            "timeout_seconds",
            EntryKind::Number,
            "`30`",
            "a request that takes longer has failed and is made again",
        ),
        key(
            "keep_bytes",
            EntryKind::Number,
            "`1073741824`",
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
    let name = entry.needed("name", "search")?.to_owned();
    if name.len() > 64 || !name.bytes().all(is_plain) {
        return Err(
            entry.wrong("name", "`name` may have letters, digits, `-`, `_` and `.`, at most 64")
        );
    }
    Ok(OutputEntry { name, entry })
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}
