//! A log that is deleted while the hub is away: its space is given back, and its lines arrive once
//! all the same.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::fleet::{FleetHost, FleetSite};
use super::fleet_torture::Disk;
use super::harness::{text, try_rows, wait_for};

const PATIENCE: Duration = Duration::from_secs(60);
const COUNTED: &str = "select count(*), count(distinct body) from log where body like 'line %'";

/// Bytes in use, as `df` says.
fn used_bytes(disk: &Path) -> u64 {
    let fs = rustix::fs::statvfs(disk).expect("it is mounted");
    (fs.f_blocks - fs.f_bfree) * fs.f_frsize
}

fn write_lines(log: &Path, numbers: std::ops::Range<u64>) {
    let file = std::fs::OpenOptions::new().create(true).append(true).open(log);
    let mut file = std::io::BufWriter::new(file.expect("it can be written"));
    for number in numbers {
        let salt = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        writeln!(file, "line {number:08} {salt:016x} and what else an application says")
            .expect("room");
    }
}

#[test]
fn deleted_log_gives_its_space_back_and_arrives_once_when_the_hub_is_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let disk = dir.path().join("disk");
    let Some(_mounted) = Disk::mount(&disk) else { return };
    let (data, agent_dir) = (dir.path().join("data"), dir.path().join("agent"));
    let log = disk.join("app.log");
    write_lines(&log, 0..1000);
    let (site, host) = (FleetSite::new(&data), FleetHost(&agent_dir));
    let hub = site.start();
    let joined = host.join(&site.token(&[]), "web1");
    assert!(joined.status.success(), "{}", text(&joined.stderr));
    let soon = [("WEIR_AGENT_DELETED_SECONDS", "2")];
    let agent = host.start_with(&log, site.agents, &soon);
    wait_for("the first lines", PATIENCE, || {
        (hub.number("select count(*) from log where body like 'line %'") == 1000).then_some(())
    });
    hub.kill();
    write_lines(&log, 1000..300_000);
    let held = used_bytes(&disk);
    assert!(held > 15 << 20, "{held}");
    std::fs::remove_file(&log).expect("it is there");
    // The agent has it open, so deleting frees nothing by itself.
    assert!(used_bytes(&disk) > 15 << 20);
    wait_for("the space", PATIENCE, || (used_bytes(&disk) < 1 << 20).then_some(()));
    let rests = agent_dir.join("rests");
    let rest = std::fs::read_dir(&rests).expect("it is there").flatten().next().expect("a rest");
    println!("{held} bytes held, {} kept", rest.metadata().expect("it is there").len());
    drop(agent); // killed
    write_lines(&log, 300_000..301_000);
    let agent = host.start_with(&log, site.agents, &soon);
    let hub = site.start();
    let counted = wait_for("every line", 2 * PATIENCE, || {
        let rows = try_rows(&site.url(), COUNTED).ok()?;
        (rows[0][0].as_u64()? >= 301_000).then(|| rows[0].clone())
    });
    assert_eq!(counted, [301_000, 301_000]);
    let of_one = "select count(distinct stream) from log where body like 'line %' and \
        cast(split_part(body, ' ', 2) as bigint) < 300000";
    assert_eq!(hub.number(of_one), 1, "the rest belongs to the stream that its file was");
    assert_eq!(hub.number("select count(*) from log_gap where lost_bytes > 0"), 0);
    wait_for("the rest to go", PATIENCE, || {
        (std::fs::read_dir(&rests).expect("it is there").count() == 0).then_some(())
    });
    drop(agent);
    assert_eq!(hub.terminate(), Some(0));
}

#[test]
fn what_fits_nowhere_is_a_gap_of_so_many_bytes() {
    let dir = tempfile::tempdir().expect("a directory");
    let disk = dir.path().join("disk");
    let Some(_mounted) = Disk::mount(&disk) else { return };
    let (data, agent_dir) = (dir.path().join("data"), dir.path().join("agent"));
    let log = disk.join("app.log");
    write_lines(&log, 0..1000);
    let (site, host) = (FleetSite::new(&data), FleetHost(&agent_dir));
    let hub = site.start();
    assert!(host.join(&site.token(&[]), "web1").status.success());
    let nowhere = [
        ("WEIR_AGENT_DELETED_SECONDS", "2"),
        ("WEIR_AGENT_DELETED_USED_PERCENT", "0"),
        ("WEIR_AGENT_REST_BYTES", "100000"),
    ];
    let agent = host.start_with(&log, site.agents, &nowhere);
    wait_for("the first lines", PATIENCE, || {
        (hub.number("select count(*) from log where body like 'line %'") == 1000).then_some(())
    });
    hub.kill();
    // More than may be in flight.
    write_lines(&log, 1000..400_000);
    let bytes = std::fs::metadata(&log).expect("it is there").len();
    std::fs::remove_file(&log).expect("it is there");
    wait_for("the space", PATIENCE, || (used_bytes(&disk) < 1 << 20).then_some(()));
    let hub = site.start();
    let gap = "select lost_bytes, source_offset, end_offset, is_exact, reason from log_gap where lost_bytes > 0";
    let rows = wait_for("the gap", PATIENCE, || {
        let rows = try_rows(&site.url(), gap).ok()?;
        (!rows.is_empty()).then_some(rows)
    });
    let (lost, from) = (number_at(&rows[0], 0), number_at(&rows[0], 1));
    println!("{lost} of {bytes} bytes are lost, from {from} on");
    assert_eq!((rows.len(), number_at(&rows[0], 2), from + lost), (1, bytes, bytes));
    assert_eq!([&rows[0][3], &rows[0][4]], [&serde_json::json!(true), &serde_json::json!("gone")]);
    assert!(lost > 1 << 20, "{lost}");
    // Lines that are not in the gap are in rows: they were in flight when the hub ended.
    let kept = hub.number("select sum(length(body) + 1) from log where body like 'line %'");
    assert_eq!(u64::try_from(kept), Ok(from));
    drop(agent);
    assert_eq!(hub.terminate(), Some(0));
}

fn number_at(row: &[Value], at: usize) -> u64 {
    row[at].as_u64().expect("a number")
}
