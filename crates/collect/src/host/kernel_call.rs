//! Two kernel calls that no crate here wraps: `ethtool -S` (ioctl `SIOCETHTOOL`) and adjtimex(2).
//!
//! Isolates the `unsafe` calls. Source: `linux/ethtool.h`, `linux/sockios.h`, adjtimex(2). The
//! kernel writes as many counters as the driver has at that moment; hence the spare buffer space.

#![expect(unsafe_code, reason = "neither std nor rustix has SIOCETHTOOL and adjtimex")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

const SIOCETHTOOL: u32 = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETH_SS_STATS: u32 = 1;
/// `struct ethtool_drvinfo` in words: command, five names of 32 bytes, one of 12, five counts.
const DRIVER_INFO_WORDS: usize = 49;
/// Index of `n_stats` in it.
const COUNTER_COUNT_WORD: usize = 45;
const NAME_BYTES: usize = 32;
/// Drivers with more counters (hundreds of queues) are skipped.
const COUNTER_LIMIT: usize = 8192;

/// Counter names of a device, in the order of their values.
#[derive(Debug, Default)]
pub(super) struct DriverCounters {
    pub(super) driver: String,
    pub(super) names: Vec<String>,
}

pub(super) fn ethtool_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}

/// Queries the counter names of `device`; empty if it has none.
pub(super) fn driver_counters(socket: &OwnedFd, device: &str) -> io::Result<DriverCounters> {
    let mut info = vec![0_u32; DRIVER_INFO_WORDS];
    info[0] = ETHTOOL_GDRVINFO;
    ask(socket, device, &mut info)?;
    let count = info[COUNTER_COUNT_WORD] as usize;
    let driver = name_at(&info, 4);
    if count == 0 || count > COUNTER_LIMIT {
        return Ok(DriverCounters { driver, names: Vec::new() });
    }
    let mut strings = reply_buffer(count * NAME_BYTES / 4);
    (strings[0], strings[1]) = (ETHTOOL_GSTRINGS, ETH_SS_STATS);
    ask(socket, device, &mut strings)?;
    let names =
        (0..count.min(strings[2] as usize)).map(|index| name_at(&strings, 12 + index * NAME_BYTES));
    Ok(DriverCounters { driver, names: names.collect() })
}

/// Queries the values of `count` counters.
pub(super) fn driver_values(socket: &OwnedFd, device: &str, count: usize) -> io::Result<Vec<u64>> {
    let mut words = reply_buffer(count * 2);
    words[0] = ETHTOOL_GSTATS;
    ask(socket, device, &mut words)?;
    let count = count.min(words[1] as usize);
    let bytes: Vec<u8> = words[2..2 + count * 2].iter().flat_map(|w| w.to_ne_bytes()).collect();
    let values = bytes.as_chunks::<8>().0.iter().copied().map(u64::from_ne_bytes);
    Ok(values.collect())
}

/// Allocates a reply buffer with spare space: the driver may have got new queues since.
fn reply_buffer(body_words: usize) -> Vec<u32> {
    let header_words = 3;
    vec![0; header_words + 2 * body_words + COUNTER_LIMIT * NAME_BYTES / 4]
}

fn name_at(words: &[u32], offset: usize) -> String {
    let words = words.get(offset / 4..(offset + NAME_BYTES) / 4).unwrap_or_default();
    let name: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).trim().to_owned()
}

fn ask(socket: &OwnedFd, device: &str, words: &mut [u32]) -> io::Result<()> {
    if device.len() >= libc::IFNAMSIZ {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: all zero bytes are a valid value of this struct of integers, pointers and unions.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the request lives until the call returns, its name ends with 0, and its pointer is to
    // `words`, which is larger than what the kernel writes: it has space for COUNTER_LIMIT names
    // more than the driver just reported.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL.into(), &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Result of adjtimex(2), in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ClockState {
    pub(super) is_synchronized: bool,
    pub(super) offset_seconds: f64,
    pub(super) max_error_seconds: f64,
    pub(super) estimated_error_seconds: f64,
}

/// Reads the kernel's clock state; changes nothing.
#[expect(clippy::cast_precision_loss, reason = "errors and offsets are seconds, far below 2^53 ns")]
pub(super) fn clock_state() -> io::Result<ClockState> {
    // SAFETY: zero bytes are valid for this struct of integers, and `modes` 0 requests no change.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `timex` into the one that lives here.
    let result = unsafe { libc::adjtimex(&raw mut state) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let is_nano = state.status & libc::STA_NANO != 0;
    Ok(ClockState {
        is_synchronized: state.status & libc::STA_UNSYNC == 0,
        offset_seconds: state.offset as f64 / if is_nano { 1e9 } else { 1e6 },
        max_error_seconds: state.maxerror as f64 / 1e6,
        estimated_error_seconds: state.esterror as f64 / 1e6,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_has_a_state_and_a_device_that_is_not_there_an_error() {
        assert!(clock_state().unwrap().max_error_seconds >= 0.0);
        let socket = ethtool_socket().unwrap();
        let error = driver_counters(&socket, "weir-none").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
        assert!(driver_counters(&socket, "a-name-that-is-too-long").is_err());
    }

    #[test]
    fn every_device_of_this_host_has_as_many_values_as_names() {
        let socket = ethtool_socket().unwrap();
        for entry in std::fs::read_dir("/sys/class/net").unwrap().flatten() {
            let device = entry.file_name().to_string_lossy().into_owned();
            let Ok(counters) = driver_counters(&socket, &device) else { continue };
            if counters.names.is_empty() {
                continue;
            }
            let values = driver_values(&socket, &device, counters.names.len()).unwrap();
            assert_eq!(values.len(), counters.names.len(), "{device}");
            assert!(counters.names.iter().all(|name| !name.is_empty()), "{device}");
        }
    }
}
