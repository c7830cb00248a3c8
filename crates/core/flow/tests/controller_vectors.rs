// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What algorithms are told and what they answer, as `docs/controller-vectors.json`: for other implementations of
//! them. `ALCC_BLESS=1` writes the file.
use alcc_cc::{
    AckBatch, Allowance, Controller, Cx, LossBatch, Needs, Path, Registry, Rto, Sent, Spec, Tag,
};
use alcc_flow::{AckStamp, OverTcp, TcpProgress};
use alcc_units::{Bytes, Rng, Span, Time};
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../docs/controller-vectors.json"
);
const MSS: Bytes = Bytes::new(1448);
/// So that drains, which begin at multiples of three seconds, come early.
const START: Time = Time::from_millis(1500);

/// A flow: its algorithm and the seed of its link, how long it lasts and from acknowledgement to acknowledgement, ms.
struct Case {
    spec: &'static str,
    seed: u64,
    duration: u64,
    ack_every: u64,
    link: Link,
}

/// The rate of the link in bytes per millisecond, and the round trip without a queue in ms.
#[derive(Clone, Copy)]
enum Link {
    /// 0.8 to 6 Mbit/s, 40 ms, and an outage that begins in the first drain.
    Walk,
    /// 12 Mbit/s that fall to 1.2, 40 ms.
    Falls,
    /// 0.8 Mbit/s; a longer route for more than ten seconds, then a shorter one in a drain.
    Routes,
}

impl Link {
    fn rate(self, ms: u64, walked: u64) -> u64 {
        match self {
            Self::Walk if (1600..2200).contains(&ms) => 0,
            Self::Walk => walked,
            Self::Falls => {
                if ms < 600 {
                    1500
                } else {
                    150
                }
            }
            Self::Routes => 100,
        }
    }

    fn round_trip(self, ms: u64) -> Span {
        Span::from_millis(match self {
            Self::Routes if (1000..16_550).contains(&ms) => 90,
            _ => 40,
        })
    }
}

const fn case(spec: &'static str, seed: u64, duration: u64, ack_every: u64, link: Link) -> Case {
    Case {
        spec,
        seed,
        duration,
        ack_every,
        link,
    }
}

const CASES: [Case; 8] = [
    case("fixed:window=12", 1, 800, 10, Link::Walk),
    case("mdi", 1, 3800, 20, Link::Walk),
    case("copa", 2, 5000, 25, Link::Walk),
    case("copa", 3, 1200, 20, Link::Falls),
    case("copa:delta=0.5", 3, 2500, 10, Link::Walk),
    case("budget", 4, 5000, 25, Link::Walk),
    case("budget", 4, 17_500, 100, Link::Routes),
    case("budget:delay=100ms", 5, 3500, 25, Link::Walk),
];

/// One event, and what holds after it.
struct Told {
    at: Time,
    name: &'static str,
    /// Packets that were sent at one moment and are alike.
    count: u64,
    length: u64,
    /// Bytes in flight before the first of them.
    before: u64,
    values: String,
    answer: String,
}

/// Passes everything on and writes it down.
struct Recorder {
    inner: Box<dyn Controller>,
    story: Arc<Mutex<Vec<Told>>>,
}

fn limit(bytes: Bytes) -> i64 {
    if bytes == Bytes::MAX {
        -1
    } else {
        bytes.get() as i64
    }
}

impl Recorder {
    fn answer(&self) -> String {
        let allowance = self.inner.allowance();
        let timer = self.inner.next_timer();
        format!(
            "{},{},{},{},{}",
            limit(allowance.window),
            limit(allowance.quota),
            allowance.rate.map_or(0, |rate| rate.as_bps()),
            allowance.burst.get(),
            timer.map_or(-1, |at| at.since(START).as_nanos() as i64),
        )
    }

    fn story(&self) -> MutexGuard<'_, Vec<Told>> {
        self.story.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, at: Time, name: &'static str, values: String) {
        self.story().push(Told {
            at,
            name,
            count: 1,
            length: 0,
            before: 0,
            values,
            answer: self.answer(),
        });
    }

    fn note_sent(&self, at: Time, sent: &Sent, tag: Tag) {
        let (len, before) = (sent.len.get(), sent.in_flight_before.get());
        let (values, answer) = (format!(",{}", tag.0), self.answer());
        let mut story = self.story();
        let alike = |last: &&mut Told| {
            let follows = last.length == len && last.before + last.count * len == before;
            follows && last.name == "sent" && last.at == at && last.values == values
        };
        if let Some(last) = story.last_mut().filter(alike) {
            last.count += 1;
            last.answer = answer;
            return;
        }
        story.push(Told {
            at,
            name: "sent",
            count: 1,
            length: len,
            before,
            values,
            answer,
        });
    }
}

impl Controller for Recorder {
    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.inner.on_start(cx, path);
        self.note(
            cx.now,
            "start",
            format!(",{},{}", path.mss.get(), path.seed),
        );
    }

    fn on_sent(&mut self, cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        let tag = self.inner.on_sent(cx, sent);
        self.note_sent(cx.now, sent, tag);
        tag
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        self.inner.on_ack(cx, ack);
        let by = ack.limited;
        let flags = [by.window, by.quota, by.pacer, by.app];
        let flags: u32 = (flags.iter().enumerate())
            .map(|(i, set)| u32::from(*set) << i)
            .sum();
        let mut event = format!(
            ",{},{},{flags},{}",
            ack.in_flight_before.get(),
            ack.in_flight.get(),
            ack.rtt_error.as_nanos()
        );
        for packet in ack.acked {
            let (age, rtt) = (cx.now.since(packet.sent_at), packet.rtt.unwrap_or_default());
            write!(
                event,
                ",{},{},{}",
                packet.len.get(),
                age.as_nanos(),
                rtt.as_nanos()
            )
            .expect("a string takes all");
        }
        self.note(cx.now, "ack", event);
    }

    fn on_loss(&mut self, _cx: &mut Cx<'_>, _loss: &LossBatch<'_>) {
        unreachable!("the stream below repairs losses")
    }

    fn on_rto(&mut self, _cx: &mut Cx<'_>, _rto: &Rto) {
        unreachable!("the stream below has the timer")
    }

    fn on_idle_restart(&mut self, cx: &mut Cx<'_>, idle: Span) {
        self.inner.on_idle_restart(cx, idle);
        self.note(cx.now, "idle", format!(",{}", idle.as_nanos()));
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        self.inner.on_timer(cx);
        self.note(cx.now, "timer", String::new());
    }

    fn allowance(&self) -> Allowance {
        self.inner.allowance()
    }

    fn next_timer(&self) -> Option<Time> {
        self.inner.next_timer()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        unreachable!("one host, one flow")
    }
}

/// Does the application write at this time? It pauses until nothing is in flight, and trickles for a while.
fn wanted(ms: u64, duration: u64) -> u64 {
    let (part, of) = (ms * 20 / duration, 20);
    match part {
        9 => 0,
        10..=12 if ms.is_multiple_of(40) => 2000,
        10..=12 => 0,
        _ if part < of => 100_000,
        _ => 0,
    }
}

/// The flow, in steps of a millisecond.
fn run(case: &Case) -> Vec<String> {
    let &Case {
        seed,
        duration,
        ack_every,
        link,
        ..
    } = case;
    let spec: Spec = case.spec.parse().expect("a name");
    let inner = Registry::builtin().build(&spec).expect("builtin");
    let story = Arc::default();
    let cc = Box::new(Recorder {
        inner,
        story: Arc::clone(&story),
    });
    let progress = TcpProgress {
        mss: MSS,
        ..TcpProgress::default()
    };
    let mut flow = OverTcp::in_band(cc, START, &progress, seed);
    let mut rng = Rng::new(seed);
    let (mut served, mut acked, mut rate) = (0_u64, 0_u64, 250_u64);
    let mut stamps: Vec<AckStamp> = Vec::new();
    for ms in 0..duration {
        let now = START + Span::from_millis(ms);
        if ms % 100 == 99 {
            rate = (rate * (70 + rng.below(65)) / 100).clamp(100, 750);
        }
        let more = flow.written().min(served + link.rate(ms, rate));
        if more > served {
            served = more;
            stamps.push(AckStamp {
                acked: served,
                at: now + link.round_trip(ms),
            });
        }
        // A shorter route overtakes nothing: a stream has one order.
        if let [.., before, last] = &mut stamps[..] {
            last.at = last.at.max(before.at);
        }
        let arrived = stamps.iter().take_while(|stamp| stamp.at <= now).count();
        if ms % ack_every == 0 && arrived > 0 {
            let first = AckStamp {
                acked,
                at: stamps[0].at,
            };
            let told: Vec<AckStamp> = std::iter::once(first)
                .chain(stamps.drain(..arrived))
                .collect();
            acked = told[told.len() - 1].acked;
            let progress = TcpProgress {
                acked,
                written: flow.written(),
                ..progress
            };
            flow.progress_stamped(now, &progress, &told);
        }
        flow.on_timer(now);
        if flow.is_writable(flow.in_flight(), Bytes::ZERO) {
            flow.unblock();
        }
        let wanted = Bytes::new(wanted(ms, duration));
        if wanted > Bytes::ZERO && !flow.is_blocked() {
            let room = flow.room(now, wanted, flow.in_flight(), Bytes::ZERO);
            if room > Bytes::ZERO {
                flow.wrote(now, room.min(wanted));
            }
        }
    }
    drop(flow);
    let story = Arc::into_inner(story).expect("the flow is gone");
    lines(&story.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Times as nanoseconds since the event before; answers where they change.
fn lines(story: &[Told]) -> Vec<String> {
    let (mut lines, mut before, mut answer) = (Vec::new(), START, "");
    for told in story {
        let (name, after) = (told.name, told.at.since(before).as_nanos());
        let run = if name == "sent" {
            format!(",{},{},{}", told.count, told.length, told.before)
        } else {
            String::new()
        };
        lines.push(format!("[\"{name}\",{after}{run}{}]", told.values));
        if told.answer != answer {
            lines.push(format!("[\"is\",{}]", told.answer));
        }
        (before, answer) = (told.at, &told.answer);
    }
    lines
}

fn text() -> String {
    let mut text = String::from(concat!(
        "{\n\"description\": \"What algorithms are told over a stream whose losses others repair, and what they answer. ",
        "See docs/controller-vectors.md.\",\n",
        "\"license\": \"Apache-2.0 OR MIT\",\n\"version\": 1,\n\"cases\": [\n",
    ));
    for (i, case) in CASES.iter().enumerate() {
        let events = run(case).join(",\n");
        let comma = if i + 1 < CASES.len() { "," } else { "" };
        writeln!(
            text,
            "{{\"algorithm\": \"{}\", \"start\": {}, \"events\": [\n{events}]}}{comma}",
            case.spec,
            START.as_nanos()
        )
        .expect("a string takes all");
    }
    text + "]}\n"
}

#[test]
fn algorithms_answer_as_the_vectors_say() {
    let text = text();
    if std::env::var_os("ALCC_BLESS").is_some() {
        std::fs::write(FILE, &text).expect("docs can be written");
    }
    let kept = std::fs::read_to_string(FILE).expect("docs/controller-vectors.json is there");
    let differs = (1..)
        .zip(kept.lines().zip(text.lines()))
        .find(|(_, (a, b))| a != b);
    if let Some((line, (kept, now))) = differs {
        panic!(
            "line {line}: {kept}\nbut now: {now}\nALCC_BLESS=1 writes the file anew, if that is meant"
        );
    }
    assert_eq!(kept.len(), text.len());
    assert!(kept.len() < 300_000, "{} bytes", kept.len());
    // Without these a case would say little.
    for event in ["\"idle\"", "\"timer\"", "\"sent\"", "\"ack\""] {
        assert!(kept.contains(event), "{event}");
    }
}
