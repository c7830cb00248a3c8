// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A window and a rate that the kernel enforces for a socket of this process, and what it reports
//! of each acknowledgement. It is the user's half of the congestion control `alcc_window`.
//!
//! Root has loaded it once (`alcc bpf load`). A socket is steered by whoever holds it: the maps
//! have sockets as keys, and a key is a descriptor. Where the maps cannot be had, as in a
//! container, socket options of alcc's own level do the same. Root must have opened that door
//! (`--door`). After 0.5 s of acknowledgements without an answer, the kernel gives a socket back.
//! It gives it to the control that it had, or to CUBIC.
use crate::socket::{Plain, get_option, set_option};
use alcc_flow::{AckSample, Limit};
use alcc_units::{Span, Time};
use libc::c_int;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The folder of the pinned maps.
pub const PINS: &str = "/run/alcc-bpf";
/// The name of the congestion control, as `TCP_CONGESTION` takes it.
pub const WINDOW_CONTROL: &str = "alcc_window";

const KNOBS: &CStr = c"/run/alcc-bpf/knobs";
const FEED: &CStr = c"/run/alcc-bpf/feed";
const BEFORE: &CStr = c"/run/alcc-bpf/before";

// bpf(2).
const LOOKUP: c_int = 1;
pub(crate) const UPDATE: c_int = 2;
const OBJECT_GET: c_int = 7;
const OBJECT_INFO: c_int = 15;
const READ_ONLY: u32 = 1 << 3;
/// A whole value, under its lock.
pub(crate) const LOCKED: u64 = 4;
/// There is no lock in it.
const PLAIN: u64 = 0;
/// Longest name of a congestion control, with its end.
const NAME_LEN: usize = 16;

/// This library's descriptors begin here, if the process may have so many. Programs close and
/// replace low ones by their numbers.
const FAR: c_int = 900;

/// The socket options of `door.bpf.c`.
mod door;
/// Time namespaces.
mod timens;

/// Acknowledgements that the kernel remembers.
const SAMPLES: usize = 32;

/// `struct knobs` of `window.bpf.c`.
#[repr(C)]
struct Knobs {
    lock: u32,
    beat: u32,
    window: u32,
    until: u32,
    rate: u64,
}

/// `struct sample` of `window.bpf.c`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Sample {
    at: u64,
    rtt: u32,
    delivered: u32,
    lost: u32,
    in_flight: u32,
}

/// `struct feed` of `window.bpf.c`.
#[derive(Default)]
#[repr(C)]
struct Feed {
    lock: u32,
    cwnd: u32,
    acks: u64,
    samples: [Sample; SAMPLES],
}

// SAFETY: integers without gaps, for which any bytes will do.
unsafe impl Plain for Knobs {}
// SAFETY: as above.
unsafe impl Plain for Feed {}

/// What the kernel has seen of a socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AckSamples {
    /// The window in force, packets.
    pub cwnd: u32,
    /// Acknowledgements in total.
    pub acks: u64,
    /// The last of them, at most 32, oldest first. [`Steered::samples_from`] leaves out some.
    pub last: Vec<AckSample>,
}

/// The way to what `alcc_window` has of sockets.
#[derive(Debug)]
pub struct Steered {
    way: Way,
    /// What this process's clock is ahead of the kernel's, ns.
    ahead: i64,
}

#[derive(Debug)]
enum Way {
    Maps { knobs: OwnedFd, feed: OwnedFd },
    Door,
}

impl Steered {
    /// Opens the maps, or finds the door where they cannot be had.
    ///
    /// # Errors
    /// `NotFound`: nobody has loaded the control. `PermissionDenied`: this process may not use
    /// bpf(2), or not these maps. `InvalidData`: another version of this program has loaded it.
    pub fn open() -> io::Result<Self> {
        let maps = || {
            Ok(Way::Maps {
                knobs: map::<Knobs>(KNOBS, 0)?,
                feed: map::<Feed>(FEED, READ_ONLY)?,
            })
        };
        let way = maps().or_else(|why| match door::version()? {
            Some(door::VERSION) => Ok(Way::Door),
            Some(_) => Err(another_version()),
            None => Err(why),
        })?;
        let ahead = timens::ahead();
        Ok(Self { way, ahead })
    }

    /// By socket options, and not by the maps.
    pub fn is_by_door(&self) -> bool {
        matches!(self.way, Way::Door)
    }

    /// Sets the window, the edge of a quota and the pacing rate (`None`: twice the window per round
    /// trip) of a socket. A window of 0 leaves the kernel's as it is. `beat` says that somebody
    /// still steers: another one each time. The kernel looks at them with the next acknowledgement,
    /// or when it is kicked.
    ///
    /// # Errors
    /// `fd` is no socket.
    pub fn steer(&self, fd: RawFd, limit: &Limit, beat: u32) -> io::Result<()> {
        let mut value = Knobs {
            lock: 0,
            beat,
            window: limit.window,
            // Zero is none; one packet less in 2^32 is nothing.
            until: limit.until.map_or(0, |n| n.max(1)),
            rate: limit.rate.map_or(0, |r| r.as_bps() / 8),
        };
        match &self.way {
            Way::Maps { knobs, .. } => element(UPDATE, knobs, fd, &mut value, LOCKED),
            Way::Door => door::steer(fd, &value),
        }
    }

    /// Lets the kernel send what a raised limit allows, without waiting for an acknowledgement.
    /// Opening a cork that is not there changes nothing else. One that is there holds. One that comes
    /// between the two calls would be undone: in a program that hosts us the setting of a cork waits
    /// for the caller's lock (`Conn::set_alone` of `alcc_socket`).
    pub fn kick(fd: RawFd) {
        let mut corked: c_int = 0;
        let known = get_option(fd, libc::IPPROTO_TCP, libc::TCP_CORK, &mut corked).is_some();
        if known && corked == 0 {
            set_option(fd, libc::IPPROTO_TCP, libc::TCP_CORK, &corked);
        }
    }

    /// What has been seen since the socket chose the control.
    ///
    /// # Errors
    /// `NotFound`: this socket has never chosen it. Others: `fd` is no socket.
    pub fn samples(&self, fd: RawFd) -> io::Result<AckSamples> {
        self.samples_from(fd, 0)
    }

    /// As [`Steered::samples`], from the acknowledgement with number `from` on, of all since the
    /// socket chose the control. The first has number 0.
    ///
    /// # Errors
    /// As [`Steered::samples`].
    pub fn samples_from(&self, fd: RawFd, from: u64) -> io::Result<AckSamples> {
        let mut feed = Feed::default();
        match &self.way {
            Way::Maps { feed: map, .. } => element(LOOKUP, map, fd, &mut feed, LOCKED)?,
            Way::Door => door::read(fd, &mut feed)?,
        }
        let first = feed.acks.saturating_sub(SAMPLES as u64).max(from);
        let sample = |n: u64| {
            let s = feed.samples[n as usize % SAMPLES];
            AckSample {
                at: Time::from_nanos(s.at.saturating_add_signed(self.ahead)),
                rtt: (s.rtt > 0).then(|| Span::from_micros(u64::from(s.rtt))),
                delivered: s.delivered,
                lost: s.lost,
                in_flight: s.in_flight,
            }
        };
        Ok(AckSamples {
            cwnd: feed.cwnd,
            acks: feed.acks,
            last: (first..feed.acks).map(sample).collect(),
        })
    }
}

/// The map of what sockets had before another chose a control for them. The kernel gives them
/// back from there. Root only.
#[derive(Debug)]
pub struct Before(OwnedFd);

impl Before {
    /// Opens it.
    ///
    /// # Errors
    /// `NotFound`: nobody has loaded a control. `PermissionDenied`: this process is not root.
    pub fn open() -> io::Result<Self> {
        map::<[u8; NAME_LEN]>(BEFORE, 0).map(Self)
    }

    /// The socket is to have this control again.
    ///
    /// # Errors
    /// `fd` is no socket.
    pub fn note(&self, fd: RawFd, control: &str) -> io::Result<()> {
        let mut name = [0; NAME_LEN];
        // The last byte stays zero: the name's end.
        for (to, byte) in name[..NAME_LEN - 1].iter_mut().zip(control.bytes()) {
            *to = byte;
        }
        element(UPDATE, &self.0, fd, &mut name, PLAIN)
    }

    /// The map itself.
    pub fn as_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

fn another_version() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "it is another version's: alcc bpf unload, then alcc bpf load",
    )
}

/// A pinned map whose values are of type `T`: the kernel copies as many bytes as the map has.
pub(crate) fn map<T: Plain>(path: &CStr, flags: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        fd: u32,
        len: u32,
        info: u64,
    }
    // `struct bpf_map_info` of linux/bpf.h: type, id, size of the key, size of the value.
    let mut info = [0u32; 4];
    let fd = object(path, flags)?;
    let attributes = Attributes {
        fd: fd.as_raw_fd().cast_unsigned(),
        len: size_of_val(&info) as u32,
        info: (&raw mut info) as u64,
    };
    bpf(OBJECT_INFO, &attributes)?;
    if info[3] as usize != size_of::<T>() {
        return Err(another_version());
    }
    // Where descriptors of programs are not.
    // SAFETY: no pointers.
    let far = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, FAR) };
    if far < 0 {
        return Ok(fd);
    }
    // SAFETY: the kernel has made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(far) })
}

/// A pinned object.
fn object(path: &CStr, flags: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        path: u64,
        fd: u32,
        flags: u32,
    }
    let attributes = Attributes {
        path: path.as_ptr() as u64,
        fd: 0,
        flags,
    };
    let fd = bpf(OBJECT_GET, &attributes)?;
    // SAFETY: the kernel has made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Reads or writes what a map has of a socket.
pub(crate) fn element<T: Plain>(
    command: c_int,
    map: &OwnedFd,
    socket: RawFd,
    value: &mut T,
    flags: u64,
) -> io::Result<()> {
    #[repr(C)]
    struct Attributes {
        map: u32,
        unused: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    let attributes = Attributes {
        map: map.as_raw_fd().cast_unsigned(),
        unused: 0,
        key: (&raw const socket) as u64,
        value: std::ptr::from_mut(value) as u64,
        flags,
    };
    bpf(command, &attributes).map(drop)
}

/// The attributes hold pointers to what outlives the call, of the size that the map has.
fn bpf<T>(command: c_int, attributes: &T) -> io::Result<c_int> {
    // SAFETY: pointer and length describe the attributes; what they point to, see above.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attributes),
            size_of::<T>(),
        )
    };
    if rc < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(rc as c_int)
}
