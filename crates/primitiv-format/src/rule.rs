use tensor_core::codec::rules;

rules! {
    /// A requirement of the format that a file breaks. [`id`](Rule::id)s are stable.
    ///
    /// The sections are those of the format's page: "Types" and "File Format". Limits that the text
    /// leaves open are those of the reference library, as docs/formats/primitiv.md lists them.
    ///
    /// ```
    /// use primitiv_format::Archive;
    ///
    /// let error = Archive::from_bytes(vec![0xA5; 200]).unwrap_err();
    /// let rule = error.rule().map(|rule| rule.id());
    /// assert_eq!(rule, Some("primitiv.type"));
    /// assert_eq!(error.rule_id(), rule);
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Rule {
        /// "Types": each value has one MessagePack type; a uint32 is `CE`, a float `CA`.
        #[rule("primitiv.type", "expected {expected}, but byte {got:#04x} starts something else{}", hint(*got))]
        Type {
            /// What the format has here.
            expected: &'static str,
            /// The first byte that was found.
            got: u8,
        },
        /// "Types", Shape: at most 8 dims.
        #[rule("primitiv.shape.rank", "shape of {got} dims; at most 8 are allowed")]
        Rank {
            /// Length of the array.
            got: u32,
        },
        /// "Types", Shape: no dim is 0.
        #[rule("primitiv.shape.dim", "dim of 0")]
        Dim,
        /// "Types", Shape: the batch is at least 1.
        #[rule("primitiv.shape.batch", "batch of 0")]
        Batch,
        /// "Types", Shape: dims and batch multiply to a 32-bit number.
        #[rule("primitiv.shape.volume", "dims and batch multiply to more than 2^32-1")]
        Volume,
        /// "Types", Tensor: the data has four bytes for each element.
        #[rule("primitiv.tensor.data_length", "data of {got} bytes, but the shape asks for {expected}")]
        DataLength {
            /// What the shape asks for.
            expected: u64,
            /// Length of the bin.
            got: u64,
        },
        /// "Types", Shape: the batch of a parameter's value is 1.
        #[rule("primitiv.parameter.value_batch", "batch of {got} in the value of a parameter; only 1 is allowed")]
        ValueBatch {
            /// The batch.
            got: u32,
        },
        /// "Types": names are UTF-8.
        #[rule("primitiv.utf8", "name is not UTF-8")]
        Utf8,
        /// "Types", Model: an address has at least one part.
        #[rule("primitiv.model.empty_path", "parameter without a name")]
        EmptyPath,
        /// "Types", Model: no address is a duplicate.
        #[rule("primitiv.model.duplicate", "the address of entry {first} is used again")]
        DuplicatePath {
            /// The entry that has it already.
            first: u64,
        },
        /// "Types", Model: an address is a parameter's or a submodel's, not both.
        #[rule("primitiv.model.conflict", "address inside of entry {parameter}, which is a parameter, no submodel")]
        PathConflict {
            /// The entry that is a parameter at the start of this address.
            parameter: u64,
        },
        /// "Types", Parameter: no statistic is a duplicate.
        #[rule("primitiv.parameter.duplicate", "duplicate statistic")]
        DuplicateStat,
        /// "Types", Optimizer: no configuration is a duplicate.
        #[rule("primitiv.optimizer.duplicate", "duplicate configuration")]
        DuplicateConfig,
        /// "File Format": nothing follows the object.
        #[rule("primitiv.trailing_bytes", "{count} bytes follow the object")]
        TrailingBytes {
            /// How many bytes follow.
            count: u64,
        },
    }
}

rules! {
    /// What a well-formed file has that this crate can't interpret.
    ///
    /// ```
    /// use primitiv_format::Unsupported;
    ///
    /// let what = Unsupported::DataType { code: 7 };
    /// assert_eq!(what.id(), "primitiv.data_type");
    /// assert!(Unsupported::IDS.contains(&what.id()));
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Unsupported {
        /// Another version of the format.
        #[rule("primitiv.version", "primitiv file version {major}.{minor}; this reader handles 0.1")]
        Version {
            /// `ver_major`.
            major: u32,
            /// `ver_minor`.
            minor: u32,
        },
        /// An older generation, which is no MessagePack or has a shorter header.
        #[rule("primitiv.era", "{about}; this reader handles version 0.1")]
        Era {
            /// Which, and what wrote it.
            about: &'static str,
        },
        /// A `data_type` that version 0.1 does not have.
        #[rule("primitiv.data_type", "data type {code:#x}; version 0.1 has 0x0, 0x100, 0x200, 0x300 and 0x400")]
        DataType {
            /// The field.
            code: u32,
        },
    }
}

/// What a byte tells about how the file came to be.
fn hint(got: u8) -> &'static str {
    match got {
        b'\r' => " (was the file written or copied in text mode?)",
        _ => "",
    }
}
