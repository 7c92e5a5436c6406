//! A Linux TUN device with virtio-net headers (kernel: Documentation/networking/tuntap.rst, if_tun.h).

use crate::merge::{PacketSink, SLOTS};
use crate::offload::VnetHeader;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::{fmt, mem};

const DEVICE: &str = "/dev/net/tun";
/// IFNAMSIZ without the closing zero.
const NAME_MAX: usize = 15;
/// TUNSETIFF and TUNSETOFFLOAD of linux/if_tun.h; the same number on every architecture that we build for.
const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
const TUNSETOFFLOAD: libc::Ioctl = 0x4004_54d0;
/// IFF_TUN, IFF_NO_PI, IFF_VNET_HDR, and IFF_TUN_EXCL: never join a device that someone else made.
const FLAGS: libc::c_short = (0x0001 | 0x1000 | 0x4000 | 0x8000_u16) as libc::c_short;
/// TUN_F_CSUM, TSO4, TSO6.
const OFFLOAD_TCP: libc::c_ulong = 0x01 | 0x02 | 0x04;
/// TUN_F_USO4, USO6: Linux 6.2 and newer.
const OFFLOAD_UDP: libc::c_ulong = 0x20 | 0x40;

/// Which super packets the kernel hands us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunOffload {
    /// Only packets of MTU size with finished checksums.
    None,
    /// TCP over both families.
    Tcp,
    /// TCP and UDP over both families.
    TcpUdp,
}

/// Why a TUN device can't be had.
#[derive(Debug)]
pub enum TunError {
    /// The machine (or container) has no /dev/net/tun.
    NoDevice,
    /// The process lacks CAP_NET_ADMIN in its network namespace, or may not open /dev/net/tun.
    NoPermission,
    /// An interface with this name exists.
    InUse,
    /// No interface can have this name.
    BadName,
    /// Anything else.
    Io(io::Error),
}

impl fmt::Display for TunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TunError::NoDevice => {
                f.write_str("there is no /dev/net/tun: load the tun module or pass the device in")
            }
            TunError::NoPermission => {
                f.write_str("may not create a TUN device: the process needs CAP_NET_ADMIN")
            }
            TunError::InUse => f.write_str("an interface with this name exists already"),
            TunError::BadName => {
                f.write_str("not an interface name: 1 to 15 of letters, digits, '.', '_' and '-'")
            }
            TunError::Io(e) => write!(f, "TUN device failed: {e}"),
        }
    }
}

impl std::error::Error for TunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TunError::Io(e) => Some(e),
            _ => None,
        }
    }
}

/// A TUN device that lives as long as this value.
#[derive(Debug)]
pub struct Tun {
    file: File,
    name: String,
    offload: TunOffload,
    dropped: AtomicU64,
}

/// `struct ifreq` as TUNSETIFF reads it.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: libc::c_short,
    rest: [u8; 22],
}

// The kernel copies this many bytes in and out.
const _: () = assert!(mem::size_of::<InterfaceRequest>() == mem::size_of::<libc::ifreq>());

impl Tun {
    /// Creates the device `name`, down and without addresses; it vanishes with this value or the process.
    ///
    /// Its file never blocks. `offload` asks for as much as the kernel has; see `Tun::offload` for what came of it.
    pub fn open(name: &str, offload: bool) -> Result<Tun, TunError> {
        if !is_interface_name(name) {
            return Err(TunError::BadName);
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(DEVICE)
            .map_err(open_error)?;
        let mut request = InterfaceRequest {
            name: [0; 16],
            flags: FLAGS,
            rest: [0; 22],
        };
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        // SAFETY: the file is open and the request is a whole ifreq (asserted above) that outlives the call.
        if unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &raw mut request) } < 0 {
            return Err(attach_error(io::Error::last_os_error()));
        }
        let offload = if offload {
            set_offload(&file)
        } else {
            set_no_offload(&file)
        };
        Ok(Tun {
            file,
            name: name.to_owned(),
            offload,
            dropped: AtomicU64::new(0),
        })
    }

    /// Reads one packet: ten bytes of `VnetHeader`, then the packet, at most 64 KiB together with offloads on.
    /// `WouldBlock` when there is none; EBADFD when the device was deleted.
    pub fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match (&self.file).read(buf) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// The file descriptor, for poll; readable when there is a packet.
    pub fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which super packets the kernel hands us.
    pub fn offload(&self) -> TunOffload {
        self.offload
    }

    /// Packets that the kernel did not take: the device is down or gone, or the packet is malformed.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Writes one packet; what the kernel refuses is counted and lost, as on any link.
    fn write_packet(&self, header: &VnetHeader, parts: &[IoSlice]) {
        let bytes = header.bytes();
        let mut all = [IoSlice::new(&[]); SLOTS + 1];
        all[0] = IoSlice::new(&bytes);
        let Some(room) = all.get_mut(1..=parts.len()) else {
            self.dropped.fetch_add(1, Relaxed);
            return;
        };
        room.copy_from_slice(parts);
        loop {
            match (&self.file).write_vectored(&all[..=parts.len()]) {
                Ok(_) => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.dropped.fetch_add(1, Relaxed);
                    return;
                }
            }
        }
    }
}

impl PacketSink for &Tun {
    fn write(&mut self, header: &VnetHeader, parts: &[IoSlice]) {
        self.write_packet(header, parts);
    }
}

/// Asks for TCP and UDP offloads, then TCP only, then none.
fn set_offload(file: &File) -> TunOffload {
    let wishes = [
        (OFFLOAD_TCP | OFFLOAD_UDP, TunOffload::TcpUdp),
        (OFFLOAD_TCP, TunOffload::Tcp),
    ];
    for (bits, offload) in wishes {
        if request_offload(file, bits) {
            return offload;
        }
    }
    set_no_offload(file)
}

fn set_no_offload(file: &File) -> TunOffload {
    request_offload(file, 0);
    TunOffload::None
}

fn request_offload(file: &File, bits: libc::c_ulong) -> bool {
    // SAFETY: the file is open; this request takes its argument by value.
    unsafe { libc::ioctl(file.as_raw_fd(), TUNSETOFFLOAD, bits) >= 0 }
}

fn open_error(e: io::Error) -> TunError {
    match e.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => TunError::NoDevice,
        Some(libc::EACCES | libc::EPERM) => TunError::NoPermission,
        _ => TunError::Io(e),
    }
}

fn attach_error(e: io::Error) -> TunError {
    match e.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => TunError::NoPermission,
        // EINVAL: the name was checked, so an interface of another kind has it.
        Some(libc::EBUSY | libc::EINVAL | libc::EEXIST) => TunError::InUse,
        _ => TunError::Io(e),
    }
}

/// Stricter than the kernel: no '%' (a pattern to it), no spaces, nothing that a shell or nft would quote.
fn is_interface_name(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        && name != "."
        && name != ".."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_interface_can_have_is_refused_before_anything_is_opened() {
        for name in ["", "sixteen-letters-", "a/b", "a b", "xy%d", "..", "täp"] {
            assert!(
                matches!(Tun::open(name, false), Err(TunError::BadName)),
                "{name:?}"
            );
        }
    }

    #[test]
    fn errors_of_the_kernel_become_reasons_that_a_person_can_act_on() {
        let open = |errno| open_error(io::Error::from_raw_os_error(errno));
        let attach = |errno| attach_error(io::Error::from_raw_os_error(errno));
        assert!(matches!(open(libc::ENOENT), TunError::NoDevice));
        assert!(matches!(open(libc::EACCES), TunError::NoPermission));
        assert!(matches!(open(libc::EMFILE), TunError::Io(_)));
        assert!(matches!(attach(libc::EPERM), TunError::NoPermission));
        assert!(matches!(attach(libc::EBUSY), TunError::InUse));
        assert!(matches!(attach(libc::EINVAL), TunError::InUse));
    }
}
