//! Requests and what is made of them, for the tests of this room.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use weir_tables::{Batch, Micros};

use crate::harvest::Harvest;
use crate::http::{Answer, Ask, Protocol, Refusal};
use crate::window::Window;

/// 2026-11-20T12:00:00Z.
pub(crate) const NOW: Micros = Micros(1_795_176_000_000_000);

/// A request from 192.0.2.1.
pub(crate) fn ask(method: &str, uri: &str, headers: &[(&str, &str)], body: &[u8]) -> Ask {
    let mut builder = http::Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    let (parts, ()) = builder.body(()).expect("a request").into_parts();
    Ask {
        parts,
        body: body.to_vec().into(),
        peer: [192, 0, 2, 1].into(),
        body_bytes: 1 << 20,
        elasticsearch_version: "8.19.0".into(),
    }
}

/// An empty harvest with a window of its own.
pub(crate) fn harvest() -> Harvest {
    Harvest::new(NOW, &Arc::new(Window::new(Duration::from_secs(600))))
}

/// Lines by host and source, and rejects.
pub(crate) fn dump(harvest: &mut Harvest) -> String {
    let mut out = String::new();
    for group in &harvest.groups {
        writeln!(out, "{} {}", group.host, group.source).expect("memory");
        for line in String::from_utf8_lossy(&group.bytes).lines() {
            writeln!(out, "  {line}").expect("memory");
        }
    }
    for batch in harvest.own_rows() {
        writeln!(out, "{}: {} rows", batch.table.name, batch.rows.num_rows()).expect("memory");
    }
    out
}

/// Columns of the rows that need no parser, one row a line.
pub(crate) fn rows(harvest: &mut Harvest, columns: &[&str]) -> String {
    harvest.own_rows().iter().map(|batch| texts(batch, columns)).collect()
}

/// Columns of a batch, one row a line.
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

/// What a protocol harvests of a request.
pub(crate) fn harvested<P: Protocol>(ask: &Ask) -> Result<String, Refusal> {
    let mut harvest = harvest();
    P::read(ask, &mut harvest)?;
    Ok(dump(&mut harvest))
}

/// Status and body as text.
pub(crate) fn told(answer: &Answer) -> String {
    format!("{} {}", answer.status.as_u16(), String::from_utf8_lossy(&answer.body))
}

/// Bytes that a protocol's reader must survive: parts of `seed` repeated, cut, changed and mixed with others.
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
