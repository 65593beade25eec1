//! statsd over UDP: lines of `name:value|type` in a datagram, to rows of `metric`, unaggregated.
//!
//! From statsd's `docs/metric_types.md` and DogStatsD's extensions (tags, several values). weir
//! does not aggregate: SQL does, over any time range. A counter with a sample rate is scaled up.

use weir_tables::Metric;

use crate::attrs::Attrs;
use crate::batch_builder::{BatchBuilder, RejectCause, RowOrigin};

const SOURCE: &str = "statsd";

/// Reads a datagram.
pub(crate) fn read(datagram: &[u8], peer: &str, builder: &mut BatchBuilder) {
    for line in datagram.split(|byte| *byte == b'\n') {
        let line = line.trim_ascii();
        if line.is_empty() || builder.is_full() {
            continue;
        }
        if let Err(detail) = samples(line, peer, builder) {
            let fault = RejectCause { parser: SOURCE, reason: "no_match", detail };
            builder.reject(RowOrigin { host: peer, source: SOURCE }, &fault, line);
        }
    }
}

fn samples(line: &[u8], peer: &str, builder: &mut BatchBuilder) -> Result<(), &'static str> {
    let text = std::str::from_utf8(line).map_err(|_| "the line is not UTF-8")?;
    let (name, rest) = text.split_once(':').ok_or("a line is `name:value|type`")?;
    let mut parts = rest.split('|');
    let values = parts.next().unwrap_or_default();
    let kind = parts.next().ok_or("a line is `name:value|type`")?;
    let (mut rate, mut labels) = (1.0, Attrs::default());
    for part in parts {
        if let Some(text) = part.strip_prefix('@') {
            rate = text
                .parse()
                .ok()
                .filter(|rate| *rate > 0.0)
                .ok_or("the sample rate is not a positive number")?;
        } else if let Some(tags) = part.strip_prefix('#') {
            for tag in tags.split(',') {
                let (key, value) = tag.split_once(':').unwrap_or((tag, "true"));
                labels.push(key, value);
            }
        }
    }
    let host = labels.get("host").unwrap_or(peer).to_owned();
    // All values are checked before the first is kept, because a line is kept completely or not at
    // all.
    let values: Vec<&str> = if kind == "s" { vec![values] } else { values.split(':').collect() };
    let scale = SampleScale { kind, rate };
    let rows: Vec<(f64, &'static str, Option<&'static str>)> =
        values.iter().map(|value| scale.row(value)).collect::<Result<_, _>>()?;
    if kind == "s" {
        labels.push("set_member", values[0]);
    }
    let labels = labels.finish();
    for (value, kind, unit) in rows {
        builder.metric_row(&Metric {
            ts: builder.now,
            host: &host,
            name,
            labels: &labels,
            value: Some(value),
            kind: Some(kind),
            unit,
            source: SOURCE,
        });
    }
    Ok(())
}

/// Type and sample rate of a line.
struct SampleScale<'a> {
    kind: &'a str,
    rate: f64,
}

impl SampleScale<'_> {
    /// Value, kind and unit of one sample.
    fn row(&self, value: &str) -> Result<(f64, &'static str, Option<&'static str>), &'static str> {
        if self.kind == "s" {
            return Ok((1.0, "sample", None));
        }
        let number: f64 = value.parse().map_err(|_| "the value is not a number")?;
        match self.kind {
            "c" | "m" => Ok((number / self.rate, "delta", None)),
            // With a sign it is a change of the gauge.
            "g" if value.starts_with(['+', '-']) => Ok((number, "delta", None)),
            "g" => Ok((number, "gauge", None)),
            "ms" => Ok((number, "sample", Some("ms"))),
            "h" | "d" => Ok((number, "sample", None)),
            _ => Err("the type is none of c, g, ms, h, d, s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::check::{builder, mangled, texts};

    #[test]
    fn samples_of_every_type_are_rows() {
        let mut builder = builder();
        let datagram = b"hits:1|c|@0.1\nload:0.5|g\nload:-1|g\ntook:320:5|ms|#path:/a,host:web1\nusers:765|s\nbad\nbad:x|c\nbad:1|q\n";
        read(datagram, "192.0.2.1", &mut builder);
        let batches = builder.own_rows();
        expect![[r#"
            host=192.0.2.1 name=hits value=10.0 kind=delta unit= labels={}
            host=192.0.2.1 name=load value=0.5 kind=gauge unit= labels={}
            host=192.0.2.1 name=load value=-1.0 kind=delta unit= labels={}
            host=web1 name=took value=320.0 kind=sample unit=ms labels={path: /a, host: web1}
            host=web1 name=took value=5.0 kind=sample unit=ms labels={path: /a, host: web1}
            host=192.0.2.1 name=users value=1.0 kind=sample unit= labels={set_member: 765}
        "#]]
        .assert_eq(&texts(&batches[0], &["host", "name", "value", "kind", "unit", "labels"]));
        assert_eq!((batches[1].table.name, batches[1].rows.num_rows()), ("reject", 3));
    }

    #[test]
    fn any_bytes_are_read_or_rejected() {
        arbtest::arbtest(|u| {
            let bytes = mangled(u, b"a:1|c|@0.5|#b:c\nd:2:3|ms\ne:f|s")?;
            read(&bytes, "p", &mut builder());
            Ok(())
        });
    }
}
