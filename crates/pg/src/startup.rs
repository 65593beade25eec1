//! The start of a connection: encryption, purpose, and login.
//!
//! ```text
//! length: i32 | code: i32 | …      80877103 TLS?  80877104 GSS?  80877102 cancel  196608 version 3.0, and names with values
//! ```
//!
//! Nothing is read ahead: bytes injected before the TLS handshake break it.

use std::collections::HashMap;
use std::io::{self, ErrorKind};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::cancel::CancelKey;
use crate::error::PgError;
use crate::frame::{FieldReader, read_body};
use crate::scram::{MECHANISM, Password, ScramExchange};
use crate::tls::Tls;
use crate::writer::{MessageWriter, push_text};

const TLS: i32 = 80_877_103;
const GSS: i32 = 80_877_104;
const CANCEL: i32 = 80_877_102;
/// Size limit of messages before the login.
const START_BYTES_MAX: usize = 10_000;
/// The only database.
const DATABASE: &str = "weir";

/// Bytes in both directions, encrypted or not.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for T {}

/// Purpose of a connection.
pub(crate) enum ConnectionPurpose {
    Session(Box<dyn ByteStream>, StartupMessage),
    /// Cancels the query of another connection.
    Cancel(CancelKey),
}

/// The startup message.
pub(crate) struct StartupMessage {
    version: i32,
    is_encrypted: bool,
    pub(crate) names: HashMap<String, String>,
}

/// Reads up to and including the startup message.
pub(crate) async fn begin(
    mut stream: TcpStream,
    tls: Option<&Tls>,
) -> io::Result<ConnectionPurpose> {
    // At most three messages: a GSS request, a TLS request, and the startup message.
    for _ in 0..3 {
        let body = read_body(&mut stream, START_BYTES_MAX).await?;
        match (FieldReader(&body).i32().map_err(broken)?, tls) {
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
    Err(broken(PgError::protocol("no startup message")))
}

fn purpose(
    wire: Box<dyn ByteStream>,
    body: &[u8],
    is_encrypted: bool,
) -> io::Result<ConnectionPurpose> {
    let mut fields = FieldReader(body);
    let version = fields.i32().map_err(broken)?;
    if version == CANCEL {
        let key = (fields.i32().map_err(broken)?, fields.i32().map_err(broken)?);
        return Ok(ConnectionPurpose::Cancel(key));
    }
    let mut names = HashMap::new();
    // An empty name ends the list.
    while let Some(name) = fields.text().ok().filter(|name| !name.is_empty()) {
        names.insert(name.to_owned(), fields.text().map_err(broken)?.to_owned());
    }
    Ok(ConnectionPurpose::Session(wire, StartupMessage { version, is_encrypted, names }))
}

fn broken(error: PgError) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error.message)
}

impl StartupMessage {
    /// Checks the startup options.
    pub(crate) fn check(&self, is_tls_needed: bool) -> Result<(), PgError> {
        if is_tls_needed && !self.is_encrypted {
            return Err(PgError::new("28000", "this server requires TLS")
                .hint("psql 'sslmode=require …', or set `pg.require_tls` to false"));
        }
        if self.version >> 16 != 3 {
            return Err(PgError::unsupported(format!(
                "protocol version {} is not supported; use version 3",
                self.version >> 16
            )));
        }
        if self.user().is_empty() {
            return Err(PgError::new("28000", "no user name in the startup message"));
        }
        let database = self.names.get("database").map_or(self.user(), String::as_str);
        if database != DATABASE {
            let text = format!("there is no database `{database}`");
            return Err(
                PgError::new("3D000", text).hint("the only database is `weir`: psql -d weir")
            );
        }
        if self.names.get("replication").is_some_and(|value| value != "false" && value != "off") {
            return Err(PgError::unsupported("replication is not supported"));
        }
        Ok(())
    }

    pub(crate) fn user(&self) -> &str {
        self.names.get("user").map_or("", String::as_str)
    }

    /// Negotiates the version with a client that requests more than 3.0.
    pub(crate) fn negotiate<W: AsyncWrite + Unpin>(&self, writer: &mut MessageWriter<W>) {
        let unknown: Vec<&String> =
            self.names.keys().filter(|name| name.starts_with("_pq_.")).collect();
        if self.version & 0xffff == 0 && unknown.is_empty() {
            return;
        }
        writer.message(b'v', |body| {
            body.extend_from_slice(&0_i32.to_be_bytes());
            body.extend_from_slice(&i32::try_from(unknown.len()).unwrap_or(0).to_be_bytes());
            unknown.iter().for_each(|name| push_text(body, name));
        });
    }
}

/// Runs the password login.
///
/// # Errors
/// Outer: the connection failed. Inner: the login failed.
pub(crate) async fn log_in<R, W>(
    from: &mut R,
    writer: &mut MessageWriter<W>,
    password: &Password,
) -> io::Result<Result<(), PgError>>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    request(writer, 10, |body| {
        push_text(body, MECHANISM);
        body.push(0);
    });
    let first = response(from, writer).await?;
    let exchange = match initial(&first).and_then(|first| ScramExchange::new(password, first)) {
        Ok(exchange) => exchange,
        Err(error) => return Ok(Err(error)),
    };
    request(writer, 11, |body| body.extend_from_slice(exchange.challenge().as_bytes()));
    let last = response(from, writer).await?;
    let last = std::str::from_utf8(&last).unwrap_or_default();
    Ok(exchange.finish(last).map(|proof| {
        request(writer, 12, |body| body.extend_from_slice(proof.as_bytes()));
    }))
}

/// Checks the mechanism's name and returns its first message.
fn initial(body: &[u8]) -> Result<&str, PgError> {
    let mut fields = FieldReader(body);
    let mechanism = fields.text()?;
    if mechanism != MECHANISM {
        return Err(PgError::protocol(format!("unsupported login mechanism `{mechanism}`")));
    }
    let first = fields.value()?.unwrap_or_default();
    std::str::from_utf8(first).map_err(|_| PgError::protocol("the login message is not UTF-8"))
}

fn request<W: AsyncWrite + Unpin>(
    writer: &mut MessageWriter<W>,
    code: i32,
    fill: impl FnOnce(&mut Vec<u8>),
) {
    writer.message(b'R', |body| {
        body.extend_from_slice(&code.to_be_bytes());
        fill(body);
    });
}

async fn response<R, W>(from: &mut R, writer: &mut MessageWriter<W>) -> io::Result<Vec<u8>>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    use tokio::io::AsyncReadExt;
    writer.flush().await?;
    if from.read_u8().await? != b'p' {
        return Err(broken(PgError::protocol("expected a login message")));
    }
    read_body(from, START_BYTES_MAX).await
}
