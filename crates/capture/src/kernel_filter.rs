//! Kernel packet filter: classic BPF that passes TCP packets of the configured ports, for a share
//! of the connections.
//!
//! Instruction set: Documentation/networking/filter.rst, linux/filter.h. Packets begin at their
//! network header (the socket is SOCK_DGRAM); metadata is read at negative offsets. Dropping a
//! packet here costs the kernel tens of nanoseconds; delivering it costs ten times that, and this
//! program as much again. That is why sampling happens here, by a hash of both endpoints that is
//! equal for both directions: a connection is seen whole or not at all. The hash is seeded, since
//! attackers can choose their ports.

use std::collections::HashMap;

/// One instruction, as the kernel takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BpfInstruction {
    /// Operation, with the mode of its operand.
    pub code: u16,
    /// Instructions skipped if a condition holds.
    pub jump_true: u8,
    /// Instructions skipped if it does not.
    pub jump_false: u8,
    /// Operand.
    pub k: u32,
}

/// What passes the filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterSpec<'a> {
    /// Ports of either end; all when empty, at most [`PORTS_MAX`].
    pub ports: &'a [u16],
    /// Bytes kept of a packet, from the network header on.
    pub snap_bytes: u32,
    /// Connections to sample, of 65,536.
    pub share: u32,
    /// Seeds the connection hash.
    pub seed: u64,
}

/// Maximum ports of a filter: jumps reach 255 instructions.
pub const PORTS_MAX: usize = 32;
/// A `share` of all connections.
pub const ALL: u32 = 65_536;

const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF_X: u16 = 0x48;
const LOAD_X_HEADER: u16 = 0xb1;
const LOAD_X_MEMORY: u16 = 0x61;
const STORE: u16 = 0x02;
const MULTIPLY: u16 = 0x24;
const SHIFT_RIGHT: u16 = 0x74;
const XOR_X: u16 = 0xac;
const JUMP: u16 = 0x05;
const IF_EQUAL: u16 = 0x15;
const IF_NOT_BELOW: u16 = 0x35;
const IF_BITS: u16 = 0x45;
const RETURN: u16 = 0x06;

/// Ancillary data at `SKF_AD_OFF`: EtherType, direction, hardware type.
const PROTOCOL: u32 = 0xffff_f000;
const DIRECTION: u32 = 0xffff_f004;
const HARDWARE: u32 = 0xffff_f01c;
/// `ARPHRD_LOOPBACK` and `PACKET_OUTGOING`.
const LOOPBACK: u32 = 772;
const OUTGOING: u32 = 4;
const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
const VLAN: [u32; 2] = [0x8100, 0x88a8];
const TCP: u32 = 6;

type Label = u32;

/// Instructions with symbolic jumps.
#[derive(Default)]
struct BpfProgram {
    code: Vec<BpfInstruction>,
    /// Per instruction, its targets when true and when false; 0 is the next instruction.
    jumps: Vec<[Label; 2]>,
    places: HashMap<Label, usize>,
    labels: Label,
}

impl BpfProgram {
    fn label(&mut self) -> Label {
        self.labels += 1;
        self.labels
    }

    fn here(&mut self, label: Label) {
        self.places.insert(label, self.code.len());
    }

    fn add(&mut self, code: u16, k: u32) {
        self.branch(code, k, 0, 0);
    }

    fn branch(&mut self, code: u16, k: u32, when_true: Label, when_false: Label) {
        self.code.push(BpfInstruction { code, jump_true: 0, jump_false: 0, k });
        self.jumps.push([when_true, when_false]);
    }

    fn mix(&mut self) {
        self.add(LOAD_X_MEMORY, 0);
        self.add(XOR_X, 0);
    }

    /// Resolves labels to distances.
    fn finish(mut self) -> Vec<BpfInstruction> {
        for (at, instruction) in self.code.iter_mut().enumerate() {
            let [when_true, when_false] = self.jumps[at].map(|label| match label {
                0 => 0,
                label => self.places[&label] - at - 1,
            });
            if instruction.code == JUMP {
                instruction.k = u32::try_from(when_true).expect("programs are short");
            } else {
                instruction.jump_true = short_jump(when_true);
                instruction.jump_false = short_jump(when_false);
            }
        }
        self.code
    }
}

fn short_jump(distance: usize) -> u8 {
    u8::try_from(distance).expect("few ports keep jumps short")
}

/// The program that passes what is wanted: TCP over IPv4 and IPv6, also in VLANs of the kernel.
pub fn program(wanted: &FilterSpec<'_>) -> Vec<BpfInstruction> {
    let mut p = BpfProgram::default();
    let (begin, next, outer_tag, none) = (p.label(), p.label(), p.label(), p.label());
    let bodies = [(IPV4, 0), (IPV6, 0), (IPV4, 4), (IPV6, 4)].map(|body| (body, p.label()));
    // Loopback delivers each packet twice, outgoing and incoming; keep the second.
    p.add(LOAD_WORD, HARDWARE);
    p.branch(IF_EQUAL, LOOPBACK, 0, begin);
    p.add(LOAD_WORD, DIRECTION);
    p.branch(IF_EQUAL, OUTGOING, none, begin);
    p.here(begin);
    p.add(LOAD_WORD, PROTOCOL);
    dispatch(&mut p, [IPV4, IPV6], [bodies[0].1, bodies[1].1]);
    p.branch(IF_EQUAL, VLAN[0], outer_tag, 0);
    p.branch(IF_EQUAL, VLAN[1], outer_tag, none);
    p.here(none);
    p.add(RETURN, 0);
    // A remaining VLAN tag: before the header on incoming packets; on outgoing ones the kernel
    // points after it.
    p.here(outer_tag);
    p.add(LOAD_WORD, DIRECTION);
    p.branch(IF_EQUAL, OUTGOING, 0, next);
    p.add(LOAD_BYTE, 0);
    p.add(SHIFT_RIGHT, 4);
    dispatch(&mut p, [4, 6], [bodies[0].1, bodies[1].1]);
    p.add(RETURN, 0);
    p.here(next);
    p.add(LOAD_HALF, 2);
    dispatch(&mut p, [IPV4, IPV6], [bodies[2].1, bodies[3].1]);
    p.add(RETURN, 0);
    for ((protocol, base), label) in bodies {
        p.here(label);
        body(&mut p, wanted, protocol == IPV4, base);
    }
    p.finish()
}

/// Jumps to one of two labels, which may be far.
fn dispatch(p: &mut BpfProgram, values: [u32; 2], places: [Label; 2]) {
    for (value, place) in values.into_iter().zip(places) {
        let other = p.label();
        p.branch(IF_EQUAL, value, 0, other);
        p.branch(JUMP, 0, place, 0);
        p.here(other);
    }
}

fn body(p: &mut BpfProgram, wanted: &FilterSpec<'_>, is_ipv4: bool, base: u32) {
    let (accept, refuse) = (p.label(), p.label());
    p.add(LOAD_BYTE, base + if is_ipv4 { 9 } else { 6 });
    p.branch(IF_EQUAL, TCP, 0, refuse);
    if is_ipv4 {
        // Fragments lack ports or some of their bytes.
        p.add(LOAD_HALF, base + 6);
        p.branch(IF_BITS, 0x3fff, refuse, 0);
        p.add(LOAD_X_HEADER, base);
    }
    let load_port = if is_ipv4 { LOAD_HALF_X } else { LOAD_HALF };
    let ports = if is_ipv4 { base } else { base + 40 };
    if !wanted.ports.is_empty() {
        for at in [0, 2] {
            p.add(load_port, ports + at);
            for port in wanted.ports.iter().take(PORTS_MAX) {
                p.branch(IF_EQUAL, u32::from(*port), accept, 0);
            }
        }
        p.here(refuse);
        p.add(RETURN, 0);
    }
    p.here(accept);
    if wanted.share < ALL {
        p.add(load_port, ports);
        p.add(STORE, 0);
        p.add(load_port, ports + 2);
        sample(p, wanted, is_ipv4, base);
    }
    p.add(RETURN, wanted.snap_bytes);
    if wanted.ports.is_empty() {
        p.here(refuse);
        p.add(RETURN, 0);
    }
}

fn odd_factor(seed: u64) -> u32 {
    let word = u32::try_from(seed & 0xffff_ffff).expect("32 bits");
    (word ^ 0x9e37_79b9) | 1
}

/// Emits the sampling: one port is in memory 0, the other in the accumulator; continues for the
/// sampled share.
fn sample(p: &mut BpfProgram, wanted: &FilterSpec<'_>, is_ipv4: bool, base: u32) {
    p.mix();
    p.add(MULTIPLY, odd_factor(wanted.seed));
    let words = if is_ipv4 { (12..20).step_by(4) } else { (8..40).step_by(4) };
    for at in words {
        p.add(STORE, 0);
        p.add(LOAD_WORD, base + at);
        p.mix();
    }
    p.add(MULTIPLY, odd_factor(wanted.seed >> 32));
    p.add(STORE, 0);
    p.add(SHIFT_RIGHT, 15);
    p.mix();
    p.add(MULTIPLY, odd_factor(wanted.seed >> 16));
    p.add(SHIFT_RIGHT, 16);
    let kept = p.label();
    p.branch(IF_NOT_BELOW, wanted.share, 0, kept);
    p.add(RETURN, 0);
    p.here(kept);
}

#[cfg(test)]
#[path = "kernel_filter_tests.rs"]
mod tests;
