// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file of `--config`: values of options, and algorithms by port and peer. Every error names its line.
use crate::failure::{Failure, reason};
use crate::trusted::warn_of_writers;
use alcc_cc::{Registry, Spec};
use alcc_observe::{Action, Command, Pattern};
use alcc_socket::Rule;
use serde::Deserialize;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;

/// Connections that get one window together.
#[derive(clap::ValueEnum, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Share {
    /// Connections to the same address.
    Host,
}

/// The contents of a file. Options or defaults fill in what it leaves out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) cc: Option<Spec>,
    pub(crate) under: Option<String>,
    pub(crate) feedback: Option<String>,
    pub(crate) enforce: Option<String>,
    pub(crate) share: Option<Share>,
    pub(crate) loopback: bool,
    pub(crate) outbound: bool,
    pub(crate) only: Vec<Pattern>,
    pub(crate) except: Vec<Pattern>,
    pub(crate) rules: Vec<Rule>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct File {
    cc: Option<Spanned<String>>,
    under: Option<Spanned<String>>,
    feedback: Option<String>,
    enforce: Option<String>,
    share: Option<Share>,
    loopback: bool,
    outbound: bool,
    only: Vec<Spanned<PortOrRange>>,
    except: Vec<Spanned<PortOrRange>>,
    port: Vec<Spanned<Section>>,
    peer: Vec<Spanned<Section>>,
}

/// Longest file.
const MAX_MIB: u64 = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    port: Option<Spanned<i64>>,
    peer: Option<Spanned<String>>,
    cc: Option<Spanned<String>>,
    under: Option<Spanned<String>>,
    #[serde(default)]
    off: bool,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "write a port such as 443, or a range such as \"10.0.0.0/8\""
)]
enum PortOrRange {
    Port(i64),
    Range(String),
}

impl Config {
    /// Reads and checks a file.
    pub(crate) fn read(path: &Path, registry: &Registry) -> Result<Self, Failure> {
        let text = std::fs::File::open(path)
            .and_then(|file| alcc_units::read_bounded(file, MAX_MIB))
            .map_err(|e| Failure::usage(format!("read {}: {}", path.display(), reason(&e))))?;
        warn_of_writers(path);
        Self::parse(&text, registry).map_err(|(at, why)| {
            let line = text[..at.min(text.len())].matches('\n').count() + 1;
            Failure::usage(format!("{}:{line}: {why}", path.display()))
        })
    }

    /// Parses the text. An error is its position in bytes and the message.
    fn parse(text: &str, registry: &Registry) -> Result<Self, (usize, String)> {
        let file: File = toml::from_str(text).map_err(|e| {
            let at = e.span().map_or(0, |span| span.start);
            (at, e.message().lines().collect::<Vec<_>>().join("; "))
        })?;
        let mut config = Self {
            cc: file.cc.map(|cc| algorithm(&cc, registry)).transpose()?,
            under: file.under.map(|name| under(&name)).transpose()?,
            feedback: file.feedback,
            enforce: file.enforce,
            share: file.share,
            loopback: file.loopback,
            outbound: file.outbound,
            only: file.only.iter().map(pattern).collect::<Result<_, _>>()?,
            except: file.except.iter().map(pattern).collect::<Result<_, _>>()?,
            rules: Vec::new(),
        };
        let sections = file.port.into_iter().map(|s| (true, s));
        for (by_port, section) in sections.chain(file.peer.into_iter().map(|s| (false, s))) {
            let span = section.span();
            config.section(by_port, section.into_inner(), &span, registry)?;
        }
        Ok(config)
    }

    fn section(
        &mut self,
        by_port: bool,
        section: Section,
        span: &Range<usize>,
        registry: &Registry,
    ) -> Result<(), (usize, String)> {
        let which = match (by_port, &section.port, &section.peer) {
            (true, Some(n), None) => port(*n.get_ref(), n.span().start)?,
            (false, None, Some(text)) => range(text.get_ref(), text.span().start)?,
            (true, ..) => {
                return Err((
                    span.start,
                    "a [[port]] needs 'port = N' and no 'peer'".into(),
                ));
            }
            (false, ..) => {
                let why = "a [[peer]] needs 'peer = \"10.0.0.0/8\"' and no 'port'";
                return Err((span.start, why.into()));
            }
        };
        let special = section.cc.is_some() || section.under.is_some();
        if section.off == special {
            let why = "write 'off = true', or 'cc', or 'under', or both of these";
            return Err((span.start, why.into()));
        }
        if section.off {
            self.except.push(which);
        } else {
            self.rules.push(Rule {
                pattern: which,
                cc: section.cc.map(|cc| algorithm(&cc, registry)).transpose()?,
                under: section.under.map(|name| under(&name)).transpose()?,
            });
        }
        Ok(())
    }
}

/// The file as commands to a running server, which replace all earlier ones.
///
/// # Errors
/// [`Failure::Usage`] if the file has no `cc`, because the server may have started with another one.
pub(crate) fn orders(path: &Path, registry: &Registry) -> Result<Vec<Command>, Failure> {
    let config = Config::read(path, registry)?;
    let Some(cc) = config.cc else {
        return Err(Failure::usage(format!(
            "{}: it has no 'cc', and the server may have started with another one: add a line such as cc = \"{}\"",
            path.display(),
            alcc_cc::DEFAULT
        )));
    };
    let order = |pattern: Option<&Pattern>, action| Command {
        pattern: pattern.copied(),
        action,
    };
    let all = if config.only.is_empty() {
        Action::On
    } else {
        Action::Off
    };
    let mut list = vec![order(None, all), order(None, Action::Algorithm(cc))];
    list.extend(config.only.iter().map(|p| order(Some(p), Action::On)));
    list.extend(config.except.iter().map(|p| order(Some(p), Action::Off)));
    list.extend(rule_orders(&config.rules));
    Ok(list)
}

/// The sections of the file as commands, in reverse order: of sections the first match counts, of
/// commands the last.
pub(crate) fn rule_orders(rules: &[Rule]) -> Vec<Command> {
    let order = |rule: &Rule| {
        Some(Command {
            pattern: Some(rule.pattern),
            action: Action::Algorithm(rule.cc.clone()?),
        })
    };
    rules.iter().rev().filter_map(order).collect()
}

fn algorithm(text: &Spanned<String>, registry: &Registry) -> Result<Spec, (usize, String)> {
    let checked = text.get_ref().parse().and_then(|spec: Spec| {
        registry.build(&spec)?;
        Ok(spec)
    });
    checked.map_err(|e: alcc_cc::SpecError| (text.span().start, e.to_string()))
}

fn under(name: &Spanned<String>) -> Result<String, (usize, String)> {
    alcc_pipe::check_under(name.get_ref()).map_err(|e| (name.span().start, e.to_string()))?;
    Ok(name.get_ref().clone())
}

fn pattern(text: &Spanned<PortOrRange>) -> Result<Pattern, (usize, String)> {
    match text.get_ref() {
        PortOrRange::Port(n) => port(*n, text.span().start),
        PortOrRange::Range(text_of) => text_of.parse().map_err(|why| (text.span().start, why)),
    }
}

fn port(n: i64, at: usize) -> Result<Pattern, (usize, String)> {
    match u16::try_from(n) {
        Ok(n) if n > 0 => Ok(Pattern::Port(n)),
        _ => Err((at, format!("{n} is not a port: 1 to 65535"))),
    }
}

fn range(text: &str, at: usize) -> Result<Pattern, (usize, String)> {
    match text.parse() {
        Ok(found @ (Pattern::Cidr(..) | Pattern::Share(_))) => Ok(found),
        _ => Err((
            at,
            format!(
                "'{text}' is not an address range: write 10.0.0.0/8, 2001:db8::/32 or a share such as 10%"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
# A server for phones.
cc = "verus:r=4"
loopback = true
only = [443, "10.0.0.0/8"]

[[port]]
port = 443
cc = "copa"
under = "reno"

[[port]]
port = 8080
off = true

[[peer]]
peer = "2001:db8::/32"
cc = "fixed:window=9"
"#;

    fn mistake(text: &str) -> (usize, String) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        std::fs::write(&path, text).unwrap();
        let why = Config::read(&path, &Registry::builtin())
            .unwrap_err()
            .to_string();
        let rest = why
            .strip_prefix(&format!("{}:", path.display()))
            .unwrap_or_else(|| panic!("{why}"));
        assert_eq!(why.lines().count(), 1, "{why}");
        let (line, why) = rest.split_once(": ").unwrap();
        (line.parse().unwrap(), why.to_owned())
    }

    #[test]
    fn a_good_file_is_taken_as_it_is_meant() {
        let config = Config::parse(GOOD, &Registry::builtin()).unwrap();
        assert_eq!(config.cc.unwrap().to_string(), "verus:r=4");
        assert!(config.loopback && !config.outbound);
        let list = |p: &[Pattern]| p.iter().map(Pattern::to_string).collect::<Vec<_>>();
        assert_eq!(list(&config.only), ["443", "10.0.0.0/8"]);
        assert_eq!(list(&config.except), ["8080"]);
        let rules: Vec<_> = config.rules.iter().map(Rule::to_string).collect();
        assert_eq!(
            rules,
            ["443 cc=copa under=reno", "2001:db8::/32 cc=fixed:window=9"]
        );
        assert_eq!(
            Config::parse("", &Registry::builtin()),
            Ok(Config::default())
        );
    }

    #[test]
    fn a_file_is_orders_of_which_the_last_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        std::fs::write(&path, GOOD).unwrap();
        let list = orders(&path, &Registry::builtin()).unwrap();
        let list: Vec<_> = list.iter().map(Command::to_string).collect();
        assert_eq!(
            list,
            [
                "* off",
                "* cc=verus:r=4",
                "443 on",
                "10.0.0.0/8 on",
                "8080 off",
                "2001:db8::/32 cc=fixed:window=9",
                "443 cc=copa"
            ]
        );
        std::fs::write(&path, "only = [443]\n").unwrap();
        let why = orders(&path, &Registry::builtin()).unwrap_err();
        assert!(why.to_string().contains("it has no 'cc'"), "{why}");
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, line, why) in [
            (
                "cc = \"verus\"\nundr = \"bbr\"\n",
                2,
                "unknown field `undr`",
            ),
            ("\n\ncc = \"vrus\"\n", 3, "did you mean verus?"),
            ("cc = \"fixed:window=5ms\"\n", 1, "whole number"),
            (
                "[[port]]\nport = 70000\ncc = \"copa\"\n",
                2,
                "70000 is not a port",
            ),
            ("[[port]]\nport = 443\n", 1, "off = true"),
            (
                "[[port]]\nport = 443\ncc = \"copa\"\noff = true\n",
                1,
                "off = true",
            ),
            ("\n[[port]]\ncc = \"copa\"\n", 2, "needs 'port = N'"),
            ("[[port]]\nport = 443\ncc = \"copa:delta=x\"\n", 3, "delta"),
            (
                "[[port]]\nport = 443\nunder = \"nosuch\"\n",
                3,
                "this kernel has",
            ),
            (
                "[[peer]]\npeer = \"443\"\ncc = \"copa\"\n",
                2,
                "is not an address range",
            ),
            ("only = [443, \"10.0.0.0/33\"]\n", 1, "10.0.0.0/33"),
            ("loopback = \"yes\"\n", 1, "boolean"),
            ("cc = \n", 1, ""),
            ("[[prt]]\nport = 443\n", 1, "unknown field `prt`"),
        ] {
            let (found, said) = mistake(text);
            assert_eq!(found, line, "{text}: {said}");
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
