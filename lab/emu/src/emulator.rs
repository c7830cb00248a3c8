// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::changing::Changing;
use crate::device::Device;
use crate::relay::{Relay, Request};
use crate::report::EmuReport;
use crate::{EmuError, Namespace, Subnet};
use alcc_link::{Dir, Direction, DirectionSpec, Outcome};
use alcc_units::Time;
use nix::sys::eventfd::EventFd;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

/// Both directions of an emulated link.
#[derive(Clone, Default, Debug)]
pub struct PathSpec {
    /// From the outside to the inside.
    pub down: DirectionSpec,
    /// From the inside to the outside.
    pub up: DirectionSpec,
    /// Seed of random loss and of queues that drop at random.
    pub seed: u64,
}

impl PathSpec {
    /// The model of one direction at the link's start. The relay runs it, and the simulated
    /// counterpart of a run starts from it.
    pub fn model(&self, dir: Dir) -> Direction {
        let spec = match dir {
            Dir::Down => &self.down,
            Dir::Up => &self.up,
        };
        Direction::new(spec, dir, self.seed_of(dir))
    }

    /// The seed of one direction: the two must use different random numbers.
    pub const fn seed_of(&self, dir: Dir) -> u64 {
        match dir {
            Dir::Down => self.seed,
            Dir::Up => !self.seed,
        }
    }
}

/// Observer of all outcomes of packets. It runs in the relay's thread, so it must be quick. `now`
/// is the relay's clock, which is later than the model's time in `outcome` by the lateness. Both
/// count from [`Emulator::started`].
///
/// ```
/// use alcc_emu::{Dir, Observer};
/// use alcc_link::Outcome;
/// use alcc_units::Time;
///
/// struct Drops(u64);
///
/// impl Observer for Drops {
///     fn event(&mut self, _: Dir, outcome: &Outcome, _: Time) {
///         self.0 += u64::from(matches!(outcome, Outcome::Dropped { .. }));
///     }
/// }
/// ```
pub trait Observer {
    /// Receives an outcome.
    fn event(&mut self, dir: Dir, outcome: &Outcome, now: Time);
}

/// An observer that does nothing.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Observer for Silent {
    fn event(&mut self, _: Dir, _: &Outcome, _: Time) {}
}

/// A running link. When it is stopped or dropped, its devices disappear.
///
/// ```no_run
/// use alcc_emu::{Emulator, Namespace, PathSpec, Silent, Subnet};
/// # fn main() -> Result<(), alcc_emu::EmuError> {
/// alcc_emu::prepare()?; // before the first thread
/// let (outside, inside) = (Namespace::new()?, Namespace::new()?);
/// let spec = PathSpec::default();
/// let link = Emulator::start(&outside, &inside, Subnet::default(), spec, Box::new(Silent))?;
/// let server = format!("{}:80", link.outside_addr());
/// let answer = inside.run(|| std::net::TcpStream::connect(server))?;
/// # drop(answer);
/// println!("{:?}", link.stop()?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Emulator {
    net: Subnet,
    started: Instant,
    control: Control,
    thread: Option<JoinHandle<io::Result<EmuReport>>>,
}

impl Emulator {
    /// Makes a device in each namespace, gives them the addresses of `net`, and starts the relay
    /// between them.
    ///
    /// Inside, the link becomes the default route unless there is one.
    ///
    /// # Errors
    /// [`EmuError::NoDevice`] if no device can be made. [`EmuError::SubnetTaken`] if `outside` has
    /// a route for the same range; choose another of [`Subnet::candidates`]. [`EmuError::Os`] for
    /// other errors of the kernel.
    pub fn start(
        outside: &Namespace,
        inside: &Namespace,
        net: Subnet,
        spec: PathSpec,
        observer: Box<dyn Observer + Send>,
    ) -> Result<Self, EmuError> {
        let (outer, inner) = Device::pair(outside, inside)?;
        outer.configure_outside(net)?;
        inner.configure_inside(net)?;
        let request_event = EventFd::new().map_err(EmuError::os("make an eventfd"))?;
        let request_fd: OwnedFd = std::os::fd::AsFd::as_fd(&request_event)
            .try_clone_to_owned()
            .map_err(EmuError::os("duplicate an eventfd"))?;
        let started = Instant::now();
        let models = Dir::BOTH.map(|dir| {
            let model = Changing::new(dir, spec.model(dir), spec.seed_of(dir));
            let of = match dir {
                Dir::Down => &spec.down,
                Dir::Up => &spec.up,
            };
            (dir, model, of)
        });
        let (sender, requests) = mpsc::channel();
        let relay = Relay::new(models, outer, inner, observer, started);
        let thread = spawn("alcc-relay", move || relay.run(&request_fd, &requests))?;
        Ok(Self {
            net,
            started,
            control: Control {
                request_event: Arc::new(request_event),
                sender,
            },
            thread: Some(thread),
        })
    }

    /// The address of the link's end in the outside namespace.
    pub const fn outside_addr(&self) -> Ipv4Addr {
        self.net.outside()
    }

    /// The address of the link's end in the inside namespace.
    pub const fn inside_addr(&self) -> Ipv4Addr {
        self.net.inside()
    }

    /// The addresses of the link.
    pub const fn subnet(&self) -> Subnet {
        self.net
    }

    /// The origin of all times of this link, on the monotonic clock.
    pub const fn started(&self) -> Instant {
        self.started
    }

    /// A handle that changes the running link, from any thread.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Stops the link. Packets inside are lost.
    ///
    /// # Errors
    /// [`EmuError::Os`] if the relay had failed. A panic of the observer is resumed in the caller.
    pub fn stop(mut self) -> Result<EmuReport, EmuError> {
        match self.end() {
            Some(Ok(report)) => report.map_err(EmuError::os("relay packets of the emulated link")),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(EmuReport::default()),
        }
    }

    fn end(&mut self) -> Option<std::thread::Result<io::Result<EmuReport>>> {
        let thread = self.thread.take()?;
        self.control.request(Request::Stop);
        Some(thread.join())
    }
}

/// Handle that changes a running link.
#[derive(Clone, Debug)]
pub struct Control {
    request_event: Arc<EventFd>,
    sender: mpsc::Sender<Request>,
}

impl Control {
    /// Replaces the description of one direction. Packets that wait at the bottleneck wait at the
    /// new one; those after it continue unchanged. It has no effect if the link has ended.
    pub fn change(&self, dir: Dir, spec: DirectionSpec) {
        self.request(Request::Change(dir, spec));
    }

    fn request(&self, request: Request) {
        if self.sender.send(request).is_ok() {
            // An eventfd is full only after 2^64 changes that were not read.
            let _ = self.request_event.write(1);
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts a thread that blocks all signals, which belong to the program's own threads.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, EmuError> {
    alcc_sys::spawn(std::thread::Builder::new().name(name.to_owned()), work)
        .map_err(EmuError::os(format!("start the thread {name}")))
}
