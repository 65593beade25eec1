//! Control of an existing HAProxy over its runtime socket (HAProxy's management guide, §9.3 "Unix
//! Socket commands"): the state and weight of its servers.
//!
//! Changes need `level admin`. HAProxy responds to a successful command with nothing, and to a
//! failed one with a sentence. The state is therefore read again after each command.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Limit for one command and its response.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Longest response; `show stat` has about 400 bytes per server.
const RESPONSE_BYTES_MAX: u64 = 64 << 20;
/// The highest weight that HAProxy accepts.
const WEIGHT_MAX: u32 = 256;

/// An error with a hint; always something that the user can fix.
#[derive(Debug)]
pub struct HaproxyError {
    /// What failed, on what, why.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl HaproxyError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for HaproxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for HaproxyError {}

/// A server in a backend of HAProxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HaproxyServer {
    /// The name of the backend.
    pub backend: String,
    /// The name of the server.
    pub server: String,
    /// Address and port; `None` before HAProxy 1.7 or if the socket's level is too low.
    pub address: Option<String>,
    /// The state as HAProxy writes it: `UP`, `DOWN`, `MAINT`, `DRAIN`, `NOLB`, `no check`, or a
    /// transition such as `UP 1/3`.
    pub state: String,
    /// The result of the last health check; `None` without checks.
    pub check: Option<String>,
    /// The current weight.
    pub weight: u32,
    /// Current sessions.
    pub sessions: u64,
    /// Queued requests.
    pub queued: u64,
    /// Sessions since HAProxy started.
    pub sessions_total: u64,
    /// Connect and response errors since HAProxy started.
    pub failures_total: u64,
}

impl HaproxyServer {
    /// `BACKEND/SERVER`
    fn path(&self) -> String {
        format!("{}/{}", self.backend, self.server)
    }
}

/// A change of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HaproxyOrder {
    /// A weight from 0 to 256; 0 stops new clients, but not those with a cookie.
    Weight(u32),
    /// Stop new clients; checks continue.
    Drain,
    /// Stop all traffic and checks.
    Maint,
    /// Back to normal.
    Ready,
}

/// A server before and after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HaproxyChange {
    /// State before the change.
    pub before: HaproxyServer,
    /// State after the change.
    pub after: HaproxyServer,
}

impl fmt::Display for HaproxyChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { before, after } = self;
        write!(f, "{}: {} weight {}", before.path(), before.state, before.weight)?;
        if before.state == after.state && before.weight == after.weight {
            return f.write_str(", unchanged");
        }
        write!(f, " -> {} weight {}", after.state, after.weight)
    }
}

impl HaproxyOrder {
    fn command(self, server: &HaproxyServer) -> String {
        let path = server.path();
        match self {
            Self::Weight(weight) => format!("set server {path} weight {weight}"),
            Self::Drain => format!("set server {path} state drain"),
            Self::Maint => format!("set server {path} state maint"),
            Self::Ready => format!("set server {path} state ready"),
        }
    }
}

/// The runtime socket of an HAProxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Haproxy {
    socket: String,
}

impl Haproxy {
    /// The socket at a path, or at `HOST:PORT`.
    pub fn new(socket: &str) -> Self {
        Self { socket: socket.to_owned() }
    }

    /// All servers, in configuration order.
    ///
    /// # Errors
    /// If the socket cannot be reached or is not an HAProxy.
    pub fn servers(&self) -> Result<Vec<HaproxyServer>, HaproxyError> {
        // Type 4 selects servers, without frontends and backend totals.
        parse(&self.send("show stat -1 4 -1")?).ok_or_else(|| {
            HaproxyError::new(format!("cannot use `{}`: it is not an HAProxy socket", self.socket))
                .hint("use the path of `stats socket` in haproxy.cfg")
        })
    }

    /// Changes the server `BACKEND/SERVER` and reads its new state.
    ///
    /// # Errors
    /// If there is no such server, the socket's level is too low, or HAProxy rejects the change.
    pub fn order(&self, name: &str, order: HaproxyOrder) -> Result<HaproxyChange, HaproxyError> {
        let before = self.find(name)?;
        if let HaproxyOrder::Weight(weight) = order
            && weight > WEIGHT_MAX
        {
            return Err(HaproxyError::new(format!(
                "cannot set the weight of `{name}` to {weight}"
            ))
            .hint("HAProxy accepts weights from 0 to 256"));
        }
        let response = self.send(&order.command(&before))?;
        if let Some(why) = response.lines().map(str::trim).find(|line| !line.is_empty()) {
            return Err(self.rejected(&before, why));
        }
        Ok(HaproxyChange { after: self.find(name)?, before })
    }

    /// Finds the server `BACKEND/SERVER`.
    ///
    /// # Errors
    /// If there is no such server.
    pub fn find(&self, name: &str) -> Result<HaproxyServer, HaproxyError> {
        let servers = self.servers()?;
        let names: Vec<String> = servers.iter().map(HaproxyServer::path).collect();
        // Only known names become part of a command, which prevents injection.
        names.iter().position(|one| one == name).map(|at| servers[at].clone()).ok_or_else(|| {
            let near = weir_tables::nearest(name, names.iter().map(String::as_str));
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None if names.is_empty() => "this HAProxy has no servers".to_owned(),
                None => format!("write it as BACKEND/SERVER, such as `{}`", names[0]),
            };
            HaproxyError::new(format!("cannot find the server `{name}` at `{}`", self.socket))
                .hint(hint)
        })
    }

    fn rejected(&self, server: &HaproxyServer, why: &str) -> HaproxyError {
        let error = HaproxyError::new(format!(
            "cannot change `{}` at `{}`: HAProxy responds: {why}",
            server.path(),
            self.socket
        ));
        if why.contains("Permission denied") {
            return error.hint(format!(
                "the socket is read-only: set `stats socket {} level admin` in haproxy.cfg, then reload",
                self.socket
            ));
        }
        if why.contains("static LB algorithm") {
            return error.hint(
                "its `balance` algorithm allows no other weight than 0 and the initial one: use `drain`, or balance roundrobin or leastconn",
            );
        }
        error.hint("`weir haproxy show` lists the servers and their state")
    }

    /// Whether a socket is a path rather than `HOST:PORT`.
    pub fn is_path(socket: &str) -> bool {
        socket.contains('/') || !socket.contains(':')
    }

    fn send(&self, command: &str) -> Result<String, HaproxyError> {
        let response = if Self::is_path(&self.socket) {
            UnixStream::connect(&self.socket).and_then(|stream| {
                stream.set_read_timeout(Some(TIMEOUT))?;
                stream.set_write_timeout(Some(TIMEOUT))?;
                exchange(stream, command)
            })
        } else {
            connect(&self.socket).and_then(|stream| {
                stream.set_read_timeout(Some(TIMEOUT))?;
                stream.set_write_timeout(Some(TIMEOUT))?;
                exchange(stream, command)
            })
        };
        response.map_err(|error| self.unreachable(&error))
    }

    fn unreachable(&self, error: &std::io::Error) -> HaproxyError {
        let failure =
            HaproxyError::new(format!("cannot reach the HAProxy at `{}`: {error}", self.socket));
        failure.hint(match error.kind() {
            ErrorKind::NotFound => {
                "use the path of `stats socket` in haproxy.cfg; on Debian /run/haproxy/admin.sock"
            }
            ErrorKind::PermissionDenied => {
                "run as root or as a member of the socket's group (`stats socket … group …`)"
            }
            ErrorKind::ConnectionRefused => "nothing listens there: check that HAProxy is running",
            ErrorKind::WouldBlock | ErrorKind::TimedOut => "it did not respond within 5 s",
            _ => "write it as a path, or as HOST:PORT",
        })
    }
}

fn connect(address: &str) -> std::io::Result<TcpStream> {
    let mut all = address.to_socket_addrs()?;
    let first = all.next().ok_or_else(|| std::io::Error::other("the name does not resolve"))?;
    TcpStream::connect_timeout(&first, TIMEOUT)
}

fn exchange(mut stream: impl Read + Write, command: &str) -> std::io::Result<String> {
    stream.write_all(format!("{command}\n").as_bytes())?;
    let mut response = Vec::new();
    stream.take(RESPONSE_BYTES_MAX).read_to_end(&mut response)?;
    Ok(String::from_utf8_lossy(&response).into_owned())
}

/// Parses the CSV of `show stat`, whose first line names the columns (management guide §9.1).
///
/// Only the last check can contain commas; it is quoted then.
fn parse(text: &str) -> Option<Vec<HaproxyServer>> {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next()?.strip_prefix("# ")?.split(',').collect();
    if !["pxname", "svname", "status", "weight", "scur"].iter().all(|name| head.contains(name)) {
        return None;
    }
    let rows = lines.filter(|line| !line.is_empty()).map(|line| {
        let row = CsvRow { head: &head, cells: cells(line) };
        Some(HaproxyServer {
            backend: row.text("pxname")?,
            server: row.text("svname")?,
            address: row.text("addr"),
            state: row.text("status")?,
            check: row.text("last_chk"),
            weight: u32::try_from(row.number("weight")).unwrap_or(0),
            sessions: row.number("scur"),
            queued: row.number("qcur"),
            sessions_total: row.number("stot"),
            failures_total: row.number("econ") + row.number("eresp"),
        })
    });
    rows.collect()
}

struct CsvRow<'a> {
    head: &'a [&'a str],
    cells: Vec<String>,
}

impl CsvRow<'_> {
    fn text(&self, column: &str) -> Option<String> {
        let at = self.head.iter().position(|name| *name == column)?;
        self.cells.get(at).filter(|cell| !cell.is_empty()).cloned()
    }

    fn number(&self, column: &str) -> u64 {
        self.text(column).and_then(|cell| cell.parse().ok()).unwrap_or(0)
    }
}

/// Splits a line of CSV; a quoted cell may contain commas and doubled quotes (RFC 4180).
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
    fn servers_are_parsed_by_column_name() {
        let text = "# pxname,svname,qcur,scur,stot,econ,eresp,status,weight,last_chk,addr,\n\
            app,one,2,3,10,1,1,UP 1/3,7,\"L7OK, \"\"fine\"\"\",10.0.0.5:80,\n\
            app,two,,,,,,no check,1,,,\n";
        let servers = parse(text).expect("valid CSV");
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
    fn a_socket_without_port_is_a_path() {
        let are_paths = ["/run/haproxy/admin.sock", "admin.sock", "127.0.0.1:9999", "[::1]:9999"]
            .map(Haproxy::is_path);
        assert_eq!(are_paths, [true, true, false, false]);
    }

    #[test]
    fn no_text_makes_the_parser_panic() {
        arbtest::arbtest(|u| {
            let _ =
                parse(&format!("# pxname,svname,status,weight,scur\n{}", u.arbitrary::<String>()?));
            let _ = parse(&u.arbitrary::<String>()?);
            Ok(())
        });
    }
}
