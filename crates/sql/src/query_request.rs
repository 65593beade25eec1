//! One query: its text, and how, for whom and within which limits it runs.

use std::sync::Arc;

use arrow_array::ArrayRef;
use weir_datafile::StoreError;
use weir_tables::Micros;

use crate::options::QueryLimits;
use crate::plan_cache::PlanTemplate;
use crate::postgres::{self, ClientSettings, PostgresQuery};

/// One query. Without further settings it is weir's own, with the default limits.
#[derive(Clone, Debug)]
pub struct Query {
    pub(crate) sql: String,
    pub(crate) caller: Option<Arc<str>>,
    pub(crate) limits: QueryLimits,
    /// The SQL with `$now` in it, and the current time.
    repeated: Option<(String, Micros)>,
    parameters: Option<Vec<ArrayRef>>,
    pub(crate) settings: ClientSettings,
}

impl Query {
    /// A query with this SQL.
    pub fn new(sql: &str) -> Self {
        let limits = QueryLimits::default();
        let (sql, settings) = (sql.to_owned(), ClientSettings::default());
        Self { sql, caller: None, limits, repeated: None, parameters: None, settings }
    }

    /// Runs it on behalf of a user: a login or an address, as in [`crate::EndedQuery::user`].
    #[must_use]
    pub fn caller(self, user: &str) -> Self {
        Self { caller: Some(user.into()), ..self }
    }

    /// Replaces `$now` by the time. The parts of the plan that do not depend on the time are cached
    /// for the next query with the same SQL.
    #[must_use]
    pub fn at(self, now: Micros) -> Self {
        let sql = PlanTemplate { template: &self.sql, now }.sql();
        Self { repeated: Some((self.sql, now)), sql, ..self }
    }

    /// Runs it as a query of a PostgreSQL client: with PostgreSQL's catalog, and `$1`, `$2`, … each
    /// bound to an array of one value.
    #[must_use]
    pub fn parameters(self, parameters: &[ArrayRef]) -> Self {
        Self { parameters: Some(parameters.to_vec()), ..self }
    }

    /// Runs it with the settings of a PostgreSQL client's session: names and values.
    #[must_use]
    pub fn settings(self, settings: Arc<[(String, String)]>) -> Self {
        Self { settings: ClientSettings(settings), ..self }
    }

    /// Runs it within these limits.
    #[must_use]
    pub fn limits(self, limits: QueryLimits) -> Self {
        Self { limits, ..self }
    }

    /// # Errors
    /// `BadQuery`: a parameter cannot be used.
    pub(crate) fn mode(&self) -> Result<QueryMode, StoreError> {
        Ok(match (&self.parameters, &self.repeated) {
            (Some(parameters), _) => {
                let (parameters, settings) = (postgres::values(parameters)?, self.settings.clone());
                QueryMode::Postgres(PostgresQuery::new(parameters, settings))
            }
            (None, Some((template, now))) => {
                QueryMode::At { template: template.clone(), now: *now }
            }
            (None, None) => QueryMode::Once,
        })
    }
}

/// How a query is planned.
#[derive(Clone)]
pub(crate) enum QueryMode {
    Once,
    /// Repeated: the SQL with `$now` in it, and the current time.
    At {
        template: String,
        now: Micros,
    },
    /// From a PostgreSQL client.
    Postgres(PostgresQuery),
}
