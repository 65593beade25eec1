//! `[[outputs]]`: rows that are copied to another system (docs/outputs.md).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_process::failure::Failure;
use weir_outputs::{BatchLimits, SettingError, SettingSource, TARGETS, TargetPlan};
use weir_tables::{TABLES, TableSpec};

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
            "a batch is sent at so many rows,",
        ),
        key("batch_bytes", EntryKind::Number, "`5242880`, S3 `67108864`", "at so many bytes,"),
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

/// One output.
#[derive(Clone, Debug)]
pub struct NamedOutput {
    /// The line that it begins at, for messages.
    pub place: String,
    /// Its name, under which its position is kept.
    pub name: String,
    /// The table that is copied.
    pub table: &'static TableSpec,
    /// Numbers of columns.
    pub columns: Vec<usize>,
    /// The rows that are copied; all without one.
    pub condition: Option<String>,
    /// Where the condition stands.
    pub condition_place: String,
    pub to: &'static str,
    pub plan: Arc<dyn TargetPlan>,
    pub user: Option<String>,
    pub password_file: Option<PathBuf>,
    pub token_file: Option<PathBuf>,
    pub ca_file: Option<PathBuf>,
    pub limits: BatchLimits,
    pub timeout: Duration,
    pub keep_bytes: u64,
}

/// Reads one entry.
pub(super) fn of(entry: &Entry) -> Result<NamedOutput, Failure> {
    let name = entry.needed("name", "search")?.to_owned();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name.len() > 64 || !name.bytes().all(is_plain) {
        return Err(
            entry.wrong("name", "`name` may have letters, digits, `-`, `_` and `.`, at most 64")
        );
    }
    let to = entry.needed("to", "elasticsearch")?;
    let Some(kind) = TARGETS.iter().find(|kind| kind.name == to) else {
        let known = || TARGETS.iter().map(|kind| kind.name);
        let hint = nearest(to, known()).map_or_else(
            || format!("known are {}", known().collect::<Vec<_>>().join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        return Err(entry.wrong("to", &format!("rows cannot be copied to `{to}`")).hint(hint));
    };
    for name in entry.names() {
        let with_key = TARGETS.iter().filter(|kind| kind.keys.contains(&name));
        let with_key: Vec<&str> = with_key.map(|kind| kind.name).collect();
        if !with_key.is_empty() && !with_key.contains(&to) {
            let targets = with_key.join(" and ");
            return Err(entry.wrong(name, &format!("`{name}` is for {targets}, not for {to}")));
        }
    }
    let table = table(entry)?;
    let number = |name: &str, plain: u64, bulk: u64, max: u64| {
        entry.number(name, if kind.is_bulk { bulk } else { plain }, 1..=max)
    };
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let limits = BatchLimits {
        rows: size(number("batch_rows", 5000, 1_000_000, 10_000_000)?),
        bytes: size(number("batch_bytes", 5 << 20, 64 << 20, 512 << 20)?),
        wait: Duration::from_secs(number("batch_seconds", 1, 60, 86_400)?),
    };
    let condition = entry.text("where").map(str::to_owned);
    Ok(NamedOutput {
        place: entry.place.clone(),
        columns: columns(entry, table)?,
        condition_place: entry.place_of("where").to_owned(),
        condition,
        to: kind.name,
        plan: kind.read(entry, table).map_err(|error| setting_failure(entry, error))?,
        user: entry.text("user").map(str::to_owned),
        password_file: entry.path("password_file"),
        token_file: entry.path("token_file"),
        ca_file: entry.path("ca_file"),
        limits,
        timeout: Duration::from_secs(number("timeout_seconds", 30, 30, 3600)?),
        keep_bytes: entry.number("keep_bytes", 1 << 30, 1 << 20..=1 << 50)?,
        table,
        name,
    })
}

fn table(entry: &Entry) -> Result<&'static TableSpec, Failure> {
    let name = entry.needed("table", "log")?;
    weir_tables::table(name).ok_or_else(|| {
        let hint = nearest(name, TABLES.iter().map(|spec| spec.name)).map_or_else(
            || "`weir tables` lists them".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        entry.wrong("table", &format!("there is no table `{name}`")).hint(hint)
    })
}

fn columns(entry: &Entry, table: &'static TableSpec) -> Result<Vec<usize>, Failure> {
    let wanted = entry.texts("columns");
    if wanted.is_empty() {
        return Ok((0..table.columns.len()).collect());
    }
    let place = |name: &String| {
        table.columns.iter().position(|column| column.name == name).ok_or_else(|| {
            let names = table.columns.iter().map(|column| column.name);
            let hint = nearest(name, names).map_or_else(
                || format!("`weir tables {}` lists them", table.name),
                |near| format!("did you mean `{near}`?"),
            );
            let table = table.name;
            entry
                .wrong("columns", &format!("the table `{table}` has no column `{name}`"))
                .hint(hint)
        })
    };
    wanted.iter().map(place).collect()
}

impl SettingSource for Entry {
    fn text(&self, key: &str) -> Option<&str> {
        Entry::text(self, key)
    }
}

fn setting_failure(entry: &Entry, error: SettingError) -> Failure {
    match error {
        SettingError::Missing { key, example } => entry.missing(key, example),
        SettingError::Wrong { key, message, hint } => entry.wrong(key, &message).hint(hint),
    }
}
