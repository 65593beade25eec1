//! `metric`: figures that other programs measured and sent.

table! {
    /// Figures that other programs measured and sent. weir's own measurements have tables of their own.
    Metric, MetricRows = "metric";
    grain: "one row per sample of a series";
    source: "intake: OTLP, Prometheus remote write, scraping, statsd, Graphite";
    sort: [name, host, ts];
    1 ts: Time = "When the sample was taken, as its sender says; the time of arrival when it says nothing.";
    2 host: Text = "The host that the sample is about: the resource's `host.name`, the label `host`, `hostname`, `nodename` or `instance` (without port), else the address that sent it.";
    3 name: Text = "The sender's own name. Histograms are several series, as in Prometheus: `_bucket` with the label `le`, `_sum` and `_count`.";
    4 labels: Attrs = "What tells the series of one name apart; resource attributes of OpenTelemetry are among them.";
    5 value: OptFloat = "The value; NULL when the sender says that the series has ended (Prometheus' stale marker).";
    6 kind: OptText = "`gauge`, `counter` (a sum since a start), `delta` (a sum since the row before), `bucket`, `quantile` or `sample` (one of many measurements, as of a timer); NULL when the sender does not tell.";
    7 unit: OptText = "The sender's own unit, such as `s` or `By`; NULL when it tells none.";
    8 source: Text = "The protocol that it came by, such as `otlp`, `remote_write` or `scrape`.";
}
