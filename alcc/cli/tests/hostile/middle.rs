// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A man in the middle, on loopback.
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Direction of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    There,
    Back,
}

/// Stands where a sender sends to and passes on what it likes.
pub(crate) struct Middle {
    pub(crate) at: SocketAddr,
    stop: Arc<AtomicBool>,
}

impl Drop for Middle {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

const TURN: Duration = Duration::from_millis(2);

impl Middle {
    /// A relay between one client and `to`. `fate` receives each datagram and returns those to pass on in
    /// its place.
    pub(crate) fn udp(
        to: SocketAddr,
        mut fate: impl FnMut(Way, Vec<u8>) -> Vec<Vec<u8>> + Send + 'static,
    ) -> Self {
        let (near, far) = (udp(), udp());
        far.connect(to).unwrap();
        let at = near.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        std::thread::spawn(move || {
            let mut client = None;
            let mut buffer = vec![0; 65_536];
            while !stopped.load(Ordering::Relaxed) {
                // One direction after the other: each waits shortly, and takes what has gathered.
                while let Ok((n, from)) = near.recv_from(&mut buffer) {
                    client = Some(from);
                    for datagram in fate(Way::There, buffer[..n].to_vec()) {
                        let _ = far.send(&datagram);
                    }
                    if pending(&far) {
                        break;
                    }
                }
                while let Ok(n) = far.recv(&mut buffer) {
                    for datagram in fate(Way::Back, buffer[..n].to_vec()) {
                        let _ = client.map(|client| near.send_to(&datagram, client));
                    }
                    if pending(&near) {
                        break;
                    }
                }
            }
        });
        Self { at, stop }
    }

    /// A relay between one client and `to`. `fate` can change each piece of the stream that it receives;
    /// false: both streams end.
    pub(crate) fn tcp(
        to: SocketAddr,
        fate: impl Fn(Way, &mut [u8], u64) -> bool + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        std::thread::spawn(move || {
            let (near, _) = listener.accept().unwrap();
            let far = TcpStream::connect(to).unwrap();
            let fate = &fate;
            std::thread::scope(|scope| {
                scope.spawn(|| pass(Way::There, &near, &far, fate));
                scope.spawn(|| pass(Way::Back, &far, &near, fate));
            });
        });
        Self { at, stop }
    }
}

fn udp() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(TURN)).unwrap();
    socket
}

/// Something waits there.
fn pending(socket: &UdpSocket) -> bool {
    socket.set_nonblocking(true).unwrap();
    let waits = socket.peek(&mut [0; 1]).is_ok();
    socket.set_nonblocking(false).unwrap();
    waits
}

fn pass(
    way: Way,
    mut from: &TcpStream,
    mut to: &TcpStream,
    fate: &(impl Fn(Way, &mut [u8], u64) -> bool + Sync),
) {
    let mut buffer = vec![0; 16_384];
    let mut before = 0;
    loop {
        let n = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(why) if why.kind() == ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        let goes_on = fate(way, &mut buffer[..n], before);
        before += n as u64;
        if !goes_on {
            let _ = from.shutdown(Shutdown::Both);
            break;
        }
        if to.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
