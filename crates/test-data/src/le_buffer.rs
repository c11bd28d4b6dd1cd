use std::ops::Range;

/// Builds a file field by field, remembering where the fields went.
///
/// Integers are little-endian unless the name ends in `_be`. A tag names the position at which
/// the next field starts, so that the field can be changed or the file cut there later.
///
/// ```
/// use test_data::LeBuffer;
///
/// let mut file = LeBuffer::new();
/// file.bytes(b"HEAD").tag("count").u32(0).tag("body").text("abc");
/// file.set_u32_at("count", 3);
/// assert_eq!(file.as_slice(), b"HEAD\x03\0\0\0abc");
/// assert_eq!(file.position("body"), 8);
/// ```
#[derive(Clone, Debug, Default)]
pub struct LeBuffer {
    bytes: Vec<u8>,
    tags: Vec<(String, usize)>,
}

macro_rules! integers {
    ($($append:ident, $append_be:ident, $set:ident: $integer:ty;)*) => {$(
        #[doc = concat!("Appends a little-endian `", stringify!($integer), "`.")]
        pub fn $append(&mut self, value: $integer) -> &mut Self {
            self.bytes(&value.to_le_bytes())
        }

        #[doc = concat!("Appends a big-endian `", stringify!($integer), "`.")]
        pub fn $append_be(&mut self, value: $integer) -> &mut Self {
            self.bytes(&value.to_be_bytes())
        }

        #[doc = concat!("Replaces the little-endian `", stringify!($integer), "` at a tag.")]
        ///
        /// # Panics
        /// Where the tag is unknown or the bytes that follow it are too few.
        pub fn $set(&mut self, tag: &str, value: $integer) -> &mut Self {
            self.set_bytes_at(tag, &value.to_le_bytes())
        }
    )*};
}

impl LeBuffer {
    /// An empty buffer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    integers! {
        u16, u16_be, set_u16_at: u16;
        u32, u32_be, set_u32_at: u32;
        u64, u64_be, set_u64_at: u64;
    }

    /// Appends one byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&[value])
    }

    /// Appends bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Appends text as UTF-8, without length or terminator.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    /// Appends `count` times the same byte.
    pub fn fill(&mut self, count: usize, byte: u8) -> &mut Self {
        self.bytes.resize(self.bytes.len() + count, byte);
        self
    }

    /// Appends `byte` up to the next multiple of `align`; nothing where one is reached.
    ///
    /// # Panics
    /// Where `align` is zero.
    pub fn pad_to(&mut self, align: usize, byte: u8) -> &mut Self {
        let end = self.bytes.len().next_multiple_of(align);
        self.bytes.resize(end, byte);
        self
    }

    /// Names the position of what is appended next.
    ///
    /// # Panics
    /// Where the tag is in use.
    pub fn tag(&mut self, name: impl Into<String>) -> &mut Self {
        let name = name.into();
        assert!(self.find(&name).is_none(), "tag {name:?} is in use");
        self.tags.push((name, self.bytes.len()));
        self
    }

    /// The position a tag stands for.
    ///
    /// # Panics
    /// Where the tag is unknown.
    #[must_use]
    pub fn position(&self, tag: &str) -> usize {
        match self.find(tag) {
            Some(position) => position,
            None => panic!("no tag {tag:?} among {:?}", self.tags),
        }
    }

    /// Every tag with its position, in the order of tagging.
    pub fn tags(&self) -> impl Iterator<Item = (&str, usize)> {
        self.tags.iter().map(|(name, at)| (name.as_str(), *at))
    }

    /// Replaces the byte at a tag.
    ///
    /// # Panics
    /// Where the tag is unknown or ends the buffer.
    pub fn set_u8_at(&mut self, tag: &str, value: u8) -> &mut Self {
        self.set_bytes_at(tag, &[value])
    }

    /// Replaces as many bytes at a tag as are given.
    ///
    /// # Panics
    /// Where the tag is unknown or the bytes that follow it are too few.
    pub fn set_bytes_at(&mut self, tag: &str, bytes: &[u8]) -> &mut Self {
        let start = self.position(tag);
        self.set_bytes(start, bytes)
    }

    /// Replaces as many bytes at a position as are given.
    ///
    /// # Panics
    /// Where the bytes that follow the position are too few.
    pub fn set_bytes(&mut self, position: usize, bytes: &[u8]) -> &mut Self {
        let range: Range<usize> = position..position + bytes.len();
        match self.bytes.get_mut(range.clone()) {
            Some(place) => place.copy_from_slice(bytes),
            None => panic!("{range:?} lies outside of {} bytes", self.bytes.len()),
        }
        self
    }

    /// Drops everything from `len` on, as a cut file does; tags beyond stay and mark nothing.
    pub fn truncate(&mut self, len: usize) -> &mut Self {
        self.bytes.truncate(len);
        self
    }

    /// The number of bytes so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was appended yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes so far.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        self.bytes
    }

    fn find(&self, tag: &str) -> Option<usize> {
        self.tags().find(|(name, _)| *name == tag).map(|(_, at)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_byte_orders() {
        let mut buffer = LeBuffer::new();
        buffer.u8(1).u16(0x0203).u32(0x0405_0607);
        buffer.u64(0x0809_0A0B_0C0D_0E0F);
        assert_eq!(
            buffer.as_slice(),
            [
                1, 3, 2, 7, 6, 5, 4, 0x0F, 0x0E, 0x0D, 0x0C, 0x0B, 0x0A, 9, 8
            ]
        );

        let mut buffer = LeBuffer::new();
        buffer.u16_be(0x0203).u32_be(0x0405_0607).u64_be(1);
        assert_eq!(
            buffer.as_slice(),
            [2, 3, 4, 5, 6, 7, 0, 0, 0, 0, 0, 0, 0, 1]
        );
    }

    #[test]
    fn fields_change_at_their_tags() {
        let mut buffer = LeBuffer::new();
        buffer.tag("a").u8(0).tag("b").u16(0).tag("c").u64(0);
        buffer.set_u8_at("a", 9);
        buffer.set_u16_at("b", 0x1122);
        buffer.set_u64_at("c", u64::MAX);
        assert_eq!(buffer.as_slice()[..3], [9, 0x22, 0x11]);
        assert_eq!(buffer.as_slice()[3..], [0xFF; 8]);
        assert_eq!(
            buffer.tags().collect::<Vec<_>>(),
            [("a", 0), ("b", 1), ("c", 3)]
        );
    }

    #[test]
    fn padding_stops_at_the_boundary() {
        let mut buffer = LeBuffer::new();
        buffer.pad_to(8, 0xFF);
        assert!(buffer.is_empty());
        buffer.u8(1).pad_to(4, 0xFF).pad_to(4, 0);
        assert_eq!(buffer.as_slice(), [1, 0xFF, 0xFF, 0xFF]);
    }

    #[test]
    #[should_panic(expected = "no tag \"body\"")]
    fn an_unknown_tag_stops_the_test() {
        let _ = LeBuffer::new().tag("head").position("body");
    }

    #[test]
    #[should_panic(expected = "0..4 lies outside of 3 bytes")]
    fn a_change_past_the_end_stops_the_test() {
        LeBuffer::new().tag("x").fill(3, 0).set_u32_at("x", 1);
    }

    #[test]
    #[should_panic(expected = "in use")]
    fn a_tag_names_one_place() {
        LeBuffer::new().tag("x").u8(0).tag("x");
    }
}
