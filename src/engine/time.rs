//! The two clocks, as arguments: the engine never reads one.

/// A reading of the monotonic clock, in milliseconds since a point that only this process knows.
/// Deadlines use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Monotonic(pub u64);

impl Monotonic {
    /// The reading `ms` milliseconds later.
    #[must_use]
    pub const fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to here, 0 if it is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Milliseconds since 1970 by the wall clock: what ctime, mtime and TTLs are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct WallClock(pub i64);

/// Both clocks, read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    /// For deadlines.
    pub monotonic: Monotonic,
    /// For what is written down.
    pub wall: WallClock,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_do_not_go_below_zero_nor_round() {
        assert_eq!(Monotonic(5).plus(7), Monotonic(12));
        assert_eq!(Monotonic(12).since(Monotonic(5)), 7);
        assert_eq!(Monotonic(5).since(Monotonic(12)), 0);
        assert_eq!(Monotonic(5).plus(u64::MAX), Monotonic(u64::MAX));
    }
}
