//! Decompression of bodies: gzip, deflate, zstd and snappy, up to a limit.
//!
//! A compressed body can announce a false length, or expand to a thousand times its size.

use std::io::Read;

use bytes::Bytes;

/// Largest window of a zstd stream, as level 19 needs it.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// Why a body was not decompressed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UnpackError {
    /// Larger than the limit.
    TooLarge,
    /// Damaged, or in another format.
    Broken(String),
    /// Unknown content coding.
    Unknown(String),
}

/// Decompresses according to the header `Content-Encoding`.
pub(crate) fn unpack(coding: &str, body: Bytes, limit: usize) -> Result<Bytes, UnpackError> {
    match coding.trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(body),
        "gzip" | "x-gzip" => read(flate2::read::MultiGzDecoder::new(&body[..]), limit),
        "deflate" => inflate(&body, limit),
        "zstd" => {
            let mut reader = zstd::stream::read::Decoder::new(&body[..])?;
            reader.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
            read(reader, limit)
        }
        "snappy" => snappy(&body, limit),
        other => Err(UnpackError::Unknown(other.to_owned())),
    }
}

/// zlib, per the standard, or bare deflate, which some senders use.
fn inflate(body: &[u8], limit: usize) -> Result<Bytes, UnpackError> {
    let is_zlib = matches!(body, [head, flags, ..]
        if head & 0x0f == 8 && (u16::from(*head) << 8 | u16::from(*flags)) % 31 == 0);
    if is_zlib {
        return read(flate2::read::ZlibDecoder::new(body), limit);
    }
    read(flate2::read::DeflateDecoder::new(body), limit)
}

/// zlib only, for Lumberjack's frames.
pub(crate) fn zlib(body: &[u8], limit: usize) -> Result<Bytes, UnpackError> {
    read(flate2::read::ZlibDecoder::new(body), limit)
}

/// Snappy's block format (not framed), as Prometheus and Loki send it.
fn snappy(body: &[u8], limit: usize) -> Result<Bytes, UnpackError> {
    if snap::raw::decompress_len(body)? > limit {
        return Err(UnpackError::TooLarge);
    }
    Ok(snap::raw::Decoder::new().decompress_vec(body)?.into())
}

impl From<std::io::Error> for UnpackError {
    fn from(error: std::io::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<snap::Error> for UnpackError {
    fn from(error: snap::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

fn read(mut reader: impl Read, limit: usize) -> Result<Bytes, UnpackError> {
    let mut out = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let mut limited = reader.by_ref().take(most);
    limited.read_to_end(&mut out)?;
    if out.len() > limit {
        return Err(UnpackError::TooLarge);
    }
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;

    use super::*;

    fn packed(coding: &str, content: &[u8]) -> Bytes {
        let level = Compression::default();
        let bytes = match coding {
            "gzip" => {
                let mut writer = flate2::write::GzEncoder::new(Vec::new(), level);
                writer.write_all(content).expect("memory");
                writer.finish().expect("memory")
            }
            "deflate" => {
                let mut writer = flate2::write::ZlibEncoder::new(Vec::new(), level);
                writer.write_all(content).expect("memory");
                writer.finish().expect("memory")
            }
            "zstd" => zstd::encode_all(content, 3).expect("memory"),
            "snappy" => snap::raw::Encoder::new().compress_vec(content).expect("memory"),
            _ => content.to_vec(),
        };
        bytes.into()
    }

    const CODINGS: [&str; 5] = ["", "gzip", "deflate", "zstd", "snappy"];

    #[test]
    fn every_coding_is_decompressed_up_to_its_limit() {
        let content = vec![b'a'; 100_000];
        for coding in &CODINGS[1..] {
            let body = packed(coding, &content);
            assert_eq!(
                unpack(coding, body.clone(), 100_000).as_deref(),
                Ok(&content[..]),
                "{coding}"
            );
            assert_eq!(unpack(coding, body, 99_999), Err(UnpackError::TooLarge), "{coding}");
        }
        assert!(matches!(unpack("br", Bytes::new(), 1), Err(UnpackError::Unknown(_))));
    }

    #[test]
    fn truncated_and_changed_bodies_are_refused_and_never_panic() {
        arbtest::arbtest(|u| {
            let coding = *u.choose(&CODINGS)?;
            let mut body = packed(coding, u.arbitrary::<Vec<u8>>()?.as_slice()).to_vec();
            if !body.is_empty() {
                let at = u.choose_index(body.len())?;
                body[at] ^= u.arbitrary::<u8>()?;
                body.truncate(u.int_in_range(0..=body.len())?);
            }
            if let Ok(out) = unpack(coding, body.into(), 1 << 16) {
                assert!(out.len() <= 1 << 16);
            }
            Ok(())
        });
    }

    #[test]
    fn a_snappy_body_with_a_false_length_takes_no_memory() {
        let body = Bytes::from_static(b"\xff\xff\xff\xff\x0f\x00a");
        assert_eq!(unpack("snappy", body, 1 << 20), Err(UnpackError::TooLarge));
    }
}
