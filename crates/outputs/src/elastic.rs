//! Elasticsearch's bulk protocol (Elasticsearch reference, "Bulk API"), also spoken by OpenSearch.
//!
//! Each row is a `create` with an `_id` made of its place in the log, so a row that was taken and is sent again is answered
//! with 409 and counted as known. That works for indices as for data streams, which allow no other action.

use serde_json::Value;
use weir_tables::Micros;

use crate::Endpoint;
use crate::batch::Batch;
use crate::client::{HttpClient, unexpected};
use crate::target::Pending;

/// One cluster and the index that rows go to.
#[derive(Debug)]
pub struct Elastic {
    client: HttpClient,
    /// With `{date}` for the day of the row.
    index: String,
    /// Rows in one request; less after the server said that a body was too large.
    rows_max: usize,
}

/// Only what is looked at comes back.
const PATH: &str =
    "/_bulk?filter_path=errors,items.*.status,items.*.error.type,items.*.error.reason";

/// What an item's status means.
enum Verdict {
    Copied,
    Repeat,
    Refused,
    /// Not the row's fault: too busy, not allowed, no such index.
    Later,
}

fn verdict(status: u64) -> Verdict {
    match status {
        200..=299 => Verdict::Copied,
        409 => Verdict::Repeat,
        400 | 405..=408 | 410..=428 => Verdict::Refused,
        _ => Verdict::Later,
    }
}

impl Elastic {
    /// `index` may hold `{date}`, which becomes `2026.11.20`.
    ///
    /// # Errors
    /// What is wrong with the endpoint.
    pub fn new(endpoint: Endpoint, index: String) -> Result<Self, String> {
        Ok(Self { client: HttpClient::new(endpoint)?, index, rows_max: usize::MAX })
    }

    pub(crate) async fn send(
        &mut self,
        batch: &Batch,
        pending: &mut Pending,
    ) -> Result<(), String> {
        while !pending.docs.is_empty() {
            let part = Batch::parts(&pending.docs, self.rows_max).swap_remove(0);
            let docs: Vec<usize> = pending.docs[part.clone()].to_vec();
            let body = self.body(batch, &docs);
            let headers = [("content-type", "application/x-ndjson")];
            let (status, answer) = self.client.post(PATH, &headers, body).await?;
            match status {
                200 => {}
                413 if docs.len() > 1 => {
                    self.rows_max = docs.len() / 2;
                    continue;
                }
                413 => {
                    pending.refuse("too_large");
                    pending.docs.drain(part);
                    continue;
                }
                _ => return Err(unexpected(status, &answer)),
            }
            let (left, why) = settle(&docs, &answer, pending)?;
            pending.docs.splice(part, left);
            if let Some(why) = why {
                return Err(why);
            }
        }
        Ok(())
    }

    fn body(&self, batch: &Batch, docs: &[usize]) -> Vec<u8> {
        let mut body = Vec::with_capacity(batch.byte_count() + docs.len() * 100);
        for doc in docs {
            let index = self.index_of(batch.docs[*doc].ts);
            let action = format!(
                "{{\"create\":{{\"_index\":\"{index}\",\"_id\":\"{}\"}}}}\n",
                batch.id(*doc)
            );
            body.extend_from_slice(action.as_bytes());
            body.extend_from_slice(batch.json(*doc));
            body.push(b'\n');
        }
        body
    }

    fn index_of(&self, ts: Micros) -> String {
        let date: String = ts.to_string().chars().take(10).collect();
        self.index.replace("{date}", &date.replace('-', "."))
    }
}

/// Goes through the answers of the items; gives the rows that have to be sent again, and why.
fn settle(
    docs: &[usize],
    answer: &[u8],
    pending: &mut Pending,
) -> Result<(Vec<usize>, Option<String>), String> {
    let answer: Value = serde_json::from_slice(answer)
        .map_err(|error| format!("the answer to a bulk request is no JSON: {error}"))?;
    let items = answer["items"].as_array().map_or(&[][..], Vec::as_slice);
    if items.len() != docs.len() {
        let (rows, answers) = (docs.len(), items.len());
        return Err(format!(
            "the answer to {rows} rows has {answers} items; is `url` an Elasticsearch?"
        ));
    }
    let (mut left, mut why) = (Vec::new(), None);
    for (doc, item) in docs.iter().zip(items) {
        let result = item.as_object().and_then(|item| item.values().next()).unwrap_or(item);
        let error = &result["error"];
        let kind = error["type"].as_str().or_else(|| error.as_str()).unwrap_or("no_reason");
        match verdict(result["status"].as_u64().unwrap_or(0)) {
            Verdict::Copied => pending.copied += 1,
            Verdict::Repeat => pending.repeats += 1,
            Verdict::Refused => {
                if pending.refused.is_empty() {
                    tracing::warn!(
                        "a row was refused: {kind}: {}",
                        error["reason"].as_str().unwrap_or_default()
                    );
                }
                pending.refuse(kind);
            }
            Verdict::Later => {
                left.push(*doc);
                why.get_or_insert_with(|| {
                    format!(
                        "{} {kind}: {}",
                        result["status"],
                        error["reason"].as_str().unwrap_or_default()
                    )
                });
            }
        }
    }
    Ok((left, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_copied_known_refused_or_sent_again() {
        let answer = br#"{"errors":true,"items":[{"create":{"status":201}},{"create":{"status":409,"error":{"type":"version_conflict_engine_exception"}}},
            {"create":{"status":400,"error":{"type":"mapper_parsing_exception","reason":"no"}}},{"create":{"status":429,"error":{"type":"es_rejected_execution_exception","reason":"queue is full"}}},
            {"create":{"status":403,"error":{"type":"security_exception","reason":"not yours"}}}]}"#;
        let mut pending = Pending::default();
        let (left, why) = settle(&[3, 4, 5, 6, 7], answer, &mut pending).unwrap();
        assert_eq!(left, [6, 7]);
        assert_eq!(why.as_deref(), Some("429 es_rejected_execution_exception: queue is full"));
        assert_eq!((pending.copied, pending.repeats), (1, 1));
        assert_eq!(pending.refused, [("mapper_parsing_exception".to_owned(), 1)].into());
        assert!(settle(&[1], b"<html>", &mut pending).is_err());
        assert!(settle(&[1], b"{}", &mut pending).unwrap_err().contains("0 items"));
    }
}
