//! smoltcp's network device: one packet in, packets out as super packets that the engine cuts and seals.

use crate::offload::{GSO_TCPV4, TCP_CHECKSUM, VNET, VnetHeader};
use crate::{checksum, ip};
use smoltcp::phy::{
    Checksum, ChecksumCapabilities, Device, DeviceCapabilities, Medium, PacketMeta, RxToken,
    SegmentationCapabilities, TxToken,
};
use smoltcp::time::Instant;
use std::num::NonZeroUsize;

/// Takes a packet with its virtio-net header in front; may change the bytes.
pub type Send<'a> = dyn FnMut(&mut [u8]) + 'a;

const V4_HEADERS: usize = 40;
/// What one UDP send with segmentation may carry (see `udp`), and what sealing adds to each segment.
const SEGMENTS_MAX: usize = 64;
const SEND_MAX: usize = 65_507;
const SEAL: usize = 48;
/// Bytes of the buffer that packets are made in.
pub const BUFFER: usize = VNET + 65_536;

/// What smoltcp may expect of the link. Checksums are made by `consume` or by whoever cuts the super packet,
/// and were checked before packets come here.
pub fn capabilities(mtu: u16, has_offload: bool) -> DeviceCapabilities {
    let mtu = usize::from(mtu);
    let mut caps = DeviceCapabilities::default();
    caps.medium = Medium::Ip;
    caps.max_transmission_unit = mtu;
    let mut checksums = ChecksumCapabilities::ignored();
    checksums.ipv4 = Checksum::Tx;
    caps.checksum = checksums;
    if has_offload {
        let segments = SEGMENTS_MAX.min(SEND_MAX / (mtu + SEAL));
        let payload = segments * mtu.saturating_sub(V4_HEADERS);
        let mut segmentation = SegmentationCapabilities::default();
        segmentation.tcpv4 = NonZeroUsize::new(V4_HEADERS + payload);
        // Not tcpv6: smoltcp 0.14 drops IPv6 super packets in `dispatch_ip` (it takes them for ones to be
        // fragmented), and the stream stalls. `stack_egress` gathers IPv6 instead.
        caps.segmentation = segmentation;
    }
    caps
}

/// The link during one poll.
pub struct Link<'a> {
    pub incoming: Option<&'a [u8]>,
    /// `BUFFER` bytes.
    pub buffer: &'a mut [u8],
    pub capabilities: &'a DeviceCapabilities,
    pub send: &'a mut Send<'a>,
}

/// A packet for smoltcp.
pub struct Incoming<'t>(&'t [u8]);

/// Room for a packet of smoltcp's.
pub struct Outgoing<'t> {
    buffer: &'t mut [u8],
    send: &'t mut dyn FnMut(&mut [u8]),
    meta: PacketMeta,
}

impl Device for Link<'_> {
    type RxToken<'t>
        = Incoming<'t>
    where
        Self: 't;
    type TxToken<'t>
        = Outgoing<'t>
    where
        Self: 't;

    fn receive(&mut self, now: Instant) -> Option<(Incoming<'_>, Outgoing<'_>)> {
        let incoming = Incoming(self.incoming.take()?);
        self.transmit(now).map(|outgoing| (incoming, outgoing))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Outgoing<'_>> {
        Some(Outgoing {
            buffer: self.buffer,
            send: self.send,
            meta: PacketMeta::default(),
        })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        self.capabilities.clone()
    }
}

impl RxToken for Incoming<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

impl TxToken for Outgoing<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let bytes = &mut self.buffer[..VNET + len];
        let result = f(&mut bytes[VNET..]);
        let header = match self.meta.segmentation_offload_size {
            Some(size) => VnetHeader {
                gso_type: GSO_TCPV4,
                gso_size: size.get(),
                ..VnetHeader::default()
            },
            None => {
                finish(&mut bytes[VNET..]);
                VnetHeader::default()
            }
        };
        bytes[..VNET].copy_from_slice(&header.bytes());
        (self.send)(bytes);
        result
    }

    fn set_meta(&mut self, meta: PacketMeta) {
        self.meta = meta;
    }
}

/// Writes the TCP checksum of a packet that smoltcp made, which has no IP options.
fn finish(packet: &mut [u8]) {
    let transport = match ip::version(packet) {
        Some(4) => 20,
        _ => 40,
    };
    if ip::transport(packet).is_none_or(|t| t.protocol != ip::TCP) {
        return;
    }
    checksum::store(packet, transport + TCP_CHECKSUM, 0);
    let Some(segment) = packet.get(transport..) else {
        return;
    };
    let total = checksum::pseudo_header(packet, ip::TCP, segment.len()) + checksum::sum(segment);
    checksum::store(packet, transport + TCP_CHECKSUM, !checksum::fold(total));
}
