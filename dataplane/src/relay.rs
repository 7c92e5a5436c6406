//! Passing datagrams on to their owner: one socket for each client address, so that answers find their way back.

use crate::budget::Budget;
use crate::descriptors::flows_max;
use crate::shared::Shared;
use crate::sockets::bind_small;
use crate::steering::{FLOWS_MAX, FlowId, FlowTable, Touched};
use crate::udp::{Message, Socket};
use crate::watched::{Arrival, Use, Watched};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Flows that data messages may begin in a second; a balancer that moved sends all gateways at once.
const FLOWS_PER_SECOND: u32 = 2_000;
/// Flows that initiations may begin in a second: a mac1 is made with public keys, and its sender may be forged.
const PROVEN_FLOWS_PER_SECOND: u32 = 1_000;
/// The first byte of an initiation, which is passed on only with a mac1 for its target.
const INITIATION: u8 = 1;

/// The sockets of the flow table. Agents answer from the family they were asked in.
pub struct Relay {
    table: FlowTable,
    open: HashMap<FlowId, Outlets>,
    next_expiry_ms: Option<u64>,
    budget: Budget<FLOWS_PER_SECOND>,
    proven_budget: Budget<PROVEN_FLOWS_PER_SECOND>,
}

/// One flow's sockets towards owners, by family, and where its client is answered from.
struct Outlets {
    v4: Option<(u64, Arc<Socket>)>,
    v6: Option<(u64, Arc<Socket>)>,
    back: Arc<Socket>,
}

impl Default for Relay {
    fn default() -> Relay {
        Relay {
            table: FlowTable::new(flows_max(FLOWS_MAX)),
            open: HashMap::new(),
            next_expiry_ms: None,
            budget: Budget::default(),
            proven_budget: Budget::default(),
        }
    }
}

impl Relay {
    /// Passes a run of datagrams on to the agent at `to`.
    pub fn forward(
        &mut self,
        shared: &Shared,
        watched: &mut Watched,
        run: &[u8],
        stride: usize,
        to: SocketAddr,
        arrival: &Arrival<'_>,
    ) {
        // Anybody can forge a message for a known agent; each forged sender would cost a socket. Neither
        // kind of flood keeps the other kind of message from beginning a flow.
        let now_ms = arrival.now_ms;
        let is_within_budget = self.table.is_known(arrival.from)
            || if run.first() == Some(&INITIATION) {
                self.proven_budget.take(now_ms)
            } else {
                self.budget.take(now_ms)
            };
        if !is_within_budget {
            return shared
                .counters
                .relay_refused
                .add(run.len().div_ceil(stride) as u64);
        }
        let id = match self
            .table
            .touch(arrival.from, arrival.local, arrival.now_ms)
        {
            Touched::Known(id) => id,
            Touched::New { id, evicted } => {
                if let Some(old) = evicted {
                    shared.counters.relay_evicted.one();
                    self.close(watched, old);
                }
                let back = arrival.socket.clone();
                self.open.insert(
                    id,
                    Outlets {
                        v4: None,
                        v6: None,
                        back,
                    },
                );
                id
            }
        };
        shared.relay_flows.store(self.table.len() as u64, Relaxed);
        let Some(outlets) = self.open.get_mut(&id) else {
            return;
        };
        outlets.back = arrival.socket.clone();
        let outlet = if to.is_ipv4() {
            &mut outlets.v4
        } else {
            &mut outlets.v6
        };
        if outlet.is_none() {
            let made = bind_small(to.is_ipv6(), shared.offload)
                .and_then(|socket| Ok((watched.add(socket.clone(), Use::Flow(id))?, socket)));
            match made {
                Ok(made) => *outlet = Some(made),
                Err(_) => return shared.counters.drop_send.one(),
            }
        }
        if let Some((_, socket)) = outlet {
            let segment = (run.len() > stride).then_some(stride);
            shared.send_on(socket, run, segment, to, None);
            shared
                .counters
                .relay_datagrams
                .add(run.len().div_ceil(stride) as u64);
        }
    }

    /// Passes an owner's answer back to the client of flow `id`.
    pub fn answer(&mut self, shared: &Shared, id: FlowId, message: &Message<'_>, now_ms: u64) {
        if !shared.steering.read().is_target(message.from) {
            return shared.counters.drop_relay_stranger.one();
        }
        let (Some(flow), Some(outlets)) = (self.table.answered(id, now_ms), self.open.get(&id))
        else {
            return;
        };
        let segment = (message.bytes.len() > message.stride).then_some(message.stride);
        shared.send_on(
            &outlets.back,
            message.bytes,
            segment,
            flow.client,
            flow.local,
        );
        shared
            .counters
            .relay_answers
            .add(message.bytes.len().div_ceil(message.stride) as u64);
    }

    /// Closes idle flows; returns when to look again.
    pub fn run(&mut self, shared: &Shared, watched: &mut Watched, now_ms: u64) -> Option<u64> {
        if self.table.is_empty() {
            self.next_expiry_ms = None;
            return None;
        }
        if self.next_expiry_ms.is_none_or(|at| now_ms >= at) {
            for id in self.table.expire(now_ms) {
                self.close(watched, id);
            }
            shared.relay_flows.store(self.table.len() as u64, Relaxed);
            // Looking seldom keeps a busy relay from scanning its table.
            self.next_expiry_ms = self.table.deadline_ms().map(|at| at.max(now_ms + 1000));
        }
        self.next_expiry_ms
    }

    fn close(&mut self, watched: &mut Watched, id: FlowId) {
        if let Some(outlets) = self.open.remove(&id) {
            for (token, _) in outlets.v4.into_iter().chain(outlets.v6) {
                watched.remove(token);
            }
        }
    }
}

#[cfg(test)]
#[path = "relay_test.rs"]
mod tests;
