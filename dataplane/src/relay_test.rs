//! Floods of messages with forged indices and senders against the relay: bounded, and flows that were there stay.

use super::*;
use crate::fuzz_bench::{Bench, OWN, with_device};
use crate::shared::Role;

const TARGET: &str = "127.0.0.2:51820";

struct Flood<'a> {
    shared: &'a Shared,
    watched: Watched,
    relay: Relay,
    socket: Arc<Socket>,
}

impl<'a> Flood<'a> {
    fn new(bench: &'a Bench) -> Flood<'a> {
        let shared = bench.device.shared();
        Flood {
            shared,
            watched: Watched::new(shared).unwrap(),
            relay: Relay::default(),
            socket: shared.paths.read()[0].all().next().unwrap().clone(),
        }
    }

    fn pass(&mut self, kind: u8, from: SocketAddr, now_ms: u64) {
        let mut datagram = [7u8; 148];
        datagram[..8].copy_from_slice(&[kind, 0, 0, 0, 1, 0, 2, 0]);
        let arrival = Arrival {
            token: 1,
            socket: &self.socket,
            from,
            local: None,
            now_ms,
        };
        let to = TARGET.parse().unwrap();
        self.relay
            .forward(self.shared, &mut self.watched, &datagram, 148, to, &arrival);
    }

    /// The owner's answer to whoever sent first.
    fn answer(&mut self, id: FlowId, now_ms: u64) {
        let message = Message {
            bytes: &[4; 32],
            stride: 32,
            from: TARGET.parse().unwrap(),
            local: None,
        };
        self.relay.answer(self.shared, id, &message, now_ms);
    }
}

fn flood(kind: u8, most_new: u64) {
    with_device(Role::Agent { id: OWN }, move |bench| {
        let counters = &bench.device.shared().counters;
        let mut flood = Flood::new(&bench);
        flood.relay.table = FlowTable::new(64);
        let sockets_before = flood.watched.sockets.len();
        let honest: SocketAddr = "192.0.2.9:4000".parse().unwrap();
        flood.pass(4, honest, 1_000);
        flood.answer(1, 1_001);
        for n in 0..9_000u32 {
            let from = ((0x0a00_0000 + n).to_be_bytes(), 9).into();
            flood.pass(kind, from, 2_000 + u64::from(n % 900));
            assert!(flood.relay.open.len() <= 64);
        }
        assert_eq!(counters.relay_refused.get(), 9_000 - most_new);
        assert_eq!(counters.relay_evicted.get(), most_new + 1 - 64);
        assert_eq!(flood.relay.table.len(), 64);
        assert_eq!(flood.watched.sockets.len() - sockets_before, 64);
        let (passed, answered) = (counters.relay_datagrams.get(), counters.relay_answers.get());
        flood.pass(4, honest, 2_950);
        flood.answer(1, 2_951);
        assert_eq!(
            counters.relay_datagrams.get() - passed,
            1,
            "the old flow passes on"
        );
        assert_eq!(
            counters.relay_answers.get() - answered,
            1,
            "and is answered"
        );
        let other = if kind == INITIATION { 4 } else { INITIATION };
        flood.pass(other, "192.0.2.10:4000".parse().unwrap(), 2_950);
        assert_eq!(
            counters.relay_datagrams.get() - passed,
            2,
            "a message of the other kind still begins a flow"
        );
        let closed = flood
            .relay
            .run(flood.shared, &mut flood.watched, 10 * 180_000);
        assert_eq!(closed, None);
        assert_eq!(flood.watched.sockets.len(), sockets_before, "all is closed");
    });
}

#[test]
fn s1_forged_indices_open_a_bounded_number_of_flows_and_push_out_no_answered_one() {
    flood(4, 2_000);
}

#[test]
fn s1_initiations_with_forged_senders_open_a_bounded_number_of_flows_too() {
    flood(INITIATION, 1_000);
}
