//! A series of one's own out of a CSV file: a time and a value a line.

use std::ops::Range;
use std::path::Path;

use serde_json::{Value, json};
use weir_hub::cells::parse_time;
use weir_process::failure::{EXIT_USAGE, Failure, read_failure};
use weir_rules::mine::{Event, MiningOptions, Point, Scale, Side, mine, walk};
use weir_tables::Micros;

use crate::thresholds::args::{MineScale, MineSide, ThresholdsArgs};

/// Largest file that is read.
const MAX_BYTES: u64 = 256 << 20;

/// Mines the file, or walks through it day by day; the report as text, or as JSON.
pub(super) fn report(path: &Path, args: &ThresholdsArgs) -> Result<Value, Failure> {
    let points = read(path)?;
    let options = MiningOptions {
        false_per_week: args.per_week.unwrap_or(1.0),
        side: match args.side {
            MineSide::Above => Side::Above,
            MineSide::Below => Side::Below,
            MineSide::Both => Side::Both,
        },
        scale: match args.scale {
            MineScale::Auto => Scale::Auto,
            MineScale::Log => Scale::Log,
            MineScale::Raw => Scale::Raw,
        },
        ..MiningOptions::default()
    };
    if let Some(from) = &args.walk_from {
        let incidents =
            args.incident.iter().map(|text| span(text)).collect::<Result<Vec<_>, _>>()?;
        let events = walk(&points, seconds(from)?, &incidents, &options);
        return Ok(json!({"events": events.iter().map(event).collect::<Vec<_>>()}));
    }
    let mined = mine(&points, &options)
        .map_err(|little| Failure::new(format!("cannot mine `{}`: {little}", path.display())))?;
    let at = points.last().map_or(0, |point| point.at);
    let (low, high) = mined.range(at);
    Ok(json!({
        "known_days": mined.days,
        "season": mined.season.as_str(),
        "is_log": mined.is_log,
        "expected": mined.expected(at),
        "low": low,
        "high": high,
        "bounds": mined.bounds.iter().map(|bound| json!({
            "points": bound.points, "spread": bound.spread, "threshold": bound.threshold,
        })).collect::<Vec<_>>(),
        "events": mined.events.iter().map(event).collect::<Vec<_>>(),
    }))
}

fn event(event: &Event) -> Value {
    json!({"from_ts": time_text(event.from), "to_ts": time_text(event.to), "nearness_ratio": event.worst})
}

fn time_text(seconds: i64) -> String {
    Micros(seconds * 1_000_000).to_string()
}

/// Points of a file, sorted by time.
fn read(path: &Path) -> Result<Vec<Point>, Failure> {
    let size = std::fs::metadata(path).map_err(|error| read_failure(path, &error))?.len();
    if size > MAX_BYTES {
        return Err(Failure::new(format!("cannot read `{}`: larger than 256 MiB", path.display())));
    }
    let text = std::fs::read_to_string(path).map_err(|error| read_failure(path, &error))?;
    parse(&text).map_err(|(line, why)| {
        Failure::new(format!("cannot read `{}:{line}`: {why}", path.display()))
            .hint(
                "a line is a time and a value: `2026-11-21 12:00:00,42.5`; the first may be a head",
            )
            .code(EXIT_USAGE)
    })
}

/// Points of a text, or the line that is none.
fn parse(text: &str) -> Result<Vec<Point>, (usize, String)> {
    let mut points = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let cells = line.split_once(',').map(|(time, value)| (time.trim(), value.trim()));
        let point = cells.and_then(|(time, value)| {
            let at =
                time.parse().ok().or_else(|| Some(parse_time(time)?.0.div_euclid(1_000_000)))?;
            let value = value.parse().ok().filter(|value: &f64| value.is_finite())?;
            Some(Point { at, value })
        });
        match point {
            Some(point) => points.push(point),
            None if number == 0 => {}
            None => return Err((number + 1, format!("`{line}` is no time and value"))),
        }
    }
    points.sort_by_key(|point| point.at);
    Ok(points)
}

fn seconds(text: &str) -> Result<i64, Failure> {
    let time = text.parse().ok().or_else(|| Some(parse_time(text)?.0.div_euclid(1_000_000)));
    time.ok_or_else(|| {
        Failure::new(format!("cannot understand the time `{text}`"))
            .hint("write it as 2026-11-21T12:00:00Z")
            .code(EXIT_USAGE)
    })
}

/// `FROM/TO`.
fn span(text: &str) -> Result<Range<i64>, Failure> {
    let (from, to) = text.split_once('/').ok_or_else(|| {
        Failure::new(format!("cannot understand the incident `{text}`"))
            .hint("write it as 2026-11-21T12:00:00Z/2026-11-21T12:30:00Z")
            .code(EXIT_USAGE)
    })?;
    Ok(seconds(from)?..seconds(to)?)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn lines_are_times_and_values_in_any_order_after_a_head() {
        let points = parse("timestamp,value\n2014-04-01 00:05:00,2\n1396310400,1.5\n\n").unwrap();
        let pairs: Vec<(i64, f64)> = points.iter().map(|point| (point.at, point.value)).collect();
        assert_eq!(pairs, [(1_396_310_400, 1.5), (1_396_310_700, 2.0)]);
        assert_eq!(parse("a,b\n1,2\nx,3").unwrap_err(), (3, "`x,3` is no time and value".into()));
        assert!(parse("1,NaN\n2,inf").is_err());
    }
}
