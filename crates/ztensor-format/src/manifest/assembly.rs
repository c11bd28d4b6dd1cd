//! Makes entries of objects and components and, at the end, sees to their names.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use tensor_core::codec::{NameTable, PieceId, ShapeId, append};
use tensor_core::{At, LimitExceeded, Shape, SourceError};

use super::ElementType;
use crate::checksum::Checksum;
use crate::encoding::{Encoding, Layout};
use crate::index::{MOST_TENSORS, check_memory};
use crate::tensors::{Obstacle, Part, RECORD_MEMORY, Record, StoredChecksum, Tensors, Uncommon};
use crate::{Error, Generation, Limits, Result, Rule, tensors};

/// Collects entries in the order of the manifest.
pub(crate) struct Assembly {
    pub(crate) generation: Generation,
    tensors: Tensors,
    /// Objects that are not one entry of their own name, and which entries they have.
    groups: Vec<Group>,
    /// The object whose components come next, once there is something to say about it.
    object: Option<u32>,
    /// The name of a component, as it is put together.
    name: String,
    composed: u64,
    /// What the manifest takes, and the size of the file that all memory is held against.
    manifest_len: u64,
    file_len: u64,
    limits: Limits,
    base: u64,
}

/// An object that is not one entry of its own name.
struct Group {
    object: u32,
    /// Its name, where it has no entries that have it.
    name: PieceId,
    start: usize,
    end: usize,
    /// Why its components can't be listed.
    obstacle: Option<Obstacle>,
}

/// What the components of an object share.
pub(crate) struct Owner<'a> {
    pub(crate) name: &'a str,
    pub(crate) format: &'a str,
    pub(crate) shape: &'a Shape,
    /// The encoded map, empty where there is none.
    pub(crate) attributes: &'a [u8],
}

/// One component, resolved.
pub(crate) struct Resolved<'a> {
    pub(crate) element_type: ElementType<'a>,
    pub(crate) shape: Shape,
    pub(crate) encoding: Encoding,
    pub(crate) encoding_name: Option<&'a str>,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) decoded: Option<u64>,
    pub(crate) digest: Option<&'a Checksum>,
    /// Of another file that has the data.
    pub(crate) shard: Option<&'a str>,
}

/// What an object's name takes while names that could collide are looked for.
const LOOKUP: u64 = size_of::<usize>() as u64 + NameTable::MEMORY;
/// What any name takes where some do.
const COLLISION: u64 = size_of::<(&str, usize)>() as u64 + NameTable::MEMORY;

/// What a tensor takes a second time, without its name, while tensors are sorted.
const COPY: u64 = RECORD_MEMORY + (size_of::<Part>() + size_of::<Uncommon>()) as u64;

impl Assembly {
    /// An assembly of what a manifest at `range` of a file lists.
    pub(crate) fn new(
        generation: Generation,
        limits: Limits,
        range: &Range<u64>,
        file_len: u64,
    ) -> Self {
        Self {
            generation,
            tensors: Tensors::default(),
            groups: Vec::new(),
            object: None,
            name: String::new(),
            composed: 0,
            manifest_len: range.end.saturating_sub(range.start),
            file_len,
            limits,
            base: range.start,
        }
    }

    /// Starts an object.
    pub(crate) fn open(&mut self) -> usize {
        self.object = None;
        self.tensors.all()
    }

    /// Ends an object of entries since `start` that is not one entry of its name; where there is an obstacle,
    /// it is listed as one.
    pub(crate) fn close(
        &mut self,
        owner: &Owner<'_>,
        start: usize,
        obstacle: Option<Obstacle>,
    ) -> Result<()> {
        let object = self.object(owner)?;
        let end = self.tensors.all();
        let name = match start == end {
            true => self.tensors.pieces.push(owner.name.as_bytes())?,
            false => PieceId::EMPTY,
        };
        append(
            &mut self.groups,
            Group {
                object,
                name,
                start,
                end,
                obstacle,
            },
        );
        self.check(0)
    }

    /// Fails where all that is held, and `more`, takes too much memory.
    fn check(&self, more: u64) -> Result<()> {
        let groups = size_of_val::<[Group]>(&self.groups) as u64;
        let lookup = (self.groups.len() as u64).saturating_mul(LOOKUP);
        let memory = self
            .manifest_len
            .saturating_add(self.tensors.memory())
            .saturating_add(groups)
            .saturating_add(lookup)
            .saturating_add(more);
        let at = At::new(self.base, "manifest");
        check_memory(memory, self.file_len, &self.limits, at)
    }

    fn limit<T>(&self, limit: &'static str, value: u64, max: u64) -> Result<T> {
        let at = At::new(self.base, "manifest");
        Err(Error::Limit(LimitExceeded {
            limit,
            value,
            max,
            at,
        }))
    }

    /// The place of the object that is open among all that have something to say.
    fn object(&mut self, owner: &Owner<'_>) -> Result<u32> {
        if let Some(object) = self.object {
            return Ok(object);
        }
        let at = self.tensors.objects.len();
        let object = u32::try_from(at).map_err(|_| SourceError::TooLarge(at as u64))?;
        let described = tensors::Object {
            format: self.tensors.pieces.push(owner.format.as_bytes())?,
            shape: self.shape(owner.shape)?,
            attributes: self.tensors.pieces.push(owner.attributes)?,
        };
        append(&mut self.tensors.objects, described);
        self.object = Some(object);
        Ok(object)
    }

    fn shape(&mut self, shape: &Shape) -> Result<ShapeId> {
        let pushed = self.tensors.shapes.push(shape.dims());
        // Their product fits, so there are too many.
        Ok(pushed.map_err(|_| SourceError::TooLarge(u32::MAX.into()))?)
    }

    /// Adds the entry of a component; under the object's own name where `component` is `None`.
    // Long since a record is made of all that its object and it say, each kept once.
    pub(crate) fn push(
        &mut self,
        owner: &Owner<'_>,
        component: Option<&str>,
        resolved: &Resolved<'_>,
    ) -> Result<()> {
        let ordinal = self.tensors.all();
        let (value, max) = (
            ordinal as u64,
            self.limits.max_tensor_count.min(MOST_TENSORS),
        );
        if value >= max {
            return self.limit("max_tensor_count", value.saturating_add(1), max);
        }
        let element_type = &resolved.element_type;
        let is_unknown = resolved.encoding == Encoding::Other;
        // What can't be decoded comes first: nothing can be said about its bytes.
        let obstacle = match element_type.obstacle {
            None | Some(Obstacle::Type | Obstacle::DType) if is_unknown => Some(Obstacle::Encoding),
            obstacle => obstacle,
        };
        let obstacle = match resolved.shard {
            Some(label) => Some(Obstacle::Shard(self.tensors.pieces.push(label.as_bytes())?)),
            None => obstacle,
        };
        let needs_part = component.is_some()
            || obstacle.is_some()
            || element_type.storage.is_some()
            || !owner.attributes.is_empty();
        let is_dense = owner.format == "dense";
        if needs_part {
            let len = owner.name.len();
            let len = u32::try_from(len).map_err(|_| SourceError::TooLarge(len as u64))?;
            let part = Part {
                ordinal,
                decoded: resolved.decoded,
                object: self.object(owner)?,
                component_of: component.map(|_| len),
                obstacle,
                storage: element_type.storage,
                odd_half: element_type.half && is_dense && resolved.shape.elements() & 1 == 1,
            };
            self.tensors.push_part(part);
        }
        let mut uncommon = Uncommon::new(ordinal);
        if let Some(name) = element_type.name {
            uncommon.dtype = self.tensors.pieces.push(name.as_bytes())?;
        }
        if let Some(name) = resolved.encoding_name.filter(|_| is_unknown) {
            uncommon.encoding = self.tensors.pieces.push(name.as_bytes())?;
        }
        self.tensors.push_uncommon(uncommon);
        let record = Record {
            offset: resolved.offset,
            size: resolved.length,
            shape: self.shape(&resolved.shape)?,
            checksum: self.tensors.keep(resolved.digest)?,
            dtype: element_type.dtype,
            layout: match component.is_none() && is_dense {
                true => Layout::Dense,
                false => Layout::Other,
            },
            encoding: resolved.encoding,
            endianness: None,
        };
        match component {
            None => self.tensors.push(owner.name, record),
            Some(component) => {
                self.name.clear();
                for piece in [owner.name, "/", component] {
                    self.name.push_str(piece);
                }
                self.composed = self.composed.saturating_add(self.name.len() as u64);
                let (value, max) = (self.composed, self.limits.max_composed_bytes);
                if value > max {
                    return self.limit("max_composed_bytes", value, max);
                }
                self.tensors.push(&self.name, record);
            }
        }
        self.check(0)
    }

    /// All entries with a table of their names. Objects whose components can't be listed, or would have a
    /// name that another has already, are listed as one.
    pub(crate) fn finish(mut self) -> Result<Tensors> {
        if self.has_collisions() {
            self.check((self.tensors.all() as u64).saturating_mul(COLLISION))?;
            for group in self.collisions()? {
                if let Some(group) = self.groups.get_mut(group) {
                    let obstacle = group.obstacle.unwrap_or(Obstacle::NameCollision);
                    group.obstacle = Some(obstacle);
                }
            }
        }
        if self.groups.iter().any(|group| group.obstacle.is_some()) {
            self.list_as_one()?;
        }
        match self.tensors.finish() {
            Ok(()) => Ok(self.tensors),
            Err(twice) => {
                let name = self.tensors.names.get(twice.second);
                Err(self.duplicate(twice.second, name))
            }
        }
    }

    fn duplicate(&self, position: usize, name: &str) -> Error {
        let at = At::new(self.base, "name").entry(position as u64);
        let rule = Rule::ObjectDuplicate;
        Error::invalid(rule, at).of_tensor(name)
    }

    /// Puts one entry in place of those of each object that can't be listed otherwise. Its components follow
    /// all that is listed.
    fn list_as_one(&mut self) -> Result<()> {
        // For a time there are two of all.
        let names = self.tensors.names.memory();
        let all = (self.tensors.all() as u64).saturating_mul(COPY);
        self.check(names.saturating_add(all))?;
        let groups = core::mem::take(&mut self.groups);
        let replaced = || groups.iter().filter(|group| group.obstacle.is_some());
        let names: Vec<PieceId> = {
            let mut names = Vec::new();
            for group in replaced() {
                let name = String::from(self.name_of(group));
                append(&mut names, self.tensors.pieces.push(name.as_bytes())?);
            }
            names
        };
        let old = self.tensors.take_order();
        let mut next = 0usize;
        for (group, &name) in replaced().zip(&names) {
            (next..group.start).for_each(|at| self.tensors.push_from(&old, at));
            let ordinal = self.tensors.all();
            let object = usize::try_from(group.object).ok();
            let object = object.and_then(|object| self.tensors.objects.get(object));
            let record = Record {
                offset: old
                    .offset(group.start)
                    .filter(|_| group.start < group.end)
                    .unwrap_or(0),
                size: 0,
                shape: object.map_or(ShapeId::NONE, |object| object.shape),
                checksum: StoredChecksum::None,
                dtype: None,
                layout: Layout::Other,
                encoding: Encoding::Raw,
                endianness: None,
            };
            self.tensors.push_part(Part {
                ordinal,
                decoded: None,
                object: group.object,
                component_of: None,
                obstacle: group.obstacle,
                storage: None,
                odd_half: false,
            });
            self.name.clear();
            self.name.push_str(self.tensors.pieces.text(name));
            self.tensors.push(&self.name, record);
            append(&mut self.tensors.hidden, (ordinal, 0..0));
            next = group.end;
        }
        (next..old.len()).for_each(|at| self.tensors.push_from(&old, at));
        let listed = self.tensors.all();
        for (at, group) in replaced().enumerate() {
            let start = self.tensors.all();
            (group.start..group.end).for_each(|at| self.tensors.push_from(&old, at));
            let end = self.tensors.all();
            if let Some((_, range)) = self.tensors.hidden.get_mut(at) {
                *range = start..end;
            }
        }
        self.tensors.end_of_list(listed);
        Ok(())
    }

    /// The name of an object.
    fn name_of(&self, group: &Group) -> &str {
        if group.start == group.end {
            return self.tensors.pieces.text(group.name);
        }
        let name = self.tensors.names.get(group.start);
        match self.component_of(group.start) {
            Some(len) => name.get(..len).unwrap_or_default(),
            None => name,
        }
    }

    /// Of a component, the length of its object's name.
    fn component_of(&self, at: usize) -> Option<usize> {
        usize::try_from(self.tensors.part(at)?.component_of?).ok()
    }

    /// Whether any name may be a duplicate, of an object or a component.
    fn has_collisions(&self) -> bool {
        if self.groups.is_empty() {
            return false;
        }
        // All entries, then the objects that have none of their own name.
        let entries = self.tensors.all();
        let unlisted =
            |group: &&Group| !(group.start..group.end).any(|at| self.component_of(at).is_none());
        let objects: Vec<usize> = {
            let groups = self.groups.iter().enumerate();
            groups
                .filter(|(_, group)| unlisted(group))
                .map(|(at, _)| at)
                .collect()
        };
        let name_at = |at: usize| match at.checked_sub(entries) {
            None => self.tensors.names.get(at),
            Some(object) => {
                let group = objects.get(object).and_then(|&at| self.groups.get(at));
                group.map_or("", |group| self.name_of(group))
            }
        };
        let names = entries.saturating_add(objects.len());
        NameTable::of_positions(names, name_at).is_err()
    }

    /// Which groups have a composed name that is somebody else's too.
    fn collisions(&self) -> Result<Vec<usize>> {
        let own = usize::MAX;
        let mut collided = Vec::new();
        let mut names: Vec<(&str, usize)> = Vec::new();
        let mut groups = self.groups.iter().enumerate().peekable();
        let mut position = 0usize;
        loop {
            // What comes first, a group of no entries among them.
            let starts = groups
                .peek()
                .is_some_and(|(_, group)| group.start == position);
            if starts {
                let Some((at, group)) = groups.next() else {
                    break;
                };
                append(&mut names, (self.name_of(group), own));
                let is_one = group.obstacle.is_some();
                for entry in (group.start..group.end).filter(|_| !is_one) {
                    if self.component_of(entry).is_some() {
                        append(&mut names, (self.tensors.names.get(entry), at));
                    }
                }
                position = group.end;
            } else {
                if position >= self.tensors.all() {
                    break;
                }
                append(&mut names, (self.tensors.names.get(position), own));
                position = position.saturating_add(1);
            }
        }
        let mut table = NameTable::with_capacity(names.len());
        for position in 0..names.len() {
            let Err(twice) = table.insert(&names, |(name, _)| name, position) else {
                continue;
            };
            let group = |at: usize| names.get(at).map_or(own, |&(_, group)| group);
            let (first, second) = (group(twice.first), group(twice.second));
            if first == own && second == own {
                let name = names.get(position).map_or("", |(name, _)| name);
                return Err(self.duplicate(position, name));
            }
            collided.extend([first, second].into_iter().filter(|&group| group != own));
        }
        Ok(collided)
    }
}
