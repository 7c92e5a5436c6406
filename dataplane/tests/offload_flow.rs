//! Splitting and merging together: what a TUN gives is what the other TUN gets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // Tests fail by panics.

mod offload_packets;

use offload_packets::{Family, Flow, Recorder, is_valid, split_all};
use proptest::prelude::*;
use xylem_dataplane::merge::{Merger, RUNS, SLOTS};
use xylem_dataplane::offload::{GSO_NONE, GSO_TCPV4, NEEDS_CSUM, VNET, VnetHeader};

const MTU: u16 = 1_420;
const FIN_ACK: u8 = 0x11;
const PSH_ACK: u8 = 0x18;
const ACK: u8 = 0x10;

fn push_all(merger: &mut Merger, packets: &[Vec<u8>], recorder: &mut Recorder) {
    for packet in packets {
        let slot = match merger.slot() {
            Some(slot) => slot,
            None => {
                merger.flush(recorder);
                merger.slot().expect("an empty merger has slots")
            }
        };
        slot[..packet.len()].copy_from_slice(packet);
        merger.push(packet.len(), recorder);
    }
    merger.flush(recorder);
}

fn merge(packets: &[Vec<u8>]) -> Recorder {
    let mut recorder = Recorder::default();
    push_all(&mut Merger::new(MTU), packets, &mut recorder);
    recorder
}

fn family() -> impl Strategy<Value = Family> {
    prop_oneof![Just(Family::V4), Just(Family::V6)]
}

/// One step of a random sender: which flow, how much, which flags, whether the packet is damaged.
#[derive(Clone, Debug)]
struct Step {
    flow: usize,
    size: usize,
    flags: u8,
    is_corrupt: bool,
    gap: u32,
}

fn step() -> impl Strategy<Value = Step> {
    (
        0usize..10,
        prop_oneof![4 => Just(1_300usize), 1 => 0usize..1_360],
        prop_oneof![8 => Just(ACK), 1 => Just(PSH_ACK), 1 => Just(FIN_ACK), 1 => Just(ACK | 0x80), 1 => any::<u8>()],
        prop_oneof![15 => Just(false), 1 => Just(true)],
        prop_oneof![15 => Just(0u32), 1 => 1u32..5_000],
    )
        .prop_map(|(flow, size, flags, is_corrupt, gap)| Step { flow, size, flags, is_corrupt, gap })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn splitting_what_was_merged_gives_each_flow_its_packets_back_in_order(
        family in family(),
        flows in 1usize..10,
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        let mut senders: Vec<Flow> = (0..flows).map(|i| Flow::new(family, 4_000 + i as u16)).collect();
        let mut sent: Vec<Vec<Vec<u8>>> = vec![Vec::new(); flows];
        let mut packets = Vec::new();
        for s in &steps {
            let at = s.flow % flows;
            senders[at].skip(s.gap);
            let mut packet = senders[at].packet(s.size, s.flags);
            if s.is_corrupt {
                let last = packet.len() - 1;
                packet[last] ^= 0x55;
            }
            sent[at].push(packet.clone());
            packets.push(packet);
        }
        let recorder = merge(&packets);
        let mut got: Vec<Vec<Vec<u8>>> = vec![Vec::new(); flows];
        for packet in recorder.split() {
            let l4 = family.header();
            let port = u16::from_be_bytes([packet[l4], packet[l4 + 1]]);
            got[usize::from(port) - 4_000].push(packet);
        }
        prop_assert_eq!(got, sent);
    }

    #[test]
    fn a_split_super_packet_merges_to_itself(family in family(), size in 8u16..1_361, payload in 2usize..60_000, push: bool) {
        let payload = payload.max(usize::from(size) + 1).min(usize::from(size) * SLOTS);
        let flags = if push { PSH_ACK } else { ACK };
        let (header, packet) = Flow::new(family, 4_000).super_packet(payload, size, flags);
        let recorder = merge(&split_all(&header, &packet).unwrap());
        prop_assert_eq!(recorder.packets.len(), 1);
        prop_assert_eq!(&recorder.packets[0].0, &header);
        prop_assert_eq!(&recorder.packets[0].1, &packet);
    }

    #[test]
    fn random_packets_pass_through_unharmed(packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..120), 1..80), first in prop_oneof![Just(0x45u8), Just(0x60u8), any::<u8>()]) {
        let packets: Vec<Vec<u8>> = packets.into_iter().map(|mut p| { p[0] = first; p }).collect();
        let mut got: Vec<Vec<u8>> = merge(&packets).packets.into_iter().map(|(_, p)| p).collect();
        let mut sent = packets;
        got.sort();
        sent.sort();
        prop_assert_eq!(got, sent);
    }
}

#[test]
fn a_corrupt_checksum_is_never_laundered() {
    for family in [Family::V4, Family::V6] {
        let mut flow = Flow::new(family, 4_000);
        let mut packets: Vec<Vec<u8>> = (0..5).map(|_| flow.packet(1_000, ACK)).collect();
        packets[2][500] ^= 1;
        let recorder = merge(&packets);
        assert_eq!(recorder.counts(), [2, 1, 2]);
        let (header, corrupt) = &recorder.packets[1];
        assert_eq!(*header, VnetHeader::default());
        assert_eq!(*corrupt, packets[2]);
        assert!(!is_valid(corrupt));
    }
}

#[test]
fn a_corrupt_ip_header_is_never_laundered() {
    let mut flow = Flow::new(Family::V4, 4_000);
    let mut packets: Vec<Vec<u8>> = (0..3).map(|_| flow.packet(1_000, ACK)).collect();
    packets[1][10] ^= 1;
    assert_eq!(merge(&packets).counts(), [1, 1, 1]);
}

#[test]
fn interleaved_flows_are_each_merged() {
    let mut flows: Vec<Flow> = (0..RUNS as u16)
        .map(|i| Flow::new(Family::V4, 4_000 + i))
        .collect();
    let packets: Vec<Vec<u8>> = (0..8)
        .flat_map(|_| {
            flows
                .iter_mut()
                .map(|f| f.packet(1_300, ACK))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(merge(&packets).counts(), [8; RUNS]);
}

#[test]
fn a_pure_ack_or_fin_does_not_overtake_the_data_of_its_flow() {
    for flags in [ACK, FIN_ACK] {
        let mut flow = Flow::new(Family::V6, 4_000);
        let packets = [
            flow.packet(1_000, ACK),
            flow.packet(1_000, ACK),
            flow.packet(0, flags),
            flow.packet(1_000, ACK),
        ];
        let recorder = merge(&packets);
        assert_eq!(recorder.counts(), [2, 1, 1]);
        assert_eq!(recorder.split(), packets);
    }
}

#[test]
fn a_growing_segment_starts_a_new_run() {
    let mut flow = Flow::new(Family::V4, 4_000);
    let packets = [
        flow.packet(600, ACK),
        flow.packet(600, ACK),
        flow.packet(601, ACK),
        flow.packet(400, ACK),
    ];
    let recorder = merge(&packets);
    assert_eq!(recorder.counts(), [2, 2]);
    assert_eq!(recorder.split(), packets);
}

#[test]
fn packets_that_differ_in_a_header_are_not_merged() {
    struct Case {
        name: &'static str,
        family: Family,
        at: usize,
        bits: u8,
    }
    let cases = [
        Case {
            name: "ECN of IPv4",
            family: Family::V4,
            at: 1,
            bits: 3,
        },
        Case {
            name: "TTL",
            family: Family::V4,
            at: 8,
            bits: 1,
        },
        Case {
            name: "DF",
            family: Family::V4,
            at: 6,
            bits: 0x40,
        },
        Case {
            name: "ECN of IPv6",
            family: Family::V6,
            at: 1,
            bits: 0x30,
        },
        Case {
            name: "flow label",
            family: Family::V6,
            at: 3,
            bits: 1,
        },
        Case {
            name: "acknowledgement",
            family: Family::V6,
            at: 40 + 11,
            bits: 1,
        },
        Case {
            name: "window",
            family: Family::V4,
            at: 20 + 15,
            bits: 1,
        },
        Case {
            name: "timestamp option",
            family: Family::V4,
            at: 20 + 24,
            bits: 1,
        },
    ];
    for case in cases {
        let mut flow = Flow::new(case.family, 4_000);
        let first = flow.packet(1_000, ACK);
        let mut second = flow.packet(1_000, ACK);
        second[case.at] ^= case.bits;
        offload_packets::finish(&mut second);
        assert_eq!(merge(&[first, second]).counts(), [1, 1], "{}", case.name);
    }
}

#[test]
fn ids_must_count_up_unless_df_says_that_they_mean_nothing() {
    for (df, counts) in [(0, vec![1, 1]), (0x40, vec![2])] {
        let mut flow = Flow::new(Family::V4, 4_000);
        let mut packets = [flow.packet(1_000, ACK), flow.packet(1_000, ACK)];
        for packet in &mut packets {
            packet[4..6].copy_from_slice(&[0, 7]);
            packet[6] |= df;
            offload_packets::finish(packet);
        }
        assert_eq!(merge(&packets).counts(), counts);
    }
}

#[test]
fn a_fragment_is_passed_on_behind_everything_that_is_held() {
    let mut flow = Flow::new(Family::V4, 4_000);
    let mut fragment = flow.packet(1_000, ACK);
    fragment[6] |= 0x20;
    offload_packets::finish(&mut fragment);
    let packets = [Flow::new(Family::V4, 4_000).packet(1_000, ACK), fragment];
    let recorder = merge(&packets);
    assert_eq!(recorder.split(), packets);
}

#[test]
fn a_full_merger_hands_out_no_slot_until_it_is_flushed() {
    let mut merger = Merger::new(MTU);
    let mut recorder = Recorder::default();
    let mut flows: Vec<Flow> = (0..2).map(|i| Flow::new(Family::V6, 4_000 + i)).collect();
    for i in 0..SLOTS {
        let packet = flows[i % 2].packet(800, ACK);
        merger.slot().expect("not full")[..packet.len()].copy_from_slice(&packet);
        merger.push(packet.len(), &mut recorder);
    }
    assert!(merger.slot().is_none());
    merger.flush(&mut recorder);
    assert_eq!(recorder.counts(), [SLOTS / 2, SLOTS / 2]);
    assert!(merger.slot().is_some());
    assert!(merger.is_empty());
}

#[test]
fn a_slot_handed_out_survives_a_flush_and_a_failed_decryption() {
    let mut merger = Merger::new(MTU);
    let mut recorder = Recorder::default();
    let mut flow = Flow::new(Family::V4, 4_000);
    let (first, second) = (flow.packet(500, ACK), flow.packet(500, ACK));
    merger.slot().unwrap()[..first.len()].copy_from_slice(&first);
    merger.push(first.len(), &mut recorder);
    merger.slot().unwrap()[..second.len()].copy_from_slice(&second);
    merger.flush(&mut recorder);
    merger.push(second.len(), &mut recorder);
    merger.push(second.len(), &mut recorder); // nothing was handed out: ignored
    merger.flush(&mut recorder);
    assert_eq!(recorder.split(), [first, second]);
}

#[test]
fn lengths_that_no_slot_can_hold_are_ignored() {
    let mut merger = Merger::new(MTU);
    let mut recorder = Recorder::default();
    let too_long = merger.slot_size() + 1;
    for len in [0, too_long] {
        merger.slot().unwrap();
        merger.push(len, &mut recorder);
    }
    merger.flush(&mut recorder);
    assert!(recorder.packets.is_empty());
}

#[test]
fn without_merging_every_packet_is_passed_on_as_it_is() {
    let mut flow = Flow::new(Family::V4, 4_000);
    let packets: Vec<Vec<u8>> = (0..4).map(|_| flow.packet(1_000, ACK)).collect();
    let mut recorder = Recorder::default();
    push_all(&mut Merger::without_merging(MTU), &packets, &mut recorder);
    assert_eq!(recorder.counts(), [1; 4]);
    assert_eq!(recorder.split(), packets);
}

#[test]
fn a_merged_packet_never_exceeds_what_an_ip_header_can_say() {
    let mut merger = Merger::new(9_000);
    let mut recorder = Recorder::default();
    let mut flow = Flow::new(Family::V4, 4_000);
    let packets: Vec<Vec<u8>> = (0..20).map(|_| flow.packet(8_900, ACK)).collect();
    push_all(&mut merger, &packets, &mut recorder);
    assert!(recorder.packets.iter().all(|(_, p)| p.len() <= 65_535));
    assert_eq!(recorder.split(), packets);
}

#[test]
fn a_merged_packet_says_what_it_is() {
    let mut flow = Flow::new(Family::V4, 4_000);
    let recorder = merge(&[flow.packet(1_000, ACK), flow.packet(700, PSH_ACK)]);
    let expected = VnetHeader {
        flags: NEEDS_CSUM,
        gso_type: GSO_TCPV4,
        hdr_len: 52,
        gso_size: 1_000,
        csum_start: 20,
        csum_offset: 16,
    };
    assert_eq!(recorder.packets[0].0, expected);
    assert_eq!(recorder.packets[0].0.bytes().len(), VNET);
    assert_ne!(recorder.packets[0].0.gso_type, GSO_NONE);
}
