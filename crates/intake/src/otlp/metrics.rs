//! Metrics of OTLP to rows of `metric`; histograms become several series, as in Prometheus.
//!
//! Exponential histograms give `_sum`, `_count` and the zero bucket; their other buckets are counted in the label
//! `exponential_buckets` of the row `_count`, not kept.

use weir_tables::Metric;

use super::value::{Resource, key_value, time};
use crate::attrs::Attrs;
use crate::harvest::Harvest;
use crate::number::{signed, unsigned};
use crate::protobuf::{Fields, Malformed, Wire};

/// Buckets of one histogram at most.
const MAX_BUCKETS: usize = 1000;

/// What all points of a metric share.
struct Series<'a> {
    name: &'a str,
    unit: Option<&'a str>,
    kind: &'static str,
    resource: &'a Resource<'a>,
}

/// Reads a `Metric`.
pub(super) fn read(
    bytes: &[u8],
    resource: &Resource<'_>,
    harvest: &mut Harvest,
) -> Result<(), Malformed> {
    let mut series = Series { name: "", unit: None, kind: "gauge", resource };
    let (mut points, mut shape) = (&[][..], 0);
    Fields(bytes).each(|number, value| {
        match number {
            1 => series.name = value.text().unwrap_or("invalid_utf8"),
            3 => series.unit = value.text().filter(|unit| !unit.is_empty()),
            5 | 7 | 9 | 10 | 11 => (shape, points) = (number, value.bytes()),
            _ => {}
        }
        Ok(())
    })?;
    series.kind = kind(shape, points)?;
    Fields(points).each(|number, point| {
        if number != 1 {
            return Ok(());
        }
        match shape {
            5 | 7 => number_point(point.bytes(), &series, harvest),
            9 => histogram_point(point.bytes(), &series, harvest),
            10 => exponential_point(point.bytes(), &series, harvest),
            _ => summary_point(point.bytes(), &series, harvest),
        }
    })
}

/// Sums since a start are counters, sums since the point before are deltas; a sum that can fall is a gauge.
fn kind(shape: u64, points: &[u8]) -> Result<&'static str, Malformed> {
    let (mut temporality, mut is_monotonic) = (0, false);
    Fields(points).each(|number, value| {
        match number {
            2 => temporality = value.integer(),
            3 => is_monotonic = value.integer() != 0,
            _ => {}
        }
        Ok(())
    })?;
    Ok(match (shape, temporality) {
        (7 | 9 | 10, 1) => "delta",
        (7, _) if !is_monotonic => "gauge",
        (7 | 9 | 10 | 11, _) => "counter",
        _ => "gauge",
    })
}

impl Series<'_> {
    fn push(
        &self,
        suffix: &str,
        kind: &str,
        value: f64,
        point: &Point<'_>,
        label: Option<(&str, String)>,
        harvest: &mut Harvest,
    ) {
        let mut labels = point.attrs.clone();
        if let Some((key, value)) = label {
            labels.push(key.to_owned(), value);
        }
        if let Some(service) = &self.resource.service {
            labels.push("service.name", service.as_ref());
        }
        labels.extend(&self.resource.attrs);
        let name = format!("{}{suffix}", self.name);
        harvest.metric_row(&Metric {
            ts: time(point.time).unwrap_or(harvest.now),
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

#[derive(Default)]
struct Point<'a> {
    time: u64,
    attrs: Attrs<'a>,
    /// Flag 1: the series has ended.
    is_missing: bool,
}

impl<'a> Point<'a> {
    fn take(&mut self, value: Wire<'a>, is_attribute: bool) -> Result<(), Malformed> {
        if is_attribute {
            return key_value(value.bytes(), "", 0, &mut self.attrs);
        }
        self.time = value.integer();
        Ok(())
    }
}

fn number_point(bytes: &[u8], series: &Series<'_>, harvest: &mut Harvest) -> Result<(), Malformed> {
    let (mut point, mut number_value) = (Point::default(), 0.0);
    Fields(bytes).each(|number, value| {
        match number {
            3 | 7 => point.take(value, number == 7)?,
            4 => number_value = value.double(),
            6 => number_value = signed(value.signed()),
            8 => point.is_missing = value.integer() & 1 == 1,
            _ => {}
        }
        Ok(())
    })?;
    series.push("", series.kind, number_value, &point, None, harvest);
    Ok(())
}

fn histogram_point(
    bytes: &[u8],
    series: &Series<'_>,
    harvest: &mut Harvest,
) -> Result<(), Malformed> {
    let (mut point, mut count, mut sum) = (Point::default(), 0, None);
    let (mut buckets, mut bounds): (Vec<u64>, Vec<f64>) = (Vec::new(), Vec::new());
    Fields(bytes).each(|number, value| {
        let room = |have: usize| MAX_BUCKETS.saturating_sub(have);
        match number {
            3 | 9 => point.take(value, number == 9)?,
            4 => count = value.integer(),
            5 => sum = Some(value.double()),
            6 => buckets.extend(value.fixed64s().take(room(buckets.len()))),
            7 => bounds.extend(value.fixed64s().map(f64::from_bits).take(room(bounds.len()))),
            10 => point.is_missing = value.integer() & 1 == 1,
            _ => {}
        }
        Ok(())
    })?;
    let mut total = 0_u64;
    for (at, in_bucket) in buckets.iter().enumerate() {
        total = total.saturating_add(*in_bucket);
        let bound = bounds.get(at).map_or_else(|| "+Inf".to_owned(), f64::to_string);
        series.push("_bucket", "bucket", unsigned(total), &point, Some(("le", bound)), harvest);
    }
    totals(series, &point, count, sum, harvest);
    Ok(())
}

fn totals(
    series: &Series<'_>,
    point: &Point<'_>,
    count: u64,
    sum: Option<f64>,
    harvest: &mut Harvest,
) {
    series.push("_count", series.kind, unsigned(count), point, None, harvest);
    if let Some(sum) = sum {
        series.push("_sum", series.kind, sum, point, None, harvest);
    }
}

fn exponential_point(
    bytes: &[u8],
    series: &Series<'_>,
    harvest: &mut Harvest,
) -> Result<(), Malformed> {
    let (mut point, mut count, mut sum) = (Point::default(), 0, None);
    let mut buckets = 0;
    Fields(bytes).each(|number, value| {
        match number {
            1 | 3 => point.take(value, number == 1)?,
            4 => count = value.integer(),
            5 => sum = Some(value.double()),
            8 | 9 => Fields(value.bytes()).each(|number, counts| {
                buckets += if number == 2 { counts.varints().count() } else { 0 };
                Ok(())
            })?,
            10 => point.is_missing = value.integer() & 1 == 1,
            _ => {}
        }
        Ok(())
    })?;
    if buckets > 0 {
        point.attrs.push("exponential_buckets", buckets.to_string());
    }
    totals(series, &point, count, sum, harvest);
    Ok(())
}

fn summary_point(
    bytes: &[u8],
    series: &Series<'_>,
    harvest: &mut Harvest,
) -> Result<(), Malformed> {
    let (mut point, mut count, mut sum) = (Point::default(), 0, None);
    let mut quantiles: Vec<(f64, f64)> = Vec::new();
    Fields(bytes).each(|number, value| {
        match number {
            3 | 7 => point.take(value, number == 7)?,
            4 => count = value.integer(),
            5 => sum = Some(value.double()),
            6 if quantiles.len() < MAX_BUCKETS => {
                let mut pair = (0.0, 0.0);
                Fields(value.bytes()).each(|number, part| {
                    match number {
                        1 => pair.0 = part.double(),
                        2 => pair.1 = part.double(),
                        _ => {}
                    }
                    Ok(())
                })?;
                quantiles.push(pair);
            }
            8 => point.is_missing = value.integer() & 1 == 1,
            _ => {}
        }
        Ok(())
    })?;
    for (quantile, value) in quantiles {
        let label = Some(("quantile", quantile.to_string()));
        series.push("", "quantile", value, &point, label, harvest);
    }
    totals(series, &point, count, sum, harvest);
    Ok(())
}
