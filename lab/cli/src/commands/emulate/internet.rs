// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--internet`: programs behind the link reach everything that this machine reaches.
//!
//! The addresses are translated by `nft`, in a table that the kernel removes when `nft` ends. It
//! ends with its standard input, so also when this process is killed.
use super::place::Place;
use crate::failure::{Failure, reason};
use alcc_emu::Emulator;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::ffi::CString;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Files with name servers; the second is read if the first names only a program of this machine.
const NAMES: [&str; 2] = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];
/// Folders that are searched besides PATH, because it often lacks them for users other than root.
const SYSTEM: [&str; 2] = ["/usr/sbin", "/sbin"];

/// The way out, as long as it lives.
pub(super) struct Internet {
    nft: Child,
    before: Before,
    /// The file of name servers that CMD sees.
    names: Option<tempfile::NamedTempFile>,
}

/// A setting of this machine that is changed, if it was 0 before. Whoever outlives this process can
/// set it back.
#[derive(Clone)]
pub(super) struct Before(Option<PathBuf>);

impl Before {
    pub(super) fn look() -> Self {
        let setting = device(&routes(), Ipv4Addr::UNSPECIFIED).map(|name| forwarding(&name));
        Self(setting.filter(|setting| fs::read_to_string(setting).is_ok_and(|v| v.trim() == "0")))
    }

    pub(super) fn restore(&self) {
        if let Some(setting) = &self.0 {
            let _ = fs::write(setting, "0");
        }
    }
}

fn routes() -> String {
    fs::read_to_string("/proc/thread-self/net/route").unwrap_or_default()
}

fn forwarding(device: &str) -> PathBuf {
    PathBuf::from(format!("/proc/sys/net/ipv4/conf/{device}/forwarding"))
}

/// The program that translates addresses.
pub(crate) fn nft() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM.map(PathBuf::from));
    folders
        .map(|folder| folder.join("nft"))
        .find(|file| file.is_file())
}

impl Internet {
    pub(super) fn open(
        place: &Place,
        link: &Emulator,
        dns: &[Ipv4Addr],
        before: Before,
    ) -> Result<Self, Failure> {
        let wrong = |why: String| Failure::usage(format!("--internet: {why}"));
        if !place.shared {
            return Err(wrong(
                "without root the other end of the link is an empty network: run it as root"
                    .to_owned(),
            ));
        }
        let nft = nft().ok_or_else(|| {
            wrong("nft is not installed: install it with 'apt install nftables'".to_owned())
        })?;
        let routes = routes();
        let range = link.subnet().outside();
        let range = Ipv4Addr::new(range.octets()[0], range.octets()[1], 0, 0);
        let inner = device(&routes, range);
        let outer = device(&routes, Ipv4Addr::UNSPECIFIED);
        let (Some(inner), Some(outer)) = (inner, outer) else {
            return Err(wrong(
                "this machine has no default route for IPv4: CMD could reach nothing".to_owned(),
            ));
        };
        let servers = name_servers(dns).map_err(wrong)?;
        let names = servers.map(|s| names_file(&s)).transpose();
        let names =
            names.map_err(|e| wrong(format!("write a list of name servers: {}", reason(&e))))?;
        let nft = translate(&nft, &format!("{range}/16"), &inner).map_err(wrong)?;
        let opened = Self { nft, before, names };
        for name in [&inner, &outer] {
            let setting = forwarding(name);
            if fs::read_to_string(&setting).is_ok_and(|v| v.trim() == "1") {
                continue;
            }
            fs::write(&setting, "1").map_err(|e| {
                wrong(format!(
                    "let {name} forward packets ({}): {}",
                    setting.display(),
                    reason(&e)
                ))
            })?;
        }
        Ok(opened)
    }

    /// CMD has started: it sees the file also when that has no name any more.
    pub(super) fn forget_names(&mut self) {
        self.names = None;
    }

    /// Gives CMD the name servers in place of its own list.
    pub(super) fn name_for(&self, command: &mut Command) -> Result<(), Failure> {
        let Some(names) = &self.names else {
            return Ok(());
        };
        let failed = |_| Failure::usage("--internet: a path with a zero byte in it");
        let from = CString::new(names.path().as_os_str().as_bytes()).map_err(failed)?;
        let none: Option<&str> = None;
        // SAFETY: only system calls between fork and exec; the text was made before.
        unsafe {
            command.pre_exec(move || {
                unshare(CloneFlags::CLONE_NEWNS)?;
                mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
                mount(
                    Some(from.as_c_str()),
                    NAMES[0],
                    none,
                    MsFlags::MS_BIND,
                    none,
                )?;
                Ok(())
            });
        }
        Ok(())
    }
}

impl Drop for Internet {
    fn drop(&mut self) {
        self.before.restore();
        // Its end is that of the table.
        let _ = self.nft.kill();
        let _ = self.nft.wait();
    }
}

/// The device of the route to this range in the kernel's table, whose addresses are little-endian.
fn device(routes: &str, range: Ipv4Addr) -> Option<String> {
    let wanted = u32::from_le_bytes(range.octets());
    let mut lines = routes.lines().skip(1).map(str::split_whitespace);
    lines.find_map(|mut words| {
        let name = words.next()?;
        let to = u32::from_str_radix(words.next()?, 16).ok()?;
        let mask = words.nth(5)?;
        let fits = to == wanted && (range.is_unspecified() == (mask == "00000000"));
        fits.then(|| name.to_owned())
    })
}

/// The name servers for CMD, where its own list will not do.
fn name_servers(dns: &[Ipv4Addr]) -> Result<Option<Vec<Ipv4Addr>>, String> {
    if !dns.is_empty() {
        return Ok(Some(dns.to_vec()));
    }
    for (n, file) in NAMES.iter().enumerate() {
        let found = servers(&fs::read_to_string(file).unwrap_or_default());
        if !found.is_empty() {
            return Ok((n > 0).then_some(found));
        }
    }
    Err(format!(
        "{} names no server that can be reached through the link: name one with --dns",
        NAMES[0]
    ))
}

/// Those that are not this machine itself.
fn servers(text: &str) -> Vec<Ipv4Addr> {
    let named = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == "nameserver").then(|| words.next()?.parse::<Ipv4Addr>().ok())?
    });
    named.filter(|server| !server.is_loopback()).collect()
}

fn names_file(servers: &[Ipv4Addr]) -> std::io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::Builder::new()
        .prefix("alcc-names")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile()?;
    for server in servers {
        writeln!(file.as_file_mut(), "nameserver {server}")?;
    }
    Ok(file)
}

/// Starts `nft` and makes the table.
fn translate(nft: &Path, range: &str, inner: &str) -> Result<Child, String> {
    let failed = |e: std::io::Error| format!("start {}: {}", nft.display(), reason(&e));
    let mut child = Command::new(nft)
        .arg("-i")
        // Ctrl-C is for CMD.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let table = format!("ip alcc_{}", std::process::id());
    let script = format!(
        "add table {table} {{ flags owner; }}\n\
         add chain {table} out {{ type nat hook postrouting priority 100; }}\n\
         add rule {table} out ip saddr {range} oifname != \"{inner}\" masquerade\n\
         list table {table}\nlist table {table}_end\n"
    );
    let input = child
        .stdin
        .as_mut()
        .map(|to| to.write_all(script.as_bytes()));
    if let Some(Err(e)) = input {
        return Err(failed(e));
    }
    // The list has the rule if all went well; the last command fails, which ends what is said.
    let mut said = String::new();
    let mut complaints = BufReader::new(child.stderr.take().into_iter().next().ok_or("no stderr")?);
    while !said.contains("_end") {
        match complaints.read_line(&mut said) {
            Ok(1..) => {}
            _ => break,
        }
    }
    let mut listed = vec![0; 4096];
    let length = child
        .stdout
        .as_mut()
        .map_or(Ok(0), |out| out.read(&mut listed));
    listed.truncate(length.unwrap_or(0));
    if String::from_utf8_lossy(&listed).contains("masquerade") {
        return Ok(child);
    }
    let _ = child.kill();
    let _ = child.wait();
    let why = said.lines().next().unwrap_or("it ended").to_owned();
    Err(format!(
        "{} cannot create a table: {why}; does the kernel have nf_tables?",
        nft.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_of_a_route_is_found() {
        let routes = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n\
                      eth0\t00000000\t0102A8C0\t0003\t0\t0\t0\t00000000\n\
                      alcc0\t00004364\t00000000\t0001\t0\t0\t0\t0000FFFF\n";
        assert_eq!(device(routes, Ipv4Addr::UNSPECIFIED).unwrap(), "eth0");
        assert_eq!(
            device(routes, Ipv4Addr::new(100, 67, 0, 0)).unwrap(),
            "alcc0"
        );
        assert_eq!(device(routes, Ipv4Addr::new(100, 68, 0, 0)), None);
    }

    #[test]
    fn a_name_server_on_this_machine_is_not_reached_through_the_link() {
        let text = "# x\nnameserver 127.0.0.53\nnameserver 192.0.2.53\nnameserver ::1\nsearch a\n";
        assert_eq!(servers(text), [Ipv4Addr::new(192, 0, 2, 53)]);
    }
}
