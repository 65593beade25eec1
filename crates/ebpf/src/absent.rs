//! In place of the kernel's side, where weir was built without it.

use crate::rows::Counted;
use crate::{EbpfError, Options};

/// There is none.
pub(crate) enum Kernel {}

impl Kernel {
    pub(crate) fn open(_: &Options) -> Result<Self, EbpfError> {
        Err(EbpfError::new(
            "cannot count what sockets do: this weir was built without eBPF".into(),
            "build it with `--features ebpf`, which needs clang, or set `ebpf.enabled = false`",
        ))
    }

    pub(crate) fn change_half(&mut self) -> Result<(), EbpfError> {
        match *self {}
    }

    pub(crate) fn take_idle_half(&mut self) -> Result<Counted, EbpfError> {
        match *self {}
    }

    pub(crate) fn lost(&self) -> Result<[u64; 4], EbpfError> {
        match *self {}
    }
}
