//! What a message of the kernel is about: its kind, and the device, process or peer that it names.
//!
//! A process chooses its name, of up to 15 bytes, and a file system its label. So words that fit into a
//! name count only where no name can stand: messages with a fixed head are recognised first, by it.
//!
//! Source: the kernel's own format strings; each reader names the file that prints it.

/// A message that is about traffic, memory, disks or the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelMessage<'a> {
    /// A word of the column `kind` of table `kmsg`.
    pub kind: &'static str,
    /// The port, process, device, array, table or server that it names; `None` when it names none.
    pub subject: Option<&'a str>,
}

type Reader = fn(&str) -> Option<KernelMessage<'_>>;

/// Those whose head is fixed, or ends with the only name in them, come first.
const READERS: &[Reader] = &[
    crash,
    allocation,
    hung_task,
    stalled_processor,
    hardware,
    file_system,
    remote_server,
    neighbor_table,
    limit,
    disk_command,
    out_of_memory,
    syn_flood,
    disk_error,
    transmit_timeout,
    link_down,
];

impl KernelMessage<'_> {
    /// Reads the text of a message, without severity and time; `None` for messages of no known kind.
    pub fn read(body: &str) -> Option<KernelMessage<'_>> {
        // They begin or go on with a name, and nothing in them is of a known kind.
        if body.contains(" invoked oom-killer: ") || body.starts_with("audit: ") {
            return None;
        }
        let known = READERS.iter().find_map(|read| read(body));
        known.filter(|message| !message.kind.is_empty())
    }
}

fn message<'a>(kind: &'static str, subject: Option<&'a str>) -> Option<KernelMessage<'a>> {
    Some(KernelMessage { kind, subject })
}

/// No known kind, and later readers are skipped: the message holds a name.
fn nothing<'a>() -> Option<KernelMessage<'a>> {
    message("", None)
}

/// `arch/x86/mm/fault.c`, `arch/x86/kernel/traps.c`: `nginx[812]: segfault at …`,
/// `traps: node[7] trap invalid opcode ip:…`.
fn crash(body: &str) -> Option<KernelMessage<'_>> {
    if let Some((head, _)) = body.split_once("]: segfault at ") {
        return message("segfault", head.rsplit_once('[').map(|(name, _)| name));
    }
    let rest = body.strip_prefix("traps: ")?;
    let signs = ["] general protection fault ip:", "] trap "];
    match signs.iter().find_map(|sign| rest.split_once(sign)) {
        Some((head, _)) => message("segfault", head.rsplit_once('[').map(|(name, _)| name)),
        None => nothing(),
    }
}

/// `mm/page_alloc.c`: `nginx: page allocation failure: order:4, mode:0x40cc0(…)`.
fn allocation(body: &str) -> Option<KernelMessage<'_>> {
    let (name, _) = body.split_once(": page allocation failure: order:")?;
    message("allocation_failed", Some(name))
}

/// `kernel/hung_task.c`: `INFO: task mysqld:812 blocked for more than 120 seconds.`
fn hung_task(body: &str) -> Option<KernelMessage<'_>> {
    let (task, _) = body.strip_prefix("INFO: task ")?.split_once(" blocked ")?;
    message("hung_task", Some(task.rsplit_once(':').map_or(task, |(name, _)| name)))
}

/// `kernel/watchdog.c`, `kernel/rcu/tree_stall.h`.
fn stalled_processor(body: &str) -> Option<KernelMessage<'_>> {
    let text = body.strip_prefix("NMI ").unwrap_or(body);
    let text = text.strip_prefix("watchdog: ").unwrap_or(text);
    if let Some(rest) = text.strip_prefix("BUG: soft lockup") {
        let processor = rest.split_once("CPU#").map(|(_, rest)| digits(rest));
        return message("cpu_stalled", processor);
    }
    if let Some((_, processor)) = text.split_once("Watchdog detected hard LOCKUP on cpu ") {
        return message("cpu_stalled", Some(digits(processor)));
    }
    let text = body.strip_prefix("rcu: ").unwrap_or(body).strip_prefix("INFO: rcu_")?;
    let is_stall = text.contains("self-detected stall") || text.contains("detected stalls on CPU");
    is_stall.then(|| message("cpu_stalled", None))?
}

/// `arch/x86/kernel/cpu/mce`, `drivers/edac`, `drivers/acpi/apei`, `drivers/pci/pcie/aer.c`,
/// `mm/memory-failure.c`, `drivers/thermal/intel/therm_throt.c`.
fn hardware(body: &str) -> Option<KernelMessage<'_>> {
    if let Some(rest) = body.strip_prefix("EDAC ") {
        let (controller, rest) = rest.split_once(": ")?;
        let is_lost = rest.contains(" UE ") || rest.contains("UE row");
        let is_mended = rest.contains(" CE ") || rest.contains("CE row");
        let kind = if is_lost { "memory_lost" } else { "memory_corrected" };
        return (is_lost || is_mended).then(|| message(kind, Some(controller)))?;
    }
    if body.starts_with("Memory failure: 0x") {
        return message("memory_lost", None);
    }
    if body.contains("[Hardware Error]: ") {
        let has = |words: &[&str]| words.iter().any(|words| body.contains(words));
        let is_lost = has(&[
            "event severity: fatal",
            "event severity: recoverable",
            "Machine Check Exception",
            "Uncorrected",
        ]);
        let is_corrected =
            has(&["Machine check events logged", "event severity: corrected", "Corrected error"]);
        let kind = if is_lost { "machine_check" } else { "machine_corrected" };
        return (is_lost || is_corrected).then(|| message(kind, None))?;
    }
    if let Some((processor, rest)) = body.split_once(": ")
        && processor.starts_with("CPU")
        && rest.contains(" temperature above threshold, cpu clock throttled")
    {
        return message("overheated", Some(processor));
    }
    None
}

/// `fs/ext4/super.c`, `fs/xfs`, `fs/btrfs`, `fs/jbd2`.
fn file_system(body: &str) -> Option<KernelMessage<'_>> {
    if let Some(device) = body.strip_prefix("Aborting journal on device ") {
        return message("fs_error", Some(device.trim_end_matches('.')));
    }
    let has = |words: &[&str]| words.iter().any(|words| body.contains(words));
    let begins = |heads: &[&str]| heads.iter().any(|head| body.starts_with(head));
    let device = between(body, ["(", ")"]);
    let device = device.map(|name| word(name.strip_prefix("device ").unwrap_or(name)));
    if has(&["emounting filesystem read-only", ": forced readonly"]) {
        return message("readonly_remount", device);
    }
    if begins(&["XFS ("]) {
        return if has(&["hutting down", "hut down"]) {
            message("fs_down", device)
        } else if has(&["orruption", "I/O error", "I/O Error", "Internal error", "CRC error"]) {
            message("fs_error", device)
        } else {
            nothing()
        };
    }
    if begins(&[
        "EXT4-fs error ",
        "EXT3-fs error ",
        "BTRFS error ",
        "BTRFS critical ",
        "BTRFS: error ",
    ]) {
        return message("fs_error", device);
    }
    if !begins(&["EXT2-fs", "EXT3-fs", "EXT4-fs", "BTRFS"]) {
        return None;
    }
    if has(&["I/O error while writing"]) {
        message("fs_error", device)
    } else if has(&[" index full, reach max htree level"]) {
        message("directory_full", device)
    } else {
        nothing()
    }
}

/// `net/sunrpc/clnt.c`, `fs/smb/client/connect.c`: `nfs: server nas not responding, still trying`.
fn remote_server(body: &str) -> Option<KernelMessage<'_>> {
    if let Some(rest) = body.strip_prefix("nfs: server ") {
        let server = rest.split(' ').next();
        return if rest.contains(" not responding") {
            message("server_silent", server)
        } else if rest.ends_with(" OK") {
            message("server_back", server)
        } else {
            None
        };
    }
    let rest = body.strip_prefix("CIFS: VFS: ").or_else(|| body.strip_prefix("CIFS VFS: "))?;
    let server = rest.trim_start_matches("Server ").trim_start_matches('\\').split(' ').next();
    rest.contains("has not responded in ").then(|| message("server_silent", server))?
}

/// `net/core/neighbour.c`, `net/ipv4/route.c`, `net/ipv6/route.c`.
fn neighbor_table(body: &str) -> Option<KernelMessage<'_>> {
    let text = body.strip_prefix("neighbour: ").unwrap_or(body);
    if let Some((table, rest)) = text.split_once(": ")
        && (rest.starts_with("neighbor table overflow")
            || rest.starts_with("Neighbour table overflow"))
    {
        return message("neighbor_full", Some(table));
    }
    if text.starts_with("Neighbour table overflow") {
        return message("neighbor_full", None);
    }
    let is_route = text.starts_with("Route cache is full") || text.contains("dst cache overflow");
    is_route.then(|| message("neighbor_full", Some("routes")))?
}

/// Limits of the whole host: `net/netfilter/nf_conntrack_core.c`, `fs/file_table.c`, `net/ipv4/tcp.c`,
/// `kernel/cgroup/pids.c`, `drivers/md/dm-thin.c`.
fn limit(body: &str) -> Option<KernelMessage<'_>> {
    if body.contains("_conntrack: table full") {
        return message("conntrack_full", None);
    }
    if body.starts_with("VFS: file-max limit ") {
        return message("files_full", None);
    }
    if body.starts_with("TCP: out of memory -- consider tuning tcp_mem") {
        return message("tcp_memory_full", None);
    }
    if body.contains("too many orphaned sockets") {
        return message("orphans", None);
    }
    if let Some(group) = body.strip_prefix("cgroup: fork rejected by pids controller in ") {
        return message("fork_rejected", Some(group.trim_end()));
    }
    let pool = body.strip_prefix("device-mapper: thin: ")?;
    let device = pool.split(": ").next();
    let is_full = pool.contains("switching pool to out-of-data-space");
    is_full.then(|| message("pool_full", device))?
}

/// Commands that a disk did not answer: `drivers/nvme/host/pci.c`, `drivers/ata/libata-eh.c`,
/// `drivers/scsi`.
fn disk_command(body: &str) -> Option<KernelMessage<'_>> {
    if let Some(rest) = body.strip_prefix("nvme ") {
        let (name, rest) = rest.split_once(": ")?;
        let is_late = rest.contains(" timeout, ") && rest.starts_with("I/O ")
            || rest.starts_with("controller is down; will reset")
            || rest.starts_with("Device not ready; aborting");
        return is_late.then(|| message("disk_timeout", Some(name)))?;
    }
    if let Some((name, rest)) = body.split_once(": ")
        && name.starts_with("ata")
        && name[3..].starts_with(|first: char| first.is_ascii_digit())
    {
        let is_late = rest.starts_with("exception Emask") && rest.ends_with("frozen")
            || rest.starts_with("hard resetting link")
            || rest.starts_with("COMRESET failed");
        return is_late.then(|| message("disk_timeout", Some(name)))?;
    }
    let rest = body.strip_prefix("sd ")?;
    let name = between(rest, ["[", "]"]);
    if rest.contains(": rejecting I/O to offline device")
        || rest.contains("tag#") && rest.contains("timing out command")
    {
        return message("disk_timeout", name.or_else(|| rest.split(": ").next()));
    }
    None
}

/// `mm/oom_kill.c`: `Out of memory: Killed process 4242 (java) total-vm:…`.
fn out_of_memory(body: &str) -> Option<KernelMessage<'_>> {
    let rest =
        ["Out of memory: ", "Memory cgroup out of memory: ", ""].iter().find_map(|cause| {
            let rest = body.strip_prefix(cause)?;
            rest.strip_prefix("Killed process ").or_else(|| rest.strip_prefix("Kill process "))
        })?;
    message("oom_kill", between(rest, ["(", ")"]))
}

/// `net/ipv4/tcp_input.c`: a port, since 6.0 `0.0.0.0:80` or `[::]:80`.
fn syn_flood(body: &str) -> Option<KernelMessage<'_>> {
    let (_, rest) = body.split_once("ossible SYN flooding on port ")?;
    let address = rest.split(". ").next().unwrap_or(rest).trim_end_matches('.');
    message("syn_flood", address.rsplit(':').next())
}

/// `block/blk-core.c`, `fs/buffer.c`, `mm/page_io.c`.
fn disk_error(body: &str) -> Option<KernelMessage<'_>> {
    if let Some((_, rest)) = body.split_once("-error on swap-device (") {
        return message("io_error", rest.split(')').next());
    }
    if let Some((_, rest)) = body.split_once("I/O error") {
        let named = rest.split_once("dev ").or_else(|| rest.split_once("device "));
        return message("io_error", named.map(|(_, name)| word(name)));
    }
    const CAUSES: [&str; 6] = [
        "critical medium error, dev ",
        "critical target error, dev ",
        "critical space allocation error, dev ",
        "recoverable transport error, dev ",
        "device offline error, dev ",
        "timeout error, dev ",
    ];
    let (_, rest) = CAUSES.iter().find_map(|cause| body.split_once(cause))?;
    // A disk that cannot discard says so by the same words.
    let is_unsupported = ["(DISCARD)", "(WRITE_ZEROES)", "(WRITE_SAME)", "(SECURE_ERASE)"];
    (!is_unsupported.iter().any(|operation| rest.contains(operation)))
        .then(|| message("io_error", Some(word(rest))))?
}

/// `net/sched/sch_generic.c` and drivers: the card does not send.
fn transmit_timeout(body: &str) -> Option<KernelMessage<'_>> {
    if let Some(rest) = body.strip_prefix("NETDEV WATCHDOG: ") {
        let is_late = rest.contains("transmit queue ") && rest.contains(" timed out");
        return is_late.then(|| message("nic_timeout", Some(word(rest))))?;
    }
    const SIGNS: [&str; 6] = [
        ": NETDEV WATCHDOG: CPU: ",
        ": Found a Tx that wasn't completed on time",
        ": Keep alive watchdog timeout",
        ": Detected Hardware Unit Hang",
        ": Detected Tx Unit Hang",
        ": TX timeout",
    ];
    let (head, _) = SIGNS.iter().find_map(|sign| body.split_once(sign))?;
    message("nic_timeout", head.rsplit(' ').next())
}

/// `ena 0000:00:05.0 eth0: Link is down`, `e1000e: eth0 NIC Link is Down`, `eth0: Link Down`,
/// `bond0: (slave eth1): link status definitely down, disabling slave`.
fn link_down(body: &str) -> Option<KernelMessage<'_>> {
    if let Some((head, rest)) = body.split_once("link status definitely down") {
        let slave = between(head, ["(slave ", ")"]);
        let named = slave.or_else(|| rest.strip_prefix(" for interface ").map(word));
        return message("link_down", Some(named?));
    }
    let at = ["Link is down", "Link is Down", "Link down", "Link Down", "link down"]
        .iter()
        .find_map(|words| body.find(words))?;
    let before = body[..at].trim_end().trim_end_matches("NIC").trim_end().trim_end_matches(':');
    message("link_down", Some(before.rsplit([' ', ':']).find(|word| !word.is_empty())?))
}

fn between<'a>(text: &'a str, [open, close]: [&str; 2]) -> Option<&'a str> {
    text.split_once(open)?.1.split(close).next()
}

/// The first word, without the comma or colon after it.
fn word(text: &str) -> &str {
    text.split([' ', ',', ':', ')']).next().unwrap_or(text)
}

fn digits(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kind, subject and text as kernels print them; public reports are named where a line is from one.
    const KNOWN: &str = include_str!("kernel_message/known.txt");

    #[test]
    fn known_messages_name_their_subject() {
        let lines = KNOWN.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        for line in lines {
            let [kind, subject, body] = line.splitn(3, " | ").collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let subject = (subject != "-").then_some(subject);
            let expected = (kind != "-").then_some((kind, subject));
            let read = KernelMessage::read(body).map(|message| (message.kind, message.subject));
            assert_eq!(read, expected, "{body}");
        }
    }

    #[test]
    fn every_kind_is_in_the_documentation_of_its_column() {
        use weir_tables::Rows;
        let column =
            weir_tables::KmsgRows::SPEC.columns.iter().find(|column| column.name == "kind");
        let text = column.expect("the table has it").doc;
        for line in KNOWN.lines().filter(|line| !line.starts_with(['#', '-']) && !line.is_empty()) {
            let kind = line.split(" | ").next().expect("a kind");
            assert!(text.contains(&format!("`{kind}`")), "{kind}");
        }
    }
}
