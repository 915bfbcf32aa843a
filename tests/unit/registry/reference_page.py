"""Writes the reference of the registry's HTTP interface from its OpenAPI description.

python tests/unit/registry/reference_page.py
"""
# ruff: noqa: E501

import asyncio
from pathlib import Path
from typing import Any

from shoal.registry.app import make_app
from shoal.registry.desk import Desk
from shoal.registry.directory import Directory

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "registry.md"

_HEAD = """# The registry's HTTP interface

A registry answers these requests. `/docs` on a running registry shows them for trying out, and `/openapi.json` has them for machines; this page is made from it. Beyond loopback every request carries
`Authorization: Bearer TOKEN`; [Let daemons find each other](../how-to/registry.md) has the roles. An answer that refuses has one field, `detail`: what was wrong, and what would be right.
"""

_EVENTS = """
## Events

`GET /v1/domains/{domain}/events` is a stream of server-sent events. It begins with `state`.

| event | data |
|---|---|
| `state` | the list, as `GET …/daemons` answers it; now, and after each change. `id` is its stamp |
| `load` | for each publisher its `load` and `links`; every 5 s if something changed |

## The datagram

The registry advertises the stamp of a domain's list to each daemon, every 2 s and after a change. A daemon whose list has another stamp asks for it. Numbers are big-endian.

| bytes | |
|---|---|
| 4 | `SHRG` |
| 1 | version, 1 |
| 3 | zero |
| 8 | domain: the first bytes of its SHA-256 |
| 8 | registry: drawn when it starts |
| 8 | stamp |
| 8 | echo: the daemon repeats it when it registers |
| 8 | the first bytes of HMAC-SHA-256 over all before, with `key` of the registration |

## The proof of an address

With `secret` a daemon proves that it listens where it says. The registry connects to the address and says hello, as in [TCP links](../design/tcp.md#on-the-wire), with a node id that it draws and the publisher
HMAC-SHA-256(`secret`, `question` + node)[0:8]. The daemon refuses that guest, and the reason is HMAC-SHA-256(`secret`, `answer` + node) in hex. The node id has four bytes.

Next: [Let daemons find each other](../how-to/registry.md) · [Registry and roaming](../design/registry.md)
"""


def described() -> dict[str, Any]:
    """The OpenAPI description."""

    async def make() -> dict[str, Any]:
        return make_app(Desk(Directory(0.0, wall=lambda: 0.0))).openapi()

    return asyncio.run(make())


def page() -> str:
    """The page."""
    api = described()
    parts = [_HEAD]
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            parts.append(f"\n## `{method.upper()} {path}`\n\n{operation['description']}\n")
            parts.append(_parameters(operation))
            parts.append(_answers(operation))
    parts.append("\n## Bodies\n")
    for name, schema in api["components"]["schemas"].items():
        if name.endswith("Body"):
            parts.append(_body(name, schema))
    return "".join(parts) + _EVENTS


def _parameters(operation: dict[str, Any]) -> str:
    rows = [
        f"| `{each['name']}` | {each['in']} | {_type(each['schema'])} | {each.get('description', '')} |\n"
        for each in operation.get("parameters", ())
    ]
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    if content:
        rows.append(f"| | body | {_type(content['schema'])} | |\n")
    return "\n| parameter | in | type | |\n|---|---|---|---|\n" + "".join(rows) if rows else ""


def _answers(operation: dict[str, Any]) -> str:
    rows = []
    for status, answer in sorted(operation["responses"].items()):
        schema = answer.get("content", {}).get("application/json", {}).get("schema")
        what = _type(schema) if schema and status == "200" else ""
        why = "The request is malformed." if status == "422" else answer["description"]
        rows.append(f"| {status} | {what or why} |\n")
    return "\n| status | answer |\n|---|---|\n" + "".join(rows)


def _body(name: str, schema: dict[str, Any]) -> str:
    required = schema.get("required", ())
    rows = [
        f"| `{field}` | {_type(each)} | {'' if field in required else _default(each)} | {each.get('description', '')} |\n"
        for field, each in schema.get("properties", {}).items()
    ]
    head = f"\n### {name.removesuffix('Body')}\n\n{schema['description']}\n"
    return head + "\n| field | type | default | |\n|---|---|---|---|\n" + "".join(rows)


def _default(schema: dict[str, Any]) -> str:
    return f"`{schema['default']!r}`" if schema.get("default") not in (None, "") else "none"


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2].removesuffix("Body")
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    kind = str(schema.get("type", "anything"))
    if kind == "array":
        return f"list of {_type(schema['items'])}{_bounds(schema, 'minItems', 'maxItems')}"
    bounds = _bounds(schema, "minimum", "maximum") + _bounds(schema, "minLength", "maxLength")
    return {"object": "object", "null": "nothing"}.get(kind, kind) + bounds


def _bounds(schema: dict[str, Any], least: str, most: str) -> str:
    low, high = schema.get(least), schema.get(most)
    if low is None and high is None:
        return ""
    return f" ({'' if low is None else low}…{'' if high is None else high})"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
