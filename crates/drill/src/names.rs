//! Faults of name service, and the name server that has them: run as a hidden command of weir on an address of the host's loopback
//! that is the scene's alone, since weir asks from the host itself.
//!
//! Source: RFC 1035 §4 (messages). Asked for an address of any name it answers the one in a file, read at each question.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;

use crate::app::number;
use crate::error::Result;
use crate::fault::{Fault, of};
use crate::pause;
use crate::scene::{APP, Scene};

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "first name server silent",
        rules: &[&["dns.resolver_slow"]],
        parameters: &[
            of("servers", 2, 3, "name servers"),
            of("ended", 0, 1, "1 when it ended, so that its host refuses, 0 when it only stopped"),
        ],
        tools: &["unshare"],
        set: |scene| {
            let servers = scene.draw("servers");
            name_servers(scene, servers)
        },
        inject: |scene| {
            let is_ended = scene.draw("ended") == 1;
            scene.signal("names", if is_ended { Signal::KILL } else { Signal::STOP })?;
            Ok(None)
        },
    },
    Fault {
        name: "first name server slow",
        rules: &[&["dns.resolver_slow"]],
        parameters: &[of("millis", 250, 1500, "milliseconds that each answer takes")],
        tools: &["unshare"],
        set: |scene| name_servers(scene, 2),
        inject: |scene| {
            let millis = scene.draw("millis");
            scene.put("names.delay", &millis.to_string())?;
            Ok(None)
        },
    },
    Fault {
        name: "withdrawn name is still asked for",
        rules: &[&["dns.removed_still_hit"]],
        parameters: &[
            of("ttl", 5, 30, "seconds that an answer may be kept"),
            of("visitors", 3, 12, "visitors who keep the old address"),
        ],
        tools: &["unshare", "nginx"],
        set: |scene| {
            let ttl = scene.draw("ttl");
            scene.put("names.ttl", &ttl.to_string())?;
            name_servers(scene, 1)?;
            scene.app(256, &[])?;
            scene.nginx(&format!(
                "server_name shop.example; location / {{ proxy_pass http://{APP}; }}"
            ))?;
            // The name must have been seen to lead here; it is asked once a minute, and so is where it leads later.
            scene.calm_seconds = 30;
            scene.patience_seconds = 200;
            let visitors = scene.draw("visitors");
            scene.visitors(visitors, &[])
        },
        inject: |scene| {
            scene.put("names.address", "192.0.2.80")?;
            Ok(None)
        },
    },
];

/// A name server of the scene's own that nobody is shown; where it is asked.
pub(crate) fn name_server(scene: &mut Scene) -> Result<String> {
    let at = format!("{}:53", own_address(1));
    let (address, ttl) = (scene.path("names.address"), scene.path("names.ttl"));
    let args = ["drill", "names", "--at", &at, "--address", &address, "--ttl", &ttl];
    scene.start_outside("names", &args)?;
    Ok(at)
}

/// Name servers of the scene's own, which a weir beside it sees as the host's; only the first can be slow, or be stopped.
pub(crate) fn name_servers(scene: &mut Scene, count: u64) -> Result<()> {
    let address = own_address(1);
    scene.put("names.address", &address.to_string())?;
    let mut text = String::new();
    for number in 1..=u8::try_from(count).unwrap_or(1) {
        let at = own_address(number);
        let (address, ttl) = (scene.path("names.address"), scene.path("names.ttl"));
        let (socket, delay) = (format!("{at}:53"), scene.path("names.delay"));
        let mut args = vec!["drill", "names", "--at", &socket, "--address", &address];
        args.extend(["--ttl", &ttl]);
        if number == 1 {
            args.extend(["--delay", &delay]);
        }
        scene.start_outside(if number == 1 { "names" } else { "other names" }, &args)?;
        text += &format!("nameserver {at}\n");
    }
    scene.put("resolv.conf", &text)?;
    scene.show_instead("/etc/resolv.conf", "resolv.conf");
    Ok(())
}

/// An address of the loopback that no other drill has, since it is made of this process' number.
fn own_address(number: u8) -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 100 + number, high, low)
}

/// A name server.
pub struct Names {
    /// Where it is asked.
    pub at: SocketAddr,
    /// A file with the address that every name has.
    pub address: PathBuf,
    /// A file with the seconds that an answer may be kept.
    pub ttl: PathBuf,
    /// A file with the milliseconds before an answer.
    pub delay: Option<PathBuf>,
}

/// Answers until it is killed.
///
/// # Errors
/// When it cannot listen.
pub fn names(args: &Names) -> Result<()> {
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
            // Who does not wait any more does not matter.
            let _gone = socket.send_to(&answer, from);
        }
    }
}

/// The answer to a question, which has one address when one of version 4 is asked for; none to what is no question.
fn answer(question: &[u8], address: Ipv4Addr, ttl: u32) -> Option<Vec<u8>> {
    const HEADER: usize = 12;
    let mut at = HEADER;
    while *question.get(at)? != 0 {
        at += usize::from(question[at]) + 1;
    }
    let (kind, end) = (question.get(at + 1..at + 3)?, at + 5);
    let is_address = kind == [0, 1];
    let mut answer = question.get(..end)?.to_vec();
    // An answer, recursion desired and available, no error; one question, and no or one record.
    answer[2..HEADER].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(is_address), 0, 0, 0, 0]);
    if is_address {
        // The name of the question again, A, IN.
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
