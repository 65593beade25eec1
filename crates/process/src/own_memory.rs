//! Keeps weir's memory small: small pages, and no program pages that only the start needed.
//!
//! The kernel maps the file in steps of 64 KiB around each page that is touched, and the loader
//! reads megabytes of relocations once; an agent would hold them resident for months. Source:
//! madvise(2), /proc/self/smaps in proc(5). A separate module for its `unsafe` calls.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A mapping as `/proc/self/smaps` shows it.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    start: usize,
    end: usize,
}

/// What the allocator does with memory that was freed.
#[derive(Clone, Copy, Debug)]
pub enum FreedMemory {
    /// It goes back to the kernel at once: an agent is small beside what it watches.
    Returned,
    /// It is kept for a while: rows come and go in buffers of some hundred KiB, and the kernel
    /// clears each page that it hands out again.
    Kept,
}

/// The allocator's own variable, read before `main`; milliseconds.
const PURGE_DELAY: &str = "MIMALLOC_PURGE_DELAY";

/// Restarts this program once, with pages of 4 KiB and the allocator set; for a process that runs
/// for months.
///
/// With huge pages each buffer has 2 MiB cleared for it, which took a fifth of a hub's processor
/// time at 25,000 rows/s, and half as much memory again (measured 2026-11-21). The allocator takes
/// memory before `main`, so it is too late for this process; the kernel keeps the wish over exec
/// (`PR_SET_THP_DISABLE`, prctl(2)). Where it cannot be done, weir is larger, and that is all.
pub fn start_lean(freed: FreedMemory) {
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!("huge pages stay on: {error}");
    }
    // Set by the start before this one, or by who knows better.
    if std::env::var_os(PURGE_DELAY).is_some() {
        return;
    }
    let delay = match freed {
        FreedMemory::Returned => "0",
        FreedMemory::Kept => "30000",
    };
    if let Ok(program) = std::env::current_exe() {
        let arguments = std::env::args_os().skip(1);
        let error = Command::new(program).args(arguments).env(PURGE_DELAY, delay).exec();
        tracing::debug!("cannot restart: {error}");
    }
}

/// How often what was needed once is forgotten. What is needed always is mapped again at the next
/// touch, for about a millisecond of work.
const FORGET_INTERVAL: Duration = Duration::from_secs(60);

/// Keeps pages of the program file from gathering, for as long as the program runs.
pub async fn stay_small() {
    loop {
        forget_start_pages();
        tokio::time::sleep(FORGET_INTERVAL).await;
    }
}

/// Forgets every page of the program file that can be read from it again. Failing to costs memory
/// and nothing else.
fn forget_start_pages() {
    let Ok(smaps) = fs::read_to_string("/proc/self/smaps") else { return };
    let Ok(program) = std::env::current_exe() else { return };
    for mapping in clean_mappings(&smaps, &program) {
        forget(&mapping);
    }
}

#[expect(unsafe_code, reason = "madvise has no safe form, since on other mappings it loses data")]
fn forget(mapping: &Mapping) {
    let start = std::ptr::with_exposed_provenance_mut(mapping.start);
    // SAFETY: the mapping is of the running program's file, is not writable and has no private page
    // (`Anonymous` and `Swap` are 0), so each page dropped here is read from the file again,
    // unchanged, when it is next touched. Relocated pages are private and are not touched.
    let _ = unsafe { libc::madvise(start, mapping.end - mapping.start, libc::MADV_DONTNEED) };
}

/// Mappings of `program` without write permission and without a page that differs from the file.
fn clean_mappings(smaps: &str, program: &Path) -> Vec<Mapping> {
    let program = program.display().to_string();
    let mut found = Vec::new();
    let mut current: Option<Mapping> = None;
    let mut has_own_pages = false;
    for line in smaps.lines() {
        let mut words = line.split_whitespace();
        let (Some(first), Some(second)) = (words.next(), words.next()) else { continue };
        if let Some(range) = parse_range(first) {
            found.extend(current.take().filter(|_| !has_own_pages));
            let is_ours = line.ends_with(&program) && !second.contains('w');
            current = is_ours.then_some(range);
            has_own_pages = false;
        } else if matches!(first, "Anonymous:" | "Swap:") {
            has_own_pages |= second != "0";
        }
    }
    found.extend(current.filter(|_| !has_own_pages));
    found
}

fn parse_range(word: &str) -> Option<Mapping> {
    let (start, end) = word.split_once('-')?;
    Some(Mapping { start: hex(start)?, end: hex(end)? })
}

fn hex(text: &str) -> Option<usize> {
    usize::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::{Mapping, clean_mappings, forget_start_pages};

    const SMAPS: &str = "\
55d0-55d4 r--p 00000000 fe:00 12 /usr/bin/weir
Rss: 16 kB
Private_Dirty: 4 kB
Anonymous: 0 kB
VmFlags: rd mr mw me dw
55d4-55d8 r--p 00004000 fe:00 12 /usr/bin/weir
Anonymous: 16 kB
55d8-55dc rw-p 00008000 fe:00 12 /usr/bin/weir
Anonymous: 0 kB
7f00-7f04 r--p 00000000 fe:00 13 /usr/lib/libc.so.6
Private_Dirty: 0 kB
7f08-7f0c r-xp 0000c000 fe:00 12 /usr/bin/weir
Private_Dirty: 0 kB
";

    #[test]
    fn relocated_writable_and_foreign_mappings_are_left_alone() {
        let found = clean_mappings(SMAPS, "/usr/bin/weir".as_ref());
        let expected =
            [Mapping { start: 0x55d0, end: 0x55d4 }, Mapping { start: 0x7f08, end: 0x7f0c }];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_program_that_forgot_its_start_goes_on() {
        let table: Vec<&str> = weir_tables::TABLES.iter().map(|spec| spec.name).collect();
        forget_start_pages();
        let again: Vec<&str> = weir_tables::TABLES.iter().map(|spec| spec.name).collect();
        assert_eq!(table, again);
    }
}
