//! A scripted name server on loopback, over UDP and TCP, and the host that queries it.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tempfile::TempDir;
use weir_resolver::{HEADER_BYTES, Resolver};

/// A question as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// In lower case, without the last dot.
    pub(crate) name: String,
    pub(crate) is_ipv6: bool,
    pub(crate) is_tcp: bool,
}

/// What the server answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reply {
    pub(crate) code: u8,
    pub(crate) is_truncated: bool,
    pub(crate) is_silent: bool,
    /// Aliases, as the TTL of each.
    aliases: Vec<u32>,
    addresses: Vec<(u32, IpAddr)>,
}

impl Reply {
    /// The addresses of the family that was asked for.
    pub(crate) fn of(question: &Question, ttl: u32, addresses: &[&str]) -> Self {
        let addresses = addresses.iter().map(|text| text.parse::<IpAddr>().expect("an address"));
        let own = addresses.filter(|address| address.is_ipv6() == question.is_ipv6);
        Self { addresses: own.map(|address| (ttl, address)).collect(), ..Self::default() }
    }

    pub(crate) fn code(code: u8) -> Self {
        Self { code, ..Self::default() }
    }

    pub(crate) fn silent() -> Self {
        Self { is_silent: true, ..Self::default() }
    }

    pub(crate) fn truncated(self) -> Self {
        Self { is_truncated: true, ..self }
    }

    pub(crate) fn alias(mut self, ttl: u32) -> Self {
        self.aliases.push(ttl);
        self
    }

    fn encode(&self, question: &[u8]) -> Vec<u8> {
        let mut bytes = question.to_vec();
        bytes[2] |= 0x80 | if self.is_truncated { 2 } else { 0 };
        bytes[3] = 0x80 | self.code;
        let count = u16::try_from(self.aliases.len() + self.addresses.len()).expect("few records");
        bytes[6..8].copy_from_slice(&count.to_be_bytes());
        let mut push = |kind: u8, ttl: u32, data: &[u8]| {
            bytes.extend([0xc0, 12, 0, kind, 0, 1]);
            bytes.extend(ttl.to_be_bytes());
            bytes.extend([0, u8::try_from(data.len()).expect("short data")]);
            bytes.extend(data);
        };
        for ttl in &self.aliases {
            push(5, *ttl, &[0xc0, 12]);
        }
        for (ttl, address) in &self.addresses {
            match address {
                IpAddr::V4(address) => push(1, *ttl, &address.octets()),
                IpAddr::V6(address) => push(28, *ttl, &address.octets()),
            }
        }
        bytes
    }
}

type Script = dyn Fn(&Question) -> Reply + Send + Sync;

/// A host whose only name server is scripted.
pub(crate) struct NameServer {
    root: TempDir,
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Question>>>,
}

impl NameServer {
    /// Starts a server; `options` are further lines of resolv.conf(5).
    pub(crate) fn start(
        options: &str,
        script: impl Fn(&Question) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let (udp, tcp) = sockets();
        let address = udp.local_addr().expect("it is bound");
        let root = tempfile::tempdir().expect("a directory");
        let (asked, script) = (Arc::<Mutex<Vec<_>>>::default(), Arc::new(script) as Arc<Script>);
        let server = Self { root, address, asked };
        server.write("resolv.conf", &format!("nameserver 127.0.0.1\n{options}\n"));
        let (asked, own) = (Arc::clone(&server.asked), Arc::clone(&script));
        std::thread::spawn(move || {
            let mut bytes = [0; 512];
            while let Ok((length, from)) = udp.recv_from(&mut bytes) {
                if let Some(reply) = reply_to(&bytes[..length], false, &asked, &*own) {
                    let _ = udp.send_to(&reply, from);
                }
            }
        });
        let asked = Arc::clone(&server.asked);
        std::thread::spawn(move || {
            for mut stream in tcp.incoming().flatten() {
                let mut length = [0; 2];
                if stream.read_exact(&mut length).is_err() {
                    continue;
                }
                let mut bytes = vec![0; usize::from(u16::from_be_bytes(length))];
                if stream.read_exact(&mut bytes).is_err() {
                    continue;
                }
                if let Some(reply) = reply_to(&bytes, true, &asked, &*script) {
                    let length = u16::try_from(reply.len()).expect("a short reply");
                    let _ = stream.write_all(&[&length.to_be_bytes()[..], &reply].concat());
                }
            }
        });
        server
    }

    /// Writes a file of the host's `/etc`.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let directory = self.root.path().join("etc");
        std::fs::create_dir_all(&directory).expect("a directory");
        std::fs::write(Path::new(&directory).join(name), text).expect("a file");
    }

    pub(crate) fn resolver(&self) -> Resolver {
        Resolver { root: self.root.path().to_owned(), port: self.address.port() }
    }

    /// All questions so far.
    pub(crate) fn asked(&self) -> Vec<Question> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A UDP and a TCP socket with the same port.
fn sockets() -> (UdpSocket, TcpListener) {
    for _ in 0..100 {
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        if let Ok(tcp) = TcpListener::bind(udp.local_addr().expect("it is bound")) {
            return (udp, tcp);
        }
    }
    panic!("no port is free for both protocols");
}

fn reply_to(
    bytes: &[u8],
    is_tcp: bool,
    asked: &Mutex<Vec<Question>>,
    script: &Script,
) -> Option<Vec<u8>> {
    let (mut name, mut at) = (Vec::new(), HEADER_BYTES);
    while bytes[at] > 0 {
        let end = at + 1 + usize::from(bytes[at]);
        name.push(String::from_utf8_lossy(&bytes[at + 1..end]).to_ascii_lowercase());
        at = end;
    }
    let question = Question { name: name.join("."), is_ipv6: bytes[at + 2] == 28, is_tcp };
    asked.lock().unwrap_or_else(PoisonError::into_inner).push(question.clone());
    let reply = script(&question);
    (!reply.is_silent).then(|| reply.encode(&bytes[..at + 5]))
}
