// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file of 'alcc policy': rules that map connections to algorithms. Every error names its line and key.
use crate::failure::{Failure, reason};
use crate::output::note;
use crate::trusted;
use alcc_bpf::{
    CGROUP_LEN, CGROUP_LEVELS, Chosen, PROGRAM_LEN, Place, Prefix, RESIDENT, RULES, Rule,
    below_all_cgroups,
};
use alcc_cc::{Registry, Spec};
use alcc_units::nearest;
use std::fmt::Display;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Longest file.
const MAX_MIB: u64 = 1;
/// The keys of a rule.
const KEYS: &[&str] = &[
    "port", "unit", "cgroup", "peer", "program", "share", "cc", "off",
];

/// A mistake: its position in bytes, and the message.
type Wrong = (usize, String);
type Value<'i> = Spanned<DeValue<'i>>;

/// The rules of a file, narrower ones first. `trusted`: refuses a file that another user can change.
///
/// # Errors
/// The file, the line, the key, the value found, and the expected one.
pub(crate) fn read(path: &Path, is_applied: bool) -> Result<Vec<Rule>, Failure> {
    let wrong =
        |e: &std::io::Error| Failure::usage(format!("read {}: {}", path.display(), reason(e)));
    // A check reads every file, but says what 'apply' would refuse. Nothing waits for the writer of a FIFO.
    let file = match std::path::absolute(path).and_then(|path| trusted::open(&path)) {
        Err(why) if !is_applied && path.is_file() => {
            note(format_args!(
                "alcc: 'alcc policy apply' will refuse it: {why}"
            ));
            std::fs::File::open(path)
        }
        other => other,
    };
    let text = file.and_then(|file| alcc_units::read_bounded(file, MAX_MIB));
    let text = text.map_err(|e| wrong(&e))?;
    parse(&text).map_err(|(at, why)| {
        Failure::usage(format!("{}:{}: {why}", path.display(), line(&text, at)))
    })
}

fn line(text: &str, at: usize) -> usize {
    text[..at.min(text.len())].matches('\n').count() + 1
}

fn parse(text: &str) -> Result<Vec<Rule>, Wrong> {
    let table = DeTable::parse(text).map_err(|e| {
        let at = e.span().map_or(0, |span| span.start);
        let mut why = e.message().replace('\n', "; ");
        let of_line = text[..at.min(text.len())].rsplit('\n').next().unwrap_or("");
        if let Some((key, _)) = of_line.split_once('=') {
            let hint = "text is written in quotes, such as unit = \"nginx.service\"";
            why = format!("{}: {why}: {hint}", key.trim());
        }
        (at, why)
    })?;
    let mut rules = Vec::new();
    for (key, value) in table.get_ref() {
        let list = value.get_ref().as_array();
        match (key.get_ref().as_ref(), list) {
            ("rule", Some(list)) => {
                for one in list {
                    rules.extend(rules_of(one, text)?);
                }
            }
            ("rule", None) => return Err((key.span().start, "rule: write it as [[rule]]".into())),
            (found, _) => return Err((key.span().start, unknown(found, &["rule"]))),
        }
    }
    let start = |rule: &Rule| {
        let before = text.split_inclusive('\n').take(rule.line as usize - 1);
        before.map(str::len).sum::<usize>()
    };
    if let Some(rule) = rules.get(RULES) {
        let why = format!(
            "[[rule]]: {} rules (each port counts): {RULES} are possible",
            rules.len()
        );
        return Err((start(rule), why));
    }
    if rules.is_empty() {
        let why = "no [[rule]]: write one, or end the policy by 'alcc policy rollback'";
        return Err((0, why.into()));
    }
    for (at, rule) in rules.iter().enumerate() {
        if let Some(other) = rules[..at].iter().find(|other| rule.matches_as(other)) {
            let why = format!(
                "[[rule]]: it matches the same connections as that of line {}: leave one out",
                other.line
            );
            return Err((start(rule), why));
        }
    }
    rules.sort_by_key(Rule::narrowness);
    Ok(rules)
}

fn unknown(found: &str, known: &[&str]) -> String {
    let near = nearest(found, known.iter().copied());
    let near = near.map_or_else(String::new, |near| format!(" (did you mean {near}?)"));
    format!("no key '{found}'{near}: there are {}", known.join(", "))
}

/// One rule for each of its ports.
fn rules_of(table: &Value<'_>, text: &str) -> Result<Vec<Rule>, Wrong> {
    let start = table.span().start;
    let Some(keys) = table.get_ref().as_table() else {
        return Err((start, "rule: write it as [[rule]]".into()));
    };
    let mut rule = Rule {
        line: u32::try_from(line(text, start)).unwrap_or(u32::MAX),
        ..Rule::default()
    };
    let (mut ports, mut cc, mut off) = (Vec::new(), None, None);
    for (key, value) in keys {
        let name = key.get_ref().as_ref();
        let wrong = |why: String| (value.span().start, format!("{name}: {why}"));
        let word = || {
            let text = value.get_ref().as_str().filter(|text| !text.is_empty());
            text.ok_or_else(|| wrong("write one text in quotes, not empty".into()))
        };
        match name {
            "port" => ports = ports_of(value).map_err(wrong)?,
            "unit" => rule.place = Some(unit(word()?).map_err(wrong)?),
            "cgroup" => rule.place = Some(cgroup(word()?).map_err(wrong)?),
            "peer" => rule.peer = Some(peer(word()?).map_err(wrong)?),
            "share" => rule.share = Some(word()?.parse().map_err(wrong)?),
            "program" => rule.program = Some(program(word()?).map_err(wrong)?),
            "cc" => {
                rule.algorithm = word()?.to_owned();
                rule.control = Some(control(word()?).map_err(wrong)?);
                cc = Some(());
            }
            "off" => {
                let is_off = value.get_ref().as_bool();
                off = is_off.filter(|is| *is).map(drop);
                if off.is_none() {
                    return Err(wrong("write true, or leave it out".into()));
                }
            }
            found => return Err((key.span().start, unknown(found, KEYS))),
        }
    }
    let has = |key: &str| keys.iter().any(|(k, _)| k.get_ref() == key);
    let why = match (cc, off) {
        (None, None) => Some("say what such connections get: cc = \"budget\", or off = true"),
        (Some(()), Some(())) => Some("it has cc and off: leave one out"),
        _ if has("unit") && has("cgroup") => Some("it has unit and cgroup: leave one out"),
        _ if keys.len() == 1 => Some(
            "it would match every connection of the machine: name a port, unit, cgroup, peer or program",
        ),
        _ => None,
    };
    if let Some(why) = why {
        return Err((start, format!("[[rule]]: {why}")));
    }
    if off.is_some() {
        rule.algorithm = "off".to_owned();
    }
    if ports.is_empty() {
        return Ok(vec![rule]);
    }
    let with = |port| Rule {
        port: Some(port),
        ..rule.clone()
    };
    Ok(ports.into_iter().map(with).collect())
}

fn ports_of(value: &Value<'_>) -> Result<Vec<u16>, String> {
    let one = |value: &DeValue<'_>| {
        let bad = |found: &dyn Display| format!("{found} is not a port: 1 to 65535");
        let Some(number) = value.as_integer() else {
            return Err("write a number, or a list such as [80, 443]".to_owned());
        };
        let port = u16::from_str_radix(number.as_str(), number.radix());
        port.ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| bad(&number.as_str()))
    };
    match value.get_ref().as_array() {
        None => Ok(vec![one(value.get_ref())?]),
        Some(list) if list.is_empty() => Err("it names none".to_owned()),
        Some(list) => list.iter().map(|value| one(value.get_ref())).collect(),
    }
}

fn unit(name: &str) -> Result<Place, String> {
    if name.contains('/') {
        return Err(format!(
            "'{name}' is a path: write cgroup = \"/sys/fs/cgroup/...\", or the name alone"
        ));
    }
    if !name.contains('.') {
        return Err(format!(
            "'{name}' is not the name of a unit: write it with its kind, such as {name}.service"
        ));
    }
    // systemd.unit(5), and the kinds that have processes.
    let is_of_unit = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    let kind = name.rsplit('.').next().unwrap_or("");
    if !name.chars().all(is_of_unit)
        || !["service", "scope", "slice"].contains(&kind)
        || name.ends_with(&format!("@.{kind}"))
        || name.len() == kind.len() + 1
    {
        return Err(format!(
            "{name:?} is not the name of a .service, .scope or .slice that can have processes"
        ));
    }
    name_of(name)?;
    Ok(Place::Unit(name.to_owned()))
}

/// A network. The kernel's side sees an IPv4 peer of an IPv6 socket as IPv4.
fn peer(text: &str) -> Result<Prefix, String> {
    if text.to_ascii_lowercase().starts_with("::ffff:") {
        return Err(format!(
            "{text:?}: write it as an IPv4 network, such as 10.0.0.0/8"
        ));
    }
    text.parse()
}

fn cgroup(path: &str) -> Result<Place, String> {
    let all = alcc_bpf::all_cgroups().unwrap_or_else(|| "/sys/fs/cgroup".into());
    let below = below_all_cgroups(Path::new(path), &all)
        .ok_or_else(|| format!("'{path}' is not a folder below {}", all.display()))?;
    if below.split('/').any(|part| part.is_empty() || part == ".")
        || below.contains(char::is_control)
    {
        return Err(format!(
            "{path:?}: write it as /proc/PID/cgroup has it, without empty parts and dots"
        ));
    }
    below.split('/').try_for_each(name_of)?;
    if below.split('/').count() > CGROUP_LEVELS {
        return Err(format!(
            "'{path}': at most {CGROUP_LEVELS} cgroups within each other are compared"
        ));
    }
    Ok(Place::Path(below))
}

fn name_of(part: &str) -> Result<(), String> {
    match part.len() <= CGROUP_LEN {
        true => Ok(()),
        false => Err(format!("'{part}' is longer than {CGROUP_LEN} letters")),
    }
}

fn program(name: &str) -> Result<String, String> {
    if name.len() > PROGRAM_LEN || name.contains('/') || name.contains(char::is_control) {
        return Err(format!(
            "{name:?} is not the name of a process: at most {PROGRAM_LEN} letters, as /proc/PID/comm has it"
        ));
    }
    Ok(name.to_owned())
}

/// The kernel's control for an algorithm, with its options.
fn control(text: &str) -> Result<Chosen, String> {
    let spec: Spec = text
        .parse()
        .map_err(|e: alcc_cc::SpecError| e.to_string())?;
    if RESIDENT.iter().any(|r| r.algorithm == spec.name) {
        // Some have a form in the kernel alone.
        let registry = Registry::builtin();
        if registry.iter().any(|a| a.name == spec.name) {
            registry.build(&spec).map_err(|e| e.to_string())?;
        }
        return Chosen::of(&spec).ok_or_else(|| {
            format!(
                "'{text}': the kernel's form of {} has other options: see docs/attach.md",
                spec.name
            )
        });
    }
    let there = alcc_pipe::Controls::available().map_err(|e| e.to_string())?;
    let is_window = text == alcc_bpf::WINDOW.name;
    let is_resident = RESIDENT.iter().any(|r| r.control.name == text);
    if (there.has(text) || is_resident) && !is_window {
        return Ok(text.into());
    }
    let there = there.to_string();
    let ours = RESIDENT.iter().map(|r| r.algorithm);
    let of_kernel = there
        .split_whitespace()
        .filter(|name| !name.starts_with("alcc_"));
    let known: Vec<_> = ours.chain(of_kernel).collect();
    let near = nearest(&spec.name, known.iter().copied());
    let near = near.map_or_else(String::new, |near| format!(" (did you mean {near}?)"));
    Err(format!(
        "'{text}' is not a congestion control in the kernel{near}: there are {}",
        known.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> (usize, String) {
        let (at, why) = parse(text).unwrap_err();
        (line(text, at), why)
    }

    #[test]
    fn a_policy_is_read() {
        let text = "# phones\n[[rule]]\nport = [80, 443]\ncc = \"budget\"\n\n[[rule]]\nport = 443\n\
                    peer = \"10.0.0.0/8\"\noff = true\n[[rule]]\nunit = \"nginx.service\"\nshare = \"10%\"\ncc = \"reno\"\n";
        let rules = parse(text).unwrap();
        let labels: Vec<_> = rules.iter().map(|rule| (rule.line, rule.label())).collect();
        let expected = [
            (6, "port 443, peer 10.0.0.0/8: off"),
            (10, "unit nginx.service, 10% of the clients: reno"),
            (2, "port 80: budget"),
            (2, "port 443: budget"),
        ];
        assert_eq!(
            labels,
            expected.map(|(line, label)| (line, label.to_owned()))
        );
        assert_eq!(rules[2].control, Some("alcc_budget".into()));
        // One has a form in the kernel alone.
        let vegas = parse("[[rule]]\nport = 1\ncc = \"vegas\"").unwrap();
        assert_eq!(vegas[0].control, Some("alcc_vegas".into()));
        let net = parse("[[rule]]\npeer = \"10.1.2.3/8\"\ncc = \"reno\"").unwrap();
        assert_eq!(net[0].label(), "peer 10.0.0.0/8: reno");
    }

    #[test]
    fn a_path_of_a_cgroup_has_no_empty_parts() {
        let all = alcc_bpf::all_cgroups().unwrap_or_else(|| "/sys/fs/cgroup".into());
        for wrong in ["a//b", "a/./b", "a\n"] {
            let why = cgroup(&format!("{}/{wrong}", all.display())).unwrap_err();
            assert!(why.contains("without empty parts"), "{why}");
        }
    }

    #[test]
    fn mistakes_name_the_line_the_key_and_the_nearest_match() {
        for (text, at, words) in [
            (
                "[[rule]]\nprot = 1\ncc = \"reno\"",
                2,
                "no key 'prot' (did you mean port?)",
            ),
            ("[[ruel]]\n", 1, "did you mean rule?"),
            ("[rule]\nport = 1", 1, "[[rule]]"),
            ("[[rule]]\nport = 0\n", 2, "port: 0 is not a port"),
            ("[[rule]]\nport = \"443\"", 2, "port: write a number"),
            ("[[rule]]\nport = []", 2, "port: it names none"),
            (
                "[[rule]]\nport = 1\ncc = \"budgt\"",
                3,
                "cc: 'budgt' is not a congestion control in the kernel (did you mean budget?)",
            ),
            (
                "[[rule]]\nport = 1\ncc = \"budget:dlay=1ms\"",
                3,
                "did you mean delay?",
            ),
            (
                "[[rule]]\nport = 1\ncc = \"verus:epoch=5ms\"",
                3,
                "cc: 'verus:epoch=5ms': the kernel's form of verus has other options",
            ),
            ("[[rule]]\nport = 1\ncc = \"sprout\"", 3, "cc: 'sprout'"),
            (
                "[[rule]]\nport = 1\ncc = 5",
                3,
                "cc: write one text in quotes",
            ),
            ("", 1, "no [[rule]]"),
            (
                "[[rule]]\nunit = nginx.service\ncc = \"reno\"",
                2,
                "unit: invalid float",
            ),
            (
                "[[rule]]\nunit = \"nginx.servcie\"\ncc = \"reno\"",
                2,
                "unit: \"nginx.servcie\" is not the name",
            ),
            (
                "[[rule]]\nunit = \"a@.service\"\ncc = \"reno\"",
                2,
                "is not the name",
            ),
            (
                "[[rule]]\nprogram = \"\\u0000\"\ncc = \"reno\"",
                2,
                "program: \"\\0\" is not the name",
            ),
            (
                "[[rule]]\npeer = \"::ffff:10.0.0.0/104\"\ncc = \"reno\"",
                2,
                "IPv4 network",
            ),
            (
                "\r\n\r\n[[rule]]\r\nport = 1\r\ncc = \"reno\"\r\n[[rule]]\r\nport = 1\r\ncc = \"bbr\"",
                6,
                "as that of line 3",
            ),
            ("[[rule]]\nport = 1", 1, "cc = \"budget\""),
            ("[[rule]]\ncc = \"reno\"", 1, "every connection"),
            (
                "[[rule]]\nport = 1\noff = true\ncc = \"reno\"",
                1,
                "cc and off",
            ),
            ("[[rule]]\nport = 1\noff = false", 3, "off: write true"),
            ("[[rule]]\nunit = \"nginx\"\noff = true", 2, "nginx.service"),
            (
                "[[rule]]\nunit = \"a/b.service\"\noff = true",
                2,
                "unit: 'a/b.service' is a path",
            ),
            (
                "[[rule]]\ncgroup = \"/etc\"\noff = true",
                2,
                "cgroup: '/etc' is not a folder below",
            ),
            (
                "[[rule]]\npeer = \"10.0.0.0/33\"\noff = true",
                2,
                "peer: '10.0.0.0/33'",
            ),
            ("[[rule]]\nshare = \"x\"\noff = true", 2, "share: 'x'"),
            (
                "[[rule]]\nprogram = \"/usr/bin/x\"\noff = true",
                2,
                "program: ",
            ),
            (
                "[[rule]]\nport = 1\noff = true\n[[rule]]\nport = 1\ncc = \"reno\"",
                4,
                "line 1",
            ),
            ("[[rule]]\nport = 1 2", 2, ""),
        ] {
            let (line, why) = wrong(text);
            assert!(line == at && why.contains(words), "{text}: {line}: {why}");
            assert!(!why.contains('\n'), "{why}");
        }
        let many: String = (1..=65)
            .map(|n| format!("[[rule]]\nport = {n}\noff = true\n"))
            .collect();
        assert!(wrong(&many).1.contains("65 rules"));
    }
}
