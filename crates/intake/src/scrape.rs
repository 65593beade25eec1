//! Results of scrapes, a target's text or a failure, to rows of `metric`.
//!
//! The caller makes the request. As in Prometheus, every scrape adds the series `up` (1, or 0 when
//! there was no readable text), `scrape_duration_seconds` and `scrape_samples_scraped`.

use std::net::IpAddr;
use std::sync::Arc;

use weir_tables::{Metric, Micros};

use crate::batch_builder::MAX_ITEMS;
use crate::counts::{BatchAmount, BatchOrigin, IntakeOutcome};
use crate::exposition::{self, ExpositionError, SOURCE, ScrapeContext};
use crate::hub::KeepError;
use crate::intake::Intake;

/// One scrape of one target.
#[derive(Debug)]
pub struct ScrapeResult {
    /// The column `host`.
    pub host: String,
    /// The target's address, if known.
    pub address: Option<IpAddr>,
    /// Labels of every row: `job`, `instance`, and labels from the configuration.
    pub labels: Vec<(String, String)>,
    /// Time of the request.
    pub ts: Micros,
    /// Time until the last byte of the response, or until the failure.
    pub duration_seconds: f64,
    /// Most samples of one response.
    pub samples_max: usize,
    /// The response.
    pub answer: Result<ScrapeBody, ScrapeFailure>,
}

/// A response.
#[derive(Debug)]
pub struct ScrapeBody {
    /// The header `content-type`.
    pub content_type: String,
    /// The body.
    pub body: Vec<u8>,
}

/// Why there is no readable response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrapeFailure {
    /// Reason code for the counts: `no_answer`, `timeout`, `status`, `too_large`.
    pub reason: &'static str,
    /// The problem, for people.
    pub message: String,
}

impl Intake {
    /// Stores the rows of a scrape. Returns the number of samples, or the failure, which is counted
    /// in `intake_run`.
    ///
    /// # Errors
    /// When the rows could not be stored.
    pub async fn scraped(
        self: &Arc<Self>,
        scraped: ScrapeResult,
    ) -> Result<Result<usize, ScrapeFailure>, KeepError> {
        let mut builder = self.builder();
        let bytes = scraped.answer.as_ref().map_or(0, |text| text.body.len());
        let mut outcome = scraped.answer.as_ref().map_err(Clone::clone).and_then(|text| {
            let scene = scraped.scene(text);
            let body = std::str::from_utf8(&text.body)
                .map_err(|_| failed("invalid_text", "the response is not UTF-8".to_owned()))?;
            exposition::read(body, &scene, &mut builder).map_err(ScrapeFailure::from)
        });
        if outcome.is_ok() && builder.checked().is_err() {
            outcome = Err(failed(
                "too_many_series",
                "the response has more labels than fit into one batch".to_owned(),
            ));
        }
        if outcome.is_err() {
            builder = self.builder();
        }
        let samples = *outcome.as_ref().unwrap_or(&0);
        #[expect(clippy::cast_precision_loss, reason = "one response has few samples")]
        let own = [
            ("up", if outcome.is_ok() { 1.0 } else { 0.0 }, None),
            ("scrape_duration_seconds", scraped.duration_seconds, Some("s")),
            ("scrape_samples_scraped", samples as f64, None),
        ];
        let labels: Vec<(&str, &str)> =
            scraped.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        for (name, value, unit) in own {
            builder.metric_row(&Metric {
                ts: scraped.ts,
                host: &scraped.host,
                name,
                labels: &labels,
                value: Some(value),
                kind: Some("gauge"),
                unit,
                source: SOURCE,
            });
        }
        let peer = scraped.address.unwrap_or([0, 0, 0, 0].into());
        let origin = BatchOrigin { protocol: SOURCE, peer: Some(peer) };
        if let Err(failed) = &outcome {
            let amount = BatchAmount { batches: 1, rows: 0, bytes };
            self.counts.add(origin, IntakeOutcome::Refused, Some(failed.reason), amount);
        }
        self.take(origin, bytes, builder).await?;
        Ok(outcome)
    }
}

impl ScrapeResult {
    fn scene(&self, text: &ScrapeBody) -> ScrapeContext<'_> {
        ScrapeContext {
            host: &self.host,
            labels: &self.labels,
            ts: self.ts,
            is_open_metrics: text.content_type.starts_with("application/openmetrics-text"),
            samples_max: self.samples_max.min(MAX_ITEMS - 3),
        }
    }
}

fn failed(reason: &'static str, message: String) -> ScrapeFailure {
    ScrapeFailure { reason, message }
}

impl From<ExpositionError> for ScrapeFailure {
    fn from(error: ExpositionError) -> Self {
        match error {
            ExpositionError::Line(line, problem) => {
                let message = format!("line {line} of the response cannot be read: {problem}");
                failed("invalid_text", message)
            }
            ExpositionError::TooMany => {
                let message = "the response has more series than `series` allows".to_owned();
                failed("too_many_series", message)
            }
        }
    }
}
