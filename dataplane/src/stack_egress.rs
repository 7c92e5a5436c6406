//! From the stack to the engine; gathers what the stack can't send as super packets by itself.

use crate::ip;
use crate::merge::{Merger, PacketSink};
use crate::offload::{VNET, VnetHeader};
use crate::outbound::{Buffers, forward};
use crate::shared::Shared;
use std::io::IoSlice;

/// The way out for all packets of a stack.
pub struct Egress<'a> {
    merger: Option<Merger>,
    wire: Wire<'a>,
}

/// Hands packets to the engine.
struct Wire<'a> {
    shared: &'a Shared,
    buffers: Buffers,
    packet: Vec<u8>,
}

impl<'a> Egress<'a> {
    /// Nothing is gathered yet.
    pub fn new(shared: &'a Shared) -> Egress<'a> {
        Egress {
            merger: shared.offload.then(|| Merger::new(shared.mtu)),
            wire: Wire {
                shared,
                buffers: Buffers::new(),
                packet: Vec::new(),
            },
        }
    }

    /// Takes a packet with its virtio-net header in front; it may leave only with `flush`.
    pub fn send(&mut self, bytes: &mut [u8]) {
        let packet = bytes.get(VNET..).unwrap_or(&[]);
        if ip::version(packet) == Some(6)
            && let Some(merger) = &mut self.merger
        {
            if merger.slot().is_none() {
                merger.flush(&mut self.wire);
            }
            if let Some(room) = merger.slot().and_then(|s| s.get_mut(..packet.len())) {
                room.copy_from_slice(packet);
                return merger.push(packet.len(), &mut self.wire);
            }
        }
        forward(self.wire.shared, bytes, &mut self.wire.buffers);
    }

    /// Sends what was gathered.
    pub fn flush(&mut self) {
        if let Some(merger) = &mut self.merger {
            merger.flush(&mut self.wire);
        }
    }
}

impl PacketSink for Wire<'_> {
    fn write(&mut self, header: &VnetHeader, parts: &[IoSlice]) {
        self.packet.clear();
        self.packet.extend_from_slice(&header.bytes());
        for part in parts {
            self.packet.extend_from_slice(part);
        }
        forward(self.shared, &mut self.packet, &mut self.buffers);
    }
}
