//! PostgreSQL's protocol over the store: the same login, turns and limits as the API has.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;
use weir_config::Values;
use weir_pg::{
    Caller, Password, Passwords, PgError, QueryEngine, QueryResult, ServerOptions,
    StatementDescription, Tls,
};
use weir_process::failure::{EXIT_CONFIG, Failure};
use weir_store::{Described, ErrorKind, Query, QueryLimits, StoreError};

use super::SharedApp;
use super::caller::{PEER, as_caller, caller};
use super::connection::is_own_socket;
use crate::bind::listen;
use crate::logins::Logins;

/// Bound, and not serving yet.
pub(crate) struct PgServer {
    socket: TcpListener,
    address: SocketAddr,
    options: ServerOptions,
}

impl PgServer {
    /// Binds `pg.listen`, when it is set.
    pub(crate) fn bind(values: &Values, logins: &Logins) -> Result<Option<Self>, Failure> {
        let pg = &values.pg;
        if pg.listen.is_empty() {
            return Ok(None);
        }
        let tls = match (&pg.tls_certificate_file, &pg.tls_key_file) {
            (None, None) if pg.require_tls => {
                return Err(refused("`pg.require_tls` is set and there is no certificate".into())
                    .hint("set `pg.tls_certificate_file` and `pg.tls_key_file`"));
            }
            (None, None) => None,
            (Some(certificate), Some(key)) => Some(Tls::load(certificate, key).map_err(refused)?),
            _ => {
                return Err(refused("a certificate and its key go together".into())
                    .hint("set both `pg.tls_certificate_file` and `pg.tls_key_file`"));
            }
        };
        // The protocol proves a password without sending it, so that it cannot be read on the way.
        let socket = listen(&pg.listen, true, "--pg")?;
        let address = socket.local_addr().map_err(|error| Failure::new(error.to_string()))?;
        let passwords = passwords(logins)
            .map_err(|why| refused(why).hint("a login for PostgreSQL's clients has to be ASCII"))?;
        let options = ServerOptions { passwords, tls, is_tls_needed: pg.require_tls };
        Ok(Some(Self { socket, address, options }))
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `ended`.
    pub(crate) async fn serve(self, app: SharedApp, ended: watch::Receiver<bool>) {
        match tokio::net::TcpListener::from_std(self.socket) {
            Ok(socket) => weir_pg::serve(socket, self.options, Arc::new(Rows(app)), ended).await,
            Err(error) => tracing::error!("cannot serve PostgreSQL's clients: {error}"),
        }
    }
}

/// Each login that may read by its name, the one that may do everything for other users, and nothing
/// for whom the kernel vouches.
fn passwords(logins: &Logins) -> Result<Passwords, String> {
    let named = logins
        .readers()
        .map(|login| Ok((login.name().to_string(), Password::new(login.secret())?)));
    Ok(Passwords {
        named: named.collect::<Result<_, String>>()?,
        other: Some(Password::new(logins.everything())?),
        is_trusted: logins.is_host_trusted().then_some(is_own_socket),
    })
}

fn refused(why: String) -> Failure {
    Failure::new(format!("cannot serve PostgreSQL's clients: {why}")).code(EXIT_CONFIG)
}

/// What queries ask.
struct Rows(SharedApp);

impl QueryEngine for Rows {
    fn describe(
        &self,
        who: Caller,
        sql: Arc<str>,
        known: Vec<Option<DataType>>,
    ) -> BoxFuture<'static, Result<StatementDescription, PgError>> {
        let app = Arc::clone(&self.0);
        let describe = async move {
            let query = Query::new(&sql).settings(who.settings).limits(app.query_limits);
            let described = app.store.query(query).describe(&known).await;
            let described = described.map_err(refusal)?;
            let Described { parameters, oids, schema } = described;
            Ok(StatementDescription { parameters, oids, schema })
        };
        describe.boxed()
    }

    fn run(
        &self,
        who: Caller,
        sql: Arc<str>,
        parameters: Vec<ArrayRef>,
    ) -> BoxFuture<'static, Result<QueryResult, PgError>> {
        let app = Arc::clone(&self.0);
        // The common user name does not identify a caller.
        let user = Some(who.user).filter(|user| &**user != "weir");
        let settings = who.settings;
        let answer = async move { answer(&app, &sql, &parameters, settings).await };
        PEER.scope(who.address, async move { as_caller(user.as_deref(), answer).await }).boxed()
    }
}

async fn answer(
    app: &SharedApp,
    sql: &str,
    parameters: &[ArrayRef],
    settings: Arc<[(String, String)]>,
) -> Result<QueryResult, PgError> {
    let _turn = app.turn().await.map_err(|_| {
        PgError::new("53400", "cannot query: too many queries are running")
            .hint("try again, or raise `api.concurrent_queries` or `api.user_queries`")
    })?;
    // Clients would take an answer that was cut for the whole one: its size is the limit, not its
    // rows.
    let limits = QueryLimits { rows: usize::MAX, ..app.query_limits };
    let query = Query::new(sql).caller(&caller()).parameters(parameters).settings(settings);
    let query = query.limits(limits);
    let result = app.store.query(query).run().await;
    app.meter.count_query(result.is_ok());
    let result = result.map_err(refusal)?;
    Ok(QueryResult { schema: result.schema, batches: result.batches })
}

fn refusal(error: StoreError) -> PgError {
    let refusal = PgError::new(state_of(&error), error.message);
    match error.hint {
        Some(hint) => refusal.hint(hint),
        None => refusal,
    }
}

/// SQLSTATE, as far as clients act on it.
fn state_of(error: &StoreError) -> &'static str {
    match error.kind {
        ErrorKind::BadQuery => {
            let known = [
                ("there is no table", "42P01"),
                ("there is no column", "42703"),
                ("there is no function", "42883"),
                ("cannot read the SQL", "42601"),
                ("only queries are run", "25006"),
            ];
            let found = known.iter().find(|(text, _)| error.message.starts_with(text));
            found.map_or("42000", |(_, state)| state)
        }
        ErrorKind::QueryLimit if error.message.contains("memory") => "53200",
        ErrorKind::QueryLimit
            if error.message.contains(" s") && error.message.contains("after") =>
        {
            "57014"
        }
        ErrorKind::QueryLimit => "54000",
        ErrorKind::Corrupt => "XX001",
        ErrorKind::Closed => "57P01",
        _ => "58030",
    }
}
