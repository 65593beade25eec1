//! A recording replays what was recorded; anything else is rejected with a clear error.

use weir_tables::{ConfigDirective, ConfigDirectiveRows, FixedClock, Rows};

use super::*;

fn options() -> HostOptions {
    HostOptions { host: "web1".into(), ..HostOptions::default() }
}

#[test]
fn replay_gives_the_rows_that_were_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("host");
    let clock = FixedClock::new(Micros(1_800_000_000_000_000));
    let meta = RecordingMeta {
        host: "web\"1".into(),
        agent_version: "0.1.0".into(),
        started: clock.now(),
    };
    let mut recorder = Recorder::create(&dir, &meta).unwrap();
    let mut sampler = HostSampler::new(options());
    let mut expected = Vec::new();
    for second in 0..3 {
        clock.set(meta.started + Duration::from_secs(second));
        let batches = sampler.sample(clock.now());
        expected.push((clock.now(), batches.clone()));
        recorder.write(clock.now(), batches).unwrap();
    }
    assert_eq!(recorder.finish().unwrap().samples, 3);
    let mut replay = replay(&dir).unwrap();
    assert_eq!(replay.meta(), &meta);
    for (now, batches) in expected {
        let (then, replayed) = replay.next().unwrap();
        assert_eq!(then, now);
        assert_eq!(replayed.len(), batches.len());
        for (left, right) in replayed.iter().zip(&batches) {
            assert_eq!((left.table.name, &left.rows), (right.table.name, &right.rows));
        }
    }
    assert!(replay.next().is_none());
    assert_eq!(replay.error(), None);
}

#[test]
fn recorded_host_has_raw_files_and_no_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("host");
    let clock = FixedClock::new(Micros(1_800_000_000_000_000));
    let recorded = record(&dir, &options(), 1, &clock).unwrap();
    assert!(recorded.rows > 100 && recorded.files > 50, "{recorded:?}");
    assert!(dir.join("raw/proc/net/netstat").exists());
    assert!(!dir.join("raw/proc/sys/net/ipv4/tcp_fastopen_key").exists());
    assert!(record(&dir, &options(), 1, &clock).unwrap_err().message.contains("is not empty"));
}

#[test]
fn secrets_in_configuration_rows_are_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("host");
    let meta = RecordingMeta { host: "web1".into(), agent_version: "0".into(), started: Micros(0) };
    let mut rows = ConfigDirectiveRows::default();
    rows.push(&ConfigDirective {
        host: "web1",
        directive: "proxy_set_header",
        arguments: "Authorization hunter2",
        ..Default::default()
    });
    let batch = Batch { table: ConfigDirectiveRows::SPEC, rows: rows.finish() };
    let mut recorder = Recorder::create(&dir, &meta).unwrap();
    recorder.write(Micros(0), vec![batch]).unwrap();
    recorder.finish().unwrap();
    let (_, batches) = replay(&dir).unwrap().next().unwrap();
    let shown = format!("{:?}", batches[0].rows);
    assert!(!shown.contains("hunter2") && shown.contains("[redacted]"));
}

#[test]
fn foreign_and_damaged_directories_are_distinguished() {
    let dir = tempfile::tempdir().unwrap();
    let error = replay(dir.path()).unwrap_err();
    assert!(error.hint.unwrap().contains("not a recording"));

    let dir = dir.path().join("host");
    let meta = RecordingMeta { host: "web1".into(), agent_version: "0".into(), started: Micros(0) };
    let mut recorder = Recorder::create(&dir, &meta).unwrap();
    recorder.write(Micros(1), Vec::new()).unwrap();
    recorder.write(Micros(2), Vec::new()).unwrap();
    recorder.finish().unwrap();

    let samples = dir.join(SAMPLES);
    let whole = fs::read(&samples).unwrap();
    for length in 0..whole.len() {
        fs::write(&samples, &whole[..length]).unwrap();
        let Ok(mut replay) = replay(&dir) else { continue };
        assert!(replay.by_ref().count() <= 2);
        assert!(replay.error().is_some(), "cut to {length} bytes");
    }
    fs::write(&samples, b"PK\x03\x04 something else").unwrap();
    assert!(replay(&dir).unwrap_err().message.contains("does not begin with"));

    fs::write(dir.join(META), "version = 99\nhost = \"web1\"\n").unwrap();
    assert!(replay(&dir).unwrap_err().message.contains("newer"));
    fs::write(dir.join(META), "name = \"x\"\n").unwrap();
    assert!(replay(&dir).unwrap_err().message.contains("it has no `version = 1` or `version = 2`"));
    fs::write(dir.join(META), "nonsense").unwrap();
    assert!(replay(&dir).is_err());
}

#[test]
fn each_changed_byte_of_a_recording_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("host");
    let meta = RecordingMeta { host: "web1".into(), agent_version: "0".into(), started: Micros(0) };
    let mut rows = ConfigDirectiveRows::default();
    rows.push(&ConfigDirective { host: "web1", directive: "listen", ..Default::default() });
    let batch = Batch { table: ConfigDirectiveRows::SPEC, rows: rows.finish() };
    let mut recorder = Recorder::create(&dir, &meta).unwrap();
    (0..3).for_each(|second| recorder.write(Micros(second), vec![batch.clone()]).unwrap());
    recorder.finish().unwrap();
    let samples = dir.join(SAMPLES);
    let whole = fs::read(&samples).unwrap();
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        fs::write(&samples, &changed).unwrap();
        let Ok(mut replay) = replay(&dir) else { continue };
        let times: Vec<i64> = replay.by_ref().map(|(now, _)| now.0).collect();
        assert!(replay.error().is_some(), "byte {at}: {times:?}");
        assert!(
            times.iter().zip(0..).all(|(time, second)| *time == second),
            "byte {at}: {times:?}"
        );
    }
    fs::write(&samples, &whole).unwrap();
    let text = fs::read(dir.join(META)).unwrap();
    for at in 0..text.len() {
        let mut changed = text.clone();
        changed[at] ^= 1 << (at % 8);
        fs::write(dir.join(META), &changed).unwrap();
        // What is for people only, such as the comment and the time as a text, may differ.
        assert!(replay(&dir).map_or(true, |replay| *replay.meta() == meta), "byte {at}");
    }
}

#[test]
fn recordings_without_checksums_replay() {
    let dir = tempfile::tempdir().unwrap();
    let text = "version = 1\nhost = \"web1\"\nagent_version = \"0\"\nstarted_micros = 5\n";
    fs::write(dir.path().join(META), text).unwrap();
    let parcel = Parcel::default().encode(true);
    let length = u32::try_from(parcel.len()).unwrap().to_le_bytes();
    let frame = [&7_i64.to_le_bytes()[..], &length, &parcel].concat();
    let samples = [&b"WREC\x01"[..], &frame, &frame].concat();
    fs::write(dir.path().join(SAMPLES), samples).unwrap();
    let mut replay = replay(dir.path()).unwrap();
    assert_eq!(replay.by_ref().map(|(now, _)| now.0).collect::<Vec<_>>(), [7, 7]);
    assert_eq!(replay.error(), None);
}
