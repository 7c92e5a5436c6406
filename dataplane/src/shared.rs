//! What the threads of one device share: tables, sockets, counters, and the few things both directions do.

use crate::event::{Code, Event};
use crate::ip_side::IpSide;
use crate::noise::{DATA_OVERHEAD, HANDSHAKE_MAX, Identity, Noise, Sealed};
use crate::path_limits::PROBE_MS;
use crate::peer::Peer;
use crate::poll::Waker;
use crate::sockets::Pair;
use crate::stats::Counters;
use crate::steering::Steering;
use crate::table::Table;
use crate::udp::{SendOutcome, Socket};
use parking_lot::{Mutex, RwLock};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Instant;

/// Which end this device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Gateway { slot: u8 },
    Agent { id: u16 },
}

/// Events leave through this; it must not block. False: there was no room for the event.
pub type OnEvent = Box<dyn Fn(Event) -> bool + Send + Sync>;

/// Shared by the threads of a device.
pub struct Shared {
    pub role: Role,
    pub mtu: u16,
    pub offload: bool,
    pub identity: Arc<Identity>,
    pub ip_side: IpSide,
    pub table: RwLock<Arc<Table>>,
    pub steering: RwLock<Arc<Steering>>,
    pub paths: RwLock<Vec<Pair>>,
    /// How often each path was replaced.
    pub replaced: Vec<AtomicU64>,
    /// Peers that the timers must look after from now on.
    pub activated: Mutex<Vec<Arc<Peer>>>,
    pub counters: Counters,
    pub relay_flows: AtomicU64,
    /// When the inbound thread wakes by itself; `u64::MAX`: not.
    pub next_wake_ms: AtomicU64,
    pub wake_in: Waker,
    pub wake_out: Waker,
    pub is_stopped: AtomicBool,
    pub on_event: OnEvent,
    pub start: Instant,
}

impl Shared {
    /// Milliseconds since the device was opened, from 1 on.
    pub fn now_ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64 + 1
    }

    /// Microseconds since the device was opened.
    pub fn now_us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    /// Whether this end may look for better paths: it talks through a balancer.
    pub fn is_gateway(&self) -> bool {
        matches!(self.role, Role::Gateway { .. })
    }

    /// Tells that the device can't go on, once, and stops it.
    pub fn fail(&self, code: Code, message: String) {
        if !self.is_stopped.swap(true, SeqCst) {
            self.tell(Event::Failed { code, message });
        }
        self.wake_in.wake();
        self.wake_out.wake();
    }

    /// Tells what happened; an event that nobody has room for is counted.
    pub fn tell(&self, event: Event) {
        if !(self.on_event)(event) {
            self.counters.events_lost.one();
        }
    }

    /// Puts a peer into the care of the timers.
    pub fn activate(&self, peer: &Arc<Peer>) {
        if !peer.is_active.swap(true, SeqCst) {
            self.activated.lock().push(peer.clone());
            self.wake_in.wake();
        }
    }

    /// A packet that deserves an answer was sent now. Only a gateway, which can do something about it,
    /// waits for answers.
    pub fn note_waiting(&self, peer: &Arc<Peer>, now_ms: u64) {
        self.activate(peer);
        if !self.is_gateway() {
            return;
        }
        peer.asked_ms.store(now_ms, Relaxed);
        if peer.waiting_ms.load(SeqCst) == 0 {
            peer.waiting_ms.store(now_ms, SeqCst);
        }
        if self.next_wake_ms.load(SeqCst) > now_ms + PROBE_MS {
            self.wake_in.wake();
        }
    }

    /// Sends to where the peer is, on its path. False: the place is not known.
    pub fn send(&self, peer: &Peer, bytes: &[u8], segment: Option<usize>, now_ms: u64) -> bool {
        let place = *peer.place.lock();
        let Some(to) = place.endpoint else {
            return false;
        };
        let paths = self.paths.read();
        let socket = paths
            .get(peer.path.load(Relaxed))
            .and_then(|pair| pair.of(to))
            .cloned();
        drop(paths);
        let Some(socket) = socket else { return false };
        self.send_on(&socket, bytes, segment, to, place.local);
        peer.sent_ms.store(now_ms, Relaxed);
        true
    }

    /// Sends on a given socket; what the kernel refuses is counted.
    pub fn send_on(
        &self,
        socket: &Socket,
        bytes: &[u8],
        segment: Option<usize>,
        to: SocketAddr,
        local: Option<IpAddr>,
    ) {
        if socket.send(bytes, segment, to, local) != SendOutcome::Sent {
            self.counters.drop_send.one();
        }
    }

    /// Sends what sealing made, and counts it.
    pub fn send_sealed(&self, peer: &Peer, sealed: Sealed, out: &[u8], now_ms: u64) {
        match sealed {
            Sealed::Nothing => {}
            Sealed::Full => self.counters.drop_queue.one(),
            Sealed::Data(n) => {
                if n == DATA_OVERHEAD {
                    self.counters.keepalives_sent.one();
                }
                self.send(peer, &out[..n], None, now_ms);
            }
            Sealed::Handshake(n) => {
                if out.first() == Some(&1) {
                    self.counters.handshakes_started.one();
                }
                self.send(peer, &out[..n], None, now_ms);
            }
        }
    }

    /// Moves the session's clock to now, and sends what that produces. Due before every batch: the protocol
    /// crate dates what it sends and takes by this clock, and tells by these dates whether an answer is
    /// overdue. An answer with the date of what it answers is not acknowledged, and its sender would make a
    /// new session 15 s later.
    pub fn tick(&self, peer: &Peer, noise: &mut dyn Noise, now_ms: u64) {
        let mut out = [0u8; HANDSHAKE_MAX];
        let sealed = noise.tick(&mut out);
        peer.has_session
            .store(noise.session_age().is_some(), Relaxed);
        self.send_sealed(peer, sealed, &out, now_ms);
    }
}
