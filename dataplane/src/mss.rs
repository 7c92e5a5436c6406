//! Lowers the MSS option of TCP handshakes to what fits the tunnel (RFC 9293, section 3.7.1; RFC 6691).

use crate::{checksum, ip};

const SYN: u8 = 0x02;
const TCP_HEADER_MIN: usize = 20;
const OPTION_END: u8 = 0;
const OPTION_NOP: u8 = 1;
const OPTION_MSS: u8 = 2;
const OPTION_MSS_LEN: u8 = 4;
/// IPv4 and TCP headers without options.
const OVERHEAD_V4: u16 = 40;
/// IPv6 and TCP headers without options.
const OVERHEAD_V6: u16 = 60;

/// Lowers the MSS that a SYN or SYN/ACK announces to what a tunnel of `mtu` bytes carries; says whether it did.
///
/// Expects a finished checksum, so it belongs behind `offload::split`. A SYN without the option is left alone:
/// its sender then takes 536 (IPv4) or 1,220 (IPv6) bytes, which fit every tunnel. So are later fragments, and
/// IPv6 packets whose extension headers lead nowhere.
pub fn clamp(packet: &mut [u8], mtu: u16) -> bool {
    let Some(most) = most(packet, mtu) else {
        return false;
    };
    let Some(found) = ip::transport(packet) else {
        return false;
    };
    if found.protocol != ip::TCP {
        return false;
    }
    let Some(tcp) = packet.get_mut(found.offset..) else {
        return false;
    };
    let Some(at) = find_mss(tcp) else {
        return false;
    };
    let old = u16::from_be_bytes([tcp[at], tcp[at + 1]]);
    if old <= most {
        return false;
    }
    tcp[at..at + 2].copy_from_slice(&most.to_be_bytes());
    let sum = u16::from_be_bytes([tcp[16], tcp[17]]);
    // Behind a NOP the option's value straddles two words of the checksum.
    let sum = if at % 2 == 0 {
        checksum::update(sum, old, most)
    } else {
        checksum::update(sum, old.swap_bytes(), most.swap_bytes())
    };
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    true
}

/// The largest MSS that fits; None when this is no IP packet or the MTU can't even hold the headers.
fn most(packet: &[u8], mtu: u16) -> Option<u16> {
    let overhead = match ip::version(packet)? {
        4 => OVERHEAD_V4,
        _ => OVERHEAD_V6,
    };
    mtu.checked_sub(overhead).filter(|most| *most > 0)
}

/// Where the value of the MSS option is in a TCP header with SYN set.
fn find_mss(tcp: &[u8]) -> Option<usize> {
    let header = tcp.first_chunk::<TCP_HEADER_MIN>()?;
    if header[13] & SYN == 0 {
        return None;
    }
    let end = usize::from(header[12] >> 4) * 4;
    let options = tcp.get(..end)?;
    let mut at = TCP_HEADER_MIN;
    while at < options.len() {
        match options[at] {
            OPTION_END => return None,
            OPTION_NOP => at += 1,
            kind => {
                let len = *options.get(at + 1)?;
                if len < 2 || at + usize::from(len) > options.len() {
                    return None;
                }
                if kind == OPTION_MSS {
                    return (len == OPTION_MSS_LEN).then_some(at + 2);
                }
                at += usize::from(len);
            }
        }
    }
    None
}
