//! Which program listens on a port, for the message that it is taken.

use weir_collect::host::{HostOptions, HostSampler};
use weir_process::clock::SystemClock;
use weir_tables::Clock;

/// `nginx (process 12)`; `None` when it cannot be read.
pub(crate) fn find(port: u16) -> Option<String> {
    let mut sampler = HostSampler::new(HostOptions { host: "here".into(), ..Default::default() });
    sampler.sample(SystemClock.now());
    let listeners = sampler.listeners();
    let listener =
        listeners.iter().find(|listener| listener.port == port && listener.netns == "host")?;
    let name = listener.process_name.as_deref()?;
    let id = listener.process_id.map(|id| format!(" (process {id})")).unwrap_or_default();
    Some(format!("`{name}`{id}"))
}
