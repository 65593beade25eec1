//! Elasticsearch's bulk protocol: `_bulk`, single documents, and requests that shippers send first.
//!
//! From Elastic's REST reference (`docs-bulk`, `docs-index_`). weir only appends: `index` and
//! `create` add a row, `update` and `delete` are refused per item. A repeated document with the
//! same `_id` and content is known (`index`: 200, `create`: 409, which shippers treat as success);
//! with other content it is a new row.

use std::borrow::Cow;
use std::fmt::Write as _;

use http::request::Parts;
use http::{Method, StatusCode};
use memchr::memchr;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::json;

use crate::batch_builder::{
    BatchBuilder, ItemVerdict, MAX_ITEMS, RejectCause, RowOrigin, too_many,
};
use crate::document;
use crate::elastic_stubs as stubs;
use crate::protocol::{HttpProtocol, IntakeRequest, percent_decoded, without_mark};
use crate::response::{IntakeResponse, Refusal};
use crate::window::Identity;

/// Larger documents become rejects.
const MAX_DOCUMENT_BYTES: usize = 1 << 20;
/// Longest `_index` and `_id`; Elasticsearch has 255 and 512.
const MAX_INDEX_BYTES: usize = 255;
const MAX_ID_BYTES: usize = 512;

pub(crate) struct ElasticBulk;

/// Kind of request, for the response.
pub(crate) enum ElasticNote {
    Bulk(Vec<BulkItem>),
    Single(BulkItem),
    /// Brings no document.
    Stub,
}

/// One operation of a bulk request.
#[derive(Debug)]
pub(crate) struct BulkItem {
    operation: BulkOperation,
    index: String,
    id: Option<String>,
    /// Its number among the builder's items; `None` if it was refused without a row.
    number: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BulkOperation {
    Index,
    Create,
    Update,
    Delete,
}

impl BulkOperation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }

    /// The operation of this name.
    fn of(name: &str) -> Option<Self> {
        let all = [Self::Index, Self::Create, Self::Update, Self::Delete];
        all.into_iter().find(|operation| operation.as_str() == name)
    }
}

/// An action line: the first known action of its object. Shippers add keys of their own beside it,
/// such as the `attempts` of winston-elasticsearch.
struct BulkAction<'a> {
    operation: BulkOperation,
    meta: ActionMeta<'a>,
}

impl<'de: 'a, 'a> Deserialize<'de> for BulkAction<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ActionVisitor)
    }
}

struct ActionVisitor;

impl<'de> Visitor<'de> for ActionVisitor {
    type Value = BulkAction<'de>;

    fn expecting(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        text.write_str("an action: `index`, `create`, `update` or `delete`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match BulkOperation::of(&key).filter(|_| found.is_none()) {
                Some(operation) => found = Some(BulkAction { operation, meta: map.next_value()? }),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        found.ok_or_else(|| A::Error::custom("no action: `index`, `create`, `update` or `delete`"))
    }
}

#[derive(Default, Deserialize)]
struct ActionMeta<'a> {
    #[serde(borrow, default, rename = "_index")]
    index: Option<Cow<'a, str>>,
    #[serde(default, rename = "_id")]
    id: Option<serde_json::Value>,
}

impl HttpProtocol for ElasticBulk {
    const NAME: &'static str = "elasticsearch";
    type Note = ElasticNote;

    fn is_for(parts: &Parts) -> bool {
        let path = parts.uri.path();
        path == "/"
            || path.split('/').any(|segment| segment.starts_with('_'))
            || (parts.method == Method::HEAD || parts.method == Method::PUT)
                && !path.trim_matches('/').contains('/')
    }

    fn read(request: &IntakeRequest, builder: &mut BatchBuilder) -> Result<ElasticNote, Refusal> {
        let segments = request.parts.uri.path().split('/').filter(|part| !part.is_empty());
        let segments: Vec<String> = segments.map(percent_decoded).collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let is_writing = matches!(request.parts.method, Method::POST | Method::PUT);
        match segments.as_slice() {
            [.., "_bulk"] if is_writing => {
                let index = if segments.len() > 1 { segments[0] } else { "" };
                Ok(ElasticNote::Bulk(bulk(request, index, builder)?))
            }
            [index, kind @ ("_doc" | "_create"), id @ ..] if is_writing && id.len() <= 1 => {
                let operation =
                    if *kind == "_create" { BulkOperation::Create } else { BulkOperation::Index };
                let id = id.first().map(|id| (*id).to_owned());
                let mut item = BulkItem { operation, index: (*index).to_owned(), id, number: None };
                check_names(&item)?;
                add(request, &mut item, &request.body, builder);
                Ok(ElasticNote::Single(item))
            }
            _ => Ok(ElasticNote::Stub),
        }
    }

    fn respond(
        request: &IntakeRequest,
        note: ElasticNote,
        verdicts: &[ItemVerdict],
    ) -> IntakeResponse {
        let answer = match note {
            ElasticNote::Stub => stubs::respond(request),
            ElasticNote::Bulk(items) => bulk_answer(&items, verdicts),
            ElasticNote::Single(item) => single_answer(&item, verdicts),
        };
        stubs::as_elasticsearch(request, answer)
    }

    fn refuse(refusal: &Refusal) -> IntakeResponse {
        stubs::refusal_response(refusal)
    }
}

/// Reads `action\ndocument\n` pairs. A malformed action refuses the whole request, as Elasticsearch
/// does.
fn bulk(
    request: &IntakeRequest,
    default_index: &str,
    builder: &mut BatchBuilder,
) -> Result<Vec<BulkItem>, Refusal> {
    let mut items: Vec<BulkItem> = Vec::new();
    let mut lines = LineCutter { rest: without_mark(&request.body), number: 0 };
    while let Some(line) = lines.next_filled() {
        let action = serde_json::from_slice::<BulkAction<'_>>(line).map_err(|error| {
            Refusal::bad(format!("malformed action/metadata line [{}]: {error}", lines.number))
                .hint("a line `{\"index\": {\"_index\": \"name\"}}` comes before each document")
        })?;
        if builder.is_full() || items.len() >= MAX_ITEMS {
            return Err(too_many());
        }
        let BulkAction { operation, meta } = action;
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
        let mut item = BulkItem { operation, index: index.to_owned(), id, number: None };
        check_names(&item)?;
        if operation != BulkOperation::Delete {
            let line_number = lines.number;
            let document = lines.next().ok_or_else(|| {
                Refusal::bad(format!("the document of the action at line {line_number} is missing"))
            })?;
            if operation != BulkOperation::Update {
                add(request, &mut item, document, builder);
            }
        }
        items.push(item);
    }
    Ok(items)
}

fn check_names(item: &BulkItem) -> Result<(), Refusal> {
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

fn add(request: &IntakeRequest, item: &mut BulkItem, document: &[u8], builder: &mut BatchBuilder) {
    let document = document.trim_ascii();
    item.number = Some(builder.verdicts.len());
    let host = document::host(document).unwrap_or_else(|| request.peer.to_string());
    let source =
        document::file(document).unwrap_or_else(|| format!("elasticsearch:{}", item.index));
    let place = RowOrigin { host: &host, source: &source };
    let (reason, detail) = if document.len() > MAX_DOCUMENT_BYTES {
        ("too_long", format!("{} bytes, more than {MAX_DOCUMENT_BYTES}", document.len()))
    } else if !document::is_object(document) {
        ("invalid_json", "the document is not a JSON object".to_owned())
    } else {
        let id = item.id.as_ref().map(|id| {
            Identity::of(&[b"elasticsearch", item.index.as_bytes(), id.as_bytes(), document])
        });
        if item.id.is_none() {
            // The response has an id for every document, as Elasticsearch's has; it is not
            // remembered.
            let now = builder.now.0.to_le_bytes();
            let own = Identity::of(&[&now, &builder.verdicts.len().to_le_bytes(), document]);
            item.id = Some(format!("{:016x}", own.0));
        }
        return builder.line(place, document, id);
    };
    builder.reject(
        place,
        &RejectCause { parser: "elasticsearch", reason, detail: &detail },
        document,
    );
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

/// Status of an item, and type and reason of its error.
fn outcome(item: &BulkItem, verdicts: &[ItemVerdict]) -> (u16, Option<(&'static str, String)>) {
    let Some(number) = item.number else {
        let reason =
            format!("weir only appends rows; `{}` is not supported", item.operation.as_str());
        return (400, Some(("illegal_argument_exception", reason)));
    };
    match verdicts.get(number) {
        Some(ItemVerdict::Known) if item.operation == BulkOperation::Create => {
            let reason = "version conflict, document already exists".to_owned();
            (409, Some(("version_conflict_engine_exception", reason)))
        }
        Some(ItemVerdict::Known) => (200, None),
        Some(ItemVerdict::Pending) => {
            let reason = "the same document is still being stored".to_owned();
            (429, Some(("es_rejected_execution_exception", reason)))
        }
        Some(ItemVerdict::Rejected(why)) => {
            let reason = format!("{why}; it is kept raw in the table `reject`");
            (400, Some(("document_parsing_exception", reason)))
        }
        Some(ItemVerdict::Kept) | None => (201, None),
    }
}

fn bulk_answer(items: &[BulkItem], verdicts: &[ItemVerdict]) -> IntakeResponse {
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
    IntakeResponse::new(StatusCode::OK, "application/json", body)
}

fn push_item(body: &mut String, item: &BulkItem, status: u16, error: Option<&(&str, String)>) {
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

fn single_answer(item: &BulkItem, verdicts: &[ItemVerdict]) -> IntakeResponse {
    let (status, error) = outcome(item, verdicts);
    let code = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Some((kind, reason)) = error {
        let cause = json!({"type": kind, "reason": reason});
        let error = json!({"root_cause": [cause], "type": kind, "reason": reason});
        return IntakeResponse::json(code, &json!({"error": error, "status": status}));
    }
    let mut body = String::new();
    push_item(&mut body, item, status, None);
    IntakeResponse::new(code, "application/json", body)
}

#[cfg(test)]
mod tests;
