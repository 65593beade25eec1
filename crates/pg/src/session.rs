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
use crate::copy_out::CopyOut;
use crate::cursor::Cursor;
use crate::error::PgError;
use crate::frame::Frame;
use crate::kept_bytes::KeptBytes;
use crate::prepared::{Portal, PreparedStatement};
use crate::rows::{RowSender, one_text, table_of_texts};
use crate::session_statements::Statement;
use crate::settings::{SessionSettings, Setting};
use crate::startup::StartupMessage;
use crate::transaction::{Transaction, TransactionState};
use crate::writer::MessageWriter;
use crate::{Caller, QueryEngine, QueryResult, set_config};

/// Silence after which a session ends.
const IDLE_MAX: Duration = Duration::from_secs(86_400);
/// Number of messages to read ahead.
const AHEAD: usize = 4;

/// What remains of a statement.
pub(crate) enum StatementOutcome {
    /// It is complete.
    Complete,
    Rows(RowSender),
    Copy(CopyOut),
}

/// State of a connection.
pub(crate) struct Session<W> {
    pub(crate) writer: MessageWriter<W>,
    pub(crate) engine: Arc<dyn QueryEngine>,
    pub(crate) caller: Caller,
    cancellation: CancelRegistration,
    pub(crate) kept: KeptBytes,
    pub(crate) settings: SessionSettings,
    pub(crate) prepared: HashMap<String, Arc<PreparedStatement>>,
    pub(crate) portals: HashMap<String, Portal>,
    pub(crate) cursors: HashMap<String, Cursor>,
    /// Number of cursors that were declared so far.
    pub(crate) cursor_count: u64,
    pub(crate) transaction: Transaction,
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
            cursors: HashMap::new(),
            cursor_count: 0,
            transaction: Transaction::default(),
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
        if let Err(error) = self.start_settings(hello) {
            self.writer.error("FATAL", &error);
            self.writer.shut().await;
            return Ok(());
        }
        self.greet();
        self.ready().await?;
        loop {
            let frame = tokio::select! {
                frame = frames.recv() => frame,
                () = self.idle_timer() => {
                    self.writer.error("FATAL", &self.idle_error());
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

    /// Elapses after the client's `idle_session_timeout`, or its
    /// `idle_in_transaction_session_timeout` in a transaction; at most after a day.
    fn idle_timer(&self) -> tokio::time::Sleep {
        let limit = match self.transaction.state() {
            TransactionState::None => self.settings.idle_session_timeout(),
            _ => self.settings.idle_in_transaction_timeout(),
        };
        tokio::time::sleep(limit.unwrap_or(IDLE_MAX).min(IDLE_MAX))
    }

    fn idle_error(&self) -> PgError {
        if self.transaction.state() == TransactionState::None {
            let hint = "connect again, or raise `idle_session_timeout`, which is at most a day";
            return PgError::new("57P05", "the session was idle for too long").hint(hint);
        }
        PgError::new("25P03", "the session was idle in a transaction for too long")
            .hint("connect again, or raise `idle_in_transaction_session_timeout`")
    }

    /// Number of the connection, which a cancel request names.
    pub(crate) fn number(&self) -> i32 {
        self.cancellation.key.0
    }

    fn greet(&mut self) {
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
        let state = match self.transaction.state() {
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
                if self.transaction.state() == TransactionState::None {
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
        self.transaction.fail();
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
        match self.execute(&statement, sql, Vec::new()).await {
            Err(error) => Ok(Err(error)),
            Ok(StatementOutcome::Complete) => Ok(Ok(())),
            Ok(StatementOutcome::Copy(copy)) => copy.send(&mut self.writer).await,
            Ok(StatementOutcome::Rows(mut rows)) => {
                rows.set_interval_style(self.settings.interval_style());
                rows.describe(&mut self.writer);
                rows.send(&mut self.writer, 0).await.map(|sent| sent.map(drop))
            }
        }
    }

    /// Runs a statement up to its rows, or completes one without rows.
    pub(crate) async fn execute(
        &mut self,
        statement: &Statement,
        sql: &str,
        parameters: Vec<ArrayRef>,
    ) -> Result<StatementOutcome, PgError> {
        let is_end = matches!(
            statement,
            Statement::Commit(_) | Statement::Rollback(_) | Statement::RollbackTo(_)
        );
        if self.transaction.state() == TransactionState::Failed && !is_end {
            return Err(PgError::new(
                "25P02",
                "the transaction is aborted: statements are ignored until its end",
            )
            .hint("send `rollback`"));
        }
        let tag = match statement {
            Statement::Query(tag) => {
                let changes = set_config::changes(sql, &parameters)?;
                let cancelled = set_config::cancelled(sql, &parameters)?;
                let result = self.run_query(sql, parameters).await?;
                self.apply(&changes)?;
                self.cancel_others(&cancelled)?;
                return Ok(StatementOutcome::Rows(RowSender::new(result, tag)));
            }
            Statement::Show(name) => return self.show(name).map(StatementOutcome::Rows),
            Statement::Execute(execute) => {
                return self.execute_prepared(execute).await.map(StatementOutcome::Rows);
            }
            Statement::Fetch(fetch) if !fetch.is_move => {
                return self.fetch(fetch).map(StatementOutcome::Rows);
            }
            Statement::Fetch(fetch) if self.portals.contains_key(&fetch.name) => {
                self.move_portal(fetch).await?.into()
            }
            Statement::Copy(copy) => {
                let result = self.run_query(&copy.sql, parameters).await?;
                return CopyOut::new(copy.clone(), result).map(StatementOutcome::Copy);
            }
            Statement::Empty => {
                self.writer.message(b'I', |_| {});
                return Ok(StatementOutcome::Complete);
            }
            Statement::Unsupported(error) => return Err(error.clone()),
            Statement::Prepare { name, types, sql } => {
                self.prepare_by_name(name, types, sql).await?;
                "PREPARE".into()
            }
            Statement::Declare(declaration) => {
                self.declare(declaration, parameters).await?;
                "DECLARE CURSOR".into()
            }
            other => self.change(other)?,
        };
        self.writer.complete(&tag);
        Ok(StatementOutcome::Complete)
    }

    /// Cancels the queries of other connections of the same user.
    fn cancel_others(&self, numbers: &[i32]) -> Result<(), PgError> {
        for number in numbers {
            if !self.cancellation.cancel_other(*number, &self.caller.user) {
                let text = format!("you have no connection with the number {number}");
                return Err(PgError::new("22023", text)
                    .hint("it is that of `select pg_backend_pid()` over that connection"));
            }
        }
        Ok(())
    }

    fn show(&self, name: &str) -> Result<RowSender, PgError> {
        if name.eq_ignore_ascii_case("all") {
            let all = self.settings.all().into_iter();
            let rows: Vec<_> = all.map(|(name, value)| [name, value, String::new()]).collect();
            let result = table_of_texts(["name", "setting", "description"], &rows);
            return Ok(RowSender::new(result, "SHOW"));
        }
        let (name, value) = self.settings.get(name)?;
        Ok(RowSender::new(one_text(&Setting { name, value }), "SHOW"))
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
