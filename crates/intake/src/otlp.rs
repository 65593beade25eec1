//! OpenTelemetry's protocol: logs, traces and metrics over HTTP (protobuf and JSON) and gRPC.
//!
//! From the OTLP specification 1.5 and opentelemetry-proto's message definitions. JSON is first
//! converted to protobuf, so that there is one reader. gRPC's unary calls are HTTP/2 requests with
//! five bytes before the message and the status after the response, which needs no library.

mod json;
mod logs;
mod metrics;
mod traces;
mod value;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::json;

use crate::batch_builder::{BatchBuilder, ItemVerdict, too_many};
use crate::body::no_memory;
use crate::protobuf::{FieldReader, MalformedMessage};
use crate::protocol::{HttpProtocol, IntakeRequest};
use crate::response::{IntakeResponse, Refusal};
use crate::unpack::{UnpackError, unpack};
use value::Resource;

/// Deepest nesting of lists that is read.
const MAX_DEPTH: usize = 16;

/// Kind of telemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Logs,
    Traces,
    Metrics,
}

pub(crate) struct OtlpHttp;

impl HttpProtocol for OtlpHttp {
    const NAME: &'static str = "otlp_http";
    type Note = bool;

    fn is_for(parts: &Parts) -> bool {
        signal_of_path(parts.uri.path()).is_some()
    }

    /// The note is true for a JSON response.
    fn read(request: &IntakeRequest, builder: &mut BatchBuilder) -> Result<bool, Refusal> {
        if request.parts.method != Method::POST {
            let message = "send OTLP with POST";
            return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "bad_method", message));
        }
        let signal = signal_of_path(request.parts.uri.path()).expect("checked by is_for");
        let is_known = builder.is_known_body(Self::NAME, &request.body)?;
        let kind = request.header("content-type");
        match kind.split(';').next().unwrap_or("").trim() {
            "application/x-protobuf" => {
                let body = if is_known { &[][..] } else { &request.body[..] };
                read(signal, body, &request.peer.to_string(), builder)?;
                Ok(false)
            }
            "application/json" if is_known => Ok(true),
            "application/json" => {
                // The same content as protobuf is shorter.
                if !builder.take_memory(request.body.len()) {
                    return Err(no_memory());
                }
                let message = json::to_protobuf(signal, &request.body)
                    .map_err(|error| Refusal::bad(format!("cannot read the JSON: {error}")))?;
                read(signal, &message, &request.peer.to_string(), builder)?;
                Ok(true)
            }
            other => Err(Refusal::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unknown_type",
                format!("`{other}` is not a content-type of OTLP"),
            )
            .hint("application/x-protobuf or application/json")),
        }
    }

    /// An empty message means that everything was stored.
    fn respond(
        _request: &IntakeRequest,
        is_json: bool,
        _verdicts: &[ItemVerdict],
    ) -> IntakeResponse {
        if is_json {
            return IntakeResponse::json(StatusCode::OK, &json!({}));
        }
        IntakeResponse::new(StatusCode::OK, "application/x-protobuf", Bytes::new())
    }

    /// `google.rpc.Status`, always as JSON: exporters check the HTTP status.
    fn refuse(refusal: &Refusal) -> IntakeResponse {
        let body = json!({"code": grpc_code(refusal), "message": message(refusal)});
        IntakeResponse::json(refusal.status, &body)
    }
}

fn signal_of_path(path: &str) -> Option<Signal> {
    match path {
        "/v1/logs" => Some(Signal::Logs),
        "/v1/traces" => Some(Signal::Traces),
        "/v1/metrics" => Some(Signal::Metrics),
        _ => None,
    }
}

pub(crate) struct OtlpGrpc;

impl HttpProtocol for OtlpGrpc {
    const NAME: &'static str = "otlp_grpc";
    type Note = ();

    fn is_for(parts: &Parts) -> bool {
        signal_of_service(parts.uri.path()).is_some()
    }

    fn read(request: &IntakeRequest, builder: &mut BatchBuilder) -> Result<(), Refusal> {
        let signal = signal_of_service(request.parts.uri.path()).expect("checked by is_for");
        let message = unframed(request, builder)?;
        if builder.is_known_body(Self::NAME, &message)? {
            return Ok(());
        }
        read(signal, &message, &request.peer.to_string(), builder)
    }

    fn respond(_request: &IntakeRequest, (): (), _verdicts: &[ItemVerdict]) -> IntakeResponse {
        let mut answer =
            IntakeResponse::new(StatusCode::OK, "application/grpc", Bytes::from_static(&[0; 5]));
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        answer.trailers = Some(trailers);
        answer
    }

    /// A response without a message may carry the status in its headers.
    fn refuse(refusal: &Refusal) -> IntakeResponse {
        IntakeResponse::new(StatusCode::OK, "application/grpc", Bytes::new())
            .with(("grpc-status", &grpc_code(refusal).to_string()))
            .with(("grpc-message", &grpc_message(refusal)))
    }
}

fn signal_of_service(path: &str) -> Option<Signal> {
    let service = path.strip_prefix("/opentelemetry.proto.collector.")?;
    match service {
        "logs.v1.LogsService/Export" => Some(Signal::Logs),
        "trace.v1.TraceService/Export" => Some(Signal::Traces),
        "metrics.v1.MetricsService/Export" => Some(Signal::Metrics),
        _ => None,
    }
}

/// The message of a unary call: `is compressed (1 byte) | length (4 bytes, big endian) | message`.
fn unframed(request: &IntakeRequest, builder: &BatchBuilder) -> Result<Bytes, Refusal> {
    let Some(([is_packed, length @ ..], message)) = request.body.split_first_chunk::<5>() else {
        return Err(Refusal::bad("the body is not one gRPC message"));
    };
    let is_whole = usize::try_from(u32::from_be_bytes(*length)) == Ok(message.len());
    let message = request.body.slice(5..);
    let is_packed = *is_packed;
    if !is_whole || is_packed > 1 {
        return Err(Refusal::bad("the body is not one gRPC message"));
    }
    let coding = if is_packed == 1 { request.header("grpc-encoding") } else { "" };
    let mut take = |bytes| builder.take_memory(bytes);
    unpack(coding, message, request.body_bytes, &mut take).map_err(|error| match error {
        UnpackError::NoMemory => no_memory(),
        UnpackError::TooLarge => Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            "the decompressed message is too large",
        ),
        UnpackError::Broken(why) => Refusal::bad(format!("cannot decompress the message: {why}")),
        UnpackError::Unknown(coding) => Refusal::new(
            StatusCode::NOT_IMPLEMENTED,
            "unknown_coding",
            format!("`{coding}` is not a known grpc-encoding"),
        ),
    })
}

/// Codes of google.rpc. Exporters retry after 14 (unavailable), and not after most others.
fn grpc_code(refusal: &Refusal) -> u32 {
    match refusal.status {
        StatusCode::BAD_REQUEST => 3,
        StatusCode::FORBIDDEN => 7,
        StatusCode::PAYLOAD_TOO_LARGE => 8,
        StatusCode::NOT_IMPLEMENTED | StatusCode::UNSUPPORTED_MEDIA_TYPE => 12,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => 14,
        StatusCode::UNAUTHORIZED => 16,
        _ => 13,
    }
}

fn message(refusal: &Refusal) -> String {
    match &refusal.hint {
        Some(hint) => format!("{}; hint: {hint}", refusal.message),
        None => refusal.message.clone(),
    }
}

/// Bytes that gRPC percent-encodes in a message: `%` and all except printable ASCII.
const GRPC_ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

fn grpc_message(refusal: &Refusal) -> String {
    utf8_percent_encode(&message(refusal), GRPC_ESCAPED).to_string()
}

/// Why an export request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExportError {
    Malformed,
    TooMany,
}

impl From<MalformedMessage> for ExportError {
    fn from(_: MalformedMessage) -> Self {
        Self::Malformed
    }
}

/// Reads an export request: resources, scopes in them, records in those. All three signals use the
/// same field numbers.
fn read(
    signal: Signal,
    body: &[u8],
    peer: &str,
    builder: &mut BatchBuilder,
) -> Result<(), Refusal> {
    let outcome = FieldReader(body)
        .messages(1)
        .try_for_each(|resource| read_resource(signal, resource?, peer, builder));
    outcome.map_err(|error| match error {
        ExportError::Malformed => Refusal::bad("the body is not an export request of OTLP"),
        ExportError::TooMany => too_many(),
    })?;
    builder.checked()
}

fn read_resource(
    signal: Signal,
    bytes: &[u8],
    peer: &str,
    builder: &mut BatchBuilder,
) -> Result<(), ExportError> {
    // The resource may follow its own records.
    let mut resource = Resource::new(peer);
    for message in FieldReader(bytes).messages(1) {
        resource.read(message?)?;
    }
    for scope in FieldReader(bytes).messages(2) {
        for record in FieldReader(scope?).messages(2) {
            let record = record?;
            if builder.is_full() {
                return Err(ExportError::TooMany);
            }
            match signal {
                Signal::Logs => logs::read(record, &resource, builder)?,
                Signal::Traces => traces::read(record, &resource, builder)?,
                Signal::Metrics => metrics::read(record, &resource, builder)?,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
