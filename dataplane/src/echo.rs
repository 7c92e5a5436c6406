//! The path probe: an ICMPv6 echo (RFC 4443) between link-local addresses, made and answered by the data plane inside the tunnel.

/// Bytes of a probe, from the IPv6 header on.
pub const ECHO_LEN: usize = 40 + 8 + PAYLOAD;

const PAYLOAD: usize = 16;
const MAGIC: [u8; 8] = *b"xylemech";
const REQUEST: u8 = 128;
const REPLY: u8 = 129;
const SOURCE: [u8; 16] = [
    0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x78, 0x79, 0x6c, 0x65, 0x6d, 0, 0, 1,
];
const DESTINATION: [u8; 16] = [
    0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x78, 0x79, 0x6c, 0x65, 0x6d, 0, 0, 2,
];

/// A probe or its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    Request(u64),
    Reply(u64),
}

/// The packet that asks for `nonce`.
pub fn request(nonce: u64) -> [u8; ECHO_LEN] {
    build(REQUEST, nonce)
}

/// The packet that answers with `nonce`.
pub fn reply(nonce: u64) -> [u8; ECHO_LEN] {
    build(REPLY, nonce)
}

/// Recognises a probe; anything else, an ordinary ping included, is `None`.
pub fn parse(packet: &[u8]) -> Option<Echo> {
    let packet: &[u8; ECHO_LEN] = packet.try_into().ok()?;
    let nonce = u64::from_be_bytes(*packet.last_chunk::<8>()?);
    match packet[40] {
        REQUEST if *packet == request(nonce) => Some(Echo::Request(nonce)),
        REPLY if *packet == reply(nonce) => Some(Echo::Reply(nonce)),
        _ => None,
    }
}

fn build(kind: u8, nonce: u64) -> [u8; ECHO_LEN] {
    let mut p = [0u8; ECHO_LEN];
    p[0] = 0x60;
    p[4..6].copy_from_slice(&((8 + PAYLOAD) as u16).to_be_bytes());
    p[6] = 58;
    p[7] = 255;
    p[8..24].copy_from_slice(&SOURCE);
    p[24..40].copy_from_slice(&DESTINATION);
    p[40] = kind;
    p[48..56].copy_from_slice(&MAGIC);
    p[56..64].copy_from_slice(&nonce.to_be_bytes());
    let checksum = checksum(&p);
    p[42..44].copy_from_slice(&checksum.to_be_bytes());
    p
}

/// RFC 4443 section 2.3: over the pseudo header and the message.
fn checksum(p: &[u8; ECHO_LEN]) -> u16 {
    let words = p[8..]
        .chunks_exact(2)
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let mut sum: u32 = words.sum::<u32>() + (8 + PAYLOAD) as u32 + 58;
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_built_is_recognised(nonce in any::<u64>()) {
            prop_assert_eq!(parse(&request(nonce)), Some(Echo::Request(nonce)));
            prop_assert_eq!(parse(&reply(nonce)), Some(Echo::Reply(nonce)));
        }

        #[test]
        fn anything_else_is_not(at in 0usize..56, bit in 0u8..8, nonce in any::<u64>()) {
            let mut p = request(nonce);
            p[at] ^= 1 << bit;
            prop_assert_eq!(parse(&p), None);
        }
    }

    #[test]
    fn the_checksum_is_that_of_rfc_4443() {
        let mut p = request(0x0102_0304_0506_0708);
        // With the checksum in place the sum over everything is zero.
        assert_eq!(checksum(&p), 0);
        p[63] ^= 1;
        assert_ne!(checksum(&p), 0);
    }

    #[test]
    fn short_and_long_packets_are_not_probes() {
        assert_eq!(parse(&[]), None);
        assert_eq!(parse(&request(1)[..63]), None);
        let mut long = request(1).to_vec();
        long.push(0);
        assert_eq!(parse(&long), None);
    }
}
