//! Which TCP connections are open inside the tunnel to one peer, so that only those keep a path alive.

use crate::ip;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Connections remembered per peer; more than these are not told apart, which only means keepalives.
const FLOWS_MAX: usize = 1024;
/// Room that is kept when no connection is left.
const FEW: usize = 64;
/// Milliseconds without inner traffic to the peer after which its connections are forgotten.
pub const OPEN_IDLE_MS: u64 = 2 * 3_600_000;
/// Milliseconds that a connection closed by one side only is remembered.
const HALF_CLOSED_MS: u64 = 300_000;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;

/// Addresses and ports with the tunnel's far end second.
type Tuple = (IpAddr, u16, IpAddr, u16);

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Out,
    In,
}

#[derive(Clone, Copy)]
struct State {
    closed_out: bool,
    closed_in: bool,
    seen_ms: u64,
}

/// The open connections to one peer.
#[derive(Default)]
pub struct InnerFlows {
    count: AtomicUsize,
    open: Mutex<HashMap<Tuple, State>>,
}

/// Where TCP starts, for packets without IPv6 extension headers that are no later fragment.
fn tcp(packet: &[u8]) -> Option<(usize, usize)> {
    let (start, protocol) = match ip::version(packet)? {
        4 if packet.len() >= 20 && (u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff) == 0 => {
            (usize::from(packet[0] & 15) * 4, packet[9])
        }
        6 if packet.len() >= 40 => (40, packet[6]),
        _ => return None,
    };
    let header = packet.get(start..start + 20)?;
    (protocol == 6).then_some((start, start + usize::from(header[12] >> 4) * 4))
}

impl InnerFlows {
    /// Looks at one packet; cheap for anything but the first and last ones of a connection.
    pub fn observe(&self, packet: &[u8], way: Way, now_ms: u64) {
        let Some((start, payload)) = tcp(packet) else {
            return;
        };
        let flags = packet[start + 13];
        let is_edge = flags & (SYN | FIN | RST) != 0;
        // A connection older than this device shows itself only by data.
        let is_unseen_data = self.count.load(Relaxed) == 0 && packet.len() > payload;
        if is_edge || is_unseen_data {
            self.note(packet, start, flags, way, now_ms);
        }
    }

    fn note(&self, packet: &[u8], start: usize, flags: u8, way: Way, now_ms: u64) {
        let (Some(source), Some(destination)) = (ip::source(packet), ip::destination(packet))
        else {
            return;
        };
        let from = u16::from_be_bytes([packet[start], packet[start + 1]]);
        let to = u16::from_be_bytes([packet[start + 2], packet[start + 3]]);
        let tuple = match way {
            Way::Out => (source, from, destination, to),
            Way::In => (destination, to, source, from),
        };
        let mut open = self.open.lock();
        if flags & RST != 0 {
            open.remove(&tuple);
        } else if flags & FIN != 0 {
            if let Some(state) = open.get_mut(&tuple) {
                state.seen_ms = now_ms;
                match way {
                    Way::Out => state.closed_out = true,
                    Way::In => state.closed_in = true,
                }
                if state.closed_out && state.closed_in {
                    open.remove(&tuple);
                }
            }
        } else if open.len() < FLOWS_MAX || open.contains_key(&tuple) {
            open.insert(
                tuple,
                State {
                    closed_out: false,
                    closed_in: false,
                    seen_ms: now_ms,
                },
            );
        }
        if open.is_empty() && open.capacity() > FEW {
            open.shrink_to_fit();
        }
        self.count.store(open.len(), Relaxed);
    }

    /// Whether a connection is open; forgets half-closed ones that are old, and all when
    /// nothing was exchanged since `traffic_ms` for long.
    pub fn is_any_open(&self, traffic_ms: u64, now_ms: u64) -> bool {
        if self.count.load(Relaxed) == 0 {
            return false;
        }
        let mut open = self.open.lock();
        if now_ms.saturating_sub(traffic_ms) >= OPEN_IDLE_MS {
            open.clear();
        }
        open.retain(|_, s| {
            !(s.closed_in || s.closed_out) || now_ms.saturating_sub(s.seen_ms) < HALF_CLOSED_MS
        });
        if open.is_empty() {
            open.shrink_to_fit();
        }
        self.count.store(open.len(), Relaxed);
        !open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A TCP packet from 10.0.0.1:`port` to 10.0.0.2:443, or back.
    fn packet(way: Way, port: u16, flags: u8, payload: usize) -> Vec<u8> {
        let mut p = vec![0u8; 40 + payload];
        p[0] = 0x45;
        p[9] = 6;
        let (a, b) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let (from, to, from_port, to_port) = if way == Way::Out {
            (a, b, port, 443u16)
        } else {
            (b, a, 443, port)
        };
        p[12..16].copy_from_slice(&from);
        p[16..20].copy_from_slice(&to);
        p[20..22].copy_from_slice(&from_port.to_be_bytes());
        p[22..24].copy_from_slice(&to_port.to_be_bytes());
        p[32] = 0x50;
        p[33] = flags;
        p
    }

    const ACK: u8 = 0x10;

    #[test]
    fn a_connection_is_open_from_its_syn_to_the_second_fin() {
        let flows = InnerFlows::default();
        let see = |way, flags| {
            flows.observe(&packet(way, 1000, flags, 0), way, 5);
            flows.is_any_open(5, 6)
        };
        assert!(see(Way::Out, SYN));
        assert!(see(Way::In, SYN | ACK));
        assert!(see(Way::Out, FIN | ACK));
        assert!(!see(Way::In, FIN | ACK));
        assert!(
            !see(Way::Out, ACK),
            "the last acknowledgement opens nothing"
        );
    }

    #[test]
    fn a_reset_from_either_side_closes() {
        for way in [Way::Out, Way::In] {
            let flows = InnerFlows::default();
            flows.observe(&packet(Way::Out, 1000, SYN, 0), Way::Out, 1);
            flows.observe(&packet(way, 1000, RST, 0), way, 2);
            assert!(!flows.is_any_open(2, 3));
        }
    }

    #[test]
    fn data_of_a_connection_older_than_the_device_counts_as_open() {
        let flows = InnerFlows::default();
        flows.observe(&packet(Way::In, 1000, ACK, 10), Way::In, 1);
        assert!(flows.is_any_open(1, 2));
    }

    #[test]
    fn forgotten_after_two_idle_hours_and_half_closed_after_five_minutes() {
        let flows = InnerFlows::default();
        flows.observe(&packet(Way::Out, 1000, SYN, 0), Way::Out, 1);
        assert!(flows.is_any_open(1, OPEN_IDLE_MS));
        assert!(!flows.is_any_open(1, OPEN_IDLE_MS + 1));
        flows.observe(&packet(Way::Out, 1000, SYN, 0), Way::Out, 1);
        flows.observe(&packet(Way::Out, 1000, FIN, 0), Way::Out, 1);
        assert!(flows.is_any_open(1, HALF_CLOSED_MS));
        assert!(!flows.is_any_open(HALF_CLOSED_MS, HALF_CLOSED_MS + 1));
    }

    #[test]
    fn a_flood_of_syns_stays_bounded() {
        let flows = InnerFlows::default();
        for port in 0..u16::MAX {
            flows.observe(&packet(Way::Out, port, SYN, 0), Way::Out, 1);
        }
        assert_eq!(flows.open.lock().len(), FLOWS_MAX);
    }

    proptest! {
        #[test]
        fn any_bytes_are_harmless(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let flows = InnerFlows::default();
            flows.observe(&bytes, Way::In, 1);
            flows.is_any_open(1, 2);
        }
    }
}
