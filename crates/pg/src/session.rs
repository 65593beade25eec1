//! One client after its login: simple queries, and statements that are prepared, bound and executed.
//!
//! A task of its own reads ahead a few messages, so that it is noticed when the client goes away while its query runs:
//! the query is given up then, as it is when the client asks for that over another connection.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use arrow_array::ArrayRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};

use crate::cancel::Entered;
use crate::frame::Frame;
use crate::out::Out;
use crate::own::Statement;
use crate::prepared::{Portal, Prepared};
use crate::refusal::Refusal;
use crate::rows::Rows;
use crate::settings::Settings;
use crate::startup::Hello;
use crate::{Answer, Caller, Engine};

/// Messages that are read ahead.
const AHEAD: usize = 4;

/// Whether a transaction is open; there is nothing in it, but clients keep count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transaction {
    None,
    Open,
    Failed,
}

/// What the server knows of a connection.
pub(crate) struct Session<W> {
    pub(crate) out: Out<W>,
    pub(crate) engine: Arc<dyn Engine>,
    caller: Caller,
    entered: Entered,
    pub(crate) settings: Settings,
    pub(crate) prepared: HashMap<String, Arc<Prepared>>,
    pub(crate) portals: HashMap<String, Portal>,
    transaction: Transaction,
    /// After an error in an extended query: up to the next `Sync` nothing is done.
    pub(crate) is_skipping: bool,
    gone: watch::Receiver<bool>,
}

impl<W: AsyncWrite + Unpin + Send> Session<W> {
    pub(crate) fn new(
        out: Out<W>,
        engine: Arc<dyn Engine>,
        caller: Caller,
        entered: Entered,
    ) -> Self {
        Self {
            out,
            engine,
            caller,
            entered,
            settings: Settings::default(),
            prepared: HashMap::new(),
            portals: HashMap::new(),
            transaction: Transaction::None,
            is_skipping: false,
            gone: watch::channel(false).1,
        }
    }

    /// Serves the client until one of both ends it.
    pub(crate) async fn run<R: AsyncRead + Unpin + Send + 'static>(
        mut self,
        from: R,
        hello: &Hello,
        mut ended: watch::Receiver<bool>,
    ) -> io::Result<()> {
        let (left, gone) = watch::channel(false);
        self.gone = gone;
        let (to, mut frames) = mpsc::channel(AHEAD);
        let reading = tokio::spawn(read_ahead(from, to, left));
        let _stop = Stop(reading.abort_handle());
        self.greet(hello);
        self.ready().await?;
        loop {
            let frame = tokio::select! {
                frame = frames.recv() => frame,
                _ = ended.wait_for(|is_ended| *is_ended) => {
                    self.out.error("FATAL", &Refusal::new("57P01", "weir is ending"));
                    break;
                }
            };
            match frame {
                None => break,
                Some(Frame { kind: b'X', .. }) => break,
                Some(frame) => self.serve(frame).await?,
            }
        }
        self.out.shut().await;
        Ok(())
    }

    fn greet(&mut self, hello: &Hello) {
        let own = ["user", "database", "replication", "options"];
        for (name, value) in hello.names.iter().filter(|(name, _)| !own.contains(&name.as_str())) {
            // A client that wishes for something that is not to be had gets what there is.
            let _ = self.settings.set(name, value);
        }
        let _ = self.settings.set("session_authorization", &self.caller.user);
        self.out.message(b'R', |body| body.extend_from_slice(&0_i32.to_be_bytes()));
        for (name, value) in self.settings.reported() {
            self.out.parameter(name, &value);
        }
        let user = Arc::clone(&self.caller.user);
        self.out.parameter("session_authorization", &user);
        self.out.parameter("is_superuser", "off");
        let (number, secret) = self.entered.key;
        self.out.message(b'K', |body| {
            body.extend_from_slice(&number.to_be_bytes());
            body.extend_from_slice(&secret.to_be_bytes());
        });
    }

    async fn ready(&mut self) -> io::Result<()> {
        let state = match self.transaction {
            Transaction::None => b'I',
            Transaction::Open => b'T',
            Transaction::Failed => b'E',
        };
        self.out.message(b'Z', |body| body.push(state));
        self.out.flush().await
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
                if self.transaction == Transaction::None {
                    self.portals.clear();
                }
                self.ready().await
            }
            b'H' => self.out.flush().await,
            // Data of a `copy` that was refused.
            b'd' | b'c' | b'f' => Ok(()),
            b'P' | b'B' | b'D' | b'E' | b'C' if self.is_skipping => Ok(()),
            b'P' | b'B' | b'D' | b'E' | b'C' => {
                if let Err(refusal) = self.extended(frame.kind, &frame.body).await? {
                    self.fail(&refusal);
                    self.is_skipping = true;
                }
                self.out.relieve().await
            }
            b'F' => {
                self.fail(&Refusal::unsupported("functions are called in queries only"));
                self.ready().await
            }
            other => {
                let text = format!("there is no message of kind {other}");
                self.out.error("FATAL", &Refusal::protocol(text));
                self.out.shut().await;
                Err(io::ErrorKind::InvalidData.into())
            }
        }
    }

    fn fail(&mut self, refusal: &Refusal) {
        if self.transaction == Transaction::Open {
            self.transaction = Transaction::Failed;
        }
        self.out.error("ERROR", refusal);
    }

    async fn simple(&mut self, body: &[u8]) -> io::Result<()> {
        let text = match crate::frame::Fields(body).text() {
            Ok(text) => text.to_owned(),
            Err(refusal) => {
                self.fail(&refusal);
                return Ok(());
            }
        };
        let statements = crate::split::statements(&text);
        if statements.is_empty() {
            self.out.message(b'I', |_| {});
        }
        for sql in statements {
            if let Err(refusal) = self.one(sql).await? {
                self.fail(&refusal);
                break;
            }
        }
        Ok(())
    }

    /// One statement of a simple query.
    async fn one(&mut self, sql: &str) -> io::Result<Result<(), Refusal>> {
        let statement = Statement::of(sql);
        let rows = match self.execute(&statement, sql, Vec::new()).await {
            Ok(rows) => rows,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let Some(mut rows) = rows else { return Ok(Ok(())) };
        rows.describe(&mut self.out);
        rows.send(&mut self.out, 0).await.map(|sent| sent.map(drop))
    }

    /// Does a statement; gives rows, or has said that it is done.
    pub(crate) async fn execute(
        &mut self,
        statement: &Statement,
        sql: &str,
        parameters: Vec<ArrayRef>,
    ) -> Result<Option<Rows>, Refusal> {
        let ends_transaction = matches!(statement, Statement::Commit | Statement::Rollback);
        if self.transaction == Transaction::Failed && !ends_transaction {
            return Err(Refusal::new(
                "25P02",
                "an earlier statement of this transaction failed: up to its end nothing is done",
            )
            .hint("send `rollback`"));
        }
        let tag = match statement {
            Statement::Query(tag) => {
                return self.ask(sql, parameters).await.map(|answer| Some(Rows::new(answer, tag)));
            }
            Statement::Show(name) => return self.show(name).map(Some),
            Statement::Execute { name, values } => {
                return self.execute_prepared(name, values).await.map(Some);
            }
            Statement::Empty => {
                self.out.message(b'I', |_| {});
                return Ok(None);
            }
            Statement::Refused(refusal) => return Err(refusal.clone()),
            Statement::Prepare { name, types, sql } => {
                self.prepare_by_name(name, types, sql).await?;
                "PREPARE"
            }
            other => self.change(other)?,
        };
        self.out.complete(tag);
        Ok(None)
    }

    /// Statements that change the session; gives the tag.
    fn change(&mut self, statement: &Statement) -> Result<&'static str, Refusal> {
        Ok(match statement {
            Statement::Begin => {
                self.transaction = Transaction::Open;
                "BEGIN"
            }
            Statement::Commit | Statement::Rollback => {
                let is_whole = self.transaction != Transaction::Failed;
                self.transaction = Transaction::None;
                self.portals.clear();
                if is_whole && *statement == Statement::Commit { "COMMIT" } else { "ROLLBACK" }
            }
            Statement::Set { name, value } => {
                if let Some(name) = self.settings.set(name, value)? {
                    self.out.parameter(name, value);
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
                    Some(name) => drop(self.prepared.remove(name).ok_or_else(|| unknown(name))?),
                }
                "DEALLOCATE"
            }
            Statement::Nothing(tag) => tag,
            _ => return Err(Refusal::unsupported("this statement is not known here")),
        })
    }

    fn show(&self, name: &str) -> Result<Rows, Refusal> {
        if name.eq_ignore_ascii_case("all") {
            return Err(Refusal::unsupported("settings are shown one by one")
                .hint("`select * from pg_settings` lists them"));
        }
        let (name, value) = self.settings.get(name)?;
        Ok(Rows::new(crate::rows::one_text(name, value), "SHOW"))
    }

    /// Has the engine run a query, until it is given up.
    pub(crate) async fn ask(
        &mut self,
        sql: &str,
        parameters: Vec<ArrayRef>,
    ) -> Result<Answer, Refusal> {
        let wish = Arc::clone(&self.entered.wish);
        let cancelled = wish.notified();
        let answer = self.engine.run(self.caller.clone(), sql.into(), parameters);
        let limit = self.settings.statement_timeout();
        let late = async move {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            answer = answer => answer,
            () = cancelled => Err(Refusal::new("57014", "the query was given up because its client asked for that")),
            () = late => Err(Refusal::new("57014", "the query took longer than `statement_timeout`, which its client has set")),
            _ = self.gone.wait_for(|is_gone| *is_gone) => Err(Refusal::new("08006", "the client is gone")),
        }
    }
}

pub(crate) fn unknown(name: &str) -> Refusal {
    Refusal::new("26000", format!("there is no prepared statement `{name}`"))
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

/// Ends the reader with the session.
struct Stop(tokio::task::AbortHandle);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
