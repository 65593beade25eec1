//! The charts of the answer as a picture: `--png FILE`. What the page of `--html` shows, where no
//! browser is.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use embedded_graphics::Drawable;
use embedded_graphics::geometry::{Point, Size};
use embedded_graphics::mono_font::iso_8859_1::{FONT_8X13, FONT_8X13_BOLD, FONT_10X20};
use embedded_graphics::mono_font::{MonoFont, MonoTextStyle};
use embedded_graphics::pixelcolor::{Rgb888, RgbColor};
use embedded_graphics::prelude::Primitive;
use embedded_graphics::primitives::{Line, PrimitiveStyle};
use embedded_graphics::text::{Baseline, Text};
use weir_process::failure::Failure;
use weir_tables::Micros;
use weir_wire::{DelayVerdict, Report, SliceReport, TierReport};

use super::canvas::Canvas;
use super::chart::{ChartScale, Fold, folded};
use super::text::{thousands, time};

const WIDTH: i32 = 1120;
const MARGIN: i32 = 24;
/// Where charts begin: left of it stand their largest values.
const CHART_LEFT: i32 = 110;
const CHART_WIDTH: i32 = WIDTH - CHART_LEFT - MARGIN;
const CHART_HEIGHT: i32 = 90;
/// A chart with its title, the time under it, and what separates it from the next.
const CHART_STEP: i32 = CHART_HEIGHT + 46;
const LINE_STEP: i32 = 18;
const TITLE_STEP: i32 = 30;
/// Letters of 8 pixels in a line.
const LETTERS: usize = 134;
/// Ports that are shown, those with the most requests; a picture has an end.
const TIERS_MAX: usize = 6;

const INK: Rgb888 = Rgb888::new(0x15, 0x21, 0x1f);
const MUTED: Rgb888 = Rgb888::new(0x53, 0x64, 0x6a);
const GRID: Rgb888 = Rgb888::new(0xdd, 0xe4, 0xe5);
const CALM: Rgb888 = Rgb888::new(0x1c, 0x6b, 0x46);
const OURS: Rgb888 = Rgb888::new(0xb3, 0x26, 0x1e);
const THEIRS: Rgb888 = Rgb888::new(0x85, 0x53, 0x00);
/// The page's, in its order.
const COLORS: [Rgb888; 3] =
    [Rgb888::new(0x0e, 0x74, 0x90), Rgb888::new(0xc2, 0x57, 0x0c), Rgb888::new(0x5b, 0x50, 0xb8)];

/// Writes the picture of a report.
pub(super) fn write(path: &Path, report: &Report, files: &[PathBuf]) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(format!("cannot write `{}`: {error}", path.display()))
            .hint("check that the directory exists and is writable")
    };
    let mut out = BufWriter::new(File::create(path).map_err(failed)?);
    draw(report, files).write_png(&mut out).and_then(|()| out.flush()).map_err(failed)
}

fn draw(report: &Report, files: &[PathBuf]) -> Canvas {
    let mut tiers: Vec<&TierReport> =
        report.tiers.iter().filter(|tier| !tier.slices.is_empty()).collect();
    tiers.sort_by_key(|tier| (std::cmp::Reverse(tier.requests), tier.port));
    let left_out = tiers.len().saturating_sub(TIERS_MAX);
    tiers.truncate(TIERS_MAX);
    let mut pen = Pen::new(Size::new(0, 0));
    // Once on nothing, to see how long it becomes.
    pen.report(report, files, &tiers, left_out);
    let height = u32::try_from(pen.y + MARGIN).unwrap_or(0);
    let mut pen = Pen::new(Size::new(WIDTH.cast_unsigned(), height));
    pen.report(report, files, &tiers, left_out);
    pen.canvas
}

/// Draws from above to below.
struct Pen {
    canvas: Canvas,
    y: i32,
}

/// A line of a chart: its name and what it shows of a slice.
type Series = (&'static str, fn(&SliceReport) -> Option<f64>);

/// Lines on one scale.
struct Chart {
    lines: &'static [Series],
    fold: Fold,
    /// How a value is written.
    show: fn(f64) -> String,
}

#[expect(clippy::cast_precision_loss, reason = "counts and microseconds are below 2^53")]
const CHARTS: [Chart; 3] = [
    Chart {
        lines: &[
            ("arrivals", |slice| Some(slice.arrivals as f64)),
            ("completions", |slice| Some(slice.completions as f64)),
        ],
        fold: Fold::Mean,
        show: whole,
    },
    Chart {
        lines: &[("under way", |slice| Some(slice.concurrency()))],
        fold: Fold::Mean,
        show: whole,
    },
    Chart {
        lines: &[
            ("time p95", |slice| slice.total_us.map(|[_, p95, _]| p95 as f64)),
            ("think p95", |slice| slice.think_us.map(|[_, p95, _]| p95 as f64)),
            ("delay p95", |slice| slice.delay_us.map(|[_, p95, _]| p95 as f64)),
        ],
        fold: Fold::Max,
        show: span,
    },
];

fn whole(value: f64) -> String {
    let digits = usize::from(value > 0.0 && value < 10.0);
    format!("{value:.digits$}")
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times are positive and short"
)]
fn span(us: f64) -> String {
    time(us as u64)
}

impl Pen {
    fn new(size: Size) -> Self {
        Self { canvas: Canvas::new(size, Rgb888::WHITE), y: MARGIN }
    }

    fn report(
        &mut self,
        report: &Report,
        files: &[PathBuf],
        tiers: &[&TierReport],
        left_out: usize,
    ) {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let begin = report.span_ns.map(|[first, _]| Micros(first.div_euclid(1000)).to_string());
        let from = begin.map(|begin| format!(" from {begin}")).unwrap_or_default();
        let packets = thousands(report.packets);
        self.paragraph(&format!("{}: {packets} TCP packets{from}", names.join(", ")), MUTED);
        let verdict = report.verdict;
        let answer = format!("Was it us? {} ({})", verdict.answer(), verdict.as_str());
        self.text(&answer, MARGIN, &FONT_10X20, color(verdict));
        self.y += TITLE_STEP;
        self.paragraph(&report.why, INK);
        for tier in tiers {
            self.tier(tier, report.slice_ns);
        }
        if left_out > 0 {
            self.y += LINE_STEP;
            self.paragraph(&format!("{left_out} more ports are not shown"), MUTED);
        }
    }

    fn tier(&mut self, tier: &TierReport, slice_ns: i64) {
        self.y += LINE_STEP;
        let head = format!(
            "port {} ({}): {}, {} requests, one slice is {}",
            tier.port,
            tier.protocol,
            tier.verdict.as_str(),
            thousands(tier.requests),
            time(u64::try_from(slice_ns / 1000).unwrap_or(0))
        );
        self.text(&head, MARGIN, &FONT_8X13_BOLD, color(tier.verdict));
        self.y += LINE_STEP;
        self.paragraph(&tier.why, MUTED);
        for chart in &CHARTS {
            self.chart(tier, chart);
        }
    }

    fn chart(&mut self, tier: &TierReport, chart: &Chart) {
        let columns = usize::try_from(CHART_WIDTH).unwrap_or(0);
        let lines: Vec<Vec<Option<f64>>> = chart
            .lines
            .iter()
            .map(|(_, measure)| {
                let values: Vec<_> = tier.slices.iter().map(measure).collect();
                folded(&values, columns, chart.fold)
            })
            .collect();
        let known = || lines.iter().flatten().flatten().copied();
        if known().next().is_none() {
            return;
        }
        let highest = known().fold(0.0, f64::max);
        let mut x = CHART_LEFT;
        for ((name, _), color) in chart.lines.iter().zip(COLORS) {
            self.text(name, x, &FONT_8X13_BOLD, color);
            x += 8 * i32::try_from(name.len() + 3).unwrap_or(0);
        }
        let (top, bottom) = (self.y + LINE_STEP, self.y + LINE_STEP + CHART_HEIGHT);
        for (y, value) in [(top, highest), (bottom, 0.0)] {
            self.stroke(Point::new(CHART_LEFT, y), Point::new(CHART_LEFT + CHART_WIDTH, y), GRID);
            self.text_at(&(chart.show)(value), Point::new(MARGIN, y - 7), &FONT_8X13, MUTED);
        }
        for (line, color) in lines.iter().zip(COLORS) {
            self.curve(line, ChartScale { highest }, bottom, color);
        }
        self.times(tier, bottom + 4);
        self.y += CHART_STEP;
    }

    /// The values from left to right; where one is missing the curve is broken.
    fn curve(&mut self, values: &[Option<f64>], scale: ChartScale, bottom: i32, color: Rgb888) {
        let mut before: Option<Point> = None;
        for (at, value) in values.iter().enumerate() {
            let x = ChartColumn { at, count: values.len() }.x();
            let here = value.map(|value| Point::new(x, bottom - scale.pixels(value, CHART_HEIGHT)));
            if let Some(here) = here {
                let from = before.unwrap_or(here);
                self.stroke(from, here, color);
                self.stroke(from + Point::new(0, 1), here + Point::new(0, 1), color);
            }
            before = here;
        }
    }

    /// When the first slice begins, the one in the middle, and the last.
    fn times(&mut self, tier: &TierReport, y: i32) {
        let count = tier.slices.len();
        let mut shown = vec![0, count / 2, count - 1];
        shown.dedup();
        for at in shown {
            let begin = Micros(tier.slices[at].start_ns.div_euclid(1000)).to_string();
            let clock = begin.get(11..19).unwrap_or_default();
            let x = (ChartColumn { at, count }.x() - 32).clamp(CHART_LEFT, WIDTH - MARGIN - 64);
            self.text_at(clock, Point::new(x, y), &FONT_8X13, MUTED);
        }
    }

    /// Text over as many lines as it takes.
    fn paragraph(&mut self, text: &str, color: Rgb888) {
        let mut line = String::new();
        for word in text.split(' ') {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > LETTERS {
                self.text(&std::mem::take(&mut line), MARGIN, &FONT_8X13, color);
                self.y += LINE_STEP;
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.text(&line, MARGIN, &FONT_8X13, color);
        self.y += LINE_STEP;
    }

    fn text(&mut self, text: &str, x: i32, font: &MonoFont<'_>, color: Rgb888) {
        self.text_at(text, Point::new(x, self.y), font, color);
    }

    /// Letters that the font has not are question marks.
    fn text_at(&mut self, text: &str, at: Point, font: &MonoFont<'_>, color: Rgb888) {
        let style = MonoTextStyle::new(font, color);
        let Ok(_) = Text::with_baseline(text, at, style, Baseline::Top).draw(&mut self.canvas);
    }

    fn stroke(&mut self, from: Point, to: Point, color: Rgb888) {
        let style = PrimitiveStyle::with_stroke(color, 1);
        let Ok(()) = Line::new(from, to).into_styled(style).draw(&mut self.canvas);
    }
}

/// One of the slices of a chart.
struct ChartColumn {
    at: usize,
    count: usize,
}

impl ChartColumn {
    /// Distance from the left edge.
    fn x(&self) -> i32 {
        let (at, last) = (self.at as u64, self.count.saturating_sub(1).max(1) as u64);
        let width = u64::from(CHART_WIDTH.cast_unsigned());
        CHART_LEFT + i32::try_from(at * width / last).unwrap_or(CHART_WIDTH)
    }
}

/// As in the other ways to show a verdict: our fault is red.
fn color(verdict: DelayVerdict) -> Rgb888 {
    match verdict {
        DelayVerdict::Smooth => CALM,
        _ if verdict.answer().starts_with("Yes") => OURS,
        _ => THEIRS,
    }
}
