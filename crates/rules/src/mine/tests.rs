//! Properties of every series, over traffic generated from seeds.

use super::*;

/// Noise from a seed (xorshift).
struct Noise(u64);

impl Noise {
    fn share(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        f64::from(u32::try_from(self.0 >> 32).unwrap()) / f64::from(u32::MAX)
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.share()).sum::<f64>() - 6.0
    }
}

const BEGIN: i64 = 7 * DAY * 2_400;
const STEP: i64 = 300;

/// Requests per five minutes: nights, weekends a third lower, autocorrelated noise, and overall
/// `growth`.
fn traffic(seed: u64, days: i64, growth: f64) -> Vec<Point> {
    let mut noise = Noise(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut drift = 0.0;
    (0..days * DAY / STEP)
        .map(|number| {
            let at = BEGIN + number * STEP;
            let day = (at / DAY + 3) % 7;
            let angle = (at % DAY) as f64 / DAY as f64 * std::f64::consts::TAU;
            drift = 0.8 * drift + 0.03 * noise.normal();
            let weekend = if day >= 5 { 0.667 } else { 1.0 };
            let grown = 1.0 + growth * (number * STEP) as f64 / (days * DAY) as f64;
            let value = 1000.0 * grown * weekend * (1.0 - 0.55 * angle.cos()) * f64::exp(drift);
            Point { at, value: value.round() }
        })
        .collect()
}

fn options(side: Side) -> MiningOptions {
    MiningOptions { side, ..MiningOptions::default() }
}

/// The points with those of a range multiplied.
fn scaled(points: &[Point], range: std::ops::Range<usize>, factor: f64) -> Vec<Point> {
    let mut points = points.to_vec();
    for point in &mut points[range] {
        point.value *= factor;
    }
    points
}

#[test]
fn week_is_found_and_normal_is_near_the_truth() {
    let points = traffic(1, 28, 0.0);
    let mined = mine(&points, &options(Side::Below)).unwrap();
    assert_eq!((mined.season, mined.is_log), (Season::Week, true));
    let off = points.iter().map(|point| (mined.expected(point.at) / point.value).ln().abs());
    assert!(off.sum::<f64>() / points.len() as f64 <= 0.08);
    let (low, high) = mined.range(points[0].at);
    assert!(low < mined.expected(points[0].at) && mined.expected(points[0].at) < high);
}

#[test]
fn replay_stays_within_what_was_asked() {
    for (seed, asked) in [(1, 0.25), (2, 1.0), (3, 4.0)] {
        let options = MiningOptions { false_per_week: asked, ..options(Side::Both) };
        let mined = mine(&traffic(seed, 28, 0.3), &options).unwrap();
        let events = mined.events.len() as f64;
        assert!(events <= asked * mined.weeks, "{events} events, asked {asked} a week");
    }
}

#[test]
fn unseen_weeks_have_few_events_and_drops_are_found_at_any_growth() {
    for growth in [0.0, 1.0] {
        let points = traffic(5, 42, growth);
        let from = points[28 * 288].at;
        let options = options(Side::Below);
        assert!(walk(&points, from, &[], &options).len() <= 3, "growth {growth}");
        for day in [29, 34, 40] {
            let first = day * 288 + 130;
            let dropped = scaled(&points, first..first + 6, 0.7);
            let at = points[first].at;
            let events = walk(&dropped[..first + 12], at - DAY, &[], &options);
            let is_found = |event: &Event| event.from <= at + 1800 && event.to >= at;
            assert!(events.iter().any(is_found), "growth {growth}, day {day}");
        }
    }
}

#[test]
fn a_unit_does_not_matter() {
    let points = traffic(7, 28, 0.0);
    let thousand = scaled(&points, 0..points.len(), 1000.0);
    let options = MiningOptions { scale: Scale::Log, ..options(Side::Both) };
    let of = |points: &[Point]| -> Vec<(i64, i64)> {
        let mined = mine(points, &options).unwrap();
        mined.events.iter().map(|event| (event.from, event.to)).collect()
    };
    assert_eq!(of(&points), of(&thousand));
}

#[test]
fn an_hour_of_summer_time_and_days_without_rows_are_no_incident() {
    let points = traffic(9, 42, 0.0);
    let from = points[28 * 288].at;
    let shifted: Vec<Point> = points
        .iter()
        .map(|point| Point {
            at: if point.at >= from { point.at + 3600 } else { point.at },
            ..*point
        })
        .collect();
    assert!(walk(&shifted, from, &[], &options(Side::Below)).len() <= 4);
    let gap: Vec<Point> = points
        .iter()
        .filter(|point| !(from..from + 2 * DAY).contains(&point.at))
        .copied()
        .collect();
    assert!(walk(&gap, from, &[], &options(Side::Below)).len() <= 3);
}

#[test]
fn confirmed_incidents_teach_nothing() {
    let points = traffic(11, 28, 0.0);
    let first = 20 * 288 + 100;
    let broken = scaled(&points, first..first + 12, 0.1);
    let span = points[first].at..points[first + 12].at;
    let options = options(Side::Below);
    let learned = mine(&broken, &options).unwrap().bounds[0].threshold;
    let masked = mine(&without(&broken, &[span]), &options).unwrap().bounds[0].threshold;
    assert!(masked <= learned);
    assert!(mine(&points, &options).unwrap().bounds[0].threshold * 1.2 >= masked);
}

#[test]
fn too_little_is_said() {
    let hours = traffic(1, 1, 0.0);
    let few = mine(&hours[..100], &MiningOptions::default()).unwrap_err();
    assert_eq!(
        few.to_string(),
        "9.0 h of history with 100 points; at least a day with 48 points is needed"
    );
    assert!(mine(&hours, &MiningOptions::default()).is_ok());
    let same: Vec<Point> = hours.iter().map(|point| Point { value: 5.0, ..*point }).collect();
    assert_eq!(mine(&same, &MiningOptions::default()).unwrap_err(), TooLittle::Constant);
    let none: Vec<Point> = hours.iter().map(|point| Point { value: 0.0, ..*point }).collect();
    let never = [NamedSeries { name: "clients".to_owned(), points: none }];
    assert_eq!(mine_constant(&never, &MiningOptions::default()).unwrap_err(), TooLittle::Constant);
    assert!(mine(&[], &MiningOptions::default()).is_err());
}

#[test]
fn one_number_for_all_subjects_keeps_to_the_budget() {
    let subject = |name: &str, seed| {
        let points = traffic(seed, 28, 0.0).into_iter();
        let points = points.map(|point| Point { value: point.value / 10_000.0, ..point }).collect();
        NamedSeries { name: name.to_owned(), points }
    };
    let mut subjects = vec![subject("a", 1), subject("b", 2)];
    subjects[1].points[5_000].value = 3.0;
    let options = MiningOptions {
        side: Side::Above,
        hold: 1,
        false_per_week: 0.25,
        ..MiningOptions::default()
    };
    let mined = mine_constant(&subjects, &options).unwrap();
    let events = replay_constant(&subjects, mined.value, &options);
    assert_eq!((events.len(), events[0].subject.as_str(), events[0].event.worst), (1, "b", 3.0));
    assert!((0.15..0.5).contains(&mined.value), "{}", mined.value);
    let below = MiningOptions { side: Side::Below, ..options };
    let low = mine_constant(&subjects, &below).unwrap();
    assert!(replay_constant(&subjects, low.value, &below).len() <= 1);
    assert!((0.01..0.05).contains(&low.value), "{}", low.value);
}

#[test]
fn any_series_is_mined_or_refused_without_panic() {
    arbtest::arbtest(|u| {
        let count = u.int_in_range(0..=400)?;
        let mut at = 0;
        let mut points = Vec::new();
        for _ in 0..count {
            at += u.int_in_range(1..=40_000)?;
            let value = f64::from(u.arbitrary::<i32>()?) / 7.0;
            points.push(Point { at, value });
        }
        let side = *u.choose(&[Side::Above, Side::Below, Side::Both])?;
        let options = MiningOptions { side, ..MiningOptions::default() };
        if let Ok(mined) = mine(&points, &options) {
            assert!(mined.events.len() as f64 <= mined.weeks + 1e-9);
        }
        walk(&points, at / 2, &[], &options);
        let _ = mine_constant(&[NamedSeries { name: String::new(), points }], &options);
        Ok(())
    })
    .budget_ms(2_000);
}
