//! A non-blocking UDP socket with segmentation offloads (udp(7): UDP_SEGMENT, UDP_GRO) and fallbacks.

mod options;
mod outcome;
mod probe;

pub use outcome::{SendOutcome, UdpCounters};
pub use probe::{Offloads, self_test};

use outcome::Counts;
use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, SockAddr, Type};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Datagrams of one GSO send: UDP_MAX_SEGMENTS of Linux 4.18.
pub const SEGMENTS_MAX: usize = 64;
/// Payload bytes of one send: 65,535 without IPv4 and UDP headers.
pub const SEND_MAX: usize = 65_507;
/// Room for whatever one receive may bring, merged datagrams included.
const RECEIVE_MAX: usize = 65_536;
/// Kernel buffer of a socket, bytes: 8 MiB hold 50 ms of 1.3 Gbit/s.
pub const KERNEL_BUFFER: usize = 8 << 20;
/// A segment that passes every link: IPv6's least MTU without IPv6 and UDP headers.
const SEGMENT_SAFE: usize = 1_280 - 48;
/// How long a send waits for room in the socket's buffer, ms.
const WRITABLE_MS: libc::c_int = 5;
/// Errors of earlier sends (ICMP) that one receive skips.
const SKIPPED_MAX: usize = 8;

/// Datagrams of one receive that came from one sender, all `stride` bytes long but the last.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// All datagrams, back to back; empty for an empty datagram.
    pub bytes: &'a [u8],
    /// Bytes of each datagram but the last; at least 1.
    pub stride: usize,
    /// The sender.
    pub from: SocketAddr,
    /// The local address that the sender wrote to.
    pub local: Option<IpAddr>,
}

impl<'a> Message<'a> {
    /// The datagrams one by one; an empty datagram is left out.
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.bytes.chunks(self.stride)
    }
}

/// Buffers for one receive; reused from receive to receive.
pub struct RecvBatch {
    bytes: Vec<u8>,
    meta: Vec<RecvMeta>,
    count: usize,
}

impl RecvBatch {
    /// Room for `messages` (1 to 32) messages of 64 KiB; untouched pages cost no memory.
    pub fn new(messages: usize) -> RecvBatch {
        let messages = messages.clamp(1, quinn_udp::BATCH_SIZE);
        RecvBatch {
            bytes: vec![0; messages * RECEIVE_MAX],
            meta: vec![RecvMeta::default(); messages],
            count: 0,
        }
    }

    /// How many messages the last receive brought.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether the last receive brought nothing.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The messages of the last receive, in order of arrival.
    pub fn messages(&self) -> impl Iterator<Item = Message<'_>> {
        let buffers = self.bytes.chunks(RECEIVE_MAX);
        self.meta
            .iter()
            .zip(buffers)
            .take(self.count)
            .map(|(meta, buffer)| Message {
                bytes: buffer.get(..meta.len).unwrap_or(buffer),
                stride: meta.stride.max(1),
                from: meta.addr,
                local: meta.dst_ip,
            })
    }
}

/// A bound UDP socket; any thread may send and receive.
#[derive(Debug)]
pub struct Socket {
    socket: socket2::Socket,
    state: UdpSocketState,
    local: SocketAddr,
    /// Segments longer than this are sent one by one; 0 once the kernel refused GSO for good.
    segment_max: AtomicUsize,
    has_gro: bool,
    counts: Counts,
}

impl Socket {
    /// Binds to `addr` (IPv6 without IPv4), port 0 for any. `gro_gso` asks for offloads as far as
    /// `self_test` saw them work.
    pub fn bind(addr: SocketAddr, gro_gso: bool) -> io::Result<Socket> {
        Socket::bind_sized(addr, gro_gso, KERNEL_BUFFER)
    }

    /// `bind` with a kernel buffer of `buffer` bytes (as far as net.core.rmem_max or CAP_NET_ADMIN allow).
    pub fn bind_sized(addr: SocketAddr, gro_gso: bool, buffer: usize) -> io::Result<Socket> {
        let offloads = if gro_gso {
            self_test(addr.is_ipv6())
        } else {
            Offloads {
                gso: false,
                gro: false,
            }
        };
        Socket::open(addr, offloads, buffer)
    }

    fn open(addr: SocketAddr, offloads: Offloads, buffer: usize) -> io::Result<Socket> {
        let socket =
            socket2::Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
        if addr.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        options::grow(&socket, buffer);
        socket.bind(&SockAddr::from(addr))?;
        let local = socket
            .local_addr()?
            .as_socket()
            .ok_or_else(|| io::Error::other("bound to something that is no IP address"))?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        options::set_options(&socket, addr.is_ipv6(), offloads.gro);
        let has_gso = offloads.gso && state.max_gso_segments() > 1;
        Ok(Socket {
            has_gro: offloads.gro && state.gro_segments() > 1,
            segment_max: AtomicUsize::new(if has_gso { SEND_MAX } else { 0 }),
            socket,
            state,
            local,
            counts: Counts::default(),
        })
    }

    /// Receives as many messages as there are, at most as many as `batch` has room for.
    /// `WouldBlock` when there is none. Errors that ICMP reported about earlier sends are counted and skipped.
    pub fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        batch.count = 0;
        let mut buffers =
            std::array::from_fn::<_, { quinn_udp::BATCH_SIZE }, _>(|_| IoSliceMut::new(&mut []));
        let mut room = 0;
        for (buffer, bytes) in buffers.iter_mut().zip(batch.bytes.chunks_mut(RECEIVE_MAX)) {
            *buffer = IoSliceMut::new(bytes);
            room += 1;
        }
        for _ in 0..SKIPPED_MAX {
            let socket = UdpSockRef::from(&self.socket);
            match self
                .state
                .recv(socket, &mut buffers[..room], &mut batch.meta)
            {
                Ok(count) => {
                    batch.count = count;
                    return Ok(count);
                }
                Err(e) if outcome::is_about_a_send(&e) => {
                    self.counts.receive_errors.fetch_add(1, Relaxed);
                }
                Err(e) => return Err(e),
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Sends `bytes` to `to`: one datagram, or datagrams of `segment` bytes (the last may be shorter).
    ///
    /// A batch beyond `SEGMENTS_MAX` or `SEND_MAX` goes one by one too. `from` is the source address, the kernel's
    /// choice when None or of the other family or gone. Where GSO is off or refused the datagrams go one by one.
    pub fn send(
        &self,
        bytes: &[u8],
        segment: Option<usize>,
        to: SocketAddr,
        from: Option<IpAddr>,
    ) -> SendOutcome {
        let from = from.filter(|ip| ip.is_ipv4() == to.is_ipv4());
        let mut outcome = self.send_from(bytes, segment, to, from);
        if from.is_some() && outcome.may_be_the_source() {
            outcome = self.send_from(bytes, segment, to, None);
            if outcome == SendOutcome::Sent {
                self.counts.source_lost.fetch_add(1, Relaxed);
            }
        }
        self.counts.note(outcome);
        outcome
    }

    /// The file descriptor, for poll.
    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// The port that the socket is bound to.
    pub fn local_port(&self) -> u16 {
        self.local.port()
    }

    /// Whether (GSO, GRO) are in use; GSO turns false when the kernel refuses it later.
    pub fn offloads(&self) -> (bool, bool) {
        (self.segment_max.load(Relaxed) > 0, self.has_gro)
    }

    /// What this socket met so far.
    pub fn counters(&self) -> UdpCounters {
        self.counts.read()
    }

    fn send_from(
        &self,
        bytes: &[u8],
        segment: Option<usize>,
        to: SocketAddr,
        from: Option<IpAddr>,
    ) -> SendOutcome {
        let Some(size) = segment.filter(|size| (1..bytes.len()).contains(size)) else {
            return SendOutcome::of(self.transmit(bytes, None, to, from));
        };
        let is_batch = size <= self.segment_max.load(Relaxed)
            && bytes.len() <= SEND_MAX
            && bytes.len().div_ceil(size) <= SEGMENTS_MAX;
        if is_batch {
            match self.transmit(bytes, Some(size), to, from) {
                Err(e) if outcome::is_refusal(&e) => {}
                result => return SendOutcome::of(result),
            }
        }
        let mut worst = SendOutcome::Sent;
        for (at, datagram) in bytes.chunks(size).enumerate() {
            let outcome = SendOutcome::of(self.transmit(datagram, None, to, from));
            match outcome {
                SendOutcome::Sent if at == 0 && is_batch => self.refuse(size),
                SendOutcome::Sent => {}
                // The first one's error is not the batch's fault and would be that of all.
                _ if at == 0 || outcome == SendOutcome::WouldBlock => return outcome,
                _ => worst = outcome,
            }
        }
        worst
    }

    /// Remembers that a batch failed whose datagrams went through: a short segment means that there is no GSO here,
    /// a long one perhaps only that a link on this way is smaller.
    fn refuse(&self, size: usize) {
        self.counts.gso_refused.fetch_add(1, Relaxed);
        let most = if size <= SEGMENT_SAFE { 0 } else { size - 1 };
        self.segment_max.fetch_min(most, Relaxed);
    }

    fn transmit(
        &self,
        contents: &[u8],
        segment_size: Option<usize>,
        destination: SocketAddr,
        src_ip: Option<IpAddr>,
    ) -> io::Result<()> {
        let transmit = Transmit {
            destination,
            ecn: None,
            contents,
            segment_size,
            src_ip,
        };
        let send = || {
            self.state
                .try_send(UdpSockRef::from(&self.socket), &transmit)
        };
        match send() {
            // A full buffer empties at the link's speed: to wait for that is kinder than to lose a batch.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                options::wait(&self.socket, libc::POLLOUT, WRITABLE_MS)?;
                send()
            }
            result => result,
        }
    }
}
