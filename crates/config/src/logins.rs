//! `[[logins]]`: logins beside `api.token_file`, each for what it needs (docs/security.md).

use std::path::PathBuf;

use weir_process::failure::Failure;
use weir_tables::nearest;

use super::entries::{Entry, EntryKind, EntryList, KeyDefault, key};

/// Every key.
pub const LOGINS: EntryList = EntryList {
    section: "logins",
    doc: "Logins that may do some things only, for page, API and PostgreSQL's protocol (docs/security.md).",
    keys: &[
        key(
            "name",
            EntryKind::Text,
            KeyDefault::Required,
            "who has it: shown with what was done with it, and the user of PostgreSQL's protocol",
        ),
        key(
            "token_file",
            EntryKind::Text,
            KeyDefault::Required,
            "a file whose first line is the login, at least 16 characters",
        ),
        key(
            "scopes",
            EntryKind::Texts,
            KeyDefault::Shown("`[\"read\"]`"),
            "what it may do: `read` rows, `judge` findings, `change` edge, balancers, thresholds and the store, `intake`: send rows, `hub`: what hubs ask each other",
        ),
    ],
};

/// What a login may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginScope {
    /// Read rows, findings and status.
    Read,
    /// Judge findings.
    Judge,
    /// Change the edge, balancers, thresholds and the store.
    Change,
    /// Ask what hubs of a cluster ask each other.
    Hub,
    /// Send rows and captures.
    Intake,
}

impl LoginScope {
    /// Every scope.
    pub const ALL: [Self; 5] = [Self::Read, Self::Judge, Self::Change, Self::Hub, Self::Intake];

    /// As it is written in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Judge => "judge",
            Self::Change => "change",
            Self::Hub => "hub",
            Self::Intake => "intake",
        }
    }
}

/// One login.
#[derive(Clone, Debug)]
pub struct NamedLogin {
    /// Who has it.
    pub name: String,
    /// A file whose first line is the login.
    pub token_file: PathBuf,
    /// What it may do.
    pub scopes: Vec<LoginScope>,
}

/// Adds one entry, whose name is its own.
pub(super) fn add(logins: &mut Vec<NamedLogin>, entry: &Entry) -> Result<(), Failure> {
    let login = of(entry)?;
    if logins.iter().any(|other| other.name == login.name) {
        return Err(entry.key("name").wrong(&format!("there are two logins `{}`", login.name)));
    }
    logins.push(login);
    Ok(())
}

/// Reads one entry.
fn of(entry: &Entry) -> Result<NamedLogin, Failure> {
    let name = entry.key("name").required("grafana")?.to_owned();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name.len() > 64 || !name.bytes().all(is_plain) {
        let what = "`name` may have letters, digits, `-`, `_` and `.`, at most 64";
        return Err(entry.key("name").wrong(what));
    }
    let token_file = PathBuf::from(entry.key("token_file").required("/etc/weir/grafana")?);
    let mut scopes = Vec::new();
    for text in entry.texts("scopes") {
        scopes.push(scope(entry, text)?);
    }
    if entry.names().all(|key| key != "scopes") {
        scopes.push(LoginScope::Read);
    }
    Ok(NamedLogin { name, token_file, scopes })
}

fn scope(entry: &Entry, text: &str) -> Result<LoginScope, Failure> {
    let known = LoginScope::ALL.map(LoginScope::as_str);
    let found = LoginScope::ALL.into_iter().find(|scope| scope.as_str() == text);
    found.ok_or_else(|| {
        let hint = nearest(text, known).map_or_else(
            || format!("known are {}", known.join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        entry.key("scopes").wrong(&format!("there is no scope `{text}`")).hint(hint)
    })
}
