//! Test helpers: requests, and the rows built from them.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use weir_tables::{Batch, Micros};

use crate::batch_builder::BatchBuilder;
use crate::protocol::{HttpProtocol, IntakeRequest};
use crate::response::{IntakeResponse, Refusal};
use crate::window::Window;

/// 2026-11-20T12:00:00Z.
pub(crate) const NOW: Micros = Micros(1_795_176_000_000_000);

/// A request from 192.0.2.1.
pub(crate) fn request(
    method: http::Method,
    uri: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> IntakeRequest {
    let mut builder = http::Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    let (parts, ()) = builder.body(()).expect("a request").into_parts();
    IntakeRequest {
        parts,
        body: body.to_vec().into(),
        peer: [192, 0, 2, 1].into(),
        body_bytes: 1 << 20,
        elasticsearch_version: "8.19.0".into(),
    }
}

/// An empty builder with a fresh window.
pub(crate) fn builder() -> BatchBuilder {
    BatchBuilder::new(NOW, &Arc::new(Window::new(Duration::from_secs(600))))
}

/// Lines by host and source, and rejects.
pub(crate) fn dump(builder: &mut BatchBuilder) -> String {
    let mut out = String::new();
    for group in &builder.groups {
        writeln!(out, "{} {}", group.host, group.source).expect("memory");
        let ends = group.items.iter().skip(1).map(|(offset, _)| *offset).chain([group.bytes.len()]);
        for (end, (start, _)) in ends.zip(&group.items) {
            let message = String::from_utf8_lossy(&group.bytes[*start..end]);
            let message = message.strip_suffix('\n').expect("a line end");
            writeln!(out, "  {}", message.replace('\n', "⏎")).expect("memory");
        }
    }
    for batch in builder.own_rows() {
        writeln!(out, "{}: {} rows", batch.table.name, batch.rows.num_rows()).expect("memory");
    }
    out
}

/// Columns of the rows that need no parser, one row per line.
pub(crate) fn rows(builder: &mut BatchBuilder, columns: &[&str]) -> String {
    builder.own_rows().iter().map(|batch| texts(batch, columns)).collect()
}

/// Columns of a batch, one row per line.
pub(crate) fn texts(batch: &Batch, columns: &[&str]) -> String {
    let mut out = String::new();
    for row in 0..batch.rows.num_rows() {
        for name in columns {
            let column = batch.rows.column_by_name(name).expect("a column");
            let text = arrow_cast::display::array_value_to_string(column, row).expect("a value");
            write!(out, "{name}={text} ").expect("memory");
        }
        out = out.trim_end().to_owned() + "\n";
    }
    out
}

/// Items that a protocol reads from a request.
pub(crate) fn items_of<P: HttpProtocol>(request: &IntakeRequest) -> Result<String, Refusal> {
    let mut builder = builder();
    P::read(request, &mut builder)?;
    Ok(dump(&mut builder))
}

/// Status and body as text.
pub(crate) fn status_and_body(response: &IntakeResponse) -> String {
    format!("{} {}", response.status.as_u16(), String::from_utf8_lossy(&response.body))
}

/// Hostile input for a protocol's reader: parts of `seed` repeated, truncated, changed and mixed.
pub(crate) fn mangled(
    u: &mut arbtest::arbitrary::Unstructured<'_>,
    seed: &[u8],
) -> arbtest::arbitrary::Result<Vec<u8>> {
    let mut bytes = seed.to_vec();
    for _ in 0..u.int_in_range(0..=4)? {
        if bytes.is_empty() {
            break;
        }
        let at = u.choose_index(bytes.len())?;
        match u.int_in_range(0..=3)? {
            0 => bytes[at] = u.arbitrary()?,
            1 => bytes.truncate(at),
            2 => drop(bytes.splice(at..at, u.arbitrary::<Vec<u8>>()?)),
            _ => {
                let end = u.int_in_range(at..=bytes.len())?;
                let part = bytes[at..end].to_vec();
                bytes.extend(part);
            }
        }
    }
    Ok(bytes)
}
