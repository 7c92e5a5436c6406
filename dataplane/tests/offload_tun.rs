//! The real kernel on both sides: TUN devices in fresh network namespaces, TCP and UDP between them.
//!
//! ```text
//!   namespace a                      this test                        namespace b
//!   10.77.0.1, fd77::1   xa0 --> split, clamp, merge --> xb0   10.78.0.2, fd78::2
//!                            <-- merge, clamp, split <--
//! ```
//! Needs root; without it each test says so and passes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr
)]

mod offload_netns;

use offload_netns::{enter, in_namespace, ip, receive};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};
use xylem_dataplane::merge::{Merger, PacketSink};
use xylem_dataplane::mss::clamp;
use xylem_dataplane::offload::{GSO_NONE, GSO_UDP_L4, VNET, VnetHeader, split};
use xylem_dataplane::tun::{Tun, TunError, TunOffload};
use xylem_dataplane::udp::{SendOutcome, Socket};

const MTU: u16 = 1_420;
const BYTES: usize = 4 << 20;

#[test]
fn tcp_and_udp_pass_between_two_kernels_with_offloads() {
    carry(true);
}

#[test]
fn tcp_and_udp_pass_between_two_kernels_without_offloads() {
    carry(false);
}

#[test]
fn a_name_in_use_is_told_apart_and_a_device_vanishes_with_its_value() {
    in_namespace(|| {
        let tun = Tun::open("xylem-t0", true).unwrap();
        assert_eq!(tun.name(), "xylem-t0");
        assert!(matches!(Tun::open("xylem-t0", true), Err(TunError::InUse)));
        assert!(matches!(Tun::open("lo", true), Err(TunError::InUse)));
        drop(tun);
        // A child that another test is just starting may hold the file until it executes its program.
        let start = Instant::now();
        while Tun::open("xylem-t0", false).is_err() {
            assert!(start.elapsed() < Duration::from_secs(5), "the device stays");
            thread::yield_now();
        }
    });
}

#[test]
fn reading_an_idle_device_would_block_and_a_deleted_one_is_an_error() {
    in_namespace(|| {
        let tun = Tun::open("xylem-t1", true).unwrap();
        let mut buf = [0; 2_048];
        assert_eq!(
            tun.read(&mut buf).unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
        ip("link del xylem-t1");
        assert_eq!(
            tun.read(&mut buf).unwrap_err().raw_os_error(),
            Some(libc::EBADFD)
        );
    });
}

#[test]
fn packets_that_the_kernel_refuses_are_counted() {
    in_namespace(|| {
        let tun = Tun::open("xylem-t2", true).unwrap();
        let mut sink = &tun;
        sink.write(
            &VnetHeader::default(),
            &[std::io::IoSlice::new(&[0x45; 40])],
        );
        assert_eq!(tun.dropped(), 1, "the device is down");
        ip("link set xylem-t2 up");
        let header = VnetHeader {
            flags: 1,
            csum_start: 60_000,
            ..VnetHeader::default()
        };
        sink.write(&header, &[std::io::IoSlice::new(&[0x45; 40])]);
        assert_eq!(tun.dropped(), 2, "the header lies");
    });
}

#[test]
fn without_capabilities_the_reason_is_a_missing_permission() {
    in_namespace(|| {
        // SAFETY: the raw call changes this thread only, which ends with the closure.
        let changed = unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) };
        assert_eq!(changed, 0);
        assert!(matches!(
            Tun::open("xylem-t3", true),
            Err(TunError::NoPermission)
        ));
    });
}

#[test]
fn w54_a_batch_longer_than_the_link_goes_one_by_one_and_shorter_ones_stay_batches() {
    in_namespace(|| {
        ip("link set lo mtu 1340");
        ip("link set lo up");
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let (a, b) = (
            Socket::bind(any, true).unwrap(),
            Socket::bind(any, true).unwrap(),
        );
        if !a.offloads().0 {
            return;
        }
        let to = SocketAddr::new(any.ip(), b.local_port());
        let bytes: Vec<u8> = (0..1_452 * 5 + 7).map(|i| (i % 251) as u8).collect();
        assert_eq!(a.send(&bytes, Some(1_452), to, None), SendOutcome::Sent);
        assert_eq!(receive(&b, bytes.len()), bytes);
        assert_eq!(a.send(&bytes, Some(1_452), to, None), SendOutcome::Sent);
        assert_eq!(receive(&b, bytes.len()), bytes);
        assert_eq!(a.send(&bytes, Some(1_300), to, None), SendOutcome::Sent);
        assert_eq!(receive(&b, bytes.len()), bytes);
        assert_eq!(a.counters().gso_refused, 1);
        assert!(a.offloads().0);
    });
}

#[test]
fn a_sender_faster_than_its_link_waits_instead_of_losing() {
    in_namespace(|| {
        ip("link set lo mtu 16000");
        ip("link set lo up");
        let shaped = Command::new("tc")
            .args("qdisc add dev lo root tbf rate 200mbit burst 32kb limit 2mb".split(' '))
            .output();
        if !shaped.is_ok_and(|done| done.status.success()) {
            eprintln!("skipped: needs tc and the tbf queue");
            return;
        }
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let a = Socket::bind_sized(any, true, 32 << 10).unwrap();
        let b = Socket::bind(any, true).unwrap();
        let to = SocketAddr::new(any.ip(), b.local_port());
        let bytes = vec![5u8; 10_000];
        for _ in 0..60 {
            assert_eq!(a.send(&bytes, None, to, None), SendOutcome::Sent);
        }
        assert_eq!(receive(&b, 60 * bytes.len()).len(), 60 * bytes.len());
    });
}

/// One end: a device, a TCP server on both families, a UDP socket; and what runs in its namespace.
struct End {
    tun: Tun,
    udp: Socket,
}

fn carry(offload: bool) {
    let (send_listener, listener) = channel();
    let (send_go, go) = channel::<Vec<SocketAddr>>();
    let (send_ends, ends) = channel();
    let a_end = send_ends.clone();
    let a = thread::spawn(move || {
        if !enter() {
            return;
        }
        a_end
            .send((
                'a',
                open_end(
                    "xa0",
                    "10.77.0.1",
                    "10.78.0.2",
                    "fd77::1",
                    "fd78::2",
                    offload,
                ),
            ))
            .unwrap();
        for server in go.recv().unwrap() {
            exchange(&mut TcpStream::connect_timeout(&server, Duration::from_secs(5)).unwrap());
        }
    });
    let b = thread::spawn(move || {
        if !enter() {
            return;
        }
        send_ends
            .send((
                'b',
                open_end(
                    "xb0",
                    "10.78.0.2",
                    "10.77.0.1",
                    "fd78::2",
                    "fd77::1",
                    offload,
                ),
            ))
            .unwrap();
        let four = TcpListener::bind("10.78.0.2:0").unwrap();
        let six = TcpListener::bind("[fd78::2]:0").unwrap();
        send_listener
            .send(vec![four.local_addr().unwrap(), six.local_addr().unwrap()])
            .unwrap();
        for server in [four, six] {
            exchange(&mut server.accept().unwrap().0);
        }
    });
    let (Ok(first), Ok(second)) = (ends.recv(), ends.recv()) else {
        eprintln!("skipped: needs root for network namespaces");
        return;
    };
    let (end_a, end_b) = if first.0 == 'a' {
        (first.1, second.1)
    } else {
        (second.1, first.1)
    };
    assert_eq!(end_a.tun.offload() == TunOffload::None, !offload);
    let stop = AtomicBool::new(false);
    let seen = [Seen::default(), Seen::default()];
    thread::scope(|scope| {
        scope.spawn(|| pump(&end_a.tun, &end_b.tun, offload, &stop, &seen[0]));
        scope.spawn(|| pump(&end_b.tun, &end_a.tun, offload, &stop, &seen[1]));
        let done = Stop(&stop);
        send_go.send(listener.recv().unwrap()).unwrap();
        a.join().unwrap();
        b.join().unwrap();
        let to = SocketAddr::new("10.78.0.2".parse().unwrap(), end_b.udp.local_port());
        let bytes: Vec<u8> = (0..30_000).map(|i| (i % 251) as u8).collect();
        assert_eq!(
            end_a.udp.send(&bytes, Some(1_300), to, None),
            SendOutcome::Sent
        );
        assert_eq!(receive(&end_b.udp, bytes.len()), bytes);
        drop(done);
    });
    assert_eq!((end_a.tun.dropped(), end_b.tun.dropped()), (0, 0));
    for one in &seen {
        assert_eq!(one.supers.load(Relaxed) > 0, offload, "super packets read");
        assert_eq!(
            one.merged.load(Relaxed) > 0,
            offload,
            "merged packets written"
        );
        assert_eq!(one.bad.load(Relaxed), 0);
    }
    if end_a.tun.offload() == TunOffload::TcpUdp {
        assert!(
            seen[0].datagrams.load(Relaxed) > 0,
            "UDP super packets read"
        );
    }
}

/// Ends the pumps even when an assertion fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// What a pump met.
#[derive(Default)]
struct Seen {
    supers: AtomicUsize,
    datagrams: AtomicUsize,
    merged: AtomicUsize,
    bad: AtomicUsize,
}

struct CountingSink<'a> {
    tun: &'a Tun,
    seen: &'a Seen,
}

impl PacketSink for CountingSink<'_> {
    fn write(&mut self, header: &VnetHeader, parts: &[std::io::IoSlice]) {
        if parts.len() > 1 {
            self.seen.merged.fetch_add(1, Relaxed);
        }
        self.tun.write(header, parts);
    }
}

/// The engine without its encryption.
fn pump(from: &Tun, to: &Tun, merging: bool, stop: &AtomicBool, seen: &Seen) {
    let mut merger = if merging {
        Merger::new(MTU)
    } else {
        Merger::without_merging(MTU)
    };
    let mut sink = CountingSink { tun: to, seen };
    let mut buf = vec![0; 65_536 + VNET];
    let mut scratch = vec![0; 65_536];
    while !stop.load(Relaxed) {
        let mut poll = libc::pollfd {
            fd: from.fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one pollfd that outlives the call.
        unsafe { libc::poll(&raw mut poll, 1, 20) };
        while let Ok(n) = from.read(&mut buf) {
            let header = VnetHeader::parse(&buf[..n]).unwrap();
            let counter = match header.gso_type {
                GSO_NONE => None,
                GSO_UDP_L4 => Some(&seen.datagrams),
                _ => Some(&seen.supers),
            };
            counter.inspect(|c| {
                c.fetch_add(1, Relaxed);
            });
            let result = split(&mut buf[VNET..n], &header, &mut scratch, &mut |packet| {
                clamp(packet, MTU);
                if merger.slot().is_none() {
                    merger.flush(&mut sink);
                }
                merger.slot().unwrap()[..packet.len()].copy_from_slice(packet);
                merger.push(packet.len(), &mut sink);
            });
            if result.is_err() {
                seen.bad.fetch_add(1, Relaxed);
            }
        }
        merger.flush(&mut sink);
    }
}

/// Both sides send `BYTES` of a pattern and check what they get.
fn exchange(stream: &mut TcpStream) {
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut writer = stream.try_clone().unwrap();
    let sending = thread::spawn(move || {
        let bytes: Vec<u8> = (0..BYTES).map(|i| (i % 251) as u8).collect();
        writer.write_all(&bytes).unwrap();
        writer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut got = Vec::with_capacity(BYTES);
    stream.read_to_end(&mut got).unwrap();
    assert_eq!(got.len(), BYTES);
    assert!(got.iter().enumerate().all(|(i, b)| *b == (i % 251) as u8));
    sending.join().unwrap();
}

fn open_end(name: &str, ip4: &str, peer4: &str, ip6: &str, peer6: &str, offload: bool) -> End {
    let tun = Tun::open(name, offload).unwrap();
    ip(&format!("link set {name} mtu {MTU} up"));
    ip("link set lo up");
    ip(&format!("addr add {ip4} peer {peer4}/32 dev {name}"));
    ip(&format!("addr add {ip6} peer {peer6}/128 dev {name} nodad"));
    let udp = Socket::bind(SocketAddr::new(ip4.parse().unwrap(), 0), offload).unwrap();
    End { tun, udp }
}
