//! The thread from the TUN to the wire: read, split, clamp, seal, and one send for a whole batch.

use crate::event::Code;
use crate::inner_flows::Way;
use crate::merge::PacketSink;
use crate::noise::{DATA_OVERHEAD, Noise, Sealed};
use crate::offload::{VNET, VnetHeader, split};
use crate::peer::Peer;
use crate::poll::wait_readable;
use crate::shared::Shared;
use crate::tun::Tun;
use crate::unreachable::{AnswerBudget, host_unreachable};
use crate::{ip, mss};
use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// What one UDP send with segmentation may carry: the kernel's limits.
const SEGMENTS_MAX: usize = 64;
const DATAGRAM_MAX: usize = 65_507;
const PACKET_MAX: usize = 65_536;

/// Runs until the device is stopped or its TUN is gone.
pub fn run(shared: &Shared, tun: &Tun) {
    let mut packet = vec![0u8; PACKET_MAX + VNET];
    let mut buffers = Buffers::new();
    while !shared.is_stopped.load(SeqCst) {
        match tun.read(&mut packet) {
            Ok(n) => forward(shared, &mut packet[..n], &mut buffers),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                if let Err(e) = wait_readable([tun.fd(), shared.wake_out.fd()]) {
                    return shared.fail(Code::Io, format!("waiting for the TUN failed: {e}"));
                }
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => {
                let name = tun.name();
                return shared.fail(
                    Code::Io,
                    format!("interface {name} can't be read any more ({e}): was it deleted? Restart to make it anew."),
                );
            }
        }
    }
}

/// What `forward` works with; one for each thread.
pub struct Buffers {
    scratch: Vec<u8>,
    out: Vec<u8>,
    answers: AnswerBudget,
}

impl Buffers {
    /// Room for the longest packet and all that is made of it.
    pub fn new() -> Buffers {
        Buffers {
            scratch: vec![0u8; PACKET_MAX],
            out: vec![0u8; DATAGRAM_MAX + PACKET_MAX + DATA_OVERHEAD],
            answers: AnswerBudget::default(),
        }
    }
}

/// Tells the sender that nobody can take its packet.
fn refuse(shared: &Shared, packet: &[u8], answers: &mut AnswerBudget) {
    if let Some(answer) = host_unreachable(packet)
        && answers.take(shared.now_ms())
    {
        let mut ip_side = &shared.ip_side;
        ip_side.write(&VnetHeader::default(), &[IoSlice::new(&answer)]);
    }
}

/// Sends a packet with its virtio-net header in front to the peer that its destination belongs to.
pub fn forward(shared: &Shared, bytes: &mut [u8], buffers: &mut Buffers) {
    let Some(header) = VnetHeader::parse(bytes) else {
        return shared.counters.drop_malformed.one();
    };
    let packet = &mut bytes[VNET..];
    let Some(destination) = ip::destination(packet) else {
        return shared.counters.drop_malformed.one();
    };
    let table = shared.table.read().clone();
    let Some(peer) = table.routes.find(destination) else {
        shared.counters.drop_no_peer.one();
        return refuse(shared, packet, &mut buffers.answers);
    };
    if peer.place.lock().endpoint.is_none() {
        shared.counters.drop_no_endpoint.one();
        return refuse(shared, packet, &mut buffers.answers);
    }
    let now_ms = shared.now_ms();
    if shared.is_gateway() {
        peer.flows.observe(packet, Way::Out, now_ms);
    }
    let size = packet.len() as u64;
    let mut noise = peer.noise.lock();
    shared.tick(peer, noise.as_mut(), now_ms);
    let mut batch = Batch {
        shared,
        peer,
        out: &mut buffers.out,
        used: 0,
        segment: 0,
        count: 0,
        now_ms,
    };
    let mut packets = 0;
    let result = split(packet, &header, &mut buffers.scratch, &mut |segment| {
        packets += 1;
        batch.add(noise.as_mut(), segment);
    });
    batch.flush();
    drop(noise);
    if result.is_err() {
        return shared.counters.drop_malformed.one();
    }
    peer.tx_bytes.fetch_add(size, Relaxed);
    peer.tx_packets.fetch_add(packets, Relaxed);
    peer.data_ms.store(now_ms, Relaxed);
    shared.note_waiting(peer, now_ms);
}

/// Sealed datagrams of equal size that leave with one send; only the last may be shorter.
struct Batch<'a> {
    shared: &'a Shared,
    peer: &'a Arc<Peer>,
    out: &'a mut [u8],
    used: usize,
    segment: usize,
    count: usize,
    now_ms: u64,
}

impl Batch<'_> {
    fn add(&mut self, noise: &mut dyn Noise, packet: &mut [u8]) {
        if mss::clamp(packet, self.shared.mtu) {
            self.shared.counters.mss_clamped.one();
        }
        let size = packet.len() + DATA_OVERHEAD;
        let is_full = self.count == SEGMENTS_MAX || self.used + size > DATAGRAM_MAX;
        let is_uneven = size > self.segment || self.used != self.segment * self.count;
        if self.count > 0 && (is_full || is_uneven) {
            self.flush();
        }
        match noise.seal(packet, &mut self.out[self.used..]) {
            Sealed::Data(n) => {
                if self.count == 0 {
                    self.segment = n;
                }
                self.used += n;
                self.count += 1;
            }
            sealed @ Sealed::Handshake(_) => {
                let out = &self.out[self.used..];
                self.shared.send_sealed(self.peer, sealed, out, self.now_ms);
            }
            Sealed::Nothing => {}
            Sealed::Full => self.shared.counters.drop_queue.one(),
        }
    }

    fn flush(&mut self) {
        if self.count > 0 {
            let segment = (self.count > 1).then_some(self.segment);
            self.shared
                .send(self.peer, &self.out[..self.used], segment, self.now_ms);
        }
        self.used = 0;
        self.count = 0;
    }
}

#[cfg(test)]
#[path = "outbound_fuzz_test.rs"]
mod fuzz;
