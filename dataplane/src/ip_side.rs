//! The side of a device that inner packets come from and go to: a TUN, or TCP/IP in this process.

use crate::merge::PacketSink;
use crate::offload::VnetHeader;
use crate::stack::Stack;
use crate::tun::{Tun, TunOffload};
use std::io::IoSlice;

/// One of both; fixed for a device's life.
pub enum IpSide {
    Tun(Tun),
    Stack(Stack),
}

impl IpSide {
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
