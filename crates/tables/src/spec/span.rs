//! `span`: trace spans other than a server's requests.

table! {
    /// Spans of OpenTelemetry traces that are not the handling of an HTTP request; those are rows
    /// of `request` with tier `app`.
    Span, SpanRows = "span";
    grain: "one row per span";
    source: "intake: OTLP";
    sort: [ts];
    ids: [trace_id, span_id, parent_span_id];
    words: [name, status_message];
    1 ts: Time = "When the span began, by the sender's clock.";
    2 host: Text = "The resource's `host.name`, else the address that sent it.";
    3 observed_ts: Time = "When it arrived.";
    4 program: OptText = "The resource's `service.name`; NULL without one.";
    5 trace_id: Text = "32 hex digits.";
    6 span_id: Text = "16 hex digits.";
    7 parent_span_id: OptText = "16 hex digits; NULL at the root of a trace.";
    8 name: Text = "The operation's name.";
    9 kind: OptText = "internal, server, client, producer or consumer; NULL when not set.";
    10 duration_seconds: Float = "End minus begin, by the sender's clock.";
    11 is_error: OptFlag = "Whether the sender marked it as failed; NULL when it set no status.";
    12 status_message: OptText = "The sender's failure message; NULL without one.";
    13 attrs: Attrs = "Attributes of the span, then of its resource; `events` is its number of events.";
}
