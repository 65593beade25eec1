//! Access to columns by name, for pipelines: get, set, clear, and move between tables.

use std::fmt::Write as _;

use weir_tables::{Log, Request};
use weir_values::{number, severity};

use super::{Record, RowKind};
use crate::field::{self, Field};

/// A column of a row.
enum ColumnCell<'r, 'a> {
    Text(&'r mut Option<&'a str>),
    Integer(&'r mut Option<i64>),
    Float(&'r mut Option<f64>),
}

/// Values that a pipeline may set the column `tier` to. A key in a line cannot set it.
const TIERS: [&str; 4] = ["client", "edge", "proxy", "app"];

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FieldValue<'a> {
    Text(&'a str),
    Integer(i64),
    Float(f64),
}

macro_rules! columns {
    ($names:ident, $cell:ident, $Row:ident;
     text: $($text:ident),*; integer: $($integer:ident),*; float: $($float:ident),*;) => {
        const $names: &[&str] =
            &[$(stringify!($text),)* $(stringify!($integer),)* $(stringify!($float),)*];

        fn $cell<'r, 'a>(row: &'r mut $Row<'a>, name: &str) -> Option<ColumnCell<'r, 'a>> {
            $(if name == stringify!($text) { return Some(ColumnCell::Text(&mut row.$text)); })*
            $(if name == stringify!($integer) { return Some(ColumnCell::Integer(&mut row.$integer)); })*
            $(if name == stringify!($float) { return Some(ColumnCell::Float(&mut row.$float)); })*
            None
        }
    };
}

columns! {
    REQUEST_COLUMNS, request_cell, Request;
    text: program, request_id, client_address, server_address, url_scheme, http_request_method,
        url_path, url_query, network_protocol_version, user_agent_original,
        http_request_header_referer, upstream_address, proxy_frontend, proxy_backend,
        proxy_server, termination_state;
    integer: client_port, server_port, http_response_status_code, request_bytes, response_bytes,
        response_body_bytes, upstream_status_code, upstream_tries, connection_requests;
    float: duration_seconds, request_read_seconds, queue_seconds, upstream_connect_seconds,
        upstream_header_seconds, upstream_response_seconds;
}

columns! {
    LOG_COLUMNS, log_cell, Log;
    text: program, severity, facility;
    integer: process_id;
    float: ;
}

/// Whether pipelines can set a column of this name in `request` or `log`.
pub(crate) fn is_column(name: &str) -> bool {
    name == "body" || REQUEST_COLUMNS.contains(&name) || LOG_COLUMNS.contains(&name)
}

impl<'a> Record<'a> {
    fn cell(&mut self, kind: RowKind, name: &str) -> Option<ColumnCell<'_, 'a>> {
        match kind {
            RowKind::Request => request_cell(&mut self.request, name),
            RowKind::Log => log_cell(&mut self.log, name),
        }
    }

    /// Whether pipelines can set a column of this name in the table.
    pub(crate) fn has_column(&mut self, kind: RowKind, name: &str) -> bool {
        (kind == RowKind::Log && name == "body") || self.cell(kind, name).is_some()
    }

    /// The value of a column or an attribute; `None` when it is NULL or absent.
    pub(crate) fn value(&mut self, kind: RowKind, name: &str) -> Option<FieldValue<'a>> {
        if kind == RowKind::Log && name == "body" {
            return Some(FieldValue::Text(self.log.body));
        }
        match self.cell(kind, name) {
            Some(ColumnCell::Text(text)) => text.map(FieldValue::Text),
            Some(ColumnCell::Integer(integer)) => integer.map(FieldValue::Integer),
            Some(ColumnCell::Float(float)) => float.map(FieldValue::Float),
            None => self.attr_value(name).map(FieldValue::Text),
        }
    }

    /// The text of an attribute.
    pub(crate) fn attr_value(&self, name: &str) -> Option<&'a str> {
        self.attrs.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    /// Sets or overwrites a column or an attribute. A text that does not fit the column's type
    /// becomes an attribute with the column's name.
    pub(crate) fn set_value(&mut self, kind: RowKind, [name, value]: [&'a str; 2]) {
        if kind == RowKind::Log && name == "body" {
            self.log.body = value;
            return;
        }
        if name == "ts"
            && let Some(ts) = self.times.read(value)
        {
            self.ts = Some(ts);
            return self.settle_time();
        }
        if name == "tier" && kind == RowKind::Request && TIERS.contains(&value) {
            self.request.tier = value;
            return;
        }
        let is_set = match self.cell(kind, name) {
            Some(ColumnCell::Text(column)) if name == "severity" => {
                put(column, severity::of_word(value))
            }
            Some(ColumnCell::Text(column)) => put(column, Some(value)),
            Some(ColumnCell::Integer(column)) => put(column, number::whole(value)),
            Some(ColumnCell::Float(column)) => put(column, number::float(value)),
            None => false,
        };
        if !is_set {
            self.remove_attr(name);
            self.keep_attr([name, value]);
        }
    }

    /// Sets a column to NULL, or removes an attribute.
    pub(crate) fn clear_value(&mut self, kind: RowKind, name: &str) {
        match self.cell(kind, name) {
            Some(ColumnCell::Text(column)) => *column = None,
            Some(ColumnCell::Integer(column)) => *column = None,
            Some(ColumnCell::Float(column)) => *column = None,
            None if kind == RowKind::Log && name == "body" => self.log.body = "",
            None => self.remove_attr(name),
        }
    }

    fn remove_attr(&mut self, name: &str) {
        self.attrs.retain(|(key, _)| *key != name);
    }

    /// A value as text.
    pub(crate) fn text_of(&self, value: FieldValue<'a>) -> &'a str {
        let mut text = String::new();
        match value {
            FieldValue::Text(text) => return text,
            FieldValue::Integer(integer) => write!(text, "{integer}"),
            FieldValue::Float(float) => write!(text, "{float}"),
        }
        .expect("writing to a String does not fail");
        self.arena.alloc_str(&text)
    }

    /// Moves the row to the other table; columns that do not exist there become attributes.
    pub(crate) fn move_to(&mut self, from: RowKind, to: RowKind, line: &'a str) {
        let names = if from == RowKind::Request { REQUEST_COLUMNS } else { LOG_COLUMNS };
        let mut values = Vec::new();
        for name in names {
            if let Some(value) = self.value(from, name) {
                values.push((*name, self.text_of(value)));
            }
        }
        if from == RowKind::Log && self.log.body != line {
            values.push(("message", self.log.body));
        }
        let attrs = std::mem::take(&mut self.attrs);
        self.request = Request::default();
        self.log = Log { body: line, ..Log::default() };
        for (key, value) in values {
            self.set_value(to, [key, value]);
        }
        for (key, value) in attrs {
            let field = field::of_capture(key);
            let pair = super::NamedText { key, value, field };
            let is_taken =
                to == RowKind::Request && field != Field::Attr && self.take_request(&pair);
            if !is_taken {
                self.keep_attr([key, value]);
            }
        }
    }

    /// Visits all texts that may hold client data: text columns and attributes.
    pub(crate) fn each_text(
        &mut self,
        kind: RowKind,
        mut change: impl FnMut(&str, &'a str) -> &'a str,
    ) {
        let names = if kind == RowKind::Request { REQUEST_COLUMNS } else { LOG_COLUMNS };
        for name in names {
            if let Some(ColumnCell::Text(Some(text))) = self.cell(kind, name) {
                *text = change(name, text);
            }
        }
        if kind == RowKind::Log {
            self.log.body = change("body", self.log.body);
            if let Some(template) = &mut self.log.message_template {
                *template = change("message_template", template);
            }
        }
        for (key, value) in &mut self.attrs {
            *value = change(key, value);
        }
    }
}

fn put<T>(column: &mut Option<T>, value: Option<T>) -> bool {
    let is_there = value.is_some();
    if is_there {
        *column = value;
    }
    is_there
}
