// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The in-band form in C, over a socket. For other kinds of streams see `session.rs`. The header is generated from this
//! file, too.
#![allow(
    clippy::missing_safety_doc,
    reason = "the comments go into the header, for readers of C: pointers are what their namesakes' are"
)]
use crate::boundary::{boundary, buffer, bytes, free, give, known, pointer, text};
use crate::calls::process;
use crate::message;
use ::alcc_inband::carrier::{Tcp, Unix};
use ::alcc_inband::{Error, Settings, Stats, Stream};
use alcc_cc::{Registry, Spec};
use alcc_units::{Bytes, Rate, Span};
use libc::{c_char, c_int, c_void, size_t, ssize_t};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// Role: this end opened the connection.
pub const ALCC_CONNECTED: c_int = 0;
/// Role: this end accepted the connection.
pub const ALCC_ACCEPTED: c_int = 1;

/// The options of an in-band end. Zero and NULL stand for the default. The structure may grow at
/// its end, so calls take its size.
#[repr(C)]
#[allow(non_camel_case_types, reason = "the name in C")]
#[derive(Clone, Copy)]
pub struct alcc_inband_options {
    /// The algorithm of the data sent by this end; NULL: that of new streams (`alcc_set_cc`, ALCC_CC).
    pub cc: *const c_char,
    /// Size of a segment of the stream below, 256 to 65 535 bytes of frames; default: the socket's, or 1400.
    pub segment: u32,
    /// Bytes that the peer may send before the application reads them; default: 4 MiB.
    pub receive_buffer: u32,
    /// Size of the queue of bytes that wait for the algorithm; default: 64 KiB.
    pub queue: u32,
    /// Maximum time until the peer's first message, in milliseconds; default: 10 000.
    pub handshake_ms: u32,
    /// Maximum time until an answer that is due, in milliseconds; default: 120 000.
    pub silence_ms: u32,
}

/// The state of an in-band end and of its algorithm. The structure may grow at its end, so calls take its size.
#[repr(C)]
#[allow(non_camel_case_types, reason = "the name in C")]
#[derive(Clone, Copy)]
pub struct alcc_inband_info {
    /// Payload sent, bytes.
    pub sent: u64,
    /// Payload received, bytes.
    pub received: u64,
    /// Bytes of frames written to the stream below.
    pub bytes_out: u64,
    /// Bytes of frames received from the stream below.
    pub bytes_in: u64,
    /// Bytes that the peer has not acknowledged.
    pub in_flight: u64,
    /// Number of times that the algorithm held bytes back.
    pub gate_closed: u64,
    /// The algorithm's congestion window, bytes; UINT64_MAX: none.
    pub cwnd: u64,
    /// Pacing rate, bits per second; 0: not paced.
    pub pacing_bps: u64,
    /// Newest RTT sample, microseconds, without the time for which the peer held its answer; 0
    /// before the first.
    pub rtt_us: u64,
    /// Smoothed RTT, microseconds.
    pub smoothed_rtt_us: u64,
    /// Smallest RTT, microseconds.
    pub min_rtt_us: u64,
    /// The error that ended it, as errno; 0: none.
    pub error: i32,
    /// Zero.
    pub reserved: i32,
}

/// An in-band stream over a socket.
#[allow(non_camel_case_types, reason = "the name in C")]
pub struct alcc_inband {
    stream: Stream,
    /// Time limit in milliseconds; negative: none.
    timeout: AtomicI64,
}

pub(crate) fn errno_of(why: &Error) -> c_int {
    message::set(&why.to_string());
    match why {
        Error::Foreign(_) | Error::Version(_) | Error::Protocol(_) | Error::NeverSent { .. } => {
            libc::EPROTO
        }
        Error::Algorithm(_) => libc::EINVAL,
        Error::Silent(_) | Error::Vanished(_) => libc::ETIMEDOUT,
        Error::Closed { .. } | Error::Aborted => libc::ECONNABORTED,
        Error::Truncated => libc::ECONNRESET,
        Error::Io(kind, _) => errno_of_kind(*kind),
        _ => libc::EIO,
    }
}

fn errno_of_kind(kind: io::ErrorKind) -> c_int {
    match kind {
        io::ErrorKind::BrokenPipe => libc::EPIPE,
        io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => libc::ECONNRESET,
        io::ErrorKind::ConnectionAborted => libc::ECONNABORTED,
        io::ErrorKind::TimedOut => libc::ETIMEDOUT,
        io::ErrorKind::InvalidData => libc::EPROTO,
        io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput => libc::EINVAL,
        _ => libc::EIO,
    }
}

fn errno_of_io(why: &io::Error) -> c_int {
    match why
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>())
    {
        Some(why) => errno_of(why),
        None => why.raw_os_error().unwrap_or_else(|| {
            message::set(&why.to_string());
            errno_of_kind(why.kind())
        }),
    }
}

/// The caller's options, with defaults for the rest.
pub(crate) unsafe fn settings(
    options: *const alcc_inband_options,
    size: size_t,
) -> Result<(Settings, Arc<Registry>), c_int> {
    let mut given = alcc_inband_options {
        cc: std::ptr::null(),
        segment: 0,
        receive_buffer: 0,
        queue: 0,
        handshake_ms: 0,
        silence_ms: 0,
    };
    if !options.is_null() {
        let len = size.min(size_of::<alcc_inband_options>());
        // SAFETY: at most as many bytes as either has; bytes beyond are our defaults.
        unsafe {
            std::ptr::copy_nonoverlapping(options.cast::<u8>(), (&raw mut given).cast(), len);
        }
    }
    let process = process()?;
    let cc: Spec = if given.cc.is_null() {
        process.runtime.settings().cc
    } else {
        // SAFETY: by contract.
        unsafe { text(given.cc) }?.parse().map_err(|why| {
            message::set(&format!("{why}"));
            libc::EINVAL
        })?
    };
    let mut settings = Settings::new(cc);
    settings.seed = process.runtime.settings().seed;
    let or = |value: u32, default: usize| match value {
        0 => default,
        value => value as usize,
    };
    settings.segment = or(given.segment, settings.segment);
    settings.receive_buffer = or(given.receive_buffer, settings.receive_buffer);
    settings.queue = or(given.queue, settings.queue);
    let time = |ms: u32, default: Span| match ms {
        0 => default,
        ms => Span::from_millis(ms.into()),
    };
    settings.handshake = time(given.handshake_ms, settings.handshake);
    settings.silence = time(given.silence_ms, settings.silence);
    Ok((settings, Arc::new(process.runtime.registry().clone())))
}

pub(crate) fn role(role: c_int) -> Result<bool, c_int> {
    match role {
        ALCC_CONNECTED => Ok(true),
        ALCC_ACCEPTED => Ok(false),
        _ => {
            message::set("the role is ALCC_CONNECTED or ALCC_ACCEPTED");
            Err(libc::EINVAL)
        }
    }
}

fn option(fd: c_int, name: c_int) -> Result<c_int, c_int> {
    let mut value: c_int = 0;
    alcc_sys::get_option(fd, libc::SOL_SOCKET, name, &mut value)
        .map(|_| value)
        .ok_or_else(alcc_sys::errno)
}

/// Speaks the in-band format (docs/formats.md) over a connected TCP or UNIX stream socket. The algorithm gets
/// acknowledgements from the library at the other end, whatever lies between. It waits for the peer's first message.
/// From then on the descriptor belongs to the stream. It is closed with the stream, and also if this fails. Returns
/// NULL with errno if it fails: EPROTO if the peer has another protocol, ETIMEDOUT if it sends nothing. `alcc_message`
/// then returns the reason. A child of fork must not use it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_inband_wrap(
    fd: c_int,
    the_role: c_int,
    options: *const alcc_inband_options,
    size: size_t,
) -> *mut alcc_inband {
    pointer(|| {
        if option(fd, libc::SO_TYPE)? != libc::SOCK_STREAM {
            message::set("not a stream socket");
            return Err(libc::EINVAL);
        }
        let domain = option(fd, libc::SO_DOMAIN)?;
        let initiator = role(the_role)?;
        // SAFETY: by contract.
        let (settings, registry) = unsafe { settings(options, size) }?;
        // SAFETY: an open socket, whose ownership the caller transfers.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let io = |why: io::Error| errno_of_io(&why);
        let make = |why: &Error| errno_of(why);
        let stream = if domain == libc::AF_UNIX {
            let below = Unix::new(UnixStream::from(fd)).map_err(io)?;
            start_stream(below, &registry, settings, initiator).map_err(|why| make(&why))?
        } else {
            let below = Tcp::new(TcpStream::from(fd)).map_err(io)?;
            start_stream(below, &registry, settings, initiator).map_err(|why| make(&why))?
        };
        Ok(Box::into_raw(Box::new(alcc_inband {
            stream,
            timeout: AtomicI64::new(-1),
        })))
    })
}

fn start_stream(
    below: impl ::alcc_inband::carrier::Carrier + 'static,
    registry: &Arc<Registry>,
    settings: Settings,
    initiator: bool,
) -> Result<Stream, Error> {
    if initiator {
        Stream::connect(below, registry, settings)
    } else {
        Stream::accept(below, registry, settings)
    }
}

impl alcc_inband {
    fn with(&self, flags: c_int) -> Stream {
        let mut stream = self.stream.clone();
        let timeout = if flags & libc::MSG_DONTWAIT != 0 {
            0
        } else {
            self.timeout.load(Ordering::Relaxed)
        };
        stream.set_patience(u64::try_from(timeout).ok().map(Duration::from_millis));
        stream
    }
}

/// The same as send(2). It waits until all bytes are taken, which depends on the algorithm. It takes fewer, or fails
/// with EAGAIN, after the time limit of `alcc_inband_set_timeout` or with MSG_DONTWAIT. One thread may send while
/// another receives. It never raises SIGPIPE, and signal handlers do not end it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_inband_send(
    s: *const alcc_inband,
    buf: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    boundary(|| {
        // SAFETY: by contract.
        let (s, all) = unsafe { (known(s)?, bytes(buf, len)?) };
        let mut stream = s.with(flags);
        let mut taken = 0;
        while taken < all.len() {
            match stream.write(&all[taken..]) {
                Ok(n) => taken += n,
                Err(_) if taken > 0 => break,
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Err(libc::EAGAIN),
                Err(why) => return Err(errno_of_io(&why)),
            }
        }
        Ok(taken as ssize_t)
    })
}

/// The same as recv(2): returns at most `len` bytes, and 0 once the peer has ended its direction. It fails with EAGAIN
/// after the time limit of `alcc_inband_set_timeout` or with MSG_DONTWAIT, and with ECONNRESET if the connection ends
/// without the peer's end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_inband_recv(
    s: *const alcc_inband,
    buf: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    boundary(|| {
        // SAFETY: by contract.
        let (s, into) = unsafe { (known(s)?, buffer(buf, len)?) };
        match s.with(flags).read(into) {
            Ok(n) => Ok(n as ssize_t),
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => Err(libc::EAGAIN),
            Err(why) => Err(errno_of_io(&why)),
        }
    })
}

/// Sets the time limit of `alcc_inband_send` and `alcc_inband_recv`, in milliseconds. Negative, the default, means no
/// limit. Returns 0, or -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_inband_set_timeout(
    s: *const alcc_inband,
    milliseconds: c_int,
) -> c_int {
    boundary(|| {
        // SAFETY: by contract.
        let s = unsafe { known(s) }?;
        s.timeout.store(milliseconds.into(), Ordering::Relaxed);
        Ok(0)
    })
}

/// Ends this direction. It waits until the peer has acknowledged everything, the end included, at most `milliseconds`.
/// Returns 0, or -1 with ETIMEDOUT; then it may be called again. Receiving continues.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_inband_finish(s: *const alcc_inband, milliseconds: c_int) -> c_int {
    boundary(|| {
        // SAFETY: by contract.
        let s = unsafe { known(s) }?;
        let patience = u64::try_from(milliseconds).map_err(|_| libc::EINVAL)?;
        match s.stream.finish(Duration::from_millis(patience)) {
            Ok(true) => Ok(0),
            Ok(false) => Err(libc::ETIMEDOUT),
            Err(why) => Err(errno_of_io(&why)),
        }
    })
}

/// Returns the state of the stream and of its algorithm. `size` is that of your structure. Returns 0, or -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_inband_get_info(
    s: *const alcc_inband,
    info: *mut alcc_inband_info,
    size: size_t,
) -> c_int {
    boundary(|| {
        // SAFETY: by contract.
        let s = unsafe { known(s) }?;
        let found = s.stream.info();
        let error = s.stream.error().map_or(0, |why| errno_of(&why));
        let mut made = alcc_inband_info::of(&found.stats, error);
        made.set(found.window, found.rate, found.in_flight, found.rtt);
        // SAFETY: by contract.
        unsafe { give(|| Ok(made), info, size) }
    })
}

/// Closes the stream and its socket. If `alcc_inband_finish` has not returned 0 before, the peer is informed that the
/// stream was aborted. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_inband_close(s: *mut alcc_inband) {
    // SAFETY: made by `alcc_inband_wrap`, and given back.
    unsafe { free(s) }
}

impl alcc_inband_info {
    pub(crate) fn of(stats: &Stats, error: c_int) -> Self {
        Self {
            sent: stats.sent,
            received: stats.received,
            bytes_out: stats.bytes_out,
            bytes_in: stats.bytes_in,
            in_flight: 0,
            gate_closed: stats.gate_closed,
            cwnd: u64::MAX,
            pacing_bps: 0,
            rtt_us: 0,
            smoothed_rtt_us: 0,
            min_rtt_us: 0,
            error,
            reserved: 0,
        }
    }

    pub(crate) fn set(
        &mut self,
        window: Bytes,
        rate: Option<Rate>,
        in_flight: Bytes,
        rtt: alcc_cc::RttView,
    ) {
        self.cwnd = window.get();
        self.pacing_bps = rate.map_or(0, Rate::as_bps);
        self.in_flight = in_flight.get();
        self.rtt_us = rtt.latest.as_micros();
        self.smoothed_rtt_us = rtt.smoothed.as_micros();
        self.min_rtt_us = rtt.min.as_micros();
    }
}
