//! What a packet from the tunnel means to the stack: a segment of a connection, or word that one can't be made (RFC 792, RFC 4443).

use crate::ip;
use crate::stack_stream::Tuple;
use std::net::SocketAddr;

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const ICMP_UNREACHABLE: u8 = 3;
/// Code of "fragmentation needed", which is no refusal.
const ICMP_TOO_BIG: u8 = 4;
const ICMPV6_UNREACHABLE: u8 = 1;
const ICMP_HEADER: usize = 8;
const TCP_HEADER_MIN: usize = 20;

/// See the file's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    Segment(Tuple),
    /// Somebody can't pass on a segment of this connection.
    Unreachable(Tuple),
    /// Nothing that was asked for, connections from the other side included.
    Unwanted,
}

/// Reads a packet without padding.
pub fn arrived(packet: &[u8]) -> Arrived {
    let Some(found) = ip::transport(packet).filter(|t| !t.fragment) else {
        return Arrived::Unwanted;
    };
    let Some(body) = packet.get(found.offset..) else {
        return Arrived::Unwanted;
    };
    let is_v4 = ip::version(packet) == Some(4);
    match found.protocol {
        ip::TCP => segment(packet, body),
        ICMP if is_v4 => quoted(body, |kind, code| {
            kind == ICMP_UNREACHABLE && code != ICMP_TOO_BIG
        }),
        ICMPV6 if !is_v4 => quoted(body, |kind, _| kind == ICMPV6_UNREACHABLE),
        _ => Arrived::Unwanted,
    }
}

fn segment(packet: &[u8], tcp: &[u8]) -> Arrived {
    let is_opening = tcp.get(13).is_none_or(|flags| flags & (SYN | ACK) == SYN);
    if tcp.len() < TCP_HEADER_MIN || is_opening {
        return Arrived::Unwanted;
    }
    match ends(packet, tcp) {
        Some((source, destination)) => Arrived::Segment(Tuple {
            local: destination,
            remote: source,
        }),
        None => Arrived::Unwanted,
    }
}

/// The connection whose packet an ICMP error quotes; a quote need not hold more than the ports.
fn quoted(icmp: &[u8], is_meant: impl Fn(u8, u8) -> bool) -> Arrived {
    let (Some([kind, code, ..]), Some(quote)) = (icmp.first_chunk::<4>(), icmp.get(ICMP_HEADER..))
    else {
        return Arrived::Unwanted;
    };
    let found = ip::transport(quote).filter(|t| t.protocol == ip::TCP);
    let tcp = found.and_then(|t| quote.get(t.offset..));
    match tcp.and_then(|tcp| ends(quote, tcp)) {
        Some((source, destination)) if is_meant(*kind, *code) => Arrived::Unreachable(Tuple {
            local: source,
            remote: destination,
        }),
        _ => Arrived::Unwanted,
    }
}

fn ends(packet: &[u8], tcp: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let [a, b, c, d] = *tcp.first_chunk::<4>()?;
    let source = SocketAddr::new(ip::source(packet)?, u16::from_be_bytes([a, b]));
    let destination = SocketAddr::new(ip::destination(packet)?, u16::from_be_bytes([c, d]));
    Some((source, destination))
}
