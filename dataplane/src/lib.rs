//! The WireGuard data plane of Xylem: owns packets, sessions and sockets, and is told what to hold.

pub mod allowed_ips;
pub mod budget;
pub mod checksum;
mod descriptors;
pub mod device;
pub mod echo;
pub mod event;
#[cfg(test)]
mod fuzz_bench;
pub mod inner_flows;
pub mod ip;
pub mod lazy_noise;
pub mod memory;
pub mod merge;
pub mod mss;
pub mod noise;
pub mod offload;
pub mod stats;
pub mod steering;
pub mod tun;
pub mod udp;

mod inbound;
#[cfg(feature = "node")]
mod napi;
#[cfg(feature = "node")]
mod napi_shapes;
mod outbound;
pub mod path_effects;
pub mod path_limits;
pub mod paths;
pub mod peer;
pub mod poll;
mod refusals;
mod relay;
pub mod shared;
pub mod sockets;
pub mod table;
mod timers;
pub mod unreachable;
mod watched;
