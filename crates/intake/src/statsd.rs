//! statsd over UDP: lines of `name:value|type` in a datagram, to rows of `metric`, unaggregated.
//!
//! From statsd's `docs/metric_types.md` and DogStatsD's datagram reference (tags, several values,
//! times, events, service checks). weir does not aggregate: SQL does, over any time range. A counter
//! with a sample rate is scaled up. Tags may also be in the name, as InfluxDB, Librato and SignalFx
//! have them. Events and service checks are rows of `log`.

use std::borrow::Cow;

use weir_tables::{Log, Metric, Micros};

use crate::attrs::Attrs;
use crate::batch_builder::{BatchBuilder, RejectCause, RowOrigin};

const SOURCE: &str = "statsd";

/// Marks before the tags in a name: InfluxDB's `name,a=b`, Librato's `name#a=b`, SignalFx's
/// `name[a=b]more`.
const NAME_TAGS: [char; 3] = [',', '#', '['];

/// Reads a datagram.
pub(crate) fn read(datagram: &[u8], peer: &str, builder: &mut BatchBuilder) {
    for line in datagram.split(|byte| *byte == b'\n') {
        let line = line.trim_ascii();
        if line.is_empty() || builder.is_full() {
            continue;
        }
        let read = if line.starts_with(b"_e{") {
            event(line, peer, builder)
        } else if line.starts_with(b"_sc|") {
            service_check(line, peer, builder)
        } else {
            samples(line, peer, builder)
        };
        if let Err(detail) = read {
            let fault = RejectCause { parser: SOURCE, reason: "no_match", detail };
            builder.reject(RowOrigin { host: peer, source: SOURCE }, &fault, line);
        }
    }
}

fn samples(line: &[u8], peer: &str, builder: &mut BatchBuilder) -> Result<(), &'static str> {
    let text = std::str::from_utf8(line).map_err(|_| "the line is not UTF-8")?;
    let (name, rest) = split_name(text).ok_or("a line is `name:value|type`")?;
    let mut parts = rest.split('|');
    let values = parts.next().unwrap_or_default();
    let kind = parts.next().ok_or("a line is `name:value|type`")?;
    let (mut rate, mut labels, mut ts) = (1.0, Attrs::default(), builder.now);
    for part in parts {
        if let Some(seconds) = part.strip_prefix('T') {
            ts = unix_seconds(seconds)?;
        } else if let Some(text) = part.strip_prefix('@') {
            rate = text
                .parse()
                .ok()
                .filter(|rate| *rate > 0.0)
                .ok_or("the sample rate is not a positive number")?;
        } else if let Some(tags) = part.strip_prefix('#') {
            push_tags(tags, &mut labels);
        }
    }
    let name = push_name_tags(name, &mut labels);
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
            ts,
            host: &host,
            name: &name,
            labels: &labels,
            value: Some(value),
            kind: Some(kind),
            unit,
            source: SOURCE,
        });
    }
    Ok(())
}

/// Adds tags, `key:value` or a word.
fn push_tags<'a>(tags: &'a str, labels: &mut Attrs<'a>) {
    for tag in tags.split(',').filter(|tag| !tag.is_empty()) {
        let (key, value) = tag.split_once(':').unwrap_or((tag, "true"));
        labels.push(key, value);
    }
}

/// Name and rest of a line: tags in the name may have colons, values have none before their type.
fn split_name(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once(':')?;
    let mark = name.find(NAME_TAGS).filter(|at| name[*at..].contains('='));
    let Some(mark) = mark else { return Some((name, rest)) };
    let head = &text[..text.find('|')?];
    let end = match head.get(mark..)?.strip_prefix('[').and_then(|tags| tags.find(']')) {
        Some(close) => mark + 1 + close + head[mark + 1 + close..].find(':')?,
        None => head.rfind(':')?,
    };
    Some((&text[..end], &text[end + 1..]))
}

/// The name without tags in it, which become labels.
fn push_name_tags<'a>(name: &'a str, labels: &mut Attrs<'a>) -> Cow<'a, str> {
    let Some(mark) = name.find(NAME_TAGS).filter(|at| name[*at..].contains('=')) else {
        return Cow::Borrowed(name);
    };
    let (front, tags) = (&name[..mark], &name[mark + 1..]);
    let (tags, behind) = match name[mark..].starts_with('[').then(|| tags.split_once(']')) {
        Some(Some(parts)) => parts,
        _ => (tags, ""),
    };
    for tag in tags.split(',').filter(|tag| !tag.is_empty()) {
        let (key, value) = tag.split_once('=').unwrap_or((tag, "true"));
        labels.push(key, value);
    }
    if behind.is_empty() { Cow::Borrowed(front) } else { Cow::Owned(format!("{front}{behind}")) }
}

fn unix_seconds(text: &str) -> Result<Micros, &'static str> {
    let seconds: i64 = text.parse().map_err(|_| "the time is not a number of seconds")?;
    Ok(Micros(seconds.saturating_mul(1_000_000)))
}

/// An event, `_e{TITLE_BYTES,TEXT_BYTES}:TITLE|TEXT|d:TIME|h:HOST|p:PRIORITY|t:TYPE|#TAGS`.
fn event(line: &[u8], peer: &str, builder: &mut BatchBuilder) -> Result<(), &'static str> {
    const FORM: &str = "an event is `_e{title bytes,text bytes}:title|text`";
    let text = std::str::from_utf8(line).map_err(|_| "the line is not UTF-8")?;
    let (lengths, rest) =
        text.strip_prefix("_e{").and_then(|text| text.split_once("}:")).ok_or(FORM)?;
    let (title_bytes, text_bytes) = lengths.split_once(',').ok_or(FORM)?;
    let title_bytes: usize = title_bytes.parse().map_err(|_| FORM)?;
    let text_bytes: usize = text_bytes.parse().map_err(|_| FORM)?;
    let (title, rest) = rest.split_at_checked(title_bytes).ok_or(FORM)?;
    let (text, rest) = rest
        .strip_prefix('|')
        .and_then(|rest| rest.split_at_checked(text_bytes))
        .ok_or("the lengths of title and text do not fit")?;
    let fields = LineFields::read(rest, LineOrigin { peer, now: builder.now })?;
    let severity = match fields.alert_type {
        Some("error") => "error",
        Some("warning") => "warn",
        _ => "info",
    };
    let text = text.replace("\\n", "\n");
    let body = if text.is_empty() { title.to_owned() } else { format!("{title}\n{text}") };
    fields.push_row(severity, body, builder);
    Ok(())
}

/// A service check, `_sc|NAME|STATUS|d:TIME|h:HOST|#TAGS|m:MESSAGE`.
fn service_check(line: &[u8], peer: &str, builder: &mut BatchBuilder) -> Result<(), &'static str> {
    let text = std::str::from_utf8(line).map_err(|_| "the line is not UTF-8")?;
    let mut parts = text.splitn(4, '|').skip(1);
    let name = parts.next().unwrap_or_default();
    let (severity, status) = match parts.next() {
        Some("0") => ("info", "ok"),
        Some("1") => ("warn", "warning"),
        Some("2") => ("error", "critical"),
        Some("3") => ("notice", "unknown"),
        _ => return Err("a service check is `_sc|name|status`, its status 0, 1, 2 or 3"),
    };
    let rest = parts.next().map(|rest| &text[text.len() - rest.len() - 1..]).unwrap_or_default();
    let mut fields = LineFields::read(rest, LineOrigin { peer, now: builder.now })?;
    fields.labels.push("service_check", name);
    fields.labels.push("status", status);
    let body = match fields.message {
        Some(message) => format!("{name} is {status}: {message}"),
        None => format!("{name} is {status}"),
    };
    fields.push_row(severity, body, builder);
    Ok(())
}

/// Sender and time of arrival.
struct LineOrigin<'a> {
    peer: &'a str,
    now: Micros,
}

/// Fields behind the text of an event or the status of a service check, each after a `|`.
struct LineFields<'a> {
    ts: Micros,
    peer: &'a str,
    host: Option<&'a str>,
    alert_type: Option<&'a str>,
    message: Option<&'a str>,
    labels: Attrs<'a>,
}

impl<'a> LineFields<'a> {
    fn read(rest: &'a str, origin: LineOrigin<'a>) -> Result<Self, &'static str> {
        let mut fields = Self {
            ts: origin.now,
            peer: origin.peer,
            host: None,
            alert_type: None,
            message: None,
            labels: Attrs::default(),
        };
        let mut rest = rest;
        while let Some(field) = rest.strip_prefix('|') {
            // A message is the last field and may have any letters.
            if let Some(message) = field.strip_prefix("m:") {
                fields.message = Some(message);
                break;
            }
            let end = field.find('|').unwrap_or(field.len());
            let (part, behind) = field.split_at(end);
            rest = behind;
            if let Some(tags) = part.strip_prefix('#') {
                push_tags(tags, &mut fields.labels);
            }
            match part.split_once(':') {
                Some(("d", seconds)) => fields.ts = unix_seconds(seconds)?,
                Some(("h", host)) if !host.is_empty() => fields.host = Some(host),
                Some(("t", kind)) => fields.alert_type = Some(kind),
                Some(("k", key)) => fields.labels.push("aggregation_key", key),
                Some(("s", source)) => fields.labels.push("source_type", source),
                _ => {}
            }
        }
        Ok(fields)
    }

    fn push_row(mut self, severity: &'static str, body: String, builder: &mut BatchBuilder) {
        let host = self.host.or_else(|| self.labels.get("host")).unwrap_or(self.peer).to_owned();
        builder.log_row(&Log {
            ts: self.ts,
            host: &host,
            observed_ts: builder.now,
            source: SOURCE,
            severity: Some(severity),
            body: &body,
            attrs: &self.labels.finish(),
            ..Log::default()
        });
    }
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

    fn rows_of<'a>(batches: &'a [weir_tables::Batch], table: &str) -> &'a weir_tables::Batch {
        batches.iter().find(|batch| batch.table.name == table).expect("rows of the table")
    }

    /// From DogStatsD's datagram reference, versions 1.1 to 1.3; prometheus/statsd_exporter#748,
    /// influxdata/telegraf#12991 and contribsys/faktory#434 (a container's ID without tags), jitsi/jibri#186
    /// (no tag behind the mark).
    #[test]
    fn times_events_and_service_checks_are_rows() {
        let mut builder = builder();
        let datagram = b"late:7|c|T1795176000\nin:1|c|c:abc|#env:prod\nbare:2|g|c:abc\nstop:1|c|#\n_e{5,6}:title|a\\nb|c|d:1795176001|h:web1|t:error|#env:prod\n\
            _sc|redis.can_connect|2|#env:prod|d:1795176002|m:timed out | after 5 s\n_sc|x|7\n_e{9,1}:a|b\n_e{1}:a|b\nbad:1|c|Tx\n";
        read(datagram, "192.0.2.1", &mut builder);
        let batches = builder.own_rows();
        expect![[r#"
            ts=2026-11-20T12:00:00Z name=late value=7.0 labels={}
            ts=2026-11-20T12:00:00Z name=in value=1.0 labels={env: prod}
            ts=2026-11-20T12:00:00Z name=bare value=2.0 labels={}
            ts=2026-11-20T12:00:00Z name=stop value=1.0 labels={}
        "#]]
        .assert_eq(&texts(rows_of(&batches, "metric"), &["ts", "name", "value", "labels"]));
        expect![[r#"
            ts=2026-11-20T12:00:01Z host=web1 severity=error body=title
            a
            b|c attrs={env: prod}
            ts=2026-11-20T12:00:02Z host=192.0.2.1 severity=error body=redis.can_connect is critical: timed out | after 5 s attrs={env: prod, service_check: redis.can_connect, status: critical}
        "#]]
        .assert_eq(&texts(rows_of(&batches, "log"), &["ts", "host", "severity", "body", "attrs"]));
        assert_eq!(rows_of(&batches, "reject").rows.num_rows(), 4);
    }

    /// prometheus/statsd_exporter#267 and #268, domnikl/statsd-php#73, influxdata/telegraf#7795 and
    /// #17480, sivy/node-statsd#53: tags of all styles.
    #[test]
    fn tags_in_the_name_are_labels() {
        let mut builder = builder();
        let datagram = b"cpu.load,host=web1,region=us-west:2.5|g\nhits#path=/a,x=1:0|c\nm[a=b,c]ore:1:2|h\nu,url=http://a:80/b:7|c\n\
            http.200:1|c|@1.0|#method:GET,env:dev\nexample:15|c|#a\nodd,name:1|c\n_sc|jmxfetch-config.can_connect|0\n";
        read(datagram, "192.0.2.1", &mut builder);
        let batches = builder.own_rows();
        expect![[r#"
            host=web1 name=cpu.load value=2.5 kind=gauge labels={host: web1, region: us-west}
            host=192.0.2.1 name=hits value=0.0 kind=delta labels={path: /a, x: 1}
            host=192.0.2.1 name=more value=1.0 kind=sample labels={a: b, c: true}
            host=192.0.2.1 name=more value=2.0 kind=sample labels={a: b, c: true}
            host=192.0.2.1 name=u value=7.0 kind=delta labels={url: http://a:80/b}
            host=192.0.2.1 name=http.200 value=1.0 kind=delta labels={method: GET, env: dev}
            host=192.0.2.1 name=example value=15.0 kind=delta labels={a: true}
            host=192.0.2.1 name=odd,name value=1.0 kind=delta labels={}
        "#]]
        .assert_eq(&texts(
            rows_of(&batches, "metric"),
            &["host", "name", "value", "kind", "labels"],
        ));
        assert_eq!(rows_of(&batches, "log").rows.num_rows(), 1);
        assert_eq!(batches.len(), 2);
    }

    #[test]
    fn any_bytes_are_read_or_rejected() {
        arbtest::arbtest(|u| {
            let bytes =
                mangled(u, b"a:1|c|@0.5|#b:c\ng,h=i:j[k=l]m#n=o:4|g\nd:2:3|ms\ne:f|s|T5\n_e{1,1}:a|b|h:c\n_sc|a|1|m:b")?;
            read(&bytes, "p", &mut builder());
            Ok(())
        });
    }
}
