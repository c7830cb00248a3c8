// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a controlled connection takes of the memory of the process, for every algorithm: counted by
//! an allocator.
use alcc_cc::{Registry, Spec};
use alcc_flow::{OverTcp, TcpProgress};
use alcc_socket::Conn;
use alcc_units::{Bytes, Span, Time};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;

/// What is asked of an idle connection, bytes.
const IDLE: isize = 4096;
/// Sprout keeps what it believes of 256 rates: the one algorithm that takes more.
const IDLE_SPROUT: isize = 8192;
/// What an allocation costs besides its bytes, in dlmalloc (preload) and glibc's malloc.
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

/// A connection over a link of 15 Mbit/s and 40 ms, and a program that keeps at most so many
/// segments in the kernel.
struct Transfer {
    flow: OverTcp,
    tcp: TcpProgress,
    /// When each segment is acknowledged.
    arrivals: VecDeque<Time>,
    now: Time,
    served: Time,
    /// Of a segment, and how it changes from one to the next.
    service: Span,
    slower: f64,
    most: isize,
}

const MSS: u64 = 1448;

impl Transfer {
    fn new(spec: &Spec) -> Self {
        let tcp = TcpProgress {
            mss: Bytes::new(MSS),
            min_rtt: Span::from_millis(40),
            ..TcpProgress::default()
        };
        let cc = Registry::builtin().build(spec).unwrap();
        Self {
            flow: OverTcp::new(cc, Time::ZERO, &tcp, 1),
            tcp,
            arrivals: VecDeque::new(),
            now: Time::ZERO,
            served: Time::ZERO,
            service: Span::from_micros(772),
            slower: 1.0,
            most: isize::MIN,
        }
    }

    /// Sends so many segments and waits for the last acknowledgement, with at most `window` of them
    /// on their way.
    fn send(&mut self, segments: usize, window: usize) {
        let mut left = segments;
        while left > 0 || !self.arrivals.is_empty() {
            let queued = Bytes::new(self.arrivals.len() as u64 * MSS);
            if self.flow.is_writable(queued, Bytes::ZERO) {
                self.flow.unblock();
            }
            let fits = left.min(window.saturating_sub(self.arrivals.len()));
            if fits > 0 && !self.flow.is_blocked() {
                let wanted = Bytes::new(fits as u64 * MSS);
                let room = self.flow.room(self.now, wanted, queued, Bytes::ZERO);
                let n = usize::try_from(room.get() / MSS).unwrap();
                self.flow.wrote(self.now, Bytes::new(n as u64 * MSS));
                for _ in 0..n {
                    self.served = self.served.max(self.now) + self.service;
                    self.service = self.service.mul_f64(self.slower);
                    self.arrivals.push_back(self.served + Span::from_millis(40));
                }
                self.tcp.written += n as u64 * MSS;
                left -= n;
            }
            self.most = self.most.max(used());
            self.now = match self.flow.deadline() {
                Some(due) => due.max(self.now + Span::from_micros(100)),
                None => self.now + Span::from_millis(1),
            };
            while self.arrivals.front().is_some_and(|at| *at <= self.now) {
                self.arrivals.pop_front();
                self.tcp.acked += MSS;
            }
            self.flow.progress(self.now, &self.tcp);
            assert!(
                self.now < Time::from_millis(3_600_000),
                "the transfer hangs"
            );
        }
    }
}

#[test]
fn an_idle_connection_stays_below_4_kib_whatever_the_algorithm() {
    let conn = (size_of::<Conn<()>>() + HEADER) as isize;
    println!(
        "bytes per connection (16 for each allocation's header included; {conn} of them not the algorithm's or the ledger's)"
    );
    println!(
        "algorithm                    new   most in 1 MB   idle after 1 MB   idle after 20 MB   after 1 MB of ever longer delays"
    );
    let mut failures = Vec::new();
    let mut specs: Vec<Spec> = Vec::new();
    for algorithm in Registry::builtin().iter() {
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
        drop(Registry::builtin().build(spec).unwrap().receiver());
        let before = used();
        let mut transfer = Transfer::new(spec);
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
        if new.max(idle).max(later).max(worst) > bound {
            failures.push(name);
        }
    }
    assert!(
        failures.is_empty(),
        "above {IDLE} bytes (Sprout {IDLE_SPROUT}): {failures:?}"
    );
}
