// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plain TCP connections, non-blocking.
use crate::Error;
use crate::Target;
use crate::spec::Client;
use crate::wait::Deadline;
use alcc_inband::carrier::{self, Carrier};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};

/// Prepares a socket: non-blocking and without Nagle's algorithm, because frames are written when
/// they are due.
pub(crate) fn ready(stream: TcpStream) -> io::Result<Box<dyn Carrier>> {
    stream.set_nodelay(true)?;
    Ok(Box::new(carrier::Tcp::new(stream)?))
}

pub(crate) fn dial(
    target: &Target,
    client: &Client,
    deadline: Deadline,
) -> Result<Box<dyn Carrier>, Error> {
    let what = format!("connect to {target}");
    let addresses: Vec<SocketAddr> = (target.host.as_str(), target.port)
        .to_socket_addrs()
        .map_err(|why| {
            Error::Usage(format!(
                "{what}: {why}: check the name, or give its address"
            ))
        })?
        .collect();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match connected(address, client, deadline) {
            Ok(stream) => return Ok(stream),
            Err(why) => last = why,
        }
    }
    Err(Error::Io { what, source: last })
}

pub(crate) fn bind(at: &str) -> Result<TcpListener, Error> {
    let what = format!("listen at {at}");
    // `:9700` listens at every address, as elsewhere in this program.
    let at = match at.strip_prefix(':') {
        Some(port) => format!("[::]:{port}"),
        None => at.to_owned(),
    };
    let found = at
        .to_socket_addrs()
        .map_err(|why| Error::Usage(format!("{what}: {why}: give ADDRESS:PORT or :PORT")))?;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in found {
        match TcpListener::bind(address) {
            Ok(listener) => return bound(listener, &what),
            // The system has no IPv6 (EAFNOSUPPORT): listen on IPv4.
            Err(why) if at.starts_with("[::]:") && why.raw_os_error() == Some(97) => {
                let any = SocketAddr::from(([0, 0, 0, 0], address.port()));
                match TcpListener::bind(any) {
                    Ok(listener) => return bound(listener, &what),
                    Err(why) => last = why,
                }
            }
            Err(why) => last = why,
        }
    }
    let fix = match last.kind() {
        io::ErrorKind::AddrInUse => ": stop the program that listens there, or choose another port",
        io::ErrorKind::AddrNotAvailable => ": not an address of this machine",
        io::ErrorKind::PermissionDenied => ": ports below 1024 need privileges",
        _ => "",
    };
    Err(Error::Usage(format!("{what}: {last}{fix}")))
}

fn bound(listener: TcpListener, what: &str) -> Result<TcpListener, Error> {
    listener.set_nonblocking(true).map_err(Error::io(what))?;
    Ok(listener)
}

fn connected(
    address: SocketAddr,
    client: &Client,
    deadline: Deadline,
) -> io::Result<Box<dyn Carrier>> {
    let socket = socket2::Socket::new(
        socket2::Domain::for_address(address),
        socket2::Type::STREAM,
        None,
    )?;
    if let Some(under) = &client.under {
        socket.set_tcp_congestion(under.as_bytes())?;
    }
    socket.connect_timeout(&address.into(), deadline.remaining())?;
    ready(socket.into())
}
