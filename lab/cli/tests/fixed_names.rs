// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names that other people's scripts and programs use. This fails when one of them goes or is
//! renamed, and when a new one is not in its list: from then on that one is fixed, too.
#[path = "../../../alcc/cli/tests/support/built.rs"]
mod built;
#[path = "../../../alcc/cli/tests/support/root.rs"]
mod root;

use alcc_live::{Scheme, Side};
use alcc_results::Row;
use root::root;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The commands with their options.
const COMMANDS: &str = "
alcc
    --version
alcc-lab
    --version
alcc-lab send
    --transport --port --bind --insecure --carrier --stall --series --json --pin --ca --duration
    --size --file --rate --flows --connect-timeout --cc --plugin --under --feedback --enforce
    --seed --resume --session
alcc-lab recv
    --transport --port --bind --insecure --carrier --stall --series --json --cert --key --out
    --overwrite --once --count --connections --max-size --max-total --resume
    --resume-files
alcc-lab list
    --json --plugin
alcc-lab demo
    --trace --duration --schemes --seed --out --log --json
alcc run
    --cc --config --plugin --under --feedback --enforce --only --except --loopback --outbound
    --seed --log --json --json-out --metrics --quiet --share --or-plain
alcc trial
    --share --worse --interval --html --transfers --cc --config --plugin --under --feedback --enforce
    --only --except --loopback --outbound --seed --log --json --json-out --metrics --quiet
alcc proxy
    --listen --to --proxy-protocol --threads --backlog --connect-timeout --idle --per-client --grace --cc --config --plugin
    --under --feedback --enforce --only --except --loopback --outbound --share --queue --seed --log
    --json --json-out --metrics --trial --worse --interval --html --transfers --quiet
alcc attach
    --port --pid --cgroup --prefix --cc --future --dry-run --plugin --json --trial --worse --interval
    --html --transfers --duration --metrics
alcc detach
    --port --pid --cgroup --prefix --json
alcc policy
alcc policy check
    --json
alcc policy apply
    --json
alcc policy show
    --json
alcc policy rollback
    --json
alcc off
alcc bpf
alcc bpf load
    --door --group --json --users
alcc bpf status
    --json
alcc bpf unload
    --json
alcc ctl
    --run --json
alcc ctl off
    --port --run --json --peer
alcc ctl on
    --port --run --json --peer
alcc ctl reload
    --run --json --plugin
alcc ctl cc
    --port --run --json --peer --plugin
alcc ctl enforce
    --port --run --json --peer
alcc top
    --run --once --json --sort --interval --web
alcc log
    --run --out --duration --events --json
alcc-lab emulate
    --profile --delay --down --up --queue --queue-up --loss --loss-up --radio --radio-up --step --steps
    --repeat --reorder --seed --log --mahimahi-log --json --json-out --outside --internet --dns --control --quiet
alcc-lab sim
    --link --delay --up --rtt --queue --queue-up --loss --loss-up --radio --radio-up --step --steps
    --outages --repeat --reorder --flow --plugin --duration --seed --start --settle --phase --lateness --jitter --wake --max-events
    --emu --series --profile --pcap --pcap-at --qlog --qlog-version --figure --panels --json
alcc send
    --transport --port --bind --insecure --carrier --stall --series --json --pin --ca --duration
    --size --file --rate --flows --connect-timeout --cc --plugin --under --feedback --enforce
    --seed --resume --session
alcc recv
    --transport --port --bind --insecure --carrier --stall --series --json --cert --key --out
    --overwrite --once --count --connections --max-size --max-total --resume
    --resume-files
alcc-lab trace
alcc-lab trace stats
    --seed --predict --json
alcc-lab trace convert
    --from --to --unit --column --every --size --bin --output
alcc-lab trace combine
    --from --length --scale --rate --seed --output
alcc-lab trace synth
    --seed --length --output --json
alcc-lab trace calibrate
    --traces --seed --json
alcc-lab trace plot
    --predict --bin --seed --output
alcc-lab trace record
    --listen --mode --duration --warm-up --down --up --size --interval --limit --label --bind
    --patience --together --count --sessions --max-duration --max-total --out --insecure --json
alcc-lab compare
    --sim --emu --traces --schemes --cross --native --under --plugin --duration --runs --seed --rtt
    --queue --loss --loss-up --up --start --settle --jobs --out --csv --figure --panels --log
    --reference --tuned --only --interval --json
alcc-lab bundle
    --out --check --jobs
alcc-lab reproduce
    --all --traces --out --sim --emu --full --cells --jobs --results --applications --board --live
    --plugin --json
alcc-lab sweep
    --link --delay --up --rtt --queue --queue-up --loss --loss-up --radio --radio-up --step --steps
    --outages --repeat --reorder --flow --duration --seed --start --settle --phase --lateness --jitter --wake
    --max-events --vary --runs --interval --x --y --out --jobs --plugin --json
alcc-lab worst
    --table --crowd --cc --seed --list --shrink --out --jobs --plugin --json
alcc-lab mdi
alcc-lab mdi train
    --teacher --link --rtt --jobs --seeds --duration --queue --levels --grid --counting --cut --smoothing --least
    --add --form --page --output --plugin
alcc-lab mdi validate
    --teacher --link --rtt --jobs --walk --seeds --duration --queue --within --plugin --json
alcc list
    --plugin --json
alcc doctor
    --port --pid --json
";

/// The fields of a row, in JSON and CSV, in this order.
const ROW: &str = "
scheme algorithm options feedback enforcement under link queue min_rtt_ms duration_s seed run
started_s
throughput_mbps goodput_mbps bytes utilization
delay_mean_ms delay_median_ms delay_p95_ms
queue_delay_mean_ms queue_delay_median_ms queue_delay_p95_ms signal_delay_p95_ms
app_delay_median_ms app_delay_p95_ms rtt_mean_ms rtt_p95_ms
loss retransmits timeouts rtx_burst fct_ms
cpu_s_per_gbit lateness_p99_ms
";

/// The fields that a row has where they are known, in the order in which they follow.
const ROW_IF_KNOWN: &str = "
throughput_p25_mbps throughput_p75_mbps below_tcp tcp_cwnd_median tcp_cwnd_range
rtx_per_episode
jain_1s worst_share_10s fair_after_s
flow flow_number profile name host links dir start_s stop_s axis_loss loss_up up radio radio_up steps wake
trace_start_s number_of_flows phases error side
";

/// Fields of `alcc-lab sim --json`: of the whole, of its summary, of one direction of a link.
const SIM: &str = "
/about /flows /summary /notes
/about/program /about/build /about/command /about/mode /about/date /about/kernel /about/cpus /about/link /about/seed
/summary/throughput_mbps /summary/goodput_mbps
/summary/jain /summary/jain_1s /summary/jain_1s_from_s /summary/events
/summary/links
/summary/links/0/down /summary/links/0/up
/summary/links/0/down/arrived /summary/links/0/down/departed /summary/links/0/down/dropped
/summary/links/0/down/throughput_mbps /summary/links/0/down/utilization
/summary/links/0/up/arrived /summary/links/0/up/departed /summary/links/0/up/dropped
/summary/links/0/up/throughput_mbps /summary/links/0/up/utilization
";

/// Names of `alcc list --json`: `KIND/NAME`, for algorithms also `KIND/NAME:option` and
/// `KIND/NAME:profile=PROFILE`. A new algorithm, queue, radio link or transport need not be added
/// here until its release, so that adding one takes a file or crate and a name in its registry, and
/// no third place.
const LISTED: &str = "
algorithms/fixed algorithms/fixed:window algorithms/fixed:every
algorithms/reno algorithms/reno:profile=linux algorithms/reno:profile=linux-3.16
algorithms/reno:profile=linux-2.6.24 algorithms/reno:profile=windows7-newreno
algorithms/cubic algorithms/cubic:profile=linux algorithms/cubic:profile=linux-3.16
algorithms/cubic:profile=linux-2.6.24 algorithms/cubic:profile=rfc9438 algorithms/cubic:hystart
algorithms/verus algorithms/verus:profile=tuned algorithms/verus:profile=paper
algorithms/verus:profile=original algorithms/verus:r algorithms/verus:epoch
algorithms/verus:empty_epoch algorithms/verus:delta1 algorithms/verus:delta2 algorithms/verus:refit
algorithms/copa algorithms/copa:profile=tuned algorithms/copa:profile=paper
algorithms/copa:profile=original algorithms/copa:profile=mvfst algorithms/copa:delta
algorithms/copa:floor algorithms/copa:mode
algorithms/vegas
algorithms/bic algorithms/bic:profile=linux algorithms/bic:profile=linux-3.16
algorithms/bic:profile=linux-2.6.24
algorithms/westwood algorithms/westwood:profile=linux algorithms/westwood:profile=linux-3.16
algorithms/westwood:profile=linux-2.6.24
algorithms/bbr
algorithms/bbr3 algorithms/bbr3:profile=linux algorithms/bbr3:profile=draft
algorithms/budget algorithms/budget:delay
algorithms/ledbat
algorithms/mdi algorithms/mdi:profile=tuned algorithms/mdi:profile=original
algorithms/mdi:above algorithms/mdi:below algorithms/mdi:matrix
algorithms/sprout algorithms/sprout:profile=tuned algorithms/sprout:profile=paper
algorithms/sprout:profile=original algorithms/sprout:delay algorithms/sprout:confidence
algorithms/sprout-ewma algorithms/sprout-ewma:profile=tuned algorithms/sprout-ewma:profile=paper
algorithms/sprout-ewma:profile=original algorithms/sprout-ewma:delay
algorithms/vivace algorithms/vivace:profile=tuned algorithms/vivace:profile=paper
algorithms/vivace:profile=original
algorithms/c4
algorithms/scream
algorithms/prague
algorithms/roccet
resident/copa
resident/verus
resident/budget
resident/vegas
resident/bic
resident/westwood
resident/alcc_window
transports/tcp
transports/in-band
transports/udp
transports/quic
carriers/tcp
carriers/tls
queues/droptail queues/droptail:bytes queues/droptail:packets
queues/red queues/red:ecn queues/red:profile queues/red:min queues/red:max queues/red:p
queues/red:weight
queues/red:gentle queues/red:spacing queues/red:idle queues/red:bytes queues/red:packets
queues/codel queues/codel:ecn queues/codel:target queues/codel:interval queues/codel:bytes
queues/codel:packets
queues/pie queues/pie:ecn queues/pie:target queues/pie:update queues/pie:alpha queues/pie:beta queues/pie:burst
queues/pie:bytes queues/pie:packets
queues/fq_codel queues/fq_codel:ecn queues/fq_codel:flows queues/fq_codel:quantum queues/fq_codel:target
queues/fq_codel:interval queues/fq_codel:bytes queues/fq_codel:packets
queues/users queues/users:scheduler queues/users:slot queues/users:window queues/users:number
queues/users:user-bytes queues/users:user-packets queues/users:bytes queues/users:packets
queues/policer queues/policer:rate queues/policer:burst queues/policer:bytes queues/policer:packets
queues/shaper queues/shaper:rate queues/shaper:burst queues/shaper:bytes queues/shaper:packets
radio/harq radio/harq:errors radio/harq:rtt radio/harq:attempts radio/harq:slot
radio/rlc radio/rlc:errors radio/rlc:delay radio/rlc:slot
radio/grant radio/grant:period radio/grant:delay radio/grant:keep
radio/handover radio/handover:every radio/handover:length
radio/aggregation radio/aggregation:stations radio/aggregation:airtime
radio/leo radio/leo:every radio/leo:gap radio/leo:spread radio/leo:jitter
experiments/alcc-fig10 experiments/alcc-fig11 experiments/alcc-fig12 experiments/alcc-fig13
experiments/alcc-fig14 experiments/alcc-fig16 experiments/alcc-fig16-buffer experiments/alcc-fig16-steady
experiments/alcc-fig17
experiments/alcc-fig17-buffer experiments/alcc-fig18 experiments/alcc-fig18-hystart
experiments/alcc-fig19 experiments/alcc-fig19-begin experiments/alcc-fig1a experiments/alcc-fig1b experiments/alcc-fig2
experiments/alcc-fig20 experiments/alcc-fig22 experiments/alcc-fig22-buffer
experiments/alcc-fig23 experiments/alcc-fig24
experiments/alcc-fig4 experiments/alcc-fig4-force experiments/alcc-fig5 experiments/alcc-fig6
experiments/alcc-fig7 experiments/alcc-fig8 experiments/alcc-fig9
experiments/app-ftp experiments/app-page experiments/app-video experiments/app-vpn experiments/app-vpn-short experiments/cs244-att
experiments/cs244-att-starts experiments/cs244-campus experiments/cs244-city experiments/cs244-evdo
experiments/cs244-highway experiments/cs244-tmobile experiments/cs244-tmobile-down
experiments/cs244-tmobile-starts experiments/hsdpa-fig2 experiments/hsdpa-fig3
experiments/hsdpa-fig4 experiments/hsdpa-fig5 experiments/hsdpa-fig6 experiments/hsdpa-jain
experiments/hsdpa-table1 experiments/hsdpa-table2 experiments/hsdpa-table3 experiments/loss-tuned
experiments/mdi-cellular experiments/mdi-constants experiments/mdi-force experiments/mdi-highway
experiments/mdi-rapid
experiments/verus-fig1 experiments/verus-fig10-droptail experiments/verus-fig10a
experiments/verus-fig10b experiments/verus-fig10c experiments/verus-fig11a experiments/verus-fig11b
experiments/verus-fig12 experiments/verus-fig13 experiments/verus-fig13-queue
experiments/share-crowds-budget experiments/share-crowds-others experiments/share-host experiments/share-neighbours experiments/share-rtts
experiments/verus-fig15-change experiments/verus-fig3-turns
experiments/hsdpa-table2-learned experiments/hsdpa-table2-quiet experiments/hsdpa-fig5-learned
experiments/verus-fig14 experiments/verus-fig15 experiments/verus-fig2 experiments/verus-fig3
experiments/verus-fig4a experiments/verus-fig4b experiments/verus-fig5 experiments/verus-fig7a
experiments/verus-fig7b experiments/verus-fig7b-alone experiments/verus-fig8a experiments/verus-fig8b
experiments/verus-fig9-shared experiments/verus-fig9a experiments/verus-fig9b
experiments/verus-sens-delta experiments/verus-sens-eps experiments/verus-sens-upd
experiments/verus-short experiments/verus-table1 experiments/verus-table1-together
links/campus-stationary
links/campus-pedestrian
links/city-stationary
links/city-driving
links/highway-driving
links/shopping-mall
links/waterfront
links/campus-walk
links/city-drive
links/rapid
links/lte-driving
links/lte
links/nr
links/wifi
links/leo
preloaded/kernel/kernel
preloaded/bpf/bpf
preloaded/tcp-info/gate+pacing
preloaded/tcp-info/gate
preloaded/tcp-info/pacing
own/bpf/bpf
own/timestamps/queue+pacing
own/timestamps/queue
own/tcp-info/queue+pacing
own/tcp-info/queue
";

/// Schemes that a real host runs, and schemes that the simulator runs: as typed, and what rows call
/// them if that differs.
const EMULATED: &str = "
cubic bbr reno verus/over=cubic->alcc-verus verus:r=4/over=cubic->alcc-verus:r=4
copa/over=reno->alcc-copa/over=reno verus/transport=udp->verus-udp verus/transport=quic->verus-quic
verus/over=cubic/transport=in-band->alcc-verus-inband
verus/over=cubic/transport=in-band/carrier=tls->alcc-verus-inband/carrier=tls
verus/over=cubic/transport=tcp->alcc-verus-tcp
";
const SIMULATED: &str = "
verus copa:profile=original verus/over=cubic->alcc-verus verus/transport=udp->verus-udp
";

/// Exports of the C library, and declarations of its header.
const FUNCTIONS: &str = "
alcc_abort alcc_accept alcc_accept4 alcc_adopt alcc_close alcc_connect alcc_drain alcc_get_info
alcc_inband_close alcc_inband_finish alcc_inband_get_info alcc_inband_recv alcc_inband_send
alcc_inband_set_timeout alcc_inband_wrap alcc_load_plugin alcc_message alcc_recv alcc_send
alcc_session_feed alcc_session_finish alcc_session_free alcc_session_get_info alcc_session_new
alcc_session_read alcc_session_take alcc_session_timer_us alcc_session_write alcc_set_cc
alcc_set_close_deadline alcc_set_feedback alcc_set_queue alcc_shutdown alcc_version
alcc_writable_fd
";

/// Export of a plug-in.
const PLUGIN_SYMBOL: &str = "alcc_algorithm_v3";

/// Constants of the C header.
const CONSTANTS: &str = "
ALCC_DEFAULTS ALCC_CONNECTED ALCC_ACCEPTED ALCC_PLUGIN_ABI ALCC_NONE ALCC_PACKET_RETRANSMIT
ALCC_PACKET_PROBE ALCC_PACKET_APP_LIMITED ALCC_ACK_LIMITED_BY_WINDOW ALCC_ACK_LIMITED_BY_QUOTA
ALCC_ACK_LIMITED_BY_PACING ALCC_ACK_LIMITED_BY_APP ALCC_ACK_LIMITED_BY_PEER ALCC_ACK_ROUND_START
ALCC_ACK_IN_RECOVERY ALCC_ACK_FROM_COUNTERS ALCC_NEEDS_PER_PACKET_ACK ALCC_NEEDS_PACING
ALCC_NEEDS_PRR ALCC_NEEDS_ECN ALCC_OPTION_TEXT ALCC_OPTION_WHOLE ALCC_OPTION_REAL ALCC_OPTION_TIME
ALCC_OPTION_BYTES ALCC_ACK_ADVANCED ALCC_HEADER_ROOM ALCC_NEEDS_STREAM
ALCC_NEEDS_STRICT ALCC_REPORT_ROOM
";

/// Environment variables that the program, the preload library and the C library read or set.
const ENVIRONMENT: &str = "
ALCC_CC ALCC_CONTROL ALCC_DEBUG ALCC_EMULATED ALCC_EMULATE_DEVICE ALCC_EMULATE_LEAF ALCC_EMULATE_LEVEL ALCC_EMULATE_LINK
ALCC_EMULATE_NET ALCC_ENFORCE ALCC_EXCEPT ALCC_FAULT ALCC_FEEDBACK ALCC_INSIDE ALCC_JAR ALCC_LOG
ALCC_LOOPBACK ALCC_NGINX ALCC_ONLY ALCC_OUTBOUND ALCC_OUTSIDE ALCC_OUTSIDE6 ALCC_PLUGIN ALCC_PRELOAD
ALCC_QUEUE ALCC_REPORT ALCC_RULES ALCC_SEED ALCC_SHARE ALCC_TRACES ALCC_UNDER
";

/// Those of them that no page of docs/ names. The emulator marks its processes with most of them;
/// the others choose a device, a fault, or a program or library that is not at its usual place.
const UNDOCUMENTED: &str = "
ALCC_EMULATED ALCC_EMULATE_DEVICE ALCC_EMULATE_LEAF ALCC_EMULATE_LEVEL ALCC_EMULATE_LINK
ALCC_EMULATE_NET ALCC_FAULT ALCC_JAR ALCC_NGINX ALCC_PRELOAD
";

fn read(path: &str) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("read {}: {e}", path.display()))
}

/// Standard output of `alcc` or `alcc-lab`.
fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(built::built(program))
        .args(args)
        .env("COLUMNS", "100")
        .env_remove("ALCC_PLUGIN")
        .output()
        .expect("alcc starts");
    assert!(output.status.success(), "{program} {args:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&said("alcc-lab", args)).expect("one JSON object")
}

/// Fails unless the two lists have the same names.
fn same(list: &str, fixed: &[String], real: &[String]) {
    let fixed: BTreeSet<_> = fixed.iter().collect();
    let real: BTreeSet<_> = real.iter().collect();
    let gone: Vec<_> = fixed.difference(&real).collect();
    let new: Vec<_> = real.difference(&fixed).collect();
    assert!(
        gone.is_empty(),
        "{list}: gone or renamed, but people use these names: {gone:?}"
    );
    assert!(
        new.is_empty(),
        "{list}: new, so add them to the list in lab/cli/tests/fixed_names.rs: {new:?}"
    );
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// `sim --link` for each option of each command, and the commands themselves.
fn fixed_commands() -> Vec<String> {
    let mut names = Vec::new();
    let mut command = "";
    for line in COMMANDS.lines().filter(|l| !l.is_empty()) {
        if let Some(options) = line.strip_prefix("    ") {
            names.extend(options.split(' ').map(|o| format!("{command} {o}")));
        } else {
            command = line;
            names.push(command.to_owned());
        }
    }
    names
}

/// The same, out of the help of the program.
fn visit(program: &str, path: &[&str], names: &mut Vec<String>) {
    let command = [&[program], path].concat().join(" ");
    names.push(command.clone());
    let help = said(program, &[path, &["--help"]].concat());
    let mut heading = "";
    for line in help.lines() {
        if line.starts_with(char::is_alphanumeric) {
            heading = line;
        }
        let short_and_long =
            |l: &&str| l.len() > 4 && l.starts_with('-') && &l[2..4] == ", " && &l[1..2] != "-";
        let option = line
            .strip_prefix("      ")
            .or_else(|| {
                line.strip_prefix("  ")
                    .filter(short_and_long)
                    .map(|l| &l[4..])
            })
            .filter(|l| l.starts_with("--"))
            .and_then(|l| l.split([' ', '=', '[']).next());
        if let Some(option) = option.filter(|o| *o != "--help") {
            names.push(format!("{command} {option}"));
        } else if heading == "Commands:"
            && let Some(entry) = line.strip_prefix("  ")
            && entry.starts_with(char::is_alphabetic)
            && let Some(name) = entry.split(' ').next().filter(|n| *n != "help")
        {
            visit(program, &[path, &[name]].concat(), names);
        }
    }
}

#[test]
fn commands_and_options() {
    let mut real = Vec::new();
    visit("alcc", &[], &mut real);
    visit("alcc-lab", &[], &mut real);
    same("COMMANDS", &fixed_commands(), &real);
}

fn simulated() -> Value {
    json(&[
        "sim",
        "--link",
        "12mbit",
        "--flow",
        "cubic",
        "--duration",
        "1s",
        "--json",
    ])
}

#[test]
fn fields_of_a_row() {
    let every = [Row::CONFIGURATION, Row::MEASURED].concat();
    assert_eq!(words(ROW), every, "ROW: the order is that of the CSV file");
    let known = [Row::DISTRIBUTION, Row::OPTIONAL].concat();
    assert_eq!(words(ROW_IF_KNOWN), known, "ROW_IF_KNOWN");
    let printed = simulated();
    let row = printed["flows"][0].as_object().expect("a row");
    for name in words(ROW) {
        assert!(row.contains_key(&name), "no {name} in alcc-lab sim --json");
    }
    let csv = alcc_results::csv(&[Row::default()]);
    let header = csv.lines().next().expect("a header");
    assert_eq!(header, words(ROW).join(","), "the header of the CSV file");
}

#[test]
fn the_rest_of_what_sim_prints() {
    fn keys(value: &Value, path: &str, names: &mut Vec<String>) {
        let inside: Vec<(String, &Value)> = match value {
            Value::Object(fields) => fields.iter().map(|(k, v)| (k.clone(), v)).collect(),
            Value::Array(values) => values
                .iter()
                .enumerate()
                .map(|(i, v)| (i.to_string(), v))
                .collect(),
            _ => return,
        };
        for (name, value) in inside {
            let path = format!("{path}/{name}");
            if name.parse::<usize>().is_err() {
                names.push(path.clone());
            }
            if path != "/flows" {
                keys(value, &path, names);
            }
        }
    }
    let mut real = Vec::new();
    keys(&simulated(), "", &mut real);
    same("SIM", &words(SIM), &real);
}

#[test]
fn what_list_shows() {
    // The product's, and what the laboratory has besides.
    let mut lists: Value = serde_json::from_str(&said("alcc", &["list", "--json"])).expect("JSON");
    let list = lists.as_object_mut().expect("an object");
    let laboratory = json(&["list", "--json"]);
    list.extend(laboratory.as_object().expect("an object").clone());
    let mut real = Vec::new();
    for (kind, entries) in list {
        for entry in entries.as_array().expect("a list") {
            let text = |key: &str| entry[key].as_str().map(str::to_owned);
            let name = text("name").unwrap_or_else(|| {
                let part = |key| text(key).expect("feedback and enforcement");
                format!("{}/{}", part("feedback"), part("enforcement"))
            });
            let name = format!("{kind}/{name}");
            real.push(name.clone());
            let parts = |key: &str| entry[key].as_array().cloned().unwrap_or_default();
            for profile in parts("profiles") {
                real.push(format!(
                    "{name}:profile={}",
                    profile.as_str().expect("a name")
                ));
            }
            for option in parts("options") {
                real.push(format!(
                    "{name}:{}",
                    option["name"].as_str().expect("a name")
                ));
            }
        }
    }
    let fixed = words(LISTED);
    let registries = ["algorithms/", "queues/", "radio/", "transports/"];
    let registered = |whole: &str| registries.iter().any(|kind| whole.starts_with(kind));
    real.retain(|name| {
        let whole = name.split(':').next().unwrap_or(name);
        !registered(whole) || fixed.iter().any(|f| f == whole)
    });
    same("LISTED", &fixed, &real);
}

#[test]
fn names_of_schemes() {
    let registry = alcc_zoo::registry();
    for (schemes, side) in [(EMULATED, Side::Emulated), (SIMULATED, Side::Simulated)] {
        for name in words(schemes) {
            let (typed, label) = name.split_once("->").unwrap_or((&name, &name));
            let scheme = Scheme::parse(typed, &registry, side);
            assert_eq!(scheme.expect("a scheme").name, label);
        }
    }
}

#[test]
fn functions_of_the_c_library() {
    let map = read("alcc/capi/alcc.map");
    let exported: Vec<String> = map
        .lines()
        .map(str::trim)
        .filter(|l| l.starts_with("alcc_"))
        .map(|l| l.trim_end_matches(';').to_owned())
        .collect();
    same("FUNCTIONS", &words(FUNCTIONS), &exported);
    let header = read("alcc/capi/include/alcc.h");
    for name in words(FUNCTIONS) {
        let declared = header
            .lines()
            .filter(|l| !l.starts_with("//"))
            .any(|l| l.contains(&format!("{name}(")));
        assert!(declared, "alcc.h does not declare {name}");
    }
    assert!(header.contains(&format!("alcc_algorithm {PLUGIN_SYMBOL};")));
    let constants: Vec<String> = header
        .lines()
        .filter_map(|l| l.strip_prefix("#define ")?.split_once(' '))
        .map(|(name, _)| name.to_owned())
        .collect();
    same("CONSTANTS", &words(CONSTANTS), &constants);
}

/// The `"ALCC_..."` of the sources below `src`.
fn variables(folder: &Path, names: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            variables(&path, names);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source file");
            for rest in text.split("\"ALCC_").skip(1) {
                let of_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
                let end = rest.find(|c| !of_name(c));
                let name = &rest[..end.unwrap_or(rest.len())];
                // In the middle of a sentence a longer text begins with the name.
                if !name.is_empty() {
                    names.push(format!("ALCC_{name}"));
                }
            }
        }
    }
}

#[test]
fn environment_variables() {
    let mut real = Vec::new();
    let mut folders = Vec::new();
    for group in ["alcc", "lab"] {
        let crates = std::fs::read_dir(root().join(group)).expect("a group");
        folders.extend(crates.map(|e| e.expect("an entry").path().join("src")));
    }
    for folder in folders.iter().filter(|f| f.exists()) {
        variables(folder, &mut real);
    }
    same("ENVIRONMENT", &words(ENVIRONMENT), &real);
}

#[test]
fn environment_variables_are_in_a_page() {
    let of_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let mut named = BTreeSet::new();
    for entry in std::fs::read_dir(root().join("docs")).expect("the folder of pages") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "md") {
            let text = std::fs::read_to_string(&path).expect("a page");
            named.extend(text.split(|c| !of_name(c)).map(str::to_owned));
        }
    }
    let mut absent = words(ENVIRONMENT);
    absent.retain(|name| !named.contains(name));
    assert_eq!(
        absent,
        words(UNDOCUMENTED),
        "left: no page of docs/ names them; right: UNDOCUMENTED in lab/cli/tests/fixed_names.rs"
    );
}
