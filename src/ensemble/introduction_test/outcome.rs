//! What happened in a run, so that it can be seen that it did.

use std::collections::BTreeSet;

macro_rules! outcome {
    ($($name:ident)+) => {
        #[derive(Debug, Clone, Default)]
        pub(super) struct Outcome {
            $(pub(super) $name: u64,)+
            /// What an operator was asked for, by the words that asked.
            pub(super) heeded: BTreeSet<&'static str>,
            pub(super) steps: u64,
            pub(super) trace: u64,
        }

        impl Outcome {
            pub(super) fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)+
                self.heeded.extend(&other.heeded);
                self.steps += other.steps;
            }

            pub(super) fn counts(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)+]
            }
        }
    };
}

outcome! {
    founded accepted confirmed refused seated taken_instead acknowledged killed powerless frozen cut emptied
    unmounted ended operated
}
