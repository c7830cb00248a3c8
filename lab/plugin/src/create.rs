// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Creation of a state from options.
use crate::algorithm::State;
use crate::tables;
use alcc_cc::Spec;
use alcc_plugin::abi::{alcc_create, alcc_value};
use std::ffi::{CStr, c_char, c_void};
use std::panic::catch_unwind;
use std::ptr::null_mut;

/// The state of a new connection; NULL: refused, with the reason in `settings->error`.
pub(crate) unsafe extern "C" fn create(settings: *const alcc_create) -> *mut c_void {
    // SAFETY: the settings are there for the time of the call. A host that knows lists of
    // algorithms knows all of their members.
    let made = catch_unwind(|| unsafe { state(&*settings) });
    let why = match made {
        Ok(Ok(state)) => return Box::into_raw(Box::new(state)).cast(),
        Ok(Err(why)) => why,
        Err(_) => "it panicked".to_owned(),
    };
    // SAFETY: as above.
    unsafe { say(&*settings, &why) };
    null_mut()
}

/// # Safety
/// The settings are those of a host.
unsafe fn state(settings: &alcc_create) -> Result<State, String> {
    // SAFETY: the caller's promise.
    let (name, profile) = unsafe { (text(settings.algorithm), text(settings.profile)) };
    let name = name.unwrap_or_default();
    let entry = tables::entry(&name).ok_or_else(|| format!("there is no algorithm '{name}'"))?;
    let values: &[alcc_value] = match settings.value_count {
        0 => &[],
        // SAFETY: the host passes `count` values.
        count => unsafe { std::slice::from_raw_parts(settings.values, count as usize) },
    };
    let mut spec = Spec::named(&name);
    for (doc, value) in entry.options.iter().zip(values) {
        // SAFETY: the text of a value is a string.
        let typed = unsafe { text(value.text) }.unwrap_or_default();
        // A default may say what it is in each profile. What was not typed is left to the algorithm.
        if typed != doc.default {
            spec.options.push((doc.name.to_owned(), typed));
        }
    }
    spec.options
        .extend(profile.map(|profile| ("profile".to_owned(), profile)));
    let controller = tables::registry().build(&spec).map_err(|error| {
        // The host says whose options they are.
        let whole = error.to_string();
        let whose = format!("algorithm {name}: ");
        whole.strip_prefix(&whose).unwrap_or(&whole).to_owned()
    })?;
    Ok(State::new(controller, &entry.gauges))
}

/// # Safety
/// NULL or a C string.
unsafe fn text(from: *const c_char) -> Option<String> {
    // SAFETY: the caller's promise.
    let text = (!from.is_null()).then(|| unsafe { CStr::from_ptr(from) })?;
    Some(text.to_string_lossy().into_owned())
}

/// Writes what fits, and a zero.
///
/// # Safety
/// The settings are those of a host.
unsafe fn say(settings: &alcc_create, why: &str) {
    let Some(room) = settings.error_size.checked_sub(1) else {
        return;
    };
    let length = why.len().min(room as usize);
    // SAFETY: there is room for `error_size` bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(why.as_ptr(), settings.error.cast(), length);
        *settings.error.add(length) = 0;
    }
}
