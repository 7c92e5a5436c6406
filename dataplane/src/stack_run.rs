//! The thread of a device without a TUN: packets and local sockets in, packets out to the engine.

use crate::event::Code;
use crate::memory::give_back;
use crate::poll::Poller;
use crate::shared::Shared;
use crate::stack::{Command, Stack};
use crate::stack_egress::Egress;
use crate::stack_forward::Listener;
use crate::stack_inbox::packets;
use crate::stack_local::Local;
use crate::stack_stream::{DialError, Patience, Readiness};
use crate::stack_streams::{Outcome, STREAMS_MAX, StreamId, Streams, is_intact};
use crate::stats::Counters;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::Ordering::SeqCst;

/// Tokens of the poller: streams have their ids, which begin at 1.
const STOP: u64 = u64::MAX;
const WAKE: u64 = u64::MAX - 1;
const LISTENER: u64 = 1 << 63;
/// How long accepting rests when the process is out of descriptors, microseconds.
const ACCEPT_REST_US: u64 = 100_000;
/// Ended streams whose memory is worth a look at all of the allocator's.
const MANY: usize = 8;
/// Quiet time after which the memory of a burst is given back, microseconds.
const QUIET_US: u64 = 1_000_000;

/// Runs until the device is stopped.
pub fn run(shared: &Shared, stack: &Stack) {
    let _end = End(stack);
    let result = Worker::new(shared, stack).and_then(|mut worker| {
        while !shared.is_stopped.load(SeqCst) {
            worker.turn()?;
        }
        Ok(())
    });
    if let Err(e) = result {
        shared.fail(Code::Io, format!("the TCP/IP stack failed: {e}"));
    }
}

/// Lets go of whoever waits for the thread, also when it panics.
struct End<'a>(&'a Stack);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

struct Listening {
    listener: Listener,
    target: SocketAddr,
    patience: Patience,
    can_accept: bool,
}

struct Worker<'a> {
    shared: &'a Shared,
    stack: &'a Stack,
    poller: Poller,
    streams: Streams,
    forwards: HashMap<u64, Listening>,
    /// Which forward a living stream belongs to.
    owners: HashMap<StreamId, u64>,
    /// Local ends that wait for their connection.
    waiting: HashMap<StreamId, Local>,
    accept_us: u64,
    /// When there was last something to do.
    busy_us: u64,
    /// Whether nothing was done since `tidy`.
    is_tidy: bool,
    /// Streams that ended since then.
    ended: usize,
    inbox: Vec<u8>,
    ready: Vec<(u64, u32)>,
    egress: Egress<'a>,
}

impl Worker<'_> {
    fn new<'a>(shared: &'a Shared, stack: &'a Stack) -> io::Result<Worker<'a>> {
        let poller = Poller::new()?;
        poller.add(shared.wake_out.fd(), STOP)?;
        poller.add(stack.waker.fd(), WAKE)?;
        let seed = RandomState::new().build_hasher().finish();
        let streams = Streams::new(&stack.addresses, shared.mtu, stack.has_offload(), seed);
        Ok(Worker {
            shared,
            stack,
            poller,
            streams,
            forwards: HashMap::new(),
            owners: HashMap::new(),
            waiting: HashMap::new(),
            accept_us: 0,
            busy_us: 0,
            is_tidy: true,
            ended: 0,
            inbox: Vec::new(),
            ready: Vec::new(),
            egress: Egress::new(shared),
        })
    }

    fn turn(&mut self) -> io::Result<()> {
        self.ready.clear();
        let timeout_ms = self.timeout_ms();
        self.poller.wait_edges(timeout_ms, &mut self.ready)?;
        self.shared.counters.wakeups.one();
        let now_us = self.shared.now_us();
        for (token, events) in std::mem::take(&mut self.ready) {
            match token {
                STOP => return Ok(()),
                WAKE => self.stack.waker.clear(),
                token if token & LISTENER != 0 => {
                    if let Some(listening) = self.forwards.get_mut(&(token & !LISTENER)) {
                        listening.can_accept = true;
                    }
                }
                id => self.streams.note(id, readiness(events), now_us),
            }
        }
        self.command();
        self.receive(now_us);
        self.accept(now_us);
        let egress = &mut self.egress;
        self.streams.run(now_us, &mut |bytes| egress.send(bytes));
        egress.flush();
        self.settle();
        Ok(())
    }

    /// How long to wait; 0 when there is something to do.
    fn timeout_ms(&mut self) -> Option<u64> {
        let now_us = self.shared.now_us();
        let may_accept =
            self.owners.len() < STREAMS_MAX && self.forwards.values().any(|l| l.can_accept);
        if self.streams.is_busy() || may_accept && self.accept_us <= now_us {
            self.busy_us = now_us;
            self.is_tidy = false;
            return Some(0);
        }
        let quiet_us = self.busy_us + QUIET_US;
        if !self.is_tidy && quiet_us <= now_us {
            self.tidy();
        }
        let tidy = (!self.is_tidy).then_some(quiet_us);
        let accept = may_accept.then_some(self.accept_us);
        let due = self.streams.next_us().into_iter();
        let due = due.chain(accept).chain(tidy).min()?;
        Some(due.saturating_sub(now_us).div_ceil(1_000))
    }

    /// Gives back what a burst needed.
    fn tidy(&mut self) {
        self.stack.inbox.shrink(&mut self.inbox);
        if self.ended >= MANY {
            give_back();
        }
        self.ended = 0;
        self.is_tidy = true;
    }

    fn receive(&mut self, now_us: u64) {
        self.stack.inbox.swap(&mut self.inbox);
        let egress = &mut self.egress;
        for packet in packets(&self.inbox) {
            self.busy_us = now_us;
            self.is_tidy = false;
            if packet.is_checked || is_intact(packet.bytes) {
                let send = &mut |bytes: &mut [u8]| egress.send(bytes);
                self.streams.receive(packet.bytes, now_us, send);
            } else {
                self.shared.counters.drop_malformed.one();
            }
        }
        self.inbox.clear();
    }

    fn command(&mut self) {
        for command in self.stack.take_commands() {
            match command {
                Command::Listen {
                    id,
                    listener,
                    target,
                    patience,
                } => {
                    // Out of descriptors or memory: the listener closes, connections are refused.
                    if self.poller.add_edges(listener.fd(), LISTENER | id).is_ok() {
                        let listening = Listening {
                            listener,
                            target,
                            patience,
                            can_accept: true,
                        };
                        self.forwards.insert(id, listening);
                    }
                }
                Command::Unlisten { id, done } => {
                    self.forwards.remove(&id);
                    let owned = self.owners.iter().filter(|(_, owner)| **owner == id);
                    for stream in owned.map(|(s, _)| *s).collect::<Vec<_>>() {
                        self.owners.remove(&stream);
                        self.streams.abort(stream);
                        if let Some(local) = self.waiting.remove(&stream) {
                            local.reset();
                        }
                    }
                    drop(done);
                }
            }
        }
    }

    fn accept(&mut self, now_us: u64) {
        if self.accept_us > now_us {
            return;
        }
        for (forward, listening) in &mut self.forwards {
            while listening.can_accept && self.owners.len() < STREAMS_MAX {
                let local = match listening.listener.accept() {
                    Ok(local) => local,
                    Err(e) => match e.kind() {
                        ErrorKind::WouldBlock => {
                            listening.can_accept = false;
                            break;
                        }
                        ErrorKind::ConnectionAborted | ErrorKind::Interrupted => continue,
                        // Mostly out of descriptors: the connections wait in the kernel.
                        _ => {
                            self.accept_us = now_us + ACCEPT_REST_US;
                            return;
                        }
                    },
                };
                let dialled = self
                    .streams
                    .dial(listening.target, &listening.patience, now_us);
                match dialled {
                    Ok(id) => {
                        self.shared.counters.stack_dialed.one();
                        self.owners.insert(id, *forward);
                        self.waiting.insert(id, local);
                    }
                    Err(why) => {
                        count(&self.shared.counters, why);
                        local.reset();
                    }
                }
            }
        }
    }

    /// Brings streams and their local ends together or apart.
    fn settle(&mut self) {
        while let Some((id, outcome)) = self.streams.take_outcome() {
            match outcome {
                Outcome::Connected => {
                    let Some(local) = self.waiting.remove(&id) else {
                        continue;
                    };
                    if self.poller.add_edges(local.fd(), id).is_ok() {
                        self.streams.splice(id, local);
                    } else {
                        self.owners.remove(&id);
                        self.streams.abort(id);
                        local.reset();
                    }
                }
                Outcome::Failed(why) => {
                    count(&self.shared.counters, why);
                    self.owners.remove(&id);
                    if let Some(local) = self.waiting.remove(&id) {
                        local.reset();
                    }
                }
                Outcome::Ended(_) => {
                    self.ended += 1;
                    self.owners.remove(&id);
                }
            }
        }
    }
}

fn count(counters: &Counters, why: DialError) {
    match why {
        DialError::Refused => counters.stack_refused.one(),
        DialError::Unreachable => counters.stack_unreachable.one(),
        DialError::TimedOut => counters.stack_timed_out.one(),
        DialError::Full => counters.stack_full.one(),
    }
}

fn readiness(events: u32) -> Readiness {
    let has = |flags: libc::c_int| events & flags as u32 != 0;
    Readiness {
        can_read: has(libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP),
        can_write: has(libc::EPOLLOUT),
        is_hung_up: has(libc::EPOLLHUP),
        is_failed: has(libc::EPOLLERR),
    }
}
