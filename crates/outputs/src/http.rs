//! JSON lines posted to an address. Any status of 200 to 299 means taken; everything else is tried again.
//!
//! The header `Idempotency-Key` is the same for every attempt at the same rows, also after a restart, so that a receiver can
//! leave out repeats.

use crate::Endpoint;
use crate::batch::Batch;
use crate::client::{HttpClient, unexpected};
use crate::target::Pending;

/// One address.
#[derive(Debug)]
pub struct Http {
    client: HttpClient,
    rows_max: usize,
}

impl Http {
    /// # Errors
    /// What is wrong with the endpoint.
    pub fn new(endpoint: Endpoint) -> Result<Self, String> {
        Ok(Self { client: HttpClient::new(endpoint)?, rows_max: usize::MAX })
    }

    pub(crate) async fn send(
        &mut self,
        batch: &Batch,
        pending: &mut Pending,
    ) -> Result<(), String> {
        while let Some(part) = Batch::parts(&pending.docs, self.rows_max).into_iter().next() {
            let docs = &pending.docs[part.clone()];
            let (first, last) = (docs[0], docs[docs.len() - 1]);
            let mut body = Vec::with_capacity(batch.byte_count());
            for doc in docs {
                body.extend_from_slice(batch.json(*doc));
                body.push(b'\n');
            }
            let key = format!("{}-{}", batch.id(first), batch.docs[last].place);
            let headers = [("content-type", "application/x-ndjson"), ("idempotency-key", &key)];
            let (status, answer) = self.client.post("", &headers, body).await?;
            match status {
                200..=299 => pending.copied += part.len() as u64,
                413 if part.len() > 1 => {
                    self.rows_max = part.len() / 2;
                    continue;
                }
                413 => pending.refuse("too_large"),
                _ => return Err(unexpected(status, &answer)),
            }
            pending.docs.drain(part);
        }
        Ok(())
    }
}
