// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of a flow, because thousands are simulated at once. Counts allocated bytes, not what the
//! system provides.
use alcc_link::{QueueSpec, RateSpec};
use alcc_sim::{Scenario, Simulation};
use alcc_units::{Rate, Span, Time};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: the system's allocator with a count.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Relaxed);
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller says.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

/// A thousand flows that share 10 Mbit/s have some fifty packets each, and timeouts of many seconds
/// between them.
#[test]
fn a_flow_of_few_packets_and_long_pauses_is_small() {
    const FLOWS: usize = 1_000;
    let queue: QueueSpec = "droptail:packets=33".parse().unwrap();
    let link = RateSpec::Fixed(Rate::mbps(10));
    let mut scenario = Scenario::dumbbell(link, Span::from_millis(40), queue)
        .with(&format!("{FLOWS}*cubic:profile=linux/stagger=1ms"))
        .unwrap();
    scenario.duration = Span::from_secs(60);
    let before = ALLOCATED.load(Relaxed);
    let mut simulation = Simulation::new(&scenario).unwrap();
    simulation.run_until(Time::MAX).unwrap();
    // What a report needs stays no longer than that.
    let report = simulation.report();
    let each = (ALLOCATED.load(Relaxed) - before) / FLOWS;
    assert!(
        report
            .flows
            .iter()
            .any(|f| f.signal_delay_p95 > Some(Span::from_secs(10)))
    );
    assert!(each < 8_500, "{each}");
}
