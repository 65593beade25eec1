//! What happened, one JSON object a line: each request with the times at which its parts passed the tap.

use std::io::{self, Write};

use super::connection::Passage;

/// One request as it happened.
#[derive(Clone, Debug)]
pub(super) struct Request<'a> {
    pub(super) port: u16,
    pub(super) path: &'a str,
    /// 0 when there was no answer.
    pub(super) status: u16,
    pub(super) asked: Passage,
    pub(super) answered: Option<Passage>,
    /// From the first SYN to the SYN-ACK at the tap; only on the first request of a connection.
    pub(super) syn_wait_ns: Option<i64>,
}

impl Request<'_> {
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
