//! A virtual machine for real md arrays: QEMU without KVM, Debian's cloud kernel, and a shell.
//!
//! Kernel, mdadm and busybox are Debian's packages, which `cargo xtask setup` unpacks below the target
//! directory; the root file system is an image of them and of the test's programs. The kernel's
//! messages go to the first serial port and a file. The second port takes commands from this
//! process and returns their output. On a loaded host timers are late, which the kernel would take
//! for broken hardware: `no_timer_check`.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use super::harness::{EndedProcess, text};

/// How long a boot or a command may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Sector of the unreadable disk that can be neither read nor written.
pub(crate) const UNREADABLE_SECTOR: u64 = 40_960;

/// In an order in which each finds those that it needs.
const MODULES: [&str; 11] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "failover",
    "net_failover",
    "virtio_net",
    "md-mod",
    "raid1",
    "raid10",
];

/// Reads commands until the machine is killed; powers it off when the test has died.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
for module in $(cat /modules/order); do insmod /modules/$module; done
ip link set lo up; ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0; ip route add default via 10.0.2.2
(sleep 900; poweroff -f) &
exec < /dev/ttyS1 > /dev/ttyS1 2>&1
stty -echo -onlcr
echo ready
while read -r line; do eval "$line"; done
"#;

/// The host's address, as the guest sees it.
pub(crate) const HOST_ADDRESS: &str = "10.0.2.2";

/// What the machine is made of.
pub(crate) struct MachineParts {
    kernel: PathBuf,
    /// Debian's packages, unpacked.
    packages: PathBuf,
}

impl MachineParts {
    /// `None` when something is missing.
    pub(crate) fn find() -> Option<Self> {
        let packages = Path::new(env!("CARGO_TARGET_TMPDIR")).join("md-vm/root");
        let mut boot = fs::read_dir(packages.join("boot")).ok()?.flatten();
        let kernel =
            boot.find(|file| file.file_name().to_string_lossy().starts_with("vmlinuz-"))?;
        let is_ready =
            [["qemu-system-x86_64", "--version"], ["mkfs.ext4", "-V"], ["strip", "--version"]]
                .iter()
                .all(|[program, option]| {
                    let mut command = Command::new(program);
                    command.arg(option).output().is_ok_and(|output| output.status.success())
                });
        is_ready.then_some(Self { kernel: kernel.path(), packages })
    }

    /// An image of the root file system, with `programs` in its `/bin`.
    fn make_root(&self, dir: &Path, programs: &[&Path]) -> PathBuf {
        let guest = dir.join("guest");
        for name in ["bin", "proc", "sys", "dev", "tmp", "run", "modules", "etc"] {
            fs::create_dir_all(guest.join(name)).expect("there is space");
        }
        let ours = ["bin/busybox", "sbin/mdadm", "sbin/mdmon"].map(|path| self.packages.join(path));
        for program in ours.iter().map(PathBuf::as_path).chain(programs.iter().copied()) {
            let to = guest.join("bin").join(program.file_name().expect("programs have names"));
            run(Command::new("strip").arg("-o").arg(&to).arg(program));
            for library in libraries(program) {
                let to = guest.join(library.strip_prefix("/").expect("ldd prints whole paths"));
                fs::create_dir_all(to.parent().expect("it has a directory")).expect("space");
                fs::copy(&library, to).expect("it is there");
            }
        }
        let mut order = String::new();
        for module in MODULES {
            // Other kernels have some of them built in.
            let Some(file) = module_file(&self.packages.join("lib/modules"), module) else {
                continue;
            };
            let name = file.file_name().expect("it has a name").to_string_lossy().into_owned();
            fs::copy(&file, guest.join("modules").join(&name)).expect("there is space");
            order += &format!("{name}\n");
        }
        fs::write(guest.join("modules/order"), order).expect("there is space");
        fs::write(guest.join("init"), INIT).expect("there is space");
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(guest.join("init"), executable).expect("it is ours");
        let image = dir.join("root.img");
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-d"]).arg(&guest).arg(&image).arg("1G"));
        image
    }
}

/// The module's file, compressed or not, somewhere below a directory.
fn module_file(dir: &Path, module: &str) -> Option<PathBuf> {
    for entry in fs::read_dir(dir).ok()?.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.split_once(".ko").is_some_and(|(stem, _)| stem == module) {
            return Some(path);
        }
        // Links lead to the sources of the kernel.
        if entry.file_type().is_ok_and(|kind| kind.is_dir())
            && let Some(found) = module_file(&path, module)
        {
            return Some(found);
        }
    }
    None
}

/// What a program is linked with, the loader included; nothing for a static one.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(program).output().expect("libc-bin is there");
    let words = text(&output.stdout);
    words.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
}

/// How many disks there are, and which of them has an unreadable sector.
#[derive(Clone, Copy)]
pub(crate) struct TestDisks {
    pub(crate) count: usize,
    pub(crate) unreadable: usize,
}

/// Device files of disks.
pub(crate) fn devices(disks: impl IntoIterator<Item = usize>) -> String {
    let names: Vec<String> = disks.into_iter().map(|disk| format!("/dev/nvme{disk}n1")).collect();
    names.join(" ")
}

/// A running machine; killed when dropped. Its disks are `nvme1n1` and so forth.
pub(crate) struct VirtualMachine {
    _process: EndedProcess,
    commands: ChildStdin,
    lines: Receiver<String>,
    monitor: BufReader<UnixStream>,
    dir: PathBuf,
    command_count: usize,
}

impl VirtualMachine {
    /// Boots with empty disks of 64 MiB.
    pub(crate) fn boot(
        parts: &MachineParts,
        dir: &Path,
        programs: &[&Path],
        disks: TestDisks,
    ) -> Self {
        let root = parts.make_root(dir, programs);
        let mut command = Command::new("qemu-system-x86_64");
        command.args(["-machine", "q35,accel=tcg", "-cpu", "max", "-m", "768", "-smp", "1"]);
        command.args(["-display", "none", "-nodefaults", "-no-reboot", "-serial"]);
        command.arg(format!("file:{}", dir.join("console.log").display()));
        command.args(["-serial", "stdio", "-netdev", "user,id=net"]);
        command.args(["-device", "virtio-net-pci,netdev=net,romfile=", "-qmp"]);
        command.arg(format!("unix:{},server=on,wait=off", dir.join("qmp").display()));
        command.arg("-kernel").arg(&parts.kernel).arg("-append").arg(
            "console=ttyS0 quiet no_timer_check panic=-1 root=/dev/nvme0n1 rootfstype=ext4 rw init=/init",
        );
        for number in 0..=disks.count {
            let image = if number == 0 { root.clone() } else { empty_disk(dir, number) };
            let mut source = image.display().to_string();
            if number == disks.unreadable {
                source = format!("blkdebug:{}:{source}", bad_sector(dir).display());
            }
            let errors = "rerror=report,werror=report";
            command.arg("-drive").arg(format!(
                "file={source},if=none,id=disk{number},format=raw,cache=unsafe,{errors}"
            ));
            command.arg("-device").arg(format!("nvme,drive=disk{number},serial=disk{number}"));
        }
        let mut child = start(&mut command, dir);
        let (commands, lines) = pipes(&mut child);
        let process = EndedProcess(child);
        let first = lines.recv_timeout(PATIENCE);
        assert_eq!(first.as_deref(), Ok("ready"), "{}", said(dir));
        let monitor = UnixStream::connect(dir.join("qmp")).expect("QEMU listens");
        monitor.set_read_timeout(Some(PATIENCE)).expect("it is not zero");
        let monitor = BufReader::new(monitor);
        let mut machine = Self {
            _process: process,
            commands,
            lines,
            monitor,
            dir: dir.to_owned(),
            command_count: 0,
        };
        machine.order(r#"{"execute":"qmp_capabilities"}"#);
        machine
    }

    /// The output of a command of the guest's shell, which must succeed.
    pub(crate) fn run(&mut self, command: &str) -> String {
        self.command_count += 1;
        let mark = format!("command {} ended: ", self.command_count);
        writeln!(self.commands, "{command}\necho \"{mark}$?\"").expect("the machine runs");
        let mut output = String::new();
        loop {
            let line = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|error| {
                panic!("{command}: {error}: {output}\n{}", said(&self.dir))
            });
            if let Some(code) = line.strip_prefix(&mark) {
                assert_eq!(code, "0", "{command}: {output}\n{}", said(&self.dir));
                return output;
            }
            output += &format!("{line}\n");
        }
    }

    /// Makes an array, without a first sync: its device, options and members.
    pub(crate) fn create(&mut self, array: &str) {
        self.run(&format!("mdadm --create {array} --run --assume-clean"));
    }

    /// Makes a container of Intel arrays, which is always inactive, of two members.
    pub(crate) fn create_container(&mut self, members: &str) {
        let platform = "IMSM_NO_PLATFORM=1 IMSM_DEVNAME_AS_SERIAL=1";
        self.run(&format!(
            "{platform} mdadm --create /dev/md127 --metadata=imsm --raid-devices=2 {members}"
        ));
    }

    /// Reads a mirror twice: one reader may be served by one half only.
    pub(crate) fn read_whole(&mut self, array: &str) {
        let read = format!("dd if={array} of=/dev/null bs=64k iflag=direct");
        self.run(&format!("{read} && {read}"));
    }

    /// Limits a disk's operations a second.
    pub(crate) fn throttle(&mut self, disk: usize, operations: u32) {
        self.order(&format!(
            r#"{{"execute":"block_set_io_throttle","arguments":{{"device":"disk{disk}","iops":{operations},"iops_rd":0,"iops_wr":0,"bps":0,"bps_rd":0,"bps_wr":0}}}}"#
        ));
    }

    /// A command of QEMU's monitor; events and its greeting are skipped.
    fn order(&mut self, command: &str) {
        writeln!(self.monitor.get_mut(), "{command}").expect("QEMU listens");
        loop {
            let mut line = String::new();
            let length = self.monitor.read_line(&mut line).expect("QEMU answers");
            assert!(length > 0 && !line.contains("\"error\""), "{command}: {line}");
            if line.contains("\"return\"") {
                return;
            }
        }
    }

    /// What the kernel and QEMU wrote, for failures.
    pub(crate) fn said(&self) -> String {
        said(&self.dir)
    }
}

fn start(command: &mut Command, dir: &Path) -> Child {
    let errors = File::create(dir.join("qemu.log")).expect("there is space");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
    command.spawn().expect("QEMU can be started")
}

fn pipes(child: &mut Child) -> (ChildStdin, Receiver<String>) {
    let stdin = child.stdin.take().expect("it is piped");
    let stdout = child.stdout.take().expect("it is piped");
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = sender.send(line.trim_end().to_owned());
        }
    });
    (stdin, lines)
}

fn empty_disk(dir: &Path, number: usize) -> PathBuf {
    let image = dir.join(format!("disk{number}.img"));
    let file = File::create(&image).expect("there is space");
    file.set_len(64 << 20).expect("a sparse file takes no space");
    image
}

/// Configuration of QEMU's `blkdebug`: the event precedes reads and, for NVMe, writes.
fn bad_sector(dir: &Path) -> PathBuf {
    let path = dir.join("bad_sector.conf");
    let rule = format!(
        "[inject-error]\nevent = \"read_aio\"\nerrno = \"5\"\nsector = \"{UNREADABLE_SECTOR}\"\n"
    );
    fs::write(&path, rule).expect("there is space");
    path
}

fn said(dir: &Path) -> String {
    let [kernel, qemu] = ["console.log", "qemu.log"]
        .map(|name| fs::read(dir.join(name)).map(|bytes| text(&bytes)).unwrap_or_default());
    format!("kernel:\n{kernel}\nQEMU:\n{qemu}")
}
