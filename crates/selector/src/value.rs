//! Attribute values as JMS types them, and the three truth values of SQL.

/// The value of a header field or property. An absent one is [`Value::Null`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Value<'a> {
    /// Absent.
    #[default]
    Null,
    /// `boolean`
    Bool(bool),
    /// `byte`
    Byte(i8),
    /// `short`
    Short(i16),
    /// `int`
    Int(i32),
    /// `long`
    Long(i64),
    /// `float`
    Float(f32),
    /// `double`
    Double(f64),
    /// `String`
    Str(&'a str),
}

/// Where an evaluation reads a message's header fields and properties from.
///
/// Header fields go by their JMS names (`JMSPriority`), and `JMSDeliveryMode` must read as the string
/// `PERSISTENT` or `NON_PERSISTENT` (section 3.8.1.3). An implementation can read an encoded message in
/// place.
pub trait Attributes {
    /// The value of the attribute, or [`Value::Null`].
    fn get(&self, name: &str) -> Value<'_>;

    /// Shows every attribute that is not null, each once, in any order.
    fn visit<'a>(&'a self, visitor: &mut dyn FnMut(&'a str, Value<'a>));
}

/// A handful of attributes in a slice; looking one up is a linear search.
impl Attributes for [(&str, Value<'_>)] {
    fn get(&self, name: &str) -> Value<'_> {
        self.iter().find(|(candidate, _)| *candidate == name).map_or(Value::Null, |(_, value)| *value)
    }

    fn visit<'a>(&'a self, visitor: &mut dyn FnMut(&'a str, Value<'a>)) {
        for (name, value) in self {
            visitor(name, *value);
        }
    }
}

impl<const N: usize> Attributes for [(&str, Value<'_>); N] {
    fn get(&self, name: &str) -> Value<'_> {
        Attributes::get(self.as_slice(), name)
    }

    fn visit<'a>(&'a self, visitor: &mut dyn FnMut(&'a str, Value<'a>)) {
        Attributes::visit(self.as_slice(), visitor);
    }
}

/// A truth value of three-valued logic (section 3.8.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// A null took part.
    Unknown,
}

impl Truth {
    /// Table 3-4.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::False, _) | (_, Self::False) => Self::False,
            (Self::True, Self::True) => Self::True,
            _ => Self::Unknown,
        }
    }

    /// Table 3-5.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::True, _) | (_, Self::True) => Self::True,
            (Self::False, Self::False) => Self::False,
            _ => Self::Unknown,
        }
    }

    /// Table 3-6, applied when `negated`.
    #[must_use]
    pub fn negated_if(self, negated: bool) -> Self {
        match self {
            Self::True if negated => Self::False,
            Self::False if negated => Self::True,
            other => other,
        }
    }
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}
