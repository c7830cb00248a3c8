// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which feedback and enforcement go together, and where. One line per value; `alcc list` prints
//! these tables.
use std::fmt;

/// Who writes to the socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deployment {
    /// We: the C library, the proxy.
    Own,
    /// An unmodified program with our library preloaded.
    Preloaded,
}

impl Deployment {
    /// All, in the order of `alcc list`.
    pub const ALL: [Self; 2] = [Self::Preloaded, Self::Own];

    /// What a message calls it.
    pub fn about(self) -> &'static str {
        match self {
            Self::Own => "own sockets (C library, proxy)",
            Self::Preloaded => "a preloaded program",
        }
    }
}

/// How the runtime learns what arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Feedback {
    /// The name that a user types.
    pub name: &'static str,
    /// What it is.
    pub summary: &'static str,
    /// Why a preloaded program cannot have it; `None`: it can.
    not_preloaded: Option<&'static str>,
    /// Why own sockets cannot have it; `None`: they can.
    not_own: Option<&'static str>,
}

/// How the limit is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Enforcement {
    /// The name that a user types.
    pub name: &'static str,
    /// What it is.
    pub summary: &'static str,
    /// Writes pass only as far as the algorithm allows.
    pub gate: bool,
    /// `SO_MAX_PACING_RATE` follows the algorithm's rate.
    pub pacing: bool,
    /// Why a preloaded program cannot have it; `None`: it can.
    not_preloaded: Option<&'static str>,
    /// Why own sockets cannot have it; `None`: they can.
    not_own: Option<&'static str>,
}

const NO_QUEUE: Option<&str> =
    Some("what an unmodified program writes is its own until the kernel takes it");
const NO_GATE: Option<&str> = Some("bytes wait in a queue of ours: say queue or queue+pacing");

impl Feedback {
    /// All there are, best first.
    pub const ALL: &'static [Self] = &[
        Self {
            name: "timestamps",
            summary: "the kernel's time of each acknowledgement, and TCP_INFO at a tick, no privileges",
            not_preloaded: Some("its notifications would wake the program's poll and epoll"),
            not_own: None,
        },
        Self {
            name: "tcp-info",
            summary: "TCP_INFO counters read at a tick, no privileges",
            not_preloaded: None,
            not_own: None,
        },
    ];

    /// Those that `deployment` can have, best first.
    pub fn of(deployment: Deployment) -> impl Iterator<Item = &'static Self> {
        Self::ALL
            .iter()
            .filter(move |f| f.refusal(deployment).is_none())
    }

    fn refusal(&self, deployment: Deployment) -> Option<&'static str> {
        match deployment {
            Deployment::Own => self.not_own,
            Deployment::Preloaded => self.not_preloaded,
        }
    }

    /// The one with this name; `None` for `auto`.
    ///
    /// # Errors
    /// A name that is not in the table, or that `deployment` cannot have.
    pub fn choose(deployment: Deployment, name: &str) -> Result<Option<Self>, TripleError> {
        if name == "auto" {
            return Ok(None);
        }
        pick(
            "feedback",
            name,
            Self::ALL,
            |f| (f.name, f.refusal(deployment)),
            deployment,
        )
        .map(Some)
    }
}

impl Enforcement {
    /// All there are, best first.
    pub const ALL: &'static [Self] = &[
        Self {
            name: "queue+pacing",
            summary: "bytes wait in our queue until the window lets them go, and the kernel paces",
            gate: true,
            pacing: true,
            not_preloaded: NO_QUEUE,
            not_own: None,
        },
        Self {
            name: "queue",
            summary: "bytes wait in our queue until the window lets them go",
            gate: true,
            pacing: false,
            not_preloaded: NO_QUEUE,
            not_own: None,
        },
        Self {
            name: "gate+pacing",
            summary: "a write passes only what the window allows, and the kernel paces",
            gate: true,
            pacing: true,
            not_preloaded: None,
            not_own: NO_GATE,
        },
        Self {
            name: "gate",
            summary: "a write passes only what the window allows",
            gate: true,
            pacing: false,
            not_preloaded: None,
            not_own: NO_GATE,
        },
        Self {
            name: "pacing",
            summary: "the kernel paces at the algorithm's rate; for algorithms that have one",
            gate: false,
            pacing: true,
            not_preloaded: None,
            not_own: NO_GATE,
        },
    ];

    /// Those that `deployment` can have, best first.
    pub fn of(deployment: Deployment) -> impl Iterator<Item = &'static Self> {
        Self::ALL
            .iter()
            .filter(move |e| e.refusal(deployment).is_none())
    }

    fn refusal(&self, deployment: Deployment) -> Option<&'static str> {
        match deployment {
            Deployment::Own => self.not_own,
            Deployment::Preloaded => self.not_preloaded,
        }
    }

    /// The one with this name; `auto` is the best.
    ///
    /// # Errors
    /// A name that is not in the table, or that `deployment` cannot have.
    pub fn choose(deployment: Deployment, name: &str) -> Result<Self, TripleError> {
        let name = match Self::of(deployment).next() {
            Some(best) if name == "auto" => best.name,
            _ => name,
        };
        pick(
            "enforcement",
            name,
            Self::ALL,
            |e| (e.name, e.refusal(deployment)),
            deployment,
        )
    }
}

/// Algorithm, feedback and enforcement: every result carries all three names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Triple {
    /// The algorithm as typed.
    pub algorithm: String,
    /// Where acknowledgements are learned from.
    pub feedback: Feedback,
    /// How the limit is kept.
    pub enforcement: Enforcement,
}

/// A feedback or enforcement that this host cannot have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{kind} '{name}' does not exist for {deployment}{why}: there are auto, {known}", deployment = .deployment.about())]
pub struct TripleError {
    kind: &'static str,
    name: String,
    deployment: Deployment,
    why: String,
    known: String,
}

impl Triple {
    /// The triple asked for, in a preloaded program; `auto` takes the best there is.
    ///
    /// # Errors
    /// A name that is not in the table, or that a preloaded program cannot have.
    pub fn choose(
        algorithm: String,
        feedback: &str,
        enforcement: &str,
    ) -> Result<Self, TripleError> {
        let deployment = Deployment::Preloaded;
        let best = Feedback::of(deployment).next().map_or("auto", |f| f.name);
        let feedback = if feedback == "auto" { best } else { feedback };
        Ok(Self {
            algorithm,
            feedback: pick(
                "feedback",
                feedback,
                Feedback::ALL,
                |f| (f.name, f.refusal(deployment)),
                deployment,
            )?,
            enforcement: Enforcement::choose(deployment, enforcement)?,
        })
    }
}

fn pick<T: Copy>(
    kind: &'static str,
    name: &str,
    all: &[T],
    about: impl Fn(&T) -> (&'static str, Option<&'static str>),
    deployment: Deployment,
) -> Result<T, TripleError> {
    let found = all.iter().find(|t| about(t).0 == name);
    let why = found.and_then(|t| about(t).1);
    found
        .filter(|_| why.is_none())
        .copied()
        .ok_or_else(|| TripleError {
            kind,
            name: name.to_owned(),
            deployment,
            why: why.map(|why| format!(" ({why})")).unwrap_or_default(),
            known: all
                .iter()
                .map(&about)
                .filter(|(_, refusal)| refusal.is_none())
                .map(|(name, _)| name)
                .collect::<Vec<_>>()
                .join(", "),
        })
}

impl fmt::Display for Triple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} / {} / {}",
            self.algorithm, self.feedback.name, self.enforcement.name
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_is_the_best_of_each_host() {
        let preloaded = Triple::choose("verus".to_owned(), "auto", "auto").unwrap();
        assert_eq!(preloaded.to_string(), "verus / tcp-info / gate+pacing");
        assert_eq!(
            Enforcement::choose(Deployment::Own, "auto").unwrap().name,
            "queue+pacing"
        );
        assert_eq!(
            Feedback::of(Deployment::Own).next().unwrap().name,
            "timestamps"
        );
    }

    #[test]
    fn a_pair_that_does_not_exist_is_refused_with_the_reason() {
        let refused = |f, e| {
            Triple::choose("verus".to_owned(), f, e)
                .unwrap_err()
                .to_string()
        };
        let text = refused("timestamps", "auto");
        assert!(
            text.contains("a preloaded program (its notifications would wake")
                && text.ends_with("there are auto, tcp-info"),
            "{text}"
        );
        assert!(refused("auto", "queue").contains("unmodified program"));
        assert!(refused("auto", "gat").ends_with("there are auto, gate+pacing, gate, pacing"));
        let own = Enforcement::choose(Deployment::Own, "gate")
            .unwrap_err()
            .to_string();
        assert!(own.contains("queue of ours"), "{own}");
    }
}
