//! `mem_stat`: memory, and the kernel's reaction to memory pressure.

table! {
    /// Memory of the host, and counters of reclaim, swapping and out-of-memory kills.
    MemStat, MemStatRows = "mem_stat";
    grain: "one row per second";
    source: "/proc/meminfo, /proc/vmstat";
    sort: [host, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 size_bytes: Int = "MemTotal.";
    4 free_bytes: Int = "MemFree.";
    5 available_bytes: Int = "MemAvailable: memory available to new work without swapping.";
    6 buffers_bytes: Int = "Buffers.";
    7 cached_bytes: Int = "Cached.";
    8 dirty_bytes: Int = "Dirty: waiting to be written.";
    9 writeback_bytes: Int = "Writeback: being written.";
    10 slab_bytes: Int = "Slab.";
    11 swap_size_bytes: Int = "SwapTotal.";
    12 swap_free_bytes: Int = "SwapFree.";
    13 oom_kills_total: OptInt = "Processes killed by the OOM killer (vmstat oom_kill); NULL before kernel 4.13.";
    14 major_faults_total: Int = "Page faults that read from disk.";
    15 swap_in_pages_total: Int = "Pages swapped in.";
    16 swap_out_pages_total: Int = "Pages swapped out.";
    17 refault_pages_total: OptInt = "File pages read again soon after eviction (workingset_refault_file); NULL on old kernels.";
    18 read_bytes_total: Int = "Bytes paged in (pgpgin).";
    19 written_bytes_total: Int = "Bytes paged out (pgpgout).";
}
