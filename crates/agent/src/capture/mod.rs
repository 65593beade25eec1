//! Packets as they pass: always, when configured (`collector`); for a person with `weir wire -i`;
//! into a file with `weir capture`.
//!
//! The tap is the room `wire`'s; here are its place (interface and network namespace), its limits
//! and its rows' way.

mod collector;

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use weir_process::failure::Failure;
use weir_wire::WireError;

pub use collector::Collector;

/// Where a tap stands: `eth0`, `any`, or `NETNS/eth0` in a named network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapPlace {
    /// The name of the namespace; `None` for the one that weir runs in.
    pub netns: Option<String>,
    /// `None` for all interfaces.
    pub interface: Option<String>,
}

impl TapPlace {
    /// Reads the text of a flag or of the configuration.
    pub fn parse(text: &str) -> Self {
        let (netns, interface) = match text.split_once('/') {
            Some((netns, interface)) => (Some(netns.to_owned()), interface),
            None => (None, text),
        };
        Self { netns, interface: (interface != "any").then(|| interface.to_owned()) }
    }

    /// The column `source` of its rows.
    pub fn source(&self) -> String {
        let interface = self.interface.as_deref().unwrap_or("any");
        match &self.netns {
            Some(netns) => format!("live:{netns}/{interface}"),
            None => format!("live:{interface}"),
        }
    }

    /// Moves this thread into the namespace, for good.
    pub fn enter(&self) -> Result<(), Failure> {
        let Some(name) = &self.netns else { return Ok(()) };
        let path = format!("/run/netns/{name}");
        let file = File::open(&path).map_err(|error| {
            Failure::new(format!("cannot enter network namespace `{name}`: {error}"))
                .hint("`ip netns` lists the named ones")
        })?;
        let entered = move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network));
        entered.map_err(|error| {
            Failure::new(format!("cannot enter network namespace `{name}`: {error}"))
                .hint("that needs CAP_SYS_ADMIN, or root")
        })
    }

    /// Runs `work` on a thread that is in the namespace.
    pub fn inside<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                self.enter()?;
                work()
            });
            worker.join().unwrap_or_else(|_| Err(Failure::new("the tap's thread panicked")))
        })
    }
}

/// An error of the tap as a command's failure.
pub fn wire_failure(error: WireError) -> Failure {
    Failure::new(error.message()).hint(error.hint())
}

/// Becomes true at Ctrl-C or SIGTERM: what was seen until then counts.
pub fn end_at_signal() -> Result<Arc<AtomicBool>, Failure> {
    let is_over = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot wait for signals: {error}")))?;
    let signals = runtime.block_on(async { weir_process::signals::Signals::new() })?;
    let told = Arc::clone(&is_over);
    std::thread::spawn(move || {
        runtime.block_on(signals.wait(std::future::pending()));
        told.store(true, Ordering::Relaxed);
    });
    Ok(is_over)
}

#[cfg(test)]
mod tests {
    use super::TapPlace;

    #[test]
    fn places_are_interfaces_with_or_without_a_namespace() {
        let of = |text: &str| {
            let place = TapPlace::parse(text);
            (place.netns.clone(), place.interface.clone(), place.source())
        };
        assert_eq!(of("eth0"), (None, name("eth0"), "live:eth0".into()));
        assert_eq!(of("any"), (None, None, "live:any".into()));
        assert_eq!(of("web/lo"), (name("web"), name("lo"), "live:web/lo".into()));
    }

    fn name(text: &str) -> Option<String> {
        Some(text.to_owned())
    }
}
