//! NSCA, as `send_nsca` speaks it: results of checks over TCP, without an answer.
//!
//! From NSCA 2.10 (`nsca.h`, `utils.c`, `nsca.c`): the server greets with 128 random bytes and its time, then the client
//! sends packets. The surprising thing: the cipher's state continues from packet to packet of a connection, and nothing
//! states the length of a packet; its checksum does.

mod cipher;
mod packet;

use ring::rand::{SecureRandom, SystemRandom};
use weir_tables::Micros;

use crate::batch_builder::{BatchBuilder, ItemVerdict};
use crate::passive::{
    PassiveResult, ResultFault, ResultSender, host_state, is_host_check, reject, service_state,
};
use crate::stream::{StreamError, StreamOrigin, StreamProtocol};
use crate::window::{Claim, Identity};
use cipher::CipherState;
pub use cipher::{NscaCipher, NscaKey};
use packet::{PACKET_SIZES, ResultPacket};

/// Random bytes of the greeting.
const IV_BYTES: usize = 128;
/// How far a packet's time may be from this hub's, in seconds.
const MAX_AGE_SECONDS: i64 = 30;
/// How long a connection may last: its packets are too old before.
pub(crate) const LIFETIME: std::time::Duration = std::time::Duration::from_secs(60);

const BAD_CHECKSUM: StreamError = StreamError {
    reason: "bad_checksum",
    detail: "another password, another encryption, or no packet of NSCA",
};
const NO_RANDOM: &str = "the kernel gave no random bytes";

/// One connection.
#[derive(Clone)]
pub(crate) struct NscaStream {
    cipher: CipherState,
    greeting: Vec<u8>,
    /// Length of the packets, once one was read.
    size: Option<usize>,
}

impl NscaStream {
    /// A connection that begins now.
    pub(crate) fn new(key: &NscaKey, now: Micros) -> Self {
        let mut iv = [0; IV_BYTES];
        SystemRandom::new().fill(&mut iv).expect(NO_RANDOM);
        Self::with_iv(key, &iv, now)
    }

    fn with_iv(key: &NscaKey, iv: &[u8; IV_BYTES], now: Micros) -> Self {
        let seconds = u32::try_from(now.0 / 1_000_000).unwrap_or(u32::MAX);
        let greeting = [&iv[..], &seconds.to_be_bytes()].concat();
        Self { cipher: CipherState::new(key, iv), greeting, size: None }
    }

    /// The first packet of `bytes`; `None` while it is incomplete.
    fn next_packet(&mut self, bytes: &[u8]) -> Result<Option<(usize, ResultPacket)>, StreamError> {
        for size in PACKET_SIZES.into_iter().filter(|size| self.size.is_none_or(|it| it == *size)) {
            let Some(sealed) = bytes.get(..size) else { return Ok(None) };
            let mut cipher = self.cipher.clone();
            let packet = ResultPacket::open(cipher.open(sealed));
            if let Some(packet) = packet {
                self.cipher = cipher;
                self.size = Some(size);
                return Ok(Some((size, packet)));
            }
        }
        Err(BAD_CHECKSUM)
    }
}

impl StreamProtocol for NscaStream {
    fn greet(&mut self) -> Vec<u8> {
        self.greeting.clone()
    }

    fn cut(
        &mut self,
        bytes: &[u8],
        origin: StreamOrigin<'_>,
        builder: &mut BatchBuilder,
    ) -> Result<usize, StreamError> {
        let mut used = 0;
        while !builder.is_batch_full() {
            let Some((size, packet)) = self.next_packet(&bytes[used..])? else { break };
            keep(&packet, origin, builder);
            used += size;
        }
        Ok(used)
    }

    fn finish(&mut self, rest: &[u8], _origin: StreamOrigin<'_>, builder: &mut BatchBuilder) {
        if !rest.is_empty() {
            builder.lose(BAD_CHECKSUM.reason, 1, rest.len());
        }
    }
}

/// Adds the result of a packet, unless it is out of time or was kept before.
fn keep(packet: &ResultPacket, origin: StreamOrigin<'_>, builder: &mut BatchBuilder) {
    let sender = ResultSender { peer: origin.peer, source: origin.source };
    let raw = format!("{};{};{};{}", packet.host, packet.check, packet.code, packet.output);
    let age = builder.now.0 / 1_000_000 - i64::from(packet.time);
    if age.abs() > MAX_AGE_SECONDS {
        let fault = ResultFault::new("out_of_time", format!("the packet's time is {age} s ago"));
        return reject(&fault, raw.as_bytes(), sender, builder);
    }
    match builder.claims.claim(Identity::of(&[b"nsca", &packet.bytes])) {
        Claim::New => {}
        Claim::Known => return builder.verdicts.push(ItemVerdict::Known),
        Claim::Pending => return builder.verdicts.push(ItemVerdict::Pending),
    }
    let code = i64::from(packet.code);
    let is_host = is_host_check(packet.check.trim());
    let result = PassiveResult {
        host: packet.host.clone(),
        check: packet.check.clone(),
        state: if is_host { host_state(code) } else { service_state(code) },
        output: packet.output.clone(),
        ts: None,
        ttl_seconds: None,
        service: None,
    };
    // A fault is a row of `reject`: NSCA has no answer.
    let _ = result.push(raw.as_bytes(), sender, builder);
}

#[cfg(test)]
mod send_tests;
#[cfg(test)]
mod tests;
