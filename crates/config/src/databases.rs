//! `[[databases]]`: database servers that are monitored (docs/databases.md).

use std::path::PathBuf;

use weir_probe::database::{
    DatabasePem, DatabaseSystem, DatabaseTarget, DatabaseTls, DatabaseVerify,
};
use weir_process::failure::{Failure, read_failure};

use super::entries::{Entry, EntryKind, EntryList, KeyDefault, PASSWORD_FILE, key};

/// Every key.
pub const DATABASES: EntryList = EntryList {
    section: "databases",
    doc: "Database servers whose state and replicas are monitored every second (docs/databases.md).",
    keys: &[
        key(
            "system",
            EntryKind::Text,
            KeyDefault::Required,
            "`postgresql`, `mysql` (MariaDB too) or `redis`",
        ),
        key(
            "address",
            EntryKind::Text,
            KeyDefault::Required,
            "`db1`, `db1:5432`, or the path of its socket such as `/run/postgresql/.s.PGSQL.5432`",
        ),
        key("user", EntryKind::Text, KeyDefault::Shown("`weir`; Redis: *none*"), "who logs in"),
        PASSWORD_FILE,
        key(
            "database",
            EntryKind::Text,
            KeyDefault::Shown("`postgres`; MySQL: *none*"),
            "which one is connected to",
        ),
        key(
            "purpose",
            EntryKind::Text,
            KeyDefault::Shown("*not said*"),
            "`store` or `cache`: whether a key that Redis throws out is a loss",
        ),
        key(
            "heartbeat",
            EntryKind::Text,
            KeyDefault::Shown("*none*"),
            "PostgreSQL, MySQL: a query whose only cell is the age in seconds of the newest row that a clock on the primary writes",
        ),
        key(
            "tls",
            EntryKind::Text,
            KeyDefault::Shown("`off`"),
            "`require` encrypts, `verify-ca` also wants a certificate of a known authority, `verify-full` one with the server's name",
        ),
        key(
            "ca_file",
            EntryKind::Text,
            KeyDefault::Shown("`/etc/ssl/certs/ca-certificates.crt`"),
            "authorities (PEM) that its certificate may be of",
        ),
        key(
            "server_name",
            EntryKind::Text,
            KeyDefault::Shown("*the address's*"),
            "the name that its certificate must have, where `address` is another",
        ),
        key(
            "cert_file",
            EntryKind::Text,
            KeyDefault::Shown("*none*"),
            "the certificate (PEM) that weir shows",
        ),
        key("key_file", EntryKind::Text, KeyDefault::Shown("*none*"), "its key (PEM)"),
    ],
};

/// An entry; the password is read when it is used.
#[derive(Clone, Debug)]
pub struct NamedDatabase {
    system: DatabaseSystem,
    address: String,
    user: String,
    password_file: Option<PathBuf>,
    database: String,
    purpose: Option<String>,
    heartbeat: Option<String>,
    tls: Option<NamedTls>,
}

/// How the connection is encrypted; the files are read when it is used.
#[derive(Clone, Debug)]
struct NamedTls {
    verify: DatabaseVerify,
    authorities: PathBuf,
    server_name: Option<String>,
    identity: Option<(PathBuf, PathBuf)>,
    place: String,
}

/// Where Debian and what is made of it has the system's authorities.
const SYSTEM_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Reads one entry.
pub(super) fn of(entry: &Entry) -> Result<NamedDatabase, Failure> {
    let name = entry.key("system").required("postgresql")?;
    let Some(system) = DatabaseSystem::with_name(name) else {
        return Err(entry
            .key("system")
            .wrong(&format!("`{name}` is not a supported database"))
            .hint("one of postgresql, mysql (MariaDB too), redis"));
    };
    let (user, database) = (system.default_user(), system.default_database());
    let text = |name, default: &str| entry.text(name).unwrap_or(default).to_owned();
    let purpose = entry.text("purpose").map(str::to_owned);
    if let Some(other) = purpose.as_deref().filter(|word| !["store", "cache"].contains(word)) {
        return Err(entry
            .key("purpose")
            .wrong(&format!("`{other}` is not a purpose"))
            .hint("store or cache"));
    }
    if entry.text("heartbeat").is_some() && !system.has_heartbeat() {
        return Err(entry
            .key("heartbeat")
            .wrong("`heartbeat` is for PostgreSQL, MySQL and MariaDB only")
            .hint("remove it: Redis reports replica lag itself"));
    }
    Ok(NamedDatabase {
        system,
        address: entry.key("address").required("db1:5432")?.to_owned(),
        user: text("user", user),
        password_file: entry.path("password_file"),
        database: text("database", database),
        purpose,
        heartbeat: entry.text("heartbeat").map(str::to_owned),
        tls: tls(entry)?,
    })
}

/// The keys about TLS.
fn tls(entry: &Entry) -> Result<Option<NamedTls>, Failure> {
    let verify = match entry.text("tls").unwrap_or("off") {
        "off" => {
            let names = ["ca_file", "server_name", "cert_file", "key_file"];
            return match names.into_iter().find(|name| entry.text(name).is_some()) {
                None => Ok(None),
                Some(name) => Err(entry
                    .key(name)
                    .wrong(&format!("`{name}` has no effect without `tls`"))
                    .hint("tls = \"verify-full\", or remove it")),
            };
        }
        "require" => DatabaseVerify::Require,
        "verify-ca" => DatabaseVerify::VerifyCa,
        "verify-full" => DatabaseVerify::VerifyFull,
        other => {
            return Err(entry
                .key("tls")
                .wrong(&format!("`{other}` is not a TLS mode"))
                .hint("off, require, verify-ca or verify-full"));
        }
    };
    if entry.text("address").is_some_and(|address| address.starts_with('/')) {
        return Err(entry
            .key("tls")
            .wrong("a server's socket has no TLS")
            .hint("remove `tls`: a local socket needs no encryption"));
    }
    let identity = match (entry.path("cert_file"), entry.path("key_file")) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (Some(_), None) => {
            return Err(entry.key("cert_file").wrong("it needs its key").hint("set `key_file`"));
        }
        (None, Some(_)) => {
            return Err(entry
                .key("key_file")
                .wrong("it needs its certificate")
                .hint("set `cert_file`"));
        }
    };
    Ok(Some(NamedTls {
        verify,
        authorities: entry.path("ca_file").unwrap_or_else(|| SYSTEM_AUTHORITIES.into()),
        server_name: entry.text("server_name").map(str::to_owned),
        identity,
        place: entry.place.to_string(),
    }))
}

impl NamedTls {
    fn load(&self) -> Result<DatabaseTls, Failure> {
        let bytes =
            |path: &PathBuf| std::fs::read(path).map_err(|error| read_failure(path, &error));
        let authorities = match self.verify {
            DatabaseVerify::Require => Vec::new(),
            _ => bytes(&self.authorities)?,
        };
        let identity = match &self.identity {
            Some((certificate, key)) => Some((bytes(certificate)?, bytes(key)?)),
            None => None,
        };
        let identity = identity.as_ref().map(|(certificate, key)| (&**certificate, &**key));
        let pem = DatabasePem { authorities: &authorities, identity };
        DatabaseTls::new(self.verify, pem, self.server_name.clone()).map_err(|why| {
            Failure::new(format!("cannot use the TLS of {}: {why}", self.place)).hint(format!(
                "look at `{}` and at `cert_file`, `key_file`",
                self.authorities.display()
            ))
        })
    }
}

impl NamedDatabase {
    /// Kind of server, as in the column `system`.
    pub fn system(&self) -> &'static str {
        self.system.as_str()
    }

    /// Port of its address; `None` for a socket's path and for the system's own port.
    pub fn port(&self) -> Option<u16> {
        self.address.rsplit_once(':')?.1.parse().ok()
    }

    /// With its password.
    pub fn target(&self) -> Result<DatabaseTarget, Failure> {
        Ok(DatabaseTarget {
            system: self.system,
            address: self.address.clone(),
            user: self.user.clone(),
            password: self
                .password_file
                .as_ref()
                .map(|path: &PathBuf| {
                    let text = std::fs::read_to_string(path)
                        .map_err(|error| read_failure(path, &error))?;
                    Ok::<_, Failure>(text.lines().next().unwrap_or_default().to_owned())
                })
                .transpose()?,
            database: self.database.clone(),
            purpose: self.purpose.clone(),
            heartbeat: self.heartbeat.clone(),
            tls: self.tls.as_ref().map(NamedTls::load).transpose()?,
        })
    }
}
