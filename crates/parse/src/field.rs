//! Meanings of named texts in lines, and the names that programs use.
//!
//! Sources: nginx's variable index, OpenTelemetry semantic conventions, common loggers. A name that
//! is not listed is an attribute under that name.

/// The meaning of a text, independent of its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// An attribute.
    Attr,
    /// An attribute that is not on the user's list of keys.
    Unlisted,
    /// The column with the same name.
    Column,
    Time,
    /// A time, if the line has no other.
    TimeOtherwise,
    /// Nanoseconds beside a time in whole seconds.
    TimeNanos,
    ClientAddress,
    /// The address of a connection, which is the client's if the line has no other.
    PeerAddress,
    /// `X-Forwarded-For`: a list that begins with the client, if the line has no address.
    ForwardedFor,
    ClientPort,
    /// The requested host, optionally with a port.
    Host,
    /// The configured name of the server, used without a requested host.
    ServerName,
    /// The address that accepted the connection, used without a name.
    ServerAddress,
    ServerPort,
    Scheme,
    RequestLine,
    Method,
    /// A path, optionally with a query.
    Target,
    /// A host or a port directly before a target: `example.com/a?b`.
    AuthorityTarget,
    Query,
    Protocol,
    Status,
    /// A status, if the line has no other.
    StatusOtherwise,
    RequestBytes,
    ResponseBytes,
    ResponseBodyBytes,
    /// Apache's `%b`, where `-` means zero.
    ResponseBodyBytesOrDash,
    UserAgent,
    Referer,
    DurationSeconds,
    /// Whole seconds, if the line has no duration that is more exact.
    DurationOtherwise,
    DurationMillis,
    DurationMicros,
    DurationNanos,
    /// A duration with its unit (`1.5ms`), if the line has no other; a bare number stays an attribute.
    DurationText,
    UpstreamConnect,
    UpstreamHeader,
    UpstreamResponse,
    UpstreamResponseMillis,
    UpstreamResponseNanos,
    UpstreamAddress,
    UpstreamStatus,
    UpstreamName,
    RequestId,
    ConnectionRequests,
    /// Apache's `%k`: requests on the connection before this one.
    EarlierRequests,
    Message,
    /// A message, if the line has no `Message`.
    MessageOtherwise,
    Severity,
    /// OpenTelemetry's number of a severity, if the line has no word.
    SeverityNumber,
    Program,
    ProcessId,
    Facility,
    /// MongoDB's time: an attribute that tells its log.
    MongoTime,
    /// A key of an access line in JSON of a program that `json_access` knows.
    AccessMark,
    /// Envoy's flags: an attribute that tells its access log.
    ResponseFlags,
    /// Caddy's target: an attribute that tells its access log.
    CaddyTarget,
    /// The target of Node's `pino-http`: an attribute that tells its access log.
    NodeTarget,
    /// Tomcat's `%l`: an attribute that tells its access log in JSON.
    TomcatUser,
    /// The journal's time: a key that tells an entry of `journalctl -o json`.
    JournalTime,
}

impl Field {
    /// The bit of this field in a set of fields.
    pub(crate) fn bit(self) -> u64 {
        1 << self as u64
    }

    /// Whether programs write a number, `-`, or a list of them.
    pub(crate) fn is_number(self) -> bool {
        const NUMBERS: [Field; 10] = [
            Field::Status,
            Field::RequestBytes,
            Field::ResponseBytes,
            Field::ResponseBodyBytes,
            Field::DurationSeconds,
            Field::UpstreamConnect,
            Field::UpstreamHeader,
            Field::UpstreamResponse,
            Field::UpstreamStatus,
            Field::ConnectionRequests,
        ];
        NUMBERS.contains(&self)
    }

    /// Whether the text is used only if the others leave its column free: it is less exact.
    pub(crate) fn is_late(self) -> bool {
        const LATE: [Field; 8] = [
            Field::TimeOtherwise,
            Field::TimeNanos,
            Field::PeerAddress,
            Field::ForwardedFor,
            Field::StatusOtherwise,
            Field::SeverityNumber,
            Field::DurationOtherwise,
            Field::DurationText,
        ];
        LATE.contains(&self)
    }
}

/// The meaning of an nginx variable, named without `$`.
pub(crate) fn of_nginx(variable: &str) -> Field {
    match variable {
        "msec" => Field::Time,
        "time_local" | "time_iso8601" => Field::TimeOtherwise,
        "remote_addr" => Field::ClientAddress,
        "realip_remote_addr" => Field::PeerAddress,
        "remote_port" => Field::ClientPort,
        "http_host" | "host" => Field::Host,
        "server_name" => Field::ServerName,
        "server_addr" => Field::ServerAddress,
        "server_port" => Field::ServerPort,
        "scheme" => Field::Scheme,
        "request" => Field::RequestLine,
        "request_method" => Field::Method,
        "uri" | "document_uri" | "request_uri" => Field::Target,
        "args" | "query_string" => Field::Query,
        "server_protocol" => Field::Protocol,
        "status" => Field::Status,
        "request_length" => Field::RequestBytes,
        "bytes_sent" => Field::ResponseBytes,
        "body_bytes_sent" => Field::ResponseBodyBytes,
        "http_user_agent" => Field::UserAgent,
        "http_referer" => Field::Referer,
        "request_time" => Field::DurationSeconds,
        "upstream_connect_time" => Field::UpstreamConnect,
        "upstream_header_time" => Field::UpstreamHeader,
        "upstream_response_time" => Field::UpstreamResponse,
        "upstream_addr" => Field::UpstreamAddress,
        "upstream_status" => Field::UpstreamStatus,
        "proxy_host" => Field::UpstreamName,
        "request_id" | "http_x_request_id" => Field::RequestId,
        "connection_requests" => Field::ConnectionRequests,
        _ => Field::Attr,
    }
}

/// The meaning of a key of a JSON line or a `key=value` pair of an unknown program.
pub(crate) fn of_key(key: &str) -> Field {
    match key {
        "@timestamp"
        | "timestamp"
        | "timeStamp"
        | "eventTimestamp"
        | "Timestamp"
        | "time"
        | "ts"
        | "datetime"
        | "date"
        | "eventTime"
        | "@t"
        | "asctime"
        | "timeMillis"
        | "log_time"
        | "logtime"
        | "time_date"
        | "datetime.date"
        | "time.seconds"
        | "timestamp.seconds"
        | "instant.epochSecond" => Field::Time,
        "t" => Field::TimeOtherwise,
        "instant.nanoOfSecond" | "time.nanos" | "timestamp.nanos" => Field::TimeNanos,
        "client_ip" | "clientip" | "client.address" | "client_address" | "remote_ip" => {
            Field::ClientAddress
        }
        "client.port" | "client_port" => Field::ClientPort,
        "server.address" | "server_address" => Field::Host,
        "server.port" => Field::ServerPort,
        "url.scheme" | "url_scheme" => Field::Scheme,
        "method" | "http.request.method" | "http_request_method" | "http_method" | "verb" => {
            Field::Method
        }
        "path" | "url.path" | "url_path" | "uri_path" | "url" => Field::Target,
        "query" | "query_strings" | "request_query" | "url.query" | "url_query" => Field::Query,
        "protocol" | "http_version" | "network.protocol.version" | "network_protocol_version" => {
            Field::Protocol
        }
        "status_code"
        | "statusCode"
        | "http.response.status_code"
        | "http_response_status_code"
        | "response_code" => Field::Status,
        "http.request.size" | "request_bytes" => Field::RequestBytes,
        "http.response.size" | "response_bytes" => Field::ResponseBytes,
        "http.response.body.size" | "response_body_bytes" => Field::ResponseBodyBytes,
        "user_agent" | "user_agent.original" | "user_agent_original" | "agent" => Field::UserAgent,
        "referer" | "referrer" | "http_referrer" | "http.request.header.referer" => Field::Referer,
        "duration_seconds" | "request_duration_seconds" => Field::DurationSeconds,
        "duration_ms" | "latency_ms" | "elapsed_ms" | "dur_ms" => Field::DurationMillis,
        "duration_us" => Field::DurationMicros,
        "requestId" | "x_request_id" => Field::RequestId,
        "message" | "Message" | "msg" | "body" | "Body" | "@m" | "@message" => Field::Message,
        "log" | "event" | "error" | "@mt" | "MessageTemplate" | "short_message" => {
            Field::MessageOtherwise
        }
        "level" | "Level" | "severity" | "Severity" | "severity_text" | "SeverityText" | "lvl"
        | "loglevel" | "log.level" | "log_level" | "LogLevel" | "@l" | "@level" | "levelname"
        | "level_name" | "levelName" => Field::Severity,
        "severity_number" | "severityNumber" | "SeverityNumber" => Field::SeverityNumber,
        "service" | "service.name" | "service_name" | "program" | "app" | "application"
        | "appname" | "logger_name" | "programname" | "app-name" => Field::Program,
        "pid" | "process_id" | "process.pid" | "procid" => Field::ProcessId,
        "facility" => Field::Facility,
        "response_flags" | "x-envoy-origin-path" => Field::ResponseFlags,
        "proto" => Field::Protocol,
        _ => of_program_key(key),
    }
}

/// The meaning of a key that one program writes, or that often has the address of a peer.
fn of_program_key(key: &str) -> Field {
    match key {
        "client" | "client.ip" | "source.ip" | "ip" | "remote" | "remoteAddr" | "remoteAddress"
        | "remote_address" | "client_addr" | "src_ip" | "source_ip" | "clientIP" | "clientIp"
        | "remoteIP" | "remoteIp" | "id.orig_h" => Field::PeerAddress,
        "httpRequest.requestMethod"
        | "properties.httpMethod"
        | "ClientRequestMethod"
        | "latencies.request"
        | "apisix_latency"
        | "RequestMethod"
        | "httpMethod"
        | "reqMethod"
        | "reqId"
        | "elapsed_time"
        | "http.response.body.status_code"
        | "record.error_severity"
        | "properties"
        | "properties.CsMethod"
        | "properties.responseCode"
        | "proxy.statusCode"
        | "total_ns"
        | "err_symbol"
        | "cs-uri-stem"
        | "requestToTargetDuration"
        | "httpRequest.httpMethod"
        | "logContent.data.lbStatusCode"
        | "data.lbStatusCode"
        | "lbStatusCode"
        | "transaction.request.method"
        | "transaction.transaction_id" => Field::AccessMark,
        "t.$date" => Field::MongoTime,
        "__REALTIME_TIMESTAMP" => Field::JournalTime,
        "request.uri" => Field::CaddyTarget,
        "req.url" | "meta.req.url" => Field::NodeTarget,
        // Tomcat.
        "logicalUserName" => Field::TomcatUser,
        "requestHeaders.User-Agent" => Field::UserAgent,
        "requestHeaders.Referer" => Field::Referer,
        "localServerName" => Field::ServerName,
        "byteSent" | "byteSentNC" => Field::ResponseBodyBytes,
        // Loguru's `serialize`.
        "record.time.timestamp" => Field::Time,
        "record.message" => Field::Message,
        "record.level.name" => Field::Severity,
        "record.process.id" => Field::ProcessId,
        // Rust's tracing, Serilog and winston.
        "fields.message" => Field::Message,
        "RenderedMessage" => Field::Message,
        "@fields.level" => Field::Severity,
        // A record of OpenTelemetry in JSON.
        "timeUnixNano" => Field::Time,
        "observedTimeUnixNano" => Field::TimeOtherwise,
        "body.stringValue" => Field::Message,
        // PostgreSQL's `jsonlog`, ClickHouse, audit events of Kubernetes, NXLog, osquery.
        "error_severity" => Field::Severity,
        "date_time" | "requestReceivedTimestamp" | "EventTime" | "unixTime" => Field::Time,
        "SourceName" => Field::Program,
        "ProcessID" => Field::ProcessId,
        // Entries of Google Cloud, and records of Azure.
        "jsonPayload.message" => Field::Message,
        "textPayload" | "resultDescription" => Field::MessageOtherwise,
        _ => of_syslog_key(key),
    }
}

/// The meaning of a name of syslog-ng's macros, rsyslog's properties, or the journal's fields.
fn of_syslog_key(key: &str) -> Field {
    match key {
        "ISODATE" | "timereported" | "Time" | "TIMESTAMP" | "_time" | "dt" => Field::Time,
        // Documents of MongoDB.
        "time.$date" | "timestamp.$date" | "timestamp.$date.$numberLong" => Field::Time,
        "logLevel" | "level.name" => Field::Severity,
        "Msg" | "_msg" => Field::Message,
        "text" => Field::MessageOtherwise,
        "DATE" | "timegenerated" => Field::TimeOtherwise,
        "PRIORITY" | "LEVEL" | "syslogseverity" | "syslogseverity-text" => Field::Severity,
        "FACILITY" | "SYSLOG_FACILITY" | "syslogfacility" | "syslogfacility-text" => {
            Field::Facility
        }
        "PROGRAM" | "SYSLOG_IDENTIFIER" => Field::Program,
        "PID" | "_PID" => Field::ProcessId,
        "MESSAGE" => Field::Message,
        _ => of_schema_key(key),
    }
}

/// The meaning of a name of the Elastic Common Schema, of Logstash's patterns, or of web frameworks.
fn of_schema_key(key: &str) -> Field {
    match key {
        "http.version" | "httpversion" | "http_protocol" | "request_protocol" | "request_proto" => {
            Field::Protocol
        }
        "url.original" | "requestUri" | "request_path" | "request.url" => Field::Target,
        "request.method" => Field::Method,
        "url.domain" | "httpHost" | "vhost" => Field::Host,
        "response" => Field::StatusOtherwise,
        "response_status" | "responseStatus" | "http_status" | "http_status_code"
        | "httpStatus" | "response-code" => Field::Status,
        "http.request.bytes" | "bytes_in" => Field::RequestBytes,
        "http.response.bytes" => Field::ResponseBytes,
        "http.response.body.bytes"
        | "bytes_out"
        | "bytes"
        | "responseLength"
        | "resp_size"
        | "response_body_size"
        | "response_body_len"
        | "bodyBytesSent" => Field::ResponseBodyBytes,
        "userAgent" | "useragent" | "user-agent" | "httpUserAgent" | "request_user_agent" => {
            Field::UserAgent
        }
        "http.request.referrer" | "httpReferer" | "request_referer" => Field::Referer,
        "http.request.id" | "request-id" => Field::RequestId,
        "forwarded-for" | "x_forwarded_for" | "http_x_forwarded_for" => Field::ForwardedFor,
        "durationMs" | "elapsedMs" | "latencyMs" | "response_time_ms" | "responseTimeMs" => {
            Field::DurationMillis
        }
        "duration_s" => Field::DurationSeconds,
        "event.duration" | "duration_ns" | "latency_ns" => Field::DurationNanos,
        "latency" | "latency_human" | "duration" | "elapsed" | "took" | "response_time"
        | "responseTime" => Field::DurationText,
        _ => of_nginx(key),
    }
}

/// The meaning of the name of a column, or of one with another unit, in a list of known programs.
pub(crate) fn of_column(name: &str) -> Field {
    match name {
        "attribute" => Field::Attr,
        "time_otherwise" => Field::TimeOtherwise,
        "request_line" => Field::RequestLine,
        "peer_address" => Field::PeerAddress,
        "upstream_address" => Field::UpstreamAddress,
        "upstream_status_code" => Field::UpstreamStatus,
        "upstream_connect_seconds" => Field::UpstreamConnect,
        "upstream_response_seconds" => Field::UpstreamResponse,
        "upstream_response_ms" => Field::UpstreamResponseMillis,
        "upstream_response_ns" => Field::UpstreamResponseNanos,
        "proxy_backend" => Field::UpstreamName,
        _ => match of_key(name) {
            Field::Attr if crate::record::is_column(name) => Field::Column,
            field => field,
        },
    }
}

/// The meaning of a name that a user or a pattern gave to a value: names of columns, of the Elastic
/// Common Schema, and of the classic grok patterns.
pub(crate) fn of_capture(name: &str) -> Field {
    match name {
        "source.address" | "source.ip" | "client.ip" => Field::ClientAddress,
        "source.port" => Field::ClientPort,
        "url.original" => Field::Target,
        "url.domain" => Field::Host,
        "request_line" => Field::RequestLine,
        "response" | "http_status" | "sc-status" => Field::Status,
        "bytes" | "http.response.body.bytes" | "sc-bytes" => Field::ResponseBodyBytesOrDash,
        "http.request.bytes" | "cs-bytes" => Field::RequestBytes,
        "http.response.bytes" => Field::ResponseBytes,
        "http.request.referrer" | "cs(Referer)" => Field::Referer,
        "http.version" | "httpversion" | "cs-version" | "cs-protocol-version" => Field::Protocol,
        "c-ip" => Field::ClientAddress,
        "c-port" => Field::ClientPort,
        "cs-method" => Field::Method,
        "cs-uri-stem" | "cs-uri-path" | "cs-uri" => Field::Target,
        "cs-uri-query" => Field::Query,
        "cs-uri-scheme" => Field::Scheme,
        "cs-host" | "cs(Host)" => Field::Host,
        "s-ip" => Field::ServerAddress,
        "s-port" => Field::ServerPort,
        "date-time" => Field::Time,
        "cs(User-Agent)" => Field::UserAgent,
        "time-taken" => Field::DurationMillis,
        "process.name" => Field::Program,
        _ => match of_key(name) {
            Field::Attr if crate::record::is_column(name) => Field::Column,
            field => field,
        },
    }
}
