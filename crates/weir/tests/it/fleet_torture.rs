//! The torture of agent and hub: `kill -9`, cuts, stalls, a hub that is away and a disk that is
//! full, while the log is rotated in every way, after which every numbered line is there once, and
//! `weir audit` of the real files finds nothing.
//!
//! `WEIR_ROUNDS` sets the rounds (20), `WEIR_SEED` replays the choices.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::fleet::{FleetHost, FleetSite};
use super::harness::{SeededRandom, WEIR, can_run, is_root, pause, text, try_rows, wait_for};
use super::rotating::LogWriter;

const PATIENCE: Duration = Duration::from_secs(60);

/// Between agent and hub: passes bytes on, stalls, or cuts in the middle of anything.
struct Proxy {
    address: SocketAddr,
    manner: Arc<Manner>,
}

#[derive(Default)]
struct Manner {
    is_stalled: AtomicBool,
    /// Connections that began before this number are cut.
    cut_before: AtomicU64,
    connections: AtomicU64,
    is_ended: AtomicBool,
}

impl Proxy {
    fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let manner = Arc::new(Manner::default());
        let own = Arc::clone(&manner);
        std::thread::spawn(move || {
            for agent in listener.incoming().map_while(Result::ok) {
                if own.is_ended.load(Ordering::SeqCst) {
                    return;
                }
                let number = own.connections.fetch_add(1, Ordering::SeqCst);
                let Ok(hub) = TcpStream::connect(to) else { continue };
                for (from, to) in [(&agent, &hub), (&hub, &agent)] {
                    let both = from.try_clone().and_then(|from| Ok((from, to.try_clone()?)));
                    let Ok((from, to)) = both else { continue };
                    let manner = Arc::clone(&own);
                    std::thread::spawn(move || pass(from, to, &manner, number));
                }
            }
        });
        Self { address, manner }
    }

    fn cut(&self) {
        let all = self.manner.connections.load(Ordering::SeqCst);
        self.manner.cut_before.store(all, Ordering::SeqCst);
    }

    fn stall(&self, is_stalled: bool) {
        self.manner.is_stalled.store(is_stalled, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
        self.manner.is_ended.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address); // wakes the thread that listens
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, manner: &Manner, number: u64) {
    let look = Duration::from_millis(20);
    let _ = from.set_read_timeout(Some(look));
    let mut bytes = [0; 4096];
    while manner.cut_before.load(Ordering::SeqCst) <= number {
        if manner.is_stalled.load(Ordering::SeqCst) {
            pause(look);
            continue;
        }
        match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) if to.write_all(&bytes[..count]).is_err() => break,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    for stream in [from, to] {
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
}

/// A tmpfs; unmounted when dropped.
pub(super) struct Disk<'a>(pub(super) &'a Path);

impl<'a> Disk<'a> {
    pub(super) fn mount(path: &'a Path) -> Option<Self> {
        std::fs::create_dir_all(path).expect("there is room");
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", "size=96m", "tmpfs"]).arg(path);
        let is_mounted = is_root() && command.status().is_ok_and(|status| status.success());
        can_run("what needs a small disk", "root, to mount a tmpfs", is_mounted)
            .then_some(Self(path))
    }

    /// Leaves less free than the hub's reserve, or gives it back.
    fn fill(&self, is_full: bool) {
        let ballast = self.0.join("ballast");
        if is_full {
            // As much as there is; the last write fails.
            let mut file = std::fs::File::create(ballast).expect("it can be made");
            while file.write_all(&[1; 1 << 20]).is_ok() {}
        } else {
            let _ = std::fs::remove_file(ballast);
        }
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

/// A report about lines that do not arrive.
fn unfinished(
    site: &FleetSite<'_>,
    rows: &Result<Vec<Vec<Value>>, String>,
    written: u64,
) -> String {
    let gaps = "select number, before from (select n as number, lag(n) over (order by n) as before from \
        (select cast(split_part(body, ' ', 2) as bigint) as n from log where body like 'line %')) \
        where number <> before + 1 limit 20";
    let gaps = try_rows(&site.url(), gaps);
    let ship = "select ts, source, stream, state, position_bytes, acknowledged_bytes, size_bytes, lag_bytes, \
        lag_seconds, lost_bytes, error from ship order by ts desc limit 20";
    let ship = try_rows(&site.url(), ship);
    format!("{rows:?} of {written}; jumps: {gaps:?}; ship: {ship:#?}")
}

#[test]
fn every_line_and_sample_is_there_once_after_the_torture_of_agent_and_hub() {
    let rounds: u64 = std::env::var("WEIR_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("numbered.log");
    std::fs::write(&log, "").expect("it can be written");
    let disk_path = dir.path().join("disk");
    let disk = Disk::mount(&disk_path);
    let (data, host) = (disk_path.join("data"), dir.path().join("agent"));
    let (site, host) = (FleetSite { reserve: 8 << 20, ..FleetSite::new(&data) }, FleetHost(&host));
    let mut choose = SeededRandom::new();
    let is_ended = Arc::new(AtomicBool::new(false));
    let generator = {
        let writer =
            LogWriter::new(&log, SeededRandom::new_from(choose.below(u64::MAX)), site.url());
        let is_ended = Arc::clone(&is_ended);
        std::thread::spawn(move || writer.write_until(&is_ended))
    };
    let mut hub = site.start();
    let joined = host.join(&site.token(&[]), "web1");
    assert!(joined.status.success(), "{}", text(&joined.stderr));
    let proxy = Proxy::start(site.agents);
    let mut agent = host.start(&log, proxy.address);
    // A file that was rotated away before the hub ever heard of it is the past, which is not read
    // (docs/formats).
    wait_for("the first line", PATIENCE, || {
        let rows =
            try_rows(&site.url(), "select count(*) from log where body like 'line %'").ok()?;
        (rows[0][0].as_u64()? > 0).then_some(())
    });
    for _ in 0..rounds {
        let span = Duration::from_millis(choose.below(900));
        match choose.below(8) {
            0 => proxy.cut(),
            1 => {
                proxy.stall(true);
                pause(span);
                proxy.stall(false);
            }
            2 => {
                hub.kill();
                pause(span);
                hub = site.start();
            }
            3 => {
                drop(agent); // killed
                agent = host.start(&log, proxy.address);
            }
            4 => {
                drop(agent);
                hub.kill();
                hub = site.start();
                agent = host.start(&log, proxy.address);
            }
            5 => {
                hub.kill();
                pause(span * 8);
                hub = site.start();
            }
            6 => {
                disk.iter().for_each(|disk| disk.fill(true));
                pause(span);
                disk.iter().for_each(|disk| disk.fill(false));
            }
            _ => {}
        }
        pause(Duration::from_millis(choose.below(700)));
    }
    is_ended.store(true, Ordering::Relaxed);
    let written = generator.join().expect("the generator does not fail");
    let sql = "select count(*), count(distinct split_part(body, ' ', 2)), \
        min(split_part(body, ' ', 2)), max(split_part(body, ' ', 2)) from log where body like 'line %'";
    let end = Instant::now() + 2 * PATIENCE;
    let found = loop {
        match try_rows(&site.url(), sql) {
            Ok(rows) if rows[0][0].as_u64() >= Some(written) => break rows[0].clone(),
            rows => assert!(Instant::now() < end, "{}", unfinished(&site, &rows, written)),
        }
        pause(Duration::from_millis(50));
    };
    assert_eq!(found[0], written, "rows: none twice");
    assert_eq!(found[1], written, "different rows: none lost");
    assert_eq!([&found[2], &found[3]], ["00000001", &format!("{written:08}")]);
    let files = format!("{}*", log.display());
    let audit = Command::new(WEIR)
        .args(["audit", "--wait", "60", "--host", "web1", "--url", &site.url(), &files])
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .output()
        .expect("weir can be started");
    let told = text(&audit.stdout);
    println!("{}", told.lines().last().unwrap_or_default());
    assert_eq!(audit.status.code(), Some(0), "{told}{}", text(&audit.stderr));
    // What cannot be read again: each heartbeat and report came by way of the spool.
    let twice = "select count(*) from (select ts, collector from collector_run group by 1, 2 having count(*) > 1)";
    assert_eq!(hub.number(twice), 0);
    assert!(hub.number("select count(*) from log where source = 'weir:heartbeat'") > 0);
    drop(agent);
    assert_eq!(hub.terminate(), Some(0));
}
