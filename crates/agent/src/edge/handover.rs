//! One weir takes the edge's place of another, with its listening sockets
//! (`docs/formats/handover.md`).
//!
//! The sockets themselves are passed (unix(7), `SCM_RIGHTS`), so connections in their accept queues
//! are not lost. The old process ends only after the new one serves; if anything fails before that,
//! it keeps serving.

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde_json::{Value, json};
use weir_config::{Config, Values};
use weir_edge::InheritedState;
use weir_process::clock::SystemClock;
use weir_process::failure::Failure;
use weir_tables::Clock;

use super::{EdgeStartup, edge_failure, export, settings, socket};

/// What the new weir says first; the first letter tells it from HTTP, whose methods are capitals.
const HELLO: &[u8] = b"handover 1\n";
/// The new process sends this when it serves.
const READY: &[u8] = b"ready\n";
/// Sockets that go in one message; the kernel takes 253 at most.
const SOCKETS_TOGETHER: usize = 64;
/// Longest description of what goes over.
const HEAD_BYTES_MAX: usize = 16 << 20;
/// Listening sockets at most.
const SOCKETS_MAX: usize = 16_384;
/// How long the other side may take for a step.
const STEP: Duration = Duration::from_secs(30);
/// How often to check whether a process is gone.
const LOOK: Duration = Duration::from_millis(20);

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("cannot hand over the edge: {error}"))
}

/// Gives everything to who is at the other end; returns when that one serves.
pub(super) fn give(
    mut stream: &UnixStream,
    export: &Value,
    sockets: Vec<(SocketAddr, TcpListener)>,
) -> Result<(), Failure> {
    limit(stream)?;
    let mut hello = vec![0; HELLO.len()];
    stream.read_exact(&mut hello).map_err(failed)?;
    if hello != HELLO {
        return Err(failed("the other side speaks another version"));
    }
    let asked: Vec<String> = sockets.iter().map(|(address, _)| address.to_string()).collect();
    let head = json!({"export": export, "sockets": asked}).to_string();
    let length = u32::try_from(head.len()).map_err(failed)?;
    stream.write_all(&length.to_le_bytes()).map_err(failed)?;
    stream.write_all(head.as_bytes()).map_err(failed)?;
    for some in sockets.chunks(SOCKETS_TOGETHER) {
        let descriptors: Vec<BorrowedFd<'_>> = some.iter().map(|(_, one)| one.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_TOGETHER))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        sendmsg(stream, &[IoSlice::new(b"s")], &mut ancillary, SendFlags::NOSIGNAL)
            .map_err(failed)?;
    }
    let mut ready = vec![0; READY.len()];
    stream.read_exact(&mut ready).map_err(failed)?;
    if ready == READY { Ok(()) } else { Err(failed("the other side did not say that it serves")) }
}

/// `weir edge --replace`: serves with the sockets of the weir that runs, and returns when that one
/// has ended.
pub fn take_over(startup: &EdgeStartup, values: &Values) -> Result<(), Failure> {
    let path = socket::path(values);
    let new = settings(values)?;
    weir_edge::check_certificates(&new).map_err(edge_failure)?;
    let mut stream = socket::connect(&path)?;
    limit(&stream)?;
    stream.write_all(HELLO).map_err(failed)?;
    let (head, sockets) = receive(&mut stream)?;
    let (config, learnt) = export::import(&head["export"])?;
    let is_used = |asked: &SocketAddr| new.listeners.iter().any(|one| one.address == *asked);
    let count = sockets.iter().filter(|(asked, _)| is_used(asked)).count();
    warn_of_differences(&config, values, &new);
    let clock: std::sync::Arc<dyn Clock> = std::sync::Arc::new(SystemClock);
    startup.begin(values, &clock, InheritedState { sockets, learnt })?;
    stream.write_all(READY).map_err(failed)?;
    tracing::info!("this weir serves with {count} sockets of the one that runs; that one ends now");
    wait_for_end(&mut stream, &path)
}

fn limit(stream: &UnixStream) -> Result<(), Failure> {
    stream.set_read_timeout(Some(STEP)).map_err(failed)?;
    stream.set_write_timeout(Some(STEP)).map_err(failed)
}

fn receive(stream: &mut UnixStream) -> Result<(Value, Vec<(SocketAddr, TcpListener)>), Failure> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).map_err(failed)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > HEAD_BYTES_MAX {
        return Err(failed("what comes is too long"));
    }
    let mut head = vec![0; length];
    stream.read_exact(&mut head).map_err(failed)?;
    let head: Value = serde_json::from_slice(&head).map_err(failed)?;
    let asked = head["sockets"].as_array().cloned().unwrap_or_default();
    let asked: Option<Vec<SocketAddr>> =
        asked.iter().map(|one| one.as_str()?.parse().ok()).collect();
    let asked = asked.filter(|all| all.len() <= SOCKETS_MAX);
    let asked = asked.ok_or_else(|| failed("the addresses of its sockets are none"))?;
    let mut sockets = Vec::new();
    while sockets.len() < asked.len() {
        let some = receive_some(stream)?;
        if some.is_empty() {
            return Err(failed("sockets are missing (is the limit of open files too low?)"));
        }
        sockets.extend(some);
    }
    let sockets = asked.into_iter().zip(sockets.into_iter().map(TcpListener::from)).collect();
    Ok((head, sockets))
}

fn receive_some(stream: &UnixStream) -> Result<Vec<OwnedFd>, Failure> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_TOGETHER))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut buffer = [IoSliceMut::new(&mut byte)];
    recvmsg(stream, &mut buffer, &mut ancillary, RecvFlags::CMSG_CLOEXEC).map_err(failed)?;
    let rights = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok(rights.flatten().collect())
}

/// Changes made through the API are not in the file: warn about them.
fn warn_of_differences(config: &str, values: &Values, new: &weir_edge::Settings) {
    let old = Config::read(Path::new("configuration"), config)
        .and_then(|config| settings(&Values { edge: config.values.edge, ..values.clone() }));
    match old.map(|old| old.differences(new)) {
        Ok(lines) if lines.is_empty() => {}
        Ok(lines) => tracing::warn!(
            "the configuration differs from that of the weir that runs:\n{}",
            lines.join("\n")
        ),
        Err(failure) => {
            tracing::warn!("the other weir's configuration is not understood: {failure}")
        }
    }
}

/// Waits until the old process has closed the stream and released its store.
fn wait_for_end(stream: &mut UnixStream, path: &Path) -> Result<(), Failure> {
    let pid = rustix::net::sockopt::socket_peercred(&*stream).map(|peer| peer.pid).ok();
    loop {
        match stream.read(&mut [0]) {
            Ok(_) => break,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => tracing::warn!(
                "the weir at `{}` has not ended yet; until then rows wait here, and some may be dropped",
                path.display()
            ),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    let Some(pid) = pid else { return Ok(()) };
    let (status, end) = (format!("/proc/{}/stat", pid.as_raw_nonzero()), Instant::now() + STEP);
    while Instant::now() < end && is_alive(&status) {
        std::thread::park_timeout(LOOK);
    }
    Ok(())
}

/// Whether a process still holds resources: a zombie (state Z in proc_pid_stat(5)) does not.
fn is_alive(status: &str) -> bool {
    let text = std::fs::read_to_string(status).unwrap_or_default();
    let state = text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_go_over_with_their_addresses_and_who_is_not_ready_gets_nothing() {
        let listen = || TcpListener::bind("127.0.0.1:0").expect("a free port");
        let sockets: Vec<_> = (0..150)
            .map(|_| listen())
            .map(|one| (one.local_addr().expect("it is bound"), one))
            .collect();
        let addresses: Vec<_> = sockets.iter().map(|(address, _)| *address).collect();
        let (old, mut new) = UnixStream::pair().expect("a pair");
        let giving = std::thread::spawn(move || give(&old, &json!({"format": 1}), sockets));
        new.write_all(HELLO).expect("it reads");
        let (head, sockets) = receive(&mut new).expect("a whole head");
        assert_eq!(head["export"]["format"], 1);
        for (at, (address, socket)) in sockets.iter().enumerate() {
            assert_eq!(*address, addresses[at]);
            assert_eq!(socket.local_addr().expect("it is bound"), addresses[at]);
        }
        drop(new);
        let failure = giving.join().expect("no panic").expect_err("nobody was ready");
        assert!(failure.to_string().contains("cannot hand over the edge"), "{failure}");
    }

    #[test]
    fn a_process_is_alive_until_it_holds_nothing() {
        assert!(is_alive(&format!("/proc/{}/stat", std::process::id())));
        assert!(!is_alive("/proc/0/stat"));
        let mut child = std::process::Command::new("true").spawn().expect("true exists");
        let status = format!("/proc/{}/stat", child.id());
        while is_alive(&status) {
            std::thread::park_timeout(LOOK);
        }
        child.wait().expect("it is our child");
    }
}
