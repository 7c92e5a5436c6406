//! Finds out on loopback whether this kernel's segmentation offloads work.

use super::options::wait;
use super::{RECEIVE_MAX, RecvBatch, Socket};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::OnceLock;

/// How long the self-test waits for its own datagrams, ms.
const SELF_TEST_MS: libc::c_int = 100;
/// Messages of one receive: every datagram of the test on its own.
const MESSAGES: usize = 8;

/// What loopback showed about this kernel's offloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offloads {
    /// A batch arrives whole and unharmed.
    pub gso: bool,
    /// Datagrams arrive merged.
    pub gro: bool,
}

/// Sends a batch to itself on loopback and sees what arrives; the answer is kept for the process's life.
///
/// Without loopback (a fresh network namespace) nothing can be seen: then both are taken to work, and `Socket`
/// falls back when the kernel refuses.
pub fn self_test(is_ipv6: bool) -> Offloads {
    static V4: OnceLock<Offloads> = OnceLock::new();
    static V6: OnceLock<Offloads> = OnceLock::new();
    let seen = if is_ipv6 { &V6 } else { &V4 };
    if let Some(offloads) = seen.get() {
        return *offloads;
    }
    let ip: IpAddr = if is_ipv6 {
        Ipv6Addr::LOCALHOST.into()
    } else {
        Ipv4Addr::LOCALHOST.into()
    };
    match probe(SocketAddr::new(ip, 0)) {
        Ok(offloads) => *seen.get_or_init(|| offloads),
        Err(_) => Offloads {
            gso: true,
            gro: true,
        },
    }
}

/// One batch of three equal datagrams and a shorter one; an error when loopback itself does not work.
fn probe(addr: SocketAddr) -> io::Result<Offloads> {
    const SIZE: usize = 200;
    let both = Offloads {
        gso: true,
        gro: true,
    };
    let socket = Socket::open(addr, both, RECEIVE_MAX)?;
    let sent: Vec<u8> = (0..SIZE * 3 + 50).map(|i| (i % 251) as u8).collect();
    let first = socket.transmit(&sent[..SIZE], None, socket.local, None);
    first.and_then(|()| wait(&socket.socket, libc::POLLIN, SELF_TEST_MS))?;
    let mut batch = RecvBatch::new(MESSAGES);
    socket.recv(&mut batch)?;
    if socket
        .transmit(&sent, Some(SIZE), socket.local, None)
        .is_err()
    {
        return Ok(Offloads {
            gso: false,
            gro: socket.has_gro,
        });
    }
    let mut got = Vec::new();
    let mut is_merged = false;
    while got.len() < sent.len() {
        if wait(&socket.socket, libc::POLLIN, SELF_TEST_MS).is_err()
            || socket.recv(&mut batch).is_err()
        {
            break;
        }
        for message in batch.messages() {
            is_merged |= message.bytes.len() > message.stride;
            got.extend_from_slice(message.bytes);
        }
    }
    Ok(Offloads {
        gso: got == sent,
        gro: is_merged,
    })
}
