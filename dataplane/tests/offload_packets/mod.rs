//! Builds packets and super packets for the offload tests, and records what a merger writes.

#![allow(dead_code)] // Each test file uses its part.

use std::io::IoSlice;
use xylem_dataplane::checksum;
use xylem_dataplane::merge::PacketSink;
use xylem_dataplane::offload::{
    GSO_NONE, GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, NEEDS_CSUM, SplitError, VnetHeader, split,
};

const TCP: u8 = 6;
const UDP: u8 = 17;
/// TCP header with a timestamp option.
pub const TCP_HEADER: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    pub fn header(self) -> usize {
        match self {
            Family::V4 => 20,
            Family::V6 => 40,
        }
    }
}

/// A sender of one TCP flow.
pub struct Flow {
    family: Family,
    port: u16,
    sequence: u32,
    id: u16,
    fill: u8,
}

impl Flow {
    /// Starts close to where sequence numbers and ids wrap.
    pub fn new(family: Family, port: u16) -> Flow {
        Flow {
            family,
            port,
            sequence: u32::MAX - 2_000,
            id: u16::MAX - 3,
            fill: 0,
        }
    }

    /// Leaves a hole in the sequence.
    pub fn skip(&mut self, bytes: u32) {
        self.sequence = self.sequence.wrapping_add(bytes);
    }

    /// The next packet, with right checksums.
    pub fn packet(&mut self, payload: usize, flags: u8) -> Vec<u8> {
        let l4 = self.family.header();
        let mut p = ip_header(self.family, TCP, TCP_HEADER + payload, self.id);
        p[l4..l4 + 2].copy_from_slice(&self.port.to_be_bytes());
        p[l4 + 2..l4 + 4].copy_from_slice(&443u16.to_be_bytes());
        p[l4 + 4..l4 + 8].copy_from_slice(&self.sequence.to_be_bytes());
        p[l4 + 8..l4 + 12].copy_from_slice(&77u32.to_be_bytes());
        p[l4 + 12] = (TCP_HEADER as u8 / 4) << 4;
        p[l4 + 13] = flags;
        p[l4 + 14..l4 + 16].copy_from_slice(&501u16.to_be_bytes());
        p[l4 + 20..l4 + 32].copy_from_slice(&[1, 1, 8, 10, 0, 0, 1, 2, 0, 0, 3, 4]);
        self.fill = self.fill.wrapping_add(1);
        fill(&mut p[l4 + TCP_HEADER..], self.fill);
        self.sequence = self.sequence.wrapping_add(payload as u32);
        self.id = self.id.wrapping_add(1);
        finish(&mut p);
        p
    }

    /// One super packet as the kernel hands it over: checksum left at the pseudo header's sum.
    pub fn super_packet(
        &mut self,
        payload: usize,
        gso_size: u16,
        flags: u8,
    ) -> (VnetHeader, Vec<u8>) {
        let mut p = self.packet(payload, flags);
        let l4 = self.family.header();
        let gso_type = if self.family == Family::V4 {
            GSO_TCPV4
        } else {
            GSO_TCPV6
        };
        leave_partial(&mut p, l4, TCP, 16);
        let header = VnetHeader {
            flags: NEEDS_CSUM,
            gso_type,
            hdr_len: (l4 + TCP_HEADER) as u16,
            gso_size,
            csum_start: l4 as u16,
            csum_offset: 16,
        };
        (header, p)
    }
}

/// A UDP packet; with `gso_size` a super packet of many datagrams, checksum unfinished either way.
pub fn udp_packet(family: Family, payload: usize, gso_size: u16) -> (VnetHeader, Vec<u8>) {
    let l4 = family.header();
    let mut p = ip_header(family, UDP, 8 + payload, 9);
    p[l4..l4 + 4].copy_from_slice(&[0x12, 0x34, 0, 53]);
    let len = (8 + payload) as u16;
    p[l4 + 4..l4 + 6].copy_from_slice(&len.to_be_bytes());
    fill(&mut p[l4 + 8..], 3);
    leave_partial(&mut p, l4, UDP, 6);
    let header = VnetHeader {
        flags: NEEDS_CSUM,
        gso_type: if gso_size == 0 { GSO_NONE } else { GSO_UDP_L4 },
        hdr_len: (l4 + 8) as u16,
        gso_size,
        csum_start: l4 as u16,
        csum_offset: 6,
    };
    (header, p)
}

/// Makes every checksum of a TCP packet right again.
pub fn finish(p: &mut [u8]) {
    let l4 = if p[0] >> 4 == 4 { 20 } else { 40 };
    if l4 == 20 {
        checksum::store(p, 10, 0);
        let value = !checksum::fold(checksum::sum(&p[..20]));
        checksum::store(p, 10, value);
    }
    checksum::store(p, l4 + 16, 0);
    let value =
        !checksum::fold(checksum::pseudo_header(p, TCP, p.len() - l4) + checksum::sum(&p[l4..]));
    checksum::store(p, l4 + 16, value);
}

/// Whether IP and transport checksums are right.
pub fn is_valid(p: &[u8]) -> bool {
    let is_v4 = p[0] >> 4 == 4;
    let (l4, protocol) = if is_v4 { (20, p[9]) } else { (40, p[6]) };
    let ip = !is_v4 || checksum::fold(checksum::sum(&p[..20])) == 0xffff;
    ip && checksum::is_transport_valid(p, l4, protocol)
}

/// `split` into owned packets.
pub fn split_all(header: &VnetHeader, packet: &[u8]) -> Result<Vec<Vec<u8>>, SplitError> {
    let mut packet = packet.to_vec();
    let mut scratch = vec![0; 65_536];
    let mut out = Vec::new();
    let result = split(&mut packet, header, &mut scratch, &mut |p| {
        out.push(p.to_vec());
    });
    assert!(
        result.is_ok() || out.is_empty(),
        "an error must come before the first packet"
    );
    result.map(|()| out)
}

/// What a merger wrote.
#[derive(Default)]
pub struct Recorder {
    pub packets: Vec<(VnetHeader, Vec<u8>)>,
    parts: Vec<usize>,
}

impl Recorder {
    /// How many packets each write carried.
    pub fn counts(&self) -> &[usize] {
        &self.parts
    }

    /// What the kernel would make of the writes.
    pub fn split(&self) -> Vec<Vec<u8>> {
        self.packets
            .iter()
            .flat_map(|(h, p)| split_all(h, p).expect("own packets split"))
            .collect()
    }
}

impl PacketSink for Recorder {
    fn write(&mut self, header: &VnetHeader, parts: &[IoSlice]) {
        assert!(!parts.is_empty() && parts.iter().all(|p| !p.is_empty()));
        self.parts.push(parts.len());
        self.packets
            .push((*header, parts.iter().flat_map(|p| p.to_vec()).collect()));
    }
}

fn ip_header(family: Family, protocol: u8, len: usize, id: u16) -> Vec<u8> {
    let mut p = vec![0u8; family.header() + len];
    match family {
        Family::V4 => {
            let total = (20 + len) as u16;
            p[0] = 0x45;
            p[1] = 2; // ECT(0)
            p[2..4].copy_from_slice(&total.to_be_bytes());
            p[4..6].copy_from_slice(&id.to_be_bytes());
            p[8] = 64;
            p[9] = protocol;
            p[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
            let value = !checksum::fold(checksum::sum(&p[..20]));
            checksum::store(&mut p, 10, value);
        }
        Family::V6 => {
            p[0] = 0x60;
            p[1] = 0x20;
            p[4..6].copy_from_slice(&(len as u16).to_be_bytes());
            p[6] = protocol;
            p[7] = 64;
            p[8] = 0xfd;
            p[23] = 1;
            p[24] = 0xfd;
            p[39] = 2;
        }
    }
    p
}

fn leave_partial(p: &mut [u8], l4: usize, protocol: u8, offset: usize) {
    let partial = checksum::fold(checksum::pseudo_header(p, protocol, p.len() - l4));
    checksum::store(p, l4 + offset, partial);
}

fn fill(bytes: &mut [u8], seed: u8) {
    for (i, b) in bytes.iter_mut().enumerate() {
        *b = (i as u8).wrapping_mul(31).wrapping_add(seed);
    }
}
