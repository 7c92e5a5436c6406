//! What a device refuses, and the sentences that say why.

use crate::device::{Desired, Options};
use crate::event::{Code, Failure};
use crate::ip_side::Side;
use crate::stack::ADDRESSES_MAX;
use crate::tun::TunError;
use std::collections::HashSet;
use std::io;
use std::net::IpAddr;

const PATHS_MAX: usize = 8;
const MTU_MIN: u16 = 576;
const MTU_MAX: u16 = 65_500;

/// Refuses options that no device can have.
pub fn check(options: &Options) -> Result<(), Failure> {
    let bad = |what: String| Err(Failure::new(Code::BadConfig, what));
    if !(MTU_MIN..=MTU_MAX).contains(&options.mtu) {
        return bad(format!(
            "mtu {} is not within {MTU_MIN} to {MTU_MAX}",
            options.mtu
        ));
    }
    if !(1..=PATHS_MAX).contains(&options.paths) {
        return bad(format!(
            "{} paths are not within 1 to {PATHS_MAX}",
            options.paths
        ));
    }
    match &options.side {
        Side::Interface(_) => Ok(()),
        Side::Addresses(own) if own.is_empty() || own.len() > ADDRESSES_MAX => bad(format!(
            "a device without interface has 1 to {ADDRESSES_MAX} addresses, not {}",
            own.len()
        )),
        Side::Addresses(own) => match own.iter().find(|a| !is_host(**a)) {
            None => Ok(()),
            Some(a) => bad(format!("{a} is no address that a device can have")),
        },
    }
}

fn is_host(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(a) if a.is_broadcast());
    !(is_broadcast || address.is_multicast() || address.is_unspecified() || address.is_loopback())
}

/// Refuses a desired state that contradicts itself, before anything is changed.
pub fn check_desired(desired: &Desired) -> Result<(), Failure> {
    let mut keys = HashSet::new();
    let mut pairs = HashSet::new();
    for peer in &desired.peers {
        if !keys.insert(peer.key) {
            return Err(Failure::new(
                Code::BadConfig,
                "two peers have the same public key",
            ));
        }
        if !pairs.insert((peer.agent, peer.slot)) {
            let (agent, slot) = (peer.agent, peer.slot);
            let what = format!("two peers have agent id {agent} and slot {slot}");
            return Err(Failure::new(Code::BadConfig, what));
        }
    }
    let mut agents = HashSet::new();
    match desired.steering.iter().find(|t| !agents.insert(t.agent)) {
        None => Ok(()),
        Some(t) => {
            let what = format!("two steering targets have agent id {}", t.agent);
            Err(Failure::new(Code::BadConfig, what))
        }
    }
}

/// Why there is no TUN, as a sentence.
pub fn tun_failure(interface: &str, e: &TunError) -> Failure {
    let code = match e {
        TunError::NoDevice => Code::NoTun,
        TunError::NoPermission => Code::NoPermission,
        TunError::InUse => Code::InterfaceInUse,
        TunError::BadName => Code::BadConfig,
        TunError::Io(_) => Code::Io,
    };
    Failure::new(code, format!("interface {interface}: {e}"))
}

/// Why there is no socket, as a sentence.
pub fn socket_failure(port: u16, e: &io::Error) -> Failure {
    match e.kind() {
        io::ErrorKind::AddrInUse => Failure::new(
            Code::PortInUse,
            format!("UDP port {port} is in use: stop what listens there or choose another port"),
        ),
        io::ErrorKind::PermissionDenied => Failure::new(
            Code::NoPermission,
            format!(
                "may not bind UDP port {port}: choose one above 1023 or add CAP_NET_BIND_SERVICE"
            ),
        ),
        _ => Failure::new(Code::Io, format!("binding UDP port {port} failed: {e}")),
    }
}
