//! Decompression of bodies: gzip, deflate, zstd and snappy, up to a limit.
//!
//! A compressed body can announce a false length, or expand to a thousand times its size.

use std::io::Read;

use bytes::Bytes;

/// Largest window of a zstd stream, as level 19 needs it.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// Steps in which memory is taken while the content is read, from the first to the largest.
const STEP_BYTES: std::ops::RangeInclusive<usize> = 4 << 10..=256 << 10;

/// Takes memory for so many bytes more; `false` when there is none.
pub(crate) type TakeMemory<'a> = &'a mut dyn FnMut(usize) -> bool;

/// Why a body was not decompressed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UnpackError {
    /// Larger than the limit.
    TooLarge,
    /// Others use the memory.
    NoMemory,
    /// Damaged, or in another format.
    Broken(String),
    /// Unknown content coding.
    Unknown(String),
}

/// Decompresses according to the header `Content-Encoding`; memory is taken before it is used.
pub(crate) fn unpack(
    coding: &str,
    body: Bytes,
    limit: usize,
    take: TakeMemory<'_>,
) -> Result<Bytes, UnpackError> {
    match coding.trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(body),
        "gzip" | "x-gzip" => read(flate2::read::MultiGzDecoder::new(&body[..]), limit, take),
        "deflate" => inflate(&body, limit, take),
        "zstd" => {
            let mut reader = zstd::stream::read::Decoder::new(&body[..])?;
            reader.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
            read(reader, limit, take)
        }
        "snappy" => snappy(&body, limit, take),
        other => Err(UnpackError::Unknown(other.to_owned())),
    }
}

/// zlib, per the standard, or bare deflate, which some senders use.
fn inflate(body: &[u8], limit: usize, take: TakeMemory<'_>) -> Result<Bytes, UnpackError> {
    let is_zlib = matches!(body, [head, flags, ..]
        if head & 0x0f == 8 && (u16::from(*head) << 8 | u16::from(*flags)) % 31 == 0);
    if is_zlib {
        return read(flate2::read::ZlibDecoder::new(body), limit, take);
    }
    read(flate2::read::DeflateDecoder::new(body), limit, take)
}

/// zlib only, for Lumberjack's frames.
pub(crate) fn zlib(body: &[u8], limit: usize, take: TakeMemory<'_>) -> Result<Bytes, UnpackError> {
    read(flate2::read::ZlibDecoder::new(body), limit, take)
}

/// Snappy's block format (not framed), as Prometheus and Loki send it.
fn snappy(body: &[u8], limit: usize, take: TakeMemory<'_>) -> Result<Bytes, UnpackError> {
    let length = snap::raw::decompress_len(body)?;
    if length > limit {
        return Err(UnpackError::TooLarge);
    }
    if !take(length) {
        return Err(UnpackError::NoMemory);
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

fn read(mut reader: impl Read, limit: usize, take: TakeMemory<'_>) -> Result<Bytes, UnpackError> {
    let mut out = Vec::new();
    loop {
        let step = out.len().clamp(*STEP_BYTES.start(), *STEP_BYTES.end());
        // One byte more than the limit shows that there is more.
        let step = step.min(limit.saturating_add(1) - out.len());
        if !take(step) {
            return Err(UnpackError::NoMemory);
        }
        let read = reader.by_ref().take(step as u64).read_to_end(&mut out)?;
        if out.len() > limit {
            return Err(UnpackError::TooLarge);
        }
        if read < step {
            return Ok(out.into());
        }
    }
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
                unpack(coding, body.clone(), 100_000, &mut |_| true).as_deref(),
                Ok(&content[..]),
                "{coding}"
            );
            let outcome = unpack(coding, body.clone(), 99_999, &mut |_| true);
            assert_eq!(outcome, Err(UnpackError::TooLarge), "{coding}");
            let mut taken = 0;
            let mut take = |bytes| {
                taken += bytes;
                taken <= 50_000
            };
            let outcome = unpack(coding, body, 100_000, &mut take);
            assert_eq!(outcome, Err(UnpackError::NoMemory), "{coding}");
        }
        assert!(matches!(
            unpack("br", Bytes::new(), 1, &mut |_| true),
            Err(UnpackError::Unknown(_))
        ));
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
            if let Ok(out) = unpack(coding, body.into(), 1 << 16, &mut |_| true) {
                assert!(out.len() <= 1 << 16);
            }
            Ok(())
        });
    }

    #[test]
    fn a_snappy_body_with_a_false_length_takes_no_memory() {
        let body = Bytes::from_static(b"\xff\xff\xff\xff\x0f\x00a");
        let mut take = |bytes: usize| -> bool { panic!("{bytes} bytes are taken") };
        assert_eq!(unpack("snappy", body, 1 << 20, &mut take), Err(UnpackError::TooLarge));
    }

    /// VictoriaMetrics/VictoriaMetrics#10090: a small zstd frame that announces much.
    #[test]
    fn a_zstd_body_with_a_false_length_takes_little_memory() {
        let raw_block = [0x09, 0x00, 0x00, b'a'];
        for size in [1_u64 << 22, 1 << 32, 1 << 50, u64::MAX] {
            // One segment: the content is the window.
            let head = [&[0x28, 0xb5, 0x2f, 0xfd, 0xe0][..], &size.to_le_bytes()].concat();
            let body = [&head[..], &raw_block].concat();
            let mut taken = 0;
            let mut take = |bytes| {
                taken += bytes;
                true
            };
            let outcome = unpack("zstd", body.into(), 1 << 20, &mut take);
            assert!(matches!(outcome, Err(UnpackError::Broken(_))), "{size}: {outcome:?}");
            assert!(taken <= 8 << 10, "{size}: {taken} bytes");
        }
    }

    /// Bodies that are a thousand times larger inside: OneUptime/oneuptime#3404,
    /// headroomlabs-ai/headroom#3284, and libwww-perl/HTTP-Message#206 (one coding of several).
    #[test]
    fn bombs_of_every_coding_end_at_the_limit_and_take_no_more_memory() {
        let content = vec![0; 32 << 20];
        for coding in &CODINGS[1..] {
            let body = packed(coding, &content);
            let mut taken = 0;
            let mut take = |bytes| {
                taken += bytes;
                true
            };
            let outcome = unpack(coding, body, 1 << 20, &mut take);
            assert_eq!(outcome, Err(UnpackError::TooLarge), "{coding}");
            assert!(taken <= (1 << 20) + (256 << 10), "{coding}: {taken} bytes");
        }
    }

    #[test]
    fn a_body_is_unpacked_once_and_lists_of_codings_are_refused() {
        let inner = packed("gzip", &[0; 100_000]);
        let outer = packed("gzip", &inner);
        assert_eq!(unpack("gzip", outer.clone(), 10_000, &mut |_| true), Ok(inner));
        for list in [
            "gzip, gzip",
            "gzip,zstd",
            "zstd, gzip",
            "gzip;q=1",
            "gzip gzip",
            "lz4",
            "snappy-framed",
        ] {
            let outcome = unpack(list, outer.clone(), 1 << 20, &mut |_| true);
            assert_eq!(outcome, Err(UnpackError::Unknown(list.to_owned())));
        }
    }

    #[test]
    fn many_members_and_large_windows_take_no_memory_of_their_own() {
        let empty = packed("gzip", b"");
        let members = empty.repeat(5000);
        assert_eq!(unpack("gzip", members.into(), 1 << 20, &mut |_| true), Ok(Bytes::new()));
        let frames = packed("zstd", &[1; 1000]).repeat(2000);
        let outcome = unpack("zstd", frames.into(), 1 << 20, &mut |_| true);
        assert_eq!(outcome, Err(UnpackError::TooLarge));
        // A frame that asks for a window of 2 GiB.
        let window =
            [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3][..], &[0x03, 0x00, 0x00, b'a']].concat();
        let outcome = unpack("zstd", window.into(), 1 << 20, &mut |_| true);
        assert!(matches!(outcome, Err(UnpackError::Broken(_))), "{outcome:?}");
    }
}
