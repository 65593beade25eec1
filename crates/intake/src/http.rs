//! Protocols over HTTP: admission, body, decompression, then the protocol of the path.
//!
//! A protocol is one file with an implementation of [`HttpProtocol`] and one line in
//! [`Intake::respond`].

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, StatusCode, header};

use crate::body::{BodySource, MEMORY_PATIENCE, no_memory, read_body, too_large};
use crate::browser;
use crate::check_lines::CheckLines;
use crate::counts::{BatchAmount, BatchOrigin, IntakeOutcome};
use crate::elastic::ElasticBulk;
use crate::intake::Intake;
use crate::jsonl::JsonLines;
use crate::loki::LokiPush;
use crate::memory::MemoryHold;
use crate::otlp::{OtlpGrpc, OtlpHttp};
use crate::protocol::{HttpProtocol, IntakeRequest};
use crate::remote_write::RemoteWrite;
use crate::response::{IntakeResponse, Refusal};
use crate::unpack::{UnpackError, unpack};

/// The sender of a request.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    /// The address of the connection.
    pub address: IpAddr,
    /// Whether TLS has verified a client certificate.
    pub has_certificate: bool,
}

/// Where a request came in.
#[derive(Clone, Copy, Debug)]
enum RequestDoor {
    /// The intake's own socket: it decides whether the sender may send.
    Guarded(Sender),
    /// Another socket, which has admitted the address.
    Admitted(IpAddr),
}

impl RequestDoor {
    fn address(self) -> IpAddr {
        match self {
            Self::Guarded(sender) => sender.address,
            Self::Admitted(address) => address,
        }
    }
}

impl Intake {
    /// Responds to one request. `body` is only polled when the sender may send.
    pub async fn respond(
        self: &Arc<Self>,
        parts: Parts,
        sender: Sender,
        body: impl BodySource,
    ) -> IntakeResponse {
        let sender = Sender { address: sender.address.to_canonical(), ..sender };
        macro_rules! dispatch {
            ($($Protocol:ty,)+) => {
                $(if <$Protocol>::is_for(&parts) {
                    return self.serve::<$Protocol>(parts, RequestDoor::Guarded(sender), body).await;
                })+
            };
        }
        dispatch!(JsonLines, CheckLines, OtlpHttp, OtlpGrpc, RemoteWrite, LokiPush, ElasticBulk,);
        let path = parts.uri.path();
        let message = format!("no protocol has the path `{path}`");
        Refusal::new(StatusCode::NOT_FOUND, "no_such_path", message)
            .hint("docs/intake.md lists the paths")
            .plain()
    }

    /// Responds to results of checks whose sender the API has admitted by its login.
    pub async fn respond_to_login(
        self: &Arc<Self>,
        parts: Parts,
        address: IpAddr,
        body: impl BodySource,
    ) -> IntakeResponse {
        self.serve::<CheckLines>(parts, RequestDoor::Admitted(address.to_canonical()), body).await
    }

    async fn serve<P: HttpProtocol>(
        self: &Arc<Self>,
        parts: Parts,
        door: RequestDoor,
        body: impl BodySource,
    ) -> IntakeResponse {
        let origin = BatchOrigin { protocol: P::NAME, peer: Some(door.address()) };
        let length = declared_length(&parts.headers);
        let response = match self.take_request::<P>(origin, door, parts, body).await {
            Ok(response) => response,
            Err(refusal) => {
                // Refusals of the store were counted with their rows.
                if !["busy", "full", "closed", "failed"].contains(&refusal.reason) {
                    let amount = BatchAmount { batches: 1, rows: 0, bytes: length.unwrap_or(0) };
                    self.counts.add(origin, IntakeOutcome::Refused, Some(refusal.reason), amount);
                }
                refused::<P>(&refusal)
            }
        };
        response.with(("x-content-type-options", "nosniff"))
    }

    async fn take_request<P: HttpProtocol>(
        self: &Arc<Self>,
        origin: BatchOrigin,
        door: RequestDoor,
        parts: Parts,
        body: impl BodySource,
    ) -> Result<IntakeResponse, Refusal> {
        if let RequestDoor::Guarded(sender) = door {
            self.admit(&parts.headers, sender)?;
        }
        let limit = self.settings.body_bytes;
        let length = declared_length(&parts.headers);
        if length.is_some_and(|length| length > limit) {
            return Err(too_large(limit));
        }
        let hold = self.memory.hold(origin);
        let packed = read_body(body, limit, &hold).await?;
        let coding = parts.headers.get(header::CONTENT_ENCODING);
        let coding = coding.and_then(|value| value.to_str().ok()).unwrap_or("").to_owned();
        let body =
            if coding.is_empty() { packed } else { unpacked(coding, packed, limit, &hold).await? };
        let bytes = body.len();
        hold.shrink_to(bytes);
        let version = self.settings.elasticsearch_version.clone();
        let request = IntakeRequest {
            parts,
            body,
            peer: door.address(),
            body_bytes: limit,
            elasticsearch_version: version,
        };
        let mut builder = self.builder();
        builder.memory = Some(hold);
        let note = P::read(&request, &mut builder)?;
        let verdicts = if builder.verdicts.is_empty() {
            Vec::new()
        } else {
            self.take(origin, bytes, builder).await?
        };
        Ok(P::respond(&request, note, &verdicts))
    }

    fn admit(&self, headers: &HeaderMap, sender: Sender) -> Result<(), Refusal> {
        let access = &self.settings.access;
        self.refuse_browsers(headers, sender)?;
        let is_authenticated = sender.has_certificate && access.token.is_none();
        if is_authenticated || access.admits(headers, sender.address) {
            return Ok(());
        }
        if access.token.is_some() {
            return Err(Refusal::new(StatusCode::UNAUTHORIZED, "no_login", "a login is required")
                .hint("send the token of `intake.token_file` as `Authorization: Bearer …`, as Basic password or as ApiKey"));
        }
        Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "not_allowed",
            format!("`{}` may not send", sender.address),
        )
        .hint("set `intake.token_file`, or add its network to `intake.allow`"))
    }
}

impl Intake {
    /// Refuses what a page of another site makes a browser send, before its login counts: a browser
    /// adds that by itself. On loopback without a login the address is the only proof, so a name
    /// that is not ours is refused from every program.
    fn refuse_browsers(&self, headers: &HeaderMap, sender: Sender) -> Result<(), Refusal> {
        let own = &self.settings.host_names;
        if browser::is_from_foreign_page(headers, own) {
            let message = "a page of another site may not send rows";
            return Err(Refusal::new(StatusCode::FORBIDDEN, "foreign_page", message)
                .hint("send from a program, or from a page of this host"));
        }
        let is_proven = self.settings.access.token.is_some() || !sender.address.is_loopback();
        let is_checked = !is_proven || browser::is_from_browser(headers);
        if is_checked && !browser::is_own_host(headers, own) {
            let message = "the name in the header `Host` is not one of this hub";
            return Err(Refusal::new(StatusCode::MISDIRECTED_REQUEST, "foreign_host", message)
                .hint("send to the address, or add the name to `api.host_names`"));
        }
        Ok(())
    }
}

fn refused<P: HttpProtocol>(refusal: &Refusal) -> IntakeResponse {
    let mut response = P::refuse(refusal);
    if let Some(seconds) = refusal.retry_after() {
        response = response.with(("retry-after", seconds));
    }
    if refusal.status == StatusCode::UNAUTHORIZED {
        let realm = "Basic realm=\"weir intake\", charset=\"UTF-8\"";
        response = response.with(("www-authenticate", realm));
    }
    response
}

fn declared_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Decompresses on a blocking thread, because it is CPU-bound.
async fn unpacked(
    coding: String,
    body: Bytes,
    limit: usize,
    hold: &MemoryHold,
) -> Result<Bytes, Refusal> {
    let (hold, handle) = (hold.clone(), tokio::runtime::Handle::current());
    let mut take = move |bytes| handle.block_on(hold.grow(bytes, MEMORY_PATIENCE));
    let task = tokio::task::spawn_blocking(move || unpack(&coding, body, limit, &mut take)).await;
    match task {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(UnpackError::TooLarge)) => Err(too_large(limit)),
        Ok(Err(UnpackError::NoMemory)) => Err(no_memory()),
        Ok(Err(UnpackError::Broken(why))) => Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "broken_packing",
            format!("cannot decompress the body: {why}"),
        )),
        Ok(Err(UnpackError::Unknown(coding))) => Err(Refusal::new(
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
