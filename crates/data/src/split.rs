//! Which interactions are learnt from and which are kept back.

use std::fmt;

/// How interactions are divided.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum SplitRule {
    /// Everything is learnt from.
    #[default]
    None,
    /// `random:0.2`: a share of the rows, drawn without regard to users.
    Random(f64),
    /// `leave-last-one`: the last row of every user by time. Leaks time across users.
    LeaveLastOne,
    /// `per-user:50`: so many rows of every user are learnt from, the others are kept back.
    PerUser(usize),
    /// `temporal:0.2`: the latest share of all rows.
    Temporal(f64),
}

impl fmt::Display for SplitRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(f, "none"),
            Self::Random(share) => write!(f, "random:{share}"),
            Self::LeaveLastOne => write!(f, "leave-last-one"),
            Self::PerUser(rows) => write!(f, "per-user:{rows}"),
            Self::Temporal(share) => write!(f, "temporal:{share}"),
        }
    }
}

/// Rows of interactions by their part, ascending in each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Split {
    /// Learnt from.
    pub train: Vec<u32>,
    /// Kept back to choose settings and to stop early; may be empty.
    pub validation: Vec<u32>,
    /// Kept back for the last word; may be empty.
    pub test: Vec<u32>,
}
