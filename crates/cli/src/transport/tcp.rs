// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP: the kernel's own, or one of ours above it as in the C library (`--cc`).
use super::{
    Incoming, Listening, Options, Outgoing, PIECE, Plan, Stats, TURN, Target, Transport,
    certificate, described,
};
use crate::commands::run::check_under;
use crate::failure::Failure;
use alcc_lab::Distribution;
use alcc_socket::own::{Options as Wants, Runtime, Settings, Stream, Wait};
use alcc_socket::{Enforcement, Feedback, Host, tcp_counters};
use alcc_units::{Bytes, Rate, Span};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

pub(super) struct Tcp;

/// How often a connection's counters are read.
const LOOK: Duration = Duration::from_millis(10);
/// What waits in front of our algorithm is this much of its rate, and at least two segments.
const QUEUED: Span = Span::from_millis(5);
const LEAST: u64 = 2 * 1448;
/// What helps if nobody listens where the receiver should.
pub(super) const RECEIVER: &str = "start 'alcc recv' on that host";

impl Transport for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn summary(&self) -> &'static str {
        "the kernel's TCP, plain (--under bbr) or with an algorithm above it (--cc verus)"
    }

    fn plan(&self, options: &Options) -> Result<Plan, Failure> {
        certificate::unused(self.name(), options)?;
        if let Some(carrier) = &options.carrier {
            return Err(Failure::usage(format!(
                "--carrier {carrier}: plain TCP is carried by nothing; --transport in-band has carriers"
            )));
        }
        if let Some(under) = &options.under {
            check_under(under)?;
        }
        let Some(spec) = &options.cc else {
            for (option, value) in [
                ("--feedback", &options.feedback),
                ("--enforce", &options.enforce),
            ] {
                if value != "auto" {
                    return Err(Failure::usage(format!(
                        "{option} {value}: without --cc the kernel alone decides; add --cc verus"
                    )));
                }
            }
            let kernel = options.under.clone().unwrap_or_else(system);
            return Ok(Plan {
                scheme: kernel.clone(),
                algorithm: kernel,
                feedback: "kernel".to_owned(),
                enforcement: "kernel".to_owned(),
                ..Plan::default()
            });
        };
        let (feedback, enforcement) = chosen(options)?;
        Ok(Plan {
            feedback: feedback.name.to_owned(),
            enforcement: enforcement.name.to_owned(),
            under: Some(options.under.clone().unwrap_or_else(system)),
            ..described(format!("alcc-{spec}-tcp"), spec)
        })
    }

    fn connect(
        &self,
        to: &Target,
        options: &Options,
        _flow: u32,
    ) -> Result<Box<dyn Outgoing>, Failure> {
        let stream = connected(to, options, RECEIVER)?;
        if options.cc.is_none() {
            return Ok(Box::new(Plain {
                watch: Watch::new(),
                stream,
                ended: false,
            }));
        }
        let failed = |e: io::Error| Failure::usage(format!("control the connection to {to}: {e}"));
        let back = stream.try_clone().map_err(failed)?;
        let runtime = runtime(options)?;
        let wants = Wants {
            queue: Some(LEAST as usize),
            ..Wants::default()
        };
        let stream = Stream::new(&runtime, stream.into(), &wants).map_err(failed)?;
        Ok(Box::new(Controlled {
            watch: Watch::new(),
            stream,
            back,
            piece: LEAST as usize,
            ended: false,
        }))
    }

    fn listen(&self, at: SocketAddr, options: &Options) -> Result<Box<dyn Listening>, Failure> {
        certificate::unused(self.name(), options)?;
        Ok(Box::new(listening(at)?))
    }
}

/// What the kernel takes when nobody says otherwise.
pub(super) fn system() -> String {
    std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control")
        .map_or_else(|_| "kernel".to_owned(), |name| name.trim().to_owned())
}

fn chosen(options: &Options) -> Result<(Feedback, Enforcement), Failure> {
    let best = Feedback::of(Host::Own).next();
    let feedback = Feedback::choose(Host::Own, &options.feedback)
        .map_err(Failure::usage)?
        .or_else(|| best.copied())
        .ok_or_else(|| Failure::usage("no feedback"))?;
    let enforcement = Enforcement::choose(Host::Own, &options.enforce).map_err(Failure::usage)?;
    Ok((feedback, enforcement))
}

/// One for all flows of the process: its options are the same for all.
fn runtime(options: &Options) -> Result<Arc<Runtime>, Failure> {
    static RUNTIME: OnceLock<Arc<Runtime>> = OnceLock::new();
    let Some(spec) = &options.cc else {
        return Err(Failure::usage("no algorithm"));
    };
    let (feedback, enforcement) = chosen(options)?;
    let settings = Settings {
        feedback: Some(feedback),
        enforcement,
        seed: options.seed,
        ..Settings::new(spec.clone())
    };
    let make = || Runtime::new(settings, options.registry.clone());
    Ok(Arc::clone(RUNTIME.get_or_init(make)))
}

/// A connection with the kernel's algorithm that was asked for; its calls give up after [`TURN`]. `remedy` helps if nobody listens.
pub(super) fn connected(
    to: &Target,
    options: &Options,
    remedy: &str,
) -> Result<TcpStream, Failure> {
    let mut last = None;
    for address in to.resolve(options.bind)? {
        match connected_to(address, options) {
            Ok(stream) => return Ok(stream),
            Err(why) => last = Some((address, why)),
        }
    }
    Err(match last {
        Some((_, Refusal::Ours(failure))) => failure,
        Some((address, Refusal::Theirs(why))) => Failure::failed(match why.kind() {
            io::ErrorKind::ConnectionRefused => {
                format!("connect to {address}: nobody listens there: {remedy}")
            }
            io::ErrorKind::TimedOut => format!(
                "connect to {address}: no answer within {} s: wrong host, or a firewall between?",
                options.patience.as_secs_f64()
            ),
            _ => format!("connect to {address}: {why}"),
        }),
        None => Failure::failed(format!("connect to {to}: it has no address")),
    })
}

enum Refusal {
    Ours(Failure),
    Theirs(io::Error),
}

fn connected_to(address: SocketAddr, options: &Options) -> Result<TcpStream, Refusal> {
    let ours =
        |what: String| move |e: io::Error| Refusal::Ours(Failure::usage(format!("{what}: {e}")));
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )
    .map_err(ours("make a socket".to_owned()))?;
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
            .map_err(ours(format!("--bind {ip}")))?;
    }
    socket
        .connect_timeout(&address.into(), options.patience)
        .map_err(Refusal::Theirs)?;
    socket.set_tcp_nodelay(true).map_err(Refusal::Theirs)?;
    let stream = TcpStream::from(socket);
    turns(&stream).map_err(Refusal::Theirs)?;
    Ok(stream)
}

fn turns(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(TURN))?;
    stream.set_write_timeout(Some(TURN))
}

/// Waits at most [`TURN`].
pub(super) fn wait(fd: &impl AsFd, what: PollFlags) -> io::Result<bool> {
    let mut fds = [PollFd::new(fd.as_fd(), what)];
    let turn = PollTimeout::try_from(TURN).unwrap_or(PollTimeout::ZERO);
    match poll(&mut fds, turn) {
        Ok(n) => Ok(n > 0),
        Err(nix::Error::EINTR) => Ok(false),
        Err(why) => Err(why.into()),
    }
}

/// The kernel's counters of a connection, looked at now and then.
struct Watch {
    looked: Option<Instant>,
    rtt: Distribution,
}

impl Watch {
    fn new() -> Self {
        Self {
            looked: None,
            rtt: Distribution::new(),
        }
    }

    /// True if it is time to look.
    fn is_time(&mut self) -> bool {
        let now = Instant::now();
        let time = self.looked.is_none_or(|at| now - at >= LOOK);
        if time {
            self.looked = Some(now);
        }
        time
    }

    fn look(&mut self, socket: &impl AsRawFd) {
        if let Some(counters) = tcp_counters(socket.as_raw_fd())
            && !counters.rtt.is_zero()
        {
            self.rtt.add(counters.rtt, 1);
        }
    }

    fn stats(&self, socket: &impl AsRawFd) -> Stats {
        let counters = tcp_counters(socket.as_raw_fd());
        Stats {
            rtt_mean_ms: self.rtt.mean_ms(),
            rtt_p95_ms: self.rtt.quantile_ms(0.95),
            retransmits: counters.map(|c| c.retransmits),
            timeouts: counters.and_then(|c| c.timeouts),
            ..Stats::default()
        }
    }
}

/// Bytes that the peer's kernel has.
pub(super) fn acknowledged(socket: &impl AsRawFd) -> Option<u64> {
    tcp_counters(socket.as_raw_fd()).map(|counters| counters.acked)
}

/// The kernel's TCP as it is, its send buffer included.
struct Plain {
    stream: TcpStream,
    watch: Watch,
    ended: bool,
}

impl Outgoing for Plain {
    fn room(&mut self) -> io::Result<usize> {
        if self.watch.is_time() {
            self.watch.look(&self.stream);
        }
        let writable = wait(&self.stream, PollFlags::POLLOUT)?;
        Ok(if writable { PIECE } else { 0 })
    }

    fn finish(&mut self) -> io::Result<bool> {
        if !self.ended {
            self.stream.shutdown(Shutdown::Write)?;
            self.ended = true;
        }
        Ok(true)
    }

    fn answer(&mut self, into: &mut [u8]) -> Option<io::Result<usize>> {
        Some(self.stream.read(into))
    }

    fn acknowledged(&self) -> Option<u64> {
        acknowledged(&self.stream)
    }

    fn stats(&mut self) -> Stats {
        self.watch.stats(&self.stream)
    }
}

impl Write for Plain {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        // A flow that was given up leaves nothing behind that goes on by itself.
        if !self.ended {
            let socket = socket2::SockRef::from(&self.stream);
            let _ = socket.set_linger(Some(Duration::ZERO));
        }
    }
}

/// One of our algorithms above it.
struct Controlled {
    stream: Stream,
    /// The same socket: what the receiver answers, and the counters.
    back: TcpStream,
    watch: Watch,
    piece: usize,
    ended: bool,
}

impl Outgoing for Controlled {
    fn room(&mut self) -> io::Result<usize> {
        if self.watch.is_time() {
            let info = self.stream.info();
            if !info.rtt.is_zero() {
                self.watch.rtt.add(info.rtt, 1);
                let window = Rate::of(info.window, info.smoothed_rtt);
                let rate = info.rate.unwrap_or(window);
                let piece = rate.bytes_in(QUEUED);
                let piece = piece.clamp(Bytes::new(LEAST), Bytes::new(PIECE as u64));
                self.piece = piece.get() as usize;
                self.stream.set_queue(self.piece);
            }
        }
        // `write` waits for what it needs, some 5 ms: as much as the stamp of a piece may be wrong.
        Ok(self.piece)
    }

    fn finish(&mut self) -> io::Result<bool> {
        if !self.ended {
            self.stream.shutdown_write();
            self.ended = true;
        }
        let until = Instant::now() + TURN;
        while self.stream.queued() > 0 && self.stream.error().is_none() {
            if Instant::now() >= until {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.stream.error().map_or(Ok(true), Err)
    }

    fn answer(&mut self, into: &mut [u8]) -> Option<io::Result<usize>> {
        Some(self.back.read(into))
    }

    fn acknowledged(&self) -> Option<u64> {
        acknowledged(&self.back)
    }

    fn stats(&mut self) -> Stats {
        self.watch.stats(&self.back)
    }
}

impl Write for Controlled {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.send(bytes, Wait::Yes(Some(TURN)))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Controlled {
    fn drop(&mut self) {
        if !self.ended {
            self.stream.abort();
        }
    }
}

/// A listening socket.
pub(super) fn listening(at: SocketAddr) -> Result<Acceptor, Failure> {
    let failed = |e: io::Error| {
        Failure::usage(match e.kind() {
            io::ErrorKind::AddrInUse => {
                format!("listen on {at}: {e}: stop what listens there, or choose another --port")
            }
            io::ErrorKind::AddrNotAvailable => {
                format!("listen on {at}: {e}: --bind takes an address of this machine")
            }
            _ => format!("listen on {at}: {e}"),
        })
    };
    let listener = TcpListener::bind(at).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let at = listener.local_addr().map_err(failed)?;
    Ok(Acceptor { listener, at })
}

/// Accepts connections.
pub(super) struct Acceptor {
    listener: TcpListener,
    at: SocketAddr,
}

impl Acceptor {
    /// The next one, in blocking mode with calls that give up after [`TURN`].
    pub(super) fn next(&mut self) -> io::Result<Option<(TcpStream, SocketAddr)>> {
        if !wait(&self.listener, PollFlags::POLLIN)? {
            return Ok(None);
        }
        match self.listener.accept() {
            Ok((stream, from)) => {
                stream.set_nonblocking(false)?;
                turns(&stream)?;
                Ok(Some((stream, from)))
            }
            Err(why) if passing(&why) => {
                // Without a descriptor the connection stays in the queue, and poll would return at once.
                if why.kind() != io::ErrorKind::WouldBlock {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Ok(None)
            }
            Err(why) => Err(why),
        }
    }
}

/// The connection is at fault, or a shortage that may end, not the listening socket.
fn passing(why: &io::Error) -> bool {
    use nix::libc;
    const OURS: [i32; 5] = [
        libc::EBADF,
        libc::EINVAL,
        libc::ENOTSOCK,
        libc::EOPNOTSUPP,
        libc::EFAULT,
    ];
    !why.raw_os_error()
        .is_some_and(|errno| OURS.contains(&errno))
}

impl Listening for Acceptor {
    fn address(&self) -> String {
        self.at.to_string()
    }

    fn accept(&mut self) -> io::Result<Option<Box<dyn Incoming>>> {
        let next = self.next()?;
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
