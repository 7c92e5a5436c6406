//! What the device holds, as one immutable picture that is swapped as a whole, so that no packet sees half of a change.

use crate::allowed_ips::{Owners, Routes};
use crate::noise::Key;
use crate::peer::Peer;
use crate::stats::PeerStats;
use ip_network::IpNetwork;
use std::collections::HashMap;
use std::sync::Arc;

/// All peers and their prefixes.
pub struct Table {
    /// By the 24 bits of their indices.
    pub pairs: HashMap<u32, Arc<Peer>>,
    pub keys: HashMap<Key, Arc<Peer>>,
    pub routes: Routes<Arc<Peer>>,
    pub owners: Owners,
}

impl Table {
    /// A table of these peers; owners of prefixes that are none of them are left out.
    pub fn new(peers: impl IntoIterator<Item = Arc<Peer>>, owners: Owners) -> Table {
        let keys: HashMap<Key, Arc<Peer>> = peers.into_iter().map(|p| (p.key, p)).collect();
        let pairs = keys.values().map(|p| (p.pair(), p.clone())).collect();
        let routes = owners
            .iter()
            .filter_map(|(n, key)| Some((*n, keys.get(key)?.clone())));
        let routes = Routes::new(routes.collect::<Vec<_>>());
        Table {
            pairs,
            keys,
            routes,
            owners,
        }
    }

    /// Every peer that was ever heard, timed, or waited for, without its prefixes: an idle one says nothing of the network.
    pub fn measured(&self, now_ms: u64) -> Vec<PeerStats> {
        let is_measured = |p: &PeerStats| {
            p.received_age_ms.is_some() || p.unanswered_ms.is_some() || p.rtt_us.is_some()
        };
        let all = self.keys.values().map(|p| p.stats(now_ms, Vec::new()));
        let mut peers: Vec<_> = all.filter(is_measured).collect();
        peers.sort_by_key(|p| (p.agent, p.slot, p.key));
        peers
    }

    /// The prefixes of every peer, sorted.
    pub fn allowed_ips(&self) -> HashMap<Key, Vec<IpNetwork>> {
        let mut by_key: HashMap<Key, Vec<IpNetwork>> = HashMap::new();
        for (prefix, key) in &self.owners {
            by_key.entry(*key).or_default().push(*prefix);
        }
        for list in by_key.values_mut() {
            list.sort_by_key(|n| (n.is_ipv6(), n.network_address(), n.netmask()));
        }
        by_key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Identity;
    use crate::peer::NewPeer;
    use std::sync::atomic::Ordering::Relaxed;

    fn peer(n: u8) -> Arc<Peer> {
        Arc::new(Peer::new(NewPeer {
            key: [n; 32],
            agent: u16::from(n),
            slot: 0,
            endpoint: None,
            path: 0,
            noise: Identity::new([9; 32]).peer([n; 32], u32::from(n)),
        }))
    }

    #[test]
    fn only_peers_that_were_heard_timed_or_waited_for_are_measured() {
        let peers = [1, 2, 3, 4].map(peer);
        peers[0].heard_ms.store(70, Relaxed);
        peers[2].waiting_ms.store(90, Relaxed);
        peers[3].rtt_us.store(500, Relaxed);
        let measured = Table::new(peers, HashMap::new()).measured(100);
        let seen: Vec<_> = measured
            .iter()
            .map(|p| (p.agent, p.received_age_ms, p.unanswered_ms, p.rtt_us))
            .collect();
        let wanted = [
            (1, Some(30), None, None),
            (3, None, Some(10), None),
            (4, None, None, Some(500)),
        ];
        assert_eq!(seen, wanted);
    }
}
