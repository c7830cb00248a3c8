// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The example keeps the contract of every algorithm, and gives back what it takes.
mod support;

use alcc_cc::{Registry, conformance};
use std::ffi::c_long;
use support::{example, wrapped};

#[test]
fn the_example_keeps_the_contract() {
    let algorithm = alcc_plugin::load(&example()).unwrap();
    assert_eq!(algorithm.name, "aimd");
    conformance::check(&algorithm);
}

/// The same code with its `create`, `clone` and `destroy` counted.
#[test]
fn every_state_that_was_made_is_destroyed() {
    let file = wrapped(
        "counted",
        r#"
        long made, destroyed;
        static void *counted_create(const struct alcc_create *s) { made++; return create(s); }
        static void *counted_clone(const void *s) { made++; return clone(s); }
        static void counted_destroy(void *s) { destroyed++; free(s); }
        "#,
        ".create = counted_create, .clone = counted_clone, .destroy = counted_destroy,",
    );
    let algorithm = alcc_plugin::load(&file).unwrap();
    let spec = algorithm.name.parse().unwrap();
    conformance::run_seed(&algorithm, &spec, 1);
    let registry = Registry::builtin().with(algorithm);
    drop(registry.build(&spec).unwrap().clone());
    // SAFETY: the file defines both as `long`; nobody else runs it.
    let (made, destroyed): (c_long, c_long) = unsafe {
        let library = libloading::Library::new(&file).unwrap();
        let read = |name: &str| **library.get::<*const c_long>(name).unwrap();
        (read("made"), read("destroyed"))
    };
    assert!(made > 4, "{made} states");
    assert_eq!(made, destroyed);
}
