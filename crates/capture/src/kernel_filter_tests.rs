//! Tests of the filter on an interpreter of classic BPF with the kernel's ancillary data.

use super::*;

/// Ancillary data of a packet.
#[derive(Clone, Copy)]
struct AncillaryData {
    protocol: u32,
    way: u32,
    hardware: u32,
}

const IN: AncillaryData = AncillaryData { protocol: IPV4, way: 0, hardware: 1 };

/// Bytes kept; reading beyond the end drops the packet, as in the kernel.
fn run(program: &[BpfInstruction], bytes: &[u8], seen: AncillaryData) -> u32 {
    let (mut a, mut x, mut memory, mut at) = (0_u32, 0_u32, [0_u32; 16], 0);
    let load = |from: u32, count: usize| -> Option<u32> {
        let from = from as usize;
        Some(bytes.get(from..from + count)?.iter().fold(0, |sum, b| sum << 8 | u32::from(*b)))
    };
    loop {
        let BpfInstruction { code, jump_true, jump_false, k } = program[at];
        at += 1;
        let mut jump =
            |is_true: bool| at += usize::from(if is_true { jump_true } else { jump_false });
        let loaded = match code {
            LOAD_WORD if k == PROTOCOL => Some(seen.protocol),
            LOAD_WORD if k == DIRECTION => Some(seen.way),
            LOAD_WORD if k == HARDWARE => Some(seen.hardware),
            LOAD_WORD => load(k, 4),
            LOAD_HALF => load(k, 2),
            LOAD_BYTE => load(k, 1),
            LOAD_HALF_X => load(k + x, 2),
            LOAD_X_HEADER => load(k, 1).map(|byte| {
                x = 4 * (byte & 15);
                a
            }),
            LOAD_X_MEMORY => {
                x = memory[k as usize];
                Some(a)
            }
            STORE => {
                memory[k as usize] = a;
                Some(a)
            }
            MULTIPLY => Some(a.wrapping_mul(k)),
            SHIFT_RIGHT => Some(a >> k),
            XOR_X => Some(a ^ x),
            JUMP => {
                at += k as usize;
                Some(a)
            }
            IF_EQUAL => {
                jump(a == k);
                Some(a)
            }
            IF_NOT_BELOW => {
                jump(a >= k);
                Some(a)
            }
            IF_BITS => {
                jump(a & k != 0);
                Some(a)
            }
            RETURN => return k,
            other => panic!("unknown instruction {other:#x}"),
        };
        let Some(value) = loaded else { return 0 };
        a = value;
    }
}

fn ipv4(from: [u8; 4], to: [u8; 4], ports: [u16; 2]) -> Vec<u8> {
    let mut bytes = vec![0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0];
    bytes.extend(from);
    bytes.extend(to);
    ports.iter().for_each(|port| bytes.extend(port.to_be_bytes()));
    bytes.resize(40, 0);
    bytes
}

fn ipv6(last: [u8; 2], ports: [u16; 2]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0, 0, 20, 6, 64];
    for last in last {
        bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    ports.iter().for_each(|port| bytes.extend(port.to_be_bytes()));
    bytes.resize(60, 0);
    bytes
}

fn wanted(ports: &[u16], share: u32) -> Vec<BpfInstruction> {
    program(&FilterSpec { ports, snap_bytes: 256, share, seed: 0x1234_5678_9abc_def0 })
}

const A: [u8; 4] = [192, 0, 2, 1];
const B: [u8; 4] = [198, 51, 100, 7];

#[test]
fn packets_of_the_ports_pass_in_both_directions_and_both_families() {
    let program = wanted(&[80, 8080], ALL);
    for ports in [[40_000, 80], [80, 40_000], [8080, 1], [1, 8080]] {
        assert_eq!(run(&program, &ipv4(A, B, ports), IN), 256, "{ports:?}");
        let six = AncillaryData { protocol: IPV6, ..IN };
        assert_eq!(run(&program, &ipv6([1, 2], ports), six), 256, "{ports:?}");
    }
    assert_eq!(run(&program, &ipv4(A, B, [40_000, 443]), IN), 0);
    assert_eq!(
        run(&program, &ipv6([1, 2], [40_000, 443]), AncillaryData { protocol: IPV6, ..IN }),
        0
    );
}

#[test]
fn without_ports_all_of_tcp_passes_and_nothing_else() {
    let program = wanted(&[], ALL);
    let mut packet = ipv4(A, B, [1, 2]);
    assert_eq!(run(&program, &packet, IN), 256);
    packet[6] = 0x20; // more fragments
    assert_eq!(run(&program, &packet, IN), 0);
    packet[6] = 0;
    packet[9] = 17;
    assert_eq!(run(&program, &packet, IN), 0);
    assert_eq!(run(&program, &packet, AncillaryData { protocol: 0x0806, ..IN }), 0);
    assert_eq!(run(&program, &[], IN), 0);
}

#[test]
fn options_of_ip_move_the_ports() {
    let mut packet = ipv4(A, B, [0, 0]);
    packet[0] = 0x46;
    packet[20..24].copy_from_slice(&[1, 1, 1, 0]);
    packet[24..28].copy_from_slice(&[0x9c, 0x40, 0, 80]);
    assert_eq!(run(&wanted(&[80], ALL), &packet, IN), 256);
    assert_eq!(run(&wanted(&[81], ALL), &packet, IN), 0);
}

#[test]
fn vlan_tags_are_passed_over() {
    let program = wanted(&[80], ALL);
    for (inner, packet) in [(IPV4, ipv4(A, B, [9, 80])), (IPV6, ipv6([1, 2], [9, 80]))] {
        for outer in VLAN {
            let mut tagged = vec![0, 7];
            tagged.extend(u16::try_from(inner).expect("16 bits").to_be_bytes());
            tagged.extend(&packet);
            let coming = AncillaryData { protocol: outer, ..IN };
            assert_eq!(run(&program, &tagged, coming), 256, "{inner:#x} in {outer:#x}");
            let going = AncillaryData { way: OUTGOING, ..coming };
            assert_eq!(run(&program, &packet, going), 256, "{inner:#x} in {outer:#x}, going");
        }
    }
}

#[test]
fn loopback_keeps_the_one_that_comes_in() {
    let program = wanted(&[80], ALL);
    let lo = AncillaryData { hardware: LOOPBACK, ..IN };
    let packet = ipv4(A, B, [9, 80]);
    assert_eq!(run(&program, &packet, lo), 256);
    assert_eq!(run(&program, &packet, AncillaryData { way: OUTGOING, ..lo }), 0);
    assert_eq!(
        run(&program, &packet, AncillaryData { way: OUTGOING, ..IN }),
        256,
        "not on other links"
    );
}

#[test]
fn a_share_keeps_whole_connections_and_smaller_shares_keep_some_of_the_same() {
    for is_ipv4 in [true, false] {
        let (half, tenth) = (wanted(&[80], ALL / 2), wanted(&[80], ALL / 10));
        let (mut halves, mut tenths) = (0, 0);
        for client in 0..20_000_u16 {
            let port = 20_000 + client % 10_000;
            let side = u8::try_from(client / 10_000).expect("small");
            let (there, back, seen) = if is_ipv4 {
                let client = [10, 0, 0, side];
                (ipv4(client, B, [port, 80]), ipv4(B, client, [80, port]), IN)
            } else {
                let six = AncillaryData { protocol: IPV6, ..IN };
                (ipv6([side, 9], [port, 80]), ipv6([9, side], [80, port]), six)
            };
            let is_kept =
                |program: &[BpfInstruction], packet: &[u8]| run(program, packet, seen) != 0;
            assert_eq!(is_kept(&half, &there), is_kept(&half, &back), "whole connections");
            assert!(is_kept(&half, &there) || !is_kept(&tenth, &there), "a tenth lies in the half");
            halves += u32::from(is_kept(&half, &there));
            tenths += u32::from(is_kept(&tenth, &there));
        }
        assert!((9_600..10_400).contains(&halves), "{halves} of 20,000");
        assert!((1_800..2_200).contains(&tenths), "{tenths} of 20,000");
    }
}

#[test]
fn the_largest_program_is_one_that_the_kernel_takes() {
    let ports: Vec<u16> = (1..=32).collect();
    assert_eq!(ports.len(), PORTS_MAX);
    let program = wanted(&ports, ALL / 3);
    assert!(program.len() < 1024, "{} of 4096 instructions", program.len());
    for (at, instruction) in program.iter().enumerate() {
        let far = usize::from(instruction.jump_true.max(instruction.jump_false));
        let ends = matches!(instruction.code, JUMP | RETURN);
        assert!(ends || at + 1 + far < program.len());
    }
}
