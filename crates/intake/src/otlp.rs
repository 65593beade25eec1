//! OpenTelemetry's protocol: logs, traces and metrics over HTTP (protobuf and JSON) and gRPC.
//!
//! From the OTLP specification 1.5 and opentelemetry-proto's message definitions. JSON is first written as the
//! protobuf that it stands for, so that there is one reader. gRPC's unary calls are HTTP/2 requests with five bytes in
//! front of the message and the status behind the answer, which needs no library.

mod json;
mod logs;
mod metrics;
mod traces;
mod value;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::json;

use crate::harvest::{Harvest, Verdict, too_many};
use crate::http::{Answer, Ask, Protocol, Refusal};
use crate::protobuf::{Fields, Malformed};
use crate::unpack::{Packed, unpack};
use value::Resource;

/// Lists in lists that are read.
const MAX_DEPTH: usize = 16;

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Logs,
    Traces,
    Metrics,
}

pub(crate) struct OtlpHttp;

impl Protocol for OtlpHttp {
    const NAME: &'static str = "otlp_http";
    type Note = bool;

    fn is_for(parts: &Parts) -> bool {
        signal_of_path(parts.uri.path()).is_some()
    }

    /// The note says whether the answer is JSON.
    fn read(ask: &Ask, harvest: &mut Harvest) -> Result<bool, Refusal> {
        if ask.parts.method != Method::POST {
            let message = "OTLP is sent with POST";
            return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "bad_method", message));
        }
        let signal = signal_of_path(ask.parts.uri.path()).expect("asked by is_for");
        let is_known = harvest.is_known_body(Self::NAME, &ask.body)?;
        let kind = ask.header("content-type");
        match kind.split(';').next().unwrap_or("").trim() {
            "application/x-protobuf" => {
                let body = if is_known { &[][..] } else { &ask.body[..] };
                read(signal, body, &ask.peer.to_string(), harvest)?;
                Ok(false)
            }
            "application/json" if is_known => Ok(true),
            "application/json" => {
                let message = json::to_protobuf(signal, &ask.body)
                    .map_err(|error| Refusal::bad(format!("cannot read the JSON: {error}")))?;
                read(signal, &message, &ask.peer.to_string(), harvest)?;
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

    /// An empty message: everything was taken.
    fn answer(_ask: &Ask, is_json: bool, _verdicts: &[Verdict]) -> Answer {
        if is_json {
            return Answer::json(StatusCode::OK, &json!({}));
        }
        Answer::new(StatusCode::OK, "application/x-protobuf", Bytes::new())
    }

    /// `google.rpc.Status`, always as JSON: exporters look at the HTTP status.
    fn refuse(refusal: &Refusal) -> Answer {
        let body = json!({"code": grpc_code(refusal), "message": message(refusal)});
        Answer::json(refusal.status, &body)
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

impl Protocol for OtlpGrpc {
    const NAME: &'static str = "otlp_grpc";
    type Note = ();

    fn is_for(parts: &Parts) -> bool {
        signal_of_service(parts.uri.path()).is_some()
    }

    fn read(ask: &Ask, harvest: &mut Harvest) -> Result<(), Refusal> {
        let signal = signal_of_service(ask.parts.uri.path()).expect("asked by is_for");
        let message = unframed(ask)?;
        if harvest.is_known_body(Self::NAME, &message)? {
            return Ok(());
        }
        read(signal, &message, &ask.peer.to_string(), harvest)
    }

    fn answer(_ask: &Ask, (): (), _verdicts: &[Verdict]) -> Answer {
        let mut answer =
            Answer::new(StatusCode::OK, "application/grpc", Bytes::from_static(&[0; 5]));
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        answer.trailers = Some(trailers);
        answer
    }

    /// Without a message the status may stand in the head.
    fn refuse(refusal: &Refusal) -> Answer {
        Answer::new(StatusCode::OK, "application/grpc", Bytes::new())
            .with("grpc-status", &grpc_code(refusal).to_string())
            .with("grpc-message", &percent_encoded(&message(refusal)))
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

/// The message of a unary call: `is packed (1 byte) | length (4 bytes, big endian) | message`.
fn unframed(ask: &Ask) -> Result<Bytes, Refusal> {
    let bad = || Refusal::bad("the body is not one gRPC message");
    let (head, _) = ask.body.split_first_chunk::<5>().ok_or_else(bad)?;
    let [is_packed, length @ ..] = *head;
    let length = usize::try_from(u32::from_be_bytes(length)).map_err(|_| bad())?;
    let message = ask.body.slice(5..);
    if length != message.len() || is_packed > 1 {
        return Err(bad());
    }
    let coding = if is_packed == 1 { ask.header("grpc-encoding") } else { "" };
    unpack(coding, message, ask.body_bytes).map_err(|error| match error {
        Packed::TooLarge => Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            "the message is too large unpacked",
        ),
        Packed::Broken(why) => Refusal::bad(format!("cannot unpack the message: {why}")),
        Packed::Unknown(coding) => Refusal::new(
            StatusCode::NOT_IMPLEMENTED,
            "unknown_coding",
            format!("`{coding}` is not a known grpc-encoding"),
        ),
    })
}

/// Codes of google.rpc. Exporters send again after 14 (unavailable), and not after most others.
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

/// gRPC's own percent encoding: everything but printable ASCII.
fn percent_encoded(text: &str) -> String {
    use std::fmt::Write;
    text.bytes().fold(String::new(), |mut out, byte| {
        if matches!(byte, b' '..=b'~') && byte != b'%' {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("a string takes all");
        }
        out
    })
}

/// Why reading stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Malformed,
    TooMany,
}

impl From<Malformed> for Stop {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// Reads an export request: resources, in them scopes, in them records. All three signals number these alike.
fn read(signal: Signal, body: &[u8], peer: &str, harvest: &mut Harvest) -> Result<(), Refusal> {
    each(
        body,
        |number, resource| {
            if number == 1 { read_resource(signal, resource, peer, harvest) } else { Ok(()) }
        },
    )
    .map_err(|stop| match stop {
        Stop::Malformed => Refusal::bad("the body is not an export request of OTLP"),
        Stop::TooMany => too_many(),
    })?;
    harvest.checked()
}

fn read_resource(
    signal: Signal,
    bytes: &[u8],
    peer: &str,
    harvest: &mut Harvest,
) -> Result<(), Stop> {
    // The resource may stand behind what belongs to it.
    let mut resource = Resource::new(peer);
    each(
        bytes,
        |number, value| {
            if number == 1 { resource.read(value).map_err(Stop::from) } else { Ok(()) }
        },
    )?;
    each(bytes, |number, scope| {
        if number != 2 {
            return Ok(());
        }
        each(scope, |number, record| {
            if number != 2 {
                return Ok(());
            }
            if harvest.is_full() {
                return Err(Stop::TooMany);
            }
            match signal {
                Signal::Logs => logs::read(record, &resource, harvest)?,
                Signal::Traces => traces::read(record, &resource, harvest)?,
                Signal::Metrics => metrics::read(record, &resource, harvest)?,
            }
            Ok(())
        })
    })
}

fn each<'a>(
    bytes: &'a [u8],
    mut visit: impl FnMut(u64, &'a [u8]) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let mut fields = Fields(bytes);
    while let Some((number, value)) = fields.next()? {
        visit(number, value.bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
