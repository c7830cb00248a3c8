// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A UDP socket with the kernel's receive times, bursts in one call, and a clock.
use alcc_sys::{Wall, now, set_option};
use alcc_units::{Span, Time};
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt,
    sockopt,
};
use nix::sys::time::TimeSpec;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};

/// Requested size of both socket buffers; the kernel may grant less.
const BUFFER: usize = 4 << 20;
/// Limits of one call: the length of a datagram, and the kernel's maximum number of segments.
const BURST_BYTES: usize = 65_000;
const BURST_PACKETS: usize = 60;

const fn nanos(t: TimeSpec) -> i64 {
    t.tv_sec() * 1_000_000_000 + t.tv_nsec()
}

pub(crate) struct Socket {
    socket: UdpSocket,
    control: Vec<u8>,
    segments: bool,
    /// Offset of the wall clock, which the kernel's receive times use.
    wall: Wall,
    /// Packets for which the kernel had no room.
    overrun: u32,
}

impl Socket {
    pub(crate) fn bind(at: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(at)?;
        socket.set_nonblocking(true)?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        setsockopt(&socket, sockopt::RxqOvfl, &1)?;
        // With privileges beyond the system's limit; without, up to it.
        if setsockopt(&socket, sockopt::RcvBufForce, &BUFFER).is_err() {
            setsockopt(&socket, sockopt::RcvBuf, &BUFFER)?;
        }
        setsockopt(&socket, sockopt::SndBuf, &BUFFER)?;
        never_fragment(&socket, at.ip())?;
        Ok(Self {
            socket,
            control: nix::cmsg_space!(TimeSpec, u32),
            segments: true,
            wall: Wall::default(),
            overrun: 0,
        })
    }

    pub(crate) fn connect(to: SocketAddr, from: Option<IpAddr>) -> io::Result<Self> {
        let any = match to {
            SocketAddr::V4(_) => IpAddr::from([0u8; 4]),
            SocketAddr::V6(_) => IpAddr::from([0u16; 8]),
        };
        let socket = Self::bind(SocketAddr::new(from.unwrap_or(any), 0))?;
        socket.socket.connect(to)?;
        Ok(socket)
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Packets that had arrived but were lost here, because they were not read in time.
    pub(crate) const fn overrun(&self) -> u32 {
        self.overrun
    }

    /// Called before a round of [`Socket::receive`]. Returns the current time. The wall clock may
    /// have been set since the last round.
    pub(crate) fn begin(&mut self) -> Time {
        self.wall = Wall::read();
        now()
    }

    /// The next available datagram: its length, its source and its arrival time. The source is
    /// `None` for the peer of a connected socket.
    pub(crate) fn receive(
        &mut self,
        into: &mut [u8],
    ) -> io::Result<Option<(usize, Option<SocketAddr>, Time)>> {
        let mut slices = [IoSliceMut::new(into)];
        let read = recvmsg::<SockaddrStorage>(
            self.socket.as_raw_fd(),
            &mut slices,
            Some(&mut self.control),
            MsgFlags::MSG_DONTWAIT,
        );
        let message = match read {
            Ok(message) => message,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let present = now();
        let mut at = present;
        if let Ok(control) = message.cmsgs() {
            for item in control {
                match item {
                    ControlMessageOwned::ScmTimestampns(time) => {
                        at = self.wall.monotonic(nanos(time));
                    }
                    ControlMessageOwned::RxqOvfl(count) => self.overrun = count,
                    _ => {}
                }
            }
        }
        let from = message.address.and_then(|a| {
            let v4 = a.as_sockaddr_in().map(|a| SocketAddr::V4((*a).into()));
            v4.or_else(|| a.as_sockaddr_in6().map(|a| SocketAddr::V6((*a).into())))
        });
        // Not later than now, because the wall clock may have been set in between.
        Ok(Some((message.bytes, from, at.min(present))))
    }

    /// Sends adjacent packets of `size` bytes each. Those for which the system has no room are
    /// lost, as in a queue.
    pub(crate) fn send(
        &mut self,
        to: Option<SocketAddr>,
        bytes: &[u8],
        size: usize,
    ) -> io::Result<()> {
        let to = to.map(SockaddrStorage::from);
        let fd = self.socket.as_raw_fd();
        if self.segments && bytes.len() > size {
            let segment = size as u16;
            let burst = [ControlMessage::UdpGsoSegments(&segment)];
            match sendmsg(
                fd,
                &[IoSlice::new(bytes)],
                &burst,
                MsgFlags::empty(),
                to.as_ref(),
            ) {
                // The kernel or the device does not support it.
                Err(Errno::EIO | Errno::EINVAL | Errno::ENOPROTOOPT | Errno::EOPNOTSUPP) => {
                    self.segments = false;
                }
                other => return sent(other),
            }
        }
        for packet in bytes.chunks(size) {
            sent(sendmsg(
                fd,
                &[IoSlice::new(packet)],
                &[],
                MsgFlags::empty(),
                to.as_ref(),
            ))?;
        }
        Ok(())
    }

    /// Waits until a packet arrives, or until `until`.
    pub(crate) fn wait(&self, until: Time) -> io::Result<()> {
        let span = until.since(now());
        if span == Span::ZERO {
            return Ok(());
        }
        let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        let timeout = TimeSpec::from_duration(std::time::Duration::from_nanos(span.as_nanos()));
        match ppoll(&mut fds, Some(timeout), None) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}

fn sent(result: nix::Result<usize>) -> io::Result<()> {
    match result {
        Ok(_) | Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::EINTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Disables fragmentation, because a fragment does not have the size that is being measured.
fn never_fragment(socket: &UdpSocket, at: IpAddr) -> io::Result<()> {
    let set = |level, name, value: libc::c_int| {
        if set_option(socket.as_raw_fd(), level, name, &value) {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    };
    let v4 = set(
        libc::IPPROTO_IP,
        libc::IP_MTU_DISCOVER,
        libc::IP_PMTUDISC_PROBE,
    );
    if at.is_ipv4() {
        return v4;
    }
    // An IPv6 socket also carries IPv4, if possible.
    set(
        libc::IPPROTO_IPV6,
        libc::IPV6_MTU_DISCOVER,
        libc::IPV6_PMTUDISC_PROBE,
    )
}

/// Packets of one size that are sent in one call.
#[derive(Default)]
pub(crate) struct Burst {
    bytes: Vec<u8>,
    size: usize,
}

impl Burst {
    /// Sends everything that `next` appends, in as few calls as possible.
    pub(crate) fn send_all(
        &mut self,
        socket: &mut Socket,
        to: Option<SocketAddr>,
        mut next: impl FnMut(&mut Vec<u8>) -> bool,
    ) -> io::Result<()> {
        loop {
            let start = self.bytes.len();
            let more = next(&mut self.bytes);
            let size = self.bytes.len() - start;
            let full = self.bytes.len() > BURST_BYTES || start / self.size.max(1) >= BURST_PACKETS;
            if start > 0 && (!more || size != self.size || full) {
                let result = socket.send(to, &self.bytes[..start], self.size);
                self.bytes.drain(..start);
                if result.is_err() {
                    self.bytes.clear();
                    return result;
                }
            }
            if !more {
                return Ok(());
            }
            self.size = size;
        }
    }
}
