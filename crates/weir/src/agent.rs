//! `weir agent`: this host's collectors with a hub as destination. No SQL engine and no store is started.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use weir_tables::Clock;

use crate::client::Client;
use crate::clock::SystemClock;
use crate::config::Config;
use crate::config::place::read_token;
use crate::failure::{EXIT_CONFIG, Failure};
use crate::meter::Meter;
use crate::own_memory;
use crate::remote::Remote;
use crate::terminal::say;
use crate::up::{Signals, context};
use crate::watch::deliver::Destination;
use crate::watch::{Watch, WatchStatus};

/// A parcel that is not answered in this time is sent again.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// Runs until Ctrl-C or SIGTERM.
pub(crate) fn run(config: &Config) -> Result<(), Failure> {
    let values = &config.values;
    start_without_huge_pages();
    if values.agent.hub.is_empty() {
        return Err(Failure::new("cannot watch: no hub is named")
            .hint("weir agent --hub http://127.0.0.1:4770, or set `agent.hub`")
            .code(EXIT_CONFIG));
    }
    let token = values.agent.token_file.as_deref().map(read_token).transpose()?;
    let client = Client::new(&values.agent.hub, token.as_deref(), ANSWER_WITHIN)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let meter = Arc::new(Meter::default());
    let status = Arc::new(WatchStatus::default());
    let buffer_bytes = usize::try_from(values.agent.buffer_bytes).unwrap_or(usize::MAX);
    let remote = Arc::new(Remote::new(client, Arc::clone(&meter), buffer_bytes));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let signals = Signals::new()?;
        let sender = Arc::clone(&remote);
        let sending = std::thread::Builder::new()
            .name("weir-send".into())
            .spawn(move || sender.send_always())
            .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
        let destination: Arc<dyn Destination> = Arc::clone(&remote) as _;
        let watch = Watch::start(context(values, destination, &clock, &meter, &status), values)?;
        say(&format!(
            "weir {} watches `{}` and sends to {}\n  logs    {}\n  listen  {}",
            env!("CARGO_PKG_VERSION"),
            values.collect.host,
            values.agent.hub,
            status.sources().len(),
            status.listeners().len(),
        ));
        own_memory::forget_start_pages();
        signals.wait().await;
        tracing::info!("ending");
        remote.close();
        watch.end();
        if sending.join().is_err() {
            tracing::error!("the sending thread panicked");
        }
        Ok(())
    })
}

/// Starts this program anew without transparent huge pages, once.
///
/// The allocator takes memory in steps of megabytes before `main`, and a huge page makes all of it resident at the first
/// touch: 35 MiB instead of 22. The kernel keeps the wish over exec (`PR_SET_THP_DISABLE`, prctl(2)), and that is how
/// the second start knows that it is the second. Where it cannot be done, the agent is larger, and that is all.
fn start_without_huge_pages() {
    let is_done = rustix::thread::transparent_huge_pages_are_disabled().unwrap_or(true);
    if is_done || rustix::thread::disable_transparent_huge_pages(true).is_err() {
        return;
    }
    if let Ok(program) = std::env::current_exe() {
        let error = Command::new(program).args(std::env::args_os().skip(1)).exec();
        tracing::debug!("cannot start anew: {error}");
    }
}
