//! Jakarta Messaging 3.1, section 3.8, rule by rule.

use shoal_selector::{Selector, SelectorError, Value};

type Attribute = (&'static str, Value<'static>);

fn matches(selector: &str, message: &[Attribute]) -> bool {
    Selector::parse(selector).unwrap_or_else(|error| panic!("{selector}\n{error}")).matches(message)
}

fn refusal(selector: &str) -> SelectorError {
    match Selector::parse(selector) {
        Ok(parsed) => panic!("{selector} was accepted as {parsed}"),
        Err(error) => error,
    }
}

fn canonical(selector: &str) -> String {
    Selector::parse(selector).unwrap().to_string()
}

const X: &str = "x";

mod literals {
    use super::*;

    #[test]
    fn a_doubled_quote_stands_for_one() {
        assert!(matches("x = 'literal''s'", &[(X, Value::Str("literal's"))]));
        assert!(matches("x = ''", &[(X, Value::Str(""))]));
    }

    #[test]
    fn exact_literals_have_the_java_forms() {
        for text in ["57", "+57", "57L", "0x39", "071", "0b11_1001", "5_7"] {
            assert!(matches(&format!("x = {text}"), &[(X, Value::Long(57))]), "{text}");
        }
        assert!(matches("x = -957", &[(X, Value::Short(-957))]));
        assert!(matches("x = -9223372036854775808", &[(X, Value::Long(i64::MIN))]));
    }

    #[test]
    fn approximate_literals_have_the_java_forms() {
        for text in ["7E3", "7e3", "7000.", "+7000.0", "70.E2", "7000d", "7000f", "0x1B58p0"] {
            assert!(matches(&format!("x = {text}"), &[(X, Value::Double(7000.0))]), "{text}");
        }
        assert!(matches("x = -57.9E2", &[(X, Value::Double(-5790.0))]));
    }

    #[test]
    fn literals_out_of_range_are_refused() {
        assert_eq!(refusal("x = 9223372036854775808").expected, "a number in the range of long");
        assert_eq!(refusal("x = 1e999").position, 4);
        refusal("x = 99999999999999999999");
    }

    #[test]
    fn boolean_literals_are_case_insensitive() {
        assert!(matches("x = TRUE AND True AND NOT fAlSe", &[(X, Value::Bool(true))]));
    }
}

mod identifiers {
    use super::*;

    #[test]
    fn java_identifiers_are_accepted() {
        for name in ["_", "$", "a1", "größe", "価格", "€", "a_b$c", "a\u{301}", "NULLS", "android", "trueish"]
        {
            assert!(Selector::parse(&format!("{name} = 1")).is_ok(), "{name}");
        }
    }

    #[test]
    fn reserved_words_in_any_case_are_not_identifiers() {
        for word in ["NULL", "TRUE", "false", "Not", "AND", "or", "BETWEEN", "Like", "IN", "is", "ESCAPE"] {
            assert!(Selector::parse(&format!("x = 1 AND {word} > 1")).is_err(), "{word}");
        }
    }

    #[test]
    fn identifiers_are_case_sensitive() {
        assert!(!matches("X = 1", &[(X, Value::Int(1))]));
        assert!(matches("X IS NULL", &[(X, Value::Int(1))]));
    }

    #[test]
    fn only_six_header_fields_may_be_used() {
        for name in
            ["JMSDeliveryMode", "JMSPriority", "JMSMessageID", "JMSTimestamp", "JMSCorrelationID", "JMSType"]
        {
            assert!(Selector::parse(&format!("{name} IS NOT NULL")).is_ok(), "{name}");
        }
        for name in
            ["JMSDestination", "JMSReplyTo", "JMSExpiration", "JMSRedelivered", "JMSDeliveryTime", "JMS"]
        {
            assert!(refusal(&format!("{name} IS NOT NULL")).found.contains(name), "{name}");
        }
    }

    #[test]
    fn names_beginning_with_jmsx_or_jms_underscore_are_properties() {
        assert!(matches(
            "JMSXGroupID = 'g' AND JMS_Shoal_x = 1",
            &[("JMSXGroupID", Value::Str("g")), ("JMS_Shoal_x", Value::Int(1)),]
        ));
    }

    #[test]
    fn a_property_keeps_the_type_it_was_set_with() {
        assert!(!matches("NumberOfOrders > 1", &[("NumberOfOrders", Value::Str("2"))]));
    }
}

mod expressions {
    use super::*;

    #[test]
    fn the_empty_selector_matches_everything_and_blanks_are_no_condition() {
        assert!(matches("", &[]));
        assert_eq!(refusal("  ").found, "the end of the selector");
    }

    #[test]
    fn java_whitespace_separates_and_other_spaces_do_not() {
        assert!(matches("\t\u{c}x\r\n=\n1 ", &[(X, Value::Int(1))]));
        refusal("x\u{a0}= 1");
        refusal("x\u{b}= 1");
    }

    #[test]
    fn not_binds_tighter_than_and_which_binds_tighter_than_or() {
        let message = [("t", Value::Bool(true)), ("f", Value::Bool(false))];
        assert!(matches("t OR f AND f", &message));
        assert!(!matches("(t OR f) AND f", &message));
        assert!(!matches("NOT t AND f", &message));
        assert!(matches("NOT f AND t", &message));
        assert!(matches("NOT t = f", &message));
    }

    #[test]
    fn products_bind_tighter_than_sums_and_both_group_from_the_left() {
        let message = [(X, Value::Int(2))];
        assert!(matches("x + 3 * 4 = 14", &message));
        assert!(matches("(x + 3) * 4 = 20", &message));
        assert!(matches("10 - 5 - x = 3", &message));
        assert!(matches("16 / 4 / x = 2", &message));
        assert!(matches("-x + 5 = 3", &message));
        assert!(matches("x --1 = 3", &message));
    }

    #[test]
    fn a_selector_must_be_a_condition() {
        for text in ["5", "'text'", "x + 1", "x AND 5", "NOT 'a'", "x OR y + 1"] {
            assert_eq!(refusal(text).expected, "a condition", "{text}");
        }
    }

    #[test]
    fn a_boolean_property_is_a_condition() {
        assert!(matches("x", &[(X, Value::Bool(true))]));
        assert!(!matches("x", &[(X, Value::Bool(false))]));
        assert!(!matches("x", &[(X, Value::Int(1))]));
        assert!(!matches("x", &[]) && !matches("NOT x", &[]));
    }

    #[test]
    fn sql_comments_are_not_supported() {
        refusal("x = 1 -- a comment");
        refusal("x = 1 /* comment */");
    }
}

mod comparisons {
    use super::*;

    #[test]
    fn exact_and_approximate_numbers_compare_by_promotion() {
        assert!(matches("x = 1.0", &[(X, Value::Byte(1))]));
        assert!(matches("x > 1", &[(X, Value::Float(1.5))]));
        assert!(matches("x = 16777217", &[(X, Value::Float(16_777_216.0))]));
        assert!(!matches("x = 16777217", &[(X, Value::Double(16_777_216.0))]));
    }

    #[test]
    fn comparing_different_types_is_false_even_for_unequal() {
        let message = [(X, Value::Str("1"))];
        assert!(!matches("x = 1", &message) && !matches("x <> 1", &message));
        assert!(matches("NOT x = 1", &message) && matches("NOT x <> 1", &message));
    }

    #[test]
    fn comparing_literals_of_different_types_is_refused() {
        for text in ["TRUE = 0", "'a' <> 5", "1.5 = 'x'", "(0) = (FALSE)", "x = 1 OR 'TRUE' = TRUE"] {
            refusal(text);
        }
        assert!(matches("1 = 1.0 AND 'a' = 'a' AND TRUE <> FALSE", &[]), "equal types are fine");
        assert!(!matches("(x IS NULL) = 5", &[]), "a condition is no literal");
    }

    #[test]
    fn strings_and_booleans_have_no_order() {
        for text in ["x > 'a'", "'a' <= x", "x < TRUE", "(x = 1) > y", "TRUE >= FALSE"] {
            assert!(refusal(text).expected.contains("number"), "{text}");
        }
        assert!(!matches("x < y", &[(X, Value::Str("a")), ("y", Value::Str("b"))]));
    }

    #[test]
    fn strings_are_equal_only_character_by_character() {
        assert!(!matches("x = 'abc'", &[(X, Value::Str("ABC"))]));
        assert!(!matches("x = 'abc'", &[(X, Value::Str("abc "))]));
    }

    #[test]
    fn not_a_number_is_equal_to_nothing() {
        let message = [(X, Value::Double(f64::NAN))];
        assert!(
            !matches("x = x", &message)
                && matches("x <> x", &message)
                && !matches("x < 1 OR x >= 1", &message)
        );
    }
}

mod arithmetic {
    use super::*;

    #[test]
    fn it_wraps_and_truncates_in_the_promoted_type() {
        assert!(matches("x + 1 < 0", &[(X, Value::Int(i32::MAX))]));
        assert!(matches("x + 1L > 0", &[(X, Value::Int(i32::MAX))]));
        assert!(matches("x / 2 = 3", &[(X, Value::Int(7))]));
        assert!(matches("x / 2.0 = 3.5", &[(X, Value::Int(7))]));
    }

    #[test]
    fn division_of_whole_numbers_by_zero_is_unknown() {
        let message = [(X, Value::Int(0))];
        assert!(!matches("1 / x = 1", &message) && !matches("NOT 1 / x = 1", &message));
        assert!(matches("1.0 / x > 1e300", &message));
    }

    #[test]
    fn over_something_that_is_no_number_every_comparison_is_false() {
        let message = [(X, Value::Str("2"))];
        assert!(!matches("x + 1 > 1", &message) && matches("NOT x + 1 > 1", &message));
        assert!(!matches("+x = '2'", &message));
    }

    #[test]
    fn string_and_boolean_literals_do_not_compute() {
        for text in ["x + 'a' = 1", "TRUE * 2 = 2", "-'a' = 1", "-(x = 1) = 2"] {
            refusal(text);
        }
    }
}

mod between {
    use super::*;

    #[test]
    fn both_ends_belong_to_the_range() {
        let age = |value| [("age", Value::Int(value))];
        for (value, inside) in [(14, false), (15, true), (19, true), (20, false)] {
            assert_eq!(matches("age BETWEEN 15 AND 19", &age(value)), inside);
            assert_eq!(matches("age NOT BETWEEN 15 AND 19", &age(value)), !inside);
        }
    }

    #[test]
    fn its_and_is_not_the_logical_one() {
        assert!(matches("x BETWEEN 1 AND 2 + 1 AND y = 5", &[(X, Value::Int(3)), ("y", Value::Int(5))]));
    }

    #[test]
    fn it_means_exactly_its_two_comparisons() {
        // NOT BETWEEN is a disjunction of comparisons, not a negation: a string is neither inside nor
        // outside.
        let message = [(X, Value::Str("a"))];
        assert!(!matches("x BETWEEN 1 AND 2", &message) && !matches("x NOT BETWEEN 1 AND 2", &message));
        assert!(matches("NOT x BETWEEN 1 AND 2", &message));
        assert_eq!(canonical("age BETWEEN 15 AND 19"), canonical("19 >= age AND age >= 15"));
    }

    #[test]
    fn its_operands_are_arithmetic() {
        for text in
            ["x BETWEEN 'a' AND 'b'", "x BETWEEN 1 AND TRUE", "'a' BETWEEN 1 AND 2", "x BETWEEN 1 OR 2"]
        {
            refusal(text);
        }
    }
}

mod membership {
    use super::*;

    #[test]
    fn in_lists_strings() {
        let country = |text| [("Country", Value::Str(text))];
        assert!(matches("Country IN ('UK', 'US', 'France')", &country("UK")));
        assert!(!matches("Country IN ('UK', 'US', 'France')", &country("Peru")));
        assert!(!matches("Country NOT IN ('UK', 'US', 'France')", &country("UK")));
        assert!(matches("Country NOT IN ('UK', 'US', 'France')", &country("Peru")));
    }

    #[test]
    fn in_means_its_equalities() {
        assert_eq!(canonical("c IN ('b', 'a', 'b')"), canonical("c = 'a' OR 'b' = c"));
        assert_eq!(canonical("NOT c IN ('b', 'a')"), canonical("c NOT IN ('a', 'b')"));
        assert!(matches("NOT c = 'a'", &[("c", Value::Int(1))]), "NOT of an equality between types");
    }

    #[test]
    fn in_and_like_of_what_is_no_string_select_nothing_and_so_do_their_negations() {
        for value in [Value::Int(1), Value::Long(1), Value::Double(1.0), Value::Bool(true)] {
            let message = [("c", value)];
            assert!(!matches("c IN ('a', 'b')", &message) && !matches("c NOT IN ('a', 'b')", &message));
            assert!(!matches("c IN ('1')", &message) && !matches("c NOT IN ('1')", &message));
            assert!(
                !matches("NOT c IN ('a', 'b')", &message) && !matches("NOT c NOT IN ('a', 'b')", &message)
            );
            assert!(!matches("c LIKE '1%'", &message) && !matches("c NOT LIKE '1%'", &message));
            assert!(!matches("NOT c LIKE '1'", &message) && !matches("NOT c NOT LIKE '1'", &message));
        }
        assert_eq!(canonical("c NOT IN ('b', 'a')"), "c NOT IN ('a', 'b')");
        assert_eq!(canonical("NOT c LIKE 'a%'"), "c NOT LIKE 'a%'");
        assert_eq!(
            canonical("NOT c = 'a' AND c <> 'b' AND NOT c = 'd'"),
            canonical("(c IN ('a', 'd')) = FALSE AND c <> 'b'")
        );
    }

    #[test]
    fn in_of_null_is_unknown() {
        assert!(
            !matches("c IN ('a')", &[]) && !matches("c NOT IN ('a')", &[]) && !matches("NOT c IN ('a')", &[])
        );
    }

    #[test]
    fn in_takes_a_name_and_strings_only() {
        for text in [
            "x IN (1, 2)",
            "x IN ()",
            "x IN 'a'",
            "'a' IN ('a')",
            "5 IN ('a')",
            "x IN ('a',)",
            "(x) IN ('a')",
        ] {
            refusal(text);
        }
    }
}

mod patterns {
    use super::*;

    #[test]
    fn the_examples_of_the_specification_hold() {
        let phone = |text| [("phone", Value::Str(text))];
        for (text, fits) in [("123", true), ("12993", true), ("1234", false)] {
            assert_eq!(matches("phone LIKE '12%3'", &phone(text)), fits);
            assert_eq!(matches("phone NOT LIKE '12%3'", &phone(text)), !fits);
        }
        assert!(matches("word LIKE 'l_se'", &[("word", Value::Str("lose"))]));
        assert!(!matches("word LIKE 'l_se'", &[("word", Value::Str("loose"))]));
        assert!(matches(r"u LIKE '\_%' ESCAPE '\'", &[("u", Value::Str("_foo"))]));
        assert!(!matches(r"u LIKE '\_%' ESCAPE '\'", &[("u", Value::Str("bar"))]));
    }

    #[test]
    fn like_of_null_is_unknown_and_of_a_number_false() {
        assert!(!matches("x LIKE '%'", &[]) && !matches("x NOT LIKE '%'", &[]));
        assert!(!matches("x LIKE '1%'", &[(X, Value::Int(1))]));
    }

    #[test]
    fn like_takes_a_name_a_string_and_one_escape_character() {
        for text in ["x LIKE 5", "x LIKE y", "'a' LIKE 'a'", "x LIKE 'a' ESCAPE 'ab'", "x LIKE 'a' ESCAPE ''"]
        {
            refusal(text);
        }
        assert!(refusal("x LIKE 'a!' ESCAPE '!'").found.contains("escape character"));
    }
}

mod nulls {
    use super::*;

    #[test]
    fn is_null_asks_whether_the_attribute_is_there() {
        assert!(matches("x IS NULL", &[]) && !matches("x IS NOT NULL", &[]));
        assert!(
            !matches("x IS NULL", &[(X, Value::Int(0))]) && matches("x IS NOT NULL", &[(X, Value::Int(0))])
        );
        for text in ["5 IS NULL", "x + 1 IS NULL", "x IS 5", "x = NULL", "NULL IS NULL", "x IS NOT"] {
            refusal(text);
        }
    }

    #[test]
    fn unknown_follows_the_tables_of_three_valued_logic() {
        // T, F and U as conditions over a message that has neither `u` nor anything else.
        let (t, f, u) = ("TRUE", "FALSE", "u = 1");
        let value = |text: &str| match (matches(text, &[]), matches(&format!("NOT ({text})"), &[])) {
            (true, false) => 'T',
            (false, true) => 'F',
            (false, false) => 'U',
            (true, true) => panic!("{text} is both"),
        };
        let and = [
            (t, t, 'T'),
            (t, f, 'F'),
            (t, u, 'U'),
            (f, f, 'F'),
            (f, u, 'F'),
            (u, u, 'U'),
            (u, t, 'U'),
            (u, f, 'F'),
        ];
        for (a, b, expected) in and {
            assert_eq!(value(&format!("({a}) AND ({b})")), expected, "{a} AND {b}");
        }
        let or = [
            (t, t, 'T'),
            (t, f, 'T'),
            (t, u, 'T'),
            (f, f, 'F'),
            (f, u, 'U'),
            (u, u, 'U'),
            (u, t, 'T'),
            (u, f, 'U'),
        ];
        for (a, b, expected) in or {
            assert_eq!(value(&format!("({a}) OR ({b})")), expected, "{a} OR {b}");
        }
        assert_eq!((value(t), value(f), value(u)), ('T', 'F', 'U'));
    }

    #[test]
    fn arithmetic_with_null_is_null() {
        assert!(!matches("x + 1 = 1", &[]) && !matches("NOT x + 1 = 1", &[]) && !matches("-x = 0", &[]));
    }
}

mod canonical_form {
    use super::*;

    #[test]
    fn it_is_the_same_for_ways_of_writing_the_same() {
        for (a, b) in [
            ("a = 1 AND b = 2", "2 = b and (1 = a)"),
            ("a = 1 AND a = 1", "a = 1"),
            ("NOT (a = 1 OR b = 2)", "NOT a = 1 AND NOT b = 2"),
            ("NOT NOT x", "x = TRUE"),
            ("NOT x IS NULL", "x IS NOT NULL"),
            ("a > 5L", "a > 2 + 3"),
            ("x LIKE 'abc'", "x = 'abc'"),
            ("x LIKE 'a!%%' ESCAPE '!'", "x LIKE 'a/%%' ESCAPE '/'"),
            ("a = 1 AND TRUE", "a = 1 OR 1 = 2"),
            ("(a = 1) = TRUE", "a = 1"),
        ] {
            assert_eq!(canonical(a), canonical(b), "{a} and {b}");
        }
    }

    #[test]
    fn it_reads_like_a_selector() {
        assert_eq!(
            canonical("JMSType='car' and not(weight<=2500) and (color='red' or color='blue')"),
            "JMSType = 'car' AND NOT weight <= 2500 AND color IN ('blue', 'red')"
        );
        assert_eq!(canonical("a*(b+1)/-c > 2 or x is null"), "x IS NULL OR a * (b + 1) / -c > 2");
        assert_eq!(canonical("1 = 2"), "FALSE");
    }
}

mod errors {
    use super::*;

    #[test]
    fn they_say_where_what_was_found_and_what_was_expected() {
        let error = refusal("colour = 'red' AND weight >> 5");
        assert_eq!((error.position, error.found.as_str()), (27, ">"));
        assert_eq!(error.expected, "a name, a literal or '('");
        assert_eq!(error.caret(), "colour = 'red' AND weight >> 5\n                           ^");
    }

    #[test]
    fn positions_count_characters_not_bytes() {
        assert_eq!(refusal("größe = 'ü' AND ?").position, 16);
    }

    #[test]
    fn common_slips_get_their_own_hint() {
        assert_eq!(refusal("x = \"a\"").expected, "single quotes around a string");
        assert_eq!(refusal("x == 'a'").expected, "= for 'equal'");
        assert_eq!(refusal("x = 1 && y = 2").expected, "AND");
        assert_eq!(refusal("x = 1 || y = 2").expected, "OR");
        assert!(refusal("x != 1").expected.contains("<>"));
        assert!(refusal("x = 'abc").expected.contains("closing quote"));
        assert_eq!(refusal("(x = 1").expected, "an operator or ')'");
        assert_eq!(refusal("x = 1)").found, ")");
    }
}
