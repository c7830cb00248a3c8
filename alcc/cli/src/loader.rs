// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Treatment of the library by loaders: glibc's loads it, another C library's must not find it, and a
//! static program has no loader.
use alcc_observe::Missed;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Variables with which glibc's loader loads the library, in addition to the current environment.
///
/// Another C library's loader (musl's) would load it too if it found it. It would then end the
/// program, because symbols are missing. It does not find it. Only glibc expands `$LIB`, the place
/// of the system's libraries below the root, and the path to the library begins there. Where the
/// system's C library is elsewhere (NixOS), it begins with `$ORIGIN`, the folder of the program,
/// which glibc cannot find without /proc, or once that folder has been removed. The same holds for
/// every program that is started in turn.
pub(crate) fn environment(library: &Path) -> [(&'static str, OsString); 2] {
    /// Deeper than any program's folder; the parent of the root is the root.
    const MAX_DEPTH: usize = 40;
    let library = std::path::absolute(library).unwrap_or_else(|_| library.to_owned());
    let mut preload = OsString::from(if system_library() { "/$LIB" } else { "$ORIGIN" });
    preload.push("/..".repeat(MAX_DEPTH));
    preload.push(library);
    // AddressSanitizer wants to be the first library. It need not be: we call what comes next,
    // which is AddressSanitizer's.
    let asan = "verify_asan_link_order=0".into();
    [
        ("LD_PRELOAD", joined(Some(preload), set("LD_PRELOAD"))),
        ("ASAN_OPTIONS", joined(set("ASAN_OPTIONS"), Some(asan))),
    ]
}

/// True if the C library of this program is in the system's folder, so that `$LIB` is a folder.
fn system_library() -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut files = maps
        .lines()
        .filter_map(|line| Some(&line[line.find('/')?..]));
    files.any(|file| {
        file.ends_with("/libc.so.6") && (file.starts_with("/usr/lib") || file.starts_with("/lib"))
    })
}

fn set(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn joined(first: Option<OsString>, then: Option<OsString>) -> OsString {
    let parts: Vec<_> = [first, then].into_iter().flatten().collect();
    parts.join(OsStr::new(":"))
}

/// The loader of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Loader {
    /// No loader: the program is static.
    None,
    /// The program at this path.
    At(PathBuf),
}

impl Loader {
    /// The loader that a program names; `None`: it is not a 64-bit ELF program, or not readable.
    pub(crate) fn of(program: &Path) -> Option<Self> {
        let mut head = Vec::new();
        let file = File::open(program).ok()?;
        file.take(64 * 1024).read_to_end(&mut head).ok()?;
        Self::in_head(&head)
    }

    fn in_head(head: &[u8]) -> Option<Self> {
        const PT_INTERP: [u8; 4] = 3u32.to_ne_bytes();
        let u16_at = |at: usize| Some(u16::from_ne_bytes(head.get(at..at + 2)?.try_into().ok()?));
        let usize_in = |bytes: &[u8], at: usize| {
            let bytes = bytes.get(at..at + 8)?.try_into().ok()?;
            usize::try_from(u64::from_ne_bytes(bytes)).ok()
        };
        // 64-bit ELF: e_phoff at 32, e_phentsize at 54, e_phnum at 56; in a program header p_offset
        // at 8, p_filesz at 32.
        if head.get(..5)? != b"\x7fELF\x02" {
            return None;
        }
        let (size, count) = (usize::from(u16_at(54)?), usize::from(u16_at(56)?));
        let (from, size) = (usize_in(head, 32)?, size.max(4));
        let table = head.get(from..from.checked_add(size * count)?)?;
        let mut headers = table.chunks(size);
        let Some(header) = headers.find(|header| header.starts_with(&PT_INTERP)) else {
            return Some(Self::None);
        };
        let (at, length) = (usize_in(header, 8)?, usize_in(header, 32)?);
        let path = head.get(at..at.checked_add(length)?)?;
        let path = path.split(|byte| *byte == 0).next()?;
        Some(Self::At(OsString::from_vec(path.to_owned()).into()))
    }

    /// The reason why a program with this loader does not load the library; `None`: it does.
    pub(crate) fn objection(&self) -> Option<Missed> {
        match self {
            Self::None => Some(Missed::Static),
            Self::At(path) if !path.file_name()?.as_bytes().starts_with(b"ld-musl") => None,
            Self::At(_) => Some(Missed::OtherLibc),
        }
    }
}

/// The reason in its file why a program does not load the library; `None`: there is none.
pub(crate) fn not_loaded(program: &Path) -> Option<Missed> {
    if changes_user(program) {
        return Some(Missed::SetUserId);
    }
    Loader::of(program)?.objection()
}

/// The loader ignores LD_PRELOAD for such a program: it has set-user-id bits, or capabilities of
/// its own (`setcap`).
fn changes_user(path: &Path) -> bool {
    let mode = std::fs::metadata(path).map_or(0, |m| m.permissions().mode());
    mode & 0o6000 != 0 || has_capabilities(path)
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    let name = c"security.capability";
    // SAFETY: two texts that end with a zero byte, and no room for the value: only its size is
    // asked.
    let size =
        unsafe { nix::libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) };
    size > 0
}

/// Programs whose CMD does not get the library, because another process starts it, or because they
/// clean its environment.
struct Elsewhere {
    names: &'static [&'static str],
    /// True if that holds for these arguments.
    applies: fn(&[OsString]) -> bool,
    why: &'static str,
    remedy: &'static str,
}

const ELSEWHERE: &[Elsewhere] = &[
    Elsewhere {
        names: &["systemctl", "service", "invoke-rc.d", "rc-service"],
        applies: |_| true,
        why: "the service manager starts the server",
        remedy: "put 'alcc run' into the unit (docs/operating.md, As a service), or control what runs: \
                 'sudo alcc bpf load && sudo alcc attach --port 443 --future'",
    },
    Elsewhere {
        names: &["systemd-run", "run0"],
        // In a scope the program is its own child.
        applies: |arguments| !arguments.iter().any(|word| word == "--scope"),
        why: "the service manager starts the program",
        remedy: "put 'alcc run' behind it: 'systemd-run alcc run -- CMD'",
    },
    Elsewhere {
        names: &[
            "docker",
            "docker-compose",
            "podman",
            "podman-compose",
            "nerdctl",
            "ctr",
            "crictl",
            "kubectl",
            "lxc",
            "incus",
            "machinectl",
        ],
        applies: |_| true,
        why: "a daemon (of podman: conmon) starts the processes of the container",
        remedy: "control them by a policy for the container's cgroup (docs/policy.md) or by 'sudo alcc attach --pid N', \
                 or make 'alcc run' the entry point (docs/recipes.md, Containers)",
    },
    Elsewhere {
        names: &["at", "batch"],
        applies: |_| true,
        why: "the daemon atd starts the job",
        remedy: "put 'alcc run' into the job: echo 'alcc run -- CMD' | at now",
    },
    Elsewhere {
        names: &["su"],
        // Only for root, su is an ordinary program that keeps the environment, but for a login.
        applies: |arguments| {
            let is_login =
                |word: &OsString| ["-", "-l", "--login"].iter().any(|login| word == *login);
            !nix::unistd::geteuid().is_root() || arguments.iter().any(is_login)
        },
        why: "it removes LD_PRELOAD from the environment of the program",
        remedy: "put 'alcc run' behind it: 'sudo alcc run -- CMD'",
    },
    Elsewhere {
        names: &["sudo", "doas", "pkexec"],
        applies: |_| true,
        why: "it removes LD_PRELOAD from the environment of the program",
        remedy: "put 'alcc run' behind it: 'sudo alcc run -- CMD'",
    },
];
/// Programs that execute the program that their arguments name.
const WRAPPERS: [&str; 11] = [
    "sudo", "doas", "pkexec", "env", "nice", "ionice", "nohup", "setsid", "stdbuf", "timeout",
    "chrt",
];

/// The reason why the program of a command cannot be controlled, with a fix.
pub(crate) fn started_elsewhere(command: &[OsString]) -> Option<String> {
    let found = elsewhere(command, Path::new("/run/systemd/system").exists())?;
    let Elsewhere { why, remedy, .. } = found;
    Some(format!("{why}, so it would not be controlled: {remedy}"))
}

/// With systemd, units replace the scripts of `/etc/init.d`.
fn elsewhere(command: &[OsString], systemd: bool) -> Option<&'static Elsewhere> {
    let mut wrapper = None;
    let mut within = false;
    let mut is_value = false;
    for (n, word) in command.iter().enumerate() {
        let name = Path::new(word).file_name().and_then(OsStr::to_str);
        let is_one_of = |names: &[&str]| name.is_some_and(|name| names.contains(&name));
        let is_script = systemd && Path::new(word).starts_with("/etc/init.d");
        let applies = |it: &&Elsewhere| is_one_of(it.names) && (it.applies)(&command[n + 1..]);
        let found = ELSEWHERE.iter().find(applies);
        let bytes = word.as_bytes();
        let is_option = within && bytes.starts_with(b"-");
        if is_script {
            return ELSEWHERE.first();
        } else if is_one_of(&WRAPPERS) {
            // What it executes may be a better reason.
            wrapper = wrapper.or(found);
            within = true;
        } else if found.is_some() {
            return found;
        } else if !(within && (is_option || is_value || is_argument(bytes))) {
            break;
        }
        is_value = is_option;
    }
    wrapper
}

/// A variable of env, or a time of timeout.
fn is_argument(word: &[u8]) -> bool {
    word.contains(&b'=') || word.first().is_some_and(u8::is_ascii_digit)
}

/// The warning before the start of a program that will not load the library.
pub(crate) fn objection(command: &OsStr) -> Option<String> {
    let program = found(command)?;
    let why = Loader::of(&program)?.objection()?;
    Some(format!(
        "alcc: {}: {}; its own connections stay plain TCP: 'alcc attach' (root) or 'alcc proxy' in front of it controls them",
        program.display(),
        why.why()
    ))
}

/// The file that a command starts: of a script its interpreter. `None`: nothing would start.
pub(crate) fn found(command: &OsStr) -> Option<PathBuf> {
    let starts = |file: &PathBuf| {
        std::fs::metadata(file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    let named = if command.as_bytes().contains(&b'/') {
        Some(PathBuf::from(command)).filter(starts)?
    } else {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path)
            .map(|folder| folder.join(command))
            .find(starts)?
    };
    let mut line = Vec::new();
    File::open(&named)
        .ok()?
        .take(256)
        .read_to_end(&mut line)
        .ok()?;
    let Some(rest) = line.strip_prefix(b"#!") else {
        return Some(named);
    };
    let words = rest.split(|byte| byte.is_ascii_whitespace());
    let interpreter = words.into_iter().find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(interpreter))).filter(starts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 64-bit program with one header of this kind that points at the end of the file.
    fn elf(kind: u32, path: &[u8]) -> Vec<u8> {
        let mut head = vec![0; 64 + 56];
        head[..5].copy_from_slice(b"\x7fELF\x02");
        head[32..40].copy_from_slice(&64u64.to_ne_bytes());
        head[54..56].copy_from_slice(&56u16.to_ne_bytes());
        head[56..58].copy_from_slice(&1u16.to_ne_bytes());
        head[64..68].copy_from_slice(&kind.to_ne_bytes());
        head[72..80].copy_from_slice(&120u64.to_ne_bytes());
        head[96..104].copy_from_slice(&(path.len() as u64).to_ne_bytes());
        head.extend(path);
        head
    }

    #[test]
    fn the_loader_that_a_program_names() {
        let of = |head: &[u8]| Loader::in_head(head);
        let musl = of(&elf(3, b"/lib/ld-musl-x86_64.so.1\0")).unwrap();
        assert_eq!(musl, Loader::At("/lib/ld-musl-x86_64.so.1".into()));
        assert_eq!(musl.objection(), Some(Missed::OtherLibc));
        let glibc = of(&elf(3, b"/lib64/ld-linux-x86-64.so.2\0")).unwrap();
        assert_eq!(glibc.objection(), None);
        let none = of(&elf(1, b"")).unwrap();
        assert_eq!(none.objection(), Some(Missed::Static));
        assert_eq!(of(b"#!/bin/sh\n"), None);
    }

    #[test]
    fn a_head_that_is_cut_off_or_lies_says_nothing() {
        let whole = elf(3, b"/lib/ld-musl-x86_64.so.1\0");
        for end in 0..whole.len() {
            assert_eq!(Loader::in_head(&whole[..end]), None, "{end}");
        }
        for at in 0..120 {
            let mut wrong = whole.clone();
            wrong[at] = 0xff;
            // Anything but a panic.
            Loader::in_head(&wrong);
        }
    }

    #[test]
    fn a_program_that_another_process_starts_is_found_behind_what_executes_it() {
        let why = |line: &str, systemd| {
            let words: Vec<_> = line.split(' ').map(OsString::from).collect();
            elsewhere(&words, systemd).map_or("", |it| it.why)
        };
        for (line, part) in [
            ("systemctl start nginx", "service manager"),
            ("/usr/bin/systemctl start nginx", "service manager"),
            ("sudo systemctl start nginx", "service manager"),
            (
                "sudo -n -u root env LANG=C systemctl start nginx",
                "service manager",
            ),
            (
                "nice -n 5 timeout 10s service nginx start",
                "service manager",
            ),
            ("systemd-run nginx", "service manager"),
            ("docker run nginx", "a daemon"),
            ("sudo podman --log-level debug run nginx", "conmon"),
            ("machinectl shell web /usr/sbin/nginx", "a daemon"),
            ("at now", "atd"),
            ("sudo nginx", "LD_PRELOAD"),
            ("sudo -u www nginx systemctl", "LD_PRELOAD"),
            ("env A=b doas nginx", "LD_PRELOAD"),
            ("su -l www -c nginx", "LD_PRELOAD"),
        ] {
            assert!(
                why(line, false).contains(part) && !part.is_empty(),
                "{line}"
            );
        }
        for line in [
            "nginx",
            "nginx docker",
            "env A=b sh -c systemctl",
            "systemd-run --scope nginx",
            "setsid -w nginx",
        ] {
            assert_eq!(why(line, true), "", "{line}");
        }
        for line in ["/etc/init.d/nginx start", "sudo /etc/init.d/nginx start"] {
            assert!(why(line, true).contains("service manager"), "{line}");
            assert!(!why(line, false).contains("service manager"), "{line}");
        }
    }

    #[test]
    fn the_way_by_the_root_is_absolute() {
        let [(name, preload), (_, asan)] = environment(Path::new("lib.so"));
        let preload = preload.to_str().unwrap().to_owned();
        let here = std::env::current_dir().unwrap().join("lib.so");
        assert_eq!(name, "LD_PRELOAD");
        assert!(preload.starts_with("/$LIB/../") || preload.starts_with("$ORIGIN/../"));
        assert!(preload.contains(&format!("/..{}", here.display())));
        assert!(asan.to_str().unwrap().ends_with("verify_asan_link_order=0"));
    }
}
