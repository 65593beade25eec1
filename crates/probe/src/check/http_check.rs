//! Fetches a URL as a client outside would: status and text of the body.
//!
//! Redirects are not followed, so that the result is about this target and not about another one.

use std::path::PathBuf;
use std::time::Duration;

use super::deadline::Deadline;
use super::http_client::{HttpRequest, HttpResponse, HttpUrl, get};
use super::{CheckOutcome, CheckState, PROBE_AGENT};

/// Bytes of a body in which a text is searched.
const BODY_BYTES: usize = 1 << 20;
/// Bytes of other bodies that are read, so that the server has sent them when the connection ends.
const UNREAD_BYTES: usize = 64 << 10;

/// A range of status codes: `200`, `2xx`, `200-399`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusRange {
    first: u16,
    last: u16,
}

impl StatusRange {
    /// Parses a range; `None` if it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        let (first, last) = match (text.strip_suffix("xx"), text.split_once('-')) {
            (Some(class), _) => {
                let class: u16 = class.parse().ok().filter(|class| (1..=9).contains(class))?;
                (class * 100, class * 100 + 99)
            }
            (None, Some((first, last))) => (first.trim().parse().ok()?, last.trim().parse().ok()?),
            (None, None) => (text.parse().ok()?, text.parse().ok()?),
        };
        (100 <= first && first <= last && last < 1000).then_some(Self { first, last })
    }

    fn contains(self, status: u16) -> bool {
        (self.first..=self.last).contains(&status)
    }

    fn text(self) -> String {
        let Self { first, last } = self;
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    }
}

/// A URL and what its response must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpCheck {
    /// The URL.
    pub url: HttpUrl,
    /// Status codes that are right; empty: those below 400.
    pub statuses: Vec<StatusRange>,
    /// A text that the body must contain.
    pub body: Option<String>,
    /// An authority (PEM) beside the system's.
    pub ca_file: Option<PathBuf>,
}

impl HttpCheck {
    pub(super) fn run(&self, timeout: Duration) -> CheckOutcome {
        let deadline = Deadline::after(timeout);
        let request = HttpRequest {
            url: &self.url,
            address: None,
            host_header: None,
            user_agent: PROBE_AGENT,
            ca_file: self.ca_file.as_deref(),
            body_bytes: if self.body.is_some() { BODY_BYTES } else { UNREAD_BYTES },
        };
        let response = match get(&request, deadline) {
            Ok(response) => response,
            Err(fault) => {
                return CheckOutcome::new(CheckState::Critical, fault.reason(deadline));
            }
        };
        let status = response.status;
        let is_right = match self.statuses.as_slice() {
            [] => status < 400,
            ranges => ranges.iter().any(|range| range.contains(status)),
        };
        let expected: Vec<String> = self.statuses.iter().map(|range| range.text()).collect();
        let outcome = if !is_right {
            let expected =
                if expected.is_empty() { "below 400".to_owned() } else { expected.join(" or ") };
            let text = format!("status {status}, expected {expected}");
            CheckOutcome::new(CheckState::Critical, text)
        } else {
            self.body_outcome(&response)
        };
        let threshold = (!expected.is_empty()).then(|| expected.join(","));
        CheckOutcome { threshold, ..outcome.with_value(status.into(), "") }
    }

    fn body_outcome(&self, response: &HttpResponse) -> CheckOutcome {
        let HttpResponse { status, body, coding, is_cut } = response;
        let seen = match &self.body {
            None => return CheckOutcome::new(CheckState::Ok, format!("status {status}")),
            Some(text) if memchr::memmem::find(body, text.as_bytes()).is_some() => {
                return CheckOutcome::new(CheckState::Ok, format!("status {status}, text found"));
            }
            Some(text) => text,
        };
        if let Some(coding) = coding {
            let text = format!("status {status}, but the body is compressed by `{coding}`");
            return CheckOutcome::new(CheckState::Unknown, text);
        }
        let part = if *is_cut { "first MiB of the body" } else { "body" };
        let text = format!("status {status}, but the {part} lacks `{seen}`");
        CheckOutcome::new(CheckState::Critical, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_single_classes_or_ranges() {
        for (text, inside, outside) in
            [("200", 200, 201), ("2xx", 299, 300), (" 200 - 399", 399, 400), ("5XX", 500, 499)]
        {
            let range = StatusRange::parse(text).expect(text);
            assert!(range.contains(inside) && !range.contains(outside), "{text}");
        }
        for text in ["", "xx", "99", "0xx", "300-200", "2000", "-1", "ok"] {
            assert_eq!(StatusRange::parse(text), None, "{text}");
        }
    }
}
