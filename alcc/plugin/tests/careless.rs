// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A careless plug-in is refused in one line, or its answers are held in the range of the contract.
mod support;

use alcc_cc::parts::{MAX_PACING_RATE, MIN_PACING_RATE};
use alcc_cc::{Allowance, Cx, Discard, Instance, Path, Registry, Spec, conformance};
use alcc_plugin::{PluginError, load, with_env, with_files};
use alcc_units::{Bytes, Span, Time};
use std::path::PathBuf;
use support::{built, example, wrapped};

fn careless() -> PathBuf {
    // One file for all tests of this process: the name is taken by the first that loads it.
    static FILE: std::sync::LazyLock<PathBuf> =
        std::sync::LazyLock::new(|| built("careless", include_str!("careless.c"), &[]));
    FILE.clone()
}

fn built_with(options: &str) -> Result<Instance, String> {
    let registry = with_files(Registry::builtin(), [careless()]).unwrap();
    let spec: Spec = format!("careless:{options}").parse().unwrap();
    registry.build(&spec).map_err(|error| error.to_string())
}

fn started(fault: &str) -> Instance {
    let mut cc = built_with(&format!("fault={fault}")).unwrap();
    let path = Path {
        mss: Bytes::new(1000),
        rtt_hint: None,
        seed: 1,
    };
    cc.on_start(&mut at(0), &path);
    cc
}

fn at(ms: u64) -> Cx<'static> {
    Cx {
        now: Time::from_millis(ms),
        log: Box::leak(Box::new(Discard)),
    }
}

/// With any results of the plug-in the host sees the contract fulfilled, for random sequences of
/// events.
#[test]
fn the_contract_is_kept_for_it() {
    let algorithm = load(&careless()).unwrap();
    for fault in [
        "none",
        "no-window",
        "not-a-number",
        "huge",
        "no-rate",
        "quota-never-spent",
        "no-quota",
        "ping",
        "timer-in-the-past",
        "never-look",
    ] {
        let spec = format!("careless:fault={fault}").parse().unwrap();
        for seed in 0..40 {
            conformance::run_seed(&algorithm, &spec, seed);
        }
    }
}

#[test]
fn answers_are_held_in_range() {
    let mss = Bytes::new(1000);
    assert_eq!(started("none").allowance(), Allowance::window(mss * 100));
    assert_eq!(started("no-window").allowance().window, mss);
    let huge = started("huge").allowance();
    assert_eq!((huge.window.get(), huge.burst.get()), (1 << 30, 1 << 30));
    assert_eq!(huge.rate, Some(MAX_PACING_RATE));
    assert_eq!(started("no-rate").allowance().rate, Some(MIN_PACING_RATE));
    // Nothing in flight, no quota, no timer: else nothing would ever leave.
    assert_eq!(started("no-quota").allowance().quota, mss);
    let looks = |fault| started(fault).needs().feedback_period;
    assert_eq!(looks("none"), Span::from_millis(1));
    assert_eq!(looks("never-look"), Span::from_millis(100));
    let mut cc = started("timer-in-the-past");
    assert_eq!(cc.next_timer(), Some(Time::ZERO));
    cc.on_timer(&mut at(50));
    let soon = Time::from_millis(50) + Span::from_micros(100);
    assert_eq!(cc.next_timer(), Some(soon));
}

#[test]
fn a_copy_that_cannot_be_made_sends_ten_segments() {
    let copy = started("no-memory").clone();
    assert_eq!(copy.allowance(), Allowance::window(Bytes::new(10_000)));
    assert_eq!(copy.clone().next_timer(), None);
}

#[test]
fn options_arrive_by_kind_and_gauges_only_if_numbers() {
    let values = |options: &str| {
        let mut list = Vec::new();
        let cc = built_with(options).unwrap();
        cc.gauges(&mut |name, value| list.push((name, value)));
        list
    };
    assert_eq!(
        values("fault=none"),
        [
            ("whole", 7.0),
            ("time", 5e6),
            ("bytes", 2000.0),
            ("real", -0.5)
        ]
    );
    assert_eq!(
        values("whole=10,time=1s,bytes=3M,real=1e3"),
        [
            ("whole", 10.0),
            ("time", 1e9),
            ("bytes", 3e6),
            ("real", 1e3)
        ]
    );
    let refused = |options| built_with(options).err().unwrap();
    for (options, want) in [
        ("whole=11", "whole=11: expected a whole number from 1 to 10"),
        (
            "time=2s",
            "time=2s: expected a length of time from 1ms to 1s",
        ),
        ("bytes=x", "bytes=x: expected a number of bytes"),
        ("real=x", "real=x: expected a number"),
        (
            "fault=refuse",
            "algorithm careless: fault=refuse: not today",
        ),
        ("fault=silent", "without giving a reason"),
        ("falt=none", "did you mean fault?"),
    ] {
        let text = refused(options);
        assert!(text.contains(want) && !text.contains('\n'), "{text}");
    }
}

/// A table that is smaller than ours (made for an earlier header) or larger (made for a later one).
#[test]
fn older_and_newer_tables_are_taken() {
    let mss = Path {
        mss: Bytes::new(500),
        rtt_hint: None,
        seed: 1,
    };
    for (name, size, window) in [
        // Its on_start is not in an older table and not called: it keeps the mss it began with.
        (
            "older",
            "__builtin_offsetof(struct alcc_algorithm, needs)",
            10 * 1448,
        ),
        ("newer", "sizeof(struct alcc_algorithm) + 64", 10 * 500),
    ] {
        let file = wrapped(name, "", &format!(".size = {size},"));
        let algorithm = load(&file).unwrap();
        let registry = Registry::builtin().with(algorithm);
        let mut cc = registry.build(&Spec::named(name)).unwrap();
        cc.on_start(&mut at(0), &mss);
        assert_eq!(cc.allowance().window, Bytes::new(window), "{name}");
    }
}

#[test]
fn a_file_that_does_not_hold_a_plug_in_is_refused_in_one_line() {
    let refused = |file: &PathBuf, want: &str| {
        let text = load(file).err().unwrap().to_string();
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(text.contains(want) && text.contains(name), "{text}");
        assert!(!text.contains('\n'), "{text}");
    };
    let table = |name: &str, fields: &str, want: &str| refused(&wrapped(name, "", fields), want);
    table(
        "abi",
        ".abi = 4,",
        "built for plug-in ABI 4, this is ABI 3: recompile it with this version's alcc.h, its table named alcc_algorithm_v3",
    );
    table(
        "size",
        ".size = 0,",
        "its size is 0: set .size = sizeof(struct alcc_algorithm)",
    );
    table("lacking", ".on_ack = 0,", "on_ack is NULL");
    table(
        "Name",
        "",
        "its name is 'Name': use at most 32 lower-case letters",
    );
    table("summary", ".summary = 0,", "its summary is NULL");
    table("lines", ".summary = \"a\\nb\",", "give one line of text");
    table("many", ".option_count = 65,", "its options is a list of 65");
    table("none", ".options = 0,", "its options is NULL of 2");
    let option = |name: &str, option: &str, want: &str| {
        let code = format!("static const struct alcc_option wrong[] = {{{option}}};");
        refused(
            &wrapped(
                name,
                &code,
                ".options = wrong, .option_count = sizeof wrong / sizeof wrong[0],",
            ),
            want,
        );
    };
    option(
        "default",
        "{\"x\", \"12\", \"h\", ALCC_OPTION_WHOLE, 0, 1, 10}",
        "the default of option x",
    );
    option(
        "kind",
        "{\"x\", \"1\", \"h\", 9, 0, 1, 10}",
        "option x is of kind 9",
    );
    option(
        "twice",
        "{\"x\", \"1\", \"h\", 0, 0, 0, 0}, {\"x\", \"1\", \"h\", 0, 0, 0, 0}",
        "option x is defined twice",
    );
    // As the versions before began.
    for abi in [1, 2] {
        let text = format!("const unsigned alcc_algorithm_v{abi}[] = {{ {abi}, 8 }};");
        refused(
            &built(&format!("old-{abi}"), &text, &[]),
            &format!(
                "it is built for plug-in ABI {abi}, this is ABI 3: recompile it with this version's alcc.h, its table named alcc_algorithm_v3"
            ),
        );
    }
    refused(
        &built("empty", "int nothing;", &[]),
        "it exports no alcc_algorithm_v3",
    );
    refused(
        &built(
            "lost",
            "int missing(void); int f(void) { return missing(); }",
            &[],
        ),
        "undefined symbol: missing",
    );
    let text = example().with_extension("c");
    refused(&text, "cc -shared -fPIC");
    refused(
        &text.with_extension("nothing"),
        "no such file or folder: check the name, and give the path of a shared object",
    );
    refused(&text.with_file_name(""), "it is a folder: name a file");
}

#[test]
fn a_name_belongs_to_one() {
    let built_in = with_files(Registry::builtin(), [wrapped("reno", "", "")]);
    let text = built_in.err().unwrap().to_string();
    assert!(
        text.contains("already an algorithm 'reno' (built in): give it another name"),
        "{text}"
    );
    let (first, second) = (wrapped("same", "", ""), wrapped("same", "", ""));
    let list = std::env::join_paths([&first, &first]).unwrap();
    let registry = with_env(Registry::builtin(), Some(&list)).unwrap();
    assert_eq!(registry.iter().filter(|a| a.name == "same").count(), 1);
    let error = with_files(registry, [&second]).err().unwrap();
    assert!(matches!(error, PluginError::Taken { owner, .. } if owner.contains("same.so")));
}

/// Two names for the profiles of a table.
const PROFILES: &str = "static const char *const profiles[] = { \"still\", \"linux-9.1\" };
static int chosen(const struct alcc_create *s)
{ return s->profile != NULL && s->profile[0] == 's'; }
static void *create_chosen(const struct alcc_create *s)
{ struct aimd *a = create(s); if (a != NULL && chosen(s)) a->window = 3; return a; }";
const WITH_PROFILES: &str =
    ".profile_names = profiles, .profile_count = 2, .create = create_chosen,";

#[test]
fn profiles_are_added_to_an_algorithm_that_is_there() {
    let file = wrapped("copa", PROFILES, WITH_PROFILES);
    let registry = with_files(Registry::builtin(), [&file]).unwrap();
    let profiles = |registry: &Registry| {
        let copa = registry.iter().find(|a| a.name == "copa");
        copa.unwrap().profiles.to_vec()
    };
    let all = ["tuned", "paper", "still", "linux-9.1"];
    assert_eq!(profiles(&registry), all);
    let window = |spec: &str| {
        let cc = registry.build(&spec.parse().unwrap());
        cc.map(|cc| cc.allowance().window.get())
            .map_err(|error| error.to_string())
    };
    assert_eq!(window("copa:profile=still"), Ok(3 * 1448));
    assert_eq!(window("copa:profile=linux-9.1,beta=0.7"), Ok(10 * 1448));
    let own = Registry::builtin().build(&"copa".parse().unwrap()).unwrap();
    assert_eq!(window("copa"), Ok(own.allowance().window.get()));
    let why = window("copa:profile=other").unwrap_err();
    assert!(why.contains("profile=other: expected"), "{why}");
    let why = window("copa:beta=0.7").unwrap_err();
    assert!(why.contains("no option 'beta'"), "{why}");
    // Once more is as once, and another file may not bring the same.
    let again = with_files(registry.clone(), [&file]).unwrap();
    assert_eq!(profiles(&again), all);
    let other = wrapped("copa", PROFILES, WITH_PROFILES);
    let text = with_files(registry, [other]).err().unwrap().to_string();
    let part = "algorithm 'copa' (built in) has already a profile 'still': give it another name";
    assert!(text.contains(part), "{text}");
    // Alone it is an algorithm with these profiles.
    let alone = load(&file).unwrap();
    assert_eq!(*alone.profiles, ["still", "linux-9.1"]);
}

/// A table that names others, and is not read otherwise.
const LIST: &str = "static struct alcc_algorithm tables[2];
static const struct alcc_algorithm *list(uint64_t number)
{
    static const char *const names[] = { \"one\", \"two\" };
    if (number >= 2)
        return NULL;
    if (tables[number].name == NULL) {
        tables[number] = (struct alcc_algorithm) {
            .abi = ALCC_PLUGIN_ABI, .size = sizeof(struct alcc_algorithm), .name = names[number], .summary = \"one of two\",
            .create = create_any, .clone = clone, .destroy = free,
            .allowance = allowance, .on_ack = on_ack,
        };
    }
    return &tables[number];
}";
const ANY: &str = "static void *create_any(const struct alcc_create *s)
{
    struct aimd *a = calloc(1, sizeof *a);
    if (a != NULL) { a->window = s->algorithm[0] == 'o' ? 1 : 2; a->mss = 1000; }
    return a;
}
";

#[test]
fn a_plug_in_may_have_several_algorithms() {
    let code = format!("{ANY}{LIST}");
    let file = wrapped("none", &code, ".list = list, .name = NULL, .create = NULL,");
    let registry = with_files(Registry::builtin(), [&file]).unwrap();
    for (name, segments) in [("one", 1), ("two", 2)] {
        let cc = registry.build(&name.parse().unwrap()).unwrap();
        assert_eq!(cc.allowance().window.get(), segments * 1000, "{name}");
    }
    assert!(registry.iter().all(|a| a.name != "none"));
    let empty = "static const struct alcc_algorithm *list(uint64_t n) { (void)n; return NULL; }";
    for (code, fields, part) in [
        (empty, ".list = list,", "its list of algorithms is empty"),
        (
            "static const struct alcc_receiver half = { .size = sizeof half };",
            ".receiver = &half,",
            "its receiver module lacks a callback",
        ),
        (
            "static const char *const profiles[] = { \"A b\" };",
            ".profile_names = profiles, .profile_count = 1,",
            "the name of a profile is 'A b'",
        ),
        (
            "static const char *const profiles[] = { \"a\", \"a\" };",
            ".profile_names = profiles, .profile_count = 2,",
            "profile a is defined twice",
        ),
    ] {
        let error = with_files(Registry::builtin(), [wrapped("wrong", code, fields)]);
        let text = error.err().expect("refused").to_string();
        assert!(text.contains(part) && !text.contains('\n'), "{text}");
    }
}
