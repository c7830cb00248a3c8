// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A window and a rate that the kernel enforces for a socket of this process, and the kernel's report on each
//! acknowledgement. It is the user-space part of the congestion control `alcc_window`.
//!
//! Root has to load it once (`alcc bpf load`). Any process with a descriptor of a socket can control it, because the
//! maps have sockets as keys, and a key is a descriptor. If the maps are not accessible, as in a container, socket
//! options of alcc's own level do the same; root must have enabled these (`--door`). After 0.5 s of acknowledgements
//! without an update, the kernel returns a socket to its earlier control, or to CUBIC.
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

// Commands of bpf(2).
const LOOKUP: c_int = 1;
pub(crate) const UPDATE: c_int = 2;
const OBJECT_GET: c_int = 7;
const OBJECT_INFO: c_int = 15;
const READ_ONLY: u32 = 1 << 3;
/// Flag: the whole value, under its lock.
pub(crate) const LOCKED: u64 = 4;
/// Flag: the value has no lock.
const PLAIN: u64 = 0;
/// Size of a congestion control's name, with the zero byte.
const NAME_LEN: usize = 16;

/// Lowest number of this library's descriptors, if the process's limit admits it, because programs close and replace low
/// ones by their numbers.
const FAR: c_int = 900;

/// The socket options of `door.bpf.c`.
mod door;
/// Time namespaces.
mod timens;

/// Number of acknowledgements that the kernel remembers.
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

// SAFETY: integers without gaps, which are valid for any bytes.
unsafe impl Plain for Knobs {}
// SAFETY: as above.
unsafe impl Plain for Feed {}

/// The kernel's report on a socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AckSamples {
    /// The window in force, in packets.
    pub cwnd: u32,
    /// Acknowledgements in total.
    pub acks: u64,
    /// The last of them, at most 32, oldest first. [`Steered::samples_from`] omits some.
    pub last: Vec<AckSample>,
}

/// Access to the state that `alcc_window` has of sockets.
#[derive(Debug)]
pub struct Steered {
    way: Way,
    /// Offset of this process's clock to the kernel's, ns.
    ahead: i64,
}

#[derive(Debug)]
enum Way {
    Maps { knobs: OwnedFd, feed: OwnedFd },
    Door,
}

impl Steered {
    /// Opens the maps, or finds the socket options if the maps are not accessible.
    ///
    /// # Errors
    /// `NotFound`: the control is not loaded. `PermissionDenied`: this process may not use bpf(2), or not these maps.
    /// `InvalidData`: another version of this program has loaded it.
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

    /// True if socket options are used, not the maps.
    pub fn is_by_door(&self) -> bool {
        matches!(self.way, Way::Door)
    }

    /// Sets the window, the edge of a quota and the pacing rate (`None`: twice the window per round trip) of a socket.
    /// A window of 0 leaves the kernel's unchanged. `beat` is a heartbeat and must change with each call. The values
    /// take effect with the next acknowledgement, or after [`Steered::kick`].
    ///
    /// # Errors
    /// `fd` is not a socket.
    pub fn steer(&self, fd: RawFd, limit: &Limit, beat: u32) -> io::Result<()> {
        let mut value = Knobs {
            lock: 0,
            beat,
            window: limit.window,
            // Zero means no limit; one packet less in 2^32 does not matter.
            until: limit.until.map_or(0, |n| n.max(1)),
            rate: limit.rate.map_or(0, |r| r.as_bps() / 8),
        };
        match &self.way {
            Way::Maps { knobs, .. } => element(UPDATE, knobs, fd, &mut value, LOCKED),
            Way::Door => door::steer(fd, &value),
        }
    }

    /// Makes the kernel send the data that a raised limit allows, without waiting for an acknowledgement. It clears
    /// `TCP_CORK`, which has no other effect if the option is not set. If it is set, nothing is done. A cork set
    /// between the two calls would be undone, so in a program that hosts us the setting of a cork waits for the
    /// caller's lock (`Conn::set_alone` of `alcc_socket`).
    pub fn kick(fd: RawFd) {
        let mut corked: c_int = 0;
        let known = get_option(fd, libc::IPPROTO_TCP, libc::TCP_CORK, &mut corked).is_some();
        if known && corked == 0 {
            set_option(fd, libc::IPPROTO_TCP, libc::TCP_CORK, &corked);
        }
    }

    /// The samples since the socket selected the control.
    ///
    /// # Errors
    /// `NotFound`: this socket has never selected it. Others: `fd` is not a socket.
    pub fn samples(&self, fd: RawFd) -> io::Result<AckSamples> {
        self.samples_from(fd, 0)
    }

    /// The same as [`Steered::samples`], from acknowledgement number `from` on. The first after the socket selected the
    /// control has number 0.
    ///
    /// # Errors
    /// The errors of [`Steered::samples`].
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

/// The map with the earlier congestion controls of sockets, for which another process selected the control. The kernel
/// restores them from it. Root only.
#[derive(Debug)]
pub struct Before(OwnedFd);

impl Before {
    /// Opens the map.
    ///
    /// # Errors
    /// `NotFound`: no control is loaded. `PermissionDenied`: this process is not root.
    pub fn open() -> io::Result<Self> {
        map::<[u8; NAME_LEN]>(BEFORE, 0).map(Self)
    }

    /// Records that the socket is to get this control back.
    ///
    /// # Errors
    /// `fd` is not a socket.
    pub fn note(&self, fd: RawFd, control: &str) -> io::Result<()> {
        let mut name = [0; NAME_LEN];
        // The last byte stays zero, as the end of the name.
        for (to, byte) in name[..NAME_LEN - 1].iter_mut().zip(control.bytes()) {
            *to = byte;
        }
        element(UPDATE, &self.0, fd, &mut name, PLAIN)
    }

    /// The descriptor of the map.
    pub fn as_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

fn another_version() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "it belongs to another version of alcc: run 'alcc bpf unload', then 'alcc bpf load'",
    )
}

/// Opens a pinned map whose values are of type `T`: the kernel copies as many bytes as the map has.
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
    // Moved above the numbers that programs use. SAFETY: no pointers.
    let far = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, FAR) };
    if far < 0 {
        return Ok(fd);
    }
    // SAFETY: a new descriptor from the kernel.
    Ok(unsafe { OwnedFd::from_raw_fd(far) })
}

/// Opens a pinned object.
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
    // SAFETY: a new descriptor from the kernel.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Reads or writes a socket's value in a map.
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

/// Calls bpf(2). Pointers in the attributes must be valid for the call, with the size of the map's value.
fn bpf<T>(command: c_int, attributes: &T) -> io::Result<c_int> {
    // SAFETY: pointer and length describe the attributes; for the pointers in them see above.
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
