//! Metrics of OTLP to rows of `metric`; histograms become several series, as in Prometheus.
//!
//! Exponential histograms become `_sum` and `_count`; their buckets are only counted, in the label
//! `exponential_buckets`.

use weir_tables::Metric;

use super::value::{Resource, key_value, time};
use crate::attrs::Attrs;
use crate::batch_builder::BatchBuilder;
use crate::number::{signed, unsigned};
use crate::protobuf::{FieldReader, MalformedMessage, WireValue};

/// Most buckets of one histogram.
const MAX_BUCKETS: usize = 1000;

/// Context shared by all points of a metric.
struct MetricSeries<'a> {
    name: &'a str,
    unit: Option<&'a str>,
    kind: &'static str,
    resource: &'a Resource<'a>,
}

/// Reads a `Metric`.
pub(super) fn read(
    bytes: &[u8],
    resource: &Resource<'_>,
    builder: &mut BatchBuilder,
) -> Result<(), MalformedMessage> {
    let mut series = MetricSeries { name: "", unit: None, kind: "gauge", resource };
    let (mut points, mut shape) = (&[][..], 0);
    for field in FieldReader(bytes) {
        let (number, value) = field?;
        match number {
            1 => series.name = value.text().unwrap_or("invalid_utf8"),
            3 => series.unit = value.text().filter(|unit| !unit.is_empty()),
            5 | 7 | 9 | 10 | 11 => (shape, points) = (number, value.bytes()),
            _ => {}
        }
    }
    series.kind = kind(shape, points)?;
    for point in FieldReader(points).messages(1) {
        match shape {
            5 | 7 => number_point(point?, &series, builder)?,
            9 => histogram_point(point?, &series, builder)?,
            10 => exponential_point(point?, &series, builder)?,
            _ => summary_point(point?, &series, builder)?,
        }
    }
    Ok(())
}

/// Cumulative sums are counters, sums since the previous point are deltas, non-monotonic sums are
/// gauges.
fn kind(shape: u64, points: &[u8]) -> Result<&'static str, MalformedMessage> {
    let (mut temporality, mut is_monotonic) = (0, false);
    for field in FieldReader(points) {
        let (number, value) = field?;
        match number {
            2 => temporality = value.integer(),
            3 => is_monotonic = value.integer() != 0,
            _ => {}
        }
    }
    Ok(match (shape, temporality) {
        (7 | 9 | 10, 1) => "delta",
        (7, _) if !is_monotonic => "gauge",
        (7 | 9 | 10 | 11, _) => "counter",
        _ => "gauge",
    })
}

impl MetricSeries<'_> {
    /// Adds a row for a part of the metric, such as `_sum`.
    fn push(
        &self,
        part: SeriesPart<'_>,
        value: f64,
        point: &DataPoint<'_>,
        builder: &mut BatchBuilder,
    ) {
        let SeriesPart { suffix, kind, label } = part;
        let mut labels = point.attrs.clone();
        if let Some((key, value)) = label {
            labels.push(key, value);
        }
        if let Some(service) = &self.resource.service {
            labels.push("service.name", service.as_ref());
        }
        labels.extend(&self.resource.attrs);
        let name = format!("{}{suffix}", self.name);
        builder.metric_row(&Metric {
            ts: time(point.time).unwrap_or(builder.now),
            host: &self.resource.host,
            name: &name,
            labels: &labels.finish(),
            value: Some(value).filter(|value| !value.is_nan() && !point.is_missing),
            kind: Some(kind),
            unit: self.unit,
            source: "otlp",
        });
    }
}

/// One of the series that a metric becomes.
struct SeriesPart<'a> {
    /// Suffix of the name.
    suffix: &'static str,
    kind: &'a str,
    /// Additional label, such as `le`.
    label: Option<(&'static str, String)>,
}

#[derive(Default)]
struct DataPoint<'a> {
    time: u64,
    attrs: Attrs<'a>,
    /// Flag 1: the series has ended.
    is_missing: bool,
}

impl<'a> DataPoint<'a> {
    fn take(&mut self, value: WireValue<'a>, is_attribute: bool) -> Result<(), MalformedMessage> {
        if is_attribute {
            return key_value(value.bytes(), "", 0, &mut self.attrs);
        }
        self.time = value.integer();
        Ok(())
    }
}

fn number_point(
    bytes: &[u8],
    series: &MetricSeries<'_>,
    builder: &mut BatchBuilder,
) -> Result<(), MalformedMessage> {
    let (mut point, mut number_value) = (DataPoint::default(), 0.0);
    for field in FieldReader(bytes) {
        let (number, value) = field?;
        match number {
            3 | 7 => point.take(value, number == 7)?,
            4 => number_value = value.double(),
            6 => number_value = signed(value.signed()),
            8 => point.is_missing = value.integer() & 1 == 1,
            _ => {}
        }
    }
    series.push(
        SeriesPart { suffix: "", kind: series.kind, label: None },
        number_value,
        &point,
        builder,
    );
    Ok(())
}

fn histogram_point(
    bytes: &[u8],
    series: &MetricSeries<'_>,
    builder: &mut BatchBuilder,
) -> Result<(), MalformedMessage> {
    let (mut point, mut count, mut sum) = (DataPoint::default(), 0, None);
    let (mut buckets, mut bounds): (Vec<u64>, Vec<f64>) = (Vec::new(), Vec::new());
    for field in FieldReader(bytes) {
        let (number, value) = field?;
        match number {
            3 | 9 => point.take(value, number == 9)?,
            4 => count = value.integer(),
            5 => sum = Some(value.double()),
            6 => {
                let free = MAX_BUCKETS.saturating_sub(buckets.len());
                buckets.extend(value.fixed64s().take(free));
            }
            7 => {
                let free = MAX_BUCKETS.saturating_sub(bounds.len());
                bounds.extend(value.fixed64s().map(f64::from_bits).take(free));
            }
            10 => point.is_missing = value.integer() & 1 == 1,
            _ => {}
        }
    }
    let mut total = 0_u64;
    for (at, in_bucket) in buckets.iter().enumerate() {
        total = total.saturating_add(*in_bucket);
        let bound = bounds.get(at).map_or_else(|| "+Inf".to_owned(), f64::to_string);
        let label = Some(("le", bound));
        let part = SeriesPart { suffix: "_bucket", kind: "bucket", label };
        series.push(part, unsigned(total), &point, builder);
    }
    totals(series, &point, count, sum, builder);
    Ok(())
}

fn totals(
    series: &MetricSeries<'_>,
    point: &DataPoint<'_>,
    count: u64,
    sum: Option<f64>,
    builder: &mut BatchBuilder,
) {
    series.push(
        SeriesPart { suffix: "_count", kind: series.kind, label: None },
        unsigned(count),
        point,
        builder,
    );
    if let Some(sum) = sum {
        series.push(
            SeriesPart { suffix: "_sum", kind: series.kind, label: None },
            sum,
            point,
            builder,
        );
    }
}

fn exponential_point(
    bytes: &[u8],
    series: &MetricSeries<'_>,
    builder: &mut BatchBuilder,
) -> Result<(), MalformedMessage> {
    let (mut point, mut count, mut sum) = (DataPoint::default(), 0, None);
    let mut buckets = 0;
    for field in FieldReader(bytes) {
        let (number, value) = field?;
        match number {
            1 | 3 => point.take(value, number == 1)?,
            4 => count = value.integer(),
            5 => sum = Some(value.double()),
            8 | 9 => buckets += bucket_count(value.bytes())?,
            10 => point.is_missing = value.integer() & 1 == 1,
            _ => {}
        }
    }
    if buckets > 0 {
        point.attrs.push("exponential_buckets", buckets.to_string());
    }
    totals(series, &point, count, sum, builder);
    Ok(())
}

/// Number of buckets in a `Buckets` message.
fn bucket_count(bytes: &[u8]) -> Result<usize, MalformedMessage> {
    let mut count = 0;
    for field in FieldReader(bytes) {
        if let (2, counts) = field? {
            count += counts.varints().count();
        }
    }
    Ok(count)
}

/// Reads a `ValueAtQuantile`.
fn read_quantile(bytes: &[u8]) -> Result<(f64, f64), MalformedMessage> {
    let (mut quantile, mut value) = (0.0, 0.0);
    for field in FieldReader(bytes) {
        match field? {
            (1, part) => quantile = part.double(),
            (2, part) => value = part.double(),
            _ => {}
        }
    }
    Ok((quantile, value))
}

fn summary_point(
    bytes: &[u8],
    series: &MetricSeries<'_>,
    builder: &mut BatchBuilder,
) -> Result<(), MalformedMessage> {
    let (mut point, mut count, mut sum) = (DataPoint::default(), 0, None);
    let mut quantiles: Vec<(f64, f64)> = Vec::new();
    for field in FieldReader(bytes) {
        let (number, value) = field?;
        match number {
            3 | 7 => point.take(value, number == 7)?,
            4 => count = value.integer(),
            5 => sum = Some(value.double()),
            6 if quantiles.len() < MAX_BUCKETS => quantiles.push(read_quantile(value.bytes())?),
            8 => point.is_missing = value.integer() & 1 == 1,
            _ => {}
        }
    }
    for (quantile, value) in quantiles {
        let label = Some(("quantile", quantile.to_string()));
        let part = SeriesPart { suffix: "", kind: "quantile", label };
        series.push(part, value, &point, builder);
    }
    totals(series, &point, count, sum, builder);
    Ok(())
}
