import pytest

from shoal.errors import ConfigError
from shoal.spark.offsets import Boundary, Position, parse_boundary


def test_a_position_survives_the_checkpoint():
    position = Position("f00d", 12)
    assert Position.from_dict(position.to_dict()) == position


def test_a_checkpoint_of_another_source_is_told():
    for found in ({"prices": {"0": 12}}, 7, [1], None):
        with pytest.raises(ConfigError, match=r"no offset of format shoal.*another checkpointLocation"):
            Position.from_dict(found)


@pytest.mark.parametrize(
    ("text", "boundary"),
    [
        ("earliest", Boundary(named="earliest")),
        (" Latest ", Boundary(named="latest")),
        ("12", Boundary(offset=12)),
        ('{"offset": 12}', Boundary(offset=12)),
        ('{"incarnation": "f00d", "offset": 12}', Boundary(offset=12, incarnation="f00d")),
    ],
)
def test_a_boundary_is_a_word_a_number_or_what_progress_shows(text, boundary):
    assert parse_boundary("startingOffsets", text) == boundary


@pytest.mark.parametrize("text", ["-1", "true", "1.5", '{"prices": 1}', "[1]", "soon"])
def test_anything_else_is_refused(text):
    with pytest.raises(ConfigError, match="option startingOffsets must be earliest, latest"):
        parse_boundary("startingOffsets", text)
