//! What the data plane tells as it happens, and the codes of what can go wrong.

use crate::noise::Key;
use std::net::SocketAddr;

/// See `DeviceEvent` of `src/model/device.ts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A session was made; `index` is this device's own for it.
    Handshake { key: Key, index: u32 },
    /// The peer was heard from a new address.
    Endpoint { key: Key, endpoint: SocketAddr },
    /// Data or probes stay unanswered.
    Unanswered { key: Key, for_ms: u64 },
    /// Heard again after `Unanswered`.
    Answered { key: Key },
    /// A path has a new socket.
    Path { path: usize, local_port: u16 },
    /// The device can't go on.
    Failed { code: Code, message: String },
}

/// See `DeviceErrorCode` of `src/ports/device.ts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    NoTun,
    NoPermission,
    PortInUse,
    InterfaceInUse,
    BadConfig,
    Closed,
    Io,
}

impl Code {
    /// The code as programs see it.
    pub fn text(self) -> &'static str {
        match self {
            Code::NoTun => "no-tun",
            Code::NoPermission => "no-permission",
            Code::PortInUse => "port-in-use",
            Code::InterfaceInUse => "interface-in-use",
            Code::BadConfig => "bad-config",
            Code::Closed => "closed",
            Code::Io => "io",
        }
    }
}

/// A failure with one sentence that says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: Code,
    pub message: String,
}

impl Failure {
    /// A failure of this kind.
    pub fn new(code: Code, message: impl Into<String>) -> Failure {
        Failure {
            code,
            message: message.into(),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
