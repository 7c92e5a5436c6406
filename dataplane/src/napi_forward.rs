//! Forwards as Node sees them: a listener that was opened in the thread pool, and its end.

#![cfg_attr(test, allow(dead_code))]

use crate::device::Device;
use crate::event::{Code, Failure};
use crate::napi::{Slot, error, opened};
use crate::napi_shapes::ForwardConfig;
use crate::stack::Forward;
use crate::stack_forward::{ForwardOptions, Listen};
use crate::stack_stream::Patience;
use napi::bindgen_prelude::AsyncTask;
use napi::{Env, Result, Task};
use napi_derive::napi;
use std::net::SocketAddr;

const CONNECT_MS: u32 = 10_000;
const USER_TIMEOUT_MS: u32 = 120_000;

fn options(o: &ForwardConfig) -> std::result::Result<ForwardOptions, Failure> {
    let bad = |message: String| Failure::new(Code::BadConfig, message);
    let target = o.target.parse().ok();
    let target = target.filter(|a: &SocketAddr| a.port() != 0 && !a.ip().is_unspecified());
    Ok(ForwardOptions {
        listen: Listen::parse(&o.listen)?,
        target: target.ok_or_else(|| bad(format!("target {:?} is not ADDRESS:PORT", o.target)))?,
        patience: Patience {
            connect_ms: u64::from(o.connect_timeout_ms.unwrap_or(CONNECT_MS)),
            user_timeout_ms: u64::from(o.user_timeout_ms.unwrap_or(USER_TIMEOUT_MS)),
        },
    })
}

/// Begins a forward in the thread pool.
pub struct OpenForward {
    device: Slot,
    config: ForwardConfig,
}

impl OpenForward {
    /// A task that was not started.
    pub fn new(device: Slot, config: ForwardConfig) -> OpenForward {
        OpenForward { device, config }
    }
}

impl Task for OpenForward {
    type Output = Forward;
    type JsValue = NativeForward;

    fn compute(&mut self) -> Result<Forward> {
        let options = options(&self.config).map_err(error)?;
        opened(&self.device)?.forward(&options).map_err(error)
    }

    fn resolve(&mut self, _env: Env, forward: Forward) -> Result<NativeForward> {
        Ok(NativeForward {
            device: self.device.clone(),
            forward,
        })
    }
}

/// Ends a forward in the thread pool.
pub struct CloseForward {
    device: Slot,
    id: u64,
}

impl Task for CloseForward {
    type Output = ();
    type JsValue = ();

    fn compute(&mut self) -> Result<()> {
        // A closed device has no forwards.
        let device: Option<std::sync::Arc<Device>> = self.device.lock().clone();
        if let Some(device) = device {
            device.unforward(self.id);
        }
        Ok(())
    }

    fn resolve(&mut self, _env: Env, _output: ()) -> Result<()> {
        Ok(())
    }
}

/// A local listener whose connections go through the tunnel.
#[napi]
pub struct NativeForward {
    device: Slot,
    forward: Forward,
}

#[napi]
impl NativeForward {
    /// The TCP port that is listened on; null for a Unix socket.
    #[napi(getter)]
    pub fn port(&self) -> Option<u32> {
        self.forward.port.map(u32::from)
    }

    /// Stops listening and breaks the connections off; idempotent.
    #[napi(ts_return_type = "Promise<void>")]
    pub fn close(&self) -> AsyncTask<CloseForward> {
        AsyncTask::new(CloseForward {
            device: self.device.clone(),
            id: self.forward.id,
        })
    }
}
