// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Summary of an emulated link, as text and as JSON.
use super::args::Args;
use crate::supervise::Exit;
use alcc_emu::{DirectionReport, EmuReport, PathSpec};
use alcc_link::DirectionSpec;
use alcc_results::About;
use alcc_units::Span;
use serde_json::{Value, json};
use std::fmt::Write;

fn ms(span: Option<Span>) -> String {
    span.map_or_else(|| "-".to_owned(), |s| format!("{:.1}", s.as_millis_f64()))
}

/// Limit of the 99th percentile above which a delay comes from the machine, not from the link.
const TOO_LATE: Span = Span::from_millis(10);

/// One line for each direction, and one more if the emulator itself was late.
pub(super) fn text(report: &EmuReport) -> String {
    let mut out = String::new();
    for (name, d) in [("down", &report.down), ("up", &report.up)] {
        let _ = write!(
            out,
            "alcc-lab emulate: {name:<4} {} packets ({:.2} MB) delivered, dropped {} by loss {} by the queue; queueing delay mean {} p95 {} ms",
            d.delivered,
            d.delivered_bytes.get() as f64 / 1e6,
            d.lost,
            d.overflowed + d.aqm_dropped,
            ms(d.queue_delay_mean),
            ms(d.queue_delay_p95),
        );
        if let Some(rate) = d.arrived {
            let _ = write!(out, "; {:.2} Mbit/s", rate.as_mbps_f64());
        }
        if let Some(rate) = d.throughput.filter(|rate| Some(*rate) != d.arrived) {
            let _ = write!(
                out,
                " ({:.2} with what was lost behind the bottleneck)",
                rate.as_mbps_f64()
            );
        }
        if let Some(u) = d.utilization {
            let _ = write!(out, ", utilization {:.1} %", u * 100.0);
        }
        let late = report
            .lateness_p99
            .map_or_else(|| "-".to_owned(), |s| format!("{:.2}", s.as_millis_f64()));
        let _ = write!(out, "; lateness p99 {late} ms");
        if d.hidden_drops() > 0 {
            let _ = write!(
                out,
                "; NOT FAITHFUL: {} packets lost outside the model",
                d.hidden_drops()
            );
        }
        out.push('\n');
    }
    if let Some(late) = report.lateness_p99.filter(|late| *late > TOO_LATE) {
        let _ = writeln!(
            out,
            "alcc-lab emulate: note: 1 packet in 100 left {:.0} ms late or more: this machine was busy, the figures are not to be trusted",
            late.as_millis_f64()
        );
    }
    out
}

/// The report as JSON.
pub(super) fn json(
    args: &Args,
    about: &About,
    spec: &PathSpec,
    report: &EmuReport,
    exit: Exit,
) -> Value {
    let [down, up] = args.link_names();
    let command: Vec<_> = args.command.iter().map(|w| w.to_string_lossy()).collect();
    let span = |s: Option<Span>| s.map(Span::as_millis_f64);
    let exit = match exit {
        Exit::Status(code) => json!({"status": code, "signal": null}),
        Exit::Signal(signal) => json!({"status": null, "signal": signal}),
    };
    json!({
        "about": about,
        "command": command,
        "exit": exit,
        "duration_s": report.duration.as_secs_f64(),
        "seed": args.seed,
        "device": report.device,
        "realtime": report.realtime,
        "lateness_p50_ms": span(report.lateness_p50),
        "lateness_p99_ms": span(report.lateness_p99),
        "lateness_max_ms": span(report.lateness_max),
        "down": direction(&down, &spec.down, &report.down),
        "up": direction(&up, &spec.up, &report.up),
    })
}

fn direction(link: &str, spec: &DirectionSpec, d: &DirectionReport) -> Value {
    let span = |s: Option<Span>| s.map(Span::as_millis_f64);
    json!({
        "link": link,
        "queue": spec.queue.to_string(),
        "delay_ms": spec.delay.as_millis_f64(),
        "loss_probability": spec.loss,
        "packets_in": d.read,
        "bytes_in": d.read_bytes.get(),
        "packets": d.delivered,
        "bytes": d.delivered_bytes.get(),
        "throughput_mbps": d.throughput.map(|r| r.as_mbps_f64()),
        "arrived_mbps": d.arrived.map(|r| r.as_mbps_f64()),
        "utilization": d.utilization,
        "queue_delay_mean_ms": span(d.queue_delay_mean),
        "queue_delay_p95_ms": span(d.queue_delay_p95),
        "queue_delay_max_ms": span(d.queue_delay_max),
        "lost": d.lost,
        "overflowed": d.overflowed,
        "aqm_dropped": d.aqm_dropped,
        "inside": d.inside,
        "kernel_dropped": d.kernel_dropped,
        "store_full": d.store_full,
        "write_failed": d.write_failed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_units::{Bytes, Rate};

    #[test]
    fn a_direction_without_packets_is_a_line_of_zeros() {
        let line = |name: &str| {
            format!(
                "alcc-lab emulate: {name} 0 packets (0.00 MB) delivered, dropped 0 by loss 0 by the queue; queueing delay mean - p95 - ms; lateness p99 - ms\n"
            )
        };
        assert_eq!(text(&EmuReport::default()), line("down") + &line("up  "));
    }

    #[test]
    fn losses_behind_the_bottleneck_are_not_in_the_rate() {
        let mut report = EmuReport::default();
        let up = &mut report.up;
        (up.delivered, up.delivered_bytes) = (1_200, Bytes::new(1_800_000));
        (up.lost, up.overflowed, up.aqm_dropped) = (30, 4, 5);
        up.queue_delay_mean = Some(Span::from_micros(12_300));
        up.queue_delay_p95 = Some(Span::from_millis(40));
        (up.throughput, up.arrived) = (Some(Rate::mbps(12)), Some(Rate::mbps(6)));
        up.utilization = Some(0.5);
        let counts = "alcc-lab emulate: up   1200 packets (1.80 MB) delivered, dropped 30 by loss 9 by the queue; queueing delay mean 12.3 p95 40.0 ms";
        let end = ", utilization 50.0 %; lateness p99 - ms";
        assert_eq!(
            text(&report).lines().nth(1).unwrap(),
            format!("{counts}; 6.00 Mbit/s (12.00 with what was lost behind the bottleneck){end}")
        );
        // Without such losses there is one rate.
        report.up.arrived = report.up.throughput;
        assert_eq!(
            text(&report).lines().nth(1).unwrap(),
            format!("{counts}; 12.00 Mbit/s{end}")
        );
        (report.up.write_failed, report.up.kernel_dropped) = (1, 2);
        assert_eq!(
            text(&report).lines().nth(1).unwrap(),
            format!("{counts}; 12.00 Mbit/s{end}; NOT FAITHFUL: 3 packets lost outside the model")
        );
    }

    #[test]
    fn a_late_emulator_says_so() {
        let mut report = EmuReport::default();
        assert_eq!(text(&report).lines().count(), 2);
        report.lateness_p99 = Some(TOO_LATE);
        assert_eq!(text(&report).lines().count(), 2);
        report.lateness_p99 = Some(Span::from_millis(526));
        let said = text(&report);
        let last = said.lines().last().unwrap();
        assert!(last.contains("526 ms late or more"), "{said}");
        assert!(last.contains("not to be trusted"), "{said}");
    }
}
