// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that after its first seconds no algorithm allocates memory per packet or per tick,
//! because a server runs thousands of them. Allocations about once a second (Verus's fit), or by a
//! table that still grows to its bound, are allowed.
use alcc_cc::{
    AckBatch, Allowance, Controller, Cx, Header, Instance, LossBatch, Needs, Path, Pn, Receiver,
    RecoveryEnd, Report, Rto, Sending, Sent, Spurious, Tag, WithReceiver, conformance,
};
use alcc_units::{Bytes, Rate, Span, Time};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

impl Counting {
    fn count() {
        if INSIDE.get() {
            COUNT.set(COUNT.get() + 1);
        }
    }
}

// SAFETY: everything is the system's; the counters are plain cells of this thread without
// destructors.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Most allocations in 15 s with 1000 packets and up to 200 ticks each.
const FEW: u64 = 15 * 20;

/// Counts what happens inside the algorithm once it has run for this long.
const SETTLED: Time = Time::from_millis(5_000);

#[derive(Clone)]
struct Watched(Instance);

impl Watched {
    fn watch<T>(&mut self, now: Time, call: impl FnOnce(&mut Instance) -> T) -> T {
        INSIDE.set(now >= SETTLED);
        let result = call(&mut self.0);
        INSIDE.set(false);
        result
    }
}

impl Controller for Watched {
    fn needs(&self) -> Needs {
        self.0.needs()
    }
    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.watch(cx.now, |cc| cc.on_start(cx, path));
    }
    fn on_sent(&mut self, cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        self.watch(cx.now, |cc| cc.on_sent(cx, sent))
    }
    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        self.watch(cx.now, |cc| cc.on_ack(cx, ack));
    }
    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        self.watch(cx.now, |cc| cc.on_loss(cx, loss));
    }
    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        self.watch(cx.now, |cc| cc.on_rto(cx, rto));
    }
    fn on_spurious(&mut self, cx: &mut Cx<'_>, what: Spurious) {
        self.watch(cx.now, |cc| cc.on_spurious(cx, what));
    }
    fn on_recovery_end(&mut self, cx: &mut Cx<'_>, end: &RecoveryEnd) {
        self.watch(cx.now, |cc| cc.on_recovery_end(cx, end));
    }
    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        self.watch(cx.now, |cc| cc.on_timer(cx));
    }
    fn allowance(&self) -> Allowance {
        self.0.allowance()
    }
    fn next_timer(&self) -> Option<Time> {
        self.0.next_timer()
    }
}

impl WithReceiver for Watched {
    fn header(&mut self, cx: &mut Cx<'_>, sending: &Sending) -> Header {
        self.watch(cx.now, |cc| cc.header(cx, sending))
    }
    fn receiver(&self) -> Box<dyn Receiver> {
        Box::new(WatchedHalf(self.0.receiver().expect("it has one")))
    }
    fn header_len(&self) -> u8 {
        self.0.header_len()
    }
    fn on_feedback(&mut self, cx: &mut Cx<'_>, report: &[u8]) {
        self.watch(cx.now, |cc| cc.on_feedback(cx, report));
    }
}

#[derive(Clone)]
struct WatchedHalf(Box<dyn Receiver>);

impl WatchedHalf {
    fn watch<T>(&mut self, now: Time, call: impl FnOnce(&mut dyn Receiver) -> T) -> T {
        INSIDE.set(now >= SETTLED);
        let result = call(self.0.as_mut());
        INSIDE.set(false);
        result
    }
}

impl Receiver for WatchedHalf {
    fn on_packet(&mut self, now: Time, pn: Pn, len: Bytes, header: &[u8]) {
        self.watch(now, |half| half.on_packet(now, pn, len, header));
    }
    fn next_timer(&self) -> Option<Time> {
        self.0.next_timer()
    }
    fn on_timer(&mut self, now: Time) {
        self.watch(now, |half| half.on_timer(now));
    }
    fn report(&mut self, now: Time) -> Option<Report> {
        self.watch(now, |half| half.report(now))
    }
}

#[test]
fn no_algorithm_allocates_per_packet_or_tick() {
    // A buffer of one and a half bandwidth-delay products: loss-based algorithms lose, the others
    // measure delay.
    let mut scenario =
        conformance::Scenario::constant(Rate::mbps(12), Span::from_millis(40), Span::from_secs(20));
    scenario.queue = 60;
    let registry = alcc_zoo::registry();
    let mut guilty = Vec::new();
    for algorithm in registry.iter() {
        let spec = algorithm.name.parse().unwrap();
        let Ok(cc) = registry.build(&spec) else {
            continue;
        };
        COUNT.set(0);
        let result = conformance::run(&scenario, vec![cc.wrapped(Watched)]);
        assert!(result[0].packets(SETTLED) > 100, "{}", algorithm.name);
        if COUNT.get() > FEW {
            guilty.push(format!("{}: {}", algorithm.name, COUNT.get()));
        }
    }
    assert!(guilty.is_empty(), "allocations after {SETTLED}: {guilty:?}");
}
