//! A device as its owner sees it: open, set, stats, close. Blocks; call it off the JS thread.

use crate::allowed_ips::{assign, is_settled};
use crate::event::{Code, Failure};
use crate::inbound;
use crate::ip_side::{self, IpSide, Side};
use crate::lazy_noise::LazyNoise;
use crate::noise::{Identity, Key};
use crate::peer::{NewPeer, Peer};
use crate::poll::Waker;
use crate::refusals::{check, check_desired, socket_failure};
use crate::shared::{OnEvent, Role, Shared};
use crate::sockets::Pair;
use crate::stack::Forward;
use crate::stack_forward::ForwardOptions;
use crate::stats::{Counters, DeviceStats, PathStats, PeerStats, Report};
use crate::steering::{Steering, Target, pair_index};
use crate::table::Table;
use crate::udp::UdpCounters;
use crate::watched::{Use, Watched};
use ip_network::IpNetwork;
use parking_lot::{Mutex, RwLock};
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

/// Who the device is; fixed for its life.
pub struct Options {
    pub role: Role,
    pub private_key: [u8; 32],
    pub side: Side,
    pub mtu: u16,
    /// 0: any free port.
    pub listen_port: u16,
    /// UDP sockets towards the balancer; 1 on an agent.
    pub paths: usize,
    pub offload: bool,
}

/// A peer as it must be.
#[derive(Clone, Debug)]
pub struct WantedPeer {
    pub key: Key,
    pub agent: u16,
    pub slot: u8,
    pub endpoint: Option<SocketAddr>,
    pub allowed_ips: Vec<IpNetwork>,
}

/// Another agent as it must be known.
#[derive(Clone, Copy, Debug)]
pub struct WantedTarget {
    pub agent: u16,
    pub key: Key,
    pub endpoint: SocketAddr,
}

/// All that the device must hold.
#[derive(Clone, Debug, Default)]
pub struct Desired {
    pub peers: Vec<WantedPeer>,
    pub steering: Vec<WantedTarget>,
}

/// An open device. Dropping it closes it.
pub struct Device {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// One `set` at a time.
    setting: Mutex<()>,
}

impl Device {
    /// Makes the TUN, binds the sockets, starts both threads.
    pub fn open(options: &Options, on_event: OnEvent) -> Result<Device, Failure> {
        check(options)?;
        let io = |e: io::Error| Failure::new(Code::Io, format!("opening the device failed: {e}"));
        let ip_side = IpSide::open(&options.side, options.offload)?;
        let mut paths = Vec::new();
        for path in 0..options.paths {
            let port = if path == 0 { options.listen_port } else { 0 };
            let pair = Pair::open(port, options.offload).map_err(|e| socket_failure(port, &e))?;
            paths.push(pair);
        }
        let identity = Arc::new(Identity::new(options.private_key));
        let own = if let Role::Agent { id } = options.role {
            id
        } else {
            0
        };
        let steering = Steering::new(own, &identity.public_key(), HashMap::new());
        let shared = Arc::new(Shared {
            role: options.role,
            mtu: options.mtu,
            offload: options.offload,
            identity,
            ip_side,
            table: RwLock::new(Arc::new(Table::new([], HashMap::new()))),
            steering: RwLock::new(Arc::new(steering)),
            replaced: paths.iter().map(|_| AtomicU64::new(0)).collect(),
            paths: RwLock::new(paths.clone()),
            activated: Mutex::new(Vec::new()),
            counters: Counters::default(),
            relay_flows: AtomicU64::new(0),
            next_wake_ms: AtomicU64::new(u64::MAX),
            wake_in: Waker::new().map_err(io)?,
            wake_out: Waker::new().map_err(io)?,
            is_stopped: AtomicBool::new(false),
            on_event,
            start: Instant::now(),
        });
        let mut watched = Watched::new(&shared).map_err(io)?;
        let mut tokens = Vec::new();
        for pair in &paths {
            let mut add = |socket: &Option<Arc<_>>| match socket {
                Some(socket) => watched.add(Arc::clone(socket), Use::Peers).map(Some),
                None => Ok(None),
            };
            tokens.push([add(&pair.v4).map_err(io)?, add(&pair.v6).map_err(io)?]);
        }
        let device = Device {
            shared,
            threads: Mutex::default(),
            setting: Mutex::new(()),
        };
        device
            .spawn("xylem-in", move |shared| {
                inbound::run(shared, watched, &tokens);
            })
            .map_err(io)?;
        device.spawn("xylem-out", ip_side::run).map_err(io)?;
        Ok(device)
    }

    /// Brings the device to what is desired; says what that took. Unchanged peers notice nothing.
    pub fn set(&self, desired: &Desired) -> Result<Report, Failure> {
        let _one = self.setting.lock();
        let shared = &self.shared;
        if shared.is_stopped.load(SeqCst) {
            return Err(Failure::new(
                Code::Closed,
                "the device is closed: open a new one",
            ));
        }
        check_desired(desired)?;
        let old = shared.table.read().clone();
        let mut report = Report::default();
        let mut peers = Vec::with_capacity(desired.peers.len());
        let mut changed: HashSet<Key> = HashSet::new();
        for wanted in &desired.peers {
            let kept = old.keys.get(&wanted.key);
            match kept.filter(|p| p.agent == wanted.agent && p.slot == wanted.slot) {
                Some(peer) => {
                    if peer.configure(wanted.endpoint) {
                        changed.insert(wanted.key);
                    }
                    peers.push(peer.clone());
                }
                None => {
                    if kept.is_some() {
                        changed.insert(wanted.key);
                    } else {
                        report.peers_added += 1;
                    }
                    peers.push(Arc::new(self.new_peer(wanted)));
                }
            }
        }
        let wants: Vec<(Key, &[IpNetwork])> = desired
            .peers
            .iter()
            .map(|p| (p.key, p.allowed_ips.as_slice()))
            .collect();
        let is_same = report.peers_added == 0
            && changed.is_empty()
            && peers.len() == old.keys.len()
            && is_settled(&old.owners, &wants);
        if is_same {
            report.steering_changed = self.set_steering(&desired.steering);
            return Ok(report);
        }
        let (owners, conflicts) = assign(&old.owners, &wants);
        report.conflicts = conflicts;
        // A prefix that came, went or changed hands updates the peers that are there before and after.
        let moved = owners
            .iter()
            .filter(|(n, key)| old.owners.get(*n) != Some(*key));
        let gone = old
            .owners
            .iter()
            .filter(|(n, key)| owners.get(*n) != Some(*key));
        changed.extend(moved.chain(gone).map(|(_, key)| *key));
        let table = Table::new(peers, owners);
        changed.retain(|key| old.keys.contains_key(key) && table.keys.contains_key(key));
        report.peers_updated = changed.len() as u32;
        report.peers_removed = old
            .keys
            .keys()
            .filter(|k| !table.keys.contains_key(*k))
            .count() as u32;
        let table = Arc::new(table);
        *shared.table.write() = table.clone();
        for (key, peer) in &old.keys {
            if !table.keys.get(key).is_some_and(|p| Arc::ptr_eq(p, peer)) {
                peer.is_removed.store(true, SeqCst);
            }
        }
        report.steering_changed = self.set_steering(&desired.steering);
        Ok(report)
    }

    /// See `Table::measured`.
    pub fn measured(&self) -> Vec<PeerStats> {
        let table = self.shared.table.read().clone();
        table.measured(self.shared.now_ms())
    }

    /// What the device is and holds now.
    pub fn stats(&self) -> DeviceStats {
        let shared = &self.shared;
        let now_ms = shared.now_ms();
        let table = shared.table.read().clone();
        let mut allowed = table.allowed_ips();
        let mut peers: Vec<_> = table
            .keys
            .values()
            .map(|p| p.stats(now_ms, allowed.remove(&p.key).unwrap_or_default()))
            .collect();
        peers.sort_by_key(|p| (p.agent, p.slot, p.key));
        let paths = shared.paths.read().clone();
        let first = paths
            .iter()
            .flat_map(Pair::all)
            .next()
            .map_or((false, false), |s| s.offloads());
        let mut counters = shared.counters.all();
        if let Some(drop_tun) = counters.iter_mut().find(|(name, _)| *name == "drop_tun") {
            drop_tun.1 += shared.ip_side.dropped();
        }
        counters.extend(udp_counters(&paths));
        DeviceStats {
            listen_port: paths.first().map_or(0, Pair::port),
            interface: shared.ip_side.name().to_owned(),
            tun_offload: shared.ip_side.has_offload(),
            udp_send_offload: first.0,
            udp_receive_offload: first.1,
            peers,
            paths: paths
                .iter()
                .zip(&shared.replaced)
                .enumerate()
                .map(|(path, (pair, replaced))| {
                    let replaced = replaced.load(Relaxed);
                    PathStats {
                        path,
                        local_port: pair.port(),
                        replaced,
                    }
                })
                .collect(),
            relay_flows: shared.relay_flows.load(Relaxed) as usize,
            counters,
        }
    }

    /// Listens locally and carries each connection to a target inside the tunnel; only without a TUN.
    pub fn forward(&self, options: &ForwardOptions) -> Result<Forward, Failure> {
        match &self.shared.ip_side {
            IpSide::Stack(stack) => stack.forward(options),
            IpSide::Tun(_) => Err(Failure::new(
                Code::BadConfig,
                "a device with an interface forwards nothing: connect through the interface",
            )),
        }
    }

    /// Ends a forward and its connections. Idempotent.
    pub fn unforward(&self, id: u64) {
        match &self.shared.ip_side {
            IpSide::Stack(stack) => stack.unforward(id),
            IpSide::Tun(_) => {}
        }
    }

    /// Stops the threads and waits for them; sockets and interface go with the last reference.
    pub fn close(&self) {
        self.shared.is_stopped.store(true, SeqCst);
        self.shared.wake_in.wake();
        self.shared.wake_out.wake();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // A panic inside was told as an event already.
            drop(thread.join());
        }
        // A `set` that is under way holds on to what must be gone.
        drop(self.setting.lock());
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn spawn(
        &self,
        name: &'static str,
        run: impl FnOnce(&Shared) + Send + 'static,
    ) -> io::Result<()> {
        let shared = self.shared.clone();
        let thread = Builder::new().name(name.to_owned()).spawn(move || {
            if catch_unwind(AssertUnwindSafe(|| run(&shared))).is_err() {
                shared.fail(
                    Code::Io,
                    format!("thread {name} panicked: restart the process"),
                );
            }
        })?;
        self.threads.lock().push(thread);
        Ok(())
    }

    fn new_peer(&self, wanted: &WantedPeer) -> Peer {
        let paths = self.shared.replaced.len().max(1);
        Peer::new(NewPeer {
            key: wanted.key,
            agent: wanted.agent,
            slot: wanted.slot,
            endpoint: wanted.endpoint,
            path: usize::from(wanted.agent ^ wanted.agent >> 8) % paths,
            noise: Box::new(LazyNoise::new(
                self.shared.identity.clone(),
                wanted.key,
                pair_index(wanted.agent, wanted.slot),
            )),
        })
    }

    fn set_steering(&self, wanted: &[WantedTarget]) -> u32 {
        let shared = &self.shared;
        let Role::Agent { id } = shared.role else {
            return 0;
        };
        let old = shared.steering.read().clone();
        let mut changed = 0;
        let mut targets = HashMap::with_capacity(wanted.len());
        for w in wanted.iter().filter(|w| w.agent != id) {
            let same = old.targets().get(&w.agent);
            let same = same
                .filter(|t| t.public_key == w.key && t.endpoint == w.endpoint)
                .copied();
            changed += u32::from(same.is_none());
            targets.insert(
                w.agent,
                same.unwrap_or_else(|| Target::new(w.key, w.endpoint)),
            );
        }
        changed += old
            .targets()
            .keys()
            .filter(|id| !targets.contains_key(*id))
            .count() as u32;
        if changed > 0 {
            let key = shared.identity.public_key();
            *shared.steering.write() = Arc::new(Steering::new(id, &key, targets));
        }
        changed
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.close();
    }
}

/// What the paths' present sockets met, summed.
fn udp_counters(paths: &[Pair]) -> [(&'static str, u64); 6] {
    let all: Vec<_> = paths
        .iter()
        .flat_map(Pair::all)
        .map(|s| s.counters())
        .collect();
    let sum = |of: fn(&UdpCounters) -> u64| all.iter().map(of).sum();
    [
        ("udp_gso_refused", sum(|c| c.gso_refused)),
        ("udp_source_lost", sum(|c| c.source_lost)),
        ("udp_would_block", sum(|c| c.would_block)),
        ("udp_too_long", sum(|c| c.too_long)),
        ("udp_no_buffers", sum(|c| c.no_buffers)),
        ("udp_unreachable", sum(|c| c.unreachable + c.failed)),
    ]
}
