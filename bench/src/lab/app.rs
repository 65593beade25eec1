//! The two programs of a scene: an application behind the proxy, and visitors. Run as hidden commands of this program, in
//! a namespace, so that they are processes of their own that can be stopped and killed.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rustix::net::{AddressFamily, SocketType, bind, listen, socket, sockopt};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::data::pause;

/// An application that answers every request after a while.
#[derive(Args)]
pub(crate) struct AppArgs {
    #[arg(long)]
    address: SocketAddr,
    #[arg(long)]
    backlog: i32,
    /// A file with the milliseconds before an answer; read at each request.
    #[arg(long)]
    delay: PathBuf,
    /// Bytes of an answer.
    #[arg(long, default_value_t = 1000)]
    bytes: usize,
    /// Descriptors that it may have.
    #[arg(long)]
    files: Option<u64>,
}

/// Serves until it is killed, a thread a connection.
pub(crate) fn serve(args: &AppArgs) -> anyhow::Result<()> {
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
        let (delay, body) = (args.delay.clone(), std::sync::Arc::clone(&body));
        let answering = std::thread::Builder::new().stack_size(64 << 10);
        answering.spawn(move || answer(stream, &delay, &body))?;
    }
}

fn answer(mut stream: TcpStream, delay: &std::path::Path, body: &[u8]) {
    let mut request = [0; 2048];
    if !matches!(stream.read(&mut request), Ok(length) if length > 0) {
        return;
    }
    let text = std::fs::read_to_string(delay).unwrap_or_default();
    pause(Duration::from_millis(text.trim().parse().unwrap_or(0)));
    let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let _gone = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}

/// Visitors who ask again and again.
#[derive(Args)]
pub(crate) struct VisitArgs {
    #[arg(long)]
    address: SocketAddr,
    #[arg(long)]
    visitors: u64,
    /// Milliseconds between two requests of one visitor.
    #[arg(long, default_value_t = 50)]
    pause_millis: u64,
    /// Connect and say nothing.
    #[arg(long)]
    hold: bool,
    /// Leave after so many milliseconds, answered or not.
    #[arg(long, default_value_t = 5000)]
    patience_millis: u64,
}

/// Visits until it is killed.
pub(crate) fn visit(args: &VisitArgs) -> anyhow::Result<()> {
    let patience = Duration::from_millis(args.patience_millis);
    let (address, is_holding) = (args.address, args.hold);
    for visitor in 0..args.visitors {
        // Each at a pace of its own: in step they would be a burst.
        let between = Duration::from_millis(args.pause_millis + visitor * 7 % 50);
        let visiting = std::thread::Builder::new().stack_size(64 << 10);
        visiting.spawn(move || {
            loop {
                let stream = TcpStream::connect_timeout(&address, patience);
                let _answer = stream.and_then(|stream| ask(stream, patience, is_holding));
                pause(between);
            }
        })?;
    }
    loop {
        pause(Duration::from_secs(3600));
    }
}

fn ask(mut stream: TcpStream, patience: Duration, is_holding: bool) -> std::io::Result<()> {
    stream.set_read_timeout(Some(patience))?;
    if is_holding {
        pause(Duration::from_secs(3600));
    }
    stream.write_all(b"GET /page HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n")?;
    let mut part = vec![0; 16 << 10];
    while stream.read(&mut part)? > 0 {}
    Ok(())
}
