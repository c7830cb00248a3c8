// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's own `clock_gettime` in the vDSO, which is mapped into every process. It is as fast
//! as the C library's, which calls it, and cannot be interposed.
use libc::{Elf64_Addr, Elf64_Ehdr, Elf64_Phdr, Elf64_Sym, c_char, c_int, clockid_t, timespec};
use std::ffi::CStr;
use std::mem::transmute;
use std::sync::atomic::{AtomicUsize, Ordering};

type ClockGettime = unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int;

/// Names of the function in the vDSO (vdso(7)).
const NAMES: [&CStr; 2] = [c"__vdso_clock_gettime", c"__kernel_clock_gettime"];

// Constants of elf.h.
const DT_NULL: u64 = 0;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;

/// The vDSO was not searched yet.
const UNKNOWN: usize = 0;
/// There is no vDSO: valgrind hides it, for example.
const NONE: usize = 1;

static FOUND: AtomicUsize = AtomicUsize::new(UNKNOWN);

/// The function; `None`: only the system call is available.
#[inline]
pub(super) fn clock_gettime() -> Option<ClockGettime> {
    match FOUND.load(Ordering::Relaxed) {
        UNKNOWN => look(),
        NONE => None,
        // SAFETY: the address of the function in the vDSO, which is never unmapped.
        at => Some(unsafe { transmute::<usize, ClockGettime>(at) }),
    }
}

#[cold]
fn look() -> Option<ClockGettime> {
    // SAFETY: returns a number: zero, or the address of the vDSO's ELF header.
    let found = unsafe { find(libc::getauxval(libc::AT_SYSINFO_EHDR) as usize) };
    FOUND.store(found.unwrap_or(NONE), Ordering::Relaxed);
    found.and_then(|_| clock_gettime())
}

/// # Safety
/// `base` is zero, or the address of an ELF image as the kernel maps it.
unsafe fn find(base: usize) -> Option<usize> {
    // SAFETY: null, or the header by contract; tables are at the addresses in it.
    unsafe {
        let header = (base as *const Elf64_Ehdr).as_ref()?;
        let headers = std::slice::from_raw_parts(
            (base + header.e_phoff as usize) as *const Elf64_Phdr,
            header.e_phnum.into(),
        );
        let loaded = headers.iter().find(|h| h.p_type == libc::PT_LOAD)?;
        // Addresses in the image are relative to this one.
        let shift = base + loaded.p_offset as usize - loaded.p_vaddr as usize;
        let dynamic = headers.iter().find(|h| h.p_type == libc::PT_DYNAMIC)?;
        let mut entry = (base + dynamic.p_offset as usize) as *const [Elf64_Addr; 2];
        let (mut names, mut symbols, mut count) = (None, None, None);
        while (*entry)[0] != DT_NULL {
            let [kind, value] = *entry;
            let at = shift + value as usize;
            match kind {
                DT_STRTAB => names = Some(at),
                DT_SYMTAB => symbols = Some(at),
                DT_HASH => count = Some(*(at as *const [u32; 2]).cast::<u32>().add(1)),
                DT_GNU_HASH if count.is_none() => count = gnu_count(at as *const u32),
                _ => {}
            }
            entry = entry.add(1);
        }
        let symbols = std::slice::from_raw_parts(symbols? as *const Elf64_Sym, count? as usize);
        let names = names?;
        let named = |symbol: &&Elf64_Sym| {
            let name = CStr::from_ptr((names + symbol.st_name as usize) as *const c_char);
            symbol.st_value != 0 && NAMES.contains(&name)
        };
        let symbol = symbols.iter().find(named)?;
        Some(shift + symbol.st_value as usize)
    }
}

/// The number of symbols in a GNU hash table: the last of the chain that begins last.
///
/// # Safety
/// `table` is the address of such a table.
unsafe fn gnu_count(table: *const u32) -> Option<u32> {
    // SAFETY: buckets, first hashed symbol, words of the filter; then the filter, the buckets, and
    // the chains, whose last element is odd.
    unsafe {
        let [buckets, first, words] = [*table, *table.add(1), *table.add(2)];
        let from = table.add(4 + 2 * words as usize);
        let all = std::slice::from_raw_parts(from, buckets as usize);
        let mut last = *all.iter().max()?;
        if last < first {
            return Some(first);
        }
        let chains = from.add(buckets as usize);
        while *chains.add((last - first) as usize) & 1 == 0 {
            last += 1;
        }
        Some(last + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_function() {
        // SAFETY: a number only.
        if unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } == 0 {
            println!("skipped: needs the kernel's page (vdso(7))");
            return;
        }
        assert!(clock_gettime().is_some());
    }

    #[test]
    fn nothing_is_found_where_there_is_no_page() {
        // SAFETY: zero.
        assert_eq!(unsafe { find(0) }, None);
    }
}
