//! `[[databases]]`: servers that are asked how they are (docs/databases.md).

use weir_collect::probe::database::{DatabaseSystem, DatabaseTarget};

use super::entries::{Entry, EntryKind, EntryList, key};
use crate::failure::{Failure, read_failure};

/// Every key.
pub(crate) const DATABASES: EntryList = EntryList {
    section: "databases",
    doc: "Database servers that are asked every 5 s how they and their copies are (docs/databases.md).",
    keys: &[
        key("system", EntryKind::Text, "", "`postgresql`, `mysql` (MariaDB too) or `redis`"),
        key(
            "address",
            EntryKind::Text,
            "",
            "`db1`, `db1:5432`, or the path of its socket such as `/run/postgresql/.s.PGSQL.5432`",
        ),
        key("user", EntryKind::Text, "`weir`; Redis: *none*", "who logs in"),
        key("password_file", EntryKind::Text, "*none*", "a file whose first line is the password"),
        key("database", EntryKind::Text, "`postgres`; MySQL: *none*", "which one is connected to"),
        key(
            "purpose",
            EntryKind::Text,
            "*not said*",
            "`store` or `cache`: whether a key that Redis throws out is a loss",
        ),
        key(
            "heartbeat",
            EntryKind::Text,
            "*none*",
            "MySQL: a query whose only cell is the age in seconds of the newest row that a clock on the primary writes",
        ),
    ],
};

/// An entry; the password is read when it is used.
#[derive(Clone, Debug)]
pub(crate) struct NamedDatabase {
    system: DatabaseSystem,
    address: String,
    user: String,
    password_file: Option<std::path::PathBuf>,
    database: String,
    purpose: Option<String>,
    heartbeat: Option<String>,
}

/// Reads one entry.
pub(super) fn of(entry: &Entry) -> Result<NamedDatabase, Failure> {
    let system = match entry.needed("system", "postgresql")? {
        "postgresql" => DatabaseSystem::Postgresql,
        "mysql" => DatabaseSystem::Mysql,
        "redis" => DatabaseSystem::Redis,
        other => {
            return Err(entry
                .wrong("system", &format!("`{other}` is no database that weir can ask"))
                .hint("one of postgresql, mysql (MariaDB too), redis"));
        }
    };
    let (user, database) = match system {
        DatabaseSystem::Postgresql => ("weir", "postgres"),
        DatabaseSystem::Mysql => ("weir", ""),
        DatabaseSystem::Redis => ("", ""),
    };
    let text = |name, default: &str| entry.text(name).unwrap_or(default).to_owned();
    let purpose = entry.text("purpose").map(str::to_owned);
    if let Some(other) = purpose.as_deref().filter(|word| !["store", "cache"].contains(word)) {
        return Err(entry
            .wrong("purpose", &format!("`{other}` is no purpose"))
            .hint("store or cache"));
    }
    if entry.text("heartbeat").is_some() && system != DatabaseSystem::Mysql {
        return Err(entry
            .wrong("heartbeat", "`heartbeat` is for MySQL and MariaDB only")
            .hint("leave it away: PostgreSQL and Redis tell how far replicas are"));
    }
    Ok(NamedDatabase {
        system,
        address: entry.needed("address", "db1:5432")?.to_owned(),
        user: text("user", user),
        password_file: entry.path("password_file"),
        database: text("database", database),
        purpose,
        heartbeat: entry.text("heartbeat").map(str::to_owned),
    })
}

impl NamedDatabase {
    /// With its password.
    pub(crate) fn target(&self) -> Result<DatabaseTarget, Failure> {
        let read = |path: &std::path::PathBuf| {
            let text = std::fs::read_to_string(path).map_err(|error| read_failure(path, &error))?;
            Ok::<_, Failure>(text.lines().next().unwrap_or_default().to_owned())
        };
        Ok(DatabaseTarget {
            system: self.system,
            address: self.address.clone(),
            user: self.user.clone(),
            password: self.password_file.as_ref().map(read).transpose()?,
            database: self.database.clone(),
            purpose: self.purpose.clone(),
            heartbeat: self.heartbeat.clone(),
        })
    }
}
