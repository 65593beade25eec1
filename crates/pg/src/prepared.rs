//! The extended query protocol: statements are parsed once, bound to parameters, and executed at
//! once or in portions.

use std::io;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, SchemaRef};
use tokio::io::AsyncWrite;

use crate::copy_out::CopyOut;
use crate::cursor::no_cursor;
use crate::cursor_statements::{CursorFetch, FetchDirection};
use crate::decode::parameter;
use crate::encode::Format;
use crate::error::PgError;
use crate::frame::FieldReader;
use crate::kept_bytes::KeptShare;
use crate::rows::{RowSender, describe, kinds, table_of_texts, text_column};
use crate::session::{Session, StatementOutcome, no_statement};
use crate::session_statements::{ExecuteStatement, Statement};
use crate::types::PgType;

/// Limit of prepared statements, and of portals, per session.
const KEPT_MAX: usize = 1000;

/// A parsed statement.
pub(crate) struct PreparedStatement {
    sql: Arc<str>,
    statement: Statement,
    /// Type in which the client sends each parameter.
    sent: Vec<PgType>,
    /// OID that describes each parameter: the declared one, such as `varchar`, if there is one.
    /// Drivers reject a description that differs from their declaration.
    oids: Vec<u32>,
    /// Type that the engine expects for each parameter.
    expected: Vec<DataType>,
    /// Columns of the result; `None` if it returns no rows.
    schema: Option<SchemaRef>,
    _share: KeptShare,
}

/// A statement with its parameters, and the rest of its result once it runs.
pub(crate) struct Portal {
    prepared: Arc<PreparedStatement>,
    parameters: Vec<ArrayRef>,
    _share: KeptShare,
    formats: Vec<Format>,
    rows: Option<RowSender>,
    is_done: bool,
}

impl PreparedStatement {
    fn check_count(&self, received: usize) -> Result<(), PgError> {
        let expected = self.expected.len();
        if received == expected {
            return Ok(());
        }
        let text = format!("received {received} parameters, but the statement needs {expected}");
        Err(PgError::protocol(text))
    }
}

impl<W: AsyncWrite + Unpin + Send> Session<W> {
    /// Handles a message of an extended query.
    pub(crate) async fn extended(
        &mut self,
        kind: u8,
        body: &[u8],
    ) -> io::Result<Result<(), PgError>> {
        let fields = FieldReader(body);
        Ok(match kind {
            b'P' => self.parse(fields).await,
            b'B' => self.bind(fields),
            b'D' => self.describe(fields),
            b'C' => self.close(fields),
            _ => return self.run_portal(fields).await,
        })
    }

    async fn parse(&mut self, mut fields: FieldReader<'_>) -> Result<(), PgError> {
        let (name, sql) = (fields.text()?.to_owned(), fields.text()?.to_owned());
        let declared = fields.list(FieldReader::i32)?;
        let declared = declared.into_iter().map(|oid| u32::from_be_bytes(oid.to_be_bytes()));
        let declared: Vec<u32> = declared.collect();
        let sent = declared.iter().map(|oid| PgType::from_oid(*oid)).collect();
        if !name.is_empty() && self.prepared.contains_key(&name) {
            return Err(PgError::new(
                "42P05",
                format!("prepared statement `{name}` already exists"),
            ));
        }
        if crate::split::statements(&sql).len() > 1 {
            return Err(PgError::new("42601", "a prepared statement must be a single statement"));
        }
        if name.is_empty() {
            self.prepared.remove("");
        }
        let mut prepared = self.prepare(&sql, sent).await?;
        for (oid, declared) in prepared.oids.iter_mut().zip(declared) {
            if PgType::from_oid(declared).is_some() {
                *oid = declared;
            }
        }
        self.store(name, prepared)?;
        self.writer.message(b'1', |_| {});
        Ok(())
    }

    fn store(&mut self, name: String, prepared: PreparedStatement) -> Result<(), PgError> {
        if self.prepared.len() >= KEPT_MAX {
            let text = format!("the limit of {KEPT_MAX} prepared statements is reached");
            return Err(PgError::new("54000", text).hint("send `deallocate all`"));
        }
        self.prepared.insert(name, Arc::new(prepared));
        Ok(())
    }

    async fn prepare(
        &mut self,
        sql: &str,
        sent: Vec<Option<PgType>>,
    ) -> Result<PreparedStatement, PgError> {
        let share = self.kept.take(sql.len())?;
        let sql: Arc<str> = sql.trim().trim_end_matches(';').into();
        let statement = Statement::of(&sql);
        let (mut expected, mut schema) = (Vec::new(), None);
        let mut cast = Vec::new();
        match &statement {
            Statement::Query(_) | Statement::Declare(_) => {
                let known = sent.iter().map(|kind| kind.map(arrow_type)).collect();
                let (query, has_rows) = match &statement {
                    Statement::Declare(declaration) => (declaration.sql.as_str().into(), false),
                    _ => (Arc::clone(&sql), true),
                };
                let described = self.engine.describe(self.caller.clone(), query, known).await?;
                (expected, cast) = (described.parameters, described.oids);
                schema = has_rows.then_some(described.schema);
            }
            Statement::Fetch(fetch) if !fetch.is_move => {
                let cursor = self.cursors.get(&fetch.name).ok_or_else(|| no_cursor(&fetch.name))?;
                schema = Some(SchemaRef::clone(cursor.schema()));
            }
            Statement::Show(name) if name.eq_ignore_ascii_case("all") => {
                schema = Some(table_of_texts(["name", "setting", "description"], &[]).schema);
            }
            Statement::Show(name) => schema = Some(text_column(self.settings.get(name)?.0)),
            Statement::Execute(ExecuteStatement { name, .. }) => {
                schema
                    .clone_from(&self.prepared.get(name).ok_or_else(|| no_statement(name))?.schema);
            }
            _ => {}
        }
        let sent = expected.iter().enumerate().map(|(at, expected)| {
            let declared = sent.get(at).copied().flatten();
            let cast = cast.get(at).copied().flatten().and_then(PgType::from_oid);
            declared.or(cast).unwrap_or_else(|| PgType::from_arrow(expected))
        });
        let sent: Vec<PgType> = sent.collect();
        let oids = sent.iter().map(|kind| kind.oid()).collect();
        Ok(PreparedStatement { sent, oids, sql, statement, expected, schema, _share: share })
    }

    /// Runs `prepare name (types) as …`. The engine resolves the types.
    pub(crate) async fn prepare_by_name(
        &mut self,
        name: &str,
        types: &[String],
        sql: &str,
    ) -> Result<(), PgError> {
        let mut known = Vec::new();
        if !types.is_empty() {
            let nulls = types.iter().enumerate().map(|(at, kind)| format!("null::{kind} as p{at}"));
            let nulls: Vec<String> = nulls.collect();
            let sql = format!("select {}", nulls.join(", "));
            let described =
                self.engine.describe(self.caller.clone(), sql.into(), Vec::new()).await?;
            known = kinds(&described.schema).into_iter().map(Some).collect();
        }
        if self.prepared.contains_key(name) {
            return Err(PgError::new(
                "42P05",
                format!("prepared statement `{name}` already exists"),
            ));
        }
        let prepared = self.prepare(sql, known).await?;
        self.store(name.to_owned(), prepared)
    }

    /// Runs `execute name (values)`.
    pub(crate) async fn execute_prepared(
        &mut self,
        execute: &ExecuteStatement,
    ) -> Result<RowSender, PgError> {
        let ExecuteStatement { name, values } = execute;
        let prepared = Arc::clone(self.prepared.get(name).ok_or_else(|| no_statement(name))?);
        let Statement::Query(tag) = prepared.statement else {
            return Err(PgError::unsupported("`execute` supports only queries"));
        };
        let mut parameters = Vec::new();
        if !values.is_empty() {
            let result =
                self.run_query(&format!("select * from (values ({values})) v"), Vec::new()).await?;
            let row = result.batches.first().filter(|batch| batch.num_rows() == 1);
            let row =
                row.ok_or_else(|| PgError::new("42601", "the values are not a list of constants"))?;
            for (column, expected) in row.columns().iter().zip(&prepared.expected) {
                let value = arrow_cast::cast(column, expected);
                parameters.push(
                    value.map_err(|error| {
                        PgError::new("22P02", format!("invalid value: {error}"))
                    })?,
                );
            }
        }
        prepared.check_count(parameters.len())?;
        let sql = Arc::clone(&prepared.sql);
        Ok(RowSender::new(self.run_query(&sql, parameters).await?, tag))
    }

    fn bind(&mut self, mut fields: FieldReader<'_>) -> Result<(), PgError> {
        let portal = fields.text()?.to_owned();
        let name = fields.text()?;
        let prepared = Arc::clone(self.prepared.get(name).ok_or_else(|| no_statement(name))?);
        let formats = fields.list(format)?;
        let values = fields.list(FieldReader::value)?;
        prepared.check_count(values.len())?;
        if portal.is_empty() {
            self.portals.remove("");
        } else if self.portals.contains_key(&portal) || self.cursors.contains_key(&portal) {
            return Err(PgError::new("42P03", format!("portal `{portal}` already exists")));
        }
        let bytes = values.iter().flatten().map(|value| value.len()).sum();
        let share = self.kept.take(bytes)?;
        let formats = spread(&formats, values.len())?;
        let types = prepared.sent.iter().zip(&prepared.expected);
        let parameters = values.into_iter().zip(formats).zip(types);
        let parameters = parameters
            .map(|((bytes, format), (sent, expected))| parameter(bytes, format, *sent, expected))
            .collect::<Result<_, _>>()?;
        let columns = prepared.schema.as_ref().map_or(0, |schema| schema.fields().len());
        let formats = spread(&fields.list(format)?, columns)?;
        if self.portals.len() >= KEPT_MAX {
            return Err(PgError::new(
                "54000",
                format!("the limit of {KEPT_MAX} portals is reached"),
            ));
        }
        let bound =
            Portal { prepared, parameters, _share: share, formats, rows: None, is_done: false };
        self.portals.insert(portal, bound);
        self.writer.message(b'2', |_| {});
        Ok(())
    }

    fn describe(&mut self, mut fields: FieldReader<'_>) -> Result<(), PgError> {
        let (what, name) = (fields.byte()?, fields.text()?);
        let (prepared, formats) = if what == b'S' {
            let prepared = Arc::clone(self.prepared.get(name).ok_or_else(|| no_statement(name))?);
            self.writer.message(b't', |body| {
                let count = u16::try_from(prepared.oids.len()).unwrap_or(u16::MAX);
                body.extend_from_slice(&count.to_be_bytes());
                for oid in &prepared.oids {
                    body.extend_from_slice(&oid.to_be_bytes());
                }
            });
            let columns = prepared.schema.as_ref().map_or(0, |schema| schema.fields().len());
            (prepared, vec![Format::Text; columns])
        } else if let Some(cursor) = self.cursors.get(name) {
            describe(&mut self.writer, cursor.schema(), &cursor.formats());
            return Ok(());
        } else {
            let portal = self.portals.get(name).ok_or_else(|| no_portal(name))?;
            (Arc::clone(&portal.prepared), portal.formats.clone())
        };
        match &prepared.schema {
            Some(schema) => describe(&mut self.writer, schema, &formats),
            None => self.writer.message(b'n', |_| {}),
        }
        Ok(())
    }

    fn close(&mut self, mut fields: FieldReader<'_>) -> Result<(), PgError> {
        let (what, name) = (fields.byte()?, fields.text()?);
        if what == b'S' {
            self.prepared.remove(name);
        } else {
            self.portals.remove(name);
            self.cursors.remove(name);
        }
        self.writer.message(b'3', |_| {});
        Ok(())
    }

    async fn run_portal(&mut self, mut fields: FieldReader<'_>) -> io::Result<Result<(), PgError>> {
        let name = match fields.text() {
            Ok(name) => name.to_owned(),
            Err(error) => return Ok(Err(error)),
        };
        let limit = fields.i32().ok().and_then(|limit| usize::try_from(limit).ok()).unwrap_or(0);
        // Remove the portal while it runs; a failed one is gone.
        let Some(mut portal) = self.portals.remove(&name) else { return Ok(Err(no_portal(&name))) };
        match self.start(&mut portal).await {
            Err(error) => return Ok(Err(error)),
            Ok(None) => {}
            Ok(Some(copy)) => {
                if let Err(error) = copy.send(&mut self.writer).await? {
                    return Ok(Err(error));
                }
            }
        }
        if let Some(rows) = &mut portal.rows {
            rows.set_interval_style(self.settings.interval_style());
            match rows.send(&mut self.writer, limit).await? {
                Ok(is_done) => portal.is_done = is_done,
                Err(error) => return Ok(Err(error)),
            }
            if portal.is_done {
                portal.rows = None;
            }
        }
        self.portals.insert(name, portal);
        Ok(Ok(()))
    }

    /// Runs a portal's statement at its first execution. Returns the copy that is to be sent.
    async fn start(&mut self, portal: &mut Portal) -> Result<Option<CopyOut>, PgError> {
        if portal.rows.is_some() {
            return Ok(None);
        }
        if portal.is_done {
            self.writer.complete("SELECT 0");
            return Ok(None);
        }
        let prepared = Arc::clone(&portal.prepared);
        let parameters = portal.parameters.clone();
        let outcome = self.execute(&prepared.statement, &prepared.sql, parameters).await?;
        portal.is_done = !matches!(outcome, StatementOutcome::Rows(_));
        match outcome {
            StatementOutcome::Complete => Ok(None),
            StatementOutcome::Copy(copy) => Ok(Some(copy)),
            StatementOutcome::Rows(rows) => {
                let described = prepared.schema.as_deref().map(kinds).unwrap_or_default();
                portal.rows = Some(rows.with_columns(described, portal.formats.clone())?);
                Ok(None)
            }
        }
    }
}

impl<W: AsyncWrite + Unpin + Send> Session<W> {
    /// Runs `move` of a portal, which only moves forward. Returns its tag.
    pub(crate) async fn move_portal(&mut self, fetch: &CursorFetch) -> Result<String, PgError> {
        let count = match fetch.direction {
            FetchDirection::Forward(count) => usize::try_from(count).ok(),
            FetchDirection::AllForward => Some(usize::MAX),
            _ => None,
        };
        let only_forward = || PgError::new("55000", "a portal can only move forward");
        let count = count.ok_or_else(only_forward)?;
        let Some(mut portal) = self.portals.remove(&fetch.name) else {
            return Err(no_portal(&fetch.name));
        };
        let Statement::Query(tag) = portal.prepared.statement else {
            return Err(PgError::unsupported("`move` supports only portals of queries"));
        };
        if portal.rows.is_none() && !portal.is_done {
            let prepared = Arc::clone(&portal.prepared);
            let result = self.run_query(&prepared.sql, portal.parameters.clone()).await?;
            let described = prepared.schema.as_deref().map(kinds).unwrap_or_default();
            let rows = RowSender::new(result, tag);
            portal.rows = Some(rows.with_columns(described, portal.formats.clone())?);
        }
        let passed = portal.rows.as_mut().map_or(Ok(0), |rows| rows.pass(count))?;
        self.portals.insert(fetch.name.clone(), portal);
        Ok(format!("MOVE {passed}"))
    }
}

fn arrow_type(kind: PgType) -> DataType {
    let item = kind.scalar.to_arrow();
    if kind.is_array { DataType::new_list(item, true) } else { item }
}

fn format(fields: &mut FieldReader<'_>) -> Result<Format, PgError> {
    match fields.i16()? {
        0 => Ok(Format::Text),
        1 => Ok(Format::Binary),
        other => Err(PgError::protocol(format!("unknown format code {other}"))),
    }
}

/// Expands format codes: none means text for all, one applies to all.
fn spread(formats: &[Format], count: usize) -> Result<Vec<Format>, PgError> {
    match formats {
        [] => Ok(vec![Format::Text; count]),
        [one] => Ok(vec![*one; count]),
        all if all.len() == count => Ok(all.to_vec()),
        all => Err(PgError::protocol(format!(
            "received {} format codes for {count} values",
            all.len()
        ))),
    }
}

fn no_portal(name: &str) -> PgError {
    PgError::new("34000", format!("there is no portal `{name}`"))
}
