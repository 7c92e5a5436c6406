//! How many file descriptors the process may open: getrlimit(2).

/// Descriptors kept free for everything else that the process does.
const RESERVED: usize = 256;

/// Flows with two sockets each that leave half of the descriptors and `RESERVED` more to others; at
/// least 16, at most `most`.
pub fn flows_max(most: usize) -> usize {
    flows_within(limit(), most)
}

fn flows_within(descriptors: usize, most: usize) -> usize {
    (descriptors.saturating_sub(RESERVED) / 4).clamp(16, most.max(16))
}

fn limit() -> usize {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes one rlimit that outlives the call.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } {
        0 => usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_never_take_more_than_half_of_the_descriptors() {
        let cases = [
            (0, 16),
            (256, 16),
            (1024, 192),
            (4096, 960),
            (1 << 20, 4096),
            (usize::MAX, 4096),
        ];
        for (descriptors, want) in cases {
            assert_eq!(flows_within(descriptors, 4096), want, "{descriptors}");
        }
    }
}
