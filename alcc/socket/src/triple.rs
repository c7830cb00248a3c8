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
    /// A one-line summary.
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
    /// A one-line summary.
    pub summary: &'static str,
    /// True if writes pass only as far as the algorithm allows.
    pub gate: bool,
    /// True if `SO_MAX_PACING_RATE` follows the algorithm's rate.
    pub pacing: bool,
    /// True if the kernel enforces window and rate, and all writes pass. It needs a BPF program
    /// that root has loaded.
    pub kernel: bool,
    /// True if the algorithm itself runs in the kernel. It needs what root has loaded.
    pub resident: bool,
    /// The reason why a preloaded program cannot use it; `None`: it can.
    not_preloaded: Option<&'static str>,
    /// The reason why own sockets cannot use it; `None`: they can.
    not_own: Option<&'static str>,
}

/// If the kernel enforces the limit, it also reports acknowledgements.
const KERNEL: &str = "bpf";
/// The feedback of an algorithm in the kernel, where nobody else has to know of acknowledgements.
pub(crate) const RESIDENT: &str = "kernel";
const NOT_OURS: Option<&str> =
    Some("'alcc attach' selects it for any program, and a program by TCP_CONGESTION");
const NO_QUEUE: Option<&str> =
    Some("the library cannot hold data of an unmodified program in a queue");
const NO_GATE: Option<&str> =
    Some("data waits in a queue of the library: use queue or queue+pacing");

impl Feedback {
    /// All values, best first.
    pub const ALL: &'static [Self] = &[
        Self {
            name: RESIDENT,
            summary: "none needed: the algorithm runs in the kernel",
            not_preloaded: None,
            not_own: NOT_OURS,
        },
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

    /// They go together.
    fn fits(&self, enforcement: &Enforcement) -> bool {
        match self.name {
            RESIDENT => enforcement.resident,
            KERNEL => enforcement.kernel,
            _ => !enforcement.is_the_kernels(),
        }
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
            resident: true,
            not_own: NOT_OURS,
            ..Self::plain(
                RESIDENT,
                "the algorithm itself runs in the kernel, if 'alcc bpf load' has loaded it",
            )
        },
        Self {
            kernel: true,
            ..Self::plain(KERNEL, "the kernel enforces window and rate, exactly")
        },
        Self {
            gate: true,
            pacing: true,
            not_preloaded: NO_QUEUE,
            ..Self::plain(
                "queue+pacing",
                "data waits in a queue of the library until the window permits it, and the kernel paces",
            )
        },
        Self {
            gate: true,
            not_preloaded: NO_QUEUE,
            ..Self::plain(
                "queue",
                "data waits in a queue of the library until the window permits it",
            )
        },
        Self {
            gate: true,
            pacing: true,
            not_own: NO_GATE,
            ..Self::plain(
                "gate+pacing",
                "writes are limited to the window, and the kernel paces",
            )
        },
        Self {
            gate: true,
            not_own: NO_GATE,
            ..Self::plain("gate", "writes are limited to the window")
        },
        Self {
            pacing: true,
            not_own: NO_GATE,
            ..Self::plain(
                "pacing",
                "the kernel paces at the algorithm's rate; for algorithms that have one",
            )
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

    const fn plain(name: &'static str, summary: &'static str) -> Self {
        Self {
            name,
            summary,
            gate: false,
            pacing: false,
            kernel: false,
            resident: false,
            not_preloaded: None,
            not_own: None,
        }
    }

    /// It needs what root has loaded.
    pub fn is_the_kernels(&self) -> bool {
        self.kernel || self.resident
    }

    /// The window in the kernel.
    pub fn in_the_kernel() -> Option<&'static Self> {
        Self::ALL.iter().find(|e| e.kernel)
    }

    /// The best that works without a privileged helper.
    pub fn best(deployment: Deployment) -> Option<&'static Self> {
        Self::of(deployment).find(|e| !e.is_the_kernels())
    }

    /// The next best for a connection on which the kernel cannot enforce the limit. `None`: it does
    /// not need the kernel.
    pub fn without_the_kernel(&self, deployment: Deployment) -> Option<Self> {
        Self::best(deployment)
            .filter(|_| self.is_the_kernels())
            .copied()
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

/// Abilities of the kernel for the connections of a program, each with the reason if it is missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kernel {
    /// Run the algorithm.
    pub algorithm: Result<(), String>,
    /// Keep the window of an algorithm that runs in the program.
    pub window: Result<(), String>,
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
    /// The requested triple; `auto` takes the best available.
    ///
    /// # Errors
    /// A name is not in the table, or `deployment` cannot use it; the combination is invalid; or
    /// the kernel cannot enforce the limit, with the reason.
    pub fn choose(
        deployment: Deployment,
        algorithm: String,
        (feedback, enforcement): (&str, &str),
        kernel: Kernel,
    ) -> Result<Self, String> {
        let text = |e: TripleError| e.to_string();
        let asked = Feedback::choose(deployment, feedback).map_err(text)?;
        let enforcement = match enforcement {
            "auto" => match asked {
                Some(f) if f.name == RESIDENT || f.of_kernel() => f.name,
                None if kernel.algorithm.is_ok() => RESIDENT,
                None if kernel.window.is_ok() => KERNEL,
                _ => "auto",
            },
            name => name,
        };
        let enforcement = Enforcement::choose(deployment, enforcement).map_err(text)?;
        if enforcement.resident {
            kernel.algorithm?;
        } else if enforcement.kernel {
            kernel.window?;
        }
        let fits = |f: &&Feedback| f.fits(&enforcement);
        let best = Feedback::of(deployment).find(fits).copied();
        let feedback = match asked {
            Some(asked) if fits(&&asked) => asked,
            Some(asked) => {
                return Err(format!(
                    "feedback '{}' cannot be combined with enforcement '{}': '{RESIDENT}' and '{KERNEL}' go only with themselves",
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
        .filter(|(f, e)| f.fits(e))
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

    fn preloaded(f: &str, e: &str, window: Result<(), &str>) -> Result<String, String> {
        let kernel = Kernel {
            algorithm: Err("not there".to_owned()),
            window: window.map_err(str::to_owned),
        };
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
            Kernel {
                algorithm: Err(String::new()),
                window: Err(String::new()),
            },
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
            assert!(refused.contains("go only with themselves"), "{refused}");
        }
        for (f, e) in [("auto", "bpf"), ("bpf", "auto"), ("bpf", "bpf")] {
            assert_eq!(
                preloaded(f, e, Err("not loaded")).unwrap_err(),
                "not loaded"
            );
        }
        let resident = |f, e, algorithm| {
            let kernel = Kernel {
                algorithm,
                window: Ok(()),
            };
            let triple = Triple::choose(Deployment::Preloaded, "copa".to_owned(), (f, e), kernel);
            triple.map(|triple| triple.to_string())
        };
        for asked in [("auto", "auto"), ("auto", "kernel"), ("kernel", "auto")] {
            let chosen = resident(asked.0, asked.1, Ok(()));
            assert_eq!(chosen.unwrap(), "copa / kernel / kernel");
        }
        let why = || Err("not for sprout".to_owned());
        assert_eq!(
            resident("auto", "kernel", why()),
            why().map(|()| String::new())
        );
        assert_eq!(resident("auto", "auto", why()).unwrap(), "copa / bpf / bpf");
        assert!(resident("kernel", "bpf", Ok(())).is_err());
        let listed: Vec<_> = pairs(Deployment::Preloaded)
            .map(|(f, e)| format!("{}/{}", f.name, e.name))
            .collect();
        assert_eq!(
            listed,
            [
                "kernel/kernel",
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
                && text.ends_with("there are auto, kernel, bpf, tcp-info"),
            "{text}"
        );
        assert!(refused("auto", "queue").contains("unmodified program"));
        assert!(
            refused("auto", "gat")
                .ends_with("there are auto, kernel, bpf, gate+pacing, gate, pacing")
        );
        let own = Enforcement::choose(Deployment::Own, "gate")
            .unwrap_err()
            .to_string();
        assert!(own.contains("queue of the library"), "{own}");
    }
}
