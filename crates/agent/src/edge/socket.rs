//! The edge's control socket: a Unix socket in the data directory that speaks HTTP (`docs/api.md`)
//! and hands over.
//!
//! Who may connect is decided by the kernel's word about the peer (`SO_PEERCRED`, unix(7)): the
//! edge's own user, and root.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::{RecvFlags, recv, sockopt};
use tokio::io::Interest;
use weir_config::Values;
use weir_process::failure::{EXIT_CONFIG, Failure};

use super::{EdgeControl, requests};

/// How long a client may take for a request.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause after an accept that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where the control socket is.
pub fn path(values: &Values) -> PathBuf {
    let own = values.edge.control_socket.clone();
    own.unwrap_or_else(|| values.store.dir.join("edge.sock"))
}

/// A socket that is bound; its file goes with it.
pub(super) struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn failed(path: &Path, what: &str, error: &std::io::Error) -> Failure {
    let failure = Failure::new(format!("cannot {what} `{}`: {error}", path.display()));
    let hint = match error.kind() {
        std::io::ErrorKind::InvalidInput => {
            "paths of sockets have 107 bytes at most: set `edge.control_socket`"
        }
        std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => {
            "no edge runs with this `store.dir` (`--data`) and `edge.control_socket`"
        }
        std::io::ErrorKind::PermissionDenied => "use the user that the edge runs as, or root",
        _ => "set `edge.control_socket`",
    };
    failure.hint(hint).code(EXIT_CONFIG)
}

/// Binds it; replaces the socket file of a process that no longer answers.
pub(super) fn bind(path: &Path) -> Result<ControlSocket, Failure> {
    let failed = |error: std::io::Error| failed(path, "listen on", &error);
    if UnixStream::connect(path).is_ok() {
        return Err(Failure::new(format!("another edge answers at `{}`", path.display()))
            .hint("`weir edge --replace` takes its place; beside it, set `edge.control_socket`"));
    }
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(failed)?;
    }
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(ControlSocket { listener, path: path.to_owned() })
}

/// Connects as a client.
pub(super) fn connect(path: &Path) -> Result<UnixStream, Failure> {
    UnixStream::connect(path).map_err(|error| failed(path, "reach an edge at", &error))
}

impl ControlSocket {
    /// Serves until it is aborted.
    pub(super) async fn serve(self, control: Arc<EdgeControl>) {
        let accepting = self.listener.try_clone().and_then(tokio::net::UnixListener::from_std);
        let listener = match accepting {
            Ok(listener) => listener,
            Err(error) => {
                return tracing::error!("cannot serve `{}`: {error}", self.path.display());
            }
        };
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let answering = answer(stream, Arc::clone(&control));
                    tokio::spawn(tokio::time::timeout(PATIENCE, answering));
                }
                Err(error) => {
                    tracing::warn!("cannot accept on `{}`: {error}", self.path.display());
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

async fn answer(stream: tokio::net::UnixStream, control: Arc<EdgeControl>) {
    let own = rustix::process::geteuid();
    let is_allowed =
        sockopt::socket_peercred(&stream).is_ok_and(|peer| peer.uid == own || peer.uid.is_root());
    if !is_allowed {
        return;
    }
    let Ok(Some(first)) = stream
        .async_io(Interest::READABLE, || {
            let mut first = [0];
            let (_, count) = recv(&stream, &mut first, RecvFlags::PEEK)?;
            Ok((count > 0).then_some(first[0]))
        })
        .await
    else {
        return;
    };
    if first.is_ascii_lowercase() {
        return hand_over(stream, control).await;
    }
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new());
    let service = service_fn(|request| requests::answer(&control, request));
    // A connection that breaks is the client's matter.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

async fn hand_over(stream: tokio::net::UnixStream, control: Arc<EdgeControl>) {
    let handing = tokio::task::spawn_blocking(move || {
        let blocking = |stream: &UnixStream| stream.set_nonblocking(false);
        let stream = stream.into_std().and_then(|stream| blocking(&stream).map(|()| stream));
        let stream = stream.map_err(|error| Failure::new(error.to_string()))?;
        control.hand_over(stream)
    });
    if let Ok(Err(failure)) = handing.await {
        tracing::error!("the edge keeps serving: {failure}");
    }
}

/// A request to an edge's API.
#[derive(Clone, Copy, Debug)]
pub struct EdgeRequest<'a> {
    /// `GET`, `PUT` or `POST`.
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// JSON or TOML; may be empty.
    pub body: &'a str,
}

/// One request over the socket; the body of the answer, or why there is none.
pub fn ask(path: &Path, request: EdgeRequest<'_>) -> Result<String, Failure> {
    let mut stream = connect(path)?;
    let EdgeRequest { method, target, body } = request;
    let length = body.len();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    let mut answer = Vec::new();
    stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| stream.write_all(head.as_bytes()))
        .and_then(|()| stream.write_all(body.as_bytes()))
        .and_then(|()| stream.read_to_end(&mut answer))
        .map_err(|error| failed(path, "reach an edge at", &error))?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).unwrap_or("0");
    if status == "200" {
        return Ok(body.to_owned());
    }
    let told: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let text = |name: &str| told[name].as_str().map(str::to_owned);
    let why = text("error").unwrap_or_else(|| format!("the edge answers with status {status}"));
    Err(Failure::new(why).hint(text("hint").unwrap_or_default()))
}
