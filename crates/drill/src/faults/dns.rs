//! Faults of DNS, and the name server that has them: a hidden command of weir on a loopback address
//! that only this testbed uses, since weir resolves names from the host itself.
//!
//! Source: RFC 1035 §4 (messages). The server answers every A query with the address in a file,
//! which it reads at each query.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;

use crate::app::number;
use crate::error::Result;
use crate::fault::{Fault, parameter};
use crate::pause;
use crate::testbed::{APP, TestBed};

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "first name server silent",
        rules: &[&["dns.resolver_slow"]],
        parameters: &[
            parameter("servers", 2..=3, "name servers"),
            parameter(
                "ended",
                0..=1,
                "1 if it ended, so that its host refuses; 0 if it only stopped",
            ),
        ],
        tools: &["unshare"],
        set: |testbed| {
            let servers = testbed.draw("servers");
            name_servers(testbed, servers)
        },
        inject: |testbed| {
            let is_ended = testbed.draw("ended") == 1;
            testbed.signal("names", if is_ended { Signal::KILL } else { Signal::STOP })?;
            Ok(None)
        },
    },
    Fault {
        name: "first name server slow",
        rules: &[&["dns.resolver_slow"]],
        parameters: &[parameter("millis", 250..=1500, "milliseconds that each response takes")],
        tools: &["unshare"],
        set: |testbed| name_servers(testbed, 2),
        inject: |testbed| {
            let millis = testbed.draw("millis");
            testbed.put("names.delay", millis)?;
            Ok(None)
        },
    },
    Fault {
        name: "withdrawn name is still asked for",
        rules: &[&["dns.removed_still_hit"]],
        parameters: &[
            parameter("ttl", 5..=30, "seconds that an answer may be cached"),
            parameter("visitors", 3..=12, "visitors that keep using the old address"),
        ],
        tools: &["unshare", "nginx"],
        set: |testbed| {
            let ttl = testbed.draw("ttl");
            testbed.put("names.ttl", ttl)?;
            name_servers(testbed, 1)?;
            testbed.app(256, &[])?;
            testbed.nginx(&format!(
                "server_name shop.example; location / {{ proxy_pass http://{APP}; }}"
            ))?;
            // weir resolves the name once a minute, and must have seen it point here before.
            testbed.baseline_seconds = 30;
            testbed.patience_seconds = 200;
            let visitors = testbed.draw("visitors");
            testbed.visitors(visitors, &[])
        },
        inject: |testbed| {
            testbed.put("names.address", "192.0.2.80")?;
            Ok(None)
        },
    },
];

/// Starts a name server that weir is not configured with and returns its address.
pub(crate) fn name_server(testbed: &mut TestBed) -> Result<String> {
    let at = format!("{}:53", own_address(1));
    let (address, ttl) = (testbed.path("names.address"), testbed.path("names.ttl"));
    let args = ["drill", "names", "--at", &at, "--address", &address, "--ttl", &ttl];
    testbed.start_outside("names", &args)?;
    Ok(at)
}

/// Starts name servers that a weir beside the testbed sees as the host's. Only the first can be
/// slow or stopped.
pub(crate) fn name_servers(testbed: &mut TestBed, count: u64) -> Result<()> {
    let address = own_address(1);
    testbed.put("names.address", address)?;
    let mut text = String::new();
    for number in 1..=u8::try_from(count).unwrap_or(1) {
        let at = own_address(number);
        let (address, ttl) = (testbed.path("names.address"), testbed.path("names.ttl"));
        let (socket, delay) = (format!("{at}:53"), testbed.path("names.delay"));
        let mut args = vec!["drill", "names", "--at", &socket, "--address", &address];
        args.extend(["--ttl", &ttl]);
        if number == 1 {
            args.extend(["--delay", &delay]);
        }
        testbed.start_outside(if number == 1 { "names" } else { "other names" }, &args)?;
        text += &format!("nameserver {at}\n");
    }
    testbed.put("resolv.conf", text)?;
    testbed.override_resolv_conf();
    Ok(())
}

/// A loopback address that no other drill uses, since it contains this process's id.
fn own_address(number: u8) -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 100 + number, high, low)
}

/// Options of the name server.
pub struct NameServerOptions {
    /// Listening address.
    pub at: SocketAddr,
    /// File with the address of every name.
    pub address: PathBuf,
    /// File with the seconds that an answer may be cached.
    pub ttl: PathBuf,
    /// File with the milliseconds before an answer.
    pub delay: Option<PathBuf>,
}

/// Answers queries until killed.
///
/// # Errors
/// When it cannot listen.
pub fn serve_names(args: &NameServerOptions) -> Result<()> {
    let socket = UdpSocket::bind(args.at)?;
    let mut question = [0; 512];
    loop {
        let (length, from) = socket.recv_from(&mut question)?;
        if let Some(delay) = &args.delay {
            pause(Duration::from_millis(number(delay)));
        }
        let text = std::fs::read_to_string(&args.address).unwrap_or_default();
        let address = text.trim().parse().unwrap_or(Ipv4Addr::LOCALHOST);
        let ttl = u32::try_from(number(&args.ttl)).unwrap_or_default();
        if let Some(answer) = answer(&question[..length], address, ttl) {
            // The client may have given up.
            let _gone = socket.send_to(&answer, from);
        }
    }
}

/// Builds the response to a query: one record for type A, none for other types. `None` if the
/// message is not a query.
fn answer(question: &[u8], address: Ipv4Addr, ttl: u32) -> Option<Vec<u8>> {
    const HEADER: usize = 12;
    let mut at = HEADER;
    while *question.get(at)? != 0 {
        at += usize::from(question[at]) + 1;
    }
    let (kind, end) = (question.get(at + 1..at + 3)?, at + 5);
    let is_address = kind == [0, 1];
    let mut answer = question.get(..end)?.to_vec();
    // A response, recursion desired and available, no error; one question, at most one record.
    answer[2..HEADER].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(is_address), 0, 0, 0, 0]);
    if is_address {
        // A pointer to the question's name, then A, IN.
        answer.extend([0xc0, 12, 0, 1, 0, 1]);
        answer.extend(ttl.to_be_bytes());
        answer.extend([0, 4]);
        answer.extend(address.octets());
    }
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_for_an_address_has_one_record_and_another_has_none() {
        let mut asked = vec![7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        asked.extend(b"\x04shop\x07example\x00\x00\x01\x00\x01");
        let told = answer(&asked, Ipv4Addr::new(192, 0, 2, 80), 30).expect("it is a question");
        assert_eq!(told[..12], [7, 9, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        assert_eq!(told[12..asked.len()], asked[12..]);
        assert_eq!(told[asked.len()..], [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 192, 0, 2, 80]);
        let root = [7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1];
        let told = answer(&root, Ipv4Addr::LOCALHOST, 30).expect("it is a question");
        assert_eq!(told.len(), root.len());
        assert_eq!(told[6..8], [0, 0]);
        assert_eq!(answer(&asked[..20], Ipv4Addr::LOCALHOST, 30), None);
    }
}
