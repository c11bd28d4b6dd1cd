//! The one table of formats: what is done for each of them is made of it.

/// Passes a row for each format, in the order of listings, to a macro:
///
/// - `about`: what it is, as its documentation says it;
/// - `feature`: the feature that turns it on, which is its name as well;
/// - `codec`: its crate, and the name under which that and its file in `codec/` are known here;
/// - `endings`: how names of its files end, the usual one first;
/// - `mark`: whether a file is one, by its first bytes and its length;
/// - `set`: where several files can be one model, what that is called, here and on the command line, and how
///   the name of the file ends by which it is opened.
macro_rules! formats {
    ($then:ident! $args:tt) => {
        $then! {
            $args
            Mag {
                about: "magnetron's `.mag`",
                feature: "mag",
                codec: mag_format as mag,
                endings: ["mag"],
                mark: |head, _| matches!(head, [b'M', b'A', b'G', b'!' | b'&', ..]),
                set: [],
            }
            Ztensor {
                about: "zTensor's `.zt`",
                feature: "ztensor",
                codec: ztensor_format as ztensor,
                endings: ["zt", "ztensor"],
                mark: |head, _| matches!(
                    head,
                    [b'Z', b'T', b'E', b'N', ..]
                        | [0x89, b'Z', b'T', b'2', 0x0D, 0x0A, 0x1A, 0x0A, ..]
                ),
                set: [],
            }
            Burnpack {
                about: "Burn's burnpack, `.bpk`",
                feature: "burnpack",
                codec: burnpack_format as burnpack,
                endings: ["bpk"],
                mark: |head, _| matches!(head, [b'N', b'R', b'U', b'B', ..]),
                set: [],
            }
            Aero {
                about: "AERO's `.aero`",
                feature: "aero",
                codec: aero_format as aero,
                endings: ["aero", "aeroset.json"],
                mark: |head, _| head.starts_with(b"AERO") || head.starts_with(b"{") && is_aeroset(head),
                set: [AeroSet "aeroset" "aeroset.json"],
            }
            Primitiv {
                about: "primitiv's models, parameters and optimizers",
                feature: "primitiv",
                codec: primitiv_format as primitiv,
                endings: ["model", "param", "optimizer", "trainer", "tensor", "shape"],
                // Three MessagePack uint32: any version and a data type of 0 to 0x400, or version 0.1
                // and any data type; or the two-word header of the first days.
                mark: |head, _| matches!(
                    head,
                    [0xCE, _, _, _, _, 0xCE, _, _, _, _, 0xCE, 0, 0, 0..=4, 0, ..]
                        | [0xCE, 0, 0, 0, 0, 0xCE, 0, 0, 0, 1, 0xCE, ..]
                        | [0xCE, 0, 0, 0, 0, 0xCE, 0, 0, 4, 0, ..]
                ),
                set: [],
            }
            Safetensors {
                about: "Hugging Face's `.safetensors`",
                feature: "safetensors",
                codec: safetensors_format as safetensors,
                endings: ["safetensors", "safetensors.index.json", "index.json"],
                mark: is_safetensors,
                set: [SafetensorsSet "safetensors-set" "safetensors.index.json"],
            }
        }
    };
}

/// Passes a row for each type that is an open file or set: its variant, its feature, its crate, its name there.
macro_rules! archives {
    ($then:ident! $args:tt) => {
        formats! { archives_of! ($then $args) }
    };
}

macro_rules! archives_of {
    (
        ($then:ident $args:tt)
        $($Format:ident {
            about: $about:literal,
            feature: $feature:literal,
            codec: $krate:ident as $module:ident,
            endings: $endings:tt,
            mark: $mark:expr,
            set: [$($Set:ident $name:literal $ending:literal)?],
        })*
    ) => {
        $then! {
            $args
            $(
                [$Format $feature $krate Archive $about $Format]
                $([$Set $feature $krate Set $about $Format])?
            )*
        }
    };
}
