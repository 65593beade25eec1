//! Elasticsearch's bulk protocol (Elasticsearch reference, "Bulk API"), also spoken by OpenSearch.
//!
//! Each row is a `create` with an `_id` made of its position in the log. A row that was stored and
//! is sent again is answered with 409 and counted as a repeat. That works for indices and for data
//! streams, which allow no other action.

use std::sync::Arc;

use serde_json::Value;
use weir_tables::{Micros, TableSpec};

use crate::batch::{Batch, BatchForm};
use crate::error::Error;
use crate::http_client::{HttpClient, HttpEndpoint, unexpected_response};
use crate::settings::{
    NamedSetting, SettingError, SettingSource, TargetAccess, TargetKind, TargetPlan, http_url,
    named, wrong,
};
use crate::target::{OutputTarget, PendingRows, SendFuture, Target};

pub(crate) const KIND: TargetKind = TargetKind {
    name: "elasticsearch",
    keys: &["index", "token_file"],
    is_bulk: false,
    read: |source, table| Ok(Arc::new(ElasticPlan::read(source, table)?)),
};

#[derive(Clone, Debug)]
struct ElasticPlan {
    url: String,
    /// Holds `{date}` for the day of the row.
    index: String,
}

impl ElasticPlan {
    fn read(source: &dyn SettingSource, table: &TableSpec) -> Result<Self, SettingError> {
        let index = NamedSetting { key: "index", default: "weir-{table}-{date}" };
        Ok(Self {
            url: http_url(source)?.trim_end_matches('/').to_owned(),
            index: checked_index(named(source, index, table))?,
        })
    }
}

fn checked_index(index: String) -> Result<String, SettingError> {
    let rest = index.replace("{date}", "");
    if rest.is_empty()
        || rest.contains(['{', '}', '"', '\\', '/', '*', '?', '<', '>', '|', ' ', ',', '#', ':'])
        || rest.chars().any(char::is_uppercase)
    {
        return Err(wrong(
            "index",
            format!("`{index}` is not a valid index name"),
            "lower case, with `{table}` and `{date}`: \"weir-{table}-{date}\"",
        ));
    }
    Ok(index)
}

impl TargetPlan for ElasticPlan {
    fn open(&self, access: TargetAccess) -> Result<OutputTarget, Error> {
        let endpoint = HttpEndpoint { url: self.url.clone(), token_scheme: "ApiKey", access };
        let client = HttpClient::new(endpoint)?;
        let index = self.index.clone();
        Ok(OutputTarget(Box::new(ElasticTarget { client, index, rows_max: usize::MAX })))
    }
}

/// A cluster and the index that rows go to.
#[derive(Debug)]
struct ElasticTarget {
    client: HttpClient,
    index: String,
    /// Rows per request; lowered when the server reports that a body is too large.
    rows_max: usize,
}

/// Limits the response to the fields that are read.
const PATH: &str =
    "/_bulk?filter_path=errors,items.*.status,items.*.error.type,items.*.error.reason";

/// Meaning of an item's status.
enum ItemOutcome {
    Copied,
    Repeat,
    Refused,
    /// The row is not at fault: too busy, not allowed, no such index.
    Retry,
}

fn outcome_of(status: u64) -> ItemOutcome {
    match status {
        200..=299 => ItemOutcome::Copied,
        409 => ItemOutcome::Repeat,
        400 | 405..=408 | 410..=428 => ItemOutcome::Refused,
        _ => ItemOutcome::Retry,
    }
}

impl Target for ElasticTarget {
    fn form(&self) -> BatchForm {
        BatchForm::Json { has_timestamp: true }
    }

    fn send<'a>(&'a mut self, batch: &'a Batch, pending: &'a mut PendingRows) -> SendFuture<'a> {
        Box::pin(self.post(batch, pending))
    }
}

impl ElasticTarget {
    async fn post(&mut self, batch: &Batch, pending: &mut PendingRows) -> Result<(), Error> {
        while !pending.rows.is_empty() {
            let part = Batch::parts(&pending.rows, self.rows_max).swap_remove(0);
            let rows: Vec<usize> = pending.rows[part.clone()].to_vec();
            let body = self.body(batch, &rows);
            let headers = [("content-type", "application/x-ndjson")];
            let response = self.client.post(PATH, &headers, body).await?;
            match response.status {
                200 => {}
                413 if rows.len() > 1 => {
                    self.rows_max = rows.len() / 2;
                    continue;
                }
                413 => {
                    pending.refuse("too_large");
                    pending.rows.drain(part);
                    continue;
                }
                _ => return Err(unexpected_response(&response)),
            }
            let unsettled = settle(&rows, &response.body, pending)?;
            pending.rows.splice(part, unsettled.rows);
            if let Some(error) = unsettled.error {
                return Err(error);
            }
        }
        Ok(())
    }

    fn body(&self, batch: &Batch, rows: &[usize]) -> Vec<u8> {
        let mut body = Vec::with_capacity(batch.byte_count() + rows.len() * 100);
        for row in rows {
            let index = self.index_of(batch.rows[*row].ts);
            let action = format!(
                "{{\"create\":{{\"_index\":\"{index}\",\"_id\":\"{}\"}}}}\n",
                batch.id(*row)
            );
            body.extend_from_slice(action.as_bytes());
            body.extend_from_slice(batch.json(*row));
            body.push(b'\n');
        }
        body
    }

    fn index_of(&self, ts: Micros) -> String {
        let date: String = ts.to_string().chars().take(10).collect();
        self.index.replace("{date}", &date.replace('-', "."))
    }
}

/// Rows that must be sent again, and the first error.
#[derive(Default)]
struct UnsettledRows {
    rows: Vec<usize>,
    error: Option<Error>,
}

/// Applies the results of the items to the pending rows.
fn settle(
    rows: &[usize],
    response: &[u8],
    pending: &mut PendingRows,
) -> Result<UnsettledRows, Error> {
    let response: Value = serde_json::from_slice(response)
        .map_err(|error| Error::caused_by("the response to a bulk request is not JSON", error))?;
    let items = response["items"].as_array().map_or(&[][..], Vec::as_slice);
    if items.len() != rows.len() {
        let (sent, answered) = (rows.len(), items.len());
        let message = format!("the response to {sent} rows has {answered} items");
        return Err(Error::new(message).with_hint("is `url` an Elasticsearch?"));
    }
    let mut unsettled = UnsettledRows::default();
    for (row, item) in rows.iter().zip(items) {
        let result = item.as_object().and_then(|item| item.values().next()).unwrap_or(item);
        let error = &result["error"];
        let kind = error["type"].as_str().or_else(|| error.as_str()).unwrap_or("no_reason");
        let reason = error["reason"].as_str().unwrap_or_default();
        match outcome_of(result["status"].as_u64().unwrap_or(0)) {
            ItemOutcome::Copied => pending.copied += 1,
            ItemOutcome::Repeat => pending.repeats += 1,
            ItemOutcome::Refused => {
                if pending.refused.is_empty() {
                    tracing::warn!("a row was refused: {kind}: {reason}");
                }
                pending.refuse(kind);
            }
            ItemOutcome::Retry => {
                unsettled.rows.push(*row);
                unsettled.error.get_or_insert_with(|| {
                    Error::new(format!("{} {kind}: {reason}", result["status"]))
                });
            }
        }
    }
    Ok(unsettled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_copied_repeated_refused_or_sent_again() {
        let response = br#"{"errors":true,"items":[{"create":{"status":201}},{"create":{"status":409,"error":{"type":"version_conflict_engine_exception"}}},
            {"create":{"status":400,"error":{"type":"mapper_parsing_exception","reason":"no"}}},{"create":{"status":429,"error":{"type":"es_rejected_execution_exception","reason":"queue is full"}}},
            {"create":{"status":403,"error":{"type":"security_exception","reason":"not yours"}}}]}"#;
        let mut pending = PendingRows::default();
        let unsettled = settle(&[3, 4, 5, 6, 7], response, &mut pending).unwrap();
        assert_eq!(unsettled.rows, [6, 7]);
        let error = unsettled.error.map(|error| error.one_line());
        assert_eq!(error.as_deref(), Some("429 es_rejected_execution_exception: queue is full"));
        assert_eq!((pending.copied, pending.repeats), (1, 1));
        assert_eq!(pending.refused, [("mapper_parsing_exception".to_owned(), 1)].into());
        assert!(settle(&[1], b"<html>", &mut pending).is_err());
        assert!(
            settle(&[1], b"{}", &mut pending)
                .is_err_and(|error| error.one_line().contains("0 items"))
        );
    }
}
