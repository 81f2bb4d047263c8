"""Consoles, and lines for people on them: coloured and wrapped on a terminal, unchanged elsewhere."""

import sys
from typing import Any, Final, TextIO

import click
from rich.console import Console
from rich.text import Text
from rich.theme import Theme

THEME: Final = Theme({"markdown.code": "bold cyan", "markdown.code_block": "none", "markdown.table.header": "bold"})


def console_on(file: TextIO) -> Console:
    """A console that treats only a terminal as a terminal, whatever FORCE_COLOR says."""
    return Console(file=file, force_terminal=None if file.isatty() else False, highlight=False, theme=THEME)


def standard_output() -> Console:
    """A console on standard output, which escapes what its encoding cannot write."""
    stdout: Any = sys.stdout
    if hasattr(stdout, "reconfigure"):
        stdout.reconfigure(errors="backslashreplace")
    return console_on(stdout)


def say(text: str, style: str = "", *, err: bool = True) -> None:
    """Print a line for people: wrapped between words on a terminal, unchanged elsewhere."""
    console = console_on(sys.stderr if err else sys.stdout)
    if is_live(console):
        console.print(Text(text, style))
    else:
        click.echo(text, err=err)


def print_row(console: Console, row: Text) -> None:
    """Print a row, cropped to the terminal; elsewhere unchanged, without rich, which may write it twice at a Ctrl-C."""
    row.rstrip()
    if console.is_interactive:
        console.print(row, no_wrap=True, overflow="crop")
    else:
        click.echo(row.plain, file=console.file)


def print_beside(console: Console, head: Text, told: Text, least: int = 1) -> None:
    """Print a text beside a head, wrapped on a terminal; below the head if fewer than `least` columns are left."""
    if not console.is_interactive:
        print_row(console, head + told)
        return
    is_beside = console.width - len(head) >= least
    indent = " " * (len(head) if is_beside else 2)
    if not is_beside and head.plain.strip():
        print_row(console, head)
    for number, row in enumerate(told.wrap(console, max(1, console.width - len(indent)))):
        print_row(console, Text.assemble(head if is_beside and not number else indent, row))


def is_live(console: Console) -> bool:
    """Whether the console is a terminal that can redraw rows."""
    return console.is_interactive and not console.legacy_windows
