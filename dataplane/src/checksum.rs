//! The Internet checksum (RFC 1071) over whole packets, and its incremental update (RFC 1624).
//!
//! Sums are kept unfolded in the machine's byte order: one's complement sums do not care about
//! byte order as long as words are read and written in the same one.

/// The one's complement sum of `bytes`, unfolded; an odd last byte is padded with a zero byte.
#[inline]
pub fn sum(bytes: &[u8]) -> u64 {
    // Four lanes of u32 in u64 cannot overflow below 64 GiB, and the compiler makes SIMD of it.
    let mut lanes = [0u64; 4];
    let (blocks, rest) = bytes.as_chunks::<16>();
    for block in blocks {
        let (words, _) = block.as_chunks::<4>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane += u64::from(u32::from_ne_bytes(*word));
        }
    }
    let mut total = lanes[0] + lanes[1] + lanes[2] + lanes[3];
    let (pairs, last) = rest.as_chunks::<2>();
    for pair in pairs {
        total += u64::from(u16::from_ne_bytes(*pair));
    }
    if let [byte] = last {
        total += u64::from(u16::from_ne_bytes([*byte, 0]));
    }
    total
}

/// Folds a sum to 16 bits.
#[inline]
pub fn fold(sum: u64) -> u16 {
    let mut s = (sum & 0xffff_ffff) + (sum >> 32);
    s = (s & 0xffff) + ((s >> 16) & 0xffff) + (s >> 32);
    s = (s & 0xffff) + (s >> 16);
    s = (s & 0xffff) + (s >> 16);
    s as u16
}

/// The pseudo header's sum for the IP packet that starts with `ip`; 0 when that is no IP header.
#[inline]
pub fn pseudo_header(ip: &[u8], protocol: u8, transport_len: usize) -> u64 {
    let addresses = match ip.first().map(|b| b >> 4) {
        Some(4) => ip.get(12..20),
        Some(6) => ip.get(8..40),
        _ => None,
    };
    let len = (transport_len as u32).to_be_bytes();
    sum(addresses.unwrap_or(&[])) + sum(&len) + sum(&[0, protocol])
}

/// Writes a checksum made by `fold` (in the machine's byte order) at `at`; out of range is a no-op.
#[inline]
pub fn store(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(field) = bytes.get_mut(at..at + 2) {
        field.copy_from_slice(&value.to_ne_bytes());
    }
}

/// Whether the transport checksum of an unfragmented packet is right. A missing one (zero) is wrong.
#[inline]
pub fn is_transport_valid(packet: &[u8], offset: usize, protocol: u8) -> bool {
    packet.get(offset..).is_some_and(|transport| {
        fold(pseudo_header(packet, protocol, transport.len()) + sum(transport)) == 0xffff
    })
}

/// RFC 1624 equation 3: the checksum after one 16-bit word of the covered data changed.
/// All three in network order; a word at an odd offset is passed with its bytes swapped.
#[inline]
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(u64::from(!checksum) + u64::from(!old) + u64::from(new))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071's definition, one word at a time.
    fn naive(bytes: &[u8]) -> u16 {
        let mut total = 0u32;
        for pair in bytes.chunks(2) {
            total += (u32::from(pair[0]) << 8) | u32::from(*pair.get(1).unwrap_or(&0));
            total = (total & 0xffff) + (total >> 16);
        }
        total as u16
    }

    #[test]
    fn the_example_of_rfc_1071_gives_its_sum() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&bytes)).to_ne_bytes(), [0xdd, 0xf2]);
    }

    #[test]
    fn folding_never_loses_a_carry() {
        for s in [0, 0xffff, 0x1_0000, 0xffff_ffff, 0x1_ffff_ffff, u64::MAX] {
            let expected = if s == 0 {
                0
            } else if s % 0xffff == 0 {
                0xffff
            } else {
                s % 0xffff
            };
            assert_eq!(u64::from(fold(s)), expected, "{s:x}");
        }
    }

    proptest! {
        #[test]
        fn the_fast_sum_agrees_with_the_definition(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(fold(sum(&bytes)).to_ne_bytes(), naive(&bytes).to_be_bytes());
        }

        #[test]
        fn an_incremental_update_agrees_with_a_new_sum(
            mut bytes in proptest::collection::vec(any::<u8>(), 4..64),
            at in 0usize..62,
            new: u16,
        ) {
            let at = at % (bytes.len() - 1);
            let before = !naive(&bytes);
            let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
            let (old, new) = if at % 2 == 0 { (old, new) } else { (old.swap_bytes(), new.swap_bytes()) };
            let after = !naive(&bytes);
            let got = update(before, old, new);
            // Zero has two names in one's complement.
            prop_assert!(got == after || (got ^ after) == 0xffff && (got == 0 || after == 0), "{:x} {:x}", got, after);
        }
    }
}
