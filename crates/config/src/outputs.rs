//! `[[outputs]]`: rows that are copied to another system (docs/outputs.md).

use std::path::PathBuf;
use std::time::Duration;

use weir_process::failure::Failure;
use weir_tables::{TABLES, TableSpec, nearest};

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

/// Keys that only some targets have.
const ONLY: &[(&str, &[&str])] = &[
    ("index", &["elasticsearch"]),
    ("topic", &["kafka"]),
    ("sasl", &["kafka"]),
    ("format", &["s3"]),
    ("endpoint", &["s3"]),
    ("region", &["s3"]),
    ("token_file", &["elasticsearch", "http"]),
];

const TARGETS: [&str; 4] = ["elasticsearch", "kafka", "http", "s3"];

/// When a batch is sent: at the first of these.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    /// Rows.
    pub rows: usize,
    /// Bytes.
    pub bytes: usize,
    /// Time since its first row.
    pub wait: Duration,
}

/// How user and password are sent to Kafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaslMechanism {
    /// PLAIN.
    Plain,
    /// SCRAM-SHA-256.
    ScramSha256,
    /// SCRAM-SHA-512.
    ScramSha512,
}

/// What objects hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectFormat {
    /// One JSON object a line.
    JsonLines,
    /// Parquet.
    Parquet,
}

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
    /// Where rows go.
    pub to: To,
    /// The user, or the access key.
    pub user: Option<String>,
    /// A file whose first line is the password, or the secret key.
    pub password_file: Option<PathBuf>,
    /// A file whose first line is the token.
    pub token_file: Option<PathBuf>,
    /// An authority (PEM) beside the system's.
    pub ca_file: Option<PathBuf>,
    /// When a batch is sent.
    pub limits: BatchLimits,
    /// A request that takes longer has failed.
    pub timeout: Duration,
    /// Bytes of the log that may wait for this output.
    pub keep_bytes: u64,
}

/// The target.
#[derive(Clone, Debug)]
pub enum To {
    /// Elasticsearch's bulk API.
    Elasticsearch {
        /// The cluster's address.
        url: String,
        /// The index, with `{date}`.
        index: String,
    },
    /// POSTs of JSON lines.
    Http {
        /// The address.
        url: String,
    },
    /// A topic of Kafka.
    Kafka {
        /// `host:port` of brokers to begin with.
        brokers: Vec<String>,
        /// Whether connections are encrypted.
        is_tls: bool,
        /// The topic.
        topic: String,
        /// How user and password are sent.
        sasl: SaslMechanism,
    },
    /// Objects in a bucket that speaks S3.
    S3 {
        /// The bucket.
        bucket: String,
        /// Before the names of objects; empty or ending in `/`.
        prefix: String,
        /// Where the service is; Amazon's without one.
        endpoint: Option<String>,
        /// The region.
        region: Option<String>,
        /// What objects hold.
        format: ObjectFormat,
    },
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
    if !TARGETS.contains(&to) {
        let failure = entry.wrong("to", &format!("rows cannot be copied to `{to}`"));
        let known = format!("known are {}", TARGETS.join(", "));
        return Err(failure
            .hint(nearest(to, TARGETS).map_or(known, |near| format!("did you mean `{near}`?"))));
    }
    for name in entry.names() {
        let only = ONLY.iter().find(|(key, _)| *key == name).map(|(_, targets)| *targets);
        if only.is_some_and(|targets| !targets.contains(&to)) {
            let targets = only.unwrap_or_default().join(" and ");
            return Err(entry.wrong(name, &format!("`{name}` is for {targets}, not for {to}")));
        }
    }
    let table = table(entry)?;
    let is_s3 = to == "s3";
    let number = |name: &str, plain: u64, s3: u64, max: u64| {
        entry.number(name, if is_s3 { s3 } else { plain }, 1..=max)
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
        to: target(entry, to, table.name)?,
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

fn target(entry: &Entry, to: &str, table: &str) -> Result<To, Failure> {
    let named =
        |key: &str, default: &str| entry.text(key).unwrap_or(default).replace("{table}", table);
    Ok(match to {
        "elasticsearch" => To::Elasticsearch {
            url: http_url(entry)?.trim_end_matches('/').to_owned(),
            index: index(entry, named("index", "weir-{table}-{date}"))?,
        },
        "http" => To::Http { url: http_url(entry)? },
        "kafka" => {
            let url = entry.needed("url", "kafka://kafka.example.net:9092")?;
            let (is_tls, list) = match (url.strip_prefix("kafka://"), url.strip_prefix("kafkas://"))
            {
                (Some(list), _) => (false, list),
                (_, Some(list)) => (true, list),
                _ => {
                    return Err(wrong_url(
                        entry,
                        url,
                        "kafka://kafka.example.net:9092, with TLS kafkas://…",
                    ));
                }
            };
            let brokers: Vec<String> =
                list.trim_end_matches('/').split(',').map(str::to_owned).collect();
            let is_address = |one: &String| {
                one.rsplit_once(':')
                    .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
            };
            if !brokers.iter().all(is_address) {
                return Err(wrong_url(entry, url, "kafka://a.example.net:9092,b.example.net:9092"));
            }
            let sasl = mechanism(entry)?;
            To::Kafka { brokers, is_tls, topic: named("topic", "weir-{table}"), sasl }
        }
        _ => s3(entry)?,
    })
}

fn index(entry: &Entry, index: String) -> Result<String, Failure> {
    let rest = index.replace("{date}", "");
    if rest.is_empty()
        || rest.contains(['{', '}', '"', '\\', '/', '*', '?', '<', '>', '|', ' ', ',', '#', ':'])
        || rest.chars().any(char::is_uppercase)
    {
        return Err(entry
            .wrong("index", &format!("`{index}` is no name of an index"))
            .hint("lower case, with `{table}` and `{date}`: \"weir-{table}-{date}\""));
    }
    Ok(index)
}

fn mechanism(entry: &Entry) -> Result<SaslMechanism, Failure> {
    Ok(match entry.text("sasl").unwrap_or("plain") {
        "plain" => SaslMechanism::Plain,
        "scram-sha-256" => SaslMechanism::ScramSha256,
        "scram-sha-512" => SaslMechanism::ScramSha512,
        other => {
            return Err(entry
                .wrong("sasl", &format!("there is no mechanism `{other}`"))
                .hint("known are plain, scram-sha-256, scram-sha-512"));
        }
    })
}

fn s3(entry: &Entry) -> Result<To, Failure> {
    let url = entry.needed("url", "s3://bucket/weir")?;
    let (bucket, prefix) = url
        .strip_prefix("s3://")
        .map(|rest| rest.split_once('/').unwrap_or((rest, "")))
        .filter(|(bucket, _)| !bucket.is_empty())
        .ok_or_else(|| wrong_url(entry, url, "s3://BUCKET/PREFIX; the service is `endpoint`"))?;
    let prefix = prefix.trim_matches('/');
    let format = match entry.text("format").unwrap_or("jsonl") {
        "jsonl" => ObjectFormat::JsonLines,
        "parquet" => ObjectFormat::Parquet,
        other => {
            return Err(entry
                .wrong("format", &format!("objects cannot be `{other}`"))
                .hint("known are jsonl, parquet"));
        }
    };
    if entry.text("user").is_some() != entry.text("password_file").is_some() {
        return Err(entry
            .wrong("user", "`user` and `password_file` are needed both")
            .hint("the access key and a file with the secret key"));
    }
    Ok(To::S3 {
        bucket: bucket.to_owned(),
        prefix: if prefix.is_empty() { String::new() } else { format!("{prefix}/") },
        endpoint: entry.text("endpoint").map(str::to_owned),
        region: entry.text("region").map(str::to_owned),
        format,
    })
}

fn http_url(entry: &Entry) -> Result<String, Failure> {
    let url = entry.needed("url", "https://es.example.net:9200")?;
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let Some(rest) = rest.filter(|rest| !rest.is_empty() && !rest.starts_with(['/', ':'])) else {
        return Err(wrong_url(entry, url, "https://es.example.net:9200"));
    };
    if rest.split('/').next().is_some_and(|authority| authority.contains('@')) {
        return Err(entry
            .wrong("url", "`url` holds a login, which would be shown where the address is")
            .hint("write it to a file: user = \"…\", password_file = \"/etc/weir/es-password\""));
    }
    Ok(url.to_owned())
}

fn wrong_url(entry: &Entry, url: &str, example: &str) -> Failure {
    entry
        .wrong("url", &format!("`{url}` is no address of this target"))
        .hint(format!("write it as {example}"))
}
