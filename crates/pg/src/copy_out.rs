//! Sends the rows of `COPY … TO STDOUT` as text, CSV or PostgreSQL's binary layout (PostgreSQL's
//! manual, page `COPY`, section "File Formats").

use std::io;

use tokio::io::AsyncWrite;

use crate::QueryResult;
use crate::copy_statement::{CopyFormat, CopyStatement, ForcedQuotes};
use crate::encode::{ColumnEncoder, Format};
use crate::error::PgError;
use crate::rows::kinds;
use crate::writer::MessageWriter;

/// Signature, flags, and length of an empty extension.
const BINARY_HEADER: &[u8; 19] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
const BINARY_TRAILER: [u8; 2] = (-1_i16).to_be_bytes();

/// A copy whose rows have been read.
pub(crate) struct CopyOut {
    statement: CopyStatement,
    result: QueryResult,
    /// Whether the values of each column are always quoted.
    forced: Vec<bool>,
}

impl CopyOut {
    /// # Errors
    /// `42703` for a column of `force_quote` that is not copied.
    pub(crate) fn new(statement: CopyStatement, result: QueryResult) -> Result<Self, PgError> {
        let names: Vec<&String> = result.schema.fields().iter().map(|field| field.name()).collect();
        let forced = match &statement.force_quote {
            ForcedQuotes::All => vec![true; names.len()],
            ForcedQuotes::Columns(columns) => {
                if let Some(unknown) = columns.iter().find(|column| !names.contains(column)) {
                    let text = format!("`force_quote` names `{unknown}`, which is not copied");
                    return Err(PgError::new("42703", text));
                }
                names.iter().map(|name| columns.contains(name)).collect()
            }
        };
        Ok(Self { statement, result, forced })
    }

    /// Sends all rows and the completion.
    ///
    /// # Errors
    /// Outer: the connection failed. Inner: a cell cannot be encoded.
    pub(crate) async fn send<W: AsyncWrite + Unpin>(
        &self,
        writer: &mut MessageWriter<W>,
    ) -> io::Result<Result<(), PgError>> {
        self.begin(writer);
        let is_binary = self.statement.format == CopyFormat::Binary;
        // The first row follows the header in the same message: some clients rely on it.
        let mut line: Vec<u8> = if is_binary { BINARY_HEADER.to_vec() } else { Vec::new() };
        if self.statement.has_header {
            self.header(&mut line);
            writer.message(b'd', |body| body.append(&mut line));
        }
        let (kinds, mut sent) = (kinds(&self.result.schema), 0_usize);
        for batch in &self.result.batches {
            let columns = batch.columns().iter().zip(&kinds);
            let cells = columns.map(|(column, kind)| ColumnEncoder::new(column, *kind));
            let cells: Vec<ColumnEncoder> = match cells.collect::<Result<_, _>>() {
                Ok(cells) => cells,
                Err(error) => {
                    let text = format!("cannot encode a column: {error}");
                    return Ok(Err(PgError::new("22000", text)));
                }
            };
            for row in 0..batch.num_rows() {
                self.row(&mut line, &cells, row);
                writer.message(b'd', |body| body.append(&mut line));
                writer.flush_if_full().await?;
                sent += 1;
            }
        }
        if is_binary {
            line.extend_from_slice(&BINARY_TRAILER);
        }
        if !line.is_empty() {
            writer.message(b'd', |body| body.append(&mut line));
        }
        writer.message(b'c', |_| {});
        writer.complete(&format!("COPY {sent}"));
        Ok(Ok(()))
    }

    fn begin<W: AsyncWrite + Unpin>(&self, writer: &mut MessageWriter<W>) {
        let format = u8::from(self.statement.format == CopyFormat::Binary);
        let count = u16::try_from(self.forced.len()).unwrap_or(u16::MAX);
        writer.message(b'H', |body| {
            body.push(format);
            body.extend_from_slice(&count.to_be_bytes());
            for _ in 0..count {
                body.extend_from_slice(&u16::from(format).to_be_bytes());
            }
        });
    }

    /// Appends the names of the columns.
    fn header(&self, line: &mut Vec<u8>) {
        for (at, field) in self.result.schema.fields().iter().enumerate() {
            if at > 0 {
                line.push(self.statement.delimiter);
            }
            self.value(line, field.name(), false);
        }
        line.push(b'\n');
    }

    fn row(&self, line: &mut Vec<u8>, cells: &[ColumnEncoder], row: usize) {
        if self.statement.format == CopyFormat::Binary {
            let count = u16::try_from(cells.len()).unwrap_or(u16::MAX);
            line.extend_from_slice(&count.to_be_bytes());
            cells.iter().for_each(|cell| cell.push(line, row, Format::Binary));
            return;
        }
        for (at, cell) in cells.iter().enumerate() {
            if at > 0 {
                line.push(self.statement.delimiter);
            }
            match cell.cell(row) {
                None => line.extend_from_slice(self.statement.null.as_bytes()),
                Some(text) => self.value(line, &text, self.forced[at]),
            }
        }
        line.push(b'\n');
    }

    fn value(&self, line: &mut Vec<u8>, text: &str, is_forced: bool) {
        let CopyStatement { delimiter, null, quote, escape, format, .. } = &self.statement;
        if *format != CopyFormat::Csv {
            return escaped(line, text, *delimiter);
        }
        let special = [*delimiter, *quote, b'\n', b'\r'];
        let is_quoted = is_forced
            || text == null
            || text == "\\."
            || text.bytes().any(|byte| special.contains(&byte));
        if !is_quoted {
            return line.extend_from_slice(text.as_bytes());
        }
        line.push(*quote);
        for byte in text.bytes() {
            if byte == *quote || byte == *escape {
                line.push(*escape);
            }
            line.push(byte);
        }
        line.push(*quote);
    }
}

/// Appends a value of the text format.
fn escaped(line: &mut Vec<u8>, text: &str, delimiter: u8) {
    for byte in text.bytes() {
        let letter = match byte {
            b'\\' => b'\\',
            0x08 => b'b',
            0x0c => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x0b => b'v',
            byte if byte == delimiter => byte,
            byte => {
                line.push(byte);
                continue;
            }
        };
        line.extend_from_slice(&[b'\\', letter]);
    }
}
