// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clones of boxed trait objects. Every type that implements `Clone` has these traits; no type
//! implements them itself.
use crate::{Controller, Receiver, WithReceiver};

macro_rules! clones {
    ($($boxed:ident by $name:ident),*) => {$(
        #[doc = concat!("The supertrait that makes `Box<dyn ", stringify!($boxed), ">` clone.")]
        pub trait $name {
            /// A complete snapshot.
            fn clone_box(&self) -> Box<dyn $boxed>;
        }

        impl<T: $boxed + Clone + 'static> $name for T {
            fn clone_box(&self) -> Box<dyn $boxed> {
                Box::new(self.clone())
            }
        }

        impl Clone for Box<dyn $boxed> {
            fn clone(&self) -> Self {
                $name::clone_box(self.as_ref())
            }
        }
    )*};
}

clones! {
    Controller by CloneController,
    WithReceiver by CloneWithReceiver,
    Receiver by CloneReceiver
}
