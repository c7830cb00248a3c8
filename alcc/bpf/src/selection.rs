// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The selection of connections.
use crate::error::BpfError;
#[cfg(feature = "loader")]
use crate::rule::Rule;
use alcc_observe::Share;
use alcc_sys::{Chosen, Options};
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, fstatfs};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{Error, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A selection of connections: those that match all conditions that are not `None`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Selection {
    /// The local port.
    pub port: Option<u16>,
    /// The peer's address.
    pub prefix: Option<Prefix>,
    /// A process that has the socket open.
    pub pid: Option<u32>,
    /// The socket is open in a process of this cgroup, or of one below it.
    pub cgroup: Option<PathBuf>,
    /// The peer is one of this share of the clients.
    pub share: Option<Share>,
}

/// A network of peers, as `192.0.2.0/24`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prefix {
    address: IpAddr,
    len: u8,
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = "a network such as 192.0.2.0/24, 2001:db8::/32 or one address";
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len)),
            None => (text, None),
        };
        let address: IpAddr = address
            .parse()
            .map_err(|_| format!("'{text}' is not a network: give {wanted}"))?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let len = match len.map(str::parse::<u8>) {
            None => most,
            Some(Ok(len)) if len <= most => len,
            Some(_) => return Err(format!("'{text}': the length is 0 to {most}")),
        };
        // Without the host's bits, so that equal networks are equal.
        let host = |most: u8| {
            u128::MAX
                .checked_shr(128 - u32::from(most - len))
                .unwrap_or(0)
        };
        let address = match address {
            IpAddr::V4(v4) => IpAddr::V4((v4.to_bits() & !(host(32) as u32)).into()),
            IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & !host(128)).into()),
        };
        Ok(Self { address, len })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

impl Prefix {
    /// True if the address is in this network. IPv4-mapped IPv6 addresses count as IPv4 addresses.
    pub fn has(&self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, true),
            IpAddr::V6(v6) => (v6.to_bits(), false),
        };
        let ((ours, v4), (other, other_v4)) = (bits(self.address), bits(address.to_canonical()));
        let unlike = (ours ^ other).checked_shr(128 - u32::from(self.len));
        v4 == other_v4 && unlike.unwrap_or(0) == 0
    }

    /// Its length, bits.
    pub(crate) fn bits(&self) -> u8 {
        self.len
    }

    /// The kernel's address family, the address in network byte order, and the length in bits.
    pub(crate) fn words(&self) -> (u16, [u8; 16], u32) {
        let mut words = [0; 16];
        let family = match self.address {
            IpAddr::V4(address) => {
                words[..4].copy_from_slice(&address.octets());
                nix::libc::AF_INET
            }
            IpAddr::V6(address) => {
                words.copy_from_slice(&address.octets());
                nix::libc::AF_INET6
            }
        };
        let family = u16::try_from(family).expect("families are small");
        (family, words, u32::from(self.len))
    }

    /// The network of [`Prefix::words`]. `None`: no family is given.
    #[cfg(feature = "loader")]
    pub(crate) fn of_words(family: u16, words: [u8; 16], len: u32) -> Option<Self> {
        let address = match i32::from(family) {
            0 => return None,
            nix::libc::AF_INET => {
                let v4: [u8; 4] = words[..4].try_into().expect("four bytes");
                IpAddr::from(v4)
            }
            _ => IpAddr::from(words),
        };
        let len = u8::try_from(len).ok()?;
        Some(Self { address, len })
    }
}

/// A choice for future connections of all processes in a cgroup.
#[derive(Clone, Copy, Debug)]
pub struct Future<'a> {
    /// Its port and prefix count. Its processes do not, because the cgroup replaces them.
    pub selection: &'a Selection,
    /// A folder of cgroup version 2.
    pub cgroup: &'a Path,
}

/// A choice for future connections that is in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    /// The local port.
    pub port: Option<u16>,
    /// The peer's address.
    pub prefix: Option<Prefix>,
    /// The control that such connections get.
    pub control: Chosen,
    /// The number of the cgroup.
    pub(crate) number: u64,
    /// The cgroup. `None`: it has been removed, so the choice has no effect.
    pub cgroup: Option<PathBuf>,
}

impl Choice {
    /// Its name for programs: `future-PORT-PREFIX-CGROUP`.
    pub fn name(&self) -> String {
        name_of(self.port, self.prefix, self.number)
    }

    /// True if it was made for this cgroup.
    pub fn is_in(&self, cgroup: &Path) -> bool {
        fs::metadata(cgroup).is_ok_and(|about| about.ino() == self.number)
    }

    /// True if it can apply to a connection of this selection. Networks and cgroups are not compared.
    pub fn meets(&self, selection: &Selection) -> bool {
        (self.port.zip(selection.port)).is_none_or(|(port, wanted)| port == wanted)
    }

    /// True if it was made for this port and this network, in any cgroup.
    pub fn is_of(&self, selection: &Selection) -> bool {
        (self.port, self.prefix) == (selection.port, selection.prefix)
    }
}

pub(crate) fn name_of(port: Option<u16>, prefix: Option<Prefix>, cgroup: u64) -> String {
    let any = || "any".to_owned();
    let port = port.map_or_else(any, |port| port.to_string());
    let prefix = prefix.map_or_else(any, |p| p.to_string().replace(['.', ':', '/'], "_"));
    format!("future-{port}-{prefix}-{cgroup}")
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            None => f.write_str("any port")?,
            Some(port) => write!(f, "port {port}")?,
        }
        if let Some(prefix) = self.prefix {
            write!(f, ", peers {prefix}")?;
        }
        match &self.cgroup {
            Some(cgroup) => write!(f, ", {}", cgroup.display())?,
            None => f.write_str(", of a cgroup that is gone")?,
        }
        write!(f, ": {}", self.control)
    }
}

/// A matching socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The local port.
    pub port: u16,
    /// The other end; `None`: it listens.
    pub peer: Option<SocketAddr>,
    /// The congestion control that it had.
    pub control: String,
    /// The options of that control.
    pub options: Options,
    /// The kernel's refusal.
    pub error: Option<String>,
}

impl Found {
    /// The congestion control that it had, with its options if it is one of alcc's.
    pub fn chosen(&self) -> Chosen {
        let ours = crate::RESIDENT
            .iter()
            .any(|r| r.control.name == self.control);
        Chosen {
            control: self.control.clone(),
            options: if ours {
                self.options
            } else {
                Options::default()
            },
        }
    }
}

/// A reading of one connection of a [`Trial`](crate::Trial).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counters {
    /// The kernel's number of the connection.
    pub cookie: u64,
    /// The client at the other end: [`alcc_observe::client_of`].
    pub client: u64,
    /// Bytes acknowledged.
    pub acked: u64,
    /// Bytes written and not acknowledged.
    pub in_flight: u32,
    /// Newest RTT sample, microseconds; 0: none yet.
    pub rtt_us: u32,
    /// Retransmitted segments.
    pub retransmits: u32,
    /// Segment size, bytes.
    pub mss: u32,
    /// True for the first reading of the connection.
    pub is_first: bool,
}

/// The end of a transfer on a connection of a [`Trial`](crate::Trial).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransferEnd {
    /// The counters at that time. If bytes are in flight, the connection was reset.
    pub counters: Counters,
    /// True if the connection ended with the transfer.
    pub closed: bool,
}

/// The result of [`crate::attach`] and [`crate::detach`]: each matching socket.
pub type Attached = Vec<Found>;

/// The processes in one network namespace and the sockets that they have open.
#[derive(Default, Debug)]
pub struct Sockets {
    /// The namespace's number.
    pub namespace: u64,
    /// The processes, by which it can be entered.
    pub pids: Vec<u32>,
    /// Inodes of the sockets.
    pub inodes: BTreeSet<u64>,
}

impl Selection {
    /// Its port, network and share as a rule. Its processes are compared otherwise.
    #[cfg(feature = "loader")]
    pub(crate) fn rule(&self, control: Option<Chosen>) -> Rule {
        Rule {
            port: self.port,
            peer: self.prefix,
            share: self.share,
            control,
            ..Rule::default()
        }
    }

    /// True if a socket with this local port and this peer matches, regardless of its process. A
    /// listening socket has no peer, so it is in no network.
    pub fn has(&self, port: u16, peer: Option<SocketAddr>) -> bool {
        let near = |prefix: Prefix| peer.is_some_and(|peer| prefix.has(peer.ip()));
        self.port.is_none_or(|wanted| wanted == port) && self.prefix.is_none_or(near)
    }

    /// The sockets of the selected processes, by network namespace. `None`: all sockets of this
    /// process's own namespace.
    ///
    /// # Errors
    /// There is no such process or cgroup, or it belongs to another user.
    pub fn sockets(&self) -> Result<Option<Vec<Sockets>>, BpfError> {
        self.by_namespace(open_sockets)
    }

    /// As [`Selection::sockets`], without the inodes, because finding them takes long.
    ///
    /// # Errors
    /// As for [`Selection::sockets`].
    pub fn processes(&self) -> Result<Option<Vec<Sockets>>, BpfError> {
        self.by_namespace(|pid| Ok((namespace(pid)?, BTreeSet::new())))
    }

    fn by_namespace(
        &self,
        look: impl Fn(u32) -> std::io::Result<(u64, BTreeSet<u64>)>,
    ) -> Result<Option<Vec<Sockets>>, BpfError> {
        let pids = match (&self.cgroup, self.pid) {
            (None, None) => return Ok(None),
            (None, Some(pid)) => vec![pid],
            (Some(cgroup), pid) => {
                let mut pids = processes(cgroup)?;
                pids.retain(|p| pid.is_none_or(|pid| pid == *p));
                pids
            }
        };
        let mut by_namespace: BTreeMap<u64, Sockets> = BTreeMap::new();
        for pid in pids {
            match look(pid) {
                Ok((namespace, inodes)) => {
                    let sockets = by_namespace.entry(namespace).or_default();
                    sockets.namespace = namespace;
                    sockets.pids.push(pid);
                    sockets.inodes.extend(inodes);
                }
                // A process of a cgroup may end meanwhile, but it is an error if a named one does.
                Err(error) if self.pid == Some(pid) => {
                    let path = format!("/proc/{pid}");
                    let error = match error.kind() {
                        kind @ ErrorKind::NotFound => Error::new(
                            kind,
                            "no process has this number: it has ended, or it is a wrong one",
                        ),
                        _ => error,
                    };
                    return Err(BpfError::file("look at the process", path, error));
                }
                Err(_) => {}
            }
        }
        Ok(Some(by_namespace.into_values().collect()))
    }
}

/// The folder of all cgroups (version 2). `None`: the machine has none.
pub fn all_cgroups() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let here = kind.starts_with("cgroup2 ");
        here.then(|| mount.split(' ').nth(4).map(PathBuf::from))?
    })
}

/// The cgroup (version 2) of a process. `None`: the machine has none, or the process has ended.
pub fn cgroup_of(pid: u32) -> Option<PathBuf> {
    let root = all_cgroups()?;
    let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = cgroups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(root.join(path))
}

/// The folders of the cgroups with these numbers, as far as they exist.
#[cfg(feature = "loader")]
pub(crate) fn cgroups_of(numbers: impl Iterator<Item = u64>) -> BTreeMap<u64, PathBuf> {
    let numbers: BTreeSet<u64> = numbers.collect();
    let mut found = BTreeMap::new();
    let mut remaining: Vec<PathBuf> = all_cgroups().into_iter().collect();
    while found.len() < numbers.len()
        && let Some(folder) = remaining.pop()
    {
        let number = fs::metadata(&folder).map(|about| about.ino());
        if let Some(number) = number.ok().filter(|n| numbers.contains(n)) {
            found.insert(number, folder.clone());
        }
        let below = fs::read_dir(&folder).into_iter().flatten().flatten();
        let folders = below.filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir()));
        remaining.extend(folders.map(|e| e.path()));
    }
    found
}

/// A folder of cgroup version 2, and its number. It is looked up once, so it cannot be replaced
/// meanwhile.
///
/// # Errors
/// It is not a cgroup, or cannot be opened.
pub(crate) fn open_cgroup(path: &Path) -> Result<(File, u64), BpfError> {
    let opened = || {
        let folder = File::options()
            .read(true)
            .custom_flags(nix::libc::O_DIRECTORY)
            .open(path)?;
        if fstatfs(&folder)?.filesystem_type() != CGROUP2_SUPER_MAGIC {
            let why = "it is of another file system";
            return Err(Error::new(ErrorKind::Unsupported, why));
        }
        let number = folder.metadata()?.ino();
        Ok((folder, number))
    };
    opened().map_err(|e| no_cgroup(path, e))
}

fn no_cgroup(folder: &Path, error: Error) -> BpfError {
    let path = folder.to_path_buf();
    match error.kind() {
        ErrorKind::PermissionDenied => BpfError::file("look at the cgroup", path, error),
        _ => BpfError::NoCgroup { path, error },
    }
}

/// The processes of a cgroup and of those below it.
fn processes(cgroup: &Path) -> Result<Vec<u32>, BpfError> {
    let read = |folder: &Path| fs::read_to_string(folder.join("cgroup.procs"));
    let mut text = read(cgroup).map_err(|e| no_cgroup(cgroup, e))?;
    let mut remaining = vec![cgroup.to_path_buf()];
    while let Some(folder) = remaining.pop() {
        if folder != cgroup {
            // Those below belong to other users, too: they end, and threaded ones show no processes, which are
            // shown above them.
            text += &read(&folder).unwrap_or_default();
        }
        let below = fs::read_dir(&folder).into_iter().flatten().flatten();
        let folders = below.filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir()));
        remaining.extend(folders.map(|e| e.path()));
    }
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

/// The processes in each network namespace except this process's own, by the namespace's number.
#[cfg(feature = "loader")]
pub(crate) fn other_namespaces() -> BTreeMap<u64, Vec<u32>> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut by_namespace: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        if let Ok(number) = namespace(pid) {
            by_namespace.entry(number).or_default().push(pid);
        }
    }
    if let Ok(own) = namespace(std::process::id()) {
        by_namespace.remove(&own);
    }
    by_namespace
}

fn namespace(pid: u32) -> std::io::Result<u64> {
    Ok(fs::metadata(format!("/proc/{pid}/ns/net"))?.ino())
}

/// The network namespace of a process, and the inodes of its sockets.
fn open_sockets(pid: u32) -> std::io::Result<(u64, BTreeSet<u64>)> {
    let namespace = namespace(pid)?;
    let inodes = fs::read_dir(format!("/proc/{pid}/fd"))?
        .filter_map(|entry| {
            let target = fs::read_link(entry.ok()?.path()).ok()?;
            let inode = target.to_str()?.strip_prefix("socket:[")?;
            inode.strip_suffix(']')?.parse().ok()
        })
        .collect();
    Ok((namespace, inodes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_and_bounded() {
        let text = |t: &str| t.parse::<Prefix>().map(|p| p.to_string());
        assert_eq!(text("192.0.2.0/24").unwrap(), "192.0.2.0/24");
        assert_eq!(text("192.0.2.7").unwrap(), "192.0.2.7/32");
        assert_eq!(text("2001:db8::/32").unwrap(), "2001:db8::/32");
        for wrong in [
            "192.0.2.0/33",
            "::/129",
            "host",
            "",
            "1.2.3.4/",
            "1.2.3.4/-1",
        ] {
            assert!(text(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_network_has_its_addresses_and_no_others() {
        let has = |net: &str, address: &str| {
            let net: Prefix = net.parse().unwrap();
            net.has(address.parse().unwrap())
        };
        assert!(has("192.0.2.0/24", "192.0.2.200") && has("192.0.2.0/24", "::ffff:192.0.2.1"));
        assert!(!has("192.0.2.0/24", "192.0.3.1") && !has("192.0.2.0/24", "::"));
        assert!(has("192.0.2.7", "192.0.2.7") && !has("192.0.2.7", "192.0.2.6"));
        assert!(has("0.0.0.0/0", "203.0.113.9") && !has("0.0.0.0/0", "::1"));
        assert!(has("2001:db8::/32", "2001:db8:1::9") && !has("2001:db8::/32", "2001:db9::"));
        assert!(has("::/0", "::1") && !has("::1/128", "::2"));
    }

    /// A user who owns a cgroup could make it so.
    #[test]
    #[allow(clippy::print_stdout, reason = "says that it was skipped")]
    fn a_threaded_cgroup_below_does_not_hide_the_others() {
        let all = all_cgroups().unwrap_or_default();
        let cgroup = all.join(format!("alcc-test-{}", std::process::id()));
        let threaded = cgroup.join("threaded");
        let made = fs::create_dir(&cgroup)
            .and_then(|()| fs::create_dir(&threaded))
            .and_then(|()| fs::write(threaded.join("cgroup.type"), "threaded"));
        let mut sleep = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let moved =
            made.and_then(|()| fs::write(cgroup.join("cgroup.procs"), sleep.id().to_string()));
        let found = moved.map(|()| processes(&cgroup));
        sleep.kill().unwrap();
        sleep.wait().unwrap();
        let _ = fs::remove_dir(threaded).and_then(|()| fs::remove_dir(cgroup));
        match found {
            Ok(pids) => assert_eq!(pids.unwrap(), [sleep.id()]),
            Err(why) => println!("skipped: needs a cgroup of version 2: {why}"),
        }
    }

    #[test]
    fn a_process_shows_its_own_sockets() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let inode = nix::sys::stat::fstat(&listener).unwrap().st_ino;
        let (_, inodes) = open_sockets(std::process::id()).unwrap();
        assert!(inodes.contains(&inode));
    }
}
