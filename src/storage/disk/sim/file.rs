//! One file: what the process sees of it, and what a crash leaves.

use std::collections::BTreeSet;

use super::{Dice, SECTOR};

#[derive(Clone, Debug, Default)]
pub(super) struct SimFile {
    pub(super) live: Vec<u8>,
    pub(super) durable: Vec<u8>,
    pub(super) dirty: BTreeSet<usize>,
    /// Sectors whose write-back failed: clean, and not what the disk holds.
    pub(super) unwritten: BTreeSet<usize>,
    /// How often it was written.
    pub(super) changes: i64,
}

impl SimFile {
    pub(super) fn touch(&mut self, from: usize, to: usize) {
        self.changes += 1;
        for sector in from / SECTOR..to.div_ceil(SECTOR) {
            self.dirty.insert(sector);
            self.unwritten.remove(&sector);
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        if self.live.len() < end {
            let old = self.live.len();
            self.live.resize(end, 0);
            self.touch(old, end);
        }
        self.live[offset..end].copy_from_slice(bytes);
        self.touch(offset, end);
    }

    pub(super) fn sync(&mut self) {
        self.durable.resize(self.live.len(), 0);
        for sector in std::mem::take(&mut self.dirty) {
            let from = (sector * SECTOR).min(self.live.len());
            let to = (from + SECTOR).min(self.live.len());
            self.durable[from..to].copy_from_slice(&self.live[from..to]);
        }
    }

    /// The write-back fails, and the pages are clean all the same.
    pub(super) fn fail_to_sync(&mut self) {
        self.unwritten.append(&mut self.dirty);
    }

    pub(super) fn crash(&mut self, dice: &mut Dice) {
        let is_written = self.dirty.is_empty() && self.unwritten.is_empty();
        if is_written && self.live.len() == self.durable.len() {
            return;
        }
        let (shorter, longer) =
            (self.live.len().min(self.durable.len()), self.live.len().max(self.durable.len()));
        let len = match dice.below(4) {
            0 => self.durable.len(),
            1 => self.live.len(),
            2 => longer,
            _ => shorter + dice.below((longer - shorter) as u64 + 1) as usize,
        };
        // A kept length without its data reads as zeros.
        let mut image = self.durable.clone();
        image.resize(len, 0);
        let torn = dice.below(4) == 0;
        let mut torn_left = usize::from(torn);
        let keep_of_16 = dice.below(17);
        for &sector in &self.dirty {
            let from = sector * SECTOR;
            let mut to = (from + SECTOR).min(self.live.len()).min(len);
            if from >= to {
                continue;
            }
            if torn_left > 0 && dice.below(3) == 0 {
                torn_left -= 1;
                to = from + dice.below((to - from) as u64) as usize;
            } else if dice.below(16) >= keep_of_16 {
                continue;
            }
            image[from..to].copy_from_slice(&self.live[from..to]);
        }
        self.live.clone_from(&image);
        self.durable = image;
        self.dirty.clear();
        self.unwritten.clear();
    }
}
