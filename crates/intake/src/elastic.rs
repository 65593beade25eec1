//! Elasticsearch's bulk protocol: `_bulk`, single documents, and the questions that shippers ask before they send.
//!
//! From Elastic's REST reference (`docs-bulk`, `docs-index_`). weir only appends: `index` and `create` add a row,
//! `update` and `delete` are refused item by item. A document with an `_id` that comes again with the same content is
//! known (`index`: 200, `create`: 409, which shippers take for success); with another content it is a new row.

use std::borrow::Cow;
use std::fmt::Write as _;

use http::request::Parts;
use http::{Method, StatusCode};
use memchr::memchr;
use serde::Deserialize;
use serde_json::json;

use crate::document;
use crate::elastic_questions as questions;
use crate::harvest::{Fault, Harvest, MAX_ITEMS, Place, Verdict, too_many};
use crate::http::{Answer, Ask, Protocol, Refusal, percent_decoded};
use crate::window::Identity;

/// Documents above this are kept as rejects.
const MAX_DOCUMENT_BYTES: usize = 1 << 20;
/// Longest `_index` and `_id`; Elasticsearch has 255 and 512.
const MAX_INDEX_BYTES: usize = 255;
const MAX_ID_BYTES: usize = 512;

pub(crate) struct Elastic;

/// What the answer needs to know.
pub(crate) enum Note {
    Bulk(Vec<Item>),
    Single(Item),
    Question,
}

/// One operation of a bulk request.
#[derive(Debug)]
pub(crate) struct Item {
    operation: Operation,
    index: String,
    id: Option<String>,
    /// Its number among the harvest's items; `None` when it was refused without a row.
    number: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Index,
    Create,
    Update,
    Delete,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

/// An action line: exactly one of these.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action<'a> {
    #[serde(borrow)]
    Index(Meta<'a>),
    #[serde(borrow)]
    Create(Meta<'a>),
    #[serde(borrow)]
    Update(Meta<'a>),
    #[serde(borrow)]
    Delete(Meta<'a>),
}

#[derive(Default, Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default, rename = "_index")]
    index: Option<Cow<'a, str>>,
    #[serde(default, rename = "_id")]
    id: Option<serde_json::Value>,
}

impl<'a> Action<'a> {
    fn split(self) -> (Operation, Meta<'a>) {
        match self {
            Self::Index(meta) => (Operation::Index, meta),
            Self::Create(meta) => (Operation::Create, meta),
            Self::Update(meta) => (Operation::Update, meta),
            Self::Delete(meta) => (Operation::Delete, meta),
        }
    }
}

impl Protocol for Elastic {
    const NAME: &'static str = "elasticsearch";
    type Note = Note;

    fn is_for(parts: &Parts) -> bool {
        let path = parts.uri.path();
        path == "/"
            || path.split('/').any(|segment| segment.starts_with('_'))
            || (parts.method == Method::HEAD || parts.method == Method::PUT)
                && !path.trim_matches('/').contains('/')
    }

    fn read(ask: &Ask, harvest: &mut Harvest) -> Result<Note, Refusal> {
        let segments = ask.parts.uri.path().split('/').filter(|part| !part.is_empty());
        let segments: Vec<String> = segments.map(percent_decoded).collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let is_writing = matches!(ask.parts.method, Method::POST | Method::PUT);
        match segments.as_slice() {
            [.., "_bulk"] if is_writing => {
                let index = if segments.len() > 1 { segments[0] } else { "" };
                Ok(Note::Bulk(bulk(ask, index, harvest)?))
            }
            [index, kind @ ("_doc" | "_create"), id @ ..] if is_writing && id.len() <= 1 => {
                let operation =
                    if *kind == "_create" { Operation::Create } else { Operation::Index };
                let id = id.first().map(|id| (*id).to_owned());
                let mut item = Item { operation, index: (*index).to_owned(), id, number: None };
                check_names(&item)?;
                add(ask, &mut item, &ask.body, harvest);
                Ok(Note::Single(item))
            }
            _ => Ok(Note::Question),
        }
    }

    fn answer(ask: &Ask, note: Note, verdicts: &[Verdict]) -> Answer {
        let answer = match note {
            Note::Question => questions::answer(ask),
            Note::Bulk(items) => bulk_answer(&items, verdicts),
            Note::Single(item) => single_answer(&item, verdicts),
        };
        questions::as_elasticsearch(ask, answer)
    }

    fn refuse(refusal: &Refusal) -> Answer {
        let kind = match refusal.status {
            StatusCode::TOO_MANY_REQUESTS => "es_rejected_execution_exception",
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "security_exception",
            StatusCode::SERVICE_UNAVAILABLE => "cluster_block_exception",
            StatusCode::BAD_REQUEST => "illegal_argument_exception",
            _ => "exception",
        };
        let reason = match &refusal.hint {
            Some(hint) => format!("{}; hint: {hint}", refusal.message),
            None => refusal.message.clone(),
        };
        let cause = json!({"type": kind, "reason": reason});
        let body = json!({
            "error": {"root_cause": [cause], "type": kind, "reason": reason},
            "status": refusal.status.as_u16(),
        });
        Answer::json(refusal.status, &body).with("x-elastic-product", "Elasticsearch")
    }
}

/// Reads `action\ndocument\n` pairs. A line that is no action spoils the request, as it does in Elasticsearch.
fn bulk(ask: &Ask, default_index: &str, harvest: &mut Harvest) -> Result<Vec<Item>, Refusal> {
    let mut items: Vec<Item> = Vec::new();
    let mut lines = LineCutter { rest: &ask.body, number: 0 };
    while let Some(line) = lines.next_filled() {
        let action = serde_json::from_slice::<Action<'_>>(line).map_err(|error| {
            Refusal::bad(format!("malformed action/metadata line [{}]: {error}", lines.number))
                .hint("a line `{\"index\": {\"_index\": \"name\"}}` comes before each document")
        })?;
        if harvest.is_full() || items.len() >= MAX_ITEMS {
            return Err(too_many());
        }
        let (operation, meta) = action.split();
        let index = match &meta.index {
            Some(index) => index.as_ref(),
            None if !default_index.is_empty() => default_index,
            None => return Err(Refusal::bad(format!("no index at line {}", lines.number))),
        };
        let id = match meta.id {
            Some(serde_json::Value::String(id)) => Some(id).filter(|id| !id.is_empty()),
            None | Some(serde_json::Value::Null) => None,
            Some(other) => Some(other.to_string()),
        };
        let mut item = Item { operation, index: index.to_owned(), id, number: None };
        check_names(&item)?;
        if operation != Operation::Delete {
            let line_number = lines.number;
            let document = lines.next().ok_or_else(|| {
                Refusal::bad(format!("the document of the action at line {line_number} is missing"))
            })?;
            if operation != Operation::Update {
                add(ask, &mut item, document, harvest);
            }
        }
        items.push(item);
    }
    Ok(items)
}

fn check_names(item: &Item) -> Result<(), Refusal> {
    if item.index.len() > MAX_INDEX_BYTES {
        return Err(Refusal::bad(format!("an index name is longer than {MAX_INDEX_BYTES} bytes")));
    }
    match &item.id {
        Some(id) if id.len() > MAX_ID_BYTES => {
            Err(Refusal::bad(format!("an _id is longer than {MAX_ID_BYTES} bytes")))
        }
        _ => Ok(()),
    }
}

fn add(ask: &Ask, item: &mut Item, document: &[u8], harvest: &mut Harvest) {
    let document = document.trim_ascii();
    item.number = Some(harvest.verdicts.len());
    let host = document::host(document).unwrap_or_else(|| ask.peer.to_string());
    let source =
        document::file(document).unwrap_or_else(|| format!("elasticsearch:{}", item.index));
    let place = Place { host: &host, source: &source };
    let (reason, detail) = if document.len() > MAX_DOCUMENT_BYTES {
        ("too_long", format!("{} bytes, more than {MAX_DOCUMENT_BYTES}", document.len()))
    } else if !document::is_object(document) {
        ("invalid_json", "the document is not a JSON object".to_owned())
    } else {
        let id = item.id.as_ref().map(|id| {
            Identity::of(&[b"elasticsearch", item.index.as_bytes(), id.as_bytes(), document])
        });
        if item.id.is_none() {
            // The answer has an id for every document, as Elasticsearch's has; nothing is remembered under it.
            let now = harvest.now.0.to_le_bytes();
            let own = Identity::of(&[&now, &harvest.verdicts.len().to_le_bytes(), document]);
            item.id = Some(format!("{:016x}", own.0));
        }
        return harvest.line(place, document, id);
    };
    harvest.reject(place, &Fault { parser: "elasticsearch", reason, detail: &detail }, document);
}

struct LineCutter<'a> {
    rest: &'a [u8],
    number: usize,
}

impl<'a> LineCutter<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let length = memchr(b'\n', self.rest).unwrap_or(self.rest.len());
        let line = &self.rest[..length];
        self.rest = self.rest.get(length + 1..).unwrap_or_default();
        self.number += 1;
        Some(line)
    }

    /// The next line that is not blank.
    fn next_filled(&mut self) -> Option<&'a [u8]> {
        loop {
            let line = self.next()?.trim_ascii();
            if !line.is_empty() {
                return Some(line);
            }
        }
    }
}

/// Status, and the error's type and reason where there is one.
fn outcome(item: &Item, verdicts: &[Verdict]) -> (u16, Option<(&'static str, String)>) {
    let Some(number) = item.number else {
        let reason = format!("weir appends rows and does not do `{}`", item.operation.as_str());
        return (400, Some(("illegal_argument_exception", reason)));
    };
    match verdicts.get(number) {
        Some(Verdict::Known) if item.operation == Operation::Create => {
            let reason = "version conflict, document already exists".to_owned();
            (409, Some(("version_conflict_engine_exception", reason)))
        }
        Some(Verdict::Known) => (200, None),
        Some(Verdict::Pending) => {
            let reason = "the same document is not through yet".to_owned();
            (429, Some(("es_rejected_execution_exception", reason)))
        }
        Some(Verdict::Rejected(why)) => {
            let reason = format!("{why}; it is kept raw in the table `reject`");
            (400, Some(("document_parsing_exception", reason)))
        }
        Some(Verdict::Kept) | None => (201, None),
    }
}

fn bulk_answer(items: &[Item], verdicts: &[Verdict]) -> Answer {
    let mut body = String::with_capacity(64 + items.len() * 160);
    let mut has_errors = false;
    for (at, item) in items.iter().enumerate() {
        let (status, error) = outcome(item, verdicts);
        has_errors |= error.is_some();
        body.push_str(if at == 0 { "" } else { "," });
        write!(body, "{{\"{}\":", item.operation.as_str()).expect("a string takes all");
        push_item(&mut body, item, status, error.as_ref());
        body.push('}');
    }
    let body = format!("{{\"took\":0,\"errors\":{has_errors},\"items\":[{body}]}}");
    Answer::new(StatusCode::OK, "application/json", body)
}

fn push_item(body: &mut String, item: &Item, status: u16, error: Option<&(&str, String)>) {
    let index = serde_json::Value::from(item.index.as_str());
    let id = item.id.as_ref().map_or(serde_json::Value::Null, |id| id.as_str().into());
    write!(body, "{{\"_index\":{index},\"_id\":{id},\"status\":{status}")
        .expect("a string takes all");
    match error {
        Some((kind, reason)) => {
            let reason = serde_json::Value::from(reason.as_str());
            write!(body, ",\"error\":{{\"type\":\"{kind}\",\"reason\":{reason}}}}}")
                .expect("a string takes all");
        }
        None => {
            let result = if status == 201 { "created" } else { "noop" };
            write!(
                body,
                ",\"_version\":1,\"result\":\"{result}\",\"_shards\":{{\"total\":1,\"successful\":1,\"failed\":0}},\"_seq_no\":0,\"_primary_term\":1}}"
            )
            .expect("a string takes all");
        }
    }
}

fn single_answer(item: &Item, verdicts: &[Verdict]) -> Answer {
    let (status, error) = outcome(item, verdicts);
    let code = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Some((kind, reason)) = error {
        let cause = json!({"type": kind, "reason": reason});
        let error = json!({"root_cause": [cause], "type": kind, "reason": reason});
        return Answer::json(code, &json!({"error": error, "status": status}));
    }
    let mut body = String::new();
    push_item(&mut body, item, status, None);
    Answer::new(code, "application/json", body)
}

#[cfg(test)]
mod tests;
