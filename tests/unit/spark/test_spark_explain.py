"""Spark's long errors, in one sentence."""

import os

import pytest

from shoal.errors import ConfigError, ShoalError, StoreUnavailableError
from shoal.spark.explain import plain, plainly, sentence, speaks_plainly

TRACE = """[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source instance: Traceback (most recent call last):
  File "worker.py", line 1, in main
ValueError: something before
  File "options.py", line 2, in read
shoal.errors.ConfigError: format shoal has no option colour

JVM stacktrace: …"""  # noqa: E501


@pytest.mark.parametrize(
    ("text", "told", "kind"),
    [
        (TRACE, "format shoal has no option colour", ConfigError),
        ("Failed: shoal.errors.ConfigError: option a must be b", "option a must be b", ConfigError),
        ("PythonException: shoal.errors.StoreUnavailableError: nobody answered\n at java", "nobody answered",
         ShoalError),
        ("Traceback\nKeyError: 'n'", "KeyError: 'n'", ShoalError),
        ("just this\nand more", "just this", ShoalError),
    ],
)  # fmt: skip
def test_the_last_error_of_ours_is_told_and_whether_the_user_was_wrong(
    text: str, told: str, kind: type[ShoalError]
) -> None:
    assert sentence(RuntimeError(text)) == told
    assert type(plain(RuntimeError(text))) is kind
    assert str(plain(RuntimeError(text))) == told


@speaks_plainly
class Source:
    """What Spark calls in one of its workers."""

    def read(self, error: Exception) -> None:
        """Fail."""
        raise error


def test_a_worker_sends_our_errors_without_a_trace_and_others_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
    with pytest.raises(ConfigError):
        Source().read(ConfigError("not in a worker"))
    assert "SPARK_HIDE_TRACEBACK" not in os.environ
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_PORT", "1")
    with pytest.raises(KeyError):
        Source().read(KeyError("a mistake"))
    assert "SPARK_HIDE_TRACEBACK" not in os.environ
    with pytest.raises(StoreUnavailableError), plainly():
        raise StoreUnavailableError("nobody answered")
    assert os.environ["SPARK_HIDE_TRACEBACK"] == "1"
