//! Statements that change a session: transactions, settings, and what it keeps.

use std::borrow::Cow;

use tokio::io::AsyncWrite;

use crate::error::PgError;
use crate::session::Session;
use crate::session_statements::{NextTransaction, Statement};
use crate::set_config::ConfigChange;
use crate::settings::{Setting, SettingScope};
use crate::startup::StartupMessage;
use crate::transaction::{RestoredState, TransactionState};

/// Names of a startup message that are no settings.
const NO_SETTINGS: [&str; 4] = ["user", "database", "replication", "options"];

/// Name under which the engine gets the number of the connection, which is no setting.
const BACKEND_PID: &str = "pg_backend_pid";

impl<W: AsyncWrite + Unpin + Send> Session<W> {
    /// Takes the settings of a startup message: those in `options` first, as PostgreSQL does.
    ///
    /// # Errors
    /// Those of `set`, since an ignored setting would change answers.
    pub(crate) fn start_settings(&mut self, hello: &StartupMessage) -> Result<(), PgError> {
        let options = hello.names.get("options").map_or("", String::as_str);
        let named = hello.names.iter().filter(|(name, _)| {
            !NO_SETTINGS.contains(&name.as_str()) && !name.starts_with("_pq_.")
        });
        let named = named.map(|(name, value)| (name.clone(), value.clone()));
        for (name, value) in options_of(options)?.into_iter().chain(named) {
            // psql sends the encoding of its terminal, and follows the one that is reported.
            if name.eq_ignore_ascii_case("client_encoding") {
                continue;
            }
            let setting = Setting { name: &name, value: &value };
            self.settings.set(&setting, SettingScope::Session)?;
        }
        self.settings.begin_session();
        self.settings.set_user(&self.caller.user);
        self.pass_settings();
        Ok(())
    }

    /// Passes the settings to the queries that follow, with the number of the connection.
    fn pass_settings(&mut self) {
        let mut all = self.settings.all();
        all.push((BACKEND_PID.to_owned(), self.number().to_string()));
        self.caller.settings = all.into();
    }

    /// Applies the calls of `set_config` of a query.
    pub(crate) fn apply(&mut self, changes: &[ConfigChange]) -> Result<(), PgError> {
        let before = self.settings.reported();
        for ConfigChange { name, value, scope } in changes {
            self.set(&Setting { name, value }, *scope)?;
        }
        if !changes.is_empty() {
            self.settings_changed(&before);
        }
        Ok(())
    }

    /// Applies a statement that changes the session. Returns its tag.
    pub(crate) fn change(&mut self, statement: &Statement) -> Result<Cow<'static, str>, PgError> {
        let before = self.settings.reported();
        let tag: Cow<'static, str> = match statement {
            Statement::Fetch(fetch) => return self.move_cursor(fetch).map(Cow::from),
            Statement::Close(name) => return self.close_cursor(name.as_deref()).map(Cow::from),
            Statement::NoOp(tag) | Statement::Discard(tag) => return Ok((*tag).into()),
            Statement::Deallocate(name) => {
                self.deallocate(name.as_deref())?;
                "DEALLOCATE".into()
            }
            Statement::Set { scope, name, value } => {
                self.set(&Setting { name, value }, *scope)?;
                "SET".into()
            }
            Statement::Reset(name) => {
                match name {
                    Some(name) => self.settings.reset(name)?,
                    None => self.settings.reset_all(),
                }
                "RESET".into()
            }
            Statement::DiscardAll => {
                if self.transaction.state() != TransactionState::None {
                    let text = "`discard all` is not possible in a transaction";
                    return Err(PgError::new("25001", text));
                }
                self.settings.reset_all();
                self.prepared.clear();
                self.portals.clear();
                self.cursors.clear();
                "DISCARD ALL".into()
            }
            other => self.change_transaction(other)?.into(),
        };
        self.settings_changed(&before);
        Ok(tag)
    }

    fn change_transaction(&mut self, statement: &Statement) -> Result<&'static str, PgError> {
        match statement {
            Statement::Begin => {
                self.transaction.begin(&self.settings, self.cursor_count);
                Ok("BEGIN")
            }
            Statement::Commit(next) => {
                let is_intact = self.transaction.state() != TransactionState::Failed;
                self.end_transaction(is_intact, *next);
                Ok(if is_intact { "COMMIT" } else { "ROLLBACK" })
            }
            Statement::Rollback(next) => {
                self.end_transaction(false, *next);
                Ok("ROLLBACK")
            }
            Statement::Savepoint(name) => {
                self.transaction.save(name, &self.settings, self.cursor_count)?;
                Ok("SAVEPOINT")
            }
            Statement::Release(name) => {
                self.transaction.release(name)?;
                Ok("RELEASE")
            }
            Statement::RollbackTo(name) => {
                let restored = self.transaction.roll_back_to(name)?;
                self.restore(restored);
                Ok("ROLLBACK")
            }
            _ => Err(PgError::unsupported("this statement is not supported")),
        }
    }

    fn end_transaction(&mut self, is_commit: bool, next: NextTransaction) {
        let start = self.transaction.end();
        let was_open = start.is_some();
        match start {
            Some(restored) if !is_commit => self.restore(restored),
            _ => {}
        }
        self.settings.commit();
        self.portals.clear();
        self.cursors.retain(|_, cursor| cursor.has_hold);
        if was_open && next == NextTransaction::Chained {
            self.transaction.begin(&self.settings, self.cursor_count);
        }
    }

    /// Returns to an earlier state of settings and cursors.
    fn restore(&mut self, restored: RestoredState) {
        self.settings = restored.settings;
        self.cursors.retain(|_, cursor| cursor.number < restored.first_cursor);
    }

    /// Sets a setting. Without a transaction, one of a transaction is over at once.
    fn set(&mut self, setting: &Setting<'_>, scope: SettingScope) -> Result<(), PgError> {
        if scope == SettingScope::Transaction && self.transaction.state() == TransactionState::None
        {
            let mut checked = self.settings.clone();
            return checked.set(setting, scope);
        }
        self.settings.set(setting, scope)
    }

    /// Passes changed settings to the engine, and reports those that clients follow.
    fn settings_changed(&mut self, before: &[(&'static str, String)]) {
        self.pass_settings();
        let after = self.settings.reported();
        for ((name, value), (_, old)) in after.iter().zip(before) {
            if value != old {
                self.writer.parameter(&Setting { name, value });
            }
        }
    }

    fn deallocate(&mut self, name: Option<&str>) -> Result<(), PgError> {
        match name {
            None => self.prepared.clear(),
            Some(name) => {
                let removed = self.prepared.remove(name);
                drop(removed.ok_or_else(|| crate::session::no_statement(name))?);
            }
        }
        Ok(())
    }
}

/// Settings of `options`: `-c name=value --name=value`. A backslash stands before a blank that
/// belongs to a value.
fn options_of(text: &str) -> Result<Vec<(String, String)>, PgError> {
    let mut found = Vec::new();
    let mut words = split_options(text).into_iter();
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("--") {
            Some(setting) => match setting.split_once('=') {
                Some((name, value)) => format!("{}={value}", name.replace('-', "_")),
                None => setting.to_owned(),
            },
            None => match word.strip_prefix("-c") {
                Some("") => words.next().unwrap_or_default(),
                Some(setting) => setting.to_owned(),
                None => {
                    let text = format!("cannot use the option `{word}` of the connection");
                    return Err(PgError::unsupported(text).hint("options='-c name=value'"));
                }
            },
        };
        let Some((name, value)) = setting.split_once('=') else {
            let text = format!("the option `{setting}` of the connection has no value");
            return Err(PgError::new("42601", text).hint("options='-c name=value'"));
        };
        found.push((name.to_owned(), value.to_owned()));
    }
    Ok(found)
}

fn split_options(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => word.extend(letters.next()),
            letter if letter.is_whitespace() => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            letter => word.push(letter),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::options_of;

    #[test]
    fn options_of_a_connection_are_settings() {
        let text = r"-c statement_timeout=5s --search_path=future -cTimeZone=Asia/Tokyo -c application_name=a\ b";
        let found = options_of(text).expect("four settings");
        let found: Vec<(&str, &str)> =
            found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(
            found,
            [
                ("statement_timeout", "5s"),
                ("search_path", "future"),
                ("TimeZone", "Asia/Tokyo"),
                ("application_name", "a b"),
            ]
        );
        assert_eq!(options_of("-d 5").expect_err("not a setting").state, "0A000");
        assert_eq!(options_of("-c x").expect_err("no value").state, "42601");
    }
}
