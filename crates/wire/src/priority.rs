//! How urgent a message is: JMS's 0 (lowest) to 9, in three classes that do not wait for each other.

use crate::error::EncodeError;

/// A message's priority, 0 to 9. The default is 4, as in JMS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u8);

/// Messages of one class keep their publisher's order; each class has a stream of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PriorityClass {
    /// Priorities 0–3.
    Low,
    /// Priorities 4–6.
    Normal,
    /// Priorities 7–9.
    High,
}

impl Priority {
    /// The highest priority.
    pub const MAX: Self = Self(9);

    /// A priority from a number between 0 and 9.
    #[inline]
    pub fn new(priority: u8) -> Result<Self, EncodeError> {
        if priority > Self::MAX.0 {
            return Err(EncodeError::Priority { priority });
        }
        Ok(Self(priority))
    }

    /// The number, 0 to 9.
    #[inline]
    pub fn get(self) -> u8 {
        self.0
    }

    /// The class whose stream carries it.
    #[inline]
    pub fn class(self) -> PriorityClass {
        match self.0 {
            0..=3 => PriorityClass::Low,
            4..=6 => PriorityClass::Normal,
            _ => PriorityClass::High,
        }
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self(4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_priorities_fall_into_three_classes_in_order() {
        let classes: Vec<_> = (0..=9).map(|p| Priority::new(p).unwrap().class()).collect();
        assert!(classes.is_sorted());
        assert_eq!(classes.iter().filter(|&&c| c == PriorityClass::Low).count(), 4);
        assert_eq!(classes.iter().filter(|&&c| c == PriorityClass::Normal).count(), 3);
    }

    #[test]
    fn a_priority_above_nine_is_refused_by_number() {
        assert_eq!(Priority::new(10).unwrap_err().to_string(), "priority 10 is not between 0 and 9");
    }
}
