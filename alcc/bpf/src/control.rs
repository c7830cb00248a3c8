// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registration of the controls with the kernel, and its end.
use crate::error::BpfError;
use crate::{Control, Ended, Loaded, PINS, WINDOW, allowed, attach, controls, door, pins, policy};
use libbpf_rs::ReferencesType;
use libbpf_rs::btf::{Btf, types};
use libbpf_rs::{ErrorKind, MapCore, MapHandle, ObjectBuilder, OpenObject};
use nix::fcntl::FlockArg;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The forms for Linux 6.10 and later, and for earlier kernels. See `bpf/copa.bpf.c`.
const OPS: [&str; 2] = ["ops", "ops_old"];
/// The map of the earlier controls of sockets.
pub(crate) const BEFORE: &str = "before";
pub(crate) const LOCK: &str = "bpf";
const BTF: &str = "/sys/kernel/btf/vmlinux";
/// Setting of the BPF JIT compiler, readable by root only. The kernel accepts congestion controls only
/// if it compiles them.
const JIT: &str = "/proc/sys/net/core/bpf_jit_enable";

/// Registers all controls that are not registered yet. They stay until [`unload`]. Users of `group`
/// can then select [`WINDOW`] and set its window; `None` keeps the current group, initially root's.
///
/// # Errors
/// The machine lacks a requirement, or the kernel refuses.
pub fn load(group: Option<u32>) -> Result<Vec<Loaded>, BpfError> {
    able()?;
    if group.is_none() && loaded().len() == controls().count() {
        let done = controls().map(|control| Loaded {
            control,
            new: false,
        });
        return Ok(done.collect());
    }
    pins::prepare()?;
    let _alone = pins::lock(LOCK, FlockArg::LockExclusive)?;
    if pins::older().is_some() {
        return Err(BpfError::Older {
            path: pins::Older::PATH.into(),
        });
    }
    let for_root = allowed::are_for_root();
    let done = controls().map(|control| {
        let new = !is_loaded(control);
        if new {
            register(control)?;
        }
        Ok(Loaded { control, new })
    });
    let done = done.collect::<Result<Vec<_>, BpfError>>();
    if for_root {
        // A registration is for all users, but the administrator has decided otherwise. Also if a later one failed.
        allowed::allow_residents(false)?;
    }
    let done = done?;
    if let Some(group) = group {
        permit(&WINDOW, Some(group))?;
        // Containers have no other way than the door.
        allowed::allow_window(group != 0 || !door::doors().is_empty())?;
    }
    Ok(done)
}

/// Checks that BPF programs can be loaded here.
pub(crate) fn able() -> Result<(), BpfError> {
    if !Path::new(BTF).exists() {
        return Err(BpfError::NoBtf);
    }
    if std::fs::read_to_string(JIT).is_ok_and(|on| on.trim() == "0") {
        return Err(BpfError::NoJit);
    }
    libbpf_rs::set_print(None);
    Ok(())
}

/// The controls that this program has registered.
pub fn loaded() -> Vec<&'static Control> {
    controls().filter(|c| is_loaded(c)).collect()
}

/// The folder of an older version's controls, which [`unload`] also ends.
pub fn older() -> Option<PathBuf> {
    pins::older().map(|_| pins::Older::PATH.into())
}

/// The group whose users may set the window of [`WINDOW`], beside root.
pub fn window_group() -> Option<u32> {
    let about = std::fs::metadata(pins::pin(WINDOW.maps[0].0)).ok()?;
    (is_loaded(&WINDOW) && about.gid() != 0).then_some(about.gid())
}

/// Ends the registrations, the choices for future connections, and all doors. Connections that use
/// a control keep it until they end, but new ones cannot select it. Listening sockets get their
/// earlier control back, in every network namespace.
///
/// # Errors
/// The kernel refuses.
pub fn unload() -> Result<Ended, BpfError> {
    libbpf_rs::set_print(None);
    let older = pins::older();
    let mut ended = Ended {
        futures: crate::futures(),
        // Their rules name controls that end here.
        policy: policy::end()?,
        ..Ended::default()
    };
    if older.is_none() && !ended.policy && ended.futures.is_empty() && loaded().is_empty() {
        return Ok(ended);
    }
    let _alone = pins::lock(LOCK, FlockArg::LockExclusive)?;
    ended.controls = end_all(Path::new(PINS))?;
    if let Some(older) = older {
        ended.controls.extend(end_all(&older.folder())?);
        older.end()?;
    }
    // A kernel that cannot list sockets has none that were attached.
    if able().is_ok() {
        let back = attach::detach_listening()?;
        ended.given_back = back.iter().filter(|f| f.error.is_none()).count();
        let remaining = attach::survey_everywhere()?;
        let ours = |name: &str| controls().any(|c| c.name == name);
        for found in remaining
            .iter()
            .filter(|f| f.peer.is_none() && ours(&f.control))
        {
            *ended.listening.entry(found.control.clone()).or_default() += 1;
        }
    }
    Ok(ended)
}

/// Ends everything that is pinned in this folder.
fn end_all(folder: &Path) -> Result<Vec<&'static Control>, BpfError> {
    // A choice by a name that no longer exists would be in force again with the next load. Doors use
    // the maps of a control.
    for prefix in ["future-", "door-"] {
        let names = pins::names_in(folder, prefix);
        names
            .iter()
            .try_for_each(|name| pins::end_link(&folder.join(name)))?;
    }
    let ended: Vec<_> = controls().filter(|c| is_loaded_in(folder, c)).collect();
    for control in &ended {
        let path = folder.join(map_pin(control));
        if pins::is_pin(&path) {
            // Without a link the registration outlives its pin: it ends with the map's element.
            let map = MapHandle::from_pinned_path(&path)
                .map_err(|e| BpfError::kernel(format!("open {}", path.display()), &e))?;
            map.delete(&0u32.to_ne_bytes())
                .map_err(|e| BpfError::kernel(format!("end {}", control.name), &e))?;
        }
        pins::remove(&path)?;
        pins::end_link(&folder.join(link_pin(control)))?;
        // Attach and detach use the map of earlier controls, too, so it stays.
        for (map, _) in control.maps.iter().filter(|(map, _)| *map != BEFORE) {
            pins::remove(&folder.join(map))?;
        }
    }
    Ok(ended)
}

/// Permits root and this group to use the entries of their own sockets: no other can be named.
fn permit(control: &Control, group: Option<u32>) -> Result<(), BpfError> {
    for (name, mode) in control.maps {
        let group = group.filter(|_| mode & 0o070 != 0);
        pins::permit(name, *mode, group)?;
    }
    Ok(())
}

fn link_pin(control: &Control) -> String {
    format!("{}-link", control.name)
}

fn map_pin(control: &Control) -> String {
    format!("{}-ops", control.name)
}

pub(crate) fn is_loaded(control: &Control) -> bool {
    is_loaded_in(Path::new(PINS), control)
}

fn is_loaded_in(folder: &Path, control: &Control) -> bool {
    pins::is_pin(&folder.join(link_pin(control))) || pins::is_pin(&folder.join(map_pin(control)))
}

fn register(control: &'static Control) -> Result<(), BpfError> {
    let attempt = format!("load the BPF programs of {}", control.name);
    let failed = |e: &libbpf_rs::Error| BpfError::kernel(attempt.clone(), e);
    let mut open = open(control.object).map_err(|e| failed(&e))?;
    let form = OPS[usize::from(!takes_the_new_form().map_err(|e| failed(&e))?)];
    for mut map in open.maps_mut() {
        if let Some(name) = OPS.iter().find(|name| map.name() == **name) {
            map.set_autocreate(*name == form).map_err(|e| failed(&e))?;
        }
        if let Some((name, _)) = control.maps.iter().find(|(name, _)| map.name() == *name) {
            // A pin that is there is used, else one is made.
            map.set_pin_path(pins::pin(name)).map_err(|e| failed(&e))?;
        }
    }
    let mut object = open.load().map_err(|e| failed(&e))?;
    permit(control, None)?;
    let mut map = object
        .maps_mut()
        .find(|map| map.name() == form)
        .expect("the object has both forms: a test opens it");
    let mut link = map.attach_struct_ops().map_err(|e| match e.kind() {
        ErrorKind::AlreadyExists => BpfError::NameTaken {
            control: control.name,
        },
        _ => failed(&e),
    })?;
    if form == OPS[0] {
        link.pin(pins::pin(&link_pin(control)))
    } else {
        map.pin(pins::pin(&map_pin(control)))
            .inspect(|()| link.disconnect())
    }
    .map_err(|e| failed(&e))
}

/// The object, opened but not loaded.
pub(crate) fn open(object: &[u8]) -> libbpf_rs::Result<OpenObject> {
    ObjectBuilder::default().open_memory(object)
}

/// True if `cong_control` has four arguments, as since Linux 6.10, by the kernel's BTF.
fn takes_the_new_form() -> libbpf_rs::Result<bool> {
    let btf = Btf::from_vmlinux()?;
    let Some(ops) = btf.type_by_name::<types::Struct<'_>>("tcp_congestion_ops") else {
        return Ok(false);
    };
    let Some(member) = ops
        .iter()
        .find(|member| member.name.is_some_and(|name| name == "cong_control"))
    else {
        return Ok(false);
    };
    let pointer: Option<types::Ptr<'_>> = btf.type_by_id(member.ty);
    let function: Option<types::FuncProto<'_>> =
        pointer.and_then(|p| btf.type_by_id(p.referenced_type().type_id()));
    Ok(function.is_some_and(|f| f.len() == 4))
}
