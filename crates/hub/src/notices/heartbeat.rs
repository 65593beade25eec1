//! The dead man's switch: an address that is fetched each minute, as long as rules run and notices can be kept and sent.
//!
//! A service such as healthchecks.io notifies people when it is no longer fetched; with `/fail` appended it does so at
//! once.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use weir_process::failure::Failure;

use super::Notices;

/// How often it is fetched.
const EVERY: Duration = Duration::from_secs(60);
/// The first time, when rules have run.
const FIRST: Duration = Duration::from_secs(10);
/// Incidents were compared and kept within this time.
const KEPT_SECONDS: f64 = 30.0;
/// No page waits for longer.
const PAGE_SECONDS: f64 = 60.0;

/// Starts fetching; nothing if no address is configured.
///
/// # Errors
/// When there can be no HTTP client.
pub(super) fn start(url: &str, notices: &Arc<Notices>) -> Result<Option<JoinHandle<()>>, Failure> {
    if url.is_empty() {
        return Ok(None);
    }
    let client = reqwest::Client::builder()
        .timeout(Duration::from_secs(10))
        .build()
        .map_err(|error| Failure::new(format!("cannot use `notify.heartbeat_url`: {error}")))?;
    let (url, notices) = (url.trim_end_matches('/').to_owned(), Arc::clone(notices));
    Ok(Some(tokio::spawn(async move {
        tokio::time::sleep(FIRST).await;
        loop {
            beat(&client, &url, &notices).await;
            tokio::time::sleep(EVERY).await;
        }
    })))
}

async fn beat(client: &reqwest::Client, url: &str, notices: &Notices) {
    let address = match problem(notices).await {
        None => url.to_owned(),
        Some(problem) => {
            tracing::error!("the heartbeat reports a failure: {problem}");
            format!("{url}/fail")
        }
    };
    if let Err(error) = client.get(address).send().await {
        // The address is a secret.
        tracing::warn!("cannot fetch `notify.heartbeat_url`: {}", error.without_url());
    }
}

/// What keeps pages from people.
async fn problem(notices: &Notices) -> Option<String> {
    let now = notices.clock.now();
    // In a cluster the hub that runs the rules reports.
    if notices.store.is_leader() {
        let kept = notices.last_kept().await;
        if kept.is_none_or(|at| now.seconds_since(at) > KEPT_SECONDS) {
            return Some("incidents were not compared and kept within 30 s".to_owned());
        }
    }
    let status = notices.outbox.status();
    if let Some(error) = status.ledger_error {
        return Some(error);
    }
    if !notices.has_fresh_receiver() {
        return Some("no receiver passed its probe or accepted a message for a day".to_owned());
    }
    let due = status.oldest_page_due_us.map(weir_tables::Micros);
    due.filter(|due| now.seconds_since(*due) > PAGE_SECONDS)
        .map(|due| format!("a page has been waiting since {due}"))
}
