// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of all algorithms, made from the laboratory's registry at the first call.
use crate::{algorithm, create, receiver};
use alcc_cc::{Algorithm, OptionDoc, Registry, Spec};
use alcc_plugin::abi::{ALCC_OPTION_TEXT, alcc_algorithm, alcc_option, alcc_receiver};
use std::ffi::{CString, c_char};
use std::ptr::null;
use std::sync::OnceLock;

/// Description of an algorithm in the plug-in.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) options: &'static [OptionDoc],
    /// Names of the internal values, in the order of the table.
    pub(crate) gauges: Vec<&'static str>,
    table: alcc_algorithm,
}

// SAFETY: an entry is not changed once it is made, and what its table points at is never freed.
unsafe impl Send for Entry {}
// SAFETY: as above.
unsafe impl Sync for Entry {}

/// The tables by number. NULL behind the last, and if they cannot be made.
pub(crate) unsafe extern "C" fn list(number: u64) -> *const alcc_algorithm {
    let entry = std::panic::catch_unwind(|| entries().get(usize::try_from(number).ok()?));
    let entry = entry.ok().flatten();
    entry.map_or(null(), |entry| &raw const entry.table)
}

/// The entry of this name.
pub(crate) fn entry(name: &str) -> Option<&'static Entry> {
    entries().iter().find(|entry| entry.name == name)
}

/// All that a spec can name.
pub(crate) fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| alcc_zoo::registry().reading(alcc_plugin::read_text))
}

fn entries() -> &'static [Entry] {
    static ENTRIES: OnceLock<Vec<Entry>> = OnceLock::new();
    ENTRIES.get_or_init(|| registry().iter().filter_map(made).collect())
}

/// The entry of an algorithm: all of it if it is the laboratory's, else the forms that are.
fn made(algorithm: &Algorithm) -> Option<Entry> {
    let own = alcc_zoo::algorithms().any(|a| a.name == algorithm.name);
    let forms = || {
        let forms = alcc_zoo::forms().iter();
        forms.filter(|(name, _)| *name == algorithm.name)
    };
    let profiles: Vec<&'static str> = match own {
        true => algorithm.profiles.to_vec(),
        false => forms().map(|(_, form)| form.profile).collect(),
    };
    // The forms of an algorithm have the same options.
    let options = match own {
        true => algorithm.options,
        false => forms().next()?.1.options,
    };
    let mut gauges: Vec<&'static str> = Vec::new();
    let mut header_len = None;
    let chosen = |profile: &&str| Spec {
        options: vec![("profile".to_owned(), (*profile).to_owned())],
        ..Spec::named(algorithm.name)
    };
    let specs: Vec<Spec> = match profiles.is_empty() {
        true => vec![Spec::named(algorithm.name)],
        false => profiles.iter().map(chosen).collect(),
    };
    for cc in specs.iter().filter_map(|spec| registry().build(spec).ok()) {
        if cc.has_receiver() {
            header_len = header_len.max(Some(cc.header_len()));
        }
        cc.gauges(&mut |name, _| {
            if !gauges.contains(&name) {
                gauges.push(name);
            }
        });
    }
    let table = alcc_algorithm {
        name: c_string(algorithm.name),
        summary: c_string(algorithm.summary),
        options: Vec::leak(options.iter().map(option).collect()).as_ptr(),
        option_count: options.len() as u64,
        gauge_names: c_strings(&gauges),
        gauge_count: gauges.len() as u64,
        create: Some(create::create),
        profile_names: c_strings(&profiles),
        profile_count: profiles.len() as u64,
        receiver: header_len.map_or(null(), |length| {
            let calls: &'static alcc_receiver = Box::leak(Box::new(receiver::calls(length)));
            &raw const *calls
        }),
        ..algorithm::CALLS
    };
    Some(Entry {
        name: algorithm.name,
        options,
        gauges,
        table,
    })
}

/// Values in the order of the algorithm, which reads them in the plug-in.
fn option(doc: &OptionDoc) -> alcc_option {
    alcc_option {
        name: c_string(doc.name),
        default_text: c_string(doc.default),
        help: c_string(doc.help),
        kind: ALCC_OPTION_TEXT,
        reserved: 0,
        least: 0.0,
        most: 0.0,
    }
}

/// A C string for the life of the process.
fn c_string(text: &str) -> *const c_char {
    CString::new(text).unwrap_or_default().into_raw()
}

fn c_strings(texts: &[&str]) -> *const *const c_char {
    let list: Vec<*const c_char> = texts.iter().map(|text| c_string(text)).collect();
    Vec::leak(list).as_ptr()
}
