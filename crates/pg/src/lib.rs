//! Answers PostgreSQL's clients in their own protocol, version 3: psql, Grafana, drivers.
//!
//! Source: PostgreSQL's manual, chapter "Frontend/Backend Protocol". What a statement means is the [`Engine`]'s matter;
//! this room has the connections, logins, types and formats. Everything is read only, so transactions are accepted and
//! mean nothing: each query sees the rows of its own moment.

mod cancel;
mod decode;
mod encode;
mod frame;
mod json;
mod listen;
mod numeric;
mod out;
mod own;
mod prepared;
mod refusal;
mod rows;
mod scram;
mod session;
mod settings;
mod split;
mod startup;
mod tls;
mod types;

use std::net::IpAddr;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use futures::future::BoxFuture;

pub use listen::{Options, serve};
pub use refusal::Refusal;
pub use scram::Password;
pub use tls::Tls;

/// Who asks: what the client calls itself, and from where.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The user of the connection; no proof of anything unless there is a password, which all users share.
    pub user: Arc<str>,
    /// Its address.
    pub address: IpAddr,
}

/// What a statement wants and gives.
#[derive(Clone, Debug)]
pub struct Described {
    /// Types of `$1`, `$2`, ….
    pub parameters: Vec<DataType>,
    /// Names and types of the answer's columns.
    pub schema: SchemaRef,
}

/// The answer to a query, whole.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Names and types of the columns.
    pub schema: SchemaRef,
    /// The rows.
    pub batches: Vec<RecordBatch>,
}

/// Runs queries. Dropping a future stops what it does.
pub trait Engine: Send + Sync + 'static {
    /// What `sql` wants and gives; types of parameters that the client knows stand in `known`.
    fn describe(
        &self,
        sql: Arc<str>,
        known: Vec<Option<DataType>>,
    ) -> BoxFuture<'static, Result<Described, Refusal>>;

    /// Runs `sql`; each parameter is an array of one value.
    fn run(
        &self,
        caller: Caller,
        sql: Arc<str>,
        parameters: Vec<ArrayRef>,
    ) -> BoxFuture<'static, Result<Answer, Refusal>>;
}
