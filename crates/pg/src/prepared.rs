//! Statements that are parsed once, bound to parameters, and executed, whole or in parts.

use std::io;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, SchemaRef};
use tokio::io::AsyncWrite;

use crate::decode::parameter;
use crate::encode::Format;
use crate::frame::Fields;
use crate::own::Statement;
use crate::refusal::Refusal;
use crate::rows::{Rows, describe, kinds, text_column};
use crate::session::{Session, unknown};
use crate::types::Type;

/// Prepared statements, and portals, of one session.
const KEPT_MAX: usize = 1000;

/// A statement that was parsed.
pub(crate) struct Prepared {
    sql: Arc<str>,
    statement: Statement,
    /// What the client sends each parameter as.
    sent: Vec<Type>,
    /// What the engine takes each for.
    wanted: Vec<DataType>,
    /// `None` when it gives no rows.
    schema: Option<SchemaRef>,
}

/// A statement with its parameters, and what is left of its answer once it runs.
pub(crate) struct Portal {
    prepared: Arc<Prepared>,
    parameters: Vec<ArrayRef>,
    formats: Vec<Format>,
    rows: Option<Rows>,
    is_done: bool,
}

impl<W: AsyncWrite + Unpin + Send> Session<W> {
    /// A message of an extended query.
    pub(crate) async fn extended(
        &mut self,
        kind: u8,
        body: &[u8],
    ) -> io::Result<Result<(), Refusal>> {
        let fields = Fields(body);
        Ok(match kind {
            b'P' => self.parse(fields).await,
            b'B' => self.bind(fields),
            b'D' => self.describe(fields),
            b'C' => self.close(fields),
            _ => return self.run_portal(fields).await,
        })
    }

    async fn parse(&mut self, mut fields: Fields<'_>) -> Result<(), Refusal> {
        let (name, sql) = (fields.text()?.to_owned(), fields.text()?.to_owned());
        let sent = fields.list(Fields::i32)?;
        let sent =
            sent.into_iter().map(|oid| Type::from_oid(u32::from_be_bytes(oid.to_be_bytes())));
        if !name.is_empty() && self.prepared.contains_key(&name) {
            return Err(Refusal::new(
                "42P05",
                format!("there is a prepared statement `{name}` already"),
            ));
        }
        if crate::split::statements(&sql).len() > 1 {
            return Err(Refusal::new("42601", "a prepared statement is one statement"));
        }
        let prepared = self.prepare(&sql, sent.collect()).await?;
        self.keep(name, prepared)?;
        self.out.message(b'1', |_| {});
        Ok(())
    }

    fn keep(&mut self, name: String, prepared: Prepared) -> Result<(), Refusal> {
        if self.prepared.len() >= KEPT_MAX {
            let text =
                format!("there are {KEPT_MAX} prepared statements, which is all there may be");
            return Err(Refusal::new("54000", text).hint("send `deallocate all`"));
        }
        self.prepared.insert(name, Arc::new(prepared));
        Ok(())
    }

    async fn prepare(&mut self, sql: &str, sent: Vec<Option<Type>>) -> Result<Prepared, Refusal> {
        let sql: Arc<str> = sql.trim().trim_end_matches(';').into();
        let statement = Statement::of(&sql);
        let (mut wanted, mut schema) = (Vec::new(), None);
        match &statement {
            Statement::Query(_) => {
                let known = sent.iter().map(|kind| kind.map(arrow_type)).collect();
                let described = self.engine.describe(Arc::clone(&sql), known).await?;
                wanted = described.parameters;
                schema = Some(described.schema);
            }
            Statement::Show(name) => schema = Some(text_column(self.settings.get(name)?.0)),
            Statement::Execute { name, .. } => {
                schema.clone_from(&self.prepared.get(name).ok_or_else(|| unknown(name))?.schema);
            }
            _ => {}
        }
        let sent = wanted.iter().enumerate().map(|(at, wanted)| {
            sent.get(at).copied().flatten().unwrap_or_else(|| Type::from_arrow(wanted))
        });
        Ok(Prepared { sent: sent.collect(), sql, statement, wanted, schema })
    }

    /// `prepare name (types) as …`, whose types are the engine's matter.
    pub(crate) async fn prepare_by_name(
        &mut self,
        name: &str,
        types: &[String],
        sql: &str,
    ) -> Result<(), Refusal> {
        let mut known = Vec::new();
        if !types.is_empty() {
            let null = |(at, kind): (usize, &String)| format!("null::{kind} as p{at}");
            let nulls: Vec<String> = types.iter().enumerate().map(null).collect();
            let sql = format!("select {}", nulls.join(", "));
            let described = self.engine.describe(sql.into(), Vec::new()).await?;
            known = kinds(&described.schema).into_iter().map(Some).collect();
        }
        if self.prepared.contains_key(name) {
            return Err(Refusal::new(
                "42P05",
                format!("there is a prepared statement `{name}` already"),
            ));
        }
        let prepared = self.prepare(sql, known).await?;
        self.keep(name.to_owned(), prepared)
    }

    /// `execute name (values)`
    pub(crate) async fn execute_prepared(
        &mut self,
        name: &str,
        values: &str,
    ) -> Result<Rows, Refusal> {
        let prepared = Arc::clone(self.prepared.get(name).ok_or_else(|| unknown(name))?);
        let Statement::Query(tag) = prepared.statement else {
            return Err(Refusal::unsupported("only queries are executed by name"));
        };
        let mut parameters = Vec::new();
        if !values.is_empty() {
            let answer =
                self.ask(&format!("select * from (values ({values})) v"), Vec::new()).await?;
            let row = answer.batches.first().filter(|batch| batch.num_rows() == 1);
            let row =
                row.ok_or_else(|| Refusal::new("42601", "the values are no list of constants"))?;
            for (column, wanted) in row.columns().iter().zip(&prepared.wanted) {
                let value = arrow_cast::cast(column, wanted);
                parameters.push(value.map_err(|error| {
                    Refusal::new("22P02", format!("cannot use a value: {error}"))
                })?);
            }
        }
        if parameters.len() != prepared.wanted.len() {
            return Err(count_differs(parameters.len(), prepared.wanted.len()));
        }
        let sql = Arc::clone(&prepared.sql);
        Ok(Rows::new(self.ask(&sql, parameters).await?, tag))
    }

    fn bind(&mut self, mut fields: Fields<'_>) -> Result<(), Refusal> {
        let portal = fields.text()?.to_owned();
        let name = fields.text()?;
        let prepared = Arc::clone(self.prepared.get(name).ok_or_else(|| unknown(name))?);
        let formats = fields.list(format)?;
        let values = fields.list(Fields::value)?;
        if values.len() != prepared.wanted.len() {
            return Err(count_differs(values.len(), prepared.wanted.len()));
        }
        let formats = spread(&formats, values.len())?;
        let types = prepared.sent.iter().zip(&prepared.wanted);
        let parameters = values.into_iter().zip(formats).zip(types);
        let parameters = parameters
            .map(|((bytes, format), (sent, wanted))| parameter(bytes, format, *sent, wanted))
            .collect::<Result<_, _>>()?;
        let columns = prepared.schema.as_ref().map_or(0, |schema| schema.fields().len());
        let formats = spread(&fields.list(format)?, columns)?;
        if self.portals.len() >= KEPT_MAX {
            return Err(Refusal::new(
                "54000",
                format!("there are {KEPT_MAX} portals, which is all there may be"),
            ));
        }
        let bound = Portal { prepared, parameters, formats, rows: None, is_done: false };
        self.portals.insert(portal, bound);
        self.out.message(b'2', |_| {});
        Ok(())
    }

    fn describe(&mut self, mut fields: Fields<'_>) -> Result<(), Refusal> {
        let (what, name) = (fields.byte()?, fields.text()?);
        let (prepared, formats) = if what == b'S' {
            let prepared = Arc::clone(self.prepared.get(name).ok_or_else(|| unknown(name))?);
            self.out.message(b't', |body| {
                let count = u16::try_from(prepared.sent.len()).unwrap_or(u16::MAX);
                body.extend_from_slice(&count.to_be_bytes());
                for kind in &prepared.sent {
                    body.extend_from_slice(&kind.oid().to_be_bytes());
                }
            });
            let columns = prepared.schema.as_ref().map_or(0, |schema| schema.fields().len());
            (prepared, vec![Format::Text; columns])
        } else {
            let portal = self.portals.get(name).ok_or_else(|| no_portal(name))?;
            (Arc::clone(&portal.prepared), portal.formats.clone())
        };
        match &prepared.schema {
            Some(schema) => describe(&mut self.out, schema, &formats),
            None => self.out.message(b'n', |_| {}),
        }
        Ok(())
    }

    fn close(&mut self, mut fields: Fields<'_>) -> Result<(), Refusal> {
        let (what, name) = (fields.byte()?, fields.text()?);
        if what == b'S' {
            self.prepared.remove(name);
        } else {
            self.portals.remove(name);
        }
        self.out.message(b'3', |_| {});
        Ok(())
    }

    async fn run_portal(&mut self, mut fields: Fields<'_>) -> io::Result<Result<(), Refusal>> {
        let name = match fields.text() {
            Ok(name) => name.to_owned(),
            Err(refusal) => return Ok(Err(refusal)),
        };
        let limit = fields.i32().ok().and_then(|limit| usize::try_from(limit).ok()).unwrap_or(0);
        // Taken out while it runs; what fails is not put back.
        let Some(mut portal) = self.portals.remove(&name) else { return Ok(Err(no_portal(&name))) };
        if let Err(refusal) = self.start(&mut portal).await {
            return Ok(Err(refusal));
        }
        if let Some(rows) = &mut portal.rows {
            match rows.send(&mut self.out, limit).await? {
                Ok(is_done) => portal.is_done = is_done,
                Err(refusal) => return Ok(Err(refusal)),
            }
            if portal.is_done {
                portal.rows = None;
            }
        }
        self.portals.insert(name, portal);
        Ok(Ok(()))
    }

    /// Runs a portal's statement when this is its first execution.
    async fn start(&mut self, portal: &mut Portal) -> Result<(), Refusal> {
        if portal.rows.is_some() {
            return Ok(());
        }
        if portal.is_done {
            self.out.complete("SELECT 0");
            return Ok(());
        }
        let prepared = Arc::clone(&portal.prepared);
        let parameters = portal.parameters.clone();
        let rows = self.execute(&prepared.statement, &prepared.sql, parameters).await?;
        portal.is_done = rows.is_none();
        portal.rows = match rows {
            Some(rows) => {
                let promised = prepared.schema.as_deref().map(kinds).unwrap_or_default();
                Some(rows.promised(promised, portal.formats.clone())?)
            }
            None => None,
        };
        Ok(())
    }
}

fn arrow_type(kind: Type) -> DataType {
    let item = kind.scalar.to_arrow();
    if kind.is_array { DataType::new_list(item, true) } else { item }
}

fn format(fields: &mut Fields<'_>) -> Result<Format, Refusal> {
    match fields.i16()? {
        0 => Ok(Format::Text),
        1 => Ok(Format::Binary),
        other => Err(Refusal::protocol(format!("there is no format {other}"))),
    }
}

/// None is text for all, one is for all, else there is one for each.
fn spread(formats: &[Format], count: usize) -> Result<Vec<Format>, Refusal> {
    match formats {
        [] => Ok(vec![Format::Text; count]),
        [one] => Ok(vec![*one; count]),
        all if all.len() == count => Ok(all.to_vec()),
        all => Err(Refusal::protocol(format!("{} formats came for {count} values", all.len()))),
    }
}

fn count_differs(came: usize, wanted: usize) -> Refusal {
    Refusal::protocol(format!("{came} parameters came, the statement wants {wanted}"))
}

fn no_portal(name: &str) -> Refusal {
    Refusal::new("34000", format!("there is no portal `{name}`"))
}
