//! The UDP sockets of one path: one for each address family that the machine has.

use crate::udp::Socket;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// Kernel buffer of a relay's or candidate's socket, bytes.
const SMALL_BUFFER: usize = 2 << 20;

/// A path's sockets; at least one is there.
#[derive(Clone, Default)]
pub struct Pair {
    pub v4: Option<Arc<Socket>>,
    pub v6: Option<Arc<Socket>>,
}

impl Pair {
    /// Binds both families to one port (0: any). A family that the machine lacks is left out.
    pub fn open(port: u16, offload: bool) -> io::Result<Pair> {
        let v4 = present(bind(port, false, offload))?;
        let wanted = v4.as_ref().map_or(port, |s| s.local_port());
        let v6 = match present(bind(wanted, true, offload)) {
            Err(e) if port == 0 && e.kind() == io::ErrorKind::AddrInUse => {
                present(bind(0, true, offload))?
            }
            other => other?,
        };
        if v4.is_none() && v6.is_none() {
            return Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT));
        }
        Ok(Pair { v4, v6 })
    }

    /// The socket that can send to `to`.
    pub fn of(&self, to: SocketAddr) -> Option<&Arc<Socket>> {
        if to.is_ipv4() {
            self.v4.as_ref()
        } else {
            self.v6.as_ref()
        }
    }

    /// All sockets.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Socket>> {
        self.v4.iter().chain(self.v6.iter())
    }

    /// The port by which people know this path.
    pub fn port(&self) -> u16 {
        self.all().next().map_or(0, |s| s.local_port())
    }
}

/// Binds one socket to the unspecified address of a family.
pub fn bind(port: u16, is_v6: bool, offload: bool) -> io::Result<Arc<Socket>> {
    let address: SocketAddr = if is_v6 {
        (Ipv6Addr::UNSPECIFIED, port).into()
    } else {
        (Ipv4Addr::UNSPECIFIED, port).into()
    };
    Socket::bind(address, offload).map(Arc::new)
}

/// Binds a socket for few packets at a time: a relay flow or a candidate path.
pub fn bind_small(is_v6: bool, offload: bool) -> io::Result<Arc<Socket>> {
    let address: SocketAddr = if is_v6 {
        (Ipv6Addr::UNSPECIFIED, 0).into()
    } else {
        (Ipv4Addr::UNSPECIFIED, 0).into()
    };
    Socket::bind_sized(address, offload, SMALL_BUFFER).map(Arc::new)
}

fn present(bound: io::Result<Arc<Socket>>) -> io::Result<Option<Arc<Socket>>> {
    match bound {
        Ok(socket) => Ok(Some(socket)),
        Err(e) => match e.raw_os_error() {
            Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL) => Ok(None),
            _ => Err(e),
        },
    }
}
