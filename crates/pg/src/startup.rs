//! The start of a connection: whether it is encrypted, what it is for, who it is.
//!
//! ```text
//! length: i32 | code: i32 | …      80877103 TLS?  80877104 GSS?  80877102 cancel  196608 version 3.0, and names with values
//! ```
//!
//! Nothing is read ahead: what somebody slips in before TLS begins breaks the handshake.

use std::collections::HashMap;
use std::io::{self, ErrorKind};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::cancel::Key;
use crate::frame::{Fields, read_body};
use crate::out::{Out, push_text};
use crate::refusal::Refusal;
use crate::scram::{Exchange, MECHANISM, Password};
use crate::tls::Tls;

const TLS: i32 = 80_877_103;
const GSS: i32 = 80_877_104;
const CANCEL: i32 = 80_877_102;
/// Nobody who has not logged in may send more at a time.
const START_BYTES_MAX: usize = 10_000;
/// The only database.
const DATABASE: &str = "weir";

/// Bytes in both directions, encrypted or not.
pub(crate) trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// What a connection is for.
pub(crate) enum Purpose {
    Session(Box<dyn Wire>, Hello),
    /// Give up what another connection does.
    Cancel(Key),
}

/// The startup message.
pub(crate) struct Hello {
    version: i32,
    is_encrypted: bool,
    pub(crate) names: HashMap<String, String>,
}

/// Reads up to the startup message.
pub(crate) async fn begin(mut stream: TcpStream, tls: Option<&Tls>) -> io::Result<Purpose> {
    // At most: GSS refused, TLS asked for, startup.
    for _ in 0..3 {
        let body = read_body(&mut stream, START_BYTES_MAX).await?;
        match (Fields(&body).i32().map_err(broken)?, tls) {
            (TLS, Some(tls)) => {
                stream.write_all(b"S").await?;
                let mut stream = tls.accept(stream).await?;
                let body = read_body(&mut stream, START_BYTES_MAX).await?;
                return purpose(Box::new(stream), &body, true);
            }
            (TLS | GSS, _) => stream.write_all(b"N").await?,
            _ => return purpose(Box::new(stream), &body, false),
        }
    }
    Err(broken(Refusal::protocol("the connection never starts")))
}

fn purpose(wire: Box<dyn Wire>, body: &[u8], is_encrypted: bool) -> io::Result<Purpose> {
    let mut fields = Fields(body);
    let version = fields.i32().map_err(broken)?;
    if version == CANCEL {
        let key = (fields.i32().map_err(broken)?, fields.i32().map_err(broken)?);
        return Ok(Purpose::Cancel(key));
    }
    let mut names = HashMap::new();
    // An empty name ends the list.
    while let Some(name) = fields.text().ok().filter(|name| !name.is_empty()) {
        names.insert(name.to_owned(), fields.text().map_err(broken)?.to_owned());
    }
    Ok(Purpose::Session(wire, Hello { version, is_encrypted, names }))
}

fn broken(refusal: Refusal) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, refusal.message)
}

impl Hello {
    /// Checks what was asked for.
    pub(crate) fn check(&self, is_tls_needed: bool) -> Result<(), Refusal> {
        if is_tls_needed && !self.is_encrypted {
            return Err(Refusal::new("28000", "connections without TLS are turned away here")
                .hint("psql 'sslmode=require …', or set `pg.require_tls` to false"));
        }
        if self.version >> 16 != 3 {
            return Err(Refusal::unsupported(format!(
                "version {} of the protocol is not spoken here, 3 is",
                self.version >> 16
            )));
        }
        if self.user().is_empty() {
            return Err(Refusal::new("28000", "the connection names no user"));
        }
        let database = self.names.get("database").map_or(self.user(), String::as_str);
        if database != DATABASE {
            let text = format!("there is no database `{database}`");
            return Err(Refusal::new("3D000", text).hint("the only one is `weir`: psql -d weir"));
        }
        if self.names.get("replication").is_some_and(|value| value != "false" && value != "off") {
            return Err(Refusal::unsupported("there is no replication here"));
        }
        Ok(())
    }

    pub(crate) fn user(&self) -> &str {
        self.names.get("user").map_or("", String::as_str)
    }

    /// Tells a client that asked for more than version 3.0 what there is.
    pub(crate) fn negotiate<W: AsyncWrite + Unpin>(&self, out: &mut Out<W>) {
        let unknown: Vec<&String> =
            self.names.keys().filter(|name| name.starts_with("_pq_.")).collect();
        if self.version & 0xffff == 0 && unknown.is_empty() {
            return;
        }
        out.message(b'v', |body| {
            body.extend_from_slice(&0_i32.to_be_bytes());
            body.extend_from_slice(&i32::try_from(unknown.len()).unwrap_or(0).to_be_bytes());
            unknown.iter().for_each(|name| push_text(body, name));
        });
    }
}

/// Asks for the password; returns when it was the right one.
///
/// # Errors
/// Outer: the connection broke. Inner: the login failed.
pub(crate) async fn log_in<R, W>(
    from: &mut R,
    out: &mut Out<W>,
    password: &Password,
) -> io::Result<Result<(), Refusal>>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    request(out, 10, |body| {
        push_text(body, MECHANISM);
        body.push(0);
    });
    let first = response(from, out).await?;
    let exchange = match initial(&first).and_then(|first| Exchange::new(password, first)) {
        Ok(exchange) => exchange,
        Err(refusal) => return Ok(Err(refusal)),
    };
    request(out, 11, |body| body.extend_from_slice(exchange.challenge().as_bytes()));
    let last = response(from, out).await?;
    let last = std::str::from_utf8(&last).unwrap_or_default();
    Ok(exchange.finish(last).map(|proof| {
        request(out, 12, |body| body.extend_from_slice(proof.as_bytes()));
    }))
}

/// The mechanism's name, and its first message.
fn initial(body: &[u8]) -> Result<&str, Refusal> {
    let mut fields = Fields(body);
    let mechanism = fields.text()?;
    if mechanism != MECHANISM {
        return Err(Refusal::protocol(format!("there is no login by `{mechanism}`")));
    }
    let first = fields.value()?.unwrap_or_default();
    std::str::from_utf8(first).map_err(|_| Refusal::protocol("the login is not UTF-8"))
}

fn request<W: AsyncWrite + Unpin>(out: &mut Out<W>, code: i32, fill: impl FnOnce(&mut Vec<u8>)) {
    out.message(b'R', |body| {
        body.extend_from_slice(&code.to_be_bytes());
        fill(body);
    });
}

async fn response<R, W>(from: &mut R, out: &mut Out<W>) -> io::Result<Vec<u8>>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    use tokio::io::AsyncReadExt;
    out.flush().await?;
    if from.read_u8().await? != b'p' {
        return Err(broken(Refusal::protocol("something else than a login came")));
    }
    read_body(from, START_BYTES_MAX).await
}
