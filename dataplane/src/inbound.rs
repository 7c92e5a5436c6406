//! The thread from the wire to the TUN: receive, steer, open, check, merge, write; and all timers.

use crate::admission::Admission;
use crate::echo::{self, Echo};
use crate::event::{Code, Event};
use crate::inner_flows::Way;
use crate::merge::Merger;
use crate::noise::{HANDSHAKE_MAX, Noise, Opened, Screened, Sealed};
use crate::peer::Peer;
use crate::relay::Relay;
use crate::shared::Shared;
use crate::steering::{Message as Kind, TrialBudget, Verdict, classify, pair_of};
use crate::table::Table;
use crate::timers::Timers;
use crate::udp::{Message, RecvBatch};
use crate::watched::{Arrival, Use, WAKE, Watched};
use crate::{ip, mss};
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Messages of one receive.
const BATCH: usize = 8;
/// Receives from one socket before the others have their turn.
const TURN: usize = 16;
/// Room for the longest answer or queued packet.
const REPLY_MAX: usize = 65_536 + 64;

/// The state of the thread.
pub struct Inbound<'a> {
    shared: &'a Shared,
    merger: Merger,
    reply: Vec<u8>,
    trials: TrialBudget,
    admission: Admission,
    relay: Relay,
    timers: Timers,
}

/// Runs until the device is stopped.
pub fn run(shared: &Shared, mut watched: Watched, path_tokens: &[[Option<u64>; 2]]) {
    let mut inbound = Inbound::new(shared, path_tokens);
    let mut batch = RecvBatch::new(BATCH);
    let mut ready = Vec::new();
    let mut is_woken = true;
    while !shared.is_stopped.load(SeqCst) {
        let now_ms = shared.now_ms();
        if is_woken || inbound.timers.is_due(now_ms) {
            // From here on the other thread must wake this one: what it changes may go unseen.
            shared.next_wake_ms.store(u64::MAX, SeqCst);
            inbound.timers.run(shared, &mut watched, now_ms);
        }
        let expiry = inbound.relay.run(shared, &mut watched, now_ms);
        let deadline = inbound.timers.next_ms().into_iter().chain(expiry).min();
        shared
            .next_wake_ms
            .store(deadline.unwrap_or(u64::MAX), SeqCst);
        let timeout = deadline.map(|at| at.saturating_sub(shared.now_ms()));
        ready.clear();
        if let Err(e) = watched.poller.wait(timeout, &mut ready) {
            return shared.fail(Code::Io, format!("waiting for datagrams failed: {e}"));
        }
        shared.counters.wakeups.one();
        is_woken = false;
        for token in &ready {
            if *token == WAKE {
                shared.wake_in.clear();
                is_woken = true;
            } else {
                inbound.receive(&mut watched, &mut batch, *token);
            }
        }
        inbound.merger.flush(&mut &shared.ip_side);
    }
}

impl<'a> Inbound<'a> {
    fn new(shared: &'a Shared, path_tokens: &[[Option<u64>; 2]]) -> Inbound<'a> {
        Inbound {
            shared,
            merger: if shared.offload {
                Merger::new(shared.mtu)
            } else {
                Merger::without_merging(shared.mtu)
            },
            reply: vec![0; REPLY_MAX],
            trials: TrialBudget::default(),
            admission: Admission::new(shared.is_gateway()),
            relay: Relay::default(),
            timers: Timers::new(shared, path_tokens),
        }
    }

    fn receive(&mut self, watched: &mut Watched, batch: &mut RecvBatch, token: u64) {
        let Some((socket, of)) = watched.sockets.get(&token).cloned() else {
            return;
        };
        for _ in 0..TURN {
            match socket.recv(batch) {
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                // Errors of a UDP socket are about single datagrams.
                Err(_) => return self.shared.counters.drop_garbage.one(),
            }
            let now_ms = self.shared.now_ms();
            for message in batch.messages() {
                let (from, local) = (message.from, message.local);
                let arrival = Arrival {
                    token,
                    socket: &socket,
                    from,
                    local,
                    now_ms,
                };
                match of {
                    Use::Peers => self.message(watched, &message, &arrival),
                    Use::Flow(id) => self.relay.answer(self.shared, id, &message, now_ms),
                }
            }
            if batch.len() < BATCH {
                return;
            }
        }
    }

    /// All datagrams of one message; runs for one agent or one peer are handled as one.
    fn message(&mut self, watched: &mut Watched, message: &Message<'_>, arrival: &Arrival<'_>) {
        let steering = self.shared.steering.read().clone();
        let table = self.shared.table.read().clone();
        let mut rest = message.bytes;
        if rest.is_empty() {
            return self.shared.counters.drop_garbage.one();
        }
        while !rest.is_empty() {
            let (datagram, after) = rest.split_at(message.stride.min(rest.len()));
            match steering.decide(datagram, arrival.from, &mut self.trials, arrival.now_ms) {
                Verdict::Mine => match classify(datagram) {
                    Some((Kind::Data, index)) => {
                        rest = self.data(&table, rest, message.stride, pair_of(index), arrival);
                        continue;
                    }
                    Some(_) => self.handshake(&table, datagram, arrival),
                    None => self.shared.counters.drop_garbage.one(),
                },
                Verdict::Relay(agent) => {
                    let same = |d: &[u8]| {
                        steering.decide(d, arrival.from, &mut self.trials, arrival.now_ms)
                            == Verdict::Relay(agent)
                    };
                    let more = after
                        .chunks(message.stride)
                        .map(same)
                        .take_while(|is| *is)
                        .count();
                    let len = (message.stride * (more + 1)).min(rest.len());
                    if let Some(to) = steering.endpoint(agent) {
                        let run = &rest[..len];
                        self.relay
                            .forward(self.shared, watched, run, message.stride, to, arrival);
                    }
                    rest = &rest[len..];
                    continue;
                }
                Verdict::UnknownAgent => self.shared.counters.drop_unknown_agent.one(),
                Verdict::BadMac => self.shared.counters.drop_handshake.one(),
            }
            rest = after;
        }
    }

    /// Data messages at the start of `bytes` for one pair; returns what follows them.
    fn data<'b>(
        &mut self,
        table: &Table,
        bytes: &'b [u8],
        stride: usize,
        pair: u32,
        arrival: &Arrival<'_>,
    ) -> &'b [u8] {
        let shared = self.shared;
        let is_ours =
            |d: &[u8]| matches!(classify(d), Some((Kind::Data, index)) if pair_of(index) == pair);
        let Some(peer) = table.pairs.get(&pair) else {
            shared.counters.drop_refused.one();
            return bytes.get(stride..).unwrap_or(&[]);
        };
        let mut noise = peer.noise.lock();
        shared.tick(peer, noise.as_mut(), arrival.now_ms);
        let (mut at, mut is_authentic) = (0, false);
        while at < bytes.len() {
            let datagram = &bytes[at..(at + stride).min(bytes.len())];
            if !is_ours(datagram) {
                break;
            }
            at += datagram.len();
            is_authentic |= self.open(table, peer, noise.as_mut(), datagram, arrival);
        }
        if is_authentic {
            peer.has_session
                .store(noise.session_age().is_some(), Relaxed);
            self.drain(noise.as_mut(), arrival);
        }
        drop(noise);
        if is_authentic {
            self.heard(peer, arrival);
        }
        &bytes[at..]
    }

    /// One data message; says whether it is authentic.
    fn open(
        &mut self,
        table: &Table,
        peer: &Arc<Peer>,
        noise: &mut dyn Noise,
        datagram: &[u8],
        arrival: &Arrival<'_>,
    ) -> bool {
        let shared = self.shared;
        if self.merger.slot().is_none() {
            self.merger.flush(&mut &shared.ip_side);
        }
        let Some(slot) = self.merger.slot() else {
            return false;
        };
        if datagram.len() > slot.len() {
            shared.counters.drop_garbage.one();
            return false;
        }
        let len = match noise.open(datagram, slot) {
            Opened::Packet(n) => n,
            Opened::Keepalive => {
                shared.counters.keepalives_received.one();
                return true;
            }
            Opened::NotIp => {
                shared.counters.drop_source.one();
                return true;
            }
            Opened::Answer(_) | Opened::Cookie | Opened::Refused => {
                shared.counters.drop_refused.one();
                return false;
            }
        };
        let packet = &mut slot[..len];
        let owner = ip::source(packet).and_then(|source| table.routes.find(source));
        if !owner.is_some_and(|o| Arc::ptr_eq(o, peer)) {
            match echo::parse(packet) {
                Some(e) => self.echo(peer, noise, e, arrival),
                None => shared.counters.drop_source.one(),
            }
            return true;
        }
        peer.rx_bytes.fetch_add(len as u64, Relaxed);
        peer.rx_packets.fetch_add(1, Relaxed);
        peer.received_ms.store(arrival.now_ms, Relaxed);
        if mss::clamp(packet, shared.mtu) {
            shared.counters.mss_clamped.one();
        }
        if shared.is_gateway() {
            peer.flows.observe(packet, Way::In, arrival.now_ms);
        }
        self.merger.push(len, &mut &shared.ip_side);
        true
    }

    /// A path probe is answered once, to where it came from; an answer tells the round trip.
    fn echo(&mut self, peer: &Peer, noise: &mut dyn Noise, echo: Echo, arrival: &Arrival<'_>) {
        let shared = self.shared;
        match echo {
            Echo::Request(nonce) => {
                if let Sealed::Data(n) = noise.seal(&echo::reply(nonce), &mut self.reply) {
                    let bytes = &self.reply[..n];
                    shared.send_on(arrival.socket, bytes, None, arrival.from, arrival.local);
                    shared.counters.probes_echoed.one();
                }
            }
            Echo::Reply(sent_us) => {
                let rtt = shared.now_us().saturating_sub(sent_us);
                peer.rtt_us.store(rtt.max(1), Relaxed);
                peer.echoes.store(true, Relaxed);
                shared.counters.probes_answered.one();
            }
        }
    }

    fn handshake(&mut self, table: &Table, datagram: &[u8], arrival: &Arrival<'_>) {
        let shared = self.shared;
        let mut out = [0u8; HANDSHAKE_MAX];
        let screened = shared.identity.screen(
            datagram,
            arrival.from,
            &mut self.admission,
            arrival.now_ms,
            &mut out,
        );
        let peer = match screened {
            Screened::From(key) => table.keys.get(&key),
            Screened::ByIndex(index) => table.pairs.get(&pair_of(index)),
            Screened::Cookie(cookie) => {
                shared.send_on(arrival.socket, cookie, None, arrival.from, arrival.local);
                return shared.counters.cookies_sent.one();
            }
            Screened::Refused => None,
        };
        let Some(peer) = peer else {
            return shared.counters.drop_handshake.one();
        };
        let mut noise = peer.noise.lock();
        shared.tick(peer, noise.as_mut(), arrival.now_ms);
        match noise.open(datagram, &mut self.reply) {
            Opened::Answer(n) => self.answer(peer, noise.as_mut(), n, datagram, arrival),
            Opened::Cookie => return shared.counters.cookies_received.one(),
            Opened::Packet(_) | Opened::Keepalive | Opened::NotIp | Opened::Refused => {
                return shared.counters.drop_handshake.one();
            }
        }
        peer.has_session
            .store(noise.session_age().is_some(), Relaxed);
        drop(noise);
        self.admission.remember(arrival.from, arrival.now_ms);
        self.heard(peer, arrival);
        self.timers.greeted(peer);
    }

    /// A handshake message was taken: sends the answer where it came from, then what waited.
    fn answer(
        &mut self,
        peer: &Arc<Peer>,
        noise: &mut dyn Noise,
        len: usize,
        datagram: &[u8],
        arrival: &Arrival<'_>,
    ) {
        let shared = self.shared;
        // Our index is what we chose in a response, or what a response to us names.
        let named = if datagram[0] == 1 {
            self.reply[4..8].first_chunk()
        } else {
            datagram[8..12].first_chunk()
        };
        let index = u32::from_le_bytes(named.copied().unwrap_or_default());
        shared.send_on(
            arrival.socket,
            &self.reply[..len],
            None,
            arrival.from,
            arrival.local,
        );
        peer.sent_ms.store(arrival.now_ms, Relaxed);
        self.drain(noise, arrival);
        peer.handshake_ms.store(arrival.now_ms, Relaxed);
        shared.counters.handshakes_done.one();
        shared.tell(Event::Handshake {
            key: peer.key,
            index,
        });
    }

    /// Sends what waited for a session to where the datagram that made or confirmed it came from.
    fn drain(&mut self, noise: &mut dyn Noise, arrival: &Arrival<'_>) {
        while let Sealed::Data(n) = noise.drain(&mut self.reply) {
            let bytes = &self.reply[..n];
            self.shared
                .send_on(arrival.socket, bytes, None, arrival.from, arrival.local);
        }
    }

    /// An authentic datagram came from the peer.
    fn heard(&mut self, peer: &Arc<Peer>, arrival: &Arrival<'_>) {
        let local = if self.shared.is_gateway() {
            None
        } else {
            arrival.local
        };
        if peer.roam(arrival.from, local) {
            self.admission.remember(arrival.from, arrival.now_ms);
            self.shared.tell(Event::Endpoint {
                key: peer.key,
                endpoint: arrival.from,
            });
        }
        peer.heard_ms.store(arrival.now_ms, Relaxed);
        peer.waiting_ms.store(0, SeqCst);
        self.shared.activate(peer);
        self.timers.heard(peer, arrival);
    }
}

#[cfg(test)]
#[path = "inbound_fuzz_test.rs"]
mod fuzz;

#[cfg(test)]
#[path = "inbound_flood_test.rs"]
mod flood;
