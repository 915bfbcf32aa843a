//! A message's properties: named single values, found by scanning when somebody asks for one.

use crate::cursor::{Cursor, text};
use crate::error::{DecodeError, EncodeError};
use crate::limits::{PROPERTIES_BYTES_MAX, PROPERTIES_COUNT_MAX, PROPERTY_NAME_BYTES_MAX};
use crate::value::Scalar;
use crate::value_reader::{read_scalar, skip_scalar};
use crate::value_writer::write_scalar;

/// Encoded properties, borrowed from a writer's buffer or from a received message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Properties<'a> {
    encoded: &'a [u8],
}

impl<'a> Properties<'a> {
    pub(crate) fn from_encoded(encoded: &'a [u8]) -> Self {
        Self { encoded }
    }

    /// The properties as they travel.
    #[inline]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.encoded
    }

    /// Whether there is no property.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.encoded.is_empty()
    }

    /// The value of the first property called `name`. Others are stepped over, not decoded.
    #[inline]
    pub fn get(&self, name: &str) -> Result<Option<Scalar<'a>>, DecodeError> {
        let wanted = name.as_bytes();
        let mut entries = self.iter();
        while let Some(found) = entries.next_name()? {
            // Most names differ in their first letter, and a call to compare the rest costs more than that.
            if found.first() == wanted.first() && found == wanted {
                return read_scalar(&mut entries.cursor, "property").map(Some);
            }
            skip_scalar(&mut entries.cursor, "property")?;
        }
        Ok(None)
    }

    /// All properties in the order they were written. Ends after the first error.
    pub fn iter(&self) -> PropertyIter<'a> {
        PropertyIter { cursor: Cursor::new(self.encoded), left: PROPERTIES_COUNT_MAX }
    }
}

/// Iterator over names and values; see [`Properties::iter`].
#[derive(Debug, Clone)]
pub struct PropertyIter<'a> {
    cursor: Cursor<'a>,
    left: usize,
}

impl<'a> PropertyIter<'a> {
    /// The next name; the cursor is then at its value.
    #[inline]
    fn next_name(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        if self.cursor.is_empty() {
            return Ok(None);
        }
        self.left = self.left.checked_sub(1).ok_or(DecodeError::TooManyProperties)?;
        match self.cursor.byte("property name")? {
            0 => Err(DecodeError::PropertyNameEmpty),
            length => self.cursor.take(length.into(), "property name").map(Some),
        }
    }

    fn next_entry(&mut self) -> Result<Option<(&'a str, Scalar<'a>)>, DecodeError> {
        let Some(name) = self.next_name()? else {
            return Ok(None);
        };
        Ok(Some((text(name, "property name")?, read_scalar(&mut self.cursor, "property")?)))
    }
}

impl<'a> Iterator for PropertyIter<'a> {
    type Item = Result<(&'a str, Scalar<'a>), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.next_entry();
        if entry.is_err() {
            self.cursor = Cursor::new(&[]);
        }
        entry.transpose()
    }
}

/// Encodes properties into a buffer that is reused from message to message.
///
/// Names are expected to differ, as a mapping's do; of two with one name, [`Properties::get`] finds the first.
#[derive(Debug, Default)]
pub struct PropertiesWriter {
    encoded: Vec<u8>,
    count: usize,
}

impl PropertiesWriter {
    /// A writer without properties.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets the properties, keeps the memory.
    pub fn clear(&mut self) {
        self.encoded.clear();
        self.count = 0;
    }

    /// Adds a property. On an error it is as if it had not been added.
    pub fn push(&mut self, name: &str, value: Scalar<'_>) -> Result<(), EncodeError> {
        if self.count == PROPERTIES_COUNT_MAX {
            return Err(EncodeError::TooManyProperties);
        }
        let length = match name.len() {
            0 => return Err(EncodeError::PropertyNameEmpty),
            bytes if bytes > PROPERTY_NAME_BYTES_MAX => {
                return Err(EncodeError::PropertyNameTooLong { bytes });
            }
            bytes => bytes as u8,
        };
        // Checked before it is copied: the bound also bounds this buffer.
        let payload = match value {
            Scalar::Str(text) => text.len(),
            Scalar::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        let start = self.encoded.len();
        let bytes = start.saturating_add(name.len()).saturating_add(payload);
        if bytes > PROPERTIES_BYTES_MAX {
            return Err(EncodeError::PropertiesTooLong { bytes });
        }
        self.encoded.push(length);
        self.encoded.extend_from_slice(name.as_bytes());
        write_scalar(&mut self.encoded, value)?;
        let bytes = self.encoded.len();
        if bytes > PROPERTIES_BYTES_MAX {
            self.encoded.truncate(start);
            return Err(EncodeError::PropertiesTooLong { bytes });
        }
        self.count += 1;
        Ok(())
    }

    /// What was written, for [`Outgoing::properties`](crate::Outgoing::properties).
    #[inline]
    pub fn properties(&self) -> Properties<'_> {
        Properties { encoded: &self.encoded }
    }
}
