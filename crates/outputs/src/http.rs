//! JSON lines posted to an address. A status from 200 to 299 means accepted; anything else is
//! retried.
//!
//! The header `Idempotency-Key` is the same for every attempt at the same rows, also after a
//! restart, so that a receiver can drop repeats.

use std::sync::Arc;

use crate::batch::{Batch, BatchForm};
use crate::error::Error;
use crate::http_client::{HttpClient, HttpEndpoint, unexpected_response};
use crate::settings::{
    SettingError, SettingSource, TargetAccess, TargetKind, TargetPlan, http_url,
};
use crate::target::{OutputTarget, PendingRows, SendFuture, Target};

pub(crate) const KIND: TargetKind = TargetKind {
    name: "http",
    keys: &["token_file"],
    is_bulk: false,
    read: |source, _| Ok(Arc::new(HttpPlan::read(source)?)),
};

#[derive(Clone, Debug)]
struct HttpPlan {
    url: String,
}

impl HttpPlan {
    fn read(source: &dyn SettingSource) -> Result<Self, SettingError> {
        Ok(Self { url: http_url(source)? })
    }
}

impl TargetPlan for HttpPlan {
    fn open(&self, access: TargetAccess) -> Result<OutputTarget, Error> {
        let endpoint = HttpEndpoint { url: self.url.clone(), token_scheme: "Bearer", access };
        let client = HttpClient::new(endpoint)?;
        Ok(OutputTarget(Box::new(HttpTarget { client, rows_max: usize::MAX })))
    }
}

#[derive(Debug)]
struct HttpTarget {
    client: HttpClient,
    /// Rows per request; lowered when the server reports that a body is too large.
    rows_max: usize,
}

impl Target for HttpTarget {
    fn form(&self) -> BatchForm {
        BatchForm::Json { has_timestamp: false }
    }

    fn send<'a>(&'a mut self, batch: &'a Batch, pending: &'a mut PendingRows) -> SendFuture<'a> {
        Box::pin(self.post(batch, pending))
    }
}

impl HttpTarget {
    async fn post(&mut self, batch: &Batch, pending: &mut PendingRows) -> Result<(), Error> {
        while let Some(part) = Batch::parts(&pending.rows, self.rows_max).into_iter().next() {
            let rows = &pending.rows[part.clone()];
            let (first, last) = (rows[0], rows[rows.len() - 1]);
            let mut body = Vec::with_capacity(batch.byte_count());
            for row in rows {
                body.extend_from_slice(batch.json(*row));
                body.push(b'\n');
            }
            let key = format!("{}-{}", batch.id(first), batch.rows[last].position);
            let headers = [("content-type", "application/x-ndjson"), ("idempotency-key", &key)];
            let response = self.client.post("", &headers, body).await?;
            match response.status {
                200..=299 => pending.copied += part.len() as u64,
                413 if part.len() > 1 => {
                    self.rows_max = part.len() / 2;
                    continue;
                }
                413 => pending.refuse("too_large"),
                _ => return Err(unexpected_response(&response)),
            }
            pending.rows.drain(part);
        }
        Ok(())
    }
}
