//! Packets on their way to the stack: a bounded buffer that drops what does not fit, so that nobody ever waits for the stack.

use crate::offload::{NEEDS_CSUM, VnetHeader};
use parking_lot::Mutex;
use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes that may wait: 16 ms of 2 Gbit/s.
const WAITING_MAX: usize = 4 << 20;
/// Bytes in front of each packet: its length, and whether its checksum was checked.
const PREFIX: usize = 5;
/// Capacity that is kept when all is quiet.
const KEPT: usize = 64 << 10;

/// Filled by any thread, emptied by one.
#[derive(Default)]
pub struct Inbox {
    waiting: Mutex<Vec<u8>>,
    dropped: AtomicU64,
}

impl Inbox {
    /// Takes a packet, or counts it as dropped; says whether it is the first one waiting.
    pub fn put(&self, header: &VnetHeader, parts: &[IoSlice]) -> bool {
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let mut waiting = self.waiting.lock();
        if waiting.len() + PREFIX + len > WAITING_MAX {
            self.dropped.fetch_add(1, Relaxed);
            return false;
        }
        let is_first = waiting.is_empty();
        waiting.extend_from_slice(&(len as u32).to_ne_bytes());
        waiting.push(u8::from(header.flags & NEEDS_CSUM != 0));
        for part in parts {
            waiting.extend_from_slice(part);
        }
        is_first
    }

    /// Exchanges what waits for an emptied buffer.
    pub fn swap(&self, emptied: &mut Vec<u8>) {
        emptied.clear();
        std::mem::swap(&mut *self.waiting.lock(), emptied);
    }

    /// Gives memory back that a burst needed.
    pub fn shrink(&self, emptied: &mut Vec<u8>) {
        emptied.clear();
        emptied.shrink_to(KEPT);
        let mut waiting = self.waiting.lock();
        if waiting.is_empty() {
            waiting.shrink_to(KEPT);
        }
    }

    /// Packets that did not fit.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }
}

/// A packet of a swapped buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting<'a> {
    pub bytes: &'a [u8],
    /// Whether its transport checksum was found right, and perhaps replaced by a partial one.
    pub is_checked: bool,
}

/// The packets of a swapped buffer, in order of arrival.
pub fn packets(mut buffer: &[u8]) -> impl Iterator<Item = Waiting<'_>> {
    std::iter::from_fn(move || {
        let (prefix, rest) = buffer.split_first_chunk::<PREFIX>()?;
        let [a, b, c, d, is_checked] = *prefix;
        let len = u32::from_ne_bytes([a, b, c, d]) as usize;
        let (bytes, rest) = rest.split_at_checked(len)?;
        buffer = rest;
        Some(Waiting {
            bytes,
            is_checked: is_checked != 0,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_come_out_as_they_went_in() {
        let inbox = Inbox::default();
        let merged = VnetHeader {
            flags: NEEDS_CSUM,
            ..VnetHeader::default()
        };
        assert!(inbox.put(
            &VnetHeader::default(),
            &[IoSlice::new(b"ab"), IoSlice::new(b"c")]
        ));
        assert!(!inbox.put(&merged, &[IoSlice::new(b"d")]));
        let mut buffer = b"old".to_vec();
        inbox.swap(&mut buffer);
        let all: Vec<_> = packets(&buffer).collect();
        let want = [(b"abc".as_slice(), false), (b"d", true)];
        assert_eq!(
            all,
            want.map(|(bytes, is_checked)| Waiting { bytes, is_checked })
        );
        assert!(inbox.put(&merged, &[IoSlice::new(b"e")]));
    }

    #[test]
    fn a_full_inbox_drops_and_counts_and_takes_again_once_emptied() {
        let inbox = Inbox::default();
        let packet = vec![0u8; 60_000];
        let put = || inbox.put(&VnetHeader::default(), &[IoSlice::new(&packet)]);
        for _ in 0..100 {
            put();
        }
        assert_eq!(inbox.dropped(), 31, "69 of 60,005 bytes fit 4 MiB");
        let mut buffer = Vec::new();
        inbox.swap(&mut buffer);
        assert_eq!(packets(&buffer).count(), 69);
        assert!(put());
        assert_eq!(inbox.dropped(), 31);
    }
}
