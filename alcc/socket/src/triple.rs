// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The valid combinations of feedback and enforcement, for each deployment. One line per value;
//! `alcc list` prints these tables.
use std::fmt;

/// The code that writes to the socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deployment {
    /// Our own code: the C library, the proxy.
    Own,
    /// An unmodified program with our library preloaded.
    Preloaded,
}

impl Deployment {
    /// All values, in the order of `alcc list`.
    pub const ALL: [Self; 2] = [Self::Preloaded, Self::Own];

    /// The words for it in messages.
    pub fn about(self) -> &'static str {
        match self {
            Self::Own => "own sockets (C library, proxy)",
            Self::Preloaded => "a preloaded program",
        }
    }
}

/// A source of feedback on delivered data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Feedback {
    /// The name as typed.
    pub name: &'static str,
    /// A summary of one line.
    pub summary: &'static str,
    /// The reason why a preloaded program cannot use it; `None`: it can.
    not_preloaded: Option<&'static str>,
    /// The reason why own sockets cannot use it; `None`: they can.
    not_own: Option<&'static str>,
}

/// A way to enforce the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Enforcement {
    /// The name as typed.
    pub name: &'static str,
    /// A summary of one line.
    pub summary: &'static str,
    /// True if writes pass only as far as the algorithm allows.
    pub gate: bool,
    /// True if `SO_MAX_PACING_RATE` follows the algorithm's rate.
    pub pacing: bool,
    /// True if the kernel enforces window and rate, and all writes pass. It needs a BPF program
    /// that root has loaded.
    pub kernel: bool,
    /// The reason why a preloaded program cannot use it; `None`: it can.
    not_preloaded: Option<&'static str>,
    /// The reason why own sockets cannot use it; `None`: they can.
    not_own: Option<&'static str>,
}

/// If the kernel enforces the limit, it also reports acknowledgements.
const KERNEL: &str = "bpf";
const NO_QUEUE: Option<&str> =
    Some("the library cannot hold data of an unmodified program in a queue");
const NO_GATE: Option<&str> =
    Some("data waits in a queue of the library: use queue or queue+pacing");

impl Feedback {
    /// All values, best first.
    pub const ALL: &'static [Self] = &[
        Self {
            name: KERNEL,
            summary: "the kernel reports each acknowledgement, if root has loaded alcc_window",
            not_preloaded: None,
            not_own: None,
        },
        Self {
            name: "timestamps",
            summary: "the kernel's timestamp of each acknowledgement, and TCP_INFO at a tick, no privileges",
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

    /// The values that `deployment` can use, best first.
    pub fn of(deployment: Deployment) -> impl Iterator<Item = &'static Self> {
        Self::ALL
            .iter()
            .filter(move |f| f.refusal(deployment).is_none())
    }

    /// True if it comes with enforcement by the kernel.
    pub fn of_kernel(&self) -> bool {
        self.name == KERNEL
    }

    fn refusal(&self, deployment: Deployment) -> Option<&'static str> {
        match deployment {
            Deployment::Own => self.not_own,
            Deployment::Preloaded => self.not_preloaded,
        }
    }

    /// The value with this name; `None` for `auto`.
    ///
    /// # Errors
    /// The name is not in the table, or `deployment` cannot use it.
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
    /// All values, best first.
    pub const ALL: &'static [Self] = &[
        Self {
            name: KERNEL,
            summary: "the kernel enforces window and rate, exactly",
            gate: false,
            pacing: false,
            kernel: true,
            not_preloaded: None,
            not_own: None,
        },
        Self {
            name: "queue+pacing",
            summary: "data waits in a queue of the library until the window permits it, and the kernel paces",
            gate: true,
            pacing: true,
            kernel: false,
            not_preloaded: NO_QUEUE,
            not_own: None,
        },
        Self {
            name: "queue",
            summary: "data waits in a queue of the library until the window permits it",
            gate: true,
            pacing: false,
            kernel: false,
            not_preloaded: NO_QUEUE,
            not_own: None,
        },
        Self {
            name: "gate+pacing",
            summary: "writes are limited to the window, and the kernel paces",
            gate: true,
            pacing: true,
            kernel: false,
            not_preloaded: None,
            not_own: NO_GATE,
        },
        Self {
            name: "gate",
            summary: "writes are limited to the window",
            gate: true,
            pacing: false,
            kernel: false,
            not_preloaded: None,
            not_own: NO_GATE,
        },
        Self {
            name: "pacing",
            summary: "the kernel paces at the algorithm's rate; for algorithms that have one",
            gate: false,
            pacing: true,
            kernel: false,
            not_preloaded: None,
            not_own: NO_GATE,
        },
    ];

    /// The values that `deployment` can use, best first.
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

    /// The best that works without a privileged helper.
    pub fn best(deployment: Deployment) -> Option<&'static Self> {
        Self::of(deployment).find(|e| !e.kernel)
    }

    /// The next best for a connection on which the kernel cannot enforce the limit. `None`: it does
    /// not need the kernel.
    pub fn without_the_kernel(&self, deployment: Deployment) -> Option<Self> {
        Self::best(deployment).filter(|_| self.kernel).copied()
    }

    /// The value with this name; `auto` is the best that works without a privileged helper.
    ///
    /// # Errors
    /// The name is not in the table, or `deployment` cannot use it.
    pub fn choose(deployment: Deployment, name: &str) -> Result<Self, TripleError> {
        let name = match Self::best(deployment) {
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
    /// The source of acknowledgements.
    pub feedback: Feedback,
    /// The enforcement of the limit.
    pub enforcement: Enforcement,
}

/// Error for a feedback or enforcement that cannot be used here.
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
    /// The requested triple; `auto` takes the best available. `kernel`: `Ok` if the kernel can
    /// enforce the limit of these connections, or the reason why not.
    ///
    /// # Errors
    /// A name is not in the table, or `deployment` cannot use it; the combination is invalid; or
    /// the kernel cannot enforce the limit, with the reason.
    pub fn choose(
        deployment: Deployment,
        algorithm: String,
        (feedback, enforcement): (&str, &str),
        kernel: Result<(), String>,
    ) -> Result<Self, String> {
        let text = |e: TripleError| e.to_string();
        let asked = Feedback::choose(deployment, feedback).map_err(text)?;
        let enforcement = match enforcement {
            "auto" if asked.is_some_and(|f| f.of_kernel()) => KERNEL,
            "auto" if asked.is_none() && kernel.is_ok() => KERNEL,
            name => name,
        };
        let enforcement = Enforcement::choose(deployment, enforcement).map_err(text)?;
        if enforcement.kernel {
            kernel?;
        }
        let fits = |f: &&Feedback| f.of_kernel() == enforcement.kernel;
        let best = Feedback::of(deployment).find(fits).copied();
        let feedback = match asked {
            Some(asked) if fits(&&asked) => asked,
            Some(asked) => {
                return Err(format!(
                    "feedback '{}' cannot be combined with enforcement '{}': '{KERNEL}' goes only with '{KERNEL}'",
                    asked.name, enforcement.name
                ));
            }
            None => best.ok_or("no feedback")?,
        };
        Ok(Self {
            algorithm,
            feedback,
            enforcement,
        })
    }
}

/// The valid pairs of `deployment`, best first.
pub fn pairs(
    deployment: Deployment,
) -> impl Iterator<Item = (&'static Feedback, &'static Enforcement)> {
    Feedback::of(deployment)
        .flat_map(move |f| Enforcement::of(deployment).map(move |e| (f, e)))
        .filter(|(f, e)| f.of_kernel() == e.kernel)
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

    fn preloaded(f: &str, e: &str, kernel: Result<(), &str>) -> Result<String, String> {
        let kernel = kernel.map_err(str::to_owned);
        Triple::choose(Deployment::Preloaded, "verus".to_owned(), (f, e), kernel)
            .map(|triple| triple.to_string())
    }

    #[test]
    fn auto_is_the_best_of_each_host() {
        let auto = |kernel| preloaded("auto", "auto", kernel).unwrap();
        assert_eq!(auto(Ok(())), "verus / bpf / bpf");
        assert_eq!(auto(Err("")), "verus / tcp-info / gate+pacing");
        let best = |deployment| Enforcement::choose(deployment, "auto").unwrap().name;
        assert_eq!(best(Deployment::Own), "queue+pacing");
        let own = Triple::choose(
            Deployment::Own,
            String::new(),
            ("auto", "auto"),
            Err(String::new()),
        );
        assert_eq!(own.unwrap().feedback.name, "timestamps");
    }

    #[test]
    fn the_kernel_keeps_the_limit_only_with_its_own_feedback() {
        assert_eq!(
            preloaded("tcp-info", "auto", Ok(())).unwrap(),
            "verus / tcp-info / gate+pacing"
        );
        assert_eq!(
            preloaded("auto", "gate", Ok(())).unwrap(),
            "verus / tcp-info / gate"
        );
        assert_eq!(
            preloaded("bpf", "auto", Ok(())).unwrap(),
            "verus / bpf / bpf"
        );
        for (f, e) in [("tcp-info", "bpf"), ("bpf", "gate")] {
            let refused = preloaded(f, e, Ok(())).unwrap_err();
            assert!(refused.contains("goes only with"), "{refused}");
        }
        for (f, e) in [("auto", "bpf"), ("bpf", "auto"), ("bpf", "bpf")] {
            assert_eq!(
                preloaded(f, e, Err("not loaded")).unwrap_err(),
                "not loaded"
            );
        }
        let listed: Vec<_> = pairs(Deployment::Preloaded)
            .map(|(f, e)| format!("{}/{}", f.name, e.name))
            .collect();
        assert_eq!(
            listed,
            [
                "bpf/bpf",
                "tcp-info/gate+pacing",
                "tcp-info/gate",
                "tcp-info/pacing"
            ]
        );
    }

    #[test]
    fn a_pair_that_does_not_exist_is_refused_with_the_reason() {
        let refused = |f, e| preloaded(f, e, Ok(())).unwrap_err();
        let text = refused("timestamps", "auto");
        assert!(
            text.contains("a preloaded program (its notifications would wake")
                && text.ends_with("there are auto, bpf, tcp-info"),
            "{text}"
        );
        assert!(refused("auto", "queue").contains("unmodified program"));
        assert!(refused("auto", "gat").ends_with("there are auto, bpf, gate+pacing, gate, pacing"));
        let own = Enforcement::choose(Deployment::Own, "gate")
            .unwrap_err()
            .to_string();
        assert!(own.contains("queue of the library"), "{own}");
    }
}
