//! Tells an answer that is overdue from one that may still come, where the protocol crate can't.

use std::time::{Duration, Instant};

/// Time after which a packet that nobody answered asks for a new session (KEEPALIVE_TIMEOUT + REKEY_TIMEOUT).
const ANSWER_DUE: Duration = Duration::from_secs(15);
/// Time after which a packet that got no other answer gets a keepalive (KEEPALIVE_TIMEOUT).
const KEEPALIVE_DUE: Duration = Duration::from_secs(10);

/// Who has heard whom. The crate dates all it does by the clock that `tick` moves, too coarse to tell an
/// answer from what it answers, and counts from the last event before a silence: as soon as its clock moves
/// between the first packet after one and the answer, it makes a needless handshake or keepalive.
pub struct Talk {
    now: Instant,
    /// What the crate's clock shows now, and showed at each last event.
    shown: Instant,
    heard: Instant,
    heard_data: Instant,
    sent: Instant,
    sent_data: Instant,
    /// Since when data waits for a sign of life.
    unanswered: Option<Instant>,
    /// Since when the other end waits for one.
    owed: Option<Instant>,
}

impl Talk {
    /// Nothing said yet.
    pub fn new(now: Instant) -> Talk {
        Talk {
            now,
            shown: now,
            heard: now,
            heard_data: now,
            sent: now,
            sent_data: now,
            unanswered: None,
            owed: None,
        }
    }

    /// Something authentic came.
    pub fn heard(&mut self, is_data: bool) {
        self.heard = self.shown;
        self.unanswered = None;
        if is_data {
            self.heard_data = self.shown;
            self.owed.get_or_insert(self.now);
        }
    }

    /// Something was sealed.
    pub fn sent(&mut self, is_data: bool) {
        self.sent = self.shown;
        self.owed = None;
        if is_data {
            self.sent_data = self.shown;
            self.unanswered.get_or_insert(self.now);
        }
    }

    /// Moves the time to now; says whether the crate's clock may follow. `is_asking`: a handshake is under way.
    pub fn tick(&mut self, now: Instant, is_asking: bool) -> bool {
        self.now = now;
        let may_follow = is_asking || !(self.would_doubt_too_soon() || self.would_speak_too_soon());
        if may_follow {
            self.shown = now;
        }
        may_follow
    }

    /// Whether the other end has waited long enough for a sign of life.
    pub fn owes_keepalive(&self) -> bool {
        self.has_passed(self.owed, KEEPALIVE_DUE)
    }

    /// Whether the crate would give an answer up that may still come.
    fn would_doubt_too_soon(&self) -> bool {
        self.sent_data > self.heard
            && self.now - self.heard >= ANSWER_DUE
            && !self.has_passed(self.unanswered, ANSWER_DUE)
    }

    /// Whether the crate would send a keepalive in place of an answer that is about to leave.
    fn would_speak_too_soon(&self) -> bool {
        self.heard_data > self.sent
            && self.now - self.sent >= KEEPALIVE_DUE
            && !self.owes_keepalive()
    }

    fn has_passed(&self, since: Option<Instant>, time: Duration) -> bool {
        since.is_some_and(|since| self.now - since >= time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn the_first_packet_after_a_silence_is_not_doubted_before_its_own_time_is_over() {
        let start = Instant::now();
        let mut talk = Talk::new(start);
        assert!(talk.tick(after(start, 60_000), false));
        talk.sent(true);
        assert!(!talk.tick(after(start, 60_001), false));
        assert!(!talk.tick(after(start, 74_999), false));
        assert!(talk.tick(after(start, 75_000), false), "now it is overdue");
    }

    #[test]
    fn more_packets_do_not_put_the_doubt_off() {
        let start = Instant::now();
        let mut talk = Talk::new(start);
        for ms in (60_000..75_000).step_by(500) {
            talk.tick(after(start, ms), false);
            talk.sent(true);
        }
        assert!(talk.tick(after(start, 75_000), false));
    }

    #[test]
    fn the_clock_runs_again_with_the_answer_and_while_a_handshake_is_under_way() {
        let start = Instant::now();
        let mut talk = Talk::new(start);
        talk.tick(after(start, 60_000), false);
        talk.sent(true);
        assert!(talk.tick(after(start, 60_001), true));
        assert!(!talk.tick(after(start, 60_002), false));
        talk.heard(true);
        assert!(talk.tick(after(start, 60_003), false));
    }

    #[test]
    fn an_answer_that_gets_no_other_answer_is_owed_a_keepalive_once() {
        let start = Instant::now();
        let mut talk = Talk::new(start);
        talk.sent(true);
        talk.heard(true);
        talk.tick(after(start, 9_999), false);
        assert!(!talk.owes_keepalive());
        talk.tick(after(start, 10_000), false);
        assert!(talk.owes_keepalive());
        talk.sent(false);
        talk.tick(after(start, 60_000), false);
        assert!(!talk.owes_keepalive());
    }

    #[test]
    fn the_answer_to_the_first_packet_after_a_silence_is_waited_for() {
        let start = Instant::now();
        let mut talk = Talk::new(start);
        assert!(talk.tick(after(start, 60_000), false));
        talk.heard(true);
        assert!(!talk.tick(after(start, 60_001), false));
        assert!(!talk.tick(after(start, 69_999), false));
        assert!(talk.tick(after(start, 70_000), false) && talk.owes_keepalive());
    }

    /// W30: two ends that answered keepalives with keepalives would never rest.
    #[test]
    fn w30_a_keepalive_is_owed_nothing() {
        let start = Instant::now();
        let mut talk = Talk::new(start);
        talk.heard(false);
        talk.tick(after(start, 60_000), false);
        assert!(!talk.owes_keepalive());
    }
}
