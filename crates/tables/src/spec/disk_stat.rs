//! `disk_stat`: operations and latency of block devices.

table! {
    /// Operations, bytes and time of every block device; await and utilization are differences of
    /// two rows.
    DiskStat, DiskStatRows = "disk_stat";
    grain: "one row per whole device, partition, md and dm device with any I/O since boot, and second";
    source: "/proc/diskstats, /sys/block";
    sort: [host, device, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 device: Text = "Kernel name, such as sda or nvme0n1p1.";
    4 is_partition: Flag = "Whether it is a part of another device.";
    5 reads_total: Int = "Reads completed.";
    6 read_bytes_total: Int = "Bytes read.";
    7 read_seconds_total: Float = "Total time of all reads, queueing included. await = increase of read+write seconds / increase of reads+writes.";
    8 writes_total: Int = "Writes completed.";
    9 written_bytes_total: Int = "Bytes written.";
    10 write_seconds_total: Float = "Total time of all writes, queueing included.";
    11 in_flight: Int = "Operations in flight now.";
    12 busy_seconds_total: Float = "Time with at least one operation in flight. utilization = increase / interval.";
    13 weighted_seconds_total: Float = "Sum of the operations' times. Mean queue length = increase / interval.";
    14 flushes_total: OptInt = "Flushes completed; NULL before kernel 5.5.";
    15 flush_seconds_total: OptFloat = "Total time of all flushes; NULL before kernel 5.5.";
}
