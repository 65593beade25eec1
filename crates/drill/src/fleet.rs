//! Faults of weir's own way: an agent that stands still, a way to the hub that is too narrow, a system that takes no copies any more.
//!
//! ```text
//!   app.log ── agent ── (relay) ── weir beside the scene ── target of an output      all on the host's loopback
//! ```

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::address::free_address;
use crate::error::Result;
use crate::fault::{Fault, of};
use crate::pause;
use crate::scene::Scene;

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "agent stands still",
        rules: &[&["weir.agent_silent", "log.heartbeat_missing"]],
        parameters: &[
            of("ended", 0, 1, "1 when it ended, 0 when it only stopped"),
            of("lines", 0, 20, "lines a second of the log that it reads"),
        ],
        tools: &[],
        set: |scene| {
            let (_ended, lines) = (scene.draw("ended"), scene.draw("lines"));
            scene.put("agent.log", "")?;
            // None at all: a quiet host is missed as well.
            if let Some(millis) = 1000_u64.checked_div(lines) {
                let rest = format!("{:.3}", Duration::from_millis(millis).as_secs_f64());
                write_lines(scene, "while echo 'order taken'; do sleep \"$2\"; done", &rest)?;
            }
            scene.listen = free_address()?.to_string();
            let hub = scene.listen.clone();
            agent(scene, &hub, true)?;
            // Who has only just come is not missed.
            scene.calm_seconds = 75;
            scene.patience_seconds = 120;
            Ok(())
        },
        inject: |scene| {
            let is_ended = scene.drawn("ended") == 1;
            scene.signal("agent", if is_ended { Signal::KILL } else { Signal::STOP })?;
            Ok(None)
        },
    },
    Fault {
        name: "way to the hub too narrow",
        rules: &[&["log.ship_lag"]],
        parameters: &[
            of("rate", 150, 300, "KiB a second that pass"),
            of("written", 3, 5, "times as much that is written"),
        ],
        tools: &["base64"],
        set: |scene| {
            let rate = scene.draw("rate");
            scene.put("agent.log", "")?;
            scene.listen = free_address()?.to_string();
            let (hub, relay) = (scene.listen.clone(), free_address()?.to_string());
            let rate = (rate * 1024).to_string();
            let narrow = ["drill", "relay", "--at", &relay, "--to", &hub, "--per-second", &rate];
            scene.start_outside("relay", &narrow)?;
            scene.patience_seconds = 120;
            agent(scene, &relay, false)
        },
        inject: |scene| {
            let part = (scene.drawn("rate") * scene.draw("written") * 1024 / 10).to_string();
            // Random, so that it does not get small on the way.
            let write = "while head -c \"$2\" /dev/urandom | base64 -w 110; do sleep 0.1; done";
            write_lines(scene, write, &part)?;
            Ok(None)
        },
    },
    Fault {
        name: "target of copies stands still",
        rules: &[&["weir.output_lag", "tcp.accept_queue_high"]],
        parameters: &[of("ended", 0, 1, "1 when it ended, 0 when it only stopped")],
        tools: &[],
        set: |scene| {
            let _ended = scene.draw("ended");
            scene.put("agent.log", "")?;
            let target = free_address()?.to_string();
            scene.config = format!(
                "[collect]\ntail = [\"{}\"]\n[[outputs]]\nname = \"copies\"\nto = \"http\"\nurl = \"http://{target}/rows\"\ntable = \"log\"\n",
                scene.path("agent.log")
            );
            let delay = scene.path("delay");
            let args = ["drill", "app", "--address", &target, "--backlog", "64", "--delay", &delay];
            scene.start_outside("target", &args)?;
            scene.patience_seconds = 90;
            write_lines(scene, "while echo 'order taken'; do sleep \"$2\"; done", "0.1")
        },
        inject: |scene| {
            let is_ended = scene.drawn("ended") == 1;
            scene.signal("target", if is_ended { Signal::KILL } else { Signal::STOP })?;
            Ok(None)
        },
    },
];

/// An agent that reads `agent.log` and sends to the hub at that address; it says what the whole host does only when it is told to.
fn agent(scene: &mut Scene, hub: &str, is_sampling: bool) -> Result<()> {
    let (log, dir) = (scene.path("agent.log"), scene.path("agent"));
    // A name that no host has: its findings are told apart.
    let name = format!("{}-agent", scene.server);
    scene.put(
        "agent.toml",
        &format!(
            "[collect]\nhost = \"{name}\"\nfind_logs = false\nsample_host = {is_sampling}\ntail = [\"{log}\"]\n\
             [agent]\nhubs = [\"http://{hub}\"]\ndir = \"{dir}\"\n"
        ),
    )?;
    let config = scene.path("agent.toml");
    scene.start_outside("agent", &["agent", "--config", &config, "--log-level", "error"])
}

/// Writes what a script prints to `agent.log`; `$2` in it is `argument`.
fn write_lines(scene: &mut Scene, script: &str, argument: &str) -> Result<()> {
    let (netns, log) = (scene.server.clone(), scene.path("agent.log"));
    let script = format!("exec >> \"$1\"; {script}");
    scene.start("writer", &netns, "sh", &["-c", &script, "sh", &log, argument])
}

/// A narrow way.
pub struct Relay {
    /// Where it is come to.
    pub at: SocketAddr,
    /// Where it leads.
    pub to: SocketAddr,
    /// Bytes that pass in a second on each connection; what comes back is not held up.
    pub per_second: u64,
}

/// Lets bytes pass until it is killed.
///
/// # Errors
/// When it cannot listen.
pub fn relay(args: &Relay) -> Result<()> {
    let listener = TcpListener::bind(args.at)?;
    loop {
        let (from, _) = listener.accept()?;
        // Nobody there yet: who came is turned away, and comes again.
        let Ok(to) = TcpStream::connect(args.to) else { continue };
        let (mut back_from, mut back_to) = (to.try_clone()?, from.try_clone()?);
        std::thread::spawn(move || {
            let _gone = std::io::copy(&mut back_from, &mut back_to);
            let _gone = back_to.shutdown(Shutdown::Both);
        });
        let per_second = args.per_second.max(1);
        std::thread::spawn(move || narrow(from, to, per_second));
    }
}

fn narrow(mut from: TcpStream, mut to: TcpStream, per_second: u64) -> std::io::Result<()> {
    let mut part = vec![0; 4 << 10];
    let mut due = Instant::now();
    loop {
        let length = from.read(&mut part)?;
        if length == 0 {
            return to.shutdown(Shutdown::Write);
        }
        to.write_all(&part[..length])?;
        let nanos = (length as u64).saturating_mul(1_000_000_000) / per_second;
        due = due.max(Instant::now()) + Duration::from_nanos(nanos);
        pause(due.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_pass_whole_and_no_faster_than_is_said() {
        let (ends, target) = (free_address().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let to = target.local_addr().unwrap();
        std::thread::spawn(move || relay(&Relay { at: ends, to, per_second: 100_000 }));
        let mut client = loop {
            if let Ok(stream) = TcpStream::connect(ends) {
                break stream;
            }
            pause(Duration::from_millis(5));
        };
        let began = Instant::now();
        client.write_all(&[b'x'; 40_000]).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut taken = Vec::new();
        let (mut end, _) = target.accept().unwrap();
        end.read_to_end(&mut taken).unwrap();
        assert_eq!(taken, [b'x'; 40_000]);
        assert!(began.elapsed() > Duration::from_millis(300), "{:?}", began.elapsed());
        end.write_all(b"taken").unwrap();
        drop(end);
        let mut told = String::new();
        client.read_to_string(&mut told).unwrap();
        assert_eq!(told, "taken");
    }
}
