//! Streams against a second smoltcp as the far end, over a virtual wire and clock; the local ends are Unix socket pairs.

use super::*;
use crate::offload::{VNET, VnetHeader, split};
use crate::unreachable::host_unreachable;
use proptest::prelude::*;
use smoltcp::iface::SocketHandle;
use smoltcp::phy::{ChecksumCapabilities, Device, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

const MTU: u16 = 1380;
const OWN: [&str; 2] = ["198.18.0.1", "fd00::1"];
const FAR_V4: &str = "10.250.1.2:80";
const FAR_V6: &str = "[fd01::2]:80";
const PATIENCE: Patience = Patience {
    connect_ms: 10_000,
    user_timeout_ms: 120_000,
};

/// The far end's link: two queues.
#[derive(Default)]
struct Wire {
    to_far: VecDeque<Vec<u8>>,
    to_near: VecDeque<Vec<u8>>,
}

struct Packet(Vec<u8>);
struct Room<'a>(&'a mut VecDeque<Vec<u8>>);

impl RxToken for Packet {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        self.0.push_back(packet);
        result
    }
}

impl Device for Wire {
    type RxToken<'a> = Packet;
    type TxToken<'a> = Room<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Packet, Room<'_>)> {
        let packet = Packet(self.to_far.pop_front()?);
        Some((packet, Room(&mut self.to_near)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Room<'_>> {
        Some(Room(&mut self.to_near))
    }

    /// Verifies all checksums, unlike the near end.
    fn capabilities(&self) -> DeviceCapabilities {
        let mut caps = DeviceCapabilities::default();
        caps.medium = Medium::Ip;
        caps.max_transmission_unit = usize::from(MTU);
        caps.checksum = ChecksumCapabilities::default();
        caps
    }
}

struct World {
    near: Streams,
    far: Interface,
    far_sockets: SocketSet<'static>,
    wire: Wire,
    now_us: u64,
    outcomes: Vec<(StreamId, Outcome)>,
    /// Loses a packet when this many more have passed; 0: never.
    loses_every: usize,
    passed: usize,
}

impl World {
    fn new(has_offload: bool) -> World {
        let own = OWN.map(|a| a.parse().unwrap());
        let mut wire = Wire::default();
        let mut far = Interface::new(Config::new(HardwareAddress::Ip), &mut wire, Instant::ZERO);
        far.update_ip_addrs(|a| {
            for text in ["10.250.1.2", "fd01::2"] {
                let address: IpAddr = text.parse().unwrap();
                a.push(IpCidr::new(address.into(), 24)).unwrap();
            }
        });
        let routes = far.routes_mut();
        routes.add_default_ipv4_route(Ipv4Addr::LOCALHOST).unwrap();
        routes.add_default_ipv6_route(Ipv6Addr::LOCALHOST).unwrap();
        World {
            near: Streams::new(&own, MTU, has_offload, 7),
            far,
            far_sockets: SocketSet::new(Vec::new()),
            wire,
            now_us: 1,
            outcomes: Vec::new(),
            loses_every: 0,
            passed: 0,
        }
    }

    fn listen(&mut self) -> SocketHandle {
        let buffer = || SocketBuffer::new(vec![0; 1 << 20]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.listen(80).unwrap();
        self.far_sockets.add(socket)
    }

    fn far(&mut self, handle: SocketHandle) -> &mut Socket<'static> {
        self.far_sockets.get_mut(handle)
    }

    fn is_lost(&mut self) -> bool {
        self.passed += 1;
        self.loses_every > 0 && self.passed.is_multiple_of(self.loses_every)
    }

    /// Lets everything happen that happens without time.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            let mut sent = Vec::new();
            self.near
                .run(self.now_us, &mut |bytes| sent.push(bytes.to_vec()));
            let is_quiet = sent.is_empty() && !self.near.is_busy();
            let mut scratch = vec![0; 65_536];
            for mut bytes in sent {
                let header = VnetHeader::parse(&bytes).unwrap();
                let mut segments = Vec::new();
                split(&mut bytes[VNET..], &header, &mut scratch, &mut |s| {
                    segments.push(s.to_vec());
                })
                .unwrap();
                for segment in segments {
                    assert!(segment.len() <= usize::from(MTU));
                    if !self.is_lost() {
                        self.wire.to_far.push_back(segment);
                    }
                }
            }
            let now = instant(self.now_us);
            self.far.poll(now, &mut self.wire, &mut self.far_sockets);
            if is_quiet && self.wire.to_near.is_empty() {
                break;
            }
            while let Some(packet) = self.wire.to_near.pop_front() {
                assert!(is_intact(&packet));
                if !self.is_lost() {
                    let mut answers = Vec::new();
                    self.near
                        .receive(&packet, self.now_us, &mut |b| answers.push(b.to_vec()));
                    let packets = answers.into_iter().map(|b| b[VNET..].to_vec());
                    self.wire.to_far.extend(packets);
                }
            }
        }
        while let Some(outcome) = self.near.take_outcome() {
            self.outcomes.push(outcome);
        }
    }

    fn pass(&mut self, ms: u64) {
        let end = self.now_us + ms * 1_000;
        while self.now_us < end {
            self.settle();
            let near = self.near.next_us().unwrap_or(end);
            let far = self.far.poll_at(instant(self.now_us), &self.far_sockets);
            let far = far.map_or(end, |at| u64::try_from(at.total_micros()).unwrap_or(end));
            let next = near.min(far).max(self.now_us + 1_000);
            self.now_us = next.min(end);
        }
        self.settle();
    }

    fn dial(&mut self, target: &str) -> StreamId {
        let target = target.parse().unwrap();
        self.near.dial(target, &PATIENCE, self.now_us).unwrap()
    }

    /// A connected stream and the program's end of it.
    fn connect(&mut self, target: &str) -> (StreamId, UnixStream) {
        let id = self.dial(target);
        self.settle();
        assert_eq!(self.outcomes.pop(), Some((id, Outcome::Connected)));
        let (program, local) = UnixStream::pair().unwrap();
        program.set_nonblocking(true).unwrap();
        self.near.splice(
            id,
            Local::new(std::os::fd::OwnedFd::from(local).into()).unwrap(),
        );
        (id, program)
    }

    /// Tells the stream to try both ways, as edges of the poller would.
    fn nudge(&mut self, id: StreamId) {
        let readiness = Readiness {
            can_read: true,
            can_write: true,
            ..Readiness::default()
        };
        self.near.note(id, readiness, self.now_us);
        self.settle();
    }
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|n| (n * 7 + n / 251) as u8).collect()
}

/// What is there now; the flag says that it was the end.
fn read_some(program: &mut UnixStream, into: &mut Vec<u8>) -> bool {
    let mut part = [0; 65_536];
    loop {
        match program.read(&mut part) {
            Ok(0) => return true,
            Ok(n) => into.extend_from_slice(&part[..n]),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return false,
            Err(e) => panic!("{e}"),
        }
    }
}

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

#[test]
fn a_target_that_says_nothing_fails_the_dial_when_its_time_is_up() {
    let mut world = World::new(true);
    world.loses_every = 1;
    let id = world.dial(FAR_V4);
    world.pass(9_990);
    assert_eq!(world.outcomes, []);
    world.pass(20);
    let late = Outcome::Failed(DialError::TimedOut);
    assert_eq!(world.outcomes, [(id, late)]);
    assert!(world.near.is_empty());
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

#[test]
fn there_are_at_most_so_many_connections() {
    let mut world = World::new(true);
    let target: SocketAddr = FAR_V4.parse().unwrap();
    for _ in 0..STREAMS_MAX {
        world.dial(FAR_V4);
    }
    assert_eq!(world.near.dial(target, &PATIENCE, 1), Err(DialError::Full));
    world.pass(100);
    assert!(world.near.is_empty(), "all were refused");
    world.dial(FAR_V4);
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
