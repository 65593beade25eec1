//! Pauses within responses that are longer than the path explains.

use crate::flow::Connection;

/// A pause within a response longer than this and two round trips means that one side waits.
const CLIENT_WAIT_NS: i64 = 20_000_000;

/// Whether a pause is longer than scheduling and the round trip to the client explain.
pub(super) fn is_long_pause(connection: &Connection, pause: i64) -> bool {
    let rtt = connection.client_rtt_us().map_or(0, |us| i64::from(us) * 1000);
    pause >= CLIENT_WAIT_NS && pause > 2 * rtt
}
