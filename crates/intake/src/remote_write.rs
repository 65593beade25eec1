//! Prometheus remote write, versions 1 and 2: samples to rows of `metric`.
//!
//! From the Prometheus Remote-Write specifications 1.0 and 2.0. Prometheus sends the same bytes again until they are
//! taken, so a body that is known is a body sent again. Of native histograms `_count` and `_sum` are kept.

use http::request::Parts;
use http::{Method, StatusCode};
use weir_tables::{Metric, Micros};

use crate::attrs::Attrs;
use crate::harvest::{Harvest, Verdict};
use crate::http::{Answer, Ask, Protocol, Refusal};
use crate::protobuf::{Fields, Malformed, Wire};

/// The bits that Prometheus writes when a series has ended.
const STALE: u64 = 0x7ff0_0000_0000_0002;
/// Texts of one request at most (version 2 numbers them).
const MAX_SYMBOLS: usize = 1 << 20;
/// Labels that name the host, the first that is there.
const HOST_LABELS: &[&str] = &["host", "hostname", "host_name", "nodename", "node", "instance"];

pub(crate) struct RemoteWrite;

impl Protocol for RemoteWrite {
    const NAME: &'static str = "remote_write";
    /// Samples and histograms, which version 2 wants to be told.
    type Note = (usize, usize);

    fn is_for(parts: &Parts) -> bool {
        matches!(parts.uri.path(), "/api/v1/write" | "/api/v1/push")
    }

    fn read(ask: &Ask, harvest: &mut Harvest) -> Result<(usize, usize), Refusal> {
        if ask.parts.method != Method::POST {
            let message = "remote write is sent with POST";
            return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "bad_method", message));
        }
        let kind = ask.header("content-type");
        if !kind.starts_with("application/x-protobuf") {
            let message = format!("`{kind}` is not a content-type of remote write");
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unknown_type", message)
                .hint("application/x-protobuf, packed with snappy"));
        }
        let mut reader = Reader { harvest, peer: ask.peer.to_string(), samples: 0, histograms: 0 };
        let is_second = kind.contains("io.prometheus.write.v2.Request");
        let is_known = reader.harvest.is_known_body(Self::NAME, &ask.body)?;
        let body = if is_known { &[][..] } else { &ask.body[..] };
        let read = if is_second { reader.second(body) } else { reader.first(body) };
        let counts = (reader.samples, reader.histograms);
        read.map_err(|Malformed| Refusal::bad("the body is not a request of remote write"))?;
        harvest.checked()?;
        Ok(counts)
    }

    fn answer(_ask: &Ask, (samples, histograms): (usize, usize), _verdicts: &[Verdict]) -> Answer {
        Answer::new(StatusCode::NO_CONTENT, "", "")
            .with("x-prometheus-remote-write-samples-written", &samples.to_string())
            .with("x-prometheus-remote-write-histograms-written", &histograms.to_string())
            .with("x-prometheus-remote-write-exemplars-written", "0")
    }

    /// Prometheus logs the first line of the text, and sends again after 5xx and 429.
    fn refuse(refusal: &Refusal) -> Answer {
        let text = match &refusal.hint {
            Some(hint) => format!("{}; hint: {hint}\n", refusal.message),
            None => format!("{}\n", refusal.message),
        };
        Answer::new(refusal.status, "text/plain; charset=utf-8", text)
    }
}

struct Reader<'a> {
    harvest: &'a mut Harvest,
    peer: String,
    samples: usize,
    histograms: usize,
}

/// What the samples of one series share.
#[derive(Default)]
struct Series<'a> {
    name: &'a str,
    labels: Attrs<'a>,
    kind: Option<&'static str>,
    unit: Option<&'a str>,
}

impl<'a> Series<'a> {
    fn label(&mut self, name: &'a str, value: &'a str) {
        if name == "__name__" {
            self.name = value;
        } else {
            self.labels.push(name, value);
        }
    }
}

impl Reader<'_> {
    /// `WriteRequest`: time series, each with its labels as text.
    fn first(&mut self, body: &[u8]) -> Result<(), Malformed> {
        Fields(body).each(|number, series| {
            if number != 1 {
                return Ok(());
            }
            let mut shared = Series::default();
            Fields(series.bytes()).each(|number, label| {
                if number == 1 {
                    let (mut name, mut value) = ("", "");
                    Fields(label.bytes()).each(|number, part| {
                        match number {
                            1 => name = part.text().ok_or(Malformed)?,
                            2 => value = part.text().ok_or(Malformed)?,
                            _ => {}
                        }
                        Ok(())
                    })?;
                    shared.label(name, value);
                }
                Ok(())
            })?;
            shared.kind = kind_of_name(shared.name);
            self.samples(series.bytes(), 2, 4, shared)
        })
    }

    /// `Request`: texts are numbered once, series name their labels by number.
    fn second(&mut self, body: &[u8]) -> Result<(), Malformed> {
        let mut symbols: Vec<&str> = Vec::new();
        Fields(body).each(|number, symbol| {
            if number == 4 {
                if symbols.len() >= MAX_SYMBOLS {
                    return Err(Malformed);
                }
                symbols.push(symbol.text().ok_or(Malformed)?);
            }
            Ok(())
        })?;
        let text = |at: u64| {
            let at = usize::try_from(at).map_err(|_| Malformed)?;
            symbols.get(at).copied().ok_or(Malformed)
        };
        Fields(body).each(|number, series| {
            if number != 5 {
                return Ok(());
            }
            let mut shared = Series::default();
            let mut name = None;
            Fields(series.bytes()).each(|number, value| {
                match number {
                    1 => {
                        for at in value.varints() {
                            match name.take() {
                                None => name = Some(at),
                                Some(name) => shared.label(text(name)?, text(at)?),
                            }
                        }
                    }
                    5 => Fields(value.bytes()).each(|number, part| {
                        match number {
                            1 => shared.kind = kind_of_number(part.integer()),
                            4 => {
                                shared.unit =
                                    Some(text(part.integer())?).filter(|unit| !unit.is_empty())
                            }
                            _ => {}
                        }
                        Ok(())
                    })?,
                    _ => {}
                }
                Ok(())
            })?;
            shared.kind = kind_of_part(shared.name).or(shared.kind);
            self.samples(series.bytes(), 2, 3, shared)
        })
    }

    fn samples(
        &mut self,
        series: &[u8],
        samples: u64,
        histograms: u64,
        mut shared: Series<'_>,
    ) -> Result<(), Malformed> {
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
        Fields(series).each(|number, value| {
            if number == samples {
                (row.ts, row.value) = sample(value)?;
                self.harvest.metric_row(&row);
                self.samples += 1;
            } else if number == histograms {
                let (ts, count, sum) = histogram(value)?;
                for (name, value) in [(&names.0, count), (&names.1, sum)] {
                    let kind = Some("counter");
                    self.harvest.metric_row(&Metric { ts, name, kind, value: Some(value), ..row });
                }
                self.histograms += 1;
            }
            Ok(())
        })
    }
}

fn sample(bytes: Wire<'_>) -> Result<(Micros, Option<f64>), Malformed> {
    let (mut ts, mut value) = (Micros(0), 0.0_f64);
    Fields(bytes.bytes()).each(|number, part| {
        match number {
            1 => value = part.double(),
            2 => ts = millis(part),
            _ => {}
        }
        Ok(())
    })?;
    Ok((ts, Some(value).filter(|value| value.to_bits() != STALE)))
}

/// Time, count and sum of a native histogram.
fn histogram(bytes: Wire<'_>) -> Result<(Micros, f64, f64), Malformed> {
    let (mut ts, mut count, mut sum) = (Micros(0), 0.0, 0.0);
    Fields(bytes.bytes()).each(|number, part| {
        match number {
            1 => count = crate::number::unsigned(part.integer()),
            2 => count = part.double(),
            3 => sum = part.double(),
            15 => ts = millis(part),
            _ => {}
        }
        Ok(())
    })?;
    Ok((ts, count, sum))
}

fn millis(value: Wire<'_>) -> Micros {
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

/// Parts of histograms and summaries, told by the end of the name.
fn kind_of_part(name: &str) -> Option<&'static str> {
    if name.ends_with("_bucket") {
        Some("bucket")
    } else if name.ends_with("_sum") || name.ends_with("_count") {
        Some("counter")
    } else {
        None
    }
}

/// Version 1 sends kinds apart and rarely; the names tell them as well.
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
    use crate::check::{ask, harvest, mangled, rows};
    use crate::protobuf::{push_bytes, push_key, push_varint};

    fn sample(value: f64, millis: u64) -> Vec<u8> {
        let mut out = Vec::new();
        push_key(&mut out, 1, 1);
        out.extend_from_slice(&value.to_bits().to_le_bytes());
        push_key(&mut out, 2, 0);
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
            push_key(&mut metadata, number, 0);
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
        let ask = ask("POST", "/api/v1/write", &[kind], body);
        let mut harvest = harvest();
        let Ok(note) = RemoteWrite::read(&ask, &mut harvest) else { panic!("it is well formed") };
        let answer = RemoteWrite::answer(&ask, note, &harvest.verdicts);
        let written = &answer.headers["x-prometheus-remote-write-samples-written"];
        let columns = ["ts", "host", "name", "value", "kind", "unit", "labels"];
        expected.assert_eq(&format!(
            "{}written {}\n",
            rows(&mut harvest, &columns),
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
    fn the_same_body_again_is_known() {
        let ask = ask("POST", "/api/v1/write", &[FIRST], &first());
        let mut harvest = harvest();
        assert!(RemoteWrite::read(&ask, &mut harvest).is_ok());
        harvest.claims.commit(crate::check::NOW);
        assert!(RemoteWrite::read(&ask, &mut harvest).is_ok());
        assert_eq!(harvest.verdicts, [Verdict::Kept, Verdict::Kept, Verdict::Known]);
    }

    #[test]
    fn labels_that_are_not_there_and_other_bodies_are_refused() {
        let mut body = Vec::new();
        let mut series = Vec::new();
        push_bytes(&mut series, 1, &[7, 8]);
        push_bytes(&mut body, 5, &series);
        for (kind, body) in
            [(SECOND, &body[..]), (FIRST, b"\x0a\xff"), (("content-type", "text/plain"), b"")]
        {
            let ask = ask("POST", "/api/v1/write", &[kind], body);
            RemoteWrite::read(&ask, &mut harvest()).expect_err("refused");
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        let seeds = [(FIRST, first()), (SECOND, second())];
        arbtest::arbtest(|u| {
            let (kind, body) = u.choose(&seeds)?;
            let ask = ask("POST", "/api/v1/write", &[*kind], &mangled(u, body)?);
            let _ = RemoteWrite::read(&ask, &mut harvest());
            Ok(())
        });
    }
}
