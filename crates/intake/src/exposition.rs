//! The text that Prometheus scrapes: its own format, version 0.0.4, and OpenMetrics 1.0, to rows of `metric`.
//!
//! From "Exposition formats" of Prometheus' documentation and the OpenMetrics specification. As there, a text with one broken
//! line is taken as a whole or not at all. Exemplars and help are passed over.

use std::borrow::Cow;
use std::collections::HashMap;

use weir_tables::{Metric, Micros};

use crate::attrs::Attrs;
use crate::harvest::Harvest;
use crate::remote_write::kind_of_name;

/// The column `source` of scraped rows.
pub(crate) const SOURCE: &str = "scrape";

/// What all samples of a text share.
pub(crate) struct Scene<'a> {
    /// The column `host`.
    pub(crate) host: &'a str,
    /// Labels of the target; a sample's own label of that name becomes `exported_…`.
    pub(crate) labels: &'a [(String, String)],
    /// When it was asked.
    pub(crate) ts: Micros,
    /// Times are seconds, and a family's name lacks `_total`.
    pub(crate) is_open_metrics: bool,
    /// Samples at most.
    pub(crate) samples_max: usize,
}

/// Why a text was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// A line makes no sense: its number and why.
    Line(usize, &'static str),
    /// More samples than may be.
    TooMany,
}

/// Type and unit of a family.
#[derive(Clone, Copy, Default)]
struct Family<'a> {
    kind: &'a str,
    unit: Option<&'a str>,
}

/// Reads a text; gives the number of its samples. Nothing was added to the harvest that counts when it is broken.
pub(crate) fn read(text: &str, scene: &Scene<'_>, harvest: &mut Harvest) -> Result<usize, Broken> {
    let mut families: HashMap<&str, Family<'_>> = HashMap::new();
    let mut count = 0;
    for (at, line) in text.lines().enumerate() {
        let broken = |why| Broken::Line(at + 1, why);
        let line = line.trim_matches([' ', '\t', '\r']);
        if line == "# EOF" {
            break;
        }
        if let Some(comment) = line.strip_prefix('#') {
            describe(comment, &mut families);
        } else if !line.is_empty() {
            count += 1;
            if count > scene.samples_max {
                return Err(Broken::TooMany);
            }
            let sample = Sample::read(line, scene.is_open_metrics).map_err(broken)?;
            push(&sample, scene, &families, harvest);
        }
    }
    Ok(count)
}

fn describe<'a>(comment: &'a str, families: &mut HashMap<&'a str, Family<'a>>) {
    let mut words = comment.split_ascii_whitespace();
    let (Some(what), Some(name)) = (words.next(), words.next()) else { return };
    let name = name.trim_matches('"');
    match what {
        "TYPE" => families.entry(name).or_default().kind = words.next().unwrap_or_default(),
        "UNIT" => families.entry(name).or_default().unit = words.next(),
        _ => {}
    }
}

/// One line.
#[derive(Debug, Default, PartialEq)]
struct Sample<'a> {
    name: Cow<'a, str>,
    labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    value: f64,
    ts: Option<Micros>,
}

impl<'a> Sample<'a> {
    fn read(line: &'a str, is_open_metrics: bool) -> Result<Self, &'static str> {
        let end = line.find(['{', ' ', '\t']).ok_or("it has no value")?;
        let mut sample = Self { name: line[..end].into(), ..Self::default() };
        let mut rest = line[end..].trim_start();
        if let Some(inner) = rest.strip_prefix('{') {
            rest = sample.read_labels(inner)?;
        }
        if sample.name.is_empty() {
            return Err("it has no name");
        }
        let mut words = rest.split_ascii_whitespace();
        let value = words.next().ok_or("it has no value")?;
        sample.value = value.parse().map_err(|_| "its value is no number")?;
        sample.ts = match words.next() {
            None | Some("#") => return Ok(sample),
            Some(time) => Some(instant(time, is_open_metrics).ok_or("its time is no number")?),
        };
        match words.next() {
            None | Some("#") => Ok(sample),
            Some(_) => Err("something stands behind its time"),
        }
    }

    /// Labels up to the brace; gives what is behind it. A text without `=` is the name, as Prometheus 3 writes it.
    fn read_labels(&mut self, mut rest: &'a str) -> Result<&'a str, &'static str> {
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            if let Some(behind) = rest.strip_prefix('}') {
                return Ok(behind);
            }
            let (key, behind) = if let Some(quoted) = rest.strip_prefix('"') {
                unquoted(quoted)?
            } else {
                let end = rest.find(['=', ' ', '\t', '}']).ok_or("its labels have no end")?;
                (Cow::Borrowed(&rest[..end]), &rest[end..])
            };
            let behind = behind.trim_start();
            match behind.strip_prefix('=') {
                Some(value) => {
                    let value = value.trim_start().strip_prefix('"');
                    let (value, behind) = unquoted(value.ok_or("a label has no value")?)?;
                    self.labels.push((key, value));
                    rest = behind;
                }
                None if self.name.is_empty() && rest.starts_with('"') => {
                    self.name = key;
                    rest = behind;
                }
                None => return Err("a label has no value"),
            }
        }
    }
}

/// A text whose opening quote is gone, and what is behind its end.
fn unquoted(text: &str) -> Result<(Cow<'_, str>, &str), &'static str> {
    let mut out: Option<String> = None;
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => {
                let value = out.map_or(Cow::Borrowed(&text[..at]), Cow::Owned);
                return Ok((value, &text[at + 1..]));
            }
            '\\' => {
                let out = out.get_or_insert_with(|| text[..at].to_owned());
                match letters.next() {
                    Some((_, 'n')) => out.push('\n'),
                    Some((_, letter @ ('"' | '\\'))) => out.push(letter),
                    // As Prometheus does: an escape that is none stays as it is.
                    Some((_, letter)) => out.extend(['\\', letter]),
                    None => break,
                }
            }
            letter => {
                if let Some(out) = &mut out {
                    out.push(letter);
                }
            }
        }
    }
    Err("a text has no end")
}

/// Milliseconds, or seconds in OpenMetrics.
fn instant(text: &str, is_open_metrics: bool) -> Option<Micros> {
    if is_open_metrics {
        let seconds: f64 = text.parse().ok()?;
        return (seconds.abs() < 1e11).then(|| Micros::from_unix_seconds(seconds));
    }
    let millis: i64 = text.parse().ok()?;
    millis.checked_mul(1000).map(Micros)
}

fn push(
    sample: &Sample<'_>,
    scene: &Scene<'_>,
    families: &HashMap<&str, Family<'_>>,
    harvest: &mut Harvest,
) {
    let (kind, unit) = kind_of(sample, families);
    let mut labels = Attrs::default();
    for (name, value) in scene.labels {
        labels.push(name.as_str(), value.as_str());
    }
    for (name, value) in &sample.labels {
        if scene.labels.iter().any(|(own, _)| own == name) {
            labels.push(format!("exported_{name}"), value.as_ref());
        } else {
            labels.push(name.as_ref(), value.as_ref());
        }
    }
    harvest.metric_row(&Metric {
        ts: sample.ts.unwrap_or(scene.ts),
        host: scene.host,
        name: &sample.name,
        labels: &labels.finish(),
        value: Some(sample.value),
        kind,
        unit,
        source: SOURCE,
    });
}

/// Parts of a family that have a name of their own.
const PARTS: [&str; 7] = ["_bucket", "_sum", "_count", "_total", "_created", "_gsum", "_gcount"];

fn kind_of<'a>(
    sample: &Sample<'_>,
    families: &HashMap<&str, Family<'a>>,
) -> (Option<&'static str>, Option<&'a str>) {
    let name = sample.name.as_ref();
    let own = families.get(name).map(|family| ("", *family));
    let of_part = || {
        PARTS.iter().find_map(|part| {
            let family = families.get(name.strip_suffix(part)?)?;
            Some((*part, *family))
        })
    };
    let Some((part, family)) = own.or_else(of_part) else { return (kind_of_name(name), None) };
    let kind = match (family.kind, part) {
        (_, "_created")
        | ("gauge" | "info" | "stateset", _)
        | ("gaugehistogram", "_gsum" | "_gcount") => "gauge",
        ("counter", _) | ("histogram" | "summary", "_sum" | "_count") => "counter",
        ("histogram" | "gaugehistogram", _) => "bucket",
        ("summary", _) => "quantile",
        _ => return (kind_of_name(name), family.unit),
    };
    (Some(kind), family.unit)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::check::{harvest, rows};

    fn scene(labels: &[(String, String)]) -> Scene<'_> {
        Scene {
            host: "web1",
            labels,
            ts: Micros(1_795_176_000_000_000),
            is_open_metrics: false,
            samples_max: 100,
        }
    }

    fn metric(text: &str, is_open_metrics: bool) -> String {
        let labels = [("job".to_owned(), "app".to_owned())];
        let mut harvest = harvest();
        let scene = Scene { is_open_metrics, ..scene(&labels) };
        match read(text, &scene, &mut harvest) {
            Ok(_) => {}
            Err(Broken::Line(line, why)) => return format!("line {line}: {why}\n"),
            Err(Broken::TooMany) => return "too many\n".into(),
        }
        rows(&mut harvest, &["ts", "host", "name", "value", "kind", "unit", "labels"])
    }

    #[test]
    fn families_are_rows_with_kind_labels_and_time() {
        let text = r#"# HELP http_requests_total The total.
# TYPE http_requests_total counter
http_requests_total{method="post",code="200",job="own"} 1027 1395066363000
# TYPE msdos_file_access_time_seconds untyped
msdos_file_access_time_seconds{path="C:\\DIR\\FILE.TXT",error="Cannot find file:\n\"FILE.TXT\""} 1.458255915e9

metric_without_timestamp_and_labels 12.47
# TYPE h histogram
h_bucket{le="0.1",} 3
h_bucket { le = "+Inf" } 9
h_sum 1e3
h_count	9
# TYPE rpc summary
rpc{quantile="0.5"} NaN
rpc_sum +Inf
{"a.dotted name", x="ü"} -1
"#;
        expect![[r#""#]].assert_eq(&metric(text, false));
    }

    #[test]
    fn open_metrics_have_units_exemplars_and_an_end() {
        let text = "# TYPE wait_seconds counter\n# UNIT wait_seconds seconds\n\
            wait_seconds_total{a=\"b\"} 17 1520879607.789 # {id=\"x\"} 0.5\nwait_seconds_created{a=\"b\"} 1.5\n\
            # TYPE b info\nb_info{version=\"1\"} 1 # {} 2\n# EOF\nbehind it\n";
        expect![[r#""#]].assert_eq(&metric(text, true));
    }

    #[test]
    fn broken_lines_are_told_with_number_and_reason() {
        for (text, why) in [
            ("a 1\nb\n", "line 2: it has no value\n"),
            ("a{b=\"c\" 1\n", "line 1: a label has no value\n"),
            ("a{b=\"c} 1\n", "line 1: a text has no end\n"),
            ("a{b=c} 1\n", "line 1: a label has no value\n"),
            ("a{b} 1\n", "line 1: a label has no value\n"),
            ("a one\n", "line 1: its value is no number\n"),
            ("a 1 soon\n", "line 1: its time is no number\n"),
            ("a 1 2 3\n", "line 1: something stands behind its time\n"),
            ("{b=\"c\"} 1\n", "line 1: it has no name\n"),
            ("<html>\n", "line 1: it has no value\n"),
        ] {
            assert_eq!(metric(text, false), why, "{text}");
        }
        assert_eq!(metric(&"a 1\n".repeat(101), false), "too many\n");
    }

    /// A text of arbitrary names, labels and values is read as it was written; arbitrary bytes never panic.
    #[test]
    fn what_is_written_is_read_and_nothing_panics() {
        arbtest::arbtest(|u| {
            let letters: Vec<char> = "ab\\\"\n ü{},=#".chars().collect();
            let mut text = || -> arbtest::arbitrary::Result<String> {
                (0..u.int_in_range(0..=6)?).map(|_| u.choose(&letters).copied()).collect()
            };
            let (first, second) = (text()?, text()?);
            let escape =
                |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let line = format!("m{{a=\"{}\",b=\"{}\"}} 4.5 7", escape(&first), escape(&second));
            let sample = Sample::read(&line, false).expect("it was written well");
            assert_eq!(
                sample.labels,
                [("a".into(), first.into()), ("b".into(), Cow::<str>::from(second))]
            );
            assert_eq!((sample.value, sample.ts), (4.5, Some(Micros(7000))));
            let noise: String = u.arbitrary()?;
            let _ = read(&noise, &scene(&[]), &mut harvest());
            let cut: String = line.chars().take(u.int_in_range(0..=line.len())?).collect();
            let _ = read(&cut, &scene(&[]), &mut harvest());
            Ok(())
        });
    }
}
