// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::bottleneck::Bottleneck;
use crate::changes::Changes;
use crate::queue::Queued;
use crate::radio::{Landing, Pause, Radio};
use crate::schedule::Schedule;
use crate::steady::Steady;
use crate::{DropReason, Outcome, Outcomes, Packet, QueueSpec, RadioSpec};
use alcc_trace::{OPPORTUNITY, Trace};
use alcc_units::{Bytes, Rate, Rng, Span, Time};
use std::collections::VecDeque;

/// The rate of a bottleneck.
#[derive(Clone, Debug, Default)]
pub enum RateSpec {
    /// No limit: no packet ever waits.
    #[default]
    Unlimited,
    /// A constant rate of IP bytes; packets are serialised one after the other. [`Rate::ZERO`]
    /// carries nothing.
    Fixed(Rate),
    /// The delivery opportunities of a trace, which begins at [`Time::ZERO`] and repeats. Each
    /// carries up to 1500 bytes. That is several small packets, or a part of a large one that is
    /// continued in the next. The unused part of an opportunity is lost. This is Mahimahi's link,
    /// without the 4 bytes that its tunnel adds to every packet (and to an opportunity).
    Trace(Trace),
}

/// One direction of a path.
#[derive(Clone, Debug, Default)]
pub struct DirectionSpec {
    /// The rate of its bottleneck.
    pub rate: RateSpec,
    /// The queue before the bottleneck.
    pub queue: QueueSpec,
    /// One-way propagation delay.
    pub delay: Span,
    /// Probability of random loss before the bottleneck, 0 to 1, independent for every packet. Loss
    /// after it is that of a radio link: [`RadioSpec`] `loss` and `bursts`.
    pub loss: f64,
    /// The changes over time.
    pub changes: Changes,
    /// The effects of the radio link after the bottleneck, in this order.
    pub radio: Vec<RadioSpec>,
}

/// The direction of a packet. The parts of a direction have a fixed order: that of a bottleneck
/// shell nested in a delay shell around the client. Random loss comes before the bottleneck, the
/// radio link after it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Dir {
    /// Towards the client: delay, loss, bottleneck.
    #[default]
    Down,
    /// From the client: loss, bottleneck, delay.
    Up,
}

impl Dir {
    /// Both directions.
    pub const BOTH: [Self; 2] = [Self::Down, Self::Up];

    /// The opposite direction.
    pub const fn back(self) -> Self {
        match self {
            Self::Down => Self::Up,
            Self::Up => Self::Down,
        }
    }

    /// Its name in files and fields: `down`, `up`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
        }
    }
}

/// One direction of a path in operation.
///
/// The host pushes packets, reads the time of the next event, and advances. Outcomes carry the
/// times of the model, so a host that calls late gets them late, but correct. Time never goes back:
/// an earlier `now` counts as the latest one. Events at [`Time::MAX`] never happen.
///
/// ```
/// use alcc_link::{Dir, Direction, DirectionSpec, Ecn, Packet, RateSpec};
/// use alcc_units::{Bytes, Rate, Time};
///
/// let spec = DirectionSpec {
///     rate: RateSpec::Fixed(Rate::mbps(12)),
///     queue: "codel:target=5ms".parse()?,
///     ..DirectionSpec::default()
/// };
/// let mut down = Direction::new(&spec, Dir::Down, 1);
/// let mut outcomes = Vec::new();
/// let packet = Packet { id: 1, flow: 0, len: Bytes::new(1500), ecn: Ecn::NotEct };
/// down.push(Time::ZERO, packet, &mut outcomes);
/// assert_eq!(down.next_event(), Some(Time::from_millis(1)));
/// # Ok::<(), alcc_units::SpecError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Direction {
    spec_rate: RateSpec,
    dir: Dir,
    delay: Span,
    loss: f64,
    /// The schedule of the rate; a rate of `None` is the initial one.
    rates: Option<Schedule<Option<Rate>>>,
    delays: Option<Schedule<Span>>,
    losses: Option<Schedule<f64>>,
    reorder: bool,
    clock: Time,
    /// Time of the next event of a packet; cached, because it is read far more often than it
    /// changes.
    due: Time,
    /// The simpler model, used if there is no random loss, no change and no radio link, and the
    /// queue only has limits.
    steady: Option<Steady>,
    /// True if the rate does not change and there is no radio link; checked at every step.
    plain: bool,
    bottleneck: Bottleneck,
    radio: Vec<Box<dyn Radio>>,
    /// Effects on packets at the end of the direction.
    ends: Vec<Box<dyn Radio>>,
    /// The next pause of the bottleneck.
    pause: Option<Pause>,
    /// Packets on the radio link, with the time at which each has passed it.
    on_air: VecDeque<(Time, InPropagation)>,
    /// Packets in propagation, with the time at which each has passed it; before or after the
    /// bottleneck, depending on `dir`.
    propagating: VecDeque<(Time, InPropagation)>,
    rng: Rng,
}

#[derive(Clone, Copy, Debug)]
struct InPropagation {
    packet: Packet,
    // `arrived` is the arrival at the bottleneck, `at` the departure from it; without a bottleneck
    // before it they are equal.
    arrived: Time,
    departed: Time,
}

impl Direction {
    /// An empty direction at [`Time::ZERO`]. The same `seed` and calls give the same outcomes; the
    /// two directions of a path should have different seeds.
    pub fn new(spec: &DirectionSpec, dir: Dir, seed: u64) -> Self {
        let mut seeds = Rng::new(seed);
        let rng = Rng::new(seeds.next_u64());
        let queue_rng = Rng::new(seeds.next_u64());
        let changes = &spec.changes;
        let (ends, radio): (Vec<_>, Vec<_>) = (spec.radio.iter())
            .map(|radio| radio.radio(seeds.next_u64()))
            .partition(|radio| radio.is_last());
        let rates = rates(&spec.rate, changes);
        let delays = Schedule::new(spec.delay, changes, |s| s.delay);
        let losses = Schedule::new(spec.loss, changes, |s| s.loss);
        let queue = spec.queue.queue();
        let changing = rates.is_some() || delays.is_some() || losses.is_some();
        let limits = queue
            .drop_tail()
            .filter(|_| !changing && spec.loss <= 0.0 && spec.radio.is_empty());
        Self {
            plain: rates.is_none() && radio.is_empty(),
            steady: limits.and_then(|limits| Steady::new(&spec.rate, limits, dir, spec.delay)),
            pause: pause(&radio, Time::ZERO),
            radio,
            ends,
            on_air: VecDeque::new(),
            spec_rate: spec.rate.clone(),
            dir,
            delay: spec.delay,
            loss: spec.loss,
            rates,
            delays,
            losses,
            reorder: changes.reorder,
            clock: Time::ZERO,
            due: Time::MAX,
            bottleneck: Bottleneck::new(&spec.rate, queue, queue_rng),
            propagating: VecDeque::new(),
            rng,
        }
    }

    /// A packet enters at `now`, after all events up to `now`.
    pub fn push(&mut self, now: Time, packet: Packet, out: &mut impl Outcomes) {
        self.clock = self.clock.max(now);
        match &mut self.steady {
            Some(steady) => steady.push(self.clock, packet, out),
            None => self.push_through(self.clock, packet, out),
        }
    }

    /// The same, with changes or a queue with its own rule.
    #[inline(never)]
    fn push_through(&mut self, now: Time, packet: Packet, out: &mut impl Outcomes) {
        self.catch_up(out);
        match self.dir {
            Dir::Down => self.travel(now, packet, now, now),
            Dir::Up => {
                if self.lost(now) {
                    out.tell(dropped(now, packet, DropReason::Loss));
                } else {
                    self.arrive(now, packet, out);
                    self.route(now, out);
                }
            }
        }
        self.due = self.next();
        self.catch_up(out);
    }

    /// Processes all events up to `now`, in order of time. A caller that is not
    /// [watching](Outcomes::is_watching) may get a packet's intermediate outcomes only with its
    /// last.
    #[inline]
    pub fn advance(&mut self, now: Time, out: &mut impl Outcomes) {
        self.clock = self.clock.max(now);
        match &mut self.steady {
            Some(steady) => steady.advance(self.clock, out),
            None => self.catch_up(out),
        }
    }

    fn catch_up(&mut self, out: &mut impl Outcomes) {
        while self.due <= self.clock && self.due < Time::MAX {
            self.happen(self.due, out);
            self.due = self.next();
        }
    }

    /// The time of the next event of a packet in [`advance`](Self::advance). `None` if no packet is
    /// inside or none will ever move: an idle link needs no wake-up, even if it follows a trace.
    #[inline]
    pub fn next_event(&self) -> Option<Time> {
        let next = (self.steady.as_ref()).map_or(self.due, Steady::next);
        Some(next).filter(|at| *at < Time::MAX)
    }

    /// A time not later than the next delivery, for a host that needs only deliveries in time.
    /// `None` as for [`next_event`](Self::next_event).
    #[inline]
    pub fn next_delivery(&self) -> Option<Time> {
        let next = (self.steady.as_ref()).map_or(self.due, Steady::next_delivery);
        Some(next).filter(|at| *at < Time::MAX)
    }

    /// Processes the first event at `at`.
    #[inline]
    fn happen(&mut self, at: Time, out: &mut impl Outcomes) {
        // The bottleneck comes first: a packet that arrives at the moment of an opportunity has
        // missed it.
        if self.bottleneck.next() == at {
            self.bottleneck.serve(at, out);
            self.route(at, out);
        } else if self.next_change() == at {
            self.change(at, out);
        } else if let Some((_, t)) = self.propagating.pop_front() {
            if self.dir == Dir::Up {
                self.deliver(at, t, out);
            } else if self.lost(at) {
                out.tell(dropped(at, t.packet, DropReason::Loss));
            } else {
                self.arrive(at, t.packet, out);
                self.route(at, out);
            }
        }
    }

    /// Time of the next event; [`Time::MAX`] means never.
    #[inline]
    fn next(&self) -> Time {
        let next = self.next_arrival().min(self.bottleneck.next());
        next.min(self.next_change())
    }

    /// Time of the next event of the rate or the radio link.
    #[inline]
    fn next_change(&self) -> Time {
        if self.plain {
            return Time::MAX;
        }
        let next = self.next_step().min(self.next_landing());
        next.min(self.next_pause())
    }

    /// Processes the first of these events.
    fn change(&mut self, at: Time, out: &mut impl Outcomes) {
        if self.next_step() == at {
            self.step(at, out);
            self.route(at, out);
        } else if self.next_pause() == at {
            self.stand_still(at);
        } else if let Some((_, packet)) = self.on_air.pop_front() {
            self.land(at, packet, out);
        }
    }

    /// The capacity of the bottleneck after `from` and up to and including `to`, in bytes. The
    /// utilization is deliveries in that window over these bytes. [`Bytes::MAX`] without a
    /// bottleneck. The capacity is zero while the radio link pauses.
    pub fn opportunity_bytes(&self, from: Time, to: Time) -> Bytes {
        let open = self.open(from, to);
        let Some(rates) = &self.rates else {
            return self.offered(&open);
        };
        // Fractions of bytes of the pieces are added.
        let mut bit_ns = 0_u128;
        let mut bytes = Bytes::ZERO;
        for (from, to, rate) in open.iter().flat_map(|(from, to)| rates.pieces(*from, *to)) {
            match rate {
                None => bytes += self.offered(&[(from, to)]),
                Some(rate) => {
                    let piece = u128::from(rate.as_bps()) * u128::from(to.since(from).as_nanos());
                    bit_ns = bit_ns.saturating_add(piece);
                }
            }
        }
        let steady = u64::try_from(bit_ns / 8_000_000_000).unwrap_or(u64::MAX);
        bytes + Bytes::new(steady)
    }

    /// The parts of a time without its pauses. An opportunity at the end of a pause counts.
    fn open(&self, from: Time, to: Time) -> Vec<(Time, Time)> {
        let mut open = Vec::new();
        let mut from = from;
        while let Some(Pause { begin, end }) = pause(&self.radio, from).filter(|p| p.begin < to) {
            if begin > from {
                open.push((from, begin));
            }
            // An opportunity at the very moment of the end counts.
            if end <= to {
                open.push((end - Span::from_nanos(1), end));
            }
            from = end;
        }
        if from < to {
            open.push((from, to));
        }
        open
    }

    /// The capacity in these times, at the initial rate.
    fn offered(&self, open: &[(Time, Time)]) -> Bytes {
        let spans = || open.iter().map(|(from, to)| to.since(*from));
        match &self.spec_rate {
            RateSpec::Unlimited => Bytes::MAX,
            RateSpec::Fixed(rate) => rate.bytes_in(spans().fold(Span::ZERO, |a, b| a + b)),
            RateSpec::Trace(trace) => {
                let cursor = trace.cursor();
                let up_to = |time: Time| cursor.count_before(time + Span::from_nanos(1));
                let count = |(from, to): &(Time, Time)| up_to(*to).saturating_sub(up_to(*from));
                OPPORTUNITY * open.iter().map(count).sum::<u64>()
            }
        }
    }

    /// The number of packets inside: neither delivered nor dropped yet.
    pub fn inside(&self) -> usize {
        let steady = self.steady.as_ref().map_or(0, Steady::inside);
        steady + self.bottleneck.inside() + self.on_air.len() + self.propagating.len()
    }

    #[inline]
    fn travel(&mut self, now: Time, packet: Packet, arrived: Time, departed: Time) {
        let propagating = InPropagation {
            packet,
            arrived,
            departed,
        };
        if let Some(delays) = &mut self.delays {
            self.delay = delays.at(now);
        }
        let due = now + self.delay;
        match self.propagating.back() {
            Some((last, _)) if due < *last && self.reorder => {
                let place = self.propagating.partition_point(|(other, _)| *other <= due);
                self.propagating.insert(place, (due, propagating));
            }
            Some((last, _)) => self.propagating.push_back((due.max(*last), propagating)),
            None => self.propagating.push_back((due, propagating)),
        }
    }

    fn lost(&mut self, now: Time) -> bool {
        if let Some(losses) = &mut self.losses {
            self.loss = losses.at(now);
        }
        self.loss > 0.0 && self.rng.chance(self.loss)
    }

    /// A packet reaches the bottleneck.
    #[inline]
    fn arrive(&mut self, now: Time, packet: Packet, out: &mut impl Outcomes) {
        if !self.plain {
            self.wake(now, out);
        }
        self.bottleneck.arrive(now, packet, out);
    }

    /// Makes up for the events that an idle bottleneck has skipped.
    fn wake(&mut self, now: Time, out: &mut impl Outcomes) {
        // Changes of the rate; a busy bottleneck has processed them in time.
        if self.rates.as_ref().is_some_and(|rates| rates.next() <= now) {
            self.step(now, out);
        }
        // Pauses in the same way.
        if self.pause.is_some_and(|pause| pause.begin <= now) {
            self.stand_still(now);
        }
    }

    /// Starts the current pause, if it has not ended. Later ones are still to come.
    fn stand_still(&mut self, now: Time) {
        while let Some(due) = self.pause.filter(|pause| pause.begin <= now) {
            if due.end > now {
                self.bottleneck.stand_still(now, due.end);
            }
            self.pause = pause(&self.radio, due.end);
        }
    }

    /// Time of the next pause, if the bottleneck has a packet; an idle one need not be woken.
    #[inline]
    fn next_pause(&self) -> Time {
        match self.pause {
            Some(pause) if self.bottleneck.is_busy() => pause.begin,
            _ => Time::MAX,
        }
    }

    /// Time at which the first packet on the radio link has passed it.
    #[inline]
    fn next_landing(&self) -> Time {
        self.on_air.front().map_or(Time::MAX, |(due, _)| *due)
    }

    /// The time at which a packet that the bottleneck has carried has passed the radio link.
    fn through(&mut self, at: Time) -> Time {
        let mut through = at;
        for radio in &mut self.radio {
            through = radio.through(through).max(through);
            if let Some(pause) = radio.pause(through).filter(|p| p.begin <= through) {
                through = pause.end;
            }
        }
        let before = self.on_air.back().map_or(Time::ZERO, |(due, _)| *due);
        through.max(before)
    }

    /// A packet has passed the radio link.
    #[inline]
    fn land(&mut self, at: Time, landed: InPropagation, out: &mut impl Outcomes) {
        if self.dir == Dir::Down {
            self.deliver(at, landed, out);
        } else {
            self.travel(at, landed.packet, landed.arrived, landed.departed);
        }
    }

    /// A packet has reached the end of the direction.
    #[inline]
    fn deliver(&mut self, at: Time, landed: InPropagation, out: &mut impl Outcomes) {
        if self.ends.is_empty() || self.is_whole(at, landed.packet, out) {
            out.tell(landed.delivered(at));
        }
    }

    /// Applies the effects at the end of the direction and reports them. False: the packet does not
    /// arrive.
    #[cold]
    fn is_whole(&mut self, at: Time, packet: Packet, out: &mut impl Outcomes) -> bool {
        let mut twice = false;
        let mut corrupt = false;
        for end in &mut self.ends {
            let landing = end.lands();
            twice |= landing == Landing::Twice;
            corrupt |= landing == Landing::Corrupt;
        }
        if corrupt {
            out.tell(dropped(at, packet, DropReason::Corrupt));
        } else if twice {
            out.tell(Outcome::Repeated { at, packet });
        }
        !corrupt
    }

    /// Time at which the first packet in propagation has passed it.
    #[inline]
    fn next_arrival(&self) -> Time {
        self.propagating.front().map_or(Time::MAX, |(due, _)| *due)
    }

    /// Time of the next change of the rate, if the bottleneck has a packet; an idle one need not be
    /// woken.
    #[inline]
    fn next_step(&self) -> Time {
        match &self.rates {
            Some(rates) if self.bottleneck.is_busy() => rates.next(),
            _ => Time::MAX,
        }
    }

    fn step(&mut self, now: Time, out: &mut impl Outcomes) {
        if let Some(rate) = self.rates.as_mut().and_then(|rates| rates.at(now)) {
            self.bottleneck.set_rate(now, rate, out);
        }
    }

    /// Forwards the packets that have departed from the bottleneck at `at`.
    #[inline]
    fn route(&mut self, at: Time, out: &mut impl Outcomes) {
        for i in 0..self.bottleneck.departed.len() {
            let Queued { packet, arrived } = self.bottleneck.departed[i];
            let packet = InPropagation {
                packet,
                arrived,
                departed: at,
            };
            if self.radio.is_empty() {
                self.land(at, packet, out);
            } else if self.radio.iter_mut().any(|radio| radio.loses(at)) {
                out.tell(dropped(at, packet.packet, DropReason::Radio));
            } else {
                let through = self.through(at);
                self.on_air.push_back((through, packet));
            }
        }
        self.bottleneck.departed.clear();
    }
}

/// The first pause that ends after `time`.
fn pause(radio: &[Box<dyn Radio>], time: Time) -> Option<Pause> {
    let pauses = radio.iter().filter_map(|radio| radio.pause(time));
    pauses.min_by_key(|pause| pause.begin)
}

fn rates(first: &RateSpec, changes: &Changes) -> Option<Schedule<Option<Rate>>> {
    let of = |step: &crate::Step| step.rate.map(Some);
    if let RateSpec::Fixed(rate) = first {
        let moves = *rate > Rate::ZERO || changes.steps.iter().any(|s| s.rate > Some(Rate::ZERO));
        // A link that never carries anything must not be checked forever.
        return Schedule::new(Some(*rate), changes, of).filter(|_| moves);
    }
    // A link does not return to its trace.
    let once = Changes {
        repeat: None,
        ..changes.clone()
    };
    Schedule::new(None, &once, of)
}

impl InPropagation {
    fn delivered(self, at: Time) -> Outcome {
        Outcome::Delivered {
            at,
            packet: self.packet,
            queue_delay: self.departed.since(self.arrived),
            arrived: self.arrived,
        }
    }
}

const fn dropped(at: Time, packet: Packet, why: DropReason) -> Outcome {
    Outcome::Dropped { at, packet, why }
}
