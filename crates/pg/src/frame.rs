//! Messages of clients: a type byte, a length that includes itself, a body.
//!
//! ```text
//! 'Q' | length: i32 | body: length - 4 bytes
//! ```

use std::io::{self, ErrorKind};

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::error::PgError;

/// Size limit of a message; a longer one ends the connection.
const FRAME_BYTES_MAX: usize = 4 << 20;

/// A client's message.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) body: Vec<u8>,
}

impl Frame {
    /// Reads the next message; `None` if the client has closed the connection before it.
    pub(crate) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Self>> {
        let mut kind = [0];
        if from.read(&mut kind).await? == 0 {
            return Ok(None);
        }
        let body = read_body(from, FRAME_BYTES_MAX).await?;
        Ok(Some(Self { kind: kind[0], body }))
    }
}

/// Reads length and body of a message.
pub(crate) async fn read_body(
    from: &mut (impl AsyncRead + Unpin),
    limit: usize,
) -> io::Result<Vec<u8>> {
    let length = usize::try_from(from.read_i32().await?).ok().and_then(|all| all.checked_sub(4));
    let length = length.filter(|length| *length <= limit).ok_or_else(|| {
        io::Error::new(ErrorKind::InvalidData, format!("a message exceeds {limit} bytes"))
    })?;
    // Allocate for received bytes, not for the announced length.
    let mut body = Vec::new();
    if from.take(length as u64).read_to_end(&mut body).await? < length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(body)
}

/// Reads fields from a body.
pub(crate) struct FieldReader<'a>(pub(crate) &'a [u8]);

impl<'a> FieldReader<'a> {
    /// Reads a zero-terminated text.
    pub(crate) fn text(&mut self) -> Result<&'a str, PgError> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or_else(truncated)?;
        let text = std::str::from_utf8(&self.0[..end])
            .map_err(|_| PgError::new("22021", "the text is not UTF-8"))?;
        self.0 = &self.0[end + 1..];
        Ok(text)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, PgError> {
        Ok(self.bytes(1)?[0])
    }

    pub(crate) fn i16(&mut self) -> Result<i16, PgError> {
        let bytes = self.bytes(2)?;
        Ok(i16::from_be_bytes([bytes[0], bytes[1]]))
    }

    pub(crate) fn i32(&mut self) -> Result<i32, PgError> {
        let bytes = self.bytes(4)?;
        Ok(i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// Reads a count and that many items.
    pub(crate) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, PgError>,
    ) -> Result<Vec<T>, PgError> {
        let count = u16::from_be_bytes(self.i16()?.to_be_bytes());
        (0..count).map(|_| item(self)).collect()
    }

    /// Reads a value: its length, -1 for NULL, and its bytes.
    pub(crate) fn value(&mut self) -> Result<Option<&'a [u8]>, PgError> {
        match self.i32()? {
            -1 => Ok(None),
            length => self.bytes(usize::try_from(length).map_err(|_| truncated())?).map(Some),
        }
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], PgError> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or_else(truncated)?;
        self.0 = rest;
        Ok(bytes)
    }
}

fn truncated() -> PgError {
    PgError::protocol("a message is truncated")
}
