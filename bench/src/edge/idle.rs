//! Memory of idle connections after one request each.
//!
//! The baseline has as many requests on one connection, so rows in memory and the allocator's
//! reserve cancel out.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::ensure;

use super::servers::Server;
use crate::data::pause;
use crate::report::Report;

/// Number of idle connections.
const HELD: usize = 10_000;
/// Idle time; freed memory returns to the kernel after ten seconds.
const REST: Duration = Duration::from_secs(15);

/// Measures memory per idle connection, of freshly started servers.
pub(crate) fn measure(page: &mut Report, servers: &[Server]) -> anyhow::Result<()> {
    let mut rows = vec![vec!["server".to_owned(), "bytes of an idle connection".to_owned()]];
    for server in servers {
        rows.push(vec![server.name.to_owned(), held(server)?.to_string()]);
    }
    page.table(&rows);
    page.text(&format!(
        "{HELD} connections that asked for a beacon once and rest for {} s; proportional set size of the process, less what it \
         was after as many beacons on one connection.",
        REST.as_secs()
    ));
    Ok(())
}

fn held(server: &Server) -> anyhow::Result<u64> {
    let mut first = TcpStream::connect(("127.0.0.1", server.port))?;
    for _ in 0..HELD {
        ask(&mut first)?;
    }
    pause(REST);
    let before = server.memory_bytes();
    let mut held = Vec::with_capacity(HELD);
    for _ in 0..HELD {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port))?;
        ask(&mut stream)?;
        held.push(stream);
    }
    pause(REST);
    Ok(server.memory_bytes().saturating_sub(before) / HELD as u64)
}

fn ask(stream: &mut TcpStream) -> anyhow::Result<()> {
    stream.write_all(b"GET /ping?h=idle HTTP/1.1\r\nHost: a\r\n\r\n")?;
    ensure!(stream.read(&mut [0; 1024])? > 0, "no response to a beacon");
    Ok(())
}
