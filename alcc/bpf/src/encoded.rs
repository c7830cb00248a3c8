// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules as the kernel has them: `struct policy` and `struct rule` of `policy.bpf.c`.
use crate::RESIDENT;
use crate::rule::{InForce, LABEL_LEN, RULES, Rule, RuleInForce, shortened};
use crate::selection::{Choice, Prefix, cgroups_of};
use alcc_sys::{Chosen, Options};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) const RULE_LEN: usize = 256;
const HEAD_LEN: usize = 136;
const LABEL_AT: usize = RULE_LEN - 1 - LABEL_LEN;
pub(crate) const POLICY_LEN: usize = HEAD_LEN + 2 * RULES * RULE_LEN;
const FILE: Range<usize> = 24..HEAD_LEN;
const PROGRAM: Range<usize> = 56..72;
const CONTROL: Range<usize> = 72..88;
const OPTIONS: Range<usize> = 88..88 + Options::LEN;

type Bytes = [u8; RULE_LEN];

/// The rules in force, encoded.
#[derive(Clone, Default)]
pub(crate) struct Rules {
    file: PathBuf,
    /// Seconds since 1970.
    applied: u64,
    /// Initial value of the hashes of cgroups.
    secret: u64,
    /// Rules of the file.
    of_file: Vec<Bytes>,
    /// Rules of [`crate::Future`], newest first.
    attached: Vec<Bytes>,
}

impl Rules {
    pub(crate) fn is_empty(&self) -> bool {
        self.of_file.is_empty() && self.attached.is_empty()
    }

    /// Replaces the rules of the file by these, in the order in which they are tried.
    pub(crate) fn set_file(&mut self, rules: &[Rule], file: &Path, secret: u64) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        self.file = file.to_path_buf();
        self.applied = now.map_or(0, |t| t.as_secs());
        self.secret = secret;
        self.of_file = rules.iter().map(|one| rule(one, secret)).collect();
    }

    /// Puts the rule before all others, in place of one with equal conditions. `false`: there is no room.
    pub(crate) fn attach(&mut self, new: &Rule) -> bool {
        let new = rule(new, self.secret);
        let conditions = |rule: &Bytes| (rule[..54].to_vec(), rule[PROGRAM].to_vec());
        self.attached
            .retain(|old| conditions(old) != conditions(&new));
        self.attached.insert(0, new);
        if self.attached.len() > RULES {
            // A unit that attaches at each start leaves one behind, because its cgroup is a new one each time.
            let dead = |choice: &Choice| choice.number != 0 && choice.cgroup.is_none();
            self.detach(dead);
        }
        self.attached.len() <= RULES
    }

    /// Removes the matching rules of [`crate::Future`] and returns them.
    pub(crate) fn detach(&mut self, is_meant: impl Fn(&Choice) -> bool) -> Vec<Choice> {
        let (ended, stay) = (self.choices().into_iter().zip(&self.attached))
            .partition::<Vec<_>, _>(|(choice, _)| is_meant(choice));
        let stay = stay.into_iter().map(|(_, rule)| *rule).collect();
        let ended = ended.into_iter().map(|(choice, _)| choice).collect();
        self.attached = stay;
        ended
    }

    /// The rules of [`crate::Future`].
    pub(crate) fn choices(&self) -> Vec<Choice> {
        let numbers = self.attached.iter().map(|rule| long(rule, 0));
        let cgroups = cgroups_of(numbers);
        let choice = |rule: &Bytes| Choice {
            port: Some(half(rule, 50)).filter(|port| *port != 0),
            prefix: prefix(rule),
            control: Chosen {
                control: text(&rule[CONTROL]),
                options: Options::read(rule[OPTIONS].try_into().expect("twelve bytes")),
            },
            number: long(rule, 0),
            cgroup: cgroups.get(&long(rule, 0)).cloned(),
        };
        self.attached.iter().map(choice).collect()
    }

    /// The rules of the file. `None`: there are none.
    pub(crate) fn in_force(&self) -> Option<InForce> {
        let rule = |rule: &Bytes| RuleInForce {
            label: text(&rule[LABEL_AT..]),
            line: word(rule, 100),
            control: Some(text(&rule[CONTROL])).filter(|name| !name.is_empty()),
            cgroup: long(rule, 0),
        };
        (!self.of_file.is_empty()).then(|| InForce {
            file: self.file.clone(),
            applied: UNIX_EPOCH + Duration::from_secs(self.applied),
            secret: self.secret,
            rules: self.of_file.iter().map(rule).collect(),
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; POLICY_LEN];
        let len = |rules: &[Bytes]| u16::try_from(rules.len()).expect("at most RULES");
        let of_file = &self.of_file;
        let by_cgroup = u16::from(of_file.iter().any(|rule| long(rule, 0) != 0));
        let by_program = u16::from(of_file.iter().any(|rule| rule[PROGRAM.start] != 0));
        bytes[..4].copy_from_slice(&u32::from(len(of_file)).to_ne_bytes());
        bytes[4..6].copy_from_slice(&len(&self.attached).to_ne_bytes());
        bytes[6..8].copy_from_slice(&(by_cgroup | by_program << 1).to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.applied.to_ne_bytes());
        bytes[16..24].copy_from_slice(&self.secret.to_ne_bytes());
        put(&mut bytes[FILE], self.file.as_os_str().as_bytes());
        for (first, rules) in [(0, of_file), (RULES, &self.attached)] {
            let places = bytes[HEAD_LEN + first * RULE_LEN..].chunks_exact_mut(RULE_LEN);
            for (rule, into) in rules.iter().zip(places) {
                into.copy_from_slice(rule);
            }
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let rules = |first: usize, n: usize| -> Vec<Bytes> {
            let places = bytes[HEAD_LEN + first * RULE_LEN..].chunks_exact(RULE_LEN);
            let rules = places.map(|rule| rule.try_into().expect("the length of a rule"));
            rules.take(n).collect()
        };
        Self {
            file: text(&bytes[FILE]).into(),
            applied: long(bytes, 8),
            secret: long(bytes, 16),
            of_file: rules(0, word(bytes, 0) as usize),
            attached: rules(RULES, half(bytes, 4).into()),
        }
    }
}

/// `struct rule`. Hashes of cgroups begin with `secret`.
pub(crate) fn rule(rule: &Rule, secret: u64) -> Bytes {
    let mut into = [0; RULE_LEN];
    let place = rule.place.as_ref().map_or(0, |place| place.hash(secret));
    into[..8].copy_from_slice(&place.to_ne_bytes());
    if let Some((family, words, len)) = rule.peer.as_ref().map(Prefix::words) {
        into[16..32].copy_from_slice(&words);
        let mask = u128::MAX.checked_shl(128 - len).unwrap_or(0);
        into[32..48].copy_from_slice(&mask.to_be_bytes());
        into[48..50].copy_from_slice(&family.to_ne_bytes());
    }
    into[50..52].copy_from_slice(&rule.port.unwrap_or(0).to_ne_bytes());
    if let Some(share) = rule.share {
        into[8..16].copy_from_slice(&share.salt().to_ne_bytes());
        into[52..54].copy_from_slice(&share.per_mille().to_ne_bytes());
    }
    let program = rule.program.as_deref().unwrap_or("");
    put(&mut into[PROGRAM], program.as_bytes());
    match &rule.control {
        Some(Chosen { control, options }) => {
            into[54] = RESIDENT.iter().any(|r| r.control.name == control).into();
            put(&mut into[CONTROL], control.as_bytes());
            into[OPTIONS].copy_from_slice(&options.bytes());
        }
        None => into[55] = 1,
    }
    into[100..104].copy_from_slice(&rule.line.to_ne_bytes());
    put(&mut into[LABEL_AT..], shortened(&rule.label()).as_bytes());
    into
}

fn prefix(rule: &Bytes) -> Option<Prefix> {
    let words: [u8; 16] = rule[16..32].try_into().expect("sixteen bytes");
    let mask = u128::from_be_bytes(rule[32..48].try_into().expect("sixteen bytes"));
    Prefix::of_words(half(rule, 48), words, mask.count_ones())
}

/// Copies as much of the text as fits before a final zero.
fn put(into: &mut [u8], text: &[u8]) {
    let len = text.len().min(into.len() - 1);
    into[..len].copy_from_slice(&text[..len]);
}

pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The text before the first zero.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
