//! Fixed-size slots in chunks: nothing moves and nothing grows in one step.

/// Slots of a chunk.
const CHUNK: usize = 4096;

/// A value, or the next free slot.
#[derive(Debug)]
pub(super) enum Slot<T> {
    Used(T),
    Free(Option<std::num::NonZeroU32>),
}

/// Values by number. A removed value's number is given out again.
#[derive(Debug)]
pub(super) struct Slab<T> {
    chunks: Vec<Vec<Slot<T>>>,
    /// The first free slot's number plus one.
    free: Option<std::num::NonZeroU32>,
    used: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), free: None, used: 0 }
    }
}

impl<T> Slab<T> {
    /// Values in use.
    pub(super) const fn used(&self) -> usize {
        self.used
    }

    /// One more than the highest number ever given out.
    pub(super) fn end(&self) -> u32 {
        let last = self.chunks.last().map_or(0, Vec::len);
        let slots = self.chunks.len().saturating_sub(1) * CHUNK + last;
        u32::try_from(slots).unwrap_or(u32::MAX)
    }

    /// The values, in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten().filter_map(|slot| match slot {
            Slot::Used(value) => Some(value),
            Slot::Free(_) => None,
        })
    }

    pub(super) fn get(&self, number: u32) -> Option<&T> {
        match self.chunks.get(number as usize / CHUNK)?.get(number as usize % CHUNK)? {
            Slot::Used(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        match self.slot_mut(number)? {
            Slot::Used(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    fn slot_mut(&mut self, number: u32) -> Option<&mut Slot<T>> {
        self.chunks.get_mut(number as usize / CHUNK)?.get_mut(number as usize % CHUNK)
    }

    /// Gives the value a number. `None` when all 2^32 - 1 numbers are in use.
    pub(super) fn insert(&mut self, value: T) -> Option<u32> {
        if let Some(free) = self.free {
            let number = free.get() - 1;
            let slot = self.slot_mut(number)?;
            let Slot::Free(next) = *slot else { return None };
            *slot = Slot::Used(value);
            self.free = next;
            self.used += 1;
            return Some(number);
        }
        let number = self.end();
        if number == u32::MAX {
            return None;
        }
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(Slot::Used(value)),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(Slot::Used(value));
                self.chunks.push(chunk);
            }
        }
        self.used += 1;
        Some(number)
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        let next = self.free;
        let slot = self.slot_mut(number)?;
        if matches!(slot, Slot::Free(_)) {
            return None;
        }
        let Slot::Used(value) = std::mem::replace(slot, Slot::Free(next)) else { return None };
        self.free = std::num::NonZeroU32::new(number + 1);
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
}
