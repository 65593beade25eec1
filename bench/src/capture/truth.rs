//! The log of events: one JSON object per line, with the times at which a request passed the tap.

use std::io::{self, Write};

use super::connection::Passage;

/// A simulated request.
#[derive(Clone, Debug)]
pub(super) struct RequestRecord<'a> {
    pub(super) port: u16,
    pub(super) path: &'a str,
    /// Status code; 0 without a response.
    pub(super) status: u16,
    pub(super) asked: Passage,
    pub(super) answered: Option<Passage>,
    /// Time from the first SYN to the SYN-ACK at the tap; only for the first request of a
    /// connection.
    pub(super) syn_wait_ns: Option<i64>,
}

impl RequestRecord<'_> {
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        write!(
            out,
            r#"{{"port":{},"path":"{}","status":{},"req_first_ns":{},"req_last_ns":{}"#,
            self.port, self.path, self.status, self.asked.first_ns, self.asked.last_ns
        )?;
        if let Some(answered) = self.answered {
            write!(
                out,
                r#","resp_first_ns":{},"resp_last_ns":{}"#,
                answered.first_ns, answered.last_ns
            )?;
        }
        if let Some(wait) = self.syn_wait_ns {
            write!(out, r#","syn_wait_ns":{wait}"#)?;
        }
        writeln!(out, "}}")
    }
}
