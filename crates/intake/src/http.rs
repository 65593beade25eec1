//! Protocols over HTTP: admission, body, unpacking, then the protocol that knows the path.
//!
//! A protocol is one file with an impl of [`Protocol`] and one line in [`Intake::dispatch`].

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::counts::{Amount, Origin, Outcome};
use crate::elastic::Elastic;
use crate::harvest::{Harvest, Verdict};
use crate::hub::NotKept;
use crate::intake::Intake;
use crate::jsonl::JsonLines;
use crate::loki::Loki;
use crate::otlp::{OtlpGrpc, OtlpHttp};
use crate::remote_write::RemoteWrite;
use crate::unpack::{Packed, unpack};

/// How many times smaller packed log lines are, for the room that a body is given before it is unpacked.
const USUAL_PACKING: usize = 10;

/// A request with its body unpacked.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) parts: Parts,
    pub(crate) body: Bytes,
    pub(crate) peer: IpAddr,
    /// Largest body, unpacked, in bytes.
    pub(crate) body_bytes: usize,
    /// What Elasticsearch's clients are told.
    pub(crate) elasticsearch_version: String,
}

impl Ask {
    /// The text of a header, empty when it is absent.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }

    /// The value of a query parameter, with `%` and `+` undone.
    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        let pairs = self.parts.uri.query()?.split('&');
        let value = pairs.filter_map(|pair| pair.split_once('=')).find(|pair| pair.0 == name)?.1;
        Some(percent_decoded(value))
    }
}

/// `%41` and `+` undone; what is no UTF-8 afterwards is replaced.
pub(crate) fn percent_decoded(text: &str) -> String {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, behind @ ..] = rest {
        let hex = behind.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match (first, hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(byte)) => {
                out.push(byte);
                rest = &behind[2..];
                continue;
            }
            (b'+', _) => out.push(b' '),
            (other, _) => out.push(*other),
        }
        rest = behind;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// What comes behind the body, which gRPC needs.
    pub trailers: Option<HeaderMap>,
}

impl Answer {
    pub(crate) fn new(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Self {
        let mut headers = HeaderMap::new();
        if !kind.is_empty() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        Self { status, headers, body: body.into(), trailers: None }
    }

    pub(crate) fn json(status: StatusCode, body: &serde_json::Value) -> Self {
        Self::new(status, "application/json", body.to_string())
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }
}

/// Why a request is not taken: the sender is told, and still has its rows.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// One word for the counts.
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Refusal {
    pub(crate) fn new(
        status: StatusCode,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self { status, reason, message: message.into(), hint: None }
    }

    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Seconds after which the sender may try again; `None` when trying again does not help.
    pub(crate) fn retry_after(&self) -> Option<&'static str> {
        match self.status {
            StatusCode::TOO_MANY_REQUESTS => Some("1"),
            StatusCode::SERVICE_UNAVAILABLE => Some("5"),
            _ => None,
        }
    }

    /// As protocols answer that have no form of their own.
    pub(crate) fn plain(&self) -> Answer {
        let mut body = serde_json::json!({"error": self.message});
        if let Some(hint) = &self.hint {
            body["hint"] = hint.as_str().into();
        }
        Answer::json(self.status, &body)
    }
}

impl From<NotKept> for Refusal {
    fn from(error: NotKept) -> Self {
        let status = match error.reason {
            "busy" => StatusCode::TOO_MANY_REQUESTS,
            "failed" => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self { status, reason: error.reason, message: error.message, hint: error.hint }
    }
}

/// A protocol over HTTP.
pub(crate) trait Protocol {
    /// As the column `protocol` has it.
    const NAME: &'static str;
    /// What reading keeps for the answer.
    type Note: Send;

    /// Whether a request is this protocol's.
    fn is_for(parts: &Parts) -> bool;

    /// Reads the body into items; `Err` takes nothing of it.
    fn read(ask: &Ask, harvest: &mut Harvest) -> Result<Self::Note, Refusal>;

    /// The answer once everything is durable.
    fn answer(ask: &Ask, note: Self::Note, verdicts: &[Verdict]) -> Answer;

    /// The answer when nothing was taken.
    fn refuse(refusal: &Refusal) -> Answer {
        refusal.plain()
    }
}

/// Who sends.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    /// The address of the connection.
    pub address: IpAddr,
    /// Whether TLS has checked a certificate of the sender.
    pub has_certificate: bool,
}

/// Why a body could not be read from its connection.
#[derive(Debug)]
pub enum BodyFault {
    /// More bytes than [`Intake::body_bytes`].
    TooLarge,
    /// Too slow, or the connection broke.
    Broken(String),
}

impl Intake {
    /// Answers one request. `body` is asked for only when the sender may send.
    pub async fn answer(
        self: &Arc<Self>,
        parts: Parts,
        sender: Sender,
        body: impl Future<Output = Result<Bytes, BodyFault>>,
    ) -> Answer {
        let sender = Sender { address: sender.address.to_canonical(), ..sender };
        macro_rules! dispatch {
            ($($Protocol:ty,)+) => {
                $(if <$Protocol>::is_for(&parts) {
                    return self.serve::<$Protocol>(parts, sender, body).await;
                })+
            };
        }
        dispatch!(JsonLines, OtlpHttp, OtlpGrpc, RemoteWrite, Loki, Elastic,);
        let path = parts.uri.path();
        Refusal::new(StatusCode::NOT_FOUND, "no_such_path", format!("nothing is taken at `{path}`"))
            .hint("docs/intake.md lists the paths")
            .plain()
    }

    async fn serve<P: Protocol>(
        self: &Arc<Self>,
        parts: Parts,
        sender: Sender,
        body: impl Future<Output = Result<Bytes, BodyFault>>,
    ) -> Answer {
        let origin = Origin { protocol: P::NAME, peer: Some(sender.address) };
        let length = declared_length(&parts.headers);
        let answer = match self.take_request::<P>(origin, sender, parts, body).await {
            Ok(answer) => answer,
            Err(refusal) => {
                // What the store refuses was counted with its rows.
                if !["busy", "full", "closed", "failed"].contains(&refusal.reason) {
                    let amount = Amount { batches: 1, rows: 0, bytes: length.unwrap_or(0) };
                    self.counts.add(origin, Outcome::Refused, Some(refusal.reason), amount);
                }
                refused::<P>(&refusal)
            }
        };
        answer.with("x-content-type-options", "nosniff")
    }

    async fn take_request<P: Protocol>(
        self: &Arc<Self>,
        origin: Origin,
        sender: Sender,
        parts: Parts,
        body: impl Future<Output = Result<Bytes, BodyFault>>,
    ) -> Result<Answer, Refusal> {
        self.admit(&parts.headers, sender)?;
        let limit = self.settings.body_bytes;
        let length = declared_length(&parts.headers);
        if length.is_some_and(|length| length > limit) {
            return Err(too_large(limit));
        }
        let is_packed = parts.headers.contains_key(header::CONTENT_ENCODING);
        let expected = length.map_or(limit, |length| {
            if is_packed { length.saturating_mul(USUAL_PACKING).min(limit) } else { length }
        });
        let _room = self.room(expected).await.ok_or_else(no_room)?;
        let packed = body.await.map_err(|fault| match fault {
            BodyFault::TooLarge => too_large(limit),
            BodyFault::Broken(why) => Refusal::new(
                StatusCode::REQUEST_TIMEOUT,
                "body_broken",
                format!("cannot read the body: {why}"),
            ),
        })?;
        let coding = parts.headers.get(header::CONTENT_ENCODING);
        let coding = coding.and_then(|value| value.to_str().ok()).unwrap_or("").to_owned();
        let body = if coding.is_empty() { packed } else { unpacked(coding, packed, limit).await? };
        let bytes = body.len();
        let version = self.settings.elasticsearch_version.clone();
        let ask = Ask {
            parts,
            body,
            peer: sender.address,
            body_bytes: limit,
            elasticsearch_version: version,
        };
        let mut harvest = self.harvest();
        let note = P::read(&ask, &mut harvest)?;
        let verdicts = if harvest.verdicts.is_empty() {
            Vec::new()
        } else {
            self.take(origin, bytes, harvest).await?
        };
        Ok(P::answer(&ask, note, &verdicts))
    }

    fn admit(&self, headers: &HeaderMap, sender: Sender) -> Result<(), Refusal> {
        let access = &self.settings.access;
        let has_shown_itself = sender.has_certificate && access.token.is_none();
        if has_shown_itself || access.admits(headers, sender.address) {
            return Ok(());
        }
        if access.token.is_some() {
            return Err(Refusal::new(StatusCode::UNAUTHORIZED, "no_login", "a login is needed")
                .hint("send the token of `intake.token_file` as `Authorization: Bearer …`, as Basic password or as ApiKey"));
        }
        Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "not_allowed",
            format!("`{}` may not send", sender.address),
        )
        .hint("set `intake.token_file`, or name its network in `intake.allow`"))
    }
}

fn refused<P: Protocol>(refusal: &Refusal) -> Answer {
    let mut answer = P::refuse(refusal);
    if let Some(seconds) = refusal.retry_after() {
        answer = answer.with("retry-after", seconds);
    }
    if refusal.status == StatusCode::UNAUTHORIZED {
        answer = answer.with("www-authenticate", "Basic realm=\"weir intake\", charset=\"UTF-8\"");
    }
    answer
}

fn declared_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn too_large(limit: usize) -> Refusal {
    let message = format!("the body is larger than {limit} bytes");
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
        .hint("send smaller batches, or raise `intake.body_bytes`")
}

fn no_room() -> Refusal {
    let message = "more is being sent than can be worked on at one time";
    Refusal::new(StatusCode::TOO_MANY_REQUESTS, "no_room", message)
        .hint("send the same again in a second, or raise `intake.in_flight_bytes`")
}

/// Unpacking takes processor time by the megabyte: away from the threads that serve.
async fn unpacked(coding: String, body: Bytes, limit: usize) -> Result<Bytes, Refusal> {
    let task = tokio::task::spawn_blocking(move || unpack(&coding, body, limit)).await;
    match task {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(Packed::TooLarge)) => Err(too_large(limit)),
        Ok(Err(Packed::Broken(why))) => Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "broken_packing",
            format!("cannot unpack the body: {why}"),
        )),
        Ok(Err(Packed::Unknown(coding))) => Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unknown_coding",
            format!("`{coding}` is not a known content-encoding"),
        )
        .hint("gzip, deflate, zstd, snappy or none")),
        Err(error) => {
            Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", error.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::percent_decoded;

    #[test]
    fn percents_are_undone_where_they_are_whole() {
        assert_eq!(percent_decoded("a%20b+c%2Fd"), "a b c/d");
        assert_eq!(percent_decoded("100%"), "100%");
        assert_eq!(percent_decoded("%zz%4"), "%zz%4");
        assert_eq!(percent_decoded("%"), "%");
        assert_eq!(percent_decoded("%é"), "%é");
    }
}
