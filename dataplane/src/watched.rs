//! Every socket that the inbound thread waits for, and what each is there for.

use crate::poll::Poller;
use crate::shared::Shared;
use crate::udp::Socket;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// What a socket is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Talks to peers: a path, a candidate for one, or an old one that drains.
    Peers,
    /// One client's datagrams towards their owners, and the answers.
    Flow(u64),
}

/// Every socket that the thread waits for.
pub struct Watched {
    pub poller: Poller,
    pub sockets: HashMap<u64, (Arc<Socket>, Use)>,
    next: u64,
}

/// The poller's token of the waker.
pub const WAKE: u64 = 0;

impl Watched {
    /// Nothing but the waker.
    pub fn new(shared: &Shared) -> std::io::Result<Watched> {
        let poller = Poller::new()?;
        poller.add(shared.wake_in.fd(), WAKE)?;
        Ok(Watched {
            poller,
            sockets: HashMap::new(),
            next: WAKE + 1,
        })
    }

    /// Starts to wait for a socket; the token is never used twice.
    pub fn add(&mut self, socket: Arc<Socket>, of: Use) -> std::io::Result<u64> {
        let token = self.next;
        self.poller.add(socket.fd(), token)?;
        self.next += 1;
        self.sockets.insert(token, (socket, of));
        Ok(token)
    }

    /// Stops waiting for a socket and drops it.
    pub fn remove(&mut self, token: u64) {
        if let Some((socket, _)) = self.sockets.remove(&token) {
            self.poller.remove(socket.fd());
        }
    }
}

/// Where a datagram came in and from whom.
#[derive(Clone, Copy)]
pub struct Arrival<'a> {
    pub token: u64,
    pub socket: &'a Arc<Socket>,
    pub from: SocketAddr,
    pub local: Option<IpAddr>,
    pub now_ms: u64,
}
