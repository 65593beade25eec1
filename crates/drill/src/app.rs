//! The two programs of a scene: an application behind the proxy, and visitors. Run as hidden commands of weir, in
//! a namespace, so that they are processes of their own that can be stopped and killed.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, listen, socket, sockopt};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::error::Result;
use crate::pause;

/// An application that answers every request after a while.
pub struct App {
    /// Where it listens.
    pub address: SocketAddr,
    /// Length of its accept queue.
    pub backlog: i32,
    /// A file with the milliseconds before an answer; read at each request.
    pub delay: PathBuf,
    /// Bytes of an answer.
    pub bytes: usize,
    /// Uses a processor for that long instead of waiting.
    pub spin: bool,
    /// A file with the per cent of requests that are answered with 500; read at each request.
    pub failing: Option<PathBuf>,
    /// Descriptors that it may have.
    pub files: Option<u64>,
}

/// Serves until it is killed, a thread a connection.
///
/// # Errors
/// When it cannot listen, or has no room for another thread.
pub fn serve(args: &App) -> Result<()> {
    if let Some(files) = args.files {
        setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum: Some(files) })?;
    }
    let fd: OwnedFd = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    bind(&fd, &args.address)?;
    listen(&fd, args.backlog)?;
    let listener = TcpListener::from(fd);
    let body: std::sync::Arc<[u8]> = vec![b'z'; args.bytes].into();
    loop {
        // Out of descriptors it waits, as servers do.
        let Ok((stream, _)) = listener.accept() else {
            pause(Duration::from_millis(50));
            continue;
        };
        let (manner, body) = (Manner::of(args), std::sync::Arc::clone(&body));
        let answering = std::thread::Builder::new().stack_size(64 << 10);
        answering.spawn(move || answer(stream, &manner, &body))?;
    }
}

/// How a request is answered.
struct Manner {
    delay: PathBuf,
    spin: bool,
    failing: Option<PathBuf>,
}

impl Manner {
    fn of(args: &App) -> Self {
        Self { delay: args.delay.clone(), spin: args.spin, failing: args.failing.clone() }
    }

    /// Takes its time.
    fn work(&self) {
        let span = Duration::from_millis(number(&self.delay));
        if !self.spin {
            return pause(span);
        }
        // By the thread's own clock: a thread that is throttled has not worked.
        let clock = || {
            let at = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            Duration::try_from(at).unwrap_or_default()
        };
        let end = clock() + span;
        while clock() < end {
            std::hint::spin_loop();
        }
    }

    /// Whether this request fails, drawn from the address that it comes from.
    fn fails(&self, port: u16) -> bool {
        self.failing.as_deref().is_some_and(|file| u64::from(port / 2 % 100) < number(file))
    }
}

/// The number in a file; 0 without one.
fn number(file: &std::path::Path) -> u64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

fn answer(mut stream: TcpStream, manner: &Manner, body: &[u8]) {
    let mut request = [0; 2048];
    if !matches!(stream.read(&mut request), Ok(length) if length > 0) {
        return;
    }
    manner.work();
    let is_bad = stream.peer_addr().is_ok_and(|peer| manner.fails(peer.port()));
    let status = if is_bad { "500 Internal Server Error" } else { "200 OK" };
    let head = format!("HTTP/1.0 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
    let _gone = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}

/// Visitors who ask again and again.
pub struct Visit {
    /// Whom they ask.
    pub address: SocketAddr,
    /// How many.
    pub visitors: u64,
    /// Milliseconds between two requests of one visitor.
    pub pause_millis: u64,
    /// Connect and say nothing.
    pub hold: bool,
    /// Take 16 KiB, then rest for so many milliseconds.
    pub slow_millis: Option<u64>,
    /// Leave after so many milliseconds, answered or not.
    pub patience_millis: u64,
}

/// Visits until it is killed.
///
/// # Errors
/// When it has no room for another thread.
pub fn visit(args: &Visit) -> Result<()> {
    let patience = Duration::from_millis(args.patience_millis);
    let (address, is_holding) = (args.address, args.hold);
    let slow = args.slow_millis.map(Duration::from_millis);
    for visitor in 0..args.visitors {
        // Each at a pace of its own: in step they would be a burst.
        let between = Duration::from_millis(args.pause_millis + visitor * 7 % 50);
        let visiting = std::thread::Builder::new().stack_size(64 << 10);
        visiting.spawn(move || {
            loop {
                let stream = connect(address, patience, slow.is_some());
                let _answer = stream.and_then(|stream| ask(stream, patience, is_holding, slow));
                pause(between);
            }
        })?;
    }
    loop {
        pause(Duration::from_secs(3600));
    }
}

/// A slow reader has a small buffer, else the kernel would read for him.
fn connect(address: SocketAddr, patience: Duration, is_slow: bool) -> std::io::Result<TcpStream> {
    if !is_slow {
        return TcpStream::connect_timeout(&address, patience);
    }
    let fd: OwnedFd = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    sockopt::set_socket_recv_buffer_size(&fd, 16 << 10)?;
    rustix::net::connect(&fd, &address)?;
    Ok(TcpStream::from(fd))
}

fn ask(
    mut stream: TcpStream,
    patience: Duration,
    is_holding: bool,
    slow: Option<Duration>,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(patience))?;
    if is_holding {
        pause(Duration::from_secs(3600));
    }
    stream.write_all(b"GET /page HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n")?;
    let mut part = vec![0; 16 << 10];
    while stream.read(&mut part)? > 0 {
        if let Some(rest) = slow {
            pause(rest);
        }
    }
    Ok(())
}
