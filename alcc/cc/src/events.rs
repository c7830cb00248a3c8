// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Log form of the events of algorithms: names, values with units, a sentence.
use crate::{Event, RttView};
use alcc_units::Span;
use serde_json::{Map, Value, json};
use std::fmt::{Display, Write};

/// Queueing delay: the latest RTT minus the smallest. `None` without an RTT sample.
fn queue_delay(rtt: &RttView) -> Option<Span> {
    (!rtt.latest.is_zero()).then(|| rtt.latest.saturating_sub(rtt.min))
}

fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// Fields of an event by name: the algorithm's reason and values, and the host's RTTs in ms.
pub fn values<S: Display>(event: &Event<S>, rtt: &RttView) -> Map<String, Value> {
    let mut all = Map::new();
    if let Some((name, word)) = event.word() {
        all.insert(name.to_owned(), json!(word.to_string()));
    }
    for (name, value) in event.values() {
        all.insert(name.to_owned(), json!(rounded(value)));
    }
    if let Some(queue_delay) = queue_delay(rtt) {
        let (rtt, queue_delay) = (rtt.latest.as_millis_f64(), queue_delay.as_millis_f64());
        all.insert("rtt_ms".to_owned(), json!(rounded(rtt)));
        all.insert("queue_delay_ms".to_owned(), json!(rounded(queue_delay)));
    }
    all
}

/// The event in words: "slow start ended by delay (queueing 8.2 ms, cwnd 43 packets)".
pub fn sentence<S: Display>(event: &Event<S>, rtt: &RttView) -> String {
    let mut details = Vec::new();
    if let Some(queue_delay) = queue_delay(rtt) {
        details.push(format!("queueing {:.1} ms", queue_delay.as_millis_f64()));
    }
    let short = |value: f64| (value * 10.0).round() / 10.0;
    match event {
        Event::SlowStartExit { window, .. } => {
            details.push(format!("cwnd {} packets", short(*window)));
        }
        Event::Decrease { from, to, .. } => {
            details.push(format!("cwnd {} to {} packets", short(*from), short(*to)));
        }
        Event::ProfileFitted { points, largest } => {
            details.push(format!("{points} points up to {largest} packets"));
        }
        _ => {}
    }
    if details.is_empty() {
        return event.to_string();
    }
    format!("{event} ({})", details.join(", "))
}

/// The event as one cell of a table: `1.234567 slow_start_ended why=delay ...`.
pub fn cell<S: Display>(at: Span, event: &Event<S>, rtt: &RttView) -> String {
    let mut cell = format!("{:.6} {}", at.as_secs_f64(), event.name());
    for (name, value) in values(event, rtt) {
        let value = match value {
            Value::String(text) => text.replace([' ', ',', ';', '"'], "-"),
            other => other.to_string(),
        };
        let _ = write!(cell, " {name}={value}");
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: RttView = RttView {
        latest: Span::from_micros(48_200),
        smoothed: Span::from_millis(45),
        variance: Span::from_millis(1),
        min: Span::from_millis(40),
    };

    #[test]
    fn an_event_is_said_in_three_ways() {
        let exit = Event::SlowStartExit {
            why: "queue above target",
            window: 43.0,
        };
        assert_eq!(
            sentence(&exit, &RTT),
            "slow start ended by queue above target (queueing 8.2 ms, cwnd 43 packets)"
        );
        assert_eq!(
            cell(Span::from_millis(1234), &exit, &RTT),
            "1.234000 slow_start_ended why=queue-above-target cwnd_packets=43.0 rtt_ms=48.2 queue_delay_ms=8.2"
        );
        let lost = Event::Decrease {
            why: "loss",
            from: 40.0,
            to: 27.98,
        };
        let all = Value::Object(values(&lost, &RttView::default()));
        assert_eq!(
            all,
            json!({"why": "loss", "cwnd_before_packets": 40.0, "cwnd_packets": 27.98})
        );
        assert_eq!(
            sentence(&lost, &RttView::default()),
            "window reduced for loss (cwnd 40 to 28 packets)"
        );
        let mode = Event::Mode { to: "startup" };
        assert_eq!(sentence(&mode, &RttView::default()), "mode startup");
    }
}
