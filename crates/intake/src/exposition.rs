//! Prometheus' exposition formats, 0.0.4 and OpenMetrics 1.0, to rows of `metric`.
//!
//! From "Exposition formats" of Prometheus' documentation, its parser (`textparse`) and the
//! OpenMetrics specification. As there, a text with a malformed line is refused as a whole: a name
//! with other letters than its format allows, a label given twice, an unknown type, a text of
//! OpenMetrics without its end, which was cut. Exemplars and help are skipped.

use std::borrow::Cow;
use std::collections::HashMap;

use weir_tables::{Metric, Micros};

use crate::attrs::Attrs;
use crate::batch_builder::BatchBuilder;
use crate::remote_write::kind_of_name;

/// The column `source` of scraped rows.
pub(crate) const SOURCE: &str = "scrape";

/// Context shared by all samples of a text.
pub(crate) struct ScrapeContext<'a> {
    /// The column `host`.
    pub(crate) host: &'a str,
    /// Labels of the target; a sample's own label with the same name becomes `exported_…`.
    pub(crate) labels: &'a [(String, String)],
    /// Time of the scrape.
    pub(crate) ts: Micros,
    /// Whether times are seconds and family names lack `_total`.
    pub(crate) is_open_metrics: bool,
    /// Most samples.
    pub(crate) samples_max: usize,
}

/// Why a text was refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ExpositionError {
    /// A malformed line: its number and the problem.
    Line(usize, &'static str),
    /// More samples than allowed.
    TooMany,
}

/// Type and unit of a family.
#[derive(Clone, Copy, Default)]
struct MetricFamily<'a> {
    kind: &'a str,
    unit: Option<&'a str>,
}

/// Reads a text and returns the number of its samples. On an error the builder must be discarded.
pub(crate) fn read(
    text: &str,
    scene: &ScrapeContext<'_>,
    builder: &mut BatchBuilder,
) -> Result<usize, ExpositionError> {
    let mut families: HashMap<&str, MetricFamily<'_>> = HashMap::new();
    let mut count = 0;
    let mut line_count = 0;
    let mut is_ended = false;
    for (at, line) in text.lines().enumerate() {
        line_count = at + 1;
        let line = line.trim_matches([' ', '\t', '\r']);
        if is_ended {
            return Err(ExpositionError::Line(at + 1, "there is text after `# EOF`"));
        }
        if scene.is_open_metrics && line == "# EOF" {
            is_ended = true;
        } else if let Some(comment) = line.strip_prefix('#') {
            describe(comment, &mut families)
                .map_err(|problem| ExpositionError::Line(at + 1, problem))?;
        } else if !line.is_empty() {
            count += 1;
            if count > scene.samples_max {
                return Err(ExpositionError::TooMany);
            }
            let sample = Sample::read(line, scene.is_open_metrics)
                .map_err(|problem| ExpositionError::Line(at + 1, problem))?;
            push(&sample, scene, &families, builder);
        }
    }
    if scene.is_open_metrics && !is_ended {
        return Err(ExpositionError::Line(line_count, "the text does not end with `# EOF`"));
    }
    Ok(count)
}

/// Types of both formats.
const KINDS: [&str; 9] = [
    "counter",
    "gauge",
    "histogram",
    "summary",
    "untyped",
    "unknown",
    "gaugehistogram",
    "info",
    "stateset",
];

fn describe<'a>(
    comment: &'a str,
    families: &mut HashMap<&'a str, MetricFamily<'a>>,
) -> Result<(), &'static str> {
    let mut words = comment.split_ascii_whitespace();
    let (Some(what), Some(name)) = (words.next(), words.next()) else { return Ok(()) };
    let name = name.trim_matches('"');
    match what {
        "TYPE" => {
            let kind = words.next().unwrap_or_default();
            if !KINDS.contains(&kind) {
                return Err("its type is unknown");
            }
            families.entry(name).or_default().kind = kind;
        }
        "UNIT" => families.entry(name).or_default().unit = words.next(),
        _ => {}
    }
    Ok(())
}

/// Whether a name needs no quotes: letters, digits and underscores, and in names of metrics colons.
fn is_plain(name: &str, allows_colon: bool) -> bool {
    let mut bytes = name.bytes();
    let first = bytes.next();
    first.is_some_and(|byte| is_plain_byte(byte, allows_colon) && !byte.is_ascii_digit())
        && bytes.all(|byte| is_plain_byte(byte, allows_colon))
}

fn is_plain_byte(byte: u8, allows_colon: bool) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || (allows_colon && byte == b':')
}

/// One sample line.
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
        if !sample.name.is_empty() && !is_plain(&sample.name, true) {
            return Err("its name has letters that need quotes");
        }
        if let Some(inner) = rest.strip_prefix('{') {
            rest = sample.read_labels(inner)?;
        }
        if sample.name.is_empty() {
            return Err("it has no name");
        }
        let mut words = rest.split_ascii_whitespace();
        let value = words.next().ok_or("it has no value")?;
        sample.value = value.parse().map_err(|_| "its value is not a number")?;
        sample.ts = match words.next() {
            None => return Ok(sample),
            Some("#") if is_open_metrics => return Ok(sample),
            Some(time) => Some(instant(time, is_open_metrics).ok_or("its time is not a number")?),
        };
        match words.next() {
            None => Ok(sample),
            Some("#") if is_open_metrics => Ok(sample),
            Some(_) => Err("there is text after its time"),
        }
    }

    /// Reads labels up to the brace and returns the rest. A text without `=` is the metric's name,
    /// as Prometheus 3 writes it. A comma may follow the last label.
    fn read_labels(&mut self, mut rest: &'a str) -> Result<&'a str, &'static str> {
        loop {
            rest = rest.trim_start_matches([' ', '\t']);
            if let Some(behind) = rest.strip_prefix('}') {
                return Ok(behind);
            }
            rest = self.read_label(rest)?.trim_start_matches([' ', '\t']);
            match rest.strip_prefix(',') {
                Some(behind) => rest = behind,
                None if rest.is_empty() => return Err("its labels are not closed"),
                None if !rest.starts_with('}') => return Err("a comma is missing in its labels"),
                None => {}
            }
        }
    }

    /// Reads one label, or the name, and returns the rest.
    fn read_label(&mut self, rest: &'a str) -> Result<&'a str, &'static str> {
        let is_quoted = rest.starts_with('"');
        let (key, behind) = if let Some(quoted) = rest.strip_prefix('"') {
            unquoted(quoted)?
        } else {
            let end = rest.find(['=', ' ', '\t', '}', ',']).ok_or("its labels are not closed")?;
            (Cow::Borrowed(&rest[..end]), &rest[end..])
        };
        let behind = behind.trim_start();
        let Some(value) = behind.strip_prefix('=') else {
            if !is_quoted || !self.name.is_empty() {
                return Err("a label has no value");
            }
            self.name = key;
            return Ok(behind);
        };
        if !is_quoted && !is_plain(&key, false) {
            return Err("the name of a label has letters that need quotes");
        }
        if self.labels.iter().any(|(known, _)| *known == key) {
            return Err("a label is given twice");
        }
        let value = value.trim_start().strip_prefix('"');
        let (value, behind) = unquoted(value.ok_or("a label has no value")?)?;
        self.labels.push((key, value));
        Ok(behind)
    }
}

/// Splits a text without its opening quote at the closing quote.
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
                    // As in Prometheus, an unknown escape stays as it is.
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
    Err("a quote is not closed")
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
    scene: &ScrapeContext<'_>,
    families: &HashMap<&str, MetricFamily<'_>>,
    builder: &mut BatchBuilder,
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
    builder.metric_row(&Metric {
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

/// Suffixes of series names within a family.
const PARTS: [&str; 8] =
    ["_bucket", "_sum", "_count", "_total", "_created", "_info", "_gsum", "_gcount"];

fn kind_of<'a>(
    sample: &Sample<'_>,
    families: &HashMap<&str, MetricFamily<'a>>,
) -> (Option<&'static str>, Option<&'a str>) {
    let name = sample.name.as_ref();
    let exact = families.get(name).map(|family| ("", *family));
    let Some((part, family)) = exact.or_else(|| {
        PARTS.iter().find_map(|part| {
            let family = families.get(name.strip_suffix(part)?)?;
            Some((*part, *family))
        })
    }) else {
        return (kind_of_name(name), None);
    };
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
    use crate::check::{builder, rows};

    fn scene(labels: &[(String, String)]) -> ScrapeContext<'_> {
        ScrapeContext {
            host: "web1",
            labels,
            ts: Micros(1_795_176_000_000_000),
            is_open_metrics: false,
            samples_max: 100,
        }
    }

    fn metric(text: &str, is_open_metrics: bool) -> String {
        let labels = [("job".to_owned(), "app".to_owned())];
        let mut builder = builder();
        let scene = ScrapeContext { is_open_metrics, ..scene(&labels) };
        match read(text, &scene, &mut builder) {
            Ok(_) => {}
            Err(ExpositionError::Line(line, why)) => return format!("line {line}: {why}\n"),
            Err(ExpositionError::TooMany) => return "too many\n".into(),
        }
        rows(&mut builder, &["ts", "host", "name", "value", "kind", "unit", "labels"])
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
        expect![[r#"
            ts=2014-03-17T14:26:03Z host=web1 name=http_requests_total value=1027.0 kind=counter unit= labels={job: app, method: post, code: 200, exported_job: own}
            ts=2026-11-20T12:00:00Z host=web1 name=msdos_file_access_time_seconds value=1458255915.0 kind= unit= labels={job: app, path: C:\DIR\FILE.TXT, error: Cannot find file:
            "FILE.TXT"}
            ts=2026-11-20T12:00:00Z host=web1 name=metric_without_timestamp_and_labels value=12.47 kind= unit= labels={job: app}
            ts=2026-11-20T12:00:00Z host=web1 name=h_bucket value=3.0 kind=bucket unit= labels={job: app, le: 0.1}
            ts=2026-11-20T12:00:00Z host=web1 name=h_bucket value=9.0 kind=bucket unit= labels={job: app, le: +Inf}
            ts=2026-11-20T12:00:00Z host=web1 name=h_sum value=1000.0 kind=counter unit= labels={job: app}
            ts=2026-11-20T12:00:00Z host=web1 name=h_count value=9.0 kind=counter unit= labels={job: app}
            ts=2026-11-20T12:00:00Z host=web1 name=rpc value=NaN kind=quantile unit= labels={job: app, quantile: 0.5}
            ts=2026-11-20T12:00:00Z host=web1 name=rpc_sum value=inf kind=counter unit= labels={job: app}
            ts=2026-11-20T12:00:00Z host=web1 name=a.dotted name value=-1.0 kind= unit= labels={job: app, x: ü}
        "#]].assert_eq(&metric(text, false));
    }

    /// prometheus/prometheus#15259, #11601 and #12975 (exemplars), influxdata/telegraf#7423 (an escape that
    /// does not exist, in a help), fluent/fluent-bit#5541 (whole numbers with a fraction) and
    /// cnieg/gitlab-tokens-exporter#221 (a quote that is not escaped).
    #[test]
    fn reported_texts_are_read_or_refused_with_their_line() {
        let exemplars = "# TYPE m counter\nm_total{n=\"1\"} 0 # {\"net.http\"=\"abc\"} 1.0\n\
            d_bucket{le=\"-0.0005\"} 6 # {dummyID=\"6876\"} -0.00062 1.6688084762944589e+09\nd_count 3 # {} 5\n# EOF\n";
        let names = |text: String| -> Vec<String> {
            let words = text
                .split(' ')
                .filter(|word| word.starts_with("name=") || word.starts_with("value="));
            words.map(str::to_owned).collect()
        };
        assert_eq!(
            names(metric(exemplars, true)),
            [
                "name=m_total",
                "value=0.0",
                "name=d_bucket",
                "value=6.0",
                "name=d_count",
                "value=3.0"
            ]
        );
        let help = "# HELP Seek Number of times the \\'lseek\\' function was called.\n# TYPE Seek counter\nSeek 101306368.0\n";
        assert_eq!(names(metric(help, false)), ["name=Seek", "value=101306368.0"]);
        let quote = "up 1\ndays{name=\"MacBook 14\" registry R/W\",id=\"218\"} -794\n";
        assert_eq!(metric(quote, false), "line 2: a comma is missing in its labels\n");
    }

    #[test]
    fn open_metrics_have_units_exemplars_and_an_end() {
        let text = "# TYPE wait_seconds counter\n# UNIT wait_seconds seconds\n\
            wait_seconds_total{a=\"b\"} 17 1520879607.789 # {id=\"x\"} 0.5\nwait_seconds_created{a=\"b\"} 1.5\n\
            # TYPE b info\nb_info{version=\"1\"} 1 # {} 2\n# EOF\n";
        expect![[r#"
            ts=2018-03-12T18:33:27.789Z host=web1 name=wait_seconds_total value=17.0 kind=counter unit=seconds labels={job: app, a: b}
            ts=2026-11-20T12:00:00Z host=web1 name=wait_seconds_created value=1.5 kind=gauge unit=seconds labels={job: app, a: b}
            ts=2026-11-20T12:00:00Z host=web1 name=b_info value=1.0 kind=gauge unit= labels={job: app, version: 1}
        "#]].assert_eq(&metric(text, true));
    }

    #[test]
    fn malformed_lines_are_reported_with_number_and_problem() {
        for (text, why) in [
            ("a 1\nb\n", "line 2: it has no value\n"),
            ("a{b=\"c\"\n", "line 1: its labels are not closed\n"),
            ("a{b=\"c\" 1\n", "line 1: a comma is missing in its labels\n"),
            ("a{b=\"c} 1\n", "line 1: a quote is not closed\n"),
            ("a{b=c} 1\n", "line 1: a label has no value\n"),
            ("a{b} 1\n", "line 1: a label has no value\n"),
            ("a one\n", "line 1: its value is not a number\n"),
            ("a 1 soon\n", "line 1: its time is not a number\n"),
            ("a 1 2 3\n", "line 1: there is text after its time\n"),
            ("{b=\"c\"} 1\n", "line 1: it has no name\n"),
            ("<html>\n", "line 1: it has no value\n"),
            ("<html lang=\"en\">\n", "line 1: its name has letters that need quotes\n"),
            ("a-b 1\n", "line 1: its name has letters that need quotes\n"),
            ("1a 1\n", "line 1: its name has letters that need quotes\n"),
            ("a{b-c=\"d\"} 1\n", "line 1: the name of a label has letters that need quotes\n"),
            ("a{b:c=\"d\"} 1\n", "line 1: the name of a label has letters that need quotes\n"),
            ("a{b=\"c\",b=\"c\"} 1\n", "line 1: a label is given twice\n"),
            ("a{b=\"c\" d=\"e\"} 1\n", "line 1: a comma is missing in its labels\n"),
            ("a{b=\"c\",,d=\"e\"} 1\n", "line 1: a label has no value\n"),
            ("a{,} 1\n", "line 1: a label has no value\n"),
            ("# TYPE a number\na 1\n", "line 1: its type is unknown\n"),
            ("# TYPE a\na 1\n", "line 1: its type is unknown\n"),
            ("a 1 # {x=\"y\"} 1\n", "line 1: its time is not a number\n"),
            ("a 0x1p3\n", "line 1: its value is not a number\n"),
            ("a 1 1.5\n", "line 1: its time is not a number\n"),
            ("\u{feff}a 1\n", "line 1: its name has letters that need quotes\n"),
        ] {
            assert_eq!(metric(text, false), why, "{text}");
        }
        assert_eq!(metric(&"a 1\n".repeat(101), false), "too many\n");
        for (text, why) in [
            ("a 1\n", "line 1: the text does not end with `# EOF`\n"),
            ("", "line 0: the text does not end with `# EOF`\n"),
            ("a 1\n# EOF\nb 1\n", "line 3: there is text after `# EOF`\n"),
        ] {
            assert_eq!(metric(text, true), why, "{text}");
        }
    }

    /// envoyproxy/envoy#2118, prometheus/prometheus#3641, prometheus/prometheus#6853 and
    /// prometheus/client_java#262: what Prometheus refuses and takes.
    #[test]
    fn texts_are_taken_and_refused_as_by_prometheus() {
        for (text, is_taken) in [
            ("cluster.outlier.ejections{envoy_cluster_name=\"a\"} 0\n", false),
            ("cluster_outlier{envoy.cluster_name=\"a\"} 0\n", false),
            ("cluster_outlier{envoy_cluster_name=VERIFICATION} 0\n", false),
            ("cluster:outlier:ejections{envoy_cluster_name=\"a\"} 0\n", true),
            ("throttling{08cd1981=\"\",a089e9af=\"\"} 1\n", false),
            ("pll_locked{slot=\"4\",type=\"qgsx2\",type=\"dac\"} 1.000000\n", false),
            ("info_size{type=\"o\",} 679.0\n", true),
            ("info-size{type=\"o\"} 679.0\n", false),
            ("{\"info-size\",\"the type\"=\"o\"} 679.0\n", true),
        ] {
            let outcome = metric(text, false);
            assert_eq!(!outcome.starts_with("line "), is_taken, "{text}{outcome}");
        }
    }

    fn escaped(text: &str) -> String {
        text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
    }

    /// Arbitrary label values survive a round trip; arbitrary bytes never panic.
    #[test]
    fn written_labels_are_read_back_and_nothing_panics() {
        arbtest::arbtest(|u| {
            let letters: Vec<char> = "ab\\\"\n ü{},=#".chars().collect();
            let mut texts = Vec::new();
            for _ in 0..2 {
                let text: arbtest::arbitrary::Result<String> =
                    (0..u.int_in_range(0..=6)?).map(|_| u.choose(&letters).copied()).collect();
                texts.push(text?);
            }
            let [a, b] = [escaped(&texts[0]), escaped(&texts[1])];
            let line = format!("m{{a=\"{a}\",b=\"{b}\"}} 4.5 7");
            let sample = Sample::read(&line, false).expect("it was written well");
            let labels: Vec<(&str, &str)> =
                sample.labels.iter().map(|(key, value)| (&**key, &**value)).collect();
            assert_eq!(labels, [("a", texts[0].as_str()), ("b", texts[1].as_str())]);
            assert_eq!((sample.value, sample.ts), (4.5, Some(Micros(7000))));
            let noise: String = u.arbitrary()?;
            let _ = read(&noise, &scene(&[]), &mut builder());
            let cut: String = line.chars().take(u.int_in_range(0..=line.len())?).collect();
            let _ = read(&cut, &scene(&[]), &mut builder());
            Ok(())
        });
    }
}
