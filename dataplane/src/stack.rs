//! TCP/IP in this process: what a device without a TUN hands inner packets to, and what local connections are forwarded by.

use crate::event::{Code, Failure};
use crate::offload::VnetHeader;
use crate::poll::Waker;
use crate::stack_forward::{ForwardOptions, Listener};
use crate::stack_inbox::Inbox;
use crate::stack_stream::Patience;
use parking_lot::Mutex;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};

/// Own addresses of a stack at most (less than smoltcp's bound, a feature in Cargo.toml).
pub const ADDRESSES_MAX: usize = 4;

/// What the stack's thread is asked to do.
pub enum Command {
    Listen {
        id: u64,
        listener: Listener,
        target: SocketAddr,
        patience: Patience,
    },
    /// Closes the listener and breaks its streams off; drops `done` then.
    Unlisten { id: u64, done: SyncSender<()> },
}

/// The half of the stack that any thread may use; the other half is `stack_run::run`.
pub struct Stack {
    pub addresses: Vec<IpAddr>,
    pub inbox: Inbox,
    pub waker: Waker,
    has_offload: bool,
    /// None once the thread has ended.
    commands: Mutex<Option<Vec<Command>>>,
    next_forward: AtomicU64,
}

/// A local listener whose connections are carried through the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    pub id: u64,
    /// The TCP port that is listened on; None for a Unix socket.
    pub port: Option<u16>,
}

impl Stack {
    /// A stack whose thread does not run yet.
    pub fn new(addresses: &[IpAddr], has_offload: bool) -> io::Result<Stack> {
        Ok(Stack {
            addresses: addresses.to_vec(),
            inbox: Inbox::default(),
            waker: Waker::new()?,
            has_offload,
            commands: Mutex::new(Some(Vec::new())),
            next_forward: AtomicU64::new(1),
        })
    }

    /// Takes a packet from the tunnel. Never waits: what does not fit is dropped and counted.
    pub fn take(&self, header: &VnetHeader, parts: &[IoSlice]) {
        if self.inbox.put(header, parts) {
            self.waker.wake();
        }
    }

    /// Whether the stack sends super packets.
    pub fn has_offload(&self) -> bool {
        self.has_offload
    }

    /// Packets that did not fit.
    pub fn dropped(&self) -> u64 {
        self.inbox.dropped()
    }

    /// Listens, and carries each accepted connection to the target.
    pub fn forward(&self, options: &ForwardOptions) -> Result<Forward, Failure> {
        let listener = Listener::bind(&options.listen)?;
        let port = listener.port();
        let id = self.next_forward.fetch_add(1, Relaxed);
        let command = Command::Listen {
            id,
            listener,
            target: options.target,
            patience: options.patience,
        };
        if self.ask(command) {
            Ok(Forward { id, port })
        } else {
            Err(Failure::new(
                Code::Closed,
                "the device is closed: open a new one",
            ))
        }
    }

    /// Ends a forward; its listener and connections are gone when this returns. Idempotent.
    pub fn unforward(&self, id: u64) {
        let (done, is_done) = sync_channel(1);
        if self.ask(Command::Unlisten { id, done }) {
            // Nothing is ever sent: the thread drops its end.
            let _ = is_done.recv();
        }
    }

    /// What was asked since the last time.
    pub fn take_commands(&self) -> Vec<Command> {
        self.commands
            .lock()
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Refuses commands from now on, and lets go of those that wait.
    pub fn end(&self) {
        *self.commands.lock() = None;
    }

    fn ask(&self, command: Command) -> bool {
        let mut commands = self.commands.lock();
        let Some(waiting) = commands.as_mut() else {
            return false;
        };
        waiting.push(command);
        drop(commands);
        self.waker.wake();
        true
    }
}
