//! Whom a datagram is for, by the agent id in the high 16 bits of its index, and the bounded table of flows that are passed on.

use crate::budget::Budget;
use crate::noise::Key;
use blake2::digest::{Digest, FixedOutput, KeyInit, Update, consts::U16};
use blake2::{Blake2s256, Blake2sMac};
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// An agent's number, unique in a tunnel.
pub type AgentId = u16;

/// Flows that are passed on at most; the table is soft.
pub const FLOWS_MAX: usize = 4096;
/// Milliseconds without a datagram after which a flow is forgotten: above a gateway's keepalive.
pub const FLOW_IDLE_MS: u64 = 180_000;
/// Foreign initiations a second that are tried against all known keys; each try costs 0.3 us a key.
const TRIALS_PER_SECOND: u32 = 50;

const INITIATION: usize = 148;
const RESPONSE: usize = 92;
const COOKIE: usize = 64;
const DATA_MIN: usize = 32;

/// The four WireGuard messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    Initiation,
    Response,
    Cookie,
    Data,
}

/// The message kind and the index that names whom it is for; `None`: no WireGuard message.
pub fn classify(datagram: &[u8]) -> Option<(Message, u32)> {
    let [kind, 0, 0, 0] = *datagram.first_chunk::<4>()? else {
        return None;
    };
    let (message, at) = match (kind, datagram.len()) {
        (1, INITIATION) => (Message::Initiation, 4),
        (2, RESPONSE) => (Message::Response, 8),
        (3, COOKIE) => (Message::Cookie, 4),
        (4, DATA_MIN..) => (Message::Data, 4),
        _ => return None,
    };
    let bytes = datagram.get(at..)?.first_chunk::<4>()?;
    Some((message, u32::from_le_bytes(*bytes)))
}

/// The agent id in an index.
pub fn agent_of(index: u32) -> AgentId {
    (index >> 16) as AgentId
}

/// The 24 bits of an index that a pair keeps through all its sessions.
pub fn pair_of(index: u32) -> u32 {
    index >> 8
}

/// The 24 bits for a pair.
pub fn pair_index(agent: AgentId, slot: u8) -> u32 {
    u32::from(agent) << 8 | u32::from(slot)
}

/// What mac1 of messages for the owner of a public key is made with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Mac1Key([u8; 32]);

impl Mac1Key {
    /// The mac1 key of a public key.
    pub fn new(public_key: &Key) -> Mac1Key {
        let mut hash = Blake2s256::new();
        Update::update(&mut hash, b"mac1----");
        Update::update(&mut hash, public_key);
        Mac1Key(hash.finalize_fixed().into())
    }

    /// Whether a handshake message was made for this key's owner.
    pub fn accepts(&self, handshake: &[u8]) -> bool {
        let at = handshake.len().saturating_sub(32);
        let (message, macs) = handshake.split_at(at);
        macs.len() == 32 && self.mac1(message).is_some_and(|mac1| mac1 == macs[..16])
    }

    /// What comes behind the bytes of a handshake message.
    fn mac1(&self, message: &[u8]) -> Option<[u8; 16]> {
        let mut mac = <Blake2sMac<U16> as KeyInit>::new_from_slice(&self.0).ok()?;
        Update::update(&mut mac, message);
        Some(mac.finalize_fixed().into())
    }

    /// Makes mac1 right after a test has changed a message.
    #[cfg(any(test, feature = "fuzz"))]
    pub fn stamp(&self, handshake: &mut [u8]) {
        let at = handshake.len() - 32;
        let mac1 = self.mac1(&handshake[..at]).unwrap_or_default();
        handshake[at..at + 16].copy_from_slice(&mac1);
    }
}

/// Another agent that datagrams may be passed on to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Target {
    pub public_key: Key,
    pub endpoint: SocketAddr,
    mac1: Mac1Key,
}

impl Target {
    /// The agent with this key at this endpoint.
    pub fn new(public_key: Key, endpoint: SocketAddr) -> Target {
        Target {
            public_key,
            endpoint,
            mac1: Mac1Key::new(&public_key),
        }
    }
}

/// What to do with a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// For this device, or nobody else's.
    Mine,
    /// Pass it on to this agent.
    Relay(AgentId),
    /// No agent known by that id.
    UnknownAgent,
    /// An initiation that is for nobody we know.
    BadMac,
}

/// All other agents, and this device's own place among them.
pub struct Steering {
    own: AgentId,
    own_mac1: Mac1Key,
    targets: HashMap<AgentId, Target>,
    addresses: HashSet<IpAddr>,
    endpoints: HashSet<SocketAddr>,
}

impl Steering {
    /// Steering as seen by agent `own`; without targets everything is `Mine`.
    pub fn new(own: AgentId, own_key: &Key, targets: HashMap<AgentId, Target>) -> Steering {
        let endpoints: HashSet<SocketAddr> = targets.values().map(|t| t.endpoint).collect();
        let addresses = endpoints.iter().map(SocketAddr::ip).collect();
        Steering {
            own,
            own_mac1: Mac1Key::new(own_key),
            targets,
            addresses,
            endpoints,
        }
    }

    /// Where an agent is.
    pub fn endpoint(&self, agent: AgentId) -> Option<SocketAddr> {
        self.targets.get(&agent).map(|t| t.endpoint)
    }

    /// The known agents.
    pub fn targets(&self) -> &HashMap<AgentId, Target> {
        &self.targets
    }

    /// Whether `address` is a known agent's endpoint: only those may answer on a flow.
    pub fn is_target(&self, address: SocketAddr) -> bool {
        self.endpoints.contains(&address)
    }

    /// Whether a datagram from this address was passed on already, or is an agent's own.
    pub fn is_agent_address(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
    }

    /// Decides over one datagram. What comes from an agent's address is never passed on: no loops.
    pub fn decide(
        &self,
        datagram: &[u8],
        from: SocketAddr,
        trials: &mut TrialBudget,
        now_ms: u64,
    ) -> Verdict {
        if self.targets.is_empty() || self.is_agent_address(from.ip()) {
            return Verdict::Mine;
        }
        let Some((message, index)) = classify(datagram) else {
            return Verdict::Mine;
        };
        let agent = agent_of(index);
        if agent == self.own {
            return Verdict::Mine;
        }
        let target = self.targets.get(&agent);
        match message {
            Message::Initiation => self.decide_initiation(datagram, agent, trials, now_ms),
            Message::Response | Message::Cookie | Message::Data if target.is_some() => {
                Verdict::Relay(agent)
            }
            Message::Response | Message::Cookie | Message::Data => Verdict::UnknownAgent,
        }
    }

    fn decide_initiation(
        &self,
        datagram: &[u8],
        agent: AgentId,
        trials: &mut TrialBudget,
        now_ms: u64,
    ) -> Verdict {
        if self
            .targets
            .get(&agent)
            .is_some_and(|t| t.mac1.accepts(datagram))
        {
            return Verdict::Relay(agent);
        }
        if self.own_mac1.accepts(datagram) {
            return Verdict::Mine;
        }
        // A foreign initiator's index is random: find its target by trial.
        if !trials.take(now_ms) {
            return Verdict::BadMac;
        }
        let found = self.targets.iter().find(|(_, t)| t.mac1.accepts(datagram));
        found.map_or(Verdict::BadMac, |(id, _)| Verdict::Relay(*id))
    }
}

/// Bounds what foreign initiations may cost.
pub type TrialBudget = Budget<TRIALS_PER_SECOND>;

/// A flow's number; never used twice.
pub type FlowId = u64;

/// One client address whose datagrams are passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    pub client: SocketAddr,
    /// The local address that the client asked, which answers leave from.
    pub local: Option<IpAddr>,
    used_ms: u64,
    is_answered: bool,
}

/// What became of a client's datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touched {
    Known(FlowId),
    /// A new flow needs a socket; `evicted` loses its own first.
    New {
        id: FlowId,
        evicted: Option<FlowId>,
    },
}

/// The bounded table of flows, by client address.
pub struct FlowTable {
    max: usize,
    next: FlowId,
    by_client: HashMap<SocketAddr, FlowId>,
    flows: HashMap<FlowId, Flow>,
    /// In order of creation; holds stale ids too.
    unanswered: VecDeque<FlowId>,
}

impl FlowTable {
    /// An empty table of at most `max` flows.
    pub fn new(max: usize) -> FlowTable {
        FlowTable {
            max: max.max(1),
            next: 1,
            by_client: HashMap::new(),
            flows: HashMap::new(),
            unanswered: VecDeque::new(),
        }
    }

    /// How many flows there are.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether there is no flow.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Whether a client's datagrams were passed on before.
    pub fn is_known(&self, client: SocketAddr) -> bool {
        self.by_client.contains_key(&client)
    }

    /// A flow by its id.
    pub fn get(&self, id: FlowId) -> Option<&Flow> {
        self.flows.get(&id)
    }

    /// A datagram of `client` is passed on now.
    pub fn touch(&mut self, client: SocketAddr, local: Option<IpAddr>, now_ms: u64) -> Touched {
        if let Some(&id) = self.by_client.get(&client)
            && let Some(flow) = self.flows.get_mut(&id)
        {
            flow.used_ms = now_ms;
            flow.local = local;
            return Touched::Known(id);
        }
        let evicted = if self.flows.len() >= self.max {
            self.evict()
        } else {
            None
        };
        let id = self.next;
        self.next += 1;
        self.by_client.insert(client, id);
        self.flows.insert(
            id,
            Flow {
                client,
                local,
                used_ms: now_ms,
                is_answered: false,
            },
        );
        self.unanswered.push_back(id);
        if self.unanswered.len() > 2 * self.max {
            let flows = &self.flows;
            self.unanswered
                .retain(|id| flows.get(id).is_some_and(|f| !f.is_answered));
        }
        Touched::New { id, evicted }
    }

    /// An owner answered on this flow.
    pub fn answered(&mut self, id: FlowId, now_ms: u64) -> Option<&Flow> {
        let flow = self.flows.get_mut(&id)?;
        flow.is_answered = true;
        flow.used_ms = now_ms;
        Some(flow)
    }

    /// Forgets one flow.
    pub fn remove(&mut self, id: FlowId) {
        if let Some(flow) = self.flows.remove(&id) {
            self.by_client.remove(&flow.client);
        }
    }

    /// Forgets idle flows and says which.
    pub fn expire(&mut self, now_ms: u64) -> Vec<FlowId> {
        let idle = |f: &Flow| now_ms.saturating_sub(f.used_ms) >= FLOW_IDLE_MS;
        let ids: Vec<FlowId> = self
            .flows
            .iter()
            .filter(|(_, f)| idle(f))
            .map(|(i, _)| *i)
            .collect();
        for id in &ids {
            self.remove(*id);
        }
        ids
    }

    /// When `expire` should run next.
    pub fn deadline_ms(&self) -> Option<u64> {
        self.flows.values().map(|f| f.used_ms + FLOW_IDLE_MS).min()
    }

    /// The oldest flow that no owner ever answered, else the one idle for longest.
    fn evict(&mut self) -> Option<FlowId> {
        while let Some(id) = self.unanswered.pop_front() {
            if self.flows.get(&id).is_some_and(|f| !f.is_answered) {
                self.remove(id);
                return Some(id);
            }
        }
        let id = self
            .flows
            .iter()
            .min_by_key(|(_, f)| f.used_ms)
            .map(|(id, _)| *id)?;
        self.remove(id);
        Some(id)
    }
}

#[cfg(test)]
#[path = "steering_test.rs"]
mod tests;
