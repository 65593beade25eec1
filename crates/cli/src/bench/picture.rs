//! The grid as a picture: lookups a second over requests under way, both in powers of ten, a line
//! for each size of range; and the line that would be if every read took as long as one alone.

use std::fmt::Write as _;

use super::cell::{MeasuredCell, alone};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 80.0;
const TOP: f64 = 50.0;
const RIGHT: f64 = 170.0;
const BOTTOM: f64 = 60.0;
/// Told apart by people who see colours differently (Okabe and Ito).
const COLORS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// Where values are in the picture.
struct Axes {
    x: (f64, f64),
    y: (f64, f64),
}

impl Axes {
    fn new(measured: &[MeasuredCell]) -> Self {
        let decades = |values: Vec<f64>| {
            let known = || values.iter().copied().filter(|value| *value > 0.0);
            let least = known().fold(f64::MAX, f64::min).min(1e12).log10().floor();
            let most = known().fold(1.0, f64::max).log10().ceil();
            (least.min(most - 1.0), most)
        };
        let rates = measured.iter().flat_map(|one| [one.rate(), ideal(measured, one)]);
        Self { x: decades(measured.iter().map(under_way).collect()), y: decades(rates.collect()) }
    }

    /// Distance from the left edge of a number of requests under way.
    fn left(&self, under_way: f64) -> f64 {
        LEFT + part(under_way, self.x) * (WIDTH - LEFT - RIGHT)
    }

    /// Distance from the upper edge of a rate.
    fn top(&self, rate: f64) -> f64 {
        HEIGHT - BOTTOM - part(rate, self.y) * (HEIGHT - TOP - BOTTOM)
    }
}

fn part(value: f64, (from, to): (f64, f64)) -> f64 {
    ((value.max(1e-3).log10() - from) / (to - from)).clamp(0.0, 1.0)
}

#[expect(clippy::cast_precision_loss, reason = "small")]
fn under_way(one: &MeasuredCell) -> f64 {
    one.in_flight() as f64
}

fn ideal(measured: &[MeasuredCell], one: &MeasuredCell) -> f64 {
    under_way(one) / alone(measured, one.cell.range_bytes).max(1e-9)
}

/// The whole file.
pub(super) fn svg(place: &str, measured: &[MeasuredCell]) -> String {
    let axes = Axes::new(measured);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"15\">lookups a second of {}</text>\n",
        escaped(place)
    );
    grid(&mut out, &axes);
    let mut lines: Vec<(usize, u64)> =
        measured.iter().map(|one| (one.cell.nodes, one.cell.range_bytes)).collect();
    lines.sort_unstable();
    lines.dedup();
    for (at, key) in lines.iter().enumerate() {
        let mut of_line: Vec<&MeasuredCell> = measured
            .iter()
            .filter(|one: &&MeasuredCell| (one.cell.nodes, one.cell.range_bytes) == *key)
            .collect();
        of_line.sort_by_key(|one| one.in_flight());
        let color = COLORS[at % COLORS.len()];
        let points = |value: &dyn Fn(&MeasuredCell) -> f64| {
            of_line
                .iter()
                .map(|one: &&MeasuredCell| {
                    let (x, y) = (axes.left(under_way(one)), axes.top(value(one)));
                    format!("{x:.1},{y:.1}")
                })
                .collect::<Vec<_>>()
                .join(" ")
        };
        let _ = writeln!(
            out,
            "<polyline fill=\"none\" stroke=\"{color}\" stroke-dasharray=\"2 4\" opacity=\"0.6\" points=\"{}\"/>\n\
             <polyline fill=\"none\" stroke=\"{color}\" stroke-width=\"2\" points=\"{}\"/>",
            points(&|one| ideal(measured, one)),
            points(&MeasuredCell::rate),
        );
        for one in &of_line {
            let (x, y) = (axes.left(under_way(one)), axes.top(one.rate()));
            let _ = writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{color}\"/>");
        }
        let y = TOP + 20.0 * f64::from(u32::try_from(at).unwrap_or_default());
        let x = WIDTH - RIGHT + 16.0;
        let (nodes, bytes) = key;
        let _ = writeln!(
            out,
            "<text x=\"{x}\" y=\"{y}\" fill=\"{color}\">{bytes} B, {nodes} processes</text>"
        );
    }
    out + "</svg>\n"
}

fn grid(out: &mut String, axes: &Axes) {
    let (left, right) = (LEFT, WIDTH - RIGHT);
    let (top, bottom) = (TOP, HEIGHT - BOTTOM);
    for power in powers(axes.x) {
        let value = 10_f64.powf(power);
        let x = axes.left(value);
        let _ = writeln!(
            out,
            "<line x1=\"{x:.1}\" y1=\"{top}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#ddd\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{value}</text>",
            bottom + 18.0
        );
    }
    for power in powers(axes.y) {
        let value = 10_f64.powf(power);
        let y = axes.top(value);
        let _ = writeln!(
            out,
            "<line x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
            left - 8.0,
            y + 4.0
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">requests under way (dotted: if every read took as long as one alone)</text>",
        f64::midpoint(left, right),
        HEIGHT - 16.0
    );
}

fn powers((from, to): (f64, f64)) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(from), |at| Some(at + 1.0)).take_while(move |at| *at <= to)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::cell::{Cell, ReadCounts};
    use super::*;

    #[test]
    fn every_measurement_is_a_point_within_the_picture() {
        let measured: Vec<MeasuredCell> = [(1, 1, 8), (10, 1, 80), (100, 2, 700), (1, 2, 0)]
            .map(|(concurrency, nodes, reads)| {
                let mut counts = ReadCounts::default();
                (0..reads).for_each(|_| counts.add(0.12));
                let (seconds, objects) = (1, 1);
                let (range_bytes, object_bytes) = (1024, 2048);
                let cell = Cell { nodes, concurrency, range_bytes, seconds, objects, object_bytes };
                MeasuredCell { cell, counts }
            })
            .into();
        let svg = svg("s3://a&b", &measured);
        assert_eq!(svg.matches("<circle").count(), 4);
        assert_eq!(svg.matches("<polyline").count(), 4, "two lines, two that would be");
        assert!(svg.contains("s3://a&amp;b") && !svg.contains("NaN") && !svg.contains("inf"));
    }
}
