//! A minimal server on hyper alone, on one thread: the lower bound for servers built on it. It
//! answers beacons and proxies the rest, with one backend connection per client connection. No
//! records, limits, timeouts, or balancing.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use anyhow::Context;
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};

/// Body of beacon responses, as long as the usual GIF.
const PICTURE: &[u8] = &[0; 43];

type PooledUpstream = RefCell<Option<SendRequest<Incoming>>>;
type ProxyResponse = Response<Either<Full<Bytes>, Incoming>>;

/// Serves until killed.
pub(crate) fn serve(port: u16, backends: &[u16]) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let mut backends = backends.iter().cycle();
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let backend = *backends.next().context("no backends are given")?;
            spawn_local(converse(stream, SocketAddr::from(([127, 0, 0, 1], backend))));
        }
    })
}

async fn converse(stream: TcpStream, backend: SocketAddr) {
    let upstream = Rc::new(PooledUpstream::default());
    let service = service_fn(move |request| answer(request, Rc::clone(&upstream), backend));
    // Ignore errors of a client that disconnects.
    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
}

async fn answer(
    request: Request<Incoming>,
    upstream: Rc<PooledUpstream>,
    backend: SocketAddr,
) -> anyhow::Result<ProxyResponse> {
    if request.uri().path() == "/ping" {
        let picture = Full::new(Bytes::from_static(PICTURE));
        let answer = Response::builder().header("content-type", "image/gif");
        return Ok(answer.body(Either::Left(picture))?);
    }
    let kept = upstream.take();
    let mut sender = match kept {
        Some(sender) => sender,
        None => connect(backend).await?,
    };
    sender.ready().await?;
    let answer = sender.send_request(request).await?;
    upstream.replace(Some(sender));
    Ok(answer.map(Either::Right))
}

async fn connect(backend: SocketAddr) -> anyhow::Result<SendRequest<Incoming>> {
    let stream = TcpStream::connect(backend).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    spawn_local(async { drop(connection.await) });
    Ok(sender)
}
