//! All streams of a stack: dials, tells arriving packets apart, and gives each stream its turn. Pure but for local sockets; time is an argument.

use crate::ip;
use crate::stack_link::{BUFFER, Link, Send, capabilities};
use crate::stack_local::Local;
use crate::stack_stream::{
    Change, DialError, End, Patience, Readiness, Stream, Tuple, own_address,
};
use crate::stack_wire::{Arrived, arrived};
use smoltcp::iface::{Config, Interface, PollResult, SocketSet};
use smoltcp::phy::DeviceCapabilities;
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, IpEndpoint};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Connections at the same time, those included that only linger.
pub const STREAMS_MAX: usize = 1_024;
/// Buffer bytes of a connection in each direction: 20 ms of 100 Mbit/s ...
const BUFFER_FEW: usize = 256 << 10;
/// ... while there are at most this many, and less when there are more.
const FEW: usize = 64;
const BUFFER_MANY: usize = 32 << 10;
/// Local ports, as Linux takes them (ip_local_port_range).
const PORTS: std::ops::Range<u16> = 32_768..61_000;
/// Turns of streams before the caller may look at what arrived.
const TURNS: usize = 64;
/// When to look again at a connection that wants to send at once but does not, microseconds.
const RETRY_US: u64 = 5_000;

/// Names a stream for its life; never used again.
pub type StreamId = u64;

/// What happened to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It waits to be spliced.
    Connected,
    Failed(DialError),
    Ended(End),
}

/// See the file's head.
pub struct Streams {
    interface: Interface,
    capabilities: DeviceCapabilities,
    addresses: Vec<IpAddr>,
    streams: HashMap<StreamId, Stream>,
    tuples: HashMap<Tuple, StreamId>,
    /// Streams that want a turn.
    queue: VecDeque<StreamId>,
    /// Streams by the time at which they want one.
    due: BTreeSet<(u64, StreamId)>,
    outcomes: VecDeque<(StreamId, Outcome)>,
    nobody: SocketSet<'static>,
    buffer: Vec<u8>,
    next_id: StreamId,
    next_port: u16,
}

impl Streams {
    /// No streams yet. `addresses` are unicast; `seed` makes sequence numbers and ports hard to guess.
    pub fn new(addresses: &[IpAddr], mtu: u16, has_offload: bool, seed: u64) -> Streams {
        let capabilities = capabilities(mtu, has_offload);
        let mut buffer = vec![0; BUFFER];
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut link = Link {
            incoming: None,
            buffer: &mut buffer,
            capabilities: &capabilities,
            send: &mut |_| {},
        };
        let mut interface = Interface::new(config, &mut link, Instant::ZERO);
        interface.update_ip_addrs(|own| {
            for address in addresses {
                let length = if address.is_ipv4() { 32 } else { 128 };
                // Bounded by `stack::ADDRESSES_MAX`, which is less than smoltcp's own bound.
                let _ = own.push(IpCidr::new(IpAddress::from(*address), length));
            }
        });
        // Without a link layer any next hop will do, but there must be one.
        let _ = interface
            .routes_mut()
            .add_default_ipv4_route(Ipv4Addr::new(192, 0, 0, 8));
        let _ = interface
            .routes_mut()
            .add_default_ipv6_route(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 1));
        let count = u64::from(PORTS.end - PORTS.start);
        Streams {
            interface,
            capabilities,
            addresses: addresses.to_vec(),
            streams: HashMap::new(),
            tuples: HashMap::new(),
            queue: VecDeque::new(),
            due: BTreeSet::new(),
            outcomes: VecDeque::new(),
            nobody: SocketSet::new(Vec::new()),
            buffer,
            next_id: 1,
            next_port: PORTS.start + (seed % count) as u16,
        }
    }

    /// Begins a connection; `Connected` or `Failed` follows as an outcome.
    pub fn dial(
        &mut self,
        target: SocketAddr,
        patience: &Patience,
        now_us: u64,
    ) -> Result<StreamId, DialError> {
        if self.is_full() {
            self.forget_lingering();
        }
        if self.is_full() {
            return Err(DialError::Full);
        }
        let own = own_address(&self.addresses, target.ip()).ok_or(DialError::Unreachable)?;
        if target.port() == 0 || target.ip().is_unspecified() || target.ip().is_multicast() {
            return Err(DialError::Unreachable);
        }
        let tuple = self.free_tuple(own, target)?;
        let buffer = if self.streams.len() < FEW {
            BUFFER_FEW
        } else {
            BUFFER_MANY
        };
        let mut stream = Stream::new(tuple, patience, buffer, now_us);
        let remote = IpEndpoint::from(tuple.remote);
        let local = IpEndpoint::from(tuple.local);
        stream
            .socket()
            .connect(self.interface.context(), remote, local)
            .map_err(|_| DialError::Unreachable)?;
        let id = self.next_id;
        self.next_id += 1;
        self.streams.insert(id, stream);
        self.tuples.insert(tuple, id);
        self.wants_turn(id);
        Ok(id)
    }

    /// Joins a connected stream to its local end. A stream that is gone resets it.
    pub fn splice(&mut self, id: StreamId, local: Local) {
        match self.streams.get_mut(&id) {
            Some(stream) => stream.splice(local),
            None => local.reset(),
        }
        self.wants_turn(id);
    }

    /// Breaks a stream off; `Ended` does not follow.
    pub fn abort(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.abort();
            self.wants_turn(id);
        }
    }

    /// Takes what the poller tells of a stream's local end.
    pub fn note(&mut self, id: StreamId, readiness: Readiness, now_us: u64) {
        if let Some(stream) = self.streams.get_mut(&id) {
            let was_over = stream.is_over();
            stream.note(readiness, now_us);
            if stream.is_over() && !was_over {
                self.outcomes.push_back((id, Outcome::Ended(End::Reset)));
            }
            self.wants_turn(id);
        }
    }

    /// Takes a packet from the tunnel; its checksum was checked.
    pub fn receive(&mut self, packet: &[u8], now_us: u64, send: &mut Send<'_>) {
        match arrived(packet) {
            Arrived::Segment(tuple) => match self.tuples.get(&tuple).copied() {
                Some(id) => {
                    self.ingress(Some(id), packet, now_us, send);
                    self.wants_turn(id);
                }
                // A connection of an earlier life: smoltcp answers with a RST, so that the far end ends it too.
                None => self.ingress(None, packet, now_us, send),
            },
            Arrived::Unreachable(tuple) => {
                let id = self.tuples.get(&tuple).copied();
                // RFC 5927: only a connection that is being made may believe this.
                if let Some(id) = id
                    && let Some(stream) = self.streams.get_mut(&id)
                    && stream.is_dialing()
                {
                    stream.fail(DialError::Unreachable);
                    let failed = Outcome::Failed(DialError::Unreachable);
                    self.outcomes.push_back((id, failed));
                    self.wants_turn(id);
                }
            }
            Arrived::Unwanted => {}
        }
    }

    /// Gives streams their turns: those whose time has come, and those that were noted.
    pub fn run(&mut self, now_us: u64, send: &mut Send<'_>) {
        while let Some(&(at, id)) = self.due.first()
            && at <= now_us
        {
            self.due.remove(&(at, id));
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.due_us = None;
            }
            self.wants_turn(id);
        }
        for _ in 0..TURNS {
            let Some(id) = self.queue.pop_front() else {
                return;
            };
            self.turn(id, now_us, send);
        }
    }

    /// Whether a stream wants a turn now.
    pub fn is_busy(&self) -> bool {
        !self.queue.is_empty()
    }

    /// When the next stream wants a turn by itself, microseconds.
    pub fn next_us(&self) -> Option<u64> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The oldest outcome that was not taken.
    pub fn take_outcome(&mut self) -> Option<(StreamId, Outcome)> {
        self.outcomes.pop_front()
    }

    /// How many streams there are, lingering ones included.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Whether a dial would be refused, unless lingering streams make room.
    pub fn is_full(&self) -> bool {
        self.streams.len() >= STREAMS_MAX
    }

    fn turn(&mut self, id: StreamId, now_us: u64, send: &mut Send<'_>) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        stream.is_queued = false;
        let change = stream.pump(now_us);
        let mut link = Link {
            incoming: None,
            buffer: &mut self.buffer,
            capabilities: &self.capabilities,
            send: &mut |bytes| send(bytes),
        };
        let now = instant(now_us);
        let sent = self
            .interface
            .poll_egress(now, &mut link, &mut stream.sockets);
        let outcome = match change {
            Change::Nothing | Change::Moved => None,
            Change::Connected => Some(Outcome::Connected),
            Change::Failed(why) => Some(Outcome::Failed(why)),
            Change::Ended(end) => Some(Outcome::Ended(end)),
        };
        if let Some(outcome) = outcome {
            self.outcomes.push_back((id, outcome));
        }
        if stream.is_gone(now_us) {
            self.forget(id);
        } else if change != Change::Nothing || sent != PollResult::None {
            self.wants_turn(id);
        } else {
            self.schedule(id, now_us);
        }
    }

    fn schedule(&mut self, id: StreamId, now_us: u64) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let wanted = self
            .interface
            .poll_at(instant(now_us), &stream.sockets)
            .map(|at| match u64::try_from(at.total_micros()) {
                Ok(at) if at > now_us => at,
                _ => now_us + RETRY_US,
            });
        let due = wanted.into_iter().chain(stream.own_due_us()).min();
        if due != stream.due_us {
            if let Some(old) = stream.due_us {
                self.due.remove(&(old, id));
            }
            if let Some(at) = due {
                self.due.insert((at, id));
            }
            stream.due_us = due;
        }
    }

    fn wants_turn(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id)
            && !stream.is_queued
        {
            stream.is_queued = true;
            self.queue.push_back(id);
        }
    }

    fn ingress(&mut self, id: Option<StreamId>, packet: &[u8], now_us: u64, send: &mut Send<'_>) {
        let sockets = match id.and_then(|id| self.streams.get_mut(&id)) {
            Some(stream) => &mut stream.sockets,
            None => &mut self.nobody,
        };
        let mut link = Link {
            incoming: Some(packet),
            buffer: &mut self.buffer,
            capabilities: &self.capabilities,
            send: &mut |bytes| send(bytes),
        };
        self.interface
            .poll_ingress_single(instant(now_us), &mut link, sockets);
    }

    fn forget(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.remove(&id) {
            self.tuples.remove(&stream.tuple);
            if let Some(at) = stream.due_us {
                self.due.remove(&(at, id));
            }
        }
    }

    fn forget_lingering(&mut self) {
        let lingering = self.streams.iter().filter(|(_, s)| s.is_lingering());
        let ids: Vec<_> = lingering.map(|(id, _)| *id).collect();
        for id in ids {
            self.forget(id);
        }
    }

    /// The next port that no connection to this target has. In turn, so that one is not used again
    /// while the far end still remembers its last connection.
    fn free_tuple(&mut self, own: IpAddr, remote: SocketAddr) -> Result<Tuple, DialError> {
        for _ in 0..=STREAMS_MAX {
            let port = self.next_port;
            self.next_port = if port + 1 < PORTS.end {
                port + 1
            } else {
                PORTS.start
            };
            let local = SocketAddr::new(own, port);
            let tuple = Tuple { local, remote };
            if !self.tuples.contains_key(&tuple) {
                return Ok(tuple);
            }
        }
        Err(DialError::Full)
    }
}

/// smoltcp's form of a time.
pub fn instant(us: u64) -> Instant {
    Instant::from_micros(i64::try_from(us).unwrap_or(i64::MAX))
}

/// Whether a packet's TCP checksum is right; packets that are not TCP have none to look at.
pub fn is_intact(packet: &[u8]) -> bool {
    match ip::transport(packet) {
        Some(t) if t.protocol == ip::TCP => {
            crate::checksum::is_transport_valid(packet, t.offset, ip::TCP)
        }
        _ => true,
    }
}

#[cfg(test)]
#[path = "stack_streams_test.rs"]
mod tests;
