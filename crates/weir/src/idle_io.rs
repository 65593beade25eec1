//! Disk requests that wait for everybody else's: `ioprio_set(2)`, which no crate here wraps.
//!
//! A module of its own for its `unsafe` call.

/// `IOPRIO_CLASS_IDLE`: served when nobody else wants the disk.
pub(crate) fn set() -> std::io::Result<()> {
    const WHO_PROCESS: libc::c_int = 1;
    const CLASS_IDLE: libc::c_int = 3 << 13;
    // SAFETY: ioprio_set takes three integers and touches no memory of this process; 0 is the calling thread.
    #[expect(unsafe_code, reason = "no crate here wraps ioprio_set(2)")]
    let result = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, CLASS_IDLE) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
