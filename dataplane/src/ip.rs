//! Reads IPv4 and IPv6 headers (RFC 791, RFC 8200) of packets that nobody has checked yet.

use std::net::IpAddr;

/// IP protocol number of TCP.
pub const TCP: u8 = 6;
/// IP protocol number of UDP.
pub const UDP: u8 = 17;

const V4_HEADER: usize = 20;
const V6_HEADER: usize = 40;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;
/// Extension headers that are walked before a packet is given up; real ones carry at most four.
const EXTENSIONS_MAX: usize = 8;

/// Where the transport header of a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// The IP protocol number of what follows.
    pub protocol: u8,
    /// Bytes from the packet's start; at most the packet's length.
    pub offset: usize,
    /// Whether the packet is a fragment; only first fragments have a transport header at all.
    pub fragment: bool,
}

/// The version nibble, 4 or 6; None for anything else.
pub fn version(p: &[u8]) -> Option<u8> {
    match p.first()? >> 4 {
        v @ (4 | 6) => Some(v),
        _ => None,
    }
}

/// The source address; None when the packet is too short to hold a whole fixed header.
pub fn source(p: &[u8]) -> Option<IpAddr> {
    match version(p)? {
        4 => v4_address(p, 12),
        _ => v6_address(p, 8),
    }
}

/// The destination address; None when the packet is too short to hold a whole fixed header.
pub fn destination(p: &[u8]) -> Option<IpAddr> {
    match version(p)? {
        4 => v4_address(p, 16),
        _ => v6_address(p, 24),
    }
}

/// The length that the header claims, without the padding that WireGuard adds behind it.
/// None when the header is malformed or claims more than there is.
pub fn total_len(p: &[u8]) -> Option<usize> {
    let (least, len) = match version(p)? {
        4 => (v4_header_len(p)?, be16(p, 2)?),
        _ => (V6_HEADER, V6_HEADER + be16(p, 4)?),
    };
    (least <= len && len <= p.len()).then_some(len)
}

/// Finds the transport header, walking at most eight IPv6 extension headers.
/// None when the packet is malformed, is a later fragment, or hides its transport (ESP, AH, unknown chains).
pub fn transport(p: &[u8]) -> Option<Transport> {
    match version(p)? {
        4 => v4_transport(p),
        _ => v6_transport(p),
    }
}

/// The length of an IPv4 header with its options; None when malformed.
fn v4_header_len(p: &[u8]) -> Option<usize> {
    let len = usize::from(p.first()? & 0x0f) * 4;
    (V4_HEADER <= len && len <= p.len()).then_some(len)
}

fn v4_transport(p: &[u8]) -> Option<Transport> {
    let offset = v4_header_len(p)?;
    let fragment = be16(p, 6)?;
    if fragment & 0x1fff != 0 {
        return None;
    }
    Some(Transport {
        protocol: *p.get(9)?,
        offset,
        fragment: fragment & 0x2000 != 0,
    })
}

fn v6_transport(p: &[u8]) -> Option<Transport> {
    let mut protocol = *p.get(6)?;
    let mut offset = V6_HEADER;
    let mut fragment = false;
    for _ in 0..=EXTENSIONS_MAX {
        if offset > p.len() {
            return None;
        }
        let len = match protocol {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => {
                (usize::from(*p.get(offset + 1)?) + 1) * 8
            }
            FRAGMENT => {
                let field = be16(p, offset + 2)?;
                if field & 0xfff8 != 0 {
                    return None;
                }
                fragment |= field & 1 != 0;
                8
            }
            _ => {
                return Some(Transport {
                    protocol,
                    offset,
                    fragment,
                });
            }
        };
        protocol = *p.get(offset)?;
        offset += len;
    }
    None
}

fn v4_address(p: &[u8], at: usize) -> Option<IpAddr> {
    p.get(..V4_HEADER)?;
    let octets: [u8; 4] = p.get(at..at + 4)?.try_into().ok()?;
    Some(IpAddr::from(octets))
}

fn v6_address(p: &[u8], at: usize) -> Option<IpAddr> {
    p.get(..V6_HEADER)?;
    let octets: [u8; 16] = p.get(at..at + 16)?.try_into().ok()?;
    Some(IpAddr::from(octets))
}

fn be16(p: &[u8], at: usize) -> Option<usize> {
    let bytes: [u8; 2] = p.get(at..at + 2)?.try_into().ok()?;
    Some(usize::from(u16::from_be_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn v4(total: u16, room: usize) -> Vec<u8> {
        let mut p = vec![0u8; room];
        p[0] = 0x45;
        p[2..4].copy_from_slice(&total.to_be_bytes());
        p[9] = TCP;
        p[12..16].copy_from_slice(&[10, 1, 2, 3]);
        p[16..20].copy_from_slice(&[10, 4, 5, 6]);
        p
    }

    fn v6(payload: u16, next: u8, room: usize) -> Vec<u8> {
        let mut p = vec![0u8; room];
        p[0] = 0x60;
        p[4..6].copy_from_slice(&payload.to_be_bytes());
        p[6] = next;
        p[8] = 0xfd;
        p[23] = 1;
        p[24] = 0xfd;
        p[39] = 2;
        p
    }

    #[test]
    fn addresses_are_read_from_both_families() {
        let p = v4(20, 20);
        assert_eq!(source(&p), Some("10.1.2.3".parse().unwrap()));
        assert_eq!(destination(&p), Some("10.4.5.6".parse().unwrap()));
        let p = v6(0, 59, 40);
        assert_eq!(source(&p), Some("fd00::1".parse().unwrap()));
        assert_eq!(destination(&p), Some("fd00::2".parse().unwrap()));
    }

    #[test]
    fn a_packet_shorter_than_its_fixed_header_has_no_addresses() {
        assert_eq!(source(&v4(20, 20)[..19]), None);
        assert_eq!(destination(&v6(0, 59, 40)[..39]), None);
        assert_eq!(source(&[]), None);
        assert_eq!(version(&[0x55]), None);
    }

    #[test]
    fn padding_is_told_apart_from_the_packet() {
        assert_eq!(total_len(&v4(33, 48)), Some(33));
        assert_eq!(total_len(&v6(9, 17, 64)), Some(49));
    }

    #[test]
    fn a_length_beyond_the_packet_or_inside_the_header_is_malformed() {
        assert_eq!(total_len(&v4(49, 48)), None);
        assert_eq!(total_len(&v4(19, 48)), None);
        assert_eq!(total_len(&v6(25, 17, 64)), None);
        let mut short_header = v4(40, 40);
        short_header[0] = 0x44;
        assert_eq!(total_len(&short_header), None);
    }

    #[test]
    fn extension_headers_are_walked_to_the_transport() {
        let mut p = v6(24 + 20, HOP_BY_HOP, 84);
        p[40] = DESTINATION_OPTIONS; // hop-by-hop of 8 bytes
        p[48] = TCP;
        p[49] = 1; // destination options of 16 bytes
        assert_eq!(
            transport(&p),
            Some(Transport {
                protocol: TCP,
                offset: 64,
                fragment: false
            })
        );
    }

    #[test]
    fn a_chain_of_extension_headers_without_end_is_given_up() {
        let p = v6(400, HOP_BY_HOP, 440);
        assert_eq!(transport(&p), None);
    }

    #[test]
    fn only_the_first_fragment_has_a_transport_header() {
        let mut p = v4(40, 40);
        p[6] = 0x20;
        assert_eq!(
            transport(&p),
            Some(Transport {
                protocol: TCP,
                offset: 20,
                fragment: true
            })
        );
        p[7] = 1;
        assert_eq!(transport(&p), None);
        let mut p = v6(28, FRAGMENT, 68);
        p[40] = TCP;
        p[43] = 1;
        assert_eq!(
            transport(&p),
            Some(Transport {
                protocol: TCP,
                offset: 48,
                fragment: true
            })
        );
        p[43] = 9;
        assert_eq!(transport(&p), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_reader_panic(
            mut p in proptest::collection::vec(any::<u8>(), 0..200),
            v in prop_oneof![Just(0x45u8), Just(0x60), any::<u8>()],
        ) {
            if let Some(first) = p.first_mut() {
                *first = v;
            }
            let _ = (version(&p), source(&p), destination(&p));
            if let Some(n) = total_len(&p) {
                prop_assert!(n <= p.len());
            }
            if let Some(t) = transport(&p) {
                prop_assert!(t.offset <= p.len());
            }
        }
    }
}
