//! `GET /metrics`: weir's own figures in Prometheus' text format, version 0.0.4.

use std::fmt::Write;

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use weir_outputs::OutputFigures;

use super::SharedApp;
use crate::rule_runner::RuleRunner;

/// `GET /metrics`.
pub(crate) async fn metrics(State(app): State<SharedApp>) -> impl IntoResponse {
    let mut text = MetricsText::default();
    let stats = app.store.stats();
    text.gauge("weir_store_hot_rows", stats.hot_rows, "Rows in memory.");
    text.gauge("weir_store_hot_bytes", stats.hot_bytes, "Bytes of rows in memory.");
    text.gauge("weir_store_wal_bytes", stats.wal_bytes, "Bytes of the write-ahead log.");
    text.gauge(
        "weir_store_lost_records",
        stats.lost_records,
        "Records of the write-ahead log that this start found damaged and set aside.",
    );
    text.gauge(
        "weir_store_faults",
        stats.faults.len() as u64,
        "Damaged or missing files, a damaged log, or expired rows that are held back.",
    );
    text.gauge("weir_store_file_count", stats.file_count, "Parquet files.");
    text.gauge("weir_store_file_bytes", stats.file_bytes, "Bytes of Parquet files.");
    text.gauge("weir_store_file_rows", stats.file_rows, "Rows in Parquet files.");
    text.gauge(
        "weir_store_slow_file_count",
        stats.slow_file_count,
        "Parquet files in the cold tier.",
    );
    text.gauge("weir_store_slow_file_bytes", stats.slow_file_bytes, "Their bytes.");
    if let Some(bucket) = stats.bucket {
        text.counter(
            "weir_store_bucket_gets_total",
            bucket.gets,
            "Requests that read from the cold tier's bucket, including retries.",
        );
        text.counter(
            "weir_store_bucket_hedged_total",
            bucket.hedged,
            "Of these, those made because an answer was late.",
        );
        text.counter("weir_store_bucket_read_bytes_total", bucket.bytes, "Bytes of answers.");
        text.counter(
            "weir_store_bucket_failed_total",
            bucket.failed,
            "Requests to the bucket that failed, and were made again or given up.",
        );
    }
    text.gauge(
        "weir_store_future_rows",
        stats.future_rows,
        "Rows too far ahead of the clock to be shown in tables.",
    );
    text.gauge(
        "weir_store_full",
        u64::from(stats.is_full),
        "1 while rows are refused for lack of room.",
    );
    for (name, help, value) in app.meter.counters() {
        text.counter(name, value, help);
    }
    open_findings(&mut text, &app.judge);
    outputs(&mut text, &app.outputs.figures(app.clock.now()));
    if let Some(watch) = &app.watch {
        let lag: u64 = watch.streams().iter().map(|stream| stream.lag_bytes).sum();
        text.gauge("weir_tail_lag_bytes", lag, "Bytes of log files that are not read yet.");
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text.0)
}

fn open_findings(text: &mut MetricsText, judge: &RuleRunner) {
    let mut open = std::collections::BTreeMap::new();
    judge.with_engine(|engine| {
        for finding in engine.open() {
            *open.entry((finding.class.as_str(), finding.state.as_str())).or_insert(0_u64) += 1;
        }
    });
    text.head(MetricFamily {
        name: "weir_findings_open",
        help: "Findings that are not resolved.",
        metric_type: MetricType::Gauge,
    });
    for ((class, state), count) in open {
        let _ =
            writeln!(text.0, "weir_findings_open{{class=\"{class}\",state=\"{state}\"}} {count}");
    }
}

/// A figure of each output: name, help, type, value.
type OutputFigure = (&'static str, &'static str, MetricType, fn(&OutputFigures) -> f64);

#[expect(clippy::cast_precision_loss, reason = "Prometheus' numbers are floats")]
const OUTPUT_FIGURES: [OutputFigure; 8] = [
    ("rows_total", "Rows that the target took.", MetricType::Counter, |it| it.rows as f64),
    ("rows_refused_total", "Rows that the target will not take.", MetricType::Counter, |it| {
        it.rows_refused as f64
    }),
    ("rows_lost_total", "Rows that were given up.", MetricType::Counter, |it| it.rows_lost as f64),
    (
        "repeats_total",
        "Rows that were sent again after an answer was lost.",
        MetricType::Counter,
        |it| it.repeats as f64,
    ),
    ("failures_total", "Attempts that failed.", MetricType::Counter, |it| it.failures as f64),
    ("lag_bytes", "Bytes of the log that are not copied.", MetricType::Gauge, |it| {
        it.lag_bytes as f64
    }),
    ("lag_seconds", "How long the oldest of them have been waiting.", MetricType::Gauge, |it| {
        it.lag_seconds
    }),
    ("up", "1 when the last attempt succeeded.", MetricType::Gauge, |it| {
        f64::from(u8::from(it.error.is_none()))
    }),
];

fn outputs(text: &mut MetricsText, outputs: &[(&str, OutputFigures)]) {
    for (name, help, metric_type, value) in OUTPUT_FIGURES.iter().filter(|_| !outputs.is_empty()) {
        let family = format!("weir_output_{name}");
        text.head(MetricFamily { name: &family, help, metric_type: *metric_type });
        for (output, figures) in outputs {
            let _ =
                writeln!(text.0, "weir_output_{name}{{output=\"{output}\"}} {}", value(figures));
        }
    }
}

/// Types of Prometheus' text format.
#[derive(Clone, Copy)]
enum MetricType {
    Counter,
    Gauge,
}

/// What stands above the samples of a metric.
struct MetricFamily<'a> {
    name: &'a str,
    help: &'a str,
    metric_type: MetricType,
}

#[derive(Default)]
struct MetricsText(String);

impl MetricsText {
    fn head(&mut self, MetricFamily { name, help, metric_type }: MetricFamily<'_>) {
        let metric_type = match metric_type {
            MetricType::Counter => "counter",
            MetricType::Gauge => "gauge",
        };
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {metric_type}");
    }

    fn gauge(&mut self, name: &str, value: u64, help: &str) {
        self.head(MetricFamily { name, help, metric_type: MetricType::Gauge });
        let _ = writeln!(self.0, "{name} {value}");
    }

    fn counter(&mut self, name: &str, value: u64, help: &str) {
        self.head(MetricFamily { name, help, metric_type: MetricType::Counter });
        let _ = writeln!(self.0, "{name} {value}");
    }
}
