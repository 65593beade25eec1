//! Access lines in JSON of gateways, balancers and frameworks whose keys mean nothing elsewhere: Google
//! Cloud, AWS's API Gateway, Azure, Cloudflare, Kong, APISIX, Traefik and Serilog.
//!
//! Sources: each program's documentation of its log's fields. The surprising things: Azure's Application
//! Gateway v1 writes whole milliseconds where v2 and Front Door write seconds with a point; Cloudflare
//! has 0 as the status of an origin that was not asked.

use crate::field::{self, Field};
use crate::record::{Record, RowKind};

/// The lines of one program.
struct Dialect {
    /// Keys that are all in a line.
    signs: &'static [&'static str],
    /// The column `program`; none where anybody's program writes them.
    program: &'static str,
    /// The column `tier`.
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
    let texts = record.take_texts();
    for (key, value, _) in texts.iter() {
        match (dialect.meaning)(key) {
            Field::DurationSeconds if !value.contains('.') => {
                record.put([key, value], Field::DurationMillis);
            }
            Field::UpstreamStatus if value == "0" => {}
            field => record.put([key, value], field),
        }
    }
    if !dialect.program.is_empty() {
        record.put(["program", dialect.program], Field::Program);
    }
    record.request.tier = dialect.tier;
    Some(RowKind::Request)
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

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use weir_tables::LogFormat;

    use crate::check::check_format;

    #[test]
    fn balancers_of_clouds_are_requests() {
        check_format(
            LogFormat::Auto,
            r#"{"jsonPayload":{"statusDetails":"backend_timeout"},"httpRequest":{"requestMethod":"GET","requestUrl":"https://e.example/a?b=1","requestSize":"100","status":502,"responseSize":"488","userAgent":"curl","remoteIp":"192.0.2.1","serverIp":"10.0.0.3","latency":"30.5s"},"resource":{"type":"http_load_balancer","labels":{"backend_service_name":"web"}},"timestamp":"2026-11-20T12:00:00.123456Z","severity":"WARNING"}
{"time":"2026-11-20T12:00:00Z","category":"ApplicationGatewayAccessLog","properties":{"clientIP":"192.0.2.1","clientPort":50000,"httpMethod":"GET","requestUri":"/a","requestQuery":"b=1","httpStatus":502,"httpVersion":"HTTP/1.1","receivedBytes":100,"sentBytes":488,"timeTaken":30.001,"host":"e.example","serverRouted":"10.0.0.3:80","serverStatus":"502","serverResponseLatency":"30.000"}}
{"time":"2026-11-20T12:00:00Z","category":"ApplicationGatewayAccessLog","properties":{"clientIP":"192.0.2.1","httpMethod":"GET","requestUri":"/a","httpStatus":200,"timeTaken":240}}
{"ClientIP":"192.0.2.1","ClientRequestHost":"e.example","ClientRequestMethod":"GET","ClientRequestURI":"/a?b=1","EdgeStartTimestamp":"2026-11-20T12:00:00Z","EdgeResponseBytes":488,"EdgeResponseStatus":522,"RayID":"7d","OriginResponseStatus":0,"OriginResponseDurationMs":1200}
"#,
            expect![[r#"
                request
                  ts: 2026-11-20T12:00:00.123456Z
                  client_address: 192.0.2.1
                  server_address: e.example
                  url_scheme: https
                  http_request_method: GET
                  url_path: /a
                  url_query: b=1
                  http_response_status_code: 502
                  request_bytes: 100
                  response_bytes: 488
                  user_agent_original: curl
                  duration_seconds: 30.5
                  upstream_address: 10.0.0.3
                  upstream_tries: 1
                  proxy_backend: web
                  attrs: {jsonPayload.statusDetails: backend_timeout, resource.type: http_load_balancer, severity: WARNING}
                request
                  ts: 2026-11-20T12:00:00Z
                  program: azure
                  client_address: 192.0.2.1
                  client_port: 50000
                  server_address: e.example
                  http_request_method: GET
                  url_path: /a
                  url_query: b=1
                  network_protocol_version: 1.1
                  http_response_status_code: 502
                  request_bytes: 100
                  response_bytes: 488
                  duration_seconds: 30.001
                  upstream_response_seconds: 30.0
                  upstream_address: 10.0.0.3:80
                  upstream_status_code: 502
                  upstream_tries: 1
                  attrs: {category: ApplicationGatewayAccessLog}
                request
                  ts: 2026-11-20T12:00:00Z
                  program: azure
                  client_address: 192.0.2.1
                  http_request_method: GET
                  url_path: /a
                  http_response_status_code: 200
                  duration_seconds: 0.24
                  attrs: {category: ApplicationGatewayAccessLog}
                request
                  ts: 2026-11-20T12:00:00Z
                  program: cloudflare
                  request_id: 7d
                  client_address: 192.0.2.1
                  server_address: e.example
                  http_request_method: GET
                  url_path: /a
                  url_query: b=1
                  http_response_status_code: 522
                  response_bytes: 488
                  upstream_response_seconds: 1.2
            "#]],
        );
    }

    #[test]
    fn gateways_and_frameworks_are_requests() {
        check_format(
            LogFormat::Auto,
            r#"{"request":{"method":"GET","uri":"/a?b=1","url":"http://e.example:8000/a?b=1","size":100,"headers":{"host":"e.example","user-agent":"curl"}},"upstream_uri":"/a","response":{"status":502,"size":488,"headers":{"via":"kong"}},"latencies":{"request":1200,"kong":2,"proxy":1190},"client_ip":"192.0.2.1","started_at":1795175999500,"service":{"name":"s"}}
{"client_ip":"192.0.2.1","start_time":1795175999500,"upstream":"10.0.0.3:80","latency":1200.5,"upstream_latency":1190,"apisix_latency":10.5,"request":{"method":"GET","uri":"/a?b=1","size":100,"headers":{"host":"e.example"}},"response":{"status":502,"size":488},"server":{"hostname":"h"}}
{"ClientHost":"192.0.2.1","ClientPort":"4711","DownstreamStatus":502,"Duration":1200500000,"OriginStatus":502,"OriginDuration":1190000000,"RequestHost":"e.example","RequestMethod":"GET","RequestPath":"/a?b=1","ServiceAddr":"10.0.0.3:80","ServiceName":"s@docker","StartUTC":"2026-11-20T11:59:59.5Z","level":"info","msg":"","time":"2026-11-20T12:00:00Z"}
{"@t":"2026-11-20T11:59:59.5Z","@m":"HTTP GET /a responded 500 in 12.3 ms","@l":"Error","RequestMethod":"GET","RequestPath":"/a","StatusCode":500,"Elapsed":12.3}
{"@t":"2026-11-20T11:59:59.5Z","@m":"User signed in","RequestMethod":"GET","RequestPath":"/a"}
"#,
            expect![[r#"
                request
                  ts: 2026-11-20T11:59:59.500Z
                  program: kong
                  client_address: 192.0.2.1
                  server_address: e.example
                  http_request_method: GET
                  url_path: /a
                  url_query: b=1
                  http_response_status_code: 502
                  request_bytes: 100
                  response_bytes: 488
                  user_agent_original: curl
                  duration_seconds: 1.2
                  upstream_response_seconds: 1.19
                  proxy_backend: s
                  attrs: {request.url: http://e.example:8000/a?b=1, upstream_uri: /a, response.headers.via: kong, latencies.kong: 2}
                request
                  ts: 2026-11-20T11:59:59.500Z
                  program: apisix
                  client_address: 192.0.2.1
                  server_address: e.example
                  http_request_method: GET
                  url_path: /a
                  url_query: b=1
                  http_response_status_code: 502
                  request_bytes: 100
                  response_bytes: 488
                  duration_seconds: 1.2005
                  upstream_response_seconds: 1.19
                  upstream_address: 10.0.0.3:80
                  upstream_tries: 1
                  attrs: {apisix_latency: 10.5, server.hostname: h}
                request
                  ts: 2026-11-20T11:59:59.500Z
                  program: traefik
                  client_address: 192.0.2.1
                  client_port: 4711
                  server_address: e.example
                  http_request_method: GET
                  url_path: /a
                  url_query: b=1
                  http_response_status_code: 502
                  duration_seconds: 1.2005
                  upstream_response_seconds: 1.19
                  upstream_address: 10.0.0.3:80
                  upstream_status_code: 502
                  upstream_tries: 1
                  proxy_backend: s@docker
                  attrs: {level: info}
                request
                  ts: 2026-11-20T11:59:59.500Z
                  http_request_method: GET
                  url_path: /a
                  http_response_status_code: 500
                  duration_seconds: 0.0123
                  attrs: {@m: HTTP GET /a responded 500 in 12.3 ms, @l: Error}
                log
                  ts: 2026-11-20T11:59:59.500Z
                  body: User signed in
                  attrs: {RequestMethod: GET, RequestPath: /a}
            "#]],
        );
    }
}
