//! `metric`: metrics from other programs.

table! {
    /// Metrics from other programs. weir's own measurements have their own tables.
    Metric, MetricRows = "metric";
    grain: "one row per sample of a series";
    source: "intake: OTLP, Prometheus remote write, scraping, statsd, Graphite";
    sort: [name, host, ts];
    1 ts: Time = "When the sample was taken, by its sender's time; the time of arrival without one.";
    2 host: Text = "Host of the sample: the resource's `host.name`, the label `host`, `hostname`, `nodename` or `instance` (without port), else the address that sent it.";
    3 name: Text = "The sender's own name. Histograms are several series, as in Prometheus: `_bucket` with the label `le`, `_sum` and `_count`.";
    4 labels: Attrs = "Labels of the series, including OpenTelemetry resource attributes.";
    5 value: OptFloat = "The value; NULL when the series has ended (Prometheus' stale marker).";
    6 kind: OptText = "`gauge`, `counter` (a sum since a start), `delta` (a sum since the previous row), `bucket`, `quantile` or `sample` (one of many measurements, as of a timer); NULL when the sender does not state it.";
    7 unit: OptText = "The sender's unit, such as `s` or `By`; NULL without one.";
    8 source: Text = "The protocol it arrived by, such as `otlp`, `remote_write` or `scrape`.";
}
