//! Packed bodies: gzip, deflate, zstd and snappy, never to more bytes than a limit.
//!
//! A packed body says its own length, or unpacks to a thousand times its size; neither is believed.

use std::io::Read;

use bytes::Bytes;

/// Memory that a zstd stream may ask for its window: what level 19 needs.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// Why a body was not unpacked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Packed {
    /// It would be larger than the limit.
    TooLarge,
    /// It is damaged, or not packed like that.
    Broken(String),
    /// A coding that is not known here.
    Unknown(String),
}

/// Unpacks by the header `Content-Encoding`.
pub(crate) fn unpack(coding: &str, body: Bytes, limit: usize) -> Result<Bytes, Packed> {
    match coding.trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(body),
        "gzip" | "x-gzip" => read(flate2::read::MultiGzDecoder::new(&body[..]), limit),
        "deflate" => inflate(&body, limit),
        "zstd" => {
            let broken = |error: std::io::Error| Packed::Broken(error.to_string());
            let mut reader = zstd::stream::read::Decoder::new(&body[..]).map_err(broken)?;
            reader.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(broken)?;
            read(reader, limit)
        }
        "snappy" => snappy(&body, limit),
        other => Err(Packed::Unknown(other.to_owned())),
    }
}

/// zlib, as the standard says; bare deflate, as some senders do.
fn inflate(body: &[u8], limit: usize) -> Result<Bytes, Packed> {
    let is_zlib = matches!(body, [head, flags, ..]
        if head & 0x0f == 8 && (u16::from(*head) << 8 | u16::from(*flags)) % 31 == 0);
    if is_zlib {
        return read(flate2::read::ZlibDecoder::new(body), limit);
    }
    read(flate2::read::DeflateDecoder::new(body), limit)
}

/// zlib only, as Lumberjack packs its frames.
pub(crate) fn zlib(body: &[u8], limit: usize) -> Result<Bytes, Packed> {
    read(flate2::read::ZlibDecoder::new(body), limit)
}

/// Snappy's block format (not framed), as Prometheus and Loki send it.
fn snappy(body: &[u8], limit: usize) -> Result<Bytes, Packed> {
    let broken = |error: snap::Error| Packed::Broken(error.to_string());
    if snap::raw::decompress_len(body).map_err(broken)? > limit {
        return Err(Packed::TooLarge);
    }
    Ok(snap::raw::Decoder::new().decompress_vec(body).map_err(broken)?.into())
}

fn read(mut reader: impl Read, limit: usize) -> Result<Bytes, Packed> {
    let mut out = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let mut limited = reader.by_ref().take(most);
    limited.read_to_end(&mut out).map_err(|error| Packed::Broken(error.to_string()))?;
    if out.len() > limit {
        return Err(Packed::TooLarge);
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
    fn every_coding_unpacks_up_to_its_limit_and_no_further() {
        let content = vec![b'a'; 100_000];
        for coding in &CODINGS[1..] {
            let body = packed(coding, &content);
            assert_eq!(
                unpack(coding, body.clone(), 100_000).as_deref(),
                Ok(&content[..]),
                "{coding}"
            );
            assert_eq!(unpack(coding, body, 99_999), Err(Packed::TooLarge), "{coding}");
        }
        assert!(matches!(unpack("br", Bytes::new(), 1), Err(Packed::Unknown(_))));
    }

    #[test]
    fn cut_and_changed_bodies_are_refused_and_never_panic() {
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
    fn a_snappy_body_that_lies_about_its_length_takes_no_memory() {
        let body = Bytes::from_static(b"\xff\xff\xff\xff\x0f\x00a");
        assert_eq!(unpack("snappy", body, 1 << 20), Err(Packed::TooLarge));
    }
}
