// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One connection under an algorithm: its readings, its commands, its published state, and the return to plain TCP. The
//! owner of the connection enforces the limit, by a gate or by a queue.
use crate::kernel;
use crate::plane::ControlPlane;
use crate::saved_options::SavedOptions;
use crate::steering::{self, Report, Steering};
use crate::triple::{Deployment, Enforcement};
use crate::unsent_limit::UnsentLimit;
use alcc_cc::{Built, Instance, Spec, SpecError};
use alcc_flow::{AckSample, Counters, Limit, OverTcp, TcpProgress};
use alcc_observe::{
    ByReason, Bypass, Commands, Event, Identity, Named, Passed, Peer, Published, State, Subscriber,
};
use alcc_sys::{Chosen, Options, Reading, Stamps};
use alcc_units::{Bytes, Rate, Time};
use std::io;
use std::num::{NonZeroU8, NonZeroU64};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of the next connection of the process, whichever runtime has it.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Bytes that a connection may send without the gate while its algorithm runs in the kernel: more than any sends.
pub(crate) const EXCUSED: i64 = 1 << 50;

/// The settings of a connection, unless `alcc ctl` changes them. Many connections share one.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) cc: Spec,
    /// The kernel's congestion control below; `None`: the socket's own.
    pub(crate) under: Option<String>,
    /// True if the kernel's time stamps of acknowledgements are used.
    pub(crate) stamped: bool,
    pub(crate) enforcement: Enforcement,
    pub(crate) deployment: Deployment,
    /// True if connections to one address share one allowance.
    pub(crate) share: bool,
    /// Seed of the process.
    pub(crate) seed: u64,
}

/// Control of the connection's sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// The algorithm is in control. In all other modes the kernel alone is.
    Controlled,
    /// Off by a command of `alcc ctl`.
    Off,
    /// The algorithm or the whole runtime has failed.
    Failed,
    /// The kernel refuses readings, or the socket was given back.
    Released,
    /// The kernel takes no more bytes, and reports the reason at the next write.
    Over,
    /// Another program is about to replace the process; if the exec fails, the next write takes control again.
    HandedOver,
}

/// Another process may have the socket: the algorithm's rate is not applied until the next write.
const UNPACED: u8 = 1;
/// Another process was given the socket, and what the kernel keeps for us was restored for that.
const ELSEWHERE: u8 = 2;

/// A connected socket to be taken under control.
pub(crate) struct Takeover {
    pub(crate) fd: RawFd,
    pub(crate) cookie: u64,
    pub(crate) peer: Peer,
    pub(crate) reading: Reading,
    /// The program's own pacing rate, if an earlier runtime knew it.
    pub(crate) pacing: Option<u64>,
}

/// One connection under control.
pub(crate) struct Controlled {
    plane: Arc<ControlPlane>,
    plan: Arc<Plan>,
    pub(crate) id: u64,
    pub(crate) peer: Peer,
    pub(crate) mode: Mode,
    /// On the heap, because it may be made in a coroutine with a stack of 8 KiB.
    pub(crate) flow: Box<OverTcp>,
    stamps: Option<Box<Stamps>>,
    /// Only if the kernel enforces the limit.
    steering: Option<Box<Steering>>,
    /// The algorithm runs in the kernel, since the program had written one byte less than this.
    resident: Option<NonZeroU64>,
    pub(crate) saved_options: SavedOptions,
    unsent_limit: UnsentLimit,
    /// Number of the last command of `alcc ctl` that was executed.
    applied: u64,
    /// The algorithm that a command selected; on the heap, because few connections get one.
    commanded: Option<Box<Spec>>,
    /// Enforcement by such an order: a place in [`Enforcement::ALL`], plus one. A byte, because
    /// there are thousands of connections.
    enforced: Option<NonZeroU8>,
    published: Published,
    reported: Counters,
    /// Bytes that bypassed the algorithm, not yet reported.
    bypassed: ByReason,
    /// Reasons that were reported already, a bit for each.
    bypassed_before: u16,
    /// True if the algorithm's rate is not applied: see [`Controlled::lift_pacing`].
    is_unpaced: bool,
    /// [`UNPACED`] and [`ELSEWHERE`]. A byte, because there are thousands of connections.
    lent: u8,
    /// True if the program has more data: its last write was short or refused, or bytes of it are still queued.
    pub(crate) has_more: bool,
}

/// The kernel's state at a reading.
pub(crate) struct Seen {
    pub(crate) reading: Reading,
    samples: Vec<AckSample>,
}

impl Controlled {
    /// A connection that is not under control before [`Controlled::begin`].
    pub(crate) fn new(
        plane: &Arc<ControlPlane>,
        plan: &Arc<Plan>,
        controller: Instance,
        socket: &Takeover,
    ) -> Self {
        let now = kernel::now();
        Self {
            plane: Arc::clone(plane),
            plan: Arc::clone(plan),
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            peer: socket.peer,
            mode: Mode::Controlled,
            flow: Box::new(OverTcp::waiting(controller, now, &socket.reading.progress)),
            stamps: None,
            steering: None,
            resident: None,
            saved_options: SavedOptions::new(socket.reading.pacing, socket.pacing),
            unsent_limit: UnsentLimit::default(),
            applied: 0,
            commanded: None,
            enforced: None,
            published: Published::default(),
            reported: Counters::default(),
            bypassed: ByReason::default(),
            bypassed_before: 0,
            is_unpaced: false,
            lent: 0,
            has_more: false,
        }
    }

    /// Takes control. This is a separate step because an algorithm needs stack to start, and that of
    /// [`Controlled::new`] is free by then.
    #[inline(never)]
    pub(crate) fn begin(&mut self, socket: &Takeover) {
        let tcp = &socket.reading.progress;
        let first = self.enter(socket);
        if self.resident.is_none() {
            self.start(socket.fd, tcp, first.as_ref());
        }
    }

    /// The first part of [`Controlled::begin`]: prepares the socket. Returns the kernel's last sample, as
    /// [`Controlled::steer`] does.
    #[inline(never)]
    pub(crate) fn enter(&mut self, socket: &Takeover) -> Option<AckSample> {
        let first = self.hold(socket.fd, socket.reading.progress.written);
        self.prepare(socket.fd, socket.reading.progress.written);
        // Published before the algorithm starts, because it may report events then.
        self.published = self.publish(socket);
        self.emit(&Event::Opened(&socket.reading.progress));
        first
    }

    /// Starts the algorithm of a waiting flow.
    #[inline(never)]
    fn start(&mut self, fd: RawFd, tcp: &TcpProgress, first: Option<&AckSample>) {
        self.start_algorithm(tcp);
        self.started(fd, tcp, first);
    }

    /// The second part of [`Controlled::begin`], which needs no descriptor.
    pub(crate) fn start_algorithm(&mut self, tcp: &TcpProgress) {
        if let Some(log) = self.published.log() {
            self.flow.set_log(log);
        }
        self.flow.start(tcp, self.plan.seed_for(self.id));
    }

    /// The last part of [`Controlled::begin`]: applies the algorithm's limit.
    pub(crate) fn started(&mut self, fd: RawFd, tcp: &TcpProgress, first: Option<&AckSample>) {
        // An algorithm may take longer to start than the kernel waits for an update.
        let away = (self.steering.as_ref()).is_some_and(|s| s.was_away(kernel::now()));
        let again = (away && !steering::holds(fd)).then(|| {
            self.saved_options.forget_under();
            self.steer(fd)
        });
        if let Some(first) = again.as_ref().map_or(first, Option::as_ref) {
            self.flow.use_samples(first);
        }
        self.set_limit(fd, kernel::now(), tcp);
    }

    /// Lets the kernel run the algorithm, or else keep its limit, as far as that is planned. `None`:
    /// nothing is to be done in the kernel, or it does all. Else its last sample.
    #[inline(never)]
    fn hold(&mut self, fd: RawFd, written: u64) -> Option<AckSample> {
        if self.wanted().resident && self.settle_in_the_kernel(fd) {
            self.resident = Some(NonZeroU64::MIN.saturating_add(written));
            self.unsent_limit.begin(fd);
            return None;
        }
        self.steer(fd)
    }

    /// Selects the control of the kernel that is the algorithm. False: there is none, or the kernel
    /// refuses.
    #[inline(never)]
    fn settle_in_the_kernel(&mut self, fd: RawFd) -> bool {
        let Some(Chosen { control, options }) = Chosen::of(self.cc()) else {
            return false;
        };
        let maps = &self.plane.maps;
        if (options != Options::default() || maps.have_options())
            && maps.set_options(fd, options).is_err()
        {
            return false;
        }
        let saved = &mut self.saved_options;
        maps.select(|| saved.select_under(fd, &control).is_ok())
    }

    /// Reports the bytes written since the algorithm moved into the kernel, where no write is counted.
    pub(crate) fn count_resident(&mut self, fd: RawFd) {
        let (Some(since), Some(reading)) = (self.resident, kernel::read(fd)) else {
            return;
        };
        let written = reading.progress.written;
        self.resident = Some(NonZeroU64::MIN.saturating_add(written));
        let bytes = written.saturating_sub(since.get() - 1);
        if bytes == 0 {
            return;
        }
        self.excuse(fd, bytes.cast_signed());
        let ours = Chosen::of(self.cc()).map(|chosen| chosen.control);
        // By a call that the library did not see. When is not known, so none of these bytes counts as under control.
        let replaced = kernel::under(fd) != ours;
        let bypassed = ByReason::of(Bypass::Replaced, if replaced { bytes } else { 0 });
        let newly_bypassed = bypassed.newly(&mut self.bypassed_before);
        self.emit(&Event::Passed(&Passed {
            bytes: Bytes::new(if replaced { 0 } else { bytes }),
            gate_closed: 0,
            bypassed,
            newly_bypassed,
        }));
    }

    /// Adds to the bytes of the socket that are not counted as uncontrolled.
    fn excuse(&self, fd: RawFd, bytes: i64) {
        if let Some(segment) = self.plane.segment()
            && let Some(cookie) = kernel::cookie(fd)
        {
            segment.passed(cookie, bytes);
        }
    }

    /// The last order of `alcc ctl` that was followed.
    pub(crate) fn applied(&self) -> u64 {
        self.applied
    }

    /// The algorithm runs in the kernel, and goes on there without us.
    pub(crate) fn is_resident(&self) -> bool {
        self.resident.is_some()
    }

    /// Lets the kernel enforce the limit, if that is planned, and returns its last sample. `None`: it is not planned,
    /// or the kernel refuses.
    #[inline(never)]
    fn steer(&mut self, fd: RawFd) -> Option<AckSample> {
        let taken = (self.wanted().is_the_kernels()).then(|| {
            let maps = self.plane.maps.get()?;
            let control = alcc_sys::WINDOW_CONTROL;
            self.plane.maps.note(fd)?;
            (self.saved_options.select_under(fd, control)).map_err(io::Error::from_raw_os_error)?;
            Steering::take(maps, fd, kernel::now())
        });
        if let Some(Err(_)) = &taken {
            self.saved_options.restore(fd);
        }
        let (steering, first) = taken.and_then(io::Result::ok).unzip();
        self.steering = steering.map(Box::new);
        first
    }

    #[inline(never)]
    fn publish(&self, socket: &Takeover) -> Published {
        let Some(segment) = self.plane.segment() else {
            return Published::default();
        };
        let Peer {
            remote,
            local_port,
            outbound,
        } = socket.peer;
        let who = Identity {
            pid: std::process::id(),
            id: self.id,
            cookie: socket.cookie,
            started: kernel::now(),
            local: kernel::local_of(socket.fd).unwrap_or_else(|| ([0; 16], local_port).into()),
            remote,
            outbound,
            algorithm: self.plan.cc.to_string(),
            feedback: self.feedback().to_owned(),
            enforcement: self.enforcement().name.to_owned(),
        };
        Published::new(segment, &who)
    }

    /// Reports an event of the connection to all subscribers.
    fn emit(&mut self, event: &Event<'_>) {
        self.plane.on(event);
        self.published.on(event);
    }

    /// The algorithm in control.
    pub(crate) fn cc(&self) -> &Spec {
        self.commanded.as_deref().unwrap_or(&self.plan.cc)
    }

    /// The source of acknowledgements.
    pub(crate) fn feedback(&self) -> &'static str {
        if self.is_resident() {
            return self.wanted().name;
        }
        match (&self.steering, &self.stamps) {
            (Some(_), _) => "bpf",
            (None, Some(_)) => "timestamps",
            (None, None) => "tcp-info",
        }
    }

    pub(crate) fn is_stamped(&self) -> bool {
        self.stamps.is_some()
    }

    /// The present enforcement of the limit.
    pub(crate) fn enforcement(&self) -> Enforcement {
        let wanted = self.wanted();
        if self.is_resident() {
            return *wanted;
        }
        if self.steering.is_some() {
            return *Enforcement::in_the_kernel().unwrap_or(wanted);
        }
        wanted
            .without_the_kernel(self.plan.deployment)
            .unwrap_or(*wanted)
    }

    /// The enforcement that was asked for, which may not be possible.
    fn wanted(&self) -> &Enforcement {
        let ordered = |place: NonZeroU8| Enforcement::ALL.get(usize::from(place.get()) - 1);
        self.enforced
            .and_then(ordered)
            .unwrap_or(&self.plan.enforcement)
    }

    /// True if the kernel enforces window and rate.
    pub(crate) fn is_kept_by_the_kernel(&self) -> bool {
        self.steering.is_some()
    }

    pub(crate) fn is_in_charge(&self) -> bool {
        self.mode == Mode::Controlled
    }

    /// Time of the next reading; `None`: none is needed.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let reads = self.is_in_charge() && !self.is_resident();
        self.flow.deadline().filter(|_| reads)
    }

    /// Sets the socket's options for control.
    fn prepare(&mut self, fd: RawFd, written: u64) {
        if let Some(name) = &self.plan.under
            && self.saved_options.select_under(fd, name).is_err()
        {
            self.emit(&Event::UnderRefused);
        }
        self.enable_stamps(fd, written);
    }

    fn enable_stamps(&mut self, fd: RawFd, written: u64) {
        if self.plan.stamped && self.steering.is_none() && self.stamps.is_none() {
            self.stamps = Stamps::enable(fd, written).map(Box::new);
        }
    }

    /// Restores the socket's options as the program has set them.
    pub(crate) fn restore(&mut self, fd: RawFd) {
        self.count_resident(fd);
        if self.resident.take().is_some() {
            self.excuse(fd, -EXCUSED);
        }
        self.steering = None;
        self.saved_options.restore(fd);
        self.unsent_limit.restore(fd);
        self.disable_stamps(fd);
    }

    fn disable_stamps(&mut self, fd: RawFd) {
        if self.stamps.take().is_some() {
            Stamps::disable(fd);
        }
    }

    /// Returns to plain TCP. Without a descriptor no option can be restored.
    pub(crate) fn release(&mut self, fd: Option<RawFd>, why: Mode) {
        self.report();
        if let Some(fd) = fd {
            self.restore(fd);
        }
        self.flow.unblock();
        self.mode = why;
        self.publish_state();
    }

    fn publish_state(&mut self) {
        let state = match self.mode {
            Mode::Off => State::Off,
            Mode::Failed => State::Failed,
            Mode::Controlled | Mode::Released | Mode::Over | Mode::HandedOver => State::Controlled,
        };
        let (at, generation) = (kernel::now(), self.applied);
        self.emit(&Event::StateChanged {
            at,
            state,
            generation,
        });
    }

    /// New commands of `alcc ctl`.
    pub(crate) fn commands(&self) -> Option<Arc<Commands>> {
        self.plane.commands(self.applied)
    }

    /// Executes commands.
    pub(crate) fn apply_commands(&mut self, commands: &Commands, fd: Option<RawFd>) {
        self.applied = commands.generation;
        let commanded = commands.algorithm(&self.peer);
        let enforced =
            (commands.enforcement(&self.peer)).and_then(|name| self.enforcement_by(name));
        let is_other = enforced != self.enforced;
        if !commands.on(&self.peer) {
            if matches!(
                self.mode,
                Mode::Controlled | Mode::Failed | Mode::HandedOver
            ) {
                self.release(fd, Mode::Off);
            }
        } else if self.mode == Mode::Off
            || is_other
            || commanded.unwrap_or(&self.plan.cc) != self.cc()
        {
            // An algorithm that this process does not have is ignored.
            if let Ok(controller) = self.build(commanded.unwrap_or(&self.plan.cc)) {
                self.restart(fd, controller, |this| {
                    this.commanded = commanded.cloned().map(Box::new);
                    this.enforced = enforced;
                });
            }
        }
        self.publish_state();
    }

    /// An order of how to keep the limit, where there is a choice: the sockets of a preloaded program. A
    /// control that was selected below has a window of its own, which the kernel cannot keep for us.
    fn enforcement_by(&self, name: &str) -> Option<NonZeroU8> {
        let choice =
            self.plan.deployment == Deployment::Preloaded && !self.plane.maps.are_of_others();
        let fits = |e: &Enforcement| {
            let there = Enforcement::of(Deployment::Preloaded).any(|other| other == e);
            there && !(e.is_the_kernels() && self.plan.under.is_some())
        };
        let place = Enforcement::ALL
            .iter()
            .position(|e| choice && e.name == name && fits(e))?;
        NonZeroU8::new(u8::try_from(place + 1).ok()?)
    }

    fn build(&self, cc: &Spec) -> Built {
        let to = self.peer.remote.ip();
        self.plane.build_for(cc, to, self.plan.share)
    }

    /// Changes the algorithm, by request of the program.
    ///
    /// # Errors
    /// There is no algorithm of this name, or it refuses these options.
    pub(crate) fn set_cc(&mut self, fd: Option<RawFd>, cc: &Spec) -> Result<(), SpecError> {
        let controller = self.build(cc)?;
        self.restart(fd, controller, |this| {
            Arc::make_mut(&mut this.plan).cc = cc.clone();
            this.commanded = None;
        });
        Ok(())
    }

    /// Switches time stamps, by request of the program. If the kernel refuses them, the counters are used.
    pub(crate) fn set_stamped(&mut self, fd: Option<RawFd>, stamped: bool) {
        Arc::make_mut(&mut self.plan).stamped = stamped;
        match fd.filter(|_| self.is_in_charge()) {
            Some(fd) if stamped => self.enable_stamps(fd, self.flow.written()),
            Some(fd) => self.disable_stamps(fd),
            None => {}
        }
    }

    /// Starts a new controller with the current counters.
    fn restart(&mut self, fd: Option<RawFd>, controller: Instance, name: impl FnOnce(&mut Self)) {
        let Some((fd, reading)) = fd.and_then(|fd| Some((fd, kernel::read(fd)?))) else {
            return;
        };
        self.report();
        let before = self.wanted().name;
        let mut in_charge = self.is_in_charge();
        name(self);
        if in_charge && (self.is_resident() || self.wanted().name != before) {
            // Anew, from what the socket had: the kernel ignores the choice of a control that it has.
            self.restore(fd);
            in_charge = false;
        }
        if in_charge {
            self.saved_options.clear_pacing(fd);
        } else {
            self.prepare(fd, reading.progress.written);
        }
        let first = self.hold(fd, reading.progress.written);
        let cc = self.cc().to_string();
        self.emit(&Event::AlgorithmChanged(&Named {
            algorithm: &cc,
            feedback: self.feedback(),
            enforcement: self.enforcement().name,
        }));
        let tcp = &reading.progress;
        *self.flow = OverTcp::waiting(controller, kernel::now(), tcp);
        self.reported = Counters::default();
        self.mode = Mode::Controlled;
        if !self.is_resident() {
            self.start(fd, tcp, first.as_ref());
        } else {
            // No write of it is counted any more.
            self.excuse(fd, EXCUSED);
        }
    }

    /// Reads the samples of the socket behind a descriptor, which may be another socket by now. `None` if the kernel
    /// does not enforce the limit.
    pub(crate) fn look(&mut self, fd: RawFd) -> Option<Report> {
        let steering = self.steering.as_mut()?;
        steering.look(&self.plane.maps, fd).ok()
    }

    /// Reads the kernel's counters and passes them to the algorithm. `within`: a write may be in progress that the
    /// kernel's counters include already. `report`: the result of [`Controlled::look`] just before.
    pub(crate) fn read(&mut self, fd: RawFd, now: Time, within: bool, report: Option<Report>) {
        let Some(mut seen) = self.observe(fd, now, report) else {
            return;
        };
        let under_way = within.then(|| seen.reading.progress.in_buffer());
        if self.steering.is_some() {
            self.learn(now, &seen);
            self.set_limit(fd, now, &seen.reading.progress);
        } else {
            self.progress(fd, now, within, &mut seen.reading.progress);
        }
        self.found_pacing(fd, seen.reading.pacing);
        self.conclude(now, &seen.reading, under_way);
    }

    /// The first part of a reading: gets the kernel's state. `None`: there is nothing to do.
    pub(crate) fn observe(&mut self, fd: RawFd, now: Time, report: Option<Report>) -> Option<Seen> {
        // Before the counters, so that these are the newer ones.
        let samples = match &mut self.steering {
            None => Some(Vec::new()),
            Some(steering) => {
                let report = report.filter(|report| report.fd == fd);
                let report = report.or_else(|| steering.look(&self.plane.maps, fd).ok());
                report.map(|report| steering.take_samples(report))
            }
        };
        let Some((samples, reading)) = samples.and_then(|taken| Some((taken, kernel::read(fd)?)))
        else {
            self.release(Some(fd), Mode::Released);
            return None;
        };
        if self.steering.is_some() && !self.is_steered(fd, now, &samples, &reading.progress) {
            return None;
        }
        Some(Seen { reading, samples })
    }

    /// The second part of a reading, if the kernel enforces the limit: the algorithm takes the samples. It needs no
    /// descriptor. True if [`Controlled::set_limit`] has a change to apply.
    pub(crate) fn learn(&mut self, now: Time, seen: &Seen) -> bool {
        (self.flow).progress_sampled(now, &seen.reading.progress, &seen.samples);
        let (limit, rate) = self.limit(&seen.reading.progress);
        let is_due = |steering: &Steering| steering.is_due(now, &limit);
        self.steering.as_deref().is_some_and(is_due) || self.unsent_limit.is_due(rate)
    }

    /// The last part of a reading: publishes the state.
    pub(crate) fn conclude(&mut self, now: Time, reading: &Reading, under_way: Option<Bytes>) {
        let tcp = &reading.progress;
        let opens = (self.flow).is_writable(self.flow.in_flight(), tcp.unsent);
        if opens || !reading.alive {
            self.flow.unblock();
        }
        self.report();
        let flow = &self.flow;
        let state = alcc_observe::Reading {
            at: now,
            connection: self.id,
            tcp,
            cwnd: reading.cwnd,
            ssthresh: reading.ssthresh,
            delivery: reading.delivery,
            is_alive: reading.alive,
            in_flight: flow.in_flight(),
            under_way,
            is_idle: flow.is_idle(),
            has_more: self.has_more,
            rtt: flow.rtt(),
            allowance: flow.allowance(),
            gauges: &|put| flow.gauges(put),
            generation: self.applied,
        };
        let event = Event::Reading(&state);
        self.plane.on(&event);
        self.published.on(&event);
        if !reading.alive {
            self.mode = Mode::Over;
        }
    }

    #[inline]
    fn progress(&mut self, fd: RawFd, now: Time, within: bool, tcp: &mut TcpProgress) {
        if within {
            // Otherwise it would be counted twice.
            tcp.written = tcp.written.min(self.flow.written());
        }
        let acked = self.flow.written() - self.flow.in_flight().get();
        // Read after the counters, so every position that they have reached has its notification, unless that was
        // dropped.
        let stamps = match &mut self.stamps {
            Some(stamps) if tcp.acked != acked => stamps.drain(fd, tcp.acked),
            _ => &[],
        };
        self.flow.progress_stamped(now, tcp, stamps);
    }

    /// True if the kernel still enforces the limit. After a long silence of ours it takes the socket again; otherwise
    /// the program has selected another control for it, and keeps that.
    ///
    /// A separate function, so that readings of other sockets do not need its stack.
    #[inline(never)]
    fn is_steered(
        &mut self,
        fd: RawFd,
        now: Time,
        samples: &[AckSample],
        tcp: &TcpProgress,
    ) -> bool {
        let away = (self.steering.as_ref()).is_some_and(|steering| steering.was_away(now));
        let silent = samples.is_empty() && self.flow.has_advanced(tcp);
        if !(away || silent) || steering::holds(fd) {
            return true;
        }
        if !away {
            self.release(Some(fd), Mode::Released);
            return false;
        }
        self.saved_options.forget_under();
        self.take_again(fd);
        false
    }

    /// Takes the socket again, because the kernel's control has lost it, or it was handed over.
    fn take_again(&mut self, fd: RawFd) {
        self.unsent_limit = UnsentLimit::default();
        match self.build(self.cc()) {
            Ok(controller) => self.restart(Some(fd), controller, |_| ()),
            Err(_) => self.release(Some(fd), Mode::Released),
        }
    }

    /// The program has selected a congestion control. If the kernel enforces the limit, that replaced ours: the
    /// program's choice is restored at the end, and ours is selected again.
    pub(crate) fn found_under(&mut self, fd: RawFd) {
        let replaced = match self.resident {
            None => self.steering.is_some() && !steering::holds(fd),
            Some(_) => {
                let ours = Chosen::of(self.cc()).map(|chosen| chosen.control);
                kernel::under(fd) != ours
            }
        };
        if self.is_in_charge() && replaced {
            self.saved_options.drop_under();
            self.take_again(fd);
        }
    }

    /// The algorithm's limit, and its rate.
    fn limit(&self, tcp: &TcpProgress) -> (Limit, Rate) {
        let limit = self.flow.limit().unwrap_or_default();
        let window = Bytes::new(u64::from(limit.window) * tcp.mss.get());
        let by_window = || Rate::of(window, tcp.smoothed_rtt);
        (limit, limit.rate.unwrap_or_else(by_window))
    }

    /// Sets the algorithm's limit in the kernel. A separate function for the reason at [`Self::is_steered`].
    #[inline(never)]
    pub(crate) fn set_limit(&mut self, fd: RawFd, now: Time, tcp: &TcpProgress) {
        let (limit, rate) = self.limit(tcp);
        let Some(steering) = &mut self.steering else {
            self.unsent_limit.restore(fd);
            return;
        };
        self.unsent_limit.follow(fd, rate);
        if steering.set(fd, now, limit, tcp).is_err() {
            self.release(Some(fd), Mode::Released);
        }
    }

    /// Takes the pacing rate that is set on the socket. The algorithm's rate applies up to the program's own limit.
    pub(crate) fn found_pacing(&mut self, fd: RawFd, rate: u64) {
        self.saved_options.found(rate);
        let holds = !(self.is_unpaced || self.lent & UNPACED != 0);
        if self.enforcement().pacing && self.is_in_charge() && holds {
            self.saved_options.set_pacing(fd, self.flow.pacing_rate());
        }
    }

    /// Applies only the program's own pacing rate until [`Controlled::resume_pacing`]. Writes of a program that cannot
    /// be woken pass the gate, so our rate must not fill the kernel's buffer either: the program would get an EAGAIN
    /// that plain TCP would not give.
    pub(crate) fn lift_pacing(&mut self, fd: RawFd) {
        self.is_unpaced = true;
        self.saved_options.clear_pacing(fd);
    }

    /// Applies the algorithm's rate again, from the next reading on.
    pub(crate) fn resume_pacing(&mut self) {
        self.is_unpaced = false;
    }

    /// Another process keeps the socket, and may never close it.
    pub(crate) fn note_elsewhere(&mut self) {
        self.lent |= ELSEWHERE;
    }

    pub(crate) fn is_elsewhere(&self) -> bool {
        self.lent & ELSEWHERE != 0
    }

    /// Another process is about to get the socket: applies only the program's own pacing rate, until
    /// [`Controlled::take_back`].
    pub(crate) fn lend(&mut self, fd: RawFd) {
        self.lent |= UNPACED;
        self.saved_options.clear_pacing(fd);
    }

    /// The program itself writes again.
    pub(crate) fn take_back(&mut self, fd: RawFd) {
        self.lent &= !UNPACED;
        if self.mode == Mode::HandedOver {
            self.take_again(fd);
        }
    }

    /// Counts written bytes that bypassed the algorithm, which do not count as bytes under control.
    pub(crate) fn bypassed(&mut self, why: Bypass, n: u64) {
        self.bypassed += ByReason::of(why, n);
        self.reported.bytes += n;
    }

    /// Reports the bytes that bypassed since the last report.
    pub(crate) fn report(&mut self) {
        let now = self.flow.counters();
        let more = Counters {
            gate_closed: now.gate_closed - self.reported.gate_closed,
            bytes: now.bytes - self.reported.bytes,
        };
        let bypassed = std::mem::take(&mut self.bypassed);
        if more == Counters::default() && bypassed == ByReason::default() {
            return;
        }
        let newly_bypassed = bypassed.newly(&mut self.bypassed_before);
        self.emit(&Event::Passed(&Passed {
            bytes: Bytes::new(more.bytes),
            gate_closed: more.gate_closed,
            bypassed,
            newly_bypassed,
        }));
        self.reported = now;
    }

    /// True if the connection is read, and a subscriber follows the readings.
    pub(crate) fn is_watched_closely(&self, now: Time) -> bool {
        self.is_in_charge() && !self.is_resident() && self.published.is_traced(now)
    }

    /// The program is about to close the last descriptor. Publishes the last counters even if all data is acknowledged,
    /// because no reading may have seen that yet.
    pub(crate) fn leave(&mut self, fd: RawFd, now: Time) {
        self.count_resident(fd);
        if self.is_watched_closely(now)
            && let Some(reading) = kernel::read(fd)
        {
            self.emit(&Event::Closing {
                at: now,
                tcp: &reading.progress,
            });
        }
    }

    /// Removes the connection from the published state.
    pub(crate) fn end(&mut self) {
        self.report();
        self.emit(&Event::Closed);
    }
}

impl Plan {
    /// Falls back to the next best enforcement.
    pub(crate) fn do_without_the_kernel(&mut self) {
        if let Some(next) = self.enforcement.without_the_kernel(self.deployment) {
            self.enforcement = next;
        }
    }

    /// Seed of the controller's random numbers, different for each connection.
    fn seed_for(&self, id: u64) -> u64 {
        self.seed ^ id.rotate_left(32)
    }
}
