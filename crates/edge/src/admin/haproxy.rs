//! An HAProxy that is there already, asked and driven over its runtime socket (HAProxy's management guide, §9.3 "Unix Socket
//! commands"): what its servers do, and their weight and state.
//!
//! Orders need `level admin`. HAProxy answers an order that it took with nothing, and one that it did not with a sentence;
//! so the state is read again after each, and that is what is told.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::error::EdgeError;

/// For one command with its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest answer that is read: `show stat` has about 400 bytes a server.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// HAProxy's own limit of weights.
const WEIGHT_MAX: u32 = 256;

/// A server of one of HAProxy's backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HaproxyServer {
    /// The backend that it is in.
    pub backend: String,
    /// Its name there.
    pub server: String,
    /// Its address and port; `None` when HAProxy does not say (before 1.7, or a socket's level is too low).
    pub address: Option<String>,
    /// As HAProxy writes it: `UP`, `DOWN`, `MAINT`, `DRAIN`, `NOLB`, `no check`, or on its way, `UP 1/3`.
    pub state: String,
    /// What its last check said; `None` without checks.
    pub check: Option<String>,
    /// Its weight now.
    pub weight: u32,
    /// Requests and connections under way.
    pub sessions: u64,
    /// Requests that wait for it.
    pub queued: u64,
    /// Sessions since HAProxy began.
    pub sessions_total: u64,
    /// Failures to connect and to answer since then.
    pub failures_total: u64,
}

/// What a server can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HaproxyOrder {
    /// A weight from 0 to 256; 0 gives it no new clients, those with a cookie still come.
    Weight(u32),
    /// No new clients; checks go on.
    Drain,
    /// None at all, no checks either, until it is told otherwise.
    Maint,
    /// Full service again.
    Ready,
}

/// A server before and after an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HaproxyChange {
    /// Before.
    pub before: HaproxyServer,
    /// After.
    pub after: HaproxyServer,
}

impl fmt::Display for HaproxyChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { before, after } = self;
        write!(
            f,
            "{}/{}: {} weight {}",
            before.backend, before.server, before.state, before.weight
        )?;
        if before.state == after.state && before.weight == after.weight {
            return f.write_str(", as it was");
        }
        write!(f, " -> {} weight {}", after.state, after.weight)
    }
}

impl HaproxyOrder {
    fn command(self, backend: &str, server: &str) -> String {
        match self {
            Self::Weight(weight) => format!("set server {backend}/{server} weight {weight}"),
            Self::Drain => format!("set server {backend}/{server} state drain"),
            Self::Maint => format!("set server {backend}/{server} state maint"),
            Self::Ready => format!("set server {backend}/{server} state ready"),
        }
    }
}

/// A runtime socket: a path, or `HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Haproxy {
    socket: String,
}

impl Haproxy {
    /// The socket at a path (it has a slash), or at `HOST:PORT`.
    pub fn new(socket: &str) -> Self {
        Self { socket: socket.to_owned() }
    }

    /// All servers, as configured.
    ///
    /// # Errors
    /// When the socket cannot be reached, or what answers there is no HAProxy.
    pub fn servers(&self) -> Result<Vec<HaproxyServer>, EdgeError> {
        // 4 is servers: neither frontends nor sums of backends.
        parse(&self.ask("show stat -1 4 -1")?).ok_or_else(|| {
            EdgeError::new(format!("cannot read what `{}` answers: it is no HAProxy", self.socket))
                .hint("name the socket of `stats socket` in haproxy.cfg")
        })
    }

    /// Tells a server, named `BACKEND/SERVER`, what to do, and reads what became of it.
    ///
    /// # Errors
    /// When there is no such server, the socket's level is too low, or HAProxy refuses.
    pub fn order(&self, name: &str, order: HaproxyOrder) -> Result<HaproxyChange, EdgeError> {
        let before = self.find(name)?;
        if let HaproxyOrder::Weight(weight) = order
            && weight > WEIGHT_MAX
        {
            return Err(EdgeError::new(format!("cannot give `{name}` the weight {weight}"))
                .hint("HAProxy's weights go from 0 to 256"));
        }
        let told = self.ask(&order.command(&before.backend, &before.server))?;
        if let Some(why) = told.lines().map(str::trim).find(|line| !line.is_empty()) {
            return Err(self.refused(name, why));
        }
        Ok(HaproxyChange { after: self.find(name)?, before })
    }

    /// The server `BACKEND/SERVER`.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn find(&self, name: &str) -> Result<HaproxyServer, EdgeError> {
        let servers = self.servers()?;
        let names: Vec<String> =
            servers.iter().map(|one| format!("{}/{}", one.backend, one.server)).collect();
        // What is not among the names never becomes a part of a command.
        names.iter().position(|one| one == name).map(|at| servers[at].clone()).ok_or_else(|| {
            let near = weir_tables::nearest(name, names.iter().map(String::as_str));
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None if names.is_empty() => "it has no servers at all".to_owned(),
                None => format!("write it as BACKEND/SERVER, such as `{}`", names[0]),
            };
            EdgeError::new(format!("cannot find the server `{name}` at `{}`", self.socket))
                .hint(hint)
        })
    }

    fn refused(&self, name: &str, why: &str) -> EdgeError {
        let error = EdgeError::new(format!(
            "cannot change `{name}` at `{}`: HAProxy says: {why}",
            self.socket
        ));
        if why.contains("Permission denied") {
            return error.hint(format!(
                "the socket may only look: `stats socket {} level admin` in haproxy.cfg, then reload",
                self.socket
            ));
        }
        if why.contains("static LB algorithm") {
            return error.hint(
                "its `balance` takes weights only at the start, but for 0: use `drain`, or balance roundrobin or leastconn",
            );
        }
        error.hint("`weir haproxy show` tells how its servers are")
    }

    /// Whether a socket is named by its path, and not as HOST:PORT.
    pub fn is_path(socket: &str) -> bool {
        socket.contains('/') || !socket.contains(':')
    }

    fn ask(&self, command: &str) -> Result<String, EdgeError> {
        let answer = if Self::is_path(&self.socket) {
            UnixStream::connect(&self.socket).and_then(|stream| {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                talk(stream, command)
            })
        } else {
            connect(&self.socket).and_then(|stream| {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                talk(stream, command)
            })
        };
        answer.map_err(|error| self.unreached(&error))
    }

    fn unreached(&self, error: &std::io::Error) -> EdgeError {
        let failure =
            EdgeError::new(format!("cannot ask the HAProxy at `{}`: {error}", self.socket));
        failure.hint(match error.kind() {
            ErrorKind::NotFound => {
                "it is the path of `stats socket` in haproxy.cfg; /run/haproxy/admin.sock in Debian"
            }
            ErrorKind::PermissionDenied => {
                "be a user that may write to it: root, or its group (`stats socket … group …`)"
            }
            ErrorKind::ConnectionRefused => "nothing listens there: does HAProxy run?",
            ErrorKind::WouldBlock | ErrorKind::TimedOut => "it did not answer within 5 s",
            _ => "name it as a path, or as HOST:PORT",
        })
    }
}

fn connect(address: &str) -> std::io::Result<TcpStream> {
    let mut all = address.to_socket_addrs()?;
    let first = all.next().ok_or_else(|| std::io::Error::other("no such host"))?;
    TcpStream::connect_timeout(&first, PATIENCE)
}

fn talk(mut stream: impl Read + Write, command: &str) -> std::io::Result<String> {
    stream.write_all(format!("{command}\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The CSV of `show stat`, whose first line names the columns (management guide §9.1). No value of a server that is read here
/// can hold a comma but the last check, which is quoted then.
fn parse(text: &str) -> Option<Vec<HaproxyServer>> {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next()?.strip_prefix("# ")?.split(',').collect();
    let at = |name: &str| head.iter().position(|column| *column == name);
    let (backend, server, state) = (at("pxname")?, at("svname")?, at("status")?);
    let (weight, sessions) = (at("weight")?, at("scur")?);
    let rows = lines.filter(|line| !line.is_empty()).map(|line| {
        let cells = cells(line);
        let cell = |at: Option<usize>| cells.get(at?).filter(|cell| !cell.is_empty()).cloned();
        let number = |at: Option<usize>| cell(at).and_then(|cell| cell.parse().ok()).unwrap_or(0);
        Some(HaproxyServer {
            backend: cell(Some(backend))?,
            server: cell(Some(server))?,
            address: cell(at("addr")),
            state: cell(Some(state))?,
            check: cell(at("last_chk")),
            weight: u32::try_from(number(Some(weight))).unwrap_or(0),
            sessions: number(Some(sessions)),
            queued: number(at("qcur")),
            sessions_total: number(at("stot")),
            failures_total: number(at("econ")) + number(at("eresp")),
        })
    });
    rows.collect()
}

/// One line of CSV; a cell in quotes may hold commas, and quotes twice (RFC 4180).
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut cell, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cell.push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(std::mem::take(&mut cell)),
            other => cell.push(other),
        }
    }
    cells.push(cell);
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_by_the_names_of_columns() {
        let text = "# pxname,svname,qcur,scur,stot,econ,eresp,status,weight,last_chk,addr,\n\
            app,one,2,3,10,1,1,UP 1/3,7,\"L7OK, \"\"fine\"\"\",10.0.0.5:80,\n\
            app,two,,,,,,no check,1,,,\n";
        let servers = parse(text).expect("it is HAProxy's");
        assert_eq!(servers[0].state, "UP 1/3");
        assert_eq!(servers[0].check.as_deref(), Some("L7OK, \"fine\""));
        assert_eq!(servers[0].address.as_deref(), Some("10.0.0.5:80"));
        let numbers = (servers[0].weight, servers[0].sessions, servers[0].queued);
        assert_eq!((numbers, servers[0].failures_total), ((7, 3, 2), 2));
        assert_eq!((servers[1].address.as_ref(), servers[1].sessions_total), (None, 0));
        for wrong in ["", "Unknown command", "# pxname,svname\napp,one\n"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_has_no_port_is_a_path() {
        let are_paths = ["/run/haproxy/admin.sock", "admin.sock", "127.0.0.1:9999", "[::1]:9999"]
            .map(Haproxy::is_path);
        assert_eq!(are_paths, [true, true, false, false]);
    }

    #[test]
    fn any_text_is_read_or_refused() {
        arbtest::arbtest(|u| {
            let _ =
                parse(&format!("# pxname,svname,status,weight,scur\n{}", u.arbitrary::<String>()?));
            let _ = parse(&u.arbitrary::<String>()?);
            Ok(())
        });
    }
}
