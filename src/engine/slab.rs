//! Fixed-size slots in chunks: nothing moves and nothing grows in one step.

/// Slots of a chunk.
const CHUNK: usize = 4096;

/// A value, or the next free slot of its chunk.
#[derive(Debug)]
pub(super) enum Slot<T> {
    Used(T),
    Free(Option<std::num::NonZeroU32>),
}

/// Values by number. A removed value's number is given out again, and a chunk without values takes
/// no memory.
#[derive(Debug)]
pub(super) struct Slab<T> {
    chunks: Vec<Chunk<T>>,
    /// Chunks with room, the one to be filled next at the end.
    open: Vec<u32>,
    used: usize,
}

#[derive(Debug)]
struct Chunk<T> {
    slots: Vec<Slot<T>>,
    /// The first free slot's place plus one.
    free: Option<std::num::NonZeroU32>,
    used: usize,
}

impl<T> Default for Chunk<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: None, used: 0 }
    }
}

impl<T> Chunk<T> {
    const fn has_room(&self) -> bool {
        self.free.is_some() || self.slots.len() < CHUNK
    }

    /// Takes a value into a chunk with room, and tells where.
    fn insert(&mut self, value: T) -> Option<u32> {
        self.used += 1;
        if let Some(free) = self.free {
            let place = free.get() - 1;
            let slot = self.slots.get_mut(place as usize)?;
            let Slot::Free(next) = *slot else { return None };
            *slot = Slot::Used(value);
            self.free = next;
            return Some(place);
        }
        if self.slots.capacity() == 0 {
            self.slots.reserve_exact(CHUNK);
        }
        let place = u32::try_from(self.slots.len()).ok()?;
        self.slots.push(Slot::Used(value));
        Some(place)
    }

    fn remove(&mut self, place: usize) -> Option<T> {
        let next = self.free;
        let slot = self.slots.get_mut(place)?;
        if matches!(slot, Slot::Free(_)) {
            return None;
        }
        let Slot::Used(value) = std::mem::replace(slot, Slot::Free(next)) else { return None };
        self.free = std::num::NonZeroU32::new(u32::try_from(place).ok()? + 1);
        self.used -= 1;
        if self.used == 0 {
            *self = Self::default();
        }
        Some(value)
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), open: Vec::new(), used: 0 }
    }
}

impl<T> Slab<T> {
    /// Values in use.
    pub(super) const fn used(&self) -> usize {
        self.used
    }

    /// More than the highest number in use.
    pub(super) fn end(&self) -> u32 {
        let last = self.chunks.last().map_or(0, |chunk| chunk.slots.len());
        let slots = self.chunks.len().saturating_sub(1) * CHUNK + last;
        u32::try_from(slots).unwrap_or(u32::MAX)
    }

    pub(super) fn get(&self, number: u32) -> Option<&T> {
        match self.chunks.get(number as usize / CHUNK)?.slots.get(number as usize % CHUNK)? {
            Slot::Used(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let chunk = self.chunks.get_mut(number as usize / CHUNK)?;
        match chunk.slots.get_mut(number as usize % CHUNK)? {
            Slot::Used(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    /// Gives the value a number. `None` when all numbers are in use.
    pub(super) fn insert(&mut self, value: T) -> Option<u32> {
        let at = match self.open.last() {
            Some(&at) => at,
            None => {
                let at = u32::try_from(self.chunks.len()).ok()?;
                // The last chunk's numbers would reach beyond those of 32 bits.
                if at as usize >= u32::MAX as usize / CHUNK {
                    return None;
                }
                self.chunks.push(Chunk::default());
                self.open.push(at);
                at
            }
        };
        let chunk = self.chunks.get_mut(at as usize)?;
        let place = chunk.insert(value)?;
        if !chunk.has_room() {
            self.open.pop();
        }
        self.used += 1;
        Some(at * CHUNK as u32 + place)
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        let at = number / CHUNK as u32;
        let chunk = self.chunks.get_mut(at as usize)?;
        let had_room = chunk.has_room();
        let value = chunk.remove(number as usize % CHUNK)?;
        if !had_room {
            self.open.push(at);
        }
        self.used -= 1;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_reused_and_values_stay_put() {
        let mut slab = Slab::default();
        let numbers: Vec<u32> = (0..10_000).map(|value| slab.insert(value).unwrap()).collect();
        assert_eq!(slab.end(), 10_000);
        assert_eq!(slab.remove(17), Some(17));
        assert_eq!(slab.remove(17), None);
        assert_eq!(slab.get(17), None);
        assert_eq!(slab.insert(99), Some(17));
        assert_eq!(slab.get(17), Some(&99));
        assert_eq!(slab.get(numbers[9_999]), Some(&9_999));
        assert_eq!((slab.used(), slab.end()), (10_000, 10_000));
        assert_eq!(slab.get(10_000), None);
    }

    #[test]
    fn what_is_given_back_is_free_for_others() {
        let mut slab = Slab::default();
        let memory = |slab: &Slab<u64>| -> usize {
            slab.chunks.iter().map(|chunk| chunk.slots.capacity()).sum()
        };
        let numbers: Vec<u32> = (0..100_000).map(|value| slab.insert(value).unwrap()).collect();
        assert!(memory(&slab) < 110_000);
        for number in numbers.iter().filter(|number| **number != 50_000) {
            assert_eq!(slab.remove(*number), Some(u64::from(*number)));
        }
        assert_eq!((slab.used(), memory(&slab), slab.get(50_000)), (1, CHUNK, Some(&50_000)));
        assert_eq!(slab.get(7), None);
        assert!(slab.end() > 50_000);
        // As many again find as much room, and nobody else's number.
        let again: std::collections::BTreeSet<u32> =
            (0..100_000).map(|value| slab.insert(value).unwrap()).collect();
        assert_eq!((again.len(), again.contains(&50_000)), (100_000, false));
        assert!(memory(&slab) < 110_000);
        assert!(again.iter().all(|number| *number < slab.end()));
    }
}
