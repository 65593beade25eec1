//! The settings of outputs: each entry of the configuration is checked against its target's keys.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_config::entries::Entry;
use weir_config::outputs::OutputEntry;
use weir_config::saturating_usize;
use weir_outputs::{BatchLimits, SettingError, SettingSource, TARGETS, TargetPlan};
use weir_process::failure::Failure;
use weir_tables::{TABLES, TableSpec, nearest};

/// One output.
#[derive(Clone, Debug)]
pub(crate) struct NamedOutput {
    /// The line that it begins at, for messages.
    pub(crate) place: String,
    /// The output's name, under which the position is kept.
    pub(crate) name: String,
    /// The table that is copied.
    pub(crate) table: &'static TableSpec,
    /// Numbers of columns.
    pub(crate) columns: Vec<usize>,
    /// The rows that are copied; all without one.
    pub(crate) condition: Option<String>,
    /// Where the condition stands.
    pub(crate) condition_place: String,
    /// The kind of target.
    pub(crate) to: &'static str,
    /// The target's settings.
    pub(crate) plan: Arc<dyn TargetPlan>,
    /// The user, or the access key.
    pub(crate) user: Option<String>,
    /// A file whose first line is the password, or the secret key.
    pub(crate) password_file: Option<PathBuf>,
    /// A file whose first line is the token.
    pub(crate) token_file: Option<PathBuf>,
    /// An authority (PEM) besides the system's.
    pub(crate) ca_file: Option<PathBuf>,
    /// When a batch is sent.
    pub(crate) limits: BatchLimits,
    /// A request that takes longer has failed.
    pub(crate) timeout: Duration,
    /// Bytes of the log that may wait for this output.
    pub(crate) keep_bytes: u64,
}

/// Reads one entry.
pub(crate) fn read(output: &OutputEntry) -> Result<NamedOutput, Failure> {
    let (name, entry) = (output.name.clone(), &output.entry);
    let to = entry.needed("to", "elasticsearch")?;
    let Some(kind) = TARGETS.iter().find(|kind| kind.name == to) else {
        let hint = nearest(to, target_names()).map_or_else(
            || format!("known are {}", target_names().collect::<Vec<_>>().join(", ")),
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
    let limits = BatchLimits {
        rows: saturating_usize(number("batch_rows", 5000, 1_000_000, 10_000_000)?),
        bytes: saturating_usize(number("batch_bytes", 5 << 20, 64 << 20, 512 << 20)?),
        wait: Duration::from_secs(number("batch_seconds", 1, 60, 86_400)?),
    };
    let condition = entry.text("where").map(str::to_owned);
    Ok(NamedOutput {
        place: entry.place.clone(),
        columns: columns(entry, table)?,
        condition_place: entry.place_of("where").to_owned(),
        condition,
        to: kind.name,
        plan: kind
            .read(&EntrySettings(entry), table)
            .map_err(|error| setting_failure(entry, error))?,
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

fn target_names() -> impl Iterator<Item = &'static str> {
    TARGETS.iter().map(|kind| kind.name)
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

/// An entry of the configuration as the source of a target's settings.
struct EntrySettings<'a>(&'a Entry);

impl SettingSource for EntrySettings<'_> {
    fn text(&self, key: &str) -> Option<&str> {
        self.0.text(key)
    }
}

fn setting_failure(entry: &Entry, error: SettingError) -> Failure {
    match error {
        SettingError::Missing { key, example } => entry.missing(key, example),
        SettingError::Wrong { key, message, hint } => entry.wrong(key, &message).hint(hint),
    }
}
