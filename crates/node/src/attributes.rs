//! A message as selectors see it: header fields by their JMS names, and properties, read in place.

use std::cell::OnceCell;

use shoal_selector::{Attributes, Value};
use shoal_wire::{HeaderFields, MessageId, MessageView, Scalar, Typed};

/// What the message itself does not carry.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Who published it; 0 if not known.
    pub publisher: u64,
    /// His chain.
    pub chain: u32,
    /// Its number in that chain; 0 if not known.
    pub number: u64,
    /// When it was published, microseconds since 1970; 0 if not known.
    pub timestamp_us: u64,
    /// The node that sent it here.
    pub node: u32,
}

impl Origin {
    /// The message's identity, as JMS writes it; `None` if it is not known.
    pub fn message_id(&self) -> Option<String> {
        let Origin { publisher, chain, number, .. } = *self;
        (publisher > 0 && number > 0).then(|| MessageId { publisher, chain, number }.to_string())
    }
}

/// The attributes of one message.
pub struct MessageAttributes<'a> {
    view: &'a MessageView<'a>,
    origin: &'a Origin,
    fields: OnceCell<HeaderFields<'a>>,
    message_id: OnceCell<Option<String>>,
}

impl<'a> MessageAttributes<'a> {
    /// A message that was parsed, and what else is known of it.
    pub fn new(view: &'a MessageView<'a>, origin: &'a Origin) -> MessageAttributes<'a> {
        MessageAttributes { view, origin, fields: OnceCell::new(), message_id: OnceCell::new() }
    }

    /// Header fields that cannot be read count as absent.
    fn fields(&self) -> &HeaderFields<'a> {
        self.fields.get_or_init(|| self.view.fields().unwrap_or_default())
    }

    /// The correlation id, if it is text.
    pub fn correlation_id(&self) -> Option<&str> {
        self.fields().correlation_id.and_then(|id| std::str::from_utf8(id).ok())
    }

    fn header(&self, name: &str) -> Value<'_> {
        let text = |text: Option<&'a str>| text.map_or(Value::Null, Value::Str);
        match name {
            "JMSPriority" => Value::Int(self.view.priority().get().into()),
            "JMSDeliveryMode" => {
                Value::Str(if self.view.is_persistent() { "PERSISTENT" } else { "NON_PERSISTENT" })
            }
            "JMSTimestamp" => match self.fields().timestamp_us.unwrap_or(self.origin.timestamp_us) {
                0 => Value::Null,
                timestamp_us => Value::Long((timestamp_us / 1000) as i64),
            },
            "JMSCorrelationID" => self.correlation_id().map_or(Value::Null, Value::Str),
            "JMSType" => text(self.fields().message_type),
            "JMSMessageID" => {
                let passed_on = || self.fields().origin.map(|id| id.to_string());
                let id = self.message_id.get_or_init(|| passed_on().or_else(|| self.origin.message_id()));
                id.as_deref().map_or(Value::Null, Value::Str)
            }
            _ => Value::Null,
        }
    }
}

fn value_of(scalar: Scalar<'_>) -> Value<'_> {
    match scalar {
        Scalar::Null | Scalar::Bytes(_) => Value::Null,
        Scalar::Bool(flag) => Value::Bool(flag),
        Scalar::Int(number) => Value::Long(number),
        Scalar::UInt(number) => Value::Double(number as f64),
        Scalar::F32(number) => Value::Float(number),
        Scalar::F64(number) => Value::Double(number),
        Scalar::Str(text) => Value::Str(text),
        Scalar::Typed(Typed::Byte(number)) => Value::Int(number.into()),
        Scalar::Typed(Typed::Short(number)) => Value::Int(number.into()),
        Scalar::Typed(Typed::Int(number)) => Value::Int(number),
        Scalar::Typed(Typed::Long(number)) => Value::Long(number),
        // A message cannot have a char as a property; selectors have no such type.
        Scalar::Typed(Typed::Char(_)) => Value::Null,
    }
}

impl Attributes for MessageAttributes<'_> {
    #[inline]
    fn get(&self, name: &str) -> Value<'_> {
        // Only names of header fields begin so, and those of properties that are not theirs.
        if name.starts_with("JMS") && shoal_selector::HEADER_NAMES.contains(&name) {
            return self.header(name);
        }
        self.view.properties().get(name).ok().flatten().map_or(Value::Null, value_of)
    }

    fn visit<'b>(&'b self, visitor: &mut dyn FnMut(&'b str, Value<'b>)) {
        for name in shoal_selector::HEADER_NAMES {
            let value = self.header(name);
            if value != Value::Null {
                visitor(name, value);
            }
        }
        for (name, scalar) in self.view.properties().iter().flatten() {
            let value = value_of(scalar);
            if value != Value::Null {
                visitor(name, value);
            }
        }
    }
}
