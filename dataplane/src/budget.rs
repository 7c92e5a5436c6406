//! Bounds how often something that strangers can cause is done.

/// At most `PER_SECOND` times in each second.
#[derive(Default)]
pub struct Budget<const PER_SECOND: u32> {
    second: u64,
    used: u32,
}

impl<const PER_SECOND: u32> Budget<PER_SECOND> {
    /// Takes one of this second's times; false when all are used.
    pub fn take(&mut self, now_ms: u64) -> bool {
        let second = now_ms / 1000;
        if second != self.second {
            *self = Budget { second, used: 0 };
        }
        if self.used >= PER_SECOND {
            return false;
        }
        self.used += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_a_second_and_no_more() {
        let mut budget = Budget::<100>::default();
        let taken = (0..10_000).filter(|_| budget.take(1_500)).count();
        assert_eq!(taken, 100);
        assert!(budget.take(2_000));
    }
}
