//! One client's session after its login: simple and extended queries.
//!
//! A separate task reads a few messages ahead, to detect a client that disconnects while its query
//! runs. The query is then cancelled, as it is on a cancel request over another connection.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::ArrayRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};

use crate::cancel::CancelRegistration;
use crate::error::PgError;
use crate::frame::Frame;
use crate::kept_bytes::KeptBytes;
use crate::prepared::{Portal, PreparedStatement};
use crate::rows::RowSender;
use crate::session_statements::Statement;
use crate::settings::{SessionSettings, Setting};
use crate::startup::StartupMessage;
use crate::writer::MessageWriter;
use crate::{Caller, QueryEngine, QueryResult};

/// Silence after which a session ends.
const IDLE_MAX: Duration = Duration::from_secs(86_400);
/// Number of messages to read ahead.
const AHEAD: usize = 4;

/// State of the transaction. It has no effect, but clients track it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransactionState {
    None,
    Open,
    Failed,
}

/// State of a connection.
pub(crate) struct Session<W> {
    pub(crate) writer: MessageWriter<W>,
    pub(crate) engine: Arc<dyn QueryEngine>,
    caller: Caller,
    cancellation: CancelRegistration,
    pub(crate) kept: KeptBytes,
    pub(crate) settings: SessionSettings,
    pub(crate) prepared: HashMap<String, Arc<PreparedStatement>>,
    pub(crate) portals: HashMap<String, Portal>,
    transaction: TransactionState,
    /// After an error in an extended query: skip messages up to the next `Sync`.
    pub(crate) is_skipping: bool,
    gone: watch::Receiver<bool>,
}

impl<W: AsyncWrite + Unpin + Send> Session<W> {
    pub(crate) fn new(
        writer: MessageWriter<W>,
        engine: Arc<dyn QueryEngine>,
        caller: Caller,
        cancellation: CancelRegistration,
        kept: KeptBytes,
    ) -> Self {
        Self {
            writer,
            engine,
            caller,
            cancellation,
            kept,
            settings: SessionSettings::default(),
            prepared: HashMap::new(),
            portals: HashMap::new(),
            transaction: TransactionState::None,
            is_skipping: false,
            gone: watch::channel(false).1,
        }
    }

    /// Serves the client until either side ends the session.
    pub(crate) async fn run<R: AsyncRead + Unpin + Send + 'static>(
        mut self,
        from: R,
        hello: &StartupMessage,
        mut ended: watch::Receiver<bool>,
    ) -> io::Result<()> {
        let (left, gone) = watch::channel(false);
        self.gone = gone;
        let (to, mut frames) = mpsc::channel(AHEAD);
        let reading = tokio::spawn(read_ahead(from, to, left));
        let _abort = AbortOnDrop(reading.abort_handle());
        self.greet(hello);
        self.ready().await?;
        loop {
            let frame = tokio::select! {
                frame = frames.recv() => frame,
                () = self.idle_timer() => {
                    let error = PgError::new("57P05", "the session was idle for too long");
                    let hint = "connect again, or raise `idle_session_timeout`, which is at most a day";
                    self.writer.error("FATAL", &error.hint(hint));
                    break;
                }
                _ = ended.wait_for(|is_ended| *is_ended) => {
                    self.writer.error("FATAL", &PgError::new("57P01", "weir is shutting down"));
                    break;
                }
            };
            match frame {
                None => break,
                Some(Frame { kind: b'X', .. }) => break,
                Some(frame) => self.serve(frame).await?,
            }
        }
        self.writer.shut().await;
        Ok(())
    }

    /// Elapses after the client's `idle_session_timeout`, at most after a day.
    fn idle_timer(&self) -> tokio::time::Sleep {
        let limit = self.settings.idle_session_timeout().unwrap_or(IDLE_MAX);
        tokio::time::sleep(limit.min(IDLE_MAX))
    }

    fn greet(&mut self, hello: &StartupMessage) {
        let not_settings = ["user", "database", "replication", "options"];
        for (name, value) in
            hello.names.iter().filter(|(name, _)| !not_settings.contains(&name.as_str()))
        {
            // Unsupported values of startup options are ignored.
            let _ = self.settings.set(&Setting { name, value });
        }
        let _ =
            self.settings.set(&Setting { name: "session_authorization", value: &self.caller.user });
        self.writer.message(b'R', |body| body.extend_from_slice(&0_i32.to_be_bytes()));
        for (name, value) in self.settings.reported() {
            self.writer.parameter(&Setting { name, value: &value });
        }
        let user = Arc::clone(&self.caller.user);
        self.writer.parameter(&Setting { name: "session_authorization", value: &user });
        self.writer.parameter(&Setting { name: "is_superuser", value: "off" });
        let (number, secret) = self.cancellation.key;
        self.writer.message(b'K', |body| {
            body.extend_from_slice(&number.to_be_bytes());
            body.extend_from_slice(&secret.to_be_bytes());
        });
    }

    async fn ready(&mut self) -> io::Result<()> {
        let state = match self.transaction {
            TransactionState::None => b'I',
            TransactionState::Open => b'T',
            TransactionState::Failed => b'E',
        };
        self.writer.message(b'Z', |body| body.push(state));
        self.writer.flush().await
    }

    async fn serve(&mut self, frame: Frame) -> io::Result<()> {
        match frame.kind {
            b'Q' => {
                self.is_skipping = false;
                self.simple(&frame.body).await?;
                self.ready().await
            }
            b'S' => {
                self.is_skipping = false;
                if self.transaction == TransactionState::None {
                    self.portals.clear();
                }
                self.ready().await
            }
            b'H' => self.writer.flush().await,
            // Data of a refused COPY.
            b'd' | b'c' | b'f' => Ok(()),
            b'P' | b'B' | b'D' | b'E' | b'C' if self.is_skipping => Ok(()),
            b'P' | b'B' | b'D' | b'E' | b'C' => {
                if let Err(error) = self.extended(frame.kind, &frame.body).await? {
                    self.fail(&error);
                    self.is_skipping = true;
                }
                self.writer.flush_if_full().await
            }
            b'F' => {
                self.fail(&PgError::unsupported("function calls are supported only in queries"));
                self.ready().await
            }
            other => {
                let text = format!("unknown message type {other}");
                self.writer.error("FATAL", &PgError::protocol(text));
                self.writer.shut().await;
                Err(io::ErrorKind::InvalidData.into())
            }
        }
    }

    fn fail(&mut self, error: &PgError) {
        if self.transaction == TransactionState::Open {
            self.transaction = TransactionState::Failed;
        }
        self.writer.error("ERROR", error);
    }

    async fn simple(&mut self, body: &[u8]) -> io::Result<()> {
        let text = match crate::frame::FieldReader(body).text() {
            Ok(text) => text.to_owned(),
            Err(error) => {
                self.fail(&error);
                return Ok(());
            }
        };
        let statements = crate::split::statements(&text);
        if statements.is_empty() {
            self.writer.message(b'I', |_| {});
        }
        for sql in statements {
            if let Err(error) = self.run_simple(sql).await? {
                self.fail(&error);
                break;
            }
        }
        Ok(())
    }

    /// Runs one statement of a simple query.
    async fn run_simple(&mut self, sql: &str) -> io::Result<Result<(), PgError>> {
        let statement = Statement::of(sql);
        let rows = match self.execute(&statement, sql, Vec::new()).await {
            Ok(rows) => rows,
            Err(error) => return Ok(Err(error)),
        };
        let Some(mut rows) = rows else { return Ok(Ok(())) };
        rows.describe(&mut self.writer);
        rows.send(&mut self.writer, 0).await.map(|sent| sent.map(drop))
    }

    /// Runs a statement. Returns its rows, or `None` after completing it without rows.
    pub(crate) async fn execute(
        &mut self,
        statement: &Statement,
        sql: &str,
        parameters: Vec<ArrayRef>,
    ) -> Result<Option<RowSender>, PgError> {
        let ends_transaction = matches!(statement, Statement::Commit | Statement::Rollback);
        if self.transaction == TransactionState::Failed && !ends_transaction {
            return Err(PgError::new(
                "25P02",
                "the transaction is aborted: statements are ignored until its end",
            )
            .hint("send `rollback`"));
        }
        let tag = match statement {
            Statement::Query(tag) => {
                return self
                    .run_query(sql, parameters)
                    .await
                    .map(|result| Some(RowSender::new(result, tag)));
            }
            Statement::Show(name) => return self.show(name).map(Some),
            Statement::Execute(execute) => {
                return self.execute_prepared(execute).await.map(Some);
            }
            Statement::Empty => {
                self.writer.message(b'I', |_| {});
                return Ok(None);
            }
            Statement::Unsupported(error) => return Err(error.clone()),
            Statement::Prepare { name, types, sql } => {
                self.prepare_by_name(name, types, sql).await?;
                "PREPARE"
            }
            other => self.change(other)?,
        };
        self.writer.complete(tag);
        Ok(None)
    }

    /// Applies a statement that changes the session. Returns its tag.
    fn change(&mut self, statement: &Statement) -> Result<&'static str, PgError> {
        Ok(match statement {
            Statement::Begin => {
                self.transaction = TransactionState::Open;
                "BEGIN"
            }
            Statement::Commit | Statement::Rollback => {
                let is_intact = self.transaction != TransactionState::Failed;
                self.transaction = TransactionState::None;
                self.portals.clear();
                if is_intact && *statement == Statement::Commit { "COMMIT" } else { "ROLLBACK" }
            }
            Statement::Set { name, value } => {
                if let Some(name) = self.settings.set(&Setting { name, value })? {
                    self.writer.parameter(&Setting { name, value });
                }
                "SET"
            }
            Statement::Reset => {
                self.settings.reset();
                "RESET"
            }
            Statement::Discard => {
                self.settings.reset();
                self.prepared.clear();
                self.portals.clear();
                "DISCARD ALL"
            }
            Statement::Deallocate(name) => {
                match name {
                    None => self.prepared.clear(),
                    Some(name) => {
                        drop(self.prepared.remove(name).ok_or_else(|| no_statement(name))?)
                    }
                }
                "DEALLOCATE"
            }
            Statement::NoOp(tag) => tag,
            _ => return Err(PgError::unsupported("this statement is not supported")),
        })
    }

    fn show(&self, name: &str) -> Result<RowSender, PgError> {
        if name.eq_ignore_ascii_case("all") {
            return Err(PgError::unsupported("`show all` is not supported")
                .hint("`select * from pg_settings` lists all settings"));
        }
        let (name, value) = self.settings.get(name)?;
        Ok(RowSender::new(crate::rows::one_text(&Setting { name, value }), "SHOW"))
    }

    /// Runs a query in the engine, until it is cancelled.
    pub(crate) async fn run_query(
        &mut self,
        sql: &str,
        parameters: Vec<ArrayRef>,
    ) -> Result<QueryResult, PgError> {
        let request = Arc::clone(&self.cancellation.request);
        let cancelled = request.notified();
        let result = self.engine.run(self.caller.clone(), sql.into(), parameters);
        let limit = self.settings.statement_timeout();
        let timed_out = async move {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            result = result => result,
            () = cancelled => Err(PgError::new("57014", "the query was cancelled by its client")),
            () = timed_out => Err(PgError::new("57014", "the query exceeded its `statement_timeout`")),
            _ = self.gone.wait_for(|is_gone| *is_gone) => Err(PgError::new("08006", "the client is gone")),
        }
    }
}

pub(crate) fn no_statement(name: &str) -> PgError {
    PgError::new("26000", format!("there is no prepared statement `{name}`"))
}

async fn read_ahead<R: AsyncRead + Unpin>(
    from: R,
    to: mpsc::Sender<Frame>,
    left: watch::Sender<bool>,
) {
    let mut from = tokio::io::BufReader::new(from);
    while let Ok(Some(frame)) = Frame::read(&mut from).await {
        let is_last = frame.kind == b'X';
        if to.send(frame).await.is_err() || is_last {
            break;
        }
    }
    let _ = left.send(true);
}

/// Aborts the reader with the session.
struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
