//! What was scraped: a target's text, or why there is none, to rows of `metric`.
//!
//! Whoever scrapes hands in the answer; the request itself is not made here. As in Prometheus every scrape adds the series `up`
//! (1, or 0 when the target gave nothing that could be read), `scrape_duration_seconds` and `scrape_samples_scraped`.

use std::net::IpAddr;
use std::sync::Arc;

use weir_tables::{Metric, Micros};

use crate::counts::{Amount, Origin, Outcome};
use crate::exposition::{self, Broken, SOURCE, Scene};
use crate::harvest::MAX_ITEMS;
use crate::hub::NotKept;
use crate::intake::Intake;

/// One look at one target.
#[derive(Debug)]
pub struct Scraped {
    /// The column `host`.
    pub host: String,
    /// Where the target is, if that is known.
    pub address: Option<IpAddr>,
    /// Labels of every row: `job`, `instance`, and those of the configuration.
    pub labels: Vec<(String, String)>,
    /// When it was asked.
    pub ts: Micros,
    /// Until the last byte of the answer, or until it was clear that none comes.
    pub duration_seconds: f64,
    /// Samples of one answer at most.
    pub samples_max: usize,
    /// The answer.
    pub answer: Result<Text, Failed>,
}

/// An answer.
#[derive(Debug)]
pub struct Text {
    /// The header `content-type`.
    pub content_type: String,
    /// The body.
    pub body: Vec<u8>,
}

/// No answer that could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// One word for the counts: `no_answer`, `timeout`, `status`, `too_large`.
    pub reason: &'static str,
    /// What happened, for a person.
    pub message: String,
}

impl Intake {
    /// Keeps what was scraped; gives the number of samples, or why there are none, which is counted in `intake_run`.
    ///
    /// # Errors
    /// The rows could not be kept.
    pub async fn scraped(
        self: &Arc<Self>,
        scraped: Scraped,
    ) -> Result<Result<usize, Failed>, NotKept> {
        let mut harvest = self.harvest();
        let bytes = scraped.answer.as_ref().map_or(0, |text| text.body.len());
        let mut outcome = scraped.answer.as_ref().map_err(Clone::clone).and_then(|text| {
            let scene = scraped.scene(text);
            let body = std::str::from_utf8(&text.body)
                .map_err(|_| failed("invalid_text", "the answer is not UTF-8"))?;
            exposition::read(body, &scene, &mut harvest).map_err(|broken| of_text(&broken))
        });
        if outcome.is_ok() && harvest.checked().is_err() {
            outcome = Err(failed(
                "too_many_series",
                "the answer has more labels than fit into one batch",
            ));
        }
        if outcome.is_err() {
            harvest = self.harvest();
        }
        let samples = *outcome.as_ref().unwrap_or(&0);
        #[expect(clippy::cast_precision_loss, reason = "samples of one answer are few")]
        let own = [
            ("up", if outcome.is_ok() { 1.0 } else { 0.0 }, None),
            ("scrape_duration_seconds", scraped.duration_seconds, Some("s")),
            ("scrape_samples_scraped", samples as f64, None),
        ];
        let labels: Vec<(&str, &str)> =
            scraped.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        for (name, value, unit) in own {
            harvest.metric_row(&Metric {
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
        let origin = Origin { protocol: SOURCE, peer: Some(peer) };
        if let Err(failed) = &outcome {
            let amount = Amount { batches: 1, rows: 0, bytes };
            self.counts.add(origin, Outcome::Refused, Some(failed.reason), amount);
        }
        self.take(origin, bytes, harvest).await?;
        Ok(outcome)
    }
}

impl Scraped {
    fn scene(&self, text: &Text) -> Scene<'_> {
        Scene {
            host: &self.host,
            labels: &self.labels,
            ts: self.ts,
            is_open_metrics: text.content_type.starts_with("application/openmetrics-text"),
            samples_max: self.samples_max.min(MAX_ITEMS - 3),
        }
    }
}

fn failed(reason: &'static str, message: &str) -> Failed {
    Failed { reason, message: message.to_owned() }
}

fn of_text(broken: &Broken) -> Failed {
    match broken {
        Broken::Line(line, why) => {
            failed("invalid_text", &format!("line {line} of the answer cannot be read: {why}"))
        }
        Broken::TooMany => {
            failed("too_many_series", "the answer has more series than `series` allows")
        }
    }
}
