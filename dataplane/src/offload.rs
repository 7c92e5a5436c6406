//! The virtio-net header of TUN packets (virtio 1.2, section 5.1.6) and the splitting of what it announces.

use crate::{checksum, ip};
use std::fmt;

/// Bytes of a virtio-net header on a TUN device.
pub const VNET: usize = 10;
/// Flag: the transport checksum holds only the pseudo header's sum.
pub const NEEDS_CSUM: u8 = 1;
/// One packet, nothing to split.
pub const GSO_NONE: u8 = 0;
/// TCP over IPv4, to be cut into segments of `gso_size`.
pub const GSO_TCPV4: u8 = 1;
/// TCP over IPv6, to be cut into segments of `gso_size`.
pub const GSO_TCPV6: u8 = 4;
/// UDP, to be cut into datagrams of `gso_size`.
pub const GSO_UDP_L4: u8 = 5;
/// Modifier: the first segment carries CWR.
pub const GSO_ECN: u8 = 0x80;

/// TCP flags, byte 13 of its header.
pub(crate) const FIN: u8 = 0x01;
pub(crate) const PSH: u8 = 0x08;
pub(crate) const ACK: u8 = 0x10;
const CWR: u8 = 0x80;
/// Where TCP and UDP keep their checksum.
pub(crate) const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;
const IP_CHECKSUM: usize = 10;
const UDP_HEADER: usize = 8;
const TCP_HEADER_MIN: usize = 20;
const V4_HEADER: usize = 20;
const V6_HEADER: usize = 40;
/// The longest packet that an IP length field can name (IPv6: of its payload, so a little less than allowed).
pub(crate) const PACKET_MAX: usize = 65_535;

/// What the kernel says about a packet that it hands over, and what we say about one that we hand back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VnetHeader {
    /// `NEEDS_CSUM`, or 0.
    pub flags: u8,
    /// One of the `GSO_` constants, perhaps with `GSO_ECN`.
    pub gso_type: u8,
    /// Bytes of all headers; from the kernel a hint only.
    pub hdr_len: u16,
    /// Payload bytes of each segment but the last.
    pub gso_size: u16,
    /// Where checksumming starts, from the packet's start.
    pub csum_start: u16,
    /// Where the checksum is, from `csum_start`.
    pub csum_offset: u16,
}

impl VnetHeader {
    /// Reads the header in front of a packet; None when there are fewer than ten bytes.
    pub fn parse(bytes: &[u8]) -> Option<VnetHeader> {
        let b: &[u8; VNET] = bytes.first_chunk()?;
        let word = |at: usize| u16::from_ne_bytes([b[at], b[at + 1]]);
        Some(VnetHeader {
            flags: b[0],
            gso_type: b[1],
            hdr_len: word(2),
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        })
    }

    /// The ten bytes that go in front of a packet.
    pub fn bytes(&self) -> [u8; VNET] {
        let [l0, l1] = self.hdr_len.to_ne_bytes();
        let [g0, g1] = self.gso_size.to_ne_bytes();
        let [s0, s1] = self.csum_start.to_ne_bytes();
        let [o0, o1] = self.csum_offset.to_ne_bytes();
        [self.flags, self.gso_type, l0, l1, g0, g1, s0, s1, o0, o1]
    }
}

/// Why a packet can't be split. Nothing of it has been emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitError {
    /// Neither IPv4 nor IPv6, or shorter than its own headers.
    Malformed,
    /// The checksum to finish lies outside the packet or inside its IP header.
    ChecksumRange,
    /// A GSO type that was never asked for, or one that contradicts the packet.
    GsoType(u8),
    /// `gso_size` is zero.
    GsoSizeZero,
    /// `hdr_len` or the transport header ends behind the packet.
    HeaderTooLong,
    /// A segment would not fit `scratch` or an IP length field.
    SegmentTooLong,
}

impl fmt::Display for SplitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SplitError::Malformed => f.write_str("packet from the TUN device is not IP"),
            SplitError::ChecksumRange => f.write_str("checksum to finish is outside the packet"),
            SplitError::GsoType(kind) => write!(f, "GSO type {kind:#x} does not fit the packet"),
            SplitError::GsoSizeZero => f.write_str("GSO size is zero"),
            SplitError::HeaderTooLong => f.write_str("headers are longer than the packet"),
            SplitError::SegmentTooLong => f.write_str("segment is longer than its buffer"),
        }
    }
}

impl std::error::Error for SplitError {}

/// What every segment of one super packet shares.
struct Plan {
    protocol: u8,
    /// Where the transport header starts.
    transport: usize,
    /// Where the payload starts.
    payload: usize,
    /// Payload bytes of each segment but the last.
    size: usize,
}

/// Calls `emit` once for each packet that `packet` stands for, in order, each with right lengths and checksums.
///
/// `scratch` must hold one segment. `packet` loses its unfinished checksum. An error is found before the first
/// call of `emit`, so nothing is emitted then.
pub fn split(
    packet: &mut [u8],
    h: &VnetHeader,
    scratch: &mut [u8],
    emit: &mut dyn FnMut(&mut [u8]),
) -> Result<(), SplitError> {
    if ip::destination(packet).is_none() {
        return Err(SplitError::Malformed);
    }
    if usize::from(h.hdr_len) > packet.len() {
        return Err(SplitError::HeaderTooLong);
    }
    if h.gso_type & !GSO_ECN == GSO_NONE {
        if h.flags & NEEDS_CSUM != 0 {
            finish_checksum(packet, h)?;
        }
        emit(packet);
        return Ok(());
    }
    let plan = plan(packet, h, scratch.len())?;
    segments(packet, &plan, scratch, emit);
    Ok(())
}

/// Completes the checksum that the kernel left to its "hardware".
fn finish_checksum(packet: &mut [u8], h: &VnetHeader) -> Result<(), SplitError> {
    let start = usize::from(h.csum_start);
    let offset = usize::from(h.csum_offset);
    let least = match ip::version(packet) {
        Some(4) => (usize::from(packet[0] & 0x0f) * 4).max(V4_HEADER),
        _ => V6_HEADER,
    };
    if start < least || start + offset + 2 > packet.len() {
        return Err(SplitError::ChecksumRange);
    }
    let mut value = !checksum::fold(checksum::sum(&packet[start..]));
    if value == 0 && offset == UDP_CHECKSUM {
        value = 0xffff; // RFC 768: a zero would mean that there is none.
    }
    checksum::store(packet, start + offset, value);
    Ok(())
}

/// Checks everything that `segments` relies on.
fn plan(packet: &[u8], h: &VnetHeader, room: usize) -> Result<Plan, SplitError> {
    let size = usize::from(h.gso_size);
    if size == 0 {
        return Err(SplitError::GsoSizeZero);
    }
    let found = ip::transport(packet).ok_or(SplitError::Malformed)?;
    let expected = match (h.gso_type & !GSO_ECN, ip::version(packet)) {
        (GSO_TCPV4, Some(4)) | (GSO_TCPV6, Some(6)) => ip::TCP,
        (GSO_UDP_L4, _) => ip::UDP,
        _ => return Err(SplitError::GsoType(h.gso_type)),
    };
    if found.protocol != expected || found.fragment {
        return Err(SplitError::GsoType(h.gso_type));
    }
    let transport = found.offset;
    if h.flags & NEEDS_CSUM != 0 && usize::from(h.csum_start) != transport {
        return Err(SplitError::ChecksumRange);
    }
    let header = if expected == ip::UDP {
        UDP_HEADER
    } else {
        let offset = packet
            .get(transport + 12)
            .ok_or(SplitError::HeaderTooLong)?;
        usize::from(offset >> 4) * 4
    };
    if expected == ip::TCP && header < TCP_HEADER_MIN {
        return Err(SplitError::Malformed);
    }
    let payload = transport + header;
    if payload > packet.len() {
        return Err(SplitError::HeaderTooLong);
    }
    let longest = payload + size.min(packet.len() - payload);
    if longest > room || longest > PACKET_MAX {
        return Err(SplitError::SegmentTooLong);
    }
    Ok(Plan {
        protocol: expected,
        transport,
        payload,
        size,
    })
}

/// Cuts a checked super packet.
fn segments(packet: &[u8], plan: &Plan, scratch: &mut [u8], emit: &mut dyn FnMut(&mut [u8])) {
    let (headers, data) = packet.split_at(plan.payload);
    let is_v4 = packet[0] >> 4 == 4;
    let first_id = u16::from_be_bytes([packet[4], packet[5]]);
    let mut at = 0;
    let mut count = 0u16;
    loop {
        let n = plan.size.min(data.len() - at);
        let segment = &mut scratch[..plan.payload + n];
        segment[..plan.payload].copy_from_slice(headers);
        segment[plan.payload..].copy_from_slice(&data[at..at + n]);
        if is_v4 {
            finish_v4(segment, first_id.wrapping_add(count), plan.transport);
        } else {
            let len = (segment.len() - V6_HEADER) as u16;
            segment[4..6].copy_from_slice(&len.to_be_bytes());
        }
        let is_last = at + n == data.len();
        if plan.protocol == ip::TCP {
            finish_tcp(segment, plan.transport, at as u32, is_last);
        } else {
            finish_udp(segment, plan.transport);
        }
        emit(segment);
        at += n;
        count = count.wrapping_add(1);
        if is_last {
            return;
        }
    }
}

fn finish_v4(segment: &mut [u8], id: u16, header_len: usize) {
    let len = segment.len() as u16;
    segment[2..4].copy_from_slice(&len.to_be_bytes());
    segment[4..6].copy_from_slice(&id.to_be_bytes());
    checksum::store(segment, IP_CHECKSUM, 0);
    let value = !checksum::fold(checksum::sum(&segment[..header_len]));
    checksum::store(segment, IP_CHECKSUM, value);
}

/// Sets sequence, flags and checksum of the segment whose payload starts `at` bytes behind the first one's.
fn finish_tcp(segment: &mut [u8], transport: usize, at: u32, is_last: bool) {
    let tcp = &mut segment[transport..];
    let first = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
    tcp[4..8].copy_from_slice(&first.wrapping_add(at).to_be_bytes());
    if !is_last {
        tcp[13] &= !(FIN | PSH);
    }
    if at != 0 {
        tcp[13] &= !CWR; // RFC 3168: one CWR answers one echo.
    }
    store_transport(segment, transport, TCP_CHECKSUM, ip::TCP);
}

fn finish_udp(segment: &mut [u8], transport: usize) {
    let len = (segment.len() - transport) as u16;
    segment[transport + 4..transport + 6].copy_from_slice(&len.to_be_bytes());
    store_transport(segment, transport, UDP_CHECKSUM, ip::UDP);
}

fn store_transport(segment: &mut [u8], transport: usize, offset: usize, protocol: u8) {
    let at = transport + offset;
    checksum::store(segment, at, 0);
    let body = &segment[transport..];
    let total = checksum::pseudo_header(segment, protocol, body.len()) + checksum::sum(body);
    let mut value = !checksum::fold(total);
    if value == 0 && protocol == ip::UDP {
        value = 0xffff;
    }
    checksum::store(segment, at, value);
}
