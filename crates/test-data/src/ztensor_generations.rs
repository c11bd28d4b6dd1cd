//! zTensor 1.0, 1.1, 1.2 and 2, byte by byte.
//!
//! Every fault is alone in its file: what it would break beside itself, such as the hash of a
//! manifest, is made right again.

use crate::ztensor::{Cbor, array, bytes, dims, head, text, uint, zstd_raw, zstd_run};
use crate::{Case, LeBuffer, crc32c, xxh3};

/// Every hand-assembled file of these generations.
pub(crate) fn cases() -> Vec<Case> {
    [
        valid_1(),
        frame_1(),
        manifest_1(),
        data_1(),
        unsupported_1(),
        valid_2(),
        frame_2(),
        cbor_2(),
        manifest_2(),
        data_2(),
        seekable(),
        csr(),
        unsupported_2(),
    ]
    .concat()
}

pub(crate) const V1: &[u8] = b"ZTEN1000";
pub(crate) const V2: &[u8] = b"\x89ZT2\r\n\x1a\n";
/// Two f32.
const DATA: [u8; 8] = [0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0];

fn map(pairs: &[(&str, Cbor)]) -> Cbor {
    let body = pairs
        .iter()
        .flat_map(|(key, value)| [text(key), value.clone()].concat());
    [head(5, pairs.len() as u64), body.collect()].concat()
}

/// The same with the keys in the order of generation 2.
fn sorted(pairs: &[(&str, Cbor)]) -> Cbor {
    let mut pairs = pairs.to_vec();
    pairs.sort_by_key(|(key, _)| text(key));
    map(&pairs)
}

/// Named values of which a case changes some.
#[derive(Clone)]
struct Fields(Vec<(&'static str, Cbor)>);

impl Fields {
    fn set(mut self, key: &'static str, value: Cbor) -> Self {
        match self.0.iter_mut().find(|(known, _)| *known == key) {
            Some((_, place)) => *place = value,
            None => self.0.push((key, value)),
        }
        self
    }

    fn without(mut self, key: &str) -> Self {
        self.0.retain(|(known, _)| *known != key);
        self
    }

    fn map(&self) -> Cbor {
        map(&self.0)
    }

    fn sorted(&self) -> Cbor {
        sorted(&self.0)
    }
}

/// Magic, blobs at multiples of 64, the manifest and its size.
fn v10(blobs: &[&[u8]], manifest: &[u8]) -> LeBuffer {
    let mut file = LeBuffer::new();
    file.bytes(V1);
    for blob in blobs {
        file.pad_to(64, 0).bytes(blob);
    }
    file.bytes(manifest).u64(manifest.len() as u64);
    file
}

/// The same with the magic again.
fn v12(blobs: &[&[u8]], manifest: &[u8]) -> Vec<u8> {
    let mut file = v10(blobs, manifest);
    file.bytes(V1);
    file.into_vec()
}

fn component(dtype: &str, offset: u64, length: usize) -> Fields {
    Fields(vec![
        ("dtype", text(dtype)),
        ("offset", uint(offset)),
        ("length", uint(length as u64)),
    ])
}

fn object(shape: &[u64], format: &str, components: Cbor) -> Fields {
    Fields(vec![
        ("shape", dims(shape)),
        ("format", text(format)),
        ("components", components),
    ])
}

fn dense(shape: &[u64], data: &Fields) -> Fields {
    object(shape, "dense", map(&[("data", data.map())]))
}

/// The two f32 at 64.
fn weight() -> Fields {
    component("f32", 64, 8)
}

fn root(version: &str, objects: &[(&str, Cbor)]) -> Fields {
    Fields(vec![("version", text(version)), ("objects", map(objects))])
}

/// A file of version 1.2 with the weight's data and one object of it.
fn lone(object: &Fields) -> Vec<u8> {
    v12(&[&DATA], &root("1.2.0", &[("w", object.map())]).map())
}

fn lone_component(component: &Fields) -> Vec<u8> {
    lone(&dense(&[2], component))
}

/// The same with other data of a compressed component.
fn zstd(data: &[u8], version: &str, stated: Option<u64>) -> Vec<u8> {
    let mut part = component("f32", 64, data.len()).set("encoding", text("zstd"));
    if let Some(stated) = stated {
        part = part.set("uncompressed_length", uint(stated));
    }
    v12(
        &[data],
        &root(version, &[("w", dense(&[2], &part).map())]).map(),
    )
}

fn tensor_10(dtype: &str, format: &str, components: &[(&str, Cbor)]) -> Fields {
    object(&[2], format, map(components)).set("dtype", text(dtype))
}

fn part_10(offset: u64, length: usize) -> Fields {
    component("", offset, length).without("dtype")
}

fn file_10(blobs: &[&[u8]], tensors: &[(&str, Cbor)]) -> Vec<u8> {
    let manifest = map(&[
        ("version", text("1.0")),
        ("generator", text("by hand")),
        ("attributes", map(&[])),
        ("tensors", map(tensors)),
    ]);
    v10(blobs, &manifest).into_vec()
}

fn crc(data: &[u8]) -> Cbor {
    text(&format!("crc32c:0x{:08X}", crc32c(data)))
}

fn valid_1() -> Vec<Case> {
    let w10 = tensor_10(
        "float32",
        "dense",
        &[("data", part_10(64, 8).set("digest", crc(&DATA)).map())],
    );
    let frame = zstd_raw(&DATA);
    let long = zstd_run(3, 7);
    let csr = |part: &dyn Fn(u64, usize) -> Fields| {
        let values = part(64, 8);
        let indices = part(128, 8);
        let indptr = part(192, 8);
        map(&[
            ("values", values.map()),
            ("indices", indices.map()),
            ("indptr", indptr.map()),
        ])
    };
    let blobs: [&[u8]; 3] = [&DATA, &[1, 0, 0, 0, 0, 0, 0, 0], &[0; 8]];
    let csr_10 = tensor_10("float32", "sparse_csr", &[]).set("components", csr(&part_10));
    let short = |offset, length| component("i32", offset, length);
    let csr_12 = object(&[2, 2], "sparse_csr", csr(&short));
    let packed = part_10(64, frame.len()).set("encoding", text("zstd"));
    let unsized_10 = tensor_10(
        "float32",
        "sparse_coo",
        &[("values", packed.map()), ("coords", packed.map())],
    );
    let nested = (0..100).fold(uint(1), |value, _| array(&[value]));
    let attributes = map(&[
        ("text", text("x")),
        ("bytes", bytes(&[0, 255])),
        ("deep", nested),
        (
            "float",
            vec![0xFB, 0x3F, 0xB9, 0x99, 0x99, 0x99, 0x99, 0x99, 0x9A],
        ),
        ("map", [head(5, 1), uint(7), text("seven")].concat()),
    ]);
    let rich = root(
        "1.2.0",
        &[(
            "w",
            dense(&[2], &weight())
                .set("attributes", attributes.clone())
                .map(),
        )],
    )
    .set("attributes", attributes);
    let typed = |kind: &str, dtype: &str, shape: &[u64]| {
        lone(&dense(
            shape,
            &component(dtype, 64, 8).set("type", text(kind)),
        ))
    };
    let null = component("f32", 64, 8)
        .set("digest", vec![0xF6])
        .set("encoding", vec![0xF6])
        .set("type", vec![0xF7]);
    let indefinite = [
        vec![0xBF],
        text("objects"),
        vec![0xBF],
        text("w"),
        dense(&[2], &weight()).map(),
        vec![0xFF],
        vec![0x7F, 0x67],
        b"version".to_vec(),
        vec![0xFF],
        [vec![0xC1], text("1.2.0")].concat(),
        vec![0xFF],
    ]
    .concat();
    let aux = map(&[("data", weight().map()), ("scale", weight().map())]);
    vec![
        Case::valid(
            "v10_dense",
            "1.0: one tensor",
            file_10(&[&DATA], &[("w", w10.map())]),
        ),
        Case::valid("v10_empty", "1.0: no tensor", file_10(&[], &[])),
        Case::valid(
            "v10_csr",
            "1.0: a sparse matrix, component by component",
            file_10(&blobs, &[("m", csr_10.map())]),
        ),
        Case::valid(
            "v10_zstd_unsized",
            "1.0: compressed components whose length is nowhere",
            file_10(&[&frame], &[("m", unsized_10.map())]),
        ),
        Case::valid(
            "v10_zstd",
            "1.0: one compressed tensor",
            file_10(
                &[&frame],
                &[(
                    "w",
                    tensor_10("float32", "dense", &[("data", packed.map())]).map(),
                )],
            ),
        ),
        Case::valid(
            "v11_dense",
            "1.1: one tensor",
            v12(
                &[&DATA],
                &root("1.1.0", &[("w", dense(&[2], &weight()).map())]).map(),
            ),
        ),
        Case::valid(
            "v12_empty",
            "1.2: no object",
            v12(&[], &root("1.2.0", &[]).map()),
        ),
        Case::valid(
            "v12_dense",
            "1.2: one tensor",
            lone_component(&weight().set("digest", crc(&DATA))),
        ),
        Case::valid(
            "v12_later",
            "a later minor version adds optional keys only",
            v12(&[], &root("1.9.0", &[]).set("new", uint(1)).map()),
        ),
        Case::valid(
            "v12_zstd",
            "1.2: a compressed tensor",
            zstd(&frame, "1.2.0", Some(8)),
        ),
        Case::valid(
            "v12_zstd_long",
            "1.2: 384 KiB in runs",
            v12(
                &[&long],
                &root(
                    "1.2.0",
                    &[(
                        "w",
                        dense(
                            &[3 << 17],
                            &component("u8", 64, long.len())
                                .set("encoding", text("zstd"))
                                .set("uncompressed_length", uint(3 << 17)),
                        )
                        .map(),
                    )],
                )
                .map(),
            ),
        ),
        Case::valid(
            "v12_csr",
            "1.2: a sparse matrix, component by component",
            v12(&blobs, &root("1.2.0", &[("m", csr_12.map())]).map()),
        ),
        Case::valid(
            "v12_format",
            "1.2: a format nobody knows",
            lone(&object(
                &[2],
                "mine",
                map(&[("a", weight().map()), ("b", weight().map())]),
            )),
        ),
        Case::valid(
            "v12_no_components",
            "1.2: an object of no components",
            lone(&object(&[2], "mine", map(&[]))),
        ),
        Case::valid(
            "v12_dense_aux",
            "1.2: a dense object with a second component",
            lone(&object(&[2], "dense", aux)),
        ),
        Case::valid(
            "v12_attributes",
            "1.2: attributes of all kinds",
            v12(&[&DATA], &rich.map()),
        ),
        Case::valid("v12_null", "1.2: null is absent", lone_component(&null)),
        Case::valid(
            "v12_indefinite",
            "1.2: any form of CBOR, keys in any order",
            v12(&[&DATA], &indefinite),
        ),
        Case::valid(
            "v12_f8",
            "1.2: floats of 8 bits",
            typed("f8_e4m3fn", "u8", &[8]),
        ),
        Case::valid(
            "v12_complex",
            "1.2: a complex number",
            typed("complex64", "f32", &[1]),
        ),
        Case::valid(
            "v12_digest_unknown",
            "1.2: a digest nobody knows",
            lone_component(&weight().set("digest", text("md5:00"))),
        ),
        Case::valid(
            "v12_zero_dim",
            "1.2: no element, whatever the other dims",
            lone(&dense(&[0, 1 << 40, 1 << 40], &component("f32", 64, 0))),
        ),
    ]
}

fn frame_1() -> Vec<Case> {
    let manifest = root("1.2.0", &[]).map();
    let sized = |size: u64| {
        let mut file = LeBuffer::new();
        file.bytes(V1)
            .pad_to(64, 0)
            .bytes(&manifest)
            .u64(size)
            .bytes(V1);
        file.into_vec()
    };
    let full = v12(
        &[&DATA],
        &root("1.2.0", &[("w", dense(&[2], &weight()).map())]).map(),
    );
    let v10_full = file_10(&[], &[]);
    let (size, id) = ("ztensor.manifest.size", "ztensor.frame");
    vec![
        Case::reject(
            "v1_head",
            "ztensor.truncated",
            "the magic of 1.x alone",
            V1.to_vec(),
        ),
        Case::reject(
            "v1_two_magics",
            "ztensor.truncated",
            "two magics and nothing between",
            [V1, &[0; 4], V1].concat(),
        ),
        Case::reject(
            "v12_cut_8",
            id,
            "1.2 without its last magic looks like 1.0",
            full[..full.len() - 8].to_vec(),
        ),
        Case::reject(
            "v10_plus_8",
            id,
            "1.0 with a magic at its end looks like 1.1",
            [&v10_full, V1].concat(),
        ),
        Case::reject("v12_size_0", size, "no manifest", sized(0)),
        Case::reject(
            "v12_size_max",
            size,
            "2^64-1 bytes of manifest",
            sized(u64::MAX),
        ),
        Case::reject(
            "v12_size_magic",
            size,
            "a manifest that reaches into the magic",
            sized(64 + manifest.len() as u64 - 7),
        ),
    ]
}

fn manifest_1() -> Vec<Case> {
    let plain = || root("1.2.0", &[("w", dense(&[2], &weight()).map())]);
    let with = |fields: Fields| v12(&[&DATA], &fields.map());
    let raw = |manifest: Cbor| v12(&[&DATA], &manifest);
    let (value, missing) = ("ztensor.manifest.value", "ztensor.manifest.missing");
    let twice = |list: &str| {
        let object = dense(&[2], &weight()).map();
        raw(map(&[
            ("version", text("1.2.0")),
            (list, map(&[("w", object.clone()), ("w", object)])),
        ]))
    };
    let attribute = |value: Cbor| with(plain().set("attributes", map(&[("k", value)])));
    let deep = [vec![0x81; 200], vec![0]].concat();
    let object_with =
        |key: &'static str, value: Cbor| lone(&dense(&[2], &weight()).set(key, value));
    let without = |key: &str| lone(&dense(&[2], &weight()).without(key));
    let part_with = |key: &'static str, value: Cbor| lone_component(&weight().set(key, value));
    let key = [head(5, 1), uint(7), uint(8)].concat();
    let many = map(&[("k", array(&vec![uint(0); 1 << 18]))]);
    vec![
        Case::reject(
            "v12_root_array",
            "ztensor.manifest.type",
            "a manifest that is an array",
            raw(array(&[])),
        ),
        Case::reject(
            "v12_trailing",
            "ztensor.manifest.trailing",
            "a byte after the manifest",
            raw([plain().map(), vec![0]].concat()),
        ),
        Case::reject(
            "v12_key",
            "ztensor.manifest.key",
            "a key that is a number",
            raw([vec![0xA1], uint(1), uint(2)].concat()),
        ),
        Case::reject(
            "v12_name_bytes",
            "ztensor.manifest.key",
            "a name that is bytes",
            with(plain().set(
                "objects",
                [head(5, 1), bytes(b"w"), dense(&[2], &weight()).map()].concat(),
            )),
        ),
        Case::reject(
            "v12_key_twice",
            "ztensor.manifest.duplicate_key",
            "version twice",
            raw(map(&[
                ("version", text("1.2.0")),
                ("version", text("1.2.0")),
                ("objects", map(&[])),
            ])),
        ),
        Case::reject(
            "v12_offset_twice",
            "ztensor.manifest.duplicate_key",
            "offset twice",
            lone(&object(
                &[2],
                "dense",
                map(&[(
                    "data",
                    map(&[
                        ("dtype", text("f32")),
                        ("offset", uint(64)),
                        ("offset", uint(64)),
                        ("length", uint(8)),
                    ]),
                )]),
            )),
        ),
        Case::reject(
            "v12_object_twice",
            "ztensor.object.duplicate",
            "two objects of one name",
            twice("objects"),
        ),
        Case::reject(
            "v12_component_twice",
            "ztensor.component.duplicate",
            "two components of one name",
            lone(&object(
                &[2],
                "dense",
                map(&[("data", weight().map()), ("data", weight().map())]),
            )),
        ),
        Case::reject(
            "v12_no_version",
            missing,
            "no version",
            with(plain().without("version")),
        ),
        Case::reject(
            "v12_no_objects",
            missing,
            "no objects",
            with(plain().without("objects")),
        ),
        Case::reject(
            "v10_no_tensors",
            missing,
            "1.0: no tensors",
            v10(&[], &map(&[("version", text("1.0"))])).into_vec(),
        ),
        Case::reject("v12_no_shape", missing, "no shape", without("shape")),
        Case::reject("v12_no_format", missing, "no format", without("format")),
        Case::reject(
            "v12_no_dtype",
            missing,
            "no dtype",
            lone_component(&weight().without("dtype")),
        ),
        Case::reject(
            "v12_no_offset",
            missing,
            "no offset",
            lone_component(&weight().without("offset")),
        ),
        Case::reject(
            "v10_no_dtype",
            missing,
            "1.0: no dtype",
            file_10(
                &[&DATA],
                &[(
                    "w",
                    object(&[2], "dense", map(&[("data", part_10(64, 8).map())])).map(),
                )],
            ),
        ),
        Case::reject(
            "v12_version_number",
            value,
            "version is a number",
            with(plain().set("version", uint(1))),
        ),
        Case::reject(
            "v12_version_text",
            "ztensor.version.syntax",
            "version does not start with digits",
            with(plain().set("version", text("v1.2"))),
        ),
        Case::reject(
            "v12_shape_number",
            value,
            "shape is a number",
            object_with("shape", uint(2)),
        ),
        Case::reject(
            "v12_object_array",
            value,
            "an object is an array",
            with(plain().set("objects", map(&[("w", array(&[]))]))),
        ),
        Case::reject(
            "v12_dtype_number",
            value,
            "dtype is a number",
            part_with("dtype", uint(1)),
        ),
        Case::reject(
            "v12_offset_negative",
            value,
            "offset is negative",
            part_with("offset", vec![0x20]),
        ),
        Case::reject(
            "v12_offset_null",
            value,
            "offset is null",
            part_with("offset", vec![0xF6]),
        ),
        Case::reject(
            "v12_attributes_array",
            value,
            "attributes are an array",
            with(plain().set("attributes", array(&[]))),
        ),
        Case::reject(
            "v12_attribute_key",
            "ztensor.manifest.key",
            "an attribute's key is a number",
            with(plain().set("attributes", key)),
        ),
        Case::reject(
            "v12_dim_negative",
            "ztensor.shape.dim",
            "a negative dim",
            object_with("shape", array(&[vec![0x20]])),
        ),
        Case::reject(
            "v12_shape_product",
            "ztensor.shape.overflow",
            "elements beyond 64 bits",
            object_with("shape", dims(&[1 << 33, 1 << 33])),
        ),
        Case::reject(
            "v12_shape_bytes",
            "ztensor.shape.overflow",
            "bytes that wrap to the right size",
            object_with("shape", dims(&[(1 << 62) + 2])),
        ),
        Case::reject(
            "v12_deep",
            "max_value_depth",
            "200 arrays in one another",
            attribute(deep),
        ),
        Case::reject(
            "v12_items",
            "max_custom_item_count",
            "too many items in an attribute",
            with(plain().set("attributes", many)),
        ),
        Case::reject(
            "v12_claims",
            "ztensor.cbor.end",
            "2^64-1 objects",
            raw([
                vec![0xA2],
                text("version"),
                text("1.2.0"),
                text("objects"),
                head(5, u64::MAX),
            ]
            .concat()),
        ),
        Case::reject(
            "v12_utf8",
            "ztensor.cbor.utf8",
            "a name that is not UTF-8",
            with(plain().set(
                "objects",
                [head(5, 1), vec![0x61, 0xFF], dense(&[2], &weight()).map()].concat(),
            )),
        ),
        Case::reject(
            "v12_break",
            "ztensor.cbor.break",
            "a break in a map of one pair",
            raw([vec![0xA1, 0xFF]].concat()),
        ),
    ]
}

fn data_1() -> Vec<Case> {
    let frame = zstd_raw(&DATA);
    let part = |key: &'static str, value: Cbor| lone_component(&weight().set(key, value));
    let unsized_of = |blob: &[u8], dtype: &str| {
        let part = component(dtype, 64, blob.len()).set("encoding", text("zstd"));
        v12(
            &[blob],
            &root(
                "1.1.0",
                &[("m", object(&[2], "mine", map(&[("a", part.map())])).map())],
            )
            .map(),
        )
    };
    let bomb = zstd_run(8193, 0);
    let long = "x".repeat(1 << 16);
    let names: Vec<String> = (0..520).map(|at| format!("{at}")).collect();
    let composed: Vec<(&str, Cbor)> = names
        .iter()
        .map(|name| (name.as_str(), weight().map()))
        .collect();
    let composed = v12(
        &[&DATA],
        &root(
            "1.2.0",
            &[(&long, object(&[2], "mine", map(&composed)).map())],
        )
        .map(),
    );
    vec![
        Case::reject(
            "v12_composed",
            "max_composed_bytes",
            "a name of 64 KiB before each of 520 components",
            composed,
        ),
        Case::reject(
            "v12_offset_72",
            "ztensor.component.alignment",
            "offset 72",
            part("offset", uint(72)),
        ),
        Case::reject(
            "v12_offset_0",
            "ztensor.offset.magic",
            "offset 0",
            part("offset", uint(0)),
        ),
        Case::reject(
            "v12_into_manifest",
            "ztensor.component.range",
            "data that reaches into the manifest",
            lone_component(&weight().set("length", uint(16)).set("dtype", text("f64"))),
        ),
        Case::reject(
            "v12_length_wraps",
            "ztensor.component.range",
            "offset and length wrap",
            part("length", uint(u64::MAX - 63)),
        ),
        Case::reject(
            "v12_raw_short",
            "ztensor.size.mismatch",
            "4 bytes for two f32",
            part("length", uint(4)),
        ),
        Case::reject(
            "v12_width",
            "ztensor.component.width",
            "8 bytes of elements of 16",
            lone(&object(
                &[1],
                "mine",
                map(&[(
                    "a",
                    component("f64", 64, 8)
                        .set("type", text("complex128"))
                        .map(),
                )]),
            )),
        ),
        Case::reject(
            "v12_no_data",
            "ztensor.dense.data",
            "a dense object without data",
            lone(&object(&[2], "dense", map(&[("values", weight().map())]))),
        ),
        Case::reject(
            "v12_decoded_length",
            "ztensor.decoded_length.mismatch",
            "another decoded length than the shape's",
            zstd(&frame, "1.2.0", Some(12)),
        ),
        Case::reject(
            "v12_crc_malformed",
            "ztensor.checksum.syntax",
            "a CRC of nine digits",
            part("digest", text("crc32c:0x123456789")),
        ),
        Case::reject(
            "v12_crc_wrong",
            "ztensor.checksum.mismatch",
            "the CRC of other data",
            part("digest", crc(b"other")),
        ),
        Case::reject(
            "v12_sha_wrong",
            "ztensor.checksum.mismatch",
            "the SHA-256 of other data",
            part("digest", text(&format!("sha256:{}", "0".repeat(64)))),
        ),
        Case::reject(
            "v12_crc_of_unsupported",
            "ztensor.checksum.mismatch",
            "damage outranks what can't be read",
            lone_component(
                &weight()
                    .set("encoding", text("mine"))
                    .set("digest", crc(b"other")),
            ),
        ),
        Case::reject(
            "v12_zstd_short",
            "ztensor.zstd.shorter",
            "a frame of 4 bytes for 8",
            zstd(&zstd_raw(&DATA[..4]), "1.2.0", Some(8)),
        ),
        Case::reject(
            "v12_zstd_longer",
            "ztensor.zstd.longer",
            "a frame of 12 bytes for 8",
            zstd(&zstd_raw(&[0; 12]), "1.2.0", Some(8)),
        ),
        Case::reject(
            "v11_zstd_cut",
            "ztensor.zstd.truncated",
            "a frame that is cut",
            zstd(&frame[..frame.len() - 1], "1.1.0", None),
        ),
        Case::reject(
            "v11_unsized_noframe",
            "ztensor.zstd.frame",
            "a component of unstated length that is no frame",
            unsized_of(b"no frame", "u8"),
        ),
        Case::reject(
            "v11_unsized_cut",
            "ztensor.zstd.truncated",
            "a component of unstated length that is cut",
            unsized_of(&frame[..frame.len() - 1], "u8"),
        ),
        Case::reject(
            "v11_unsized_width",
            "ztensor.component.width",
            "9 bytes of u16",
            unsized_of(&zstd_raw(&[0; 9]), "u16"),
        ),
        Case::reject(
            "v11_unsized_bomb",
            "max_unsized_bytes",
            "a component of unstated length that decodes to more than 1 GiB",
            unsized_of(&bomb, "u8"),
        ),
    ]
}

fn unsupported_1() -> Vec<Case> {
    let beside = |name: &'static str, object: Fields| {
        let plain = dense(&[2], &weight()).map();
        v12(
            &[&DATA],
            &root("1.2.0", &[(name, object.map()), ("x", plain)]).map(),
        )
    };
    let part =
        |key: &'static str, value: &str| beside("w", dense(&[2], &weight().set(key, text(value))));
    let ab = map(&[("values", weight().map())]);
    let collision = root(
        "1.2.0",
        &[
            ("a", object(&[2], "mine", ab.clone()).map()),
            ("a/values", dense(&[2], &weight()).map()),
        ],
    );
    let two = root(
        "1.2.0",
        &[
            (
                "a",
                object(&[2], "mine", map(&[("b/c", weight().map())])).map(),
            ),
            (
                "a/b",
                object(&[2], "mine", map(&[("c", weight().map())])).map(),
            ),
        ],
    );
    let damaged = root(
        "1.2.0",
        &[
            (
                "a",
                object(
                    &[2],
                    "mine",
                    map(&[("values", weight().set("digest", crc(b"other")).map())]),
                )
                .map(),
            ),
            ("a/values", dense(&[2], &weight()).map()),
        ],
    );
    let version = |text_: &str| v12(&[], &root(text_, &[]).map());
    vec![
        Case::unsupported(
            "v12_version_2",
            "ztensor.version",
            "version 2.0.0 in the frame of 1.x",
            version("2.0.0"),
        ),
        Case::unsupported(
            "v12_version_100",
            "ztensor.version",
            "version 100",
            version("100"),
        ),
        Case::unsupported(
            "v12_dtype_long",
            "ztensor.dtype",
            "the long name of 1.0",
            part("dtype", "float32"),
        ),
        Case::unsupported(
            "v12_encoding",
            "ztensor.encoding",
            "an encoding nobody knows",
            part("encoding", "lz4"),
        ),
        Case::unsupported(
            "v12_type",
            "ztensor.type",
            "a logical type nobody knows",
            part("type", "mine"),
        ),
        Case::unsupported(
            "v12_type_over",
            "ztensor.type",
            "a logical type over another dtype",
            part("type", "f8_e5m2"),
        ),
        Case::unsupported(
            "v10_dtype_short",
            "ztensor.dtype",
            "1.0: the short name of 1.1",
            file_10(
                &[&DATA],
                &[(
                    "w",
                    tensor_10("f32", "dense", &[("data", part_10(64, 8).map())]).map(),
                )],
            ),
        ),
        Case::unsupported(
            "v10_format",
            "ztensor.layout",
            "1.0: a format whose components have no dtype",
            file_10(
                &[&DATA],
                &[(
                    "w",
                    tensor_10(
                        "float32",
                        "quantized_4bit",
                        &[("packed", part_10(64, 8).map())],
                    )
                    .map(),
                )],
            ),
        ),
        Case::unsupported(
            "v10_role",
            "ztensor.component",
            "1.0: a component whose dtype is nowhere",
            file_10(
                &[&DATA],
                &[(
                    "w",
                    tensor_10(
                        "float32",
                        "sparse_coo",
                        &[
                            ("values", part_10(64, 8).map()),
                            ("more", part_10(64, 8).map()),
                        ],
                    )
                    .map(),
                )],
            ),
        ),
        Case::unsupported(
            "v12_collision",
            "ztensor.name.collision",
            "a component's name is another object's",
            v12(&[&DATA], &collision.map()),
        ),
        Case::unsupported(
            "v12_collision_two",
            "ztensor.name.collision",
            "two components of one composed name",
            v12(&[&DATA], &two.map()),
        ),
        Case::reject(
            "v12_collision_damaged",
            "ztensor.checksum.mismatch",
            "damage in a component that is not listed",
            v12(&[&DATA], &damaged.map()),
        ),
    ]
}

/// Magic, blobs at multiples of 4096, the manifest at the next one, the footer.
fn v2_with(blobs: &[&[u8]], manifest: &[u8], change: impl FnOnce(&mut LeBuffer)) -> Vec<u8> {
    let mut file = LeBuffer::new();
    file.bytes(V2);
    for blob in blobs {
        file.pad_to(4096, 0).bytes(blob);
    }
    file.pad_to(4096, 0);
    let offset = file.len() as u64;
    file.bytes(manifest);
    file.tag("offset").u64(offset);
    file.tag("length").u64(manifest.len() as u64);
    file.tag("hash").u64(xxh3(manifest));
    file.tag("version").u32(2).u32(0);
    file.tag("magic").bytes(V2);
    change(&mut file);
    file.into_vec()
}

fn v2(blobs: &[&[u8]], manifest: &[u8]) -> Vec<u8> {
    v2_with(blobs, manifest, |_| {})
}

fn blob(offset: u64, length: usize) -> Cbor {
    dims(&[offset, length as u64])
}

fn part_2(dtype: &str, offset: u64, length: usize) -> Fields {
    Fields(vec![("dtype", text(dtype)), ("blob", blob(offset, length))])
}

fn object_2(shape: &[u64], layout: &str, parts: &[(&str, Cbor)]) -> Fields {
    Fields(vec![
        ("shape", dims(shape)),
        ("layout", text(layout)),
        ("parts", sorted(parts)),
    ])
}

fn dense_2(shape: &[u64], part: &Fields) -> Fields {
    object_2(shape, "dense", &[("data", part.sorted())])
}

fn root_2(objects: &[(&str, Cbor)]) -> Fields {
    Fields(vec![("objects", sorted(objects))])
}

fn weight_2() -> Fields {
    part_2("f32", 4096, 8)
}

fn lone_2(object: &Fields) -> Vec<u8> {
    v2(&[&DATA], &root_2(&[("w", object.sorted())]).sorted())
}

fn lone_part(part: &Fields) -> Vec<u8> {
    lone_2(&dense_2(&[2], part))
}

fn xxh3_text(data: &[u8]) -> Cbor {
    text(&format!("xxh3:{:016x}", xxh3(data)))
}

/// One part over these bytes, of that dtype and type.
fn typed_2(data: &[u8], dtype: &str, kind: &str, elements: u64) -> Vec<u8> {
    let part = part_2(dtype, 4096, data.len()).set("type", text(kind));
    v2(
        &[data],
        &root_2(&[("w", dense_2(&[elements], &part).sorted())]).sorted(),
    )
}

fn with_attributes(attributes: Cbor) -> Vec<u8> {
    v2(&[], &root_2(&[]).set("attributes", attributes).sorted())
}

fn attribute_2(value: Cbor) -> Vec<u8> {
    with_attributes(map(&[("k", value)]))
}

fn nested_2(arrays: usize) -> Cbor {
    [vec![0x81; arrays], vec![0]].concat()
}

fn valid_2() -> Vec<Case> {
    let shared = root_2(&[
        ("a", dense_2(&[2], &weight_2()).sorted()),
        ("b", dense_2(&[1], &part_2("u64", 4096, 8)).sorted()),
    ]);
    let many = object_2(
        &[2],
        "mine",
        &[("a", weight_2().sorted()), ("b", weight_2().sorted())],
    );
    let unknown = root_2(&[(
        "w",
        dense_2(&[2], &weight_2().set("new", vec![0xF6]))
            .set("new", array(&[]))
            .sorted(),
    )])
    .set("more", text("x"));
    let key = [head(5, 2), uint(7), uint(8), text("objects"), map(&[])].concat();
    let data_shard = v2_with(&[&DATA], &[], |file| {
        file.set_u64_at("offset", 0).set_u64_at("hash", 0);
    });
    let digest = weight_2().set("digest", xxh3_text(&DATA));
    vec![
        Case::valid("v2_empty", "no object", v2(&[], &root_2(&[]).sorted())),
        Case::valid("v2_dense", "one tensor", lone_part(&digest)),
        Case::valid("v2_data_shard", "data for another file", data_shard),
        Case::valid(
            "v2_shared",
            "two tensors of the same data",
            v2(&[&DATA], &shared.sorted()),
        ),
        Case::valid("v2_layout", "a layout nobody knows", lone_2(&many)),
        Case::valid(
            "v2_unknown_keys",
            "keys nobody knows",
            v2(&[&DATA], &unknown.sorted()),
        ),
        Case::valid(
            "v2_number_key",
            "a key at the root that is a number",
            v2(&[], &key),
        ),
        Case::valid(
            "v2_bool",
            "truth values",
            typed_2(&[0, 1, 1], "u8", "bool", 3),
        ),
        Case::valid(
            "v2_f8",
            "powers of two of 8 bits",
            typed_2(&[0, 1, 2], "u8", "f8_e8m0", 3),
        ),
        Case::valid(
            "v2_complex",
            "a complex number",
            typed_2(&[0; 16], "f64", "complex128", 1),
        ),
        Case::valid(
            "v2_digest_unknown",
            "a digest nobody knows",
            lone_part(&weight_2().set("digest", text("md5:00"))),
        ),
        Case::valid(
            "v2_depth",
            "an item within 32 others",
            attribute_2(nested_2(30)),
        ),
        Case::valid(
            "v2_floats",
            "floats of all widths",
            attribute_2(array(&[
                vec![0xF9, 0x7E, 0],
                vec![0xFA, 0x47, 0xC3, 0x50, 0],
                vec![0xFB, 0x3F, 0xB9, 0x99, 0x99, 0x99, 0x99, 0x99, 0x9A],
            ])),
        ),
        Case::valid(
            "v2_rank_64",
            "64 dims",
            lone_2(&dense_2(&[[1; 63].as_slice(), &[2]].concat(), &weight_2())),
        ),
    ]
}

fn frame_2() -> Vec<Case> {
    let manifest = root_2(&[]).sorted();
    let with = |tag: &'static str, value: u64| {
        v2_with(&[], &manifest, |file| {
            file.set_u64_at(tag, value);
        })
    };
    let version = v2_with(&[], &manifest, |file| {
        file.set_u32_at("version", 3);
    });
    let full = v2(&[], &manifest);
    vec![
        Case::reject(
            "v2_head",
            "ztensor.truncated",
            "the magic of 2 alone",
            V2.to_vec(),
        ),
        Case::reject(
            "v2_cut",
            "ztensor.footer.magic",
            "a footer that is cut",
            full[..full.len() - 1].to_vec(),
        ),
        Case::reject(
            "v2_more",
            "ztensor.footer.magic",
            "bytes after the footer",
            [&full[..], &[0; 8]].concat(),
        ),
        Case::unsupported(
            "v2_version_3",
            "ztensor.version",
            "footer version 3",
            version,
        ),
        Case::reject(
            "v2_shard_offset",
            "ztensor.footer.data_shard",
            "no manifest, but its offset",
            with("length", 0),
        ),
        Case::reject(
            "v2_offset_unaligned",
            "ztensor.manifest.alignment",
            "a manifest at 4097",
            with("offset", 4097),
        ),
        Case::reject(
            "v2_offset_0",
            "ztensor.manifest.alignment",
            "a manifest over the magic",
            with("offset", 0),
        ),
        Case::reject(
            "v2_offset_wraps",
            "ztensor.manifest.range",
            "a manifest whose end wraps",
            with("offset", u64::MAX << 12),
        ),
        Case::reject(
            "v2_length",
            "ztensor.manifest.range",
            "a manifest that reaches into the footer",
            with("length", manifest.len() as u64 + 1),
        ),
        Case::reject(
            "v2_length_max",
            "ztensor.manifest.size",
            "2^64-1 bytes of manifest",
            with("length", u64::MAX),
        ),
        Case::reject(
            "v2_hash",
            "ztensor.manifest.hash",
            "the hash of another manifest",
            with("hash", 1),
        ),
    ]
}

fn cbor_2() -> Vec<Case> {
    let objects = [text("objects"), map(&[])].concat();
    let raw = |manifest: Cbor| v2(&[], &manifest);
    vec![
        Case::reject(
            "v2_trailing",
            "ztensor.manifest.trailing",
            "a byte after the manifest",
            raw([root_2(&[]).sorted(), vec![0]].concat()),
        ),
        Case::reject(
            "v2_root",
            "ztensor.manifest.type",
            "a manifest that is an array",
            raw(array(&[])),
        ),
        Case::reject(
            "v2_indefinite",
            "ztensor.cbor.indefinite",
            "a map of indefinite length",
            raw([vec![0xBF], objects.clone(), vec![0xFF]].concat()),
        ),
        Case::reject(
            "v2_indefinite_text",
            "ztensor.cbor.indefinite",
            "text in chunks",
            attribute_2(vec![0x7F, 0x61, b'a', 0xFF]),
        ),
        Case::reject(
            "v2_wide",
            "ztensor.cbor.width",
            "a number in two bytes that fits one",
            attribute_2(vec![0x18, 23]),
        ),
        Case::reject(
            "v2_wide_8",
            "ztensor.cbor.width",
            "a length in nine bytes that fits one",
            attribute_2([vec![0x5B, 0, 0, 0, 0, 0, 0, 0, 1], vec![0]].concat()),
        ),
        Case::reject(
            "v2_tag",
            "ztensor.cbor.tag",
            "a tag",
            attribute_2(vec![0xC1, 0]),
        ),
        Case::reject(
            "v2_undefined",
            "ztensor.cbor.simple",
            "undefined",
            attribute_2(vec![0xF7]),
        ),
        Case::reject(
            "v2_simple",
            "ztensor.cbor.simple",
            "a simple value that is not assigned",
            attribute_2(vec![0xE0]),
        ),
        Case::reject(
            "v2_float_wide",
            "ztensor.cbor.float",
            "1.5 in four bytes",
            attribute_2(vec![0xFA, 0x3F, 0xC0, 0, 0]),
        ),
        Case::reject(
            "v2_double_wide",
            "ztensor.cbor.float",
            "1.5 in eight bytes",
            attribute_2(vec![0xFB, 0x3F, 0xF8, 0, 0, 0, 0, 0, 0]),
        ),
        Case::reject(
            "v2_nan",
            "ztensor.cbor.float",
            "another NaN",
            attribute_2(vec![0xF9, 0x7E, 1]),
        ),
        Case::reject(
            "v2_nan_wide",
            "ztensor.cbor.float",
            "a NaN of four bytes",
            attribute_2(vec![0xFA, 0x7F, 0xC0, 0, 0]),
        ),
        Case::reject(
            "v2_unsorted",
            "ztensor.cbor.order",
            "longer keys first",
            with_attributes(map(&[("aa", uint(1)), ("b", uint(2))])),
        ),
        Case::reject(
            "v2_twice",
            "ztensor.cbor.duplicate_key",
            "a key twice",
            with_attributes(map(&[("a", uint(1)), ("a", uint(2))])),
        ),
        Case::reject(
            "v2_deep",
            "ztensor.cbor.depth",
            "an item within 33 others",
            attribute_2(nested_2(31)),
        ),
        Case::reject(
            "v2_deep_key",
            "ztensor.cbor.depth",
            "arrays as a key that nobody knows",
            raw([vec![0xA2], objects.clone(), nested_2(40), uint(0)].concat()),
        ),
        Case::reject(
            "v2_claims",
            "ztensor.cbor.end",
            "2^64-1 objects",
            raw([vec![0xA1], text("objects"), head(5, u64::MAX)].concat()),
        ),
        Case::reject(
            "v2_surrogate",
            "ztensor.cbor.utf8",
            "a surrogate in UTF-8",
            attribute_2(vec![0x63, 0xED, 0xA0, 0x80]),
        ),
        Case::reject(
            "v2_reserved_head",
            "ztensor.cbor.head",
            "a head that CBOR does not have",
            attribute_2(vec![0x1C]),
        ),
    ]
}

fn manifest_2() -> Vec<Case> {
    let (value, missing) = ("ztensor.manifest.value", "ztensor.manifest.missing");
    let named = |name: &str| {
        let object = dense_2(&[2], &weight_2()).sorted();
        v2(&[&DATA], &root_2(&[(name, object)]).sorted())
    };
    let part = |key: &'static str, value: Cbor| lone_part(&weight_2().set(key, value));
    let object =
        |key: &'static str, value: Cbor| lone_2(&dense_2(&[2], &weight_2()).set(key, value));
    let shard = |label: &str, fields: &[(&str, Cbor)]| {
        let shards = map(&[(label, sorted(fields))]);
        v2(&[], &root_2(&[]).set("shards", shards).sorted())
    };
    let digest = text("sha256:00");
    let size = "ztensor.shard.size";
    vec![
        Case::reject("v2_no_objects", missing, "no objects", v2(&[], &map(&[]))),
        Case::reject(
            "v2_no_layout",
            missing,
            "no layout",
            lone_2(&dense_2(&[2], &weight_2()).without("layout")),
        ),
        Case::reject(
            "v2_no_blob",
            missing,
            "no blob",
            lone_part(&weight_2().without("blob")),
        ),
        Case::reject(
            "v2_null",
            value,
            "null does not mean absent",
            lone_part(
                &weight_2()
                    .set("encoding", vec![0xF6])
                    .set("decoded_length", uint(8)),
            ),
        ),
        Case::reject(
            "v2_attributes",
            value,
            "attributes are an array",
            with_attributes(array(&[])),
        ),
        Case::reject(
            "v2_name_bytes",
            "ztensor.manifest.key",
            "a name that is bytes",
            v2(
                &[&DATA],
                &[
                    vec![0xA1],
                    text("objects"),
                    head(5, 1),
                    bytes(b"w"),
                    dense_2(&[2], &weight_2()).sorted(),
                ]
                .concat(),
            ),
        ),
        Case::reject(
            "v2_name_empty",
            "ztensor.name.value",
            "an empty name",
            named(""),
        ),
        Case::reject(
            "v2_name_long",
            "ztensor.name.value",
            "a name of 1025 bytes",
            named(&"x".repeat(1025)),
        ),
        Case::reject(
            "v2_name_nul",
            "ztensor.name.value",
            "a name with a zero byte",
            named("a\0"),
        ),
        Case::reject(
            "v2_attribute_empty",
            "ztensor.name.value",
            "an attribute without name",
            with_attributes(map(&[("", uint(1))])),
        ),
        Case::reject(
            "v2_rank_65",
            "ztensor.shape.rank",
            "65 dims",
            object("shape", dims(&[1; 65])),
        ),
        Case::reject(
            "v2_shape_float",
            "ztensor.shape.dim",
            "a dim that is a float",
            object("shape", array(&[vec![0xF9, 0x40, 0]])),
        ),
        Case::reject(
            "v2_shape_product",
            "ztensor.shape.overflow",
            "elements beyond 64 bits",
            object("shape", dims(&[1 << 33, 1 << 33])),
        ),
        Case::reject(
            "v2_blob_1",
            "ztensor.blob.pair",
            "a blob of one number",
            part("blob", dims(&[4096])),
        ),
        Case::reject(
            "v2_blob_3",
            "ztensor.blob.pair",
            "a blob of three numbers",
            part("blob", dims(&[4096, 8, 0])),
        ),
        Case::reject(
            "v2_blob_text",
            "ztensor.blob.pair",
            "a blob with a text",
            part("blob", array(&[uint(4096), text("8")])),
        ),
        Case::reject(
            "v2_decoded_alone",
            "ztensor.decoded_length.presence",
            "decoded_length without encoding",
            part("decoded_length", uint(8)),
        ),
        Case::reject(
            "v2_encoding_alone",
            "ztensor.decoded_length.presence",
            "encoding without decoded_length",
            part("encoding", text("mine")),
        ),
        Case::reject(
            "v2_decoded_mismatch",
            "ztensor.decoded_length.mismatch",
            "another decoded length than the shape's",
            lone_part(
                &weight_2()
                    .set("encoding", text("mine"))
                    .set("decoded_length", uint(9)),
            ),
        ),
        Case::reject(
            "v2_digest_upper",
            "ztensor.checksum.syntax",
            "a digest with upper-case digits",
            part("digest", text("xxh3:00000000000000AB")),
        ),
        Case::reject(
            "v2_digest_short",
            "ztensor.checksum.digits",
            "a digest of 15 digits",
            part("digest", text("xxh3:000000000000000")),
        ),
        Case::reject(
            "v2_digest_wrong",
            "ztensor.checksum.mismatch",
            "the digest of other data",
            part("digest", xxh3_text(b"other")),
        ),
        Case::reject(
            "v2_sha_wrong",
            "ztensor.checksum.mismatch",
            "the SHA-256 of other data",
            part("digest", text(&format!("sha256:{}", "0".repeat(64)))),
        ),
        Case::reject(
            "v2_digest_of_unsupported",
            "ztensor.checksum.mismatch",
            "damage outranks what can't be read",
            lone_part(
                &weight_2()
                    .set("type", text("mine"))
                    .set("digest", xxh3_text(b"other")),
            ),
        ),
        Case::reject(
            "v2_dtype",
            "ztensor.dtype.value",
            "a dtype that is none",
            part("dtype", text("float32")),
        ),
        Case::reject(
            "v2_dtype_bool",
            "ztensor.dtype.value",
            "bool is a logical type",
            lone_2(&dense_2(&[8], &part_2("bool", 4096, 8))),
        ),
        Case::reject(
            "v2_type_over",
            "ztensor.type.dtype",
            "bool over f32",
            part("type", text("bool")),
        ),
        Case::reject(
            "v2_f4_over",
            "ztensor.type.dtype",
            "f4_e2m1 over f32",
            part("type", text("f4_e2m1")),
        ),
        Case::reject(
            "v2_no_parts",
            "ztensor.object.empty",
            "an object without parts",
            lone_2(&object_2(&[2], "mine", &[])),
        ),
        Case::reject(
            "v2_second_part",
            "ztensor.dense.data",
            "a dense object of two parts",
            lone_2(&object_2(
                &[2],
                "dense",
                &[("data", weight_2().sorted()), ("more", weight_2().sorted())],
            )),
        ),
        Case::reject(
            "v2_other_part",
            "ztensor.dense.data",
            "a dense object whose part has another name",
            lone_2(&object_2(&[2], "dense", &[("date", weight_2().sorted())])),
        ),
        Case::reject(
            "v2_shard_dot",
            "ztensor.shard.name",
            "a label that starts with a dot",
            shard(".a", &[("size", uint(48)), ("digest", digest.clone())]),
        ),
        Case::reject(
            "v2_shard_path",
            "ztensor.shard.name",
            "a label that is a path",
            shard("a/b", &[("size", uint(48)), ("digest", digest.clone())]),
        ),
        Case::reject(
            "v2_shard_small",
            size,
            "a shard of 47 bytes",
            shard("a", &[("size", uint(47)), ("digest", digest.clone())]),
        ),
        Case::reject(
            "v2_shard_no_digest",
            missing,
            "a shard without digest",
            shard("a", &[("size", uint(48))]),
        ),
        Case::reject(
            "v2_shard_unknown",
            "ztensor.shard.unknown",
            "a shard that is not listed",
            part("shard", text("a")),
        ),
    ]
}

fn data_2() -> Vec<Case> {
    let page = [DATA.to_vec(), vec![0; 4096]].concat();
    let overlap = root_2(&[
        ("a", dense_2(&[4104], &part_2("u8", 4096, 4104)).sorted()),
        ("b", dense_2(&[2], &part_2("f32", 8192, 8)).sorted()),
    ]);
    let range = "ztensor.component.range";
    vec![
        Case::reject(
            "v2_unaligned",
            "ztensor.component.alignment",
            "data at 4104",
            lone_part(&part_2("f32", 4104, 8)),
        ),
        Case::reject(
            "v2_at_0",
            "ztensor.offset.magic",
            "data over the magic",
            lone_part(&part_2("f32", 0, 8)),
        ),
        Case::reject(
            "v2_past_end",
            range,
            "data after the footer",
            lone_part(&part_2("f32", 1 << 40, 8)),
        ),
        Case::reject(
            "v2_wraps",
            range,
            "data whose end wraps",
            lone_part(&Fields(vec![
                ("dtype", text("f32")),
                ("blob", dims(&[4096, u64::MAX])),
            ])),
        ),
        Case::reject(
            "v2_size",
            "ztensor.size.mismatch",
            "4 bytes for two f32",
            lone_part(&part_2("f32", 4096, 4)),
        ),
        Case::reject(
            "v2_part_width",
            "ztensor.component.width",
            "7 bytes of f32",
            lone_2(&object_2(
                &[2],
                "mine",
                &[("a", part_2("f32", 4096, 7).sorted())],
            )),
        ),
        Case::reject(
            "v2_overlap",
            "ztensor.blob.overlap",
            "data that shares some bytes",
            v2(&[&page], &overlap.sorted()),
        ),
        Case::reject(
            "v2_overlap_manifest",
            "ztensor.blob.overlap",
            "data that shares some bytes with the manifest",
            lone_2(&dense_2(&[8], &part_2("u8", 8192, 8))),
        ),
        Case::reject(
            "v2_bool_2",
            "ztensor.bool.value",
            "a truth value of 2",
            typed_2(&[0, 1, 2], "u8", "bool", 3),
        ),
        Case::reject(
            "v2_f4_padding",
            "ztensor.f4.padding",
            "a half byte after the last element",
            typed_2(&[0x21, 0x10], "u8", "f4_e2m1", 3),
        ),
    ]
}

/// Frames with the seek table after them.
pub(crate) fn seek(frames: &[(&[u8], u32)], change: impl FnOnce(&mut LeBuffer)) -> Vec<u8> {
    let mut data = LeBuffer::new();
    for (frame, _) in frames {
        data.bytes(frame);
    }
    data.tag("table").u32(0x184D_2A5E);
    let size = u32::try_from(8 * frames.len() + 9).expect("few frames");
    data.tag("size").u32(size);
    for (at, (frame, content)) in frames.iter().enumerate() {
        data.tag(format!("compressed{at}"))
            .u32(u32::try_from(frame.len()).expect("small frames"));
        data.tag(format!("content{at}")).u32(*content);
    }
    data.tag("count")
        .u32(u32::try_from(frames.len()).expect("few frames"));
    data.tag("descriptor").u8(0).u32(0x8F92_EAB1);
    change(&mut data);
    data.into_vec()
}

/// A file of one tensor of bytes in that encoding.
fn seekable_file(data: &[u8], decoded: u64) -> Vec<u8> {
    let part = part_2("u8", 4096, data.len())
        .set("encoding", text("zt.zstd-seekable/1"))
        .set("decoded_length", uint(decoded));
    v2(
        &[data],
        &root_2(&[("w", dense_2(&[decoded], &part).sorted())]).sorted(),
    )
}

fn seekable() -> Vec<Case> {
    let (one, two) = (zstd_raw(&[1; 8]), zstd_raw(&[2; 5]));
    let frames: [(&[u8], u32); 2] = [(&one, 8), (&two, 5)];
    let with = |change: fn(&mut LeBuffer)| seekable_file(&seek(&frames, change), 13);
    let lists = |sizes: [u32; 2]| {
        let frames: [(&[u8], u32); 2] = [(&one, sizes[0]), (&two, sizes[1])];
        let decoded = sizes.iter().copied().map(u64::from).sum();
        seekable_file(&seek(&frames, |_| {}), decoded)
    };
    let (magic, sum, frame) = (
        "ztensor.seek.magic",
        "ztensor.seek.sum",
        "ztensor.seek.frame",
    );
    let large = zstd_run(129, 0);
    let mut wide = LeBuffer::new();
    wide.bytes(&one).u32(0x184D_2A5E).u32(21);
    wide.u32(u32::try_from(one.len()).expect("small"))
        .u32(8)
        .u32(0);
    wide.u32(1).u8(0x80).u32(0x8F92_EAB1);
    vec![
        Case::valid(
            "v2_seek",
            "two frames",
            seekable_file(&seek(&frames, |_| {}), 13),
        ),
        Case::valid(
            "v2_seek_empty",
            "no frame",
            seekable_file(&seek(&[], |_| {}), 0),
        ),
        Case::valid(
            "v2_seek_checksums",
            "entries with a third number",
            seekable_file(wide.as_slice(), 8),
        ),
        Case::reject(
            "v2_seek_none",
            magic,
            "no seek table",
            seekable_file(&one, 8),
        ),
        Case::reject(
            "v2_seek_head",
            magic,
            "another frame in its place",
            with(|data| {
                data.set_u32_at("table", 0x184D_2A5D);
            }),
        ),
        Case::reject(
            "v2_seek_short",
            magic,
            "too short for one",
            seekable_file(&[0; 8], 8),
        ),
        Case::reject(
            "v2_seek_descriptor",
            "ztensor.seek.descriptor",
            "reserved bits",
            with(|data| {
                data.set_u8_at("descriptor", 1);
            }),
        ),
        Case::reject(
            "v2_seek_size",
            "ztensor.seek.size",
            "the table's size is another",
            with(|data| {
                data.set_u32_at("size", 26);
            }),
        ),
        Case::reject(
            "v2_seek_count",
            "ztensor.seek.size",
            "2^32-1 entries",
            with(|data| {
                data.set_u32_at("count", u32::MAX);
            }),
        ),
        Case::reject(
            "v2_seek_sum",
            sum,
            "content that adds up to more",
            seekable_file(&seek(&frames, |_| {}), 14),
        ),
        Case::reject(
            "v2_seek_stored",
            sum,
            "frames that add up to less",
            with(|data| {
                data.set_u32_at("compressed1", 13);
            }),
        ),
        Case::reject(
            "v2_seek_unequal",
            frame,
            "the last frame is the longer one",
            lists([5, 8]),
        ),
        Case::reject(
            "v2_seek_frame",
            frame,
            "a frame of more than 16 MiB",
            seekable_file(&seek(&[(&large, 129 << 17)], |_| {}), 129 << 17),
        ),
        Case::reject(
            "v2_seek_claim",
            "ztensor.zstd.shorter",
            "more than a frame of its size can hold",
            seekable_file(&seek(&[(&one, 8), (&[], 8)], |_| {}), 16),
        ),
        Case::reject(
            "v2_seek_lies",
            "ztensor.zstd.shorter",
            "a frame of 5 bytes said to have 6",
            lists([8, 6]),
        ),
        Case::reject(
            "v2_seek_longer",
            "ztensor.zstd.longer",
            "a frame of 5 bytes said to have 4",
            lists([8, 4]),
        ),
    ]
}

/// A sparse matrix of two rows and three columns.
fn csr_file(indptr: &[u32], indices: &[u32], change: impl FnOnce(Fields) -> Fields) -> Vec<u8> {
    let numbers = |values: &[u32]| {
        values
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let (indptr, indices) = (numbers(indptr), numbers(indices));
    let parts = Fields(vec![
        ("indptr", part_2("u32", 4096, indptr.len()).sorted()),
        ("indices", part_2("u32", 8192, indices.len()).sorted()),
        ("values", part_2("f32", 12288, 8).sorted()),
    ]);
    let parts = change(parts);
    let object = object_2(&[2, 3], "zt.sparse_csr/1", &[]).set("parts", parts.sorted());
    v2(
        &[&indptr, &indices, &DATA],
        &root_2(&[("m", object.sorted())]).sorted(),
    )
}

fn csr() -> Vec<Case> {
    let plain = |change: fn(Fields) -> Fields| csr_file(&[0, 1, 2], &[2, 0], change);
    let data = |indptr: &[u32], indices: &[u32]| csr_file(indptr, indices, |parts| parts);
    let (indptr, column) = ("ztensor.csr.indptr", "ztensor.csr.column");
    let flat = object_2(&[2], "zt.sparse_csr/1", &[("values", weight_2().sorted())]);
    vec![
        Case::valid("v2_csr", "a sparse matrix", plain(|parts| parts)),
        Case::reject(
            "v2_csr_rank",
            "ztensor.csr.shape",
            "a matrix of one dim",
            lone_2(&flat),
        ),
        Case::reject(
            "v2_csr_parts",
            "ztensor.csr.parts",
            "a matrix without values",
            plain(|parts| parts.without("values")),
        ),
        Case::reject(
            "v2_csr_dtype",
            "ztensor.csr.dtype",
            "indices of floats",
            plain(|parts| parts.set("indices", part_2("f32", 8192, 8).sorted())),
        ),
        Case::reject(
            "v2_csr_size",
            "ztensor.csr.size",
            "one pointer too few",
            data(&[0, 2], &[0, 1]),
        ),
        Case::reject(
            "v2_csr_values",
            "ztensor.csr.size",
            "a value too few",
            plain(|parts| parts.set("values", part_2("f32", 12288, 4).sorted())),
        ),
        Case::reject(
            "v2_csr_start",
            indptr,
            "the first row does not start at 0",
            data(&[1, 1, 2], &[0, 1]),
        ),
        Case::reject(
            "v2_csr_falls",
            indptr,
            "a row that ends before it starts",
            data(&[0, 2, 1], &[0, 1]),
        ),
        Case::reject(
            "v2_csr_end",
            indptr,
            "the last row ends before the values do",
            data(&[0, 1, 1], &[0, 1]),
        ),
        Case::reject(
            "v2_csr_beyond",
            indptr,
            "a row that ends after the values",
            data(&[0, 1, 3], &[0, 1]),
        ),
        Case::reject(
            "v2_csr_twice",
            column,
            "a column twice",
            data(&[0, 2, 2], &[1, 1]),
        ),
        Case::reject(
            "v2_csr_outside",
            column,
            "a column outside of the matrix",
            data(&[0, 1, 2], &[0, 3]),
        ),
    ]
}

fn unsupported_2() -> Vec<Case> {
    let part = |fields: Fields| lone_part(&fields);
    let sharded = root_2(&[(
        "w",
        dense_2(&[2], &weight_2().set("shard", text("a"))).sorted(),
    )])
    .set(
        "shards",
        map(&[(
            "a",
            map(&[("size", uint(8192)), ("digest", text("sha256:00"))]),
        )]),
    );
    vec![
        Case::unsupported(
            "v2_encoding",
            "ztensor.encoding",
            "an encoding nobody knows",
            part(
                weight_2()
                    .set("encoding", text("raw"))
                    .set("decoded_length", uint(8)),
            ),
        ),
        Case::unsupported(
            "v2_type",
            "ztensor.type",
            "a logical type nobody knows",
            part(weight_2().set("type", text("mine"))),
        ),
        Case::unsupported(
            "v2_f4",
            "ztensor.type",
            "floats of 4 bits",
            typed_2(&[0x21, 0x03], "u8", "f4_e2m1", 3),
        ),
        Case::unsupported(
            "v2_sharded",
            "ztensor.shard",
            "data in another file",
            v2(&[], &sharded.sorted()),
        ),
    ]
}
