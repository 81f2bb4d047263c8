"""Fill in a table while its JSON is still written: on a terminal in place; elsewhere each step is a line.

It needs rich. The provider is `OPENAI_BASE_URL` with the key `OPENAI_API_KEY`, or one on this machine without them.
"""

import os
from contextlib import nullcontext
from typing import Any

import httpx
from _provider import base_url
from pydantic import BaseModel
from rich.live import Live
from rich.table import Table
from rich.text import Text

from chunkfold import connect

HEADERS = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY') or 'none'}"}
MODEL = os.environ.get("OPENAI_MODEL", "gpt-5-mini")


class City(BaseModel):
    """A row of the table."""

    name: str
    country: str
    millions: float


class Cities(BaseModel):
    """The whole answer."""

    cities: list[City]


def table_of(value: Cities | dict[str, Any]) -> Table:
    """The rows so far: a dict in which anything may be missing, until the JSON is complete."""
    known = value if isinstance(value, dict) else value.model_dump()
    table = Table(*City.model_fields)
    for row in known.get("cities", []):
        table.add_row(*(Text(str(row.get(name, ""))) for name in City.model_fields))
    return table


def main() -> None:
    """Ask, and show the answer as it grows."""
    request: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "Name three large cities."}]}
    schema = {"name": "cities", "schema": Cities.model_json_schema()}
    request["response_format"] = {"type": "json_schema", "json_schema": schema}
    with base_url("live_table") as base, httpx.Client(headers=HEADERS, timeout=120) as client:
        live = Live() if os.isatty(1) else None
        with connect(client, "POST", f"{base}/chat/completions", json=request) as stream, live or nullcontext():
            for value in stream.partials(Cities):
                live.update(table_of(value)) if live else print(value, flush=True)


if __name__ == "__main__":
    main()
