//! Prometheus remote write, versions 1 and 2: samples to rows of `metric`.
//!
//! From the Prometheus Remote-Write specifications 1.0 and 2.0. Prometheus resends the same bytes
//! until they are accepted, so a known body is a retry. For native histograms, only `_count` and
//! `_sum` are kept.

use http::request::Parts;
use http::{Method, StatusCode};
use weir_tables::{Metric, Micros};

use crate::attrs::Attrs;
use crate::batch_builder::{BatchBuilder, ItemVerdict};
use crate::protobuf::{FieldReader, MalformedMessage, WireValue, read_pair, utf8};
use crate::protocol::{HttpProtocol, IntakeRequest};
use crate::response::{IntakeResponse, Refusal};

/// Prometheus' stale marker: the bits of a value when a series has ended.
const STALE: u64 = 0x7ff0_0000_0000_0002;
/// Most symbols of one request of version 2.
const MAX_SYMBOLS: usize = 1 << 20;
/// Labels that name the host, in order of precedence.
const HOST_LABELS: &[&str] = &["host", "hostname", "host_name", "nodename", "node", "instance"];

pub(crate) struct RemoteWrite;

impl HttpProtocol for RemoteWrite {
    const NAME: &'static str = "remote_write";
    /// Samples and histograms, which the response of version 2 reports.
    type Note = (usize, usize);

    fn is_for(parts: &Parts) -> bool {
        matches!(parts.uri.path(), "/api/v1/write" | "/api/v1/push")
    }

    fn read(
        request: &IntakeRequest,
        builder: &mut BatchBuilder,
    ) -> Result<(usize, usize), Refusal> {
        if request.parts.method != Method::POST {
            let message = "send remote write with POST";
            return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "bad_method", message));
        }
        let kind = request.header("content-type");
        if !kind.starts_with("application/x-protobuf") {
            let message = format!("`{kind}` is not a content-type of remote write");
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unknown_type", message)
                .hint("application/x-protobuf, compressed with snappy"));
        }
        let mut reader =
            WriteReader { builder, peer: request.peer.to_string(), samples: 0, histograms: 0 };
        let is_version_2 = kind.contains("io.prometheus.write.v2.Request");
        let is_known = reader.builder.is_known_body(Self::NAME, &request.body)?;
        let body = if is_known { &[][..] } else { &request.body[..] };
        let outcome =
            if is_version_2 { reader.read_version_2(body) } else { reader.read_version_1(body) };
        let counts = (reader.samples, reader.histograms);
        outcome.map_err(|MalformedMessage| {
            Refusal::bad("the body is not a request of remote write")
        })?;
        builder.checked()?;
        Ok(counts)
    }

    fn respond(
        _request: &IntakeRequest,
        (samples, histograms): (usize, usize),
        _verdicts: &[ItemVerdict],
    ) -> IntakeResponse {
        IntakeResponse::new(StatusCode::NO_CONTENT, "", "")
            .with(("x-prometheus-remote-write-samples-written", &samples.to_string()))
            .with(("x-prometheus-remote-write-histograms-written", &histograms.to_string()))
            .with(("x-prometheus-remote-write-exemplars-written", "0"))
    }

    /// Prometheus logs the first line of the text, and retries after 5xx and 429.
    fn refuse(refusal: &Refusal) -> IntakeResponse {
        let text = match &refusal.hint {
            Some(hint) => format!("{}; hint: {hint}\n", refusal.message),
            None => format!("{}\n", refusal.message),
        };
        IntakeResponse::new(refusal.status, "text/plain; charset=utf-8", text)
    }
}

struct WriteReader<'a> {
    builder: &'a mut BatchBuilder,
    peer: String,
    samples: usize,
    histograms: usize,
}

/// Context shared by the samples of one series.
#[derive(Default)]
struct SharedSeries<'a> {
    name: &'a str,
    labels: Attrs<'a>,
    kind: Option<&'static str>,
    unit: Option<&'a str>,
}

impl<'a> SharedSeries<'a> {
    fn label(&mut self, (name, value): (&'a str, &'a str)) {
        if name == "__name__" {
            self.name = value;
        } else {
            self.labels.push(name, value);
        }
    }
}

impl WriteReader<'_> {
    /// `WriteRequest`: time series, each with its labels as text.
    fn read_version_1(&mut self, body: &[u8]) -> Result<(), MalformedMessage> {
        for series in FieldReader(body).messages(1) {
            let series = FieldReader(series?);
            let mut shared = SharedSeries::default();
            for label in series.messages(1) {
                shared.label(read_pair(label?)?);
            }
            shared.kind = kind_of_name(shared.name);
            self.samples(series, SampleFields { sample: 2, histogram: 4 }, shared)?;
        }
        Ok(())
    }

    /// `Request`: texts are symbols, and series refer to them by number.
    fn read_version_2(&mut self, body: &[u8]) -> Result<(), MalformedMessage> {
        let mut symbols = SymbolTable::default();
        for symbol in FieldReader(body).messages(4) {
            symbols.push(utf8(symbol?)?)?;
        }
        for series in FieldReader(body).messages(5) {
            let series = FieldReader(series?);
            let mut shared = SharedSeries::default();
            let mut name = None;
            for field in series {
                match field? {
                    (1, references) => {
                        for at in references.varints() {
                            match name.take() {
                                None => name = Some(at),
                                Some(name) => shared.label((symbols.get(name)?, symbols.get(at)?)),
                            }
                        }
                    }
                    (5, metadata) => read_metadata(metadata.bytes(), &symbols, &mut shared)?,
                    _ => {}
                }
            }
            shared.kind = kind_of_part(shared.name).or(shared.kind);
            self.samples(series, SampleFields { sample: 2, histogram: 3 }, shared)?;
        }
        Ok(())
    }

    fn samples(
        &mut self,
        series: FieldReader<'_>,
        fields: SampleFields,
        mut shared: SharedSeries<'_>,
    ) -> Result<(), MalformedMessage> {
        let named = HOST_LABELS.iter().find_map(|label| shared.labels.get(label));
        let host = named.map_or_else(|| self.peer.clone(), |named| without_port(named).to_owned());
        let labels = shared.labels.finish();
        let mut row = Metric {
            host: &host,
            name: shared.name,
            labels: &labels,
            kind: shared.kind,
            unit: shared.unit,
            source: RemoteWrite::NAME,
            ..Metric::default()
        };
        let names = (format!("{}_count", shared.name), format!("{}_sum", shared.name));
        for field in series {
            let (number, value) = field?;
            if number == fields.sample {
                (row.ts, row.value) = sample(value)?;
                self.builder.metric_row(&row);
                self.samples += 1;
            } else if number == fields.histogram {
                let (ts, count, sum) = histogram(value)?;
                for (name, value) in [(&names.0, count), (&names.1, sum)] {
                    let kind = Some("counter");
                    self.builder.metric_row(&Metric { ts, name, kind, value: Some(value), ..row });
                }
                self.histograms += 1;
            }
        }
        Ok(())
    }
}

/// Field numbers of samples and native histograms in a series.
#[derive(Clone, Copy)]
struct SampleFields {
    sample: u64,
    histogram: u64,
}

/// Texts of a request of version 2.
#[derive(Default)]
struct SymbolTable<'a>(Vec<&'a str>);

impl<'a> SymbolTable<'a> {
    fn push(&mut self, symbol: &'a str) -> Result<(), MalformedMessage> {
        if self.0.len() >= MAX_SYMBOLS {
            return Err(MalformedMessage);
        }
        self.0.push(symbol);
        Ok(())
    }

    fn get(&self, at: u64) -> Result<&'a str, MalformedMessage> {
        let at = usize::try_from(at).map_err(|_| MalformedMessage)?;
        self.0.get(at).copied().ok_or(MalformedMessage)
    }
}

/// Reads a series' `Metadata`: its type and unit.
fn read_metadata<'a>(
    bytes: &[u8],
    symbols: &SymbolTable<'a>,
    shared: &mut SharedSeries<'a>,
) -> Result<(), MalformedMessage> {
    for field in FieldReader(bytes) {
        match field? {
            (1, kind) => shared.kind = kind_of_number(kind.integer()),
            (4, unit) => {
                shared.unit = Some(symbols.get(unit.integer())?).filter(|unit| !unit.is_empty());
            }
            _ => {}
        }
    }
    Ok(())
}

fn sample(message: WireValue<'_>) -> Result<(Micros, Option<f64>), MalformedMessage> {
    let (mut ts, mut value) = (Micros(0), 0.0_f64);
    for field in FieldReader(message.bytes()) {
        match field? {
            (1, part) => value = part.double(),
            (2, part) => ts = millis(part),
            _ => {}
        }
    }
    Ok((ts, Some(value).filter(|value| value.to_bits() != STALE)))
}

/// Time, count and sum of a native histogram.
fn histogram(message: WireValue<'_>) -> Result<(Micros, f64, f64), MalformedMessage> {
    let (mut ts, mut count, mut sum) = (Micros(0), 0.0, 0.0);
    for field in FieldReader(message.bytes()) {
        match field? {
            (1, part) => count = crate::number::unsigned(part.integer()),
            (2, part) => count = part.double(),
            (3, part) => sum = part.double(),
            (15, part) => ts = millis(part),
            _ => {}
        }
    }
    Ok((ts, count, sum))
}

fn millis(value: WireValue<'_>) -> Micros {
    Micros(value.signed().saturating_mul(1000))
}

/// `web1:9100` is the host `web1`.
fn without_port(instance: &str) -> &str {
    match instance.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => {
            host.trim_start_matches('[').trim_end_matches(']')
        }
        _ => instance,
    }
}

/// Kind of a part of a histogram or summary, from the suffix of its name.
fn kind_of_part(name: &str) -> Option<&'static str> {
    if name.ends_with("_bucket") {
        Some("bucket")
    } else if name.ends_with("_sum") || name.ends_with("_count") {
        Some("counter")
    } else {
        None
    }
}

/// Kind from the name alone: version 1 sends metadata separately and rarely.
pub(crate) fn kind_of_name(name: &str) -> Option<&'static str> {
    kind_of_part(name).or_else(|| name.ends_with("_total").then_some("counter"))
}

fn kind_of_number(number: u64) -> Option<&'static str> {
    match number {
        1 => Some("counter"),
        2 | 6 | 7 => Some("gauge"),
        5 => Some("quantile"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::check::{builder, mangled, request, rows};
    use crate::protobuf::{WireType, push_bytes, push_key, push_varint};

    fn sample(value: f64, millis: u64) -> Vec<u8> {
        let mut out = Vec::new();
        push_key(&mut out, 1, WireType::Fixed64);
        out.extend_from_slice(&value.to_bits().to_le_bytes());
        push_key(&mut out, 2, WireType::Varint);
        push_varint(&mut out, millis);
        out
    }

    fn first() -> Vec<u8> {
        let mut series = Vec::new();
        for (name, value) in
            [("__name__", "hits_total"), ("instance", "web1:9100"), ("job", "node")]
        {
            let mut label = Vec::new();
            push_bytes(&mut label, 1, name.as_bytes());
            push_bytes(&mut label, 2, value.as_bytes());
            push_bytes(&mut series, 1, &label);
        }
        push_bytes(&mut series, 2, &sample(5.0, 1_795_176_000_000));
        push_bytes(&mut series, 2, &sample(f64::from_bits(STALE), 1_795_176_015_000));
        let mut body = Vec::new();
        push_bytes(&mut body, 1, &series);
        body
    }

    fn second() -> Vec<u8> {
        let mut body = Vec::new();
        for symbol in ["", "__name__", "temp", "host", "web2", "celsius"] {
            push_bytes(&mut body, 4, symbol.as_bytes());
        }
        let mut metadata = Vec::new();
        for (number, value) in [(1, 2), (4, 5)] {
            push_key(&mut metadata, number, WireType::Varint);
            push_varint(&mut metadata, value);
        }
        let mut series = Vec::new();
        push_bytes(&mut series, 1, &[1, 2, 3, 4]);
        push_bytes(&mut series, 2, &sample(21.5, 1_795_176_000_000));
        push_bytes(&mut series, 5, &metadata);
        push_bytes(&mut body, 5, &series);
        body
    }

    const FIRST: (&str, &str) = ("content-type", "application/x-protobuf");
    const SECOND: (&str, &str) =
        ("content-type", "application/x-protobuf;proto=io.prometheus.write.v2.Request");

    fn check(kind: (&str, &str), body: &[u8], expected: &Expect) {
        let request = request(Method::POST, "/api/v1/write", &[kind], body);
        let mut builder = builder();
        let Ok(note) = RemoteWrite::read(&request, &mut builder) else {
            panic!("it is well formed")
        };
        let response = RemoteWrite::respond(&request, note, &builder.verdicts);
        let written = &response.headers["x-prometheus-remote-write-samples-written"];
        let columns = ["ts", "host", "name", "value", "kind", "unit", "labels"];
        expected.assert_eq(&format!(
            "{}written {}\n",
            rows(&mut builder, &columns),
            written.to_str().expect("text")
        ));
    }

    #[test]
    fn samples_of_both_versions_are_rows_under_their_instance() {
        check(
            FIRST,
            &first(),
            &expect![[r#"
            ts=2026-11-20T12:00:00Z host=web1 name=hits_total value=5.0 kind=counter unit= labels={instance: web1:9100, job: node}
            ts=2026-11-20T12:00:15Z host=web1 name=hits_total value= kind=counter unit= labels={instance: web1:9100, job: node}
            written 2
        "#]],
        );
        check(
            SECOND,
            &second(),
            &expect![[r#"
            ts=2026-11-20T12:00:00Z host=web2 name=temp value=21.5 kind=gauge unit=celsius labels={host: web2}
            written 1
        "#]],
        );
    }

    #[test]
    fn a_repeated_body_is_known() {
        let request = request(Method::POST, "/api/v1/write", &[FIRST], &first());
        let mut builder = builder();
        assert!(RemoteWrite::read(&request, &mut builder).is_ok());
        builder.claims.commit(crate::check::NOW);
        assert!(RemoteWrite::read(&request, &mut builder).is_ok());
        assert_eq!(builder.verdicts, [ItemVerdict::Kept, ItemVerdict::Kept, ItemVerdict::Known]);
    }

    #[test]
    fn missing_symbols_and_other_bodies_are_refused() {
        let mut body = Vec::new();
        let mut series = Vec::new();
        push_bytes(&mut series, 1, &[7, 8]);
        push_bytes(&mut body, 5, &series);
        for (kind, body) in
            [(SECOND, &body[..]), (FIRST, b"\x0a\xff"), (("content-type", "text/plain"), b"")]
        {
            let request = request(Method::POST, "/api/v1/write", &[kind], body);
            RemoteWrite::read(&request, &mut builder()).expect_err("refused");
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        let seeds = [(FIRST, first()), (SECOND, second())];
        arbtest::arbtest(|u| {
            let (kind, body) = u.choose(&seeds)?;
            let request = request(Method::POST, "/api/v1/write", &[*kind], &mangled(u, body)?);
            let _ = RemoteWrite::read(&request, &mut builder());
            Ok(())
        });
    }
}
