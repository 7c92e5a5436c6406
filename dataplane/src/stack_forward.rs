//! Local listeners: where they may be, how they are bound, and what a failure means.

use crate::event::{Code, Failure};
use crate::stack_local::Local;
use crate::stack_stream::Patience;
use socket2::{Domain, SockAddr, Socket, Type};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 1_024;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A loopback address; port 0 for any.
    Tcp(SocketAddr),
    /// An absolute path. A socket file that nobody listens on is replaced.
    Unix(PathBuf),
}

/// A local listener and where its connections go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardOptions {
    pub listen: Listen,
    pub target: SocketAddr,
    pub patience: Patience,
}

impl Listen {
    /// Reads `127.0.0.1:8080`, `[::1]:0` or `/path/to.sock`.
    pub fn parse(text: &str) -> Result<Listen, Failure> {
        if text.starts_with('/') {
            return Ok(Listen::Unix(PathBuf::from(text)));
        }
        match text.parse::<SocketAddr>() {
            Ok(at) if at.ip().is_loopback() => Ok(Listen::Tcp(at)),
            // Whoever reaches the listener reaches the shoot.
            Ok(_) => Err(bad(format!(
                "listen address {text} is not a loopback address: use 127.0.0.1 or [::1]"
            ))),
            Err(_) => Err(bad(format!(
                "listen address {text:?} is neither ADDRESS:PORT nor an absolute path"
            ))),
        }
    }
}

/// A bound listener that never blocks; a Unix one removes its file at the end.
pub struct Listener {
    socket: Socket,
    port: Option<u16>,
    path: Option<PathBuf>,
}

impl Listener {
    /// Binds and listens.
    pub fn bind(listen: &Listen) -> Result<Listener, Failure> {
        let bound = match listen {
            Listen::Tcp(at) => bind_tcp(*at),
            Listen::Unix(path) => bind_unix(path),
        };
        bound.map_err(|e| listen_failure(listen, &e))
    }

    /// The TCP port.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The descriptor, for poll.
    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// The next connection; `WouldBlock` when there is none.
    pub fn accept(&self) -> io::Result<Local> {
        let (socket, _) = self.socket.accept()?;
        Local::new(socket)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

fn bind_tcp(at: SocketAddr) -> io::Result<Listener> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&SockAddr::from(at))?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    let port = socket.local_addr()?.as_socket().map(|a| a.port());
    Ok(Listener {
        socket,
        port,
        path: None,
    })
}

fn bind_unix(path: &Path) -> io::Result<Listener> {
    let at = SockAddr::unix(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    match socket.bind(&at) {
        Err(e) if e.kind() == io::ErrorKind::AddrInUse && is_abandoned(path, &at) => {
            fs::remove_file(path)?;
            socket.bind(&at)?;
        }
        result => result?,
    }
    // From here on the file is ours to remove.
    let listener = Listener {
        socket,
        port: None,
        path: Some(path.to_owned()),
    };
    listener.socket.listen(BACKLOG)?;
    listener.socket.set_nonblocking(true)?;
    Ok(listener)
}

/// Whether the file is a socket that a dead process left behind.
fn is_abandoned(path: &Path, at: &SockAddr) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    let connected = Socket::new(Domain::UNIX, Type::STREAM, None).and_then(|s| s.connect(at));
    is_socket && connected.is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused)
}

fn bad(message: String) -> Failure {
    Failure::new(Code::BadConfig, message)
}

fn listen_failure(listen: &Listen, e: &io::Error) -> Failure {
    let at = match listen {
        Listen::Tcp(at) => at.to_string(),
        Listen::Unix(path) => path.display().to_string(),
    };
    match e.kind() {
        io::ErrorKind::AddrInUse => Failure::new(
            Code::PortInUse,
            format!("{at} is in use: stop what listens there or choose another"),
        ),
        io::ErrorKind::PermissionDenied => Failure::new(
            Code::NoPermission,
            format!("may not listen on {at}: choose another or give this user access"),
        ),
        io::ErrorKind::InvalidInput | io::ErrorKind::NotFound => {
            bad(format!("can't listen on {at}: {e}"))
        }
        _ => Failure::new(Code::Io, format!("listening on {at} failed: {e}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("xylem-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn only_loopback_addresses_and_absolute_paths_are_listened_on() {
        assert_eq!(
            Listen::parse("[::1]:0").unwrap(),
            Listen::Tcp("[::1]:0".parse().unwrap())
        );
        assert_eq!(
            Listen::parse("/run/x.sock").unwrap(),
            Listen::Unix(PathBuf::from("/run/x.sock"))
        );
        for text in ["0.0.0.0:80", "[::]:80", "192.0.2.1:80", "x.sock", "80", ""] {
            assert_eq!(
                Listen::parse(text).unwrap_err().code,
                Code::BadConfig,
                "{text}"
            );
        }
    }

    #[test]
    fn a_socket_file_that_a_dead_process_left_is_replaced_and_removed_at_the_end() {
        let folder = folder("left");
        let path = folder.join("s");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let listener = Listener::bind(&Listen::Unix(path.clone())).unwrap();
        UnixStream::connect(&path).unwrap();
        assert!(listener.accept().is_ok());
        drop(listener);
        assert!(!path.exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_somebody_uses_is_left_alone() {
        let folder = folder("used");
        let path = folder.join("s");
        let other = UnixListener::bind(&path).unwrap();
        let e = Listener::bind(&Listen::Unix(path.clone())).err().unwrap();
        assert_eq!(e.code, Code::PortInUse);
        drop(other);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "a file").unwrap();
        let e = Listener::bind(&Listen::Unix(path.clone())).err().unwrap();
        assert_eq!(e.code, Code::PortInUse);
        assert_eq!(fs::read(&path).unwrap(), b"a file");
        fs::remove_dir_all(folder).unwrap();
    }
}
