//! A server for PostgreSQL's protocol, version 3: psql, Grafana, drivers.
//!
//! Source: PostgreSQL's manual, chapter "Frontend/Backend Protocol". The [`QueryEngine`] runs
//! statements; this crate has the connections, logins, types and formats, and what a session keeps:
//! settings, cursors, savepoints. Everything is read-only, and each query has its own snapshot.

mod array_text;
mod cancel;
mod copy_out;
mod copy_statement;
mod cursor;
mod cursor_statements;
mod decode;
mod encode;
mod error;
mod frame;
mod interval;
mod json;
mod kept_bytes;
mod listen;
mod numeric;
mod prepared;
mod rows;
mod scram;
mod session;
mod session_changes;
mod session_statements;
mod set_config;
mod setting_values;
mod settings;
mod split;
mod starting;
mod startup;
mod tls;
mod transaction;
mod types;
mod writer;

use std::net::IpAddr;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use futures::future::BoxFuture;

pub use error::PgError;
pub use listen::{Passwords, ServerOptions, serve};
pub use scram::Password;
pub use tls::Tls;

/// The client of a query.
#[derive(Clone, Debug)]
pub struct Caller {
    /// User name of the connection. It proves something only if [`Passwords::named`] has it.
    pub user: Arc<str>,
    /// Remote address.
    pub address: IpAddr,
    /// All settings of its session: names and values.
    pub settings: Arc<[(String, String)]>,
}

/// Parameters and result columns of a statement.
#[derive(Clone, Debug)]
pub struct StatementDescription {
    /// Types of `$1`, `$2`, ….
    pub parameters: Vec<DataType>,
    /// OIDs of the types to which the statement casts `$1`, `$2`, …, where it does. Arrow has no
    /// type of its own for some of them.
    pub oids: Vec<Option<u32>>,
    /// Names and types of the result's columns.
    pub schema: SchemaRef,
}

/// The complete result of a query.
#[derive(Clone, Debug)]
pub struct QueryResult {
    /// Names and types of the columns.
    pub schema: SchemaRef,
    /// The rows.
    pub batches: Vec<RecordBatch>,
}

/// Runs queries. Dropping a future cancels it.
pub trait QueryEngine: Send + Sync + 'static {
    /// Describes `sql`; `known` has the parameter types that the client declared.
    fn describe(
        &self,
        caller: Caller,
        sql: Arc<str>,
        known: Vec<Option<DataType>>,
    ) -> BoxFuture<'static, Result<StatementDescription, PgError>>;

    /// Runs `sql`. Each parameter is an array with one value.
    fn run(
        &self,
        caller: Caller,
        sql: Arc<str>,
        parameters: Vec<ArrayRef>,
    ) -> BoxFuture<'static, Result<QueryResult, PgError>>;
}
