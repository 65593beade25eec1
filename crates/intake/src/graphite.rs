//! Graphite's plaintext protocol over TCP: `path value time`, one line each, to rows of `metric`.
//!
//! From Graphite's documentation, "Feeding in your data" and "Tag support": tags stand behind the path, `;name=value`.

use weir_tables::{Metric, Micros};

use crate::attrs::Attrs;
use crate::harvest::{Fault, Harvest, Place};
use crate::stream::{Broken, Framing, cut_at};

/// One line.
const MAX_LINE_BYTES: usize = 8 << 10;
const SOURCE: &str = "graphite";

/// One connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graphite;

impl Framing for Graphite {
    fn cut(
        &mut self,
        bytes: &[u8],
        peer: &str,
        _source: &str,
        harvest: &mut Harvest,
    ) -> Result<usize, Broken> {
        cut_at(b'\n', bytes, MAX_LINE_BYTES, |line| {
            if harvest.is_full() {
                return false;
            }
            read(line, peer, harvest);
            true
        })
    }

    fn finish(&mut self, bytes: &[u8], peer: &str, _source: &str, harvest: &mut Harvest) {
        read(bytes, peer, harvest);
    }
}

fn read(line: &[u8], peer: &str, harvest: &mut Harvest) {
    let line = line.trim_ascii();
    if line.is_empty() {
        return;
    }
    if let Err(detail) = sample(line, peer, harvest) {
        let fault = Fault { parser: SOURCE, reason: "no_match", detail };
        harvest.reject(Place { host: peer, source: SOURCE }, &fault, line);
    }
}

fn sample(line: &[u8], peer: &str, harvest: &mut Harvest) -> Result<(), &'static str> {
    let text = std::str::from_utf8(line).map_err(|_| "the line is not UTF-8")?;
    let mut words = text.split_ascii_whitespace();
    let (Some(path), Some(value)) = (words.next(), words.next()) else {
        return Err("a line is `path value time`");
    };
    let value: f64 = value.parse().map_err(|_| "the value is not a number")?;
    // Carbon takes `N` and -1 for now.
    let ts = match words.next() {
        None | Some("N" | "-1") => harvest.now,
        Some(seconds) => {
            let seconds: f64 = seconds.parse().map_err(|_| "the time is not in seconds")?;
            Micros::from_unix_seconds(seconds)
        }
    };
    let mut parts = path.split(';');
    let name = parts.next().unwrap_or_default();
    let mut labels = Attrs::default();
    for tag in parts {
        let (key, value) = tag.split_once('=').ok_or("a tag is `;name=value`")?;
        labels.push(key, value);
    }
    let host = labels.get("host").unwrap_or(peer).to_owned();
    harvest.metric_row(&Metric {
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
    use crate::check::{harvest, mangled, rows};

    #[test]
    fn lines_are_samples_and_others_are_kept_raw() {
        let mut harvest = harvest();
        let bytes = b"servers.web1.load 0.5 1795176000\ncpu;host=web2;core=1 9 N\r\n\nnonsense\na b 1\nlast 1 17";
        let used = Graphite.cut(bytes, "192.0.2.1", "", &mut harvest).expect("well formed");
        assert_eq!(&bytes[used..], b"last 1 17");
        expect![[r#"
            ts=2026-11-20T12:00:00Z host=192.0.2.1 name=servers.web1.load value=0.5 labels={}
            ts=2026-11-20T12:00:00Z host=web2 name=cpu value=9.0 labels={host: web2, core: 1}
        "#]]
        .assert_eq(&rows_of_metric(&mut harvest));
        assert_eq!(harvest.verdicts.len(), 4);
    }

    fn rows_of_metric(harvest: &mut Harvest) -> String {
        let batches = harvest.own_rows();
        let metric = batches.iter().find(|batch| batch.table.name == "metric").expect("rows");
        crate::check::texts(metric, &["ts", "host", "name", "value", "labels"])
    }

    #[test]
    fn a_line_without_end_ends_the_connection() {
        let cut = Graphite.cut(&vec![b'a'; MAX_LINE_BYTES + 1], "p", "", &mut harvest());
        assert_eq!(cut.expect_err("too long").reason, "too_long");
    }

    #[test]
    fn any_bytes_are_cut_without_panic() {
        arbtest::arbtest(|u| {
            let bytes = mangled(u, b"a.b 1 2\nc;d=e 3.5 -1\n")?;
            let mut harvest = harvest();
            let _ = Graphite.cut(&bytes, "p", "", &mut harvest);
            Graphite.finish(&bytes, "p", "", &mut harvest);
            let _ = rows(&mut harvest, &[]);
            Ok(())
        });
    }
}
