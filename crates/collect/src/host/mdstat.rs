//! `/proc/mdstat`, a file made for humans (kernel `md_seq_show`, `raid10_status`).
//!
//! ```text
//! md0 : active raid1 sdb1[1](F) sda1[0]
//!       1047552 blocks super 1.2 [2/1] [U_]
//!       [==>..................]  recovery = 12.6% (132096/1047552) finish=0.4min speed=33024K/sec
//!
//! md127 : inactive sdb[1](S) sda[0](S)
//!       5288 blocks super external:imsm
//! ```
//!
//! The number behind a member is not its slot: it stays the same when another slot is filled.

use super::raid_layout::RaidLayout;
use super::text;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RaidArray {
    pub(super) name: String,
    pub(super) is_active: bool,
    pub(super) level: Option<String>,
    pub(super) wanted: Option<i64>,
    pub(super) present: Option<i64>,
    pub(super) slots: Option<String>,
    pub(super) members: String,
    pub(super) failed: Option<String>,
    pub(super) metadata: Option<String>,
    pub(super) layout: RaidLayout,
    pub(super) action: Option<String>,
    pub(super) ratio: Option<f64>,
    pub(super) finish_seconds: Option<f64>,
    pub(super) bytes_per_second: Option<f64>,
}

impl RaidArray {
    /// Disks that can still fail without data loss, whichever they are.
    pub(super) fn failures_left(&self) -> Option<i64> {
        let slots = self.slots.as_deref().filter(|_| self.is_active)?;
        self.layout.failures_left(self.level.as_deref()?, slots)
    }

    pub(super) fn mirror_set(&self, slot: i64) -> Option<i64> {
        self.layout.mirror_set(self.level.as_deref()?, self.wanted?, slot)
    }
}

pub(super) fn parse(bytes: &[u8]) -> Vec<RaidArray> {
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
    let mut before = "";
    for word in line.split_whitespace() {
        let bracketed = word.strip_prefix('[').and_then(|word| word.strip_suffix(']'));
        if let Some((wanted, present)) = bracketed.and_then(|counts| counts.split_once('/')) {
            array.wanted = wanted.parse().ok();
            array.present = present.parse().ok();
        } else if let Some(slots) = bracketed.filter(|slots| is_slots(slots)) {
            array.slots = Some(slots.to_owned());
        }
        if before == "super" {
            array.metadata = Some(word.to_owned());
        }
        array.layout.note(before, word);
        if let Some(minutes) = word.strip_prefix("finish=").and_then(|w| w.strip_suffix("min")) {
            array.finish_seconds = minutes.parse().ok().map(|minutes: f64| minutes * 60.0);
        }
        if let Some(speed) = word.strip_prefix("speed=").and_then(|w| w.strip_suffix("K/sec")) {
            array.bytes_per_second = speed.parse().ok().map(|speed: f64| speed * 1024.0);
        }
        before = word;
    }
    for action in ["resync", "recovery", "check", "reshape"] {
        let Some((_, after)) = line.split_once(action) else { continue };
        array.action = Some(action.to_owned());
        let percent = after.trim_start_matches([' ', '=']).split('%').next().unwrap_or("");
        array.ratio = percent.trim().parse().ok().map(|percent: f64| percent / 100.0);
    }
}

fn is_slots(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|slot| matches!(slot, b'U' | b'_'))
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
                RaidArray { name: "md0", is_active: true, level: Some("raid1"), wanted: Some(2), present: Some(1), slots: Some("U_"), members: "sda1 sdb1(F)", failed: Some("sdb1"), metadata: Some("1.2"), layout: RaidLayout { near: None, far: None, far_set: None }, action: None, ratio: None, finish_seconds: None, bytes_per_second: None }
                RaidArray { name: "md1", is_active: true, level: Some("raid5"), wanted: Some(3), present: Some(2), slots: Some("UU_"), members: "sdb sdc sdd", failed: None, metadata: None, layout: RaidLayout { near: None, far: None, far_set: None }, action: Some("recovery"), ratio: Some(0.126), finish_seconds: Some(24.0), bytes_per_second: Some(33816576.0) }
                RaidArray { name: "md2", is_active: true, level: Some("raid0"), wanted: None, present: None, slots: None, members: "nvme0n1 nvme1n1", failed: None, metadata: Some("1.2"), layout: RaidLayout { near: None, far: None, far_set: None }, action: None, ratio: None, finish_seconds: None, bytes_per_second: None }
                RaidArray { name: "md3", is_active: true, level: Some("raid1"), wanted: Some(2), present: Some(2), slots: Some("UU"), members: "sde sdf", failed: None, metadata: None, layout: RaidLayout { near: None, far: None, far_set: None }, action: Some("resync"), ratio: None, finish_seconds: None, bytes_per_second: None }
                RaidArray { name: "md127", is_active: false, level: None, wanted: None, present: None, slots: None, members: "sdg(S)", failed: None, metadata: Some("1.2"), layout: RaidLayout { near: None, far: None, far_set: None }, action: None, ratio: None, finish_seconds: None, bytes_per_second: None }
            "#]],
        );
    }

    /// Shapes of files that other programs misread, from their trackers.
    #[test]
    fn containers_nas_arrays_and_rare_marks_are_read() {
        let text = "Personalities : [raid1] [raid10]
md127 : active raid1 sda[1] sdb[0]
      976759808 blocks super external:/md0/0 [2/2] [UU]

md0 : inactive sda[1](S) sdb[0](S)
      5288 blocks super external:imsm

md9 : active raid1 sda1[0] sdd1[3] sdc1[2] sdb1[1]
      530048 blocks super 1.0 [24/4] [UUUU____________________]
      bitmap: 1/1 pages [4KB], 65536KB chunk

md3 : active raid1 sda3[2] sdc3[3](W)(R) sdb3[0]
      976015360 blocks super 1.2 [2/3] [UU]
      [===>.................]  check = 15.6% (152996864/976015360) finish=153.2min speed=89504K/sec

md4 : active raid10 nvme3n1[3] nvme2n1[2] nvme0n1[0]
      507904 blocks super 1.2 64K chunks 2 near-copies [4/3] [U_UU]
        resync=PENDING

md5 : active raid5 sda4[0] sdb4[1] sdc4[3](J)
      100 blocks level 5, 1024k chunk, algorithm 2 [10/7] [UUUUUUU___]

md6 : inactive
";
        let shown: Vec<String> = parse(text.as_bytes())
            .iter()
            .map(|a| {
                let left = a.failures_left();
                format!("{} {} {:?} {:?} left {left:?}\n", a.name, a.is_active, a.metadata, a.slots)
            })
            .collect();
        expect![[r#"
            md127 true Some("external:/md0/0") Some("UU") left Some(1)
            md0 false Some("external:imsm") None left None
            md9 true Some("1.0") Some("UUUU____________________") left Some(3)
            md3 true Some("1.2") Some("UU") left Some(1)
            md4 true Some("1.2") Some("U_UU") left Some(0)
            md5 true None Some("UUUUUUU___") left Some(-2)
            md6 false None None left None
        "#]]
        .assert_eq(&shown.concat());
        // Unraid writes another format.
        assert!(parse(b"sbName=/boot/config/super.dat\nsbVersion=2.9.17\n").is_empty());
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
