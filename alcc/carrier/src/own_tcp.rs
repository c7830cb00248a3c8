// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP as a transport: the kernel's own, or an algorithm above it as in the C library (`--cc`).
use alcc_pipe::tcp::{REMEDY, Watch, acknowledged, connect, listen, wait};
use alcc_pipe::{
    About, Dialer, Failure, Listening, MAX_WAIT, MAX_WRITE, Options, Outgoing, Plan, Stats, Takes,
    Target, Tls, Transport, Under, default_under,
};
use alcc_socket::own::{Options as Wants, Runtime, Settings, Stream, Wait};
use alcc_socket::{Deployment, Enforcement, Feedback};
use alcc_sys::tcp_counters;
use alcc_units::{Bytes, Rate, Span};
use nix::poll::PollFlags;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// TCP as a transport.
pub struct Tcp;

/// Limit of the data queued before our algorithm, as time at its rate; at least two segments.
const MAX_QUEUED: Span = Span::from_millis(5);
const MIN_WRITE: u64 = 2 * 1448;

impl Transport for Tcp {
    fn about(&self) -> About {
        About {
            name: "tcp",
            summary: "the kernel's TCP, plain (--under bbr) or with an algorithm above it (--cc verus)",
            suffix: "-tcp",
            feedback: best_feedback().map_or("kernel", |best| best.name),
            enforcement: Enforcement::best(Deployment::Own).map_or("kernel", |best| best.name),
            takes: Takes {
                needs_cc: false,
                other_feedback: true,
                under: Under::Kernel,
                carrier: Err("plain TCP has no carrier"),
                tls: Tls::Never,
            },
        }
    }

    fn plan(&self, options: &Options) -> Result<Plan, Failure> {
        let kernel = options.under.clone().unwrap_or_else(default_under);
        let Some(spec) = &options.cc else {
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
            feedback: feedback
                .map_or_else(|| self.about().feedback, |f| f.name)
                .to_owned(),
            enforcement: enforcement.name.to_owned(),
            under: Some(kernel),
            ..Plan::new(format!("alcc-{spec}-tcp"), spec, &self.about())
        })
    }

    fn dialer<'a>(&self, options: &'a Options) -> Result<Box<dyn Dialer + 'a>, Failure> {
        let runtime = |spec: &alcc_cc::Spec| {
            let (feedback, enforcement) = chosen(options)?;
            let settings = Settings {
                feedback: feedback.or_else(|| best_feedback().copied()),
                enforcement,
                seed: options.seed,
                ..Settings::new(spec.clone())
            };
            Ok(Runtime::new(settings, options.registry.clone()))
        };
        Ok(Box::new(TcpDialer {
            options,
            runtime: options.cc.as_ref().map(runtime).transpose()?,
        }))
    }

    fn listen(&self, at: SocketAddr, _: &Options) -> Result<Box<dyn Listening>, Failure> {
        Ok(Box::new(listen(at)?))
    }
}

/// The best feedback that works without a privileged helper.
fn best_feedback() -> Option<&'static Feedback> {
    Feedback::of(Deployment::Own).find(|f| !f.of_kernel())
}

/// The requested feedback (`None`: the best) and enforcement.
fn chosen(options: &Options) -> Result<(Option<Feedback>, Enforcement), Failure> {
    let feedback = Feedback::choose(Deployment::Own, &options.feedback).map_err(Failure::usage)?;
    let enforcement =
        Enforcement::choose(Deployment::Own, &options.enforce).map_err(Failure::usage)?;
    if enforcement.kernel || feedback.as_ref().is_some_and(Feedback::of_kernel) {
        return Err(Failure::usage(
            "'bpf' is only for alcc run, alcc proxy and the C library: use tcp-info or timestamps, and queue or queue+pacing, or omit it",
        ));
    }
    Ok((feedback, enforcement))
}

struct TcpDialer<'a> {
    options: &'a Options,
    /// Runs our algorithm for all flows; `None` if the kernel alone controls.
    runtime: Option<Arc<Runtime>>,
}

impl Dialer for TcpDialer<'_> {
    fn connect(&self, to: &Target, _flow: u32) -> Result<Box<dyn Outgoing>, Failure> {
        let stream = connect(to, self.options, REMEDY)?;
        let Some(runtime) = &self.runtime else {
            return Ok(Box::new(Plain {
                watch: Watch::default(),
                stream,
                ended: false,
            }));
        };
        let failed = |e: io::Error| Failure::usage(format!("control the connection to {to}: {e}"));
        let back = stream.try_clone().map_err(failed)?;
        let wants = Wants {
            queue: Some(MIN_WRITE as usize),
            ..Wants::default()
        };
        let stream = Stream::new(runtime, stream.into(), &wants).map_err(failed)?;
        Ok(Box::new(Controlled {
            watch: Watch::default(),
            stream,
            back,
            piece: MIN_WRITE as usize,
            ended: false,
        }))
    }
}

/// The kernel's TCP unchanged, its send buffer included.
struct Plain {
    stream: TcpStream,
    watch: Watch,
    ended: bool,
}

impl Outgoing for Plain {
    fn room(&mut self) -> io::Result<usize> {
        if self.watch.is_due()
            && let Some(counters) = tcp_counters(self.stream.as_raw_fd())
        {
            self.watch.sample(counters.rtt);
        }
        let writable = wait(&self.stream, PollFlags::POLLOUT)?;
        Ok(if writable { MAX_WRITE } else { 0 })
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
        self.watch.stats(Some(&self.stream))
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
        // An aborted flow must leave no background work behind.
        if !self.ended {
            let socket = socket2::SockRef::from(&self.stream);
            let _ = socket.set_linger(Some(Duration::ZERO));
        }
    }
}

/// One of our algorithms above the kernel's TCP.
struct Controlled {
    stream: Stream,
    /// The same socket, for the receiver's answer and the counters.
    back: TcpStream,
    watch: Watch,
    piece: usize,
    ended: bool,
}

impl Outgoing for Controlled {
    fn room(&mut self) -> io::Result<usize> {
        if self.watch.is_due() {
            let info = self.stream.info();
            if !info.rtt.is_zero() {
                self.watch.sample(info.rtt);
                let window = Rate::of(info.window, info.smoothed_rtt);
                let rate = info.rate.unwrap_or(window);
                let piece = rate.bytes_in(MAX_QUEUED);
                let piece = piece.clamp(Bytes::new(MIN_WRITE), Bytes::new(MAX_WRITE as u64));
                self.piece = piece.get() as usize;
                self.stream.set_queue(self.piece);
            }
        }
        // `write` waits for room for up to some 5 ms, so the time stamp of a piece is wrong by up
        // to that.
        Ok(self.piece)
    }

    fn finish(&mut self) -> io::Result<bool> {
        if !self.ended {
            self.stream.shutdown_write();
            self.ended = true;
        }
        let until = Instant::now() + MAX_WAIT;
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
        self.watch.stats(Some(&self.back))
    }
}

impl Write for Controlled {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.send(bytes, Wait::Yes(Some(MAX_WAIT)))
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
