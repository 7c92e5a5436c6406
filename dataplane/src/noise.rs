//! The WireGuard protocol of one peer behind a narrow trait, so that the crate below can be changed.

use crate::admission::{Admission, Admitted};
use crate::steering::{Mac1Key, Message, classify};
use crate::talk::Talk;
use boringtun::noise::errors::WireGuardError;
use boringtun::noise::handshake::parse_handshake_anon;
use boringtun::noise::rate_limiter::RateLimiter;
use boringtun::noise::{Packet, Tunn, TunnResult};
use boringtun::x25519::{PublicKey, StaticSecret};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A Curve25519 public key.
pub type Key = [u8; 32];

/// Bytes that a data message adds to the packet inside.
pub const DATA_OVERHEAD: usize = 32;
/// Room that any handshake message fits in.
pub const HANDSHAKE_MAX: usize = 148;
/// Handshake messages a second that the crate lets pass without a cookie: `Admission` decides who needs one.
const UNASKED_PER_SECOND: u64 = 0;

/// Age at which neither end takes a session's packets any more (the protocol's REJECT_AFTER_TIME).
const REJECT_AFTER: Duration = Duration::from_secs(180);
/// Packets that wait for one peer's session at most: first segments of a few dozen connections.
const QUEUE_MAX: usize = 64;

/// What sealing produced in the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealed {
    /// A data message of this many bytes.
    Data(usize),
    /// A handshake message of this many bytes; the packet waits inside for the session.
    Handshake(usize),
    /// Nothing to send: a packet waits inside for the session.
    Nothing,
    /// Nothing to send, and the packet is lost: too many wait for a session already.
    Full,
}

/// What a datagram turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// An authenticated inner packet of this many bytes in the caller's buffer.
    Packet(usize),
    /// An authenticated message without a packet.
    Keepalive,
    /// An authenticated handshake message, answered by this many bytes; drain the queue next.
    Answer(usize),
    /// Authenticated bytes that are no IP packet.
    NotIp,
    /// A cookie reply was taken; not authenticated enough to move an endpoint.
    Cookie,
    /// Not from this peer, a replay, or damaged.
    Refused,
}

/// One peer's protocol state. Not thread safe: the caller holds the peer's lock over a batch.
pub trait Noise: Send {
    /// Seals a packet (empty: a keepalive). `out` must have room for the packet and `HANDSHAKE_MAX`.
    fn seal(&mut self, packet: &[u8], out: &mut [u8]) -> Sealed;
    /// Opens a datagram. Never panics, whatever its size or content.
    fn open(&mut self, datagram: &[u8], out: &mut [u8]) -> Opened;
    /// The next message that waited for a session; `Nothing` without one.
    fn drain(&mut self, out: &mut [u8]) -> Sealed;
    /// Moves the clock of all timers to now; must run before each batch of use.
    fn tick(&mut self, out: &mut [u8]) -> Sealed;
    /// A fresh initiation even when one is under way.
    fn initiate(&mut self, out: &mut [u8]) -> Sealed;
    /// Age of the session in use; `None` without one.
    fn session_age(&self) -> Option<Duration>;
    /// Whether something would be lost without this state: a session that lives, a handshake under way, or the
    /// time of the last initiation that was answered, without which an old one could be replayed.
    fn is_needed(&self) -> bool;
    /// Gives memory back when nothing would be lost; says whether the state is at rest now.
    /// Call it when the other end can have no session any more either.
    fn rest(&mut self) -> bool;
}

/// This device's key pair and what its cookies are made with.
pub struct Identity {
    secret: StaticSecret,
    public: PublicKey,
    mac1: Mac1Key,
    cookies: RateLimiter,
    unlimited: Arc<RateLimiter>,
}

/// What the device must do with a handshake datagram.
pub enum Screened<'a> {
    /// Mac1 is valid; from whom an initiation claims to be, by key.
    From(Key),
    /// Mac1 is valid where it has one; the receiver index says whose it is.
    ByIndex(u32),
    /// Too many ask: send this cookie reply back.
    Cookie(&'a [u8]),
    /// Not for us, damaged or too many.
    Refused,
}

impl Identity {
    /// Takes the private key.
    pub fn new(private_key: [u8; 32]) -> Identity {
        let secret = StaticSecret::from(private_key);
        let public = PublicKey::from(&secret);
        Identity {
            mac1: Mac1Key::new(public.as_bytes()),
            cookies: RateLimiter::new(&public, UNASKED_PER_SECOND),
            unlimited: Arc::new(RateLimiter::new(&public, u64::MAX)),
            secret,
            public,
        }
    }

    /// This device's public key.
    pub fn public_key(&self) -> Key {
        *self.public.as_bytes()
    }

    /// The protocol state for one peer; costs about 0.4 ms. `index` has 24 bits.
    pub fn peer(&self, key: Key, index: u32) -> Box<dyn Noise> {
        let tunn = Tunn::new(
            self.secret.clone(),
            PublicKey::from(key),
            None,
            None,
            index & 0x00ff_ffff,
            Some(self.unlimited.clone()),
        );
        Box::new(Boring {
            tunn,
            queued: 0,
            is_asking: false,
            has_answered: false,
            talk: Talk::new(Instant::now()),
        })
    }

    /// Checks mac1 first, then what its sender may cost, then whose a handshake message is. Works on
    /// anything but data messages.
    pub fn screen<'a>(
        &self,
        datagram: &[u8],
        from: SocketAddr,
        admission: &mut Admission,
        now_ms: u64,
        out: &'a mut [u8],
    ) -> Screened<'a> {
        let (message, index) = match classify(datagram) {
            Some((Message::Cookie, index)) => return Screened::ByIndex(index),
            Some((message @ (Message::Initiation | Message::Response), index)) => (message, index),
            Some((Message::Data, _)) | None => return Screened::Refused,
        };
        if !self.mac1.accepts(datagram) {
            return Screened::Refused;
        }
        let has_mac2 = datagram.last_chunk::<16>().is_some_and(|m| *m != [0; 16]);
        let is_proven = has_mac2
            && self
                .cookies
                .verify_packet(Some(from.ip()), datagram, out)
                .is_ok();
        let admitted = match message {
            Message::Response => admission.response(is_proven, now_ms),
            _ if is_proven && admission.proven(from, now_ms) => Admitted::Yes,
            _ if is_proven => Admitted::No,
            _ => admission.unproven(from, now_ms),
        };
        match admitted {
            Admitted::Yes if message == Message::Response => Screened::ByIndex(index),
            Admitted::Yes => self.initiator(datagram),
            Admitted::Cookie => match self.cookies.verify_packet(Some(from.ip()), datagram, out) {
                Err(TunnResult::WriteToNetwork(cookie)) => Screened::Cookie(cookie),
                Ok(_) | Err(_) => Screened::Refused,
            },
            Admitted::No => Screened::Refused,
        }
    }

    /// From whom an initiation claims to be; costs a key agreement.
    fn initiator<'a>(&self, datagram: &[u8]) -> Screened<'a> {
        let Ok(Packet::HandshakeInit(p)) = Tunn::parse_incoming_packet(datagram) else {
            return Screened::Refused;
        };
        match parse_handshake_anon(&self.secret, &self.public, &p) {
            Ok(half) => Screened::From(half.peer_static_public),
            Err(_) => Screened::Refused,
        }
    }
}

struct Boring {
    tunn: Tunn,
    /// Packets given to the crate's own queue since there was a session; it would take 256 of any size.
    queued: usize,
    /// An initiation of ours is under way.
    is_asking: bool,
    /// An initiation of the peer was answered: the crate knows its time, which nothing else remembers.
    has_answered: bool,
    talk: Talk,
}

fn sealed(result: TunnResult<'_>) -> Sealed {
    match result {
        TunnResult::WriteToNetwork(m) if m.first() == Some(&4) => Sealed::Data(m.len()),
        TunnResult::WriteToNetwork(m) => Sealed::Handshake(m.len()),
        TunnResult::Done
        | TunnResult::Err(_)
        | TunnResult::WriteToTunnelV4(..)
        | TunnResult::WriteToTunnelV6(..) => Sealed::Nothing,
    }
}

impl Boring {
    /// An initiation, unless one is under way and `is_forced` is not said.
    fn ask(&mut self, out: &mut [u8], is_forced: bool) -> Sealed {
        let sealed = sealed(self.tunn.format_handshake_initiation(out, is_forced));
        self.note(sealed)
    }

    /// Remembers what leaves.
    fn note(&mut self, sealed: Sealed) -> Sealed {
        match sealed {
            Sealed::Data(n) => self.talk.sent(n > DATA_OVERHEAD),
            Sealed::Handshake(_) => {
                self.is_asking = true;
                self.talk.sent(false);
            }
            Sealed::Nothing | Sealed::Full => {}
        }
        sealed
    }

    /// Remembers what came.
    fn note_opened(&mut self, opened: Opened) -> Opened {
        match opened {
            Opened::Packet(_) => self.talk.heard(true),
            Opened::Answer(_) => {
                self.talk.heard(false);
                self.talk.sent(false);
            }
            Opened::Keepalive | Opened::NotIp | Opened::Cookie => self.talk.heard(false),
            Opened::Refused => {}
        }
        opened
    }
}

impl Noise for Boring {
    fn seal(&mut self, packet: &[u8], out: &mut [u8]) -> Sealed {
        // The crate panics on a buffer that is too small.
        if out.len() < (packet.len() + DATA_OVERHEAD).max(HANDSHAKE_MAX) {
            return Sealed::Full;
        }
        if self.queued >= QUEUE_MAX && self.session_age().is_none() {
            return match self.ask(out, false) {
                Sealed::Nothing => Sealed::Full,
                sealed => sealed,
            };
        }
        let sealed = sealed(self.tunn.encapsulate(packet, out));
        self.queued += usize::from(!matches!(sealed, Sealed::Data(_)));
        self.note(sealed)
    }

    fn open(&mut self, datagram: &[u8], out: &mut [u8]) -> Opened {
        // An empty datagram would drain the queue; a small buffer makes the crate panic.
        if datagram.len() < DATA_OVERHEAD || out.len() < datagram.len().max(HANDSHAKE_MAX) {
            return Opened::Refused;
        }
        let kind = datagram[0];
        let opened = match self.tunn.decapsulate(None, datagram, out) {
            TunnResult::WriteToTunnelV4(p, _) | TunnResult::WriteToTunnelV6(p, _) => {
                Opened::Packet(p.len())
            }
            TunnResult::WriteToNetwork(m) => {
                self.has_answered |= kind == 1;
                self.is_asking &= kind == 1;
                Opened::Answer(m.len())
            }
            TunnResult::Done if kind == 3 => Opened::Cookie,
            TunnResult::Done => Opened::Keepalive,
            // Only a data message that opened can fail here: its framing was checked before.
            TunnResult::Err(WireGuardError::InvalidPacket) if datagram[..4] == [4, 0, 0, 0] => {
                Opened::NotIp
            }
            TunnResult::Err(_) => Opened::Refused,
        };
        self.note_opened(opened)
    }

    fn drain(&mut self, out: &mut [u8]) -> Sealed {
        // Without a session (a responder has none before the first data) the crate would begin a handshake.
        if self.queued == 0 || self.session_age().is_none() {
            return Sealed::Nothing;
        }
        let sealed = sealed(self.tunn.decapsulate(None, &[], out));
        if sealed == Sealed::Nothing {
            self.queued = 0;
        }
        self.note(sealed)
    }

    fn tick(&mut self, out: &mut [u8]) -> Sealed {
        if out.len() < HANDSHAKE_MAX {
            return Sealed::Nothing;
        }
        if !self.talk.tick(Instant::now(), self.is_asking) {
            return Sealed::Nothing;
        }
        let mut sealed = sealed(self.tunn.update_timers(out));
        if sealed == Sealed::Nothing && self.talk.owes_keepalive() && self.session_age().is_some() {
            sealed = self.seal(&[], out);
        }
        if self.tunn.is_expired() {
            // The crate gave up and threw its queue away.
            self.queued = 0;
            self.is_asking = false;
        }
        self.note(sealed)
    }

    fn initiate(&mut self, out: &mut [u8]) -> Sealed {
        if out.len() < HANDSHAKE_MAX {
            return Sealed::Nothing;
        }
        self.ask(out, true)
    }

    fn session_age(&self) -> Option<Duration> {
        self.tunn.time_since_last_handshake()
    }

    fn is_needed(&self) -> bool {
        let has_live_session = self.session_age().is_some_and(|age| age < REJECT_AFTER);
        self.is_asking || self.has_answered || has_live_session
    }

    fn rest(&mut self) -> bool {
        false
    }
}
