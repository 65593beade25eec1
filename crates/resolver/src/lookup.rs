//! Looks up a name: at the servers of resolv.conf(5) in order, both families at once.
//!
//! ```text
//!   hosts(5) ─► name.search1 ─► name.search2 ─► name ─► the C library
//!                    └ A ┐
//!                        ├─► server 1 ─► server 2 ─► server 1 …  (UDP; TCP if truncated)
//!                   AAAA ┘
//! ```

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::config::{ResolverConfig, SERVERS_MAX};
use crate::hosts;
use crate::message::{Answer, HEADER_BYTES, RecordType, code_name, encode_question, parse_answer};

/// Longest time of a lookup: silent servers and search domains multiply.
const LOOKUP_MAX: Duration = Duration::from_secs(30);
const NXDOMAIN: u8 = 3;
const DNS_PORT: u16 = 53;
/// Longest message over UDP without extensions is 512 bytes; some servers send more.
const UDP_BYTES_MAX: usize = 4096;

/// Finds addresses of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolver {
    /// Directory that has `etc/resolv.conf`. The C library is used for `/` only.
    pub root: PathBuf,
    /// Port of the name servers.
    pub port: u16,
}

impl Default for Resolver {
    fn default() -> Self {
        Self { root: "/".into(), port: DNS_PORT }
    }
}

/// What is known of a name's addresses of one family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FamilyAnswer {
    /// The addresses, in the order of the answer.
    pub addresses: Vec<IpAddr>,
    /// Whether these are all: otherwise a name server has failed, and there may be others.
    pub is_whole: bool,
}

/// The outcome of a lookup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lookup {
    /// The complete name that the addresses belong to.
    pub query_name: String,
    /// IPv4 addresses.
    pub ipv4: FamilyAnswer,
    /// IPv6 addresses.
    pub ipv6: FamilyAnswer,
    /// How long the addresses are valid; `None` if they are not from DNS.
    pub ttl: Option<Duration>,
    /// Whether a name server has failed for a name that comes before `query_name`, which may exist.
    pub is_doubtful: bool,
    /// Why addresses are missing.
    pub problem: Option<String>,
}

impl Lookup {
    /// Whether there is an address.
    pub fn has_addresses(&self) -> bool {
        !self.ipv4.addresses.is_empty() || !self.ipv6.addresses.is_empty()
    }

    fn is_whole(&self) -> bool {
        self.ipv4.is_whole && self.ipv6.is_whole
    }

    /// Addresses that are all there are.
    fn complete(name: &str, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        let (four, six) = addresses.into_iter().partition(IpAddr::is_ipv4);
        let [ipv4, ipv6] = [four, six].map(|addresses| FamilyAnswer { addresses, is_whole: true });
        Self { query_name: name.to_owned(), ipv4, ipv6, ..Self::default() }
    }
}

impl Resolver {
    /// Looks up the host `name`; takes up to half a minute if name servers are silent.
    pub fn look_up(&self, name: &str) -> Lookup {
        let known = hosts::addresses(&self.root, name);
        if !known.is_empty() {
            return Lookup::complete(name, known);
        }
        match self.look_up_in_dns(name) {
            Some(found) if found.has_addresses() || !found.is_whole() => found,
            missing => self.look_up_elsewhere(name, missing),
        }
    }

    /// `None` without a name server.
    fn look_up_in_dns(&self, name: &str) -> Option<Lookup> {
        let plain = name.trim_end_matches('.').to_ascii_lowercase();
        // These belong to the host itself (RFC 6761 §6.3).
        let is_local = plain == "localhost" || plain.ends_with(".localhost");
        if is_local || !hosts::uses_dns(&self.root) {
            return None;
        }
        let mut config = ResolverConfig::read(&self.root)?;
        // Link-local ones need an interface, which the C library knows.
        config.servers.retain(|server| !is_link_local(*server));
        config.servers.truncate(SERVERS_MAX);
        if config.servers.is_empty() {
            return None;
        }
        let end = Instant::now() + LOOKUP_MAX;
        let (mut failed, mut absent): (Option<Lookup>, Option<Lookup>) = (None, None);
        for candidate in config.candidates(name).into_iter().filter(|name| is_encodable(name)) {
            let mut found = self.query(&config, &candidate, end);
            if found.has_addresses() {
                if let Some(before) = failed {
                    found.is_doubtful = true;
                    found.problem = found.problem.or(before.problem);
                }
                return Some(found);
            }
            let first = if found.is_whole() { &mut absent } else { &mut failed };
            first.get_or_insert(found);
        }
        failed.or(absent)
    }

    /// Names of files, directories and protocols that only the C library knows.
    fn look_up_elsewhere(&self, name: &str, missing: Option<Lookup>) -> Lookup {
        let is_host = self.root.parent().is_none();
        let found = is_host.then(|| (name, 0).to_socket_addrs());
        match found {
            Some(Ok(found)) => Lookup::complete(name, found.map(|address| address.ip())),
            Some(Err(error)) => {
                let problem = missing.and_then(|one| one.problem).or(Some(error.to_string()));
                Lookup { problem, ..Lookup::default() }
            }
            None => missing.unwrap_or_default(),
        }
    }

    /// Queries the servers for a complete name until both families have an answer.
    fn query(&self, config: &ResolverConfig, name: &str, end: Instant) -> Lookup {
        let timeout = u64::try_from(config.timeout_seconds).unwrap_or_default();
        let timeout = Duration::from_secs(timeout);
        let mut query = Query::new(name);
        for _ in 0..config.attempts {
            for server in &config.servers {
                let left = end.saturating_duration_since(Instant::now());
                if query.is_done() || left.is_zero() {
                    return query.finish();
                }
                query.ask(SocketAddr::new(*server, self.port), timeout.min(left));
            }
        }
        query.finish()
    }
}

/// Both questions about a name.
struct Query<'a> {
    name: &'a str,
    families: [FamilyQuery; 2],
    problem: Option<String>,
}

struct FamilyQuery {
    kind: RecordType,
    answer: FamilyAnswer,
    ttl_seconds: Option<u32>,
}

impl<'a> Query<'a> {
    fn new(name: &'a str) -> Self {
        let families = [RecordType::A, RecordType::Aaaa].map(|kind| FamilyQuery {
            kind,
            answer: FamilyAnswer::default(),
            ttl_seconds: None,
        });
        Self { name, families, problem: None }
    }

    fn is_done(&self) -> bool {
        self.families.iter().all(|family| family.answer.is_whole)
    }

    /// Sends the open questions to a server and takes its answers.
    fn ask(&mut self, server: SocketAddr, timeout: Duration) {
        if let Err(error) = self.try_ask(server, timeout) {
            let is_silent =
                matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
            let seconds = timeout.as_secs();
            self.problem = Some(match is_silent {
                true => format!("no answer from {server} within {seconds} s"),
                false => format!("cannot query {server}: {error}"),
            });
        }
    }

    fn try_ask(&mut self, server: SocketAddr, timeout: Duration) -> io::Result<()> {
        let own: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((own, 0))?;
        socket.connect(server)?;
        let mut open = Vec::new();
        for (at, family) in self.families.iter().enumerate() {
            if !family.answer.is_whole {
                let question = encode_question(random_id(), self.name, family.kind);
                socket.send(&question)?;
                open.push((at, question));
            }
        }
        let end = Instant::now() + timeout;
        let mut bytes = [0; UDP_BYTES_MAX];
        while !open.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            socket.set_read_timeout(Some(left))?;
            let length = socket.recv(&mut bytes)?;
            let own = open.iter().position(|(_, question)| answers(&bytes[..length], question));
            let Some(answer) = parse_answer(&bytes[..length]) else { continue };
            if let Some(own) = own {
                let (at, question) = open.swap_remove(own);
                self.take(at, answer, server, &question, timeout);
            }
        }
        Ok(())
    }

    /// Takes an answer, or one over TCP in its place.
    fn take(
        &mut self,
        at: usize,
        mut answer: Answer,
        server: SocketAddr,
        question: &[u8],
        timeout: Duration,
    ) {
        if answer.is_truncated {
            match ask_over_tcp(server, question, timeout) {
                Ok(whole) => answer = whole,
                Err(error) => {
                    let what = "sends a truncated answer, and no other over TCP";
                    self.problem = Some(format!("{server} {what}: {error}"));
                }
            }
        }
        let is_final = matches!(answer.code, 0 | NXDOMAIN);
        let family = &mut self.families[at];
        if is_final {
            family.answer =
                FamilyAnswer { addresses: answer.addresses, is_whole: !answer.is_truncated };
            family.ttl_seconds = answer.ttl_seconds;
        }
        // With an address of the other family, this one's absence is no problem.
        if !is_final || answer.code == NXDOMAIN && self.problem.is_none() {
            self.problem = Some(format!("{server} answers {}", code_name(answer.code)));
        }
    }

    fn finish(self) -> Lookup {
        let [four, six] = self.families;
        let ttl = [four.ttl_seconds, six.ttl_seconds].into_iter().flatten().min();
        let mut found = Lookup {
            query_name: self.name.to_owned(),
            ipv4: four.answer,
            ipv6: six.answer,
            ttl: ttl.map(|seconds| Duration::from_secs(seconds.into())),
            is_doubtful: false,
            problem: self.problem,
        };
        if found.is_whole() && found.has_addresses() {
            found.problem = None;
        }
        found
    }
}

/// Whether a message is the answer to a question: its id and its name, which a stranger would have to
/// guess.
fn answers(message: &[u8], question: &[u8]) -> bool {
    let (id, asked) = (&question[..2], &question[HEADER_BYTES..]);
    message.starts_with(id)
        && message
            .get(HEADER_BYTES..question.len())
            .is_some_and(|repeated| repeated.eq_ignore_ascii_case(asked))
}

/// An id that a stranger cannot guess: the keys of a hasher are random, and each has its own.
fn random_id() -> u16 {
    let random = RandomState::new().build_hasher().finish();
    u16::try_from(random & 0xffff).unwrap_or_default()
}

/// RFC 7766: a length of two bytes before each message.
fn ask_over_tcp(server: SocketAddr, question: &[u8], timeout: Duration) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&server, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let length = u16::try_from(question.len()).unwrap_or_default();
    stream.write_all(&[&length.to_be_bytes()[..], question].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut bytes = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut bytes)?;
    let answer = parse_answer(&bytes).filter(|_| answers(&bytes, question));
    let answer = answer.filter(|answer| !answer.is_truncated);
    answer.ok_or_else(|| io::Error::other("the message is no complete answer"))
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// Whether a name fits into a message.
fn is_encodable(name: &str) -> bool {
    name.len() < 254 && name.split('.').all(|label| (1..64).contains(&label.len()))
}
