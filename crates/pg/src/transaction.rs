//! The transaction of a session: its state, its savepoints, and what a rollback restores. Queries do
//! not see it, since each has its own snapshot; settings and cursors do.

use crate::error::PgError;
use crate::settings::SessionSettings;

/// Limit of savepoints in a transaction.
const SAVEPOINTS_MAX: usize = 1000;

/// State as reported to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionState {
    None,
    Open,
    Failed,
}

/// State that a rollback returns to.
struct RestorePoint {
    settings: SessionSettings,
    /// Number of cursors that were declared before it.
    cursor_count: u64,
}

struct Savepoint {
    name: String,
    point: RestorePoint,
}

/// Settings to restore, and the number of the first cursor to close.
pub(crate) struct RestoredState {
    pub(crate) settings: SessionSettings,
    pub(crate) first_cursor: u64,
}

/// The transaction of a session.
#[derive(Default)]
pub(crate) struct Transaction {
    start: Option<RestorePoint>,
    has_failed: bool,
    savepoints: Vec<Savepoint>,
}

impl Transaction {
    pub(crate) fn state(&self) -> TransactionState {
        match (&self.start, self.has_failed) {
            (None, _) => TransactionState::None,
            (Some(_), false) => TransactionState::Open,
            (Some(_), true) => TransactionState::Failed,
        }
    }

    /// Opens the transaction; one that is open stays.
    pub(crate) fn begin(&mut self, settings: &SessionSettings, cursor_count: u64) {
        if self.start.is_none() {
            self.start = Some(RestorePoint { settings: settings.clone(), cursor_count });
        }
    }

    /// Notes an error: further statements are refused.
    pub(crate) fn fail(&mut self) {
        self.has_failed = self.start.is_some();
    }

    /// Ends the transaction. Returns what a rollback restores, if it was open.
    pub(crate) fn end(&mut self) -> Option<RestoredState> {
        self.savepoints.clear();
        self.has_failed = false;
        let RestorePoint { settings, cursor_count } = self.start.take()?;
        Some(RestoredState { settings, first_cursor: cursor_count })
    }

    /// Sets a savepoint; an earlier one of the same name is hidden until this one is released.
    ///
    /// # Errors
    /// `25P01` without a transaction.
    pub(crate) fn save(
        &mut self,
        name: &str,
        settings: &SessionSettings,
        cursor_count: u64,
    ) -> Result<(), PgError> {
        self.check_open("SAVEPOINT")?;
        if self.savepoints.len() >= SAVEPOINTS_MAX {
            let text = format!("the limit of {SAVEPOINTS_MAX} savepoints is reached");
            return Err(PgError::new("54000", text).hint("release some"));
        }
        let point = RestorePoint { settings: settings.clone(), cursor_count };
        self.savepoints.push(Savepoint { name: name.to_owned(), point });
        Ok(())
    }

    /// Removes a savepoint and those after it.
    ///
    /// # Errors
    /// `25P01` without a transaction, `3B001` for an unknown name.
    pub(crate) fn release(&mut self, name: &str) -> Result<(), PgError> {
        self.check_open("RELEASE SAVEPOINT")?;
        let at = self.position(name)?;
        self.savepoints.truncate(at);
        Ok(())
    }

    /// Returns to a savepoint, which stays; the transaction goes on after an error.
    ///
    /// # Errors
    /// `25P01` without a transaction, `3B001` for an unknown name.
    pub(crate) fn roll_back_to(&mut self, name: &str) -> Result<RestoredState, PgError> {
        self.check_open("ROLLBACK TO SAVEPOINT")?;
        let at = self.position(name)?;
        self.savepoints.truncate(at + 1);
        self.has_failed = false;
        let RestorePoint { settings, cursor_count } = &self.savepoints[at].point;
        Ok(RestoredState { settings: settings.clone(), first_cursor: *cursor_count })
    }

    fn position(&self, name: &str) -> Result<usize, PgError> {
        let found = self.savepoints.iter().rposition(|savepoint| savepoint.name == name);
        found.ok_or_else(|| PgError::new("3B001", format!("there is no savepoint `{name}`")))
    }

    /// Checks that a statement runs in a transaction.
    pub(crate) fn check_open(&self, statement: &str) -> Result<(), PgError> {
        if self.start.is_some() {
            return Ok(());
        }
        let text = format!("`{statement}` is possible only in a transaction");
        Err(PgError::new("25P01", text).hint("send `begin` first"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_savepoint_ends_the_failed_state_and_hides_an_earlier_one_of_its_name() {
        let (mut transaction, settings) = (Transaction::default(), SessionSettings::default());
        assert_eq!(transaction.save("a", &settings, 0).expect_err("none").state, "25P01");
        transaction.begin(&settings, 0);
        for cursors in [1, 2] {
            transaction.save("a", &settings, cursors).expect("it is open");
        }
        transaction.save("b", &settings, 3).expect("it is open");
        transaction.fail();
        assert_eq!(transaction.state(), TransactionState::Failed);
        assert_eq!(transaction.roll_back_to("c").err().expect("none").state, "3B001");
        assert_eq!(transaction.roll_back_to("a").expect("it is there").first_cursor, 2);
        assert_eq!(transaction.state(), TransactionState::Open);
        assert_eq!(transaction.release("b").expect_err("it is gone").state, "3B001");
        transaction.release("a").expect("it stayed");
        assert_eq!(transaction.roll_back_to("a").expect("the earlier one").first_cursor, 1);
        assert!(transaction.end().is_some());
        assert_eq!(transaction.state(), TransactionState::None);
    }
}
