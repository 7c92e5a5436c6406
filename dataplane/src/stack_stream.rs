//! One stream: a TCP connection of the stack, joined to a local socket.

use crate::stack_local::{Local, Moved};
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::Duration;
use std::net::{IpAddr, SocketAddr};

/// How long a finished connection is kept to answer what its last acknowledgement did not reach, microseconds.
const LINGER_US: u64 = 1_000_000;
/// How long a connection is kept whose program is gone but whose far end is not, microseconds (tcp_fin_timeout).
const ORPHAN_US: u64 = 60_000_000;
/// How often a silent far end is asked whether it is there, at most.
const KEEPALIVE_MS: u64 = 30_000;

/// Addresses and ports of a connection; `local` is the stack's own end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    pub local: SocketAddr,
    pub remote: SocketAddr,
}

/// How patient a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Milliseconds until a connection must be there.
    pub connect_ms: u64,
    /// Milliseconds that the far end may leave data or keepalives without answer (RFC 5482).
    pub user_timeout_ms: u64,
}

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialError {
    /// The far end says that nobody listens.
    Refused,
    /// Somebody on the way says that the far end can't be reached, or this device has no address of its family.
    Unreachable,
    TimedOut,
    /// Too many connections.
    Full,
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Both halves were closed.
    Closed,
    /// Either end broke it off, or the far end fell silent.
    Reset,
}

/// ```text
///  Dialing --connected--> Ready --splice--> Spliced --both ended--> Lingering --1 s--> Gone
///     |                     |                  |
///     +---refused, late-----+------reset-------+--> Aborted --RST sent--> Gone
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Dialing {
        until_us: u64,
    },
    /// Connected; waits for a local end.
    Ready,
    Spliced,
    /// The connection is over, the local end is gone.
    Lingering {
        until_us: u64,
    },
    Aborted,
}

/// What became of a stream by looking at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Nothing,
    /// Bytes went one way or the other: worth another look.
    Moved,
    Connected,
    Failed(DialError),
    Ended(End),
}

/// See the file's head.
pub struct Stream {
    pub sockets: SocketSet<'static>,
    handle: SocketHandle,
    pub tuple: Tuple,
    phase: Phase,
    user_timeout_ms: u64,
    local: Option<Local>,
    can_read: bool,
    can_write: bool,
    /// The local side sent its last byte.
    is_local_ended: bool,
    /// The far side's FIN was seen.
    is_remote_ended: bool,
    /// The local side was told so.
    is_told: bool,
    /// When to give up on a connection whose program is gone.
    orphan_us: Option<u64>,
    /// Received bytes that outlive the connection.
    left: Vec<u8>,
    left_at: usize,
    /// When the stream wants to be looked at again; the owner's index by time holds the same.
    pub due_us: Option<u64>,
    pub is_queued: bool,
}

impl Stream {
    /// A stream with buffers of `buffer` bytes each way whose socket is still closed.
    pub fn new(tuple: Tuple, patience: &Patience, buffer: usize, now_us: u64) -> Stream {
        let new_buffer = || SocketBuffer::new(vec![0; buffer]);
        let mut socket = Socket::new(new_buffer(), new_buffer());
        socket.set_nagle_enabled(false);
        // Segments arrive merged, so that one ACK for each turn is few enough; a delay would only slow the sender.
        socket.set_ack_delay(None);
        socket.set_congestion_control(CongestionControl::Cubic);
        // Before `connect`: smoltcp sends a keepalive, a byte of junk, at once when it is set later. A listener
        // that lost our ACK and uses SYN cookies takes that byte for the first one of the stream.
        let keepalive_ms = KEEPALIVE_MS.min(patience.user_timeout_ms / 4).max(1);
        socket.set_keep_alive(Some(Duration::from_millis(keepalive_ms)));
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let handle = sockets.add(socket);
        let until_us = now_us.saturating_add(patience.connect_ms.saturating_mul(1_000));
        Stream {
            sockets,
            handle,
            tuple,
            phase: Phase::Dialing { until_us },
            user_timeout_ms: patience.user_timeout_ms,
            local: None,
            can_read: false,
            can_write: false,
            is_local_ended: false,
            is_remote_ended: false,
            is_told: false,
            orphan_us: None,
            left: Vec::new(),
            left_at: 0,
            due_us: None,
            is_queued: false,
        }
    }

    /// The connection.
    pub fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    /// Whether the connection is still being made.
    pub fn is_dialing(&self) -> bool {
        matches!(self.phase, Phase::Dialing { .. })
    }

    /// Whether only the last acknowledgement keeps it.
    pub fn is_lingering(&self) -> bool {
        matches!(self.phase, Phase::Lingering { .. })
    }

    /// Whether it carries nothing any more.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Lingering { .. } | Phase::Aborted)
    }

    /// Joins a connected stream to a local end; another one is refused by dropping it.
    pub fn splice(&mut self, local: Local) {
        if self.phase == Phase::Ready {
            self.phase = Phase::Spliced;
            self.local = Some(local);
        }
    }

    /// Takes what the poller tells of the local end.
    pub fn note(&mut self, readiness: Readiness, now_us: u64) {
        self.can_read |= readiness.can_read;
        self.can_write |= readiness.can_write;
        if readiness.is_hung_up && self.orphan_us.is_none() {
            self.orphan_us = Some(now_us + ORPHAN_US);
        }
        if readiness.is_failed {
            self.abort();
        }
    }

    /// Breaks it off: RST to the far end, an error to the local one.
    pub fn abort(&mut self) {
        match self.phase {
            Phase::Lingering { .. } | Phase::Aborted => {}
            Phase::Dialing { .. } | Phase::Ready | Phase::Spliced => {
                self.phase = Phase::Aborted;
                self.left = Vec::new();
                self.socket().abort();
                if let Some(local) = self.local.take() {
                    local.reset();
                }
            }
        }
    }

    /// Whether nothing is left to do or to answer.
    pub fn is_gone(&mut self, now_us: u64) -> bool {
        match self.phase {
            Phase::Dialing { .. } | Phase::Ready | Phase::Spliced => false,
            Phase::Lingering { until_us } => now_us >= until_us || !self.has_connection(),
            Phase::Aborted => !self.has_connection(),
        }
    }

    /// The next time that something is due, beside what the connection itself wants.
    pub fn own_due_us(&self) -> Option<u64> {
        match self.phase {
            Phase::Dialing { until_us } | Phase::Lingering { until_us } => Some(until_us),
            Phase::Ready | Phase::Aborted => None,
            Phase::Spliced => self.orphan_us,
        }
    }

    /// Gives up a connection that can't be made.
    pub fn fail(&mut self, why: DialError) -> Change {
        self.abort();
        Change::Failed(why)
    }

    /// Looks at the connection and the local end, and moves what can be moved.
    pub fn pump(&mut self, now_us: u64) -> Change {
        match self.phase {
            Phase::Dialing { until_us } => self.pump_dial(until_us, now_us),
            Phase::Ready => {
                if self.has_connection() {
                    return Change::Nothing;
                }
                self.abort();
                Change::Ended(End::Reset)
            }
            Phase::Lingering { .. } | Phase::Aborted => Change::Nothing,
            Phase::Spliced => self.pump_bytes(now_us),
        }
    }

    fn pump_dial(&mut self, until_us: u64, now_us: u64) -> Change {
        match self.socket().state() {
            State::SynSent | State::SynReceived if now_us >= until_us => {
                self.fail(DialError::TimedOut)
            }
            State::SynSent | State::SynReceived => Change::Nothing,
            // RFC 9293: a RST in answer to a SYN.
            State::Closed | State::Listen => self.fail(DialError::Refused),
            State::Established
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait
            | State::Closing
            | State::LastAck
            | State::TimeWait => {
                self.phase = Phase::Ready;
                let timeout_ms = self.user_timeout_ms;
                let timeout = Duration::from_millis(timeout_ms);
                self.socket().set_timeout(Some(timeout));
                Change::Connected
            }
        }
    }

    fn pump_bytes(&mut self, now_us: u64) -> Change {
        let Some(local) = self.local.take() else {
            return Change::Nothing;
        };
        let socket = self.sockets.get_mut::<Socket>(self.handle);
        self.is_remote_ended |= matches!(
            socket.state(),
            State::CloseWait | State::Closing | State::LastAck | State::TimeWait
        );
        if socket.state() == State::TimeWait {
            // smoltcp throws unread bytes away when the wait is over, which a slow reader may outlast.
            while let Ok(n) = socket.recv(|bytes| (bytes.len(), keep(&mut self.left, bytes))) {
                if n == 0 {
                    break;
                }
            }
        }
        let up = self.pump_up(&local);
        let down = self.pump_down(&local);
        let (Ok(up), Ok(down)) = (up, down) else {
            self.local = Some(local);
            self.abort();
            return Change::Ended(End::Reset);
        };
        let socket = self.sockets.get_mut::<Socket>(self.handle);
        let is_drained = self.left_at == self.left.len() && !socket.can_recv();
        if self.is_remote_ended && is_drained && !self.is_told {
            local.finish();
            self.is_told = true;
        }
        let is_over = matches!(socket.state(), State::Closed | State::TimeWait);
        if is_over && self.is_told && self.is_local_ended {
            let until_us = now_us + LINGER_US;
            self.phase = Phase::Lingering { until_us };
            return Change::Ended(End::Closed);
        }
        let is_broken =
            socket.state() == State::Closed && !(self.is_remote_ended && self.is_local_ended);
        let is_orphaned = self.orphan_us.is_some_and(|at| now_us >= at);
        self.local = Some(local);
        if is_broken || is_orphaned {
            self.abort();
            return Change::Ended(End::Reset);
        }
        if up || down {
            Change::Moved
        } else {
            Change::Nothing
        }
    }

    /// From the local end into the connection; says whether anything went.
    fn pump_up(&mut self, local: &Local) -> Result<bool, Broken> {
        let socket = self.sockets.get_mut::<Socket>(self.handle);
        let mut moved = false;
        while self.can_read && !self.is_local_ended && socket.can_send() {
            let read = socket.send(|room| match local.read(room) {
                Moved::Bytes(n) => (n, Moved::Bytes(n)),
                other => (0, other),
            });
            match read {
                Ok(Moved::Bytes(_)) => moved = true,
                Ok(Moved::Later) => self.can_read = false,
                Ok(Moved::Ended) => {
                    self.is_local_ended = true;
                    socket.close();
                    moved = true;
                }
                Ok(Moved::Broken) => return Err(Broken),
                Err(_) => break,
            }
        }
        Ok(moved)
    }

    /// From the connection to the local end; says whether anything went.
    fn pump_down(&mut self, local: &Local) -> Result<bool, Broken> {
        let socket = self.sockets.get_mut::<Socket>(self.handle);
        let mut moved = false;
        while self.can_write {
            let wrote = if self.left_at < self.left.len() {
                let wrote = local.write(&self.left[self.left_at..]);
                if let Moved::Bytes(n) = wrote {
                    self.left_at += n;
                }
                wrote
            } else if socket.can_recv() {
                let write = |bytes: &mut [u8]| match local.write(bytes) {
                    Moved::Bytes(n) => (n, Moved::Bytes(n)),
                    other => (0, other),
                };
                socket.recv(write).unwrap_or(Moved::Later)
            } else {
                break;
            };
            match wrote {
                Moved::Bytes(_) => moved = true,
                Moved::Later => self.can_write = false,
                Moved::Ended | Moved::Broken => return Err(Broken),
            }
        }
        Ok(moved)
    }

    /// Whether smoltcp still speaks for this connection.
    fn has_connection(&mut self) -> bool {
        self.socket().remote_endpoint().is_some()
    }
}

/// The local end is gone.
struct Broken;

/// What an event says of a local end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    pub can_read: bool,
    pub can_write: bool,
    /// Both halves are over.
    pub is_hung_up: bool,
    pub is_failed: bool,
}

/// The stack's own address for a target.
pub fn own_address(addresses: &[IpAddr], target: IpAddr) -> Option<IpAddr> {
    addresses
        .iter()
        .copied()
        .find(|a| a.is_ipv4() == target.is_ipv4())
}

fn keep(left: &mut Vec<u8>, bytes: &[u8]) -> usize {
    left.extend_from_slice(bytes);
    bytes.len()
}
