// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands of `alcc ctl` to running processes: control off and on, another algorithm.
use crate::map::{self, ORDERS, ORDERS_LEN, get_lines, put_text, set};
use crate::pattern::Pattern;
use crate::segment::Segment;
use alcc_cc::Spec;
use alcc_sys::Peer;
use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

/// The change that a command makes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Control off: plain TCP.
    Off,
    /// Control on.
    On,
    /// Control by this algorithm.
    Algorithm(Spec),
    /// This enforcement.
    Enforcement(String),
}

/// A change, for all connections or those of a port or an address range. Of several that match, the
/// last applies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Command {
    /// The connections; `None`: all.
    pub pattern: Option<Pattern>,
    /// The change.
    pub action: Action,
}

/// All commands so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Commands {
    /// Number of the last change; 0: none.
    pub generation: u64,
    /// The commands in the order in which they were given.
    pub list: Vec<Command>,
}

/// Maximum length of the text in shared memory, bytes.
const MAX_TEXT: usize = (ORDERS_LEN - 2) * 8;

impl Command {
    /// True if the command is for this connection.
    pub fn covers(&self, peer: &Peer) -> bool {
        self.pattern.is_none_or(|p| p.matches(peer))
    }
}

impl Commands {
    /// True if this connection is to be controlled.
    pub fn on(&self, peer: &Peer) -> bool {
        let last = self
            .list
            .iter()
            .rev()
            .find(|o| matches!(o.action, Action::Off | Action::On) && o.covers(peer));
        last.is_none_or(|o| o.action == Action::On)
    }

    /// True if the last command for all connections switched control off, and no later one has
    /// switched a part of them on.
    pub fn all_off(&self) -> bool {
        let mut switches = self.list.iter().filter_map(|o| match o.action {
            Action::Algorithm(_) | Action::Enforcement(_) => None,
            ref action => Some((o.pattern.is_none(), *action == Action::On)),
        });
        switches.clone().any(|(all, _)| all) && !switches.any(|(_, on)| on)
    }

    /// The algorithm that a command selects for this connection.
    pub fn algorithm(&self, peer: &Peer) -> Option<&Spec> {
        self.list.iter().rev().find_map(|o| match &o.action {
            Action::Algorithm(spec) if o.covers(peer) => Some(spec),
            _ => None,
        })
    }

    /// The enforcement ordered for this connection.
    pub fn enforcement(&self, peer: &Peer) -> Option<&str> {
        self.list.iter().rev().find_map(|o| match &o.action {
            Action::Enforcement(name) if o.covers(peer) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Adds a command, and removes those that it overrides, so that the list does not grow with
    /// time.
    fn add(&mut self, command: Command) {
        let kind = |o: &Command| match o.action {
            Action::Off | Action::On => 0,
            Action::Algorithm(_) => 1,
            Action::Enforcement(_) => 2,
        };
        let same = kind(&command);
        self.list.retain(|o| {
            kind(o) != same || (command.pattern.is_some() && o.pattern != command.pattern)
        });
        self.list.push(command);
    }

    fn text(&self) -> String {
        self.list.iter().map(|o| format!("{o}\n")).collect()
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            Some(pattern) => write!(f, "{pattern} ")?,
            None => f.write_str("* ")?,
        }
        match &self.action {
            Action::Off => f.write_str("off"),
            Action::On => f.write_str("on"),
            Action::Algorithm(spec) => write!(f, "cc={spec}"),
            Action::Enforcement(name) => write!(f, "enforce={name}"),
        }
    }
}

impl FromStr for Command {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let (pattern, action) = line
            .split_once(' ')
            .ok_or_else(|| format!("'{line}' is not a command"))?;
        let pattern = if pattern == "*" {
            None
        } else {
            Some(pattern.parse()?)
        };
        let action = match (action, action.strip_prefix("cc=")) {
            ("off", _) => Action::Off,
            ("on", _) => Action::On,
            (_, Some(spec)) => Action::Algorithm(
                spec.parse()
                    .map_err(|e: alcc_cc::SpecError| e.to_string())?,
            ),
            _ => match action.strip_prefix("enforce=") {
                Some(name) if !name.is_empty() => Action::Enforcement(name.to_owned()),
                _ => return Err(format!("'{action}' is not a command")),
            },
        };
        Ok(Self { pattern, action })
    }
}

impl Segment {
    /// The commands given so far; `None` if they cannot be read. An invalid line is ignored.
    pub fn commands(&self) -> Option<Commands> {
        let words = self.map().words(ORDERS, ORDERS_LEN);
        let mut copy = vec![0; ORDERS_LEN - 1];
        if !map::snapshot_into(words, &mut copy) {
            return None;
        }
        let text = get_lines(&copy[1..]);
        Some(Commands {
            generation: copy[0],
            list: text.lines().filter_map(|line| line.parse().ok()).collect(),
        })
    }

    /// Number of the last command, which a process checks before every write.
    pub fn generation(&self) -> u64 {
        self.map().word(ORDERS + 1).load(Ordering::Relaxed)
    }

    /// Gives a command to all processes, one caller at a time.
    ///
    /// # Errors
    /// The lock cannot be taken, or there are too many commands for single ports.
    pub fn command(&self, command: Command) -> io::Result<Commands> {
        self.add_commands([command])
    }

    /// Gives several commands at once.
    ///
    /// # Errors
    /// The errors of [`command`](Self::command); none of the commands is given then.
    pub fn add_commands(&self, list: impl IntoIterator<Item = Command>) -> io::Result<Commands> {
        self.locked(|| {
            let mut commands = self.commands().unwrap_or_default();
            for command in list {
                commands.add(command);
            }
            self.submit(commands)
        })
    }

    /// Replaces all earlier commands by these, at once.
    ///
    /// # Errors
    /// The errors of [`command`](Self::command); the earlier commands stay then.
    pub fn replace(&self, list: impl IntoIterator<Item = Command>) -> io::Result<Commands> {
        self.locked(|| {
            let mut commands = Commands {
                generation: self.generation(),
                list: Vec::new(),
            };
            for command in list {
                commands.add(command);
            }
            self.submit(commands)
        })
    }

    fn submit(&self, mut commands: Commands) -> io::Result<Commands> {
        commands.generation += 1;
        let text = commands.text();
        if text.len() > MAX_TEXT {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                format!(
                    "there are {} commands for single ports and ranges already: give one for all connections",
                    commands.list.len() - 1
                ),
            ));
        }
        map::publish(self.map().words(ORDERS, ORDERS_LEN), |w| {
            put_text(&w[1..], &text);
            set(&w[0], commands.generation);
        });
        Ok(commands)
    }
}

/// A process's copy of the commands, which is refreshed when they have changed.
#[derive(Default)]
pub struct CommandCache {
    generation: AtomicU64,
    commands: RwLock<Arc<Commands>>,
}

impl CommandCache {
    /// The commands, if there are newer ones than number `seen`.
    pub fn newer(&self, segment: &Segment, seen: u64) -> Option<Arc<Commands>> {
        if segment.generation() == seen {
            return None;
        }
        self.commands(segment)
            .filter(|commands| commands.generation != seen)
    }

    /// The current commands. While another thread is reading new ones, the earlier ones, or `None`;
    /// the next write or reading tries again. So no write waits here, and a signal handler cannot
    /// deadlock.
    pub fn commands(&self, segment: &Segment) -> Option<Arc<Commands>> {
        let now = segment.generation();
        if self.generation.load(Ordering::Acquire) != now
            && let Ok(mut kept) = self.commands.try_write()
            && let Some(fresh) = segment.commands()
        {
            self.generation.store(fresh.generation, Ordering::Release);
            *kept = Arc::new(fresh);
        }
        self.commands.try_read().ok().map(|kept| Arc::clone(&kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::tests::Scratch;

    fn command(text: &str) -> Command {
        text.parse().unwrap()
    }

    fn to(port: u16) -> Peer {
        Peer {
            remote: "192.0.2.1:999".parse().unwrap(),
            local_port: port,
            outbound: false,
        }
    }

    #[test]
    fn the_last_order_that_matches_counts() {
        let mut commands = Commands::default();
        assert!(commands.on(&to(443)) && commands.algorithm(&to(443)).is_none());
        for text in [
            "* off",
            "443 on",
            "* cc=copa",
            "80 cc=fixed:window=3",
            "192.0.2.0/24 on",
        ] {
            commands.add(command(text));
        }
        assert!(commands.on(&to(443)) && commands.on(&to(80)));
        let name = |port| commands.algorithm(&to(port)).unwrap().to_string();
        assert_eq!(
            (name(443), name(80)),
            ("copa".to_owned(), "fixed:window=3".to_owned())
        );
        assert!(!commands.all_off());
        commands.add(command("* off"));
        assert!(!commands.on(&to(443)) && commands.all_off());
        assert_eq!(commands.list.len(), 3, "{commands:?}");
        commands.add(command("443 on"));
        assert!(!commands.all_off());
        commands.add(command("* on"));
        assert!(!commands.all_off());
    }

    #[test]
    fn orders_reach_another_view_and_too_many_are_refused() {
        let scratch = Scratch::new();
        let (ctl, process) = (scratch.create(), scratch.open());
        let cache = CommandCache::default();
        assert_eq!(cache.commands(&process).unwrap().generation, 0);
        let given = ctl
            .command(command("10.0.0.0/8 cc=copa:delta=0.2"))
            .unwrap();
        assert_eq!((given.generation, process.generation()), (1, 1));
        assert_eq!(*cache.commands(&process).unwrap(), given);
        let mut refused = None;
        for port in 1..2000 {
            if let Err(why) = ctl.command(command(&format!("{port} off"))) {
                refused = Some(why.to_string());
                break;
            }
        }
        assert!(refused.unwrap().contains("give one for all"));
        assert!(cache.commands(&process).unwrap().list.len() > 500);
        ctl.command(command("* off")).unwrap();
        assert_eq!(cache.commands(&process).unwrap().list.len(), 2);
    }

    #[test]
    fn all_orders_are_replaced_at_once_or_none() {
        let scratch = Scratch::new();
        let (ctl, process) = (scratch.create(), scratch.open());
        ctl.command(command("443 cc=copa")).unwrap();
        let list = ["* on", "* cc=reno", "80 cc=verus", "80 cc=bic"].map(command);
        let given = ctl.replace(list).unwrap();
        assert_eq!(given.generation, 2);
        let seen = process.commands().unwrap();
        assert_eq!(seen, given);
        let name = |port| seen.algorithm(&to(port)).unwrap().to_string();
        assert_eq!([name(443), name(80)], ["reno", "bic"]);
        let many = (1..5000).map(|port| command(&format!("{port} off")));
        assert!(ctl.replace(many).is_err());
        assert_eq!(process.commands().unwrap(), given);
    }

    #[test]
    fn nonsense_is_no_order() {
        for bad in ["", "off", "* of", "x off", "* cc=", "443 cc=:"] {
            assert!(bad.parse::<Command>().is_err(), "{bad}");
        }
    }
}
