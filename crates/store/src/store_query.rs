//! A query of a store: collected, streamed, described or forecast.

use arrow_schema::DataType;
use weir_datafile::{ErrorKind, StoreError};
use weir_sql::{Described, Forecast, Query, QueryResult, QueryStream};

use crate::store::Store;

/// A query that has yet to run.
#[must_use]
pub struct StoreQuery<'a> {
    pub(crate) store: &'a Store,
    pub(crate) query: Query,
}

impl StoreQuery<'_> {
    /// Runs it and collects the whole result. Dropping the future cancels it.
    ///
    /// # Errors
    /// `BadQuery` when the SQL is not valid or not a query, `QueryLimit` when it exceeds a limit,
    /// `Io` when files cannot be read.
    pub async fn run(self) -> Result<QueryResult, StoreError> {
        self.stream().await?.collect().await
    }

    /// Runs it and returns its rows as they come. Dropping the stream cancels it.
    ///
    /// # Errors
    /// As [`Self::run`], up to the first rows.
    pub async fn stream(self) -> Result<QueryStream, StoreError> {
        let Self { store, query } = self;
        let view = store.shared.view();
        let snapshot = view.snapshot;
        match store.engine.stream(view, query.clone()).await {
            // Another hub has moved on: the retry sees the files that were flushed meanwhile.
            Err(error) if error.kind == ErrorKind::Moved => {
                let view = store.view_at(snapshot + 1).await?;
                store.engine.stream(view, query).await
            }
            outcome => outcome,
        }
    }

    /// Describes its parameters and columns for a PostgreSQL client, without running it; `known` has
    /// the parameter types that the client specified.
    ///
    /// # Errors
    /// `BadQuery` when the SQL is not valid.
    pub async fn describe(self, known: &[Option<DataType>]) -> Result<Described, StoreError> {
        self.store.engine.describe(self.store.shared.view(), &self.query, known).await
    }

    /// Estimates what it would read now, without running it.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub async fn forecast(self) -> Result<Forecast, StoreError> {
        self.store.engine.forecast(self.store.shared.view(), &self.query).await
    }
}
