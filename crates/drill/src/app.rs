//! The two programs of a scene: an application behind the proxy, and visitors. Run as hidden commands of weir, in
//! a namespace, so that they are processes of their own that can be stopped and killed.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::error::Result;
use crate::{Random, pause};

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
    /// Only the health check fails.
    pub failing_health: bool,
    /// Descriptors that it may have.
    pub files: Option<u64>,
    /// Requests that it answers at a time; others wait in the accept queue.
    pub workers: Option<u64>,
    /// A store that it asks once for each request, in HTTP.
    pub store: Option<SocketAddr>,
    /// A file of which it writes 4 KiB for each request, past the page cache, one write at a time: a store's journal.
    pub journal: Option<PathBuf>,
    /// It keeps the connections that its clients have closed.
    pub leak: bool,
    /// A file with the milliseconds that the first page takes beside; read at each request.
    pub slow_page: Option<PathBuf>,
    /// It leaves it to who asked to end the connection, who then keeps its port for a minute.
    pub last: bool,
    /// It keeps connections for further requests: a file with the milliseconds that they may be idle; read after each answer.
    pub idle: Option<PathBuf>,
}

/// Serves until it is killed, a thread a connection.
///
/// # Errors
/// When it cannot listen, or has no room for another thread.
pub fn serve(args: &App) -> Result<()> {
    if let Some(files) = args.files {
        setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum: Some(files) })?;
    }
    let fd: OwnedFd =
        socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    bind(&fd, &args.address)?;
    listen(&fd, args.backlog)?;
    let listener = TcpListener::from(fd);
    let manner = Arc::new(Manner::of(args)?);
    loop {
        manner.free();
        // Out of descriptors it waits, as servers do.
        let Ok((stream, _)) = listener.accept() else {
            pause(Duration::from_millis(50));
            continue;
        };
        let taken = Taken::of(&manner);
        let answering = std::thread::Builder::new().stack_size(64 << 10);
        answering.spawn(move || answer(stream, &taken.0))?;
    }
}

/// How requests are answered, and how many are at the moment.
struct Manner {
    delay: PathBuf,
    body: Vec<u8>,
    spin: bool,
    failing: Option<PathBuf>,
    failing_health: bool,
    workers: u64,
    store: Option<SocketAddr>,
    journal: Option<Mutex<Journal>>,
    kept: Option<Mutex<Vec<TcpStream>>>,
    slow_page: Option<PathBuf>,
    busy: Mutex<u64>,
    is_free: Condvar,
    is_last: bool,
    idle: Option<PathBuf>,
}

/// A place among the workers, given back when it is dropped.
struct Taken(Arc<Manner>);

impl Taken {
    fn of(manner: &Arc<Manner>) -> Self {
        *held(&manner.busy) += 1;
        Self(Arc::clone(manner))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        *held(&self.0.busy) -= 1;
        self.0.is_free.notify_one();
    }
}

/// A thread that panicked leaves numbers and files as they were.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Manner {
    fn of(args: &App) -> Result<Self> {
        Ok(Self {
            delay: args.delay.clone(),
            body: vec![b'z'; args.bytes],
            spin: args.spin,
            failing: args.failing.clone(),
            failing_health: args.failing_health,
            workers: args.workers.unwrap_or(u64::MAX),
            store: args.store,
            journal: args.journal.as_deref().map(Journal::open).transpose()?.map(Mutex::new),
            kept: args.leak.then(Mutex::default),
            slow_page: args.slow_page.clone(),
            is_last: args.last,
            idle: args.idle.clone(),
            busy: Mutex::new(0),
            is_free: Condvar::new(),
        })
    }

    /// Waits until a worker is free.
    fn free(&self) {
        let busy = held(&self.busy);
        let waited = self.is_free.wait_while(busy, |busy| *busy >= self.workers);
        drop(waited);
    }

    /// Takes its time.
    fn work(&self, request: &[u8]) {
        if let Some(file) = self.slow_page.as_deref().filter(|_| request.starts_with(FIRST_PAGE)) {
            pause(Duration::from_millis(number(file)));
        }
        if let Some(store) = self.store {
            let patience = Duration::from_secs(60);
            let asked = TcpStream::connect_timeout(&store, patience)
                .and_then(|stream| ask(stream, patience, "/row", None));
            // It cannot answer without its store.
            if asked.is_err() {
                pause(Duration::from_millis(20));
            }
        }
        if let Some(journal) = &self.journal {
            held(journal).write();
        }
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
    fn fails(&self, port: u16, request: &[u8]) -> bool {
        let is_asked = !self.failing_health || request.starts_with(b"GET /health");
        is_asked
            && self.failing.as_deref().is_some_and(|file| u64::from(port / 2 % 100) < number(file))
    }
}

/// A file that is written block by block, past the page cache.
struct Journal {
    file: File,
    blocks: Vec<u8>,
    number: u64,
}

impl Journal {
    const BLOCK: usize = 4096;
    const BLOCKS: u64 = 256;

    fn open(path: &Path) -> Result<Self> {
        let zeroes = vec![0; Self::BLOCK];
        let mut file = File::create(path)?;
        // Its room is there before, so that a write is a write and nothing else.
        (0..Self::BLOCKS).try_for_each(|_| file.write_all(&zeroes))?;
        file.sync_all()?;
        let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).unwrap_or_default();
        let file = OpenOptions::new().write(true).custom_flags(direct).open(path)?;
        Ok(Self { file, blocks: vec![b'j'; 2 * Self::BLOCK], number: 0 })
    }

    fn write(&mut self) {
        self.number += 1;
        let at = self.number % Self::BLOCKS * Self::BLOCK as u64;
        // The kernel wants memory that begins where a block does.
        let start = self.blocks.as_ptr().align_offset(Self::BLOCK);
        let _full = self.file.write_all_at(&self.blocks[start..start + Self::BLOCK], at);
    }
}

/// The number in a file; 0 without one.
pub(crate) fn number(file: &Path) -> u64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

fn answer(mut stream: TcpStream, manner: &Manner) {
    let mut request = [0; 2048];
    while let Ok(length @ 1..) = stream.read(&mut request) {
        take_body(&mut stream, &request[..length]);
        manner.work(&request);
        let is_bad = stream.peer_addr().is_ok_and(|peer| manner.fails(peer.port(), &request));
        let status = if is_bad { "500 Internal Server Error" } else { "200 OK" };
        let version = if manner.idle.is_some() { "HTTP/1.1" } else { "HTTP/1.0" };
        let head = format!("{version} {status}\r\nContent-Length: {}\r\n\r\n", manner.body.len());
        let _gone = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&manner.body));
        let Some(idle) = &manner.idle else { break };
        let _limited = stream.set_read_timeout(Some(Duration::from_millis(number(idle).max(1))));
    }
    if manner.is_last {
        // At most: whoever waits for the end would wait for ever.
        let _limited = stream.set_read_timeout(Some(Duration::from_secs(2)));
        let _ended = stream.read(&mut request);
    }
    if let Some(kept) = &manner.kept {
        held(kept).push(stream);
    }
}

/// How a request for the page begins that may be slow by itself.
const FIRST_PAGE: &[u8] = b"GET /page ";

/// Reads what a request brings beyond what was read of it: a connection that is closed before is reset.
fn take_body(stream: &mut TcpStream, read: &[u8]) {
    let text = String::from_utf8_lossy(read).to_ascii_lowercase();
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let Some(length) = length.and_then(|text| text.trim().parse::<usize>().ok()) else { return };
    let left = length.saturating_sub(read.len() - head.len() - 4);
    let _gone = std::io::copy(&mut stream.take(left as u64), &mut std::io::sink());
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
    /// Ask for so many pages in turn.
    pub pages: u64,
    /// Ask again on the same connection after a rest of about so many milliseconds, as the pools of balancers do.
    pub reuse_millis: Option<u64>,
}

/// Visits until it is killed.
///
/// # Errors
/// When it has no room for another thread.
pub fn visit(args: &Visit) -> Result<()> {
    let patience = Duration::from_millis(args.patience_millis);
    let (address, is_holding) = (args.address, args.hold);
    let slow = args.slow_millis.map(Duration::from_millis);
    let pages = args.pages.max(1);
    let rest = args.reuse_millis.map(Duration::from_millis);
    for visitor in 0..args.visitors {
        // Each at a pace of its own: in step they would be a burst.
        let between = Duration::from_millis(args.pause_millis + visitor * 7 % 50);
        let visiting = std::thread::Builder::new().stack_size(64 << 10);
        visiting.spawn(move || {
            let mut random = Random::new(visitor);
            for number in visitor.. {
                if let Some(rest) = rest {
                    let _ended = reuse(address, patience, rest, &mut random);
                    pause(between);
                    continue;
                }
                let stream = connect(address, patience, slow.is_some());
                let _answer = stream.and_then(|stream| {
                    if is_holding {
                        pause(Duration::from_secs(3600));
                    }
                    ask(stream, patience, &page(number % pages), slow)
                });
                pause(between);
            }
        })?;
    }
    loop {
        pause(Duration::from_secs(3600));
    }
}

/// Asks on one connection until it ends. The rest is a little shorter or longer each time; a connection that is seen to be closed is
/// not used again.
fn reuse(
    address: SocketAddr,
    patience: Duration,
    rest: Duration,
    random: &mut Random,
) -> std::io::Result<()> {
    /// How much, in microseconds.
    const JITTER: u64 = 2000;
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_nodelay(true)?;
    let mut answer = [0; 4096];
    // Not in step with the others.
    pause(rest / 1000 * u32::try_from(random.between(0, 1000)).unwrap_or_default());
    loop {
        stream.write_all(b"GET /page HTTP/1.1\r\nHost: shop.example\r\n\r\n")?;
        if stream.read(&mut answer)? == 0 {
            return Ok(());
        }
        let more = Duration::from_micros(random.between(0, 2 * JITTER));
        pause((rest + more).saturating_sub(Duration::from_micros(JITTER)));
        stream.set_nonblocking(true)?;
        if stream.peek(&mut answer).is_ok() {
            return Ok(());
        }
        stream.set_nonblocking(false)?;
    }
}

/// A slow reader has a small buffer, else the kernel would read for him.
fn connect(address: SocketAddr, patience: Duration, is_slow: bool) -> std::io::Result<TcpStream> {
    if !is_slow {
        return TcpStream::connect_timeout(&address, patience);
    }
    let fd: OwnedFd =
        socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_recv_buffer_size(&fd, 16 << 10)?;
    rustix::net::connect(&fd, &address)?;
    Ok(TcpStream::from(fd))
}

fn page(number: u64) -> String {
    if number == 0 { "/page".to_owned() } else { format!("/page/{number}") }
}

fn ask(
    mut stream: TcpStream,
    patience: Duration,
    path: &str,
    slow: Option<Duration>,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(patience))?;
    let head = format!("GET {path} HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let mut part = vec![0; 16 << 10];
    while stream.read(&mut part)? > 0 {
        if let Some(rest) = slow {
            pause(rest);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_connection_that_is_kept_serves_again_and_ends_when_it_was_idle_for_as_long_as_the_file_says()
     {
        let dir = tempfile::tempdir().unwrap();
        let idle = dir.path().join("idle");
        std::fs::write(&idle, "300").unwrap();
        let address = crate::address::free_address().unwrap();
        let app = App {
            address,
            backlog: 16,
            delay: dir.path().join("delay"),
            bytes: 3,
            spin: false,
            failing: None,
            failing_health: false,
            files: None,
            workers: None,
            store: None,
            journal: None,
            leak: false,
            slow_page: None,
            last: false,
            idle: Some(idle),
        };
        std::thread::spawn(move || serve(&app));
        let mut client = loop {
            if let Ok(stream) = TcpStream::connect(address) {
                break stream;
            }
            pause(Duration::from_millis(5));
        };
        let expected = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nzzz";
        let mut answer = vec![0; expected.len()];
        for _ in 0..2 {
            client.write_all(b"GET /page HTTP/1.1\r\nHost: shop.example\r\n\r\n").unwrap();
            client.read_exact(&mut answer).unwrap();
            assert_eq!(answer, expected);
        }
        let answered = Instant::now();
        assert_eq!(client.read(&mut answer).unwrap(), 0);
        assert!(answered.elapsed() > Duration::from_millis(250), "{:?}", answered.elapsed());
    }
}
