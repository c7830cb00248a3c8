// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The few things we ask of the kernel.
use crate::Peer;
use alcc_flow::{Repair, TcpProgress};
use alcc_units::{Bytes, Rate, Span, Time};
use libc::{c_int, c_void, socklen_t};
use std::cmp::Ordering;
use std::ffi::CString;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// The monotonic clock.
pub fn now() -> Time {
    let mut ts = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `ts` is a valid out pointer; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut ts) };
    Time::from_nanos(ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64)
}

/// CPU time of the calling thread.
pub(crate) fn thread_cpu() -> Span {
    let mut ts = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: as above.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut ts) };
    Span::from_nanos(ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64)
}

/// The calling thread's errno.
pub fn errno() -> c_int {
    // SAFETY: the location is valid for the calling thread.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's errno.
pub fn set_errno(value: c_int) {
    // SAFETY: the location is valid for the calling thread.
    unsafe { *libc::__errno_location() = value }
}

/// `struct tcp_info` as far as we read it (linux/tcp.h; grows at the end).
#[repr(C)]
struct TcpInfo {
    state: u8,
    ca_state: u8,
    retransmits: u8,
    probes: u8,
    backoff: u8,
    options: u8,
    wscale: u8,
    flags: u8,
    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    last_data_sent: u32,
    last_ack_sent: u32,
    last_data_recv: u32,
    last_ack_recv: u32,
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
    busy_time: u64,
    rwnd_limited: u64,
    sndbuf_limited: u64,
    delivered: u32,
    delivered_ce: u32,
    bytes_sent: u64,
    bytes_retrans: u64,
}

/// A reading of a connection's counters.
pub(crate) struct Reading {
    pub(crate) progress: TcpProgress,
    /// What is written may still reach the peer; else only the kernel's own answer to a write can tell the program why not.
    pub(crate) alive: bool,
    /// Acknowledged and sent, as the kernel has them: on the side that connected the SYN counts as acknowledged.
    acked: u64,
    sent: u64,
    /// The kernel's own congestion window and slow-start threshold, segments; the latter `None` before it is set.
    pub(crate) cwnd: u64,
    pub(crate) ssthresh: Option<u64>,
    /// The pacing rate that is set on the socket, bytes per second; `u64::MAX`: none.
    pub(crate) pacing: u64,
    /// The kernel's estimate of the delivery rate.
    pub(crate) delivery: Rate,
}

/// `TCP_INFINITE_SSTHRESH` of net/tcp.h.
const NO_SSTHRESH: u32 = 0x7FFF_FFFF;
/// States of loss recovery (include/uapi/linux/tcp.h).
const TCP_CA_RECOVERY: u8 = 3;
const TCP_CA_LOSS: u8 = 4;
const TCP_ESTABLISHED: u8 = 1;
const TCP_CLOSE_WAIT: u8 = 8;

/// One consistent reading of a connection's counters; `None` if the descriptor is no TCP socket, or the kernel is older than
/// 4.19 and does not count bytes sent.
pub(crate) fn read(fd: RawFd) -> Option<Reading> {
    // SAFETY: all fields are integers, zero is valid.
    let mut info: TcpInfo = unsafe { zeroed() };
    if option(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)? < size_of::<TcpInfo>() {
        return None;
    }
    let min_rtt = if info.min_rtt == u32::MAX {
        0
    } else {
        info.min_rtt
    };
    let sent = info.bytes_sent.saturating_sub(info.bytes_retrans);
    let delivery = Rate::bps(info.delivery_rate.saturating_mul(8));
    // tcp_packets_in_flight of include/net/tcp.h.
    let in_flight = info
        .unacked
        .saturating_add(info.retrans)
        .saturating_sub(info.sacked.saturating_add(info.lost));
    let progress = TcpProgress {
        acked: info.bytes_acked,
        written: sent
            .max(info.bytes_acked)
            .saturating_add(u64::from(info.notsent_bytes)),
        unsent: Bytes::new(u64::from(info.notsent_bytes)),
        retransmits: u64::from(info.total_retrans),
        // What is lost and was sent again is in both.
        lost: u64::from(info.total_retrans)
            .saturating_add(info.lost.saturating_sub(info.retrans).into()),
        sacked: info.sacked.into(),
        repair: match info.ca_state {
            TCP_CA_RECOVERY => Repair::Losses,
            TCP_CA_LOSS => Repair::Timeout,
            _ => Repair::None,
        },
        backoff: info.retransmits.into(),
        undone: 0,
        threshold: info.snd_ssthresh.into(),
        delivery_rate: (info.delivery_rate > 0).then_some(delivery),
        window_full: in_flight >= info.snd_cwnd,
        min_rtt: Span::from_micros(u64::from(min_rtt)),
        smoothed_rtt: Span::from_micros(info.rtt.into()),
        acks: info.segs_in.into(),
        mss: Bytes::new(u64::from(info.snd_mss)),
    };
    Some(Reading {
        progress,
        alive: matches!(info.state, TCP_ESTABLISHED | TCP_CLOSE_WAIT),
        acked: info.bytes_acked,
        sent,
        cwnd: info.snd_cwnd.into(),
        ssthresh: (info.snd_ssthresh < NO_SSTHRESH).then_some(info.snd_ssthresh.into()),
        delivery,
        pacing: info.max_pacing_rate,
    })
}

/// What the kernel counts of a connection, for reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpCounters {
    /// Smoothed round trip; zero before the first sample.
    pub rtt: Span,
    /// Bytes acknowledged.
    pub acked: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Retransmission timeouts; `None` if the kernel (before 6.7) does not count them.
    pub timeouts: Option<u64>,
}

/// These counters of a TCP socket; `None` if it is none, or the kernel is older than 4.19.
pub fn tcp_counters(fd: RawFd) -> Option<TcpCounters> {
    /// What newer kernels append.
    #[repr(C)]
    struct Longer {
        info: TcpInfo,
        dsack_dups: u32,
        reord_seen: u32,
        rcv_ooopack: u32,
        snd_wnd: u32,
        rcv_wnd: u32,
        rehash: u32,
        total_rto: u16,
        total_rto_recoveries: u16,
        total_rto_time: u32,
    }
    // SAFETY: all fields are integers, zero is valid.
    let mut longer: Longer = unsafe { zeroed() };
    let length = option(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut longer)?;
    (length >= size_of::<TcpInfo>()).then(|| TcpCounters {
        rtt: Span::from_micros(longer.info.rtt.into()),
        acked: longer.info.bytes_acked,
        retransmits: longer.info.total_retrans.into(),
        timeouts: (length >= size_of::<Longer>()).then(|| longer.total_rto.into()),
    })
}

/// The kernel's number of this socket, the same for all its descriptors and never given again.
pub(crate) fn cookie(fd: RawFd) -> Option<u64> {
    let mut cookie = 0u64;
    option(fd, libc::SOL_SOCKET, libc::SO_COOKIE, &mut cookie)?;
    Some(cookie)
}

/// Does the descriptor still stand for the socket with this number? A question that the kernel refuses to answer is no reason to
/// let go of a connection: only a descriptor that is closed, or no socket, is.
pub(crate) fn is_behind(fd: RawFd, number: u64) -> bool {
    cookie(fd).map_or_else(
        || !matches!(errno(), libc::EBADF | libc::ENOTSOCK),
        |found| found == number,
    )
}

/// How long a blocking write may wait; `None`: for ever.
pub fn send_timeout(fd: RawFd) -> Option<Span> {
    let mut time = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    option(fd, libc::SOL_SOCKET, libc::SO_SNDTIMEO, &mut time)?;
    let span =
        Span::from_micros(time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_usec.unsigned_abs());
    (!span.is_zero()).then_some(span)
}

/// A thread of the program that waits as a blocking write does: a signal handler ends it with EINTR, unless the wait may be
/// restarted and the handler was installed with SA_RESTART. Between two sleeps signals have to wait, as one that came then would
/// end nothing.
pub(crate) struct Waiting {
    mask: libc::sigset_t,
    open: libc::sigset_t,
}

impl Waiting {
    pub(crate) fn new() -> Self {
        // SAFETY: plain signal-set calls on local, initialised sets. `sigfillset` leaves out what the C library needs for
        // itself, such as cancellation.
        unsafe {
            let (mut all, mut mask, mut open) = (zeroed(), zeroed(), zeroed());
            libc::sigfillset(&raw mut all);
            libc::sigemptyset(&raw mut open);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut mask);
            for signal in 1..=libc::SIGRTMAX() {
                if libc::sigismember(&raw const all, signal) == 1
                    && libc::sigismember(&raw const mask, signal) == 0
                {
                    libc::sigaddset(&raw mut open, signal);
                }
            }
            Self { mask, open }
        }
    }

    /// Sleeps until `until`, or until a handler has run.
    ///
    /// # Errors
    /// `EINTR`.
    pub(crate) fn sleep(&self, until: Time, restarts: bool) -> Result<(), c_int> {
        let left = until.since(now()).as_nanos();
        let time = libc::timespec {
            tv_sec: (left / 1_000_000_000) as _,
            tv_nsec: (left % 1_000_000_000) as _,
        };
        // SAFETY: initialised sets and out parameters; a signal that was taken is put back as it was, for this thread, which
        // lets it through.
        unsafe {
            let mut info: libc::siginfo_t = zeroed();
            let before = errno();
            let signal = libc::sigtimedwait(&raw const self.open, &raw mut info, &raw const time);
            // A write that succeeds in the end leaves errno as it was.
            set_errno(before);
            if signal <= 0 {
                return Ok(());
            }
            let mut pending: libc::sigset_t = zeroed();
            libc::sigpending(&raw mut pending);
            let ends = (1..=libc::SIGRTMAX())
                .filter(|s| {
                    *s == signal
                        || libc::sigismember(&raw const pending, *s) == 1
                            && libc::sigismember(&raw const self.open, *s) == 1
                })
                .any(|s| ends_a_wait(s, restarts));
            let (us, thread) = (libc::getpid(), libc::gettid());
            libc::syscall(
                libc::SYS_rt_tgsigqueueinfo,
                us,
                thread,
                signal,
                &raw mut info,
            );
            // Here the handlers run.
            let mut all: libc::sigset_t = zeroed();
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.mask, &raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
            if ends { Err(libc::EINTR) } else { Ok(()) }
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let before = errno();
        // SAFETY: the mask that was.
        unsafe {
            libc::pthread_sigmask(
                libc::SIG_SETMASK,
                &raw const self.mask,
                std::ptr::null_mut(),
            );
        }
        set_errno(before);
    }
}

/// Does the program handle the signal, so that a wait ends?
fn ends_a_wait(signal: c_int, restarts: bool) -> bool {
    // SAFETY: zero is a valid sigaction, and only read into.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)
            && !(restarts && action.sa_flags & libc::SA_RESTART != 0)
    }
}

/// True in a signal handler on a stack of its own, which may be small and without a guard.
pub fn on_alternate_stack() -> bool {
    // SAFETY: asks only; `now` is a valid out pointer.
    unsafe {
        let mut now: libc::stack_t = zeroed();
        libc::sigaltstack(std::ptr::null(), &raw mut now) == 0
            && now.ss_flags & libc::SS_ONSTACK != 0
    }
}

/// Does the next call meet an error, or the end of the connection? Looks without fetching it.
pub(crate) fn has_failed(fd: RawFd) -> bool {
    let mut asked = libc::pollfd {
        fd,
        events: 0,
        revents: 0,
    };
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: one descriptor and a time that outlive the call; by system call, because ppoll may be interposed by ourselves. The
    // kernel may change the time.
    unsafe {
        let none = std::ptr::null::<libc::sigset_t>();
        libc::syscall(libc::SYS_ppoll, &raw mut asked, 1, &raw mut now, none, 0);
    }
    let said = |event| asked.revents & event != 0;
    // A queue of notifications (zero copy, time stamps) is reported as an error. A connection that lives on with a real one is one
    // whose program wants to hear of ICMP errors.
    said(libc::POLLHUP)
        || said(libc::POLLERR)
            && [
                (libc::IPPROTO_IP, libc::IP_RECVERR),
                (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
            ]
            .into_iter()
            .any(|(level, name)| {
                let mut on: c_int = 0;
                option(fd, level, name, &mut on).is_some() && on != 0
            })
}

/// Errors that a socket has by itself (tcp(7), and what ICMP brings by icmp(7)): the kernel tells each once. All others are the
/// call's.
pub(crate) fn is_of_the_socket(errno: c_int) -> bool {
    matches!(
        errno,
        libc::ECONNRESET
            | libc::EPIPE
            | libc::ETIMEDOUT
            | libc::ECONNABORTED
            | libc::ECONNREFUSED
            | libc::EHOSTUNREACH
            | libc::ENETUNREACH
            | libc::EHOSTDOWN
            | libc::ENETDOWN
            | libc::ENONET
            | libc::ENOPROTOOPT
            | libc::EPROTO
            | libc::EOPNOTSUPP
            | libc::EMSGSIZE
            | libc::EACCES
            | libc::EBADMSG
    )
}

/// Does the socket signal its readiness (O_ASYNC), or does a call wait in it?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flags {
    /// Calls do not wait.
    pub nonblocking: bool,
    /// The program waits for SIGIO.
    pub signals: bool,
}

/// The flags of an open descriptor.
pub fn flags(fd: RawFd) -> Flags {
    // SAFETY: F_GETFL takes no argument; by system call, because fcntl may be interposed by ourselves.
    let flags = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFL, 0) } as c_int;
    Flags {
        nonblocking: flags & libc::O_NONBLOCK != 0,
        signals: flags & libc::O_ASYNC != 0,
    }
}

/// What a descriptor is to us.
pub enum Socket {
    /// Not a TCP socket, and never will be.
    Other,
    /// A TCP socket without a peer: it listens, or is not yet connected.
    Unconnected,
    /// A connected TCP socket.
    Connected(Peer),
}

/// Looks at a descriptor. `outbound`: what is known about who opened the connection.
pub fn look(fd: RawFd, outbound: Option<bool>) -> Socket {
    let mut protocol: c_int = 0;
    let tcp = option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL, &mut protocol).is_some()
        && protocol == libc::IPPROTO_TCP;
    if !tcp {
        return Socket::Other;
    }
    peer_of(fd, outbound).map_or(Socket::Unconnected, Socket::Connected)
}

/// Linux's ioctl for bytes written and not sent (linux/sockios.h).
const SIOCOUTQNSD: libc::c_ulong = 0x894B;

/// Bytes written and not acknowledged (`SIOCOUTQ`, which is `TIOCOUTQ`).
pub(crate) fn queued(fd: RawFd) -> Bytes {
    count(fd, libc::TIOCOUTQ)
}

/// Bytes written and not sent.
pub(crate) fn unsent(fd: RawFd) -> Bytes {
    count(fd, SIOCOUTQNSD)
}

fn count(fd: RawFd, request: libc::c_ulong) -> Bytes {
    let mut n: c_int = 0;
    // SAFETY: both requests store an int.
    let rc = unsafe { libc::ioctl(fd, request as _, &raw mut n) };
    Bytes::new(if rc == 0 {
        u64::try_from(n).unwrap_or(0)
    } else {
        0
    })
}

/// Lets the kernel pace at `rate` bytes per second; `u64::MAX`: unpaced.
pub(crate) fn set_pacing(fd: RawFd, rate: u64) {
    // SAFETY: the value outlives the call; a refusal leaves the connection unpaced, which is only less smooth.
    unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const rate).cast::<c_void>(),
            size_of::<u64>() as socklen_t,
        );
    }
}

/// The pacing rate that is set, bytes per second; `u64::MAX`: none.
pub(crate) fn pacing(fd: RawFd) -> Option<u64> {
    let mut rate = u64::MAX;
    option(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &mut rate)?;
    Some(rate)
}

/// Selects the kernel's congestion control; the errno on refusal.
pub(crate) fn set_under(fd: RawFd, name: &str) -> Result<(), c_int> {
    let name = CString::new(name).map_err(|_| libc::EINVAL)?;
    // SAFETY: pointer and length describe `name`.
    let rc = unsafe {
        libc::setsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.as_bytes().len() as socklen_t,
        )
    };
    if rc == 0 { Ok(()) } else { Err(errno()) }
}

/// The kernel's congestion control of this socket.
pub(crate) fn under(fd: RawFd) -> Option<String> {
    let mut name = [0u8; 16];
    let len = option(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut name)?;
    let name = name.get(..len)?.split(|b| *b == 0).next()?;
    String::from_utf8(name.to_vec()).ok()
}

/// Our end of a connection.
pub(crate) fn local_of(fd: RawFd) -> Option<SocketAddr> {
    address(|addr, len| {
        // SAFETY: `address` passes a buffer and its length.
        unsafe { libc::getsockname(fd, addr, len) }
    })
}

fn peer_of(fd: RawFd, outbound: Option<bool>) -> Option<Peer> {
    let remote = address(|addr, len| {
        // SAFETY: `address` passes a buffer and its length.
        unsafe { libc::getpeername(fd, addr, len) }
    })?;
    let local = local_of(fd)?;
    Some(Peer {
        remote,
        local_port: local.port(),
        outbound: outbound.unwrap_or_else(|| opened_here(fd, local.port(), remote.port())),
    })
}

/// First port that Linux gives to connecting sockets (net.ipv4.ip_local_port_range).
const EPHEMERAL: u16 = 32_768;

/// Who opened a connection that was handed to us? The side that connects counts its SYN among the acknowledged bytes; while
/// data is in flight that does not show, and the ports have to do.
fn opened_here(fd: RawFd, local: u16, remote: u16) -> bool {
    let Some(reading) = read(fd) else {
        return false;
    };
    match reading.acked.cmp(&reading.sent) {
        Ordering::Greater => true,
        Ordering::Equal => false,
        Ordering::Less => local >= EPHEMERAL && remote < EPHEMERAL,
    }
}

fn address(get: impl FnOnce(*mut libc::sockaddr, *mut socklen_t) -> c_int) -> Option<SocketAddr> {
    // SAFETY: zero is a valid sockaddr_storage.
    let mut storage: libc::sockaddr_storage = unsafe { zeroed() };
    let mut len = size_of::<libc::sockaddr_storage>() as socklen_t;
    let at = &raw mut storage;
    if get(at.cast(), &raw mut len) != 0 {
        return None;
    }
    match c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that a sockaddr_in was stored, and the storage is large and aligned enough.
            let a = unsafe { &*at.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from_bits(u32::from_be(a.sin_addr.s_addr));
            Some(SocketAddr::new(IpAddr::V4(ip), u16::from_be(a.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above, for sockaddr_in6.
            let a = unsafe { &*at.cast::<libc::sockaddr_in6>() };
            Some(SocketAddr::new(
                IpAddr::V6(Ipv6Addr::from(a.sin6_addr.s6_addr)),
                u16::from_be(a.sin6_port),
            ))
        }
        _ => None,
    }
}

/// How many threads this process has, its first among them even if that has ended. `None` where /proc cannot be seen.
pub(crate) fn threads() -> Option<u64> {
    // The kernel counts them among the links of the folder: one call, and no memory, which there may be none of in a fork.
    // SAFETY: zero is a valid stat, and only read into.
    let links = unsafe {
        let mut stat: libc::stat = zeroed();
        let rc = libc::stat(c"/proc/self/task".as_ptr(), &raw mut stat);
        if rc == 0 { stat.st_nlink } else { 0 }
    };
    (links as u64).checked_sub(2).filter(|n| *n > 0)
}

/// Does this process still have this thread?
pub(crate) fn has_thread(id: libc::pid_t) -> bool {
    // SAFETY: signal 0 is none; numbers only.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), id, 0) == 0 || errno() != libc::ESRCH }
}

/// Sleeps so long; a signal handler cuts it short.
pub(crate) fn nap(span: Span) {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: span.as_nanos() as _,
    };
    // SAFETY: a valid time; what is left over is not asked for.
    unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
}

/// Signals belong to the program: a thread made in `spawn` takes none.
pub(crate) fn without_signals<T>(spawn: impl FnOnce() -> T) -> T {
    // SAFETY: plain signal-set calls on local, initialised sets; the mask is restored.
    unsafe {
        let (mut all, mut before) = (zeroed(), zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let made = spawn();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        made
    }
}

/// Sends the pieces without waiting and without SIGPIPE; how much was taken, or errno. `stamped`: the kernel notes when the last byte is
/// acknowledged, and appends nothing to it (MSG_EOR), else the note would wait for what follows.
pub(crate) fn send(fd: RawFd, pieces: [&[u8]; 4], stamped: bool) -> Result<usize, c_int> {
    #[repr(C, align(8))]
    struct Control {
        header: libc::cmsghdr,
        flags: u32,
    }
    let vector = pieces.map(|piece| libc::iovec {
        iov_base: piece.as_ptr().cast_mut().cast(),
        iov_len: piece.len(),
    });
    // SAFETY: zero is valid for both: integers and pointers.
    let (mut msg, mut control): (libc::msghdr, Control) = unsafe { (zeroed(), zeroed()) };
    msg.msg_iov = vector.as_ptr().cast_mut();
    msg.msg_iovlen = vector.len() as _;
    let mut flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    if stamped {
        // SAFETY: computes a length.
        control.header.cmsg_len = unsafe { libc::CMSG_LEN(size_of::<u32>() as u32) } as _;
        control.header.cmsg_level = libc::SOL_SOCKET;
        control.header.cmsg_type = libc::SO_TIMESTAMPING;
        control.flags = libc::SOF_TIMESTAMPING_TX_ACK;
        msg.msg_control = (&raw mut control).cast();
        msg.msg_controllen = size_of::<Control>() as _;
        flags |= libc::MSG_EOR;
    }
    // SAFETY: the vector describes borrowed bytes, which are only read; the control buffer outlives the call.
    let n = unsafe { libc::sendmsg(fd, &raw const msg, flags) };
    usize::try_from(n).map_err(|_| errno())
}

/// Waits until the socket takes bytes, without being interrupted by a signal. False: not until then.
pub(crate) fn wait_writable(fd: RawFd, until: Time) -> bool {
    let left = until.since(now()).as_nanos();
    let time = libc::timespec {
        tv_sec: (left / 1_000_000_000) as _,
        tv_nsec: (left % 1_000_000_000) as _,
    };
    let mut ready = libc::pollfd {
        fd,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one descriptor, a timeout and a set of all signals that outlive the call.
    unsafe {
        let mut all = zeroed();
        libc::sigfillset(&raw mut all);
        libc::ppoll(&raw mut ready, 1, &raw const time, &raw const all) > 0
            && ready.revents & libc::POLLOUT != 0
    }
}

/// Another descriptor of the same socket.
pub(crate) fn duplicate(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: no pointers.
    let other = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    // SAFETY: just made, and nobody else's.
    (other >= 0).then(|| unsafe { OwnedFd::from_raw_fd(other) })
}

/// Sends FIN after what is written.
pub(crate) fn shutdown_write(fd: RawFd) {
    // SAFETY: no pointers; an error means that there is nothing to end.
    unsafe { libc::shutdown(fd, libc::SHUT_WR) };
}

/// Lets the next close throw away what is written, and send RST.
pub(crate) fn reset_on_close(fd: RawFd) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // SAFETY: the value outlives the call.
    unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of::<libc::linger>() as socklen_t,
        );
    }
}

fn option<T>(fd: RawFd, level: c_int, name: c_int, value: &mut T) -> Option<usize> {
    let mut len = size_of::<T>() as socklen_t;
    // SAFETY: pointer and length describe `value`, which consists of integers only.
    let rc = unsafe {
        libc::getsockopt(
            fd,
            level,
            name,
            std::ptr::from_mut(value).cast(),
            &raw mut len,
        )
    };
    (rc == 0).then_some(len as usize)
}
