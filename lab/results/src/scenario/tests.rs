// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;

/// One trace of constant 12 Mbit/s.
struct Twelve;

impl Files for Twelve {
    fn find(&self, _: &str) -> Option<PathBuf> {
        None
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        if path == Path::new("twelve") {
            return Ok(Box::new("1\n".as_bytes()));
        }
        Err(ErrorKind::NotFound.into())
    }
}

fn resolved(text: &str) -> Result<Resolved, String> {
    ScenarioOptions::from_toml(text, "s.toml")?.resolve(&alcc_zoo::registry(), &Twelve)
}

const TEN: &str = r#"
link = "12mbit"
rtt = "40ms"
queue = "red:min=375000,max=1125000"
flow = ["9*fixed/stagger=1s", "fixed/rtt=100ms@5s-30s"]
duration = "60s"
seed = 7
"#;

#[test]
fn ten_flows_through_red_in_seven_lines() {
    let resolved = resolved(TEN).unwrap();
    assert_eq!(resolved.link, "12mbit");
    let scenario = resolved.scenario;
    assert_eq!(scenario.flows.len(), 10);
    assert_eq!(scenario.seed, 7);
    assert_eq!(scenario.links[0].down.delay, Span::from_millis(20));
    assert!(scenario.links[0].down.queue.to_string().starts_with("red:"));
    assert_eq!(scenario.min_rtt(&scenario.flows[3]), Span::from_millis(40));
    assert_eq!(scenario.min_rtt(&scenario.flows[9]), Span::from_millis(100));
}

#[test]
fn who_names_no_flow_gets_the_default_of_alcc_run() {
    let scenario = resolved("duration = \"5s\"").unwrap().scenario;
    let texts: Vec<&str> = scenario.flows.iter().map(|f| f.text.as_str()).collect();
    assert_eq!(texts, [format!("{}/over=cubic", alcc_cc::DEFAULT)]);
}

#[test]
fn the_links_have_the_delay_of_the_shortest_round_trip() {
    let resolved = resolved("link = \"twelve\"\nflow = [\"fixed/rtt=20ms\", \"fixed\"]").unwrap();
    let scenario = resolved.scenario;
    assert_eq!(resolved.link, "twelve");
    assert_eq!(scenario.links[0].up.delay, Span::from_millis(10));
    assert_eq!(scenario.min_rtt(&scenario.flows[0]), Span::from_millis(20));
    assert_eq!(scenario.min_rtt(&scenario.flows[1]), Span::from_millis(40));
}

/// Idle options of a file and the command line together.
fn idle(file: &str, options: &[(&str, &str)]) -> Vec<String> {
    let mut typed = ScenarioOptions::default();
    for (key, text) in options {
        typed.add(key, Value::option(key, *text)).unwrap();
    }
    let file = ScenarioOptions::from_toml(file, "s.toml").unwrap();
    let all = file.overridden_by(typed);
    let resolved = all.resolve(&alcc_zoo::registry(), &()).unwrap();
    all.idle(&resolved.scenario.flows)
}

#[test]
fn what_has_no_effect_is_said_wherever_it_stands() {
    let file = "flow = \"fixed\"\nwake = \"1ms\"\nsettle = \"1s\"";
    let said = idle(file, &[("jitter", "1ms")]);
    let begins = [
        "--jitter: no flow",
        "s.toml:2: wake: no",
        "s.toml:3: settle: it is for",
    ];
    let all = said.len() == 3 && said.iter().zip(begins).all(|(said, b)| said.starts_with(b));
    assert!(all, "{said:?}");
    // The file's own flows had an effect, or would have had one.
    let tcp = "flow = [\"fixed\", \"fixed/over=cubic\"]\nwake = \"1ms\"\nsettle = \"1s\"";
    assert_eq!(idle(tcp, &[]), [""; 0]);
    assert_eq!(idle(tcp, &[("flow", "fixed")]), [""; 0]);
    assert_eq!(
        idle("wake = \"1ms\"", &[]),
        [""; 0],
        "the flow of the default"
    );
    // What is typed is for the flows that are there.
    assert_eq!(idle(tcp, &[("flow", "fixed"), ("wake", "2ms")]).len(), 1);
}

#[test]
fn a_chain() {
    let text = r#"
flow = "fixed/links=2"
queue = "droptail:bytes=64k"
loss = "1%"
[[link]]
rate = "20mbit"
delay = "5ms"
[[link]]
rate = "8mbit"
up = "1mbit"
queue = "codel"
loss = 0.25
loss-up = "2%"
"#;
    let scenario = resolved(text).unwrap().scenario;
    let [first, second] = &scenario.links[..] else {
        panic!("two links");
    };
    assert_eq!(first.down.delay, Span::from_millis(5));
    // 40 ms, of which the first link takes 10.
    assert_eq!(second.down.delay, Span::from_millis(15));
    assert_eq!((first.down.loss, first.up.loss), (0.01, 0.0));
    assert_eq!((second.down.loss, second.up.loss), (0.25, 0.02));
    assert_eq!(second.down.queue.to_string(), "codel");
    assert_eq!(first.up.queue.to_string(), "droptail:bytes=64k");
    assert!(matches!(second.up.rate, RateSpec::Fixed(r) if r == Rate::mbps(1)));
    assert!(matches!(first.up.rate, RateSpec::Unlimited));
}

#[test]
fn options_overrule_the_file() {
    let file = ScenarioOptions::from_toml(TEN, "s.toml").unwrap();
    let mut options = ScenarioOptions::default();
    for (key, text) in [("link", "twelve"), ("seed", "9")] {
        options.add(key, Value::option(key, text)).unwrap();
    }
    let options = file.overridden_by(options);
    let resolved = options.resolve(&alcc_zoo::registry(), &Twelve).unwrap();
    assert_eq!(resolved.link, "twelve");
    assert_eq!(resolved.scenario.seed, 9);
    assert_eq!(resolved.scenario.flows.len(), 10);
    let limit = resolved.scenario.links[0].down.queue.to_string();
    assert!(limit.starts_with("red:"), "{limit}");
}

#[test]
fn mistakes_have_a_place_and_what_would_be_right() {
    for (text, line, parts) in [
        (
            "link = \"12mbit\"\nrate = 3\n",
            2,
            ["no key 'rate'", "queue-up"],
        ),
        (
            "link = \"12mbits\"\nflow = \"fixed\"",
            1,
            ["'12mbits'", "such as 12mbit"],
        ),
        (
            "flow = \"fixed\"\nlink = \"nowhere\"",
            2,
            ["link", "no such file"],
        ),
        (
            "link = \"1mbit\"\nflow = [\n\"fixed\",\n\"fixd\"]",
            4,
            ["flow", "did you mean fixed?"],
        ),
        (
            "link = \"1mbit\"\nflow = \"fixed\"\nrtt = 40",
            3,
            ["rtt", "such as 20ms"],
        ),
        (
            "link = \"1mbit\"\nflow = \"fixed\"\nqueue = \"fifo\"",
            3,
            ["queue", "droptail"],
        ),
        (
            "link = \"1mbit\"\nflow = \"fixed\"\nloss = 2",
            3,
            ["loss", "0% to 100%"],
        ),
        (
            "link = \"1mbit\"\nflow = \"fixed/links=2\"",
            2,
            ["flow", "of 1"],
        ),
        (
            "link = \"1mbit\"\nflow = \"fixed\"\nduration = \"0s\"",
            3,
            ["duration", "above 0"],
        ),
        (
            "link = \"1mbit\"\nflow = \"fixed\"\nseed = -1",
            3,
            ["seed", "expected a whole number"],
        ),
        (
            "link = \"1mbit\"\nflow = true",
            2,
            ["expected", "a list of strings"],
        ),
        ("link = \"1mbit\"\nflow = []", 2, ["flow", "leave flow out"]),
        ("link = []\nflow = \"fixed\"", 1, ["link", "leave link out"]),
        (
            "link = 12\nflow = \"fixed\"",
            1,
            ["expected", "[[link]] tables"],
        ),
        (
            "link = \"1mbit\"\nflow = \"fixed\nrtt = 3",
            2,
            ["s.toml", "string"],
        ),
        (
            "flow = \"fixed\"\n[[link]]\nrate = \"1mbit\"\nspeed = 3",
            4,
            ["no key 'speed'", "delay"],
        ),
        (
            "flow = \"fixed\"\nrtt = \"10ms\"\n[[link]]\nrate = \"1mbit\"\ndelay = \"6ms\"",
            2,
            ["rtt", "12ms already"],
        ),
        (
            "flow = \"fixed\"\nqueue-up = \"codel\"",
            2,
            ["queue-up", "as up"],
        ),
        (
            "flow = \"fixed\"\n[[link]]\nup = \"1mbit\"\n[[link]]\nqueue-up = \"codel\"",
            5,
            ["queue-up", "as up"],
        ),
        (
            "flow = \"fixed\"\nrepeat = \"1s\"",
            2,
            ["repeat", "give step"],
        ),
        (
            "flow = \"fixed\"\nreorder = \"yes\"\nstep = \"1s:loss=0\"",
            2,
            ["reorder", "delay"],
        ),
        (
            "link = \"1mbit\"\nlink = \"2mbit\"",
            2,
            ["duplicate key", ""],
        ),
    ] {
        let error = resolved(text)
            .err()
            .unwrap_or_else(|| panic!("{text} was taken"));
        let location = format!("s.toml:{line}: ");
        assert!(error.starts_with(&location), "{text}: {error}");
        for part in parts {
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn a_queue_of_the_way_back_may_be_for_some_links() {
    let text = "flow = \"fixed\"\nqueue-up = \"codel\"\n[[link]]\nup = \"1mbit\"\n[[link]]\nrate = \"2mbit\"";
    assert_eq!(resolved(text).unwrap().scenario.links.len(), 2);
}

#[test]
fn links_that_change() {
    // 12 Mbit/s for 5 s, then 4: of 20 offered half of 16 pass. The way back has no bottleneck and
    // gets none.
    let text = r#"
link = "12mbit"
step = ["5s:rate=4mbit", "9s:loss=0"]
flow = "udp:rate=20mbit"
duration = "10s"
"#;
    let scenario = resolved(text).unwrap().scenario;
    assert_eq!(scenario.links[0].down.changes.steps.len(), 2);
    assert_eq!(scenario.links[0].up.changes.steps[0].rate, None);
    let report = alcc_sim::run(&scenario).unwrap();
    let mbps = report.flows[0].throughput.as_mbps_f64();
    assert!((mbps - 8.0).abs() < 0.05, "{mbps}");
    let utilization = report.flows[0].utilization.unwrap();
    assert!(utilization > 0.99 && utilization <= 1.0, "{utilization}");

    let drawn = "link = \"10mbit\"\nflow = \"fixed\"\nsteps = \"every=5s,rate=1mbit..2mbit,delay=5ms..50ms\"\nrepeat = \"1min\"\nreorder = \"yes\"";
    let changes = resolved(drawn).unwrap().scenario.links[0]
        .down
        .changes
        .clone();
    assert_eq!(
        (changes.steps.len(), changes.repeat),
        (720, Some(Span::from_secs(60)))
    );
    assert!(changes.reorder);

    for (line, location, why) in [
        (
            "step = \"5s\"",
            "s.toml:3: step",
            "step '5s': '5s': expected AT:rate=R",
        ),
        (
            "steps = \"no.csv\"",
            "s.toml:3: steps",
            "read steps from no.csv",
        ),
        ("repeat = \"0s\"", "s.toml:3: repeat", "above 0"),
        (
            "reorder = \"maybe\"",
            "s.toml:3: reorder",
            "expected yes or no",
        ),
    ] {
        let text = format!("link = \"12mbit\"\nflow = \"fixed\"\n{line}");
        let error = resolved(&text).err().unwrap();
        assert!(
            error.starts_with(location) && error.contains(why),
            "{error}"
        );
    }
}

#[test]
fn outages_are_drawn_with_the_seed_and_take_the_rate_away() {
    // 1 s of every 5 s there is nothing: of 4 offered 3.2 pass (an outage each 4 s + 1 s, the first
    // after 4 s: 10 s have two of them).
    let text = r#"
link = "12mbit"
outages = "every=4s..4s,length=1s..1s"
flow = "udp:rate=4mbit"
queue = "droptail:packets=1"
duration = "10s"
phase = ["0s-4s", "5s-9s"]
"#;
    let resolved_ = resolved(text).unwrap();
    let report = alcc_sim::run(&resolved_.scenario).unwrap();
    let mbps = report.flows[0].throughput.as_mbps_f64();
    assert!((mbps - 3.2).abs() < 0.05, "{mbps}");
    let summary = crate::simulated::Summary::of(&report, resolved_.settle, &resolved_.phases);
    let phases: Vec<f64> = summary
        .phases
        .iter()
        .map(|p| p.throughput_mbps[0])
        .collect();
    assert!(
        phases.iter().all(|mbps| (mbps - 4.0).abs() < 0.1),
        "{phases:?}"
    );
    assert_eq!(summary.phases[1].phase, "5s-9s");
    assert_eq!(summary.phases[1].jain, Some(1.0));
    for (line, why) in [
        ("outages = \"every=4s\"\nlink = \"12mbit\"", "every=T..T"),
        (
            "outages = \"every=4s..5s,length=1s..1s\"\nlink = \"twelve\"",
            "constant rate",
        ),
        (
            "outages = \"every=4s..5s,length=1s..1s\"\nlink = \"1mbit\"\nstep = \"1s:rate=2mbit\"",
            "no step of its rate",
        ),
        ("link = \"1mbit\"\nphase = \"1s\"", "such as 30s-60s"),
        ("link = \"1mbit\"\nphase = \"1500ms-2s\"", "such as 30s-60s"),
        (
            "link = \"1mbit\"\nphase = \"1s-90s\"",
            "ends after the window",
        ),
    ] {
        let error = resolved(&format!("flow = \"fixed\"\n{line}"))
            .err()
            .unwrap();
        assert!(error.contains(why) && !error.contains('\n'), "{error}");
    }
}

/// Values of a file may hold anything; the Python binding shows messages as they are.
#[test]
fn a_message_is_one_line_whatever_the_value_holds() {
    for text in [
        "queue = \"red:a\\nb=1\"",
        "queue = \"droptail:packets=\\u001b[2J\"",
        "flow = \'\'\'cubic/x\n=1\'\'\'",
        "flow = \"a\\nb*cubic\"",
        "flow = \"budget:delay=4\\u202e0\"",
        "link = \"1\\nmbit\"",
        "link = \"no\\rfile\"",
        "link = \"1mbit\"\nstep = \"1s:rate=\\n\"",
        "\"a\\nb\" = 1",
        "duration = \"\\n\"",
    ] {
        let error = resolved(text).err().unwrap();
        let steers = |c: char| c.is_control() || c == '\u{202e}';
        assert!(!error.contains(steers), "{text}: {error:?}");
    }
    for spec in ["red:a\nb=1", "\u{1b}[2J"] {
        let error = spec.parse::<alcc_units::Spec>().unwrap_err().to_string();
        assert!(!error.contains(char::is_control), "{error:?}");
    }
    let error = "1\nms".parse::<Span>().unwrap_err().to_string();
    assert!(!error.contains(char::is_control), "{error:?}");
}

#[test]
fn radio_links_as_asked_or_as_belong_to_a_synthetic_trace() {
    let radio = |text: &str| {
        let text = format!("{text}\nflow = \"cubic\"\n");
        let link = resolved(&text).unwrap().scenario.links.remove(0);
        [link.down, link.up].map(|way| {
            let names = way.radio.iter().map(ToString::to_string);
            names.collect::<Vec<_>>().join(" ")
        })
    };
    assert_eq!(radio("link = \"12mbit\""), ["", ""]);
    assert_eq!(radio("link = \"leo\""), ["leo", "leo"]);
    let asked = "link = \"leo\"\nradio = [\"harq:errors=0.2\", \"rlc\"]";
    assert_eq!(radio(asked), ["harq:errors=0.2 rlc"; 2]);
    let both = format!("{asked}\nradio-up = \"grant\"");
    assert_eq!(radio(&both), ["harq:errors=0.2 rlc", "grant"]);
    let error = resolved("link = \"12mbit\"\nradio = \"hark\"\n")
        .err()
        .unwrap();
    assert!(
        error.starts_with("s.toml:2: radio: no radio 'hark'"),
        "{error}"
    );
    // 40 ms without a queue, and what Wi-Fi adds on both ways: delays of their own show.
    let run = |radio: &str| {
        let text =
            format!("link = \"12mbit\"\n{radio}\nflow = \"fixed:window=2\"\nduration = \"5s\"");
        let report = alcc_sim::run(&resolved(&text).unwrap().scenario).unwrap();
        report.flows[0].delay.mean.as_millis_f64()
    };
    let (plain, wifi) = (run(""), run("radio = \"aggregation\""));
    assert!((plain - 21.0).abs() < 1.0, "{plain}");
    assert!((plain + 2.0..plain + 16.5).contains(&wifi), "{wifi}");
}
