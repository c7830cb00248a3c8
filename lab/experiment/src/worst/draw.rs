// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scenarios by number: path, changes, other traffic.
use super::mersenne::Mersenne;

/// Shortest queue, bytes.
const MIN_QUEUE: i64 = 15_000;
/// The scenario of a crowd draws from this seed on.
const CROWD_SEED: u64 = 1_000_000;

/// A scenario that was drawn, without the algorithm that is judged in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drawn {
    /// Its number.
    pub number: u64,
    /// Kinds of its changes.
    pub kinds: Vec<&'static str>,
    /// Options of the links, as key and value.
    pub options: Vec<(&'static str, String)>,
    /// The judged flows. `W` stands for the algorithm.
    pub flows: Vec<String>,
    /// Traffic beside it.
    pub cross: Option<String>,
    /// True if the judged flow is a transfer of fixed size.
    pub sized: bool,
}

fn log(draw: &mut Mersenne, from: f64, to: f64) -> f64 {
    draw.uniform(from.ln(), to.ln()).exp()
}

/// Scenario `number`: one flow, alone or beside others.
pub fn single(number: u64) -> Drawn {
    let r = &mut Mersenne::new(number);
    let rate = log(r, 0.5, 150.0);
    let delay = log(r, 2.0, 120.0);
    let bdp = rate * 1e6 / 8.0 * 2.0 * delay / 1000.0;
    let bytes = MIN_QUEUE.max((log(r, 0.2, 20.0) * bdp) as i64);
    let queue = match r.weighted(&[7, 1, 1, 1]) {
        0 => format!("droptail:bytes={bytes}"),
        1 => "codel:packets=1000".to_owned(),
        2 => "fq_codel".to_owned(),
        _ => "pie:packets=1000".to_owned(),
    };
    let base = if r.random() < 0.15 {
        log(r, 0.01, 3.0)
    } else {
        0.0
    };
    let (kinds, steps) = changes(r, rate, delay, base);
    let cross = match r.weighted(&[5, 2, 1, 1, 1, 1]) {
        0 => None,
        kind => {
            let from = r.uniform(0.0, 12.0);
            let to = from + r.uniform(8.0, 30.0);
            let udp = rate * r.uniform(0.3, 0.95);
            let bursts = rate * r.uniform(0.3, 0.9);
            Some(match kind {
                1 => format!("cubic@{from:.1}s-{to:.1}s"),
                2 => format!("bbr@{from:.1}s-{to:.1}s"),
                3 => format!("udp:rate={udp:.3}mbit@{from:.1}s-{to:.1}s"),
                4 => format!("6*cubic/size={}kB/stagger=1500ms@8s", (rate * 40.0) as i64),
                _ => format!("udp:rate={bursts:.3}mbit,on=1s,off=1500ms@5s"),
            })
        }
    };
    let up = (rate * log(r, 0.02, 0.5)).max(0.05);
    let has_up = r.weighted(&[7, 2]) == 1;
    let mut options = vec![
        ("link", format!("{rate:.3}mbit")),
        ("delay", format!("{delay:.2}ms")),
        ("queue", queue),
    ];
    if has_up {
        options.push(("up", format!("{up:.3}mbit")));
    }
    if base > 0.0 {
        options.push(("loss", format!("{base:.3}%")));
        options.push(("loss-up", "0".to_owned()));
    }
    if r.random() < 0.2 {
        let radio = *r.choice(&["aggregation", "harq:errors=0.1"]);
        options.push(("radio", radio.to_owned()));
    }
    options.extend(steps.into_iter().map(|step| ("step", step)));
    let size = log(r, 100.0, 20_000.0) as i64;
    let sized = r.weighted(&[4, 1]) == 1;
    let duration = if sized { "60s" } else { "35s" };
    options.insert(3, ("duration", duration.to_owned()));
    let size = if sized {
        format!("/size={size}kB")
    } else {
        String::new()
    };
    Drawn {
        number,
        kinds,
        options,
        flows: vec![format!("W{size}")],
        cross,
        sized,
    }
}

/// The changes of the path: their kinds and the steps. `base` is the loss without them, in percent.
fn changes(r: &mut Mersenne, rate: f64, delay: f64, base: f64) -> (Vec<&'static str>, Vec<String>) {
    let (mut kinds, mut steps, mut now) = (Vec::new(), Vec::new(), rate);
    let count = *r.choice(&[0, 1, 1, 2, 3]);
    let mut times: Vec<f64> = (0..count).map(|_| r.uniform(6.0, 28.0)).collect();
    times.sort_by(f64::total_cmp);
    for t in times {
        let kind = *r.choice(&["rate", "delay", "loss", "outage", "both"]);
        kinds.push(kind);
        if matches!(kind, "rate" | "both") {
            now = (rate * log(r, 0.15, 6.0)).clamp(0.3, 200.0);
        }
        match kind {
            "rate" => steps.push(format!("{t:.2}s:rate={now:.3}mbit")),
            "delay" => {
                let delay = delay * log(r, 0.2, 6.0);
                steps.push(format!("{t:.2}s:delay={delay:.2}ms"));
            }
            "both" => {
                let delay = delay * log(r, 0.3, 4.0);
                steps.push(format!("{t:.2}s:rate={now:.3}mbit,delay={delay:.2}ms"));
            }
            "loss" => {
                let loss = log(r, 0.1, 8.0);
                steps.push(format!("{t:.2}s:loss={loss:.2}%,loss-up=0"));
                if r.random() < 0.6 {
                    let end = t + r.uniform(1.0, 6.0);
                    steps.push(format!("{end:.2}s:loss={base:.3}%,loss-up=0"));
                }
            }
            _ => {
                let end = t + log(r, 0.1, 4.0);
                steps.push(format!("{t:.2}s:rate=0.002mbit"));
                steps.push(format!("{end:.2}s:rate={now:.3}mbit"));
            }
        }
    }
    (kinds, steps)
}

/// Scenario `number` with 2 to 20 flows of one algorithm and no other traffic.
pub fn crowd(number: u64) -> Drawn {
    let drawn = single(number);
    let r = &mut Mersenne::new(number + CROWD_SEED);
    let flows = *r.choice(&[2, 2, 3, 4, 6, 10, 20]);
    let delays = drawn.options.iter().flat_map(|(key, value)| match *key {
        "delay" => vec![value.as_str()],
        "step" => (value.split([':', ',']))
            .filter_map(|part| part.strip_prefix("delay="))
            .collect(),
        _ => Vec::new(),
    });
    let delays = delays.filter_map(|delay| delay.strip_suffix("ms")?.parse::<f64>().ok());
    let longest = delays.fold(0.0, f64::max);
    let flows = if r.random() < 0.4 {
        let mut flow = |i: u32| {
            let rtt = 2.0 * longest + r.uniform(1.0, 120.0);
            let start = f64::from(i) * r.uniform(0.0, 2.0);
            format!("W/rtt={rtt:.0}ms@{start:.1}s")
        };
        (0..flows).map(&mut flow).collect()
    } else {
        vec![format!("{flows}*W/stagger={}ms", r.choice(&[0, 200, 1000]))]
    };
    Drawn {
        flows,
        cross: None,
        sized: false,
        ..drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(drawn: &Drawn) -> String {
        let options = drawn
            .options
            .iter()
            .map(|(key, value)| format!("--{key} {value}"));
        let flows = drawn.flows.iter().chain(&drawn.cross);
        let flows = flows.map(|flow| format!("--flow {flow}"));
        options.chain(flows).collect::<Vec<_>>().join(" ")
    }

    /// The lines are those of a script in Python, whose figures are published.
    #[test]
    fn a_number_always_draws_the_same_scenario() {
        for line in include_str!("draws.txt").lines() {
            let (kind, rest) = line.split_once(' ').unwrap();
            let (number, want) = rest.split_once(' ').unwrap();
            let number = number.parse().unwrap();
            let drawn = match kind {
                "single" => single(number),
                _ => crowd(number),
            };
            assert_eq!(text(&drawn), want, "{kind} {number}");
        }
    }
}
