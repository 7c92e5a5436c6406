//! Streams against a far end over a virtual wire; the local ends are Unix socket pairs.

use super::*;
use crate::offload::VNET;
use crate::stack_world_test::{FAR_V4, FAR_V6, PATIENCE, World, bytes, read_some};
use crate::unreachable::host_unreachable;
use proptest::prelude::*;
use smoltcp::socket::tcp::State;
use std::io::Write;
use std::os::unix::net::UnixStream;

/// Both ends send `count` bytes and end their half; checks that all arrives and nothing stays.
fn exchange(world: &mut World, target: &str, count: usize, patience_ms: u64) {
    let others = world.near.len();
    let handle = world.listen();
    let want = bytes(count);
    let id = world.dial(target);
    world.pass(patience_ms / 10);
    assert_eq!(world.outcomes.pop(), Some((id, Outcome::Connected)));
    let (mut program, local) = UnixStream::pair().unwrap();
    program.set_nonblocking(true).unwrap();
    world.near.splice(
        id,
        Local::new(std::os::fd::OwnedFd::from(local).into()).unwrap(),
    );
    let (mut up, mut down, mut got, mut heard) = (0, 0, Vec::new(), Vec::new());
    let (mut is_up_ended, mut is_down_ended, mut is_over) = (false, false, false);
    let end_us = world.now_us + patience_ms * 1_000;
    while world.now_us < end_us && !(is_over && heard.len() == count) {
        if up < count {
            up += program.write(&want[up..]).unwrap_or(0);
        } else if !is_up_ended {
            program.shutdown(std::net::Shutdown::Write).unwrap();
            is_up_ended = true;
        }
        is_over |= read_some(&mut program, &mut got);
        let far = world.far(handle);
        if far.can_recv() {
            far.recv(|b| (b.len(), heard.extend_from_slice(b))).unwrap();
        }
        if down < count && far.can_send() {
            down += far.send_slice(&want[down..]).unwrap();
        } else if down == count && !is_down_ended {
            far.close();
            is_down_ended = true;
        }
        world.nudge(id);
        world.pass(1);
    }
    assert!(heard == want, "up: {} of {count}", heard.len());
    assert!(got == want, "down: {} of {count}", got.len());
    drop(program);
    world.pass(patience_ms);
    assert_eq!(
        world.outcomes.pop(),
        Some((id, Outcome::Ended(End::Closed)))
    );
    assert_eq!(world.near.len(), others);
    world.far_sockets.remove(handle);
}

#[test]
fn bytes_and_ends_of_halves_pass_both_ways_in_both_families() {
    for has_offload in [true, false] {
        for target in [FAR_V4, FAR_V6] {
            let mut world = World::new(has_offload);
            exchange(&mut world, target, 700_000, 5_000);
            exchange(&mut world, target, 0, 5_000);
            exchange(&mut world, target, 1, 5_000);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn nothing_is_lost_or_changed_when_the_wire_loses_packets(every in 7usize..60, is_v4: bool) {
        let mut world = World::new(true);
        world.loses_every = every;
        exchange(&mut world, if is_v4 { FAR_V4 } else { FAR_V6 }, 150_000, 400_000);
    }
}

#[test]
fn a_target_that_refuses_fails_the_dial_at_once() {
    let mut world = World::new(true);
    for target in [FAR_V4, FAR_V6] {
        let id = world.dial(target);
        world.settle();
        let refused = Outcome::Failed(DialError::Refused);
        assert_eq!(world.outcomes.pop(), Some((id, refused)));
    }
    assert!(world.near.is_empty());
}

/// T16: nothing stays of a dial that was refused.
#[test]
fn t16_ten_thousand_refused_dials_fail_at_once_and_leave_nothing() {
    let mut world = World::new(true);
    for n in 0..10_000 {
        let id = world.dial([FAR_V4, FAR_V6][n % 2]);
        world.settle();
        let refused = Outcome::Failed(DialError::Refused);
        assert_eq!(world.outcomes.pop(), Some((id, refused)), "dial {n}");
        assert!(world.near.is_empty(), "dial {n}");
    }
    assert_eq!(world.near.next_us(), None, "nothing is to be done later");
}

/// T8: a tunnel that is up and passes nothing holds no dial longer than its time.
#[test]
fn t8_dials_into_a_tunnel_without_progress_end_in_time_and_do_not_pile_up() {
    for target in [FAR_V4, FAR_V6] {
        let mut world = World::new(true);
        world.loses_every = 1;
        let id = world.dial(target);
        world.pass(9_990);
        assert_eq!(world.outcomes, []);
        world.pass(20);
        let late = Outcome::Failed(DialError::TimedOut);
        assert_eq!(world.outcomes, [(id, late)]);
        assert!(world.near.is_empty());
        world.outcomes.clear();
        for second in 1..=60 {
            for _ in 0..20 {
                world.dial(target);
            }
            world.pass(1_000);
            assert!(world.near.len() <= 11 * 20, "after {second} s");
        }
        world.pass(11_000);
        assert!(world.near.is_empty());
        assert_eq!(world.outcomes.len(), 60 * 20);
        assert!(world.outcomes.iter().all(|(_, end)| *end == late));
    }
}

#[test]
fn word_that_a_target_is_unreachable_is_believed_only_while_dialing() {
    for target in [FAR_V4, FAR_V6] {
        let mut world = World::new(true);
        let id = world.dial(target);
        let mut syn = Vec::new();
        world
            .near
            .run(world.now_us, &mut |b| syn = b[VNET..].to_vec());
        let error = host_unreachable(&syn).unwrap();
        world.near.receive(&error, world.now_us, &mut |_| {});
        world.settle();
        let unreachable = Outcome::Failed(DialError::Unreachable);
        assert_eq!(world.outcomes, [(id, unreachable)]);
        assert!(world.near.is_empty());

        let handle = world.listen();
        world.outcomes.clear();
        let (id, mut program) = world.connect(target);
        let tuple = world.near.streams[&id].tuple;
        let ports = [tuple.local.port(), tuple.remote.port()].map(u16::to_be_bytes);
        let at = if tuple.local.is_ipv4() { 20 } else { 40 };
        syn[at..at + 4].copy_from_slice(&ports.concat());
        let error = host_unreachable(&syn).unwrap();
        world.near.receive(&error, world.now_us, &mut |_| {});
        program.write_all(b"still here").unwrap();
        world.nudge(id);
        let heard = world.far(handle).recv(|b| (b.len(), b.to_vec())).unwrap();
        assert_eq!(heard, b"still here");
    }
}

#[test]
fn a_program_that_goes_away_resets_the_far_end_and_a_reset_ends_the_program() {
    let mut world = World::new(true);
    let handle = world.listen();
    let (id, program) = world.connect(FAR_V4);
    drop(program);
    world.far(handle).send_slice(b"into the void").unwrap();
    world.nudge(id);
    world.pass(100);
    assert_eq!(world.far(handle).state(), State::Closed);
    assert_eq!(world.outcomes.pop(), Some((id, Outcome::Ended(End::Reset))));

    let handle = world.listen();
    let (id, mut program) = world.connect(FAR_V4);
    world.far(handle).abort();
    world.pass(100);
    assert!(read_some(&mut program, &mut Vec::new()));
    assert_eq!(world.outcomes.pop(), Some((id, Outcome::Ended(End::Reset))));
    assert!(world.near.is_empty());
}

#[test]
fn t1_a_program_that_reads_nothing_stops_nobody_else() {
    let mut world = World::new(true);
    let slow = world.listen();
    let (slow_id, _program) = world.connect(FAR_V4);
    for _ in 0..20 {
        world.far(slow).send_slice(&bytes(1 << 20)).unwrap();
        world.nudge(slow_id);
    }
    assert!(!world.far(slow).can_send(), "the far end waits");
    exchange(&mut world, FAR_V4, 300_000, 5_000);
}

#[test]
fn bytes_that_were_not_read_outlive_the_connection() {
    let mut world = World::new(true);
    let handle = world.listen();
    let (id, mut program) = world.connect(FAR_V4);
    program.shutdown(std::net::Shutdown::Write).unwrap();
    world.nudge(id);
    let want = bytes(400_000);
    assert_eq!(world.far(handle).send_slice(&want), Ok(want.len()));
    world.far(handle).close();
    world.nudge(id);
    world.pass(30_000);
    assert_eq!(world.far(handle).state(), State::Closed);
    let mut got = Vec::new();
    for _ in 0..100 {
        read_some(&mut program, &mut got);
        world.nudge(id);
    }
    assert!(got == want, "{} bytes", got.len());
    world.pass(2_000);
    assert!(world.near.is_empty());
}

#[test]
fn a_far_end_that_falls_silent_is_given_up_in_its_time() {
    let mut world = World::new(true);
    world.listen();
    let (id, _program) = world.connect(FAR_V4);
    world.pass(3_600_000);
    assert_eq!(world.outcomes, [], "keepalives are answered for an hour");
    world.loses_every = 1;
    world.pass(110_000);
    assert_eq!(world.near.len(), 1);
    world.pass(50_000);
    assert_eq!(world.outcomes, [(id, Outcome::Ended(End::Reset))]);
    assert!(world.near.is_empty());
}

/// T10: a tunnel that hangs takes a bounded number of requests, and says so to the next.
#[test]
fn t10_there_are_at_most_so_many_connections_and_room_again_after_their_time() {
    let mut world = World::new(true);
    let target: SocketAddr = FAR_V4.parse().unwrap();
    for _ in 0..STREAMS_MAX {
        world.dial(FAR_V4);
    }
    assert_eq!(world.near.dial(target, &PATIENCE, 1), Err(DialError::Full));
    world.pass(100);
    assert!(world.near.is_empty(), "all were refused");
    world.outcomes.clear();
    world.loses_every = 1;
    for _ in 0..STREAMS_MAX {
        world.dial(FAR_V4);
    }
    world.pass(5_000);
    let full = world.near.dial(target, &PATIENCE, world.now_us);
    assert_eq!(full, Err(DialError::Full));
    world.pass(6_000);
    assert_eq!(world.outcomes.len(), STREAMS_MAX, "all had their time");
    world.loses_every = 0;
    world.outcomes.clear();
    exchange(&mut world, FAR_V4, 1_000, 5_000);
}

#[test]
fn connections_from_the_other_side_are_not_even_refused_but_old_ones_are_reset() {
    let mut world = World::new(true);
    let mut syn = Vec::new();
    world.dial(FAR_V4);
    world.near.run(1, &mut |b| syn = b[VNET..].to_vec());
    // Turned round, it comes from there to a port of ours.
    for (a, b, len) in [(12, 16, 4), (20, 22, 2)] {
        for n in 0..len {
            syn.swap(a + n, b + n);
        }
    }
    syn[21] ^= 1;
    let mut answers = Vec::new();
    world
        .near
        .receive(&syn, 1, &mut |b| answers.push(b[VNET..].to_vec()));
    assert!(answers.is_empty());
    syn[33] = 0x10;
    world
        .near
        .receive(&syn, 1, &mut |b| answers.push(b[VNET..].to_vec()));
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0][33] & 0x04, 0x04, "RST");
    assert!(is_intact(&answers[0]));
}

#[test]
fn ports_are_taken_in_turn_and_wrap() {
    let mut world = World::new(true);
    world.near.next_port = PORTS.end - 1;
    let first = world.dial(FAR_V4);
    let second = world.dial(FAR_V4);
    let port = |id| world.near.streams[&id].tuple.local.port();
    assert_eq!((port(first), port(second)), (PORTS.end - 1, PORTS.start));
    world.near.next_port = PORTS.start;
    let third = world.dial(FAR_V4);
    let tuple = world.near.streams[&third].tuple;
    assert_eq!(tuple.local.port(), PORTS.start + 1, "the first is in use");
}

/// A listener that drops the ACK of its handshake and uses SYN cookies reads the sequence from what comes next.
#[test]
fn a_new_connection_sends_nothing_but_its_ack() {
    let mut world = World::new(true);
    let handle = world.listen();
    let (_id, _program) = world.connect(FAR_V4);
    world.pass(20_000);
    assert_eq!(world.far(handle).state(), State::Established);
    assert_eq!(world.passed, 3, "SYN, SYN and ACK, ACK");
}
