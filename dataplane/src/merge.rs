//! Gathers decrypted packets and hands runs of one TCP flow to the kernel as one packet (receive offload).
//!
//! Every packet stays in the slot where it was decrypted; a run is written with one vector of slices.
//! The order of packets within one flow never changes; packets of different flows may overtake each other.

use crate::offload::{
    ACK, GSO_TCPV4, GSO_TCPV6, NEEDS_CSUM, PACKET_MAX, PSH, TCP_CHECKSUM, VnetHeader,
};
use crate::{checksum, ip};
use std::io::IoSlice;

/// Packets that may be held before a flush is due.
pub const SLOTS: usize = 64;
/// Flows that may be gathered at the same time.
pub const RUNS: usize = 8;
/// The largest MTU of ordinary links: a peer may send packets longer than our own MTU.
const SLOT_MIN: usize = 1_500;
/// WireGuard's padding (15) and tag (16), and what a decrypting crate may want on top.
const SLOT_EXTRA: usize = 80;
const V4_HEADER: usize = 20;
const V6_HEADER: usize = 40;
const TCP_HEADER_MIN: usize = 20;

/// Takes packets that are done.
pub trait PacketSink {
    /// Writes one packet whose bytes are the concatenation of `parts` (at least one, at most `SLOTS`).
    fn write(&mut self, header: &VnetHeader, parts: &[IoSlice]);
}

/// What makes a packet one that can be merged: plain TCP data without options of IP.
#[derive(Clone, Copy)]
struct Candidate {
    /// Where TCP starts.
    transport: usize,
    /// Where the payload starts.
    payload: usize,
    /// Payload bytes, at least one.
    size: usize,
    sequence: u32,
    is_pushed: bool,
}

/// How a packet relates to the runs that are held.
enum Kind {
    /// Plain TCP data.
    Data(Candidate),
    /// TCP that must not be merged but must not overtake its flow either; `transport` is where it starts.
    Ordered { transport: usize },
    /// Perhaps TCP, of a flow that can't be told.
    Unclear,
    /// Certainly no TCP.
    Other,
}

/// Packets of one flow that will be written as one.
struct Run {
    slots: [u8; SLOTS],
    count: usize,
    head: Candidate,
    /// Payload bytes of all packets.
    total: usize,
    next_sequence: u32,
    next_id: u16,
}

/// Holds at most `SLOTS` packets in at most `RUNS` runs.
pub struct Merger {
    bytes: Vec<u8>,
    slot_size: usize,
    free: Vec<u8>,
    /// The slot that is handed out: neither free nor held.
    pending: Option<u8>,
    runs: Vec<Run>,
    is_merging: bool,
}

impl Merger {
    /// A merger for a tunnel of `mtu` bytes; memory is `SLOTS` times a little more than that.
    pub fn new(mtu: u16) -> Merger {
        let slot_size = (usize::from(mtu).max(SLOT_MIN) + SLOT_EXTRA).next_multiple_of(64);
        Merger {
            bytes: vec![0; slot_size * SLOTS],
            slot_size,
            free: (0..SLOTS as u8).rev().collect(),
            pending: None,
            runs: Vec::with_capacity(RUNS),
            is_merging: true,
        }
    }

    /// A merger that passes every packet on as it is, for receivers without offloads.
    pub fn without_merging(mtu: u16) -> Merger {
        Merger {
            is_merging: false,
            ..Merger::new(mtu)
        }
    }

    /// Bytes of a slot: the longest packet (with padding and tag) that can be received.
    pub fn slot_size(&self) -> usize {
        self.slot_size
    }

    /// A buffer for the next packet, the same one until `push`. None when all are held: flush first.
    pub fn slot(&mut self) -> Option<&mut [u8]> {
        let slot = match self.pending {
            Some(slot) => slot,
            None => self.free.pop()?,
        };
        self.pending = Some(slot);
        let at = usize::from(slot) * self.slot_size;
        Some(&mut self.bytes[at..at + self.slot_size])
    }

    /// Takes the packet of `len` bytes (without padding) at the start of the slot handed out last.
    /// It is written now, or held until `flush`. Lengths that no slot can hold are ignored.
    pub fn push(&mut self, len: usize, sink: &mut dyn PacketSink) {
        let Some(slot) = self.pending else { return };
        if len == 0 || len > self.slot_size {
            return;
        }
        if !self.is_merging {
            return self.pass(slot, len, sink);
        }
        match classify(self.packet(slot, len)) {
            Kind::Data(candidate) => self.push_data(slot, len, candidate, sink),
            Kind::Ordered { transport } => {
                if let Some(run) = self.find_run(slot, transport) {
                    self.close(run, sink);
                }
                self.pass(slot, len, sink);
            }
            Kind::Unclear => {
                self.flush(sink);
                self.pass(slot, len, sink);
            }
            Kind::Other => self.pass(slot, len, sink),
        }
    }

    /// Writes everything that is held, oldest run first.
    pub fn flush(&mut self, sink: &mut dyn PacketSink) {
        while !self.runs.is_empty() {
            self.close(0, sink);
        }
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    fn packet(&self, slot: u8, len: usize) -> &[u8] {
        let at = usize::from(slot) * self.slot_size;
        &self.bytes[at..at + len]
    }

    fn pass(&self, slot: u8, len: usize, sink: &mut dyn PacketSink) {
        sink.write(
            &VnetHeader::default(),
            &[IoSlice::new(self.packet(slot, len))],
        );
    }

    fn push_data(&mut self, slot: u8, len: usize, c: Candidate, sink: &mut dyn PacketSink) {
        let packet = self.packet(slot, len);
        // A merged packet's checksums are computed anew: a corrupt one would become a valid one.
        let is_valid = checksum::is_transport_valid(packet, c.transport, ip::TCP)
            && (c.transport != V4_HEADER
                || checksum::fold(checksum::sum(&packet[..V4_HEADER])) == 0xffff);
        let found = self.find_run(slot, c.transport);
        if let Some(at) = found {
            if is_valid && self.can_join(at, packet, &c) {
                self.pending = None;
                let run = &mut self.runs[at];
                run.append(slot, &c);
                if run.count == SLOTS || c.is_pushed || c.size < run.head.size {
                    self.close(at, sink);
                }
                return;
            }
            self.close(at, sink);
        }
        if !is_valid || c.is_pushed {
            return self.pass(slot, len, sink);
        }
        if self.runs.len() == RUNS {
            self.close(0, sink);
        }
        let packet = self.packet(slot, len);
        let id = u16::from_be_bytes([packet[4], packet[5]]);
        self.pending = None;
        self.runs.push(Run::open(slot, c, id));
    }

    /// The run of the flow that the packet in `slot` belongs to.
    fn find_run(&self, slot: u8, transport: usize) -> Option<usize> {
        let packet = self.packet(slot, self.slot_size);
        self.runs.iter().position(|run| {
            run.head.transport == transport
                && is_same_flow(
                    self.packet(run.slots[0], run.head.payload),
                    packet,
                    transport,
                )
        })
    }

    fn can_join(&self, at: usize, packet: &[u8], c: &Candidate) -> bool {
        let run = &self.runs[at];
        let head = self.packet(run.slots[0], run.head.payload);
        c.payload == run.head.payload
            && c.sequence == run.next_sequence
            && c.size <= run.head.size
            && c.payload + run.total + c.size <= PACKET_MAX
            && has_same_headers(head, packet, c)
            && has_next_id(packet, c, run.next_id)
    }

    /// Writes one run and frees its slots.
    fn close(&mut self, at: usize, sink: &mut dyn PacketSink) {
        let run = self.runs.remove(at);
        let slots = &run.slots[..run.count];
        let first = usize::from(slots[0]) * self.slot_size;
        let header = if run.count == 1 {
            VnetHeader::default()
        } else {
            let last = usize::from(slots[run.count - 1]) * self.slot_size;
            let is_pushed = self.bytes[last + run.head.transport + 13] & PSH != 0;
            run.finish_head(&mut self.bytes[first..first + run.head.payload], is_pushed)
        };
        let mut parts = [IoSlice::new(&[]); SLOTS];
        let mut left = run.total;
        for (part, slot) in parts.iter_mut().zip(slots) {
            let start = usize::from(*slot) * self.slot_size;
            let size = left.min(run.head.size);
            let payload = start + run.head.payload;
            let from = if start == first { start } else { payload };
            *part = IoSlice::new(&self.bytes[from..payload + size]);
            left -= size;
        }
        sink.write(&header, &parts[..run.count]);
        self.free.extend(slots.iter().rev());
    }
}

impl Run {
    fn open(slot: u8, head: Candidate, id: u16) -> Run {
        let mut slots = [0; SLOTS];
        slots[0] = slot;
        Run {
            slots,
            count: 1,
            head,
            total: head.size,
            next_sequence: head.sequence.wrapping_add(head.size as u32),
            next_id: id.wrapping_add(1),
        }
    }

    fn append(&mut self, slot: u8, c: &Candidate) {
        self.slots[self.count] = slot;
        self.count += 1;
        self.total += c.size;
        self.next_sequence = c.sequence.wrapping_add(c.size as u32);
        self.next_id = self.next_id.wrapping_add(1);
    }

    /// Turns the first packet's headers into those of the merged packet.
    fn finish_head(&self, head: &mut [u8], is_pushed: bool) -> VnetHeader {
        let Candidate {
            transport,
            payload,
            size,
            ..
        } = self.head;
        let is_v4 = transport == V4_HEADER;
        let len = payload + self.total;
        if is_v4 {
            head[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            checksum::store(head, 10, 0);
            let value = !checksum::fold(checksum::sum(&head[..V4_HEADER]));
            checksum::store(head, 10, value);
        } else {
            head[4..6].copy_from_slice(&((len - V6_HEADER) as u16).to_be_bytes());
        }
        if is_pushed {
            head[transport + 13] |= PSH;
        }
        let partial = checksum::fold(checksum::pseudo_header(head, ip::TCP, len - transport));
        checksum::store(head, transport + TCP_CHECKSUM, partial);
        VnetHeader {
            flags: NEEDS_CSUM,
            gso_type: if is_v4 { GSO_TCPV4 } else { GSO_TCPV6 },
            hdr_len: payload as u16,
            gso_size: size as u16,
            csum_start: transport as u16,
            csum_offset: TCP_CHECKSUM as u16,
        }
    }
}

fn classify(p: &[u8]) -> Kind {
    let transport = match p.first() {
        Some(0x45) if p.len() >= V4_HEADER => V4_HEADER,
        Some(b) if b >> 4 == 6 && p.len() >= V6_HEADER => V6_HEADER,
        _ => return Kind::Unclear,
    };
    let protocol = if transport == V4_HEADER { p[9] } else { p[6] };
    match protocol {
        ip::TCP => {}
        // Extension headers of IPv6 may lead to TCP (RFC 8200: 0, 43, 44, 60).
        0 | 43 | 44 | 60 if transport == V6_HEADER => return Kind::Unclear,
        _ => return Kind::Other,
    }
    // The reserved bit and DF may be set, MF and an offset make a fragment.
    if transport == V4_HEADER && (p[6] & 0x3f != 0 || p[7] != 0) {
        return Kind::Unclear;
    }
    if p.len() < transport + TCP_HEADER_MIN {
        return Kind::Unclear;
    }
    let payload = transport + usize::from(p[transport + 12] >> 4) * 4;
    let flags = p[transport + 13];
    let is_plain = payload >= transport + TCP_HEADER_MIN
        && payload < p.len()
        && flags & !PSH == ACK
        && ip::total_len(p) == Some(p.len());
    if !is_plain {
        return Kind::Ordered { transport };
    }
    let s = &p[transport + 4..transport + 8];
    Kind::Data(Candidate {
        transport,
        payload,
        size: p.len() - payload,
        sequence: u32::from_be_bytes([s[0], s[1], s[2], s[3]]),
        is_pushed: flags & PSH != 0,
    })
}

/// Same addresses and ports; both packets hold at least a TCP header at `transport`.
fn is_same_flow(a: &[u8], b: &[u8], transport: usize) -> bool {
    let addresses = if transport == V4_HEADER {
        12..20
    } else {
        8..40
    };
    a[addresses.clone()] == b[addresses]
        && a[transport..transport + 4] == b[transport..transport + 4]
}

/// Same headers but for length, id, sequence, PSH and checksums.
fn has_same_headers(a: &[u8], b: &[u8], c: &Candidate) -> bool {
    let t = c.transport;
    let is_ip_same = if t == V4_HEADER {
        a[1] == b[1] && a[6..10] == b[6..10]
    } else {
        a[..4] == b[..4] && a[6..8] == b[6..8]
    };
    is_ip_same
        && a[t + 8..t + 13] == b[t + 8..t + 13]
        && a[t + 14..t + 16] == b[t + 14..t + 16]
        && a[t + 18..c.payload] == b[t + 18..c.payload]
}

/// Whether splitting again would give this packet its id back. With DF set the id means nothing (RFC 6864).
fn has_next_id(packet: &[u8], c: &Candidate, next: u16) -> bool {
    c.transport != V4_HEADER
        || packet[6] & 0x40 != 0
        || u16::from_be_bytes([packet[4], packet[5]]) == next
}
