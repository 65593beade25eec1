//! Faults of weir's own pipeline: a stopped agent, a link to the hub that is too slow, an output's
//! target that no longer accepts rows.
//!
//! ```text
//!   app.log ── agent ── (relay) ── weir beside the testbed ── target of an output      all on the host's loopback
//! ```

use std::fmt;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::address::free_address;
use crate::error::Result;
use crate::fault::{Fault, parameter};
use crate::pause;
use crate::testbed::TestBed;

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "agent stands still",
        rules: &[&["weir.agent_silent", "log.heartbeat_missing"]],
        parameters: &[
            parameter("ended", 0..=1, "1 if it ended, 0 if it only stopped"),
            parameter("lines", 0..=20, "lines per second in the log it tails"),
        ],
        tools: &[],
        set: |testbed| {
            let (_ended, lines) = (testbed.draw("ended"), testbed.draw("lines"));
            testbed.put("agent.log", "")?;
            // With no lines at all, a quiet host must still be reported.
            if let Some(millis) = 1000_u64.checked_div(lines) {
                let rest = format!("{:.3}", Duration::from_millis(millis).as_secs_f64());
                write_lines(testbed, "while echo 'order taken'; do sleep \"$2\"; done", &rest)?;
            }
            testbed.listen = free_address()?.to_string();
            let hub = testbed.listen.clone();
            agent(testbed, &hub, true)?;
            // An agent must be known for a while before its silence is a finding.
            testbed.baseline_seconds = 75;
            testbed.patience_seconds = 120;
            Ok(())
        },
        inject: |testbed| {
            let is_ended = testbed.drawn("ended") == 1;
            testbed.signal("agent", if is_ended { Signal::KILL } else { Signal::STOP })?;
            Ok(None)
        },
    },
    Fault {
        name: "way to the hub too narrow",
        rules: &[&["log.ship_lag"]],
        parameters: &[
            parameter("rate", 150..=300, "KiB per second of the link"),
            parameter("written", 3..=5, "lines written, as a multiple of that rate"),
        ],
        tools: &["base64"],
        set: |testbed| {
            let rate = testbed.draw("rate");
            testbed.put("agent.log", "")?;
            testbed.listen = free_address()?.to_string();
            let (hub, relay) = (testbed.listen.clone(), free_address()?.to_string());
            let rate = (rate * 1024).to_string();
            let narrow = ["drill", "relay", "--at", &relay, "--to", &hub, "--per-second", &rate];
            testbed.start_outside("relay", &narrow)?;
            testbed.patience_seconds = 120;
            agent(testbed, &relay, false)
        },
        inject: |testbed| {
            let part = (testbed.drawn("rate") * testbed.draw("written") * 1024 / 10).to_string();
            // Random bytes do not compress on the link.
            let write = "while head -c \"$2\" /dev/urandom | base64 -w 110; do sleep 0.1; done";
            write_lines(testbed, write, &part)?;
            Ok(None)
        },
    },
    Fault {
        name: "target of copies stands still",
        rules: &[&["weir.output_lag", "tcp.accept_queue_high"]],
        parameters: &[parameter("ended", 0..=1, "1 if it ended, 0 if it only stopped")],
        tools: &[],
        set: |testbed| {
            let _ended = testbed.draw("ended");
            testbed.put("agent.log", "")?;
            let target = free_address()?.to_string();
            testbed.config = format!(
                "[collect]\ntail = [\"{}\"]\n[[outputs]]\nname = \"copies\"\nto = \"http\"\nurl = \"http://{target}/rows\"\ntable = \"log\"\n",
                testbed.path("agent.log")
            );
            let delay = testbed.path("delay");
            let args = ["drill", "app", "--address", &target, "--backlog", "64", "--delay", &delay];
            testbed.start_outside("target", &args)?;
            testbed.patience_seconds = 90;
            write_lines(testbed, "while echo 'order taken'; do sleep \"$2\"; done", "0.1")
        },
        inject: |testbed| {
            let is_ended = testbed.drawn("ended") == 1;
            testbed.signal("target", if is_ended { Signal::KILL } else { Signal::STOP })?;
            Ok(None)
        },
    },
];

/// Starts an agent that tails `agent.log` and sends to the hub at that address. It samples the host
/// only if `is_sampling`.
fn agent(testbed: &mut TestBed, hub: &str, is_sampling: bool) -> Result<()> {
    let (log, dir) = (testbed.path("agent.log"), testbed.path("agent"));
    // A unique host name separates its findings from the host's.
    let name = format!("{}-agent", testbed.server);
    testbed.put(
        "agent.toml",
        format!(
            "[collect]\nhost = \"{name}\"\nfind_logs = false\nsample_host = {is_sampling}\ntail = [\"{log}\"]\n\
             [agent]\nhubs = [\"http://{hub}\"]\ndir = \"{dir}\"\n"
        ),
    )?;
    let config = testbed.path("agent.toml");
    testbed.start_outside("agent", &["agent", "--config", &config, "--log-level", "error"])
}

/// Appends the output of a script to `agent.log`; `$2` in it is `argument`.
fn write_lines(testbed: &mut TestBed, script: &str, argument: impl fmt::Display) -> Result<()> {
    let (netns, log) = (testbed.server.clone(), testbed.path("agent.log"));
    let script = format!("exec >> \"$1\"; {script}");
    testbed.start("writer", &netns, "sh", &["-c", &script, "sh", &log, &argument.to_string()])
}

/// Options of a rate-limited relay.
pub struct RelayOptions {
    /// Listening address.
    pub at: SocketAddr,
    /// Target address.
    pub to: SocketAddr,
    /// Bytes per second on each connection towards the target; replies are not limited.
    pub per_second: u64,
}

/// Relays until killed.
///
/// # Errors
/// When it cannot listen.
pub fn relay(args: &RelayOptions) -> Result<()> {
    let listener = TcpListener::bind(args.at)?;
    loop {
        let (from, _) = listener.accept()?;
        // The target does not listen yet: drop the client, which reconnects.
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
    fn bytes_arrive_whole_and_no_faster_than_the_limit() {
        let (ends, target) = (free_address().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let to = target.local_addr().unwrap();
        std::thread::spawn(move || relay(&RelayOptions { at: ends, to, per_second: 100_000 }));
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
        let mut reply = String::new();
        client.read_to_string(&mut reply).unwrap();
        assert_eq!(reply, "taken");
    }
}
