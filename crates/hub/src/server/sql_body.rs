//! Body of an answer of `/api/sql`, sent while the query runs.
//!
//! A task encodes one batch at a time and waits until the connection takes it. It ends, and the
//! query with it, when the client leaves or stalls. Whatever ends it early also breaks off the
//! chunked encoding, so that no client takes a part for the whole.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures::stream;
use tokio::sync::mpsc;
use weir_process::meter::Meter;
use weir_store::QueryStream;

use super::answer::Refusal;
use super::row_encoder::{AnswerFormat, RowEncoder};
use super::{QueryPermit, SharedApp};

/// Answers up to this size have a `Content-Length`, and errors before it a status.
const HEAD_BYTES: usize = 64 << 10;
/// Encoded batches that may wait for the connection.
const PORTIONS_AHEAD: usize = 1;

/// A user's running query, which holds its permit.
pub(super) struct UserStream {
    pub(super) rows: QueryStream,
    pub(super) meter: Arc<Meter>,
    pub(super) _permit: QueryPermit,
}

/// What remains of an answer.
struct AnswerBody {
    stream: UserStream,
    /// `None` after the end.
    encoder: Option<RowEncoder>,
}

/// Part of a body; `None` at its end.
type BodyPortion = Option<Vec<u8>>;

/// Answers with the rows of a query.
pub(super) async fn respond(
    app: &SharedApp,
    stream: UserStream,
    format: AnswerFormat,
) -> Result<Response, Refusal> {
    let (encoder, mut head) =
        RowEncoder::begin(format, stream.rows.schema()).map_err(unwritable)?;
    let mut body = AnswerBody { stream, encoder: Some(encoder) };
    let kind = [(CONTENT_TYPE, format.content_type())];
    while head.len() < HEAD_BYTES {
        if !body.append(&mut head).await? {
            return Ok((kind, head).into_response());
        }
    }
    let (sender, portions) = mpsc::channel(PORTIONS_AHEAD);
    // Longer than the query itself waits, whose error says more.
    let patience = app.query_limits.timeout * 2;
    tokio::spawn(send(body, head, sender, patience));
    Ok((kind, Body::from_stream(portion_stream(portions))).into_response())
}

impl AnswerBody {
    /// Appends the next batch or the end to `out`; `false` after the end.
    async fn append(&mut self, out: &mut Vec<u8>) -> Result<bool, Refusal> {
        let outcome = self.encode_next(out).await;
        match &outcome {
            Ok(true) => {}
            Ok(false) => self.stream.meter.count_query(true),
            Err(_) => self.stream.meter.count_query(false),
        }
        outcome
    }

    async fn encode_next(&mut self, out: &mut Vec<u8>) -> Result<bool, Refusal> {
        let Some(encoder) = self.encoder.take() else { return Ok(false) };
        let rows = &mut self.stream.rows;
        let step = match rows.next().await? {
            Some(batch) => EncoderStep::Rows(batch),
            None => EncoderStep::End { is_truncated: rows.is_truncated(), elapsed: rows.elapsed() },
        };
        let mut bytes = std::mem::take(out);
        let encode = move || encode(encoder, step, &mut bytes).map(|encoder| (bytes, encoder));
        let encoded = tokio::task::spawn_blocking(encode).await.map_err(|_| {
            let message = "cannot write the answer: a cell broke it";
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, message)
        })?;
        (*out, self.encoder) = encoded.map_err(unwritable)?;
        Ok(true)
    }
}

/// Input of the encoder.
enum EncoderStep {
    Rows(RecordBatch),
    End { is_truncated: bool, elapsed: Duration },
}

/// Appends a part of an answer to `out`; the encoder returns unless that was the end.
fn encode(
    mut encoder: RowEncoder,
    step: EncoderStep,
    out: &mut Vec<u8>,
) -> Result<Option<RowEncoder>, String> {
    match step {
        EncoderStep::Rows(batch) => encoder.push(&batch, out).map(|()| Some(encoder)),
        EncoderStep::End { is_truncated, elapsed } => {
            encoder.end(is_truncated, elapsed, out).map(|()| None)
        }
    }
}

/// Sends the head and the rest of an answer.
async fn send(
    mut body: AnswerBody,
    head: Vec<u8>,
    sender: mpsc::Sender<BodyPortion>,
    patience: Duration,
) {
    let mut portion = Some(head);
    loop {
        let is_end = portion.is_none();
        match tokio::time::timeout(patience, sender.send(portion)).await {
            Ok(Ok(())) if !is_end => {}
            Ok(_) => return,
            Err(_) => {
                tracing::warn!("an answer breaks off: its client took nothing for {patience:?}");
                return;
            }
        }
        let mut next = Vec::new();
        let appended = tokio::select! {
            appended = body.append(&mut next) => appended,
            () = sender.closed() => return,
        };
        match appended {
            Ok(is_more) => portion = is_more.then_some(next),
            Err(refusal) => {
                tracing::warn!("an answer breaks off: {}", refusal.message());
                return;
            }
        }
    }
}

/// Portions as a body; it fails if they end without an end.
fn portion_stream(
    portions: mpsc::Receiver<BodyPortion>,
) -> impl stream::Stream<Item = io::Result<Vec<u8>>> + Send {
    stream::try_unfold(portions, |mut portions| async move {
        loop {
            match portions.recv().await {
                // An empty chunk would end the body.
                Some(Some(portion)) if portion.is_empty() => {}
                Some(portion) => return Ok(portion.map(|portion| (portion, portions))),
                None => return Err(io::Error::other("the answer is incomplete")),
            }
        }
    })
}

fn unwritable(why: String) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, why)
        .hint("ask for the column as text: `cast(… as varchar)`")
}
