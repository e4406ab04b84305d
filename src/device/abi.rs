//! The parameters of every kernel, read from `kernels/abi.h`, their one home.
//!
//! The macro takes C's declarations as they stand there: `struct Name { type field; ... };` of u32, u64,
//! f32 and such structs. A struct that a compiler would pad does not compile, so C and Rust agree on every
//! offset; that a kernel takes what its launcher passes is checked when the kernel is looked up.

/// What a kernel may take: the bytes of these structs, and of nothing else.
///
/// # Safety
/// The type is `repr(C)`, has no padding, and is declared in `kernels/abi.h`.
pub unsafe trait Parameters: Copy + 'static {}

macro_rules! parameters {
    (
        $(#[$header:meta])*
        #pragma once
        $(typedef $($word:ident)+;)*
        $(
            $(#[$meta:meta])*
            struct $name:ident { $($(#[$field_meta:meta])* $kind:ident $field:ident;)+ };
        )*
    ) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug, Default, PartialEq)]
            pub struct $name { $($(#[$field_meta])* pub $field: $kind,)+ }

            const _: () = assert!(size_of::<$name>() == 0 $(+ size_of::<$kind>())+);

            // SAFETY: it is `repr(C)` and, by the assertion above, without padding.
            unsafe impl Parameters for $name {}
        )*
    };
}

include!(concat!(env!("OUT_DIR"), "/abi.rs"));
