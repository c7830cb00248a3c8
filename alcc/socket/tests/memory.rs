// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of the process per controlled connection, for every algorithm, counted by an allocator.
use alcc_cc::Spec;
use alcc_flow::{AckSample, OverTcp, TcpProgress};
use alcc_socket::Conn;
use alcc_units::{Bytes, Span, Time};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;

/// Limit of the memory of an idle connection, bytes.
const IDLE: isize = 4096;
/// Memory of the kernel's samples, in addition to an empty ledger, bytes.
const STEERED: isize = 184;
/// Sprout keeps what it believes of 256 rates: the one algorithm that takes more.
const IDLE_SPROUT: isize = 8192;
/// Overhead of an allocation in dlmalloc (preload) and glibc's malloc, bytes.
const HEADER: usize = 16;

struct Counting;

thread_local! {
    static USED: Cell<isize> = const { Cell::new(0) };
}

fn count(add: usize, remove: usize) {
    // A thread that ends frees what it no longer counts.
    let _ = USED.try_with(|used| used.set(used.get() + add as isize - remove as isize));
}

// SAFETY: the system's allocator does everything; we only count.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() + HEADER, 0);
        // SAFETY: by the trait's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(0, layout.size() + HEADER);
        // SAFETY: by the trait's contract.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn used() -> isize {
    USED.get()
}

/// A connection over a link of 15 Mbit/s and 40 ms, and a program that keeps a limited number of
/// segments in the kernel.
struct Transfer {
    flow: OverTcp,
    tcp: TcpProgress,
    /// Time of the acknowledgement of each segment, and of sending it.
    arrivals: VecDeque<(Time, Time)>,
    /// The last sample, if the kernel enforces the window.
    told: Option<AckSample>,
    now: Time,
    served: Time,
    /// Service time of a segment, and its change from one to the next.
    service: Span,
    slower: f64,
    most: isize,
}

const MSS: u64 = 1448;

impl Transfer {
    fn new(spec: &Spec, steered: bool) -> Self {
        let tcp = TcpProgress {
            mss: Bytes::new(MSS),
            min_rtt: Span::from_millis(40),
            ..TcpProgress::default()
        };
        let cc = alcc_zoo::registry().build(spec).unwrap();
        let mut flow = OverTcp::new(cc, Time::ZERO, &tcp, 1);
        let told = steered.then_some(AckSample {
            at: Time::ZERO,
            rtt: None,
            delivered: 0,
            lost: 0,
            in_flight: 0,
        });
        if let Some(first) = &told {
            flow.use_samples(first);
        }
        Self {
            flow,
            tcp,
            arrivals: VecDeque::new(),
            told,
            now: Time::ZERO,
            served: Time::ZERO,
            service: Span::from_micros(772),
            slower: 1.0,
            most: isize::MIN,
        }
    }

    /// Sends segments and waits for the last acknowledgement, with at most `window` of them in
    /// flight.
    fn send(&mut self, segments: usize, window: usize) {
        let mut remaining = segments;
        while remaining > 0 || !self.arrivals.is_empty() {
            let queued = Bytes::new(self.arrivals.len() as u64 * MSS);
            if self.flow.is_writable(queued, Bytes::ZERO) {
                self.flow.unblock();
            }
            let fits = remaining.min(window.saturating_sub(self.arrivals.len()));
            if fits > 0 && !self.flow.is_blocked() {
                let n = self.room(fits, queued);
                self.flow.wrote(self.now, Bytes::new(n as u64 * MSS));
                for _ in 0..n {
                    self.served = self.served.max(self.now) + self.service;
                    self.service = self.service.mul_f64(self.slower);
                    let arrives = self.served + Span::from_millis(40);
                    self.arrivals.push_back((arrives, self.now));
                }
                self.tcp.written += n as u64 * MSS;
                remaining -= n;
            }
            self.most = self.most.max(used());
            self.now = match self.flow.deadline() {
                Some(due) => due.max(self.now + Span::from_micros(100)),
                None => self.now + Span::from_millis(1),
            };
            self.read();
            assert!(
                self.now < Time::from_millis(3_600_000),
                "the transfer hangs"
            );
        }
    }

    /// The number of `wanted` segments that may be sent.
    fn room(&mut self, wanted: usize, queued: Bytes) -> usize {
        let (Some(told), Some(limit)) = (self.told, self.flow.limit()) else {
            let wanted = Bytes::new(wanted as u64 * MSS);
            let room = self.flow.room(self.now, wanted, queued, Bytes::ZERO);
            return usize::try_from(room.get() / MSS).unwrap();
        };
        let in_flight = self.arrivals.len() as u32;
        let room = limit.window.saturating_sub(in_flight);
        let sent = told.delivered + in_flight;
        let remaining = limit.until.map_or(u32::MAX, |n| n.saturating_sub(sent));
        wanted.min(room.min(remaining) as usize)
    }

    fn read(&mut self) {
        let mut samples = Vec::new();
        while let Some(&(at, sent)) = self.arrivals.front().filter(|(at, _)| *at <= self.now) {
            self.arrivals.pop_front();
            self.tcp.acked += MSS;
            if let Some(told) = &mut self.told {
                told.at = at;
                told.rtt = Some(at.since(sent));
                told.delivered += 1;
                told.in_flight = self.arrivals.len() as u32;
                samples.push(*told);
            }
        }
        self.tcp.in_flight = self.arrivals.len() as u32;
        if self.told.is_some() {
            self.flow.progress_sampled(self.now, &self.tcp, &samples);
        } else {
            self.flow.progress(self.now, &self.tcp);
        }
    }
}

#[test]
fn an_idle_connection_stays_below_4_kib_whatever_the_algorithm() {
    idle_connections_are_small(false);
}

#[test]
fn so_does_one_whose_window_the_kernel_keeps() {
    idle_connections_are_small(true);
}

fn idle_connections_are_small(steered: bool) {
    let conn = (size_of::<Conn<()>>() + HEADER) as isize;
    println!(
        "bytes per connection (16 for each allocation's header included; {conn} of them not the algorithm's or the ledger's)"
    );
    println!(
        "algorithm                    new   most in 1 MB   idle after 1 MB   idle after 20 MB   after 1 MB of ever longer delays"
    );
    let mut failures = Vec::new();
    let mut specs: Vec<Spec> = Vec::new();
    for algorithm in alcc_zoo::registry().iter() {
        specs.push(Spec::named(algorithm.name));
        for profile in algorithm.profiles.iter().skip(1) {
            specs.push(
                format!("{}:profile={profile}", algorithm.name)
                    .parse()
                    .unwrap(),
            );
        }
    }
    for spec in &specs {
        let name = spec.to_string();
        // Tables that all connections of a process share are made with the first.
        drop(alcc_zoo::registry().build(spec).unwrap().receiver());
        let before = used();
        let mut transfer = Transfer::new(spec, steered);
        // The ledger is an allocation of its own.
        let ledger = (size_of::<OverTcp>() + HEADER) as isize;
        let whole = |used: isize| used - before + ledger + conn;
        let new = whole(used());
        transfer.send(691, 50);
        let most = whole(transfer.most);
        transfer.arrivals = VecDeque::new();
        let idle = whole(used());
        transfer.send(13_812, 50);
        transfer.arrivals = VecDeque::new();
        let later = whole(used());
        // Each delay is longer than all before it: a sliding minimum forgets nothing but what is
        // too old.
        transfer.slower = 1.001;
        transfer.send(691, 400);
        transfer.arrivals = VecDeque::new();
        let worst = whole(used());
        println!("{name:24} {new:7} {most:14} {idle:17} {later:18} {worst:32}");
        let bound = if spec.name == "sprout" {
            IDLE_SPROUT
        } else {
            IDLE
        };
        // A receiver module keeps data about packets above holes, so the last column is for the
        // gate alone.
        let (bound, worst) = if steered {
            (bound + STEERED, 0)
        } else {
            (bound, worst)
        };
        if new.max(idle).max(later).max(worst) > bound {
            failures.push(name);
        }
    }
    assert!(
        failures.is_empty(),
        "above {IDLE} bytes (Sprout {IDLE_SPROUT}): {failures:?}"
    );
}
