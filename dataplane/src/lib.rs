//! The WireGuard data plane of Xylem: owns packets, sessions and sockets, and is told what to hold.

pub mod admission;
pub mod allowed_ips;
pub mod budget;
pub mod checksum;
mod descriptors;
pub mod device;
pub mod echo;
pub mod event;
#[cfg(test)]
mod fuzz_bench;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz_targets;
pub mod inner_flows;
pub mod ip;
pub mod ip_side;
pub mod lazy_noise;
pub mod memory;
pub mod merge;
pub mod mss;
pub mod noise;
pub mod offload;
pub mod stack;
mod stack_egress;
pub mod stack_forward;
pub mod stack_inbox;
pub mod stack_link;
pub mod stack_local;
mod stack_run;
pub mod stack_stream;
pub mod stack_streams;
pub mod stack_wire;
#[cfg(test)]
mod stack_world_test;
pub mod stats;
pub mod steering;
mod talk;
pub mod tun;
pub mod udp;

mod inbound;
#[cfg(feature = "node")]
mod napi;
#[cfg(feature = "node")]
mod napi_forward;
#[cfg(feature = "node")]
mod napi_memory;
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
