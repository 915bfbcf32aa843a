"""`shoal.Selector`, the typed values and correlation filters, as a program sees them."""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType

import pytest

import shoal
from shoal import Byte, CorrelationFilter, Double, Float, Int, InvalidSelectorError, Long, Selector, Short
from shoal.selector import PropertyValue


@dataclass(frozen=True)
class PlainMessage:
    properties: Mapping[str, PropertyValue] = field(default_factory=dict)
    priority: int = 4
    timestamp: float | None = None
    message_id: str | None = None
    correlation_id: str | bytes | None = None
    type: str | None = None


class TestMatching:
    def test_plain_python_values_are_compared_by_their_type(self) -> None:
        selector = Selector("colour = 'blue' AND weight > 2500 AND price < 10.5 AND urgent")
        assert selector.matches({"colour": "blue", "weight": 2501, "price": 9.99, "urgent": True})
        assert not selector.matches({"colour": "blue", "weight": "2501", "price": 9.99, "urgent": True})

    def test_an_absent_property_and_none_are_null(self) -> None:
        selector = Selector("x IS NULL")
        assert selector.matches({})
        assert selector.matches({"x": None})
        assert not selector.matches({"x": 0})

    def test_true_is_a_boolean_and_not_the_number_one(self) -> None:
        assert not Selector("x = 1").matches({"x": True})
        assert Selector("x = TRUE").matches({"x": True})

    def test_header_fields_come_from_the_headers_only(self) -> None:
        selector = Selector("JMSPriority >= 7")
        assert selector.matches({}, headers={"JMSPriority": 9})
        assert not selector.matches({"JMSPriority": 9})
        assert not selector.matches({}, headers={"JMSPriority": 1})

    def test_the_delivery_mode_is_a_string_and_may_be_given_as_a_number(self) -> None:
        class DeliveryMode(IntEnum):
            NON_PERSISTENT = 1
            PERSISTENT = 2

        selector = Selector("JMSDeliveryMode = 'PERSISTENT'")
        for mode in (2, DeliveryMode.PERSISTENT, "PERSISTENT"):
            assert selector.matches({}, headers={"JMSDeliveryMode": mode})
        assert not selector.matches({}, headers={"JMSDeliveryMode": 1})
        with pytest.raises(ValueError, match="JMSDeliveryMode is 3"):
            selector.matches({}, headers={"JMSDeliveryMode": 3})

    def test_a_message_brings_properties_and_headers_along(self) -> None:
        message = PlainMessage(properties={"x": 1}, type="car", timestamp=12.5, correlation_id="#7")
        selector = "x = 1 AND JMSType = 'car' AND JMSPriority = 4 AND JMSTimestamp = 12500"
        assert Selector(selector).matches(message)
        assert Selector("JMSCorrelationID = '#7' AND JMSMessageID IS NULL").matches(message)
        assert Selector("JMSDeliveryMode = 'NON_PERSISTENT'").matches(message)
        assert Selector("JMSCorrelationID IS NULL").matches(PlainMessage(correlation_id=b"7"))
        with pytest.raises(TypeError, match="brings its own header fields"):
            Selector("x = 1").matches(message, headers={})

    def test_any_mapping_will_do(self) -> None:
        assert Selector("x = 1").matches(MappingProxyType({"x": 1}))
        assert not Selector("x = 1").matches(MappingProxyType({}))

    def test_values_that_no_property_can_have_are_refused(self) -> None:
        with pytest.raises(TypeError, match="the value of x is list"):
            Selector("x = 1").matches({"x": [1]})  # type: ignore[dict-item]
        with pytest.raises(ValueError, match="does not fit a long"):
            Selector("x = 1").matches({"x": 2**63})

    def test_the_empty_selector_matches_everything(self) -> None:
        assert Selector("").matches({})


class TestTypedValues:
    def test_their_type_decides_how_arithmetic_promotes(self) -> None:
        selector = Selector("x + 1 < 0")
        assert selector.matches({"x": Int(2**31 - 1)})
        assert not selector.matches({"x": Long(2**31 - 1)})
        assert not selector.matches({"x": 2**31 - 1})
        assert Selector("x = 16777217").matches({"x": Float(16777216)})
        assert not Selector("x = 16777217").matches({"x": Double(16777216)})
        assert Selector("x + y = 300").matches({"x": Byte(100), "y": Short(200)})

    def test_they_are_the_numbers_they_hold(self) -> None:
        assert Byte(5) + 1 == 6
        assert Double(0.5) == 0.5
        assert repr(Short(-7)) == "Short(-7)"
        assert str(Int(3)) == "3"
        assert repr(Float(0.5)) == "Float(0.5)"

    @pytest.mark.parametrize(("kind", "bits"), [(Byte, 8), (Short, 16), (Int, 32), (Long, 64)])
    def test_integers_out_of_range_are_refused(self, kind: type[Byte], bits: int) -> None:
        limit = 2 ** (bits - 1)
        assert kind(-limit) == -limit
        assert kind(limit - 1) == limit - 1
        for value in (limit, -limit - 1):
            with pytest.raises(ValueError, match=f"does not fit a {kind.__name__}"):
                kind(value)

    def test_a_float_is_rounded_to_32_bits(self) -> None:
        assert Float(0.1) == 0.10000000149011612
        with pytest.raises(ValueError, match="does not fit a Float"):
            Float(1e39)


class TestErrors:
    def test_an_invalid_selector_says_where_and_why(self) -> None:
        with pytest.raises(InvalidSelectorError) as caught:
            Selector("colour = 'red' AND weight >> 5")
        error = caught.value
        assert error.position == 27
        assert error.found == ">"
        assert error.expected == "a name, a literal or '('"
        assert str(error).splitlines()[1:] == [
            "    colour = 'red' AND weight >> 5",
            "                               ^",
        ]

    def test_it_is_a_shoal_error_and_a_value_error(self) -> None:
        assert issubclass(InvalidSelectorError, shoal.ShoalError)
        assert issubclass(InvalidSelectorError, ValueError)

    def test_it_survives_pickling(self) -> None:
        with pytest.raises(InvalidSelectorError) as caught:
            Selector("x =")
        again = pickle.loads(pickle.dumps(caught.value))
        assert (again.position, str(again)) == (caught.value.position, str(caught.value))

    @pytest.mark.parametrize(
        "text",
        ["(" * 100_000, "a = 1 OR " * 200_000, "NOT " * 10_000 + "a"],
        ids=["deep", "megabyte", "nots"],
    )
    def test_deep_and_huge_selectors_are_refused(self, text: str) -> None:
        with pytest.raises(InvalidSelectorError, match="at most"):
            Selector(text)


class TestCanonicalForm:
    def test_str_gives_it_and_equality_goes_by_it(self) -> None:
        one, other = Selector("b = 2 AND 1 = a"), Selector("(a = 1) and b = 2")
        assert str(one) == str(other) == "a = 1 AND b = 2"
        assert one == other
        assert hash(one) == hash(other)
        assert one != Selector("a = 1")
        assert repr(one) == "Selector('a = 1 AND b = 2')"

    def test_names_are_what_it_mentions(self) -> None:
        assert Selector("b + a > 1 OR JMSType = 'x' OR a IS NULL").names == ("JMSType", "a", "b")

    def test_the_wire_form_and_pickling_bring_it_back(self) -> None:
        selector = Selector("a IN ('x', 'y') AND b BETWEEN 1 AND 2.5")
        assert Selector.decode(selector.encode()) == selector
        assert pickle.loads(pickle.dumps(selector)) == selector
        with pytest.raises(ValueError, match="ends too early"):
            Selector.decode(selector.encode()[:-1])

    def test_any_of_merges_selectors(self) -> None:
        merged = Selector.any_of([Selector("a = 'x'"), Selector("a = 'y'"), Selector("a = 'x'")])
        assert str(merged) == "a IN ('x', 'y')"
        assert not Selector.any_of([]).matches({})


class TestCorrelationFilter:
    def test_ranges_sets_and_single_ids(self) -> None:
        wanted = CorrelationFilter("[#7;#13], other")
        assert [id_ for id_ in ("#6", "#7", "#10", "#13", "#14", "other") if wanted.matches(id_)] == [
            "#7",
            "#10",
            "#13",
            "other",
        ]
        assert CorrelationFilter.decode(wanted.encode()) == pickle.loads(pickle.dumps(wanted)) == wanted

    def test_a_mistake_is_an_invalid_selector(self) -> None:
        with pytest.raises(InvalidSelectorError, match="']'"):
            CorrelationFilter("[#7;#13")
