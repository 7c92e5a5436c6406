//! Who may cost this device a key agreement, and who is asked for a cookie first (WireGuard paper, section 5.3).
//!
//! ```text
//!  mac1 valid --- no valid mac2 ---> a budget for strangers, a second one for addresses of peers
//!      |                               spent: a cookie reply (budgets again), or nothing
//!      +--------- valid mac2 ------> a budget of its own: its address is real
//! ```
//! Every budget also limits single ports and single address prefixes, so that one sender can't spend it alone.

use crate::budget::Budget;
use std::collections::HashMap;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::net::{IpAddr, SocketAddr};

/// Key agreements a second for strangers that have shown nothing but mac1; each costs 0.1 to 0.3 ms. More than a
/// tunnel has slots, so that all its gateways may come back at once.
const STRANGERS_PER_SECOND: u32 = 300;
/// Key agreements a second for addresses that a peer proved to own before.
const KNOWN_PER_SECOND: u32 = 300;
/// Key agreements a second for senders that show a cookie.
const PROVEN_PER_SECOND: u32 = 500;
/// Handshake responses a second; most cost a look-up, as only what was asked for is answered.
const RESPONSES_PER_SECOND: u32 = 2_000;
/// Cookie replies a second to strangers.
const COOKIES_PER_SECOND: u32 = 1_000;
/// Cookie replies a second to others behind a peer's address: many gateways share one NAT.
const NEIGHBOUR_COOKIES_PER_SECOND: u32 = 2_000;
/// Messages a second to an agent from one address and port. A gateway needs one in five seconds.
const PORT_PER_SECOND: u8 = 5;
/// Messages a second to an agent from one address prefix, unless a peer is behind it.
const PREFIX_PER_SECOND: u16 = 100;
/// As `PORT_PER_SECOND`, to a gateway: all agents of a shoot have one address and port, the balancer's.
const BALANCER_PER_SECOND: u8 = 250;
/// Messages a second from one prefix that a peer is behind.
const NEIGHBOURS_PER_SECOND: u16 = 2_000;

/// Counters of ports, and of prefixes; more senders than these share some, others in each second.
const PORT_CELLS: usize = 16_384;
const PREFIX_CELLS: usize = 4_096;
/// Addresses of peers that are remembered; a tunnel has at most 256 gateways.
const KNOWN_MAX: usize = 1_024;

/// What a handshake message may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// A key agreement.
    Yes,
    /// A cookie reply.
    Cookie,
    /// Nothing.
    No,
}

/// What one sender controls: an IPv4 address, or the /64 of an IPv6 address.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Prefix {
    V4([u8; 4]),
    V6([u8; 8]),
}

impl Prefix {
    fn of(address: IpAddr) -> Prefix {
        match address.to_canonical() {
            IpAddr::V4(a) => Prefix::V4(a.octets()),
            IpAddr::V6(a) => {
                let [a, b, c, d, e, f, g, h, ..] = a.octets();
                Prefix::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

/// How many messages of each sender took something in this second.
struct Senders {
    second: u64,
    ports: Box<[u8]>,
    prefixes: Box<[u16]>,
}

impl Senders {
    fn new() -> Senders {
        Senders {
            second: 0,
            ports: vec![0; PORT_CELLS].into(),
            prefixes: vec![0; PREFIX_CELLS].into(),
        }
    }

    /// Starts a new second where one is due.
    fn tick(&mut self, now_ms: u64) {
        let second = now_ms / 1000;
        if second != self.second {
            self.second = second;
            self.ports.fill(0);
            self.prefixes.fill(0);
        }
    }

    fn has_room(&self, at: Cells, port_max: u8, prefix_max: u16) -> bool {
        self.ports[at.port] < port_max && self.prefixes[at.prefix] < prefix_max
    }

    fn count(&mut self, at: Cells) {
        self.ports[at.port] = self.ports[at.port].saturating_add(1);
        self.prefixes[at.prefix] = self.prefixes[at.prefix].saturating_add(1);
    }
}

/// A sender's places in the counters; nobody outside can know who shares them.
#[derive(Clone, Copy)]
struct Cells {
    port: usize,
    prefix: usize,
}

/// The limits of one device. Its size never changes but for the peers' addresses, which are bounded too.
pub struct Admission {
    /// Keeps strangers from choosing addresses that share counters with somebody else's.
    seed: u64,
    port_max: u8,
    prefix_max: u16,
    unproven: Senders,
    proven: Senders,
    strangers: Budget<STRANGERS_PER_SECOND>,
    known_ones: Budget<KNOWN_PER_SECOND>,
    proven_ones: Budget<PROVEN_PER_SECOND>,
    responses: Budget<RESPONSES_PER_SECOND>,
    cookies: Budget<COOKIES_PER_SECOND>,
    neighbour_cookies: Budget<NEIGHBOUR_COOKIES_PER_SECOND>,
    /// When a peer was last authentic from there.
    known: HashMap<SocketAddr, u64>,
    /// How many of `known` are in each prefix.
    prefixes: HashMap<Prefix, usize>,
}

impl Admission {
    /// The limits of a gateway or of an agent.
    pub fn new(is_gateway: bool) -> Admission {
        Admission::seeded(RandomState::new().hash_one(0), is_gateway)
    }

    fn seeded(seed: u64, is_gateway: bool) -> Admission {
        let (port_max, prefix_max) = if is_gateway {
            (BALANCER_PER_SECOND, NEIGHBOURS_PER_SECOND)
        } else {
            (PORT_PER_SECOND, PREFIX_PER_SECOND)
        };
        Admission {
            seed,
            port_max,
            prefix_max,
            unproven: Senders::new(),
            proven: Senders::new(),
            strangers: Budget::default(),
            known_ones: Budget::default(),
            proven_ones: Budget::default(),
            responses: Budget::default(),
            cookies: Budget::default(),
            neighbour_cookies: Budget::default(),
            known: HashMap::new(),
            prefixes: HashMap::new(),
        }
    }

    /// An initiation with a valid mac1 and no valid mac2: its source may be forged.
    pub fn unproven(&mut self, from: SocketAddr, now_ms: u64) -> Admitted {
        let prefix = Prefix::of(from.ip());
        let at = self.cells(from, prefix, now_ms);
        let is_neighbour = self.prefixes.contains_key(&prefix);
        self.unproven.tick(now_ms);
        let most = if is_neighbour {
            NEIGHBOURS_PER_SECOND
        } else {
            self.prefix_max
        };
        if !self.unproven.has_room(at, self.port_max, most) {
            return Admitted::No;
        }
        let admitted = if self.known.contains_key(&from) && self.known_ones.take(now_ms)
            || self.strangers.take(now_ms)
        {
            Admitted::Yes
        } else if is_neighbour && self.neighbour_cookies.take(now_ms) || self.cookies.take(now_ms) {
            Admitted::Cookie
        } else {
            return Admitted::No;
        };
        self.unproven.count(at);
        admitted
    }

    /// Whether an initiation with a valid mac2, whose source is real, may cost a key agreement.
    pub fn proven(&mut self, from: SocketAddr, now_ms: u64) -> bool {
        let at = self.cells(from, Prefix::of(from.ip()), now_ms);
        self.proven.tick(now_ms);
        let is_admitted = self.proven.has_room(at, self.port_max, self.prefix_max)
            && self.proven_ones.take(now_ms);
        if is_admitted {
            self.proven.count(at);
        }
        is_admitted
    }

    /// A response. Thousands may come from one port: a balancer's.
    pub fn response(&mut self, is_proven: bool, now_ms: u64) -> Admitted {
        if self.responses.take(now_ms) || is_proven && self.proven_ones.take(now_ms) {
            Admitted::Yes
        } else if self.cookies.take(now_ms) {
            Admitted::Cookie
        } else {
            Admitted::No
        }
    }

    /// A peer was authentic from here: its next handshake does not compete with strangers.
    pub fn remember(&mut self, from: SocketAddr, now_ms: u64) {
        if self.known.insert(from, now_ms).is_some() {
            return;
        }
        *self.prefixes.entry(Prefix::of(from.ip())).or_default() += 1;
        if self.known.len() > KNOWN_MAX
            && let Some(oldest) = self.known.iter().min_by_key(|(_, at)| **at)
        {
            let oldest = *oldest.0;
            self.forget(oldest);
        }
    }

    fn forget(&mut self, from: SocketAddr) {
        self.known.remove(&from);
        let prefix = Prefix::of(from.ip());
        if let Some(count) = self.prefixes.get_mut(&prefix) {
            *count -= 1;
            if *count == 0 {
                self.prefixes.remove(&prefix);
            }
        }
    }

    fn cells(&self, from: SocketAddr, prefix: Prefix, now_ms: u64) -> Cells {
        let hash = |of: (Prefix, Option<u16>)| {
            let mut hasher = DefaultHasher::new();
            (self.seed, now_ms / 1000, of).hash(&mut hasher);
            hasher.finish() as usize
        };
        Cells {
            port: hash((prefix, Some(from.port()))) % PORT_CELLS,
            prefix: hash((prefix, None)) % PREFIX_CELLS,
        }
    }
}

#[cfg(test)]
#[path = "admission_test.rs"]
mod tests;
