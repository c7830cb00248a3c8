// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The delay of every program of the compatibility tests on a recorded channel, beside nginx's
//! under the same algorithm; one after the other. `make programs`. `ALCC_BENCH_SECONDS`,
//! `ALCC_BENCH_RUNS`, `ALCC_BENCH_CC`: how long, how often, what; arguments choose programs.
#[path = "../../../lab/live/benches/support/number.rs"]
mod number;
#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/programs/place.rs"]
mod place;
#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/programs/process.rs"]
mod process;
#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/programs/recipes.rs"]
mod recipes;

use alcc_emu::{Dir, Observer};
use alcc_link::{DropReason, Outcome};
use alcc_live::{Link, Meter, Observed, route};
use alcc_units::{Span, Time};
use number::number;
use place::Place;
use process::Process;
use recipes::Recipe;
use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const TRACE: &str = "highwayGold";
const ASKED: f64 = 1.15;
/// More than any channel here carries in the window; its blocks are never written.
const FILE_BYTES_PER_SECOND: u64 = 12_500_000;

/// Looks at the bottleneck of the downlink.
struct Watch(Arc<Mutex<Meter>>);

impl Observer for Watch {
    fn event(&mut self, dir: Dir, outcome: &Outcome, _: Time) {
        if dir != Dir::Down {
            return;
        }
        let mut meter = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *outcome {
            Outcome::Arrived { at, packet } => meter.arrived(at, packet.len),
            Outcome::Departed {
                at,
                packet,
                arrived,
            } => meter.delivered(at, packet.len, at.since(arrived)),
            Outcome::Dropped {
                at,
                why: DropReason::Loss,
                ..
            } => meter.lost_before(at),
            Outcome::Delivered { .. } | Outcome::Repeated { .. } => {}
            Outcome::Dropped { at, .. } => meter.dropped(at),
        }
    }
}

/// A line of the table.
struct Row {
    seen: Observed,
    delay: [f64; 3],
    gate_closed: u64,
    /// Lateness of the emulator's timers, ms.
    lateness: f64,
}

fn measure(recipe: &Recipe, link: &Link, cc: &str, window: Duration) -> Result<Row> {
    let meter = Meter::new(
        Span::from(window),
        link.path.down.delay,
        Span::from_millis(200),
    );
    let meter = Arc::new(Mutex::new(meter));
    let place = Place::over(link.path.clone(), Box::new(Watch(Arc::clone(&meter))));
    let (local, peer) = (place.server(), place.client());
    place
        .outside
        .run(|| route::use_algorithm(local, peer, "cubic"))??;
    let patience = window + Duration::from_secs(20);
    File::create(place.path("www").join("large"))?
        .set_len(patience.as_secs() * FILE_BYTES_PER_SECOND)?;

    let helpers = place.help(recipe);
    let mut server = place.start(recipe, Some(&["--cc", cc, "--under", "cubic"]), "large");
    let client = recipe.fetch.as_ref().map(|fetch| {
        Process::start(
            &place.inside,
            place.script(fetch, "large", patience * 12),
            &place.path("client"),
        )
    });
    let deadline = Instant::now() + patience;
    let over = || {
        let now = Time::ZERO + Span::from(place.link.started().elapsed());
        let meter = meter.lock().unwrap_or_else(PoisonError::into_inner);
        // The relay may be late with the last packets.
        meter.is_over(now)
            && meter
                .started()
                .is_some_and(|at| now.since(at) > Span::from(window + Duration::from_millis(100)))
    };
    while !over() {
        if Instant::now() > deadline {
            let said = |name: &str| std::fs::read_to_string(place.path(name)).unwrap_or_default();
            return Err(format!(
                "the window did not pass; the program: {}; the client: {}",
                said("said"),
                said("client")
            )
            .into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let seen = link.observed(&meter.lock().unwrap_or_else(PoisonError::into_inner));
    drop(client);
    server.end();
    drop(helpers);
    let report = place.report();
    let number = |field: &str| report[field].as_u64().unwrap_or(0);
    if number("connections") == 0 || number("gate_closed") == 0 || number("failures") > 0 {
        return Err(format!("not a controlled run: {report}").into());
    }
    let emulated = place.link.stop()?;
    let hidden = emulated.hidden_drops();
    if hidden > 0 {
        println!("  {hidden} packets were lost outside the model: this machine could not keep up");
    }
    let seen = seen.ok_or("no data came to the link")?;
    Ok(Row {
        delay: seen.delay_ms.ok_or("nothing was delivered")?,
        seen,
        gate_closed: number("gate_closed"),
        lateness: emulated.lateness_p99.map_or(f64::NAN, Span::as_millis_f64),
    })
}

fn main() -> Result<()> {
    let chosen: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with("--"))
        .collect();
    let Some(folder) = std::env::var_os("ALCC_TRACES")
        .filter(|_| std::env::var_os("ALCC_BENCH_PROGRAMS").is_some())
    else {
        println!(
            "programs: left out, it takes a minute for each: 'make programs', with ALCC_TRACES naming the folder of the recorded traces (docs/traces.md)"
        );
        return Ok(());
    };
    let folder = Path::new(&folder);
    let places = [folder.join(TRACE), folder.join("alcc").join(TRACE)];
    let trace = places
        .iter()
        .find(|p| p.is_file())
        .ok_or_else(|| format!("ALCC_TRACES: {TRACE} is not in {}", folder.display()))?;
    let link = Link::open(trace, 1)?;
    let window = Duration::from_secs(number("ALCC_BENCH_SECONDS", 60)?);
    let runs = number("ALCC_BENCH_RUNS", 1)?;
    let cc = std::env::var("ALCC_BENCH_CC").unwrap_or_else(|_| "verus".to_owned());

    println!(
        "programs: {cc} over cubic, {}, {} s each, one after the other",
        link.describe(),
        window.as_secs()
    );
    println!(
        "  program             Mbit/s  utilization   mean ms    p95 ms   / nginx  gate closed  lateness p99 ms"
    );
    for run in 1..=runs {
        let mut nginx = None;
        let mut worst = ("none", 0.0);
        // nginx once more at the end: what the same thing differs by.
        let again = recipes::ALL.iter().filter(|(name, _)| *name == "nginx");
        for (name, recipe) in recipes::ALL.iter().chain(again) {
            if *name != "nginx" && !chosen.is_empty() && !chosen.iter().any(|c| c == name) {
                continue;
            }
            let recipe = recipe();
            if place::lacking(&recipe) {
                continue;
            }
            let row = match measure(&recipe, &link, &cc, window) {
                Ok(row) => row,
                Err(error) => {
                    println!("  {name:18} failed: {error}");
                    worst = (name, f64::INFINITY);
                    continue;
                }
            };
            let [mean, _, p95] = row.delay;
            let peer = *nginx.get_or_insert(mean);
            let ratio = mean / peer;
            if ratio > worst.1 {
                worst = (name, ratio);
            }
            println!(
                "  {name:18} {:7.2}  {:10.1} % {mean:9.1} {p95:9.1} {ratio:9.3} {:12} {:16.2}",
                row.seen.throughput_mbps,
                row.seen.utilization.unwrap_or(f64::NAN) * 100.0,
                row.gate_closed,
                row.lateness
            );
        }
        println!(
            "  run {run} of {runs}: the highest ratio is {}'s, {:.3}; asked: at most {ASKED}",
            worst.0, worst.1
        );
    }
    Ok(())
}
