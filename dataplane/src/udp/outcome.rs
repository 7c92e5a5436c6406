//! What becomes of sends and receives: outcomes, counters, and which error number means which.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What became of a send. Nothing here is fatal: UDP may lose datagrams anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// The kernel took everything.
    Sent,
    /// The socket's buffer stayed full for 5 ms; the rest was not sent.
    WouldBlock,
    /// A datagram is longer than the path allows (EMSGSIZE).
    TooLong,
    /// No memory, or the device's queue is full (ENOBUFS, ENOMEM).
    NoBuffers,
    /// No route, or refused by the peer's host (ENETUNREACH, EHOSTUNREACH, ECONNREFUSED, ...).
    Unreachable,
    /// Any other error number: a filter's EPERM, EINVAL, ...
    Failed(i32),
}

/// What a socket met since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpCounters {
    /// Batches that the kernel refused and that were sent one by one.
    pub gso_refused: u64,
    /// Sends whose wanted source address is gone; the kernel chose another.
    pub source_lost: u64,
    /// `SendOutcome::WouldBlock`.
    pub would_block: u64,
    /// `SendOutcome::TooLong`.
    pub too_long: u64,
    /// `SendOutcome::NoBuffers`.
    pub no_buffers: u64,
    /// `SendOutcome::Unreachable`.
    pub unreachable: u64,
    /// `SendOutcome::Failed`.
    pub failed: u64,
    /// Receives that reported an earlier send's error instead of data.
    pub receive_errors: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) gso_refused: AtomicU64,
    pub(super) source_lost: AtomicU64,
    would_block: AtomicU64,
    too_long: AtomicU64,
    no_buffers: AtomicU64,
    unreachable: AtomicU64,
    failed: AtomicU64,
    pub(super) receive_errors: AtomicU64,
}

impl SendOutcome {
    pub(super) fn of(result: io::Result<()>) -> SendOutcome {
        let Err(e) = result else {
            return SendOutcome::Sent;
        };
        if e.kind() == io::ErrorKind::WouldBlock {
            return SendOutcome::WouldBlock;
        }
        match e.raw_os_error() {
            Some(libc::EMSGSIZE) => SendOutcome::TooLong,
            Some(libc::ENOBUFS | libc::ENOMEM) => SendOutcome::NoBuffers,
            Some(
                libc::ENETUNREACH
                | libc::EHOSTUNREACH
                | libc::ECONNREFUSED
                | libc::ENETDOWN
                | libc::EHOSTDOWN
                | libc::EADDRNOTAVAIL,
            ) => SendOutcome::Unreachable,
            errno => SendOutcome::Failed(errno.unwrap_or(libc::EIO)),
        }
    }

    /// Whether a source address that this machine no longer has gives this: EINVAL or ENETUNREACH, by kernel.
    pub(super) fn may_be_the_source(self) -> bool {
        matches!(
            self,
            SendOutcome::Unreachable | SendOutcome::Failed(libc::EINVAL)
        )
    }
}

impl Counts {
    pub(super) fn note(&self, outcome: SendOutcome) {
        let counter = match outcome {
            SendOutcome::Sent => return,
            SendOutcome::WouldBlock => &self.would_block,
            SendOutcome::TooLong => &self.too_long,
            SendOutcome::NoBuffers => &self.no_buffers,
            SendOutcome::Unreachable => &self.unreachable,
            SendOutcome::Failed(_) => &self.failed,
        };
        counter.fetch_add(1, Relaxed);
    }

    pub(super) fn read(&self) -> UdpCounters {
        UdpCounters {
            gso_refused: self.gso_refused.load(Relaxed),
            source_lost: self.source_lost.load(Relaxed),
            would_block: self.would_block.load(Relaxed),
            too_long: self.too_long.load(Relaxed),
            no_buffers: self.no_buffers.load(Relaxed),
            unreachable: self.unreachable.load(Relaxed),
            failed: self.failed.load(Relaxed),
            receive_errors: self.receive_errors.load(Relaxed),
        }
    }
}

/// Kernels say EIO (no checksum offload on the way), EINVAL or EMSGSIZE (segment longer than the link) to GSO.
pub(super) fn is_refusal(e: &io::Error) -> bool {
    matches!(
        e.raw_os_error(),
        Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP)
    )
}

/// Errors that a receive reports although they belong to an earlier send.
pub(super) fn is_about_a_send(e: &io::Error) -> bool {
    matches!(
        e.raw_os_error(),
        Some(
            libc::ECONNREFUSED
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::EMSGSIZE
                | libc::EPROTO
                | libc::ENOPROTOOPT
                | libc::EACCES
                | libc::EPERM
                | libc::ENETDOWN
        )
    )
}
