//! ICMP "host unreachable" for inner packets that no peer can take, so that dialers fail at once (RFC 792, RFC 4443, RFC 1122 section 3.2.2).

use crate::budget::Budget;
use crate::{checksum, ip};
use std::net::IpAddr;

/// Answers a second at most.
const PER_SECOND: u32 = 100;
/// Bytes of the refused packet that are quoted.
const QUOTE_V4: usize = 28;
const QUOTE_V6: usize = 512;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// The packet that says so to the sender; `None` where none may be sent: about ICMP itself, later
/// fragments, and addresses that are no single host.
pub fn host_unreachable(packet: &[u8]) -> Option<Vec<u8>> {
    let (source, destination) = (ip::source(packet)?, ip::destination(packet)?);
    if !is_host(source) || !is_host(destination) {
        return None;
    }
    match ip::version(packet)? {
        4 => v4(packet),
        _ => v6(packet),
    }
}

fn is_host(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(a) if a.is_broadcast());
    !address.is_multicast() && !address.is_unspecified() && !is_broadcast
}

fn v4(packet: &[u8]) -> Option<Vec<u8>> {
    let is_later_fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff != 0;
    if packet[9] == ICMP || is_later_fragment {
        return None;
    }
    let quote = packet.get(..QUOTE_V4.min(packet.len()))?;
    let len = 28 + quote.len();
    let mut p = vec![0u8; len];
    p[0] = 0x45;
    p[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    p[8] = 64;
    p[9] = ICMP;
    p[12..16].copy_from_slice(&packet[16..20]);
    p[16..20].copy_from_slice(&packet[12..16]);
    // Destination unreachable, host.
    p[20..22].copy_from_slice(&[3, 1]);
    p[28..].copy_from_slice(quote);
    let header = !checksum::fold(checksum::sum(&p[..20]));
    checksum::store(&mut p, 10, header);
    let message = !checksum::fold(checksum::sum(&p[20..]));
    checksum::store(&mut p, 22, message);
    Some(p)
}

fn v6(packet: &[u8]) -> Option<Vec<u8>> {
    // Packets with extension headers are rare, and may hide ICMP.
    if !matches!(packet[6], 6 | 17) {
        return None;
    }
    let quote = packet.get(..QUOTE_V6.min(packet.len()))?;
    let mut p = vec![0u8; 48 + quote.len()];
    p[0] = 0x60;
    p[4..6].copy_from_slice(&((8 + quote.len()) as u16).to_be_bytes());
    p[6] = ICMPV6;
    p[7] = 64;
    p[8..24].copy_from_slice(&packet[24..40]);
    p[24..40].copy_from_slice(&packet[8..24]);
    // Destination unreachable, address.
    p[40..42].copy_from_slice(&[1, 3]);
    p[48..].copy_from_slice(quote);
    let sum = checksum::pseudo_header(&p, ICMPV6, 8 + quote.len()) + checksum::sum(&p[40..]);
    checksum::store(&mut p, 42, !checksum::fold(sum));
    Some(p)
}

/// Bounds how many answers are given.
pub type AnswerBudget = Budget<PER_SECOND>;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn syn_v4() -> Vec<u8> {
        let mut p = vec![0u8; 40];
        p[0] = 0x45;
        p[2..4].copy_from_slice(&40u16.to_be_bytes());
        p[9] = 6;
        p[12..16].copy_from_slice(&[10, 0, 0, 1]);
        p[16..20].copy_from_slice(&[10, 0, 0, 2]);
        p
    }

    fn syn_v6() -> Vec<u8> {
        let mut p = vec![0u8; 60];
        p[0] = 0x60;
        p[4..6].copy_from_slice(&20u16.to_be_bytes());
        p[6] = 6;
        p[8] = 0xfd;
        p[23] = 1;
        p[24] = 0xfd;
        p[39] = 2;
        p
    }

    #[test]
    fn a_dialer_hears_it_from_the_address_that_it_dialed() {
        let answer = host_unreachable(&syn_v4()).unwrap();
        assert_eq!(ip::source(&answer), ip::destination(&syn_v4()));
        assert_eq!(ip::destination(&answer), ip::source(&syn_v4()));
        assert_eq!(ip::total_len(&answer), Some(answer.len()));
        assert_eq!(answer[20..22], [3, 1]);
        assert_eq!(checksum::fold(checksum::sum(&answer[..20])), 0xffff);
        assert_eq!(checksum::fold(checksum::sum(&answer[20..])), 0xffff);
        let answer = host_unreachable(&syn_v6()).unwrap();
        assert_eq!(ip::source(&answer), ip::destination(&syn_v6()));
        assert_eq!(answer[40..42], [1, 3]);
        assert!(checksum::is_transport_valid(&answer, 40, ICMPV6));
    }

    #[test]
    fn nothing_is_said_about_icmp_fragments_and_groups() {
        let change = |at: usize, byte: u8| {
            let mut p = syn_v4();
            p[at] = byte;
            host_unreachable(&p)
        };
        assert_eq!(change(9, ICMP), None, "ICMP");
        assert_eq!(change(7, 1), None, "a later fragment");
        assert_eq!(change(16, 224), None, "a group");
        let mut p = syn_v6();
        p[24] = 0xff;
        assert_eq!(host_unreachable(&p), None, "an IPv6 group");
        let mut p = syn_v6();
        p[6] = ICMPV6;
        assert_eq!(host_unreachable(&p), None, "ICMPv6");
    }

    proptest! {
        #[test]
        fn any_bytes_are_harmless(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            host_unreachable(&bytes);
        }
    }
}
