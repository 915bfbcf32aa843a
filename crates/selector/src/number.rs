//! Numbers and what Java does with them: literals, numeric promotion, arithmetic, comparison.

use std::cmp::Ordering;

/// A number of one of the four types that Java computes with; `byte` and `short` are promoted to `int` on
/// sight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// `int`
    Int(i32),
    /// `long`
    Long(i64),
    /// `float`
    Float(f32),
    /// `double`
    Double(f64),
}

/// An arithmetic operator between two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ArithmeticOp {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
}

/// Two numbers after binary numeric promotion.
enum Promoted {
    Int(i32, i32),
    Long(i64, i64),
    Float(f32, f32),
    Double(f64, f64),
}

fn promote(left: Number, right: Number) -> Promoted {
    match (left, right) {
        (Number::Double(a), b) => Promoted::Double(a, b.to_double()),
        (a, Number::Double(b)) => Promoted::Double(a.to_double(), b),
        (Number::Float(a), b) => Promoted::Float(a, b.to_float()),
        (a, Number::Float(b)) => Promoted::Float(a.to_float(), b),
        (Number::Int(a), Number::Int(b)) => Promoted::Int(a, b),
        (Number::Long(a), Number::Int(b)) => Promoted::Long(a, b.into()),
        (Number::Int(a), Number::Long(b)) => Promoted::Long(a.into(), b),
        (Number::Long(a), Number::Long(b)) => Promoted::Long(a, b),
    }
}

impl Number {
    fn to_double(self) -> f64 {
        match self {
            Self::Int(v) => v.into(),
            Self::Long(v) => v as f64,
            Self::Float(v) => v.into(),
            Self::Double(v) => v,
        }
    }

    fn to_float(self) -> f32 {
        match self {
            Self::Int(v) => v as f32,
            Self::Long(v) => v as f32,
            Self::Float(v) => v,
            Self::Double(v) => v as f32,
        }
    }

    /// How the two compare; `None` when one is not a number (NaN).
    pub fn compare(self, other: Self) -> Option<Ordering> {
        match promote(self, other) {
            Promoted::Int(a, b) => Some(a.cmp(&b)),
            Promoted::Long(a, b) => Some(a.cmp(&b)),
            Promoted::Float(a, b) => a.partial_cmp(&b),
            Promoted::Double(a, b) => a.partial_cmp(&b),
        }
    }

    /// The result of `self op other`; `None` for a whole number divided by zero, which Java refuses.
    pub fn combine(self, op: ArithmeticOp, other: Self) -> Option<Self> {
        use ArithmeticOp::{Add, Divide, Multiply, Subtract};
        Some(match promote(self, other) {
            Promoted::Int(a, b) => Self::Int(match op {
                Add => a.wrapping_add(b),
                Subtract => a.wrapping_sub(b),
                Multiply => a.wrapping_mul(b),
                Divide if b == 0 => return None,
                Divide => a.wrapping_div(b),
            }),
            Promoted::Long(a, b) => Self::Long(match op {
                Add => a.wrapping_add(b),
                Subtract => a.wrapping_sub(b),
                Multiply => a.wrapping_mul(b),
                Divide if b == 0 => return None,
                Divide => a.wrapping_div(b),
            }),
            Promoted::Float(a, b) => Self::Float(match op {
                Add => a + b,
                Subtract => a - b,
                Multiply => a * b,
                Divide => a / b,
            }),
            Promoted::Double(a, b) => Self::Double(match op {
                Add => a + b,
                Subtract => a - b,
                Multiply => a * b,
                Divide => a / b,
            }),
        })
    }

    /// Unary minus.
    #[must_use]
    pub fn negate(self) -> Self {
        match self {
            Self::Int(v) => Self::Int(v.wrapping_neg()),
            Self::Long(v) => Self::Long(v.wrapping_neg()),
            Self::Float(v) => Self::Float(-v),
            Self::Double(v) => Self::Double(-v),
        }
    }

    /// Whether a literal can stand for it: infinities and NaN have none.
    pub(crate) fn is_finite(self) -> bool {
        match self {
            Self::Int(_) | Self::Long(_) => true,
            Self::Float(v) => v.is_finite(),
            Self::Double(v) => v.is_finite(),
        }
    }
}

/// A numeric literal before its sign is known: `9223372036854775808` is valid only behind a minus.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum NumberToken {
    /// Decimal digits without a suffix.
    Decimal(u64),
    /// Decimal digits with the suffix `L`.
    DecimalLong(u64),
    /// Every other form has its value already.
    Fixed(Number),
}

impl NumberToken {
    /// The value, or `None` when it does not fit a `long`.
    pub(crate) fn value(self, negative: bool) -> Option<Number> {
        let signed = |magnitude: u64| {
            if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
        };
        match self {
            Self::Decimal(magnitude) => {
                let value = signed(magnitude)?;
                Some(i32::try_from(value).map_or(Number::Long(value), Number::Int))
            }
            Self::DecimalLong(magnitude) => signed(magnitude).map(Number::Long),
            Self::Fixed(number) => Some(if negative { number.negate() } else { number }),
        }
    }
}

/// Why digits are not a number: what was found and what was expected.
pub(crate) type NumberProblem = (&'static str, &'static str);

const MISPLACED_UNDERSCORE: NumberProblem = ("a misplaced '_'", "'_' only between digits");
const NOT_A_LONG: NumberProblem = ("a number that is too large", "a number in the range of long");
const NOT_A_DOUBLE: NumberProblem =
    ("a number that is too large or too small", "a number in the range of its floating-point type");

/// Reads the Java numeric literal at the start of `text`, which begins with a digit or with a point and a
/// digit. Returns the literal and its length in bytes.
pub(crate) fn read(text: &str) -> Result<(NumberToken, usize), NumberProblem> {
    let bytes = text.as_bytes();
    match bytes.get(1).map(u8::to_ascii_lowercase) {
        Some(b'x') if bytes[0] == b'0' => read_hexadecimal(text),
        Some(b'b') if bytes[0] == b'0' => {
            let (digits, end) = read_digits(text, 2, 2)?;
            if digits.is_empty() {
                return Err(("'0b' without digits", "binary digits"));
            }
            finish_radix(text, &digits, 2, end)
        }
        _ => read_decimal(text),
    }
}

/// The digits of `text` from `start`, without their underscores, and where they end.
fn read_digits(text: &str, start: usize, radix: u32) -> Result<(String, usize), NumberProblem> {
    let run = text[start..].find(|c: char| !c.is_digit(radix) && c != '_').unwrap_or(text.len() - start);
    let raw = &text[start..start + run];
    if raw.starts_with('_') || raw.ends_with('_') {
        return Err(MISPLACED_UNDERSCORE);
    }
    Ok((raw.replace('_', ""), start + run))
}

fn suffix(text: &str, at: usize) -> Option<u8> {
    text.as_bytes().get(at).map(u8::to_ascii_lowercase)
}

/// Hexadecimal, octal and binary literals are bit patterns, as in Java: `0xFFFFFFFF` is the `int` -1.
fn finish_radix(
    text: &str,
    digits: &str,
    radix: u32,
    end: usize,
) -> Result<(NumberToken, usize), NumberProblem> {
    let bits = u64::from_str_radix(digits, radix).map_err(|_| NOT_A_LONG)?;
    if suffix(text, end) == Some(b'l') {
        return Ok((NumberToken::Fixed(Number::Long(bits as i64)), end + 1));
    }
    let number = match u32::try_from(bits) {
        Ok(bits) => Number::Int(bits as i32),
        Err(_) => Number::Long(bits as i64),
    };
    Ok((NumberToken::Fixed(number), end))
}

fn read_decimal(text: &str) -> Result<(NumberToken, usize), NumberProblem> {
    let (whole, mut end) = read_digits(text, 0, 10)?;
    let mut literal = whole.clone();
    let mut approximate = false;
    if suffix(text, end) == Some(b'.') {
        let (fraction, after) = read_digits(text, end + 1, 10)?;
        literal = format!("{literal}.{fraction}");
        (end, approximate) = (after, true);
    }
    if suffix(text, end) == Some(b'e') {
        let (exponent, after) = read_exponent(text, end + 1)?;
        literal = format!("{literal}e{exponent}");
        (end, approximate) = (after, true);
    }
    match suffix(text, end) {
        Some(b'f') => Ok((NumberToken::Fixed(Number::Float(parse_float(&literal)?)), end + 1)),
        Some(b'd') => Ok((NumberToken::Fixed(Number::Double(parse_double(&literal)?)), end + 1)),
        _ if approximate => Ok((NumberToken::Fixed(Number::Double(parse_double(&literal)?)), end)),
        long => {
            if whole.len() > 1 && whole.starts_with('0') {
                if whole.contains(['8', '9']) {
                    return Err(("a digit that is not octal", "digits 0 to 7 after a leading 0"));
                }
                return finish_radix(text, &whole, 8, end);
            }
            let magnitude = whole.parse::<u64>().map_err(|_| NOT_A_LONG)?;
            Ok(if long == Some(b'l') {
                (NumberToken::DecimalLong(magnitude), end + 1)
            } else {
                (NumberToken::Decimal(magnitude), end)
            })
        }
    }
}

/// An optional sign and decimal digits.
fn read_exponent(text: &str, start: usize) -> Result<(String, usize), NumberProblem> {
    let sign = &text[start..start + usize::from(matches!(suffix(text, start), Some(b'+' | b'-')))];
    let (digits, end) = read_digits(text, start + sign.len(), 10)?;
    if digits.is_empty() {
        return Err(("an exponent without digits", "digits of the exponent"));
    }
    Ok((format!("{sign}{digits}"), end))
}

fn has_significant_digit(literal: &str) -> bool {
    literal.split('e').next().is_some_and(|mantissa| mantissa.contains(|c: char| ('1'..='9').contains(&c)))
}

fn parse_double(literal: &str) -> Result<f64, NumberProblem> {
    let value: f64 = literal.parse().map_err(|_| NOT_A_DOUBLE)?;
    if value.is_infinite() || (value == 0.0 && has_significant_digit(literal)) {
        return Err(NOT_A_DOUBLE);
    }
    Ok(value)
}

fn parse_float(literal: &str) -> Result<f32, NumberProblem> {
    let value: f32 = literal.parse().map_err(|_| NOT_A_DOUBLE)?;
    if value.is_infinite() || (value == 0.0 && has_significant_digit(literal)) {
        return Err(NOT_A_DOUBLE);
    }
    Ok(value)
}

fn read_hexadecimal(text: &str) -> Result<(NumberToken, usize), NumberProblem> {
    let (whole, mut end) = read_digits(text, 2, 16)?;
    let mut fraction = String::new();
    let pointed = suffix(text, end) == Some(b'.');
    if pointed {
        (fraction, end) = read_digits(text, end + 1, 16)?;
    }
    if whole.is_empty() && fraction.is_empty() {
        return Err(("'0x' without digits", "hexadecimal digits"));
    }
    if suffix(text, end) != Some(b'p') {
        if pointed {
            return Err(("a hexadecimal fraction without exponent", "a binary exponent such as p0"));
        }
        return finish_radix(text, &whole, 16, end);
    }
    let (exponent, end) = read_exponent(text, end + 1)?;
    let value = hexadecimal_value(&whole, &fraction, &exponent)?;
    match suffix(text, end) {
        Some(b'f') => {
            let float = value as f32;
            if float.is_infinite() || (float == 0.0 && value != 0.0) {
                return Err(NOT_A_DOUBLE);
            }
            Ok((NumberToken::Fixed(Number::Float(float)), end + 1))
        }
        Some(b'd') => Ok((NumberToken::Fixed(Number::Double(value)), end + 1)),
        _ => Ok((NumberToken::Fixed(Number::Double(value)), end)),
    }
}

/// How many hexadecimal digits a machine word holds.
const WORD_DIGITS: usize = 16;

fn hexadecimal_value(whole: &str, fraction: &str, exponent: &str) -> Result<f64, NumberProblem> {
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Ok(0.0);
    }
    let (kept, dropped) = digits.split_at(digits.len().min(WORD_DIGITS));
    let mut mantissa = u64::from_str_radix(kept, 16).map_err(|_| NOT_A_DOUBLE)?;
    if dropped.contains(|digit| digit != '0') {
        // Enough for rounding to know that the value lies above the digits that are kept.
        mantissa |= 1;
    }
    let exponent: i64 = exponent.parse().map_err(|_| NOT_A_DOUBLE)?;
    let scale = exponent
        .checked_add(4 * (dropped.len() as i64 - fraction.len() as i64))
        .filter(|scale| (-1200..1100).contains(scale))
        .ok_or(NOT_A_DOUBLE)?;
    // Two steps, so that a subnormal result is not lost to an underflowing factor.
    let half = (scale / 2) as i32;
    let value = mantissa as f64 * 2f64.powi(half) * 2f64.powi(scale as i32 - half);
    if value.is_infinite() || value == 0.0 { Err(NOT_A_DOUBLE) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> Option<Number> {
        let (token, length) = read(text).ok()?;
        (length == text.len()).then(|| token.value(false))?
    }

    #[test]
    fn every_java_integer_form_is_read() {
        assert_eq!(literal("57"), Some(Number::Int(57)));
        assert_eq!(literal("57L"), Some(Number::Long(57)));
        assert_eq!(literal("2147483648"), Some(Number::Long(2_147_483_648)));
        assert_eq!(literal("1_000"), Some(Number::Int(1000)));
        assert_eq!(literal("0x1F"), Some(Number::Int(31)));
        assert_eq!(literal("0xFFFFFFFF"), Some(Number::Int(-1)));
        assert_eq!(literal("0xFFFFFFFFl"), Some(Number::Long(0xFFFF_FFFF)));
        assert_eq!(literal("017"), Some(Number::Int(15)));
        assert_eq!(literal("0b101"), Some(Number::Int(5)));
        assert_eq!(literal("0"), Some(Number::Int(0)));
    }

    #[test]
    fn every_java_floating_point_form_is_read() {
        for (text, value) in [
            ("7.", 7.0),
            (".5", 0.5),
            ("7E3", 7000.0),
            ("57.9e2", 5790.0),
            ("1e-2", 0.01),
            ("6.2d", 6.2),
            ("3D", 3.0),
            ("09.5", 9.5),
            ("0x1.8p1", 3.0),
            ("0x10p-4", 1.0),
            ("0x.8p0", 0.5),
            ("0x1.fffffffffffffp1023", f64::MAX),
            ("0x1p-1074", 5e-324),
            ("0x1.00000000000000000001p0", 1.0),
            ("0x1.00000000000008000001p0", 1.0f64.next_up()),
        ] {
            assert_eq!(literal(text), Some(Number::Double(value)), "{text}");
        }
        assert_eq!(literal("1.5f"), Some(Number::Float(1.5)));
        assert_eq!(literal("2F"), Some(Number::Float(2.0)));
    }

    #[test]
    fn what_java_refuses_is_refused() {
        for text in [
            "1e",
            "0x",
            "0b",
            "08",
            "1__",
            "1_.5",
            "1e400",
            "1e-400",
            "1e40f",
            "0x1.8",
            "99999999999999999999",
        ] {
            assert_eq!(literal(text), None, "{text}");
        }
    }

    #[test]
    fn the_smallest_long_needs_its_minus() {
        let (token, _) = read("9223372036854775808").unwrap();
        assert_eq!(token.value(false), None);
        assert_eq!(token.value(true), Some(Number::Long(i64::MIN)));
    }

    #[test]
    fn arithmetic_promotes_and_wraps_as_java_does() {
        use ArithmeticOp::{Add, Divide, Multiply};
        let int = Number::Int;
        assert_eq!(int(i32::MAX).combine(Add, int(1)), Some(int(i32::MIN)));
        assert_eq!(int(i32::MAX).combine(Add, Number::Long(1)), Some(Number::Long(2_147_483_648)));
        assert_eq!(int(7).combine(Divide, int(2)), Some(int(3)));
        assert_eq!(int(-7).combine(Divide, int(2)), Some(int(-3)));
        assert_eq!(int(i32::MIN).combine(Divide, int(-1)), Some(int(i32::MIN)));
        assert_eq!(int(1).combine(Divide, int(0)), None);
        assert_eq!(int(7).combine(Divide, Number::Double(2.0)), Some(Number::Double(3.5)));
        assert_eq!(Number::Long(3).combine(Multiply, Number::Float(0.5)), Some(Number::Float(1.5)));
    }

    #[test]
    fn comparison_promotes_to_the_wider_type() {
        assert_eq!(Number::Int(16_777_217).compare(Number::Float(16_777_216.0)), Some(Ordering::Equal));
        assert_eq!(Number::Int(16_777_217).compare(Number::Double(16_777_216.0)), Some(Ordering::Greater));
        let odd = Number::Long(9_007_199_254_740_993);
        assert_eq!(odd.compare(Number::Double(9_007_199_254_740_992.0)), Some(Ordering::Equal));
        assert_eq!(odd.compare(Number::Long(9_007_199_254_740_992)), Some(Ordering::Greater));
        assert_eq!(Number::Double(f64::NAN).compare(Number::Int(1)), None);
    }
}
