//! Linux software RAID: `/proc/mdstat`, a file made for humans.
//!
//! ```text
//! md0 : active raid1 sdb1[1](F) sda1[0]
//!       1047552 blocks super 1.2 [2/1] [U_]
//!       [==>..................]  recovery = 12.6% (132096/1047552) finish=0.4min speed=33024K/sec
//! ```

use weir_tables::{Batch, Micros, Raid, RaidRows};

use super::file::KeptFile;
use super::{CollectResult, Collector, View, take, text};

const ARRAY_LIMIT: usize = 256;

#[derive(Debug)]
pub(super) struct RaidCollector {
    file: KeptFile,
    rows: RaidRows,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct RaidArray {
    name: String,
    is_active: bool,
    level: Option<String>,
    wanted: Option<i64>,
    present: Option<i64>,
    members: String,
    failed: Option<String>,
    action: Option<String>,
    ratio: Option<f64>,
    finish_seconds: Option<f64>,
    bytes_per_second: Option<f64>,
}

impl RaidCollector {
    pub(super) fn new(view: &View) -> Self {
        Self { file: KeptFile::new(view.path("proc/mdstat")), rows: RaidRows::default() }
    }
}

impl Collector for RaidCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        // A kernel without md has no such file.
        let Some(bytes) = self.file.read_if_any() else { return Ok(()) };
        for array in parse(bytes).iter().take(ARRAY_LIMIT) {
            self.rows.push(&Raid {
                ts: now,
                host: &view.host,
                array: &array.name,
                is_active: array.is_active,
                level: array.level.as_deref(),
                members_wanted: array.wanted,
                members_present: array.present,
                members: &array.members,
                failed_members: array.failed.as_deref(),
                sync_action: array.action.as_deref(),
                sync_ratio: array.ratio,
                sync_finish_seconds: array.finish_seconds,
                sync_bytes_per_second: array.bytes_per_second,
            });
        }
        take(&mut self.rows, out);
        Ok(())
    }
}

fn parse(bytes: &[u8]) -> Vec<RaidArray> {
    let mut arrays: Vec<RaidArray> = Vec::new();
    for line in text::lines(bytes) {
        let line = String::from_utf8_lossy(line);
        if let Some((name, rest)) = line.split_once(" : ").filter(|_| !line.starts_with(' ')) {
            if name.starts_with("Personalities") {
                continue;
            }
            arrays.push(RaidArray { name: name.trim().to_owned(), ..head(rest) });
        } else if let Some(array) = arrays.last_mut().filter(|_| line.starts_with(' ')) {
            detail(array, &line);
        }
    }
    arrays
}

/// `active (auto-read-only) raid1 sdb1[1](F) sda1[0]`, `inactive sdc[0](S)`.
fn head(rest: &str) -> RaidArray {
    let mut words = rest.split_whitespace().filter(|word| !word.starts_with('(')).peekable();
    let is_active = words.next() == Some("active");
    let level = words.next_if(|word| !word.contains('[')).map(str::to_owned);
    let (mut members, mut failed) = (Vec::new(), Vec::new());
    for word in words {
        let Some((device, marks)) = word.split_once('[') else { continue };
        let marks = marks.split_once(']').map_or("", |(_, marks)| marks);
        members.push(format!("{device}{marks}"));
        if marks.contains("(F)") {
            failed.push(device);
        }
    }
    members.sort_unstable();
    failed.sort_unstable();
    RaidArray {
        is_active,
        level,
        members: members.join(" "),
        failed: (!failed.is_empty()).then(|| failed.join(" ")),
        ..RaidArray::default()
    }
}

fn detail(array: &mut RaidArray, line: &str) {
    for word in line.split_whitespace() {
        let counts = word.strip_prefix('[').and_then(|word| word.strip_suffix(']'));
        if let Some((wanted, present)) = counts.and_then(|counts| counts.split_once('/')) {
            array.wanted = wanted.parse().ok();
            array.present = present.parse().ok();
        }
        if let Some(minutes) = word.strip_prefix("finish=").and_then(|w| w.strip_suffix("min")) {
            array.finish_seconds = minutes.parse().ok().map(|minutes: f64| minutes * 60.0);
        }
        if let Some(speed) = word.strip_prefix("speed=").and_then(|w| w.strip_suffix("K/sec")) {
            array.bytes_per_second = speed.parse().ok().map(|speed: f64| speed * 1024.0);
        }
    }
    for action in ["resync", "recovery", "check", "reshape"] {
        let Some((_, after)) = line.split_once(action) else { continue };
        array.action = Some(action.to_owned());
        let percent = after.trim_start_matches([' ', '=']).split('%').next().unwrap_or("");
        array.ratio = percent.trim().parse().ok().map(|percent: f64| percent / 100.0);
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn check(text: &str, expected: &expect_test::Expect) {
        let shown: Vec<String> =
            parse(text.as_bytes()).iter().map(|a| format!("{a:?}\n")).collect();
        expected.assert_eq(&shown.concat());
    }

    #[test]
    fn degraded_rebuilding_and_inactive_arrays_are_read() {
        let text = "Personalities : [raid1] [raid6] [raid5] [raid4] [raid0]
md0 : active raid1 sdb1[1](F) sda1[0]
      1047552 blocks super 1.2 [2/1] [U_]
      bitmap: 1/1 pages [4KB], 65536KB chunk

md1 : active (auto-read-only) raid5 sdd[3] sdc[1] sdb[0]
      2093056 blocks level 5, 512k chunk, algorithm 2 [3/2] [UU_]
      [==>..................]  recovery = 12.6% (132096/1046528) finish=0.4min speed=33024K/sec

md2 : active raid0 nvme1n1[1] nvme0n1[0]
      2093056 blocks super 1.2 512k chunks

md3 : active raid1 sdf[1] sde[0]
      1047552 blocks [2/2] [UU]
        resync=DELAYED

md127 : inactive sdg[0](S)
      1047552 blocks super 1.2

unused devices: <none>
";
        check(
            text,
            &expect![[r#"
            RaidArray { name: "md0", is_active: true, level: Some("raid1"), wanted: Some(2), present: Some(1), members: "sda1 sdb1(F)", failed: Some("sdb1"), action: None, ratio: None, finish_seconds: None, bytes_per_second: None }
            RaidArray { name: "md1", is_active: true, level: Some("raid5"), wanted: Some(3), present: Some(2), members: "sdb sdc sdd", failed: None, action: Some("recovery"), ratio: Some(0.126), finish_seconds: Some(24.0), bytes_per_second: Some(33816576.0) }
            RaidArray { name: "md2", is_active: true, level: Some("raid0"), wanted: None, present: None, members: "nvme0n1 nvme1n1", failed: None, action: None, ratio: None, finish_seconds: None, bytes_per_second: None }
            RaidArray { name: "md3", is_active: true, level: Some("raid1"), wanted: Some(2), present: Some(2), members: "sde sdf", failed: None, action: Some("resync"), ratio: None, finish_seconds: None, bytes_per_second: None }
            RaidArray { name: "md127", is_active: false, level: None, wanted: None, present: None, members: "sdg(S)", failed: None, action: None, ratio: None, finish_seconds: None, bytes_per_second: None }
        "#]],
        );
    }

    #[test]
    fn any_text_is_no_panic() {
        arbtest::arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            parse(&bytes);
            Ok(())
        });
    }
}
