//! Effects of a killed or stopped backend on eight clients.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};

use super::servers::{TestSetup, free_ports, nginx, wait_for_port, weir};
use crate::data::pause;
use crate::report::Report;

const CLIENTS: usize = 8;
const SPAN: Duration = Duration::from_millis(6000);
const HIT_AFTER: Duration = Duration::from_millis(2000);
/// Response time above which the fault delayed a request.
const SLOW: Duration = Duration::from_millis(200);

/// Requests of a client.
#[derive(Default)]
struct ClientCounts {
    requests: u32,
    failed: u32,
    slow: u32,
    last_slow: Duration,
}

/// Kills one of four backends, and stops one of four.
pub(crate) fn measure(page: &mut Report, stage: &TestSetup) -> anyhow::Result<()> {
    let head =
        ["fault", "requests", "failed", "over 200 ms", "last of these began after the fault, ms"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (name, signal) in [("SIGKILL", Signal::KILL), ("SIGSTOP", Signal::STOP)] {
        let seen = one(stage, name, signal)?;
        rows.push(vec![
            name.to_owned(),
            seen.requests.to_string(),
            seen.failed.to_string(),
            seen.slow.to_string(),
            seen.last_slow.as_millis().to_string(),
        ]);
    }
    page.table(&rows);
    Ok(())
}

fn one(stage: &TestSetup, name: &str, signal: Signal) -> anyhow::Result<ClientCounts> {
    let ports = free_ports(5)?;
    let dir = stage.dir.path().join(name);
    let mut backends = Vec::new();
    for port in &ports[1..] {
        let http = format!(
            "access_log off; server {{ listen 127.0.0.1:{port}; location / {{ return 200 hello; }} }}"
        );
        backends.push(nginx(&dir.join(port.to_string()), 1, &http)?);
    }
    ports[1..].iter().try_for_each(|port| wait_for_port(*port))?;
    let edge = weir(stage.dir.path(), ports[0], &ports[1..], "")?;
    wait_for_port(edge.port)?;
    let began = Instant::now();
    let port = edge.port;
    let clients: Vec<_> =
        (0..CLIENTS).map(|_| std::thread::spawn(move || client(port, began))).collect();
    pause(HIT_AFTER);
    // taskset replaces itself by the program, so the child is nginx.
    let id = i32::try_from(backends[0].0.id()).ok().and_then(Pid::from_raw);
    kill_process(id.context("process ids are positive")?, signal)?;
    let mut all = ClientCounts::default();
    for client in clients {
        let seen = client.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
        all.requests += seen.requests;
        all.failed += seen.failed;
        all.slow += seen.slow;
        all.last_slow = all.last_slow.max(seen.last_slow);
    }
    Ok(all)
}

fn client(port: u16, began: Instant) -> anyhow::Result<ClientCounts> {
    let mut seen = ClientCounts::default();
    let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", port))?);
    while began.elapsed() < SPAN {
        let asked = Instant::now();
        stream.get_mut().write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")?;
        let is_good = read_answer(&mut stream)?;
        seen.requests += 1;
        seen.failed += u32::from(!is_good);
        if asked.elapsed() > SLOW {
            seen.slow += 1;
            seen.last_slow = asked.duration_since(began).saturating_sub(HIT_AFTER);
        }
        pause(Duration::from_millis(2));
    }
    Ok(seen)
}

/// Reads a response; whether its status is 200.
fn read_answer(stream: &mut BufReader<TcpStream>) -> anyhow::Result<bool> {
    let (mut line, mut length, mut is_good) = (String::new(), 0, None);
    loop {
        line.clear();
        stream.read_line(&mut line)?;
        is_good.get_or_insert_with(|| line.starts_with("HTTP/1.1 200"));
        if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = text.trim().parse()?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    stream.read_exact(&mut vec![0; length])?;
    Ok(is_good == Some(true))
}
