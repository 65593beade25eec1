//! Graphite's plaintext protocol over TCP: lines of `path value time`, to rows of `metric`.
//!
//! From Graphite's documentation, "Feeding in your data" and "Tag support": tags follow the path as
//! `;name=value`.

use weir_tables::{Metric, Micros};

use crate::attrs::Attrs;
use crate::batch_builder::{BatchBuilder, RejectCause, RowOrigin};
use crate::stream::{EndedFrames, StreamError, StreamOrigin, StreamProtocol, newline};

/// Longest line.
const MAX_LINE_BYTES: usize = 8 << 10;
const SOURCE: &str = "graphite";

/// One connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct GraphiteStream(EndedFrames);

impl StreamProtocol for GraphiteStream {
    fn cut(
        &mut self,
        bytes: &[u8],
        origin: StreamOrigin<'_>,
        builder: &mut BatchBuilder,
    ) -> Result<usize, StreamError> {
        Ok(self.0.cut(bytes, MAX_LINE_BYTES, builder, newline, |line, builder| {
            read(line, origin.peer, builder);
        }))
    }

    fn finish(&mut self, bytes: &[u8], origin: StreamOrigin<'_>, builder: &mut BatchBuilder) {
        self.0.finish(bytes, builder, |line, builder| read(line, origin.peer, builder));
    }
}

fn read(line: &[u8], peer: &str, builder: &mut BatchBuilder) {
    let line = line.trim_ascii();
    if line.is_empty() {
        return;
    }
    if let Err(detail) = sample(line, peer, builder) {
        let fault = RejectCause { parser: SOURCE, reason: "no_match", detail };
        builder.reject(RowOrigin { host: peer, source: SOURCE }, &fault, line);
    }
}

fn sample(line: &[u8], peer: &str, builder: &mut BatchBuilder) -> Result<(), &'static str> {
    let text = std::str::from_utf8(line).map_err(|_| "the line is not UTF-8")?;
    let mut words = text.split_ascii_whitespace();
    let (Some(path), Some(value)) = (words.next(), words.next()) else {
        return Err("a line is `path value time`");
    };
    let value: f64 = value.parse().map_err(|_| "the value is not a number")?;
    // Carbon reads `N` and -1 as the current time.
    let ts = match words.next() {
        None | Some("N") => builder.now,
        Some(seconds) => match seconds.parse::<f64>().map_err(|_| "the time is not in seconds")? {
            -1.0 => builder.now,
            seconds => Micros::from_unix_seconds(seconds),
        },
    };
    if words.next().is_some() {
        return Err("there is text behind the time");
    }
    let mut parts = path.split(';');
    let name = parts.next().unwrap_or_default();
    let mut labels = Attrs::default();
    for tag in parts {
        let (key, value) = tag.split_once('=').ok_or("a tag is `;name=value`")?;
        labels.push(key, value);
    }
    let host = labels.get("host").unwrap_or(peer).to_owned();
    builder.metric_row(&Metric {
        ts,
        host: &host,
        name,
        labels: &labels.finish(),
        value: Some(value),
        source: SOURCE,
        ..Metric::default()
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::check::{builder, mangled, rows};

    const ORIGIN: StreamOrigin<'_> = StreamOrigin { peer: "192.0.2.1", source: "graphite" };

    /// open-telemetry/opentelemetry-collector-contrib#31312 (a fraction of a second), influxdata/influxdb#430
    /// (no time), go-graphite/go-carbon#284 (`nan`).
    #[test]
    fn lines_are_samples_and_others_are_rejected() {
        let mut builder = builder();
        let bytes =
            b"servers.web1.load 0.5 1795176000\ncpu;host=web2;core=1 9 N\r\n\nnonsense\na b 1\n\
            my.metric 151 1795175999.254\nfoo 42\ncpu.idle nan 1795176000\nlast 1 17";
        let used = GraphiteStream::default().cut(bytes, ORIGIN, &mut builder).expect("well formed");
        assert_eq!(&bytes[used..], b"last 1 17");
        expect![[r#"
            ts=2026-11-20T12:00:00Z host=192.0.2.1 name=servers.web1.load value=0.5 labels={}
            ts=2026-11-20T12:00:00Z host=web2 name=cpu value=9.0 labels={host: web2, core: 1}
            ts=2026-11-20T11:59:59.254Z host=192.0.2.1 name=my.metric value=151.0 labels={}
            ts=2026-11-20T12:00:00Z host=192.0.2.1 name=foo value=42.0 labels={}
            ts=2026-11-20T12:00:00Z host=192.0.2.1 name=cpu.idle value=NaN labels={}
        "#]]
        .assert_eq(&rows_of_metric(&mut builder));
        assert_eq!(builder.verdicts.len(), 7);
    }

    fn rows_of_metric(builder: &mut BatchBuilder) -> String {
        let batches = builder.own_rows();
        let metric = batches.iter().find(|batch| batch.table.name == "metric").expect("rows");
        crate::check::texts(metric, &["ts", "host", "name", "value", "labels"])
    }

    #[test]
    fn an_overlong_line_is_lost_and_the_next_is_read() {
        let bytes = [&vec![b'a'; MAX_LINE_BYTES + 1], &b"\nservers.web1.load 0.5\n"[..]].concat();
        let mut builder = builder();
        let used = GraphiteStream::default().cut(&bytes, ORIGIN, &mut builder);
        assert_eq!((used, builder.verdicts.len()), (Ok(bytes.len()), 1));
        assert_eq!(builder.lost["too_long"], (1, MAX_LINE_BYTES + 1));
    }

    #[test]
    fn any_bytes_are_cut_without_panic() {
        arbtest::arbtest(|u| {
            let bytes = mangled(u, b"a.b 1 2\nc;d=e 3.5 -1\n")?;
            let mut builder = builder();
            let _ = GraphiteStream::default().cut(&bytes, ORIGIN, &mut builder);
            GraphiteStream::default().finish(&bytes, ORIGIN, &mut builder);
            let _ = rows(&mut builder, &[]);
            Ok(())
        });
    }
}
