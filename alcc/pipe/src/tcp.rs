// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP sockets for every transport over TCP: calls return after [`MAX_WAIT`].
use crate::{Failure, Incoming, Listening, MAX_WAIT, Options, Stats, Target, resolve};
use alcc_sys::tcp_counters;
use alcc_units::{Distribution, Span};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// The advice if no receiver listens.
pub const REMEDY: &str = "start 'alcc recv' on that host, with the same --transport";
/// Interval of round-trip time samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);

/// Connects with the requested algorithm of the kernel. Calls on the socket return after
/// [`MAX_WAIT`]. `remedy` is the advice if no receiver listens.
///
/// # Errors
/// The reason and the remedy.
pub fn connect(to: &Target, options: &Options, remedy: &str) -> Result<TcpStream, Failure> {
    let mut last = None;
    for address in resolve(to, options.bind)? {
        match connect_to(address, options) {
            Ok(stream) => return Ok(stream),
            Err(why) => last = Some((address, why)),
        }
    }
    Err(match last {
        Some((_, Broken::Ours(failure))) => failure,
        Some((address, Broken::Theirs(why))) => Failure::failed(match why.kind() {
            io::ErrorKind::ConnectionRefused => {
                format!("connect to {address}: connection refused: {remedy}")
            }
            io::ErrorKind::TimedOut => format!(
                "connect to {address}: no answer within {} s: check the host, and firewalls on the path",
                options.connect_timeout.as_secs_f64()
            ),
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => format!(
                "connect to {address}: no route to host: check the address, and the network of this host"
            ),
            _ => format!("connect to {address}: {why}"),
        }),
        None => Failure::failed(format!("connect to {to}: it has no address")),
    })
}

enum Broken {
    Ours(Failure),
    Theirs(io::Error),
}

fn connect_to(address: SocketAddr, options: &Options) -> Result<TcpStream, Broken> {
    let ours =
        |what: String| move |e: io::Error| Broken::Ours(Failure::usage(format!("{what}: {e}")));
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )
    .map_err(ours("create a socket".to_owned()))?;
    if let Some(under) = &options.under {
        socket
            .set_tcp_congestion(under.as_bytes())
            .map_err(ours(format!(
                "--under {under} (not in net.ipv4.tcp_allowed_congestion_control?)"
            )))?;
    }
    if let Some(ip) = options.bind {
        socket
            .bind(&SocketAddr::new(ip, 0).into())
            .map_err(|why| match why.kind() {
                io::ErrorKind::AddrNotAvailable => Broken::Ours(Failure::usage(format!(
                    "--bind {ip}: not an address of this host: choose another"
                ))),
                _ => ours(format!("--bind {ip}"))(why),
            })?;
    }
    socket
        .connect_timeout(&address.into(), options.connect_timeout)
        .map_err(Broken::Theirs)?;
    socket.set_tcp_nodelay(true).map_err(Broken::Theirs)?;
    let stream = TcpStream::from(socket);
    limit_waits(&stream).map_err(Broken::Theirs)?;
    Ok(stream)
}

fn limit_waits(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(MAX_WAIT))?;
    stream.set_write_timeout(Some(MAX_WAIT))
}

/// Waits at most [`MAX_WAIT`] for one of these events; true if it has come.
///
/// # Errors
/// The errors of poll(2).
pub fn wait(fd: &impl AsFd, what: PollFlags) -> io::Result<bool> {
    let mut fds = [PollFd::new(fd.as_fd(), what)];
    let limit = PollTimeout::try_from(MAX_WAIT).unwrap_or(PollTimeout::ZERO);
    match poll(&mut fds, limit) {
        Ok(n) => Ok(n > 0),
        Err(nix::Error::EINTR) => Ok(false),
        Err(why) => Err(why.into()),
    }
}

/// Round-trip times of a connection, and the kernel's counters.
#[derive(Default)]
pub struct Watch {
    sampled: Option<Instant>,
    rtt: Distribution,
}

impl Watch {
    /// True every 10 ms, when a round-trip time is to be sampled.
    pub fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let due = self.sampled.is_none_or(|at| now - at >= SAMPLE_INTERVAL);
        if due {
            self.sampled = Some(now);
        }
        due
    }

    /// Takes a round-trip time; zero is ignored.
    pub fn sample(&mut self, rtt: Span) {
        if !rtt.is_zero() {
            self.rtt.add(rtt, 1);
        }
    }

    /// The statistics so far; `socket` is the TCP connection below, if there is one.
    pub fn stats(&self, socket: Option<&impl AsRawFd>) -> Stats {
        let counters = socket.and_then(|socket| tcp_counters(socket.as_raw_fd()));
        Stats {
            rtt_mean_ms: self.rtt.mean_ms(),
            rtt_p95_ms: self.rtt.quantile_ms(0.95),
            retransmits: counters.map(|c| c.retransmits),
            timeouts: counters.and_then(|c| c.timeouts),
            ..Stats::default()
        }
    }
}

/// Bytes that the peer's kernel has acknowledged.
pub fn acknowledged(socket: &impl AsRawFd) -> Option<u64> {
    tcp_counters(socket.as_raw_fd()).map(|counters| counters.acked)
}

/// A listening socket.
///
/// # Errors
/// [`Failure::Usage`]: the address is in use, or not of this machine.
pub fn listen(at: SocketAddr) -> Result<Acceptor, Failure> {
    let failed = |e: io::Error| {
        Failure::usage(match e.kind() {
            io::ErrorKind::AddrInUse => {
                format!(
                    "listen on {at}: {e}: stop the program that listens there, or choose another --port"
                )
            }
            io::ErrorKind::AddrNotAvailable => {
                format!("listen on {at}: {e}: --bind takes an address of this machine")
            }
            io::ErrorKind::PermissionDenied => format!(
                "listen on {at}: {e}: ports below 1024 need privileges; choose another --port, or run it as root"
            ),
            _ => format!("listen on {at}: {e}"),
        })
    };
    let listener = TcpListener::bind(at).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let at = listener.local_addr().map_err(failed)?;
    Ok(Acceptor { listener, at })
}

/// Accepts connections.
pub struct Acceptor {
    listener: TcpListener,
    at: SocketAddr,
}

impl Acceptor {
    /// The next connection, in blocking mode with calls that return after [`MAX_WAIT`].
    ///
    /// # Errors
    /// The errors of accept(2) that concern the listening socket.
    pub fn accept(&mut self) -> io::Result<Option<(TcpStream, SocketAddr)>> {
        if !wait(&self.listener, PollFlags::POLLIN)? {
            return Ok(None);
        }
        match self.listener.accept() {
            Ok((stream, from)) => {
                stream.set_nonblocking(false)?;
                limit_waits(&stream)?;
                Ok(Some((stream, from)))
            }
            Err(why) if is_passing(&why) => {
                // Without a free descriptor the connection stays in the queue, and poll would
                // return at once.
                if why.kind() != io::ErrorKind::WouldBlock {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Ok(None)
            }
            Err(why) => Err(why),
        }
    }
}

/// True for an error of the connection, or a shortage that may end, not of the listening socket.
fn is_passing(why: &io::Error) -> bool {
    use nix::libc;
    const FATAL: [i32; 5] = [
        libc::EBADF,
        libc::EINVAL,
        libc::ENOTSOCK,
        libc::EOPNOTSUPP,
        libc::EFAULT,
    ];
    !why.raw_os_error()
        .is_some_and(|errno| FATAL.contains(&errno))
}

impl Listening for Acceptor {
    fn address(&self) -> String {
        self.at.to_string()
    }

    fn accept(&mut self) -> io::Result<Option<Box<dyn Incoming>>> {
        let next = self.accept()?;
        Ok(next.map(|(stream, from)| Box::new(Accepted { stream, from }) as Box<dyn Incoming>))
    }
}

struct Accepted {
    stream: TcpStream,
    from: SocketAddr,
}

impl Read for Accepted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.read(into)
    }
}

impl Incoming for Accepted {
    fn peer(&self) -> String {
        SocketAddr::new(self.from.ip().to_canonical(), self.from.port()).to_string()
    }

    fn answer(&mut self, bytes: &[u8]) -> io::Result<bool> {
        self.stream.write_all(bytes)?;
        self.stream.shutdown(Shutdown::Write)?;
        Ok(true)
    }
}
