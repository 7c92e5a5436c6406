//! The plain objects of the surface towards Node; index.d.ts says the same for TypeScript.

#![cfg_attr(test, allow(dead_code))]
use crate::stats::PeerStats;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use napi::bindgen_prelude::Uint8Array;
use napi_derive::napi;
use std::collections::HashMap;

#[napi(object)]
pub struct DeviceOptions {
    pub kind: String,
    pub agent_id: u32,
    pub slot: u32,
    pub private_key: Uint8Array,
    pub interface: Option<String>,
    pub addresses: Option<Vec<String>>,
    pub mtu: u32,
    pub listen_port: u32,
    pub paths: u32,
    pub offload: bool,
}

#[napi(object)]
#[derive(Default)]
pub struct DeviceEvent {
    pub kind: String,
    pub public_key: Option<String>,
    pub endpoint: Option<String>,
    pub index: Option<u32>,
    pub for_ms: Option<i64>,
    pub path: Option<u32>,
    pub local_port: Option<u32>,
    pub code: Option<String>,
    pub message: Option<String>,
}

#[napi(object)]
pub struct ForwardConfig {
    pub listen: String,
    pub target: String,
    pub connect_timeout_ms: Option<u32>,
    pub user_timeout_ms: Option<u32>,
}

#[napi(object, use_nullable = true)]
pub struct PeerConfig {
    pub public_key: String,
    pub agent_id: u32,
    pub slot: u32,
    pub endpoint: Option<String>,
    pub allowed_ips: Vec<String>,
}

#[napi(object)]
pub struct SteeringConfig {
    pub agent_id: u32,
    pub public_key: String,
    pub endpoint: String,
}

#[napi(object)]
#[derive(Default)]
pub struct DesiredConfig {
    pub peers: Vec<PeerConfig>,
    pub steering: Vec<SteeringConfig>,
}

#[napi(object)]
pub struct ConflictReport {
    pub allowed_ip: String,
    pub kept: String,
    pub refused: String,
}

#[napi(object)]
pub struct SetReport {
    pub peers_added: u32,
    pub peers_updated: u32,
    pub peers_removed: u32,
    pub steering_changed: u32,
    pub conflicts: Vec<ConflictReport>,
}

#[napi(object)]
pub struct Offloads {
    pub tun: bool,
    pub udp_send: bool,
    pub udp_receive: bool,
}

#[napi(object, use_nullable = true)]
pub struct PeerState {
    pub public_key: String,
    pub agent_id: u32,
    pub slot: u32,
    pub endpoint: Option<String>,
    pub allowed_ips: Vec<String>,
    pub rx_bytes: i64,
    pub tx_bytes: i64,
    pub rx_packets: i64,
    pub tx_packets: i64,
    pub handshake_age_ms: Option<i64>,
    pub received_age_ms: Option<i64>,
    pub unanswered_ms: Option<i64>,
    pub rtt_us: Option<i64>,
    pub path: u32,
}

#[napi(object, use_nullable = true)]
pub struct PeerMeasurement {
    pub public_key: String,
    pub received_age_ms: Option<i64>,
    pub unanswered_ms: Option<i64>,
    pub rtt_us: Option<i64>,
}

/// A duration as JavaScript's number.
pub fn milliseconds(value: Option<u64>) -> Option<i64> {
    value.map(|v| v as i64)
}

impl From<&PeerStats> for PeerMeasurement {
    fn from(p: &PeerStats) -> PeerMeasurement {
        PeerMeasurement {
            public_key: STANDARD.encode(p.key),
            received_age_ms: milliseconds(p.received_age_ms),
            unanswered_ms: milliseconds(p.unanswered_ms),
            rtt_us: milliseconds(p.rtt_us),
        }
    }
}

#[napi(object)]
pub struct PathState {
    pub path: u32,
    pub local_port: u32,
    pub replaced: i64,
}

#[napi(object)]
pub struct DeviceState {
    pub listen_port: u32,
    pub interface: String,
    pub offloads: Offloads,
    pub peers: Vec<PeerState>,
    pub paths: Vec<PathState>,
    pub relay_flows: u32,
    pub counters: HashMap<String, i64>,
}
