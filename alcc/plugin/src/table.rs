// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of a plug-in, checked and copied: afterwards only its functions are used, not its
//! data.
use crate::PluginError;
use crate::abi::{self, alcc_algorithm, alcc_option, alcc_receiver};
use crate::receiver::PluginReceiver;
use alcc_units::{Bytes, OptionDoc, Options, Span, Spec, SpecError};
use std::ffi::{CStr, c_char};
use std::mem::offset_of;
use std::ops::RangeInclusive;
use std::path::Path;

const MAX_ENTRIES: u64 = 64;
const MAX_NAME: usize = 32;

/// One option: its description for `alcc list`, and its parser.
pub(crate) struct Declared {
    pub(crate) doc: OptionDoc,
    kind: u32,
    range: RangeInclusive<f64>,
}

/// The value of an option.
pub(crate) struct Value {
    pub(crate) text: String,
    pub(crate) whole: u64,
    pub(crate) real: f64,
}

/// A plug-in's table, kept for the life of the process.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) options: Vec<Declared>,
    /// The options in the registry's form.
    pub(crate) docs: &'static [OptionDoc],
    pub(crate) gauges: Vec<&'static str>,
    /// Names of its profiles.
    pub(crate) profiles: &'static [&'static str],
    /// Its receiver module, with all callbacks.
    pub(crate) receiver: Option<alcc_receiver>,
    /// The callbacks; the required ones are present.
    pub(crate) calls: alcc_algorithm,
}

// SAFETY: the pointers in `calls` besides the functions are not used after the table has been read.
unsafe impl Send for Table {}
// SAFETY: as above; the interface requires that the functions can be called from any thread.
unsafe impl Sync for Table {}

/// Text with the lifetime of the process, as the registry requires for names.
fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn is_word(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    word.len() <= MAX_NAME && word.chars().all(plain)
}

struct Reader<'a> {
    file: &'a Path,
}

impl Reader<'_> {
    fn wrong(&self, what: impl Into<String>, remedy: &'static str) -> PluginError {
        PluginError::Table {
            file: self.file.to_owned(),
            what: what.into(),
            remedy,
        }
    }

    /// # Safety
    /// `text` is NULL or a C string.
    unsafe fn text(&self, text: *const c_char, what: &str) -> Result<String, PluginError> {
        if text.is_null() {
            return Err(self.wrong(format!("{what} is NULL"), "give a string"));
        }
        // SAFETY: the caller's contract.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
        if text.is_empty() || text.chars().any(char::is_control) {
            return Err(self.wrong(format!("{what} is {text:?}"), "give one line of text"));
        }
        Ok(text.into_owned())
    }

    /// # Safety
    /// The contract of [`Reader::text`].
    unsafe fn word(&self, word: *const c_char, what: &str) -> Result<String, PluginError> {
        // SAFETY: the caller's contract.
        let word = unsafe { self.text(word, what) }?;
        if !is_word(&word) {
            return Err(self.wrong(
                format!("{what} is '{word}'"),
                "use at most 32 lower-case letters, digits, '-' and '_'",
            ));
        }
        Ok(word)
    }

    /// Reads a word that may contain dots, because a profile may be a version.
    ///
    /// # Safety
    /// The contract of [`Reader::text`].
    unsafe fn profile(&self, profile: *const c_char) -> Result<String, PluginError> {
        let what = "the name of a profile";
        // SAFETY: the caller's contract.
        let profile = unsafe { self.text(profile, what) }?;
        if !is_word(&profile.replace('.', "-")) {
            return Err(self.wrong(
                format!("{what} is '{profile}'"),
                "use at most 32 lower-case letters, digits, '-', '_' and '.'",
            ));
        }
        Ok(profile)
    }

    fn counted<'a, T>(
        &self,
        list: *const T,
        count: u64,
        what: &str,
    ) -> Result<&'a [T], PluginError> {
        if count == 0 {
            return Ok(&[]);
        }
        if count > MAX_ENTRIES || list.is_null() {
            let list = if list.is_null() { "NULL" } else { "a list" };
            return Err(self.wrong(
                format!("{what} is {list} of {count}"),
                "give a list and its length, at most 64",
            ));
        }
        // SAFETY: the count is the plug-in's, whose pointers and counts are trusted.
        Ok(unsafe { std::slice::from_raw_parts(list, count as usize) })
    }

    /// # Safety
    /// The strings of `option` are NULL or C strings.
    unsafe fn option(&self, option: &alcc_option) -> Result<Declared, PluginError> {
        // SAFETY: the caller's contract.
        let (name, default, help) = unsafe {
            let name = self.word(option.name, "the name of an option")?;
            let default = self.text(option.default_text, &format!("the default of {name}"))?;
            let help = self.text(option.help, &format!("the help of {name}"))?;
            (name, default, help)
        };
        let unbounded = option.least == 0.0 && option.most == 0.0;
        let declared = Declared {
            doc: OptionDoc {
                name: leak(name),
                default: leak(default),
                help: leak(help),
            },
            kind: option.kind,
            range: if unbounded {
                f64::MIN..=f64::MAX
            } else {
                option.least..=option.most
            },
        };
        if declared.kind > abi::ALCC_OPTION_BYTES {
            return Err(self.wrong(
                format!("option {} is of kind {}", declared.doc.name, declared.kind),
                "use one of ALCC_OPTION_TEXT, _WHOLE, _REAL, _TIME and _BYTES",
            ));
        }
        // The default is parsed like a user's value, so that an invalid one is found now.
        let docs = [declared.doc];
        let spec = Spec {
            name: "plug-in".to_owned(),
            options: vec![(
                declared.doc.name.to_owned(),
                declared.doc.default.to_owned(),
            )],
        };
        let read = Options::new("algorithm", &spec, &docs, &[]);
        if let Err(error) = read.and_then(|options| declared.read(&options)) {
            return Err(self.wrong(
                format!("the default of option {}: {error}", declared.doc.name),
                "give a default that is in range",
            ));
        }
        Ok(declared)
    }
}

impl Declared {
    /// The value of this option in `options`; all options have one.
    pub(crate) fn read(&self, options: &Options<'_>) -> Result<Value, SpecError> {
        let name = self.doc.name;
        let (least, most) = (*self.range.start(), *self.range.end());
        // A float cast to an integer saturates.
        let (whole_least, whole_most) = (least as u64, most as u64);
        let whole = match self.kind {
            abi::ALCC_OPTION_WHOLE => options.whole(name, 0, whole_least..=whole_most)?,
            abi::ALCC_OPTION_TIME => {
                let range = Span::from_nanos(whole_least)..=Span::from_nanos(whole_most);
                options.span(name, Span::ZERO, range)?.as_nanos()
            }
            abi::ALCC_OPTION_BYTES => {
                let range = Bytes::new(whole_least)..=Bytes::new(whole_most);
                options.bytes(name, Bytes::ZERO, range)?.get()
            }
            _ => 0,
        };
        let real = match self.kind {
            abi::ALCC_OPTION_REAL => options.real(name, 0.0, self.range.clone())?,
            _ => whole as f64,
        };
        Ok(Value {
            text: options.text(name).unwrap_or_default().to_owned(),
            whole,
            real,
        })
    }
}

/// Copies the part of a plug-in's structure that both sides know; the rest is zero.
///
/// # Safety
/// `from` points at `size` bytes. All zero is a valid `T`, and so are any of the plug-in's bytes.
unsafe fn known<T>(from: *const T, size: usize) -> T {
    let mut to = std::mem::MaybeUninit::<T>::zeroed();
    let size = size.min(size_of::<T>());
    // SAFETY: the caller's contract.
    unsafe {
        std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.as_mut_ptr().cast(), size);
        to.assume_init()
    }
}

/// Reads the tables of a plug-in: the exported one, or those of its list.
///
/// # Safety
/// The contract of [`Table::read`].
pub(crate) unsafe fn read_all(
    exported: *const alcc_algorithm,
    file: &Path,
) -> Result<Vec<Table>, PluginError> {
    // SAFETY: the caller's contract; `list` is read only if the plug-in's size includes it.
    unsafe {
        let (found, size) = ((*exported).abi, (*exported).size as usize);
        let list = match found == abi::ALCC_PLUGIN_ABI {
            true => known(exported, size).list,
            false => None,
        };
        let Some(list) = list else {
            return Ok(vec![Table::read(exported, file)?]);
        };
        let mut tables = Vec::new();
        for number in 0..MAX_ENTRIES {
            let table = list(number);
            if table.is_null() {
                break;
            }
            tables.push(Table::read(table, file)?);
        }
        Ok(tables)
    }
}

impl Table {
    /// Reads the exported table of a plug-in.
    ///
    /// # Safety
    /// `exported` points at the symbol `alcc_algorithm_v3` of the plug-in in `file`, which stays
    /// loaded.
    pub(crate) unsafe fn read(
        exported: *const alcc_algorithm,
        file: &Path,
    ) -> Result<Self, PluginError> {
        let reader = Reader { file };
        // SAFETY: every version begins with these two; nothing more is read before they are
        // checked.
        let (found, size) = unsafe { ((*exported).abi, (*exported).size as usize) };
        if found != abi::ALCC_PLUGIN_ABI {
            return Err(PluginError::Abi {
                file: file.to_owned(),
                found,
                want: abi::ALCC_PLUGIN_ABI,
            });
        }
        if size < offset_of!(alcc_algorithm, needs) {
            return Err(reader.wrong(
                format!("its size is {size}"),
                "set .size = sizeof(struct alcc_algorithm)",
            ));
        }
        // SAFETY: all zero is a valid table: NULL everywhere.
        let calls = unsafe { known(exported, size) };
        for (name, there) in [
            ("create", calls.create.is_some()),
            ("clone", calls.clone.is_some()),
            ("destroy", calls.destroy.is_some()),
            ("allowance", calls.allowance.is_some()),
            ("on_ack", calls.on_ack.is_some()),
        ] {
            if !there {
                return Err(reader.wrong(
                    format!("{name} is NULL"),
                    "an algorithm has create, clone, destroy, allowance and on_ack",
                ));
            }
        }
        // SAFETY: strings and lists are as the plug-in declares them.
        unsafe {
            let name = reader.word(calls.name, "its name")?;
            let summary = reader.text(calls.summary, "its summary")?;
            let mut options: Vec<Declared> = Vec::new();
            for option in reader.counted(calls.options, calls.option_count, "its options")? {
                let option = reader.option(option)?;
                if options.iter().any(|o| o.doc.name == option.doc.name) {
                    return Err(reader.wrong(
                        format!("option {} is defined twice", option.doc.name),
                        "give each its own name",
                    ));
                }
                options.push(option);
            }
            let names =
                reader.counted(calls.gauge_names, calls.gauge_count, "its list of gauges")?;
            let gauges = names
                .iter()
                .map(|name| reader.text(*name, "the name of a gauge").map(leak))
                .collect::<Result<_, _>>()?;
            let names = reader.counted(
                calls.profile_names,
                calls.profile_count,
                "its list of profiles",
            )?;
            let mut profiles: Vec<&'static str> = Vec::new();
            for name in names {
                let name = reader.profile(*name)?;
                if profiles.contains(&name.as_str()) {
                    return Err(reader.wrong(
                        format!("profile {name} is defined twice"),
                        "give each its own name",
                    ));
                }
                profiles.push(leak(name));
            }
            let receiver = (!calls.receiver.is_null())
                .then(|| known(calls.receiver, (*calls.receiver).size as usize));
            if receiver.is_some_and(|calls| !PluginReceiver::complete(&calls)) {
                return Err(reader.wrong(
                    "its receiver module lacks a callback",
                    "a receiver module has all of them",
                ));
            }
            Ok(Self {
                profiles: Vec::leak(profiles),
                receiver,
                name: leak(name),
                summary: leak(summary),
                docs: Vec::leak(options.iter().map(|o| o.doc).collect()),
                options,
                gauges,
                calls,
            })
        }
    }
}
