//! The surface towards Node: plain objects in, plain objects out, blocking work in the thread pool. No packet crosses it.

#![allow(clippy::needless_pass_by_value)] // the macros of napi want it so
#![cfg_attr(test, allow(dead_code))]

use crate::device::{Desired, Device, Options, WantedPeer, WantedTarget};
use crate::event::{Code, Event, Failure};
use crate::ip_side::Side;
use crate::memory::give_back;
use crate::napi_forward::OpenForward;
use crate::napi_shapes::{
    ConflictReport, DesiredConfig, DeviceEvent, DeviceOptions, DeviceState, ForwardConfig,
    Offloads, PathState, PeerConfig, PeerMeasurement, PeerState, SetReport, SteeringConfig,
    milliseconds,
};
use crate::noise::Key;
use crate::shared::Role;
use crate::stats::{DeviceStats, Report};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ip_network::IpNetwork;
use napi::bindgen_prelude::AsyncTask;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Env, Error, Result, Status, Task};
use napi_derive::napi;
use parking_lot::Mutex;
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Events that may wait for the JS thread; more are lost, and counted as `events_lost`.
const EVENTS_MAX: usize = 8192;

/// A `set` of so many peers and targets leaves enough behind to be worth tidying up.
const MANY_PEERS: usize = 100;

type Callback = ThreadsafeFunction<DeviceEvent, (), DeviceEvent, Status, false, true, EVENTS_MAX>;

/// The loader turns `code\0message` into an error with a code.
pub(crate) fn error(failure: Failure) -> Error {
    Error::from_reason(format!("{}\0{}", failure.code.text(), failure.message))
}

fn bad(message: String) -> Failure {
    Failure::new(Code::BadConfig, message)
}

/// Turns a panic into an error: one that leaves a task of the thread pool would end the process.
fn guarded<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        Err(error(Failure::new(
            Code::Io,
            "the data plane panicked: restart the process",
        )))
    })
}

fn number<T: TryFrom<u32>>(value: u32, name: &str) -> std::result::Result<T, Failure> {
    T::try_from(value).map_err(|_| bad(format!("{name} {value} is out of range")))
}

fn key(text: &str) -> std::result::Result<Key, Failure> {
    let bytes = STANDARD
        .decode(text)
        .ok()
        .and_then(|b| Key::try_from(b).ok());
    bytes.ok_or_else(|| bad(format!("public key {text:?} is not 32 bytes in base64")))
}

fn endpoint(text: &str) -> std::result::Result<SocketAddr, Failure> {
    let parsed = text
        .parse()
        .ok()
        .filter(|a: &SocketAddr| a.port() != 0 && !a.ip().is_unspecified());
    parsed.ok_or_else(|| bad(format!("endpoint {text:?} is not ADDRESS:PORT")))
}

fn prefix(text: &str) -> std::result::Result<IpNetwork, Failure> {
    text.parse()
        .map_err(|_| bad(format!("allowed IP {text:?} is not a canonical CIDR")))
}

fn options(o: &DeviceOptions) -> std::result::Result<Options, Failure> {
    let role = match o.kind.as_str() {
        "gateway" => Role::Gateway {
            slot: number(o.slot, "slot")?,
        },
        "agent" => Role::Agent {
            id: number(o.agent_id, "agentId")?,
        },
        other => return Err(bad(format!("kind {other:?} is neither gateway nor agent"))),
    };
    let private_key: &[u8] = &o.private_key;
    Ok(Options {
        role,
        private_key: private_key
            .try_into()
            .map_err(|_| bad("private key has not 32 bytes".into()))?,
        side: side(o)?,
        mtu: number(o.mtu, "mtu")?,
        listen_port: number(o.listen_port, "listenPort")?,
        paths: o.paths as usize,
        offload: o.offload,
    })
}

fn side(o: &DeviceOptions) -> std::result::Result<Side, Failure> {
    let address = |text: &String| {
        let parsed = text.parse::<IpAddr>();
        parsed.map_err(|_| bad(format!("{text:?} is no IP address")))
    };
    match (&o.interface, &o.addresses) {
        (Some(name), None) => Ok(Side::Interface(name.clone())),
        (None, Some(own)) => Ok(Side::Addresses(
            own.iter()
                .map(address)
                .collect::<std::result::Result<_, Failure>>()?,
        )),
        _ => Err(bad(
            "a device has either an interface or addresses of its own".into(),
        )),
    }
}

fn desired(d: &DesiredConfig) -> std::result::Result<Desired, Failure> {
    let peer = |p: &PeerConfig| {
        Ok(WantedPeer {
            key: key(&p.public_key)?,
            agent: number(p.agent_id, "agentId")?,
            slot: number(p.slot, "slot")?,
            endpoint: p.endpoint.as_deref().map(endpoint).transpose()?,
            allowed_ips: p
                .allowed_ips
                .iter()
                .map(|t| prefix(t))
                .collect::<std::result::Result<_, Failure>>()?,
        })
    };
    let target = |t: &SteeringConfig| {
        Ok(WantedTarget {
            agent: number(t.agent_id, "agentId")?,
            key: key(&t.public_key)?,
            endpoint: endpoint(&t.endpoint)?,
        })
    };
    Ok(Desired {
        peers: d
            .peers
            .iter()
            .map(peer)
            .collect::<std::result::Result<_, Failure>>()?,
        steering: d
            .steering
            .iter()
            .map(target)
            .collect::<std::result::Result<_, Failure>>()?,
    })
}

fn event(e: Event) -> DeviceEvent {
    let kind = |kind: &str| DeviceEvent {
        kind: kind.to_owned(),
        ..DeviceEvent::default()
    };
    let of = |name: &str, key: &Key| DeviceEvent {
        public_key: Some(STANDARD.encode(key)),
        ..kind(name)
    };
    match e {
        Event::Handshake { key, index } => DeviceEvent {
            index: Some(index),
            ..of("handshake", &key)
        },
        Event::Endpoint { key, endpoint } => DeviceEvent {
            endpoint: Some(endpoint.to_string()),
            ..of("endpoint", &key)
        },
        Event::Unanswered { key, for_ms } => DeviceEvent {
            for_ms: Some(for_ms as i64),
            ..of("unanswered", &key)
        },
        Event::Answered { key } => of("answered", &key),
        Event::Path { path, local_port } => DeviceEvent {
            path: Some(path as u32),
            local_port: Some(u32::from(local_port)),
            ..kind("path")
        },
        Event::Failed { code, message } => DeviceEvent {
            code: Some(code.text().to_owned()),
            message: Some(message),
            ..kind("failed")
        },
    }
}

fn report(r: Report) -> SetReport {
    let conflict = |c: crate::allowed_ips::Conflict| ConflictReport {
        allowed_ip: c.prefix.to_string(),
        kept: STANDARD.encode(c.kept),
        refused: STANDARD.encode(c.refused),
    };
    SetReport {
        peers_added: r.peers_added,
        peers_updated: r.peers_updated,
        peers_removed: r.peers_removed,
        steering_changed: r.steering_changed,
        conflicts: r.conflicts.into_iter().map(conflict).collect(),
    }
}

fn state(s: DeviceStats) -> DeviceState {
    let peer = |p: crate::stats::PeerStats| PeerState {
        public_key: STANDARD.encode(p.key),
        agent_id: u32::from(p.agent),
        slot: u32::from(p.slot),
        endpoint: p.endpoint.map(|e| e.to_string()),
        allowed_ips: p.allowed_ips.iter().map(ToString::to_string).collect(),
        rx_bytes: p.rx_bytes as i64,
        tx_bytes: p.tx_bytes as i64,
        rx_packets: p.rx_packets as i64,
        tx_packets: p.tx_packets as i64,
        handshake_age_ms: milliseconds(p.handshake_age_ms),
        received_age_ms: milliseconds(p.received_age_ms),
        unanswered_ms: milliseconds(p.unanswered_ms),
        rtt_us: milliseconds(p.rtt_us),
        path: p.path as u32,
    };
    let path = |p: crate::stats::PathStats| PathState {
        path: p.path as u32,
        local_port: u32::from(p.local_port),
        replaced: p.replaced as i64,
    };
    DeviceState {
        listen_port: u32::from(s.listen_port),
        interface: s.interface,
        offloads: Offloads {
            tun: s.tun_offload,
            udp_send: s.udp_send_offload,
            udp_receive: s.udp_receive_offload,
        },
        peers: s.peers.into_iter().map(peer).collect(),
        paths: s.paths.into_iter().map(path).collect(),
        relay_flows: s.relay_flows as u32,
        counters: s
            .counters
            .into_iter()
            .map(|(name, n)| (name.to_owned(), n as i64))
            .collect(),
    }
}

/// Opens a device in the thread pool.
pub struct Open {
    options: Option<std::result::Result<Options, Failure>>,
    callback: Option<Callback>,
}

impl Task for Open {
    type Output = Device;
    type JsValue = NativeDevice;

    fn compute(&mut self) -> Result<Device> {
        let options = self
            .options
            .take()
            .unwrap_or_else(|| Err(bad("opened twice".into())));
        let Some(callback) = self.callback.take() else {
            return Err(error(bad("opened twice".into())));
        };
        let on_event =
            move |e| callback.call(event(e), ThreadsafeFunctionCallMode::NonBlocking) == Status::Ok;
        let options = options.map_err(error)?;
        guarded(|| Device::open(&options, Box::new(on_event)).map_err(error))
    }

    fn resolve(&mut self, _env: Env, device: Device) -> Result<NativeDevice> {
        Ok(NativeDevice {
            device: Arc::new(Mutex::new(Some(Arc::new(device)))),
        })
    }
}

pub(crate) type Slot = Arc<Mutex<Option<Arc<Device>>>>;

pub(crate) fn opened(slot: &Slot) -> Result<Arc<Device>> {
    let closed = || {
        error(Failure::new(
            Code::Closed,
            "the device is closed: open a new one",
        ))
    };
    slot.lock().clone().ok_or_else(closed)
}

/// Applies a desired state in the thread pool.
pub struct Set {
    device: Slot,
    desired: DesiredConfig,
}

impl Task for Set {
    type Output = Report;
    type JsValue = SetReport;

    fn compute(&mut self) -> Result<Report> {
        let config = std::mem::take(&mut self.desired);
        let desired = desired(&config).map_err(error)?;
        let device = opened(&self.device)?;
        let result = guarded(|| device.set(&desired).map_err(error));
        drop(device);
        if desired.peers.len() + desired.steering.len() >= MANY_PEERS {
            drop((config, desired));
            give_back();
        }
        result
    }

    fn resolve(&mut self, _env: Env, output: Report) -> Result<SetReport> {
        Ok(report(output))
    }
}

/// Closes a device in the thread pool.
pub struct Close {
    device: Slot,
}

impl Task for Close {
    type Output = ();
    type JsValue = ();

    fn compute(&mut self) -> Result<()> {
        let device = self.device.lock().take();
        guarded(|| {
            if let Some(device) = device {
                device.close();
            }
            Ok(())
        })
    }

    fn resolve(&mut self, _env: Env, _output: ()) -> Result<()> {
        Ok(())
    }
}

/// Opens a device; the callback does not keep the process alive.
#[napi(ts_return_type = "Promise<NativeDevice>")]
pub fn open_device(o: DeviceOptions, on_event: Callback) -> AsyncTask<Open> {
    AsyncTask::new(Open {
        options: Some(options(&o)),
        callback: Some(on_event),
    })
}

/// An open device.
#[napi]
pub struct NativeDevice {
    device: Slot,
}

#[napi]
impl NativeDevice {
    /// Brings the device to what is desired.
    #[napi(ts_return_type = "Promise<SetReport>")]
    pub fn set(&self, desired: DesiredConfig) -> AsyncTask<Set> {
        AsyncTask::new(Set {
            device: self.device.clone(),
            desired,
        })
    }

    /// What the device is and holds now.
    #[napi]
    pub fn stats(&self) -> Result<DeviceState> {
        let device = opened(&self.device)?;
        guarded(|| Ok(state(device.stats())))
    }

    /// The peers of which anything was measured.
    #[napi]
    pub fn measured(&self) -> Result<Vec<PeerMeasurement>> {
        let device = opened(&self.device)?;
        guarded(|| Ok(device.measured().iter().map(Into::into).collect()))
    }

    /// Listens locally and carries each connection through the tunnel; only without an interface.
    #[napi(ts_return_type = "Promise<NativeForward>")]
    pub fn forward(&self, o: ForwardConfig) -> AsyncTask<OpenForward> {
        AsyncTask::new(OpenForward::new(self.device.clone(), o))
    }

    /// Stops and removes everything; idempotent.
    #[napi(ts_return_type = "Promise<void>")]
    pub fn close(&self) -> AsyncTask<Close> {
        AsyncTask::new(Close {
            device: self.device.clone(),
        })
    }
}
