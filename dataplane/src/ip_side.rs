//! The side of a device that inner packets come from and go to: a TUN, or TCP/IP in this process.

use crate::event::{Code, Failure};
use crate::merge::PacketSink;
use crate::offload::VnetHeader;
use crate::refusals::tun_failure;
use crate::shared::Shared;
use crate::stack::Stack;
use crate::tun::{Tun, TunOffload};
use crate::{outbound, stack_run};
use std::io::IoSlice;
use std::net::IpAddr;

/// Which of both a device has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Side {
    /// A TUN interface of this name.
    Interface(String),
    /// No interface: TCP/IP in this process, with these addresses.
    Addresses(Vec<IpAddr>),
}

/// One of both; fixed for a device's life.
pub enum IpSide {
    Tun(Tun),
    Stack(Stack),
}

impl IpSide {
    /// Makes the interface, or a stack that `run` will run.
    pub fn open(side: &Side, offload: bool) -> Result<IpSide, Failure> {
        match side {
            Side::Interface(name) => Tun::open(name, offload)
                .map(IpSide::Tun)
                .map_err(|e| tun_failure(name, &e)),
            Side::Addresses(own) => Stack::new(own, offload)
                .map(IpSide::Stack)
                .map_err(|e| Failure::new(Code::Io, format!("making the stack failed: {e}"))),
        }
    }

    /// The interface's name; empty without an interface.
    pub fn name(&self) -> &str {
        match self {
            IpSide::Tun(tun) => tun.name(),
            IpSide::Stack(_) => "",
        }
    }

    /// Whether it exchanges super packets with the engine.
    pub fn has_offload(&self) -> bool {
        match self {
            IpSide::Tun(tun) => tun.offload() != TunOffload::None,
            IpSide::Stack(stack) => stack.has_offload(),
        }
    }

    /// Packets that it did not take.
    pub fn dropped(&self) -> u64 {
        match self {
            IpSide::Tun(tun) => tun.dropped(),
            IpSide::Stack(stack) => stack.dropped(),
        }
    }
}

/// Carries packets from it to the wire until the device is stopped.
pub fn run(shared: &Shared) {
    match &shared.ip_side {
        IpSide::Tun(tun) => outbound::run(shared, tun),
        IpSide::Stack(stack) => stack_run::run(shared, stack),
    }
}

impl PacketSink for &IpSide {
    fn write(&mut self, header: &VnetHeader, parts: &[IoSlice]) {
        match self {
            IpSide::Tun(tun) => {
                let mut tun = tun;
                tun.write(header, parts);
            }
            IpSide::Stack(stack) => stack.take(header, parts),
        }
    }
}
