//! Steering: tables of datagrams, forged indices, floods, and handshakes of the real protocol.

use super::*;
use crate::noise::{Identity, Noise, Opened, Sealed};
use proptest::prelude::*;

const OWN: AgentId = 7;
const OTHER: AgentId = 0x1234;
const ABSENT: AgentId = 99;

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

struct Agents {
    own: Identity,
    other: Identity,
    third: Identity,
    steering: Steering,
}

fn agents() -> Agents {
    let [own, other, third] = [1, 2, 3].map(|n| Identity::new([n; 32]));
    let targets = HashMap::from([
        (OTHER, Target::new(other.public_key(), at("10.0.0.2:51820"))),
        (3, Target::new(third.public_key(), at("[fd00::3]:51820"))),
    ]);
    let steering = Steering::new(OWN, &own.public_key(), targets);
    Agents {
        own,
        other,
        third,
        steering,
    }
}

/// A message of this kind whose steering index names `agent`.
fn message(kind: u8, len: usize, agent: AgentId) -> Vec<u8> {
    let mut d = vec![0u8; len];
    d[0] = kind;
    let place = if kind == 2 { 8 } else { 4 };
    let index = u32::from(agent) << 16 | 0x0302;
    d[place..place + 4].copy_from_slice(&index.to_le_bytes());
    d
}

/// An initiation for `to`, made by the protocol itself, with this 24-bit index.
fn initiation(to: &Identity, index: u32) -> Vec<u8> {
    let mut out = vec![0u8; 148];
    let gateway = Identity::new([9; 32]);
    let made = gateway.peer(to.public_key(), index).initiate(&mut out);
    assert_eq!(made, Sealed::Handshake(148));
    out
}

fn decide(steering: &Steering, datagram: &[u8], from: &str) -> Verdict {
    steering.decide(datagram, at(from), &mut TrialBudget::default(), 0)
}

#[test]
fn a_datagram_goes_to_the_agent_that_its_index_names() {
    let Agents { steering, .. } = agents();
    let cases = [
        ("data for us", message(4, 32, OWN), Verdict::Mine),
        (
            "data for another",
            message(4, 1400, OTHER),
            Verdict::Relay(OTHER),
        ),
        (
            "data for nobody",
            message(4, 60, ABSENT),
            Verdict::UnknownAgent,
        ),
        ("response for us", message(2, 92, OWN), Verdict::Mine),
        (
            "response for another",
            message(2, 92, OTHER),
            Verdict::Relay(OTHER),
        ),
        (
            "response for nobody",
            message(2, 92, ABSENT),
            Verdict::UnknownAgent,
        ),
        ("cookie for us", message(3, 64, OWN), Verdict::Mine),
        (
            "cookie for another",
            message(3, 64, OTHER),
            Verdict::Relay(OTHER),
        ),
        (
            "initiation without mac1 for us",
            message(1, 148, OWN),
            Verdict::Mine,
        ),
        (
            "initiation without mac1",
            message(1, 148, OTHER),
            Verdict::BadMac,
        ),
        (
            "initiation without mac1 for nobody",
            message(1, 148, ABSENT),
            Verdict::BadMac,
        ),
        (
            "response of a wrong length",
            message(2, 91, OTHER),
            Verdict::Mine,
        ),
        (
            "data that is too short",
            message(4, 31, OTHER),
            Verdict::Mine,
        ),
        ("an unknown type", message(5, 148, OTHER), Verdict::Mine),
        ("nothing", vec![], Verdict::Mine),
        ("one byte", vec![4], Verdict::Mine),
    ];
    for (name, datagram, want) in cases {
        assert_eq!(
            decide(&steering, &datagram, "198.51.100.1:40000"),
            want,
            "{name}"
        );
    }
}

#[test]
fn reserved_bytes_must_be_zero() {
    let Agents { steering, .. } = agents();
    let mut datagram = message(4, 64, OTHER);
    datagram[2] = 1;
    assert_eq!(
        decide(&steering, &datagram, "198.51.100.1:40000"),
        Verdict::Mine
    );
}

#[test]
fn an_initiation_is_passed_on_only_with_a_mac1_for_its_target() {
    let Agents {
        steering,
        other,
        own,
        ..
    } = agents();
    let good = initiation(&other, pair_index(OTHER, 1));
    assert_eq!(
        decide(&steering, &good, "198.51.100.1:40000"),
        Verdict::Relay(OTHER)
    );
    let mut bad = good.clone();
    bad[40] ^= 1;
    assert_eq!(
        decide(&steering, &bad, "198.51.100.1:40000"),
        Verdict::BadMac
    );
    // The index says another, but it was made for us: it is ours to judge.
    let forged = initiation(&own, pair_index(OTHER, 1));
    assert_eq!(
        decide(&steering, &forged, "198.51.100.1:40000"),
        Verdict::Mine
    );
}

#[test]
fn a_foreign_initiation_finds_its_target_by_trial() {
    let Agents {
        steering, third, ..
    } = agents();
    for index in [0, 0xab_cdef, pair_index(ABSENT, 0), pair_index(OTHER, 0)] {
        let foreign = initiation(&third, index);
        assert_eq!(
            decide(&steering, &foreign, "198.51.100.1:40000"),
            Verdict::Relay(3)
        );
    }
}

#[test]
fn trials_are_bounded_each_second() {
    let Agents {
        steering, third, ..
    } = agents();
    let mut trials = TrialBudget::default();
    let noise = message(1, 148, ABSENT);
    for _ in 0..10_000 {
        steering.decide(&noise, at("198.51.100.1:1"), &mut trials, 5_000);
    }
    let foreign = initiation(&third, 0);
    let from = at("198.51.100.1:2");
    assert_eq!(
        steering.decide(&foreign, from, &mut trials, 5_999),
        Verdict::BadMac
    );
    assert_eq!(
        steering.decide(&foreign, from, &mut trials, 6_000),
        Verdict::Relay(3)
    );
}

#[test]
fn nothing_is_passed_on_twice() {
    let Agents {
        steering, other, ..
    } = agents();
    let datagrams = [
        message(4, 64, OTHER),
        message(2, 92, OTHER),
        message(3, 64, OTHER),
        initiation(&other, 5),
    ];
    for datagram in datagrams {
        for from in ["10.0.0.2:51820", "10.0.0.2:40000", "[fd00::3]:1"] {
            assert_eq!(
                decide(&steering, &datagram, from),
                Verdict::Mine,
                "from {from}"
            );
        }
    }
}

#[test]
fn a_gateway_steers_nothing() {
    let gateway = Steering::new(0, &[1; 32], HashMap::new());
    assert_eq!(
        decide(&gateway, &message(4, 64, OTHER), "198.51.100.1:1"),
        Verdict::Mine
    );
}

#[test]
fn only_an_agents_own_endpoint_may_answer() {
    let Agents { steering, .. } = agents();
    assert!(steering.is_target(at("10.0.0.2:51820")));
    assert!(steering.is_target(at("[fd00::3]:51820")));
    assert!(!steering.is_target(at("10.0.0.2:51821")));
    assert!(!steering.is_target(at("10.0.0.9:51820")));
}

/// A gateway and an agent exchange handshakes and data; every datagram must be steered right.
#[test]
fn every_message_is_steered_right_over_three_rekeys() {
    let Agents {
        steering, other, ..
    } = agents();
    let gateway_identity = Identity::new([9; 32]);
    let pair = pair_index(OTHER, 31);
    let mut gateway = gateway_identity.peer(other.public_key(), pair);
    let mut agent = other.peer(gateway_identity.public_key(), pair);
    let own_index = |d: &[u8]| u32::from_le_bytes(*d[4..8].first_chunk().unwrap());
    let mut sessions = HashSet::new();
    let (mut a, mut b, mut c) = (vec![0u8; 2048], vec![0u8; 2048], vec![0u8; 2048]);
    for round in 0..4 {
        // Even rounds: the gateway begins. Odd rounds: the agent.
        let gateway_begins = round % 2 == 0;
        let (first, second): (&mut Box<dyn Noise>, &mut Box<dyn Noise>) = if gateway_begins {
            (&mut gateway, &mut agent)
        } else {
            (&mut agent, &mut gateway)
        };
        let Sealed::Handshake(n) = first.initiate(&mut a) else {
            panic!("no initiation")
        };
        assert_eq!(pair_of(own_index(&a)), pair);
        let Opened::Answer(m) = second.open(&a[..n], &mut b) else {
            panic!("no response")
        };
        assert_eq!((b[0], m), (2, 92));
        assert_eq!(pair_of(own_index(&b)), pair);
        let Opened::Answer(k) = first.open(&b[..m], &mut c) else {
            panic!("no confirmation")
        };
        assert_eq!(second.open(&c[..k], &mut b.clone()), Opened::Keepalive);
        let from_gateway: Vec<&[u8]> = if gateway_begins {
            vec![&a[..n], &c[..k]]
        } else {
            vec![&b[..m]]
        };
        for datagram in from_gateway {
            assert_eq!(
                decide(&steering, datagram, "198.51.100.1:1"),
                Verdict::Relay(OTHER)
            );
            assert_eq!(pair_of(classify(datagram).unwrap().1), pair);
        }
        assert!(sessions.insert(own_index(&a)), "a session index came twice");
        let Sealed::Data(n) = gateway.seal(&[0x45; 60], &mut a) else {
            panic!("no data")
        };
        assert_eq!(
            decide(&steering, &a[..n], "198.51.100.1:1"),
            Verdict::Relay(OTHER)
        );
    }
}

#[test]
fn a_client_keeps_its_flow_and_its_answers() {
    let mut table = FlowTable::new(10);
    let client = at("198.51.100.1:1");
    let Touched::New { id, evicted: None } = table.touch(client, None, 0) else {
        panic!()
    };
    assert_eq!(table.touch(client, None, 5), Touched::Known(id));
    assert_eq!(table.answered(id, 6).unwrap().client, client);
    assert_eq!(table.len(), 1);
    assert_eq!(table.answered(id + 1, 6), None);
}

#[test]
fn idle_flows_expire_and_busy_ones_stay() {
    let mut table = FlowTable::new(10);
    let (a, b) = (at("198.51.100.1:1"), at("198.51.100.1:2"));
    let Touched::New { id: idle, .. } = table.touch(a, None, 0) else {
        panic!()
    };
    let Touched::New { id: busy, .. } = table.touch(b, None, 0) else {
        panic!()
    };
    table.answered(busy, 1000);
    assert_eq!(table.deadline_ms(), Some(FLOW_IDLE_MS));
    assert_eq!(table.expire(FLOW_IDLE_MS - 1), []);
    assert_eq!(table.expire(FLOW_IDLE_MS), [idle]);
    assert_eq!(table.len(), 1);
    assert!(matches!(
        table.touch(a, None, FLOW_IDLE_MS),
        Touched::New { .. }
    ));
}

#[test]
fn a_flood_of_spoofed_clients_pushes_out_no_flow_that_was_answered() {
    let mut table = FlowTable::new(64);
    let honest: Vec<FlowId> = (0..32)
        .map(|n| {
            let Touched::New { id, .. } =
                table.touch(at(&format!("198.51.100.1:{}", n + 1)), None, n)
            else {
                panic!()
            };
            table.answered(id, n);
            id
        })
        .collect();
    for n in 0..100_000u64 {
        let spoofed = SocketAddr::from(((n as u32).to_be_bytes(), 9));
        if let Touched::New {
            evicted: Some(id), ..
        } = table.touch(spoofed, None, 100 + n)
        {
            assert!(!honest.contains(&id));
        }
    }
    assert_eq!(table.len(), 64);
    assert!(table.unanswered.len() <= 2 * 64 + 1);
    assert!(honest.iter().all(|id| table.get(*id).is_some()));
}

proptest! {
    #[test]
    fn any_bytes_are_decided_without_harm(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        kind in 0u8..6,
    ) {
        let Agents { steering, .. } = agents();
        decide(&steering, &bytes, "198.51.100.1:1");
        let mut shaped = bytes;
        if shaped.len() >= 4 {
            shaped[..4].copy_from_slice(&[kind, 0, 0, 0]);
        }
        decide(&steering, &shaped, "198.51.100.1:1");
    }

    #[test]
    fn the_table_stays_bounded_and_consistent(
        steps in prop::collection::vec((0u8..3, 0u16..12, 0u64..400_000), 0..200),
    ) {
        let mut table = FlowTable::new(5);
        let mut now = 0;
        let mut ids = Vec::new();
        for (what, n, pause) in steps {
            now += pause;
            match what {
                0 => if let Touched::New { id, .. } = table.touch(at(&format!("10.0.0.1:{}", n + 1)), None, now) {
                    ids.push(id);
                },
                1 => if let Some(id) = ids.get(usize::from(n)) { table.answered(*id, now); },
                _ => { table.expire(now); }
            }
            prop_assert!(table.len() <= 5);
            prop_assert_eq!(table.by_client.len(), table.flows.len());
            for (client, id) in &table.by_client {
                prop_assert_eq!(table.get(*id).map(|f| f.client), Some(*client));
            }
        }
    }
}
