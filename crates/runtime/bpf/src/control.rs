// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registering the controls with the kernel, and ending that.
use crate::error::BpfError;
use crate::{Loaded, RESIDENT, Resident, pins};
use libbpf_rs::ReferencesType;
use libbpf_rs::btf::{Btf, types};
use libbpf_rs::{ErrorKind, MapCore, MapHandle, ObjectBuilder, OpenObject};
use std::path::Path;

/// The form for Linux 6.10 and later, and the one before. See `bpf/copa.bpf.c`.
const OPS: [&str; 2] = ["ops", "ops_old"];
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Registers all controls that are not registered yet. They stay until [`unload`].
pub fn load() -> Result<Vec<Loaded>, BpfError> {
    if !Path::new(BTF).exists() {
        return Err(BpfError::NoBtf);
    }
    libbpf_rs::set_print(None);
    pins::prepare()?;
    let done = RESIDENT.iter().map(|resident| {
        let new = !is_loaded(resident);
        if new {
            register(resident)?;
        }
        Ok(Loaded { resident, new })
    });
    done.collect()
}

/// What is registered by this program.
pub fn loaded() -> Vec<&'static Resident> {
    RESIDENT.iter().filter(|r| is_loaded(r)).collect()
}

/// Ends the registrations. Connections that use a control keep it until they end; new ones cannot
/// choose it any more. Returns what was ended.
pub fn unload() -> Result<Vec<&'static Resident>, BpfError> {
    let ended = loaded();
    for resident in &ended {
        let path = pins::pin(&map_pin(resident));
        if path.exists() {
            // Without a link the registration outlives its pin: it ends with the map's element.
            let map = MapHandle::from_pinned_path(&path)
                .map_err(|e| BpfError::kernel(format!("open {}", path.display()), &e))?;
            map.delete(&0u32.to_ne_bytes())
                .map_err(|e| BpfError::kernel(format!("end {}", resident.control), &e))?;
        }
        pins::remove(&map_pin(resident))?;
        pins::end_link(&link_pin(resident))?;
    }
    Ok(ended)
}

fn link_pin(resident: &Resident) -> String {
    format!("{}-link", resident.control)
}

fn map_pin(resident: &Resident) -> String {
    format!("{}-ops", resident.control)
}

fn is_loaded(resident: &Resident) -> bool {
    pins::pin(&link_pin(resident)).exists() || pins::pin(&map_pin(resident)).exists()
}

fn register(resident: &'static Resident) -> Result<(), BpfError> {
    let attempt = format!("load the BPF programs of {}", resident.control);
    let failed = |e: &libbpf_rs::Error| BpfError::kernel(attempt.clone(), e);
    let mut open = open(resident.object).map_err(|e| failed(&e))?;
    let form = OPS[usize::from(!takes_the_new_form().map_err(|e| failed(&e))?)];
    for mut map in open.maps_mut() {
        if let Some(name) = OPS.iter().find(|name| map.name() == **name) {
            map.set_autocreate(*name == form).map_err(|e| failed(&e))?;
        }
    }
    let mut object = open.load().map_err(|e| failed(&e))?;
    let mut map = object
        .maps_mut()
        .find(|map| map.name() == form)
        .expect("the object has both forms: a test opens it");
    let mut link = map.attach_struct_ops().map_err(|e| match e.kind() {
        ErrorKind::AlreadyExists => BpfError::NameTaken {
            control: resident.control,
        },
        _ => failed(&e),
    })?;
    if form == OPS[0] {
        link.pin(pins::pin(&link_pin(resident)))
    } else {
        map.pin(pins::pin(&map_pin(resident)))
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
