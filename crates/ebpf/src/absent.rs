//! Replaces `kernel.rs` when weir was built without eBPF.

use crate::rows::SocketCounts;
use crate::{CounterOptions, EbpfError};

/// Cannot be constructed: [`KernelCounter::open`] always fails.
pub(crate) enum KernelCounter {}

impl KernelCounter {
    pub(crate) fn open(_: &CounterOptions) -> Result<Self, EbpfError> {
        Err(EbpfError::new(
            "cannot count socket events: this weir was built without eBPF".into(),
            "build it with `--features ebpf`, which needs clang, or set `ebpf.enabled = false`",
        ))
    }

    pub(crate) fn change_half(&mut self) -> Result<(), EbpfError> {
        match *self {}
    }

    pub(crate) fn take_idle_half(&mut self) -> Result<SocketCounts, EbpfError> {
        match *self {}
    }

    pub(crate) fn lost(&self) -> Result<[u64; 4], EbpfError> {
        match *self {}
    }
}
