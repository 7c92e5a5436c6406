//! One function for each parser of foreign bytes: takes anything, and panics when a promise of that parser is broken.
//!
//! `cargo test` replays the committed corpus and seeded mutations of it through all of them; `dataplane/fuzz` runs
//! them under libFuzzer.

use crate::admission::Admission;
use crate::inner_flows::{InnerFlows, Way};
use crate::lazy_noise::LazyNoise;
use crate::merge::{Merger, PacketSink};
use crate::noise::{HANDSHAKE_MAX, Identity, Noise, Opened};
use crate::offload::{GSO_NONE, VNET, VnetHeader, split};
use crate::stack_wire::{Arrived, arrived};
use crate::steering::{
    Mac1Key, Message, Steering, Target, TrialBudget, Verdict, classify, pair_index,
};
use crate::{checksum, echo, ip, mss, unreachable};
use std::collections::HashMap;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex};

/// The agent that the bytes arrive at, and the other one that it knows.
const OWN: u16 = 1;
const OTHER: u16 = 2;
const MTU: u16 = 1_380;

/// Takes anything; panics when a promise is broken.
pub type Run = fn(&[u8]);

/// Every target by the name of its corpus folder.
pub const TARGETS: [(&str, Run); 9] = [
    ("steering", steering),
    ("handshake", handshake),
    ("ip-header", ip_header),
    ("vnet", vnet),
    ("merge", merge),
    ("mss", clamp),
    ("echo", probe),
    ("unreachable", refusal),
    ("stack", stack),
];

/// This device's key pair.
pub static IDENTITY: LazyLock<Arc<Identity>> = LazyLock::new(|| Arc::new(Identity::new([1; 32])));
/// A peer at rest, whose private key is 2.
static PEER: LazyLock<Mutex<LazyNoise>> = LazyLock::new(|| {
    let key = Identity::new([2; 32]).public_key();
    Mutex::new(LazyNoise::new(IDENTITY.clone(), key, pair_index(OWN, 0)))
});
static STEERING: LazyLock<Steering> = LazyLock::new(|| {
    let other = Target::new(
        Identity::new([3; 32]).public_key(),
        SocketAddr::from(([127, 0, 0, 2], 51_820)),
    );
    Steering::new(OWN, &IDENTITY.public_key(), HashMap::from([(OTHER, other)]))
});

/// Only whole messages are told apart, only to known agents they are passed on, and never twice.
pub fn steering(bytes: &[u8]) {
    let found = classify(bytes);
    if let Some((message, _)) = found {
        assert_eq!(bytes[1..4], [0; 3]);
        let want = match message {
            Message::Initiation => bytes.len() == 148,
            Message::Response => bytes.len() == 92,
            Message::Cookie => bytes.len() == 64,
            Message::Data => bytes.len() >= 32,
        };
        assert!(want, "{message:?} of {} bytes", bytes.len());
    }
    let mut trials = TrialBudget::default();
    let outside = SocketAddr::from(([192, 0, 2, 1], 9));
    match STEERING.decide(bytes, outside, &mut trials, 0) {
        Verdict::Relay(to) => assert!(to == OTHER && found.is_some()),
        Verdict::Mine | Verdict::UnknownAgent | Verdict::BadMac => {}
    }
    let agent = SocketAddr::from(([127, 0, 0, 2], 9));
    assert_eq!(STEERING.decide(bytes, agent, &mut trials, 0), Verdict::Mine);
}

/// No bytes that the peer's key did not seal are authentic, with a right mac1 neither.
pub fn handshake(bytes: &[u8]) {
    let mut stamped = bytes.to_vec();
    if matches!(bytes.len(), 92 | 148) {
        Mac1Key::new(&IDENTITY.public_key()).stamp(&mut stamped);
    }
    let from = SocketAddr::from(([192, 0, 2, 1], 9));
    for datagram in [bytes, &stamped] {
        let mut out = [0u8; HANDSHAKE_MAX];
        IDENTITY.screen(datagram, from, &mut Admission::new(false), 0, &mut out);
        let Ok(mut peer) = PEER.lock() else { return };
        let mut room = vec![0u8; datagram.len().max(HANDSHAKE_MAX)];
        assert_eq!(peer.open(datagram, &mut room), Opened::Refused);
        assert!(!peer.is_needed(), "forged bytes made state");
    }
}

/// What is found lies inside the packet.
pub fn ip_header(bytes: &[u8]) {
    if let Some(found) = ip::transport(bytes) {
        assert!(found.offset <= bytes.len());
        assert!(found.offset >= 20);
    }
    if let Some(len) = ip::total_len(bytes) {
        assert!((20..=bytes.len()).contains(&len));
    }
    assert_eq!(
        ip::source(bytes).is_some(),
        ip::destination(bytes).is_some()
    );
}

/// A header and a packet of the kernel: an error comes before the first packet, and split segments that are
/// merged and split again are the same segments.
pub fn vnet(bytes: &[u8]) {
    let Some(header) = VnetHeader::parse(bytes) else {
        return;
    };
    assert_eq!(header.bytes(), bytes[..VNET]);
    let Some(once) = split_all(&header, &bytes[VNET..]) else {
        return;
    };
    if header.gso_type & 0x7f != GSO_NONE && once.iter().all(|p| p.len() <= usize::from(MTU)) {
        assert_eq!(merged_and_split(&once), sorted(&once));
    }
}

/// Packets from peers, each behind its length (two bytes, little endian): what the kernel gets is what was sent,
/// and no checksum that was wrong is right afterwards.
pub fn merge(bytes: &[u8]) {
    let packets = cut(bytes);
    assert_eq!(merged_and_split(&packets), sorted(&packets));
}

/// A checksum that was right stays right, nothing else changes, and once is enough.
pub fn clamp(bytes: &[u8]) {
    let mut packet = bytes.to_vec();
    let was_valid = is_tcp_valid(&packet);
    if mss::clamp(&mut packet, MTU) {
        assert_eq!(packet.len(), bytes.len());
        let changed = packet.iter().zip(bytes).filter(|(a, b)| a != b).count();
        assert!(changed <= 4, "an MSS and a checksum");
        assert!(!was_valid || is_tcp_valid(&packet));
        assert!(!mss::clamp(&mut packet, MTU));
    } else {
        assert_eq!(packet, bytes);
    }
}

/// Only the very bytes of a probe are one.
pub fn probe(bytes: &[u8]) {
    match echo::parse(bytes) {
        Some(echo::Echo::Request(nonce)) => assert_eq!(echo::request(nonce), bytes),
        Some(echo::Echo::Reply(nonce)) => assert_eq!(echo::reply(nonce), bytes),
        None => {}
    }
}

/// A refusal is a valid packet to the sender, bounded, and never about a refusal.
pub fn refusal(bytes: &[u8]) {
    let Some(p) = unreachable::host_unreachable(bytes) else {
        return;
    };
    assert!(p.len() <= 560);
    assert_eq!(ip::total_len(&p), Some(p.len()));
    assert_eq!(ip::destination(&p), ip::source(bytes));
    assert!(unreachable::host_unreachable(&p).is_none());
}

/// The stack without a TUN takes nothing that opens a connection; watching flows survives anything.
pub fn stack(bytes: &[u8]) {
    if let Arrived::Segment(_) = arrived(bytes) {
        let at = ip::transport(bytes).map_or(0, |found| found.offset);
        assert_ne!(bytes[at + 13] & 0x12, 0x02, "SYN without ACK");
    }
    let flows = InnerFlows::default();
    for way in [Way::In, Way::Out] {
        flows.observe(bytes, way, 1);
    }
}

fn is_tcp_valid(packet: &[u8]) -> bool {
    ip::transport(packet).is_some_and(|found| {
        found.protocol == ip::TCP && checksum::is_transport_valid(packet, found.offset, ip::TCP)
    })
}

fn split_all(header: &VnetHeader, packet: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut packet, mut scratch, mut out) = (packet.to_vec(), vec![0; 65_536], Vec::new());
    let result = split(&mut packet, header, &mut scratch, &mut |p| {
        out.push(p.to_vec());
    });
    assert!(result.is_ok() || out.is_empty());
    result.ok().map(|()| out)
}

struct Written(Vec<Vec<u8>>);

impl PacketSink for Written {
    fn write(&mut self, header: &VnetHeader, parts: &[IoSlice]) {
        let packet: Vec<u8> = parts.iter().flat_map(|p| p.to_vec()).collect();
        if header.gso_type == GSO_NONE {
            return self.0.push(packet);
        }
        let split = split_all(header, &packet);
        assert!(split.is_some(), "a merged packet can't be split");
        self.0.extend(split.unwrap_or_default());
    }
}

fn merged_and_split(packets: &[Vec<u8>]) -> Vec<(Vec<u8>, bool)> {
    let mut merger = Merger::new(MTU);
    let mut written = Written(Vec::new());
    for packet in packets {
        if merger.slot().is_none() {
            merger.flush(&mut written);
        }
        if let Some(slot) = merger.slot() {
            slot[..packet.len()].copy_from_slice(packet);
            merger.push(packet.len(), &mut written);
        }
    }
    merger.flush(&mut written);
    sorted(&written.0)
}

/// Packets in an order of their own, each with whether its IPv4 header is valid. Ids that mean nothing (DF is
/// set, RFC 6864) may change.
fn sorted(packets: &[Vec<u8>]) -> Vec<(Vec<u8>, bool)> {
    let mut all: Vec<(Vec<u8>, bool)> = packets.iter().cloned().map(without_id).collect();
    all.sort();
    all
}

fn without_id(mut p: Vec<u8>) -> (Vec<u8>, bool) {
    let is_v4 = p.len() >= 20 && p[0] == 0x45;
    let is_valid = is_v4 && checksum::fold(checksum::sum(&p[..20])) == 0xffff;
    if is_v4 && p[6] & 0x40 != 0 {
        p[4..6].fill(0);
        p[10..12].fill(0);
    }
    (p, is_valid)
}

/// Packets that fit a slot, each behind its length.
fn cut(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    while let Some((len, rest)) = bytes.split_first_chunk::<2>() {
        let len = usize::from(u16::from_le_bytes(*len) % 1_400).min(rest.len());
        if len > 0 {
            packets.push(rest[..len].to_vec());
        }
        bytes = &rest[len..];
    }
    packets
}

#[cfg(test)]
#[path = "fuzz_targets_test.rs"]
mod tests;
