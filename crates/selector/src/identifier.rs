//! What a name in a selector may look like: Java identifiers, and the rules for names that begin with `JMS`.

use unicode_general_category::{GeneralCategory as Category, get_general_category};

use crate::lexer::keyword;

/// The message header fields that a selector may refer to.
pub const HEADER_NAMES: [&str; 6] =
    ["JMSCorrelationID", "JMSDeliveryMode", "JMSMessageID", "JMSPriority", "JMSTimestamp", "JMSType"];

/// `Character.isJavaIdentifierStart`.
pub(crate) fn is_start(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphabetic() || c == '_' || c == '$';
    }
    matches!(
        get_general_category(c),
        Category::UppercaseLetter
            | Category::LowercaseLetter
            | Category::TitlecaseLetter
            | Category::ModifierLetter
            | Category::OtherLetter
            | Category::LetterNumber
            | Category::CurrencySymbol
            | Category::ConnectorPunctuation
    )
}

/// `Character.isJavaIdentifierPart`.
pub(crate) fn is_part(c: char) -> bool {
    is_start(c)
        || c.is_ascii_digit()
        || matches!(c, '\0'..='\u{8}' | '\u{e}'..='\u{1b}' | '\u{7f}'..='\u{9f}')
        || (!c.is_ascii()
            && matches!(
                get_general_category(c),
                Category::DecimalNumber | Category::SpacingMark | Category::NonspacingMark | Category::Format
            ))
}

/// Why `name` may not be used, if it may not. A name is checked as a whole; the lexer has found its end
/// already.
pub(crate) fn reserved_problem(name: &str) -> Option<String> {
    let reserved = name.starts_with("JMS")
        && !name.starts_with("JMSX")
        && !name.starts_with("JMS_")
        && !HEADER_NAMES.contains(&name);
    reserved.then(|| format!("one of the header fields {}, or a property", HEADER_NAMES.join(", ")))
}

/// Whether `name` is an identifier that a selector may contain, reserved words aside.
pub(crate) fn is_valid(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(is_start) && chars.all(is_part) && reserved_problem(name).is_none()
}

/// Whether a message may have a property of this name: one that a selector can ask for.
pub fn is_property_name(name: &str) -> bool {
    is_valid(name) && keyword(name).is_none() && !HEADER_NAMES.contains(&name)
}
