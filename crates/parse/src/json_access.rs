//! Access lines in JSON of gateways, balancers and frameworks whose keys mean nothing elsewhere: Google
//! Cloud, AWS's API Gateway, Azure, Cloudflare, Akamai, Vercel, Linkerd, Kong, APISIX, Beego, Traefik,
//! Serilog and Squid; and lines that are no requests, of Nextcloud, MySQL, and of PostgreSQL in the log of
//! CloudNativePG.
//!
//! Sources: each program's documentation of its log's fields. The surprising things: Azure's Application
//! Gateway v1 writes whole milliseconds where v2 and Front Door write seconds with a point; Cloudflare
//! has 0 as the status of an origin that was not asked.

use crate::field::{self, Field};
use crate::record::{Record, RowKind};

/// Nextcloud's and ownCloud's levels, in the order of their numbers.
const NEXTCLOUD_LEVELS: [&str; 5] = ["debug", "info", "warn", "error", "fatal"];

/// The lines of one program.
struct Dialect {
    /// Keys that are all in a line.
    signs: &'static [&'static str],
    /// The column `program`; none where anybody's program writes them.
    program: &'static str,
    /// The column `tier`; empty for lines that are no requests.
    tier: &'static str,
    meaning: fn(&str) -> Field,
}

const DIALECTS: &[Dialect] = &[
    Dialect {
        signs: &["httpRequest.requestMethod", "httpRequest.status"],
        program: "",
        tier: "proxy",
        meaning: google_cloud,
    },
    Dialect {
        signs: &["properties.CsMethod", "properties.ScStatus"],
        program: "azure",
        tier: "edge",
        meaning: azure_app_service,
    },
    Dialect {
        signs: &["properties.responseCode", "properties.url"],
        program: "azure",
        tier: "edge",
        meaning: azure_api_management,
    },
    Dialect {
        signs: &["proxy.statusCode", "proxy.path", "deploymentId"],
        program: "vercel",
        tier: "edge",
        meaning: vercel,
    },
    Dialect {
        signs: &["total_ns", "client.addr", "status"],
        program: "linkerd",
        tier: "proxy",
        meaning: linkerd,
    },
    Dialect {
        signs: &["err_symbol", "err_code", "label"],
        program: "mysqld",
        tier: "",
        meaning: mysql,
    },
    Dialect {
        signs: &["properties.httpMethod", "properties.requestUri"],
        program: "azure",
        tier: "edge",
        meaning: azure,
    },
    Dialect {
        signs: &["ClientRequestMethod", "EdgeResponseStatus"],
        program: "cloudflare",
        tier: "edge",
        meaning: cloudflare,
    },
    Dialect {
        signs: &["reqMethod", "reqPath", "statusCode"],
        program: "akamai",
        tier: "edge",
        meaning: akamai,
    },
    Dialect {
        signs: &["http.response.body.status_code", "url.original"],
        program: "squid",
        tier: "proxy",
        meaning: squid_of_opnsense,
    },
    Dialect {
        signs: &["reqId", "remoteAddr", "level"],
        program: "nextcloud",
        tier: "",
        meaning: nextcloud,
    },
    Dialect {
        signs: &["record.error_severity", "record.message"],
        program: "postgresql",
        tier: "",
        meaning: cloud_native_pg,
    },
    Dialect {
        signs: &["latencies.request", "request.method", "response.status"],
        program: "kong",
        tier: "proxy",
        meaning: kong,
    },
    Dialect {
        signs: &["apisix_latency", "request.method", "response.status"],
        program: "apisix",
        tier: "proxy",
        meaning: apisix,
    },
    Dialect {
        signs: &["httpMethod", "resourcePath", "requestTime"],
        program: "apigateway",
        tier: "edge",
        meaning: aws_api_gateway,
    },
    Dialect {
        signs: &["httpMethod", "routeKey", "requestTime"],
        program: "apigateway",
        tier: "edge",
        meaning: aws_http_api,
    },
    Dialect {
        signs: &["elapsed_time", "request_method", "http_user_agent"],
        program: "",
        tier: "app",
        meaning: beego,
    },
    Dialect {
        signs: &["RequestMethod", "DownstreamStatus"],
        program: "traefik",
        tier: "proxy",
        meaning: traefik,
    },
    Dialect {
        signs: &["RequestMethod", "RequestPath", "StatusCode"],
        program: "",
        tier: "app",
        meaning: serilog,
    },
];

/// Gives the keys of a line with [`Field::AccessMark`] their meanings; `None`, with the record as it
/// was, for a line of another program.
pub(crate) fn parse(record: &mut Record<'_>) -> Option<RowKind> {
    let is_of = |dialect: &&Dialect| dialect.signs.iter().all(|key| record.text(key).is_some());
    let dialect = DIALECTS.iter().find(is_of)?;
    // What a function of Vercel wrote has the values of its request beside it.
    if dialect.program == "vercel" && record.text("message").is_some_and(|text| !text.is_empty()) {
        return None;
    }
    let texts = record.take_texts();
    for (key, value, _) in texts.iter() {
        let field = (dialect.meaning)(key);
        match field {
            Field::DurationSeconds if !value.contains('.') => {
                record.put([key, value], Field::DurationMillis);
            }
            Field::UpstreamStatus if value == "0" => {}
            Field::Severity if dialect.program == "nextcloud" => {
                let number = value.parse().unwrap_or(usize::MAX);
                record.put([key, NEXTCLOUD_LEVELS.get(number).unwrap_or(&value)], field);
            }
            // The host of a tunnel.
            Field::Target if !value.contains('/') => {
                record.put([key, value], Field::AuthorityTarget);
            }
            _ => record.put([key, value], field),
        }
    }
    if !dialect.program.is_empty() {
        record.put(["program", dialect.program], Field::Program);
    }
    record.request.tier = dialect.tier;
    Some(if dialect.tier.is_empty() { RowKind::Log } else { RowKind::Request })
}

/// `LogEntry` with `httpRequest`, of load balancers, Cloud Run and others.
fn google_cloud(key: &str) -> Field {
    match key {
        "httpRequest.requestMethod" => Field::Method,
        "httpRequest.requestUrl" => Field::Target,
        "httpRequest.status" => Field::Status,
        "httpRequest.requestSize" => Field::RequestBytes,
        "httpRequest.responseSize" => Field::ResponseBytes,
        "httpRequest.userAgent" => Field::UserAgent,
        "httpRequest.referer" => Field::Referer,
        "httpRequest.remoteIp" => Field::ClientAddress,
        "httpRequest.serverIp" => Field::UpstreamAddress,
        "httpRequest.latency" => Field::DurationText,
        "httpRequest.protocol" => Field::Protocol,
        "resource.labels.backend_service_name" => Field::UpstreamName,
        "timestamp" | "time" => Field::Time,
        _ => Field::Attr,
    }
}

/// Application Gateway and Front Door.
fn azure(key: &str) -> Field {
    let Some(name) = key.strip_prefix("properties.") else {
        return match key {
            "time" | "timeStamp" => Field::Time,
            "backendPoolName" => Field::UpstreamName,
            _ => Field::Attr,
        };
    };
    match name {
        "clientIP" | "clientIp" => Field::ClientAddress,
        "clientPort" => Field::ClientPort,
        "httpMethod" => Field::Method,
        "requestUri" => Field::Target,
        "requestQuery" => Field::Query,
        "httpStatus" | "httpStatusCode" => Field::Status,
        "httpVersion" => Field::Protocol,
        "receivedBytes" | "requestBytes" => Field::RequestBytes,
        "sentBytes" | "responseBytes" => Field::ResponseBytes,
        "userAgent" => Field::UserAgent,
        "referrer" | "referer" => Field::Referer,
        "timeTaken" => Field::DurationSeconds,
        "host" | "hostName" => Field::Host,
        "serverRouted" | "originIp" => Field::UpstreamAddress,
        "serverStatus" => Field::UpstreamStatus,
        "serverResponseLatency" => Field::UpstreamResponse,
        "transactionId" | "trackingReference" => Field::RequestId,
        "backendPoolName" | "originName" => Field::UpstreamName,
        _ => Field::Attr,
    }
}

/// App Service, in the names of IIS.
fn azure_app_service(key: &str) -> Field {
    match key.strip_prefix("properties.").unwrap_or(key) {
        "time" => Field::Time,
        "CIp" => Field::ClientAddress,
        "CsHost" => Field::Host,
        "SPort" => Field::ServerPort,
        "CsMethod" => Field::Method,
        "CsUriStem" => Field::Target,
        "CsUriQuery" => Field::Query,
        "ScStatus" => Field::Status,
        "CsBytes" => Field::RequestBytes,
        "ScBytes" => Field::ResponseBytes,
        "UserAgent" => Field::UserAgent,
        "Referer" => Field::Referer,
        "TimeTaken" => Field::DurationMillis,
        _ => Field::Attr,
    }
}

/// API Management's category `GatewayLogs`.
fn azure_api_management(key: &str) -> Field {
    match key.strip_prefix("properties.").unwrap_or(key) {
        "time" => Field::Time,
        "callerIpAddress" => Field::ClientAddress,
        "durationMs" => Field::DurationMillis,
        "correlationId" => Field::RequestId,
        "method" => Field::Method,
        "url" => Field::Target,
        "clientProtocol" => Field::Protocol,
        "responseCode" => Field::Status,
        "requestSize" => Field::RequestBytes,
        "responseSize" => Field::ResponseBytes,
        "backendResponseCode" => Field::UpstreamStatus,
        "backendTime" => Field::UpstreamResponseMillis,
        "backendId" => Field::UpstreamName,
        _ => Field::Attr,
    }
}

/// Log drains of Vercel.
fn vercel(key: &str) -> Field {
    match key {
        "proxy.timestamp" => Field::Time,
        "timestamp" => Field::TimeOtherwise,
        "proxy.clientIp" => Field::ClientAddress,
        "proxy.method" => Field::Method,
        "proxy.scheme" => Field::Scheme,
        "proxy.host" => Field::Host,
        "proxy.path" => Field::Target,
        "proxy.statusCode" => Field::Status,
        "proxy.referer" => Field::Referer,
        "proxy.responseByteSize" => Field::ResponseBytes,
        "requestId" => Field::RequestId,
        _ => Field::Attr,
    }
}

/// The access log of Linkerd's proxy in JSON.
fn linkerd(key: &str) -> Field {
    match key {
        "timestamp" => Field::Time,
        "client.addr" => Field::ClientAddress,
        "host" => Field::Host,
        "method" => Field::Method,
        "uri" => Field::Target,
        "version" => Field::Protocol,
        "status" => Field::Status,
        "request_bytes" => Field::RequestBytes,
        "response_bytes" => Field::ResponseBodyBytes,
        "total_ns" => Field::DurationNanos,
        "user_agent" => Field::UserAgent,
        _ => Field::Attr,
    }
}

/// MySQL's `log_sink_json`: the number `prio` is not syslog's.
fn mysql(key: &str) -> Field {
    match key {
        "time" => Field::Time,
        "label" => Field::Severity,
        "msg" => Field::Message,
        _ => Field::Attr,
    }
}

/// Logpush's data set `http_requests`.
fn cloudflare(key: &str) -> Field {
    match key {
        "ClientIP" => Field::ClientAddress,
        "ClientSrcPort" => Field::ClientPort,
        "ClientRequestHost" => Field::Host,
        "ClientRequestMethod" => Field::Method,
        "ClientRequestURI" | "ClientRequestPath" => Field::Target,
        "ClientRequestScheme" => Field::Scheme,
        "ClientRequestProtocol" => Field::Protocol,
        "ClientRequestUserAgent" => Field::UserAgent,
        "ClientRequestReferer" => Field::Referer,
        "ClientRequestBytes" => Field::RequestBytes,
        "EdgeStartTimestamp" => Field::Time,
        "EdgeResponseStatus" => Field::Status,
        "EdgeResponseBytes" => Field::ResponseBytes,
        "EdgeResponseBodyBytes" => Field::ResponseBodyBytes,
        "RayID" => Field::RequestId,
        "OriginIP" => Field::UpstreamAddress,
        "OriginResponseStatus" => Field::UpstreamStatus,
        "OriginResponseDurationMs" => Field::UpstreamResponseMillis,
        "OriginResponseTime" => Field::UpstreamResponseNanos,
        _ => Field::Attr,
    }
}

/// DataStream 2. No duration: it has those of the first byte and of the transfer, which overlap.
fn akamai(key: &str) -> Field {
    match key {
        "reqTimeSec" => Field::Time,
        "cliIP" => Field::ClientAddress,
        "reqHost" => Field::Host,
        "reqPort" => Field::ServerPort,
        "reqMethod" => Field::Method,
        "reqPath" => Field::Target,
        "queryStr" => Field::Query,
        "statusCode" => Field::Status,
        "reqId" => Field::RequestId,
        "UA" => Field::UserAgent,
        "referer" => Field::Referer,
        "rspContentLen" => Field::ResponseBodyBytes,
        "totalBytes" => Field::ResponseBytes,
        _ => Field::Attr,
    }
}

/// The format of OPNsense, in names of the Elastic Common Schema, but with milliseconds.
fn squid_of_opnsense(key: &str) -> Field {
    match key {
        "event.duration" => Field::DurationMillis,
        "http.response.body.status_code" => Field::Status,
        "service.name" | "message" => Field::Attr,
        _ => field::of_key(key),
    }
}

/// What `app` names is a part of the server.
fn nextcloud(key: &str) -> Field {
    match key {
        "app" => Field::Attr,
        _ => field::of_key(key),
    }
}

/// The record inside has PostgreSQL's own severity and message.
fn cloud_native_pg(key: &str) -> Field {
    match key {
        "record.log_time" => Field::Time,
        "record.error_severity" => Field::Severity,
        "record.message" => Field::Message,
        "record.process_id" => Field::ProcessId,
        "ts" => Field::TimeOtherwise,
        _ => Field::Attr,
    }
}

/// What Kong's and APISIX's loggers have in common.
fn gateway(key: &str) -> Field {
    match key {
        "client_ip" => Field::ClientAddress,
        "request.method" => Field::Method,
        "request.uri" => Field::Target,
        "request.size" => Field::RequestBytes,
        "request.headers.host" => Field::Host,
        "request.headers.user-agent" => Field::UserAgent,
        "request.headers.referer" => Field::Referer,
        "request.headers.x-request-id" | "request.id" => Field::RequestId,
        "response.status" => Field::Status,
        "response.size" => Field::ResponseBytes,
        _ => Field::Attr,
    }
}

/// Plugins `file-log`, `http-log` and others.
fn kong(key: &str) -> Field {
    match key {
        "started_at" => Field::Time,
        "latencies.request" => Field::DurationMillis,
        "latencies.proxy" => Field::UpstreamResponseMillis,
        "service.name" => Field::UpstreamName,
        "upstream_status" => Field::UpstreamStatus,
        _ => gateway(key),
    }
}

/// Plugins `file-logger`, `http-logger` and others.
fn apisix(key: &str) -> Field {
    match key {
        "start_time" => Field::Time,
        "latency" => Field::DurationMillis,
        "upstream_latency" => Field::UpstreamResponseMillis,
        "upstream" => Field::UpstreamAddress,
        "upstream_status" => Field::UpstreamStatus,
        _ => gateway(key),
    }
}

/// The format that AWS proposes for access logs of API Gateway.
fn aws_api_gateway(key: &str) -> Field {
    match key {
        "requestTime" => Field::Time,
        "ip" => Field::ClientAddress,
        "httpMethod" => Field::Method,
        "resourcePath" => Field::Target,
        "path" => Field::Attr,
        "responseLatency" => Field::DurationMillis,
        "integrationLatency" => Field::UpstreamResponseMillis,
        "integrationStatus" => Field::UpstreamStatus,
        _ => field::of_key(key),
    }
}

/// HTTP APIs of API Gateway.
fn aws_http_api(key: &str) -> Field {
    if key == "path" { Field::Target } else { aws_api_gateway(key) }
}

/// Access lines of Beego: a duration of Go, and the time of the request under nginx' name of its duration.
fn beego(key: &str) -> Field {
    match key {
        "elapsed_time" => Field::DurationNanos,
        "request_time" => Field::Time,
        _ => field::of_key(key),
    }
}

fn traefik(key: &str) -> Field {
    match key {
        "RequestMethod" => Field::Method,
        "RequestPath" => Field::Target,
        "RequestHost" => Field::Host,
        "RequestProtocol" => Field::Protocol,
        "RequestContentSize" => Field::RequestBytes,
        "request_User-Agent" => Field::UserAgent,
        "request_Referer" => Field::Referer,
        "ClientHost" => Field::ClientAddress,
        "ClientPort" => Field::ClientPort,
        "DownstreamStatus" => Field::Status,
        "DownstreamContentSize" => Field::ResponseBodyBytes,
        "OriginStatus" => Field::UpstreamStatus,
        "Duration" => Field::DurationNanos,
        "OriginDuration" => Field::UpstreamResponseNanos,
        "ServiceAddr" => Field::UpstreamAddress,
        "ServiceName" => Field::UpstreamName,
        "StartUTC" => Field::Time,
        "time" => Field::TimeOtherwise,
        _ => Field::Attr,
    }
}

/// `UseSerilogRequestLogging` of ASP.NET Core.
fn serilog(key: &str) -> Field {
    match key.strip_prefix("Properties.").unwrap_or(key) {
        "RequestMethod" => Field::Method,
        "RequestPath" => Field::Target,
        "StatusCode" => Field::Status,
        "Elapsed" => Field::DurationMillis,
        "ClientIp" | "RemoteIpAddress" => Field::ClientAddress,
        "RequestHost" | "Host" => Field::Host,
        "RequestId" => Field::RequestId,
        _ => field::of_key(key),
    }
}
