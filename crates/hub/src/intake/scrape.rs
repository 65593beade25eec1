//! Targets of `[[scrape]]`: each is scraped in its interval by a separate task; the crate `intake`
//! reads the answers.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Certificate, Client, redirect};
use tokio::sync::watch;
use weir_config::place::read_secret;
use weir_config::scrape::ScrapeTarget;
use weir_intake::{Intake, ScrapeBody, ScrapeFailure, ScrapeResult};
use weir_process::failure::{EXIT_CONFIG, Failure, read_failure};
use weir_tables::Clock;

/// What Prometheus asks for, without what is not read here.
const FORMATS: &str =
    "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

/// A target with what is needed to ask it.
pub(super) struct Target {
    target: ScrapeTarget,
    client: Client,
    login: Option<(String, String)>,
}

/// Reads the files with logins; connects to no target yet.
pub(super) fn prepare(targets: &[ScrapeTarget]) -> Result<Vec<Target>, Failure> {
    targets.iter().map(of).collect()
}

fn of(target: &ScrapeTarget) -> Result<Target, Failure> {
    let refused = |why: &str| {
        let what = format!("cannot use {}: scrape `{}`: {why}", target.place, target.name);
        Failure::new(what).code(EXIT_CONFIG)
    };
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static(FORMATS));
    if let Some(path) = &target.token_file {
        let value = HeaderValue::from_str(&format!("Bearer {}", read_secret(path)?));
        let mut value =
            value.map_err(|_| refused("the token has characters that no header can hold"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    let login = match (&target.user, &target.password_file) {
        (Some(user), Some(path)) => Some((user.clone(), read_secret(path)?)),
        (None, None) => None,
        _ => return Err(refused("`user` and `password_file` must be set together")),
    };
    let mut builder = Client::builder()
        .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
        .default_headers(headers)
        .redirect(redirect::Policy::none())
        .timeout(target.timeout);
    if let Some(path) = &target.ca_file {
        for certificate in authority(path)? {
            builder = builder.add_root_certificate(certificate);
        }
    }
    let client = builder.build().map_err(|error| refused(&error.to_string()))?;
    Ok(Target { target: target.clone(), client, login })
}

fn authority(path: &Path) -> Result<Vec<Certificate>, Failure> {
    let pem = std::fs::read(path).map_err(|error| read_failure(path, &error).code(EXIT_CONFIG))?;
    Certificate::from_pem_bundle(&pem).map_err(|error| {
        Failure::new(format!("cannot use `{}` as an authority: {error}", path.display()))
            .code(EXIT_CONFIG)
    })
}

impl Target {
    /// Asks until it is time to end.
    pub(super) async fn run(
        self,
        intake: Arc<Intake>,
        clock: Arc<dyn Clock>,
        own_host: String,
        mut ended: watch::Receiver<bool>,
    ) {
        let mut ticks = tokio::time::interval(self.target.interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut last: Option<String> = None;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = ended.wait_for(|is_ended| *is_ended) => return,
            }
            let (ts, started) = (clock.now(), Instant::now());
            let mut address = None;
            let answer = self.ask(&mut address).await;
            let scraped = ScrapeResult {
                host: self.host(&own_host),
                address,
                labels: self.target.labels.clone(),
                ts,
                duration_seconds: started.elapsed().as_secs_f64(),
                samples_max: self.target.series,
                answer,
            };
            let outcome = match intake.scraped(scraped).await {
                Ok(outcome) => outcome.err().map(|failed| failed.message),
                Err(not_kept) => Some(not_kept.message),
            };
            // Once, not at every interval; the counts are in `intake_run`.
            if outcome != last {
                match &outcome {
                    Some(why) => tracing::warn!("scrape `{}`: {why}", self.target.name),
                    None if last.is_some() => {
                        tracing::info!("scrape `{}` answers again", self.target.name)
                    }
                    None => {}
                }
                last = outcome;
            }
        }
    }

    /// The label `host` of the configuration, else the target's host; the own name for targets on
    /// this host.
    fn host(&self, own: &str) -> String {
        let named = self.target.labels.iter().find(|(name, _)| name == "host");
        let host = named.map_or(self.target.host.as_str(), |(_, value)| value);
        let is_own = host == "localhost"
            || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        if is_own { own.to_owned() } else { host.to_owned() }
    }

    async fn ask(&self, address: &mut Option<IpAddr>) -> Result<ScrapeBody, ScrapeFailure> {
        let mut request = self.client.get(&self.target.url);
        if let Some((user, password)) = &self.login {
            request = request.basic_auth(user, Some(password));
        }
        let mut answer =
            request.send().await.map_err(|error| no_answer(error, self.target.timeout))?;
        *address = answer.remote_addr().map(|address| address.ip());
        if answer.status().as_u16() != 200 {
            let message = format!("the answer was {}", answer.status());
            return Err(ScrapeFailure { reason: "status", message });
        }
        let content_type = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default().to_owned();
        let mut body = Vec::new();
        loop {
            let part =
                answer.chunk().await.map_err(|error| no_answer(error, self.target.timeout))?;
            let Some(part) = part else { return Ok(ScrapeBody { content_type, body }) };
            if body.len() + part.len() > self.target.body_bytes {
                let message = format!(
                    "the answer is longer than {} bytes (`body_bytes`)",
                    self.target.body_bytes
                );
                return Err(ScrapeFailure { reason: "too_large", message });
            }
            body.extend_from_slice(&part);
        }
    }
}

fn no_answer(error: reqwest::Error, timeout: Duration) -> ScrapeFailure {
    if error.is_timeout() {
        let message = format!("no answer within {} s", timeout.as_secs());
        return ScrapeFailure { reason: "timeout", message };
    }
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    ScrapeFailure { reason: "no_answer", message: text }
}
