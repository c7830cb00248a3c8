// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registering the controls with the kernel, and ending that.
use crate::error::BpfError;
use crate::{Control, Loaded, controls, pins};
use libbpf_rs::ReferencesType;
use libbpf_rs::btf::{Btf, types};
use libbpf_rs::{ErrorKind, MapCore, MapHandle, ObjectBuilder, OpenObject};
use std::path::Path;

/// The form for Linux 6.10 and later, and the one before. See `bpf/copa.bpf.c`.
const OPS: [&str; 2] = ["ops", "ops_old"];
/// The map of what a socket ran before.
pub(crate) const BEFORE: &str = "before";
const BTF: &str = "/sys/kernel/btf/vmlinux";
/// Root alone may read it. The kernel takes congestion controls only if it compiles them.
const JIT: &str = "/proc/sys/net/core/bpf_jit_enable";

/// Registers all controls that are not registered yet. They stay until [`unload`].
pub fn load() -> Result<Vec<Loaded>, BpfError> {
    ready()?;
    let done = controls().map(|control| {
        let new = !is_loaded(control);
        if new {
            register(control)?;
        }
        Ok(Loaded { control, new })
    });
    done.collect()
}

/// Can programs be loaded here at all? Makes the folder of the pins.
pub(crate) fn ready() -> Result<(), BpfError> {
    if !Path::new(BTF).exists() {
        return Err(BpfError::NoBtf);
    }
    if std::fs::read_to_string(JIT).is_ok_and(|on| on.trim() == "0") {
        return Err(BpfError::NoJit);
    }
    libbpf_rs::set_print(None);
    pins::prepare()
}

/// What is registered by this program.
pub fn loaded() -> Vec<&'static Control> {
    controls().filter(|c| is_loaded(c)).collect()
}

/// Ends the registrations, and all doors. Connections that use a control keep it until they end; new ones cannot
/// choose it any more. Returns what was ended.
pub fn unload() -> Result<Vec<&'static Control>, BpfError> {
    libbpf_rs::set_print(None);
    // They have the maps of a control.
    crate::door::end_doors()?;
    let ended = loaded();
    for control in &ended {
        let path = pins::pin(&map_pin(control));
        if path.exists() {
            // Without a link the registration outlives its pin: it ends with the map's element.
            let map = MapHandle::from_pinned_path(&path)
                .map_err(|e| BpfError::kernel(format!("open {}", path.display()), &e))?;
            map.delete(&0u32.to_ne_bytes())
                .map_err(|e| BpfError::kernel(format!("end {}", control.name), &e))?;
        }
        pins::remove(&map_pin(control))?;
        pins::end_link(&link_pin(control))?;
        // What was before is known to attach and detach, too: that map stays.
        for (map, _) in control.maps.iter().filter(|(map, _)| *map != BEFORE) {
            pins::remove(map)?;
        }
    }
    Ok(ended)
}

fn link_pin(control: &Control) -> String {
    format!("{}-link", control.name)
}

fn map_pin(control: &Control) -> String {
    format!("{}-ops", control.name)
}

pub(crate) fn is_loaded(control: &Control) -> bool {
    pins::pin(&link_pin(control)).exists() || pins::pin(&map_pin(control)).exists()
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
    for (name, mode) in control.maps {
        pins::permit(name, *mode)?;
    }
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

/// Since Linux 6.10 `cong_control` has four arguments. The kernel's own description says so.
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
