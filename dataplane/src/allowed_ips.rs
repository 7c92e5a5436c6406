//! Which peer a prefix belongs to: longest prefix wins, and of two claimants the first owner.

use crate::noise::Key;
use ip_network::IpNetwork;
use ip_network_table::IpNetworkTable;
use std::collections::HashMap;
use std::net::IpAddr;

/// A prefix that two peers want; it stays with `kept`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub prefix: IpNetwork,
    pub kept: Key,
    pub refused: Key,
}

/// Owners by prefix; the memory that makes the first owner keep what it has.
pub type Owners = HashMap<IpNetwork, Key>;

/// Decides the owner of every wanted prefix. `wants` is in the order of the desired state; a prefix
/// stays with its `previous` owner as long as that one still wants it.
pub fn assign(previous: &Owners, wants: &[(Key, &[IpNetwork])]) -> (Owners, Vec<Conflict>) {
    let mut claimants: HashMap<IpNetwork, Vec<Key>> = HashMap::new();
    let mut order = Vec::new();
    for (key, prefixes) in wants {
        for prefix in *prefixes {
            let list = claimants.entry(*prefix).or_default();
            if list.is_empty() {
                order.push(*prefix);
            }
            if !list.contains(key) {
                list.push(*key);
            }
        }
    }
    let mut owners = Owners::with_capacity(order.len());
    let mut conflicts = Vec::new();
    for prefix in order {
        let Some(list) = claimants.get(&prefix) else {
            continue;
        };
        let kept = previous
            .get(&prefix)
            .filter(|k| list.contains(k))
            .or(list.first());
        let Some(&kept) = kept else { continue };
        owners.insert(prefix, kept);
        let refused = list.iter().filter(|k| **k != kept);
        conflicts.extend(refused.map(|&refused| Conflict {
            prefix,
            kept,
            refused,
        }));
    }
    (owners, conflicts)
}

/// Prefixes of one peer up to which `is_settled` looks for duplicates.
const FEW: usize = 64;

/// Whether `assign` would change nothing and report nothing (each key is there once); false when that would cost as much as to do it.
pub fn is_settled(owners: &Owners, wants: &[(Key, &[IpNetwork])]) -> bool {
    let is_held = |(key, prefixes): &(Key, &[IpNetwork])| {
        prefixes.len() <= FEW
            && prefixes.iter().enumerate().all(|(at, prefix)| {
                owners.get(prefix) == Some(key) && !prefixes[..at].contains(prefix)
            })
    };
    let count: usize = wants.iter().map(|(_, prefixes)| prefixes.len()).sum();
    count == owners.len() && wants.iter().all(is_held)
}

/// Longest-prefix lookup of an address, IPv4 and IPv6.
pub struct Routes<T> {
    table: IpNetworkTable<T>,
}

impl<T> Routes<T> {
    /// A table that holds `entries`.
    pub fn new(entries: impl IntoIterator<Item = (IpNetwork, T)>) -> Routes<T> {
        let mut table = IpNetworkTable::new();
        for (prefix, value) in entries {
            table.insert(prefix, value);
        }
        Routes { table }
    }

    /// What the longest prefix that holds `address` leads to.
    pub fn find(&self, address: IpAddr) -> Option<&T> {
        self.table.longest_match(address).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn net(s: &str) -> IpNetwork {
        s.parse().unwrap()
    }

    const A: Key = [1; 32];
    const B: Key = [2; 32];

    #[test]
    fn w26_first_owner_keeps_a_prefix_and_the_survivor_gets_it() {
        let p = [net("10.1.0.0/24")];
        let (first, none) = assign(&Owners::new(), &[(B, &p)]);
        assert_eq!(none, []);
        // A comes later, though it is listed first.
        let (both, conflicts) = assign(&first, &[(A, &p), (B, &p)]);
        assert_eq!(both[&p[0]], B);
        assert_eq!(
            conflicts,
            [Conflict {
                prefix: p[0],
                kept: B,
                refused: A
            }]
        );
        let (survivor, none) = assign(&both, &[(A, &p), (B, &[])]);
        assert_eq!(survivor[&p[0]], A);
        assert_eq!(none, []);
    }

    #[test]
    fn one_peer_that_says_a_prefix_twice_is_no_conflict() {
        let p = [net("10.1.0.0/24"), net("10.1.0.0/24")];
        assert_eq!(assign(&Owners::new(), &[(A, &p)]).1, []);
    }

    #[test]
    fn longest_prefix_wins_in_both_families() {
        let r = Routes::new([
            (net("10.0.0.0/8"), 1),
            (net("10.1.0.0/16"), 2),
            (net("10.1.2.3/32"), 3),
            (net("0.0.0.0/0"), 4),
            (net("fd00::/8"), 5),
            (net("fd00:1::/64"), 6),
        ]);
        let cases = [
            ("10.2.0.1", Some(1)),
            ("10.1.9.9", Some(2)),
            ("10.1.2.3", Some(3)),
            ("192.0.2.1", Some(4)),
            ("fd00:2::1", Some(5)),
            ("fd00:1::1", Some(6)),
            ("2001:db8::1", None),
        ];
        for (address, want) in cases {
            assert_eq!(r.find(address.parse().unwrap()).copied(), want, "{address}");
        }
    }

    proptest! {
        #[test]
        fn what_is_settled_would_not_change(
            previous in prop::collection::vec((0u8..3, 0u8..4), 0..5),
            wants in prop::collection::hash_map(0u8..3, prop::collection::vec(0u8..4, 0..4), 0..3),
        ) {
            let prefix = |n: u8| net(&format!("10.{n}.0.0/16"));
            let owners: Owners = previous.iter().map(|(key, n)| (prefix(*n), [*key; 32])).collect();
            let lists: Vec<(Key, Vec<IpNetwork>)> = wants
                .iter()
                .map(|(key, list)| ([*key; 32], list.iter().map(|n| prefix(*n)).collect()))
                .collect();
            let wants: Vec<(Key, &[IpNetwork])> = lists.iter().map(|(k, l)| (*k, l.as_slice())).collect();
            if is_settled(&owners, &wants) {
                prop_assert_eq!(assign(&owners, &wants), (owners, vec![]));
            }
        }

        #[test]
        fn lookup_agrees_with_a_linear_search(
            prefixes in prop::collection::vec((any::<u32>(), 0u8..=32), 0..40),
            address in any::<u32>(),
        ) {
            let mask = |bits: u32, length: u8| {
                if length == 0 { 0 } else { bits & (u32::MAX << (32 - length)) }
            };
            let entries: HashMap<IpNetwork, u8> = prefixes
                .iter()
                .map(|&(bits, length)| {
                    let ip = IpAddr::from(mask(bits, length).to_be_bytes());
                    (IpNetwork::new(ip, length).unwrap(), length)
                })
                .collect();
            let want = entries.iter().filter(|(n, _)| n.contains(IpAddr::from(address.to_be_bytes())))
                .map(|(_, l)| *l).max();
            let routes = Routes::new(entries);
            prop_assert_eq!(routes.find(IpAddr::from(address.to_be_bytes())).copied(), want);
        }
    }
}
