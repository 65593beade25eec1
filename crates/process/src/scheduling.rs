//! How the kernel schedules a thread and its disk requests: `ioprio_set(2)` and `sched_setscheduler(2)`, which no crate
//! here wraps. Both hold for the calling thread and those that it starts.
//!
//! A module of its own for its `unsafe` calls.

/// `IOPRIO_CLASS_IDLE`: disk requests are served when nobody else wants the disk.
pub(crate) fn set_idle_io() -> std::io::Result<()> {
    const WHO_PROCESS: libc::c_int = 1;
    const CLASS_IDLE: libc::c_int = 3 << 13;
    // SAFETY: ioprio_set takes three integers and touches no memory of this process; 0 is the calling thread.
    #[expect(unsafe_code, reason = "no crate here wraps ioprio_set(2)")]
    let result = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, CLASS_IDLE) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// What a thread that wakes does to one that runs on the same processor. Shares of processor time are the same in both.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waking {
    /// `SCHED_OTHER`: it may run at once.
    Interrupts,
    /// `SCHED_BATCH`: it waits until the other one sleeps or has had its slice.
    Waits,
}

/// Sets what this thread does when it wakes.
pub(crate) fn set_waking(waking: Waking) -> std::io::Result<()> {
    let policy = match waking {
        Waking::Interrupts => libc::SCHED_OTHER,
        Waking::Waits => libc::SCHED_BATCH,
    };
    let priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: sched_setscheduler only reads what it is given; 0 is the calling thread.
    #[expect(unsafe_code, reason = "no crate here wraps sched_setscheduler(2)")]
    let result = unsafe { libc::sched_setscheduler(0, policy, &raw const priority) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
