//! The parameters of every kernel, read from `kernels/abi.h`, their only declaration.
//!
//! The macro takes the declarations of that file: two `enum class` of u32, then `struct Name { type field; ... };` with
//! fields of u32, u64, f32, the enums, or these structs. A struct that a compiler would pad does not compile, so C and
//! Rust agree on every offset. Looking a kernel up checks that it takes the struct that its launcher passes.

/// A parameter of a kernel: the bytes of one of these structs.
///
/// # Safety
/// The type is `repr(C)`, has no padding, and is declared in `kernels/abi.h`.
pub unsafe trait Parameters: Copy + 'static {}

/// Declares an enum, whose first variant is the default.
macro_rules! choice {
    (
        $(#[$meta:meta])*
        $name:ident
        $(#[$default_meta:meta])* $default:ident = $zero:literal,
        $($(#[$variant_meta:meta])* $variant:ident = $value:literal,)*
    ) => {
        $(#[$meta])*
        #[repr(u32)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $name {
            #[default]
            $(#[$default_meta])* $default = $zero,
            $($(#[$variant_meta])* $variant = $value,)*
        }
    };
}

macro_rules! parameters {
    (
        $(#[$header:meta])*
        #pragma once
        $(typedef $($word:ident)+;)*
        $(#[$choice_meta:meta])*
        enum class $choice:ident : u32 { $($variants:tt)* };
        $(#[$other_meta:meta])*
        enum class $other:ident : u32 { $($others:tt)* };
        $(
            $(#[$meta:meta])*
            struct $name:ident { $($(#[$field_meta:meta])* $kind:ident $field:ident;)+ };
        )*
    ) => {
        choice! { $(#[$choice_meta])* $choice $($variants)* }
        choice! { $(#[$other_meta])* $other $($others)* }

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
