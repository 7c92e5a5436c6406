//! Streams and a second smoltcp as their far end, over a virtual wire and clock.

use crate::offload::{VNET, VnetHeader, split};
use crate::stack_local::Local;
use crate::stack_stream::{Patience, Readiness};
use crate::stack_streams::{Outcome, StreamId, Streams, instant, is_intact};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpCidr};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::net::UnixStream;

pub const MTU: u16 = 1380;
pub const OWN: [&str; 2] = ["198.18.0.1", "fd00::1"];
pub const FAR_V4: &str = "10.250.1.2:80";
pub const FAR_V6: &str = "[fd01::2]:80";
pub const PATIENCE: Patience = Patience {
    connect_ms: 10_000,
    user_timeout_ms: 120_000,
};

/// The far end's link: two queues.
#[derive(Default)]
pub struct Wire {
    pub to_far: VecDeque<Vec<u8>>,
    pub to_near: VecDeque<Vec<u8>>,
}

pub struct Packet(Vec<u8>);
pub struct Room<'a>(&'a mut VecDeque<Vec<u8>>);

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

pub struct World {
    pub near: Streams,
    pub far: Interface,
    pub far_sockets: SocketSet<'static>,
    pub wire: Wire,
    pub now_us: u64,
    pub outcomes: Vec<(StreamId, Outcome)>,
    /// Loses a packet when this many more have passed; 0: never.
    pub loses_every: usize,
    pub passed: usize,
}

impl World {
    pub fn new(has_offload: bool) -> World {
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

    pub fn listen(&mut self) -> SocketHandle {
        let buffer = || SocketBuffer::new(vec![0; 1 << 20]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.listen(80).unwrap();
        self.far_sockets.add(socket)
    }

    pub fn far(&mut self, handle: SocketHandle) -> &mut Socket<'static> {
        self.far_sockets.get_mut(handle)
    }

    pub fn is_lost(&mut self) -> bool {
        self.passed += 1;
        self.loses_every > 0 && self.passed.is_multiple_of(self.loses_every)
    }

    /// Lets everything happen that happens without time.
    pub fn settle(&mut self) {
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

    pub fn pass(&mut self, ms: u64) {
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

    pub fn dial(&mut self, target: &str) -> StreamId {
        let target = target.parse().unwrap();
        self.near.dial(target, &PATIENCE, self.now_us).unwrap()
    }

    /// A connected stream and the program's end of it.
    pub fn connect(&mut self, target: &str) -> (StreamId, UnixStream) {
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
    pub fn nudge(&mut self, id: StreamId) {
        let readiness = Readiness {
            can_read: true,
            can_write: true,
            ..Readiness::default()
        };
        self.near.note(id, readiness, self.now_us);
        self.settle();
    }
}

pub fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|n| (n * 7 + n / 251) as u8).collect()
}

/// What is there now; the flag says that it was the end.
pub fn read_some(program: &mut UnixStream, into: &mut Vec<u8>) -> bool {
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
