//! Paths: a table of situations, and a simulated balancer whose entries die.

use super::*;

const A: PeerId = 1;
const B: PeerId = 2;

/// A peer of path 0 with a session that answers probes.
pub fn peer(id: PeerId) -> Seen {
    Seen {
        peer: id,
        path: 0,
        is_v6: false,
        has_session: true,
        echoes: true,
        waiting_ms: 0,
        asked_ms: 0,
        heard_ms: 900,
    }
}

fn waits(id: PeerId, since_ms: u64, asked_ms: u64) -> Seen {
    Seen {
        waiting_ms: since_ms,
        asked_ms,
        ..peer(id)
    }
}

fn paths() -> Paths {
    Paths::new(&[[Some(1), Some(2)], [Some(3), None]])
}

/// Runs every 10 ms and returns what was done, with its time. Sockets for hunts get numbers from 100 on.
fn run(
    paths: &mut Paths,
    seen: impl Fn(u64) -> Vec<Seen>,
    from_ms: u64,
    to_ms: u64,
) -> Vec<(u64, Effect)> {
    let mut done = Vec::new();
    let mut socket = 100 + from_ms;
    for now_ms in (from_ms..to_ms).step_by(10) {
        for effect in paths.step(&seen(now_ms), now_ms).0 {
            if let Effect::Hunt {
                path, is_v6, count, ..
            } = effect
            {
                for _ in 0..count {
                    paths.candidate(path, socket, is_v6, now_ms);
                    socket += 1;
                }
            }
            done.push((now_ms, effect));
        }
    }
    done
}

fn first(done: &[(u64, Effect)], is: impl Fn(&Effect) -> bool) -> Option<u64> {
    done.iter().find(|(_, e)| is(e)).map(|(at, _)| *at)
}

fn is_hunt(e: &Effect) -> bool {
    matches!(e, Effect::Hunt { .. })
}

#[test]
fn silence_costs_nothing() {
    let mut paths = paths();
    assert_eq!(paths.step(&[], 1000), (vec![], None));
    assert_eq!(paths.step(&[peer(A), peer(B)], 1000), (vec![], None));
}

#[test]
fn data_without_an_answer_is_probed_after_200_ms() {
    let mut paths = paths();
    assert_eq!(
        paths.step(&[waits(A, 1000, 1000)], 1000),
        (vec![], Some(1200))
    );
    let (effects, deadline) = paths.step(&[waits(A, 1000, 1000)], 1200);
    assert_eq!(
        effects,
        [Effect::Probe {
            peer: A,
            how: How::Echo
        }]
    );
    assert_eq!(deadline, Some(1400));
}

#[test]
fn p2_a_path_without_answers_is_hunted_after_500_ms_and_the_first_candidate_that_answers_wins() {
    let mut paths = paths();
    let seen = |_| vec![waits(A, 1000, 1500), waits(B, 1100, 1500)];
    let done = run(&mut paths, seen, 1000, 1510);
    assert_eq!(first(&done, is_hunt), Some(1500));
    let hunt = done
        .iter()
        .find(|(_, e)| is_hunt(e))
        .map(|(_, e)| e.clone());
    let want = Effect::Hunt {
        path: 0,
        is_v6: false,
        count: 3,
        peers: vec![A],
    };
    assert_eq!(hunt, Some(want));
    assert_eq!(
        first(&done, |e| matches!(e, Effect::Unanswered { .. })),
        None
    );
    let adopted = paths.heard(A, 1101, 1520);
    assert_eq!(
        adopted,
        [Effect::Adopt {
            path: 0,
            socket: 1101,
            is_v6: false
        }]
    );
    // Losers and the old socket listen for five more seconds.
    let done = run(&mut paths, |_| vec![], 1530, 7000);
    let mut closed: Vec<SocketId> = Vec::new();
    for (at, effect) in &done {
        let Effect::Close { socket } = effect else {
            panic!("{effect:?}")
        };
        assert_eq!(*at, 6520);
        closed.push(*socket);
    }
    closed.sort_unstable();
    assert_eq!(closed, [1, 1100, 1102]);
}

#[test]
fn a_dead_peer_on_a_living_path_is_reported_within_700_ms_and_the_path_stays() {
    let mut paths = paths();
    let mut done = Vec::new();
    for now_ms in (1000..3000).step_by(10) {
        let b = Seen {
            heard_ms: now_ms - now_ms % 100,
            ..peer(B)
        };
        paths.heard(B, 1, b.heard_ms);
        let effects = paths.step(&[waits(A, 1000, now_ms), b], now_ms).0;
        done.extend(effects.into_iter().map(|e| (now_ms, e)));
    }
    assert_eq!(first(&done, is_hunt), None);
    assert_eq!(
        first(&done, |e| matches!(e, Effect::Unanswered { peer: A, .. })),
        Some(1700)
    );
    let reports = done
        .iter()
        .filter(|(_, e)| matches!(e, Effect::Unanswered { .. }))
        .count();
    assert_eq!(reports, 1);
    assert_eq!(paths.heard(A, 1, 3000), [Effect::Answered { peer: A }]);
    assert_eq!(paths.heard(A, 1, 3001), []);
}

#[test]
fn idle_peers_of_the_path_are_asked_as_witnesses() {
    let mut paths = paths();
    let others = [
        peer(B),
        Seen {
            heard_ms: 700,
            ..peer(3)
        },
        Seen {
            heard_ms: 800,
            ..peer(4)
        },
    ];
    let seen = [&[waits(A, 1000, 1200)], &others[..]].concat();
    let (effects, _) = paths.step(&seen, 1200);
    let asked = [A, B, 4].map(|peer| Effect::Probe {
        peer,
        how: How::Echo,
    });
    assert_eq!(effects, asked);
    // One witness answers on the old socket: no hunt.
    paths.heard(B, 1, 1210);
    let seen = |_| {
        vec![
            waits(A, 1000, 1400),
            Seen {
                heard_ms: 1210,
                ..peer(B)
            },
        ]
    };
    assert_eq!(first(&run(&mut paths, seen, 1210, 1700), is_hunt), None);
}

#[test]
fn a_path_that_answers_again_ends_the_hunt() {
    let mut paths = paths();
    run(&mut paths, |_| vec![waits(A, 1000, 1500)], 1000, 1600);
    assert_eq!(paths.heard(A, 1, 1600), []);
    let done = run(&mut paths, |_| vec![], 1600, 7000);
    assert!(
        done.iter()
            .all(|(_, e)| matches!(e, Effect::Close { socket: 1100.. }))
    );
    assert_eq!(done.len(), 3);
}

#[test]
fn hunting_goes_on_with_traffic_slows_down_and_ends_without() {
    let mut paths = paths();
    let seen = |now: u64| vec![waits(A, 1000, now.min(20_000))];
    let done = run(&mut paths, seen, 1000, 60_000);
    let hunts: Vec<u64> = done
        .iter()
        .filter(|(_, e)| is_hunt(e))
        .map(|(at, _)| *at)
        .collect();
    let fast = hunts.iter().filter(|at| **at < 6_500).count();
    let slow = hunts.iter().filter(|at| **at >= 6_500).count();
    assert!(
        (23..=26).contains(&fast),
        "{fast} rounds in the first five seconds"
    );
    assert!(
        (22..=25).contains(&slow),
        "{slow} rounds in the 24 seconds after"
    );
    assert!(
        hunts.iter().all(|at| *at < 30_010),
        "no round after the traffic"
    );
    let opened: usize = done
        .iter()
        .map(|(_, e)| {
            if let Effect::Hunt { count, .. } = e {
                *count
            } else {
                0
            }
        })
        .sum();
    let closed = done
        .iter()
        .filter(|(_, e)| matches!(e, Effect::Close { .. }))
        .count();
    assert_eq!(opened, closed, "every candidate is closed in the end");
}

#[test]
fn a_peer_without_a_session_is_asked_by_handshakes() {
    let mut paths = paths();
    let seen = |now| {
        vec![Seen {
            has_session: false,
            echoes: false,
            ..waits(A, 1000, now)
        }]
    };
    let done = run(&mut paths, seen, 1000, 4000);
    let initiate = Effect::Probe {
        peer: A,
        how: How::Initiate,
    };
    let at: Vec<u64> = done
        .iter()
        .filter(|(_, e)| *e == initiate)
        .map(|(at, _)| *at)
        .collect();
    assert_eq!(at, [1500, 2500]);
    assert_eq!(first(&done, is_hunt), Some(1500));
    assert!(
        !done
            .iter()
            .any(|(_, e)| matches!(e, Effect::Probe { how: How::Echo, .. }))
    );
}

#[test]
fn t27_a_session_that_stays_silent_is_made_anew() {
    let mut paths = paths();
    let done = run(&mut paths, |now| vec![waits(A, 1000, now)], 1000, 2500);
    let initiate = Effect::Probe {
        peer: A,
        how: How::Initiate,
    };
    assert_eq!(first(&done, |e| *e == initiate), Some(1900));
    let unanswered = Effect::Unanswered {
        peer: A,
        for_ms: 1000,
    };
    assert_eq!(
        first(&done, |e| *e == unanswered),
        Some(2000),
        "nobody at all answers"
    );
}

#[test]
fn foreign_wireguard_is_given_more_time() {
    let mut paths = paths();
    let done = run(
        &mut paths,
        |now| {
            vec![Seen {
                echoes: false,
                ..waits(A, 1000, now)
            }]
        },
        1000,
        3500,
    );
    assert_eq!(
        first(&done, |e| matches!(
            e,
            Effect::Probe {
                how: How::Initiate,
                ..
            }
        )),
        Some(1600)
    );
    assert_eq!(first(&done, is_hunt), Some(2500));
    assert_eq!(
        first(&done, |e| matches!(e, Effect::Unanswered { .. })),
        Some(3000)
    );
}

#[test]
fn each_path_and_family_is_on_its_own() {
    let mut paths = paths();
    let seen = |_| {
        vec![
            Seen {
                is_v6: true,
                ..waits(A, 1000, 1500)
            },
            Seen { path: 1, ..peer(B) },
        ]
    };
    let done = run(&mut paths, seen, 1000, 1510);
    assert!(done.iter().any(|(_, e)| matches!(
        e,
        Effect::Hunt {
            path: 0,
            is_v6: true,
            ..
        }
    )));
    assert_eq!(
        paths.heard(A, 1100, 1510),
        [Effect::Adopt {
            path: 0,
            socket: 1100,
            is_v6: true
        }]
    );
    assert_eq!(paths.paths[0].current, [Some(1), Some(1100)]);
    assert_eq!(paths.paths[1].current, [Some(3), None]);
}
