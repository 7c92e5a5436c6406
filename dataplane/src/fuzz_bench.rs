//! An open device in a namespace of its own for tests that throw bytes at it, and the far ends of its peers.

use crate::device::{Desired, Device, Options, WantedPeer, WantedTarget};
use crate::ip_side::Side;
use crate::lazy_noise::LazyNoise;
use crate::noise::{Identity, Noise, Opened, Sealed};
use crate::peer::Peer;
use crate::shared::Role;
use crate::steering::pair_index;
use std::sync::Arc;

/// The device's own id; agents 2 and 3 are known to it, others are not.
pub const OWN: u16 = 1;
/// The transit address of slot 0, which peer 0 may send from.
pub const SOURCE: [u8; 4] = [198, 18, 0, 1];

/// A device and the far end of its first peer, with a session between them. The second peer has none.
pub struct Bench {
    pub device: Device,
    pub peer: Arc<Peer>,
    pub far: LazyNoise,
}

/// Runs a test with an open device, or says that it can't (no root, no TUN).
#[allow(clippy::print_stderr)] // a skipped test says why
pub fn with_device(role: Role, test: impl FnOnce(Bench) + Send + 'static) {
    let run = std::thread::spawn(move || {
        // SAFETY: changes the network namespace of this thread only.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            return eprintln!("skipped: needs root for a network namespace");
        }
        match bench(role) {
            Some(bench) => test(bench),
            None => eprintln!("skipped: needs /dev/net/tun"),
        }
    });
    if let Err(panic) = run.join() {
        std::panic::resume_unwind(panic);
    }
}

fn bench(role: Role) -> Option<Bench> {
    let options = Options {
        role,
        private_key: [1; 32],
        side: Side::Interface("xyfuzz".into()),
        mtu: 1380,
        listen_port: 0,
        paths: 1,
        offload: true,
    };
    let device = Device::open(&options, Box::new(|_| true)).ok()?;
    let ends = [2u8, 3].map(|n| Arc::new(Identity::new([n; 32])));
    let peers = ends.iter().enumerate().map(|(slot, end)| WantedPeer {
        key: end.public_key(),
        agent: OWN,
        slot: slot as u8,
        endpoint: Some("192.0.2.1:51820".parse().unwrap()),
        allowed_ips: vec![format!("198.18.0.{}/32", slot + 1).parse().unwrap()],
    });
    let target = |agent: u16| WantedTarget {
        agent,
        key: Identity::new([agent as u8 + 10; 32]).public_key(),
        endpoint: format!("127.0.0.{agent}:51820").parse().unwrap(),
    };
    let desired = Desired {
        peers: peers.collect(),
        steering: vec![target(2), target(3)],
    };
    device.set(&desired).unwrap();
    let own = Identity::new([1; 32]).public_key();
    let peer = device.shared().table.read().keys[&ends[0].public_key()].clone();
    let mut far = LazyNoise::new(ends[0].clone(), own, pair_index(OWN, 0));
    shake_hands(&mut far, &peer);
    Some(Bench { device, peer, far })
}

/// Makes a session without any network.
fn shake_hands(far: &mut LazyNoise, peer: &Peer) {
    let (mut there, mut here) = ([0u8; 256], [0u8; 256]);
    assert_eq!(far.initiate(&mut there), Sealed::Handshake(148));
    let mut noise = peer.noise.lock();
    assert_eq!(noise.open(&there[..148], &mut here), Opened::Answer(92));
    assert_eq!(far.open(&here[..92], &mut there), Opened::Answer(32));
    assert_eq!(noise.open(&there[..32], &mut here), Opened::Keepalive);
}

impl Bench {
    /// Makes a new session, as the old one may be pushed out by initiations that were taken.
    pub fn renew(&mut self) {
        shake_hands(&mut self.far, &self.peer);
    }

    /// The sum of these counters.
    pub fn sum(&self, names: &[&str]) -> u64 {
        let all = self.device.shared().counters.all();
        let of = |name: &&str| all.iter().find(|(n, _)| n == name).unwrap().1;
        names.iter().map(of).sum()
    }
}

/// An IPv4 packet with this source and destination.
pub fn packet_v4(source: [u8; 4], destination: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut p = vec![0u8; 20];
    p[0] = 0x45;
    p[2..4].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
    p[8] = 64;
    p[9] = protocol;
    p[12..16].copy_from_slice(&source);
    p[16..20].copy_from_slice(&destination);
    p.extend_from_slice(payload);
    p
}
