// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A batched socket: many datagrams per system call, each with its receive time from the kernel.
use alcc_sys::{Wall, now};
use alcc_units::{Span, Time};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;

/// Limit of a batch, that of an IP packet's length.
const MAX_AT_ONCE: usize = 65_000;
/// Requested socket buffer; the kernel may grant less.
const SOCKET_BUFFER: usize = 4 << 20;
/// Maximum number of batches read per iteration, so that others do not starve.
const ROUNDS: usize = 16;

/// A received datagram.
#[derive(Clone, Copy)]
pub(crate) struct Received<'a> {
    pub(crate) at: Time,
    pub(crate) from: SocketAddr,
    /// True if it has a CE mark (ECN).
    pub(crate) marked: bool,
    pub(crate) bytes: &'a [u8],
}

/// Handler of a datagram, which may answer.
pub(crate) type Take<'a> = dyn FnMut(&mut Sender<'_>, &Received<'_>) + 'a;

pub(crate) struct Port {
    socket: UdpSocket,
    state: UdpSocketState,
    buffers: Vec<Vec<u8>>,
    /// Datagrams of one length for one address, sent in one call; the last may be shorter.
    batch: Vec<u8>,
    to: Option<(SocketAddr, usize, bool)>,
    count: usize,
}

impl Port {
    pub(crate) fn new(socket: UdpSocket) -> io::Result<Self> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // A smaller buffer only causes losses at high rates.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER);
        let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER);
        let len = state.gro_segments().max(1) * 1500;
        Ok(Self {
            buffers: vec![vec![0; len]; BATCH_SIZE],
            batch: Vec::with_capacity(MAX_AT_ONCE),
            to: None,
            count: 0,
            socket,
            state,
        })
    }

    /// Reads available datagrams. Returns their number.
    pub(crate) fn receive(&mut self, take: &mut Take<'_>) -> usize {
        let mut count = 0;
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        for _ in 0..ROUNDS {
            let mut slices = self.buffers.iter_mut().map(|b| IoSliceMut::new(b));
            let mut slices: [_; BATCH_SIZE] =
                std::array::from_fn(|_| slices.next().unwrap_or_else(|| IoSliceMut::new(&mut [])));
            let socket = UdpSockRef::from(&self.socket);
            let n = match self.state.recv(socket, &mut slices, &mut metas) {
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // No datagram is available, or there was a network error for an earlier one: timers
                // will handle it.
                Err(_) => break,
            };
            let (here, wall) = (now(), Wall::read());
            for (meta, buffer) in metas.iter().zip(&self.buffers).take(n) {
                let at = meta
                    .timestamp
                    .map(|at| wall.monotonic(at.as_nanos() as i64).min(here))
                    // Otherwise the wall clock was set in the meantime.
                    .filter(|at| here.since(*at) <= Span::from_secs(1))
                    .unwrap_or(here);
                let all = &buffer[..meta.len.min(buffer.len())];
                for datagram in all.chunks(meta.stride.max(1)) {
                    count += 1;
                    let mut sender = Sender {
                        socket: &self.socket,
                        state: &self.state,
                        batch: &mut self.batch,
                        to: &mut self.to,
                        count: &mut self.count,
                    };
                    let came = Received {
                        at,
                        from: meta.addr,
                        marked: meta.ecn == Some(EcnCodepoint::Ce),
                        bytes: datagram,
                    };
                    take(&mut sender, &came);
                }
            }
            if n < BATCH_SIZE {
                break;
            }
        }
        count
    }

    pub(crate) fn sender(&mut self) -> Sender<'_> {
        Sender {
            socket: &self.socket,
            state: &self.state,
            batch: &mut self.batch,
            to: &mut self.to,
            count: &mut self.count,
        }
    }
}

/// The sending part of a [`Port`].
pub(crate) struct Sender<'a> {
    socket: &'a UdpSocket,
    state: &'a UdpSocketState,
    batch: &'a mut Vec<u8>,
    to: &'a mut Option<(SocketAddr, usize, bool)>,
    count: &'a mut usize,
}

impl Sender<'_> {
    /// Queues a datagram, which is sent by the next [`Sender::flush`] at the latest.
    pub(crate) fn send(&mut self, to: SocketAddr, datagram: &[u8]) {
        self.send_markable(to, datagram, false);
    }

    /// The same as [`Sender::send`]; `ect`: queues may mark it (RFC 3168).
    pub(crate) fn send_markable(&mut self, to: SocketAddr, datagram: &[u8], ect: bool) {
        let fits = *self.count < self.state.max_gso_segments()
            && self.batch.len() + datagram.len() <= MAX_AT_ONCE
            && self.to.is_some_and(|(address, len, as_before)| {
                address == to && as_before == ect && datagram.len() <= len
            });
        if !fits {
            self.flush();
            *self.to = Some((to, datagram.len(), ect));
        }
        self.batch.extend_from_slice(datagram);
        *self.count += 1;
        if self.to.is_some_and(|(_, len, _)| datagram.len() < len) {
            self.flush();
        }
    }

    pub(crate) fn flush(&mut self) {
        let Some((destination, len, ect)) = self.to.take() else {
            return;
        };
        let transmit = Transmit {
            destination,
            ecn: ect.then_some(EcnCodepoint::Ect0),
            contents: self.batch,
            segment_size: (*self.count > 1).then_some(len),
            src_ip: None,
        };
        // Datagrams that the kernel refuses are lost, as in a full queue: timers will handle it.
        let sent = self.try_send(&transmit);
        if sent
            .as_ref()
            .is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
        {
            // The socket buffer is full: tries again a little later, once.
            let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLOUT)];
            let _ = poll(&mut fds, PollTimeout::from(5u8));
            let _ = self.try_send(&transmit);
        } else if sent.is_err() && *self.count > 1 {
            // Perhaps segmentation offload does not work here, which the library remembers.
            for datagram in self.batch.chunks(len) {
                let one = Transmit {
                    contents: datagram,
                    segment_size: None,
                    ..transmit.clone()
                };
                let _ = self.try_send(&one);
            }
        }
        self.batch.clear();
        *self.count = 0;
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.state.try_send(UdpSockRef::from(self.socket), transmit)
    }
}
