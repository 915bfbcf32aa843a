"""A connection's options from a URL, keywords and the environment."""

import dataclasses
import ipaddress
import os
import re
from collections.abc import Mapping
from typing import Any, Literal, get_origin
from urllib.parse import parse_qsl, unquote, urlsplit

from shoal.config.checks import WHOLE, unknown_option
from shoal.config.connection import LOOKS, ConnectionConfig
from shoal.config.profile import Profile
from shoal.config.profile import load as load_profile
from shoal.errors import ConfigError

#: A host and a port without a scheme.
_PLACE = re.compile(r"[\w.-]+:\d+|\[[0-9a-fA-F:]+\]:\d+")
_FIELDS = {field.name: field for field in dataclasses.fields(ConnectionConfig)}


def parse_url(url: str | None, **keywords: Any) -> ConnectionConfig:
    """The configuration that a URL and keywords describe together; a keyword may not contradict the URL."""
    options = _options_of(url or "norm://")
    profile = _profile_of(options, keywords)
    for name, value in keywords.items():
        if name not in _FIELDS:
            raise unknown_option(name, _FIELDS)
        if name in options and options[name] != value:
            raise ConfigError(
                f"{name} is {options[name]!r} in the URL and {value!r} as an argument: give one"
            )
        options[name] = value
    if profile is None:
        return ConnectionConfig(**options)
    for name in profile.options:
        if name not in _FIELDS:
            raise ConfigError(f"profile {profile.name!r}: {unknown_option(name, _FIELDS)}")
    try:
        return ConnectionConfig(**{**profile.options, **options})
    except ConfigError as error:
        raise ConfigError(f"with profile {profile.name!r}: {error}") from None


def _profile_of(options: dict[str, Any], keywords: dict[str, Any]) -> Profile | None:
    """The profile that the URL or a keyword names, taken out of both."""
    named = {given.pop("profile") for given in (options, keywords) if "profile" in given}
    if len(named) > 1:
        raise ConfigError(f"profile is {' and '.join(map(repr, sorted(named)))}: give one")
    return load_profile(named.pop()) if named else None


def resolve(
    url: str | None, options: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> ConnectionConfig:
    """The configuration that `connect` was asked for.

    Without a URL `SHOAL_URL` in the environment takes its place; `SHOAL_DOMAIN` is the domain where neither
    the URL nor a keyword names one, and `SHOAL_SEEDS` the seeds where they can be used.
    """
    if url is not None and not isinstance(url, str):
        raise TypeError(
            f"url is {url!r}, and must be a str such as 'norm://', 'tcp://host:port' or 'inproc://name', "
            "or None"
        )
    options = dict(options)
    url = url or environment.get("SHOAL_URL")
    if not url:
        url = "norm://"
        if "scheme" not in options:
            options.setdefault("when_no_multicast", "tcp")
    domain = environment.get("SHOAL_DOMAIN")
    if domain and "domain" not in options and "domain" not in _options_of(url):
        options["domain"] = domain
    config = parse_url(url, **options)
    seeds = environment.get("SHOAL_SEEDS")
    if seeds and config.seeds is None and (config.has_links or config.when_no_multicast == "tcp"):
        config = dataclasses.replace(config, seeds=seeds)
    return config


def resolve_listening(
    url: str, options: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> ConnectionConfig:
    """The configuration that `listen` was asked for."""
    if urlsplit(url).scheme == "udp":
        options = {**options, "listen": True}
    config = resolve(url, options, environment)
    if not config.has_links and config.scheme != "udp":
        raise ConfigError(f"{url!r} cannot be listened at: use tcp://address:port")
    if config.required:
        raise ConfigError("required is for connect, which reaches another program: listen waits for others")
    return config


#: Options of `locate://` by their names in a URL.
_LOCATE_NAMES = {"ca": "registry_ca", "token_file": "registry_token_file"}


def _options_of(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    if not parts.scheme or "://" not in url:
        hint = f"did you mean 'tcp://{url}'?" if _PLACE.fullmatch(url) else f"it must look like {LOOKS}"
        raise ConfigError(f"{url!r} is not a URL: {hint}")
    options: dict[str, Any] = {"scheme": parts.scheme}
    if parts.scheme == "inproc":
        if parts.netloc:
            options["domain"] = parts.netloc
    elif parts.scheme == "locate":
        options["host"] = parts.netloc or None
        if parts.path not in ("", "/"):
            options["domain"] = unquote(parts.path[1:])
    elif parts.netloc:
        try:
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise ConfigError(f"{url!r}: {error}") from None
        if parts.scheme == "norm" or (parts.scheme == "udp" and _is_group(host)):
            options["group"] = host
        elif host is not None:
            options["host"] = host
        if port is not None:
            options["port"] = port
    if parts.path not in ("", "/") and parts.scheme != "locate":
        if parts.scheme in ("norm", "udp", "inproc", "tcp", "tls"):
            raise ConfigError(f"{url!r} has a path, {parts.path!r}, which means nothing here")
        options["path"] = unquote(parts.path)
    for name, text in parse_qsl(parts.query, keep_blank_values=True):
        name = _LOCATE_NAMES.get(name, name) if parts.scheme == "locate" else name
        if name in options:
            raise ConfigError(f"{name} appears twice in {url!r}: give it once")
        options[name] = _value_of(name, text)
    return options


def _is_group(host: str | None) -> bool:
    try:
        return host is None or ipaddress.ip_address(host).is_multicast
    except ValueError:
        return False


def _value_of(name: str, text: str) -> Any:
    field = _FIELDS.get(name)
    if name == "profile":
        return text
    if name == "key":
        raise ConfigError(
            "a key does not belong into a URL, which others see: use key_file, or key as an argument"
        )
    if field is None or name == "scheme":
        raise unknown_option(name, _FIELDS.keys() - {"scheme", "key"}, " in the URL")
    if field.type in (str, str | None) or get_origin(field.type) is Literal:
        return text
    if field.type is bool:
        if text not in ("true", "false"):
            raise ConfigError(f"{name} is {text!r} in the URL, and must be true or false")
        return text == "true"
    kind = int if field.type in WHOLE else float
    try:
        return kind(text)
    except ValueError:
        raise ConfigError(f"{name} is {text!r} in the URL, and must be a number") from None
