//! What quinn-udp leaves to do on a socket: kernel buffers, fragmentation, waiting.

use std::io;
use std::os::fd::AsRawFd;

/// Enlarges the kernel's buffers; smaller ones than asked for are no error.
pub(super) fn grow(socket: &socket2::Socket, bytes: usize) {
    let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    if set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, value).is_err() {
        let _ = socket.set_recv_buffer_size(bytes);
    }
    if set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, value).is_err() {
        let _ = socket.set_send_buffer_size(bytes);
    }
}

/// Undoes what quinn-udp sets for QUIC and WireGuard does without. All are best effort.
pub(super) fn set_options(socket: &socket2::Socket, is_ipv6: bool, gro: bool) {
    // Like the kernel's WireGuard: a path smaller than we know fragments the outer packet instead of eating it.
    if is_ipv6 {
        let _ = set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 0);
        let want = libc::IPV6_PMTUDISC_WANT;
        let _ = set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, want);
    } else {
        let dont = libc::IP_PMTUDISC_DONT;
        let _ = set_option(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, dont);
    }
    // A timestamp on every datagram of the machine costs, and nobody reads it.
    let _ = set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 0);
    if !gro {
        let _ = set_option(socket, libc::SOL_UDP, libc::UDP_GRO, 0);
    }
}

fn set_option(
    socket: &socket2::Socket,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the socket is open; the kernel reads one int that outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Waits at most `ms` for one of `events`; `WouldBlock` when none came.
pub(super) fn wait(
    socket: &socket2::Socket,
    events: libc::c_short,
    ms: libc::c_int,
) -> io::Result<()> {
    let mut poll = libc::pollfd {
        fd: socket.as_raw_fd(),
        events,
        revents: 0,
    };
    // SAFETY: one pollfd that outlives the call.
    match unsafe { libc::poll(&raw mut poll, 1, ms) } {
        1 => Ok(()),
        0 => Err(io::ErrorKind::WouldBlock.into()),
        // Only a signal can interrupt it: the caller tries again anyway.
        _ => Ok(()),
    }
}
