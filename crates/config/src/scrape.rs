//! `[[scrape]]`: targets that speak Prometheus' text format (docs/intake.md).

use std::path::PathBuf;
use std::time::Duration;

use weir_process::failure::Failure;

use super::entries::{Entry, EntryKind, EntryList, KeyDefault, PASSWORD_FILE, key};
use super::saturating_usize;

/// Every key.
pub const SCRAPE: EntryList = EntryList {
    section: "scrape",
    doc: "Targets whose figures are fetched into the table `metric`, as Prometheus does it (docs/intake.md).",
    keys: &[
        key("name", EntryKind::Text, KeyDefault::Required, "what it is called: the label `job`"),
        key(
            "url",
            EntryKind::Text,
            KeyDefault::Required,
            "`http://web1:9100/metrics`; `https://` too",
        ),
        key(
            "interval_seconds",
            EntryKind::Number,
            KeyDefault::Shown("`15`"),
            "how often it is scraped",
        ),
        key(
            "timeout_seconds",
            EntryKind::Number,
            KeyDefault::Shown("`10`"),
            "an answer that takes longer has failed; at most the interval",
        ),
        key(
            "labels",
            EntryKind::Labels,
            KeyDefault::Shown("*none*"),
            "labels of every row; `host` names the host, else it is that of `url`",
        ),
        key("user", EntryKind::Text, KeyDefault::Shown("*none*"), "the user of HTTP Basic"),
        PASSWORD_FILE,
        key(
            "token_file",
            EntryKind::Text,
            KeyDefault::Shown("*none*"),
            "a file whose first line is sent as `Authorization: Bearer …`",
        ),
        key(
            "ca_file",
            EntryKind::Text,
            KeyDefault::Shown("*the system's*"),
            "an authority (PEM) that the target's certificate may be of",
        ),
        key(
            "body_bytes",
            EntryKind::Number,
            KeyDefault::Shown("`16777216`"),
            "a longer answer is refused as a whole",
        ),
        key(
            "series",
            EntryKind::Number,
            KeyDefault::Shown("`50000`"),
            "an answer with more samples is refused as a whole",
        ),
    ],
};

/// One target.
#[derive(Clone, Debug)]
pub struct ScrapeTarget {
    /// The line that it begins at, for messages.
    pub place: String,
    /// The target's name, which is the label `job`.
    pub name: String,
    /// Where its metrics are.
    pub url: String,
    /// The host of the URL.
    pub host: String,
    /// How often it is scraped.
    pub interval: Duration,
    /// A scrape that takes longer has failed.
    pub timeout: Duration,
    /// `job` and `instance` first.
    pub labels: Vec<(String, String)>,
    /// The user.
    pub user: Option<String>,
    /// A file whose first line is the password.
    pub password_file: Option<PathBuf>,
    /// A file whose first line is the token.
    pub token_file: Option<PathBuf>,
    /// An authority (PEM) beside the system's.
    pub ca_file: Option<PathBuf>,
    /// Most bytes of one answer.
    pub body_bytes: usize,
    /// Most series of one answer.
    pub series: usize,
}

/// Reads one entry.
pub(super) fn of(entry: &Entry) -> Result<ScrapeTarget, Failure> {
    let name = entry.key("name").required("node")?.to_owned();
    let url = entry.key("url").required("http://web1:9100/metrics")?.to_owned();
    let (instance, host) = instance(&url).ok_or_else(|| {
        entry
            .key("url")
            .wrong(&format!("`{url}` is not a URL of metrics"))
            .hint("write it as http://web1:9100/metrics")
    })?;
    if instance.contains('@') {
        return Err(entry
            .key("url")
            .wrong("`url` holds a login, which would be shown with the address")
            .hint("user = \"…\", password_file = \"/etc/weir/scrape-password\""));
    }
    let interval = entry.number("interval_seconds", 15, 1..=86_400)?;
    let timeout = entry.number("timeout_seconds", 10.min(interval), 1..=interval)?;
    let mut labels = vec![("job".to_owned(), name.clone()), ("instance".to_owned(), instance)];
    for (label, value) in entry.labels("labels") {
        labels.retain(|(known, _)| *known != label);
        labels.push((label, value));
    }
    Ok(ScrapeTarget {
        place: entry.place.to_string(),
        host,
        interval: Duration::from_secs(interval),
        timeout: Duration::from_secs(timeout),
        labels,
        user: entry.text("user").map(str::to_owned),
        password_file: entry.path("password_file"),
        token_file: entry.path("token_file"),
        ca_file: entry.path("ca_file"),
        body_bytes: saturating_usize(entry.number("body_bytes", 16 << 20, 1 << 10..=128 << 20)?),
        series: saturating_usize(entry.number("series", 50_000, 1..=199_000)?),
        name,
        url,
    })
}

/// `host:port` and `host` of an address.
fn instance(url: &str) -> Option<(String, String)> {
    let (rest, port) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
        (Some(rest), _) => (rest, 80),
        (_, Some(rest)) => (rest, 443),
        _ => return None,
    };
    let authority = rest.split(['/', '?']).next()?;
    let is_ported = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let instance = if is_ported { authority.to_owned() } else { format!("{authority}:{port}") };
    let (host, _) = instance.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    (!host.is_empty()).then_some((instance, host))
}
